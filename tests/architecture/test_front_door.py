"""`import partage`: what it offers, and how little it costs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import partage
from partage import errors

ROOT = Path(__file__).resolve().parents[2]

HEAVY = ["numba", "pyarrow", "pyspark", "jinja2", "pandas", "rich", "typer", "pydantic"]
# Public names that design.md promises; others call them.
PROMISED = {"Assignment", "Broker", "Cluster", "Group", "Index", "Member", "PartageError", "Plan"}
PROMISED |= {"assign", "check", "compare", "measure", "strategies"}
LIMIT_MS = 150.0


def _fresh(script: str, *arguments: str) -> Any:
    """Return what the script prints as JSON, in an interpreter that has imported nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
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
    """`import partage` takes under 150 ms of CPU beyond NumPy's own import (best of five)."""
    script = """
        import json, time
        import numpy
        start = time.process_time()
        import partage
        print(json.dumps({"ms": (time.process_time() - start) * 1000}))
    """
    best = min(_fresh(script)["ms"] for _ in range(5))
    print(f"import partage: {best:.1f} ms beyond numpy")
    assert best < LIMIT_MS


def _documented_names() -> set[str]:
    """Return the dotted names behind ``pg.`` in the documentation, examples and docstrings."""
    files = [ROOT / "README.md", ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md"]
    files += (ROOT / "docs").rglob("*.md")
    files += [*(ROOT / "examples").rglob("*.py"), *(ROOT / "src").rglob("*.py")]
    used = re.compile(r"(?<![\w.])pg\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
    texts = [file.read_text(encoding="utf-8") for file in files]
    # Only texts that name the module: elsewhere `pg` may be a variable.
    return {n for t in texts if "partage as pg" in t or "`pg." in t for n in used.findall(t)}


def _typed_names() -> set[str]:
    """Return the names that type checkers see in `partage`: the imports under TYPE_CHECKING."""
    tree = ast.parse((ROOT / "src/partage/__init__.py").read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If))
    names = {
        a.asname or a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    return (names - {"*"}) | set(errors.__all__)


def test_every_documented_and_typed_name_exists_in_a_fresh_interpreter() -> None:
    """Each `pg.` name of the docs and of the type stub can be used as the first name of all."""
    documented, typed = _documented_names(), _typed_names()
    assert {"keys.start", "assign", "Plan.of"} <= documented
    assert {"InvalidTopologyError", "AssignorFailedError", "play"} <= typed
    lacks = """
        import json, os, sys
        import partage

        def lacks(name):
            value = partage
            try:
                for part in name.split("."):
                    value = getattr(value, part)
            except AttributeError as e:
                return f"{name}: {e}"
            return None

        def lacks_first(name):
            child = os.fork()
            if not child:
                os._exit(lacks(name) is not None)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        together, apart = json.loads(sys.argv[1])
        missing = [name for name in apart if lacks_first(name)]
        missing += filter(None, map(lacks, together))
        print(json.dumps(missing))
    """
    # An import of another name also binds the packages on its way (`partage.keys`): each dotted
    # name is the first one of a process, a fork of an interpreter that has imported `partage`.
    dotted = {name for name in documented if "." in name}
    together = (documented | typed) - dotted
    missing = _fresh(lacks, json.dumps([sorted(together), sorted(dotted)]))
    assert not missing


def test_every_typed_name_is_listed() -> None:
    """What type checkers see and what `__all__` lists are the same names."""
    assert _typed_names() == set(partage.__all__) - {"__version__"}
