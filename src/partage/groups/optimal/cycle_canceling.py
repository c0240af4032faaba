"""The most even spread of topics at fixed loads: convex-cost flow by cycle canceling.

The flow sends each partition to a member, over a node for the pair of topic and member:

    item -> (topic, member) -> member        one unit a partition
    item:  partitions of one topic with the same rack costs and claimants
    item -> (topic, member):  rack cost and move, far above all that follows
    (topic, member) -> member:  1, 3, 5, ... for the first, second, third unit: together n * n

A cycle of negative cost in the residual network is a cyclic exchange of partitions. It leaves all
loads as they are and lowers the cost. A flow without such a cycle has the least cost.

Source: M. Klein, "A Primal Method for Minimal Cost Flows", Management Science 14 (1967); cycles
are found by the method of Bellman and Ford.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.problem import CanonicalProblem, Int64Array, PartitionClasses, compact
from partage.model.index import Int32Array

__all__ = ["spread_exactly"]

#: Arcs of the largest network, and arcs that all searches visit at most: a tenth of a second.
_MOST_ARCS, _MOST_WORK = 100_000, 5_000_000
#: Costs of a path from here on would overflow int64.
_MOST_COST = 1 << 61


def spread_exactly(
    canonical: CanonicalProblem, owner: Int32Array, classes: PartitionClasses, excess: int
) -> Int32Array:
    """Return owners with the same loads and the least sum of squared counts by topic and member.

    Rack cost and moves stay the least that these loads allow. Beyond the limits of size and work
    the result is no worse than ``owner``.

    Args:
        canonical: the problem, without former claims.
        owner: int32[n], place of each row's owner; a plan of least rack cost, then fewest moves.
        classes: classes of partitions and members, which have the rack costs.
        excess: the topic excess of ``owner``: half of what the squares can fall by, at most.
    """
    out: Int32Array = owner.copy()
    items = _Items.of(canonical, classes)
    if 2 * (items.count + len(canonical.rows.topics)) * canonical.members > _MOST_ARCS:
        return out
    network = _Residual(canonical, classes, items, out, excess)
    if network.dearest * network.nodes >= _MOST_COST:
        return out
    work = 0
    while work <= _MOST_WORK:
        cycles, visited = network.negative_cycles()
        work += visited
        if not cycles:
            break
        for cycle in cycles:
            network.cancel(cycle)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class _Items:
    """Sets of interchangeable rows: the same topic, rack costs and claimants.

    Attributes:
        of_row: int64[n], the item of each row.
        first: int64[I], the first row of each item.
        keeps: bool[I, M], whether a member claims the item's rows.
        owned: bool[I], whether any member claims them.
    """

    of_row: Int64Array
    first: Int64Array
    keeps: NDArray[np.bool_]
    owned: NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Number of items."""
        return len(self.first)

    @classmethod
    def of(cls, canonical: CanonicalProblem, classes: PartitionClasses) -> _Items:
        """Group the rows of a problem."""
        claims, members = canonical.claims, canonical.members
        claimants = claims.keeper.astype(np.int64) + 1
        sets: dict[tuple[int, ...], int] = {}
        starts = zip(claims.start[:-1].tolist(), claims.start[1:].tolist(), strict=True)
        for row, (begin, end) in zip(claims.contested.tolist(), starts, strict=True):
            several = tuple(claims.keepers[begin:end].tolist())
            claimants[row] = members + 1 + sets.setdefault(several, len(sets))
        classes_of_row, _ = compact(classes.of_row.astype(np.int64))
        wide = int(classes_of_row.max(initial=0)) + 1
        key = (canonical.topic.astype(np.int64) * wide + classes_of_row) * (
            members + 1 + len(sets)
        ) + claimants
        _, first, of_row = np.unique(key, return_index=True, return_inverse=True)
        keeps = np.zeros((len(first), members), bool)
        single = np.flatnonzero((claimants[first] > 0) & (claimants[first] <= members))
        keeps[single, claimants[first[single]] - 1] = True
        for several, number in sets.items():
            keeps[np.ix_(claimants[first] == members + 1 + number, several)] = True
        return cls(of_row.reshape(-1).astype(np.int64), first, keeps, claims.owned[first])


class _Residual:
    """The residual network of a plan, which `cancel` changes in place.

    Nodes are items, then pairs (topic times members plus member), then members.

    Attributes:
        owner: int32[n], the plan.
        placed: int64[I, M], how many rows of each item each member has.
        counts: int64[T, M], how many rows of each topic each member has.
        cost: int64[I, M], the cost of an item's row with a member.
        dearest: the largest of these costs, as a number without overflow.
        may: bool[I, M], whether the member subscribes to the item's topic.
    """

    def __init__(
        self, canonical: CanonicalProblem, classes: PartitionClasses, items: _Items,
        owner: Int32Array, excess: int,
    ) -> None:  # fmt: skip
        self.owner, self.items = owner, items
        members, topics = canonical.members, len(canonical.rows.topics)
        self.topic = canonical.topic[items.first].astype(np.int64)
        wants = np.zeros((topics, members), bool)
        for s, of_subscription in enumerate(canonical.topics_of):
            wants[np.ix_(of_subscription, np.flatnonzero(canonical.subscription == s))] = True
        self.may = wants[self.topic]
        self.placed: Int64Array = np.zeros((items.count, members), np.int64)
        np.add.at(self.placed, (items.of_row, owner), 1)
        self.counts: Int64Array = np.zeros((topics, members), np.int64)
        np.add.at(self.counts, (canonical.topic, owner), 1)
        column = np.where(classes.group >= 0, classes.column[classes.group], 0)
        rack = classes.cost[classes.profile[classes.of_row[items.first]]][:, column]
        moves = (items.owned[:, None] & ~items.keeps).astype(np.int64)
        # Rack cost outweighs all moves, and a move all squares.
        fewer_squares = 2 * excess + 1
        self.dearest = (int(rack.max(initial=0)) * (canonical.size + 1) + 1) * fewer_squares
        self.cost: Int64Array = (rack * (canonical.size + 1) + moves) * fewer_squares
        item, member = np.nonzero(self.may)
        self._item, self._member = item, member
        self._pair = items.count + self.topic[item] * members + member
        topic, at = np.nonzero(wants)
        self._topic, self._at = topic, at
        self._counted = items.count + topic * members + at
        self._sink = items.count + topics * members + at
        self.nodes = items.count + topics * members + members

    def negative_cycles(self) -> tuple[list[Int64Array], int]:
        """Return disjoint cycles of negative cost, as nodes in order, and the arcs visited."""
        tail, head, cost = self._arcs()
        distance = np.zeros(self.nodes, np.int64)
        parent = np.full(self.nodes, -1, np.int64)
        visited = 0
        for _ in range(self.nodes):
            visited += len(tail)
            reached = distance[tail] + cost
            nearest = distance.copy()
            np.minimum.at(nearest, head, reached)
            better = np.flatnonzero((reached < distance[head]) & (reached == nearest[head]))
            if not len(better):
                return [], visited
            parent[head[better]] = tail[better]
            distance = nearest
            cycles = _cycles_of(parent)
            if cycles:
                return cycles, visited
        return [], visited

    def _arcs(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return tail, head and cost of the arcs with capacity left."""
        item, member = self._item, self._member
        cost = self.cost[item, member]
        back = self.placed[item, member] > 0
        count = self.counts[self._topic, self._at]
        used = count > 0
        tail = [item, self._pair[back], self._counted, self._sink[used]]
        head = [self._pair, item[back], self._sink, self._counted[used]]
        each = [cost, -cost[back], 2 * count + 1, 1 - 2 * count[used]]
        return np.concatenate(tail), np.concatenate(head), np.concatenate(each)

    def cancel(self, cycle: Int64Array) -> None:
        """Exchange partitions along a cycle: each item on it goes from one member to the next."""
        members = self.placed.shape[1]
        for before, node, after in zip(
            np.roll(cycle, 1).tolist(), cycle.tolist(), np.roll(cycle, -1).tolist(), strict=True
        ):
            if node >= self.items.count:
                continue
            source = (before - self.items.count) % members
            target = (after - self.items.count) % members
            rows = np.flatnonzero((self.items.of_row == node) & (self.owner == source))
            self.owner[rows[-1]] = target
            self.placed[node, [source, target]] += (-1, 1)
            self.counts[self.topic[node], [source, target]] += (-1, 1)


def _cycles_of(parent: Int64Array) -> list[Int64Array]:
    """Return the cycles of a graph with one parent a node (-1 for none), along its arcs.

    >>> [cycle.tolist() for cycle in _cycles_of(np.array([2, 0, 1, 0, -1]))]
    [[0, 1, 2]]
    """
    nodes = len(parent)
    jump = np.append(np.where(parent < 0, nodes, parent), nodes)
    for _ in range(max(nodes, 2).bit_length()):
        jump = jump[jump]
    # After so many steps only nodes on cycles are reached.
    left = set(np.unique(jump[jump < nodes]).tolist())
    cycles = []
    while left:
        node = min(left)
        cycle = []
        while node in left:
            left.discard(node)
            cycle.append(node)
            node = int(parent[node])
        cycles.append(np.array(cycle[:1] + cycle[:0:-1], np.int64))
    return cycles
