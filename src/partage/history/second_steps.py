"""A rebalance of the same members with the same topics: what it was for, by what they got."""

from __future__ import annotations

from collections.abc import Iterable

from partage.history.causes import Cause
from partage.history.classic import Generation
from partage.history.events import INFERRED
from partage.history.ownership import assigned_pairs
from partage.history.records import MemberState

__all__ = ["filled_in", "nothing_new"]

_Pairs = set[tuple[str, int]]


def filled_in(found: Generation, before: Generation | None) -> bool:
    """Whether a cooperative group's members got partitions that were with nobody (KIP-429).

    Members that keep what they have while they join again say what that is; members of eager
    groups have let go of everything, and say nothing.
    """
    claimed = any(m.subscription and m.subscription.owned for m in found.first.members)
    if before is None or found.protocol != "classic" or not claimed:
        return False
    return len(_assigned(found.first.members)) > len(_assigned(before.last.members))


def nothing_new(found: Generation, before: Generation | None) -> Cause:
    """The cause of a rebalance in which nobody came, went, or asked for other topics.

    A topic of which nobody had anything before, or more partitions than there were, means that
    the leader has seen other metadata. Else partitions filled in are a second step. What is
    left is a member that asked for it: a leader that joined again, or ``enforceRebalance``.
    """
    at = found.timestamp_ms
    if before is None or found.protocol != "classic":
        return Cause("unknown", INFERRED, time_ms=at, detail="same members, same topics")
    held = _assigned(before.last.members)
    now = _assigned(found.first.members)
    seen = held | {
        (topic, p)
        for m in before.first.members
        if m.subscription is not None
        for topic, numbers in m.subscription.owned
        for p in numbers
    }
    others = _topics(now) - _topics(seen) | (_topics(held) - _topics(now) if held else set())
    others |= {t for t, p in now - seen if p > max((q for s, q in seen if s == t), default=p)}
    if others:
        words = f"given out otherwise than before: {', '.join(sorted(others))}"
        return Cause("topics", INFERRED, time_ms=at, detail=words)
    if filled_in(found, before):
        kind = before.causes[0].kind if before.causes else "unknown"
        words = f"second step of generation {before.number} ({kind})"
        return Cause("follow-up", INFERRED, time_ms=at, detail=words)
    return Cause("unknown", INFERRED, time_ms=at, detail="a member asked for it, or joined again")


def _assigned(members: Iterable[MemberState]) -> _Pairs:
    return {pair for m in members for pair in assigned_pairs(m)}


def _topics(pairs: _Pairs) -> set[str]:
    return {topic for topic, _ in pairs}
