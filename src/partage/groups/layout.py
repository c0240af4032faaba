"""Arrays that several strategies share: orders of members and topics, topics' subscribers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.java.hash_order import names_in_map_order
from partage.java.strings import string_hashes
from partage.kernels import kernel
from partage.model import Claims, Plan, Problem
from partage.model.index import Int32Array
from partage.model.problem import cached_by_subscriptions

Made = TypeVar("Made")

__all__ = [
    "SubscriberSets",
    "TopicRows",
    "cached_by_common_subscription",
    "cached_by_subscriptions",
    "claimed_topics",
    "group_by_member",
    "group_partitions",
    "member_order",
    "members_in_map_order",
    "names_in_map_order",
    "plan_in_order",
    "rows_by_name",
    "rows_in_map_order",
    "sort_by_member",
    "string_hashes",
    "topics_by_name",
    "topics_in_map_order",
]


def cached_by_common_subscription(problem: Problem, compute: Callable[[Problem], Made]) -> Made:
    """Return ``compute(problem)``, from a cache if the cluster and the subscriptions are unchanged.

    The value may depend on the iteration order of subscribed topics. It is only cached if all
    members have the same subscription, because otherwise this order differs between rebalances.

    Args:
        problem: the consumer group and the cluster.
        compute: function that computes the value from the problem.
    """
    if len(problem.group.subscriptions) == 1:
        # With one subscription the iteration order of Kafka's topic sets is the same in each
        # rebalance, so ``make`` may depend on it.
        return cached_by_subscriptions(problem, compute)
    return compute(problem)


def members_in_map_order(problem: Problem) -> list[int]:
    """Return the positions of a group's members in the order in which Kafka's leader iterates over
    them.

    The order is that of a Java ``HashMap`` that is filled in join order. ``problem`` is the group
    and the cluster.
    """
    return problem.group.members_in_map_order


def member_order(problem: Problem) -> Int32Array:
    """Return the positions of a group's members in the sort order of Kafka's ``MemberInfo``.

    Static members come first, sorted by instance id; dynamic ones are sorted by member id, both as
    Java strings. Members with equal instance ids (one of them is fenced) keep the order of
    `members_in_map_order`. ``problem`` is the group and the cluster.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a"), Member("zz", instance_id="i"), Member("aa", instance_id="i")])
    >>> [group[m].id for m in member_order(Problem(group, Cluster.from_topics({})))]
    ['zz', 'aa', 'a']
    """
    return problem.group.members_by_instance


def topics_in_map_order(problem: Problem) -> Int32Array:
    """Return the subscribed topics in the order in which Kafka's leader iterates over them.

    It is the order of a Java ``HashMap``. Topics without partitions are left out. The result has
    the topics' index numbers in the cluster; ``problem`` is the group and the cluster.
    """
    names = _subscribed_names(problem)
    known: list[str] = []
    topics: list[int] = []
    numbers = problem.cluster.topic_all(names)
    # Kafka collects the names of all subscriptions in a HashSet, and inserts those with partitions
    # into a HashMap in this order.
    for i in names_in_map_order(names):
        topic = numbers[i]
        if topic >= 0 and len(problem.cluster.partitions_of(topic)):
            known.append(names[i])
            topics.append(topic)
    order: NDArray[np.int32] = np.array(topics, np.int32)[names_in_map_order(known)]
    return order


def _subscribed_names(problem: Problem) -> list[str]:
    # In the order of the members' map, each name once.
    group = problem.group
    if len(group.subscriptions) == 1:
        return list(dict.fromkeys(group.subscriptions[0]))
    subscription_of = group.subscription_of.tolist()
    names: dict[str, None] = {}
    # A repeated subscription adds no name.
    for one in dict.fromkeys(subscription_of[member] for member in members_in_map_order(problem)):
        names.update(dict.fromkeys(group.subscriptions[one]))
    return list(names)


@dataclass(frozen=True, eq=False)
class TopicRows:
    """Partitions of several topics in one array: topic by topic, sorted by partition number.

    Assignors use such arrays to assign all partitions without a Python loop.

    Attributes:
        topics: int32[T], the topics, in the order of the array.
        start: int32[T + 1], where each topic begins in ``partition`` (compressed rows, CSR).
        partition: int32[n], the partitions, numbered across all topics of the cluster.
    """

    topics: Int32Array
    start: Int32Array
    partition: Int32Array

    @classmethod
    def from_topics(cls, problem: Problem, topics: Int32Array) -> TopicRows:
        """Build the array of all existing partitions of the given topics.

        Topics without partitions have no entries.

        Args:
            problem: the consumer group and the cluster.
            topics: index numbers of the topics, in the order of the result.
        """
        lists = [problem.cluster.partitions_of(t) for t in topics.tolist()]
        start = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(one) for one in lists], out=start[1:])
        partition = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        return cls(topics, start, partition)

    @cached_property
    def partition_counts(self) -> Int32Array:
        """Number of existing partitions of each topic (int32[T]).

        The topics are in the order of ``topics``.
        """
        return np.diff(self.start)

    @cached_property
    def topic_index(self) -> Int32Array:
        """Topic of each partition, as a position in the array ``topics`` (int32[n]).

        For example, ``[0, 0, 1]`` for a topic with two partitions and one with a single partition.
        """
        return np.repeat(np.arange(len(self.topics), dtype=np.int32), self.partition_counts)

    def expand_to_partitions(self, by_topic: Int32Array) -> Int32Array:
        """Repeat each topic's value for each of its partitions (int32[n]).

        For example, the values 7 and 9 of two topics with 2 partitions and 1 become 7, 7, 9.
        ``by_topic`` has one value for each topic.
        """
        return np.repeat(by_topic, self.partition_counts)


def rows_in_map_order(problem: Problem) -> TopicRows:
    """Return the partitions of all subscribed topics, in the order in which Kafka's leader
    iterates.

    Topics are in the order of a Java ``HashMap`` (`topics_in_map_order`), and partitions are sorted
    by number. ``problem`` is the group and the cluster.
    """
    return cached_by_common_subscription(problem, _rows_in_map_order)


def _rows_in_map_order(problem: Problem) -> TopicRows:
    return TopicRows.from_topics(problem, topics_in_map_order(problem))


def rows_by_name(problem: Problem) -> TopicRows:
    """Return the partitions of all subscribed topics, sorted by topic name and partition number.

    Names are in Java's order of strings. ``problem`` is the group and the cluster.
    """
    return cached_by_subscriptions(problem, _rows_by_name)


def _rows_by_name(problem: Problem) -> TopicRows:
    return TopicRows.from_topics(problem, topics_by_name(problem))


@dataclass(frozen=True, eq=False)
class SubscriberSets:
    """Members that subscribe to each topic, stored once for topics with the same subscribers.

    There are usually few different sets, so assignors compute once per set and not once per topic.

    Attributes:
        order: int32[M], members in the sort order of Kafka's MemberInfo.
        set_of_topic: int32[len(topics)], number of each topic's set.
        start: int32[S + 1], where each set begins in ``position`` (CSR).
        position: int32[n], members of the sets as indices of ``order``, ascending within a set.
    """

    order: Int32Array
    set_of_topic: Int32Array
    start: Int32Array
    position: Int32Array

    @classmethod
    def from_topics(cls, problem: Problem, topics: Int32Array) -> SubscriberSets:
        """Find the members that subscribe to each of the given topics.

        Topics with the same subscribers get the same set.

        Args:
            problem: the consumer group and the cluster.
            topics: index numbers of the topics; each must have a subscriber.
        """
        order = member_order(problem)
        if len(problem.group.subscriptions) == 1 and len(topics):
            start = np.array([0, len(order)], np.int32)
            everyone = np.arange(len(order), dtype=np.int32)
            return cls(order, np.zeros(len(topics), np.int32), start, everyone)
        subscription_of = problem.group.subscription_of[order]
        by_topic = _subscriptions_by_topic(problem)
        number: dict[bytes, int] = {}
        set_of_topic = np.zeros(len(topics), np.int32)
        positions: list[Int32Array] = []
        for i, topic in enumerate(topics.tolist()):
            subscriptions = by_topic[topic]
            one = number.setdefault(subscriptions.tobytes(), len(number))
            set_of_topic[i] = one
            if one == len(positions):
                in_set = np.zeros(len(problem.group.subscriptions), bool)
                in_set[subscriptions] = True
                positions.append(np.flatnonzero(in_set[subscription_of]).astype(np.int32))
        start = np.zeros(len(positions) + 1, np.int32)
        np.cumsum([len(one) for one in positions], out=start[1:])
        position = np.concatenate(positions) if positions else np.zeros(0, np.int32)
        return cls(order, set_of_topic, start, position)

    @property
    def sizes(self) -> Int32Array:
        """Number of members in each distinct set of subscribers (int32[S]).

        The sets are numbered as in ``set_of_topic``.
        """
        return np.diff(self.start)

    def members_of_set(self, subscriber_set: int) -> Int32Array:
        """Return the members of one set of subscribers, as ascending positions in ``order``
        (int32).

        ``subscriber_set`` is the number of the set; ``set_of_topic`` has the number for each topic.
        """
        return self.position[self.start[subscriber_set] : self.start[subscriber_set + 1]]


def topics_by_name(problem: Problem) -> Int32Array:
    """Return the existing topics that have a subscriber, sorted by name.

    Names are in Java's order of strings. The result has index numbers (int32); ``problem`` is the
    group and the cluster.
    """
    subscribed = np.zeros(len(problem.index.topics), bool)
    for topics in problem.subscription_topics:
        subscribed[topics] = True
    topics = np.flatnonzero(subscribed).astype(np.int32)
    return topics[np.argsort(problem.index.topic_rank[topics])]


def _subscriptions_by_topic(problem: Problem) -> list[Int32Array]:
    # Distinct subscriptions are named by their index; each list is ascending.
    topics_of = problem.subscription_topics
    sizes = [len(topics) for topics in topics_of]
    topic = np.concatenate(topics_of) if topics_of else np.zeros(0, np.int32)
    subscription = np.repeat(np.arange(len(topics_of), dtype=np.int32), sizes)
    topics = len(problem.index.topics)
    in_order = subscription[sort_by_member(topics, topic)]
    ends = np.cumsum(np.bincount(topic, minlength=topics)).tolist()
    return [in_order[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def group_by_member(members: int, owner: Int32Array) -> tuple[Int32Array, NDArray[np.intp]]:
    """Sort the entries of an assignment by member, and return where each member's entries begin.

    Entries of one member keep their order.

    Args:
        members: number of members.
        owner: int32[n], the member of each entry.

    Returns:
        Where each member's entries begin (int32[members + 1]), and the indices of the entries
        sorted by member.
    """
    start = np.zeros(members + 1, np.int32)
    np.bincount(owner, minlength=members).cumsum(out=start[1:])
    return start, sort_by_member(members, owner)


def sort_by_member(members: int, owner: Int32Array) -> NDArray[np.intp]:
    """Return the indices that sort the entries of an assignment by member (a stable ``argsort``).

    Up to 32,768 members, the numbers are sorted as int16, which is several times faster than int32.

    Args:
        members: number of members.
        owner: int32[n], the member of each entry, below ``members``.
    """
    # NumPy sorts 16-bit keys by radix, several times faster than wider ones.
    key = owner.astype(np.int16) if members <= 2**15 else owner
    return key.argsort(kind="stable")


def plan_in_order(
    problem: Problem,
    partition: Int32Array,
    owner: Int32Array,
    **more: Any,
) -> Plan:
    """Build a plan from an array of partitions and an array with the owner of each.

    It is the last step of most assignors.

    Args:
        problem: the consumer group and the cluster.
        partition: int32[n], the partitions; each member's list keeps this order.
        owner: int32[n], the owner of each partition.
        more: further fields of the plan, such as ``warnings``.
    """
    start, grouped = group_partitions(len(problem.group), partition, owner)
    role = np.zeros(len(partition), np.int8)
    return Plan(problem.index, problem.group.ids, start, grouped, role, **more)


def group_partitions(
    members: int, partition: Int32Array, owner: Int32Array
) -> tuple[Int32Array, Int32Array]:
    """Group partitions by their owner, so that each member's partitions are consecutive.

    Each member's partitions keep their order.

    Args:
        members: number of members.
        partition: int32[n], the partitions.
        owner: int32[n], the owner of each partition.

    Returns:
        Where each member's list begins (int32[members + 1]), and the partitions (CSR).
    """
    if not group_by_owner.is_compiled:
        start, order = group_by_member(members, owner)
        return start, partition[order]
    start, grouped = np.zeros(members + 1, np.int32), np.empty(len(partition), np.int32)
    owner = np.ascontiguousarray(owner, np.int32)
    rows = np.ascontiguousarray(partition, np.int32)
    group_by_owner(rows, owner, start, grouped, work=len(rows))
    return start, grouped


def claimed_topics(claims: Sequence[Claims], number_of: Mapping[str, int]) -> Int32Array:
    """Return the topic number of each partition that members report as owned, one member after
    another.

    Members report topics by name; array operations need numbers.

    Args:
        claims: the partitions that each member reports as owned.
        number_of: dict from topic name to the topic's number; the result is -1 for other names.

    >>> some = [Claims.from_owned({"t": [0, 3]}), Claims.from_owned({"gone": [1], "t": [1]})]
    >>> claimed_topics(some, {"t": 7}).tolist()
    [7, 7, -1, 7]
    """
    # Claims of one plan share their tuple of names, and members that took turns have equal ones.
    # Each is resolved once.
    by_id = {id(one.topics): one.topics for one in claims}
    tuples = dict.fromkeys(by_id.values())
    names = list(chain.from_iterable(tuples))
    resolved = np.array([number_of.get(name, -1) for name in names], np.int32)
    topic = np.concatenate([one.topic_ix for one in claims])
    if len(tuples) > 1:
        begin = dict(zip(tuples, accumulate(map(len, tuples), initial=0), strict=False))
        first = {key: begin[one] for key, one in by_id.items()}
        at = np.array([first[id(one.topics)] for one in claims], np.int32)
        topic += np.repeat(at, [len(one.topic_ix) for one in claims])
    found: Int32Array = resolved[topic]
    return found


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def group_by_owner(
    partition: Int32Array, owner: Int32Array, list_start: Int32Array, out: Int32Array
) -> None:
    """Group partitions by their owner, so that each member's partitions are consecutive.

    The method is a counting sort; it writes to the array ``out``.

    Args:
        partition: int32[n], the partitions.
        owner: int32[n], the owner of each partition, below M.
        list_start: int32[M + 1], zeros; receives where each member's partitions begin in ``out``.
        out: int32[n], receives the partitions.
    """
    members = len(list_start) - 1
    for i in range(len(owner)):
        list_start[owner[i] + 1] += 1
    for m in range(members):
        list_start[m + 1] += list_start[m]
    for i in range(len(owner)):
        member = owner[i]
        out[list_start[member]] = partition[i]
        list_start[member] += 1
    # Each entry has advanced to where the next list begins.
    for m in range(members, 0, -1):
        list_start[m] = list_start[m - 1]
    list_start[0] = 0
