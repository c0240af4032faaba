"""The coordinator's assignor of share groups: a partition may be with several members."""

from __future__ import annotations

from partage.groups.base import PlainStrategy
from partage.groups.server.answer import Answer
from partage.groups.server.sharing_by_topic import share_by_topic
from partage.groups.server.sharing_one_list import share_one_list
from partage.groups.server.spec import GroupSpec
from partage.model import Assignment, Problem

__all__ = ["ServerSimple"]


class ServerSimple(PlainStrategy):
    """Share groups (KIP-932): every partition with about members / partitions members.

    Its answer is an `Assignment`, not a `Plan`: `partage.check` takes it with
    ``several_owners=True``. Members with a larger share of partitions than others, and
    partitions with more members, give up what is beyond; the rest of old assignments stays.

    Guarantees:

    1. every partition of a subscribed topic that may be assigned is with somebody;
    2. members get about the same number: over all partitions where all subscribe alike,
       topic by topic otherwise.

    Previous targets are the members' ``owned`` partitions, in the order sent. Where
    subscriptions differ, old topics that nobody subscribes to any more stay with who had
    them (Kafka's own oversight, Q24).

    Cost: O(n log n) in plain Python, n entries of the answer and of the previous targets.

    Where it is not optimal: who gets which partition follows the order of Java's maps, and
    partitions may be moved that could stay.

    Exact to ``org.apache.kafka.coordinator.group.assignor.SimpleAssignor`` 4.3.1 on JDK 17.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member(m, ["T"]) for m in "ABC"])
    >>> ServerSimple().assign(Problem(group, Cluster.from_topics({"T": 2}))).to_dict()
    {'A': {'T': [0, 1]}, 'B': {'T': [1]}, 'C': {'T': [0]}}
    """

    name = "server:simple"
    exact_to = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor 4.3.1"
    aliases = ("org.apache.kafka.coordinator.group.assignor.SimpleAssignor",)
    in_broker = True
    #: What it answers may have several owners a partition, and so is no `Plan`.
    several_owners = True

    def assign(self, problem: Problem, memory: object = None) -> Assignment:
        """The assignment. Takes any problem: raises nothing."""
        spec = GroupSpec(problem, several_owners=True)
        return self.decide(spec).assignment(spec)

    def decide(self, spec: GroupSpec) -> Answer:
        """The coordinator's answer to what it passes.

        Raises:
            CoordinatorRefusal: the partition count of a subscribed topic is unknown, or no
                member is left for a partition, as old targets may not be assigned any more.
        """
        if not spec.members:
            return Answer.nothing(spec)
        return share_one_list(spec) if spec.homogeneous else share_by_topic(spec)
