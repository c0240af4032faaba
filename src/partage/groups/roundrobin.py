"""Kafka's round-robin assignor: partitions go to the members in turn."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from partage.errors import UnsupportedProblemError
from partage.groups.api import PlainStrategy
from partage.groups.layout import SubscriberSets, TopicRows, plan_in_order, rows_by_name
from partage.model import Plan, Problem, Unresolved
from partage.model.index import Int32Array

__all__ = ["RoundRobin"]


class RoundRobin(PlainStrategy):
    """Kafka's round-robin assignor: partitions, sorted by topic and number, to members in turn.

    Guarantees: with equal subscriptions loads differ by at most one. The turn continues from
    topic to topic and skips members that do not subscribe. Members are in
    `partage.groups.layout.member_order` (static ones first), topics in Java's string order,
    so neither join order nor hash order matters (except for members that share an instance
    id). Each member's list is in the order of assignment.

    Cost: O(P + M log M + T log M), P partitions, M members, T topics.

    Where it is not optimal: a skipped member gets no compensation, so unequal subscriptions
    can leave members idle while others have several partitions. A member that leaves shifts
    all turns, which moves partitions that could stay.

    As in Kafka's class, a topic's partitions are 0..n-1 for its count n. A number that the
    cluster does not have is assigned, too, and is listed in ``unresolved``.

    It gives the same results as ``org.apache.kafka.clients.consumer.RoundRobinAssignor`` 4.3.1,
    including the order of each member's partitions.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> RoundRobin().assign(Problem(group, Cluster.from_topics({"A": 2, "B": 2}))).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "roundrobin"
    exact_to = "org.apache.kafka.clients.consumer.RoundRobinAssignor 4.3.1"
    aliases = ("org.apache.kafka.clients.consumer.RoundRobinAssignor",)
    reads_claims = False
    instance_ids_only_sort = True

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions in turn: each goes to the next member that subscribes to its topic.

        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.

        Raises:
            UnsupportedProblemError: the group has no members (Java: IllegalArgumentException).
        """
        if not len(problem.group):
            raise UnsupportedProblemError(
                "roundrobin needs at least one member, the group has none"
            )
        rows = rows_by_name(problem)
        owner = _assign_in_turn(rows, SubscriberSets.from_topics(problem, rows.topics))
        return _plan_by_counts(problem, rows, owner)


def _assign_in_turn(topic_rows: TopicRows, subscribers: SubscriberSets) -> Int32Array:
    """Assign partitions in turn to the members that subscribe to their topics.

    The turn continues from topic to topic and skips members that do not subscribe. The result is
    the member of each partition, in the order of ``topic_rows`` (int32[n]).
    """
    if len(subscribers.sizes) == 1:
        nth: Int32Array = (
            np.arange(len(topic_rows.partition), dtype=np.int32) % subscribers.sizes[0]
        )
        return subscribers.order[subscribers.position[nth]]
    members_of = [subscribers.members_of_set(s).tolist() for s in range(len(subscribers.sizes))]
    first = np.zeros(len(topic_rows.topics), np.int32)
    cursor = 0
    counts, set_of_topic = topic_rows.partition_counts.tolist(), subscribers.set_of_topic.tolist()
    for topic, (count, subscriber_set) in enumerate(zip(counts, set_of_topic, strict=True)):
        members = members_of[subscriber_set]
        at = bisect_left(members, cursor) % len(members)
        first[topic] = at
        if count:
            cursor = members[(at + count - 1) % len(members)] + 1
    nth = np.arange(len(topic_rows.partition), dtype=np.int32) - topic_rows.expand_to_partitions(
        topic_rows.start[:-1] - first
    )
    nth %= topic_rows.expand_to_partitions(subscribers.sizes[subscribers.set_of_topic])
    nth += topic_rows.expand_to_partitions(subscribers.start[subscribers.set_of_topic])
    return subscribers.order[subscribers.position[nth]]


def _plan_by_counts(problem: Problem, rows: TopicRows, owner: Int32Array) -> Plan:
    # Kafka's class numbers each topic's partitions from 0, whatever their real numbers are.
    number = np.arange(len(rows.partition), dtype=np.int32) - rows.expand_to_partitions(
        rows.start[:-1]
    )
    if np.array_equal(problem.index.number_of[rows.partition], number):
        return plan_in_order(problem, rows.partition, owner)
    topic = rows.expand_to_partitions(rows.topics)
    dense = problem.index.locate_all(topic, number)
    exists = dense >= 0
    missing = tuple(
        Unresolved(
            problem.group.ids[owner[i]],
            problem.index.topics[topic[i]],
            int(number[i]),
            int(np.count_nonzero(owner[:i] == owner[i])),
        )
        for i in np.flatnonzero(~exists).tolist()
    )
    return plan_in_order(problem, dense[exists], owner[exists], unresolved=missing)
