"""First job: every record decoded where it is read; commits leave it already reduced.

The driver hands out slices of files, workers read them with pyarrow: key and value bytes
never cross the border between JVM and Python for the 97 % of records that are commits.
These go from Arrow's buffers to columns and from there to runs; no commit is an object.
What comes out is one table with a `Kind` for each row, since a task has one output only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.history.commits import Commits, RecordPositions, Runs, number_stretches, reduce_to_runs
from partage.history.transactions import Effects, Outcome, Transactions
from partage.jobs.replay.all_records import in_log_order, record_rows
from partage.jobs.replay.clocks import strands
from partage.jobs.replay.decoded_rows import (
    OUT_COLUMNS,
    Kind,
    batch_of_records,
    batch_of_rows,
    batch_of_runs,
)
from partage.jobs.replay.other_records import Others, bad_row, other_records
from partage.jobs.replay.placed import Placed, in_order, placed
from partage.jobs.replay.raw_commits import RawCommits, RawWriter
from partage.jobs.replay.selection import EVERYTHING, Selection
from partage.jobs.replay.slices import Slice, read_slice, tasks_of, widened
from partage.jobs.replay.tally import MOST_PARTITIONS, Tally
from partage.jobs.spark.shipping import warm
from partage.wire.columns.commits import TOMBSTONE, OffsetCommits, decode_offset_commits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.capture import Capture

__all__ = ["OUT_COLUMNS", "Kind", "decode_job", "worth_compiling"]

#: Value version from which on offset commits carry the topic's id; zero stands for none.
_WITH_TOPIC_ID = 4
_NO_TOPIC_ID = "A" * 22


def decode_job(
    spark: SparkSession,
    capture: Capture,
    selection: Selection = EVERYTHING,
    *,
    raw: RawCommits | None = None,
    sort: bool = False,
) -> DataFrame:
    """The rows of all slices; nothing is computed yet.

    Args:
        spark: the session.
        capture: what to read.
        selection: groups and times; other records are decoded and counted, but give no rows.
        raw: where table ``commits`` is written, if anybody wants it.
        sort: put records into the log's order first: files have them in another one.
    """
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in OUT_COLUMNS.items())
    count = len(capture.slices)
    if capture.table is not None or sort:
        rows = in_log_order(spark, capture) if sort else record_rows(spark, capture)
        work = partial(_table_task, tuple(capture.batches or ()), selection, raw)
        return rows.mapInArrow(work, ddl)
    parallelism = max(1, spark.sparkContext.defaultParallelism)
    many = worth_compiling(capture.records or 0, parallelism)
    numbers = spark.range(0, count, 1, tasks_of(capture.slices, parallelism))
    job = _Job(tuple(capture.batches or ()), selection, raw, many)
    return numbers.mapInArrow(partial(_task, capture.slices, job), ddl)


#: Records of a worker from which on the compiled kernel is sooner done than NumPy.
_COMPILED_FROM = 1_000_000


def worth_compiling(records: int, parallelism: int) -> bool:
    """Importing Numba and loading kernels takes a second, which each worker must earn back."""
    return records // max(1, parallelism) >= _COMPILED_FROM


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
    good, lost = placed(table)
    rows = [bad_row(row, "row", why, None) for row, why in lost]
    tally.bad = len(rows)
    effects = _effects(good, transactions, tally)
    found = decode_offset_commits(good.key, good.value)
    others = other_records(good, found, tally, selection)
    rows += others.bad
    tally.commit_types(found.key_version, found.value_version)
    tally.outcomes(effects.outcome[found.row])
    tally.topic_ids = _topic_ids(found)
    commits, number = _that_count(good, found, effects, others, selection)
    commits = _cut_at_leaps(commits, tally)
    if raw is not None:
        raw.add(found, number, commits)
    if len(others.rows):
        yield batch_of_records(good, others.rows, others.groups)
    made = reduce_to_runs(commits)
    if len(made.pair):
        tally.highest = _highest(made, found.pairs)
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


def _highest(made: Runs, pairs: list[tuple[str, str]]) -> dict[str, int]:
    """Topic -> the highest partition with a commit; numbers that no topic has are left out."""
    real = (made.commits > 0) & (made.partition >= 0) & (made.partition < MOST_PARTITIONS)
    highest = np.full(len(pairs), -1, np.int64)
    np.maximum.at(highest, made.pair[real], made.partition[real])
    out: dict[str, int] = {}
    for (_, topic), number in zip(pairs, highest.tolist(), strict=True):
        if number >= 0:
            out[topic] = max(out.get(topic, -1), number)
    return out


def _edges(read: Placed) -> list[int]:
    """Where the log partitions of some rows begin, and where the last one ends."""
    count = len(read.partition)
    new = np.flatnonzero(read.partition[1:] != read.partition[:-1]) + 1
    return [0, *new.tolist(), count] if count else []


def _effects(placed: Placed, transactions: Transactions, tally: Tally) -> Effects:
    """From which offset and time on each record counts; its place and time are noted."""
    count = len(placed.partition)
    made = Effects(np.empty(count, np.int8), np.empty(count, np.int64), np.empty(count, np.int64))
    for first, end in pairwise(_edges(placed)):
        p, mine = int(placed.partition[first]), slice(first, end)
        offset, time_ms = placed.offset[mine], placed.timestamp_ms[mine]
        tally.ranges[p] = [[int(offset[0]), int(offset[-1]), end - first]]
        tally.times(time_ms)
        tally.strands[p] = strands(offset, time_ms)
        found = transactions.effects(p, offset, time_ms)
        made.outcome[mine], made.offset[mine], made.time_ms[mine] = (
            found.outcome, found.offset, found.time_ms,
        )  # fmt: skip
    return made


def _that_count(
    placed: Placed,
    found: OffsetCommits,
    effects: Effects,
    others: Others,
    selection: Selection,
) -> tuple[Commits, NDArray[np.int64]]:
    """Commits that took effect, in the order in which they did, and their numbers in ``found``.

    They are cut at their group's records: see `history.commits.number_stretches`.
    """
    at = _whole(found.row, len(placed.partition))
    outcome = effects.outcome[at]
    counts = (outcome == Outcome.PLAIN) | (outcome == Outcome.COMMITTED)
    wanted = selection.commits(found.pairs, found.pair, effects.time_ms[at])
    number = np.flatnonzero(counts if wanted is None else counts & wanted)
    kept = _whole(number, len(found))
    row = at if isinstance(kept, slice) else found.row[kept]
    log_partition, log_offset = placed.partition[row], effects.offset[row]
    if not in_order(log_partition, log_offset):
        order = np.lexsort((log_offset, log_partition))
        kept = number = number[order]
        row = found.row[kept]
        log_partition, log_offset = log_partition[order], log_offset[order]
    pair = found.pair[kept]
    stretch = _stretches(found.pairs, (pair, log_partition, log_offset), placed, others)
    return Commits(
        pair, found.partition[kept], log_partition, log_offset,
        effects.time_ms[row], found.offset[kept], found.value_version[kept] != TOMBSTONE,
        outcome[kept] == Outcome.COMMITTED, stretch, found.series[kept],
    ), number  # fmt: skip


def _cut_at_leaps(commits: Commits, tally: Tally) -> Commits:
    """With a stretch of its own for each strand: no run has times of a wrong clock and others."""
    starts = {p: [one.offset for one in found] for p, found in tally.strands.items()}
    number = np.zeros(len(commits.pair), np.int64)
    for partition, offsets in starts.items():
        if len(offsets) > 1:
            mine = commits.log_partition == partition
            number[mine] = np.searchsorted(offsets, commits.log_offset[mine], side="right")
    if not number.any():
        return commits
    before = 0 if commits.stretch is None else commits.stretch * (int(number.max()) + 1)
    return replace(commits, stretch=before + number)


def _whole(rows: NDArray[np.int64], count: int) -> NDArray[np.int64] | slice:
    """Ascending rows of so many; of all of them, as in most logs, a view costs nothing."""
    return slice(None) if len(rows) == count else rows


def _stretches(
    pairs: list[tuple[str, str]],
    commits: tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]],
    placed: Placed,
    others: Others,
) -> NDArray[np.int64] | None:
    """Which commits (pair and place of each) stand between the same two records of their group.

    Commits whose marker comes behind these rows stand among records that are not here: those of
    each marker are by themselves.
    """
    pair, partition, offset = commits
    if not len(pair):
        return None
    later = _later(partition, offset, placed)
    if not len(others.rows):
        return later
    number: dict[str, int] = {}
    group_of = np.array([number.setdefault(g, len(number)) for g, _ in pairs], np.int64)
    mine = np.array([number.setdefault(g, len(number)) for g in others.groups], np.int64)
    at = placed.partition[others.rows], placed.offset[others.rows]
    found = number_stretches(
        RecordPositions(group_of[pair], partition, offset), RecordPositions(mine, *at)
    )
    if later is None:
        return found
    return np.where(later > 0, int(found.max()) + later, found)


def _later(
    partition: NDArray[np.int64], offset: NDArray[np.int64], placed: Placed
) -> NDArray[np.int64] | None:
    """A number above 0 for each place behind the last row of its log partition, 0 for the others;
    None if there is no such place.
    """
    ends = np.append(np.flatnonzero(placed.partition[1:] != placed.partition[:-1]),
                     len(placed.partition) - 1)  # fmt: skip
    last = placed.offset[ends][np.searchsorted(placed.partition[ends], partition)]
    behind = np.flatnonzero(offset > last)
    if not len(behind):
        return None
    out = np.zeros(len(offset), np.int64)
    places = np.stack([partition[behind], offset[behind]])
    out[behind] = np.unique(places, axis=1, return_inverse=True)[1].ravel() + 1
    return out
