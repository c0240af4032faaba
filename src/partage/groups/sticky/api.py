"""Kafka's sticky assignors as strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from partage.errors import InvalidConfigError
from partage.groups.api import RebalanceProtocol
from partage.groups.base import PlainStrategy
from partage.groups.sticky.claims import (
    Claimed,
    equal_subscriptions,
    from_owned,
    from_user_data,
    raw_owned,
    settled,
)
from partage.groups.sticky.constrained import constrained
from partage.groups.sticky.decision import Decision, JavaRefusal, Transfers, withheld
from partage.groups.sticky.general import general
from partage.groups.sticky.problem import Scene
from partage.groups.sticky.racks import Racks
from partage.model import NO_GENERATION, Assignment, Plan, Problem
from partage.model.index import Int32Array
from partage.wire.sticky_userdata import encode_sticky_user_data

__all__ = ["CooperativeSticky", "Sticky", "StickyMemory"]


class Sticky(PlainStrategy):
    """Balanced first, then as few moves as it finds; members give everything up meanwhile.

    Guarantees, the first before the next:

    1. loads differ by at most one; with unequal subscriptions, no partition can go from a
       member to one that has at least two less;
    2. partitions stay with the owner that claims them. The newer generation wins, claims of
       one generation on one partition cancel each other;
    3. with racks (KIP-881), partitions go to members on a rack of one of their replicas where
       the first two leave a choice; what is owned across racks is given up.

    Which members may keep one partition more follows Java's hash order of their ids: neither
    join order nor names decide, but the plan is the same on any machine.

    Claims travel as the subscription's user data (`subscription_user_data`, made from what
    `on_assignment` remembered); the subscription's owned partitions are not looked at.

    Cost: O(P log P) for P partitions with equal subscriptions; with unequal ones
    O(P (log M + S)), S distinct subscriptions among a topic's subscribers.

    Where it is not optimal: with equal subscriptions, when a member leaves, extra partitions
    may stay where they are counted worse; with unequal ones, moves are found one by one and
    need neither be few nor reach the most even loads.

    Exact to ``org.apache.kafka.clients.consumer.StickyAssignor`` 4.3.1 (KIP-54), order
    included. Where the class throws (`JavaRefusal`), so does this. Where the class never returns,
    the plan is the best one that it reached, with a warning (``plan.loop``).

    >>> from partage.model import Cluster, Group, Member
    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> Sticky().assign(Problem(group, cluster)).to_dict()
    {'C1': {'A': [0], 'B': [1]}, 'C2': {'A': [1]}, 'C3': {'B': [0]}}
    """

    name = "sticky"
    exact_to: str | None = "org.apache.kafka.clients.consumer.StickyAssignor 4.3.1"
    aliases: tuple[str, ...] = ("org.apache.kafka.clients.consumer.StickyAssignor",)

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes | None:
        """The partitions and generation of the last assignment; None before the first."""
        mine = StickyMemory.of(memory)
        if mine.generation is None:
            return None
        return encode_sticky_user_data(mine.partitions, mine.generation)

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> StickyMemory:
        """Remembers partitions (of all members in ``assignment``, as a rule one) and generation."""
        pairs = tuple(pair for mine in assignment.to_pairs().values() for pair in mine)
        return replace(StickyMemory.of(memory), partitions=pairs, generation=generation)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The leader's plan; ``plan.memory`` is a `StickyMemory`.

        Raises:
            JavaRefusal: as Kafka's class throws; says why.
        """
        before = StickyMemory.of(memory)
        scene = Scene(problem)
        decision, highest = self.decide(scene, before.max_generation)
        return decision.to_plan(scene, memory=replace(before, max_generation=highest))

    def decide(self, scene: Scene, max_generation: int) -> tuple[Decision, int]:
        """What the class answers, be it a plan or not, and the highest generation seen now.

        Raises:
            JavaRefusal: as Kafka's class throws.
        """
        return _decided(scene, max_generation, from_user_data)


class CooperativeSticky(PlainStrategy):
    """As sticky, in two phases: what changes hands is given to nobody first (KIP-429).

    A member keeps consuming what it keeps. What it must give up is missing from the plan
    altogether; it revokes that and joins again, and the next plan hands it over.

    Guarantees, cost and limits are those of `Sticky`, for the plan that is reached in the end;
    and no partition is owned twice on the way. Claims are the subscription's owned
    partitions; in a group that runs the eager protocol members have none left when they
    join, so there it is not sticky at all (Q13).

    Exact to ``org.apache.kafka.clients.consumer.CooperativeStickyAssignor`` 4.3.1, order
    included. Where the class throws (`JavaRefusal`), so does this. Where the class never returns,
    the plan is the best one that it reached, with a warning (``plan.loop``).

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

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes:
        """The generation of the last assignment as 4 bytes, -1 before the first."""
        generation = StickyMemory.of(memory).generation
        return (NO_GENERATION if generation is None else generation).to_bytes(4, "big", signed=True)

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> StickyMemory:
        """Remembers the generation only: what a member owns its consumer knows."""
        return replace(StickyMemory.of(memory), generation=generation)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The leader's plan for this phase; ``plan.memory`` is a `StickyMemory`.

        Raises:
            JavaRefusal: as Kafka's class throws; says why.
        """
        before = StickyMemory.of(memory)
        scene = Scene(problem)
        decision, highest = _decided(scene, before.max_generation, from_owned)
        transfers = _transfers(scene, decision)
        # A claim beyond the topic's count may be in the map too; the index has no number for it.
        real = transfers.spot < decision.spots.real
        return _withholding(decision, transfers).to_plan(
            scene,
            memory=replace(before, max_generation=highest),
            withheld=scene.dense[transfers.spot[real]],
            destined=transfers.member[real],
        )

    def decide(self, scene: Scene, max_generation: int) -> tuple[Decision, int]:
        """What the class answers, be it a plan or not, and the highest generation seen now.

        Raises:
            JavaRefusal: as Kafka's class throws.
        """
        decision, highest = _decided(scene, max_generation, from_owned)
        return _withholding(decision, _transfers(scene, decision)), highest


def _decided(
    scene: Scene, max_generation: int, read: Callable[[Scene], Claimed]
) -> tuple[Decision, int]:
    claimed = read(scene)
    highest = int(claimed.generation.max(initial=max_generation))
    try:
        owned = settled(scene, claimed)
        racks = Racks(scene, claimed.spots)
        if equal_subscriptions(scene):
            return constrained(scene, owned, claimed.spots, racks), highest
        return general(scene, claimed, owned, racks, highest), highest
    except JavaRefusal as refusal:
        refusal.max_generation = highest
        raise


def _transfers(scene: Scene, decision: Decision) -> Transfers:
    """What changes hands: Kafka's transfer map, or where its algorithm keeps none, the same."""
    return decision.transfers or _changing_hands(scene, decision)


def _changing_hands(scene: Scene, decision: Decision) -> Transfers:
    """After the general algorithm: what somebody gets and somebody else still has."""
    member, spot = raw_owned(scene, decision.spots)
    if not decision.spots.regular:
        return _changing_hands_twice(scene, decision, member, spot)
    owner = np.full(decision.spots.count, -1, np.int32)
    owner[decision.spot] = decision.member
    gone = np.flatnonzero(withheld(member, spot, owner)).astype(np.int32)
    return Transfers(gone, owner[gone])


def _changing_hands_twice(
    scene: Scene, decision: Decision, member: Int32Array, spot: Int32Array
) -> Transfers:
    """The same where a partition may be given to two members: the last one counts as new owner."""
    have = set(zip(member.tolist(), spot.tolist(), strict=True))
    start, given = decision.start.tolist(), decision.spot.tolist()
    order = scene.owners if decision.walked is None else decision.walked
    lists = {m: given[start[m] : start[m + 1]] for m in order}
    added = {s: m for m, mine in lists.items() for s in mine if (m, s) not in have}
    get = {(m, s) for m, mine in lists.items() for s in mine}
    revoked = {s for m, s in have if (m, s) not in get}
    gone = [s for s in added if s in revoked]
    return Transfers(np.array(gone, np.int32), np.array([added[s] for s in gone], np.int32))


def _withholding(decision: Decision, transfers: Transfers) -> Decision:
    if not len(transfers.spot):
        return decision
    new_owner = np.full(decision.spots.count, -1, np.int32)
    new_owner[transfers.spot] = transfers.member
    gone = new_owner[decision.spot] == decision.member
    return decision.without(gone)


@dataclass(frozen=True, slots=True)
class StickyMemory:
    """State of a Java assignor object, as a value.

    Attributes:
        max_generation: the highest generation that any claim had in any call of ``assign``;
            it never falls, so the instance that leads judges later, younger groups by it (Q6).
        partitions: what the member itself was given last (sticky only), in order.
        generation: when; None before the first assignment.

    >>> StickyMemory.of(None)
    StickyMemory(max_generation=-1, partitions=(), generation=None)
    """

    max_generation: int = NO_GENERATION
    partitions: tuple[tuple[str, int], ...] = ()
    generation: int | None = None

    @classmethod
    def of(cls, memory: object) -> StickyMemory:
        """The memory handed in, a new one for None.

        Raises:
            InvalidConfigError: it is another strategy's.
        """
        if memory is None:
            return cls()
        if not isinstance(memory, cls):
            raise InvalidConfigError("memory", "must be what a sticky strategy gave out", memory)
        return memory
