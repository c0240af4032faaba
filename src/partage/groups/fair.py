"""KIP-49's fair assignor: each partition goes to the least loaded subscriber."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.api import PlainStrategy
from partage.groups.layout import SubscriberSets, TopicRows, plan_in_order, topics_by_name
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["Fair", "assign_fairly"]


class Fair(PlainStrategy):
    """KIP-49's fair assignor: the most constrained topics first, to the least loaded subscriber.

    KIP-49 says: a partition goes to the least loaded eligible member; topics with the fewest
    consumers come first; among those, topics with more partitions. Ties that it leaves open
    are broken so that its examples hold and the input order does not matter:

    * equally loaded members: the first in `partage.groups.layout.member_order` (static
      members by instance id, then dynamic ones by member id, in Java's string order);
    * topics that tie on both counts: by name, in Java's string order;
    * partitions of a topic: by number. A member's list is in the order of assignment.

    Guarantees: with equal subscriptions, loads differ by at most one. Rebalances are not
    sticky: claims are ignored.

    Cost: O(P log P + S (M + T)) on arrays, P partitions, M members, T topics, S runs of
    topics with the same subscribers.

    Where it is not optimal: it is greedy. With topics t1, t2, t3 of one partition each and
    members a [t1 t2], b [t1], c [t2 t3], it assigns t1-0 and t2-0 to a and leaves b idle
    (spread 2), while a: t2-0, b: t1-0, c: t3-0 is even (spread 0).

    Source: KIP-49 (never merged into Kafka; ``FairAssignor`` is the class name it proposes).

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("C1", ["T1", "T2"]), Member("C2", ["T1"])])
    >>> Fair().assign(Problem(group, Cluster.from_topics({"T1": 3, "T2": 1}))).to_dict()
    {'C1': {'T2': [0], 'T1': [1]}, 'C2': {'T1': [0, 2]}}
    """

    name = "fair"
    aliases = ("org.apache.kafka.clients.consumer.FairAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign each partition to the subscriber with the fewest partitions so far (KIP-49).

        The plan is empty for a group without members or topics. ``problem`` is the group and the
        cluster; ``memory`` (state between rebalances) is not used.
        """
        rows, member = assign_fairly(problem, topics_by_name(problem))
        return plan_in_order(problem, rows.partition, member)


def assign_fairly(problem: Problem, topics: Int32Array) -> tuple[TopicRows, Int32Array]:
    """Assign each partition to the subscriber with the fewest partitions so far (KIP-49).

    Topics with the fewest subscribers come first, then those with the most partitions.

    Args:
        problem: the group and the cluster.
        topics: the existing topics with subscribers; topics that tie are assigned in this order.

    Returns:
        The partitions in the order of assignment, and the member of each.
    """
    rows, subscribers = _sort_most_constrained_first(problem, topics)
    owner = np.zeros(len(rows.partition), np.int32)
    load = np.zeros(len(problem.group), np.int64)
    for first, last, subscriber_set in _group_consecutive_topics(rows, subscribers):
        positions = subscribers.members_of_set(subscriber_set)
        owner[first:last] = positions[_assign_each_to_least_loaded(load[positions], last - first)]
        load += np.bincount(owner[first:last], minlength=len(load))
    return rows, subscribers.order[owner]


def _sort_most_constrained_first(
    problem: Problem, topics: Int32Array
) -> tuple[TopicRows, SubscriberSets]:
    """Sort topics so that those with the fewest subscribers come first.

    Of topics with equally many subscribers, those with more partitions come first. The result has
    the partitions in this order of topics, and the subscribers of each topic.
    """
    subscribers = SubscriberSets.from_topics(problem, topics)
    counts = TopicRows.from_topics(problem, topics).partition_counts
    order = np.lexsort((-counts, subscribers.sizes[subscribers.set_of_topic]))
    topics = topics[order]
    return TopicRows.from_topics(problem, topics), SubscriberSets.from_topics(problem, topics)


def _group_consecutive_topics(
    topic_rows: TopicRows, subscribers: SubscriberSets
) -> list[tuple[int, int, int]]:
    """Group consecutive topics that have the same subscribers, to assign them like one large topic.

    The result has three numbers for each group: the index of its first partition and the end of its
    partitions in ``topic_rows``, and the number of its set of subscribers.
    """
    if not len(topic_rows.topics):
        return []
    new = np.flatnonzero(np.diff(subscribers.set_of_topic)) + 1
    first_topic = np.concatenate([[0], new])
    starts = topic_rows.start[first_topic].tolist()
    ends = [*starts[1:], len(topic_rows.partition)]
    sets = subscribers.set_of_topic[first_topic].tolist()
    return [(a, b, c) for a, b, c in zip(starts, ends, sets, strict=True) if b > a]


def _assign_each_to_least_loaded(load: NDArray[np.int64], partition_count: int) -> Int32Array:
    """Assign partitions one by one, each to the member with the fewest partitions so far.

    For example, loads of 0 and 2 partitions and three more partitions give the members 0, 0, 0.
    ``load`` is the number of partitions of each member (int64[M]), the result the member of each
    new partition (int32).
    """
    # Of equally loaded members, the first is chosen. The result is computed without a loop over
    # partitions.
    level = _water_level(load, partition_count)
    turns = np.maximum(level - load, 0)
    member = np.repeat(np.arange(len(load), dtype=np.int32), turns)
    nth = np.arange(len(member)) - np.repeat(np.cumsum(turns) - turns, turns)
    when = load[member] + nth
    return member[np.argsort(when, kind="stable")[:partition_count]]


def _water_level(load: NDArray[np.int64], count: int) -> int:
    low = np.sort(load)
    # Raising the k+1 lowest members to the next higher load takes room[k] partitions.
    room = low * np.arange(1, len(low) + 1) - np.cumsum(low)
    k = int(np.searchsorted(room, count, side="left"))
    missing = count - int(room[k - 1])
    return int(low[k - 1]) - (-missing // k)
