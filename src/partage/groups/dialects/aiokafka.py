"""aiokafka's assignors: range, round robin and sticky (0.14.0). It has no cooperative one."""

from __future__ import annotations

from partage.groups.api import PlainStrategy
from partage.groups.dialects.problem import PeerProblem, assign_ranges, assign_round_robin
from partage.groups.dialects.sticky_core import assign_as_python_clients
from partage.groups.dialects.user_data import RemembersAssignment, decode_claims
from partage.model import Plan, Problem
from partage.model.repeated_state import endless_loop_fields

__all__ = ["AiokafkaRange", "AiokafkaRoundRobin", "AiokafkaSticky"]


class AiokafkaRange(PlainStrategy):
    """aiokafka's range assignor: members, sorted by id, get consecutive partitions of each topic.

    It differs from Java's ``range`` in four points. Instance ids and racks have no effect, so the
    plan changes if a static member rejoins with a new id. Names sort by code points. A member's
    list is in order of topic names. A member that names a topic twice loses its first range.

    It gives the same results as ``aiokafka.coordinator.assignors.range.RangePartitionAssignor`` of
    aiokafka 0.14.0. Cost: O(P + M log M) for P partitions and M members with equal subscriptions.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="0")])
    >>> AiokafkaRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {'t': [0, 1]}, 'b': {'t': [2]}}
    """

    name = "aiokafka:range"
    exact_to = "aiokafka.coordinator.assignors.range.RangePartitionAssignor aiokafka 0.14.0"
    aliases = ("aiokafka.coordinator.assignors.range.RangePartitionAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as aiokafka's range assignor does.

        For each topic, its subscribers get consecutive partitions in the order of their member ids.
        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        """
        ids = problem.group.ids
        return assign_ranges(problem, lambda members: sorted(members, key=ids.__getitem__))


class AiokafkaRoundRobin(PlainStrategy):
    """aiokafka's round-robin assignor: partitions go in turn to members, sorted by member id.

    It differs from Java's ``roundrobin`` in three points. Instance ids have no effect, and names
    sort by code points. A group without members has an empty plan instead of an error.

    It gives the same results as
    ``aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor`` of aiokafka 0.14.0.
    Cost: O(P + M log M), and one step for each member skipped.

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
        """Assign partitions to a group's consumers as aiokafka's round-robin assignor does.

        Each partition goes to the next member, by member id, that subscribes to its topic.
        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        """
        ids = problem.group.ids
        return assign_round_robin(
            PeerProblem(problem), sorted(range(len(ids)), key=ids.__getitem__)
        )


class AiokafkaSticky(RemembersAssignment):
    """aiokafka's sticky assignor: even loads first, then few moves.

    It is kafka-python's sticky algorithm (`KafkaPythonSticky`) with Java's user data: only version
    1 is read, and trailing bytes are ignored. On some inputs aiokafka's own code loops forever,
    because two moves of one topic cause each other. A repeated state proves this here; the plan is
    then the best valid one that the loop reaches, with a warning.

    Not imitated: the class keeps its memory on the class, so that all consumers of a process share
    it. Here each member has its own.

    It gives the same results as
    ``aiokafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor`` of aiokafka
    0.14.0; where the class takes any element of a hash set, this takes the first by topic and
    number.

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> AiokafkaSticky().assign(Problem(group, cluster)).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "aiokafka:sticky"
    exact_to = (
        "aiokafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor"
        " aiokafka 0.14.0"
    )
    aliases: tuple[str, ...] = (
        "aiokafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor",
    )

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as aiokafka's sticky assignor does.

        The members' user data say which partitions they owned. The plan has a warning if aiokafka
        would loop forever on this input. ``problem`` is the group and the cluster; ``memory``
        (state between rebalances) is not used.

        Raises:
            PeerAssignorError: aiokafka raises an error on this problem.
        """
        peer = PeerProblem(problem)
        claims = [decode_claims(m.user_data, version_first=False) for m in problem.group]
        lists, loop = assign_as_python_clients(peer, claims, undoes_exchanges=False)
        return peer.build_plan(lists, **endless_loop_fields(loop, self.exact_to))
