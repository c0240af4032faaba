"""Kafka's sticky assignors (KIP-54, KIP-429, KIP-881) as strategies.

`_decide` is the sequence of steps: decode the claims (partitions that a member says it owns),
resolve conflicts between them, then run the constrained algorithm for equal subscriptions or the
general one for different subscriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from partage.errors import InvalidConfigError
from partage.groups.api import PlainStrategy, RebalanceProtocol
from partage.groups.sticky.claims import (
    ClaimedSlots,
    claims_of_owned,
    claims_of_user_data,
    has_equal_subscriptions,
    owned_slots,
    resolve_claims,
    sends_user_data,
)
from partage.groups.sticky.constrained import assign_constrained, assign_in_turn
from partage.groups.sticky.decision import (
    Decision,
    StickyAssignorError,
    Transfers,
    must_revoke_first,
)
from partage.groups.sticky.general import assign_general
from partage.groups.sticky.problem import PartitionSlots, Racks, StickyProblem
from partage.model import NO_GENERATION, Assignment, Plan, Problem
from partage.model.index import Int32Array
from partage.wire.consumer_protocol import encode_sticky_user_data

__all__ = ["CooperativeSticky", "Sticky", "StickyMemory"]


class Sticky(PlainStrategy):
    """Kafka's sticky assignor (eager protocol): even loads first, then few moves.

    Members revoke all partitions during the rebalance. A claim is a partition that a member reports
    as owned before the rebalance.

    Guarantees, in order of priority:

    1. loads differ by at most one; with unequal subscriptions, the owner of a partition has at most
       one partition more than any other subscriber of its topic;
    2. partitions stay with the member that claims them. The newer generation wins; claims of one
       generation on one partition cancel each other;
    3. with racks (KIP-881), partitions go to members on a rack of one of their replicas where the
       first two leave a choice; members lose partitions that they own across racks.

    Java's hash order of the member ids decides which members may keep one more partition: neither
    join order nor names matter, and the plan is the same on any machine.

    Claims are sent as the subscription's user data (`subscription_user_data`, from the memory of
    `on_assignment`); the subscription's owned partitions are ignored.

    Cost: O(P log P) for P partitions with equal subscriptions; with unequal ones O(P (log M + S)),
    M members, S distinct subscriptions among a topic's subscribers.

    Where it is not optimal: with equal subscriptions, avoidable moves are possible when a member
    leaves; with unequal ones, moves are found one by one, so they may be many and may not reach the
    most even loads.

    It gives the same results as ``org.apache.kafka.clients.consumer.StickyAssignor`` 4.3.1
    (KIP-54), including the order of each member's partitions. Where the class throws,
    `StickyAssignorError` is raised. Where the class never returns, the plan is the best one that it
    reached, with a warning (``plan.loop``).

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> Sticky().assign(Problem(group, cluster)).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "sticky"
    exact_to: str | None = "org.apache.kafka.clients.consumer.StickyAssignor 4.3.1"
    aliases: tuple[str, ...] = ("org.apache.kafka.clients.consumer.StickyAssignor",)
    sends_assignment = True
    instance_ids_only_sort = True

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes | None:
        """Encode the partitions that a consumer owned last, and their generation, as user data.

        The consumer sends them when it joins its group, so that the leader can leave partitions
        where they are.

        Args:
            topics: the subscribed topics; not used.
            memory: the state that `on_assignment` returned, if any.

        Returns:
            The user data; None before the consumer's first assignment.
        """
        last = StickyMemory.check_memory(memory)
        if last.generation is None:
            return None
        return encode_sticky_user_data(last.partitions, last.generation)

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> StickyMemory:
        """Return the state that a consumer stores until the next rebalance.

        It consists of the consumer's new partitions and their generation, which it reports when it
        joins again.

        Args:
            assignment: the partitions that the consumer just got.
            user_data: ignored; the sticky assignor sends no user data with assignments.
            generation: generation of the consumer group.
            memory: the state that the previous call returned, or None.
        """
        pairs = tuple(chain.from_iterable(assignment.to_pairs().values()))
        return StickyMemory(StickyMemory.check_memory(memory).max_generation, pairs, generation)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign the partitions of all subscribed topics to the members of a consumer group.

        Loads are even, and as few partitions as possible change their owner. The members' user data
        say which partitions they owned.

        Args:
            problem: the consumer group and the cluster.
            memory: ``plan.memory`` of the previous call (`StickyMemory`), if any.

        Raises:
            StickyAssignorError: Kafka's class throws an exception.
        """
        before = StickyMemory.check_memory(memory)
        sticky = StickyProblem(problem)
        decision, highest = self.decide_owners(sticky, before.max_generation)
        return decision.to_plan(sticky, memory=before.with_generation(highest))

    def decide_owners(self, sticky: StickyProblem, max_generation: int) -> tuple[Decision, int]:
        """Run Kafka's sticky algorithm and return its result as arrays.

        `assign` converts such a result to a plan. Simulations of many rebalances use the arrays,
        because that is faster.

        Args:
            sticky: members, topics and partitions of the rebalance.
            max_generation: the highest generation that members reported in earlier rebalances, -1
                for none.

        Returns:
            The assignment, and the highest generation that members reported so far.

        Raises:
            StickyAssignorError: Kafka's class throws an exception.
        """
        if not sends_user_data(sticky.problem) and _is_assigned_round_robin(sticky):
            return _decide_in_turn(sticky, max_generation)
        return _decide(sticky, max_generation, claims_of_user_data)


class CooperativeSticky(PlainStrategy):
    """Kafka's cooperative-sticky assignor: as sticky, but only partitions that move are revoked.

    Members keep consuming the partitions that stay. A partition that moves is missing from the
    first plan; its owner revokes it and rejoins, and the next plan assigns it (KIP-429).

    Guarantees, cost and limits are those of `Sticky` for the final plan, and no partition has two
    owners on the way. Claims (partitions reported as owned) are the subscription's owned
    partitions; in a group with the eager protocol members own nothing when they join, so there it
    is not sticky at all (Q13).

    It gives the same results as ``org.apache.kafka.clients.consumer.CooperativeStickyAssignor``
    4.3.1, including the order of each member's partitions. Where the class throws,
    `StickyAssignorError` is raised. Where the class never returns, the plan is the best one that it
    reached, with a warning (``plan.loop``).

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"t": 3})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1, 2]}), Member("b", ["t"])])
    >>> CooperativeSticky().assign(Problem(group, cluster)).to_dict()
    {'a': {'t': [0, 1]}, 'b': {}}
    """

    name = "cooperative-sticky"
    exact_to: str | None = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor 4.3.1"
    aliases: tuple[str, ...] = ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor",)
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    reads_assignment = False
    instance_ids_only_sort = True

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes:
        """Encode the generation of a consumer's last assignment as user data.

        The consumer sends it when it joins its group. The owned partitions are a field of the
        subscription, so the user data need not repeat them.

        Args:
            topics: the subscribed topics; not used.
            memory: the state that `on_assignment` returned; without it the generation is -1.
        """
        generation = StickyMemory.check_memory(memory).generation
        return (NO_GENERATION if generation is None else generation).to_bytes(4, "big", signed=True)

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> StickyMemory:
        """Return the state that a consumer stores until the next rebalance: the group's generation.

        Partitions are not stored, because a cooperative consumer reports what it owns when it
        joins.

        Args:
            assignment: the partitions that the consumer just got, which have no effect.
            user_data: ignored.
            generation: generation of the consumer group.
            memory: the state that the previous call returned, or None.
        """
        before = StickyMemory.check_memory(memory)
        return StickyMemory(before.max_generation, before.partitions, generation)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign all partitions; a partition that moves has no owner in the first plan.

        Its old owner must revoke it first, and then rejoins. The next rebalance assigns the
        partition to its new owner (KIP-429). Such partitions are in the plan's ``withheld``.

        Args:
            problem: the consumer group and the cluster.
            memory: ``plan.memory`` of the previous call (`StickyMemory`), if any.

        Raises:
            StickyAssignorError: Kafka's class throws an exception.
        """
        before = StickyMemory.check_memory(memory)
        sticky = StickyProblem(problem)
        decision, highest = self._decide_final_owners(sticky, before.max_generation)
        transfers = _find_changed_owners(sticky, decision)
        after = before.with_generation(highest)
        if not len(transfers.slot):
            return decision.to_plan(sticky, memory=after)
        # Claims beyond the partition count have no dense number.
        real = transfers.slot < decision.slots.real
        return _without_transfers(decision, transfers).to_plan(
            sticky,
            memory=after,
            withheld=sticky.dense[transfers.slot[real]],
            destined=transfers.member[real],
        )

    def decide_owners(self, sticky: StickyProblem, max_generation: int) -> tuple[Decision, int]:
        """Run Kafka's cooperative sticky algorithm and return its result as arrays.

        Partitions that another member must revoke first have no owner. `assign` converts such a
        result to a plan; simulations of many rebalances use the arrays, because that is faster.

        Args:
            sticky: members, topics and partitions of the rebalance.
            max_generation: the highest generation that members reported in earlier rebalances, -1
                for none.

        Returns:
            The assignment, and the highest generation that members reported so far.

        Raises:
            StickyAssignorError: Kafka's class throws an exception.
        """
        decision, highest = self._decide_final_owners(sticky, max_generation)
        return _without_transfers(decision, _find_changed_owners(sticky, decision)), highest

    @staticmethod
    def _decide_final_owners(sticky: StickyProblem, max_generation: int) -> tuple[Decision, int]:
        # The assignment after the follow-up rebalance.
        if not sticky.problem.group.reports_claims and _is_assigned_round_robin(sticky):
            return _decide_in_turn(sticky, max_generation)
        return _decide(sticky, max_generation, claims_of_owned)


def _is_assigned_round_robin(sticky: StickyProblem) -> bool:
    """Return whether Kafka's sticky assignors assign the partitions of a new group round robin.

    They do if all subscriptions are equal and no member has a rack.
    """
    without_racks = sticky.members > 0 and not sticky.problem.group.has_racks
    return without_racks and has_equal_subscriptions(sticky)


def _decide_in_turn(sticky: StickyProblem, max_generation: int) -> tuple[Decision, int]:
    # Claims need not be read.
    return assign_in_turn(sticky, PartitionSlots(sticky)), max(max_generation, NO_GENERATION)


def _decide(
    sticky: StickyProblem, max_generation: int, read: Callable[[StickyProblem], ClaimedSlots]
) -> tuple[Decision, int]:
    claimed = read(sticky)
    highest = int(claimed.generation.max(initial=max_generation))
    try:
        owned = resolve_claims(sticky, claimed)
        racks = Racks(sticky, claimed.slots)
        if has_equal_subscriptions(sticky):
            return assign_constrained(sticky, owned, claimed.slots, racks), highest
        return assign_general(sticky, claimed, owned, racks, highest), highest
    except StickyAssignorError as refusal:
        refusal.max_generation = highest
        raise


def _find_changed_owners(sticky: StickyProblem, decision: Decision) -> Transfers:
    """Find the partitions that change their owner in a cooperative rebalance, and the new owners.

    The old owner must revoke them first (KIP-429), so the assignor leaves them without owner until
    the next rebalance.
    """
    # The constrained algorithm records them (``partitionsTransferringOwnership``). Otherwise they
    # are found by comparison with the owned partitions.
    return decision.transfers or _find_transfers(sticky, decision)


def _find_transfers(sticky: StickyProblem, decision: Decision) -> Transfers:
    member, slot = owned_slots(sticky, decision.slots)
    if not decision.slots.all_partitions_exist:
        return _find_transfers_of_duplicates(sticky, decision, member, slot)
    owner = np.full(decision.slots.count, -1, np.int32)
    owner[decision.slot] = decision.member_of_partition
    gone = np.flatnonzero(must_revoke_first(member, slot, owner)).astype(np.int32)
    return Transfers(gone, owner[gone])


def _find_transfers_of_duplicates(
    sticky: StickyProblem, decision: Decision, member: Int32Array, slot: Int32Array
) -> Transfers:
    """Find the partitions that change their owner, if the assignment has partitions twice.

    Kafka assigns a partition twice if members report partitions that do not exist. ``member`` and
    ``slot`` (int32[n]) are the current owners and their partitions.
    """
    have = set(zip(member.tolist(), slot.tolist(), strict=True))
    start, given = decision.start.tolist(), decision.slot.tolist()
    order = (
        sticky.members_in_assignment_order if decision.owner_order is None else decision.owner_order
    )
    lists = {m: given[start[m] : start[m + 1]] for m in order}
    # Of two new owners, the last one in the iteration order of Kafka's map counts.
    added = {s: m for m, mine in lists.items() for s in mine if (m, s) not in have}
    get = {(m, s) for m, mine in lists.items() for s in mine}
    revoked = {s for m, s in have if (m, s) not in get}
    gone = [s for s in added if s in revoked]
    return Transfers(np.array(gone, np.int32), np.array([added[s] for s in gone], np.int32))


def _without_transfers(decision: Decision, transfers: Transfers) -> Decision:
    if not len(transfers.slot):
        return decision
    new_owner = np.full(decision.slots.count, -1, np.int32)
    new_owner[transfers.slot] = transfers.member
    gone = new_owner[decision.slot] == decision.member_of_partition
    return decision.without_partitions(gone)


@dataclass(frozen=True, slots=True)
class StickyMemory:
    """State that a sticky assignor keeps from one rebalance to the next.

    In Kafka, these are fields of the assignor object.

    Attributes:
        max_generation: the highest generation that any member reported in any call of ``assign``.
            It never decreases. So it even applies if the consumer later joins a group whose
            generations are lower (Q6 in docs/quirks.md).
        partitions: the member's last assignment, in order; only used by ``sticky``.
        generation: generation of that assignment; None before the first one.

    >>> StickyMemory.check_memory(None)
    StickyMemory(max_generation=-1, partitions=(), generation=None)
    """

    max_generation: int = NO_GENERATION
    partitions: tuple[tuple[str, int], ...] = ()
    generation: int | None = None

    @classmethod
    def check_memory(cls, memory: object) -> StickyMemory:
        """Return the stored state of a sticky assignor, after checking its type.

        None, which stands for a consumer before its first rebalance, gives an empty state.

        Raises:
            InvalidConfigError: another assignor stored the state.
        """
        if memory is None:
            return _NO_MEMORY
        if not isinstance(memory, cls):
            raise InvalidConfigError("memory", "must be the memory of a sticky strategy", memory)
        return memory

    def with_generation(self, highest: int) -> StickyMemory:
        """Return a copy of a sticky assignor's stored state with a new highest generation.

        It is called after each rebalance, with the highest generation that members reported.
        """
        if highest == self.max_generation:
            return self
        return StickyMemory(highest, self.partitions, self.generation)


_NO_MEMORY = StickyMemory()
