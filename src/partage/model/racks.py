"""What reading costs across racks: a mismatch, or money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.model.problem import Problem

__all__ = ["RackCosts", "RackTable"]

_CHUNK = 50  # racks that fit into the whole numbers of a float64


@dataclass(frozen=True, slots=True, eq=False)
class RackTable:
    """Costs by profile of a partition and rack of a member.

    Attributes:
        profile: int64[P]; partitions of one profile cost the same with every member.
        row: int64[M], the member's column in ``cost``; -1 (the last one) without a rack.
        cost: int64[K, R + 1], in units; the last column is zero.
    """

    profile: NDArray[np.int64]
    row: NDArray[np.int64]
    cost: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RackCosts:
    """What reading a partition costs a member, by their racks, in whole units.

    Without ``prices`` a partition costs 1 with a member on whose rack it has no replica.
    With them it costs the price per GB from its cheapest replica to the member, times the
    partition's traffic, over ``unit``, rounded. Members without rack, and partitions whose
    replicas are on no known rack, cost nothing.

    Attributes:
        prices: (rack of the member, rack of the replica) -> money per GB; a missing pair
            costs 0 within a rack, and the dearest price of all otherwise.
        traffic: float[P], GB of each partition in the time that matters; None for 1 each.
        unit: money of one unit.

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
        """Costs of a problem's partitions with its members."""
        names = sorted({m.rack for m in problem.group if m.rack})
        number = {name: i for i, name in enumerate(names)}
        row = np.array([number[m.rack] if m.rack else -1 for m in problem.group], np.int64)
        profile, members = _rack_sets(problem)
        price = np.zeros((len(members), len(names) + 1))
        for k, racks in enumerate(members):
            theirs = [problem.cluster.rack_names[r] for r in racks]
            for i, mine in enumerate(names):
                price[k, i] = min((self._price(mine, other) for other in theirs), default=0.0)
        if self.prices is None or self.traffic is None:
            return RackTable(profile, row, np.rint(price / self.unit).astype(np.int64))
        size, of_size = np.unique(self.traffic, return_inverse=True)
        both, of_both = np.unique(profile * len(size) + of_size, return_inverse=True)
        money = price[both // len(size)] * size[both % len(size), None]
        return RackTable(of_both.astype(np.int64), row, np.rint(money / self.unit).astype(np.int64))

    def _price(self, mine: str, theirs: str) -> float:
        if self.prices is None:
            return float(mine != theirs)
        dearest = max(self.prices.values(), default=1.0)
        return self.prices.get((mine, theirs), 0.0 if mine == theirs else dearest)


def _rack_sets(problem: Problem) -> tuple[NDArray[np.int64], list[list[int]]]:
    """For each partition the number of its set of racks, and these sets."""
    start, rack = problem.cluster.partition_racks
    count = len(start) - 1
    of = np.repeat(np.arange(count, dtype=np.int64), np.diff(start))
    number = np.zeros(count, np.int64)
    for first in range(0, len(problem.cluster.rack_names), _CHUNK):
        mine = (rack >= first) & (rack < first + _CHUNK)
        bits = np.ldexp(1.0, rack[mine] - first)
        mask = np.bincount(of[mine], bits, minlength=count).astype(np.int64)
        low = _numbered(mask)
        number = low if first == 0 else _numbered(number * (int(low.max(initial=0)) + 1) + low)
    sets: list[list[int]] = [[] for _ in range(int(number.max(initial=-1)) + 1)]
    example = np.zeros(len(sets), np.int64)
    example[number] = np.arange(count)
    for k, p in enumerate(example.tolist()):
        sets[k] = rack[start[p] : start[p + 1]].tolist()
    return number, sets


def _numbered(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each value's position among the distinct values."""
    high = int(values.max(initial=0))
    if high < 1 << 22:
        there = np.zeros(high + 1, bool)
        there[values] = True
        return (np.cumsum(there) - 1)[values]
    ordered = np.sort(values)
    ordered = ordered[np.diff(ordered, prepend=-1) > 0]
    return np.searchsorted(ordered, values)
