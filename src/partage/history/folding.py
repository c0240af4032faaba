"""Runs of one group's commits as they come: whole minutes, and one `Stretch` between two records.

Runs come by the column, in log order, some at a time; no run is an object. What is kept is one
column of numbers a partition, however long the history is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.history.commits import CommitRun, Stretch
from partage.history.fold_kernel import (
    EMPTY,
    MINUTE,
    RUN,
    STATE_ROWS,
    STRETCH,
    close_minutes,
    fold_minutes,
    fold_stretches,
)

__all__ = ["Folding", "MinuteColumns", "RunColumns"]

Int64Array = NDArray[np.int64]
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
        place: int64[2, n]: log partition and offset of the first commit of each.
        table: int64[len(`RUN`), n]: see there; ``series`` is not filled in yet.
    """

    topics: Sequence[str]
    topic: Int64Array
    partition: Int64Array
    place: Int64Array
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


class Folding:
    """The commits of one group: feed its runs in log order, then `finish`.

    >>> folding = Folding()
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
