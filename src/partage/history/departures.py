"""Members that went, for who comes back: the one rule of it, for causes and for simulation.

No record says that a new member is an old one. Who comes is taken for one that went if it has its
member id, or its instance id; or, without an instance, its client id and host. Where several went
that it may be, it is

* of those whose session timeout is not over yet: the one that went first, since who is started
  again first is back first;
* else the one that went last.

A return is a **bounce** where the session timeout was not over and the member had not been put
out: with an instance id its partitions would have waited for it. Any other return is a join.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from partage.history.records import MemberState

__all__ = ["DepartedMember", "DepartedMembers"]

#: How many are remembered: more than that do not come back within one session timeout.
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class DepartedMember:
    """A member that went.

    Attributes:
        member, instance, client_id, host: who.
        time_ms: when the record was written that no longer has it.
        until_ms: until when a return counts as a bounce.
        put_out: whether it went for its silence: then no return does.
    """

    member: str
    instance: str | None
    client_id: str
    host: str
    time_ms: int
    until_ms: int
    put_out: bool = False

    def bounced(self, time_ms: int) -> bool:
        """Whether it was a bounce, if it is back at that time."""
        return not self.put_out and time_ms <= self.until_ms


@dataclass(slots=True)
class DepartedMembers:
    """Members that went and have not come back; newest last.

    >>> gone = DepartedMembers()
    >>> for name, at in ("m", 1_000), ("n", 2_000), ("o", 90_000):
    ...     left = MemberState(name, None, "app", "/h", 0, 6_000, None, (), -1, None, None)
    ...     gone.add(left, at, 6_000)
    >>> [gone.returned("new", None, "app", "/h", at).member for at in (5_000, 99_000, 99_000)]
    ['m', 'o', 'n']
    """

    kept: list[DepartedMember] = field(default_factory=list)

    def add(self, member: MemberState, time_ms: int, timeout_ms: int) -> None:
        """A member went."""
        who = (member.id, member.instance, member.client_id, member.client_host)
        self.kept.append(DepartedMember(*who, time_ms, time_ms + timeout_ms))
        del self.kept[:-_MOST_KEPT]

    def put_out(self, member: str) -> None:
        """Of one that went it is known by now that it did so for its silence."""
        for place, gone in enumerate(self.kept):
            if gone.member == member:
                self.kept[place] = replace(gone, put_out=True)

    def returned(
        self, member: str, instance: str | None, client_id: str, host: str, time_ms: int
    ) -> DepartedMember | None:
        """Who of them somebody is that comes; None if nobody. It is then no longer away."""
        last = None
        for place, gone in enumerate(self.kept):
            same = (
                gone.instance == instance
                if instance is not None
                else (gone.instance, gone.client_id, gone.host) == (None, client_id, host)
            )
            if same or gone.member == member:
                last = place
                if time_ms <= gone.until_ms:
                    break
        return None if last is None else self.kept.pop(last)
