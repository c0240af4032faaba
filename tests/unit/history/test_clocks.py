"""Times of a wrong clock, told by their neighbours; long waits and small differences are none."""

from __future__ import annotations

import numpy as np
import pytest

from partage.pipeline.clocks import believable

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize(("times", "wanted", "wrong"), [
    ([0, 1, 2], [0, 1, 2], 0),
    ([0, 30 * HOUR, 2], [0, 0, 2], 1),  # ahead
    ([8, 9, -9 * DAY, 10], [8, 9, 9, 10], 1),  # behind
    ([30 * DAY, 1, 2, 3], [1, 1, 2, 3], 1),  # the first one: there is none before
    ([0, 1, 200 * DAY, 200 * DAY + 1], [0, 1, 200 * DAY, 200 * DAY + 1], 0),  # a long wait
    ([5, 4, HOUR, 10], [5, 4, HOUR, 10], 0),  # clocks that differ by less
    ([0, 9 * DAY, 9 * DAY + 1, 3, 4, 5], [0, 0, 0, 3, 4, 5], 2),  # the fewer are wrong
])  # fmt: skip
def test_who_is_believed(times, wanted, wrong) -> None:
    """What fits most records is believed; the others have the time of the one before."""
    found, count = believable(np.array(times, np.int64))
    assert (found.tolist(), count) == (wanted, wrong)
