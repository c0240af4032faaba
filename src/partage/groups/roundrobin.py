"""Kafka's round robin assignor: all partitions dealt out, member after member."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from partage.errors import UnsupportedProblemError
from partage.groups.base import PlainStrategy
from partage.groups.layout import Audiences, Rows, plan_in_order, topics_by_name
from partage.model import Plan, Problem, Unresolved
from partage.model.index import Int32Array

__all__ = ["RoundRobin"]


class RoundRobin(PlainStrategy):
    """All partitions, sorted by topic and number, dealt out to a ring of members.

    Guarantees: with equal subscriptions loads differ by at most one. The ring never starts
    anew at a topic; members that do not subscribe to it are skipped. Members stand in the
    ring in `partage.groups.ordering.member_order` (static ones first), topics in Java's
    string order, so neither join order nor hash order matters (members that share an
    instance id aside). Each member's list is in the order dealt.

    Cost: O(P + M log M + T log M), P partitions, M members, T topics.

    Where it is not optimal: skipped members get no compensation, so unequal subscriptions
    can leave members idle while others have several; and a member that leaves shifts the
    whole ring, which moves partitions that could have stayed.

    Partitions are numbered 0..n-1 from the count alone, as in the class: should the cluster
    lack one of them (numbers with holes), it is assigned all the same, and ``unresolved``
    has it.

    Exact to ``org.apache.kafka.clients.consumer.RoundRobinAssignor`` 4.3.1, order included.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> RoundRobin().assign(Problem(group, Cluster.from_topics({"A": 2, "B": 2}))).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "roundrobin"
    exact_to = "org.apache.kafka.clients.consumer.RoundRobinAssignor 4.3.1"
    aliases = ("org.apache.kafka.clients.consumer.RoundRobinAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan of the ring.

        Raises:
            UnsupportedProblemError: the group has no members (Java: IllegalArgumentException).
        """
        if not len(problem.group):
            raise UnsupportedProblemError(
                "roundrobin needs at least one member, the group has none"
            )
        topics = topics_by_name(problem)
        rows = Rows.of(problem, topics)
        owner = _dealt(rows, Audiences.of(problem, topics))
        return _counted_from_zero(problem, rows, owner)


def _dealt(rows: Rows, audiences: Audiences) -> Int32Array:
    """int32[n]: member of each row. Rows of one audience in a row are one turn of the ring."""
    if len(audiences.sizes) == 1:
        nth: Int32Array = np.arange(len(rows.partition), dtype=np.int32) % audiences.sizes[0]
        return audiences.order[audiences.place[nth]]
    places = [audiences.places_of(a).tolist() for a in range(len(audiences.sizes))]
    first = np.zeros(len(rows.topics), np.int32)
    cursor = 0
    counts, of_topic = rows.counts.tolist(), audiences.of_topic.tolist()
    for topic, (count, audience) in enumerate(zip(counts, of_topic, strict=True)):
        ring = places[audience]
        at = bisect_left(ring, cursor) % len(ring)
        first[topic] = at
        if count:
            cursor = ring[(at + count - 1) % len(ring)] + 1
    nth = np.arange(len(rows.partition), dtype=np.int32) - rows.spread(rows.start[:-1] - first)
    nth %= rows.spread(audiences.sizes[audiences.of_topic])
    nth += rows.spread(audiences.start[audiences.of_topic])
    return audiences.order[audiences.place[nth]]


def _counted_from_zero(problem: Problem, rows: Rows, owner: Int32Array) -> Plan:
    """The plan by counts: the class never asks which numbers a topic's partitions have."""
    number = np.arange(len(rows.partition), dtype=np.int32) - rows.spread(rows.start[:-1])
    if np.array_equal(problem.index.number_of[rows.partition], number):
        return plan_in_order(problem, rows.partition, owner)
    topic = rows.spread(rows.topics)
    dense = problem.index.locate_all(topic, number)
    there = dense >= 0
    lost = tuple(
        Unresolved(
            problem.group.ids[owner[i]],
            problem.index.topics[topic[i]],
            int(number[i]),
            int(np.count_nonzero(owner[:i] == owner[i])),
        )
        for i in np.flatnonzero(~there).tolist()
    )
    return plan_in_order(problem, dense[there], owner[there], unresolved=lost)
