"""First job: every record decoded where it is read; commits leave it already reduced.

The driver hands out slices of files, workers read them with pyarrow: key and value bytes
never cross the border between JVM and Python for the 97 % of records that are commits.
These go from Arrow's buffers to columns and from there to runs; no commit is an object.
What comes out is one table with a `Kind` for each row, since a task has one output only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import WireFormatError
from partage.history.commits import Commits, Standing, runs, stretches
from partage.history.transactions import Effects, Outcome, Transactions
from partage.pipeline.decoded_rows import OUT_COLUMNS, Kind, batch_of_rows, batch_of_runs
from partage.pipeline.raw_commits import RawCommits, RawWriter
from partage.pipeline.selection import EVERYTHING, Selection
from partage.pipeline.shipping import warm
from partage.pipeline.slices import Slice, read_slice, tasks_of, widened
from partage.pipeline.tally import Tally
from partage.wire.columns import BinaryColumn, CodedColumn
from partage.wire.commits import TOMBSTONE, OffsetCommits, decode_offset_commits
from partage.wire.group_log import decode_key
from partage.wire.remembering import Remembering

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.pipeline.capture import Capture

__all__ = ["OUT_COLUMNS", "Kind", "decode_job"]

_Row = dict[str, Any]

#: Value version from which on offset commits carry the topic's id; zero stands for none.
_WITH_TOPIC_ID = 4
_NO_TOPIC_ID = "A" * 22


def decode_job(
    spark: SparkSession,
    capture: Capture,
    selection: Selection = EVERYTHING,
    *,
    raw: RawCommits | None = None,
) -> DataFrame:
    """The rows of all slices; nothing is computed yet.

    Args:
        spark: the session.
        capture: what to read.
        selection: groups and times; other records are decoded and counted, but give no rows.
        raw: where table ``commits`` is written, if anybody wants it.
    """
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    count = len(capture.slices)
    if capture.table is not None:
        rows = capture.table.rows(spark)
        work = partial(_table_task, tuple(capture.batches or ()), selection, raw)
        return rows.mapInArrow(work, ddl)
    # Importing Numba and loading a kernel takes a second: each worker must earn it back.
    parallelism = max(1, spark.sparkContext.defaultParallelism)
    share = (capture.records or 0) // parallelism
    many = share >= _COMPILED_FROM
    numbers = spark.range(0, count, 1, tasks_of(capture.slices, parallelism))
    job = _Job(tuple(capture.batches or ()), selection, raw, many)
    return numbers.mapInArrow(partial(_task, capture.slices, job), ddl)


#: Records of a worker from which on the compiled kernel is sooner done than NumPy.
_COMPILED_FROM = 1_000_000
#: The largest time in milliseconds that ECMAScript has, in the year 275760; a later one is damage.
_LATEST_MS = 8_640_000_000_000_000


@dataclass(frozen=True)
class _Job:
    """What tasks need besides records."""

    batches: tuple[Any, ...]
    selection: Selection
    raw: RawCommits | None
    many: bool


def _task(
    slices: tuple[Slice, ...], job: _Job, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: numbers of slices in, rows out."""
    mine = (slices[n] for batch in numbers for n in batch.column(0).to_pylist())
    tables = (table for one in mine for table in read_slice(one, coded=job.many))
    yield from _decoded_all(tables, job)


def _table_task(
    batches: tuple[Any, ...],
    selection: Selection,
    raw: RawCommits | None,
    found: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: records that Spark read in, rows out."""
    import pyarrow as pa

    tables = (widened(pa.Table.from_batches([batch])) for batch in found if batch.num_rows)
    yield from _decoded_all(tables, _Job(batches, selection, raw, many=True))


def _decoded_all(tables: Iterable[pa.Table], job: _Job) -> Iterator[pa.RecordBatch]:
    if job.many:
        warm()
    transactions = Transactions(job.batches)
    with ExitStack() as opened:
        writer = None if job.raw is None else opened.enter_context(job.raw.writer())
        for table in tables:
            yield from decoded(table, transactions, job.selection, writer)
        if writer is not None:
            rows = [{"kind": Kind.RECEIPT, "text": text} for text in writer.receipts()]
            yield batch_of_rows(rows)


class _Raw(NamedTuple):
    """A record as read."""

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


def decoded(
    table: pa.Table,
    transactions: Transactions,
    selection: Selection = EVERYTHING,
    raw: RawWriter | None = None,
) -> Iterator[pa.RecordBatch]:
    """All rows of some records, in log order whatever their order in the file.

    Args:
        table: the five columns of a capture's records.
        transactions: of the whole log.
        selection: groups and times that are wanted.
        raw: takes each commit that took effect, if given.
    """
    tally = Tally()
    tally.rows = table.num_rows
    placed, lost = _placed(table)
    rows = [_bad_row(row, "row", why, None) for row, why in lost]
    tally.bad = len(rows)
    effects = _effects(placed, transactions, tally)
    found = decode_offset_commits(placed.key, placed.value)
    rows += _others(placed, found, tally, selection)
    tally.commit_types(found.key_version, found.value_version)
    tally.outcomes(effects.outcome[found.row])
    tally.topic_ids = _topic_ids(found)
    commits, number = _that_count(placed, found, effects, rows, selection)
    if raw is not None:
        raw.add(found, number, commits)
    made = runs(commits)
    if len(made.pair):
        yield batch_of_runs(made, found.pairs)
    rows.append({"kind": Kind.TALLY, "text": tally.to_json()})
    yield batch_of_rows(rows)


def _topic_ids(found: OffsetCommits) -> dict[str, str]:
    """Ids of topics by the first and the last commit of each: no more are read.

    Who has no metadata knows by these what targets of consumer groups are called.
    """
    number: dict[str, int] = {}
    topic_of = np.array([number.setdefault(t, len(number)) for _, t in found.pairs], np.int64)
    named = np.flatnonzero((found.value_version >= _WITH_TOPIC_ID) & (found.topic_id >= 0))
    if not len(named):
        return {}
    topic = topic_of[found.pair[named]]
    ends = np.full((2, len(number)), -1)
    ends[0, topic[::-1]] = named[::-1]  # of what is written twice, the last one stays
    ends[1, topic] = named
    some = np.concatenate([one[one >= 0] for one in ends])
    names = list(number)
    return {found.topic_ids[found.topic_id[i]]: names[topic_of[found.pair[i]]] for i in some}


class _Placed(NamedTuple):
    """Columns of rows that say where they stand, sorted by (partition, offset)."""

    partition: NDArray[np.int64]
    offset: NDArray[np.int64]
    timestamp_ms: NDArray[np.int64]
    key: BinaryColumn | CodedColumn
    value: BinaryColumn

    def raw(self, row: int) -> _Raw:
        """One record as it was read."""
        place = int(self.partition[row]), int(self.offset[row]), int(self.timestamp_ms[row])
        return _Raw(*place, self.key[row], self.value[row])


def _placed(table: pa.Table) -> tuple[_Placed, list[tuple[_Raw, str]]]:
    """The rows in log order; and apart, with the reason, those without a place or a time."""
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
            lost.append((_raw(row), f"column {null} is null"))
    good, untimely = _timely(good)
    lost += untimely
    partition, offset, timestamp_ms = (good[name].to_numpy() for name in names)
    if not _in_order(partition, offset):
        order = np.lexsort((offset, partition))
        partition, offset, timestamp_ms = partition[order], offset[order], timestamp_ms[order]
        good = good.take(order)
    keys = _coded(good["key"])
    return _Placed(partition, offset, timestamp_ms, keys, _column(good["value"])), lost


def _timely(table: pa.Table) -> tuple[pa.Table, list[tuple[_Raw, str]]]:
    """Apart, those whose time is none: one of them would make differences of times overflow."""
    import pyarrow as pa
    from pyarrow import compute

    ends = compute.min_max(table["timestamp_ms"]).as_py()
    if table.num_rows == 0 or (ends["min"] >= -_LATEST_MS and ends["max"] <= _LATEST_MS):
        return table, []
    time_ms = table["timestamp_ms"].to_numpy()
    good = (time_ms >= -_LATEST_MS) & (time_ms <= _LATEST_MS)
    bad = table.filter(pa.array(~good)).to_pylist()
    why = "column timestamp_ms is no time: {timestamp_ms}"
    return table.filter(pa.array(good)), [(_raw(row), why.format(**row)) for row in bad]


def _raw(row: dict[str, Any]) -> _Raw:
    return _Raw(**{name: row[name] for name in _Raw._fields})


def _in_order(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Whether rows are sorted by two columns, as those of a log mostly are."""
    up, same = first[1:] > first[:-1], first[1:] == first[:-1]
    return bool(np.all(up | (same & (second[1:] >= second[:-1]))))


def _coded(cells: pa.ChunkedArray) -> BinaryColumn | CodedColumn:
    """Keys as the wire's columns: by their dictionary where there is one."""
    import pyarrow as pa

    if not pa.types.is_dictionary(cells.type) or not len(cells):
        return _column(cells)
    whole = cells.unify_dictionaries().combine_chunks()
    code = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    if whole.dictionary.null_count:  # a dictionary may have a null too
        gone = whole.dictionary.is_null().to_numpy(zero_copy_only=False)
        code = np.where((code >= 0) & gone[code], np.int32(-1), code)
    return CodedColumn(_column(pa.chunked_array([whole.dictionary])), code)


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
    placed: _Placed,
    found: OffsetCommits,
    effects: Effects,
    records: list[_Row],
    selection: Selection,
) -> tuple[Commits, NDArray[np.int64]]:
    """Commits that took effect, in the order in which they did, and their numbers in ``found``.

    They are cut at their group's records: see `history.commits.stretches`.
    """
    outcome = effects.outcome[found.row]
    counts = (outcome == Outcome.PLAIN) | (outcome == Outcome.COMMITTED)
    wanted = selection.commits(found.pairs, found.pair, effects.time_ms[found.row])
    kept = np.flatnonzero(counts if wanted is None else counts & wanted)
    row = found.row[kept]
    log_partition, log_offset = placed.partition[row], effects.offset[row]
    if not _in_order(log_partition, log_offset):
        order = np.lexsort((log_offset, log_partition))
        kept, row = kept[order], row[order]
        log_partition, log_offset = log_partition[order], log_offset[order]
    pair = found.pair[kept]
    stretch = _stretches(found.pairs, pair, log_partition, log_offset, records)
    return Commits(
        pair, found.partition[kept], log_partition, log_offset,
        effects.time_ms[row], found.offset[kept], found.value_version[kept] != TOMBSTONE,
        outcome[kept] == Outcome.COMMITTED, stretch, found.series[kept],
    ), kept  # fmt: skip


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


def _others(
    placed: _Placed, found: OffsetCommits, tally: Tally, selection: Selection
) -> list[_Row]:
    """Rows of group records, and of everything that is damaged."""
    rows, reads = [], Remembering()
    damaged: dict[int, WireFormatError] = dict(found.errors)
    for row in found.others.tolist():
        raw = placed.raw(row)
        try:
            record = reads.record(raw.key, raw.value)
        except WireFormatError as e:
            damaged[row] = e
            continue
        tally.type(record.key_version, record.type, record.value_version)
        group = _group(record.key)
        if selection.group(group) and not selection.over(int(raw.timestamp_ms or 0)):
            rows.append({"kind": Kind.GROUP_RECORD, "group": group} | _row_of(raw))
    for row, error in damaged.items():
        raw = placed.raw(row)
        known, part = _group_if_any(raw.key)
        rows.append(_bad_row(raw, part, str(error), known))
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
