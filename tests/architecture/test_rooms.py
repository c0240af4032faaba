"""Allowed imports: the table of design.md, enforced.

An import counts wherever it stands: at the top, under TYPE_CHECKING, inside a function.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path

import pytest

from architecture.source_tree import (
    PACKAGE,
    ROOT,
    Import,
    all_imports,
    import_graph,
    imports_of,
    module_name,
    room_of,
    rooms,
    sources,
    tree,
)

# Foundations, which every package may import. The model needs Java's hash order.
BASE = {"errors", "kernels", "java", "model"}
DECIDING = {"keys", "groups", "streams", "replicas"}
# Old releases and drafts: they import the main line, and no room imports them.
LEGACY = {"legacy"}
# The public verbs: the only package in which strategies, the judge and the solver meet.
MEETING = {"api"}
# The contract of the published tables, which history writes and the report reads.
TABLES = {"tables"}
PURE = {
    *BASE,
    *DECIDING,
    *MEETING,
    *TABLES,
    "solve",
    "judge",
    "wire",
    "history",
    "simulation",
    "forecasts",
    "weights",
}
EVERYTHING = {
    *PURE,
    "capture",
    "clients",
    "commands",
    "jobs",
    "report",
    "results",
    "runs",
    "sample",
    "testing",
    "watch",
    "cli",
    "partage",
}

# room: the rooms it may import, itself always among them.
MAY_IMPORT = {
    "errors": set(),
    "java": {"errors"},
    "kernels": {"errors"},
    "model": {"errors", "kernels", "java"},
    "solve": BASE,
    # The judge knows no contestant, and verifies what `solve` claims without importing it.
    "judge": BASE - {"java"},
    **{room: {*BASE, "solve", "wire"} for room in DECIDING},
    "wire": {"errors", "kernels", "java"},
    "legacy": {*BASE, "groups", "streams", "wire"},
    "history": PURE - MEETING,
    "simulation": PURE,
    "weights": PURE - MEETING,
    # Strategies run, the judge measures, the past of a group is the record of its history.
    "forecasts": PURE - MEETING,
    **dict.fromkeys(MEETING, PURE),
    "capture": PURE,
    "clients": PURE,
    # The front door: a run writes the version into its manifest.
    "jobs": {*PURE, "sample", "capture", "partage", "runs"},
    # Plain data in: no Spark, no strategies.
    "report": {"errors", "runs", "tables"},
    # Replays in Python: a job's run, with the report's figures as typed rows.
    "results": {*BASE, "tables", "runs", "report", "jobs", "simulation", "groups", "forecasts"},
    # One function for each command, for programs: calls what the command calls.
    "commands": {*PURE, "capture", "jobs", "report", "results", "runs", "watch"},
    # The manifest of a run: jobs write it, readers start here.
    "runs": {"errors", "tables"},
    "tables": set(),
    "sample": {"errors"},
    "testing": PURE,
    "watch": {*PURE, "capture"},
    "cli": EVERYTHING,
    "__main__": {"cli"},
    "partage": EVERYTHING - {"cli", "jobs", "report"},
}

# room: libraries besides the standard one and NumPy.
LIBRARIES = {
    "kernels": {"numba", "llvmlite"},
    # Columns of keys come as Arrow's, and go back as such.
    "keys": {"pyarrow"},
    # The integer programme of small reassignments.
    "solve": {"highspy"},
    "capture": {"pyarrow", "kafka", "google_crc32c", "aws_msk_iam_sasl_signer"},
    "clients": {"kafka", "aiokafka", "faust", "mode"},
    # IPython: progress of a replay in a notebook.
    # deltalake, pyiceberg: tables that Spark does not write.
    "jobs": {
        "pyspark",
        "py4j",
        "pyarrow",
        "pandas",
        "rich",
        "loky",
        "IPython",
        "deltalake",
        "pyiceberg",
    },
    "runs": {"pyarrow"},
    # Schemas and sums are made of Arrow's types.
    "tables": {"pyarrow"},
    "report": {"jinja2", "markupsafe", "rich", "pyarrow"},
    "results": {"pyarrow", "pandas", "polars", "pyspark"},
    "commands": {"pyarrow", "pyspark"},
    "testing": {"hypothesis", "pyarrow"},
    "watch": {"prometheus_client"},
    "cli": {"typer", "click", "rich", "pyarrow"},
}

# Libraries that take long to load. Even their own room asks for them when it needs them.
SLOW = {"numba", "jinja2", "rich", "highspy"}
# ... except where nothing runs without them.
AT_HOME = {("cli", "rich"), ("cli", "typer")}

# What would make an answer depend on the machine, the hour or chance.
IMPURE_MODULES = {
    "asyncio", "concurrent", "datetime", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib", "platform",
    "random", "secrets", "select", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "hash", "exec", "eval"}
# The one door by which a problem file comes in (Cluster.from_json takes a path).
READS_FILES = PACKAGE / "model" / "validation.py"
# A kernel may be compiled in the background: that changes how long an answer takes, never the answer.
BY_DESIGN = {
    ("kernels", "threading"),
    # Numba's cache of compiled kernels is files. Executors need copies of zipped modules for it.
    ("kernels", "os"),
    ("kernels", "pathlib"),
    ("kernels", "tempfile"),
}


def test_every_room_is_in_the_table() -> None:
    """A new package states first which packages it may import."""
    assert set(rooms()) <= set(MAY_IMPORT)


def test_rooms_import_only_whom_the_table_allows() -> None:
    """No import of ours crosses the table."""
    wrong = [
        str(one)
        for one in all_imports()
        if one.library == "partage"
        and (target := room_of(one.module)) != one.room
        and target not in MAY_IMPORT.get(one.room, EVERYTHING)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other() -> None:
    """No module imports itself through others, inside functions included; types aside."""
    imported = import_graph()
    # The front door imports everything on demand, and a command needs it for the version.
    del imported["partage"]
    # Modules that import nothing (among the rest) are in no cycle, nor what is left then.
    while leaves := {name for name, used in imported.items() if not used & imported.keys()}:
        for name in leaves:
            del imported[name]
    # What nothing remaining imports is in no cycle either.
    while roots := imported.keys() - set().union(*imported.values()):
        for name in roots:
            del imported[name]
    assert not imported, "\n".join(
        f"{k}: {sorted(v & imported.keys())}" for k, v in imported.items()
    )


def test_only_registries_name_legacy_modules() -> None:
    """Legacy imports the main line, never the reverse: two registries have its modules as strings."""
    assert not [
        str(one)
        for one in all_imports()
        if room_of(one.module) in LEGACY and one.room not in LEGACY
    ]
    naming = {
        module_name(file)
        for file in sources()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Constant) and str(node.value).startswith("partage.legacy.")
    }
    assert naming == {"partage.groups.registry", "partage.streams.registry"}


def test_rooms_use_only_their_own_libraries() -> None:
    """Each library has its room: pyspark in jobs, jinja2 in the report, and so on."""
    wrong = [
        str(one)
        for one in all_imports()
        if one.library not in {"partage", "numpy", "__future__", "typing_extensions"}
        and one.library not in sys.stdlib_module_names
        and one.library not in LIBRARIES.get(one.room, set())
    ]
    assert not wrong, "\n".join(wrong)


def test_slow_libraries_are_imported_where_they_are_used() -> None:
    """numba, jinja2 and rich are imported inside functions, so that a help text does not wait."""
    wrong = [
        str(one)
        for one in all_imports()
        if one.on_load and one.library in SLOW and (one.room, one.library) not in AT_HOME
    ]
    assert not wrong, "\n".join(wrong)


def test_client_modules_use_one_client_library_each() -> None:
    """A live plug-in needs its own client only."""
    for file in sources():
        if file.parent.name in {"clients", "capture"}:
            used = {one.library for one in imports_of(file)} & {"kafka", "aiokafka", "faust"}
            assert len(used) <= 1, f"{file} imports {used}"


def test_the_core_of_the_plug_ins_is_pure() -> None:
    """clients/shared goes from bytes to bytes: no client, no clock, no thread, no log."""
    files = [one for one in sources() if one.parent == PACKAGE / "clients" / "shared"]
    assert files
    wrong = [
        str(one)
        for file in files
        for one in imports_of(file)
        if one.library in IMPURE_MODULES | LIBRARIES["clients"]
    ]
    for file in files:
        wrong += _impure_names(file)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", sorted((PURE | LEGACY) & set(rooms())))
def test_pure_rooms_have_no_clock_no_chance_no_files(room: str) -> None:
    """Same input, same plan, on any machine, at any hour, under any hash seed."""
    files = [one for one in sources() if room_of(module_name(one)) == room and one != READS_FILES]
    wrong = [
        str(one)
        for file in files
        for one in imports_of(file)
        if (one.library in IMPURE_MODULES or one.module.startswith("numpy.random"))
        and not _is_only_a_type(one)
        and (room, one.library) not in BY_DESIGN
    ]
    for file in files:
        wrong += _impure_names(file)
    assert not wrong, "\n".join(wrong)


def _is_only_a_type(one: Import) -> bool:
    line = one.file.read_text(encoding="utf-8").splitlines()[one.line - 1].strip()
    return line == "from os import PathLike"


def _impure_names(file: Path) -> list[str]:
    # A value's own __hash__ may call hash(): that chooses a bucket, never an order of ours.
    hashing = {
        id(inner)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__"
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree(file)):
        if id(node) in hashing:
            continue
        name = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id if node.func.id in IMPURE_CALLS else ""
        elif isinstance(node, ast.Attribute) and node.attr == "random":
            dotted = ast.unparse(node)
            name = dotted if dotted in {"np.random", "numpy.random"} else ""
        if name:
            found.append(f"{file.relative_to(ROOT)}:{node.lineno} uses {name}")
    return found


def test_the_walk_sees_every_kind_of_import(tmp_path, monkeypatch) -> None:
    """The rules above are blind to nothing: top, TYPE_CHECKING, function, relative, by name."""
    package = tmp_path / "src" / "partage"
    (package / "judge").mkdir(parents=True)
    (package / "solve.py").touch()
    file = package / "judge" / "rules.py"
    file.write_text(
        textwrap.dedent("""
        import typing
        import numba.core
        from ..solve import flow
        if typing.TYPE_CHECKING:
            from partage import solve
        else:
            import json
        def f():
            import jinja2
            import_module("pyspark.sql")
        """)
    )
    monkeypatch.setattr("architecture.source_tree.PACKAGE", package)
    seen = [(one.module, one.on_load) for one in imports_of(file)]
    assert seen == [
        ("typing", True),
        ("numba.core", True),
        ("partage.solve", True),
        ("partage.solve", False),
        ("json", True),
        ("jinja2", False),
        ("pyspark.sql", False),
    ]
