"""Range and round-robin assignors of the Go clients: franz-go 1.22.2 and Sarama 1.61.1.

Their sticky assignors depend on the order of Go's maps, which changes from run to run. They have no
strategy here; `partage.history.agreement` judges their recorded plans by what the clients promise.
"""

from __future__ import annotations

from partage.groups.api import PlainStrategy
from partage.groups.dialects.problem import (
    PeerAssignorError,
    PeerProblem,
    assign_round_robin,
    divide_into_ranges,
)
from partage.model import Group, Plan, Problem

__all__ = ["FranzGoRange", "FranzGoRoundRobin", "SaramaRange", "SaramaRoundRobin"]


class FranzGoRange(PlainStrategy):
    """franz-go's range assignor: members, static ones first, get consecutive partitions per topic.

    It differs from Java's ``range`` in three points. Racks have no effect (the option
    ``BalanceRacks`` is off by default and not imitated). Names sort by bytes. A member that names a
    topic twice has two ranges of it.

    It gives the same results as ``RangeBalancer`` of franz-go 1.22.2, except the order of a
    member's topics. Cost: O(P + M log M) for each topic.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="0")])
    >>> FranzGoRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {'t': [2]}, 'b': {'t': [0, 1]}}
    """

    name = "franz-go:range"
    exact_to = "kgo.RangeBalancer franz-go 1.22.2"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as franz-go's range assignor does.

        For each topic, its subscribers get consecutive partitions, static members first.
        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        """
        peer = PeerProblem(problem)
        rank = _franz_go_ranks(problem.group)
        lists: list[list[int]] = [[] for _ in problem.group]
        for topic, subscribers in enumerate(peer.subscribers):
            members = sorted(subscribers, key=rank.__getitem__)
            for member, slots in divide_into_ranges(members, peer.slots_of(topic)):
                lists[member].extend(slots)
        return peer.build_plan(lists)


class FranzGoRoundRobin(PlainStrategy):
    """franz-go's round-robin assignor: partitions in turn to members, static members first.

    It differs from Java's ``roundrobin`` only in the order of names beyond U+FFFF, which sort by
    bytes.

    It gives the same results as ``RoundRobinBalancer`` of franz-go 1.22.2, except the order of a
    member's topics. Cost: O(P + M log M), and one step for each member skipped.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="0")])
    >>> FranzGoRoundRobin().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {'t': [1]}, 'b': {'t': [0, 2]}}
    """

    name = "franz-go:roundrobin"
    exact_to = "kgo.RoundRobinBalancer franz-go 1.22.2"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as franz-go's round-robin assignor does.

        Each partition goes to the next member that subscribes to its topic, static members first.
        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        """
        rank = _franz_go_ranks(problem.group)
        return assign_round_robin(
            PeerProblem(problem), sorted(range(len(rank)), key=rank.__getitem__)
        )


class SaramaRange(PlainStrategy):
    """Sarama's range assignor: members, sorted by id, get consecutive partitions of each topic.

    It differs from Java's ``range`` in two points. Instance ids and racks have no effect, so the
    plan changes if a static member rejoins with a new id. Names sort by bytes.

    It gives the same results as ``BalanceStrategyRange`` of Sarama 1.61.1, except the order of a
    member's topics. Cost: O(P + M log M) for each topic.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="0")])
    >>> SaramaRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {'t': [0, 1]}, 'b': {'t': [2]}}
    """

    name = "sarama:range"
    exact_to = "sarama.BalanceStrategyRange Sarama 1.61.1"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as Sarama's range assignor does.

        For each topic, its subscribers get consecutive partitions in the order of their member ids.
        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        """
        peer = PeerProblem(problem)
        lists: list[list[int]] = [[] for _ in problem.group]
        for topic, subscribers in enumerate(peer.subscribers):
            members = sorted(set(subscribers), key=peer.id_rank.__getitem__)
            for member, slots in divide_into_ranges(members, peer.slots_of(topic)):
                lists[member].extend(slots)
        return peer.build_plan(lists)


class SaramaRoundRobin(PlainStrategy):
    """Sarama's round-robin assignor: partitions, sorted as text, go to members in turn.

    It differs from Java's ``roundrobin``: ``t-10`` comes before ``t-2``, instance ids have no
    effect, and a group without members or without topics is an error.

    It gives the same results as ``BalanceStrategyRoundRobin`` of Sarama 1.61.1, except the order of
    a member's topics. Cost: O(P log P + M log M), and one step for each member skipped.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"])])
    >>> SaramaRoundRobin().assign(Problem(group, Cluster.from_topics({"t": 11}))).to_dict()
    {'a': {'t': [0, 10, 3, 5, 7, 9]}, 'b': {'t': [1, 2, 4, 6, 8]}}
    """

    name = "sarama:roundrobin"
    exact_to = "sarama.BalanceStrategyRoundRobin Sarama 1.61.1"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as Sarama's round-robin assignor does.

        Partitions are sorted as text, such as ``t-10`` before ``t-2``, and go to the members in
        turn. ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not
        used.

        Raises:
            PeerAssignorError: the group has no members or subscribes to no topic.
        """
        peer = PeerProblem(problem)
        if not len(problem.group) or not peer.topics:
            raise PeerAssignorError("the group has no members or no topics", "error")
        members = sorted(range(len(problem.group)), key=peer.id_rank.__getitem__)
        topic_of, topic_sets = peer.topic_of_slot, peer.topic_sets
        lists: list[list[int]] = [[] for _ in problem.group]
        turn = 0
        for slot in sorted(range(len(topic_of)), key=peer.partition_name):
            while topic_of[slot] not in topic_sets[members[turn % len(members)]]:
                turn += 1
            lists[members[turn % len(members)]].append(slot)
            turn += 1
        return peer.build_plan(lists)


def _franz_go_ranks(group: Group) -> list[int]:
    """Return the rank of each group member in the sort order of the Go client franz-go.

    Static members come first, by instance id, then dynamic members by member id. Its range and
    round-robin assignors use this order.
    """
    members = sorted(
        range(len(group)),
        key=lambda m: (group[m].instance_id is None, group[m].instance_id or group[m].id),
    )
    rank = [0] * len(members)
    for position, member in enumerate(members):
        rank[member] = position
    return rank
