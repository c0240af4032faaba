"""The event model of all group protocols: what a group's history consists of.

* A `Generation` is one rebalance: a generation of a classic group, or the target assignment of
  one epoch of a consumer, share or streams group. It has a list of `Cause` objects.
* A `LifecycleEvent` is the creation, deletion or migration of a group.
* A `CurrentAssignment` is a member's acknowledged assignment (KIP-848, KIP-932, KIP-1071).
* `derive_events` turns the first two into the rows of table ``events``, each marked as recorded
  or inferred. A classic group's log records that a generation began and which members it has; a
  join or a departure is inferred from two of its records.
* `compare_states` compares two successive states of a classic group: members that joined or left,
  and static members that restarted with a new member id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from partage.history.records import (
    ClassicState,
    LogPosition,
    MemberState,
    TopicPartitionNumbers,
    assigned_partitions,
)
from partage.history.stop_model import UnreadEstimate, UnreadInterval

__all__ = [
    "ACTIVE",
    "INFERRED",
    "OWNER",
    "RECORDED",
    "RELEASING",
    "STANDBY",
    "WARMUP",
    "Cause",
    "CurrentAssignment",
    "Event",
    "Generation",
    "LifecycleEvent",
    "Roles",
    "StateChange",
    "StreamsInput",
    "TargetInput",
    "all_assigned",
    "compare_states",
    "derive_events",
    "reassigned_topics",
    "subscribed_topics",
]

#: Sources of events and causes.
RECORDED, INFERRED = "recorded", "inferred"
#: Roles of a member towards a partition.
OWNER, RELEASING = "owner", "releasing"
#: Roles of a Kafka Streams member towards a task.
ACTIVE, STANDBY, WARMUP = "active", "standby", "warmup"
#: Kinds of causes that are events; a migration is a `LifecycleEvent`.
_EVENT_CAUSES = (
    "join", "leave", "departure", "expiry", "poll", "bounce", "broker", "resubscription", "topics",
    "strategy", "follow-up", "request",
)  # fmt: skip

#: (role, (topic id or subtopology id, numbers)) of a member; consumer and share groups: owner only.
Roles = tuple[tuple[str, TopicPartitionNumbers], ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a consumer group's rebalance: what happened, to which member, how certain it is.

    Attributes:
        kind: one of `partage.tables.statuses.CAUSE_KINDS`.
        source: ``recorded`` if a record states it, ``inferred`` if it follows from two records.
        member: id of the member that it concerns; if it left and rejoined, the newer id.
        instance: that member's ``group.instance.id``.
        time_ms: time of the cause, None if unknown.
        detail: a short description.
        was: former member id of a member that rejoined (`departures.DepartedMembers`); else None.
        probability: probability of the kind; below 1 if the log also allows another one, `other`.
        other: the next probable kind; None if the log proves the kind.

    >>> Cause("join", "inferred", "m-1").kind
    'join'
    """

    kind: str
    source: str
    member: str | None = None
    instance: str | None = None
    time_ms: int | None = None
    detail: str | None = None
    was: str | None = None
    probability: float = 1.0
    other: str | None = None


@dataclass(frozen=True, slots=True)
class StreamsInput:
    """Input of a streams group's task assignor (KIP-1071) besides its members and their tasks.

    Attributes:
        processes: dict from member id to process id; members of one process share a disk.
        topology: the STREAMS_GROUP_TOPOLOGY value; None if the log lacks it.
        settings: assignment settings of the group, such as ``num.standby.replicas``.
    """

    processes: Mapping[str, str]
    topology: Mapping[str, Any] | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetInput:
    """An assignment that a group coordinator computed (KIP-848), together with its input.

    The group may also be a share group (KIP-932) or a streams group (KIP-1071).

    Attributes:
        target: dict from member id to assigned roles, by topic id or subtopology id.
        before: dict from member id to its previous target, in the order of its record; a static
            member that rejoined has the target of the member that it replaced.
        known: whether ``before`` is certainly complete: the log has the group from its beginning.
        assignable: partitions that may be assigned, by topic id (share groups: those whose share
            state is initialised); None for all.
        decided_ms: ``assignmentTimestamp``; None if the record has none: the assignment of a
            classic group was adopted without a decision.
        streams: further input of a streams group's assignor; None for other groups.
    """

    target: Mapping[str, Roles]
    before: Mapping[str, Roles]
    known: bool
    assignable: TopicPartitionNumbers | None
    decided_ms: int | None
    streams: StreamsInput | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The partitions that a member of a consumer group owns after it acknowledged them (KIP-848).

    It is read from a CURRENT_MEMBER_ASSIGNMENT record of the log.

    Attributes:
        epoch: the group's target assignment epoch at that time.
        member_epoch: the member's own epoch; -2 while a static member is absent.
        parts: (role, topic id or None, topic, partition); empty when the member has left.
    """

    incarnation: int
    position: LogPosition
    time_ms: int
    epoch: int
    member: str
    instance: str | None
    member_epoch: int
    parts: tuple[tuple[str, str | None, str, int], ...]

    @property
    def owner_identity(self) -> str:
        """The instance id of a static member, or the member id of a dynamic one.

        The instance id of a static member stays the same when it restarts.
        """
        return self.member if self.instance is None else self.instance


@dataclass(frozen=True, slots=True)
class Generation:
    """One recorded rebalance of a consumer group: the state before and after it, and its causes.

    Attributes:
        incarnation: number of earlier deletions of the group; its name may be reused.
        position: log position of the first record.
        timestamp_ms: time of the first record.
        first: the group's state in the first record: the decision of the leader or coordinator.
        last: the group's state in the last record; static members may have new ids there.
        records: number of the generation's records in the log.
        gap_before: generations between the previous one and this one that the log lacks.
        previous: the generation before it in the log, None for the first.
        rewrites: position, time and state of its later records; only the first ones are stored.
        protocol: classic, consumer, share or streams.
        causes: the causes of the rebalance, the most important first.
        target: the coordinator's input; None for classic generations.
        taken_over: whether a migration wrote the same assignment in the other protocol's form. It
            has the number of the generation before, and no assignor decided it.
        unread: time without a consumer that the rebalance ended; None if the log does not cover the
            time before it.
        unread_intervals: the same time by partition.
    """

    incarnation: int
    position: LogPosition
    timestamp_ms: int
    first: ClassicState
    last: ClassicState
    records: int
    gap_before: int
    previous: Generation | None
    rewrites: tuple[tuple[LogPosition, int, ClassicState], ...] = ()
    protocol: str = "classic"
    causes: tuple[Cause, ...] = ()
    target: TargetInput | None = None
    taken_over: bool = False
    unread: UnreadEstimate | None = None
    unread_intervals: tuple[UnreadInterval, ...] = ()

    @property
    def generation_number(self) -> int:
        """Number of the consumer group's generation.

        For consumer, share and streams groups it is the epoch of the target assignment.
        """
        return self.first.generation


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """Creation, deletion or protocol migration of a consumer group.

    A migration changes the group between the classic and the consumer protocol (KIP-848).

    Attributes:
        what: ``created``, ``deleted`` or ``migrated``.
    """

    what: str
    incarnation: int
    generation: int
    position: LogPosition
    timestamp_ms: int
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class StateChange:
    """Differences between two successive generations of a consumer group, such as joined members.

    An empty field means that nothing of this kind changed.

    Attributes:
        joined, left: members that joined (new state) and left (old state); a restarted static
            member is in neither.
        restarted: pairs (before, after) of static members with a new member id.
        resubscribed: pairs (before, after) of members with other topics.
        strategy: pair of strategies if it changed, else None.
        leader: pair of leaders if it changed and the old one is still a member, else None.
    """

    joined: tuple[MemberState, ...] = ()
    left: tuple[MemberState, ...] = ()
    restarted: tuple[tuple[MemberState, MemberState], ...] = ()
    resubscribed: tuple[tuple[MemberState, MemberState], ...] = ()
    strategy: tuple[str, str] | None = None
    leader: tuple[str, str] | None = None

    @property
    def describe_cause(self) -> str:
        """Short description of the differences between two generations, such as ``2 joined, 1
        left``.
        """
        parts = [
            f"{len(found)} {word}"
            for word, found in (
                ("joined", self.joined),
                ("left", self.left),
                ("restarted", self.restarted),
                ("resubscribed", self.resubscribed),
            )
            if found
        ]
        if self.strategy is not None:
            parts.append("strategy {} to {}".format(*self.strategy))
        return ", ".join(parts) or "same members"

    @property
    def follow_up(self) -> bool:
        """Return whether a rebalance changed neither the members nor their subscriptions.

        An example is the second of the two rebalances of a cooperative group (KIP-429).
        """
        return not (self.joined or self.left or self.restarted or self.resubscribed)

    def other_causes(self, time_ms: int) -> Iterator[Cause]:
        """Yield the changed subscriptions and the changed strategy as causes of a rebalance.

        Joins and departures are not included. ``time_ms`` is the time of the rebalance.
        """
        for a, b in self.resubscribed:
            words = f"{', '.join(subscribed_topics(a))} to {', '.join(subscribed_topics(b))}"
            yield Cause("resubscription", INFERRED, b.id, b.instance, time_ms, words)
        if self.strategy is not None:
            words = "{} to {}".format(*self.strategy)
            yield Cause("strategy", INFERRED, time_ms=time_ms, detail=words)


def compare_states(old_state: ClassicState | None, new_state: ClassicState) -> StateChange:
    """Return the differences between two successive states of a group, such as joined members.

    If ``old_state`` is None, all members count as joined.

    >>> compare_states(None, ClassicState("", 1, None, None, None, ())).describe_cause
    'same members'
    """
    if old_state is None:
        return StateChange(joined=new_state.members)
    old = {m.owner_identity: m for m in old_state.members}
    new = {m.owner_identity: m for m in new_state.members}
    both = [(old[k], m) for k, m in new.items() if k in old]
    leader = _change(old_state.leader, new_state.leader)
    stayed = {m.id for m in new_state.members}
    return StateChange(
        tuple(m for k, m in new.items() if k not in old),
        tuple(m for k, m in old.items() if k not in new),
        tuple((a, b) for a, b in both if a.id != b.id),
        tuple((a, b) for a, b in both if subscribed_topics(a) != subscribed_topics(b)),
        _change(old_state.strategy, new_state.strategy),
        leader if leader is not None and leader[0] in stayed else None,
    )


def _change(before: str | None, after: str | None) -> tuple[str, str] | None:
    return (before, after) if before and after and before != after else None


def subscribed_topics(member: MemberState) -> tuple[str, ...]:
    """Return the topics to which a member subscribes, sorted and without duplicates.

    The result is empty if the log does not have the member's subscription.
    """
    return () if member.subscription is None else tuple(sorted(set(member.subscription.topics)))


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a consumer group's history, a row of table ``events``.

    `partage.tables.schemas` describes the columns.
    """

    event: str
    incarnation: int
    generation: int
    position: LogPosition
    time_ms: int
    source: str
    member: str | None = None
    instance: str | None = None
    detail: str | None = None


def derive_events(history_item: Generation | LifecycleEvent) -> Iterator[Event]:
    """Yield the rows of table ``events`` for a rebalance, or for a group's creation or deletion.

    Each cause of a rebalance is a separate event with its own time.
    """
    if isinstance(history_item, LifecycleEvent):
        yield Event(
            history_item.what, history_item.incarnation, history_item.generation,
            history_item.position, history_item.timestamp_ms,
            RECORDED if history_item.what != "migrated" else INFERRED, detail=history_item.detail,
        )  # fmt: skip
        return
    at = (
        history_item.incarnation,
        history_item.generation_number,
        history_item.position,
        history_item.timestamp_ms,
    )
    change = compare_states(
        history_item.previous.last if history_item.previous else None, history_item.first
    )
    yield Event(
        _event_name(history_item),
        *at,
        RECORDED,
        detail=f"{history_item.first.strategy}: {change.describe_cause}",
    )
    if history_item.gap_before:
        yield Event(
            "gap", *at, INFERRED, detail=f"{history_item.gap_before} generations not in the log"
        )
    if history_item.previous is None:
        for m in history_item.first.members:
            yield Event("join", *at, INFERRED, m.id, m.instance, m.client_id)
    for cause in history_item.causes:
        if cause.kind in _EVENT_CAUSES and (
            history_item.previous is not None or cause.kind != "join"
        ):
            time_ms = cause.time_ms if cause.time_ms is not None else history_item.timestamp_ms
            about = (cause.source, cause.member, cause.instance, cause.detail)
            yield Event(
                cause.kind,
                history_item.incarnation,
                history_item.generation_number,
                history_item.position,
                time_ms,
                *about,
            )
    if change.leader is not None:
        yield Event("leader", *at, INFERRED, change.leader[1], detail=f"was {change.leader[0]}")
    yield from _events_within_generation(history_item)


def _event_name(generation: Generation) -> str:
    if generation.taken_over:
        return "taken over"
    return "rebalance" if generation.first.members else "emptied"


def _events_within_generation(generation: Generation) -> Iterator[Event]:
    """Yield the events that happened after a rebalance and before the next one.

    For example, the restart of a static member, which needs no rebalance.
    """
    before = generation.first
    for position, time_ms, state in generation.rewrites:
        at = (generation.incarnation, generation.generation_number, position, time_ms)
        change = compare_states(before, state)
        yield Event("rewritten", *at, RECORDED, detail=change.describe_cause)
        for old, new in change.restarted:
            yield Event("restart", *at, INFERRED, new.id, new.instance, f"was {old.id}")
        before = state


def all_assigned(members: Iterable[MemberState]) -> set[tuple[str, int]]:
    """Return all (topic, partition) pairs that are assigned to any of the given members."""
    return {pair for m in members for pair in assigned_partitions(m)}


def reassigned_topics(generation: Generation, previous: Generation) -> set[str]:
    """Return the topics that gained or lost assigned partitions in a rebalance.

    They show that the leader saw a topic that was created, deleted or extended.

    Args:
        generation: a generation of a classic group.
        previous: the one before it.
    """
    assigned_before = all_assigned(previous.last.members)
    assigned = all_assigned(generation.first.members)
    known = assigned_before | {
        (topic, p)
        for m in previous.first.members
        if m.subscription is not None
        for topic, numbers in m.subscription.owned
        for p in numbers
    }
    topics = _topics(assigned) - _topics(known)
    if assigned_before:
        topics |= _topics(assigned_before) - _topics(assigned)
    for topic, p in assigned - known:
        if p > max((q for other, q in known if other == topic), default=p):
            topics.add(topic)
    return topics


def reported_partitions(generation: Generation) -> Mapping[str, frozenset[tuple[str, int]]]:
    """Return a dict from each member to the partitions that it reports as owned when it rejoins.

    It is empty for an eager group, whose members revoke all partitions before they rejoin.
    """
    strategy = generation.first.strategy or ""
    members = generation.first.members
    is_cooperative = "cooperative" in strategy or any(
        m.subscription and m.subscription.owned for m in members
    )
    if not is_cooperative:
        return {}
    return {
        m.id: frozenset((t, p) for t, numbers in m.subscription.owned for p in numbers)
        for m in members
        if m.subscription is not None
    }


def _topics(pairs: set[tuple[str, int]]) -> set[str]:
    return {topic for topic, _ in pairs}
