"""Subscriptions and existing partitions of a problem, as arrays for the judge."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.model import Problem
from partage.model.problem import cached_by_subscriptions

__all__ = ["Facts"]


@dataclass(frozen=True, eq=False)
class Facts:
    """Subscriptions of a group's members and existing partitions, as arrays to check assignments.

    They are computed without the code of the assignment strategies, so that errors in that code are
    found. Members, topics and partitions have their numbers in ``problem.index``.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"a": 2, "nobody": 1})
    >>> facts = Facts(Problem(Group([Member("c", ["a"])]), cluster))
    >>> facts.is_open.tolist(), facts.takes_part.tolist()
    ([True, True, False], [True])
    """

    problem: Problem

    @property
    def member_count(self) -> int:
        """Number of members in the consumer group.

        Members without subscribed topics are included.
        """
        return len(self.problem.group)

    @cached_property
    def _topics(self) -> _SubscriptionArrays:
        # Most rebalances change neither subscriptions nor metadata.
        return cached_by_subscriptions(self.problem, _SubscriptionArrays)

    @property
    def topic_of(self) -> NDArray[np.int64]:
        """Topic of each partition, as an index into the cluster's topics (int64[partitions]).

        For example, ``[0, 0, 1]`` for two partitions of the first topic and one of the second.
        """
        return self._topics.topic_of

    @property
    def partition_counts(self) -> NDArray[np.int64]:
        """Number of existing partitions of each topic (int64[topics]).

        For example, ``[2, 1]`` if the first topic has two partitions and the second one.
        """
        return self._topics.partitions

    @cached_property
    def subscription_of(self) -> NDArray[np.int64]:
        """Index of each member's subscription (int64[members]).

        Members that subscribe to the same topics share a subscription.
        """
        return self.problem.group.subscription_of.astype(np.int64)

    @property
    def topics_of_subscriptions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Topics of each distinct subscription, as a sparse matrix (CSR) of topic indices.

        Members with equal topics share a subscription. Topics without partitions are left out.
        """
        return self._topics.subscriptions

    @property
    def subscriptions_of_topics(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Distinct subscriptions that contain each topic, as a sparse matrix (CSR).

        Members with equal topics share a subscription, so these are the subscribers of each topic.
        """
        return self._topics.subscribers

    @cached_property
    def takes_part(self) -> NDArray[np.bool_]:
        """Mask of the members that subscribe to at least one existing partition (bool[members]).

        Only these members can own a partition.
        """
        start = self.topics_of_subscriptions[0]
        part: NDArray[np.bool_] = (start[1:] > start[:-1])[self.subscription_of]
        return part

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Mask of the existing partitions that have a subscriber (bool[partitions]).

        Each of them must have an owner in a valid assignment.
        """
        return self._topics.is_open

    @cached_property
    def member_weights(self) -> NDArray[np.float64]:
        """Weight of each member (float64[members]).

        A member of weight 2 should get twice the load of a member of weight 1.
        """
        return np.array([m.weight for m in self.problem.group], float)

    @cached_property
    def has_equal_weights(self) -> bool:
        """True if all members have the weight 1, so that each should get the same load.

        A member's weight is its desired share of the load, relative to other members.
        """
        return bool((self.member_weights == 1).all())

    @property
    def co_partitioned(self) -> list[NDArray[np.int32]]:
        """Sets of topics with equal partition numbers and equal subscribers.

        Each set is an array of partitions (int32[topics, partitions]), a row for each topic. A
        topic that has no such partner is left out.
        """
        return self._topics.co_partitioned

    def is_subscribed(
        self, member: NDArray[np.integer], partition: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Return whether each given member subscribes to the topic of the given partition
        (bool[n]).

        ``member`` and ``partition`` are arrays of equal length, with one pair at each index.
        """
        width = len(self.problem.group.subscriptions)
        if width == 1:
            wanted: NDArray[np.bool_] = self._topics.has_subscriber[self.topic_of[partition]]
            return wanted
        pairs = self._topics.topic_subscription_keys
        if len(pairs) == 0 or len(member) == 0:
            return np.zeros(len(member), bool)
        keys = self.topic_of[partition] * width + self.subscription_of[member]
        at = np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)
        found: NDArray[np.bool_] = pairs[at] == keys
        return found


class _SubscriptionArrays:
    """Arrays that depend only on the cluster's topics and on the distinct subscriptions of a group.

    After a rebalance these are usually the same, so the arrays are cached for later groups.
    """

    def __init__(self, problem: Problem) -> None:
        self._cluster, self._count = problem.cluster, len(problem.group.subscriptions)
        self._subscription_topics = problem.subscription_topics
        #: See the properties of `Facts` with these names.
        self.topic_of = problem.index.topic_of.astype(np.int64)
        existing = self.topic_of[self._cluster.partition_exists]
        topics = len(problem.index.topics)
        self.partitions = np.bincount(existing, minlength=topics).astype(np.int64)

    @cached_property
    def subscriptions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        filled = [t[self.partitions[t] > 0] for t in self._subscription_topics]
        start = np.cumsum([0, *map(len, filled)], dtype=np.int64)
        return start, np.concatenate([*filled, np.zeros(0, np.int64)]).astype(np.int64)

    @cached_property
    def subscribers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        start, topic = self.subscriptions
        subscription = np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start))
        order = np.argsort(topic, kind="stable")
        ends = np.searchsorted(topic[order], np.arange(len(self.partitions) + 1))
        return ends.astype(np.int64), subscription[order]

    @cached_property
    def is_open(self) -> NDArray[np.bool_]:
        is_open: NDArray[np.bool_] = (
            self._cluster.partition_exists & self.has_subscriber[self.topic_of]
        )
        return is_open

    @cached_property
    def has_subscriber(self) -> NDArray[np.bool_]:
        """Mask of the topics that have partitions and at least one subscriber (bool[topics]).

        Only their partitions need an owner.
        """
        wanted = np.zeros(len(self.partitions), bool)
        wanted[self.subscriptions[1]] = True
        return wanted

    @cached_property
    def co_partitioned(self) -> list[NDArray[np.int32]]:
        cluster = self._cluster
        start, subscription = self.subscribers
        alike: dict[tuple[bytes, bytes], list[NDArray[np.int32]]] = {}
        for t in np.flatnonzero(np.diff(start)).tolist():
            mine = cluster.partitions_of(t)
            numbers = cluster.index.number_of[mine]
            # Members share a subscription or not: equal sets of them are equal sets of members.
            key = numbers.tobytes(), subscription[start[t] : start[t + 1]].tobytes()
            alike.setdefault(key, []).append(mine)
        return [np.stack(topics) for topics in alike.values() if len(topics) > 1]

    @cached_property
    def topic_subscription_keys(self) -> NDArray[np.int64]:
        """All pairs of a topic and a subscription that contains it, as sorted integers for binary
        search.

        The integer of a pair is topic * number of subscriptions + subscription.
        """
        start, subscription = self.subscribers
        topic = np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start))
        pairs: NDArray[np.int64] = topic * self._count + subscription
        return pairs
