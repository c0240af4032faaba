"""librdkafka's assignors: range, round robin and cooperative sticky (2.16.0)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np

from partage.groups.api import RebalanceProtocol
from partage.groups.base import PlainStrategy
from partage.groups.dialects.librdkafka_sticky import assign_sticky
from partage.groups.dialects.problem import LibrdkafkaProblem
from partage.groups.dialects.range_roundrobin import assign_round_robin
from partage.groups.dialects.user_data import RemembersAssignment
from partage.model import Group, Plan, Problem, Unresolved
from partage.model.repeated_state import loop_attributes

__all__ = [
    "LibrdkafkaCooperativeSticky", "LibrdkafkaRange", "LibrdkafkaRoundRobin", "sort_members",
]  # fmt: skip


class LibrdkafkaRange(PlainStrategy):
    """Each topic cut into ranges, with racks (KIP-881), as in Java but for the member order.

    Differs from Java's ``range``: where static and dynamic members mix, Java puts static ones
    first (`sort_members`); topics with equal subscribers and counts are assigned by rack together
    even where all racks have all partitions, so that a member without a rack comes last; and
    names sort as UTF-8. A member with an empty subscription is an error.

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
        """Return the plan.

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
                first.assign(first.is_on_rack)
        for one in ranges:
            one.assign(lambda _member, _slot: True)
        return peer.plan(lists)


class LibrdkafkaRoundRobin(PlainStrategy):
    """All partitions in turn to all members, as in Java but for the member order.

    Differs from Java's ``roundrobin`` where static and dynamic members mix (Java puts static
    ones first, see `sort_members`) and in the order of names beyond U+FFFF. A member with an
    empty subscription is an error.

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
        """Return the plan.

        Raises:
            PeerAssignorError: a member has an empty subscription.
        """
        group = problem.group
        return assign_round_robin(
            LibrdkafkaProblem(problem), sort_members(group, range(len(group)))
        )


class LibrdkafkaCooperativeSticky(RemembersAssignment):
    """Balanced loads first, few moves second, by Kafka's general algorithm of 2.4, in two phases.

    Differs from Java's ``cooperative-sticky``: no separate algorithm for equal subscriptions;
    ties go by member id, not by hash; two claims of **any** one generation on a partition leave
    it without owner; with racks a member without one (this library sends the empty string) fits
    no rack and loses all its partitions; a list has the partitions that stay first and the new
    ones after them, so a topic may be in it twice; and a claimed partition that is not assigned,
    for example of a deleted topic, goes **back** to its last claimant.

    Guarantees: as `partage.groups.sticky.CooperativeSticky`, but for the differences above.

    Cost: O(P log P + moves log M); the library itself takes O(P² M).

    Not imitated: where the library reads freed memory (a partition moves against one of its
    topic that moved before, or moves twice) or crashes, this raises an error.

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
        """Return the plan for this phase, with a warning where the library never returns.

        ``unresolved`` has the claims of partitions that do not exist and go back to a member.

        Raises:
            PeerAssignorError: the library would crash or its behaviour is undefined, or a member
                has an empty subscription.
        """
        peer = LibrdkafkaProblem(problem)
        if not len(problem.group):
            return peer.plan([])
        slot_lists, loop = assign_sticky(peer)
        partition = peer.partition_of_slot.tolist()
        target = {partition[s]: m for m, slots in enumerate(slot_lists) for s in slots}
        claimant, unresolved = _last_claimants(problem)
        staying = {
            p
            for p, m in target.items()
            if p in claimant and _is_one_member(problem.group, m, claimant[p])
        }
        lists = _lists_of_phase(len(problem.group), target, claimant, staying)
        withheld = [(p, m) for p, m in target.items() if p in claimant and p not in staying]
        plan: Plan = Plan.from_lists(
            problem.index,
            problem.group.ids,
            lists,
            unresolved=tuple(unresolved),
            withheld=np.array([p for p, _ in withheld], np.int32),
            destined=np.array([m for _, m in withheld], np.int32),
            **loop_attributes(loop, self.exact_to),
        )
        return plan


def sort_members(group: Group, members: Sequence[int]) -> list[int]:
    """Return two static members by instance id and any other two by member id, as UTF-8 bytes.

    This relation is no order where both kinds are present: the result depends on which pairs the
    sort compares. The sort is therefore the merge sort of the GNU C library's ``qsort`` (halves,
    the left one shorter; ties keep their order), with which librdkafka is built on Linux.

    >>> from partage.model import Member
    >>> group = Group([Member("b", instance_id="1"), Member("a", instance_id="2"), Member("c")])
    >>> [group[m].id for m in sort_members(group, [0, 1, 2])]
    ['b', 'a', 'c']
    """
    if len(members) <= 1:
        return list(members)
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
    """Return whether a member comes before another one or is equal to it."""
    one, two = group[member], group[other]
    if one.instance_id is not None and two.instance_id is not None:
        return one.instance_id <= two.instance_id  # code points sort as their UTF-8 bytes
    return one.id <= two.id


class _TopicRange:
    """One topic in assignment: each member gets the quota, and the first ones an extra partition.

    Attributes:
        topic: the topic.
        members: its subscribers in order.
        slots: its slots.
        quota: the number of slots that each member gets at least.
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
        """Return the sort key, equal for topics with equal subscribers and partition counts."""
        return tuple(self._peer.id_rank[m] for m in self.members), len(self.slots)

    def capacity(self, member: int) -> int:
        """Return the number of slots that the member may still get."""
        return self.quota + (self._extra > 0) - self._load[member]

    def give(self, member: int, slot: int) -> None:
        """Give the member a slot; beyond the quota this uses up an extra."""
        self._lists[member].append(slot)
        del self._unassigned[slot]
        self._load[member] += 1
        self._extra -= self._load[member] > self.quota

    def is_on_rack(self, member: int, slot: int) -> bool:
        """Return whether the member has no rack or that of a replica."""
        rack = self._peer.problem.group[member].rack
        return not rack or rack in self._peer.racks[slot]

    def can_give_by_rack(self, member: int, slot: int) -> bool:
        """Return whether the member has the rack of a replica and may still get a slot."""
        has_rack = bool(self._peer.problem.group[member].rack)
        return has_rack and self.is_on_rack(member, slot) and self.capacity(member) > 0

    def assign(self, fits: Callable[[int, int], bool]) -> None:
        """Give each member in order the first unassigned slots that fit, up to its capacity."""
        for member in self.members:
            capacity = self.capacity(member)
            if capacity <= 0:
                continue
            chosen: list[int] = []
            for slot in self._unassigned:
                if len(chosen) == capacity:
                    break
                if fits(member, slot):
                    chosen.append(slot)
            for slot in chosen:
                self.give(member, slot)


def _assign_copartitioned(ranges: Sequence[_TopicRange]) -> None:
    """Give equal partition numbers of all topics to the first member that fits all of them."""
    for number in range(len(ranges[0].slots)):
        for member in ranges[0].members:
            if all(one.can_give_by_rack(member, one.slots[number]) for one in ranges):
                for one in ranges:
                    one.give(member, one.slots[number])
                break


def _lists_of_phase(
    members: int, target: dict[int, int], claimant: dict[int, int], staying: set[int]
) -> list[list[int]]:
    """Return each member's partitions in this phase of a cooperative rebalance.

    First the partitions that stay, then those without claimant, then the claimed ones without
    target.
    """
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


def _is_one_member(group: Group, member: int, other: int) -> bool:
    """Return whether the library takes two members for one: equal instance ids are one member."""
    instance = group[member].instance_id
    return member == other or (instance is not None and instance == group[other].instance_id)


def _last_claimants(problem: Problem) -> tuple[dict[int, int], Iterator[Unresolved]]:
    """Return the last member to claim each partition, and the last claims of unknown partitions."""
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
