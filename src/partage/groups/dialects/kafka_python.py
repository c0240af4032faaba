"""kafka-python's assignors: range, round robin, sticky and cooperative sticky (3.0.12)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from partage.groups.api import PlainStrategy, RebalanceProtocol
from partage.groups.dialects.problem import PeerAssignorError, PeerProblem, assign_ranges
from partage.groups.dialects.python_sticky import assign_sticky
from partage.groups.dialects.user_data import RemembersAssignment, decode_claims
from partage.model import Group, Plan, Problem
from partage.model.repeated_state import loop_attributes

__all__ = [
    "KafkaPythonCooperativeSticky", "KafkaPythonRange", "KafkaPythonRoundRobin",
    "KafkaPythonSticky", "sort_members",
]  # fmt: skip


class KafkaPythonRange(PlainStrategy):
    """kafka-python's range assignor: ranges per topic without racks; some members get nothing.

    Differs from Java's ``range``: racks have no effect; names sort by code points; a member's
    list is in order of topic names; a member that names a topic twice loses its first range;
    and where static and dynamic members alternate in join order, only the last run of each kind
    gets partitions (`sort_members`).

    Exact to ``kafka.coordinator.assignors.range.RangePartitionAssignor`` of kafka-python 3.0.12.
    Cost: O(P + M log M) for P partitions and M members with equal subscriptions.

    >>> from partage.model import Cluster, Member
    >>> group = Group([Member("a", ["t"]), Member("b", ["t"], instance_id="i"), Member("c", ["t"])])
    >>> KafkaPythonRange().assign(Problem(group, Cluster.from_topics({"t": 3}))).to_dict()
    {'a': {}, 'b': {'t': [0, 1]}, 'c': {'t': [2]}}
    """

    name = "kafka-python:range"
    exact_to = "kafka.coordinator.assignors.range.RangePartitionAssignor kafka-python 3.0.12"
    aliases = ("kafka.coordinator.assignors.range.RangePartitionAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Return the plan of kafka-python's range assignor, which accepts every input."""
        return assign_ranges(problem, partial(sort_members, problem.group))


class KafkaPythonRoundRobin(PlainStrategy):
    """kafka-python's round-robin assignor: partitions in turn; fails if a member must be skipped.

    Differs from Java's ``roundrobin``: names sort by code points; where static and dynamic
    members alternate in join order, only the last run of each kind gets partitions
    (`sort_members`); and where the next member does not subscribe, the class looks the following
    member up by a pair instead of its id, which raises ``KeyError``. Groups with unequal
    subscriptions therefore mostly have no plan.

    Exact to ``kafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor`` of
    kafka-python 3.0.12. Cost: O(P + M log M), P partitions, M members.

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
        """Return the plan of kafka-python's round-robin assignor.

        Raises:
            PeerAssignorError: a member has to be skipped; the class raises KeyError.
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
        return peer.plan(lists)


class KafkaPythonSticky(RemembersAssignment):
    """kafka-python's sticky assignor: even loads, then few moves; no racks.

    Differs from Java's ``sticky``: no racks; no separate algorithm for equal subscriptions; ties
    go by member id in order of code points and not by hash; each list is sorted by topic and
    number; and its user data begins with a version, so it ignores what Java's or aiokafka's
    members owned, and they ignore what its members owned (`partage.groups.dialects.user_data`).

    Guarantees: loads differ by at most one, or no partition can go from a member to one that
    has at least two less. A partition stays with its newest claimant unless balance needs it.

    Cost: O(P log P + moves log M); the class itself takes O(P² M).

    Where it is not optimal: as Java's general algorithm; and after a conflict of generations a
    partition may go back to a previous owner that no longer subscribes to it.

    Exact to ``kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor`` of
    kafka-python 3.0.12; where the class takes any element of a hash set, this takes the first by
    topic and number.

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
        """Return the plan of kafka-python's sticky assignor; warn if its class never returns.

        Raises:
            PeerAssignorError: the class raises on this problem.
        """
        peer = PeerProblem(problem)
        claims = [decode_claims(m.user_data, version_first=True) for m in problem.group]
        lists, loop = assign_sticky(peer, claims, undoes_exchanges=True)
        return peer.plan(lists, **loop_attributes(loop, self.exact_to))


class KafkaPythonCooperativeSticky(PlainStrategy):
    """kafka-python's cooperative-sticky assignor: its sticky plan in two rebalances (KIP-429).

    Differs from Java's ``cooperative-sticky``: the placement is that of ``kafka-python:sticky``.
    Claims are the subscription's owned partitions, with its generation from version 2 on.
    kafka-python's members send version 1, so their generation is -1 and the first of two
    claimants keeps a partition. A partition is withheld where the **last** member to claim it is
    not its new owner.

    Exact to ``kafka.coordinator.assignors.cooperative_sticky.CooperativeStickyAssignor`` of
    kafka-python 3.0.12. Cost: as `KafkaPythonSticky`.

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
        """Return b"": members of this strategy send no user data.

        Their claims are the subscription's owned partitions. kafka-python sends b"" rather than
        null.
        """
        return b""

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Return the plan of the cooperative-sticky assignor; warn if its class never returns.

        A partition that moves is revoked in the first rebalance and assigned in the next (KIP-429).

        Raises:
            PeerAssignorError: the class raises on this problem.
        """
        peer = PeerProblem(problem)
        claims = [(list(m.owned), m.generation) for m in problem.group]
        lists, loop = assign_sticky(peer, claims, undoes_exchanges=True)
        last_claimant = {
            slot: member
            for member, one in enumerate(problem.group)
            for slot in peer.claimed_slots(one.owned)
        }
        withheld: list[tuple[int, int]] = []
        for member, slots in enumerate(lists):
            withheld += [(s, member) for s in slots if last_claimant.get(s, member) != member]
            slots[:] = [s for s in slots if last_claimant.get(s, member) == member]
        return peer.plan(
            lists,
            withheld=peer.partition_of_slot[np.array([s for s, _ in withheld], np.int32)],
            destined=np.array([m for _, m in withheld], np.int32),
            **loop_attributes(loop, self.exact_to),
        )


def sort_members(group: Group, members: Sequence[int]) -> list[int]:
    """Sort members as kafka-python does: static ones by (instance id, id), then others by id.

    The client groups members by "is static" with ``itertools.groupby`` without sorting first,
    and collects the runs in a dict. Of several runs in join order only the **last** of each kind
    remains; members of the other runs get no partitions. Strings sort by code points.

    >>> from partage.model import Member
    >>> group = Group([Member("a"), Member("b", instance_id="i"), Member("c")])
    >>> [group[m].id for m in sort_members(group, [0, 1, 2])]
    ['b', 'c']
    """
    runs = {
        is_static: list(run)
        for is_static, run in groupby(members, key=lambda m: group[m].instance_id is not None)
    }
    static = sorted(runs.get(True, ()), key=lambda m: (group[m].instance_id or "", group[m].id))
    return static + sorted(runs.get(False, ()), key=lambda m: group[m].id)
