"""Departed members of a group, remembered so that their rejoin can be recognised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from partage.history.records import MemberState

__all__ = ["DepartedMember", "DepartedMembers"]

#: Departed members that are remembered: no group loses more within one session timeout.
_MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class DepartedMember:
    """Consumer that left its group, stored so that it can be recognised if it rejoins.

    Attributes:
        time_ms: estimated time at which it stopped consuming.
        until_ms: a rejoin up to this time is a bounce (a short absence, such as a restart).
        evicted: whether its session timeout expired; no rejoin is a bounce then.
        lost: whether a broker failure caused the eviction.
    """

    member: str
    instance: str | None
    client_id: str
    host: str
    time_ms: int
    until_ms: int
    evicted: bool = False
    lost: bool = False

    def is_bounce(self, time_ms: int) -> bool:
        """Return whether a rejoin at this time is a bounce: the session timeout has not expired."""
        return not self.evicted and time_ms <= self.until_ms


@dataclass(slots=True)
class DepartedMembers:
    """Consumers that recently left a group, used to recognise those that rejoin.

    A rejoining client may have a new member id. A joining member matches a departed one that has
    its member id or its instance id; without an instance id, one that has its client id and host.
    Among several matches, the rule takes

    * the one that left first, among those whose session timeout has not expired: clients are
      restarted in the order in which they were stopped;
    * else the one that left last.

    A rejoin is a **bounce** if the session timeout had not expired and the member had not been
    evicted: with an instance id, its partitions would have waited for it. Any other rejoin is a
    join.

    >>> departed = DepartedMembers()
    >>> for name, at in ("m", 1_000), ("n", 2_000), ("o", 90_000):
    ...     left = MemberState(name, None, "app", "/h", 0, 6_000, None, (), -1, None, None)
    ...     departed.add(left, at, 6_000)
    >>> times = (5_000, 99_000, 99_000)
    >>> [departed.match_rejoin("new", None, "app", "/h", at).member for at in times]
    ['m', 'o', 'n']
    """

    members: list[DepartedMember] = field(default_factory=list)

    def add(self, member: MemberState, time_ms: int, timeout_ms: int) -> None:
        """Add a member that left its group at ``time_ms``; a rejoin within ``timeout_ms`` is a
        bounce.
        """
        identity = (member.id, member.instance, member.client_id, member.client_host)
        self.members.append(DepartedMember(*identity, time_ms, time_ms + timeout_ms))
        del self.members[:-_MOST_REMEMBERED]

    def mark_evicted(self, member: str, *, lost: bool = False) -> None:
        """Mark a departed member as evicted by the coordinator.

        ``lost`` means that a broker failure caused the eviction.
        """
        for i, departed in enumerate(self.members):
            if departed.member == member:
                self.members[i] = replace(departed, evicted=True, lost=lost)

    def match_rejoin(
        self, member: str, instance: str | None, client_id: str, host: str, time_ms: int
    ) -> DepartedMember | None:
        """Find and remove the departed consumer that is the same as a joining one; None without a
        match.

        It has the same member id or instance id; without an instance id, the same client id and
        host.

        Args:
            member: id of the joining member.
            instance: its instance id; None if it has none.
            client_id: its client id.
            host: its host.
            time_ms: when it joined.
        """
        match = None
        for i, departed in enumerate(self.members):
            same = (
                departed.instance == instance
                if instance is not None
                else (departed.instance, departed.client_id, departed.host)
                == (None, client_id, host)
            )
            if same or departed.member == member:
                match = i
                if time_ms <= departed.until_ms:
                    break
        return None if match is None else self.members.pop(match)
