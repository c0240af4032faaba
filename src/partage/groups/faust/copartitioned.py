"""The assignor that Faust's design document describes, as a strategy (``faust:copartitioned``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import ProblemTooLargeError
from partage.groups.faust.inputs import CopartitionedTopics, PreviousCopies, find_previous_owners
from partage.groups.faust.plan import CopartitionedAssignment
from partage.groups.faust.settings import OPTIONS, SEED_OPTION, SeededSettings
from partage.groups.faust.strategy import FaustStrategy
from partage.wire.faust import FaustMetadata

__all__ = ["MAX_TABLE_SIZE", "FaustCopartitioned", "SplitMix64", "assign_actives", "place_standbys"]


@dataclass(frozen=True, repr=False)
class FaustCopartitioned(FaustStrategy):
    """Faust assignor that spreads standbys so that a failed worker's load is shared evenly.

    It follows Faust's design document, not Faust's code. Topics with equal partition counts and the
    same subscribers are assigned together. For each such set of topics, the aims are, in order of
    priority:

    1. no member is idle while there are as many partitions as members;
    2. a partition whose active member left goes to one of its standbys, or to a new member (one
       that had no active partition);
    3. in a rebalance with such partitions, members that are not new take over no partition from
       another member;
    4. the members' loads are as even as possible;
    5. as few partitions as possible start cold (on a member without a copy), then as few as
       possible move;
    6. each partition has its standbys, none of them on its active member;
    7. the standbys of each member's partitions are spread over the other members, with counts
       that differ by at most one, so a failed member's load is shared evenly. The seed decides
       among equal placements;
    8. the totals of active and standby partitions are even, as far as exchanges within aim 7
       allow: a member with a smaller total takes over more;
    9. standbys stay where they are, as far as aims 7 and 8 allow.

    Aims 1 to 5 are reached exactly, by a minimum-cost flow. Aim 9 is not: standbys are kept first
    and evened out afterwards, which may move more of them than necessary. Groups of topics are
    independent of each other: the same member may get the additional partition of each.

    Members send the same user data as those of ``faust``, so one group can have both; the leader
    decides.

    Settings: those of ``faust``, and ``assignment.faust.seed``; the leader's values count. Cost:
    O(P M) memory for P partitions and M members, O(P M + moves M^2) steps on arrays.

    Source: "Partition Assignor" in Faust's documentation (its design), after KIP-54.

    >>> from partage.model import Cluster, Group, Member, Problem
    >>> group = Group([Member("a", ["s", "t"]), Member("b", ["s", "t"])])
    >>> FaustCopartitioned().assign(Problem(group, Cluster.from_topics({"s": 2, "t": 2}))).to_dict()
    {'a': {'s': [0], 't': [0]}, 'b': {'s': [1], 't': [1]}}
    """

    settings: SeededSettings = field(default_factory=SeededSettings)

    name = "faust:copartitioned"
    algorithm = "2"
    options = (*OPTIONS, SEED_OPTION)

    def assign_copartitioned(
        self, topics: CopartitionedTopics, metadata: Sequence[FaustMetadata]
    ) -> list[CopartitionedAssignment]:
        """Choose the active and standby members of each partition of copartitioned topics.

        A minimum-cost flow chooses the active members; standbys are then spread evenly. Partitions
        with the same number go to the same member.

        Args:
            topics: topics with equal partition counts and subscribers, which are assigned together.
            metadata: what each member reported about its previous partitions.

        Returns:
            The active and standby partitions of each subscriber.

        Raises:
            ProblemTooLargeError: more than 16 million pairs of partition and member.
        """
        members = len(topics.members)
        previous = find_previous_owners(topics, metadata)
        owner = assign_actives(previous, members)
        generator = self._random_generator(topics)
        standbys = place_standbys(previous, owner, members, self.settings.replicas, generator)
        assignments = [CopartitionedAssignment() for _ in range(members)]
        for p, (active, copies) in enumerate(zip(owner, standbys, strict=True)):
            assignments[active].actives.add(p)
            for member in copies:
                assignments[member].standbys.add(p)
        return assignments

    def _random_generator(self, topics: CopartitionedTopics) -> SplitMix64:
        # The partition count is part of the seed, so that topics with other counts do not change
        # the placement of standbys.
        return SplitMix64(self.settings.seed ^ SplitMix64(topics.partitions).next_number())


Costs = NDArray[np.int64]

#: Maximum number of pairs of partition and member, or of two members, in one group of topics. A
#: table has 8 bytes for each. The penalties of tables of this size fit int64.
MAX_TABLE_SIZE = 16_000_000

#: The cost of a move that is not possible. It exceeds the cost of every path.
_INFINITE = 2**62


class _Penalties(NamedTuple):
    """Costs of the minimum-cost flow that chooses the active member of each Faust partition.

    Each cost stands for one aim of the assignment, and outweighs all less important ones together.
    The least important one, moving a partition, costs 1.

    Attributes:
        cold_start: for a partition on a member without a copy.
        load: for one partition on a member, multiplied by the member's load.
        disturbed: for a partition that a member takes from another one while partitions of failed
            members must be reassigned; new members are exempt.
        missed_standby: for a partition of a failed member that goes neither to one of its standbys
            nor to a new member.
        idle: for an idle member; 0 if there are fewer partitions than members.
    """

    cold_start: int
    load: int
    disturbed: int
    missed_standby: int
    idle: int

    @classmethod
    def of(cls, partitions: int, members: int) -> _Penalties:
        # One unit of an aim outweighs everything that later aims can cost on a path.
        cold_start = members + 1
        load = (members + 1) * cold_start
        disturbed = (partitions + 1) * load
        missed_standby = (members + 1) * disturbed
        idle = (members + 1) * missed_standby if partitions >= members else 0
        return cls(cold_start, load, disturbed, missed_standby, idle)


def assign_actives(previous: PreviousCopies, members: int) -> list[int]:
    """Choose the active member of each partition by a minimum-cost flow, with six ranked aims.

    A *new* member had no active partition. A partition is *lost* if its active member left and a
    standby of it is still in the group. The aims, in order of priority:

    1. no member is idle while there are as many partitions as members;
    2. a lost partition goes to one of its standbys, or to a new member;
    3. while partitions are lost, members other than new ones take over no partition from a member
       that is there; one without any copy may go to each member;
    4. loads are as even as possible (the sum of their squares is minimal);
    5. as few partitions as possible start cold, on a member without a copy;
    6. as few partitions as possible move.

    Every partition of a new member starts cold, so new members get lost partitions first: these
    have to move anyway. A standby that took over a lost partition would have to release another one
    for the new member, which is two moves. After a failure loads may be uneven. The next rebalance
    without a failure evens them out; most of the moved partitions then have a copy at their new
    member.

    Algorithm: successive shortest paths (Ahuja, Magnanti, Orlin, "Network Flows", chapters 9.7 and
    14.5). Every partition starts at one of its cheapest members, so no cycle of moves lowers the
    cost. Then partitions are moved along the shortest path of members, from one that should have
    less to one that should have more, until no path lowers the cost. A penalty of one aim exceeds
    the sum of all later aims' penalties on a path, because a path visits every member at most once.

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
    """Choose a first active member of each partition; the minimum-cost flow then improves the
    choice.

    It is the previous active member. If that has left, it is the least loaded member with a
    standby, or else the least loaded member.
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
    """Return the cost of assigning each partition to each member (int64[partitions, members]).

    For example, a member without a copy of the partition costs more than a standby. `_Penalties`
    explains the costs; those of the members' loads are not included.
    """
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
    """Minimum-cost flow that moves Faust partitions between members until the total cost is least.

    The algorithm is that of successive shortest paths, see `assign_actives`.

    Attributes:
        _owner: the active member of each partition.
        _costs: int64[P, M], see `_assignment_costs`.
        _owned: the partitions of each member.
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
        """Move partitions along shortest augmenting paths until no path lowers the total cost.

        On a path of members, each member passes one partition to the next.
        """
        while (path := self._shortest_path()) is not None:
            moves = [(int(self._move_partition[a, b]), a, b) for a, b in pairwise(path)]
            for p, source, target in moves:
                self._owned[source].remove(p)
                self._owned[target].append(p)
                self._owner[p] = target
            for member in path:
                self._update_moves(member)

    def _update_moves(self, member: int) -> None:
        """Find the partition of ``member`` that is cheapest to move to each of the other members.

        The costs are stored for the search of shortest paths. This is done whenever the partitions
        of ``member`` have changed.
        """
        owned = self._owned[member]
        self._move_cost[member] = _INFINITE
        if owned:
            change = self._costs[owned] - self._costs[owned, member][:, None]
            best = change.argmin(axis=0)
            self._move_cost[member] = change[best, np.arange(self._members)]
            self._move_partition[member] = np.array(owned)[best]
        self._move_cost[member, member] = _INFINITE

    def _shortest_path(self) -> list[int] | None:
        """Return the path of members along which moving partitions lowers the total cost most.

        Each member on the path passes one partition to the next. The result is None if no path
        lowers the cost.
        """
        load = np.array([len(owned) for owned in self._owned])
        distance = np.where(load > 0, -self._load_cost(load), _INFINITE)
        predecessor = np.full(self._members, -1, np.int64)
        # Bellman-Ford algorithm: there is no negative cycle, so as many rounds as there are members
        # suffice.
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
        # Each further partition costs more than the last, so the sum grows with the square of the
        # load. The first one also saves the penalty of an idle member.
        cost: Costs = load * self._penalties.load
        return cost - np.where(load == 1, self._penalties.idle, 0)


_MASK = 2**64 - 1
#: SplitMix64's increment, 2**64 divided by the golden ratio.
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_Item = TypeVar("_Item")


class SplitMix64:
    """Seeded random generator that gives the same numbers on every machine and Python version.

    Placements of standbys use it, so that equal seeds give equal plans.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).

    >>> generator = SplitMix64(7)
    >>> shuffled = generator.shuffle_items([1, 2, 3])
    >>> sorted(shuffled), generator.next_number() == SplitMix64(7).next_number()
    ([1, 2, 3], False)
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next_number(self) -> int:
        """Return the next random number, an int from 0 to 2**64 - 1.

        `next_numbers` returns several at once.
        """
        return int(self.next_numbers(1)[0])

    def next_numbers(self, count: int) -> NDArray[np.uint64]:
        """Return the next ``count`` random 64-bit numbers as an array (uint64).

        It gives the same numbers as repeated calls of `next_number`, but computes them at once.

        >>> SplitMix64(7).next_numbers(1).tolist() == [SplitMix64(7).next_number()]
        True
        """
        steps = np.arange(1, count + 1, dtype=np.uint64)
        z = steps * np.uint64(_GOLDEN_GAMMA) + np.uint64(self._state)
        self._state = (self._state + count * _GOLDEN_GAMMA) & _MASK
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        numbers: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return numbers

    def shuffle_items(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items of a list in random order.

        The order depends only on the seed and on the numbers drawn before.
        """
        order = np.argsort(self.next_numbers(len(items)), kind="stable")
        return [items[i] for i in order.tolist()]


def place_standbys(
    previous: PreviousCopies,
    owner: Sequence[int],
    members: int,
    replicas: int,
    generator: SplitMix64,
) -> list[set[int]]:
    """Choose the standbys of each partition, so that any failed member's load is shared evenly.

    Of all such choices, one with even totals of active and standby partitions per member is
    preferred. Existing standbys stay if this does not make the placement less even.

    Args:
        previous: previous active members and standbys, whose copies exist already.
        owner: the active member of each partition.
        members: number of members.
        replicas: standbys of each partition; at most one on each other member.
        generator: decides among equal placements.

    >>> previous = PreviousCopies([0, 1], [[2], []])
    >>> place_standbys(previous, [0, 1], 3, 1, SplitMix64(0))
    [{2}, {0}]
    """
    placement = _StandbyPlacement(owner, members, generator)
    wanted = min(replicas, members - 1)
    if wanted > 0:
        placement.keep_existing(previous, wanted)
        placement.add_missing(wanted)
        placement.balance_by_owner()
        placement.balance_totals()
    return placement.standbys


class _StandbyPlacement:
    """Standbys of Faust partitions placed so far, with the counts that keep them even.

    A standby keeps a copy of a partition's table and takes over if the active member fails.

    Attributes:
        standbys: the members with a standby of each partition.
        _count: int64[M, M], the number of standbys of one member's (row) partitions on another
            member (column).
        _total: int64[M], the active and standby partitions of each member.
        _order: partitions in random order.
        _random: uint64[M, M], a random number for each owner (row) and member (column).
        _existing: for each partition, the members whose earlier copy became a standby.
    """

    def __init__(self, owner: Sequence[int], members: int, generator: SplitMix64) -> None:
        # The best member for a standby has the fewest standbys of the active member's partitions,
        # then the fewest active and standby partitions, then the lowest random number.
        self._owner = owner
        self._members = members
        self._count = np.zeros((members, members), np.int64)
        self._total = np.bincount(np.array(owner, np.int64), minlength=members)
        self._order = generator.shuffle_items(range(len(owner)))
        self._random = generator.next_numbers(members * members).reshape(members, members)
        self._owned: list[list[int]] = [[] for _ in range(members)]
        for p in self._order:
            self._owned[owner[p]].append(p)
        self.standbys: list[set[int]] = [set() for _ in owner]
        self._existing: list[set[int]] = [set() for _ in owner]

    def keep_existing(self, previous: PreviousCopies, replicas: int) -> None:
        """Let members that already have a copy of a partition be its standbys.

        Each partition gets at most ``replicas`` standbys. If more members have a copy, those are
        chosen that spread standbys most evenly.
        """
        for p in self._order:
            # If more members have a copy, those are kept that spread standbys most evenly.
            copies = {*previous.standbys[p], previous.owner[p]} - {-1, self._owner[p]}
            self._add(p, self._best_members(p, np.array(sorted(copies), np.intp), replicas))
            self._existing[p] = set(self.standbys[p])

    def add_missing(self, replicas: int) -> None:
        """Add standbys until each partition has ``replicas`` of them.

        The best member for a standby has the fewest standbys of the same active member, then the
        fewest partitions in all.
        """
        is_candidate = np.ones(self._members, np.bool_)
        for p in self._order:
            missing = replicas - len(self.standbys[p])
            if missing > 0:
                excluded = [self._owner[p], *self.standbys[p]]
                is_candidate[excluded] = False
                self._add(p, self._best_members(p, np.flatnonzero(is_candidate), missing))
                is_candidate[excluded] = True

    def balance_by_owner(self) -> None:
        """Spread the standbys of each member's active partitions evenly over the other members.

        The other members' counts then differ by at most one, so they would share the load evenly if
        the member failed.
        """
        for owner in range(self._members):
            count = self._count[owner]
            others = np.delete(np.arange(self._members), owner)
            while np.ptp(count[others]) > 1:
                # The count of this owner's standbys ranks before the total; ties: lowest position.
                score = count[others] * (int(self._total.max()) + 1) + self._total[others]
                self._move_standby(owner, int(others[score.argmax()]), int(others[score.argmin()]))

    def balance_totals(self) -> None:
        """Move standbys from members with many partitions to members with few.

        Active and standby partitions both count. The standbys of each member's active partitions
        stay spread evenly over the other members.
        """
        while (exchange := self._find_exchange()) is not None:
            self._move_standby(*exchange)

    def _find_exchange(self) -> tuple[int, int, int] | None:
        """Find a standby that can move from a member with many partitions to a member with fewer.

        The result has the active member of the standby's partition, the standby's member and its
        new member. It is None if no such move exists.
        """
        total = self._total
        order = np.argsort(total, kind="stable")
        for source in order[::-1].tolist():
            smaller = order[: np.searchsorted(total[order], total[source] - 1)]
            if not smaller.size:
                return None
            has_more = self._count[:, source][:, None] > self._count[:, smaller]
            has_more[source] = False
            has_more[smaller, np.arange(smaller.size)] = False
            is_possible = has_more.any(axis=0)
            if is_possible.any():
                column = int(is_possible.argmax())
                return int(has_more[:, column].argmax()), source, int(smaller[column])
        return None

    def _best_members(
        self, partition: int, candidates: NDArray[np.intp], max_members: int
    ) -> list[int]:
        """Return the members that should get the standbys of a partition, the best one first.

        Standbys of one active member are spread, so that several members share its load if it
        fails. Members with the fewest standbys of that active member come first, then those with
        the fewest partitions in all.

        Args:
            partition: index of the partition.
            candidates: int64[n], the members that may get a standby.
            max_members: greatest number of members to return.
        """
        owner = self._owner[partition]
        keys = (
            self._random[owner, candidates],
            self._total[candidates],
            self._count[owner, candidates],
        )
        best: list[int] = candidates[np.lexsort(keys)[:max_members]].tolist()
        return best

    def _add(self, p: int, members: list[int]) -> None:
        self.standbys[p].update(members)
        self._count[self._owner[p], members] += 1
        self._total[members] += 1

    def _move_standby(self, owner: int, old_member: int, new_member: int) -> None:
        """Move a standby of an active partition of member ``owner`` to another member.

        Of several such standbys, one that has no copy of the data yet is preferred.
        """
        movable = [
            p for p in self._owned[owner]
            if old_member in self.standbys[p] and new_member not in self.standbys[p]
        ]  # fmt: skip
        # A standby that has no copy of the data yet is preferred.
        p = min(movable, key=lambda p: old_member in self._existing[p])
        self.standbys[p].remove(old_member)
        self._count[owner, old_member] -= 1
        self._total[old_member] -= 1
        self._add(p, [new_member])
