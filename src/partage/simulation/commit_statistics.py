"""Statistics of a group's offset commits: pauses around rebalances, and records per second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from partage.history.commits import CommitStretch
from partage.history.pauses import Pause
from partage.model.index import Index

__all__ = [
    "CommitRate",
    "CommitStatistics",
    "FloatArray",
    "Rates",
    "Weights",
    "rates_by_partition",
    "values_by_partition",
]

FloatArray: TypeAlias = NDArray[np.float64]
#: float64[P], records per second of each partition of an index; None where no rate is known.
Weights: TypeAlias = FloatArray | None
#: (topic, partition) -> records per second.
Rates: TypeAlias = Mapping[tuple[str, int], float]

#: (incarnation, generation).
_RebalanceKey: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class CommitStatistics:
    """Statistics of one consumer group's offset commits: pauses, consumption rates, commit
    intervals.

    Simulations use them to estimate the costs of a rebalance: how long partitions had no consumer,
    and how many records were read twice.

    Attributes:
        pauses: dict from (incarnation, generation) of a rebalance to the times without commits
            around it. An incarnation is one lifetime of a group id.
        rates: dict from (topic, partition) to records per second.
        intervals: dict from (topic, partition) to the usual time between two commits (ms).
    """

    pauses: Mapping[_RebalanceKey, tuple[Pause, ...]] = field(default_factory=dict)
    rates: Rates = field(default_factory=dict)
    intervals: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, pauses: Iterable[Pause] = (), rates: Rates | None = None) -> CommitStatistics:
        """Build a consumer group's commit statistics from its pauses and its consumption rates.

        A pause is a time around a rebalance in which one partition had no offset commits. ``rates``
        is a dict from (topic, partition) to records per second.

        >>> found = CommitStatistics.of([Pause(0, 4, "t", 1, 1_000, 4_000, 0, 500)])
        >>> list(found.pauses), dict(found.intervals)
        ([(0, 4)], {('t', 1): 500})
        """
        by_rebalance: dict[_RebalanceKey, list[Pause]] = {}
        intervals: dict[tuple[str, int], int] = {}
        for pause in pauses:
            by_rebalance.setdefault((pause.incarnation, pause.generation), []).append(pause)
            if pause.resolution_ms is not None:
                intervals[pause.topic, pause.partition] = pause.resolution_ms
        return cls({key: tuple(of) for key, of in by_rebalance.items()}, rates or {}, intervals)

    def pauses_of_rebalance(self, incarnation: int, generation: int) -> tuple[Pause, ...]:
        """Return the pauses in a consumer group's offset commits around one rebalance.

        There is one pause per partition. The result is empty if no partition has commits before and
        after the rebalance.

        Args:
            incarnation: number of the lifetime of the group id (a deleted group can be created
                again).
            generation: generation number of the rebalance.
        """
        return self.pauses.get((incarnation, generation), ())


@dataclass(slots=True)
class CommitRate:
    """Records per second that a group consumes of one partition, measured from its offset commits.

    Add commits in log order. If an offset goes back (the group was reset), that step counts as 0
    records.

    >>> rate = CommitRate()
    >>> for first_ms, last_ms, first, last in ((0, 4_000, 10, 30), (6_000, 10_000, 30, 60)):
    ...     rate.add_commits(first_ms, last_ms, first, last)
    >>> rate.records_per_second
    5.0
    """

    first_ms: int | None = None
    last_ms: int = 0
    last_offset: int = 0
    records: int = 0

    def add_commits(self, first_ms: int, last_ms: int, first_offset: int, last_offset: int) -> None:
        """Extend a partition's measured consumption rate by a series of successive offset commits.

        Only the first and the last commit of the series are needed.

        Args:
            first_ms: time of the first commit (ms since the epoch).
            last_ms: time of the last commit.
            first_offset: offset of the first commit.
            last_offset: offset of the last commit.
        """
        if self.first_ms is None:
            self.first_ms = first_ms
        else:
            self.records += max(0, first_offset - self.last_offset)
        self.records += max(0, last_offset - first_offset)
        self.last_ms = max(self.last_ms, last_ms)
        self.last_offset = last_offset

    def add_stretch(self, stretch: CommitStretch) -> None:
        """Extend a partition's measured consumption rate by a summary of successive offset commits.

        ``stretch`` has the times and offsets of the first and the last commit, and the number of
        consumed records. A summary of 0 commits changes nothing.
        """
        if stretch.commits:
            self.add_commits(
                stretch.first_ms, stretch.latest_ms, stretch.first_offset, stretch.first_offset
            )
            self.records += stretch.progress
            self.last_offset = stretch.last_offset

    @property
    def records_per_second(self) -> float | None:
        """Records per second that the group consumed between its first and last offset commit.

        It is None if no time passed between them.
        """
        if self.first_ms is None or self.last_ms <= self.first_ms:
            return None
        return self.records * 1_000 / (self.last_ms - self.first_ms)


def rates_by_partition(rates: Rates, index: Index) -> Weights:
    """Convert a dict of consumption rates to an array in records per second, by partition index.

    ``rates`` has keys (topic, partition), ``index`` numbers the partitions. A partition without a
    rate has 0.

    >>> rates_by_partition({("t", 1): 2.5}, Index.of({"t": 2})).tolist()
    [0.0, 2.5]
    """
    return np.nan_to_num(values_by_partition(rates, index)) if rates else None


def values_by_partition(values: Mapping[tuple[str, int], float], index: Index) -> FloatArray:
    """Convert a dict with keys (topic, partition) to an array by partition index.

    ``index`` numbers all partitions of the cluster. Partitions that are not in the dict have NaN.

    >>> values_by_partition({("t", 1): 2.5}, Index.of({"t": 2})).tolist()
    [nan, 2.5]
    """
    out = np.full(index.partitions, np.nan)
    if values:
        # A cluster has many more partitions than one group.
        by_topic: dict[str, list[int]] = {}
        for topic, number in values:
            by_topic.setdefault(topic, []).append(number)
        for dense, name in enumerate(index.topics):
            numbers = by_topic.get(name)
            if numbers is not None:
                at = index.locate_all(
                    np.full(len(numbers), dense, np.int32), np.array(numbers, np.int32)
                )
                found = [values[name, number] for number in numbers]
                out[at[at >= 0]] = np.array(found, float)[at >= 0]
    return out
