"""The state of a stream: micro-batches of any size give the tables of a replay of the records."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.captured import SAMPLE

pa = pytest.importorskip("pyarrow")

from pyarrow import compute as pc  # noqa: E402
from pyarrow import parquet  # noqa: E402

from partage.capture.manifest import CaptureManifest, CapturePart  # noqa: E402
from partage.errors import InvalidCaptureError  # noqa: E402
from partage.history.clusters import ClusterHistory  # noqa: E402
from partage.jobs.replay.capture import read_context  # noqa: E402
from partage.jobs.replay.decoded_rows import DecodedKind, unpack_runs  # noqa: E402
from partage.jobs.replay.group_rows import GroupRows  # noqa: E402
from partage.jobs.replay.replay import replay  # noqa: E402
from partage.jobs.watch.capture_log import (  # noqa: E402
    SETTLE_MS,
    CaptureLog,
    Position,
    read_piece,
)
from partage.jobs.watch.group_tables import (  # noqa: E402
    OPENED,
    STREAM_TABLES,
    GroupUpdate,
    StoredGroup,
    TableRows,
    close_group,
    parse_moves,
    stream_schema,
    update_commits,
    update_history,
)
from partage.runs.published_run import PublishedRun  # noqa: E402
from partage.tables.schemas import SIMULATED_COLUMNS  # noqa: E402

Rows = list[dict[str, Any]]
#: Log partitions with classic, consumer, share and streams groups, a migration and transactions.
_PART = (3, 6, 7)
_PART_MS = 60_000
_SIMULATED = SIMULATED_COLUMNS["rebalances"]


class _Stream:
    """A stream without Spark: states and tables of all groups, by micro-batch."""

    def __init__(self, folder: Path) -> None:
        self.log = CaptureLog(folder)
        self.log.list_new_files()
        self.states = (folder / "cluster.jsonl").read_bytes()
        self.timeout = read_context(folder)
        self.at = Position({}, 0)
        self.stored: dict[str, StoredGroup] = {}
        self.moves: dict[str, tuple[int, str]] = {}
        self.final: dict[str, list[Any]] = {table: [] for table in STREAM_TABLES}
        self.open: dict[tuple[str, str], Any] = {}

    def clusters(self, size: int) -> ClusterHistory:
        history = ClusterHistory([])
        for line in self.states[:size].splitlines():
            history.append_metadata(json.loads(line))
        return history

    def advance(self, end: Position) -> None:
        """Process the micro-batch up to a position."""
        pieces = self.log.divide_records(self.at, end)
        batches = [batch for piece in pieces for batch in read_piece(piece)]
        random.Random(len(batches)).shuffle(batches)
        clusters = self.clusters(end.metadata_bytes)
        for name, rows in _by_group(batches):
            at = rows["log_partition"][0].as_py()
            text = rows["moves"][0].as_py() or ""
            context = replace(self.timeout, moves=parse_moves(at, text))
            known = self.stored.get(name)
            self.take(name, _updated(name, known, rows.to_batches(), clusters, context))
        self.log.forget_transactions(end)
        self.at = end

    def take(self, name: str, update: GroupUpdate) -> None:
        self.stored[name] = update.stored
        for one in update.rows:
            rows = pa.ipc.open_stream(one.data).read_all().to_pylist() if one.length else []
            assert len(rows) == one.length
            if one.final:
                self.final[one.table] += rows
            else:
                self.open[name, one.table] = rows

    def tables(self) -> dict[str, Rows]:
        """Return the rows that count."""
        found = {table: list(rows) for table, rows in self.final.items()}
        for (_, table), rows in self.open.items():
            found[table] += rows
        return found


def _updated(
    name: str, stored: StoredGroup | None, batches: Any, clusters: ClusterHistory, context: Any
) -> GroupUpdate:
    """Process a micro-batch of a group as Spark's processor does."""
    quick = None if stored is None else update_commits(name, stored, batches, context)
    return quick or update_history(name, stored, batches, clusters, context)


def _by_group(batches: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    if not batches:
        return
    rows = pa.Table.from_batches(batches)
    names = rows["group"].to_pylist()
    for name in dict.fromkeys(names):
        yield name, rows.filter(pa.array([one == name for one in names]))


def _positions(folder: Path, cuts: int, seed: int) -> list[Position]:
    """Return random positions of a capture in time order, the last one at its end."""
    table = parquet.read_table(
        folder / "consumer_offsets.parquet", columns=["partition", "offset", "timestamp_ms"]
    )
    partition, offset, time_ms = (table[name].to_numpy() for name in table.column_names)
    picked = random.Random(seed).sample(range(int(time_ms.min()), int(time_ms.max())), cuts)
    states = (folder / "cluster.jsonl").read_bytes().splitlines(keepends=True)
    out = []
    for end in (*sorted(picked), int(time_ms.max())):
        before = time_ms <= end
        offsets = {int(p): int(offset[before & (partition == p)].max()) + 1
                   for p in np.unique(partition[before])}  # fmt: skip
        known = [line for line in states if json.loads(line)["ts_ms"] <= end + SETTLE_MS]
        out.append(Position(offsets, sum(map(len, known))))
    out[-1] = out[-1]._replace(metadata_bytes=sum(map(len, states)))
    return out


def _comparable(rows: Rows) -> list[str]:
    plain = ({n: v for n, v in row.items() if n not in _SIMULATED} for row in rows)
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in plain)


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginning of the sample, of log partitions with all protocols and with transactions."""
    folder = tmp_path_factory.mktemp("part")
    for name, offset, at in (
        ("consumer_offsets.parquet", "offset", "timestamp_ms"),
        ("batches.parquet", "base_offset", "max_timestamp_ms"),
    ):
        table = parquet.read_table(SAMPLE / name)
        if name == "consumer_offsets.parquet":
            before = pc.less(table[at], pc.add(pc.min(table[at]), _PART_MS))
            chosen = table.filter(
                pc.and_(before, pc.is_in(table["partition"], pa.array(_PART, pa.int32())))
            )
            ends = {p: 1 + max(chosen.filter(pc.equal(chosen["partition"], p))[offset].to_pylist())
                    for p in _PART}  # fmt: skip
            table = chosen
        else:
            keep = [b < ends.get(p, 0) for p, b in
                    zip(table["partition"].to_pylist(), table[offset].to_pylist(), strict=True)]  # fmt: skip
            table = table.filter(pa.array(keep))
        parquet.write_table(table, folder / name)
        os.utime(folder / name, (1, 1))  # old enough to be read
    for name in ("cluster.jsonl", "cluster-config.json"):
        shutil.copy(SAMPLE / name, folder / name)
    path = folder / "cluster-config.json"
    known = json.loads(path.read_bytes())["configs"]
    delayed = known | {"group.initial.rebalance.delay.ms": "300"}
    path.write_text(json.dumps({"configs": delayed}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def published(part: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """The tables that a replay publishes, with the simulation of one policy."""
    out = tmp_path_factory.mktemp("published")
    replay(part, out, policies=["eager/range"], engine="local")
    run = PublishedRun(out)
    return {
        table: run.table(table).select(stream_schema(table).names).to_pylist()
        for table in set(STREAM_TABLES) - {OPENED, "bad_records"}
    }


def test_micro_batches_give_the_tables_of_a_replay(part: Path, published: dict[str, Rows]) -> None:
    """Random cuts, through generations, transactions and metadata changes, change no row.

    Columns that need the simulation are null.
    """
    stream = _Stream(part)
    positions = _positions(part, cuts=5, seed=2)
    assert len({at.metadata_bytes for at in positions}) >= 3
    for end in positions:
        stream.advance(end)
    found = stream.tables()
    assert sum(row["transactional"] for row in found["commit_rates"]) > 0
    for table in set(STREAM_TABLES) - {OPENED, "bad_records"}:
        assert len(found[table]) > 5, table
        assert _comparable(found[table]) == _comparable(published[table]), table
    found_verdicts = {row[name] for row in found["rebalances"] for name in _SIMULATED}
    assert found_verdicts == {None}


def _log(folder: Path, *tables: Any, positions: dict[int, int]) -> CaptureLog:
    """Write a capture with these files of records and return its log."""
    (folder / "consumer_offsets.parquet").mkdir(parents=True)
    (folder / "cluster.jsonl").write_text('{"ts_ms": 0, "brokers": [], "topics": {}}\n')
    parts = [CapturePart(number) for number in range(len(tables))]
    for part, table in zip(parts, tables, strict=True):
        path = folder / "consumer_offsets.parquet" / part.file_name
        parquet.write_table(table, path)
        os.utime(path, (1, 1))
    CaptureManifest(parts=parts, positions=positions).save_manifest(folder)
    log = CaptureLog(folder)
    log.list_new_files()
    return log


@pytest.fixture(scope="module")
def small() -> Any:
    """The records of one log partition."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet")
    return table.filter(pc.equal(table["partition"], 0))


def _decoded(log: CaptureLog, start: Position, end: Position) -> list[str]:
    rows = (row for piece in log.divide_records(start, end) for row in _rows_of(piece))
    return sorted(rows)


def _rows_of(piece: Any) -> list[str]:
    names = ("kind", "group", "log_offset", "topic", "minute_ms")
    return [repr([row[n] for n in names]) for b in read_piece(piece) for row in b.to_pylist()]


def test_positions_do_not_depend_on_files(small: Any, tmp_path: Path) -> None:
    """After files were merged, a micro-batch between the same positions has the same rows."""
    ends = {0: small["offset"][-1].as_py() + 1}
    two = _log(tmp_path / "two", small.slice(0, 400), small.slice(400), positions=ends)
    one = _log(tmp_path / "one", small, positions=ends)
    start = Position({}, 0)
    middle = two.batch_end(start, most_rows=400)
    end = two.batch_end(middle)
    assert middle.offsets[0] == small["offset"][399].as_py() + 1
    assert end.offsets == ends
    assert two.batch_end(end) == end
    assert _decoded(one, start, middle) == _decoded(two, start, middle) != []
    assert _decoded(one, middle, end) == _decoded(two, middle, end) != []


def test_a_log_that_lost_records_ends_the_stream(small: Any, tmp_path: Path) -> None:
    """Offsets that were read and are gone are an error, because they will have other records."""
    log = _log(tmp_path / "cut", small, positions={0: 500})
    with pytest.raises(InvalidCaptureError, match="lost records"):
        log.batch_end(Position({0: 600}, 0))


def test_row_groups_outside_of_a_micro_batch_are_not_read(small: Any, tmp_path: Path) -> None:
    """A piece is a row group with records of the micro-batch; nothing of it is lost or doubled."""
    ends = {0: small["offset"][-1].as_py() + 1}
    one = _log(tmp_path / "one", small, positions=ends)
    path = tmp_path / "many"
    many = _log(path, small, positions=ends)
    file = path / "consumer_offsets.parquet" / CapturePart(0).file_name
    parquet.write_table(small, file, row_group_size=100)
    os.utime(file, (1, 1))
    many.list_new_files()
    start = Position({}, 0)
    middle = many.batch_end(start, most_rows=250)
    end = many.batch_end(middle, most_rows=100)
    assert middle.offsets[0] == small["offset"][249].as_py() + 1
    assert [piece.slice.row_group for piece in many.divide_records(middle, end)] == [2, 3]
    for cut in ((start, middle), (middle, end)):
        assert _content(one, *cut) == _content(many, *cut)
        assert min(map(bool, _content(one, *cut)))


def _content(log: CaptureLog, start: Position, end: Position) -> tuple[list[int], int]:
    """Return the offsets of group records, and the number of commits between two positions."""
    batches = [batch for piece in log.divide_records(start, end) for batch in read_piece(piece)]
    rows = pa.Table.from_batches(batches)
    records = rows.filter(pc.equal(rows["kind"], int(DecodedKind.GROUP_RECORD)))
    runs = rows.filter(pc.equal(rows["kind"], int(DecodedKind.COMMIT_RUNS))).combine_chunks()
    commits = sum(int(unpack_runs(b)[0].column_of_runs("commits").sum()) for b in runs.to_batches())
    return sorted(records["log_offset"].to_pylist()), commits


def _rows(update: GroupUpdate) -> dict[tuple[str, bool], list[str]]:
    return {
        (one.table, one.final): _comparable(
            pa.ipc.open_stream(one.data).read_all().to_pylist() if one.length else []
        )
        for one in update.rows
    }


def test_commits_without_records_are_processed_without_the_history(part: Path) -> None:
    """Rows and commit values are those of the whole history, which stays as it was."""
    stream = _Stream(part)
    quick, slow = 0, 0
    for end in _positions(part, cuts=12, seed=4):
        batches = [
            b for piece in stream.log.divide_records(stream.at, end) for b in read_piece(piece)
        ]
        clusters = stream.clusters(end.metadata_bytes)
        for name, rows in _by_group(batches):
            known = stream.stored.get(name)
            if known is None:
                continue
            moves = parse_moves(rows["log_partition"][0].as_py(), rows["moves"][0].as_py() or "")
            context = replace(stream.timeout, moves=moves)
            found = update_commits(name, known._replace(history=None), rows.to_batches(), context)
            whole = update_history(name, known, rows.to_batches(), clusters, context)
            if found is None:
                slow += 1
                continue
            quick += 1
            assert _rows(found) == _rows(whole), name
            assert json.loads(found.stored.commits) == json.loads(whole.stored.commits), name
            assert json.loads(found.stored.digests) == json.loads(whole.stored.digests), name
            assert found.deleted_ms == whole.deleted_ms
            assert found.stored.history is None
        stream.advance(end)
    assert quick > 20
    assert slow > 20


def test_a_repeated_micro_batch_has_equal_rows_and_states(part: Path) -> None:
    """After a crash a new process repeats a micro-batch from the states before it."""
    stream, restarted = _Stream(part), _Stream(part)
    first, second, _ = _positions(part, cuts=2, seed=5)
    stream.advance(first)
    restarted.at, restarted.stored = first, dict(stream.stored)
    restarted.final = {table: list(rows) for table, rows in stream.final.items()}
    restarted.open = dict(stream.open)
    for one in (stream, restarted):
        one.advance(second)
    assert stream.stored == restarted.stored
    assert stream.tables() == restarted.tables()


def test_the_state_of_a_deleted_group_can_be_dropped(part: Path) -> None:
    """Dropping the state turns the open rows of the group into final ones."""
    stream = _Stream(part)
    stream.advance(_positions(part, cuts=1, seed=3)[0])
    name = max(stream.stored, key=lambda one: len(stream.stored[one].history or b""))
    before = stream.tables()
    clusters = stream.clusters(stream.at.metadata_bytes)
    known = stream.stored[name]
    stream.take(name, GroupUpdate(known, close_group(name, known, clusters, stream.timeout)))
    assert not any(rows for (group, _), rows in stream.open.items() if group == name)
    after = stream.tables()
    assert all(_comparable(after[table]) == _comparable(before[table]) for table in STREAM_TABLES)


def test_an_error_in_one_group_ends_its_history_only(
    part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is failed in table `groups`, stays so, and other groups go on."""
    stream = _Stream(part)
    first, last = _positions(part, cuts=1, seed=3)
    process = GroupRows.process_input

    def broken(rows: GroupRows, found: Any) -> None:
        if rows.name == "mailer.alerts":
            raise ArithmeticError("a test")
        process(rows, found)

    monkeypatch.setattr(GroupRows, "process_input", broken)
    stream.advance(first)
    monkeypatch.undo()
    stream.advance(last)
    groups = {row["group"]: row["status"] for row in stream.tables()["groups"]}
    assert [name for name, status in groups.items() if status == "failed"] == ["mailer.alerts"]


def test_sparks_processor_gives_the_tables_of_a_replay(
    part: Path, published: dict[str, Rows]
) -> None:
    """The two states of a group, which Spark stores, give the tables; old groups are dropped."""
    pytest.importorskip("pyspark")
    pytest.importorskip("google.protobuf", reason="PySpark's state client needs protobuf")
    from pyspark.sql import Row
    from pyspark.sql.streaming.tws_tester import TwsTester

    from partage.jobs.watch.watch import GroupProcessor

    stream = _Stream(part)
    processor = GroupProcessor(str(part / "cluster.jsonl"), stream.timeout)
    spark = TwsTester(processor, timeMode="ProcessingTime")
    names: set[str] = set()

    def take(rows: list[Row]) -> None:
        for row in rows:
            change = TableRows(row.table, row.final, row.length, row.data)
            stream.take(row.group, GroupUpdate(StoredGroup(None), [change]))

    spark.setProcessingTime(1_000)
    for end in _positions(part, cuts=12, seed=6):
        pieces = stream.log.divide_records(stream.at, end)
        batches = [batch for piece in pieces for batch in read_piece(piece)]
        for name, table in _by_group(batches):
            names.add(name)
            take(spark.test(name, [Row(**row) for row in table.to_pylist()]))
        stream.at = end
    assert spark.peekValueState("history", "checkout-workers") is not None
    found = stream.tables()
    for table in set(STREAM_TABLES) - {OPENED, "bad_records"}:
        assert _comparable(found[table]) == _comparable(published[table]), table
    name = max(names, key=lambda one: len(spark.peekValueState("history", one)[0]))
    spark.handle.setGroupingKey(name)
    spark.handle.registerTimer(5_000)  # as if it had been deleted
    spark.updateValueState("group", name, (*spark.peekValueState("group", name)[:-1], 5_000))
    take(spark.setProcessingTime(6_000))
    assert not any(spark.peekValueState(state, name) for state in ("group", "history"))
    assert not any(rows for (group, _), rows in stream.open.items() if group == name)
    after = stream.tables()
    assert all(_comparable(after[table]) == _comparable(found[table]) for table in STREAM_TABLES)


def test_metadata_of_a_running_cluster_counts_from_its_first_answer(tmp_path: Path) -> None:
    """Only the time before the first answer is assumed, also after a restart with other metadata."""
    pytest.importorskip("pyspark")
    from partage.jobs.spark.tables import KafkaTable
    from partage.jobs.watch.watch import _MetadataRecorder

    path = tmp_path / "cluster.jsonl"
    for count in (3, 3, 4):
        topic = {"id": "x", "partitions": [{"p": p} for p in range(count)]}
        state = {"ts_ms": 0, "assumed": True, "brokers": [], "topics": {"t": topic}}
        table = KafkaTable("kafka://localhost:1", "kafka", (), "localhost:1", states=(state,))
        with _MetadataRecorder(table, path):
            pass
    states = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one.get("assumed", False) for one in states] == [True, False, False]
    assert [len(one["topics"]["t"]["partitions"]) for one in states] == [3, 3, 4]
    clusters = ClusterHistory(states)
    assert clusters.assumed_at(states[1]["ts_ms"] - 1)
    assert not clusters.assumed_at(states[1]["ts_ms"])
