"""Offset commits, reduced: they are 97 % of the records, and ride in no group's history.

A `CommitRun` stands for commits of one group and partition within one minute, in log order.
Workers make runs from slices of the log, by the column (`reduce_to_runs`); runs of the same key are
merged in log order (`merged`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.history.commit_kernels import (
    EMPTY,
    MINUTE,
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
from partage.history.records import LogPosition

__all__ = [
    "MINUTE_MS",
    "CommitFolder",
    "CommitRun",
    "Commits",
    "MinuteColumns",
    "RecordPositions",
    "RunColumns",
    "Runs",
    "Stretch",
    "merged",
    "number_stretches",
    "reduce_to_runs",
]

MINUTE_MS = 60_000


#: Between two damaged times there may be more than a column of int64 holds.
_LONGEST_WAIT = (1 << 63) - 1


#: Times within this many milliseconds of 1970 differ by less than int64 holds.
_NEAR_MS = 1 << 60


#: What sorting takes longer for a commit than the kernel, as steps of the interpreter (`kernels`).
_STEPS_SAVED = 2


Int32Array = NDArray[np.int32]


Int64Array = NDArray[np.int64]


BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Commits:
    """Commits that took effect, in log order; one element a commit.

    Attributes:
        pair: a number for its group and topic.
        partition: of the topic.
        log_partition, log_offset: the place from which on it counts.
        time_ms: the time from which on it counts.
        offset: the committed offset.
        real: False for a tombstone (the offset is forgotten, and ``offset`` has no meaning).
        transactional: whether it was part of a transaction.
        stretch: a number that is another one behind each record of its group (see
            `number_stretches`); None for no such records.
        series: a small number that it shares with the commits of its pair and partition alone;
            None if nobody has numbered them.
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
    """One element a run, as in `CommitRun`; ``pair`` and ``stretch`` as in `Commits`.

    ``first_offset`` and ``last_offset`` mean something where there are ``commits``,
    ``largest_gap_ms`` where there are two of them.
    """

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
    stretch: Int64Array


class RecordPositions(NamedTuple):
    """Records by their group's number and their place; int64[n] each, in any order."""

    group: Int64Array
    log_partition: Int64Array
    log_offset: Int64Array


def number_stretches(commits: RecordPositions, records: RecordPositions) -> Int64Array:
    """int64[n]: numbers of commits, equal where no record of their group stands between them.

    Runs that are cut by it can be put in order with the group's records: no run has commits on
    both sides of a rebalance.

    Args:
        commits: the places from which on commits count.
        records: those of group records.

    >>> at, zero = np.array([4, 6, 9]), np.zeros(3, np.int64)
    >>> one = RecordPositions(zero[:1], zero[:1], np.array([7]))
    >>> number_stretches(RecordPositions(zero, zero, at), one).tolist()
    [0, 0, 1]
    """
    count = len(commits.group)
    if reduce_stretches.pays(work=count * _STEPS_SAVED):
        return _stretches_in_one_pass(commits, records)
    both = [np.concatenate(pair).astype(np.int64) for pair in zip(commits, records, strict=True)]
    order = np.lexsort(both[::-1])
    is_record = order >= count
    before = np.cumsum(is_record)
    out = np.empty(count, np.int64)
    out[order[~is_record]] = before[~is_record]
    return out


def _stretches_in_one_pass(commits: RecordPositions, records: RecordPositions) -> Int64Array:
    """The same of commits in log order, as those of a log are. (Else they are sorted first.)"""
    count, (group, partition, offset) = len(commits.group), commits
    later = partition[1:] > partition[:-1]
    if not np.all(later | ((partition[1:] == partition[:-1]) & (offset[1:] >= offset[:-1]))):
        order = np.lexsort((offset, partition))
        sorted_ = _stretches_in_one_pass(RecordPositions(*(c[order] for c in commits)), records)
        out = np.empty(count, np.int64)
        out[order] = sorted_
        return out
    order = np.lexsort(records[:0:-1])
    others = [np.ascontiguousarray(column[order], np.int64) for column in records]
    many = max((int(g.max()) for g in (group, others[0]) if len(g)), default=0) + 1
    out = np.empty(count, np.int64)
    mine = [np.ascontiguousarray(column, np.int64) for column in commits]
    newest = np.zeros(many, np.int64)
    reduce_stretches(*mine, *others, newest, out, work=count * _STEPS_SAVED)
    return out


def reduce_to_runs(of: Commits) -> Runs:
    """Commits in log order, reduced to one run for each group, topic, partition and minute.

    Where they have a ``stretch``, minutes are cut at it.

    >>> few, many = np.zeros(2, np.int32), np.zeros(2, np.int64)
    >>> yes = np.ones(2, bool)
    >>> times, offsets = np.array([1_000, 4_000]), np.array([5, 9])
    >>> run = reduce_to_runs(Commits(few, few, many, np.arange(2), times, offsets, yes, ~yes))
    >>> run.commits.tolist(), run.last_offset.tolist(), run.largest_gap_ms.tolist()
    ([2], [9], [3000])
    """
    # A damaged record may have any 64 bits for its time: the first minute has no whole beginning.
    earliest = np.iinfo(np.int64).min + MINUTE_MS
    minute = np.maximum(of.time_ms, earliest) // MINUTE_MS * MINUTE_MS
    found = _numbers(of, minute)
    first, last, early, late = found["first"], found["last"], found["early"], found["late"]
    return Runs(
        of.pair[first], of.partition[first], minute[first],
        of.log_partition[first], of.log_offset[first],
        of.log_partition[last], of.log_offset[last],
        of.time_ms[early], of.time_ms[late], of.offset[early], of.offset[late],
        found["commits"], found["transactional"], found["tombstones"], found["gap"],
        np.zeros(len(first), np.int64) if of.stretch is None else of.stretch[first],
    )  # fmt: skip


def _numbers(of: Commits, minute: Int64Array) -> dict[str, Int64Array]:
    """`run_kernel.NUMBERS` of each run: rows of its ends, counts, the longest wait."""
    count = len(of.time_ms)
    near = count == 0 or (of.time_ms.max() <= _NEAR_MS and of.time_ms.min() >= -_NEAR_MS)
    if of.series is None or not near or not reduce_commits.pays(work=count * _STEPS_SAVED):
        return _by_sorting(of, minute)
    table = np.empty((len(NUMBERS), count), np.int64)
    newest = np.full(int(of.series.max(initial=-1)) + 1, -1, np.int64)
    made = reduce_commits(
        np.ascontiguousarray(of.series), minute,
        np.zeros(count, np.int64) if of.stretch is None else of.stretch,
        np.ascontiguousarray(of.time_ms), _flags(of.real), _flags(of.transactional), newest, table,
        work=count * _STEPS_SAVED,
    )  # fmt: skip
    if made < 0:
        return _by_sorting(of, minute)
    return {name: table[i, :made] for i, name in enumerate(NUMBERS)}


def _flags(values: BoolArray) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).view(np.uint8)


def _by_sorting(of: Commits, minute: Int64Array) -> dict[str, Int64Array]:
    """The same with NumPy."""
    cut = (minute,) if of.stretch is None else (minute, of.stretch)
    order = np.lexsort((*cut, of.partition, of.pair))  # stable: log order within a run
    keys = [key[order] for key in (of.pair, of.partition, *cut)]
    new = np.ones(len(order), bool)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    start = np.flatnonzero(new)
    first, last = order[start], order[np.append(start[1:], len(order))[: len(start)] - 1]
    real, time_ms = of.real[order], of.time_ms[order]
    commits = _sums(real, start)
    first_real, last_real = _ends(real, start)
    early = np.where(commits > 0, order[first_real], first)
    late = np.where(commits > 0, order[last_real], last)
    return {
        "first": first, "last": last, "early": early, "late": late, "commits": commits,
        "transactional": _sums(real & of.transactional[order], start),
        "tombstones": _sums(~real, start),
        "gap": _largest_gaps(time_ms, real, np.cumsum(new) - 1, len(start)),
    }  # fmt: skip


def _sums(flags: BoolArray, start: Int64Array) -> Int64Array:
    """How many of each run's elements have a flag; runs begin at ``start``."""
    sums: Int64Array = np.add.reduceat(flags.astype(np.int64), start) if len(start) else start
    return sums


def _ends(real: BoolArray, start: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The first and the last commit of each run that has one; 0 where there are tombstones only."""
    if not len(start):
        return start, start
    place = np.arange(len(real))
    first = np.minimum.reduceat(np.where(real, place, len(real)), start)
    last = np.maximum.reduceat(np.where(real, place, -1), start)
    return np.where(last >= 0, first, 0), np.maximum(last, 0)


def _largest_gaps(time_ms: Int64Array, real: BoolArray, run: Int64Array, count: int) -> Int64Array:
    """The longest wait between one commit and the next of its run; nobody waits for tombstones."""
    when, mine = time_ms[real], run[real]
    same = mine[1:] == mine[:-1]
    gaps = np.zeros(count, np.int64)
    np.maximum.at(gaps, mine[1:][same], np.diff(when)[same])  # below 0: clocks differ, no wait
    return gaps


class CommitRun(NamedTuple):
    """Commits of one group and partition within one minute; see table ``commit_rates``."""

    group: str
    topic: str
    partition: int
    minute_ms: int
    first_place: LogPosition
    last_place: LogPosition
    first_ms: int
    last_ms: int
    first_offset: int | None
    last_offset: int | None
    commits: int
    transactional: int
    tombstones: int
    largest_gap_ms: int | None

    @classmethod
    def of(cls, group: str, topic: str, partition: int, time_ms: int, offset: int) -> CommitRun:
        """One commit as a run of its own, at no particular place in the log."""
        return cls(
            group, topic, partition, time_ms // MINUTE_MS * MINUTE_MS, LogPosition(0, 0),
            LogPosition(0, 0),
            time_ms, time_ms, offset, offset, 1, 0, 0, None,
        )  # fmt: skip

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Group, topic, partition, minute."""
        return self[:4]


class Stretch(NamedTuple):
    """Commits of one partition between two records of its group, or some of them.

    What rebalances need to know of commits; runs are folded into it (`history.folding`).

    Attributes:
        first_ms, first_offset: of the first commit; without ``commits`` of no meaning, like the
            last ones.
        waited_ms, waits: time between neighbouring commits, added up, and how many there were.
        forgotten, forgets: whether a tombstone came before the first commit, or after the last.
        latest_ms: the highest time of the last commit of a run.
        progress: how far offsets went on; where they went back, nothing was worked off.
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

    @classmethod
    def of(cls, run: CommitRun) -> Stretch:
        """One run by itself."""
        if run.first_offset is None or run.last_offset is None or not run.commits:
            return cls(run.topic, run.partition)
        return cls(
            run.topic, run.partition, run.commits, run.first_ms, run.last_ms, run.first_offset,
            run.last_offset, max(0, run.last_ms - run.first_ms), run.commits - 1, False, False,
            run.last_ms, max(0, run.last_offset - run.first_offset),
        )  # fmt: skip


def _joined(a: CommitRun, b: CommitRun) -> CommitRun:
    """Two runs of one key, the second one later in the log; tombstones wait for nobody."""
    gap = max(0, b.first_ms - a.last_ms) if a.commits and b.commits else None
    gaps = [g for g in (a.largest_gap_ms, b.largest_gap_ms, gap) if g is not None]
    early = a if a.commits or not b.commits else b
    late = b if b.commits or not a.commits else a
    return CommitRun(
        *a.key,
        a.first_place,
        max(a.last_place, b.last_place),
        early.first_ms,
        late.last_ms,
        early.first_offset,
        late.last_offset,
        a.commits + b.commits,
        a.transactional + b.transactional,
        a.tombstones + b.tombstones,
        max(gaps, default=None),
    )


def merged(ordered: Iterable[CommitRun]) -> Iterator[CommitRun]:
    """Runs ordered by (group, topic, partition, minute, first place): one for each minute.

    The wait since the minute before belongs to the minute in which it ends.

    >>> a = CommitRun(
    ...     "g", "t", 0, 0, LogPosition(0, 1), LogPosition(0, 1), 5, 5, 1, 1, 1, 0, 0, None)
    >>> b = a._replace(minute_ms=60_000, first_ms=60_005, last_ms=60_005)
    >>> [r.largest_gap_ms for r in merged([a, a._replace(first_ms=9, last_ms=9), b])]
    [4, 59996]
    """
    held: CommitRun | None = None
    before: CommitRun | None = None
    for run in ordered:
        if held is not None and run.key == held.key:
            held = _joined(held, run)
            continue
        if held is not None:
            yield _waited(before, held)
        before, held = held, run
    if held is not None:
        yield _waited(before, held)


def _waited(before: CommitRun | None, run: CommitRun) -> CommitRun:
    """A whole minute, with the wait since the minute before."""
    if before is None or before[:3] != run[:3] or not (before.commits and run.commits):
        return run
    wait = min(max(0, run.first_ms - before.last_ms), _LONGEST_WAIT)
    known = run.largest_gap_ms
    return run if known is not None and known >= wait else run._replace(largest_gap_ms=wait)


#: Offsets farther from 0 are damage; sums of what is within them do not overflow.
_FARTHEST = (1 << 61) - 1


#: Steps of the interpreter for a run.
_STEPS = 60


@dataclass(frozen=True)
class RunColumns:
    """Some runs of one group in log order.

    Attributes:
        topics: names.
        topic: int64[n]: a place in ``topics``.
        partition: int64[n].
        positions: int64[2, n]: log partition and offset of the first commit of each.
        table: int64[len(`RUN`), n]: see there; ``series`` is not filled in yet.
    """

    topics: Sequence[str]
    topic: Int64Array
    partition: Int64Array
    positions: Int64Array
    table: Int64Array

    def __len__(self) -> int:
        return len(self.topic)

    @classmethod
    def of(cls, runs: Sequence[CommitRun]) -> RunColumns:
        """The columns of runs that are objects; no record stands between them."""
        names = list(dict.fromkeys(run.topic for run in runs))
        rows = [
            (
                0, 0, r.minute_ms, r.first_ms, r.last_ms, r.first_offset or 0, r.last_offset or 0,
                r.commits, r.transactional, r.tombstones,
                -1 if r.largest_gap_ms is None else r.largest_gap_ms,
            )
            for r in runs
        ]  # fmt: skip
        return cls(
            names,
            np.array([names.index(run.topic) for run in runs], np.int64),
            np.array([run.partition for run in runs], np.int64),
            np.array([(r.first_place.partition, r.first_place.offset) for r in runs], np.int64)
            .reshape(-1, 2).T,
            np.array(rows, np.int64).reshape(-1, len(RUN)).T,
        )  # fmt: skip

    def column(self, name: str) -> Int64Array:
        """A row of ``table``, by its name."""
        column: Int64Array = self.table[RUN.index(name)]
        return column


@dataclass(frozen=True)
class MinuteColumns:
    """Whole minutes: int64[len(`MINUTE`), n], and topic and partition of each series."""

    table: Int64Array
    series: Sequence[tuple[str, int]]

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def column(self, name: str) -> Int64Array:
        """A row of ``table``, by its name."""
        column: Int64Array = self.table[MINUTE.index(name)]
        return column


class CommitFolder:
    """The commits of one group: feed its runs in log order, then `finish`.

    >>> folding = CommitFolder()
    >>> stretches, minutes = folding.feed(RunColumns.of([CommitRun.of("g", "t", 0, 59_000, 7)]))
    >>> [(s.topic, s.commits) for _, s in stretches], len(minutes), len(folding.finish())
    ([('t', 1)], 0, 1)
    """

    def __init__(self) -> None:
        self._series: dict[tuple[str, int], int] = {}
        self._state = np.empty((STATE_ROWS, 0), np.int64)

    def feed(self, runs: RunColumns) -> tuple[list[tuple[int, Stretch]], MinuteColumns]:
        """Stretches with their numbers, in order, and the minutes that are over by now."""
        table = np.ascontiguousarray(runs.table)
        table[0] = self._numbers(runs)
        out = np.empty((len(MINUTE), len(runs)), np.int64)
        made = fold_minutes(table, self._state, out, work=len(runs) * _STEPS)
        return list(self._stretches(runs, table)), self._minutes(out, made)

    def finish(self) -> MinuteColumns:
        """The minutes that are still open."""
        out = np.empty((len(MINUTE), 3 * len(self._series)), np.int64)
        made = close_minutes(self._state, out, work=len(self._series) * _STEPS)
        return self._minutes(out, made)

    def _minutes(self, out: Int64Array, made: int) -> MinuteColumns:
        return MinuteColumns(out[:, :made], list(self._series))

    def _numbers(self, runs: RunColumns) -> Int64Array:
        """Each run's series, those that are new with an empty state."""
        pair = (runs.topic << 32) | (runs.partition & 0xFFFFFFFF)
        _, first, mine = np.unique(pair, return_index=True, return_inverse=True)
        number = np.empty(len(first), np.int64)
        order = np.argsort(first)  # by first appearance: numbers do not hang on batches
        names = zip(runs.topic[first[order]].tolist(), runs.partition[first[order]].tolist(),
                    strict=True)  # fmt: skip
        for place, (topic, partition) in zip(order.tolist(), names, strict=True):
            key = runs.topics[topic], partition
            number[place] = self._series.setdefault(key, len(self._series))
        more = len(self._series) - self._state.shape[1]
        if more:
            new = np.zeros((STATE_ROWS, more), np.int64)
            new[5:27:9] = EMPTY
            self._state = np.ascontiguousarray(np.concatenate([self._state, new], 1))
        out: Int64Array = number[mine.ravel()]
        return out

    def _stretches(self, runs: RunColumns, table: Int64Array) -> Iterator[tuple[int, Stretch]]:
        near = table.copy()
        np.clip(near[5:7], -_FARTHEST, _FARTHEST, out=near[5:7])
        out = np.empty((len(STRETCH), len(runs)), np.int64)
        newest = np.full(len(self._series), -1, np.int64)
        made = fold_stretches(near, newest, out, work=len(runs) * _STEPS)
        names, (first, last) = list(self._series), out[2:4, :made]
        ends = table[3][first], table[4][last], table[5][first], table[6][last]
        columns = (*out[:3, :made], out[10, :made], *ends, *out[4:10, :made])
        for series, stretch, there, *cells in zip(*(c.tolist() for c in columns), strict=True):
            # Of tombstones alone nothing else is known.
            yield stretch, Stretch(*names[series], *(cells if there >= 0 else ()))
