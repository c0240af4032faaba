"""The event model of all group protocols: generations, causes, assignments, lifecycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from partage.history.records import ClassicState, LogPosition, MemberState, TopicPartitionNumbers

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
    "compare_states",
    "derive_events",
    "subscribed_topics",
]


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for a rebalance.

    Attributes:
        kind: one of `partage.tables.statuses.CAUSE_KINDS`.
        source: ``recorded`` where a record says so, ``inferred`` where records differ.
        member: member id, where it is about one (a bounce: its id afterwards).
        instance: its group.instance.id.
        time_ms: when it happened, as far as can be told; None if it cannot.
        detail: a few words.
        was: of one that came: the member id that it had when it was there before (`departures`);
            None if it was not.

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


#: (role, (topic id or subtopology, numbers)) of one member; consumers and share: owner only.
Roles = tuple[tuple[str, TopicPartitionNumbers], ...]


@dataclass(frozen=True, slots=True)
class StreamsInput:
    """What a streams group's assignor is told besides (KIP-1071).

    Attributes:
        processes: member id -> process id; members of one process share a disk.
        topology: the STREAMS_GROUP_TOPOLOGY value; None if the log lacks it.
        settings: assignment settings of the group, as ``num.standby.replicas``.
    """

    processes: Mapping[str, str]
    topology: Mapping[str, Any] | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetInput:
    """Previous targets and settings behind one target assignment (KIP-848, KIP-932, KIP-1071).

    Attributes:
        target: member id -> what it was given by role, by topic id or subtopology.
        before: member id -> its target before, in the order of its record; a static member
            that came back has that of the member it replaced.
        known: whether ``before`` is whole for certain: the log has the group from its beginning.
        assignable: partitions that may be given at all, by topic id (share groups: those
            whose share state is initialised); None for all.
        decided_ms: ``assignmentTimestamp``; None if the record has none: nobody decided,
            the assignment of a classic group was taken over.
        streams: of a streams group, what its assignor is told besides; None for others.
    """

    target: Mapping[str, Roles]
    before: Mapping[str, Roles]
    known: bool
    assignable: TopicPartitionNumbers | None
    decided_ms: int | None
    streams: StreamsInput | None = None


OWNER, RELEASING = "owner", "releasing"


ACTIVE, STANDBY, WARMUP = "active", "standby", "warmup"


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """One CURRENT_MEMBER_ASSIGNMENT record: everything that a member has from now on.

    Attributes:
        epoch: of the group's target assignment at that time.
        member_epoch: the epoch the member itself is in; -2 while a static one is away.
        parts: (role, topic id or None, topic, partition); empty when it is gone.
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
    def owner(self) -> str:
        """What outlives a restart: the instance id of a static member, else the member id."""
        return self.member if self.instance is None else self.instance


@dataclass(frozen=True, slots=True)
class Generation:
    """One rebalance as recorded: a classic generation, or an epoch's target assignment.

    Attributes:
        incarnation: how often the group had been deleted before.
        first: its state as first written: what the leader decided.
        last: its state as last written: static members may have new ids by then.
        records: how many records it has in the log.
        gap_before: generations between the one before and this one that the log lacks.
        previous: the one before it in the log, None if there is none.
        protocol: classic, consumer, share or streams.
        causes: why it happened, the one that counts first.
        target: what the coordinator went by; None for classic generations.
        rewrites: place, time and state of later records of it, as far as they are kept.
        taken_over: the same assignment written in the other protocol's form when the group
            was migrated: nobody decided anything, so it has the number of the one before.
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

    @property
    def number(self) -> int:
        """The generation's number; of a target assignment, its epoch."""
        return self.first.generation


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """The beginning or the end of a group's life: created, deleted or migrated."""

    what: str
    incarnation: int
    generation: int
    position: LogPosition
    timestamp_ms: int
    detail: str | None = None


RECORDED, INFERRED = "recorded", "inferred"


#: Kinds of causes that are events; a migration is one of the group's life.
_HAPPENINGS = (
    "join", "leave", "expiry", "poll", "bounce", "resubscription", "topics", "strategy",
    "follow-up",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StateChange:
    """What differs between a generation and the one before it.

    Attributes:
        joined, left: members by their new and old states; a restarted one is in neither.
        restarted: pairs (before, after) of static members with a new member id.
        resubscribed: pairs (before, after) of members with other topics.
        strategy: pair of strategies where it changed, else None.
        leader: pair of leaders where it changed and the old one is still there, else None.
    """

    joined: tuple[MemberState, ...] = ()
    left: tuple[MemberState, ...] = ()
    restarted: tuple[tuple[MemberState, MemberState], ...] = ()
    resubscribed: tuple[tuple[MemberState, MemberState], ...] = ()
    strategy: tuple[str, str] | None = None
    leader: tuple[str, str] | None = None

    @property
    def cause(self) -> str:
        """In words: inferred, since no record names the cause of a rebalance."""
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
        """Whether the same members, with the same topics, went through it once more."""
        return not (self.joined or self.left or self.restarted or self.resubscribed)


def compare_states(before: ClassicState | None, after: ClassicState) -> StateChange:
    """The difference of two states of a group.

    >>> compare_states(None, ClassicState("", 1, None, None, None, ())).cause
    'same members'
    """
    if before is None:
        return StateChange(joined=after.members)
    old = {m.owner: m for m in before.members}
    new = {m.owner: m for m in after.members}
    both = [(old[k], m) for k, m in new.items() if k in old]
    strategies = (before.strategy, after.strategy)
    leaders = (before.leader, after.leader)
    stayed = {m.id for m in after.members}
    return StateChange(
        tuple(m for k, m in new.items() if k not in old),
        tuple(m for k, m in old.items() if k not in new),
        tuple((a, b) for a, b in both if a.id != b.id),
        tuple((a, b) for a, b in both if subscribed_topics(a) != subscribed_topics(b)),
        strategies if all(strategies) and len(set(strategies)) == 2 else None,  # type: ignore[arg-type]  # all() has looked
        leaders if all(leaders) and len(set(leaders)) == 2 and leaders[0] in stayed else None,  # type: ignore[arg-type]  # all() has looked
    )


def subscribed_topics(member: MemberState) -> tuple[str, ...]:
    """Its subscribed topics, sorted, each once."""
    return () if member.subscription is None else tuple(sorted(set(member.subscription.topics)))


@dataclass(frozen=True, slots=True)
class Event:
    """One row of table ``events``; see there."""

    event: str
    incarnation: int
    generation: int
    position: LogPosition
    time_ms: int
    source: str
    member: str | None = None
    instance: str | None = None
    detail: str | None = None


def derive_events(found: Generation | LifecycleEvent) -> Iterator[Event]:
    """The events that a generation, or the beginning or end of a group's life, stands for.

    Each cause of a rebalance is an event of its own, at the time at which it happened.
    """
    if isinstance(found, LifecycleEvent):
        yield Event(
            found.what, found.incarnation, found.generation, found.position, found.timestamp_ms,
            RECORDED if found.what != "migrated" else INFERRED, detail=found.detail,
        )  # fmt: skip
        return
    at = (found.incarnation, found.number, found.position, found.timestamp_ms)
    change = compare_states(found.previous.last if found.previous else None, found.first)
    yield Event(_name(found), *at, RECORDED, detail=f"{found.first.strategy}: {change.cause}")
    if found.gap_before:
        yield Event("gap", *at, INFERRED, detail=f"{found.gap_before} generations not in the log")
    if found.previous is None:
        for m in found.first.members:
            yield Event("join", *at, INFERRED, m.id, m.instance, m.client_id)
    for cause in found.causes:
        if cause.kind in _HAPPENINGS and (found.previous is not None or cause.kind != "join"):
            when = cause.time_ms if cause.time_ms is not None else found.timestamp_ms
            words = (cause.source, cause.member, cause.instance, cause.detail)
            yield Event(cause.kind, found.incarnation, found.number, found.position, when, *words)
    if change.leader is not None:
        yield Event("leader", *at, INFERRED, change.leader[1], detail=f"was {change.leader[0]}")
    yield from _rewrites(found)


def _name(found: Generation) -> str:
    if found.taken_over:
        return "taken over"
    return "rebalance" if found.first.members else "emptied"


def _rewrites(found: Generation) -> Iterator[Event]:
    """The same generation written again: what changed in it without a rebalance."""
    before = found.first
    for place, time_ms, state in found.rewrites:
        at = (found.incarnation, found.number, place, time_ms)
        change = compare_states(before, state)
        yield Event("rewritten", *at, RECORDED, detail=change.cause)
        for old, new in change.restarted:
            yield Event("restart", *at, INFERRED, new.id, new.instance, f"was {old.id}")
        before = state
