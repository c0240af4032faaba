"""The cost of consuming across racks: the number of mismatches, or money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.model.index import Int32Array
from partage.model.problem import Problem

__all__ = ["RackCosts", "RackTable"]

#: Racks per bit mask: sums of their powers of two are exact in a float64.
_CHUNK = 50


@dataclass(frozen=True, slots=True, eq=False)
class RackTable:
    """Cost of reading each partition for each consumer, if reading from other racks is expensive.

    It is a compact matrix with equal rows and columns stored once: partition ``p`` costs member
    ``m`` the value ``cost[profile[p], row[m]]``.

    Attributes:
        profile: int64[P], the partition's row in ``cost``; partitions with equal costs share one.
        row: int64[M], the consumer's column in ``cost``; -1 (the last one) without a rack.
        cost: int64[K, R + 1], cost for K kinds of partitions and R racks; the last column is zero.
    """

    profile: NDArray[np.int64]
    row: NDArray[np.int64]
    cost: NDArray[np.int64]

    def restricted_to(self, partition: Int32Array) -> RackTable:
        """Return a smaller copy that only has the rows (costs) of the given partitions.

        The values of other partitions have no meaning in the copy.

        Args:
            partition: int32[n], the partitions that some consumer may own.
        """
        used, number = np.unique(self.profile[partition], return_inverse=True)
        profile = np.zeros_like(self.profile)
        profile[partition] = number.reshape(-1)
        return RackTable(profile, self.row, self.cost[used])


@dataclass(frozen=True, slots=True, eq=False)
class RackCosts:
    """Rule for the cost of consuming a partition from another rack.

    Without ``prices``, each partition that a consumer reads from another rack costs 1. With them
    it costs the price per GB from the cheapest replica, times the partition's traffic, divided by
    ``unit`` and rounded. Consumers and replicas without a known rack cost nothing.

    Attributes:
        prices: price per GB by (rack of the member, rack of the replica); a missing pair costs 0
            within a rack, and the highest price otherwise.
        traffic: float[P], GB of each partition in the period; None for 1 each.
        unit: the price that is one unit of cost.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("x", ["t"], rack="a"), Member("y", ["t"])])
    >>> table = RackCosts().table(Problem(group, Cluster.from_topics({"t": [["a"], ["b"]]})))
    >>> table.cost[table.profile][:, table.row].tolist()
    [[0, 0], [1, 0]]
    """

    prices: Mapping[tuple[str, str], float] | None = None
    traffic: NDArray[np.float64] | None = None
    unit: float = 1.0

    def table(self, problem: Problem) -> RackTable:
        """Compute the cost of each partition for each consumer of a group.

        The cost depends on the consumer's rack and on the racks of the partition's replicas.
        ``problem`` is the consumer group and the cluster.
        """
        names = sorted({m.rack for m in problem.group if m.rack})
        number = {name: i for i, name in enumerate(names)}
        row = np.array([number[m.rack] if m.rack else -1 for m in problem.group], np.int64)
        profile, members = _rack_sets(problem)
        price = np.zeros((len(members), len(names) + 1))
        for k, racks in enumerate(members):
            replica_racks = [problem.cluster.rack_names[r] for r in racks]
            for i, member_rack in enumerate(names):
                prices = (self._price(member_rack, rack) for rack in replica_racks)
                price[k, i] = min(prices, default=0.0)
        if self.prices is None or self.traffic is None:
            return RackTable(profile, row, np.rint(price / self.unit).astype(np.int64))
        size, of_size = np.unique(self.traffic, return_inverse=True)
        both, of_both = np.unique(profile * len(size) + of_size, return_inverse=True)
        money = price[both // len(size)] * size[both % len(size), None]
        return RackTable(of_both.astype(np.int64), row, np.rint(money / self.unit).astype(np.int64))

    def _price(self, member_rack: str, replica_rack: str) -> float:
        if self.prices is None:
            return float(member_rack != replica_rack)
        highest = max(self.prices.values(), default=1.0)
        missing = 0.0 if member_rack == replica_rack else highest
        return self.prices.get((member_rack, replica_rack), missing)


def _rack_sets(problem: Problem) -> tuple[NDArray[np.int64], list[list[int]]]:
    """Group the partitions whose replicas are on the same set of racks.

    Such partitions have equal rack costs, so costs are computed once for each set.

    Returns:
        The number of each partition's set (int64[P]), and the racks of each set.
    """
    start, rack = problem.cluster.partition_racks
    count = len(start) - 1
    of = np.repeat(np.arange(count, dtype=np.int64), np.diff(start))
    number = np.zeros(count, np.int64)
    for first in range(0, len(problem.cluster.rack_names), _CHUNK):
        in_chunk = (rack >= first) & (rack < first + _CHUNK)
        bits = np.ldexp(1.0, rack[in_chunk] - first)
        mask = np.bincount(of[in_chunk], bits, minlength=count).astype(np.int64)
        low = _rank_of_distinct(mask)
        number = (
            low if first == 0 else _rank_of_distinct(number * (int(low.max(initial=0)) + 1) + low)
        )
    sets: list[list[int]] = [[] for _ in range(int(number.max(initial=-1)) + 1)]
    example = np.zeros(len(sets), np.int64)
    example[number] = np.arange(count)
    for k, p in enumerate(example.tolist()):
        sets[k] = rack[start[p] : start[p + 1]].tolist()
    return number, sets


def _rank_of_distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    high = int(values.max(initial=0))
    if high < 1 << 22:
        present = np.zeros(high + 1, bool)
        present[values] = True
        return (np.cumsum(present) - 1)[values]
    ordered = np.sort(values)
    ordered = ordered[np.diff(ordered, prepend=-1) > 0]
    return np.searchsorted(ordered, values)
