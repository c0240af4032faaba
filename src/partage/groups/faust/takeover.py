"""The active member of each partition: a minimum-cost flow by successive shortest paths.

A *new* member had no active partition. A partition is *lost* if its active member left and a
standby of it is still in the group. The aims, each only as far as the previous ones allow:

1. no member is idle while there are as many partitions as members;
2. a lost partition goes to one of its standbys, or to a new member;
3. while partitions are lost, members other than new ones take over no other partition;
4. loads are as even as possible (the sum of their squares is minimal);
5. as few partitions as possible start cold, on a member without a copy;
6. as few partitions as possible move.

A new member's partitions start cold whichever they are. Lost partitions change their member
anyway, so new members get them first. Otherwise each of them would go to a standby, and that
member would give another partition to the new one. A failure may leave loads uneven. The next
rebalance without a failure evens them out, mostly to members that have a copy by then.

Algorithm (Ahuja, Magnanti, Orlin, "Network Flows", chapters 9.7 and 14.5). Every partition starts
at one of its cheapest members, so no cycle of moves lowers the cost. Then partitions are moved
along the shortest path of members, from one that should have less to one that should have more,
until no path lowers the cost. A penalty of one aim exceeds the sum of all later aims' penalties
on a path, because a path visits every member at most once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.groups.faust.inputs import PreviousCopies

__all__ = ["MAX_TABLE_SIZE", "assign_actives"]

Costs = NDArray[np.int64]

#: Maximum number of pairs of partition and member, or of two members, in one group of topics. A
#: table has 8 bytes for each. The penalties of tables of this size fit int64.
MAX_TABLE_SIZE = 16_000_000

#: The cost of a move that is not possible. It exceeds the cost of every path.
_INFINITE = 2**62


class _Penalties(NamedTuple):
    """The penalty of one unit of each aim, from the last aim to the first.

    A move costs 1, the unit.

    Attributes:
        cold_start: a partition on a member without a copy.
        load: one partition on a member, multiplied by the member's load.
        disturbed: a partition that a member takes over needlessly while partitions are lost.
        missed_standby: a lost partition on neither a standby nor a new member.
        idle: an idle member; 0 if there are fewer partitions than members.
    """

    cold_start: int
    load: int
    disturbed: int
    missed_standby: int
    idle: int

    @classmethod
    def of(cls, partitions: int, members: int) -> _Penalties:
        """Return penalties, each above the sum of all later ones on a path."""
        cold_start = members + 1
        load = (members + 1) * cold_start
        disturbed = (partitions + 1) * load
        missed_standby = (members + 1) * disturbed
        idle = (members + 1) * missed_standby if partitions >= members else 0
        return cls(cold_start, load, disturbed, missed_standby, idle)


def assign_actives(previous: PreviousCopies, members: int) -> list[int]:
    """Return the active member of each partition.

    Args:
        previous: the previous active members and standbys.
        members: number of members, at least one.

    Raises:
        ProblemTooLargeError: more than `MAX_TABLE_SIZE` pairs of partition and member.

    >>> assign_actives(PreviousCopies([0, -1, -1, 0], [[], [1], [0], []]), 2)
    [0, 1, 1, 0]
    """
    partitions = len(previous.owner)
    if max(partitions, members) * members > MAX_TABLE_SIZE:
        what = f"{partitions} partitions on {members} members: more than {MAX_TABLE_SIZE} pairs"
        raise ProblemTooLargeError(f"{what} to choose from")
    penalties = _Penalties.of(partitions, members)
    owner = _initial_owners(previous, members)
    costs = _assignment_costs(previous, members, penalties)
    _MinimumCostFlow(owner, costs, members, penalties).augment_until_optimal()
    return owner


def _initial_owners(previous: PreviousCopies, members: int) -> list[int]:
    """Return one of the cheapest members of each partition.

    It is the previous owner, else the standby with the lowest load, else any member with the
    lowest load.
    """
    owner = list(previous.owner)
    load = np.bincount([m for m in owner if m >= 0], minlength=members).tolist()
    for p, standbys in enumerate(previous.standbys):
        if owner[p] < 0 and standbys:
            owner[p] = min(standbys, key=load.__getitem__)
            load[owner[p]] += 1
    for p, member in enumerate(owner):
        if member < 0:
            owner[p] = min(range(members), key=load.__getitem__)
            load[owner[p]] += 1
    return owner


def _assignment_costs(previous: PreviousCopies, members: int, penalties: _Penalties) -> Costs:
    """Return int64[P, M]: the cost of each partition at each member, without its load."""
    pairs = list(zip(previous.owner, previous.standbys, strict=True))
    costs = np.full((len(previous.owner), members), penalties.cold_start + 1, np.int64)
    established = [m for m in set(previous.owner) if m >= 0]
    if any(owner < 0 and standbys for owner, standbys in pairs):
        costs[:, established] += penalties.disturbed
    for p, (owner, standbys) in enumerate(pairs):
        if owner >= 0:
            costs[p, standbys] -= penalties.cold_start
            costs[p, owner] = 0
        elif standbys:
            costs[p] = penalties.cold_start
            costs[p, established] = penalties.missed_standby + penalties.cold_start
            costs[p, standbys] = 0
        else:
            costs[p] = 0  # no member has a copy: all are equal
    return costs


class _MinimumCostFlow:
    """Moves of partitions along shortest paths of members; changes ``owner`` in place.

    Attributes:
        _owner: by partition its active member.
        _costs: int64[P, M], see `_assignment_costs`.
        _owned: by member its partitions.
        _move_cost: int64[M, M], the cost of the cheapest move of one partition from a member (row)
            to another one (column).
        _move_partition: int64[M, M], the partition of that move.
    """

    def __init__(self, owner: list[int], costs: Costs, members: int, penalties: _Penalties) -> None:
        self._owner = owner
        self._costs = costs
        self._members = members
        self._penalties = penalties
        self._owned: list[list[int]] = [[] for _ in range(members)]
        for p, member in enumerate(owner):
            self._owned[member].append(p)
        self._move_cost = np.full((members, members), _INFINITE, np.int64)
        self._move_partition = np.full((members, members), -1, np.int64)
        for member in range(members):
            self._update_moves(member)

    def augment_until_optimal(self) -> None:
        """Move partitions along the cheapest path while it lowers the cost."""
        while (path := self._shortest_path()) is not None:
            moves = [(int(self._move_partition[a, b]), a, b) for a, b in pairwise(path)]
            for p, source, target in moves:
                self._owned[source].remove(p)
                self._owned[target].append(p)
                self._owner[p] = target
            for member in path:
                self._update_moves(member)

    def _update_moves(self, member: int) -> None:
        """Recompute the cheapest moves from a member to each other one."""
        owned = self._owned[member]
        self._move_cost[member] = _INFINITE
        if owned:
            change = self._costs[owned] - self._costs[owned, member][:, None]
            best = change.argmin(axis=0)
            self._move_cost[member] = change[best, np.arange(self._members)]
            self._move_partition[member] = np.array(owned)[best]
        self._move_cost[member, member] = _INFINITE

    def _shortest_path(self) -> list[int] | None:
        """Return the members of the path that lowers the cost most; None if no path lowers it.

        Bellman-Ford algorithm: there is no negative cycle, so as many rounds as there are members
        suffice. The path's ends add the changes of their load costs.
        """
        load = np.array([len(owned) for owned in self._owned])
        distance = np.where(load > 0, -self._load_cost(load), _INFINITE)
        predecessor = np.full(self._members, -1, np.int64)
        for _ in range(self._members):
            is_blocked = (distance[:, None] >= _INFINITE) | (self._move_cost >= _INFINITE)
            through = np.where(is_blocked, _INFINITE, distance[:, None] + self._move_cost)
            best = through.argmin(axis=0)
            nearest = through[best, np.arange(self._members)]
            is_shorter = nearest < distance
            if not is_shorter.any():
                break
            distance = np.where(is_shorter, nearest, distance)
            predecessor = np.where(is_shorter, best, predecessor)
        is_unreachable = distance >= _INFINITE
        total = np.where(is_unreachable, _INFINITE, distance + self._load_cost(load + 1))
        end = int(total.argmin())
        if total[end] >= 0:
            return None
        path = [end]
        while predecessor[path[-1]] >= 0:
            path.append(int(predecessor[path[-1]]))
        return path[::-1]

    def _load_cost(self, load: Costs) -> Costs:
        """Return the cost of the last partition of members with given loads.

        The first partition of a member also saves the penalty of an idle member.
        """
        cost: Costs = load * self._penalties.load
        return cost - np.where(load == 1, self._penalties.idle, 0)
