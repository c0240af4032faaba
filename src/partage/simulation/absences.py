"""Members that were away: who left when, and whether it came back.

Who of those that come was there before is told by the history's causes, which have one rule for
it (`history.departures`): a policy's members come back as the recorded ones did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.events import Generation
from partage.history.records import MemberState

__all__ = ["Absence", "AbsenceTracker", "Left", "absences", "session_timeout_ms"]

_EXPIRED, _LEFT = "expiry", "leave"
#: Members that are waited for; the history itself remembers fewer.
_MOST_AWAY = 4_096

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


@dataclass(slots=True)
class Left:
    """A departure whose end may be known later."""

    absence: Absence


class AbsenceTracker:
    """Feed one group's rebalances in order; those without members count.

    Args:
        session_timeout_ms: the broker's, for members that send none; None if it is not known.
    """

    def __init__(self, session_timeout_ms: int | None = None) -> None:
        self._timeout_ms = session_timeout_ms
        self._waiting: dict[str, Left] = {}
        self._before: Generation | None = None

    def feed(self, now: Generation) -> tuple[list[Left], list[Absence]]:
        """Who went with a rebalance, and whose absence it ends."""
        if self._before is not None and now.incarnation != self._before.incarnation:
            self._before, self._waiting = None, {}
        old = {m.owner: m for m in self._before.last.members} if self._before else {}
        new = {m.owner: m for m in now.first.members}
        gone, back = [], []
        for owner, member in old.items():
            if owner not in new:
                left = Left(_departure(_timed(member, self._timeout_ms), now))
                gone.append(left)
                self._waiting[member.id] = left
        was = {c.member: c.was for c in now.causes if c.was is not None}
        for owner, member in new.items():
            left_before = self._waiting.pop(was.get(member.id, ""), None)
            if owner not in old and left_before is not None:
                key = (now.incarnation, now.number)
                left_before.absence = replace(
                    left_before.absence, back=key, back_ms=now.timestamp_ms, as_member=member
                )
                back.append(left_before.absence)
        while len(self._waiting) > _MOST_AWAY:
            del self._waiting[next(iter(self._waiting))]
        self._before = now
        return gone, back


def absences(
    generations: Iterable[Generation], session_timeout_ms: int | None = None
) -> list[Absence]:
    """Every departure of one group's history, in order.

    Args:
        generations: of one group, in order.
        session_timeout_ms: the broker's, for members that send none; None if it is not known.
    """
    tracker = AbsenceTracker(session_timeout_ms)
    found = [left for now in generations for left in tracker.feed(now)[0]]
    return [left.absence for left in found]


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
