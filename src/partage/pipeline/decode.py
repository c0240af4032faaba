"""First job: every record decoded where it is read; commits leave it already reduced.

The driver hands out slices of files, workers read them with pyarrow: key and value bytes
never cross the border between JVM and Python for the 97 % of records that are commits.
These go from Arrow's buffers to columns and from there to runs; no commit is an object.
What comes out is one table with a `Kind` for each row, since a task has one output only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.history.commits import Commits, Runs, Standing, runs, stretches
from partage.history.transactions import Effects, Outcome, Transactions
from partage.pipeline.tally import Tally
from partage.wire.columns import BinaryColumn
from partage.wire.commits import TOMBSTONE, OffsetCommits, decode_offset_commits
from partage.wire.group_log import decode_key, decode_record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.pipeline.capture import Capture, Slice

__all__ = ["OUT_COLUMNS", "Kind", "decode_job"]


class Kind(IntEnum):
    """What a row of the decode job is."""

    GROUP_RECORD = 0
    COMMIT_RUN = 1
    BAD_RECORD = 2
    TALLY = 3


#: name -> Spark type. Which columns a kind uses is said in the functions that fill them.
OUT_COLUMNS: dict[str, str] = {
    "kind": "int",
    "group": "string",
    "topic": "string",
    "topic_partition": "int",
    "minute_ms": "bigint",
    "log_partition": "bigint",
    "log_offset": "bigint",
    "last_partition": "bigint",
    "last_log_offset": "bigint",
    "timestamp_ms": "bigint",
    "first_ms": "bigint",
    "last_ms": "bigint",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "commits": "bigint",
    "transactional": "bigint",
    "tombstones": "bigint",
    "largest_gap_ms": "bigint",
    "part": "string",
    "text": "string",
    "key": "binary",
    "value": "binary",
}

_Row = dict[str, Any]


def decode_job(spark: SparkSession, capture: Capture) -> DataFrame:
    """The rows of all slices, one task a slice; nothing is computed yet."""
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    work = partial(_task, capture.slices, tuple(capture.batches or ()))
    count = len(capture.slices)
    return spark.range(0, count, 1, count).mapInArrow(work, ddl)


def _task(
    slices: tuple[Slice, ...], batches: tuple[Any, ...], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: numbers of slices in, rows out."""
    from partage.pipeline.capture import read_slice

    transactions = Transactions(batches)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for table in read_slice(slices[number]):
                yield from decoded(table, transactions)


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    types = {
        "int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary(),
    }  # fmt: skip
    return {name: types[kind] for name, kind in OUT_COLUMNS.items()}


def _batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """Columns of the decode job; those that are not given are null."""
    import pyarrow as pa

    arrays = [columns.get(name, pa.nulls(count, kind)) for name, kind in _types().items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(OUT_COLUMNS))


def _batch_of_rows(rows: list[_Row]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = {n: pa.array([row.get(n) for row in rows], kind) for n, kind in _types().items()}
    return _batch(columns, len(rows))


def _batch_of_runs(made: Runs, pairs: list[tuple[str, str]]) -> pa.RecordBatch:
    import pyarrow as pa

    code = pa.array(made.pair)
    group, topic = (pa.array([pair[i] for pair in pairs], pa.string()).take(code) for i in (0, 1))
    without = made.commits == 0
    alone = made.commits < 2
    columns = {
        "kind": pa.array(np.full(len(code), int(Kind.COMMIT_RUN), np.int32)),
        "group": group, "topic": topic, "topic_partition": pa.array(made.partition),
        "first_offset": pa.array(made.first_offset, mask=without),
        "last_offset": pa.array(made.last_offset, mask=without),
        "largest_gap_ms": pa.array(made.largest_gap_ms, mask=alone),
    }  # fmt: skip
    same = (
        "minute_ms", "log_partition", "log_offset", "last_partition", "last_log_offset",
        "first_ms", "last_ms", "commits", "transactional", "tombstones",
    )  # fmt: skip
    return _batch(columns | {name: pa.array(getattr(made, name)) for name in same}, len(code))


class _Raw(NamedTuple):
    """A record as read."""

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


def decoded(table: pa.Table, transactions: Transactions) -> Iterator[pa.RecordBatch]:
    """All rows of some records, in log order whatever their order in the file.

    Args:
        table: the five columns of a capture's records.
        transactions: of the whole log.
    """
    tally = Tally()
    tally.rows = table.num_rows
    placed, lost = _placed(table)
    rows = [_bad_row(raw, "row", f"column {null} is null", None) for raw, null in lost]
    tally.bad = len(rows)
    effects = _effects(placed, transactions, tally)
    found = decode_offset_commits(placed.key, placed.value)
    rows += _others(placed, found, tally)
    tally.commit_types(found.key_version, found.value_version)
    tally.outcomes(effects.outcome[found.row])
    made = runs(_that_count(placed, found, effects, rows))
    if len(made.pair):
        yield _batch_of_runs(made, found.pairs)
    rows.append({"kind": Kind.TALLY, "text": tally.to_json()})
    yield _batch_of_rows(rows)


class _Placed(NamedTuple):
    """Columns of rows that say where they stand, sorted by (partition, offset)."""

    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    key: BinaryColumn
    value: BinaryColumn

    def raw(self, row: int) -> _Raw:
        """One record as it was read."""
        place = int(self.partition[row]), int(self.offset[row]), int(self.timestamp_ms[row])
        return _Raw(*place, self.key[row], self.value[row])


def _placed(table: pa.Table) -> tuple[_Placed, list[tuple[_Raw, str]]]:
    """The rows in log order; and apart, with the column that is null, those without a place."""
    import pyarrow as pa
    from pyarrow import compute

    names = ("partition", "offset", "timestamp_ms")
    good, lost = table, []
    if any(table[name].null_count for name in names):
        whole = pa.array(np.ones(table.num_rows, bool))
        for name in names:
            whole = compute.and_(whole, compute.is_valid(table[name]).combine_chunks())
        good = table.filter(whole)
        for row in table.filter(compute.invert(whole)).to_pylist():
            null = next(name for name in names if row[name] is None)
            lost.append((_Raw(**{name: row[name] for name in _Raw._fields}), null))
    partition, offset, timestamp_ms = (good[name].to_numpy() for name in names)
    if not _in_order(partition, offset):
        order = np.lexsort((offset, partition))
        partition, offset, timestamp_ms = partition[order], offset[order], timestamp_ms[order]
        good = good.take(order)
    key, value = (_column(good[name]) for name in ("key", "value"))
    return _Placed(partition, offset, timestamp_ms, key, value), lost


def _in_order(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether rows are sorted by two columns, as those of a log mostly are."""
    up, same = first[1:] > first[:-1], first[1:] == first[:-1]
    return bool(np.all(up | (same & (second[1:] >= second[:-1]))))


def _column(cells: pa.ChunkedArray) -> BinaryColumn:
    """Binary cells as the wire's columns: a view of Arrow's buffers."""
    if not len(cells):
        return BinaryColumn.of([])
    whole = cells.combine_chunks()
    return BinaryColumn.from_buffers(whole.buffers(), length=len(whole), offset=whole.offset)


def _effects(placed: _Placed, transactions: Transactions, tally: Tally) -> Effects:
    """From which offset and time on each record counts; its place and time are noted."""
    count = len(placed.partition)
    made = Effects(np.empty(count, np.int8), np.empty(count, np.int64), np.empty(count, np.int64))
    new = np.flatnonzero(placed.partition[1:] != placed.partition[:-1]) + 1
    edges = [0, *new.tolist(), count] if count else []
    for first, end in pairwise(edges):
        p, mine = int(placed.partition[first]), slice(first, end)
        offset, time_ms = placed.offset[mine], placed.timestamp_ms[mine]
        tally.ranges[p] = [[int(offset[0]), int(offset[-1]), end - first]]
        tally.seen(int(time_ms.min()))
        tally.seen(int(time_ms.max()))
        found = transactions.effects(p, offset, time_ms)
        made.outcome[mine], made.offset[mine], made.time_ms[mine] = (
            found.outcome, found.offset, found.time_ms,
        )  # fmt: skip
    return made


def _that_count(
    placed: _Placed, found: OffsetCommits, effects: Effects, records: list[_Row]
) -> Commits:
    """Commits that took effect, in the order in which they did; cut at their group's records."""
    outcome = effects.outcome[found.row]
    kept = np.flatnonzero((outcome == Outcome.PLAIN) | (outcome == Outcome.COMMITTED))
    row = found.row[kept]
    if not _in_order(placed.partition[row], effects.offset[row]):
        order = np.lexsort((effects.offset[row], placed.partition[row]))
        kept, row = kept[order], row[order]
    pair, log_partition = found.pair[kept], placed.partition[row]
    stretch = _stretches(found.pairs, pair, log_partition, effects.offset[row], records)
    return Commits(
        pair, found.partition[kept], log_partition, effects.offset[row],
        effects.time_ms[row], found.offset[kept], found.value_version[kept] != TOMBSTONE,
        outcome[kept] == Outcome.COMMITTED, stretch,
    )  # fmt: skip


def _stretches(
    pairs: list[tuple[str, str]],
    pair: NDArray[np.int32],
    log_partition: NDArray[np.int64],
    log_offset: NDArray[np.int64],
    records: list[_Row],
) -> NDArray[np.int64] | None:
    """Which commits stand between the same two records of their group."""
    mine = [row for row in records if row["kind"] == Kind.GROUP_RECORD]
    if not mine or not len(pair):
        return None
    number: dict[str, int] = {}
    group_of = np.array([number.setdefault(g, len(number)) for g, _ in pairs], np.int64)
    places = [
        (number.setdefault(row["group"], len(number)), row["log_partition"], row["log_offset"])
        for row in mine
    ]
    at = np.array(places, np.int64).T
    return stretches(Standing(group_of[pair], log_partition, log_offset), Standing(*at))


def _others(placed: _Placed, found: OffsetCommits, tally: Tally) -> list[_Row]:
    """Rows of group records, and of everything that is damaged."""
    rows = []
    damaged: dict[int, WireFormatError] = dict(found.errors)
    for row in found.others.tolist():
        raw = placed.raw(row)
        try:
            record = decode_record(raw.key, raw.value)
        except WireFormatError as e:
            damaged[row] = e
            continue
        tally.type(record.key_version, record.type, record.value_version)
        rows.append({"kind": Kind.GROUP_RECORD, "group": _group(record.key)} | _row_of(raw))
    for row, error in damaged.items():
        raw = placed.raw(row)
        group, part = _group_if_any(raw.key)
        rows.append(_bad_row(raw, part, str(error), group))
    tally.bad += len(damaged)
    return rows


def _group(key: dict[str, Any]) -> str:
    return str(key["groupId"] if "groupId" in key else key["group"])


def _group_if_any(key: bytes | None) -> tuple[str | None, str]:
    """The group of a damaged record, and whether key or value is to blame."""
    try:
        _, names = decode_key(key)
    except WireFormatError:
        return None, "key"
    return _group(names), "value"


def _bad_row(raw: _Raw, part: str, why: str, group: str | None) -> _Row:
    row = {"kind": Kind.BAD_RECORD, "group": group, "part": part, "text": why}
    return row | _row_of(raw)


def _row_of(raw: _Raw) -> _Row:
    return {
        "log_partition": raw.partition, "log_offset": raw.offset,
        "timestamp_ms": raw.timestamp_ms, "key": raw.key, "value": raw.value,
    }  # fmt: skip
