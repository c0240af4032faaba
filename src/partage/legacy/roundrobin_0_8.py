"""Round robin as the high-level consumer of Kafka 0.8 had it: equal subscriptions or nothing."""

from __future__ import annotations

import numpy as np

from partage.errors import UnsupportedProblemError
from partage.groups.base import PlainStrategy
from partage.groups.layout import Rows, plan_in_order, topics_by_name
from partage.groups.ordering import string_hashes
from partage.java.strings import string_order_key
from partage.model import Plan, Problem

__all__ = ["RoundRobin08"]


class RoundRobin08(PlainStrategy):
    """Partitions in the order of a hash, dealt to members that all subscribe to the same.

    The rule of ``kafka.consumer.RoundRobinAssignor`` of 0.8.2, one stream a member: refuse
    a group whose topics have not all the same consumers; sort partitions by ``hashCode`` of
    the text ``[topic,number]``, so that a topic's partitions spread over its consumers; deal
    them to the consumer threads (``member-0``), sorted by name.

    Guarantees: loads differ by at most one.
    Cost: O(P log P + M log M), P partitions, M members.

    Not exact to the class, and said so: partitions with equal hashes are taken by topic and
    number here, in the order of a Scala map there; and the class would divide by the number
    of streams, of which a member has one here. Checked against its published source, not
    by running it.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> RoundRobin08().assign(Problem(Group([Member("a", ["t"]), Member("b", ["t"])]), cluster)
    ...     ).to_dict()
    {'a': {'t': [0, 2]}, 'b': {'t': [1]}}
    """

    name = "roundrobin:0.8"
    aliases = ("kafka.consumer.RoundRobinAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan of the ring.

        Raises:
            UnsupportedProblemError: subscriptions differ, or there are no members.
        """
        _refuse_unequal(problem)
        rows = Rows.of(problem, topics_by_name(problem))
        index = problem.index
        topic = [index.topics[t] for t in index.topic_of[rows.partition].tolist()]
        number = index.number_of[rows.partition].tolist()
        text = [f"[{t},{n}]" for t, n in zip(topic, number, strict=True)]
        order = np.argsort(np.array(string_hashes(text), np.int32), kind="stable")
        ids = problem.group.ids
        ring = sorted(range(len(ids)), key=lambda i: string_order_key(f"{ids[i]}-0"))
        owner = np.array(ring, np.int32)[np.arange(len(order)) % len(ring)]
        return plan_in_order(problem, rows.partition[order], owner)


def _refuse_unequal(problem: Problem) -> None:
    if not len(problem.group):
        raise UnsupportedProblemError("roundrobin:0.8 needs at least one member")
    first = problem.group[0]
    for member in problem.group:
        if set(member.topics) != set(first.topics):
            what = (
                f"roundrobin:0.8 refuses unequal subscriptions: {member.id!r} has "
                f"{sorted(set(member.topics))}, {first.id!r} has {sorted(set(first.topics))}; "
                "take roundrobin or fair"
            )
            raise UnsupportedProblemError(what)
