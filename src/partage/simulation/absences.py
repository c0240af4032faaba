"""Members that were away: who left when, and whether it came back.

Who of those that come was there before is told by the history's causes, which have one rule for
it (`history.departures`): a policy's members come back as the recorded ones did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from partage.history.classic import Generation
from partage.history.reasons import SESSION_TIMEOUT_MS
from partage.history.records import MemberState

__all__ = ["Absence", "absences", "session_timeout_ms"]

_EXPIRED, _LEFT = "expiry", "leave"

#: (incarnation, generation).
_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Absence:
    """One member that went away.

    Attributes:
        member: its state when it was last seen.
        left: the rebalance by which it was gone.
        gone_ms: when it went: of one that expired, a session timeout earlier.
        expired: whether it went without a word.
        back: the rebalance by which it was back; None if it never came back.
        back_ms: when.
        as_member: its state then.
    """

    member: MemberState
    left: _Key
    gone_ms: int
    expired: bool
    back: _Key | None = None
    back_ms: int | None = None
    as_member: MemberState | None = None


def absences(
    generations: Sequence[Generation], session_timeout_ms: int | None = None
) -> list[Absence]:
    """Every departure of one group's history, in order; generations without members count.

    Args:
        generations: of one group, in order.
        session_timeout_ms: the broker's, for members that send none; None if it is not known.
    """
    found: list[Absence] = []
    waiting: dict[str, int] = {}
    before: Generation | None = None
    for now in generations:
        if before is not None and now.incarnation != before.incarnation:
            before, waiting = None, {}
        old = {m.owner: m for m in before.last.members} if before else {}
        new = {m.owner: m for m in now.first.members}
        for owner, member in old.items():
            if owner not in new:
                waiting[member.id] = len(found)
                found.append(_departure(_timed(member, session_timeout_ms), now))
        was = {c.member: c.was for c in now.causes if c.was is not None}
        for owner, member in new.items():
            at = waiting.pop(was.get(member.id, ""), None)
            if owner not in old and at is not None:
                key = (now.incarnation, now.number)
                found[at] = replace(found[at], back=key, back_ms=now.timestamp_ms, as_member=member)
        before = now
    return found


def _timed(member: MemberState, timeout_ms: int | None) -> MemberState:
    """The member with the timeout that counts for it, as far as it is known."""
    if timeout_ms is None or member.session_timeout_ms > 0:
        return member
    return replace(member, session_timeout_ms=timeout_ms)


def _departure(member: MemberState, now: Generation) -> Absence:
    kinds = {c.kind for c in now.causes if c.member == member.id}
    # A static member does not say that it goes; only an administrator takes it out.
    silent = _EXPIRED in kinds or (member.instance is not None and _LEFT not in kinds)
    gone = now.timestamp_ms - (session_timeout_ms(member) if silent else 0)
    return Absence(member, (now.incarnation, now.number), gone, silent)


def session_timeout_ms(member: MemberState) -> int:
    """Of a member; the coordinator's default where the protocol has members send none."""
    sent = member.session_timeout_ms
    return sent if sent > 0 else SESSION_TIMEOUT_MS
