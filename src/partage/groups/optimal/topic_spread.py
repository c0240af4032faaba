"""The last criterion of `optimal`: each topic spread evenly over its subscribers.

A row is a partition, a place a member, both in canonical order. A claimant is a member that owned a
partition. Partitions of one class have the same subscribers, weight and rack costs. If they do not
stay with a claimant, they can exchange their owners: loads, rack cost and moves do not change.

First, each such partition goes to a former claimant, else to the owner with the fewest partitions
of its topic. Then two partitions exchange owners as long as that makes a topic more even
(2-exchange local search). `spread_exactly` continues from there: by counts to the most even spread,
by weight among partitions of equal weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.optimal.problem import (
    CanonicalProblem,
    Int64Array,
    PartitionClasses,
    rank_values,
)
from partage.model.index import Int32Array

__all__ = ["spread_exactly", "spread_topics", "topic_excess"]

#: Limits that keep this step at milliseconds: pairs (topic, member) counted, and rows swapped.
_MOST_PAIRS, _MOST_ROWS = 1 << 20, 5_000
#: Exchanges of two partitions of one class.
_MOST_EXCHANGES = 2_000
#: Pairs of members that the search for exchanges compares: seconds.
_MOST_COMPARED = 1 << 20
#: Passes in which owned partitions change places with moved ones.
_MOST_PASSES = 3


def spread_topics(
    canonical: CanonicalProblem,
    owner: Int32Array,
    partition_weights: NDArray[np.float64] | None,
    class_of: Int64Array,
    classes: PartitionClasses | None = None,
) -> Int32Array:
    """Exchange owners of partitions so that each topic is spread more evenly over consumers.

    It is the last step of the optimal assignor. Loads, rack cost (of consuming from other racks)
    and the number of moves stay the same.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        owner: int32[n], the owner of each partition in a plan with optimal loads, rack cost and
            moves, as indices in canonical order.
        partition_weights: float64[n], weights of partitions; None for counts.
        class_of: int64[n], the class of each partition; those of a class have the same subscribers
            and rack costs.
        classes: classes of partitions and members; None for the local search alone.
    """
    if len(canonical.former_owners[0]):
        return _exchange_owners(
            canonical,
            _return_to_former_owners(canonical, owner, partition_weights, class_of),
            partition_weights,
            class_of,
        )
    before = topic_excess(canonical, owner)
    if not before or (canonical.current_claims.keeper == owner).all():
        return owner
    out = _exchange_owners(canonical, owner, partition_weights, class_of)
    after = topic_excess(canonical, out) or 0
    # A local search has exchanged the owners of two partitions at a time. `spread_exactly` now
    # finds the most even spread, if ``classes`` are given.
    best = out if after < before else owner
    if classes is None or not min(before, after):
        return best
    return spread_exactly(canonical, best, classes, min(before, after), partition_weights)


def _exchange_owners(
    canonical: CanonicalProblem,
    owner: Int32Array,
    partition_weights: NDArray[np.float64] | None,
    class_of: Int64Array,
) -> Int32Array:
    """Exchange the owners of pairs of partitions as long as topics become more evenly spread.

    It is a 2-exchange local search on the owner of each partition (int32[n]). If the problem is too
    large, ``owner`` is returned.
    """
    topics, members = len(canonical.rows.topics), canonical.member_count
    claims = canonical.current_claims
    stays = claims.keeper == owner
    if len(claims.contested):
        of = np.repeat(claims.contested, np.diff(claims.start))
        stays[of[claims.keepers == owner[of]]] = True
    loose = np.flatnonzero(~stays & (owner >= 0))
    if topics * members > _MOST_PAIRS or not 1 < len(loose) <= _MOST_ROWS:
        return owner
    before = topic_excess(canonical, owner) or 0
    counts = np.bincount(canonical.topic * members + owner, minlength=topics * members)
    counts = counts.reshape(topics, members)
    out: Int32Array = owner.copy()
    for _ in range(_MOST_PASSES):
        if not before or not _swap_between_topics(
            canonical, out, counts, partition_weights, class_of
        ):
            break
    loose = np.flatnonzero((claims.keeper != out) & ~stays & (out >= 0))
    key = class_of[loose]
    if partition_weights is not None:
        _, number = np.unique(partition_weights[loose], return_inverse=True)
        key = key * (int(number.max()) + 1) + number.reshape(-1)
    order = np.argsort(key, kind="stable")
    for rows in np.split(loose[order], np.flatnonzero(np.diff(key[order])) + 1):
        if len(rows) > 1:
            _reassign_class(canonical, out, counts, rows)
    return out


def _return_to_former_owners(
    canonical: CanonicalProblem,
    owner: Int32Array,
    partition_weights: NDArray[np.float64] | None,
    class_of: Int64Array,
) -> Int32Array:
    """Give partitions back to members that owned them longer ago, in exchange for equivalent ones.

    Such a member reports a partition with an older generation than another member. Loads and the
    number of moves do not change. Return the new owners.
    """
    keeper: Int32Array = canonical.current_claims.keeper
    out: Int32Array = owner.copy()
    same = np.ones(len(owner), bool)
    for row, place in zip(*(one.tolist() for one in canonical.former_owners), strict=True):
        newest = int(out[row])
        if newest < 0 or newest == place or keeper[row] != newest:
            continue
        if partition_weights is not None:
            same = partition_weights == partition_weights[row]
        given = np.flatnonzero(
            (keeper == newest) & (out == place) & (class_of == class_of[row]) & same
        )
        if len(given):
            out[given[-1]], out[row] = newest, place
    return out


def _swap_between_topics(
    canonical: CanonicalProblem,
    owner: Int32Array,
    counts: Int64Array,
    partition_weights: NDArray[np.float64] | None,
    class_of: Int64Array,
) -> bool:
    """Swap partitions of different topics between two members if topics are then spread more
    evenly.

    Return whether any were swapped. ``owner`` (int32[n]) and ``counts``, the number of partitions
    by topic and member (int64[T, M]), are changed in place.
    """
    keeper, topic = canonical.current_claims.keeper, canonical.topic
    # A partition that moved is swapped with one that stayed: the number of moves and each member's
    # number of partitions do not change.
    changed = False
    kept = np.flatnonzero((keeper == owner) & (owner >= 0))
    kept = kept[np.argsort(keeper[kept], kind="stable")]
    ends = np.searchsorted(keeper[kept], np.arange(canonical.member_count + 1))
    for q in np.flatnonzero((keeper >= 0) & (keeper != owner) & (owner >= 0)).tolist():
        n, m = int(keeper[q]), int(owner[q])
        mine = kept[ends[n] : ends[n + 1]]
        mine = mine[(class_of[mine] == class_of[q]) & (owner[mine] == n)]
        if partition_weights is not None:
            mine = mine[partition_weights[mine] == partition_weights[q]]
        if not len(mine):
            continue
        more = counts[:, n] - counts[:, m]
        r = int(mine[np.argmax(more[topic[mine]])])
        if more[topic[r]] - more[topic[q]] > 2:
            changed = True
            counts[topic[r], n] -= 1
            counts[topic[r], m] += 1
            counts[topic[q], m] -= 1
            counts[topic[q], n] += 1
            owner[q], owner[r] = n, m
    return changed


def _reassign_class(
    canonical: CanonicalProblem, owner: Int32Array, counts: Int64Array, partitions: Int64Array
) -> None:
    """Permute the owners of equivalent partitions so that topics are spread more evenly.

    Each member keeps its number of these partitions. ``owner`` (int32[n]) and ``counts``, the
    number of partitions by topic and member (int64[T, M]), are changed in place.
    """
    topic, mine = canonical.topic[partitions], owner[partitions]
    members, quota = np.unique(mine, return_counts=True)
    if len(members) < 2:
        return
    np.subtract.at(counts, (topic, mine), 1)
    at = {m: i for i, m in enumerate(members.tolist())}
    fixed: set[int] = set()
    for row, place in zip(*(one.tolist() for one in canonical.former_owners), strict=True):
        i = at.get(place, -1)
        if (
            i >= 0
            and quota[i]
            and row not in fixed
            and len(found := np.flatnonzero(partitions == row))
        ):
            fixed.add(row)
            owner[row] = place
            quota[i] -= 1
            counts[topic[found[0]], place] += 1
    free = np.array([r for r in partitions.tolist() if r not in fixed], np.int64)
    for row in free.tolist():
        t = canonical.topic[row]
        able = np.flatnonzero(quota)
        best = able[np.lexsort((-quota[able], counts[t, members[able]]))[0]]
        owner[row] = members[best]
        quota[best] -= 1
        counts[t, members[best]] += 1
    if len(np.unique(canonical.topic[free])) > 1:
        _swap_owners(canonical, owner, counts, free)


def _swap_owners(
    canonical: CanonicalProblem, owner: Int32Array, counts: Int64Array, partitions: Int64Array
) -> None:
    """Swap the owners of two partitions at a time, as long as topics are then spread more evenly.

    Each swap is the best of the pairs compared. ``owner`` (int32[n]) and ``counts``, the number of
    partitions by topic and member (int64[T, M]), are changed in place.
    """
    # Each swap must lower the sum of squared counts.
    topic = canonical.topic[partitions]
    compared = 0
    for _ in range(_MOST_EXCHANGES):
        if compared > _MOST_COMPARED:
            return
        mine = owner[partitions]
        members = np.unique(mine)
        best: tuple[int, int, int] | None = None
        for i, a in enumerate(members.tolist()):
            for b in members[i + 1 :].tolist():
                more = counts[:, a] - counts[:, b]
                of_a, of_b = np.flatnonzero(mine == a), np.flatnonzero(mine == b)
                x = of_a[np.argmax(more[topic[of_a]])]
                y = of_b[np.argmin(more[topic[of_b]])]
                gain = int(more[topic[x]] - more[topic[y]])
                compared += 1
                if topic[x] != topic[y] and gain > 2 and (best is None or gain > best[0]):
                    best = gain, int(x), int(y)
            if best is not None or compared > _MOST_COMPARED:
                break
        if best is None:
            return
        _, x, y = best
        a, b = owner[partitions[x]], owner[partitions[y]]
        counts[topic[x], a] -= 1
        counts[topic[x], b] += 1
        counts[topic[y], b] -= 1
        counts[topic[y], a] += 1
        owner[partitions[x]], owner[partitions[y]] = b, a


def topic_excess(canonical: CanonicalProblem, owner: Int32Array) -> int | None:
    """Return how unevenly an assignment spreads each topic over consumers; 0 is the best possible.

    It is 0 if the partitions of each topic are divided evenly among its subscribers. Precisely, it
    is half the difference between the sum of squared partition counts by (topic, member) and its
    minimum.

    Args:
        canonical: the problem, with members and partitions sorted independently of the join order.
        owner: int32[n], the owner of each partition.

    Returns:
        The excess, 0 for the most even spread; None if the problem is too large.
    """
    topics, members = len(canonical.rows.topics), canonical.member_count
    if topics * members > _MOST_PAIRS:
        return None
    given = owner >= 0
    counts = np.bincount(canonical.topic[given].astype(np.int64) * members + owner[given])
    return (int(np.dot(counts, counts)) - canonical.least_sum_of_squares) // 2


#: Arcs of the largest network, and arcs that all searches visit at most: a tenth of a second.
_MOST_ARCS, _MOST_WORK = 100_000, 5_000_000
#: Costs of a path from here on would overflow int64.
_MOST_COST = 1 << 61


def spread_exactly(
    canonical: CanonicalProblem,
    owner: Int32Array,
    classes: PartitionClasses,
    excess: int,
    partition_weights: NDArray[np.float64] | None = None,
) -> Int32Array:
    """Spread topics as evenly as possible, with the same loads, rack cost and number of moves.

    The measure is the sum of squared partition counts by topic and member. If the problem is too
    large or takes too long, the result is ``owner`` or a better plan.

    With weights, partitions of equal weight exchange owners, one weight after the other. The result
    is the most even spread of all plans in which each member has as many partitions of each weight,
    if all partitions of a topic weigh the same. Otherwise no exchange of partitions of one weight
    improves it.

    Algorithm: a convex-cost flow by cycle canceling. The flow sends each partition to a member,
    over a node for the pair of topic and member::

        item -> (topic, member) -> member        one unit a partition

        item:  partitions of one topic with the same rack costs and previous owners
        item -> (topic, member):  rack cost and move, far above all that follows
        (topic, member) -> member:  1, 3, 5, ... for the first, second, third unit: together n * n

    A cycle of negative cost in the residual network is a cyclic exchange of partitions. It leaves
    all loads as they are and lowers the cost. A flow without such a cycle has the least cost.
    Source: M. Klein, "A Primal Method for Minimal Cost Flows", Management Science 14 (1967); cycles
    are found by the method of Bellman and Ford.

    Args:
        canonical: the problem, without former claims.
        owner: int32[n], the owner of each partition in a plan of least rack cost, then fewest
            moves.
        classes: classes of partitions and members, which have the rack costs.
        excess: the topic excess of ``owner``: half of what the squares can fall by, at most.
        partition_weights: float64[n], weights of partitions; None for counts.
    """
    out: Int32Array = owner.copy()
    if partition_weights is None:
        _cancel_cycles(canonical, out, classes, excess, partitions=None, budget=_MOST_WORK)
        return out
    work, improved = _MOST_WORK, True
    while improved and work > 0:
        improved = False
        for rows in _partitions_of_equal_weight(canonical, out, partition_weights):
            before = out[rows]
            work -= canonical.partition_count
            work = _cancel_cycles(canonical, out, classes, excess, partitions=rows, budget=work)
            improved |= not np.array_equal(before, out[rows])
            if work <= 0:
                break
    return out


def _partitions_of_equal_weight(
    canonical: CanonicalProblem, owner: Int32Array, partition_weights: NDArray[np.float64]
) -> Iterator[Int64Array]:
    """Yield sets of partitions that have equal weight, so that they may swap owners.

    Such a swap does not change the members' loads. Sets in which no swap can improve anything are
    omitted.
    """
    _, number, count = np.unique(partition_weights, return_inverse=True, return_counts=True)
    number = number.reshape(-1)
    rows = np.flatnonzero(count[number] > 1)
    rows = rows[np.argsort(number[rows], kind="stable")]
    for alike in np.split(rows, np.flatnonzero(np.diff(number[rows])) + 1):
        topic, mine = canonical.topic[alike], owner[alike]
        if len(alike) < 2 or (topic == topic[0]).all() or (mine == mine[0]).all():
            continue
        # A useful set has several topics and several owners, and a partition that is not on its
        # previous owner.
        if (canonical.current_claims.keeper[alike] != mine).any():
            yield alike


def _cancel_cycles(
    canonical: CanonicalProblem,
    owner: Int32Array,
    classes: PartitionClasses,
    excess: int,
    *,
    partitions: Int64Array | None,
    budget: int,
) -> int:
    """Spread topics more evenly over members by cancelling negative cycles in a flow network.

    A cycle of negative cost is an exchange of partitions between members. When no such cycle is
    left, topics are spread as evenly as possible. ``owner`` (int32[n]) is changed in place, unless
    the network is too large. At most ``budget`` arcs of the network are visited; the remaining
    budget is returned.
    """
    items = _PartitionItems.of(canonical, classes, partitions)
    if 2 * (items.count + len(items.topics)) * canonical.member_count > _MOST_ARCS:
        return budget
    network = _ResidualNetwork(canonical, classes, items, owner, excess)
    if network.dearest * network.nodes >= _MOST_COST:
        return budget
    while budget >= 0:
        cycles, visited = network.negative_cycles()
        budget -= visited
        if not cycles:
            break
        for cycle in cycles:
            network.exchange_along_cycle(cycle)
    return budget


@dataclass(frozen=True, slots=True, eq=False)
class _PartitionItems:
    """Groups of equivalent partitions: same topic, same rack costs and same previous owners.

    Such a group, called an item, is one node of the flow network that spreads each topic over the
    members. A "row" is a partition's position in the order of topic name and partition number.

    Attributes:
        of_row: int64[n], the item of each row; -1 for rows that keep their owner.
        first: int64[I], the first row of each item.
        topics: int64[T], the topics of all items, as indices in canonical order.
        topic: int64[I], the topic of each item, as an index of ``topics``.
        claimant: int64[I], the member that may keep the item's partitions, -1 for none. Number
            M + i (for M members) stands for the set ``several[i]``.
        several: sets of members that may keep the same partitions.
        owned: bool[I], whether any member reports the item's partitions as owned.
    """

    of_row: Int64Array
    first: Int64Array
    topics: Int64Array
    topic: Int64Array
    claimant: Int64Array
    several: list[tuple[int, ...]]
    owned: NDArray[np.bool_]

    @property
    def count(self) -> int:
        # The number of sets.
        return len(self.first)

    @classmethod
    def of(
        cls, canonical: CanonicalProblem, classes: PartitionClasses, rows: Int64Array | None
    ) -> _PartitionItems:
        # ``rows`` are the rows of all items, None for every row.
        claims, members = canonical.current_claims, canonical.member_count
        claimants = claims.keeper.astype(np.int64) + 1
        sets: dict[tuple[int, ...], int] = {}
        starts = zip(claims.start[:-1].tolist(), claims.start[1:].tolist(), strict=True)
        for row, (begin, end) in zip(claims.contested.tolist(), starts, strict=True):
            several = tuple(claims.keepers[begin:end].tolist())
            claimants[row] = members + 1 + sets.setdefault(several, len(sets))
        classes_of_row, _ = rank_values(classes.of_row.astype(np.int64))
        wide = int(classes_of_row.max(initial=0)) + 1
        key = (canonical.topic.astype(np.int64) * wide + classes_of_row) * (
            members + 1 + len(sets)
        ) + claimants
        if rows is None:
            _, first, of_row = np.unique(key, return_index=True, return_inverse=True)
            of_row = of_row.reshape(-1).astype(np.int64)
            topics = np.arange(len(canonical.rows.topics), dtype=np.int64)
            topic = canonical.topic[first].astype(np.int64)
        else:
            _, first, item = np.unique(key[rows], return_index=True, return_inverse=True)
            first, of_row = rows[first], np.full(canonical.partition_count, -1, np.int64)
            of_row[rows] = item.reshape(-1)
            topics, topic = np.unique(canonical.topic[first], return_inverse=True)
            topics, topic = topics.astype(np.int64), topic.reshape(-1).astype(np.int64)
        return cls(
            of_row, first, topics, topic, claimants[first] - 1, list(sets), claims.owned[first]
        )

    def may_keep(self, members: int) -> NDArray[np.bool_]:
        """Return which members may keep the partitions of each item, as their previous owners
        (bool[I, M]).

        An item is a group of equivalent partitions of one topic. ``members`` is the number M of
        members.
        """
        out = np.zeros((self.count, members), bool)
        single = np.flatnonzero((self.claimant >= 0) & (self.claimant < members))
        out[single, self.claimant[single]] = True
        for number, several in enumerate(self.several):
            out[np.ix_(self.claimant == members + number, several)] = True
        return out


class _ResidualNetwork:
    """Residual network of the minimum-cost flow that spreads each topic evenly over members.

    A cycle of negative cost is an exchange of partitions that improves the assignment. The nodes
    are items (groups of equivalent partitions), then (topic, member) pairs, then members.

    Attributes:
        owner: int32[n], the plan: the owner of each partition; changed in place.
        placed: int64[I, M], how many partitions of each item each member has.
        counts: int64[T, M], how many partitions of each topic each member has.
        movable: int64[T, M], how many of these are partitions of items.
        cost: int64[I, M], the cost of an item's partition with a member.
        dearest: the largest of these costs, as a number without overflow.
        may: bool[I, M], whether each member subscribes to each item's topic.
    """

    def __init__(
        self, canonical: CanonicalProblem, classes: PartitionClasses, items: _PartitionItems,
        owner: Int32Array, excess: int,
    ) -> None:  # fmt: skip
        self.owner, self.items = owner, items
        members, topics = canonical.member_count, len(items.topics)
        self.topic = items.topic
        wants = np.zeros((len(canonical.rows.topics), members), bool)
        for s, of_subscription in enumerate(canonical.topics_of):
            wants[np.ix_(of_subscription, np.flatnonzero(canonical.subscription == s))] = True
        wants = wants[items.topics]
        self.may = wants[self.topic]
        rows = np.flatnonzero(items.of_row >= 0)
        self.placed: Int64Array = np.zeros((items.count, members), np.int64)
        np.add.at(self.placed, (items.of_row[rows], owner[rows]), 1)
        counts: Int64Array = np.zeros((len(canonical.rows.topics), members), np.int64)
        np.add.at(counts, (canonical.topic, owner), 1)
        self.counts = counts[items.topics]
        self.movable: Int64Array = np.zeros((topics, members), np.int64)
        np.add.at(self.movable, self.topic, self.placed)
        column = np.where(classes.group >= 0, classes.column[classes.group], 0)
        rack = classes.cost[classes.profile[classes.of_row[items.first]]][:, column]
        moves = (items.owned[:, None] & ~items.may_keep(members)).astype(np.int64)
        # Rack cost outweighs all moves, and a move all squares.
        fewer_squares = 2 * excess + 1
        self.dearest = (
            int(rack.max(initial=0)) * (canonical.partition_count + 1) + 1
        ) * fewer_squares
        self.cost: Int64Array = (rack * (canonical.partition_count + 1) + moves) * fewer_squares
        item, member = np.nonzero(self.may)
        self._item, self._member = item, member
        self._pair = items.count + self.topic[item] * members + member
        topic, at = np.nonzero(wants)
        self._topic, self._at = topic, at
        self._counted = items.count + topic * members + at
        self._sink = items.count + topics * members + at
        self.nodes = items.count + topics * members + members

    def negative_cycles(self) -> tuple[list[Int64Array], int]:
        """Find disjoint cycles of negative cost in the network by the Bellman-Ford algorithm.

        Each cycle is an exchange of partitions that improves the assignment. The result has the
        cycles, as arrays of nodes, and the number of arcs visited.
        """
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
            cycles = _find_cycles(parent)
            if cycles:
                return cycles, visited
        return [], visited

    def _arcs(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        item, member = self._item, self._member
        cost = self.cost[item, member]
        back = self.placed[item, member] > 0
        count = self.counts[self._topic, self._at]
        used = self.movable[self._topic, self._at] > 0
        tail = [item, self._pair[back], self._counted, self._sink[used]]
        head = [self._pair, item[back], self._sink, self._counted[used]]
        each = [cost, -cost[back], 2 * count + 1, 1 - 2 * count[used]]
        return np.concatenate(tail), np.concatenate(head), np.concatenate(each)

    def exchange_along_cycle(self, cycle: Int64Array) -> None:
        """Exchange partitions between members along a cycle of the flow network.

        ``cycle`` has the nodes in order, some of which are groups of equivalent partitions. For
        each such group on the cycle, one of its partitions goes to the next member.
        """
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
            self.movable[self.topic[node], [source, target]] += (-1, 1)


def _find_cycles(parent: Int64Array) -> list[Int64Array]:
    """Return the cycles of a graph in which each node has at most one parent (-1 for none).

    A cycle is an array of nodes in the direction of the arcs, from parent to child.

    >>> [cycle.tolist() for cycle in _find_cycles(np.array([2, 0, 1, 0, -1]))]
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
