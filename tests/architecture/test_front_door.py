"""`import partage`: what it offers, and how little it costs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import partage

HEAVY = ["numba", "pyarrow", "pyspark", "jinja2", "pandas", "rich", "typer", "pydantic"]
# Public names that design.md promises; others call them.
PROMISED = {"Assignment", "Broker", "Cluster", "Group", "Index", "Member", "PartageError", "Plan"}
PROMISED |= {"assign", "check", "compare", "measure", "strategies"}
LIMIT_MS = 150.0


def _fresh(script: str) -> dict:
    """What the script prints as JSON, in an interpreter that has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_is_explicit_and_every_name_is_there() -> None:
    """`__all__` lists each public name once, promised ones included, and each can be had."""
    assert len(partage.__all__) == len(set(partage.__all__))
    assert set(partage.__all__) >= PROMISED
    missing = [name for name in partage.__all__ if not hasattr(partage, name)]
    assert not missing


def test_dir_shows_the_public_names_and_no_other_exists() -> None:
    """dir() is `__all__`, and a wrong name is an AttributeError that says so."""
    assert set(dir(partage)) == set(partage.__all__)
    assert not hasattr(partage, "no_such_name")


def test_import_loads_nothing_heavy() -> None:
    """A fresh `import partage` loads none of the heavy libraries, nor any of our rooms."""
    loaded = _fresh("""
        import json, sys
        before = set(sys.modules)
        import partage
        print(json.dumps({"new": sorted(set(sys.modules) - before)}))
    """)["new"]
    assert "partage" in loaded
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_a_small_answer_loads_nothing_heavy() -> None:
    """Assigning and judging a small group needs NumPy only."""
    loaded = _fresh("""
        import json, sys
        before = set(sys.modules)
        import partage as pg
        cluster = pg.Cluster.from_topics({"orders": 3})
        group = pg.Group([pg.Member("c1", topics=["orders"]), pg.Member("c2", topics=["orders"])])
        plan = pg.assign("range", group, cluster)
        assert pg.check(plan, group, cluster) == []
        print(json.dumps({"new": sorted(set(sys.modules) - before)}))
    """)["new"]
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_import_costs_little_beyond_numpy() -> None:
    """`import partage` takes under 150 ms beyond NumPy's own import (best of five)."""
    script = """
        import json, time
        import numpy
        start = time.perf_counter()
        import partage
        print(json.dumps({"ms": (time.perf_counter() - start) * 1000}))
    """
    best = min(_fresh(script)["ms"] for _ in range(5))
    print(f"import partage: {best:.1f} ms beyond numpy")
    assert best < LIMIT_MS
