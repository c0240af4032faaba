"""Kafka's ``UniformHeterogeneousAssignmentBuilder``: members subscribe to different topics.

Three steps: members keep previous partitions of topics that they still subscribe to; unassigned
partitions go, topic by topic, to the least loaded subscriber; then topics are balanced one by
one. Members are numbers here: positions in the iteration order of the coordinator's map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.group_assignment import GroupAssignment
from partage.groups.server.kernels import collect, fill, line_up, next_uneven, rebalance
from partage.groups.server.spec import CoordinatorAssignorError, GroupSpec
from partage.model.index import Int32Array

__all__ = ["assign_heterogeneous"]

#: Kafka's own limit of balancing rounds (``MAX_ITERATION_COUNT``).
_MAX_ROUNDS = 16
#: Largest digit of the radix sort of subscribers, in bits: 4,096 counters stay in the cache.
_MAX_DIGIT_BITS = 12


def assign_heterogeneous(spec: GroupSpec) -> GroupAssignment:
    """Return the assignment of a group whose members subscribe to different topics.

    Raises:
        CoordinatorAssignorError: a topic's partition count is unknown, or a previous target
            contains a partition that does not exist.
    """
    subscribed = _SubscribedTopics.of(spec)
    if not len(subscribed.topics):
        return GroupAssignment.empty(spec)
    builder = _Builder(spec, subscribed)
    builder.keep_previous()
    builder.assign_unassigned()
    builder.balance()
    return builder.to_assignment()


@dataclass(frozen=True, eq=False)
class _SubscribedTopics:
    """The topics with subscribers, and the distinct sets of members that subscribe to them.

    Attributes:
        topics: int32[K], by partitions per subscriber (descending), subscribers, topic id.
        subscriber_set: int32[K], the set of subscribers of each topic.
        start: int32[S + 1], begin of each set in ``members`` (CSR).
        members: int32, member numbers, ascending within a set.
    """

    topics: Int32Array
    subscriber_set: Int32Array
    start: Int32Array
    members: Int32Array

    @classmethod
    def of(cls, spec: GroupSpec) -> _SubscribedTopics:
        topics, set_of_topic, subscriptions_of_set = _distinct_sets(spec)
        spec.require_partition_counts(topics)
        subscription_of = spec.problem.group.subscription_of[np.array(spec.visit, np.intp)]
        lists = []
        for subscriptions in subscriptions_of_set:
            in_set = np.zeros(len(spec.problem.group.subscriptions), bool)
            in_set[subscriptions] = True
            lists.append(np.flatnonzero(in_set[subscription_of]).astype(np.int32))
        start = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(one) for one in lists], out=start[1:])
        members = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        subscribers = np.diff(start)[set_of_topic]
        ratio = spec.numbered[1][topics] / subscribers
        high, low = spec.ids.signed
        order = np.lexsort((low[topics], high[topics], subscribers, -ratio))
        return cls(topics[order], set_of_topic[order], start, members)

    @property
    def set_sizes(self) -> Int32Array:
        """int32[S]: members of each set."""
        return np.diff(self.start)

    def subscribers(self, topic: int) -> Int32Array:
        """Return the numbers of a topic's subscribers; ``topic`` is a position in ``topics``."""
        of_topic = self.subscriber_set[topic]
        return self.members[self.start[of_topic] : self.start[of_topic + 1]]


def _distinct_sets(spec: GroupSpec) -> tuple[Int32Array, Int32Array, list[NDArray[np.int64]]]:
    """Return the subscribed topics, each one's set number, and each set's subscriptions."""
    width = max(len(spec.problem.index.topics), 1)
    subscription, topic = np.divmod(spec.subscribed_pairs, width)
    order = np.argsort(topic, kind="stable")
    subscription, topic = subscription[order], topic[order]
    first = np.flatnonzero(np.diff(topic, prepend=-1))
    sets = np.split(subscription, first[1:]) if len(first) else []
    number: dict[bytes, int] = {}
    set_of_topic = [number.setdefault(one.tobytes(), len(number)) for one in sets]
    distinct = [np.frombuffer(one, np.int64) for one in number]
    return topic[first].astype(np.int32), np.array(set_of_topic, np.int32), distinct


class _Builder:
    """The assignment under construction: the owner of each partition, each member's size."""

    def __init__(self, spec: GroupSpec, subscribed: _SubscribedTopics) -> None:
        self.spec = spec
        self.subscribed = subscribed
        self.start, self.partition = spec.partitions_of(subscribed.topics)
        self.owner = np.full(spec.problem.index.partitions, -1, np.int32)
        self.sizes = np.zeros(spec.members, np.int32)
        #: (member in join order, topic) pairs whose previous set is empty.
        self.emptied: set[tuple[int, int]] = set()
        self.duplicates = _DuplicateOwners()
        largest = int(subscribed.set_sizes.max())
        self._line = np.zeros(largest, np.int32)
        self._sort_buffer = np.zeros(largest, np.int32)
        self._sort_counters = np.zeros(1 << _MAX_DIGIT_BITS, np.int32)
        # One estimate for all kernels: each call alone would seem too small to compile for.
        entries = int(subscribed.set_sizes[subscribed.subscriber_set].sum())
        self._work = 6 * entries + 2 * len(self.partition)

    def keep_previous(self) -> None:
        """Keep each member's previous partitions of topics that it still subscribes to."""
        before = self.spec.previous
        still_subscribed = self.spec.subscribes(before.member, before.topic)
        number = np.empty(self.spec.members, np.int32)
        number[self.spec.visit] = np.arange(self.spec.members, dtype=np.int32)
        owner = np.repeat(number[before.member], before.size)
        kept = np.repeat(still_subscribed, before.size)
        if not self.spec.problem.cluster.partition_exists[before.partition[kept]].all():
            what = "previous targets have a partition that does not exist"
            raise CoordinatorAssignorError(what, "ArrayIndexOutOfBoundsException")
        self.emptied = set(before.empty_sets(still_subscribed))
        partition, owner = before.partition[kept], owner[kept]
        self.owner[partition] = owner
        self.sizes += np.bincount(owner, minlength=len(self.sizes)).astype(np.int32)
        if not bool((self.owner[partition] == owner).all()):
            self.duplicates.add(self.owner, partition, owner)

    def assign_unassigned(self) -> None:
        """Assign partitions without owner, topic by topic, to the least loaded subscribers."""
        free = self.owner[self.partition] < 0
        partition = self.partition[free]
        bound = np.concatenate([[0], np.cumsum(free)])[self.start]
        bounds = bound.tolist()
        for topic in np.flatnonzero(np.diff(bound)).tolist():
            line = self._subscribers_by_size(topic)
            of_topic = partition[bounds[topic] : bounds[topic + 1]]
            fill(line, self.sizes, of_topic, self.owner, work=self._work)

    def balance(self) -> None:
        """Balance topic by topic until a round returns to the topic that moved last."""
        subscribers = self.subscribed.set_sizes[self.subscribed.subscriber_set]
        shared = np.flatnonzero(subscribers > 1)
        set_of_topic = self.subscribed.subscriber_set[shared]
        last_moved = -1
        for _ in range(_MAX_ROUNDS):
            at = 0
            while at < len(shared):
                if at == last_moved:
                    return
                stop = last_moved if last_moved > at else len(shared)
                last_moved = max(last_moved, 0)
                at = next_uneven(
                    at, stop, set_of_topic, self.subscribed.start, self.subscribed.members,
                    self.sizes, work=self._work,
                )  # fmt: skip
                if at < stop:
                    if self._balance_topic(int(shared[at])):
                        last_moved = at
                    at += 1

    def _balance_topic(self, topic: int) -> bool:
        """Balance one topic; return whether a partition moved."""
        partitions = self.partition[self.start[topic] : self.start[topic + 1]]
        members = len(self.sizes)
        buffer = np.zeros(len(partitions) + 2 * members, np.int32)
        block, left, begin = np.split(buffer, [len(partitions), len(partitions) + members])
        line = self._subscribers_by_size(topic)
        before = self.owner[partitions] if self.duplicates or self.emptied else None
        moved = rebalance(
            self.subscribed.subscribers(topic), line, self.sizes, partitions, self.owner, block,
            left, begin, work=self._work,
        )  # fmt: skip
        if before is not None:
            self._forget_changed_sets(int(self.subscribed.topics[topic]), partitions, before)
        return bool(moved)

    def _forget_changed_sets(self, topic: int, partitions: Int32Array, before: Int32Array) -> None:
        """Forget empty sets and duplicates of members that have lost a partition.

        Kafka removes a set with its last partition; a set that was always empty stays.
        """
        for at in np.flatnonzero(self.owner[partitions] != before).tolist():
            number = int(before[at])
            self.emptied.discard((self.spec.visit[number], topic))
            self.duplicates.pairs.discard((number, int(partitions[at])))

    def _subscribers_by_size(self, topic: int) -> Int32Array:
        """Return a topic's subscribers by (size, number); the array is reused by the next call."""
        members = self.subscribed.subscribers(topic)
        line, buffer = self._line[: len(members)], self._sort_buffer[: len(members)]
        bits = min(max(4, len(members).bit_length() + 1), _MAX_DIGIT_BITS)
        line_up(members, self.sizes, line, buffer, self._sort_counters, bits, work=self._work)
        return line

    def to_assignment(self) -> GroupAssignment:
        """Return the assignment by member in join order."""
        visit = np.array(self.spec.visit, np.int32)
        member = np.where(self.owner >= 0, visit[self.owner], np.int32(-1))
        emptied = tuple(self.emptied)
        if self.duplicates:
            return self.duplicates.to_assignment(self.owner, visit, emptied)
        start = np.zeros(self.spec.members + 1, np.int32)
        np.cumsum(np.bincount(member[member >= 0], minlength=self.spec.members), out=start[1:])
        out = np.empty(int(start[-1]), np.int32)
        collect(member, start[:-1].copy(), out, work=self._work)
        return GroupAssignment(start, out, emptied=emptied)


class _DuplicateOwners:
    """Partitions with several previous owners, which a coordinator's own targets never have.

    Kafka's class then knows the last of them in its map as the owner, but leaves the partition
    in the sets and sizes of the others.
    """

    def __init__(self) -> None:
        self.pairs: set[tuple[int, int]] = set()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def add(self, owner: Int32Array, partition: Int32Array, member: Int32Array) -> None:
        """Record the owners of partitions, and set ``owner`` to the last of each in the map."""
        order = np.argsort(member, kind="stable")
        owner[partition[order]] = member[order]
        self.pairs.update(zip(member.tolist(), partition.tolist(), strict=True))

    def to_assignment(
        self, owner: Int32Array, visit: Int32Array, emptied: tuple[tuple[int, int], ...]
    ) -> GroupAssignment:
        """Return the assignment of owners and duplicate owners."""
        owned = np.flatnonzero(owner >= 0)
        pairs = self.pairs.union(zip(owner[owned].tolist(), owned.tolist(), strict=True))
        rows = sorted((int(visit[number]), partition) for number, partition in pairs)
        start = np.searchsorted([m for m, _ in rows], np.arange(len(visit) + 1))
        partition = np.array([p for _, p in rows], np.int32)
        return GroupAssignment(start.astype(np.int32), partition, emptied=emptied)
