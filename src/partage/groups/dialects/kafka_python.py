"""kafka-python's assignors: range, round robin, sticky and cooperative sticky (3.0.12).

The sticky algorithm is Kafka's general one of 2.3, in `partage.groups.dialects.sticky_core`. This
module resolves claims (partitions that members say they own), and orders and moves partitions, as
kafka-python does. aiokafka has the same algorithm and calls `assign_sticky`, too.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import numpy as np

from partage.groups.api import PlainStrategy, RebalanceProtocol
from partage.groups.dialects.problem import PeerAssignorError, PeerProblem, assign_ranges
from partage.groups.dialects.sticky_core import (
    GeneralAssignment,
    SettledClaims,
    owned_slots_in_turns,
    run_to_end,
    subscriptions_identical,
)
from partage.groups.dialects.user_data import Claims, RemembersAssignment, decode_claims
from partage.model import Group, Plan, Problem
from partage.model.repeated_state import EndlessLoop, endless_loop_fields

__all__ = [
    "KafkaPythonCooperativeSticky",
    "KafkaPythonRange",
    "KafkaPythonRoundRobin",
    "KafkaPythonSticky",
    "assign_sticky",
    "sort_members",
]


class KafkaPythonRange(PlainStrategy):
    """kafka-python's range assignor; a defect leaves some members without partitions.

    Differs from Java's ``range``: racks have no effect; names sort by code points; a member's list
    is in order of topic names; a member that names a topic twice loses its first range. If static
    and dynamic members alternate in join order, only the last ones of each kind get partitions
    (`sort_members`).

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
        """Assign partitions to a group's consumers as kafka-python's range assignor does.

        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        """
        return assign_ranges(problem, partial(sort_members, problem.group))


class KafkaPythonRoundRobin(PlainStrategy):
    """kafka-python's round-robin assignor, which fails if a member must be skipped.

    Differs from Java's ``roundrobin``: names sort by code points. If static and dynamic members
    alternate in join order, only the last ones of each kind get partitions (`sort_members`). If a
    member must be skipped because it does not subscribe, the class raises ``KeyError``. Groups with
    unequal subscriptions therefore mostly have no plan.

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
        """Assign partitions to a group's consumers as kafka-python's round-robin assignor does.

        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.

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

    Differs from Java's ``sticky`` in four points. It has no racks, and no separate algorithm for
    equal subscriptions. Of equal candidates, the first by member id counts, and not by hash. Each
    list is sorted by topic and number. Its user data begins with a version, so members of Java or
    aiokafka cannot read it, and it cannot read theirs (`partage.groups.dialects.user_data`).

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
        """Assign partitions to a group's consumers as kafka-python's sticky assignor does.

        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        The plan has a warning if kafka-python would loop forever on this input.

        Raises:
            PeerAssignorError: kafka-python raises an error on this problem.
        """
        peer = PeerProblem(problem)
        claims = [decode_claims(m.user_data, version_first=True) for m in problem.group]
        lists, loop = assign_sticky(peer, claims, undoes_exchanges=True)
        return peer.build_plan(lists, **endless_loop_fields(loop, self.exact_to))


class KafkaPythonCooperativeSticky(PlainStrategy):
    """kafka-python's cooperative-sticky assignor: its sticky plan in two rebalances (KIP-429).

    Differs from Java's ``cooperative-sticky``: the plan is that of ``kafka-python:sticky``. If two
    members report the same partition as owned, the newer generation counts. kafka-python's members
    send no generation (subscription version 1), so the first of them keeps the partition. A
    partition waits for the second rebalance if the **last** member that reports it is not its new
    owner.

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
        """Return empty user data, as kafka-python's cooperative-sticky consumers send it.

        Their subscriptions list the owned partitions instead. ``topics`` and ``memory`` have no
        effect.
        """
        return b""

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign partitions to a group's consumers like kafka-python's cooperative-sticky assignor.

        A partition that moves is revoked in the first rebalance and assigned in the next (KIP-429).
        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        The plan has a warning if kafka-python would loop forever on this input.

        Raises:
            PeerAssignorError: kafka-python raises an error on this problem.
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
        return peer.build_plan(
            lists,
            withheld=peer.partition_of_slot[np.array([s for s, _ in withheld], np.int32)],
            destined=np.array([m for _, m in withheld], np.int32),
            **endless_loop_fields(loop, self.exact_to),
        )


def sort_members(group: Group, members: Sequence[int]) -> list[int]:
    """Sort group members as kafka-python does, including a bug that drops some of them.

    Static members come first, by (instance id, id), then dynamic ones by id. If static and dynamic
    members alternate in join order, only the **last** sequence of each kind remains; the other
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


# --- sticky, as aiokafka has it too --------------------------------------------------------


def assign_sticky(
    peer: PeerProblem, claims: Sequence[Claims], *, undoes_exchanges: bool
) -> tuple[list[list[int]], EndlessLoop | None]:
    """Assign partitions by the sticky algorithm of the Python clients kafka-python and aiokafka.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the partitions that each member reports as owned, and their generation.
        undoes_exchanges: whether to apply kafka-python's remedy for endless exchanges, see
            `PythonAssignment`.

    Returns:
        The partitions of each member (indices of the problem's sorted partitions); and the endless
        loop if the client would loop forever, else None. In case of a loop the partitions are the
        most even valid assignment that it visits.

    Raises:
        PeerAssignorError: the client raises an error on this problem.
    """
    if not claims:
        what = "the sticky assignor needs at least one member (its queue is empty)"
        raise PeerAssignorError(what, "TypeError" if undoes_exchanges else "ValueError")
    settled = settle_claims(peer, claims)
    has_claims = any(partitions for partitions, _ in claims)
    order = order_slots(peer, settled, has_claims=has_claims)
    return run_to_end(
        partial(PythonAssignment, peer, settled, order, undoes_exchanges=undoes_exchanges)
    )


def settle_claims(peer: PeerProblem, claims: Sequence[Claims]) -> SettledClaims:
    """Choose one owner for each partition that consumers report as owned, as kafka-python does.

    The newest generation wins; the second newest gives the previous owner.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the partitions that each member reports as owned, and their generation.
    """
    claimants_by_slot: dict[int, dict[int, int]] = {}
    for member, (partitions, generation) in enumerate(claims):
        for slot in peer.claimed_slots(partitions):
            claimants = claimants_by_slot.setdefault(slot, {})
            # With equal generations the first member counts. Only with generation 0, which the
            # clients take for "no generation", the last one does.
            if generation == 0 or generation not in claimants:
                claimants[generation] = member
    owned: list[list[int]] = [[] for _ in claims]
    previous = {}
    for slot, claimants in claimants_by_slot.items():
        generations = sorted(claimants, reverse=True)
        owned[claimants[generations[0]]].append(slot)
        if len(generations) > 1:
            previous[slot] = claimants[generations[1]]
    return SettledClaims(owned, previous)


def order_slots(peer: PeerProblem, claims: SettledClaims, *, has_claims: bool) -> list[int]:
    """Sort all partitions into the order in which kafka-python's sticky assignor handles them.

    Partitions with the fewest subscribers come first.

    Args:
        peer: members, topics and partitions as the client sees them.
        claims: the owner of each partition after conflicting reports are resolved.
        has_claims: whether any member reports a partition as owned, even one that does not exist.
    """
    subscribers = [len(members) for members in peer.subscribers]
    slots = range(len(peer.topic_of_slot))
    by_subscribers = sorted(slots, key=lambda s: subscribers[peer.topic_of_slot[s]])
    # The order of topic names as sent counts. A client may send a set's elements in any order, so
    # members with the same topics may have "different" subscriptions.
    if not has_claims or not subscriptions_identical(peer, peer.subscriptions):
        return by_subscribers
    # With identical subscriptions the owned partitions come first.
    owned = owned_slots_in_turns(peer, claims)
    is_owned = set(owned)
    return owned + [slot for slot in by_subscribers if slot not in is_owned]


class PythonAssignment(GeneralAssignment):
    """One run of Kafka's sticky algorithm as the Python clients kafka-python and aiokafka have it.

    Args:
        peer: the group's members, topics and partitions.
        claims: the owners after conflicting reports of members are resolved.
        order: all partitions in the order of `order_slots`.
        undoes_exchanges: whether kafka-python's remedy for endless exchanges is applied (3.0):
            before a partition moves in place of another one (`Movements`) but has a new owner
            already, the move of that other one is undone. aiokafka may exchange two partitions
            forever.
        watch: whether to keep the best plan so far, for inputs on which the client loops forever.
    """

    def __init__(
        self,
        peer: PeerProblem,
        claims: SettledClaims,
        order: Sequence[int],
        *,
        undoes_exchanges: bool,
        watch: bool = False,
    ) -> None:
        super().__init__(peer, claims, order, watch=watch)
        self._undoes_exchanges = undoes_exchanges
        self._movements = Movements()
        # Fixed members that the class looked up in a defaultdict and so added again, empty.
        self._added_again: set[int] = set()

    def _replace_excluded_target(self, owner: int, target: int) -> int:
        """Return -1 if a partition's previous owner must not get it, so that another member does.

        Args:
            owner: the current owner of the partition.
            target: the previous owner.

        Raises:
            PeerAssignorError: kafka-python raises KeyError, because the current owner has other
                partitions.
        """
        self._added_again.add(target)
        if self._queue.load[owner] > 1:
            what = "a partition is to return to a previous owner that can take none (KeyError)"
            raise PeerAssignorError(what, "KeyError")
        return -1

    def _move_partition(self, slot: int, topic: int, target: int) -> None:
        # Kafka's getTheActualPartitionToBeMoved: a partition of the topic that moved in the
        # opposite direction earlier moves back instead.
        owner = self.owner[slot]
        moving = self._movements.partition_to_move(slot, topic, owner, target)
        if self._undoes_exchanges and self.owner[moving] != owner:
            self._move_one(slot, topic, self.owner[moving])
        self._move_one(moving, topic, target)

    def _move_one(self, slot: int, topic: int, target: int) -> None:
        source = self.owner[slot]
        self._moving.add(slot)
        self._movements.add_movement(slot, topic, source, target)
        self._queue.change_load(source, -1)
        self._give(target, slot)

    def _copied_lists(self) -> list[list[int]]:
        lists: list[list[int]] = [[] for _ in self.lists]
        for slot, owner in enumerate(self.owner):
            lists[owner].append(slot)
        return lists

    def _is_valid(self) -> bool:
        topic_of_slot, topic_sets = self._peer.topic_of_slot, self._topic_sets
        return not self._is_irregular or all(
            topic_of_slot[slot] in topic_sets[owner] for slot, owner in enumerate(self.owner)
        )

    def _comparable_state(self) -> tuple[object, ...]:
        # The queue of members follows from the owners.
        return (
            tuple(self.owner),
            self._movements.comparable_state(),
            self._is_irregular,
            frozenset(self._added_again),
        )

    def _loads(self) -> list[int]:
        # The class counts 0 for each excluded member that its look-up has added again.
        return [*super()._loads(), *(0 for _ in self._added_again)]


class Movements:
    """Record of partition moves so far, with source and target (Kafka's ``PartitionMovements``)."""

    def __init__(self) -> None:
        # The clients keep the partitions that moved from one member to another in a hash set and
        # pick an arbitrary one, which depends on the process's hash seed. Here the first one by
        # topic and number is picked.
        self._way: dict[int, tuple[int, int]] = {}
        self._slots: dict[tuple[int, int, int], list[int]] = {}

    def partition_to_move(self, slot: int, topic: int, source: int, target: int) -> int:
        """Return a partition that can move back to member ``target``, else the partition ``slot``.

        A partition of the same topic moves back if it moved from ``target`` to ``source`` before.
        That has the same effect on loads and keeps one more partition in place.

        Args:
            slot: the partition that should move (an index of the sorted partitions).
            topic: its topic.
            source: the member that has it.
            target: the member that should get it.
        """
        if slot in self._way:
            source = self._way[slot][0]
        back = self._slots.get((topic, target, source))
        return back[0] if back else slot

    def add_movement(self, slot: int, topic: int, source: int, target: int) -> None:
        """Record that a partition has moved; if it is back at its first owner, forget its moves.

        Args:
            slot: the partition (an index of the sorted partitions).
            topic: its topic.
            source: the member that had it.
            target: the member that got it.
        """
        if slot in self._way:
            source, before = self._way.pop(slot)
            slots = self._slots[topic, source, before]
            del slots[bisect_left(slots, slot)]
            if not slots:
                del self._slots[topic, source, before]
            if source == target:
                return
        self._way[slot] = (source, target)
        insort(self._slots.setdefault((topic, source, target), []), slot)

    def comparable_state(self) -> frozenset[tuple[int, tuple[int, int]]]:
        """Return all recorded moves as one comparable value, for the detection of endless loops."""
        return frozenset(self._way.items())
