"""librdkafka's round robin assignor."""

from __future__ import annotations

from partage.groups.base import PlainStrategy
from partage.groups.dialects.librdkafka_order import sorted_members
from partage.groups.dialects.librdkafka_scene import LibrdkafkaScene
from partage.model import Plan, Problem

__all__ = ["LibrdkafkaRoundRobin"]


class LibrdkafkaRoundRobin(PlainStrategy):
    """All partitions dealt to a ring of members, as Java does, in an order of its own.

    Differs from Java's ``roundrobin`` where static and dynamic members mix (Java puts static
    ones first; `partage.groups.dialects.librdkafka_order`) and in how names sort beyond U+FFFF.
    It refuses a group in which a member subscribes to nothing.

    Exact to ``rd_kafka_roundrobin_assignor_assign_cb`` of librdkafka 2.16.0, the order in which
    a member's topics stand aside. Cost: O(P + M log M), and a turn for each member skipped.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("b", ["t"], instance_id="i"), Member("a", ["t"])])
    >>> LibrdkafkaRoundRobin().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'b': {'t': [1]}, 'a': {'t': [0, 2]}}
    """

    name = "librdkafka:roundrobin"
    exact_to = "rd_kafka_roundrobin_assignor_assign_cb librdkafka 2.16.0"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan of the ring.

        Raises:
            PeerRefusal: a member subscribes to nothing.
        """
        scene, group = LibrdkafkaScene(problem), problem.group
        ring = sorted_members(group, range(len(group)))
        subscribed = [set(topics) for topics in scene.subscribed]
        lists: list[list[int]] = [[] for _ in group]
        turn = -1
        for spot, k in enumerate(scene.topic_of):
            turn = (turn + 1) % len(ring)
            while k not in subscribed[ring[turn]]:
                turn = (turn + 1) % len(ring)
            lists[ring[turn]].append(spot)
        return scene.plan(lists)
