"""Input of the sticky algorithms: topics in Java's order, partitions as numbered slots.

A slot is the number of a partition in this problem. Partitions that a member claims but that do not
exist have slots too (foreign slots), since Kafka's classes process them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.groups.layout import cached_by_subscriptions
from partage.model import Problem
from partage.model.index import Int32Array

__all__ = [
    "PartitionSlots",
    "Racks",
    "StickyProblem",
    "Subscriptions",
    "distinct_values",
    "distinct_with_index",
    "keys_of",
]

_HALF = 1 << 31
_NO_KEYS = np.zeros(0, np.int64)


class PartitionSlots:
    """Numbering of partitions by array indices ("slots") for the sticky assignors.

    Existing partitions come first, sorted by topic and number. Partitions that do not exist follow:
    a member reports them as owned, or Kafka expects them because it numbers a topic's partitions
    from 0. Kafka assigns them, too (Q26 in docs/quirks.md).

    Args:
        sticky: the problem with the existing partitions.
        foreign: int64, sorted keys of foreign partitions, see `keys_of`.

    Attributes:
        real: number of existing partitions.
        count: number of all partitions.
    """

    def __init__(self, sticky: StickyProblem, foreign: NDArray[np.int64] | None = None) -> None:
        self._sticky = sticky
        self._foreign = _NO_KEYS if foreign is None else foreign
        self.real = sticky.partitions
        self.count = self.real + len(self._foreign)

    @property
    def all_partitions_exist(self) -> bool:
        """True if the cluster has every partition of this numbering, which is the usual case.

        Otherwise a member reports a partition that does not exist, or a topic's partition numbers
        have gaps.
        """
        return self.count == self.real

    @cached_property
    def topic(self) -> Int32Array:
        """Topic of each partition, as an index of ``StickyProblem.topics`` (int32[S]).

        For example, ``[0, 0, 1]`` for a topic with two partitions and one with a single partition.
        Reported partitions that do not exist come last.
        """
        foreign = (self._foreign >> 32).astype(np.int32)
        return np.concatenate([self._sticky.topic, foreign]) if len(foreign) else self._sticky.topic

    @cached_property
    def number(self) -> Int32Array:
        """Kafka's partition number of each partition, such as ``[0, 1, 0]`` for two topics
        (int32[S]).

        Reported partitions that do not exist come last.
        """
        if not len(self._foreign):
            return self._sticky.number
        foreign = ((self._foreign & 0xFFFFFFFF) - _HALF).astype(np.int32)
        return np.concatenate([self._sticky.number, foreign])

    @cached_property
    def sort_keys(self) -> NDArray[np.int64]:
        """Integer for each partition that sorts by topic, then by partition number (int64[S]).

        `keys_of` computes it.
        """
        return keys_of(self.topic, self.number)

    @cached_property
    def search_order(self) -> Int32Array:
        """Partitions in the order in which Kafka's class looks for unassigned ones (int32[T]).

        Kafka numbers a topic's partitions from 0 up to their count, so the order has partitions
        that do not exist if the numbers have gaps.
        """
        # Kafka numbers a topic's partitions from 0 to their count. If partition numbers have no
        # gaps, these are the existing partitions in order.
        if self._sticky.counted:
            return np.arange(self.real, dtype=np.int32)
        order = np.argsort(self.sort_keys)
        wanted = keys_of(self._sticky.topic, self._sticky.rank_in_topic)
        return order[np.searchsorted(self.sort_keys[order], wanted)].astype(np.int32)

    @cached_property
    def by_number(self) -> Int32Array:
        """Indices of all partitions, sorted by partition number, then by topic (int32[S]).

        Members keep their owned partitions in this order.
        """
        if not self.all_partitions_exist:
            return np.lexsort((self.topic, self.number)).astype(np.int32)
        return self._sticky.layout.by_number


class SlotLayout:
    """Numbering of the partitions of a group's subscribed topics, sorted by topic and number.

    Its arrays are cached, because most rebalances change neither the subscriptions nor the cluster.
    `StickyProblem` has the same attributes and documents them.
    """

    def __init__(self, problem: Problem) -> None:
        self.topics, self.start, self.dense = _lay_out(problem)
        self.counts: Int32Array = np.diff(self.start)
        self.index = problem.index
        last = self.index.number_of[self.dense[self.start[1:] - 1]]
        self.counted = bool((last == self.counts - 1).all())

    @cached_property
    def number(self) -> Int32Array:
        """Kafka's partition number of each existing partition, such as ``[0, 1, 0]`` (int32[T]).

        The array is sorted by topic, then by number.
        """
        return self.rank_in_topic if self.counted else self.index.number_of[self.dense]

    @cached_property
    def rank_in_topic(self) -> Int32Array:
        """Position of each existing partition within its topic, counted from 0 (int32[T]).

        It equals the partition number unless the numbers of the topic have gaps.
        """
        nth = np.arange(len(self.dense), dtype=np.int32)
        nth -= np.repeat(self.start[:-1], self.counts)
        return nth

    @cached_property
    def topic(self) -> Int32Array:
        """Topic of each existing partition, as an index of ``topics`` (int32[T]).

        For example, ``[0, 0, 1]`` for a topic with two partitions and one with a single partition.
        """
        return np.repeat(np.arange(len(self.topics), dtype=np.int32), self.counts)

    @cached_property
    def slot_of_partition(self) -> Int32Array:
        """Position of each partition of the cluster in the order of topic and number (int32[P]).

        It is -1 for partitions that do not exist or whose topic has no subscriber.
        """
        slot = np.full(self.index.partitions, -1, np.int32)
        slot[self.dense] = np.arange(len(self.dense), dtype=np.int32)
        return slot

    @cached_property
    def topic_by_name(self) -> dict[str, int]:
        """Index of each topic in the array ``topics``, by topic name.

        Members name topics when they subscribe or report owned partitions; the arrays need indices.
        """
        names = self.index.topics
        return {names[t]: k for k, t in enumerate(self.topics.tolist())}

    @cached_property
    def by_number(self) -> Int32Array:
        """Indices of the existing partitions, sorted by partition number, then by topic (int32[T]).

        Members keep their owned partitions in this order.
        """
        # Existing slots are in topic order already, and NumPy sorts 16-bit keys by radix.
        if self.counted and (self.counts == self.counts[:1]).all():
            topics = len(self.counts)
            table = np.arange(len(self.dense), dtype=np.int32).reshape(max(topics, 1), -1)
            return np.ascontiguousarray(table.T).reshape(-1)
        highest = int(self.counts.max(initial=0))
        small = self.counted and highest < 2**15
        key = self.number.astype(np.int16) if small else self.number
        return np.argsort(key, kind="stable").astype(np.int32)


class StickyProblem:
    """Input of the sticky assignors as arrays: members, topics and partitions of a rebalance.

    A "slot" is the index of a partition in arrays sorted by topic and partition number.

    Attributes:
        problem: the group and the cluster.
        members: number of members.
        partitions: number of existing partitions.
        topics: int32[K], topics with partitions and a subscriber, in Java's order of names.
        start: int32[K + 1], first slot of each topic (CSR).
        counts: int32[K], number of partitions of each topic.
        dense: int32[T], index number of the partition at each existing slot.
        counted: whether every topic's partition numbers are 0..n-1 (no holes).
        owned: (member, topic, number) of owned partitions, None until read.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.owned: tuple[Int32Array, Int32Array, Int32Array] | None = None
        self.members = len(problem.group)
        self.layout = cached_by_subscriptions(problem, SlotLayout)
        self.topics, self.start, self.dense = (
            self.layout.topics, self.layout.start, self.layout.dense,
        )  # fmt: skip
        self.counts, self.counted = self.layout.counts, self.layout.counted
        self.partitions = len(self.dense)

    @property
    def number(self) -> Int32Array:
        """Kafka's partition number of each existing partition, such as ``[0, 1, 0]`` (int32[T]).

        The array is sorted by topic, then by number.
        """
        return self.layout.number

    @property
    def rank_in_topic(self) -> Int32Array:
        """Position of each existing partition within its topic, counted from 0 (int32[T]).

        It equals the partition number unless the numbers of the topic have gaps.
        """
        return self.layout.rank_in_topic

    @property
    def topic(self) -> Int32Array:
        """Topic of each existing partition, as an index of ``topics`` (int32[T]).

        For example, ``[0, 0, 1]`` for a topic with two partitions and one with a single partition.
        """
        return self.layout.topic

    @property
    def topic_by_name(self) -> dict[str, int]:
        """Index of each topic in the array ``topics``, by topic name.

        Members name topics when they subscribe or report owned partitions; the arrays need indices.
        """
        return self.layout.topic_by_name

    @property
    def members_in_map_order(self) -> list[int]:
        """Positions of the members in the order in which Kafka's leader iterates over them.

        It is the order of the leader's Java map from member id to subscription.
        """
        return self.problem.group.members_in_map_order

    @property
    def member_hash_codes(self) -> list[int]:
        """Java's ``String.hashCode`` of each member id, in join order.

        Java's hash maps derive the iteration order of members from it.
        """
        return self.problem.group.id_hashes

    @property
    def members_in_assignment_order(self) -> list[int]:
        """Positions of the members in the iteration order of the Java map ``currentAssignment``.

        Kafka's sticky assignor keeps each member's partitions in this map. The order can differ
        from `members_in_map_order`.
        """
        return self.problem.group.members_in_refilled_map_order

    def find_slots(
        self, topic: Int32Array, number: Int32Array
    ) -> tuple[Int32Array, PartitionSlots]:
        """Convert (topic, partition number) pairs to partition indices ("slots").

        Pairs that do not exist in the cluster get new indices, because Kafka's sticky assignors
        process them, too.

        Args:
            topic: int32[n], index of each pair's topic.
            number: int32[n], partition number of each pair.

        Returns:
            The indices (int32[n]), and the numbering of partitions with the new ones.
        """
        if self.counted:
            if not len(topic):
                return topic, PartitionSlots(self)
            slot = self.start[topic]
            slot += number
            # A claimed number may be any int32, so the sum may have wrapped: check the number.
            inside = (number >= 0) & (number < self.counts[topic])
            if inside.all():
                return slot, PartitionSlots(self)
        else:
            keys = keys_of(self.topic, self.number)
            wanted = keys_of(topic, number)
            slot = np.searchsorted(keys, wanted).astype(np.int32)
            slot[slot == len(keys)] = 0
            inside = keys[slot] == wanted if len(keys) else np.zeros(len(wanted), bool)
        return self._with_foreign(topic, number, slot, inside)

    def _with_foreign(
        self, topic: Int32Array, number: Int32Array, slot: Int32Array, inside: NDArray[np.bool_]
    ) -> tuple[Int32Array, PartitionSlots]:
        claimed = keys_of(topic[~inside], number[~inside])
        foreign = claimed
        if not self.counted:
            owner_order, real = (
                keys_of(self.topic, self.rank_in_topic),
                keys_of(self.topic, self.number),
            )
            at = np.minimum(np.searchsorted(real, owner_order), len(real) - 1)
            foreign = np.concatenate([claimed, owner_order[real[at] != owner_order]])
        foreign = distinct_values(foreign)
        out = slot.copy()
        out[~inside] = self.partitions + np.searchsorted(foreign, claimed)
        return out, PartitionSlots(self, foreign)


def _lay_out(problem: Problem) -> tuple[Int32Array, Int32Array, Int32Array]:
    wanted = np.zeros(len(problem.index.topics), bool)
    for topics in problem.subscription_topics:
        wanted[topics] = True
    named = np.flatnonzero(wanted)
    named = named[np.argsort(problem.index.topic_rank[named])]
    lists = [problem.cluster.partitions_of(t) for t in named.tolist()]
    sizes = np.array([len(one) for one in lists], np.int32)
    start = np.zeros(int((sizes > 0).sum()) + 1, np.int32)
    np.cumsum(sizes[sizes > 0], out=start[1:])
    dense = np.concatenate(lists) if lists else np.zeros(0, np.int32)
    return named[sizes > 0].astype(np.int32), start, dense


def keys_of(topic: Int32Array, number: Int32Array) -> NDArray[np.int64]:
    """Combine each (topic, partition number) pair into one integer that sorts like the pair.

    Sorting or searching such integers is faster than sorting by two columns. Both arguments are
    int32[n], the result is int64[n].
    """
    return (topic.astype(np.int64) << 32) | (number.astype(np.int64) + _HALF)


class Subscriptions:
    """Topics to which each consumer of a group subscribes, as arrays for the sticky algorithm.

    Members with equal subscriptions share an entry. As in Kafka's class, a topic that a member
    lists twice counts twice. M is the number of members, K of topics.

    Attributes:
        listed: known topics of each distinct subscription in the order sent, with repetitions.
        of_member: int32[M], subscription of each member.
        start: where each subscription's topics begin in ``topic`` (compressed rows, CSR).
        topic: the distinct topics of each subscription, ascending.
        entries: int64[K], number of times that members list a topic.
        most: int64[M], the greatest number of partitions that Kafka computes for a member.
        order: int32[K], topics by (entries, name).
    """

    def __init__(self, sticky: StickyProblem) -> None:
        group = sticky.problem.group
        number_of = sticky.topic_by_name
        topics = len(sticky.topics)
        self.of_member: Int32Array = group.subscription_of
        self.listed: list[Int32Array] = [
            np.array([number_of[n] for n in names if n in number_of], np.int32)
            for names in group.subscriptions
        ]
        without_repetitions = [distinct_values(one) for one in self.listed]
        self.start = np.zeros(len(without_repetitions) + 1, np.int32)
        np.cumsum([len(one) for one in without_repetitions], out=self.start[1:])
        self.topic: Int32Array = np.concatenate([np.zeros(0, np.int32), *without_repetitions])
        members = np.bincount(self.of_member, minlength=len(self.listed))
        self.entries = np.zeros(topics, np.int64)
        most = np.zeros(len(self.listed), np.int64)
        for s, one in enumerate(self.listed):
            np.add.at(self.entries, one, members[s])
            every = len(one) == topics
            most[s] = sticky.partitions if every else sticky.counts[one].sum(dtype=np.int64)
        self.most: NDArray[np.int64] = most[self.of_member]
        self.order: Int32Array = np.argsort(self.entries, kind="stable").astype(np.int32)
        self._topics = topics

    @property
    def topics_with_several_subscribers(self) -> NDArray[np.bool_]:
        """Mask of the topics with two or more subscribers (bool[K] for K topics).

        Only the partitions of such topics can move between members.
        """
        # A member that lists a topic twice counts twice.
        return self.entries >= 2

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        subscription = np.repeat(np.arange(len(self.listed), dtype=np.int64), np.diff(self.start))
        return subscription * max(self._topics, 1) + self.topic

    def is_subscribed(self, member: Int32Array, topic: Int32Array) -> NDArray[np.bool_]:
        """Return for each (member, topic) pair whether the member subscribes to the topic.

        The pairs are given as two parallel arrays, both int32[n]. The result is bool[n].
        """
        if not len(self._keys):
            return np.zeros(len(member), bool)
        wanted = self.of_member[member].astype(np.int64) * max(self._topics, 1) + topic
        at = np.searchsorted(self._keys, wanted)
        at[at == len(self._keys)] = 0
        found: NDArray[np.bool_] = self._keys[at] == wanted
        return found


Numbers = TypeVar("Numbers", bound=np.integer[Any])


def distinct_values(values: NDArray[Numbers]) -> NDArray[Numbers]:
    """Return the distinct values of an array in ascending order.

    It is a faster `numpy.unique`.

    >>> distinct_values(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def distinct_with_index(values: NDArray[Numbers]) -> tuple[NDArray[Numbers], NDArray[np.int32]]:
    """Return the distinct values of an array, and the index of each element among them.

    For example, 30, 10, 30 gives the values 10, 30 and the indices 1, 0, 1. It is a faster
    `numpy.unique` with ``return_inverse``.

    >>> [part.tolist() for part in distinct_with_index(np.array([30, 10, 30]))]
    [[10, 30], [1, 0, 1]]
    """
    ordered = distinct_values(values)
    return ordered, np.searchsorted(ordered, values).astype(np.int32)


class Racks:
    """Racks of consumers and of each partition's replicas, for rack-aware assignment (KIP-881).

    The sticky assignors prefer consumers that are on the rack of a replica.

    Attributes:
        any_member: whether a member has a rack.
        active: whether racks affect the plan: a member is on the rack of a replica, and not all
            partitions have the same racks.
        start: int32[S + 1], where the racks of each of S partitions begin in ``rack`` (CSR).
        rack: int32, the racks; reported partitions that do not exist have none.
    """

    def __init__(self, sticky: StickyProblem, slots: PartitionSlots) -> None:
        self.any_member = sticky.problem.group.has_racks
        self._sticky, self._slots = sticky, slots
        self.active = self.any_member and self._racks_matter()

    @property
    def of_member(self) -> Int32Array:
        """Rack of each member (int32[M]), -1 for a member without rack.

        Racks are numbered as in `Problem.member_rack`, which also has -2 for a rack without
        brokers.
        """
        return self._sticky.problem.member_rack

    @cached_property
    def _csr(self) -> tuple[Int32Array, Int32Array]:
        start, rack = self._sticky.problem.cluster.partition_racks
        dense = self._sticky.dense
        count = start[dense + 1] - start[dense]
        by_slot = np.zeros(self._slots.count + 1, np.int32)
        np.cumsum(count, out=by_slot[1 : len(dense) + 1])
        by_slot[len(dense) + 1 :] = by_slot[len(dense)]
        at = np.arange(by_slot[-1]) + np.repeat(start[dense] - by_slot[: len(dense)], count)
        return by_slot, rack[at] if len(at) else np.zeros(0, np.int32)

    @property
    def start(self) -> Int32Array:
        """Index in the array ``rack`` at which each partition's racks begin (int32[S + 1]).

        The racks of partition ``p`` are ``rack[start[p]:start[p + 1]]``.
        """
        return self._csr[0]

    @property
    def rack(self) -> Int32Array:
        """Racks of the replicas of all partitions, one partition after the other (int32).

        Each rack occurs once per partition. ``start`` has the position of each partition's first
        rack.
        """
        return self._csr[1]

    @property
    def _width(self) -> int:
        return max(len(self._sticky.problem.cluster.rack_names), 1)

    def _racks_matter(self) -> bool:
        """Return whether racks can affect the result of Kafka's sticky assignors.

        They can if a member shares a rack with a replica, and if not all partitions have replicas
        on the same racks.
        """
        has_replica = np.zeros(self._width, bool)
        has_replica[self.rack] = True
        member_racks = self.of_member[self.of_member >= 0]
        if not has_replica[member_racks].any():
            return False
        sizes = np.diff(self.start)[: self._sticky.partitions]
        return bool((sizes != np.count_nonzero(has_replica)).any())

    @cached_property
    def consumers_on_replica_racks(self) -> NDArray[np.int64]:
        """Number of consumers on the racks of each partition's replicas (int64[S]).

        Kafka assigns the partitions with the fewest such consumers first.
        """
        on_rack = self.of_member[self.of_member >= 0]
        members = np.bincount(on_rack, minlength=self._width)
        total = np.zeros(len(self.rack) + 1, np.int64)
        np.cumsum(members[self.rack], out=total[1:])
        return total[self.start[1:]] - total[self.start[:-1]]

    def is_on_other_rack(self, member: Int32Array, slot: Int32Array) -> NDArray[np.bool_]:
        """Return for each (member, partition) pair whether no replica is on the member's rack.

        A member must not keep such a partition (KIP-881). The result is False for members without a
        rack, and for all pairs if racks have no effect.

        Args:
            member: int32[n], the member of each pair.
            slot: int32[n], the partition of each pair.
        """
        if not self.active:
            return np.zeros(len(member), bool)
        member_rack = self.of_member[member].astype(np.int64)
        owner = np.repeat(np.arange(self._slots.count), np.diff(self.start))
        keys = owner * self._width + self.rack  # ascending: racks are sorted within a slot
        pair = slot.astype(np.int64) * self._width + member_rack
        at = np.searchsorted(keys, pair)
        at[at == len(keys)] = 0
        found = keys[at] == pair if len(keys) else np.zeros(len(pair), bool)
        mismatch: NDArray[np.bool_] = (member_rack != -1) & ~(found & (member_rack >= 0))
        return mismatch
