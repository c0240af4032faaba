"""A group on a cluster, with names resolved to numbers: the input of strategies and the judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from partage.model.claims import Claims
from partage.model.cluster import Cluster
from partage.model.group import Group
from partage.model.index import Index, Int32Array
from partage.model.validation import expect_kind

__all__ = ["Problem", "cached_by_subscriptions"]

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Problem:
    """Input of a partition assignment strategy: a consumer group and a Kafka cluster.

    Members are numbered in join order, topics and partitions by the cluster's index.

    Attributes:
        group: the members of the consumer group.
        cluster: the topics and partitions.
        sent_claims: the owned partitions and the generation (None if absent) that each member's
            user data report, if they are decoded already; strategies that need them otherwise
            decode them.

    >>> from partage.model import Member
    >>> group = Group([Member("b", ["t", "gone"]), Member("a", ["t"])])
    >>> problem = Problem(group, Cluster.from_topics({"t": 2}))
    >>> problem.members_of(0).tolist(), problem.topics_of(0).tolist()
    ([0, 1], [0])
    """

    group: Group
    cluster: Cluster
    sent_claims: tuple[tuple[Claims, int | None], ...] | None = None

    def __post_init__(self) -> None:
        expect_kind(self.group, Group, "group")
        expect_kind(self.cluster, Cluster, "cluster")

    def rejoined(self, group: Group, claims: tuple[Int32Array, Int32Array]) -> Problem:
        """Return a copy in which the same consumers join again with other owned partitions.

        The copy shares all values that do not depend on owned partitions. The arguments are not
        validated.

        Args:
            group: the same members with other owned partitions, see `Group.rejoined`.
            claims: the same owned partitions by their index numbers, as in `Problem.claims`.
        """
        # Values that only depend on subscriptions, racks and cluster are shared.
        made = object.__new__(Problem)
        vars(made).update(vars(self), group=group, claims=claims)
        return made

    @property
    def index(self) -> Index:
        """Numbering of the Kafka cluster's topics and partitions by integers from 0.

        Arrays refer to topics and partitions by these numbers.
        """
        return self.cluster.index

    @cached_property
    def subscription_topics(self) -> tuple[Int32Array, ...]:
        """Existing topics of each distinct subscription in the group, in the order sent.

        There is one int32 array of topic numbers for each entry of ``group.subscriptions``.
        """
        return cached_by_subscriptions(self, _subscription_topics)

    def topics_of(self, member: int) -> Int32Array:
        """Return the existing topics to which a consumer subscribes, in the order sent.

        ``member`` is the consumer's position in join order. The result has the index numbers of the
        topics (int32).
        """
        return self.subscription_topics[int(self.group.subscription_of[member])]

    @cached_property
    def _subscribers(self) -> tuple[Int32Array, Int32Array]:
        """Group members that subscribe to each topic, in join order, as two arrays (start, member).

        The subscribers of topic ``t`` are ``member[start[t]:start[t + 1]]``.
        """
        topics_of = self.subscription_topics
        sizes = np.array([len(x) for x in topics_of], np.int64)
        subscription = self.group.subscription_of
        members = len(subscription)
        count = sizes[subscription] if members else 0
        member = np.repeat(np.arange(members, dtype=np.int32), count)
        lists = [topics_of[s] for s in subscription]
        topic = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        order = np.argsort(topic, kind="stable")
        start = np.searchsorted(topic[order], np.arange(len(self.index.topics) + 1))
        return start.astype(np.int32), member[order]

    def members_of(self, topic: int) -> Int32Array:
        """Return the consumers that subscribe to a topic, by position in join order (int32).

        ``topic`` is the topic's index number. The result is empty for a topic without subscribers.
        """
        start, member = self._subscribers
        return member[start[topic] : start[topic + 1]]

    @cached_property
    def subscribed_topics(self) -> Int32Array:
        """Existing topics with at least one subscriber in the group (int32).

        They are index numbers, in ascending order.
        """
        start, _ = self._subscribers
        return np.flatnonzero(np.diff(start) > 0).astype(np.int32)

    @cached_property
    def member_rack(self) -> Int32Array:
        """Rack of each consumer, as a position in ``cluster.rack_names`` (int32[M]).

        The value is -1 for a consumer without a rack, and -2 for a rack on which there is no
        broker. An empty rack counts as none.
        """
        if not self.group.has_racks:
            return np.full(len(self.group), -1, np.int32)
        number = {rack: i for i, rack in enumerate(self.cluster.rack_names)}
        racks = [number.get(m.rack, -2) if m.rack else -1 for m in self.group]
        return np.array(racks, np.int32)

    @cached_property
    def claims(self) -> tuple[Int32Array, Int32Array]:
        """Partitions that each consumer reports as owned, as two arrays (start, partition).

        The partitions of member ``m`` are ``partition[start[m]:start[m + 1]]``, in the order sent.
        They are index numbers, -1 for a partition that does not exist.
        """
        start = np.zeros(len(self.group) + 1, np.int32)
        parts: list[Int32Array] = []
        for i, member in enumerate(self.group):
            owned = member.owned
            start[i + 1] = start[i] + len(owned)
            if len(owned):
                topics = np.array([self.cluster.topic(n) for n in owned.topics], np.int32)
                dense = self.index.locate_all(topics[owned.topic_ix], owned.partition)
                alive = dense >= 0
                alive[alive] = self.cluster.partition_exists[dense[alive]]
                parts.append(np.where(alive, dense, -1).astype(np.int32))
        return start, np.concatenate(parts) if parts else np.zeros(0, np.int32)


def cached_by_subscriptions(problem: Problem, make: Callable[[Problem], Made]) -> Made:
    """Compute a value that only depends on the cluster and the subscriptions, and cache it.

    The next call with the same cluster and subscriptions returns the cached value. Most rebalances
    change neither of them.

    Args:
        problem: the consumer group and the cluster, which holds the cache.
        make: function that computes the value from the problem if it is not in the cache.
    """
    # Most rebalances change neither, so the cluster keeps the results for the last subscriptions.
    # ``make`` must depend on the cluster and the subscriptions only.
    kept = problem.cluster.of_subscriptions
    subscriptions = problem.group.subscriptions
    last, made = kept[0]
    if last is not subscriptions:
        # Equal tuples of many names take a while to compare, so the next call finds the same one.
        made = made if last == subscriptions else {}
        kept[0] = subscriptions, made
    if make not in made:
        made[make] = make(problem)
    found: Made = made[make]
    return found


def _subscription_topics(problem: Problem) -> tuple[Int32Array, ...]:
    out = []
    for names in problem.group.subscriptions:
        topics = dict.fromkeys(problem.cluster.topic_all(names))
        topics.pop(-1, None)
        out.append(np.array(list(topics), np.int32))
    return tuple(out)
