"""The coordinator's uniform assignor, the default of KIP-848 groups."""

from __future__ import annotations

from partage.groups.base import PlainStrategy
from partage.groups.server.answer import Answer
from partage.groups.server.heterogeneous import heterogeneous
from partage.groups.server.homogeneous import homogeneous
from partage.groups.server.spec import GroupSpec
from partage.model import Plan, Problem

__all__ = ["ServerUniform"]


class ServerUniform(PlainStrategy):
    """Even and sticky in the broker (KIP-848), by previous targets.

    Guarantees where all members subscribe alike, the first before the next:

    1. loads differ by at most one;
    2. a member keeps what it had, up to its quota; the larger quotas go first to members
       that fill them with what they had, otherwise to the last members.

    Where subscriptions differ: every member keeps all that it had of topics to which it
    still subscribes; free partitions go to the least loaded subscriber; then topics are
    balanced one by one, in at most 16 rounds, until loads within the subscribers of each
    topic differ by at most one.

    Racks have no say. Previous targets are the members' ``owned`` partitions, in the order
    sent, which decides ties inside a bucket of Java's maps; where members claim the same,
    see `partage.groups.server.targets.targets_from_claims`. Topics without an id get one
    from their name. Within a member partitions come as kept, then as given; to Kafka they
    are sets.

    Cost: O(P + M + T) on arrays for equal subscriptions, P partitions, M members, T topics;
    O(P + sum of subscribers over topics) and a sort per topic to balance for others.

    Where it is not optimal: a member that had one more than its quota loses it even where
    the larger quotas were used up by chance before; and with overlapping subscriptions
    loads over all members may differ by more than they must (9, 10, 11 is left as it is).

    Exact to ``org.apache.kafka.coordinator.group.assignor.UniformAssignor`` 4.3.1 on JDK 17
    (from JDK 19 on, 12, 24, 48... topics are met in another order).

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
        """The plan. Takes any problem: raises nothing."""
        spec = GroupSpec(problem)
        return self.decide(spec).plan(spec)

    def decide(self, spec: GroupSpec) -> Answer:
        """The coordinator's answer to what it passes.

        Raises:
            CoordinatorRefusal: the partition count of a subscribed topic is unknown, or
                previous targets are such as no coordinator has.
        """
        if not spec.members:
            return Answer.nothing(spec)
        return homogeneous(spec) if spec.homogeneous else heterogeneous(spec)
