"""kafka-python's assignors: range, round robin, sticky and cooperative sticky (3.0.12).

The sticky algorithm, which aiokafka shares, is `sticky_core.assign_as_python_clients`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from partage.groups.api import PlainStrategy, RebalanceProtocol
from partage.groups.dialects.problem import PeerAssignorError, PeerProblem, assign_ranges
from partage.groups.dialects.sticky_core import assign_as_python_clients
from partage.groups.dialects.user_data import RemembersAssignment, decode_claims
from partage.model import Group, Plan, Problem
from partage.model.repeated_state import endless_loop_fields

__all__ = [
    "KafkaPythonCooperativeSticky",
    "KafkaPythonRange",
    "KafkaPythonRoundRobin",
    "KafkaPythonSticky",
    "sort_members",
]


class KafkaPythonRange(PlainStrategy):
    """kafka-python's range assignor; a defect leaves some members without partitions.

    If static and dynamic members alternate in join order, only the last ones of each kind get
    partitions (`sort_members`). Other differences from Java's ``range``: racks have no effect, and
    names sort by code points. A member's list is in order of topic names. A member that names a
    topic twice loses its first range.

    It gives the same results as ``kafka.coordinator.assignors.range.RangePartitionAssignor`` of
    kafka-python 3.0.12. Cost: O(P + M log M) for P partitions and M members with equal
    subscriptions.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="i"), Member("c", ["t"])])
    >>> KafkaPythonRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {}, 'b': {'t': [0, 1]}, 'c': {'t': [2]}}
    """

    name = "kafka-python:range"
    exact_to = "kafka.coordinator.assignors.range.RangePartitionAssignor kafka-python 3.0.12"
    aliases = ("kafka.coordinator.assignors.range.RangePartitionAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as kafka-python's range assignor does.

        For each topic, its subscribers get consecutive partitions in the order of `sort_members`.
        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        """
        return assign_ranges(problem, partial(sort_members, problem.group))


class KafkaPythonRoundRobin(PlainStrategy):
    """kafka-python's round-robin assignor, which fails if a member must be skipped.

    It differs from Java's ``roundrobin``: names sort by code points. If static and dynamic members
    alternate in join order, only the last ones of each kind get partitions (`sort_members`). If a
    member must be skipped because it does not subscribe, the class raises ``KeyError``. Groups with
    unequal subscriptions therefore mostly have no plan.

    It gives the same results as
    ``kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor`` of kafka-python 3.0.12.
    Cost: O(P + M log M), P partitions, M members.

    >>> from partage.model import Cluster, Member
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
        """Assign partitions to a group's consumers as kafka-python's round-robin assignor does.

        Partitions go to the members in turn. ``problem`` is the group and the cluster; ``memory``
        (state between rebalances) is not used.

        Raises:
            PeerAssignorError: the next member does not subscribe to a topic; kafka-python raises
                KeyError.
        """
        peer, group = PeerProblem(problem), problem.group
        members, topic_sets = sort_members(group, range(len(group))), peer.topic_sets
        lists: list[list[int]] = [[] for _ in group]
        for slot, topic in enumerate(peer.topic_of_slot):
            member = members[slot % len(members)]
            if topic not in topic_sets[member]:
                name = problem.index.topics[peer.topics[topic]]
                raise PeerAssignorError(
                    f"{self.name}: its class cannot skip member {group.ids[member]!r}, which does "
                    f"not subscribe to {name!r} (KeyError)",
                    "KeyError",
                )
            lists[member].append(slot)
        return peer.build_plan(lists)


class KafkaPythonSticky(RemembersAssignment):
    """kafka-python's sticky assignor: even loads first, then few moves; racks have no effect.

    It differs from Java's ``sticky`` in four points. It has no racks, and no separate algorithm for
    equal subscriptions. Ties between members are broken by member id, not by hash. Each list is
    sorted by topic and number. Its user data begins with a version, so members of Java or aiokafka
    cannot read it, and it cannot read theirs (`partage.groups.dialects.user_data`).

    Guarantees: loads differ by at most one, or each partition's owner has at most one partition
    more than any other subscriber of its topic. A partition stays with its newest claimant unless
    balance needs it.

    Cost: O(P log P + moves log M); the class itself takes O(P² M).

    Where it is not optimal: as Java's general algorithm; and after a conflict of generations a
    partition may go back to a previous owner that no longer subscribes to it.

    It gives the same results as
    ``kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor`` of kafka-python
    3.0.12; where the class takes any element of a hash set, this takes the first by topic and
    number.

    >>> from partage.model import Cluster, Member
    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> KafkaPythonSticky().assign(Problem(group, cluster)).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "kafka-python:sticky"
    exact_to = (
        "kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor"
        " kafka-python 3.0.12"
    )
    aliases: tuple[str, ...] = (
        "kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor",
    )
    version_first = True

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers as kafka-python's sticky assignor does.

        The members' user data say which partitions they owned. The plan has a warning if
        kafka-python would loop forever on this input. ``problem`` is the group and the cluster;
        ``memory`` (state between rebalances) is not used.

        Raises:
            PeerAssignorError: kafka-python raises an error on this problem.
        """
        peer = PeerProblem(problem)
        claims = [decode_claims(m.user_data, version_first=True) for m in problem.group]
        lists, loop = assign_as_python_clients(peer, claims, undoes_exchanges=True)
        return peer.build_plan(lists, **endless_loop_fields(loop, self.exact_to))


class KafkaPythonCooperativeSticky(PlainStrategy):
    """kafka-python's cooperative-sticky assignor: its sticky plan in two rebalances (KIP-429).

    It differs from Java's ``cooperative-sticky``: the plan is that of ``kafka-python:sticky``. If
    two members report the same partition as owned, the newer generation counts. kafka-python's
    members send no generation (subscription version 1), so the first of them keeps the partition. A
    partition waits for the second rebalance if the **last** member that reports it is not its new
    owner.

    It gives the same results as
    ``kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor`` of kafka-python
    3.0.12. Cost: as `KafkaPythonSticky`.

    >>> from partage.model import Cluster, Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> KafkaPythonCooperativeSticky().assign(Problem(group, cluster)).to_dict()
    {'a': {'t': [0, 1]}, 'b': {}}
    """

    name = "kafka-python:cooperative-sticky"
    version = 1
    exact_to = (
        "kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor"
        " kafka-python 3.0.12"
    )
    aliases = ("kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor",)
    protocols = (RebalanceProtocol.COOPERATIVE,)

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes:
        """Return empty user data, as kafka-python's cooperative-sticky consumers send it.

        Their subscriptions list the owned partitions, so user data are not needed. ``topics`` and
        ``memory`` have no effect.
        """
        return b""

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions like kafka-python's cooperative-sticky assignor.

        A partition that moves is revoked in the first rebalance and assigned in the next (KIP-429).
        The plan has a warning if kafka-python would loop forever on this input. ``problem`` is the
        group and the cluster; ``memory`` (state between rebalances) is not used.

        Raises:
            PeerAssignorError: kafka-python raises an error on this problem.
        """
        peer = PeerProblem(problem)
        claims = [(list(m.owned), m.generation) for m in problem.group]
        lists, loop = assign_as_python_clients(peer, claims, undoes_exchanges=True)
        last_claimant = {
            slot: member
            for member, one in enumerate(problem.group)
            for slot in peer.claimed_slots(one.owned)
        }
        withheld: list[tuple[int, int]] = []
        for member, slots in enumerate(lists):
            withheld += [(s, member) for s in slots if last_claimant.get(s, member) != member]
            slots[:] = [s for s in slots if last_claimant.get(s, member) == member]
        return peer.build_plan(
            lists,
            withheld=peer.partition_of_slot[np.array([s for s, _ in withheld], np.int32)],
            destined=np.array([m for _, m in withheld], np.int32),
            **endless_loop_fields(loop, self.exact_to),
        )


def sort_members(group: Group, members: Sequence[int]) -> list[int]:
    """Sort group members as kafka-python does, including a bug that drops some of them.

    Static members come first, by instance id, then dynamic ones by member id. If static and dynamic
    members alternate in join order, only the **last** sequence of each kind remains, and the other
    members get no partitions.

    Args:
        group: the consumer group.
        members: positions of the members to sort.

    >>> from partage.model import Member
    >>> group = Group([Member("a"), Member("b", instance_id="i"), Member("c")])
    >>> [group[m].id for m in sort_members(group, [0, 1, 2])]
    ['b', 'c']
    """
    # The client calls ``itertools.groupby`` without sorting first. Strings sort by code points.
    runs = {
        is_static: list(run)
        for is_static, run in groupby(members, key=lambda m: group[m].instance_id is not None)
    }
    static = sorted(runs.get(True, ()), key=lambda m: (group[m].instance_id or "", group[m].id))
    return static + sorted(runs.get(False, ()), key=lambda m: group[m].id)
