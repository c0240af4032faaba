"""Members that went, for who comes back: a bounce is told from a leave and a join."""

from __future__ import annotations

from dataclasses import dataclass, field

from partage.history.records import MemberState

__all__ = ["Departure", "Departures"]

#: How many are remembered: more than that do not come back within one session timeout.
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Departure:
    """A member that went.

    Attributes:
        member, instance, client_id, host: who.
        time_ms: when the record was written that no longer has it.
        until_ms: until when a return counts as a bounce.
    """

    member: str
    instance: str | None
    client_id: str
    host: str
    time_ms: int
    until_ms: int


@dataclass(slots=True)
class Departures:
    """Members that went and have not come back; newest last.

    >>> gone = Departures()
    >>> left = MemberState("m", None, "app", "/h", 0, 6_000, None, (), -1, None, None)
    >>> gone.add(left, 1_000, 6_000)
    >>> gone.returned("new", None, "app", "/h", 5_000).member, gone.kept
    ('m', [])
    """

    kept: list[Departure] = field(default_factory=list)

    def add(self, member: MemberState, time_ms: int, timeout_ms: int) -> None:
        """A member went."""
        who = (member.id, member.instance, member.client_id, member.client_host)
        self.kept.append(Departure(*who, time_ms, time_ms + timeout_ms))
        del self.kept[:-_MOST_KEPT]

    def returned(
        self, member: str, instance: str | None, client_id: str, host: str, time_ms: int
    ) -> Departure | None:
        """Who of them this is: the same id or instance, or the same client at the same host."""
        for place in range(len(self.kept) - 1, -1, -1):
            gone = self.kept[place]
            same = (
                gone.instance == instance
                if instance is not None
                else (gone.instance, gone.client_id, gone.host) == (None, client_id, host)
            )
            if (same or gone.member == member) and time_ms <= gone.until_ms:
                return self.kept.pop(place)
        return None
