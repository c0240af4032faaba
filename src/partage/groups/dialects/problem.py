"""A problem in the order in which the assignors of other clients see it.

The assignors work on *slots*: the partitions of all subscribed topics in order of (topic name,
partition number). A topic's slots are adjacent, so ``first_slot`` is an offset index (compressed
rows, CSR). Example, topics ``a`` (2 partitions) and ``b`` (3 partitions)::

    slot          0    1    2    3    4
    partition    a-0  a-1  b-0  b-1  b-2
    topic         0    0    1    1    1
    first_slot   [0, 2, 5]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np

from partage.errors import UnsupportedProblemError
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = [
    "LibrdkafkaProblem",
    "PeerAssignorError",
    "PeerProblem",
    "assign_ranges",
    "assign_round_robin",
    "divide_into_ranges",
]


class PeerAssignorError(UnsupportedProblemError):
    """Raised if the assignor of another client library, such as kafka-python, fails on this input.

    For example, kafka-python's round-robin assignor raises KeyError for some unequal subscriptions.

    Attributes:
        peer_exception: name of the client's exception. ``"hangs"``: the client loops forever;
            ``"crash"``: its process ends; ``"undefined"``: it reads freed memory.

    >>> PeerAssignorError("the group has no members", "TypeError").peer_exception
    'TypeError'
    """

    def __init__(self, what: str, peer_exception: str) -> None:
        super().__init__(what)
        self.peer_exception = peer_exception


class PeerProblem:
    """Members, topics and partitions of a rebalance, as the assignors of non-Java clients see them.

    Partitions are numbered in the order of topic name and partition number; such a number is called
    a *slot*. Names sort by code points (Java's order differs beyond U+FFFF). Topics without
    subscribers or without partitions have no slots. In all attributes a topic is an index of
    ``topics``, and a member its position in the group.

    Attributes:
        problem: the group and the cluster.
        topics: index numbers of the topics in the cluster, sorted by name.
        first_slot: first slot of each topic; one entry more than topics.
        partition_of_slot: int32[slots], each slot's partition, by its index number in the cluster.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        names = problem.index.topics
        subscribed = {t for topics in problem.subscription_topics for t in topics.tolist()}
        partitions = {t: problem.cluster.partitions_of(t) for t in subscribed}
        existing = (t for t in subscribed if len(partitions[t]))
        self.topics = sorted(existing, key=lambda t: names[t])
        self.first_slot = [0]
        for t in self.topics:
            self.first_slot.append(self.first_slot[-1] + len(partitions[t]))
        empty = np.zeros(0, np.int32)
        in_order = np.concatenate([empty, *(partitions[t] for t in self.topics)])
        self.partition_of_slot: Int32Array = in_order.astype(np.int32)

    @cached_property
    def topic_by_name(self) -> dict[str, int]:
        """Index of each topic in ``topics``, by topic name.

        Members name topics when they subscribe or report owned partitions.
        """
        return {self.problem.index.topics[t]: k for k, t in enumerate(self.topics)}

    @cached_property
    def subscriptions(self) -> list[tuple[int, ...]]:
        """Topics to which each member subscribes, in the order sent.

        They are indices of ``topics``. A topic that the member names twice is listed twice; unknown
        topics are left out.
        """
        by_name, group = self.topic_by_name, self.problem.group
        by_class = [
            tuple(by_name[n] for n in names if n in by_name) for names in group.subscriptions
        ]
        return [by_class[c] for c in group.subscription_of.tolist()]

    @cached_property
    def topic_sets(self) -> list[set[int]]:
        """Set of the topics to which each member subscribes, such as ``[{0, 2}, {0}]``.

        Topics are indices of ``topics``; those that do not exist are left out.
        """
        return [set(topics) for topics in self.subscriptions]

    @cached_property
    def subscribers(self) -> list[list[int]]:
        """Members that subscribe to each topic, in join order.

        A member that names the topic twice is listed twice, as in the client libraries.
        """
        subscribers: list[list[int]] = [[] for _ in self.topics]
        for member, topics in enumerate(self.subscriptions):
            for k in topics:
                subscribers[k].append(member)
        return subscribers

    @cached_property
    def id_rank(self) -> list[int]:
        """Rank of each member by member id, sorted by code points.

        For example, members "b" and "a" have the ranks 1 and 0.
        """
        ids = self.problem.group.ids
        rank = [0] * len(ids)
        for r, m in enumerate(sorted(range(len(ids)), key=ids.__getitem__)):
            rank[m] = r
        return rank

    @cached_property
    def topic_of_slot(self) -> list[int]:
        """Topic of each partition, as an index of ``topics``.

        Partitions are sorted by topic name and number, so equal topics are adjacent.
        """
        return [k for k in range(len(self.topics)) for _ in self.slots_of(k)]

    @cached_property
    def _slot_by_number(self) -> list[dict[int, int]]:
        number = self.problem.index.number_of[self.partition_of_slot].tolist()
        return [{number[s]: s for s in self.slots_of(k)} for k in range(len(self.topics))]

    def slots_of(self, topic: int) -> range:
        """Return the range of indices of a topic's partitions, such as ``range(2, 5)``.

        All partitions are sorted by topic name and number. ``topic`` is the topic's index in
        ``topics``.
        """
        return range(self.first_slot[topic], self.first_slot[topic + 1])

    def claimed_slots(self, claims: Iterable[tuple[str | None, int]]) -> list[int]:
        """Convert the partitions that a consumer reports as owned to indices of partitions
        ("slots").

        Unknown topics and partitions are left out.

        Args:
            claims: (topic name, partition number) pairs.
        """
        by_name, by_number = self.topic_by_name, self._slot_by_number
        slots = []
        for topic, number in claims:
            k = -1 if topic is None else by_name.get(topic, -1)
            slot = by_number[k].get(number) if k >= 0 else None
            if slot is not None:
                slots.append(slot)
        return slots

    def partition_name(self, slot: int) -> str:
        """Return the name of a partition, such as "orders-3", given its index ("slot").

        Warnings and errors use it.
        """
        topic, number = self.problem.index.name(int(self.partition_of_slot[slot]))
        return f"{topic}-{number}"

    def build_plan(self, lists: Sequence[Sequence[int]], **attributes: object) -> Plan:
        """Build a plan from each member's list of partitions.

        It is the last step of the assignors of non-Java clients.

        Args:
            lists: each member's partitions, as slots (indices of the sorted partitions).
            attributes: further fields of the plan, such as ``warnings``.
        """
        group = self.problem.group
        partitions = [self.partition_of_slot[np.array(slots, np.int32)] for slots in lists]
        plan: Plan = Plan.from_lists(self.problem.index, group.ids, partitions, **attributes)
        return plan


class LibrdkafkaProblem(PeerProblem):
    """Members, topics, racks and partitions of a rebalance, as librdkafka's assignors see them.

    Unlike in `PeerProblem`, a topic that a member names twice counts once.

    Raises:
        PeerAssignorError: a member has an empty subscription, which librdkafka cannot parse but
            uses nevertheless.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        for member in problem.group:
            if not member.topics:
                what = f"member {member.id!r} has an empty subscription, which it cannot read"
                raise PeerAssignorError(what, "unreadable subscription")

    @cached_property
    def subscriptions(self) -> list[tuple[int, ...]]:
        """Topics to which each member subscribes, in the order sent, without repetitions.

        They are indices of ``topics``; unknown topics are left out.
        """
        return [tuple(dict.fromkeys(topics)) for topics in super().subscriptions]

    @cached_property
    def metadata_order(self) -> list[int]:
        """Topics in the order in which librdkafka's leader requests their metadata.

        The range assignor handles topics in this order. It is the order in which members first name
        them.
        """
        return list(dict.fromkeys(k for topics in self.subscriptions for k in topics))

    @cached_property
    def racks(self) -> list[frozenset[str]]:
        """Racks of each partition's replicas, as one set of rack names for each partition.

        The list is sorted by topic name and partition number.
        """
        return [
            frozenset(self.problem.cluster.racks_of(p)) for p in self.partition_of_slot.tolist()
        ]

    def uses_racks(self, topics: Sequence[int], members: Sequence[int]) -> bool:
        """Return whether librdkafka considers racks when it assigns some topics to some members.

        It does if a replica is on a member's rack, and if some rack lacks replicas of some
        partition.

        Args:
            topics: the topics to assign.
            members: the members that may get them.
        """
        member_racks = {self.problem.group[m].rack for m in members} - {None, ""}
        if not member_racks:
            return False
        slots = [s for k in topics for s in self.slots_of(k)]
        replica_racks = frozenset().union(*(self.racks[s] for s in slots))
        if not member_racks & replica_racks:
            return False
        return any(self.racks[s] != replica_racks for s in slots)


# --- range and round robin -----------------------------------------------------------------


def assign_ranges(problem: Problem, in_order: Callable[[Sequence[int]], list[int]]) -> Plan:
    """Assign partitions as the range assignors of kafka-python and aiokafka do.

    For each topic, its subscribers get consecutive partitions; racks are ignored.

    Args:
        problem: the group and the cluster.
        in_order: function that sorts a topic's subscribers as the client does; it may drop some.
    """
    peer = PeerProblem(problem)
    lists: list[list[int]] = [[] for _ in problem.group]
    sorted_members: dict[tuple[int, ...], list[int]] = {}
    for k, subscribers in enumerate(peer.subscribers):
        subscriber_set = tuple(subscribers)
        if subscriber_set not in sorted_members:
            sorted_members[subscriber_set] = in_order(subscriber_set)
        members = sorted_members[subscriber_set]
        # If a member names a topic twice, it gets two ranges, of which the second replaces the
        # first. The partitions of the first then have no owner.
        for member, slots in dict(divide_into_ranges(members, peer.slots_of(k))).items():
            lists[member].extend(slots)
    return peer.build_plan(lists)


def divide_into_ranges(members: Sequence[int], slots: range) -> list[tuple[int, range]]:
    """Divide a topic's partitions into consecutive ranges, one for each member.

    Sizes differ by at most one, and the first members get the larger ranges. For example, 5
    partitions and 2 members give the ranges 0 to 2 and 3 to 4.

    Args:
        members: the members, in the order in which they get ranges.
        slots: indices of the topic's partitions.

    Returns:
        (member, range of partitions) pairs.
    """
    quota, extra = divmod(len(slots), len(members))
    first = slots.start
    ranges = []
    for i, member in enumerate(members):
        size = quota + (i < extra)
        ranges.append((member, range(first, first + size)))
        first += size
    return ranges


def assign_round_robin(peer: PeerProblem, members: Sequence[int]) -> Plan:
    """Assign partitions round robin: each goes to the next member that subscribes to its topic.

    Several clients use this rule, with different orders of members.

    Args:
        peer: members, topics and partitions as the client sees them.
        members: all members in the order in which the client takes them.
    """
    topic_sets = peer.topic_sets
    lists: list[list[int]] = [[] for _ in peer.problem.group]
    turn = -1
    for slot, topic in enumerate(peer.topic_of_slot):
        turn = (turn + 1) % len(members)
        while topic not in topic_sets[members[turn]]:
            turn = (turn + 1) % len(members)
        lists[members[turn]].append(slot)
    return peer.build_plan(lists)
