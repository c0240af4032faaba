"""The round-robin assignor of Kafka 0.8's high-level consumer, for equal subscriptions only."""

from __future__ import annotations

import numpy as np

from partage.errors import UnsupportedProblemError
from partage.groups.api import PlainStrategy
from partage.groups.layout import TopicRows, plan_in_order, string_hashes, topics_by_name
from partage.java.strings import string_order_key
from partage.model import Plan, Problem

__all__ = ["RoundRobin08"]


class RoundRobin08(PlainStrategy):
    """Kafka 0.8's round-robin assignor: partitions in hash order, for equal subscriptions only.

    It follows ``kafka.consumer.RoundRobinAssignor`` of 0.8.2, with one stream per member. All
    members must subscribe to the same topics. Partitions are sorted by ``hashCode`` of the text
    ``[topic,number]``, which spreads a topic's partitions over its consumers. They are assigned
    round robin to the consumer threads (``member-0``), sorted by name.

    Guarantees: loads differ by at most one. Cost: O(P log P + M log M), P partitions, M members.

    Not exact to the class: partitions with equal hashes are sorted by topic and number here, and
    are in the order of a Scala map there. Checked against the published source, not by running it.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> RoundRobin08().assign(Problem(Group([Member("a", ["t"]), Member("b", ["t"])]), cluster)
    ...     ).to_dict()
    {'a': {'t': [0, 2]}, 'b': {'t': [1]}}
    """

    name = "roundrobin:0.8"
    aliases = ("kafka.consumer.RoundRobinAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions round robin in hash order, as Kafka 0.8's high-level consumer does.

        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.

        Raises:
            UnsupportedProblemError: subscriptions differ, or there are no members.
        """
        _check_equal_subscriptions(problem)
        rows = TopicRows.from_topics(problem, topics_by_name(problem))
        index = problem.index
        topic = [index.topics[t] for t in index.topic_of[rows.partition].tolist()]
        number = index.number_of[rows.partition].tolist()
        text = [f"[{t},{n}]" for t, n in zip(topic, number, strict=True)]
        order = np.argsort(np.array(string_hashes(text), np.int32), kind="stable")
        ids = problem.group.ids
        threads = sorted(range(len(ids)), key=lambda i: string_order_key(f"{ids[i]}-0"))
        owner = np.array(threads, np.int32)[np.arange(len(order)) % len(threads)]
        return plan_in_order(problem, rows.partition[order], owner)


def _check_equal_subscriptions(problem: Problem) -> None:
    if not len(problem.group):
        raise UnsupportedProblemError("roundrobin:0.8 needs at least one member")
    first = problem.group[0]
    for member in problem.group:
        if set(member.topics) != set(first.topics):
            what = (
                f"roundrobin:0.8 needs equal subscriptions: {member.id!r} has "
                f"{sorted(set(member.topics))}, {first.id!r} has {sorted(set(first.topics))}; "
                "use roundrobin or fair"
            )
            raise UnsupportedProblemError(what)
