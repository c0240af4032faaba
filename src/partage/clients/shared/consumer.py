"""Assignor of one consumer: its subscription, its assignment as the leader, and its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from partage.clients.shared.cluster import ClusterView
from partage.clients.shared.joined import (
    NO_CLAIMS,
    Joined,
    JoinedMember,
    LeaderPlan,
    decode_members,
    drop_impossible_claims,
    drop_refuted_claims,
    find_nonexistent_claims,
    locate_claims,
)
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
from partage.wire.member_extras import Extras, append_trailer, split_trailer

__all__ = ["Consumer", "SyncGroupAssignments"]

_EMPTY_TRAILER = append_trailer(None, Extras())

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SyncGroupAssignments:
    """Assignments of all members of a consumer group, for the leader's SyncGroup request.

    Attributes:
        sent: the assignment of each member, as bytes for SyncGroup.
        plan: the same assignments as a `Plan`.
        problem: the members with their owned partitions, and the cluster.
        warnings: warnings that earlier rebalances did not have.
    """

    sent: Mapping[str, bytes]
    plan: Plan
    problem: Problem
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Consumer:
    """Partition assignor of one Kafka consumer, with its state between rebalances.

    It encodes subscriptions as Kafka's ``ConsumerCoordinator`` (4.3.1) does, and assigns partitions
    if the consumer is the group leader.

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
    _led: LeaderPlan | None = None
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
        """Encode the subscription that the Kafka consumer sends in its JoinGroup request.

        It has the topics, the owned partitions, and the strategy's user data.

        Args:
            topics: the subscribed topics.
            cooperative: whether the client keeps partitions while it joins.
            owned: the partitions that the client owns; None for those of the last assignment.
            generation: the client's generation; below 0 if it left the group.
            measured: measured loads of its partitions.

        Raises:
            EncodingError: a topic's name is too long.
        """
        # It has the generation of the last assignment received. The client's own generation may be
        # newer: it rises with the JoinGroup response, and a rebalance may interrupt the SyncGroup
        # after it.
        names = list(dict.fromkeys(topics))
        mine = set(names)
        has = [one for one in (self.owned if owned is None else owned) if one[0] in mine]
        data = self.strategy.subscription_user_data(names, self.memory)
        claims = () if cooperative or not _is_own_strategy(self.strategy) else tuple(has)
        loads = {} if self.loads is None else dict(measured or {})
        if claims or loads or (self.loads is not None and self.loads.held):
            held = {} if self.loads is None else self.loads.held
            data = append_trailer(data, Extras(claims, self.generation, loads, held))
        return encode_subscription(
            names,
            user_data=data,
            owned=has if cooperative else (),
            generation=self.generation if generation is None or generation >= 0 else NO_GENERATION,
            rack=self.rack,
        )

    def decode_subscriptions(self, members: Sequence[Joined]) -> list[JoinedMember]:
        """Decode the subscriptions of all members of a consumer group.

        The group leader receives them in the JoinGroup response.
        """
        return decode_members(self.strategy, members)

    def assign(
        self,
        members: Sequence[Joined] | Sequence[JoinedMember],
        view: ClusterView,
        *,
        group: str = "?",
        generation: int = NO_GENERATION,
        leader_loads: Mapping[Partition, float] | None = None,
    ) -> SyncGroupAssignments:
        """Assign partitions to all members of the consumer group, as its leader.

        The result has the assignments as bytes for the SyncGroup request.

        Args:
            members: the members in the order of JoinGroup's response.
            view: the cluster metadata that the leader has.
            group: the group id, for errors.
            generation: generation of this rebalance, -1 if unknown.
            leader_loads: loads from the leader's load function; None if it has none.

        Raises:
            AssignorFailedError: the strategy raised; the error has the strategy, group and
                generation.
        """
        joined = [one for one in members if isinstance(one, Joined)]
        read = self.decode_subscriptions(joined) if joined else [
            one for one in members if isinstance(one, JoinedMember)
        ]  # fmt: skip
        warnings: list[str] = []
        try:
            read = self._drop_false_claims(read, view, generation, warnings)
            problem = self._problem(read, view)
            plan = self._plan(problem, read, view, leader_loads or {})
            sent = dict(zip(plan.members, self._encoded(plan), strict=True))
        except Exception as e:
            raise AssignorFailedError(self.strategy.name, group, generation, e) from e
        self.memory = plan.memory if plan.memory is not None else self.memory
        self._led = LeaderPlan(generation, plan)
        new = [w for w in (*warnings, *plan.warnings) if w not in self._said]
        self._said.update(new)
        return SyncGroupAssignments(sent, plan, problem, tuple(new))

    def store_assignment(
        self, pairs: Sequence[Partition], user_data: bytes | None, generation: int
    ) -> None:
        """Store the partitions that the Kafka consumer was assigned.

        Its next subscription reports them as owned, and the strategy may update its state.

        Args:
            pairs: the assigned (topic, partition) pairs.
            user_data: the strategy's user data in the assignment.
            generation: generation of the group.
        """
        # Partition numbers that are out of range are left out of the strategy's memory.
        own, extras = split_trailer(user_data)
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
            self.loads.store_weights({} if extras is None else extras.held)

    def is_assigned_by_broker(self, user_data: bytes | None) -> bool:
        """Return whether the broker computed the consumer's assignment, not a group leader.

        The broker does so for classic members of a KIP-848 group. ``user_data`` are the
        assignment's bytes.
        """
        # This happens to classic members of a KIP-848 group: a leader that runs `optimal` marks the
        # assignment with a trailer, the broker does not.
        return self.strategy.name == Optimal.name and split_trailer(user_data)[1] is None

    def set_generation(self, generation: int) -> None:
        """Set the group generation to which the Kafka consumer's last assignment belongs.

        kafka-python 2 learns it only after the assignment.
        """
        # kafka-python 2 only knows it after the assignment.
        if generation != self.generation:
            self.store_assignment(self.owned, self._along_with, generation)

    def _drop_false_claims(
        self,
        joined: Sequence[JoinedMember],
        view: ClusterView,
        generation: int,
        warnings: list[str],
    ) -> list[JoinedMember]:
        # A claim is a partition that a member says it owns; warnings are appended.
        out = []
        for one, nonexistent in zip(joined, find_nonexistent_claims(joined, view), strict=True):
            if not one.member.topics:
                what = "subscribes to nothing, or its subscription is unreadable"
                warnings.append(f"{one.member.id} {what}")
            believed, wrong = drop_impossible_claims(self.strategy, one, nonexistent, generation)
            if wrong is not None:
                warnings.append(wrong)
                if one.revoked is one.member.owned:
                    believed = replace(believed, revoked=NO_CLAIMS)
            out.append(believed)
        out, false = drop_refuted_claims(self.strategy, out, self._led)
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
        leader_loads: Mapping[Partition, float],
    ) -> Plan:
        strategy = self.strategy
        if self.loads is not None:
            reported = [(one.member, one.measured, one.held) for one in joined]
            strategy = self.loads.with_weights(strategy, reported, leader_loads, view)
        # Compiling on a poll thread or an event loop would stop heartbeats for seconds.
        with never_compiling():
            plan = strategy.assign(problem, self.memory)
            return plan.assign_revoked(_revoked(plan, joined)) if len(plan.withheld) else plan

    def _encoded(self, plan: Plan) -> list[bytes]:
        # In the plan's order, as bytes for SyncGroup.
        index = plan.index
        # The next owner of a withheld partition gets its planned load now.
        next_owned = {} if self.loads is None else plan.settled().to_pairs()
        return encode_assignments(
            index.topics,
            plan.start,
            index.topic_of[plan.partition],
            index.number_of[plan.partition],
            [self._user_data_of(plan, one, next_owned) for one in plan.members],
        )

    def _user_data_of(
        self, plan: Plan, member: str, next_owned: Mapping[str, Sequence[Partition]]
    ) -> bytes | None:
        """Return the user data that the group leader sends to a member with its assignment.

        It has the strategy's own bytes and the loads of the member's partitions.

        Args:
            plan: the assignment of all members.
            member: id of the member.
            next_owned: partitions that each member will own.
        """
        # They are the strategy's own bytes, then the weights of the partitions that the member will
        # own. `optimal` always appends a trailer, even without weights, so that members see that a
        # leader computed the assignment.
        own = plan.user_data.get(member)
        weights = {} if self.loads is None else self.loads.weights
        held = {one: weights[one] for one in next_owned.get(member, ()) if one in weights}
        if held:
            return append_trailer(own, Extras(held=held))
        return (own or b"") + _EMPTY_TRAILER if self.strategy.name == Optimal.name else own


def _revoked(plan: Plan, joined: Sequence[JoinedMember]) -> set[Partition]:
    # Their previous owners revoked them before they joined.
    index = plan.index
    is_revoked = np.zeros(index.partitions, bool)
    dense = locate_claims([one.revoked for one in joined], index)[1]
    is_revoked[dense[dense >= 0]] = True
    return {index.name(p) for p in plan.withheld[is_revoked[plan.withheld]].tolist()}


def _is_own_strategy(strategy: Strategy) -> bool:
    """Return whether a strategy exists only in Partage and uses the members' owned partitions.

    Members then report their owned partitions in the user data, which other assignors ignore.
    """
    if getattr(strategy, "in_broker", False):
        return True
    return strategy.exact_to is None and RebalanceProtocol.COOPERATIVE in strategy.protocols
