"""kafka-python's range assignor."""

from __future__ import annotations

from functools import partial

from partage.groups.base import PlainStrategy
from partage.groups.dialects.kafka_python_line import lined_up
from partage.groups.dialects.slices import cut_topics
from partage.model import Plan, Problem

__all__ = ["KafkaPythonRange"]


class KafkaPythonRange(PlainStrategy):
    """Topic by topic in slices; no racks, and members that it forgets.

    Differs from Java's ``range``: racks have no say; names sort by code points; a member's
    list is in order of topic names; a topic named twice costs its subscriber the first slice;
    and members are grouped into static and dynamic ones without sorting them first, so that
    where the two kinds alternate in join order only the last run of each gets anything
    (`partage.groups.dialects.kafka_python_line`).

    Exact to ``kafka.coordinator.assignors.range.RangePartitionAssignor`` of kafka-python 3.0.12.
    Cost: O(P + M log M) for one audience, P partitions, M members.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a"), Member("b", ["t"], instance_id="i"), Member("c", ["t"])])
    >>> one = group[0].replaced(topics=["t"])
    >>> KafkaPythonRange().assign(Problem(Group([one, *group.members[1:]]),
    ...     Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {}, 'b': {'t': [0, 1]}, 'c': {'t': [2]}}
    """

    name = "kafka-python:range"
    exact_to = "kafka.coordinator.assignors.range.RangePartitionAssignor kafka-python 3.0.12"
    aliases = ("kafka.coordinator.assignors.range.RangePartitionAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan. Takes any problem: raises nothing."""
        return cut_topics(problem, partial(lined_up, problem.group))
