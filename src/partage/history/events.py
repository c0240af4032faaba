"""What happened, by name: differences between generations, marked recorded or inferred.

The log of a classic group says who was there when a rebalance ended. That somebody joined
or left is inferred from two records; that a generation began is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from partage.history.classic import Generation, Life
from partage.history.records import ClassicState, MemberState, Place

__all__ = ["INFERRED", "RECORDED", "Change", "Event", "change_of", "events_of", "topics_of_member"]

RECORDED, INFERRED = "recorded", "inferred"
#: Kinds of causes that are events; a migration is one of the group's life.
_HAPPENINGS = (
    "join", "leave", "expiry", "poll", "bounce", "resubscription", "topics", "strategy",
    "follow-up",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
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


def change_of(before: ClassicState | None, after: ClassicState) -> Change:
    """The difference of two states of a group.

    >>> change_of(None, ClassicState("", 1, None, None, None, ())).cause
    'same members'
    """
    if before is None:
        return Change(joined=after.members)
    old = {m.owner: m for m in before.members}
    new = {m.owner: m for m in after.members}
    both = [(old[k], m) for k, m in new.items() if k in old]
    strategies = (before.strategy, after.strategy)
    leaders = (before.leader, after.leader)
    stayed = {m.id for m in after.members}
    return Change(
        tuple(m for k, m in new.items() if k not in old),
        tuple(m for k, m in old.items() if k not in new),
        tuple((a, b) for a, b in both if a.id != b.id),
        tuple((a, b) for a, b in both if topics_of_member(a) != topics_of_member(b)),
        strategies if all(strategies) and len(set(strategies)) == 2 else None,  # type: ignore[arg-type]  # all() has looked
        leaders if all(leaders) and len(set(leaders)) == 2 and leaders[0] in stayed else None,  # type: ignore[arg-type]  # all() has looked
    )


def topics_of_member(member: MemberState) -> tuple[str, ...]:
    """Its subscribed topics, sorted, each once."""
    return () if member.subscription is None else tuple(sorted(set(member.subscription.topics)))


@dataclass(frozen=True, slots=True)
class Event:
    """One row of table ``events``; see there."""

    event: str
    incarnation: int
    generation: int
    place: Place
    time_ms: int
    source: str
    member: str | None = None
    instance: str | None = None
    detail: str | None = None


def events_of(found: Generation | Life) -> Iterator[Event]:
    """The events that a generation, or the beginning or end of a group's life, stands for.

    Each cause of a rebalance is an event of its own, at the time at which it happened.
    """
    if isinstance(found, Life):
        yield Event(
            found.what, found.incarnation, found.generation, found.place, found.timestamp_ms,
            RECORDED if found.what != "migrated" else INFERRED, detail=found.detail,
        )  # fmt: skip
        return
    at = (found.incarnation, found.number, found.place, found.timestamp_ms)
    change = change_of(found.previous.last if found.previous else None, found.first)
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
            yield Event(cause.kind, found.incarnation, found.number, found.place, when, *words)
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
        change = change_of(before, state)
        yield Event("rewritten", *at, RECORDED, detail=change.cause)
        for old, new in change.restarted:
            yield Event("restart", *at, INFERRED, new.id, new.instance, f"was {old.id}")
        before = state
