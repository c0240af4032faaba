"""The simulator's error: policy `own` of recordings with the log of their clients.

`tests/simulation/test_capture.py` has the figures of the sample.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tests.support.own_accuracy import compare_own, total
from tests.support.recordings import recording

#: Recording -> limits a little above the measured differences (docs/policy_model.md): rebalances and
#: follow-ups, and the relative errors of moves and stopped time.
_LIMITS = {
    "seed-11": (0, 0, 0.02, 0.02),
    "seed-12": (0, 0, 0.02, 0.03),
    "seed-13": (0, 0, 0.04, 0.05),
    "seed-421": (0, 0, 0.01, 0.04),
}


@pytest.mark.parametrize("name", _LIMITS)
def test_own_reproduces_the_record(name: str) -> None:
    """The simulated present settings have the record's rebalances, moves and stopped time."""
    found = total(compare_own(recording(name)))
    rebalances, follow_ups, moves, stopped = _LIMITS[name]
    recorded, own = found.recorded, found.own
    assert abs(own.rebalances - recorded.rebalances) <= rebalances, str(found)
    assert abs(own.follow_ups - recorded.follow_ups) <= follow_ups, str(found)
    assert own.moved == pytest.approx(recorded.moved, rel=moves), str(found)
    assert own.best == pytest.approx(recorded.best, rel=stopped), str(found)
