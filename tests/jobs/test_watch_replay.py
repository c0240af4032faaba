"""A replay of what `partage watch` wrote: the tables of a replay of the records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.captured import SAMPLE
from tests.support.captures import rows_of

pa = pytest.importorskip("pyarrow")

from pyarrow import compute as pc  # noqa: E402
from pyarrow import parquet  # noqa: E402

from partage.errors import InvalidCaptureError, InvalidConfigError  # noqa: E402
from partage.history.transactions import Transactions  # noqa: E402
from partage.jobs.replay.records import cast_record_columns  # noqa: E402
from partage.jobs.replay.replay import replay  # noqa: E402
from partage.jobs.replay.selection import Selection  # noqa: E402
from partage.jobs.watch.capture_log import decoded_rows  # noqa: E402
from partage.jobs.watch.group_tables import decoded_changes  # noqa: E402
from partage.jobs.watch.stream_output import (  # noqa: E402
    StreamFolder,
    expect_stream_folder,
    write_changes,
)
from partage.tables.schemas import TABLES  # noqa: E402

# Replays use the running Spark session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
POLICIES = ["eager/range", "cooperative/cooperative-sticky"]


@pytest.fixture(scope="module")
def records() -> pa.Table:
    """The first minute of some log partitions, in order of time."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet")
    until = pc.add(pc.min(table["timestamp_ms"]), 60_000)
    early = pc.less(table["timestamp_ms"], until)
    mine = pc.is_in(table["partition"], pa.array([0, 3, 6], pa.int32()))
    return cast_record_columns(table.filter(pc.and_(early, mine)))


@pytest.fixture
def stream(tmp_path: Path) -> StreamFolder:
    """The output folder of a stream of a cluster, without micro-batches."""
    folder = StreamFolder(tmp_path / "watched")
    expect_stream_folder(tmp_path / "watched", "kafka://broker:9092")
    folder.create_folders()
    folder.metadata.write_bytes((SAMPLE / "cluster.jsonl").read_bytes())
    config = (SAMPLE / "cluster-config.json").read_bytes()
    (folder.path / "cluster-config.json").write_bytes(config)
    return folder


def _publish(stream: StreamFolder, batch: int, table: pa.Table) -> None:
    """Write a micro-batch with these records, as the stream of a cluster does."""
    rows = [decoded_changes(b) for b in decoded_rows(table, Transactions(), 0, counts=True)]
    kinds = {"group": pa.string(), "table": pa.string(), "final": pa.bool_(),
             "length": pa.int64(), "data": pa.binary()}  # fmt: skip
    some = [{"group": "", **one._asdict()} for one in rows]
    changes = pa.RecordBatch.from_pylist(some, schema=pa.schema(kinds))
    (made,) = write_changes(str(stream.path), batch, [changes])
    files = [tuple(json.loads(row["text"])) for row in made.to_pylist() if row["what"] == "file"]
    stream.publish_batch(batch, files)


def _parts(records: pa.Table, count: int) -> list[pa.Table]:
    """Cut records at equal times; each part has all log partitions."""
    first, last = (f(records["timestamp_ms"]).as_py() for f in (pc.min, pc.max))
    number = pc.divide(pc.multiply(pc.subtract(records["timestamp_ms"], first), count),
                       last - first + 1)  # fmt: skip
    return [records.filter(pc.equal(number, n)) for n in range(count)]


def _expected(records: pa.Table, folder: Path) -> dict[str, list[str]]:
    """The tables of a replay of the records without their transactions, as a cluster gives them."""
    (folder / "capture").mkdir(parents=True)
    parquet.write_table(records, folder / "capture" / "consumer_offsets.parquet")
    for name in ("cluster.jsonl", "cluster-config.json"):
        (folder / "capture" / name).write_bytes((SAMPLE / name).read_bytes())
    replay(folder / "capture", folder / "run", policies=POLICIES, engine="local")
    return {name: rows_of(folder / "run", name) for name in set(TABLES) - {"runs", "commits"}}


def test_appending_replays_of_a_stream_give_the_tables_of_its_records(
    stream: StreamFolder, records: pa.Table, tmp_path: Path
) -> None:
    """Each run reads the micro-batches since the last one; the tables equal those of one replay."""
    expected, counts = _expected(records, tmp_path / "whole"), []
    parts, out = _parts(records, 3), tmp_path / "out"
    for batch, part in enumerate(parts):
        _publish(stream, batch, part)
        found = replay(stream.path.parent, out, policies=POLICIES, append=True)
        counts.append(found["append"]["new_records"])
        assert found["append"].get("reason") is None
    assert counts == [part.num_rows for part in parts]
    assert found["accounting"]["records"] == records.num_rows
    for name, rows in expected.items():
        assert rows_of(out, name) == rows, name


def test_a_stream_is_replayed_for_some_groups(
    stream: StreamFolder, records: pa.Table, tmp_path: Path
) -> None:
    """A selection of groups is possible, an end or table `commits` is not."""
    _publish(stream, 0, records)
    source, out = stream.path.parent, tmp_path / "out"
    chosen = Selection(("checkout-*",))
    found = replay(source, out, policies=POLICIES[:1], selection=chosen)
    assert {one["group"] for one in found["groups"]} == {"checkout-workers"}
    with pytest.raises(InvalidConfigError, match="--to: is not available for the output of"):
        replay(source, out, policies=POLICIES, selection=Selection(to_ms=5))
    with pytest.raises(InvalidConfigError, match="--commits: is not available"):
        replay(source, out, policies=POLICIES, raw_commits=True)


def test_a_replay_of_a_stream_of_a_capture_reads_the_capture(tmp_path: Path) -> None:
    """The stream's folder names its capture; without records or capture the error says so."""
    watched = tmp_path / "watched"
    expect_stream_folder(watched, str(tmp_path / "capture"))
    with pytest.raises(InvalidCaptureError, match="which does not exist"):
        replay(watched, tmp_path / "out")
    (tmp_path / "capture").mkdir()
    with pytest.raises(InvalidCaptureError, match=r"has no Parquet files|no such file"):
        replay(watched, tmp_path / "out")
    expect_stream_folder(tmp_path / "new", "kafka://broker:9092")
    StreamFolder(tmp_path / "new").create_folders()
    with pytest.raises(InvalidCaptureError, match="the stream has no records yet"):
        replay(tmp_path / "new", tmp_path / "out")
