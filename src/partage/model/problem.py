"""A group on a cluster, with names resolved to numbers: the input of strategies and the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.model.claims import ClaimRows, Claims
from partage.model.cluster import Cluster
from partage.model.group import Group
from partage.model.index import Index, Int32Array
from partage.model.validation import expect_kind

__all__ = ["Problem", "RejoinedGroup", "ReportedPartitions", "cached_by_subscriptions"]

Made = TypeVar("Made")


class ReportedPartitions(NamedTuple):
    """Existing partitions that members report as owned, and their generations, as arrays.

    M is the number of members, n the number of reported partitions.

    Attributes:
        start: int64[M + 1], where each member's partitions begin in ``partition`` (CSR).
        partition: int32[n], index numbers of the partitions, in the order sent.
        generation: int64[M], generation that each member reports, -1 for none.
        is_dated: bool[M], whether a member reports a generation.
    """

    start: NDArray[np.int64]
    partition: Int32Array
    generation: NDArray[np.int64]
    is_dated: NDArray[np.bool_]

    def in_order(self, members: NDArray[np.integer]) -> tuple[NDArray[np.int64], Int32Array]:
        """Return all members' owned partitions, member after member in the given order.

        The result is two parallel arrays: for each partition the place of its member in
        ``members``, and the partition. ``members`` has each member's position once.
        """
        sizes = (self.start[1:] - self.start[:-1])[members]
        shift = self.start[members] - (sizes.cumsum() - sizes)
        at = np.arange(len(self.partition)) + shift.repeat(sizes)
        return np.arange(len(members)).repeat(sizes), self.partition[at]


class RejoinedGroup(Group):
    """Group whose members joined again with other owned partitions.

    Ids and subscriptions are those of the earlier group. The arguments are not validated, because
    simulations of many rebalances create many groups. Two arguments are functions. They are only
    called if a strategy reads the values, because most strategies only need arrays.

    Args:
        group: the earlier group.
        rows: returns the owned partitions that each member reports.
        generations: the group generation in which each member got them.
        user_data: returns the user data of each member's subscription.
        has_claims: whether any member reports a partition.

    >>> from partage.model import Claims, Member
    >>> owned = ClaimRows.from_members([Claims.from_owned({"t": [1]})])
    >>> group = Group([Member("a", ["t"])])
    >>> RejoinedGroup(group, lambda: owned, [4], lambda: [None], has_claims=True)[0]
    Member('a', topics=['t'], owned={'t': [1]}, generation=4)
    """

    def __init__(
        self,
        group: Group,
        rows: Callable[[], ClaimRows],
        generations: Sequence[int],
        user_data: Callable[[], Sequence[bytes | None]],
        *,
        has_claims: bool,
    ) -> None:
        self.ids, self.orders = group.ids, group.orders
        self.subscriptions, self.subscription_of = group.subscriptions, group.subscription_of
        self.has_claims, self.has_racks = has_claims, group.has_racks
        self.has_static_members = group.has_static_members
        self.has_weights_or_capacities = group.has_weights_or_capacities
        self._before, self._rows = group.members, rows
        self._generations, self._user_data = generations, user_data

    def __getattr__(self, name: str) -> Any:
        # Python calls it for an attribute that is not set.
        if name != "members":
            raise AttributeError(name)
        sent = zip(self.claimed.by_member(), self._generations, self._user_data(), strict=True)
        self.members = tuple(
            [member.rejoined(*one) for member, one in zip(self._before, sent, strict=True)]
        )
        return self.members

    @cached_property
    def claimed(self) -> ClaimRows:
        """Owned partitions that all members of the group report, as flat arrays (`ClaimRows`).

        The value is computed once and then cached.
        """
        return self._rows()


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
        reported: the partitions and generations that a sticky strategy reads, if they exist as
            arrays; otherwise strategies read them from the members.

    >>> from partage.model import Member
    >>> group = Group([Member("b", ["t", "gone"]), Member("a", ["t"])])
    >>> problem = Problem(group, Cluster.from_topics({"t": 2}))
    >>> problem.members_of(0).tolist(), problem.topics_of(0).tolist()
    ([0, 1], [0])
    """

    group: Group
    cluster: Cluster
    sent_claims: tuple[tuple[Claims, int | None], ...] | None = None
    reported: ReportedPartitions | None = None

    def __post_init__(self) -> None:
        expect_kind(self.group, Group, "group")
        expect_kind(self.cluster, Cluster, "cluster")

    def rejoined(
        self,
        group: Group,
        claims: tuple[Int32Array, Int32Array],
        reported: ReportedPartitions | None = None,
    ) -> Problem:
        """Return a copy in which the same consumers join again with other owned partitions.

        The copy shares all values that do not depend on owned partitions. The arguments are not
        validated.

        Args:
            group: the same members with other owned partitions, see `RejoinedGroup`.
            claims: the same owned partitions by their index numbers, as in `Problem.claims`.
            reported: the partitions and generations that sticky strategies read, as arrays; None to
                read them from the members.
        """
        # Values that only depend on subscriptions, racks and cluster are shared.
        made = object.__new__(Problem)
        vars(made).update(vars(self), group=group, claims=claims, reported=reported)
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


def cached_by_subscriptions(problem: Problem, compute: Callable[[Problem], Made]) -> Made:
    """Compute a value that only depends on the cluster and the subscriptions, and cache it.

    The next call with the same cluster and subscriptions returns the cached value. Most rebalances
    change neither of them.

    Args:
        problem: the consumer group and the cluster, which holds the cache.
        compute: function that computes the value from the problem if it is not in the cache.
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
    if compute not in made:
        made[compute] = compute(problem)
    found: Made = made[compute]
    return found


def _subscription_topics(problem: Problem) -> tuple[Int32Array, ...]:
    out = []
    for names in problem.group.subscriptions:
        topics = dict.fromkeys(problem.cluster.topic_all(names))
        topics.pop(-1, None)
        out.append(np.array(list(topics), np.int32))
    return tuple(out)
