"""Engines of a replay: which one is taken, and the engine that needs no Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.support.captures import capture, records, rows_of

from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.jobs.replay import output
from partage.jobs.replay.engines import LOCAL_RECORDS, LocalEngine, LocalRows, choose_engine
from partage.jobs.replay.records import RepeatedOffsets
from partage.jobs.replay.replay import replay
from partage.jobs.spark.tables import SparkTable
from partage.runs.published_run import PublishedRun
from partage.tables.schemas import TABLES


def _capture(count: int | None, table: SparkTable | None = None) -> SimpleNamespace:
    return SimpleNamespace(records=count, table=table, decoded=None)


SMALL, LARGE = _capture(LOCAL_RECORDS), _capture(LOCAL_RECORDS + 1)
DELTA = _capture(None, SparkTable("lake/offsets", "delta"))


def test_auto_takes_one_process_for_small_captures() -> None:
    """Above the limit, or with anything of Spark's, it takes Spark and gives the reason."""
    assert choose_engine("auto", SMALL).name == "local"
    above = choose_engine("auto", LARGE)
    assert above.name == "spark"
    assert "2,000,001 records are more than 2,000,000" in above.note
    for given in ({"spark": object()}, {"master": "local[2]"}, {"conf": {"spark.x": "1"}}):
        assert choose_engine("auto", SMALL, **given).name == "spark"
    assert choose_engine("auto", DELTA).reason == "only Spark reads lake/offsets"


def test_a_large_capture_in_one_process_is_advised_against() -> None:
    """Engine local takes it, and the note names Spark."""
    assert choose_engine("local", SMALL).note == ""
    assert "Spark is advisable" in choose_engine("local", LARGE).note


@pytest.mark.parametrize(
    ("asked", "source", "given"),
    [("yarn", SMALL, {}), ("local", DELTA, {}), ("local", SMALL, {"master": "local[2]"})],
)
def test_an_engine_that_cannot_be_had_is_an_error(asked: str, source: object, given: dict) -> None:
    """An unknown name, a table that only Spark reads, a master of Spark."""
    with pytest.raises(InvalidConfigError, match="--engine"):
        choose_engine(asked, source, **given)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark and Py4J cannot be imported, as in an installation without the extra."""
    for name in ("pyspark", "py4j"):
        monkeypatch.setitem(sys.modules, name, None)


def test_one_process_needs_no_spark(tmp_path: Path, without_spark: None) -> None:
    """A small capture is replayed without PySpark, and a rerun gives equal tables."""
    folder = capture(tmp_path / "c", records().slice(0, 3_000))
    steps: list[tuple[str, int, int]] = []
    for name in ("a", "b"):
        replay(
            folder, tmp_path / name, engine="auto", policies=["range"],
            progress=lambda *step: steps.append(step),
        )  # fmt: skip
    summary = PublishedRun(tmp_path / "a").summary
    assert summary["engine"]["name"] == "local"
    assert summary["accounting"]["records"] == 3_000
    for name in TABLES:
        if name != "runs":
            assert rows_of(tmp_path / "a", name) == rows_of(tmp_path / "b", name), name
    assert not (tmp_path / "a" / "running").exists()
    assert {stage for stage, _, _ in steps} >= {"check", "decode", "histories", "replay"}
    assert "start Spark" not in {stage for stage, _, _ in steps}


def test_records_out_of_order_are_sorted_in_one_process(
    tmp_path: Path, without_spark: None
) -> None:
    """Files in any order give the tables of files in log order."""
    table = records().slice(0, 3_000)
    sides = {"ordered": table, "shuffled": pa.concat_tables([table[1::2], table[::2]])}
    for name, rows in sides.items():
        folder = capture(tmp_path / name, rows, row_group_size=500)
        replay(folder, tmp_path / f"{name}-out", engine="local", policies=["range"])
    for name in TABLES:
        if name != "runs":
            found = rows_of(tmp_path / "shuffled-out", name)
            assert found == rows_of(tmp_path / "ordered-out", name), name


def test_records_that_are_there_twice_are_an_error_in_one_process(
    tmp_path: Path, without_spark: None
) -> None:
    """The error names the first place and says whether its records differ."""
    table = records().slice(0, 600)
    folder = capture(tmp_path / "c", pa.concat_tables([table, table.slice(0, 200)]))
    with pytest.raises(InvalidCaptureError, match=r"200 places .* was a capture given twice"):
        replay(folder, tmp_path / "out", engine="local")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_output_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_spark: None
) -> None:
    """A full disk is one sentence with the folder, and nothing is published."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output.TableWriters, "create_file", full)
    folder = capture(tmp_path / "c", records().slice(0, 500))
    with pytest.raises(InvalidConfigError, match=r"setting out: cannot be written \(No space"):
        replay(folder, tmp_path / "out", engine="local")
    assert not (tmp_path / "out" / "manifest.json").exists()


def _places(*offsets: int, values: dict[int, bytes] | None = None) -> pa.Table:
    """Rows of log partition 3; ``values`` are those of some rows."""
    cells = [(values or {}).get(row, b"v") for row in range(len(offsets))]
    return pa.table({
        "partition": pa.array([3] * len(offsets), pa.int64()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp_ms": pa.array([0] * len(offsets), pa.int64()),
        "key": pa.array([b"k"] * len(offsets)), "value": pa.array(cells),
    })  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_repeated_places_are_found_across_tables(size: int) -> None:
    """The count of places and the first one do not depend on where a table ends."""
    table = _places(1, 2, 2, 2, 5, 7, 7, 9, values={6: b"other"})
    tables = [table.slice(at, size) for at in range(0, table.num_rows, size)]
    repeats = RepeatedOffsets()
    assert sum(one.num_rows for one in repeats.count_while_yielding(tables)) == table.num_rows
    assert repeats.found == {3: [2, 2, 0]}
    differing = RepeatedOffsets()
    assert list(differing.count_while_yielding([_places(7, 7, values={1: b"other"})]))
    assert differing.found == {3: [1, 7, 1]}


def test_a_job_reads_rows_in_the_order_that_spark_gives() -> None:
    """Rows are sorted by the columns, and a second job reads kept rows."""
    batch = pa.RecordBatch.from_pydict({
        "kind": pa.array([0, 1, 0, 2], pa.int32()), "group": ["b", "a", "a", "a"],
        "topic": ["s", "t", "a", "u"],
    })  # fmt: skip
    made: list[int] = []

    def twice(numbers):
        for number in numbers:
            made.append(number.column(0)[0].as_py())
            yield batch

    rows = LocalEngine().run_job(twice, 1, 1, "").persist()
    found = rows.filter_kinds(0, 1).sorted_by("group", ("group", "topic"))
    assert found.collect_columns("group", "topic") == [("a", "a"), ("a", "t"), ("b", "s")]
    assert rows.collect_columns("kind") == [(0,), (1,), (0,), (2,)]
    assert made == [0]
    assert LocalRows(list).sorted_by("group", ("group",)).collect_columns("group") == []
