"""State of the local search by weight: owners, loads, moves, and the gain of each candidate step.

The problem is scheduling on unrelated machines, which is NP-hard (Lenstra, Shmoys and Tardos,
1990). Items are the jobs, members the machines. Weights are integers in float64, so that sums are
exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.network import IntArray

__all__ = ["MOST_WORK", "ExchangeGains", "Items", "Members", "WeightedPlan"]

#: Candidate steps that one search may evaluate: about two seconds on one core.
MOST_WORK = 20_000_000

#: Fixed cost of one evaluation, in candidates.
_CALL_OVERHEAD = 1_500

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The partitions to assign, with their weights, previous owners and rack costs.

    An item is a partition, or several partitions that must have one owner. Items that the same
    members may own form a class. n is the number of items.

    Attributes:
        weight: float64[n], weight of each item (whole numbers).
        kind: int64[n], class of each item.
        open_groups: for each class, the groups of members that may own its items.
        cost: int64[profiles, columns], rack costs: for each set of equal items (profile) the cost
            with each group of members (`Members.column`).
        profile: int64[n], the row of each item in ``cost``.
        owned: int64[n], how many partitions of the item had an owner.
        homes: dict from item to a dict from previous owner (members ascending) to how many of these
            partitions it may keep.
    """

    weight: FloatArray
    kind: IntArray
    open_groups: list[list[int]]
    cost: IntArray
    profile: IntArray
    owned: IntArray
    homes: dict[int, dict[int, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The members that receive partitions, with their shares and capacities.

    Members of one group differ only in what they owned before.

    Attributes:
        group: int64[members], the group of each member, -1 for a member that may own nothing.
        column: the column of rack costs (`Items.cost`) of each group.
        speed: float64[members], the share of each member, above zero; capacity: float64[members],
            in units of weight, may be infinite.
        draining: bool[members], members of weight 0; None for no such member. They own only items
            that no other member may own, and owned items for which no move is left.
    """

    group: IntArray
    column: list[int]
    speed: FloatArray
    capacity: FloatArray
    draining: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeGains:
    """Changes of loads, rack cost and moves that candidate transfers or swaps would cause.

    Rack cost is the cost of reading from other racks. Negative values are improvements. Candidates
    are compared by the first attribute, on ties by the next.

    Attributes:
        over: change of the load beyond capacities.
        larger, smaller: change of the larger and of the smaller relative load of the two members.
        cost: change of the total rack cost.
        moves: change of the number of moved partitions.
        allowed: bool, whether the limit of moves permits the candidate.
    """

    over: FloatArray
    larger: FloatArray
    smaller: FloatArray
    cost: IntArray
    moves: IntArray
    allowed: NDArray[np.bool_]

    def best_exchange(self) -> int:
        """Return the index of the candidate exchange that improves the assignment most, or -1 for
        none.

        Each candidate is a transfer or a swap of partitions between members.
        """
        at = np.flatnonzero(self.allowed & (self.over <= 0))
        if not len(at):
            return -1
        found: list[float] = []
        for key in (self.over, self.larger, self.smaller, self.cost, self.moves):
            values = key[at]
            least = values.min()
            found.append(float(least))
            at = at[values == least]
        return int(at[0]) if tuple(found) < (0.0,) * 5 else -1


@dataclass(slots=True, eq=False)
class WeightedPlan:
    """An assignment of weighted partitions to members, which a local search changes in place.

    It keeps the loads and the number of moved partitions up to date. An item is a partition, or
    several that must have one owner.

    Attributes:
        items, members: the items to assign, and the members.
        most_moves: maximum number of moves; at least the number of moves that every plan needs,
            for example because a previous owner has left.
        tolerance: least decrease of a relative load that counts as a gain.
        owner: int64[n], member of each item, -1 for none yet.
        load: float64[members]; moves: owned partitions that are not with a previous owner.
        work: how many more candidate steps may be evaluated.
        open: bool[K, members], whether a member may receive items of a class.
        content: the items of each member.
        costly: whether rack costs differ, so that they matter.
    """

    items: Items
    members: Members
    most_moves: float = float("inf")
    tolerance: float = 0.0
    work: int = MOST_WORK
    moves: int = 0
    owner: IntArray = field(init=False)
    load: FloatArray = field(init=False)
    open: NDArray[np.bool_] = field(init=False)
    content: list[list[int]] = field(init=False)
    costly: bool = field(init=False)
    _claimant: IntArray = field(init=False)
    _claimed_count: IntArray = field(init=False)
    _column: IntArray = field(init=False)

    def __post_init__(self) -> None:
        items, members = self.items, self.members
        self.owner = np.full(len(items.weight), -1, np.int64)
        self.load = np.zeros(len(members.group))
        self.content = [[] for _ in members.group]
        by_group = np.zeros((len(items.open_groups), len(members.column) + 1), bool)
        for k, groups in enumerate(items.open_groups):
            by_group[k, groups] = True
        self.open = by_group[:, members.group]
        if members.draining is not None:
            others = (self.open & ~members.draining).any(axis=1)
            self.open[np.ix_(others, members.draining)] = False
        self._column = np.array([*members.column, 0], np.int64)[members.group]
        self.costly = bool((items.cost != items.cost[:1, :1]).any())
        deep = max((len(homes) for homes in items.homes.values()), default=0)
        self._claimant = np.full((len(items.weight), deep), -1, np.int64)
        self._claimed_count = np.zeros((len(items.weight), deep), np.int64)
        for i, homes in items.homes.items():
            self._claimant[i, : len(homes)] = list(homes)
            self._claimed_count[i, : len(homes)] = list(homes.values())

    def rack_cost(self, item: IntArray, member: IntArray) -> IntArray:
        """Return the rack cost of assigning partitions to members, one for each pair (int64).

        Rack costs make the plan prefer members that are close to the partitions' replicas.

        Args:
            item: indices of items (a partition, or several with one owner).
            member: the member of each item.
        """
        found: IntArray = self.items.cost[self.items.profile[item], self._column[member]]
        return found

    def count_moves(self, item: IntArray, member: IntArray | int) -> IntArray:
        """Return how many partitions would change their owner if items went to given members
        (int64).

        A partition that had no owner before is not counted.

        Args:
            item: indices of items (a partition, or several with one owner).
            member: the new member of each item, or one for all.
        """
        out: IntArray = self.items.owned[item]
        if not self._claimant.shape[1]:
            return np.broadcast_to(out, np.broadcast(item, member).shape)
        for h in range(self._claimant.shape[1]):
            out = out - (self._claimant[item, h] == member) * self._claimed_count[item, h]
        return out

    @property
    def relative_loads(self) -> FloatArray:
        """Load of each member divided by its share (float64[members]).

        Local search makes these values as even as possible.
        """
        out: FloatArray = self.load / self.members.speed
        return out

    def assign_item(self, item: int, member: int) -> None:
        """Assign a partition (or several that must have one owner) to a member.

        Args:
            item: index of the item, which has no owner yet.
            member: index of the member.
        """
        self.owner[item] = member
        self.load[member] += self.items.weight[item]
        self.content[member].append(item)

    def remove_item(self, item: int) -> None:
        """Take a partition (or several that must have one owner) away from its owner.

        ``item`` is the index of the item.
        """
        m = int(self.owner[item])
        self.owner[item] = -1
        self.load[m] -= self.items.weight[item]
        self.content[m].remove(item)

    def transfer_item(self, item: int, member: int) -> None:
        """Move a partition (or several that must have one owner) to another member.

        Args:
            item: index of the item.
            member: index of the new member.
        """
        homes = self.items.homes.get(item)
        if homes:
            self.moves += homes.get(int(self.owner[item]), 0) - homes.get(member, 0)
        self.remove_item(item)
        self.assign_item(item, member)

    def swap_owners(self, item: int, other_item: int) -> None:
        """Exchange the owners of two items: partitions, or sets of partitions that must have one
        owner.

        ``item`` and ``other_item`` are the indices of the items.
        """
        a, b = int(self.owner[item]), int(self.owner[other_item])
        self.transfer_item(item, b)
        self.transfer_item(other_item, a)

    def exchange_gains(
        self, item: IntArray, receiver: IntArray, returned: IntArray | None = None
    ) -> ExchangeGains:
        """Return how candidate transfers or swaps of partitions would change an assignment.

        The result has the changes of loads, rack cost and moves, one for each candidate.

        Args:
            item: index of the item (a partition, or several with one owner) of each candidate.
            receiver: index of the member that gets it.
            returned: index of the item that this member gives back in a swap; None for transfers.
        """
        self.work -= len(item) + _CALL_OVERHEAD
        members, a = self.members, self.owner[item]
        shift = self.items.weight[item]
        moves = self.count_moves(item, receiver) - self.count_moves(item, a)
        cost = (
            self.rack_cost(item, receiver) - self.rack_cost(item, a)
            if self.costly
            else np.zeros(len(item), np.int64)
        )
        if returned is not None:
            shift = shift - self.items.weight[returned]
            moves = moves + self.count_moves(returned, a) - self.count_moves(returned, receiver)
            if self.costly:
                cost = cost + self.rack_cost(returned, a) - self.rack_cost(returned, receiver)
        la, lb, ca, cb = (
            self.load[a],
            self.load[receiver],
            members.capacity[a],
            members.capacity[receiver],
        )
        over = np.maximum(la - shift - ca, 0) + np.maximum(lb + shift - cb, 0)
        over -= np.maximum(la - ca, 0) + np.maximum(lb - cb, 0)
        va, vb = members.speed[a], members.speed[receiver]
        was_a, was_b, now_a, now_b = la / va, lb / vb, (la - shift) / va, (lb + shift) / vb
        larger = np.maximum(now_a, now_b) - np.maximum(was_a, was_b)
        smaller = np.minimum(now_a, now_b) - np.minimum(was_a, was_b)
        if self.tolerance:
            # A load lowered by less than the tolerance is no gain; a raised load is a loss.
            larger = np.where((larger > 0) | (-larger > self.tolerance), larger, 0.0)
            smaller = np.where((smaller > 0) | (-smaller > self.tolerance), smaller, 0.0)
        allowed = (moves <= 0) | (self.moves + moves <= self.most_moves)
        return ExchangeGains(over, larger, smaller, cost, moves, allowed)

    def plan_score(self) -> tuple[object, ...]:
        """Return costs as a tuple by which assignments are compared; the lower tuple is better.

        Its elements, the most important first: partitions on members of weight 0 (which should own
        nothing), total load above the members' capacities, the members' loads from the largest to
        the smallest, rack cost, and moved partitions.
        """
        over = float(np.maximum(self.load - self.members.capacity, 0.0).sum())
        there = self.members.group >= 0
        relative = tuple(np.sort(self.relative_loads[there])[::-1].tolist())
        owned_by = self.rack_cost(np.arange(len(self.owner)), self.owner)
        return self.count_misplaced(), over, relative, int(owned_by.sum()), self.moves

    def count_misplaced(self) -> int:
        """Count the items on members of weight 0 that another member could own.

        An item is a partition, or several that must have one owner.
        """
        if self.members.draining is None or not len(self.owner):
            return 0
        return int(np.count_nonzero(~self.open[self.items.kind, self.owner]))
