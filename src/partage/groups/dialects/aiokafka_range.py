"""aiokafka's range assignor."""

from __future__ import annotations

from partage.groups.base import PlainStrategy
from partage.groups.dialects.slices import cut_topics
from partage.model import Plan, Problem

__all__ = ["AiokafkaRange"]


class AiokafkaRange(PlainStrategy):
    """Topic by topic in slices, members by id: neither racks nor static membership count.

    Differs from Java's ``range``: instance ids and racks have no say, so the plan changes when
    a static member comes back with a new id; names sort by code points; a member's list is
    in order of topic names; a topic named twice costs its subscriber the first slice.

    Exact to ``aiokafka.coordinator.assignors.range.RangePartitionAssignor`` of aiokafka 0.14.0.
    Cost: O(P + M log M) for one audience, P partitions, M members.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="0")])
    >>> AiokafkaRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {'t': [0, 1]}, 'b': {'t': [2]}}
    """

    name = "aiokafka:range"
    exact_to = "aiokafka.coordinator.assignors.range.RangePartitionAssignor aiokafka 0.14.0"
    aliases = ("aiokafka.coordinator.assignors.range.RangePartitionAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan. Takes any problem: raises nothing."""
        ids = problem.group.ids
        return cut_topics(problem, lambda members: sorted(members, key=ids.__getitem__))
