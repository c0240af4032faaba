"""aiokafka's round robin assignor."""

from __future__ import annotations

from partage.groups.base import PlainStrategy
from partage.groups.dialects.scene import PeerScene
from partage.model import Plan, Problem

__all__ = ["AiokafkaRoundRobin"]


class AiokafkaRoundRobin(PlainStrategy):
    """All partitions dealt to a ring of members by id: static membership does not count.

    Differs from Java's ``roundrobin``: instance ids have no say, names sort by code points,
    and a group without members has a plan, the empty one.

    Exact to ``aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor`` of
    aiokafka 0.14.0. Cost: O(P + M log M), and a turn for each member skipped.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="0")])
    >>> AiokafkaRoundRobin().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {'t': [0, 2]}, 'b': {'t': [1]}}
    """

    name = "aiokafka:roundrobin"
    exact_to = (
        "aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor aiokafka 0.14.0"
    )
    aliases = ("aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan of the ring. Takes any problem: raises nothing."""
        scene, group = PeerScene(problem), problem.group
        ring = sorted(range(len(group)), key=group.ids.__getitem__)
        subscribed = [set(topics) for topics in scene.subscribed]
        lists: list[list[int]] = [[] for _ in group]
        turn = -1
        for spot, k in enumerate(scene.topic_of):
            turn = (turn + 1) % len(ring)
            while k not in subscribed[ring[turn]]:
                turn = (turn + 1) % len(ring)
            lists[ring[turn]].append(spot)
        return scene.plan(lists)
