"""Members that were away: who left when, and whether it came back.

No record says that a new member is an old one. A static member is known by its instance id.
A dynamic one has a new member id each time; that it is the same process, started again, is
inferred: same client id, same host, and nobody else of that name has come in between.
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
    waiting: dict[tuple[str, ...], list[int]] = {}
    before: Generation | None = None
    for now in generations:
        if before is not None and now.incarnation != before.incarnation:
            before, waiting = None, {}
        old = {m.owner: m for m in before.last.members} if before else {}
        new = {m.owner: m for m in now.first.members}
        for owner, member in old.items():
            if owner not in new:
                waiting.setdefault(_process(member), []).append(len(found))
                found.append(_departure(_timed(member, session_timeout_ms), now))
        for owner, member in new.items():
            if owner not in old and waiting.get(_process(member)):
                at = waiting[_process(member)].pop(0)
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


def _process(member: MemberState) -> tuple[str, ...]:
    """What a process keeps when it is started again."""
    if member.instance is not None:
        return ("instance", member.instance)
    return ("client", member.client_id, member.client_host)
