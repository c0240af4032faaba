"""Assignor of one consumer: its subscription, its assignment as the leader, and its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from partage.clients.shared.claim_checks import (
    OwnLastPlan,
    believable,
    located,
    missing_claims,
    undisputed,
)
from partage.clients.shared.cluster import ClusterView
from partage.clients.shared.joined import NO_CLAIMS, Joined, JoinedMember, decode_members
from partage.clients.shared.loads import Loads
from partage.errors import AssignorFailedError
from partage.groups.api import RebalanceProtocol, Strategy
from partage.groups.optimal import Optimal
from partage.groups.sticky import Sticky
from partage.kernels import never_compiling
from partage.model import NO_GENERATION, Assignment, Group, Plan, Problem
from partage.model.index import MOST_PARTITIONS, Index
from partage.wire.columns.partition_lists import encode_assignments
from partage.wire.consumer_protocol import encode_subscription
from partage.wire.member_extras import Extras, split, with_extras

__all__ = ["Consumer", "SyncGroupAssignments"]

_EMPTY_TRAILER = with_extras(None, Extras())

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SyncGroupAssignments:
    """Assignments of all group members, which the leader sends to the coordinator with SyncGroup.

    Attributes:
        sent: the assignment of each member, as bytes for SyncGroup.
        plan: the same assignments as a plan.
        problem: the members with their claims, and the cluster.
        warnings: new warnings, which earlier rebalances did not have.
    """

    sent: Mapping[str, bytes]
    plan: Plan
    problem: Problem
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Consumer:
    """State of one consumer's assignor between rebalances: strategy, memory and last assignment.

    Members follow Kafka's ``ConsumerCoordinator`` (4.3.1): a subscription of version 3 with
    the generation and rack, and the owned partitions if the group is COOPERATIVE. In an EAGER
    group, strategies that only Partage has get the owned partitions behind their user data
    (`partage.wire.member_extras`).

    Attributes:
        strategy: the configured strategy.
        rack: this consumer's rack, as Java's ``client.rack``.
        loads: the learnt weights; None if weights are not learnt.
        memory: the strategy's own state.
        generation: generation of the last assignment received.
        owned: partitions of that assignment.

    >>> from partage.groups.registry import find
    >>> one = Consumer(find("range"))
    >>> answer = one.assign([Joined("c1", one.subscription(["t"]))], ClusterView({"t": {0: []}}))
    >>> answer.sent["c1"].hex()
    '0003000000010001740000000100000000ffffffff'
    """

    strategy: Strategy
    rack: str | None = None
    loads: Loads | None = None
    memory: object = None
    generation: int = NO_GENERATION
    owned: tuple[Partition, ...] = ()
    _along_with: bytes | None = None
    _led: OwnLastPlan | None = None
    _said: set[str] = field(default_factory=set)

    def subscription(
        self,
        topics: Iterable[str],
        *,
        cooperative: bool = False,
        owned: Iterable[Partition] | None = None,
        generation: int | None = None,
        measured: Mapping[Partition, float] | None = None,
    ) -> bytes:
        """Encode the subscription that the consumer sends when it joins the group (JoinGroup).

        The generation sent is that of the last assignment received, as the user data are. A client
        has the next generation as soon as the coordinator answers its JoinGroup; if a rebalance
        interrupts its SyncGroup, it joins again without an assignment of that generation.

        Args:
            topics: the subscribed topics.
            cooperative: whether the client keeps partitions while it joins.
            owned: the partitions that the client owns; None for those of the last assignment.
            generation: the client's generation; below 0 if it left the group.
            measured: measured loads of its partitions.

        Raises:
            EncodingError: a topic's name is too long.
        """
        names = list(dict.fromkeys(topics))
        mine = set(names)
        has = [one for one in (self.owned if owned is None else owned) if one[0] in mine]
        data = self.strategy.subscription_user_data(names, self.memory)
        claims = () if cooperative or not _is_own_strategy(self.strategy) else tuple(has)
        loads = {} if self.loads is None else dict(measured or {})
        if claims or loads or (self.loads is not None and self.loads.held):
            held = {} if self.loads is None else self.loads.held
            data = with_extras(data, Extras(claims, self.generation, loads, held))
        return encode_subscription(
            names,
            user_data=data,
            owned=has if cooperative else (),
            generation=self.generation if generation is None or generation >= 0 else NO_GENERATION,
            rack=self.rack,
        )

    def decoded(self, members: Sequence[Joined]) -> list[JoinedMember]:
        """Decode the members' subscriptions, which the leader gets with the JoinGroup response."""
        return decode_members(self.strategy, members)

    def assign(
        self,
        members: Sequence[Joined] | Sequence[JoinedMember],
        view: ClusterView,
        *,
        group: str = "?",
        generation: int = NO_GENERATION,
        looked: Mapping[Partition, float] | None = None,
    ) -> SyncGroupAssignments:
        """Compute the assignment of all members of the group, as its leader.

        Args:
            members: the members in the order of JoinGroup's response.
            view: the leader's metadata.
            group: the group id, for errors.
            generation: generation of this rebalance, -1 if unknown.
            looked: loads from the leader's load function; None without one.

        Raises:
            AssignorFailedError: the strategy raised; the error has the strategy, group and
                generation.
        """
        joined = [one for one in members if isinstance(one, Joined)]
        read = self.decoded(joined) if joined else [
            one for one in members if isinstance(one, JoinedMember)
        ]  # fmt: skip
        warnings: list[str] = []
        try:
            read = self._believed(read, view, generation, warnings)
            problem = self._problem(read, view)
            plan = self._plan(problem, read, view, looked or {})
            sent = dict(zip(plan.members, self._encoded(plan), strict=True))
        except Exception as e:
            raise AssignorFailedError(self.strategy.name, group, generation, e) from e
        self.memory = plan.memory if plan.memory is not None else self.memory
        self._led = OwnLastPlan(generation, plan)
        new = [w for w in (*warnings, *plan.warnings) if w not in self._said]
        self._said.update(new)
        return SyncGroupAssignments(sent, plan, problem, tuple(new))

    def received(
        self, pairs: Sequence[Partition], user_data: bytes | None, generation: int
    ) -> None:
        """Store the partitions that this consumer was assigned, with the strategy's user data.

        Partition numbers that are out of range are left out of the strategy's memory.
        """
        own, extras = split(user_data)
        counts: dict[str, int] = {}
        for topic, number in pairs:
            if 0 <= number < MOST_PARTITIONS:
                counts[topic] = max(counts.get(topic, 0), number + 1)
        if sum(counts.values()) > MOST_PARTITIONS:
            counts = {}
        part = Assignment.of(Index.of(counts), {"me": list(pairs)})
        self.memory = self.strategy.on_assignment(part, own, generation, self.memory)
        self.owned, self.generation, self._along_with = tuple(pairs), generation, user_data
        if self.loads is not None:
            self.loads.received({} if extras is None else extras.held)

    def is_assigned_by_broker(self, user_data: bytes | None) -> bool:
        """Return whether the broker computed this consumer's assignment, although the consumer runs
        `optimal`.

        ``user_data`` is that of the assignment. If a classic member joins a KIP-848 group, the
        broker assigns by its own assignor, whatever protocols the member lists. A group leader that
        runs `optimal` appends the trailer of `partage.wire.member_extras` to the user data; the
        broker appends nothing.
        """
        return self.strategy.name == Optimal.name and split(user_data)[1] is None

    def generation_is(self, generation: int) -> None:
        """Set the generation of the last assignment, because kafka-python 2 passes it after the
        assignment.
        """
        if generation != self.generation:
            self.received(self.owned, self._along_with, generation)

    def _believed(
        self,
        joined: Sequence[JoinedMember],
        view: ClusterView,
        generation: int,
        warnings: list[str],
    ) -> list[JoinedMember]:
        # A claim is a partition that a member says it owns; warnings are appended.
        out = []
        for one, missing in zip(joined, missing_claims(joined, view), strict=True):
            if not one.member.topics:
                what = "subscribes to nothing, or its subscription is unreadable"
                warnings.append(f"{one.member.id} {what}")
            believed, wrong = believable(self.strategy, one, missing, generation)
            if wrong is not None:
                warnings.append(wrong)
                if one.revoked is one.member.owned:
                    believed = replace(believed, revoked=NO_CLAIMS)
            out.append(believed)
        out, false = undisputed(self.strategy, out, self._led)
        warnings += false
        return out

    def _problem(self, joined: Sequence[JoinedMember], view: ClusterView) -> Problem:
        claims = None
        if self.strategy.name == Sticky.name:
            claims = tuple((one.claims, one.generation) for one in joined)
        return Problem(Group(one.member for one in joined), view.cluster(), claims)

    def _plan(
        self,
        problem: Problem,
        joined: Sequence[JoinedMember],
        view: ClusterView,
        looked: Mapping[Partition, float],
    ) -> Plan:
        strategy = self.strategy
        if self.loads is not None:
            reported = [(one.member, one.measured, one.held) for one in joined]
            strategy = self.loads.weighed(strategy, reported, looked, view)
        # Compiling on a poll thread or an event loop would stop heartbeats for seconds.
        with never_compiling():
            plan = strategy.assign(problem, self.memory)
            return plan.assign_revoked(_revoked(plan, joined)) if len(plan.withheld) else plan

    def _encoded(self, plan: Plan) -> list[bytes]:
        # In the plan's order, as bytes for SyncGroup.
        index = plan.index
        # The next owner of a withheld partition gets its planned load now.
        coming = {} if self.loads is None else plan.settled().to_pairs()
        return encode_assignments(
            index.topics,
            plan.start,
            index.topic_of[plan.partition],
            index.number_of[plan.partition],
            [self._user_data_of(plan, one, coming) for one in plan.members],
        )

    def _user_data_of(
        self, plan: Plan, member: str, coming: Mapping[str, Sequence[Partition]]
    ) -> bytes | None:
        """Return the user data that the group leader sends with one member's assignment.

        It is the strategy's own bytes, then the weights of the member's partitions (``coming``).
        `optimal` always appends weights, perhaps none, so that members recognise an assignment by a
        leader.
        """
        own = plan.user_data.get(member)
        weights = {} if self.loads is None else self.loads.weights
        held = {one: weights[one] for one in coming.get(member, ()) if one in weights}
        if held:
            return with_extras(own, Extras(held=held))
        return (own or b"") + _EMPTY_TRAILER if self.strategy.name == Optimal.name else own


def _revoked(plan: Plan, joined: Sequence[JoinedMember]) -> set[Partition]:
    # Their previous owners revoked them before they joined.
    index = plan.index
    is_revoked = np.zeros(index.partitions, bool)
    dense = located([one.revoked for one in joined], index)[1]
    is_revoked[dense[dense >= 0]] = True
    return {index.name(p) for p in plan.withheld[is_revoked[plan.withheld]].tolist()}


def _is_own_strategy(strategy: Strategy) -> bool:
    """Return whether a strategy exists only in Partage and reads members' owned partitions."""
    if getattr(strategy, "in_broker", False):
        return True
    return strategy.exact_to is None and RebalanceProtocol.COOPERATIVE in strategy.protocols
