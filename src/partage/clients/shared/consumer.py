"""One consumer's part in its group: its subscription, the leader's decision, its memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.clients.shared.claim_checks import OwnLastPlan, believable, undisputed
from partage.clients.shared.cluster import ClusterView
from partage.clients.shared.loads import Loads
from partage.errors import AssignorFailedError, WireFormatError
from partage.groups.api import RebalanceProtocol, Strategy
from partage.groups.optimal import Optimal
from partage.kernels import never_compiling
from partage.model import NO_GENERATION, Assignment, Claims, Group, Member, Plan, Problem
from partage.model.index import MOST_PARTITIONS, Index
from partage.wire.consumer_protocol import (
    ConsumerSubscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from partage.wire.member_extras import Extras, split, with_extras

__all__ = ["Consumer", "Joined", "SyncGroupAssignments"]

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Joined:
    """A member in JoinGroup's response to the leader; its metadata as bytes or decoded."""

    id: str
    metadata: bytes | ConsumerSubscription
    instance_id: str | None = None

    def subscription(self) -> ConsumerSubscription:
        """Return the decoded metadata; malformed bytes are a subscription to nothing."""
        if not isinstance(self.metadata, bytes):
            return self.metadata
        try:
            return decode_subscription(self.metadata)
        except WireFormatError:
            return ConsumerSubscription(())


@dataclass(frozen=True, slots=True)
class SyncGroupAssignments:
    """The assignments of all members that the leader sends with SyncGroup.

    Attributes:
        sent: the assignment of each member, as bytes for SyncGroup.
        plan: the same assignments as a plan.
        warnings: warnings that earlier decisions did not have.
    """

    sent: Mapping[str, bytes]
    plan: Plan
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class Consumer:
    """The state of one consumer's assignor between rebalances.

    Members follow Kafka's ``ConsumerCoordinator`` (4.3.1): a subscription of version 3 with
    the generation and rack, and the owned partitions if the group is COOPERATIVE. In an EAGER
    group, strategies that only Partage has get the owned partitions behind their user data
    (`partage.wire.member_extras`).

    Attributes:
        strategy: the configured strategy.
        rack: this consumer's rack, as Java's ``client.rack``.
        loads: the learnt weights; None if weights are not learnt.
        memory: the strategy's memory.
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
        """Return the metadata to join with.

        The generation sent is that of the last assignment received, as the user data are. A client
        has the next generation as soon as the coordinator answers its JoinGroup; if a rebalance
        interrupts its SyncGroup, it joins again without an assignment of that generation.

        Args:
            topics: the subscribed topics.
            cooperative: whether the client keeps partitions while it joins.
            owned: the partitions that the client owns; None for those of the last assignment.
            generation: the client's generation; below 0 if it left the group.
            measured: loads of its partitions.

        Raises:
            EncodingError: a topic's name is too long.
        """
        names = list(dict.fromkeys(topics))
        mine = set(names)
        has = [one for one in (self.owned if owned is None else owned) if one[0] in mine]
        data = self.strategy.subscription_user_data(names, self.memory)
        claims = () if cooperative or not _ours(self.strategy) else tuple(has)
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

    def assign(
        self,
        members: Sequence[Joined],
        view: ClusterView,
        *,
        group: str = "?",
        generation: int = NO_GENERATION,
        looked: Mapping[Partition, float] | None = None,
    ) -> SyncGroupAssignments:
        """Return the leader's decision.

        Args:
            members: the members in the order of JoinGroup's response.
            view: the leader's metadata.
            group: the group id, for errors.
            generation: generation of this rebalance, -1 if unknown.
            looked: loads from the leader's load function.

        Raises:
            AssignorFailedError: the strategy raised; has the strategy, group and generation.
        """
        warnings: list[str] = []
        read = [self._read(one, view, generation, warnings) for one in members]
        believed, false = undisputed(self.strategy, [member for member, _ in read], self._led)
        read = [(member, extras) for member, (_, extras) in zip(believed, read, strict=True)]
        warnings += false
        try:
            plan = self._plan(read, view, looked or {})
            given = plan.to_pairs()
            # The next owner of a withheld partition gets its planned load now.
            coming = {} if self.loads is None else plan.settled().to_pairs()
            sent = {
                one: encode_assignment(pairs, user_data=self._along(plan, one, coming))
                for one, pairs in given.items()
            }
        except Exception as e:
            raise AssignorFailedError(self.strategy.name, group, generation, e) from e
        self.memory = plan.memory if plan.memory is not None else self.memory
        owners = {pair: one for one, pairs in given.items() for pair in pairs}
        self._led = OwnLastPlan(generation, owners)
        new = [w for w in (*warnings, *plan.warnings) if w not in self._said]
        self._said.update(new)
        return SyncGroupAssignments(sent, plan, tuple(new))

    def received(
        self, pairs: Sequence[Partition], user_data: bytes | None, generation: int
    ) -> None:
        """Take this member's assignment; partition numbers out of range are not remembered."""
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
        """Return whether the broker, and no leader of the group, made an assignment of `optimal`.

        A classic member that joins a KIP-848 group lists its protocols, and the broker assigns by
        its own assignor whatever they are. Every leader that runs `optimal` is Partage and appends
        the trailer of `partage.wire.member_extras`; the broker appends nothing.
        """
        return self.strategy.name == Optimal.name and split(user_data)[1] is None

    def generation_is(self, generation: int) -> None:
        """Set the generation of the assignment received before (kafka-python 2 passes it later)."""
        if generation != self.generation:
            self.received(self.owned, self._along_with, generation)

    def _read(
        self, one: Joined, view: ClusterView, generation: int, warnings: list[str]
    ) -> tuple[Member, Extras]:
        """Return a member without false claims, and the trailer of its user data."""
        sent = one.subscription()
        if not sent.topics:
            warnings.append(f"{one.id} subscribes to nothing, or its subscription is unreadable")
        own, extras = split(sent.user_data)
        extras = extras or Extras()
        # Partitions sent as owned are still owned; claims in the trailer are already revoked.
        claims, of = sent.owned, sent.generation
        if not claims and extras.claims:
            claims, of = extras.claims, extras.generation
        member = Member(
            one.id, sent.topics, rack=sent.rack, instance_id=one.instance_id,
            owned=Claims.of(claims), user_data=own,
            generation=NO_GENERATION if of is None else of,
        )  # fmt: skip
        member, wrong = believable(self.strategy, member, view, generation)
        if wrong is not None:
            warnings.append(wrong)
        return member, extras if sent.owned else Extras(
            claims if wrong is None else (), of or NO_GENERATION, extras.measured, extras.held
        )

    def _plan(
        self,
        read: Sequence[tuple[Member, Extras]],
        view: ClusterView,
        looked: Mapping[Partition, float],
    ) -> Plan:
        """Return the strategy's plan, with learnt weights, without compiling a kernel."""
        group = Group(member for member, _ in read)
        cluster = view.cluster()
        strategy = self.strategy
        if self.loads is not None:
            reported = [(member, extras.measured, extras.held) for member, extras in read]
            strategy = self.loads.weighed(strategy, reported, looked, view)
        # Compiling on a poll thread or an event loop would stop heartbeats for seconds.
        with never_compiling():
            plan = strategy.assign(Problem(group, cluster), self.memory)
            revoked = {p for _, extras in read for p in extras.claims}
            return plan.assign_revoked(revoked)

    def _along(
        self, plan: Plan, member: str, coming: Mapping[str, Sequence[Partition]]
    ) -> bytes | None:
        """Return the user data of a member's assignment: the strategy's, and the weights in use.

        `optimal` always has the trailer, by which members know that a leader assigned.
        """
        own = plan.user_data.get(member)
        weights = {} if self.loads is None else self.loads.weights
        held = {one: weights[one] for one in coming.get(member, ()) if one in weights}
        if held or self.strategy.name == Optimal.name:
            return with_extras(own, Extras(held=held))
        return own


def _ours(strategy: Strategy) -> bool:
    """Return whether only Partage has the strategy, and it reads owned partitions."""
    if getattr(strategy, "in_broker", False):
        return True
    return strategy.exact_to is None and RebalanceProtocol.COOPERATIVE in strategy.protocols
