"""librdkafka's assignors: range, round robin and cooperative sticky (2.16.0).

The sticky algorithm is Kafka's general one of 2.4, with racks (KIP-881), in
`partage.groups.dialects.sticky_core`. This module resolves claims (partitions that members say they
own), and orders and moves partitions, as the library does. Three defects of the library decide
plans: see `LibrdkafkaMovements`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

import numpy as np

from partage.groups.api import PlainStrategy, RebalanceProtocol
from partage.groups.dialects.problem import LibrdkafkaProblem, PeerAssignorError, assign_round_robin
from partage.groups.dialects.sticky_core import (
    GeneralAssignment,
    SettledClaims,
    owned_slots_in_turns,
    run_to_end,
    subscriptions_identical,
)
from partage.groups.dialects.user_data import RemembersAssignment
from partage.model import Group, Plan, Problem, Unresolved
from partage.model.repeated_state import EndlessLoop, endless_loop_fields

__all__ = [
    "LibrdkafkaCooperativeSticky",
    "LibrdkafkaRange",
    "LibrdkafkaRoundRobin",
    "assign_sticky",
    "sort_members",
]


class LibrdkafkaRange(PlainStrategy):
    """librdkafka's range assignor, with racks (KIP-881); its order of members differs from Java's.

    It differs from Java's ``range`` in three points. If static and dynamic members are mixed, Java
    puts static ones first (`sort_members`). Topics with equal subscribers and counts are assigned
    by rack together even if all racks have replicas of all partitions; a member without a rack then
    comes last. Names sort as UTF-8. A member with an empty subscription is an error.

    Exact to ``rd_kafka_range_assignor_assign_cb`` of librdkafka 2.16.0, except the order of a
    member's topics. Cost: O(P M) at most, with racks or without.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("b", ["t"], instance_id="i"), Member("a", ["t"])])
    >>> LibrdkafkaRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'b': {'t': [2]}, 'a': {'t': [0, 1]}}
    """

    name = "librdkafka:range"
    exact_to = "rd_kafka_range_assignor_assign_cb librdkafka 2.16.0"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as librdkafka's range assignor does.

        For each topic, its subscribers get consecutive partitions, or with racks those with a close
        replica. ``problem`` is the group and the cluster; ``memory`` (state) is not used.

        Raises:
            PeerAssignorError: a member has an empty subscription.
        """
        peer = LibrdkafkaProblem(problem)
        lists: list[list[int]] = [[] for _ in problem.group]
        sorted_members: dict[tuple[int, ...], list[int]] = {}
        ranges = []
        for k in peer.metadata_order:
            subscriber_set = tuple(peer.subscribers[k])
            if subscriber_set not in sorted_members:
                sorted_members[subscriber_set] = sort_members(problem.group, subscriber_set)
            ranges.append(_TopicRange(peer, k, sorted_members[subscriber_set], lists))
        ranges.sort(key=_TopicRange.key)
        for _, run in groupby(ranges, key=_TopicRange.key):
            copartitioned = list(run)
            first = copartitioned[0]
            if len(copartitioned) > 1:
                _assign_copartitioned(copartitioned)
            elif peer.uses_racks([first.topic], first.members):
                first.assign_free_partitions(first.is_on_rack)
        for one in ranges:
            one.assign_free_partitions(lambda _member, _slot: True)
        return peer.build_plan(lists)


class LibrdkafkaRoundRobin(PlainStrategy):
    """librdkafka's round-robin assignor; its order of members differs from Java's.

    It differs from Java's ``roundrobin`` where static and dynamic members mix (Java puts static
    ones first, see `sort_members`) and in the order of names beyond U+FFFF. A member with an empty
    subscription is an error.

    Exact to ``rd_kafka_roundrobin_assignor_assign_cb`` of librdkafka 2.16.0, except the order of
    a member's topics. Cost: O(P + M log M), and one step for each member skipped.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("b", ["t"], instance_id="i"), Member("a", ["t"])])
    >>> LibrdkafkaRoundRobin().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'b': {'t': [1]}, 'a': {'t': [0, 2]}}
    """

    name = "librdkafka:roundrobin"
    exact_to = "rd_kafka_roundrobin_assignor_assign_cb librdkafka 2.16.0"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as librdkafka's round-robin assignor does.

        Each partition goes to the next member that subscribes to its topic. ``problem`` is the
        group and the cluster; ``memory`` (state between rebalances) is not used.

        Raises:
            PeerAssignorError: a member has an empty subscription.
        """
        group = problem.group
        return assign_round_robin(
            LibrdkafkaProblem(problem), sort_members(group, range(len(group)))
        )


class LibrdkafkaCooperativeSticky(RemembersAssignment):
    """librdkafka's cooperative-sticky assignor: even loads, then few moves, in two rebalances.

    It runs Kafka's general sticky algorithm of 2.4. It differs from Java's ``cooperative-sticky``:

    * there is no separate algorithm for equal subscriptions;
    * ties between members are broken by member id, not by hash;
    * a partition that two members report with the same generation, even an old one, has no owner;
    * with racks, a member without rack (it sends the empty string) loses all its partitions;
    * a list has the partitions that stay first, then the new ones, so a topic may be in it twice;
    * a reported partition that is not assigned, for example of a deleted topic, goes **back** to
      the last member that reports it.

    Guarantees: as `partage.groups.sticky.CooperativeSticky`, but for the differences above.

    Cost: O(P log P + moves log M); the library itself takes O(P² M).

    Not imitated: where the library reads freed memory (a partition moves against one of its topic
    that moved before, or moves twice) or crashes, this raises an error.

    Exact to ``rd_kafka_sticky_assignor_assign_cb`` of librdkafka 2.16.0, except the order of a
    member's topics.

    >>> from partage.model import Cluster, Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> LibrdkafkaCooperativeSticky().assign(Problem(group, cluster)).to_dict()
    {'a': {'t': [1, 2]}, 'b': {}}
    """

    name = "librdkafka:cooperative-sticky"
    exact_to = "rd_kafka_sticky_assignor_assign_cb librdkafka 2.16.0"
    protocols = (RebalanceProtocol.COOPERATIVE,)
    merges_topics = False

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions like librdkafka's cooperative-sticky assignor.

        A partition that moves is revoked first and assigned in the next rebalance (KIP-429). A
        warning says if librdkafka would loop forever. Partitions that no longer exist are in
        ``plan.unresolved``, because librdkafka returns them to their owners. ``problem`` is the
        group and the cluster; ``memory`` (state between rebalances) is not used.

        Raises:
            PeerAssignorError: the library would crash or its behaviour is undefined, or a member
                has an empty subscription.
        """
        peer = LibrdkafkaProblem(problem)
        if not len(problem.group):
            return peer.build_plan([])
        slot_lists, loop = assign_sticky(peer)
        partition = peer.partition_of_slot.tolist()
        target = {partition[s]: m for m, slots in enumerate(slot_lists) for s in slots}
        claimant, unresolved = _last_claimants(problem)
        staying = {
            p
            for p, m in target.items()
            if p in claimant and _is_same_member(problem.group, m, claimant[p])
        }
        lists = _build_lists(len(problem.group), target, claimant, staying)
        withheld = [(p, m) for p, m in target.items() if p in claimant and p not in staying]
        plan: Plan = Plan.from_lists(
            problem.index,
            problem.group.ids,
            lists,
            unresolved=tuple(unresolved),
            withheld=np.array([p for p, _ in withheld], np.int32),
            destined=np.array([m for _, m in withheld], np.int32),
            **endless_loop_fields(loop, self.exact_to),
        )
        return plan


def sort_members(group: Group, members: Sequence[int]) -> list[int]:
    """Sort the members of a consumer group in the order of librdkafka's assignors.

    Two static members are compared by instance id, all others by member id. ``members`` are the
    positions of the members to sort.

    >>> from partage.model import Member
    >>> group = Group([Member("b", instance_id="1"), Member("a", instance_id="2"), Member("c")])
    >>> [group[m].id for m in sort_members(group, [0, 1, 2])]
    ['b', 'a', 'c']
    """
    if len(members) <= 1:
        return list(members)
    # Strings compare as UTF-8 bytes. If static and dynamic members are mixed, the relation is not
    # transitive, and the result depends on the sort algorithm. So this is the merge sort of the GNU
    # C library's qsort, with which librdkafka is built on Linux.
    half = len(members) // 2
    left, right = sort_members(group, members[:half]), sort_members(group, members[half:])
    merged: list[int] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if _is_not_after(group, left[i], right[j]):
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    return merged + left[i:] + right[j:]


def _is_not_after(group: Group, member: int, other: int) -> bool:
    one, two = group[member], group[other]
    if one.instance_id is not None and two.instance_id is not None:
        return one.instance_id <= two.instance_id  # code points sort as their UTF-8 bytes
    return one.id <= two.id


class _TopicRange:
    """Subscribers and unassigned partitions of one topic in librdkafka's range assignor.

    Each subscriber gets the same number of partitions (the quota); some get one more.

    Attributes:
        topic: index of the topic in the problem.
        members: the topic's subscribers in order.
        slots: the topic's partitions, as indices of the problem's sorted partitions.
        quota: the least number of partitions of a member.
    """

    def __init__(
        self, peer: LibrdkafkaProblem, topic: int, members: Sequence[int], lists: list[list[int]]
    ) -> None:
        self.topic, self.members = topic, members
        self.slots = peer.slots_of(topic)
        self.quota, self._extra = divmod(len(self.slots), len(members))
        self._peer, self._lists = peer, lists
        self._unassigned = dict.fromkeys(self.slots)
        self._load = dict.fromkeys(members, 0)

    def key(self) -> tuple[tuple[int, ...], int]:
        # Equal for topics with the same subscribers and partition count.
        return tuple(self._peer.id_rank[m] for m in self.members), len(self.slots)

    def capacity(self, member: int) -> int:
        return self.quota + (self._extra > 0) - self._load[member]

    def give(self, member: int, slot: int) -> None:
        # Beyond the quota, each partition uses up one of the extra partitions.
        self._lists[member].append(slot)
        del self._unassigned[slot]
        self._load[member] += 1
        self._extra -= self._load[member] > self.quota

    def is_on_rack(self, member: int, slot: int) -> bool:
        # A member without a rack fits every partition.
        rack = self._peer.problem.group[member].rack
        return not rack or rack in self._peer.racks[slot]

    def can_give_by_rack(self, member: int, slot: int) -> bool:
        has_rack = bool(self._peer.problem.group[member].rack)
        return has_rack and self.is_on_rack(member, slot) and self.capacity(member) > 0

    def assign_free_partitions(self, may_own: Callable[[int, int], bool]) -> None:
        """Assign the topic's unassigned partitions to its subscribers, each up to its quota.

        ``may_own(member, partition)`` returns whether the member may get the partition, for example
        because of its rack.
        """
        for member in self.members:
            capacity = self.capacity(member)
            if capacity <= 0:
                continue
            chosen: list[int] = []
            for slot in self._unassigned:
                if len(chosen) == capacity:
                    break
                if may_own(member, slot):
                    chosen.append(slot)
            for slot in chosen:
                self.give(member, slot)


def _assign_copartitioned(ranges: Sequence[_TopicRange]) -> None:
    """Assign equal partition numbers of several topics to the same consumer, by rack.

    The consumer's rack must have a replica of each of these partitions. ``ranges`` are the topics,
    with equal subscribers and partition counts; they are changed in place.
    """
    # The member chosen for a number is the first with free capacity whose rack has a replica of
    # this partition of every topic.
    for number in range(len(ranges[0].slots)):
        for member in ranges[0].members:
            if all(one.can_give_by_rack(member, one.slots[number]) for one in ranges):
                for one in ranges:
                    one.give(member, one.slots[number])
                break


def _build_lists(
    members: int, target: dict[int, int], claimant: dict[int, int], staying: set[int]
) -> list[list[int]]:
    """List the partitions of each consumer after the first of two cooperative rebalances.

    Partitions that move are left out, because their old owner must revoke them first. ``target`` is
    the planned owner of each partition, ``claimant`` the member that reports it as owned, and
    ``staying`` are the partitions for which both agree.
    """
    # Each list has first the partitions that stay, then those without a current owner, then those
    # that the member owns but the plan does not assign.
    lists: list[list[int]] = [[] for _ in range(members)]
    for p in target:
        if p in staying:
            lists[claimant[p]].append(p)
    for p, member in target.items():
        if p not in claimant:
            lists[member].append(p)
    for p, member in claimant.items():
        if p not in target:
            lists[member].append(p)
    return lists


def _is_same_member(group: Group, member: int, other: int) -> bool:
    # The library takes members with equal instance ids for one member.
    instance = group[member].instance_id
    return member == other or (instance is not None and instance == group[other].instance_id)


def _last_claimants(problem: Problem) -> tuple[dict[int, int], Iterator[Unresolved]]:
    """Return for each partition the last member in join order that reports it as owned.

    The second result has the reported partitions that do not exist, as an iterator of `Unresolved`.
    ``problem`` is the group and the cluster.
    """
    start, claimed = problem.claims
    claimant: dict[int, int] = {}
    unknown: dict[tuple[str, int], int] = {}
    for member, one in enumerate(problem.group):
        partitions = claimed[start[member] : start[member + 1]].tolist()
        for pair, p in zip(one.owned, partitions, strict=True):
            if p >= 0:
                claimant[p] = member
            else:
                unknown[pair] = member
    ids = problem.group.ids
    return claimant, (Unresolved(ids[m], topic, p) for (topic, p), m in unknown.items())


def assign_sticky(peer: LibrdkafkaProblem) -> tuple[list[list[int]], EndlessLoop | None]:
    """Assign a group's partitions by the sticky algorithm of the C client librdkafka.

    If librdkafka would loop forever on this input, the most even valid assignment in the loop is
    returned.

    Args:
        peer: members, topics and partitions as librdkafka sees them.

    Returns:
        Each member's partitions (indices of the sorted partitions; one may have two owners), and
        the endless loop if librdkafka would loop forever.

    Raises:
        PeerAssignorError: the library would crash, or its behaviour is undefined.
    """
    return run_to_end(partial(LibrdkafkaAssignment, peer, settle_claims(peer)))


@dataclass(frozen=True)
class LibrdkafkaClaims(SettledClaims):
    """Owner of each partition that several consumers report as owned, as librdkafka chooses it.

    Attributes:
        last_claimant: the last member that reports each partition as owned, even with an older
            generation. librdkafka regards it as the owner when the partition moves. Absent if two
            members report the partition with the same generation.
    """

    last_claimant: dict[int, int]


def settle_claims(peer: LibrdkafkaProblem) -> LibrdkafkaClaims:
    """Choose one owner for each partition that consumers report as owned, as librdkafka does.

    The newest generation decides the owner, the second newest the previous owner. Two reports of
    equal generation leave the partition without owner. ``peer`` is the problem as librdkafka sees
    it.
    """
    claims: dict[int, list[tuple[int, int]]] = {}
    last_claimant = {}
    for member, one in enumerate(peer.problem.group):
        for slot in peer.claimed_slots(one.owned):
            claims.setdefault(slot, []).append((one.generation, member))
            last_claimant[slot] = member
    owned: list[list[int]] = [[] for _ in peer.problem.group]
    previous = {}
    # Members' lists are in the reverse order of first reports, because librdkafka visits its maps
    # from the latest entry.
    for slot in reversed(list(claims)):
        by_generation = sorted(claims[slot])
        if len({generation for generation, _ in by_generation}) < len(by_generation):
            del last_claimant[slot]
            continue
        owned[by_generation[-1][1]].append(slot)
        if len(by_generation) > 1:
            previous[slot] = by_generation[-2][1]
    return LibrdkafkaClaims(owned, previous, last_claimant)


def order_slots(peer: LibrdkafkaProblem, claims: SettledClaims) -> list[int]:
    """Sort all partitions into the order in which librdkafka's sticky assignor handles them.

    Partitions with the fewest subscribers come first; if all subscriptions are equal, owned
    partitions come first. ``claims`` has each partition's owner, ``peer`` is the problem as
    librdkafka sees it.
    """
    slots = range(len(peer.topic_of_slot))
    if not subscriptions_identical(peer, peer.topic_sets):
        return sorted(slots, key=lambda s: len(peer.subscribers[peer.topic_of_slot[s]]))
    # With identical subscriptions the owned partitions come first, each list from its start, then
    # the others in the reverse of the metadata's order.
    backwards = [slots_of_member[::-1] for slots_of_member in claims.owned]
    order = owned_slots_in_turns(peer, SettledClaims(backwards, claims.previous))
    if not order:
        return list(slots)
    is_owned = set(order)
    for topic in reversed(peer.metadata_order):
        order += [slot for slot in reversed(peer.slots_of(topic)) if slot not in is_owned]
    return order


class LibrdkafkaAssignment(GeneralAssignment):
    """One run of Kafka's sticky algorithm, as the C client librdkafka implements it.

    Args:
        peer: members, topics and partitions as librdkafka sees them.
        claims: the owners after conflicting reports of members are resolved.
        watch: whether to keep the best plan so far, for inputs on which librdkafka loops forever.
    """

    def __init__(
        self, peer: LibrdkafkaProblem, claims: LibrdkafkaClaims, *, watch: bool = False
    ) -> None:
        # The library's metadata has topics that do not exist too, so all members count.
        uses_racks = peer.uses_racks(range(len(peer.topics)), range(len(peer.problem.group)))
        self._racks = peer.racks if uses_racks else None
        self._rack_of_member = [member.rack for member in peer.problem.group]
        settled: SettledClaims = claims
        if subscriptions_identical(peer, peer.topic_sets):
            settled = SettledClaims([sorted(slots) for slots in claims.owned], claims.previous)
        super().__init__(peer, settled, order_slots(peer, settled), watch=watch)
        owners = self.owner
        self.owner = [claims.last_claimant.get(slot, -1) for slot in range(len(owners))]
        self._is_irregular = any(
            owner >= 0 and owner != claimant
            for owner, claimant in zip(owners, self.owner, strict=True)
        )
        self._movements = LibrdkafkaMovements()

    def _keepable(self, member: int, slots: Sequence[int]) -> list[int]:
        kept = super()._keepable(member, slots)
        return [slot for slot in kept if self._rack_fits(member, slot)]

    def _rack_fits(self, member: int, slot: int) -> bool:
        # A rack of null fits every partition, as in Java. The empty rack, which this library's
        # members without a rack send, fits none.
        rack = self._rack_of_member[member]
        return self._racks is None or rack is None or rack in self._racks[slot]

    def _assign(self, slots: Sequence[int]) -> None:
        if self._racks is not None:
            slots = [slot for slot in slots if not self._assign_by_rack(slot)]
        super()._assign(slots)

    def _assign_by_rack(self, slot: int) -> bool:
        # True if a subscriber on a replica's rack was found.
        topic, topic_sets = self._peer.topic_of_slot[slot], self._topic_sets
        member = self._queue.first_member(
            lambda m: topic in topic_sets[m] and self._rack_fits(m, slot)
        )
        if member < 0:
            return False
        self._give(member, slot)
        return True

    def _give(self, member: int, slot: int) -> None:
        super()._give(member, slot)
        self.lists[member].append(slot)

    def _replace_excluded_target(self, owner: int, target: int) -> int:
        raise _crash("asks for the load of a member that it has excluded")

    def _move_partition(self, slot: int, topic: int, target: int) -> None:
        """Move a partition to the member ``target``, as librdkafka does.

        A defect of librdkafka may move another partition of the same topic instead.
        """
        moving, source = self._movements.record_move(slot, topic, self.owner, target)
        # A slot that moves in place of another may have a new owner by now.
        self._is_irregular |= self.owner[moving] != source
        self._moving.add(moving)
        self._give(target, moving)
        # The source member loses the partition only if its list has it.
        if moving in self.lists[source]:
            self.lists[source].remove(moving)
            self._queue.change_load(source, -1)

    def _listed_owners(self) -> dict[int, int]:
        # The first member in join order whose list has the partition counts, fixed members aside.
        owner = _ListedOwners()
        for member in reversed(range(len(self.lists))):
            if member not in self._fixed:
                owner.update(dict.fromkeys(self.lists[member], member))
        return owner

    def _own_slots(self, member: int) -> set[int]:
        return set(self.lists[member])

    def _copied_lists(self) -> list[list[int]]:
        return [list(slots) for slots in self.lists]

    def _is_valid(self) -> bool:
        topic_of_slot, topic_sets = self._peer.topic_of_slot, self._topic_sets
        owned = [(m, slot) for m, slots in enumerate(self.lists) for slot in slots]
        return len(owned) == len({slot for _, slot in owned}) and all(
            topic_of_slot[slot] in topic_sets[m] for m, slot in owned
        )

    def _comparable_state(self) -> tuple[object, ...]:
        lists = tuple(map(tuple, self.lists))
        return lists, tuple(self.owner), self._movements.comparable_state(), self._is_irregular


class _ListedOwners(dict[int, int]):
    """Dict from partition to owner that raises `PeerAssignorError` for a missing partition.

    librdkafka crashes when it looks up a partition without an owner.
    """

    def __missing__(self, slot: int) -> int:
        raise _crash("looks for the owner of a partition that has none")


# --- movements, with the library's defects ---


@dataclass(eq=False, slots=True)
class _Direction:
    """Pair of members between which librdkafka's sticky assignor moves partitions: source and
    target.

    Objects are compared by identity, because librdkafka compares their addresses.
    """

    source: int
    target: int


@dataclass(eq=False, slots=True)
class _MovedSlots:
    """Partitions of a topic that moved from one member to another, as librdkafka stores them.

    Attributes:
        key: the `_Direction` under which librdkafka stores the list. A defect may free this object
            while it is still the key.
        slots: the partitions that moved.
    """

    key: _Direction
    slots: list[int] = field(default_factory=list)


class LibrdkafkaMovements:
    """Record of the partition moves so far, with three defects of librdkafka that change its plans.

    The assignor looks for an earlier move in the opposite direction, to undo it instead of moving
    another partition. Where a defect reads freed memory, the result is undefined, and an error is
    raised here. The defects are:
    """

    def __init__(self) -> None:
        self._way: dict[int, _Direction] = {}
        self._moved: dict[int, dict[tuple[int, int], _MovedSlots]] = {}
        self._freed: set[int] = set()
        self._alive: list[_Direction] = []  # freed ways stay alive here, so that ids are unique

    def record_move(
        self, slot: int, topic: int, owner: Sequence[int], target: int
    ) -> tuple[int, int]:
        """Record a partition's move, and return the partition that really moves, with its source.

        Because of a defect of librdkafka, it can be another partition of the same topic.

        Args:
            slot: the partition that should move (an index of the sorted partitions).
            topic: its topic.
            owner: the current owner of each partition.
            target: the member to which it should move.

        Raises:
            PeerAssignorError: an assertion of the library fails, or it reads freed memory.
        """
        pointer = self._opposite(slot, topic, owner[slot], target)
        moving = slot if pointer is None else pointer.slots[0]
        source = owner[moving]
        way = self._way.get(moving)
        if way is None:
            self._add(moving, topic, _Direction(source, target))
            return moving, source
        shortened = self._remove(moving, topic, way)
        if shortened is pointer:
            if not shortened.slots:
                raise _undefined()
            moving = shortened.slots[0]
        if way.target != source:
            raise _crash("fails an assertion: a partition is not where its last move put it")
        if way.source != target:
            self._add(moving, topic, _Direction(way.source, target))
        return moving, source

    def _opposite(self, slot: int, topic: int, owner: int, target: int) -> _MovedSlots | None:
        # None if the partition itself moves, else the moves in the opposite direction: the first of
        # these moves instead.
        if topic not in self._moved:
            return None
        if slot in self._way and self._way[slot].target != owner:
            raise _crash("fails an assertion: a partition is not where its last move put it")
        return self._find(topic, target, owner)

    def _find(self, topic: int, source: int, target: int) -> _MovedSlots | None:
        moved = self._moved.get(topic, {}).get((source, target))
        if moved is not None and id(moved.key) in self._freed:
            raise _undefined()
        return moved

    def _remove(self, slot: int, topic: int, way: _Direction) -> _MovedSlots:
        # The library also deletes a list that becomes empty.
        moved = self._find(topic, way.source, way.target)
        if moved is None:
            raise _crash("looks for a move that it has forgotten")
        if slot in moved.slots:
            moved.slots.remove(slot)
        if not moved.slots:
            del self._moved[topic][way.source, way.target]
            if not self._moved[topic]:
                del self._moved[topic]
        return moved

    def _add(self, slot: int, topic: int, way: _Direction) -> None:
        # The library frees the earlier direction of the partition.
        if slot in self._way:
            self._freed.add(id(self._way[slot]))
            self._alive.append(self._way[slot])
        self._way[slot] = way
        moved = self._find(topic, way.source, way.target)
        if moved is None:
            moved = self._moved.setdefault(topic, {})[way.source, way.target] = _MovedSlots(way)
        moved.slots.append(slot)

    def comparable_state(self) -> object:
        """Return all recorded partition moves as one value that can be compared with ``==``.

        If it has the same value twice, librdkafka loops forever.
        """
        ways = {slot: (way.source, way.target) for slot, way in self._way.items()}
        slot_of = {id(way): slot for slot, way in self._way.items()}
        # The value includes which keys of lists are freed, because that affects later moves.
        lists = {
            (topic, *way): (slot_of.get(id(one.key)), id(one.key) in self._freed, *one.slots)
            for topic, moved in self._moved.items()
            for way, one in moved.items()
        }
        return ways, lists


def _crash(what: str) -> PeerAssignorError:
    return PeerAssignorError(f"the library {what}, and crashes", "crash")


def _undefined() -> PeerAssignorError:
    what = "the library reads memory that it has freed, so its result is undefined"
    return PeerAssignorError(what, "undefined")
