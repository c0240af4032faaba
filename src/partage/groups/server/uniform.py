"""The coordinator's uniform assignor, the default of KIP-848 groups."""

from __future__ import annotations

from partage.groups.base import PlainStrategy
from partage.groups.server.group_assignment import GroupAssignment
from partage.groups.server.spec import GroupSpec
from partage.groups.server.uniform_heterogeneous import assign_heterogeneous
from partage.groups.server.uniform_homogeneous import assign_homogeneous
from partage.model import Plan, Problem

__all__ = ["ServerUniform"]


class ServerUniform(PlainStrategy):
    """Even and sticky in the broker (KIP-848), by previous targets.

    Guarantees where all members subscribe alike, the first before the next:

    1. loads differ by at most one;
    2. a member keeps its previous partitions, up to its quota; the larger quotas go first
       to members whose previous partitions fill them, otherwise to the last members.

    Where subscriptions differ: a member keeps all previous partitions of topics to which it
    still subscribes; unassigned partitions go to the least loaded subscriber; then topics are
    balanced one by one, in at most 16 rounds, until loads within the subscribers of each
    topic differ by at most one.

    Racks have no effect. Previous targets are the members' ``owned`` partitions, in the order
    sent, which decides ties inside a bucket of Java's maps; for partitions that several
    members claim see `partage.groups.server.targets.previous_targets`. Topics without an id
    get one from their name. A member's kept partitions come first, then new ones; in Kafka
    they are a set.

    Cost: O(P + M + T) on arrays for equal subscriptions, P partitions, M members, T topics;
    O(P + sum of subscribers over topics) and a sort per topic to balance for others.

    Where it is not optimal: a member with one partition over its quota loses it even where
    members before it have taken the larger quotas by chance; and with overlapping
    subscriptions loads may differ by more than necessary (9, 10, 11 remains).

    Exact to ``org.apache.kafka.coordinator.group.assignor.UniformAssignor`` 4.3.1 on JDK 17
    (from JDK 19 on, the iteration order of 12, 24, 48... topics differs).

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("A", ["T"], owned={"T": [0, 1]}), Member("B", ["T"])])
    >>> ServerUniform().assign(Problem(group, Cluster.from_topics({"T": 3}))).to_dict()
    {'A': {'T': [0, 1]}, 'B': {'T': [2]}}
    """

    name = "server:uniform"
    exact_to = "org.apache.kafka.coordinator.group.assignor.UniformAssignor 4.3.1"
    aliases = ("org.apache.kafka.coordinator.group.assignor.UniformAssignor",)
    in_broker = True

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Return the plan of a problem; every problem has one."""
        spec = GroupSpec(problem)
        return self.decide(spec).plan(spec)

    def decide(self, spec: GroupSpec) -> GroupAssignment:
        """Return the assignment for the coordinator's own input.

        Raises:
            CoordinatorAssignorError: the partition count of a subscribed topic is unknown, or
                the previous targets are invalid (a partition twice, or one that does not exist).
        """
        if not spec.members:
            return GroupAssignment.empty(spec)
        return assign_homogeneous(spec) if spec.homogeneous else assign_heterogeneous(spec)
