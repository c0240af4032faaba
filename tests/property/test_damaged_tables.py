"""Commands that read a run's tables, on tables with damaged columns."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.support.synthetic_runs import published_run, synthetic
from typer.testing import CliRunner

from partage.cli.app import app
from partage.tables.schemas import COLUMNS

_GROUP = "team-00.service-0000"
#: Tables with rows in a synthetic run.
_READ = ("groups", "rebalances", "replays", "members", "ownership", "unread")
_COMMANDS = {
    "check": ["--max-unread", "50%", "--max-rebalances", "9/h", "--no-storms"],
    "diff": [],
    "owner": ["--at", "1795208750000"],
    "size": ["--group", _GROUP],
    "forecast": ["--group", _GROUP, "--rolling-restart"],
    "migrate": ["--group", _GROUP],
    "report": ["--json"],
}
#: A result, an error, a limit that is exceeded, and too little for a decision.
_EXIT_CODES = {0, 1, 3, 5}
_DAMAGES = ("missing", "nulls", "one null", "text", "negative", "huge", "nan", "struct")
#: One example is a command on a table: a tenth of a second and more of CPU time.
_EXAMPLES = 600 if os.environ.get("PARTAGE_SOAK") else 15


def damaged(column: pa.Array, damage: str) -> pa.Array | None:
    """The column with other values; None without the column."""
    count, kind = len(column), column.type
    if damage == "missing":
        return None
    if damage == "nulls":
        return pa.nulls(count, kind)
    if damage == "one null":
        return pa.array([None, *column.to_pylist()[1:]], kind)
    if damage == "struct":
        return pa.array([{"a": 1}] * count)
    if damage == "text":
        return pa.array([b"\xff"] * count) if pa.types.is_string(kind) else pa.array(["x"] * count)
    if damage == "nan":
        return pa.array([float("nan")] * count)
    if pa.types.is_floating(kind):
        return pa.array([-1.0 if damage == "negative" else 1e308] * count, kind)
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1
        return pa.array([-most - 1 if damage == "negative" else most] * count, kind)
    return pa.array(range(count))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two groups."""
    rows = synthetic(2, rebalances=5, partitions=4, members=2)
    return published_run(tmp_path_factory.mktemp("runs") / "good", rows)


@pytest.fixture(scope="module")
def copy(folder: Path) -> Path:
    """The place of its damaged copies."""
    return folder.parent / "bad"


@given(
    st.sampled_from([(t, name) for t in _READ for name, _, _ in COLUMNS[t]]),
    st.sampled_from(_DAMAGES),
    st.sampled_from([*_COMMANDS]),
)
@settings(max_examples=_EXAMPLES, deadline=None)
def test_a_damaged_column_gives_a_result_or_one_line(
    folder: Path, copy: Path, place: tuple[str, str], damage: str, command: str
) -> None:
    """Other types, missing columns, nulls, NaN, negative and huge numbers: never a traceback."""
    table, column = place
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    (file,) = json.loads((folder / "manifest.json").read_text())["tables"][table]
    rows = parquet.read_table(folder / file["path"], partitioning=None)
    at = rows.column_names.index(column)
    made = damaged(rows[column].combine_chunks(), damage)
    rows = rows.remove_column(at)
    if made is not None:
        rows = rows.add_column(at, column, made)
    parquet.write_table(rows, copy / file["path"])
    before = [str(folder)] if command == "diff" else []
    done = CliRunner().invoke(app, [command, *before, str(copy), *_COMMANDS[command]])
    assert done.exit_code in _EXIT_CODES, done.output
    assert "mistake in Partage" not in done.output
    if done.exit_code == 1:
        assert done.stderr.startswith("partage: ")
        assert done.stderr.count("\n") == 1
