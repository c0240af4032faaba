"""Offset commits reduced to runs, and runs folded into minutes and stretches.

Offset commits are 97 % of the records, so none becomes an object. Two reductions, each in a
compiled kernel (`commit_kernels`) and by plain NumPy sorting or the interpreted kernel:

1. Workers reduce slices of the log to **runs**: the commits of one group and partition within
   one minute and between two records of the group (`number_stretches`, `reduce_to_runs`).
2. `CommitFolder` folds one group's runs into whole **minutes** (table ``commit_rates``) and into
   **stretches**, the commits of a partition between two records of its group, which is all that
   causes and pauses need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.history.commit_kernels import (
    EMPTY,
    MINUTE,
    NEVER,
    NUMBERS,
    RUN,
    STATE_ROWS,
    STRETCH,
    close_minutes,
    fold_minutes,
    fold_stretches,
    reduce_commits,
    reduce_stretches,
)

__all__ = [
    "MINUTE_MS",
    "CommitFolder",
    "CommitStretch",
    "Commits",
    "MinuteColumns",
    "RecordPositions",
    "RunColumns",
    "Runs",
    "number_stretches",
    "reduce_to_runs",
]

MINUTE_MS = 60_000
#: Differences of times within this many milliseconds of 1970 fit into int64.
_NEAR_MS = 1 << 60
#: Time that the kernel saves a commit over sorting, in steps of the interpreter (`kernels`).
_STEPS_SAVED = 2
#: Committed offsets are clipped to this distance from 0, so that sums of differences fit into
#: int64; a larger offset is damage.
_LARGEST_OFFSET = (1 << 61) - 1
#: Steps of the interpreter for folding one run.
_STEPS = 60

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Commits:
    """Offset commits of consumer groups that took effect, as columns in log order.

    A transactional commit takes effect when its transaction is committed.

    Attributes:
        pair: index of the commit's (group, topic) pair.
        partition: partition number within the topic.
        log_partition, log_offset: the log position at which it takes effect.
        time_ms: the time at which it takes effect.
        offset: the committed offset.
        real: False for a tombstone, whose ``offset`` has no meaning.
        transactional: whether it was part of a transaction.
        stretch: number that is equal for commits between the same two records of the group
            (`number_stretches`); None without such records.
        series: number of its (group, topic, partition); None if they are not numbered.
    """

    pair: Int32Array
    partition: Int32Array
    log_partition: Int64Array
    log_offset: Int64Array
    time_ms: Int64Array
    offset: Int64Array
    real: BoolArray
    transactional: BoolArray
    stretch: Int64Array | None = None
    series: Int32Array | None = None


@dataclass(frozen=True, eq=False)
class Runs:
    """Summaries of offset commits per partition and minute ("commit runs"), as columns.

    For example, a summary has the first and last offset and the number of commits. It ends early at
    a record of its consumer group, so that no rebalance lies within it.
    """

    # ``pair`` and ``stretch`` are as in `Commits`. ``first_offset`` and ``last_offset`` are only
    # valid if ``commits`` is at least 1, ``largest_gap_ms`` if it is at least 2. ``advanced_ms`` is
    # the time of the last commit with a higher offset than the commit before, or `NEVER`.
    pair: Int32Array
    partition: Int32Array
    minute_ms: Int64Array
    log_partition: Int64Array
    log_offset: Int64Array
    last_partition: Int64Array
    last_log_offset: Int64Array
    first_ms: Int64Array
    last_ms: Int64Array
    first_offset: Int64Array
    last_offset: Int64Array
    commits: Int64Array
    transactional: Int64Array
    tombstones: Int64Array
    largest_gap_ms: Int64Array
    advanced_ms: Int64Array
    stretch: Int64Array


class RecordPositions(NamedTuple):
    """Consumer group and log position of n records, as one int64 array of length n per field.

    The records are offset commits or group records, whose order in the log is compared.
    """

    group: Int64Array
    partition: Int64Array
    offset: Int64Array


# --- commits to runs --------------------------------------------------------------------------


def number_stretches(commits: RecordPositions, records: RecordPositions) -> Int64Array:
    """Number each group's offset commits by rebalance: equal numbers mean no rebalance in between.

    The group writes a record to the log at each rebalance. Commits between the same two records get
    equal numbers.

    Args:
        commits: the positions at which commits take effect.
        records: the positions of group records.

    >>> at, zero = np.array([4, 6, 9]), np.zeros(3, np.int64)
    >>> record = RecordPositions(zero[:1], zero[:1], np.array([7]))
    >>> number_stretches(RecordPositions(zero, zero, at), record).tolist()
    [0, 0, 1]
    """
    count = len(commits.group)
    if reduce_stretches.is_worth_compiling(work=count * _STEPS_SAVED):
        return _number_by_kernel(commits, records)
    both = [np.concatenate(pair).astype(np.int64) for pair in zip(commits, records, strict=True)]
    order = np.lexsort(both[::-1])
    is_record = order >= count
    before = np.cumsum(is_record)
    out = np.empty(count, np.int64)
    out[order[~is_record]] = before[~is_record]
    return out


def _number_by_kernel(commits: RecordPositions, records: RecordPositions) -> Int64Array:
    """Number offset commits by rebalance with compiled code, as `number_stretches` does.

    Commits with equal numbers have no rebalance between them.
    """
    # The kernel needs log order, so commits in another order are sorted first.
    count, (group, partition, offset) = len(commits.group), commits
    later = partition[1:] > partition[:-1]
    if not np.all(later | ((partition[1:] == partition[:-1]) & (offset[1:] >= offset[:-1]))):
        order = np.lexsort((offset, partition))
        in_order = _number_by_kernel(RecordPositions(*(c[order] for c in commits)), records)
        out = np.empty(count, np.int64)
        out[order] = in_order
        return out
    order = np.lexsort(records[:0:-1])
    sorted_records = [np.ascontiguousarray(column[order], np.int64) for column in records]
    groups = max((int(g.max()) for g in (group, sorted_records[0]) if len(g)), default=0) + 1
    out = np.empty(count, np.int64)
    columns = [np.ascontiguousarray(column, np.int64) for column in commits]
    newest = np.zeros(groups, np.int64)
    reduce_stretches(*columns, *sorted_records, newest, out, work=count * _STEPS_SAVED)
    return out


def reduce_to_runs(commit_columns: Commits) -> Runs:
    """Summarise offset commits per consumer group, partition and minute ("commit runs").

    Most log records are commits, so this makes further processing cheap. A summary ends early at a
    record of the group (where `Commits.stretch` changes).

    >>> few, many = np.zeros(2, np.int32), np.zeros(2, np.int64)
    >>> yes = np.ones(2, bool)
    >>> times, offsets = np.array([1_000, 4_000]), np.array([5, 9])
    >>> run = reduce_to_runs(Commits(few, few, many, np.arange(2), times, offsets, yes, ~yes))
    >>> run.commits.tolist(), run.last_offset.tolist(), run.largest_gap_ms.tolist()
    ([2], [9], [3000])
    """
    # A damaged record may have any 64 bits as its time: the first minute has no whole beginning.
    earliest = np.iinfo(np.int64).min + MINUTE_MS
    minute = np.maximum(commit_columns.time_ms, earliest) // MINUTE_MS * MINUTE_MS
    numbers = _compute_run_columns(commit_columns, minute)
    first, last, early, late = (numbers[name] for name in ("first", "last", "early", "late"))
    advanced = numbers["advanced"]
    advanced_ms = np.where(advanced >= 0, commit_columns.time_ms[np.maximum(advanced, 0)], NEVER)
    return Runs(
        commit_columns.pair[first], commit_columns.partition[first], minute[first],
        commit_columns.log_partition[first], commit_columns.log_offset[first],
        commit_columns.log_partition[last], commit_columns.log_offset[last],
        commit_columns.time_ms[early], commit_columns.time_ms[late], commit_columns.offset[early],
        commit_columns.offset[late],
        numbers["commits"], numbers["transactional"], numbers["tombstones"], numbers["gap"],
        advanced_ms,
        np.zeros(len(first), np.int64)
        if commit_columns.stretch is None
        else commit_columns.stretch[first],
    )  # fmt: skip


def _compute_run_columns(commit_columns: Commits, minute: Int64Array) -> dict[str, Int64Array]:
    """Compute statistics of offset commits per partition and minute, such as their number.

    Compiled code does it if there are enough commits.

    Args:
        commit_columns: the commits.
        minute: start of each commit's minute (ms).

    Returns:
        A dict from each name in `commit_kernels.NUMBERS` to its column.
    """
    count = len(commit_columns.time_ms)
    is_near = count == 0 or (
        commit_columns.time_ms.max() <= _NEAR_MS and commit_columns.time_ms.min() >= -_NEAR_MS
    )
    if (
        commit_columns.series is None
        or not is_near
        or not reduce_commits.is_worth_compiling(work=count * _STEPS_SAVED)
    ):
        return _compute_run_columns_by_sorting(commit_columns, minute)
    table = np.empty((len(NUMBERS), count), np.int64)
    newest = np.full(int(commit_columns.series.max(initial=-1)) + 1, -1, np.int64)
    made = reduce_commits(
        np.ascontiguousarray(commit_columns.series), minute,
        np.zeros(count, np.int64) if commit_columns.stretch is None else commit_columns.stretch,
        np.ascontiguousarray(commit_columns.time_ms), np.ascontiguousarray(commit_columns.offset),
        np.where(commit_columns.real, 1 + 2 * commit_columns.transactional, 0).astype(np.uint8),
        newest, table,
        work=count * _STEPS_SAVED,
    )  # fmt: skip
    if made < 0:  # clocks that jump too often for the kernel
        return _compute_run_columns_by_sorting(commit_columns, minute)
    return {name: table[i, :made] for i, name in enumerate(NUMBERS)}


def _compute_run_columns_by_sorting(
    commit_columns: Commits, minute: Int64Array
) -> dict[str, Int64Array]:
    """Compute statistics of offset commits per partition and minute by sorting with NumPy.

    It is used if timestamps jump too often for the compiled code, and by tests as the reference.
    """
    cut = (minute,) if commit_columns.stretch is None else (minute, commit_columns.stretch)
    order = np.lexsort(
        (*cut, commit_columns.partition, commit_columns.pair)
    )  # stable: log order within a run
    keys = [key[order] for key in (commit_columns.pair, commit_columns.partition, *cut)]
    is_new = np.ones(len(order), bool)
    is_new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    start = np.flatnonzero(is_new)
    first, last = order[start], order[np.append(start[1:], len(order))[: len(start)] - 1]
    real, time_ms = commit_columns.real[order], commit_columns.time_ms[order]
    commits = _count(real, start)
    first_real, last_real = _find_first_and_last(real, start)
    return {
        "first": first,
        "last": last,
        "early": np.where(commits > 0, order[first_real], first),
        "late": np.where(commits > 0, order[last_real], last),
        "commits": commits,
        "transactional": _count(real & commit_columns.transactional[order], start),
        "tombstones": _count(~real, start),
        "gap": _compute_largest_gaps(time_ms, real, np.cumsum(is_new) - 1, len(start)),
        "advanced": _find_last_advances(commit_columns, order, np.cumsum(is_new) - 1, len(start)),
    }


def _count(flags: BoolArray, start: Int64Array) -> Int64Array:
    sums: Int64Array = np.add.reduceat(flags.astype(np.int64), start) if len(start) else start
    return sums


def _find_first_and_last(real: BoolArray, start: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the indices of the first and the last offset commit in each block of rows.

    A block has the commits and tombstones of one partition and minute.

    Args:
        real: whether each row is a commit; False for tombstones (deleted offsets).
        start: index at which each block of rows begins.
    """
    # Both results are 0 for a run that has only tombstones.
    if not len(start):
        return start, start
    row = np.arange(len(real))
    first = np.minimum.reduceat(np.where(real, row, len(real)), start)
    last = np.maximum.reduceat(np.where(real, row, -1), start)
    return np.where(last >= 0, first, 0), np.maximum(last, 0)


def _compute_largest_gaps(
    time_ms: Int64Array, real: BoolArray, run: Int64Array, count: int
) -> Int64Array:
    """Return the longest time (ms) between two successive offset commits in each block of rows.

    A block has the commits of one partition and minute. Its result is 0 for fewer than two commits.

    Args:
        time_ms: time of each commit or tombstone.
        real: False for tombstones, which are ignored.
        run: number of the block to which each row belongs.
        count: number of blocks.
    """
    when, run_of = time_ms[real], run[real]
    is_same = run_of[1:] == run_of[:-1]
    gaps = np.zeros(count, np.int64)
    # A negative difference is one of clocks, not a wait.
    np.maximum.at(gaps, run_of[1:][is_same], np.diff(when)[is_same])
    return gaps


def _find_last_advances(
    source: Commits, order: Int64Array, run: Int64Array, count: int
) -> Int64Array:
    """Find the last commit in each block of rows whose offset is higher than the one before it.

    A block has one partition's offset commits in one minute. The result is the commit's index, -1
    for none.

    Args:
        source: the commits.
        order: indices of the commits, sorted by block (int64[n]).
        run: number of the block of each sorted commit (int64[n]).
        count: number of blocks.
    """
    rows = np.flatnonzero(source.real[order])
    run_of, offset = run[rows], source.offset[order][rows]
    rises = (run_of[1:] == run_of[:-1]) & (offset[1:] > offset[:-1])
    last = np.full(count, -1, np.int64)
    np.maximum.at(last, run_of[1:][rises], rows[1:][rises])
    if not len(order):
        return last
    return np.where(last >= 0, order[np.maximum(last, 0)], -1)


# --- runs to minutes and stretches ------------------------------------------------------------


class CommitStretch(NamedTuple):
    """Summary of a partition's offset commits between two successive records of its group.

    A long interval is divided into several summaries.

    Attributes:
        topic: the partition's topic.
        partition: the partition number.
        commits: number of commits, without tombstones.
        first_ms, first_offset, last_ms, last_offset: time and offset of the first and last commit;
            valid only if there are ``commits``.
        waited_ms: sum of the intervals between commits.
        waits: number of the intervals between commits.
        forgotten: whether a tombstone precedes the first commit.
        forgets: whether a tombstone follows the last commit.
        latest_ms: the highest time of the last commit of a run.
        progress: sum of the steps by which offsets advanced; a step back counts as 0.
        advanced_ms: time of the last commit with a higher offset than the commit before; None if no
            commit but the first one can have advanced.
    """

    topic: str
    partition: int
    commits: int = 0
    first_ms: int = 0
    last_ms: int = 0
    first_offset: int = 0
    last_offset: int = 0
    waited_ms: int = 0
    waits: int = 0
    forgotten: bool = False
    forgets: bool = False
    latest_ms: int = 0
    progress: int = 0
    advanced_ms: int | None = None


@dataclass(frozen=True)
class RunColumns:
    """Summaries of one consumer group's offset commits per partition and minute, as columns.

    A summary is called a run here. It ends early at a group record, so that no rebalance lies
    within it.

    Attributes:
        topics: the distinct topic names.
        topic: index of each run into ``topics`` (int64[n]).
        partition: partition number within the topic (int64[n]).
        positions: log partition and offset of the first commit of each run (int64[2, n]).
        table: the fields `RUN` of each run (int64[len(`RUN`), n]); ``series`` is not filled in yet.
    """

    topics: Sequence[str]
    topic: Int64Array
    partition: Int64Array
    positions: Int64Array
    table: Int64Array

    def __len__(self) -> int:
        return len(self.topic)

    def column_of_runs(self, name: str) -> Int64Array:
        """Return one column of the summaries of offset commits, with one value per summary.

        For example, column ``commits`` has the number of commits of each summary. `RUN` lists the
        names.
        """
        column: Int64Array = self.table[RUN.index(name)]
        return column


@dataclass(frozen=True)
class MinuteColumns:
    """Statistics of offset commits per partition and minute, such as the number of commits.

    Each column of ``table`` is one minute of a partition; its rows are the fields `MINUTE`. The
    first row is an index into ``series``, a list of (topic, partition) pairs.
    """

    table: Int64Array
    series: Sequence[tuple[str, int]]

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def column_of_minutes(self, name: str) -> Int64Array:
        """Return one column of the offset commit statistics, with one value per partition and
        minute.

        For example, column ``commits`` has the number of commits. `MINUTE` lists the names.
        """
        column: Int64Array = self.table[MINUTE.index(name)]
        return column


class CommitFolder:
    """Aggregator of a consumer group's offset commits, per minute and between two rebalances.

    Call `add_runs` with summaries of commits in log order, then `finish_minutes`. Memory does not
    grow with the length of the history.

    >>> zero, run = np.zeros(1, np.int64), (0, 0, 0, 59_000, 59_000, 7, 7, 1, 0, 0, -1, NEVER)
    >>> runs = RunColumns(["t"], zero, zero, np.zeros((2, 1), np.int64), np.array([run]).T)
    >>> folder = CommitFolder()
    >>> stretches, minutes = folder.add_runs(runs)
    >>> [(s.topic, s.commits) for _, s in stretches], len(minutes), len(folder.finish_minutes())
    ([('t', 1)], 0, 1)
    """

    def __init__(self) -> None:
        self._series: dict[tuple[str, int], int] = {}
        self._state = np.empty((STATE_ROWS, 0), np.int64)

    def export_state(self) -> tuple[Any, ...]:
        """Return the offset commit statistics of incomplete minutes as values that can be stored.

        `restore_state` takes these values.
        """
        return list(self._series), self._state.tobytes()

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the offset commit statistics of incomplete minutes from the values of
        `export_state`.

        Later commits may then still be added to these minutes.
        """
        series, numbers = state
        self._series = {key: number for number, key in enumerate(series)}
        self._state = np.frombuffer(numbers, np.int64).reshape(STATE_ROWS, len(series)).copy()

    def add_runs(self, runs: RunColumns) -> tuple[list[tuple[int, CommitStretch]], MinuteColumns]:
        """Add the consumer group's next summaries of offset commits; return the completed
        statistics.

        Returns:
            A list of pairs (number, summary of one partition's commits between two group records),
            sorted; and the statistics of complete minutes.
        """
        table = np.ascontiguousarray(runs.table)
        table[0] = self._number_partitions(runs)
        out = np.empty((len(MINUTE), len(runs)), np.int64)
        made = fold_minutes(table, self._state, out, work=len(runs) * _STEPS)
        return list(self._stretches(runs, table)), self._minutes(out, made)

    def finish_minutes(self) -> MinuteColumns:
        """Return the offset commit statistics of the last minutes, which were incomplete until the
        log ended.

        Call it after the last `add_runs`.
        """
        out = np.empty((len(MINUTE), 3 * len(self._series)), np.int64)
        made = close_minutes(self._state, out, work=len(self._series) * _STEPS)
        return self._minutes(out, made)

    def _minutes(self, out: Int64Array, made: int) -> MinuteColumns:
        return MinuteColumns(out[:, :made], list(self._series))

    def _number_partitions(self, runs: RunColumns) -> Int64Array:
        """Return, for each summary of offset commits, an integer that identifies its partition.

        New partitions get the next integers. ``runs`` are the summaries.
        """
        pair = (runs.topic << 32) | (runs.partition & 0xFFFFFFFF)
        _, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
        number = np.empty(len(first), np.int64)
        order = np.argsort(first)  # by first appearance: numbers do not depend on batches
        topics, partitions = runs.topic[first[order]], runs.partition[first[order]]
        for i, topic, partition in zip(
            order.tolist(), topics.tolist(), partitions.tolist(), strict=True
        ):
            key = runs.topics[topic], partition
            number[i] = self._series.setdefault(key, len(self._series))
        more = len(self._series) - self._state.shape[1]
        if more:
            new = np.zeros((STATE_ROWS, more), np.int64)
            new[5:27:9] = EMPTY
            self._state = np.ascontiguousarray(np.concatenate([self._state, new], 1))
        out: Int64Array = number[inverse.ravel()]
        return out

    def _stretches(
        self, runs: RunColumns, table: Int64Array
    ) -> Iterator[tuple[int, CommitStretch]]:
        near = table.copy()
        np.clip(near[5:7], -_LARGEST_OFFSET, _LARGEST_OFFSET, out=near[5:7])
        out = np.empty((len(STRETCH), len(runs)), np.int64)
        newest = np.full(len(self._series), -1, np.int64)
        made = fold_stretches(near, newest, out, work=len(runs) * _STEPS)
        names, (first, last) = list(self._series), out[2:4, :made]
        ends = table[3][first], table[4][last], table[5][first], table[6][last]
        columns = (*out[:3, :made], out[10, :made], *ends, *out[4:10, :made], out[11, :made])
        for series, stretch, first_run, *cells in zip(*(c.tolist() for c in columns), strict=True):
            if cells[-1] == NEVER:
                cells[-1] = None
            # A stretch of tombstones only has no first run.
            yield stretch, CommitStretch(*names[series], *(cells if first_run >= 0 else ()))
