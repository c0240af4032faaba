"""The group coordinator's assignor of share groups (KIP-932): partitions may have several members.

Kafka's class has two builders, for equal and for different subscriptions. Both start from the
previous assignment, revoke what exceeds the quotas, and assign what is missing. Which partition a
member loses or gets follows the iteration order of Java's maps, so these are reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from partage.groups.api import PlainStrategy
from partage.groups.server.group_assignment import GroupAssignment
from partage.groups.server.spec import CoordinatorAssignorError, GroupSpec
from partage.java.hash_order import (
    copied_set_orders,
    hash_map_orders,
    hash_order,
    table_for_capacity,
)
from partage.model import Assignment, Problem

__all__ = ["ServerSimple"]

#: By member number: the member's (topic, dense partitions) pairs, in the order of Java's maps.
PartitionsByTopic = list[list[tuple[int, list[int]]]]


class ServerSimple(PlainStrategy):
    """Kafka's assignor for share groups (KIP-932): several members share each partition.

    The result is an `Assignment`, not a `Plan`, because a partition may have several owners.
    Members keep their previous partitions up to their quota (an even share, rounded up or down). A
    partition keeps its previous members up to the number of members that may share it.

    Guarantees:

    1. every assignable partition of a subscribed topic has at least one member;
    2. members get about the same number: over all partitions where all subscribe alike,
       topic by topic otherwise.

    The previous assignment is the members' ``owned`` partitions, in the order sent. Where
    subscriptions differ, members keep partitions of topics without subscribers (an oversight
    of Kafka's class, Q24 in the specification).

    Cost: O(n log n) in plain Python, n entries of the new and of the previous assignment.

    Where it is not optimal: the order of Java's maps decides which member gets a partition,
    and partitions may move that could stay.

    It gives the same results as ``org.apache.kafka.coordinator.group.assignor.SimpleAssignor``
    4.3.1 on JDK 17.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member(m, ["T"]) for m in "ABC"])
    >>> ServerSimple().assign(Problem(group, Cluster.from_topics({"T": 2}))).to_dict()
    {'A': {'T': [0, 1]}, 'B': {'T': [1]}, 'C': {'T': [0]}}
    """

    name = "server:simple"
    exact_to = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor 4.3.1"
    aliases = ("org.apache.kafka.coordinator.group.assignor.SimpleAssignor",)
    in_broker = True
    #: A partition may have several owners, so the result is no `Plan`.
    several_owners = True

    def assign(self, problem: Problem, memory: object = None) -> Assignment:
        """Assign the partitions of a share group (KIP-932), where several members may share a
        partition.

        The owned partitions in ``problem`` (the group and the cluster) serve as the previous
        assignment. ``memory`` (state between rebalances) is not used.
        """
        spec = GroupSpec(problem, several_owners=True)
        return self.assign_from_spec(spec).to_assignment(spec)

    def assign_from_spec(self, spec: GroupSpec) -> GroupAssignment:
        """Assign the partitions of a share group, from the input that a group coordinator has.

        ``spec`` has the subscriptions, topic ids and previous assignment; Kafka's class for it is
        ``GroupSpec``.

        Raises:
            CoordinatorAssignorError: the partition count of a subscribed topic is unknown, or no
                member is left for a partition (only if a previously assigned partition is no longer
                assignable).
        """
        if not spec.members:
            return GroupAssignment.without_members(spec)
        return (
            _assign_homogeneous(spec)
            if spec.has_equal_subscriptions
            else _assign_heterogeneous(spec)
        )


def _assign_homogeneous(spec: GroupSpec) -> GroupAssignment:
    """Assign a share group's partitions if all members subscribe to the same topics.

    Members keep previous partitions up to their quota; then partitions with too few members get
    more. Kafka's class is ``SimpleHomogeneousAssignmentBuilder``. ``spec`` is the assignor's input:
    subscriptions, topics, previous assignment.

    Raises:
        CoordinatorAssignorError: a topic's partition count is unknown, or Kafka's class finds no
            member for a partition because all have reached their quota (Q23 in docs/quirks.md).
    """
    topics, names = spec.existing_topics(
        int(spec.problem.group.subscription_of[spec.members_in_map_order[0]])
    )
    if not names:
        return GroupAssignment.without_members(spec)
    _, partition = spec.partitions_of(topics)
    if spec.assignable is not None:
        partition = partition[spec.assignable[partition]]
    index = spec.problem.index
    hashes = spec.topic_ids.java_hash_codes.astype(np.int64)
    key = (31 * hashes[index.topic_of] + index.number_of) & 0xFFFFFFFF
    target = partition.tolist()
    result = _MemberSets(spec, only_topics=frozenset(topics.tolist()))
    shares = _SharedPartitions(result, key.tolist().__getitem__, _table_for(len(target)))
    members_per_partition, quotas = _compute_quotas(spec.members, len(target))
    over_quota = []
    for member, sets in enumerate(result.previous):
        for _, partitions in sets:
            for p in partitions:
                shares.add_previous(member, p)
        size = len(shares.by_member.get(member, ()))
        if size < quotas[member]:
            shares.under_quota.add(member)
        elif size > quotas[member]:
            over_quota.append(member)
    shares.revoke_over_quota(over_quota, quotas.__getitem__)
    shares.revoke_shared_too_widely(members_per_partition)
    for p in target:
        shares.members_of(p)
    shares.assign_missing(members_per_partition, quotas.__getitem__)
    return result.to_assignment()


def _assign_heterogeneous(spec: GroupSpec) -> GroupAssignment:
    """Assign a share group's partitions if members subscribe to different topics.

    Topics are assigned one by one. Kafka's class is ``SimpleHeterogeneousAssignmentBuilder``.
    ``spec`` is the assignor's input: subscriptions, topics and previous assignment.

    Raises:
        CoordinatorAssignorError: a topic's partition count is unknown, or no member below its quota
            is left for a partition (Kafka's class fails then).
    """
    subscribers = _subscribers_by_topic(spec)
    if not subscribers:
        return GroupAssignment.without_members(spec)
    # By a defect of Kafka's class (Q24 in docs/quirks.md), members keep previous partitions of
    # topics without subscribers.
    result = _MemberSets(spec)
    hashes = spec.topic_ids.java_hash_codes
    topics = list(subscribers)
    for i in hash_order([int(hashes[t]) for t in topics]):
        _assign_topic(spec, result, topics[i], subscribers[topics[i]])
    return result.to_assignment()


def _subscribers_by_topic(spec: GroupSpec) -> dict[int, list[int]]:
    # Topics are in the order in which members name them, subscribers are positions in the
    # coordinator's map.
    group = spec.problem.group
    named = [spec.existing_topics(i)[0] for i in range(len(group.subscriptions))]
    for topics in named:
        spec.require_partition_counts(topics)
    out: dict[int, list[int]] = {}
    for number, member in enumerate(spec.members_in_map_order):
        for topic in named[int(group.subscription_of[member])].tolist():
            out.setdefault(topic, []).append(number)
    return out


def _assign_topic(spec: GroupSpec, result: _MemberSets, topic: int, subscribers: list[int]) -> None:
    """Assign the partitions of one topic to the members of a share group that subscribe to it.

    Each partition gets several members. Previous members keep a partition as far as quotas allow.
    ``result`` is changed in place.
    """
    first, count, dense = spec.sorted_partitions
    target = dense[first[topic] : first[topic] + count[topic]]
    if spec.assignable is not None:
        target = target[spec.assignable[target]]
    members_per_partition, numbers = _compute_quotas(len(subscribers), len(target))
    quotas = dict(zip(subscribers, numbers, strict=True))
    number_of = spec.problem.index.number_of
    shares = _SharedPartitions(result, lambda p: int(number_of[p]), _table_for(len(target)))
    for member, sets in enumerate(result.previous):
        for topic_of_set, partitions in sets:
            if topic_of_set == topic:
                for p in partitions:
                    shares.add_previous(member, p)
    owners = list(shares.by_member)
    order = hash_order(owners, table=_table_for(len(subscribers)), compute_if_absent=True)
    shares.revoke_over_quota([owners[i] for i in order], lambda m: quotas.get(m, 0))
    shares.revoke_shared_too_widely(members_per_partition)
    shares.under_quota = {m for m in subscribers if len(shares.by_member.get(m, ())) < quotas[m]}
    for p in target.tolist():
        shares.members_of(p)
    shares.assign_missing(members_per_partition, quotas.__getitem__)


def _compute_quotas(members: int, partitions: int) -> tuple[int, list[int]]:
    """Return how many members share each partition, and how many partitions each member gets.

    For example, of 5 members, 3 share each of 2 partitions: one member gets both partitions, and
    the others one each.

    >>> _compute_quotas(5, 2)
    (3, [2, 1, 1, 1, 1])
    """
    members_per_partition = -(-members // partitions) if partitions else 0
    ratio = members_per_partition * partitions / members
    quotas = [math.ceil(ratio * (k + 1)) - math.ceil(ratio * k) for k in range(members)]
    return members_per_partition, quotas


def _table_for(size: int) -> int:
    # Kafka creates a HashMap for ``size`` + 1 keys.
    return table_for_capacity((size + 1) * 4 // 3 + 1)


def _previous_by_member(spec: GroupSpec) -> PartitionsByTopic:
    """Return each share group member's previous partitions, in the iteration order of Java's maps.

    This order decides which partitions a member loses. ``spec`` is the assignor's input.
    """
    before = spec.previous_targets
    position = np.empty(spec.members, np.int64)
    position[spec.members_in_map_order] = np.arange(spec.members)
    by_position = np.argsort(position[before.member_of_set], kind="stable")
    map_of_set = position[before.member_of_set][by_position]
    sets = by_position[hash_map_orders(map_of_set, before.uuid_hash[by_position])]
    number = spec.problem.index.number_of[before.partition].view(np.uint32)
    walked = before.partition[copied_set_orders(before.set_of, number)].tolist()
    start, topic, member = (
        before.start.tolist(),
        before.topic.tolist(),
        before.member_of_set.tolist(),
    )
    out: PartitionsByTopic = [[] for _ in range(spec.members)]
    positions = position.tolist()
    for one in sets.tolist():
        partitions = walked[start[one] : start[one + 1]]
        out[positions[member[one]]].append((topic[one], partitions))
    return out


class _MemberSets:
    """Assignment of a share group under construction: each member's partitions by topic.

    It begins with the previous assignment, which is then changed as little as possible.

    Attributes:
        previous: each member's previous partitions by topic, in the iteration order of Java's maps.
    """

    def __init__(self, spec: GroupSpec, only_topics: frozenset[int] | None = None) -> None:
        """Copy the previous assignment of a share group, from which the new assignment is built.

        Args:
            spec: the assignor's input.
            only_topics: topics to copy; None copies all.
        """
        # Members are indices in the coordinator's map, partitions are index numbers. Sets may be
        # empty.
        self._spec = spec
        self._topic_of = spec.problem.index.topic_of.tolist()
        self.previous = [
            [pair for pair in sets if only_topics is None or pair[0] in only_topics]
            for sets in _previous_by_member(spec)
        ]
        self._sets: list[dict[int, set[int]]] = [
            {topic: set(partitions) for topic, partitions in sets} for sets in self.previous
        ]

    def add(self, member: int, partition: int) -> None:
        self._sets[member].setdefault(self._topic_of[partition], set()).add(partition)

    def remove(self, member: int, partition: int) -> None:
        # The topic's set stays, even if it is empty.
        self._sets[member][self._topic_of[partition]].discard(partition)

    def to_assignment(self) -> GroupAssignment:
        spec = self._spec
        lists: list[list[int]] = [[] for _ in range(spec.members)]
        emptied = []
        for number, sets in enumerate(self._sets):
            member = spec.members_in_map_order[number]
            for topic, partitions in sets.items():
                lists[member] += sorted(partitions)
                if not partitions and topic >= 0:
                    emptied.append((member, topic))
        start = np.zeros(spec.members + 1, np.int32)
        np.cumsum([len(one) for one in lists], out=start[1:])
        partition = np.array([p for one in lists for p in one], np.int32)
        return GroupAssignment(start, partition, emptied=tuple(emptied))


class _SharedPartitions:
    """Members that share each partition of a share group, and the partitions of each member.

    Both are in the iteration order of Java's maps, which decides who loses or gets a partition.

    Args:
        result: the assignment under construction; every change is also made there.
        hash_of: function that returns a partition's hash as a key in Java's map.
        table: initial number of buckets of this map.
    """

    def __init__(self, result: _MemberSets, hash_of: Callable[[int], int], table: int) -> None:
        self.by_partition: dict[int, set[int]] = {}
        # Dictionaries with None values are sets that keep the order of insertion.
        self.by_member: dict[int, dict[int, None]] = {}
        self.under_quota: set[int] = set()
        self._result = result
        self._hash_of = hash_of
        self._table = table
        self._looked_up_after = False
        # Members ever added to a partition's set: removed ones have also grown its table.
        self._added: dict[int, list[int]] = {}

    def add_previous(self, member: int, partition: int) -> None:
        # This is one more call of Java's computeIfAbsent.
        self.members_of(partition).add(member)
        self._added.setdefault(partition, []).append(member)
        self.by_member.setdefault(member, {})[partition] = None

    def members_of(self, partition: int) -> set[int]:
        # The partition becomes a key of Java's map, and the caller may change the set.
        self._looked_up_after = partition in self.by_partition
        return self.by_partition.setdefault(partition, set())

    def partitions(self) -> list[int]:
        keys = list(self.by_partition)
        hashes = [self._hash_of(key) for key in keys]
        order = hash_order(
            hashes, table=self._table, compute_if_absent=True,
            looked_up_after=self._looked_up_after,
        )  # fmt: skip
        return [keys[i] for i in order]

    def revoke_over_quota(self, members: Iterable[int], quota: Callable[[int], int]) -> None:
        # A member loses the partitions that come first in Java's iteration order.
        for member in members:
            partitions = list(self.by_member[member])
            excess = len(partitions) - quota(member)
            if excess <= 0:
                continue
            order = hash_order([self._hash_of(p) for p in partitions])
            revoked = {partitions[i] for i in order[:excess]}
            for partition in revoked:
                self.by_partition[partition].discard(member)
                self._result.remove(member, partition)
            self.by_member[member] = dict.fromkeys(p for p in partitions if p not in revoked)

    def revoke_shared_too_widely(self, members_per_partition: int) -> None:
        # The members that come first in Java's iteration order lose the partition.
        for partition in self.partitions():
            members = self.by_partition[partition]
            excess = len(members) - members_per_partition
            if excess <= 0:
                continue
            added = self._added[partition]
            in_order = [added[i] for i in hash_order(added) if added[i] in members]
            for member in in_order[:excess]:
                members.discard(member)
                del self.by_member[member][partition]
                self._result.remove(member, partition)
                self.under_quota.add(member)

    def assign_missing(self, members_per_partition: int, quota: Callable[[int], int]) -> None:
        """Add members to each partition of a share group that has too few.

        Members below their quota take turns. If no member is below its quota, Kafka's class fails
        (Q23 in docs/quirks.md), and this method raises `CoordinatorAssignorError`.
        """
        cursor = _CyclicCursor(sorted(self.under_quota))
        for partition in self.partitions():
            before = frozenset(self.by_partition[partition])
            for _ in range(members_per_partition - len(before)):
                member = cursor.next_not_excluded(before)
                if member < 0:
                    break
                # In its second cycle the cursor may return a member that it has just returned.
                partitions = self.by_member.setdefault(member, {})
                partitions[partition] = None
                self._result.add(member, partition)
                if len(partitions) >= quota(member):
                    cursor.remove()
            if cursor.empty:
                return


class _CyclicCursor:
    def __init__(self, items: Sequence[int]) -> None:
        self._items = list(items)
        self._next = 0
        self._returned_in_cycle = False

    @property
    def empty(self) -> bool:
        return not self._items

    def next_not_excluded(self, excluded: frozenset[int]) -> int:
        """Return the next member in cyclic order that is not in ``excluded``.

        The result is -1 if all members are excluded. ``excluded`` are the members that have the
        partition already.
        """
        while True:
            if self._next >= len(self._items):
                if not self._returned_in_cycle:
                    return -1
                self._next, self._returned_in_cycle = 0, False
                if not self._items:
                    what = "no member is left for a partition that is to be shared"
                    raise CoordinatorAssignorError(what, "NoSuchElementException")
            item = self._items[self._next]
            self._next += 1
            if item not in excluded:
                self._returned_in_cycle = True
                return item

    def remove(self) -> None:
        self._next -= 1
        del self._items[self._next]
