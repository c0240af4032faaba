"""kafka-python's round robin assignor, which fails where it must skip somebody."""

from __future__ import annotations

from partage.groups.base import PlainStrategy
from partage.groups.dialects.kafka_python_line import lined_up
from partage.groups.dialects.refusals import PeerRefusal
from partage.groups.dialects.scene import PeerScene
from partage.model import Plan, Problem

__all__ = ["KafkaPythonRoundRobin"]


class KafkaPythonRoundRobin(PlainStrategy):
    """All partitions dealt to a ring; it breaks where a member has to be skipped.

    Differs from Java's ``roundrobin``: names sort by code points; members of all but the last
    run of static and of dynamic ones are not in the ring (see
    `partage.groups.dialects.kafka_python_line`); and where the next member does not subscribe,
    the class looks the following one up by a pair instead of its id: ``KeyError``, and no
    assignment at all. So groups with unequal subscriptions mostly have no plan.

    Exact to ``kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor`` of
    kafka-python 3.0.12. Cost: O(P + M log M), P partitions, M members.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("b", ["t"]), Member("a", ["t"])])
    >>> KafkaPythonRoundRobin().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'b': {'t': [1]}, 'a': {'t': [0, 2]}}
    """

    name = "kafka-python:roundrobin"
    exact_to = (
        "kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor kafka-python 3.0.12"
    )
    aliases = ("kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan of the ring.

        Raises:
            PeerRefusal: a member would have to be skipped; the class raises KeyError.
        """
        scene, group = PeerScene(problem), problem.group
        ring = lined_up(group, range(len(group)))
        subscribed = [set(topics) for topics in scene.subscribed]
        lists: list[list[int]] = [[] for _ in group]
        for spot, k in enumerate(scene.topic_of):
            member = ring[spot % len(ring)]
            if k not in subscribed[member]:
                topic = problem.index.topics[scene.topics[k]]
                raise PeerRefusal(
                    f"{self.name}: its class cannot skip member {group.ids[member]!r}, who does "
                    f"not subscribe to {topic!r} (KeyError)",
                    "KeyError",
                )
            lists[member].append(spot)
        return scene.plan(lists)
