"""How much each partition brings: records a second, by the group's own commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from partage.history.commits import CommitRun, Stretch
from partage.model.index import Index

__all__ = [
    "FloatArray",
    "Rates",
    "Traffic",
    "Weights",
    "by_partition",
    "commit_rates",
    "weights_of",
]

#: float64[P], records a second of each partition of an index; None where nothing is known.
Weights: TypeAlias = NDArray[np.float64] | None
FloatArray: TypeAlias = NDArray[np.float64]

#: (topic, partition) -> records a second.
Rates: TypeAlias = Mapping[tuple[str, int], float]


@dataclass(slots=True)
class Traffic:
    """What one partition's commits add up to; its runs are to come in the log's order.

    Only progress counts: where offsets went back (a reset, a rewind) nothing was worked off.

    >>> traffic = Traffic()
    >>> for first_ms, last_ms, first, last in ((0, 4_000, 10, 30), (6_000, 10_000, 30, 60)):
    ...     traffic.add(first_ms, last_ms, first, last)
    >>> traffic.per_second
    5.0
    """

    first_ms: int | None = None
    last_ms: int = 0
    last_offset: int = 0
    records: int = 0

    def add(self, first_ms: int, last_ms: int, first_offset: int, last_offset: int) -> None:
        """One run of commits: times and offsets of its first and its last one."""
        if self.first_ms is None:
            self.first_ms = first_ms
        else:
            self.records += max(0, first_offset - self.last_offset)
        self.records += max(0, last_offset - first_offset)
        self.last_ms = max(self.last_ms, last_ms)
        self.last_offset = last_offset

    def stretch(self, found: Stretch) -> None:
        """Runs of commits that have been folded into one."""
        if found.commits:
            self.add(found.first_ms, found.latest_ms, found.first_offset, found.first_offset)
            self.records += found.progress
            self.last_offset = found.last_offset

    @property
    def per_second(self) -> float | None:
        """Records a second from the first commit to the last; None if there are not two."""
        if self.first_ms is None or self.last_ms <= self.first_ms:
            return None
        return self.records * 1_000 / (self.last_ms - self.first_ms)


def commit_rates(runs: Iterable[CommitRun]) -> dict[tuple[str, int], float]:
    """Records a second of each partition with at least two commits.

    Args:
        runs: of one group; of each partition in the log's order.
    """
    traffic: dict[tuple[str, int], Traffic] = {}
    for run in runs:
        if run.first_offset is not None and run.last_offset is not None:
            mine = traffic.setdefault((run.topic, run.partition), Traffic())
            mine.add(run.first_ms, run.last_ms, run.first_offset, run.last_offset)
    rates = {key: one.per_second for key, one in traffic.items()}
    return {key: rate for key, rate in rates.items() if rate is not None}


def weights_of(rates: Rates, index: Index) -> Weights:
    """Rates as weights of an index's partitions; a partition without commits weighs nothing.

    >>> weights_of({("t", 1): 2.5}, Index.of({"t": 2})).tolist()
    [0.0, 2.5]
    """
    return np.nan_to_num(by_partition(rates, index)) if rates else None


def by_partition(values: Mapping[tuple[str, int], float], index: Index) -> FloatArray:
    """float64[P]: a value for each partition, by its topic's name; NaN where there is none.

    >>> by_partition({("t", 1): 2.5}, Index.of({"t": 2})).tolist()
    [nan, 2.5]
    """
    out = np.full(index.partitions, np.nan)
    if values:
        numbers = index.number_of.tolist()
        for dense, topic in enumerate(index.topic_of.tolist()):
            out[dense] = values.get((index.topics[topic], numbers[dense]), np.nan)
    return out
