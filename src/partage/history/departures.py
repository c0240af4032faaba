"""Departed members of a group, remembered so that their rejoin can be recognised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from partage.history.records import MemberState

__all__ = ["DepartedMember", "DepartedMembers"]

#: Departed members that are remembered: no group loses more within one session timeout.
_MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class DepartedMember:
    """A member that left its consumer group, stored so that it can be recognised if it rejoins.

    Attributes:
        time_ms: estimated time at which it stopped consuming.
        until_ms: a rejoin up to this time is a bounce (a short absence, such as a restart).
        evicted: whether its session timeout expired; no rejoin is a bounce then.
        lost: whether a broker failure caused the eviction.
        settings: its session timeout, rebalance timeout and version of the subscription.
    """

    member: str
    instance: str | None
    client_id: str
    host: str
    time_ms: int
    until_ms: int
    evicted: bool = False
    lost: bool = False
    settings: tuple[int, int, int] = (-1, -1, -1)

    def is_bounce(self, time_ms: int) -> bool:
        """Return whether a rejoin at ``time_ms`` is a bounce: a short absence, such as a quick
        restart.

        It is one if the member was not evicted and its session timeout had not expired by then.
        """
        return not self.evicted and time_ms <= self.until_ms


@dataclass(slots=True)
class DepartedMembers:
    """Members that recently left a group, to recognise clients that rejoin with a new member id.

    A static member with a new member id in two successive states of a classic group never left:
    `compare_states` in `events` recognises it.

    A joining member matches a departed one that has its member id; else one that has its instance
    id; without an instance id, one that has its client id and host. Among several matches,
    these are preferred:

    * the one that left first, among those whose session timeout has not expired and that were not
      evicted: clients are restarted in the order in which they were stopped;
    * else the one that left last.

    A rejoin is a **bounce** if the session timeout had not expired and the member had not been
    evicted: with an instance id, its partitions would have waited for it. Any other rejoin is a
    join.

    >>> departed = DepartedMembers()
    >>> new = MemberState("new", None, "app", "/h", 0, 6_000, None, (), -1, None, None)
    >>> for name, at in ("m", 1_000), ("n", 2_000), ("o", 90_000):
    ...     departed.add_departure(replace(new, id=name), at, 6_000)
    >>> [departed.match_rejoin(new, at).member for at in (5_000, 99_000, 99_000)]
    ['m', 'o', 'n']
    """

    members: list[DepartedMember] = field(default_factory=list)

    def add_departure(self, member: MemberState, time_ms: int, timeout_ms: int) -> None:
        """Add a member that left its consumer group at ``time_ms``.

        If it rejoins within ``timeout_ms`` (its session timeout), the rejoin is a bounce, such as a
        restart.
        """
        identity = (member.id, member.instance, member.client_id, member.client_host)
        times = (time_ms, time_ms + timeout_ms)
        self.members.append(DepartedMember(*identity, *times, settings=_settings(member)))
        del self.members[:-_MOST_REMEMBERED]

    def mark_evicted(self, member: str, *, lost: bool = False) -> None:
        """Mark a departed member as evicted by the coordinator.

        A later rejoin is then no bounce (a short absence). ``lost`` says that a broker failure
        caused the eviction.
        """
        for i, departed in enumerate(self.members):
            if departed.member == member:
                self.members[i] = replace(departed, evicted=True, lost=lost)

    def match_rejoin(
        self, member: MemberState, time_ms: int, *, same_settings: bool = False
    ) -> DepartedMember | None:
        """Find the departed member that a joining member is likely to be, and remove it from the
        list.

        Both have the same member id or instance id. Without an instance id, both have the same
        client id and host. The result is None without a match.

        Args:
            member: the joining member.
            time_ms: when it joined.
            same_settings: whether a client that is only known by its client id and host must have
                the settings of the departed one, because others share its client id.
        """
        for i, departed in enumerate(self.members):
            if departed.member == member.id:  # a process keeps its member id (KIP-848)
                return self.members.pop(i)
        match = None
        client = (None, member.client_id, member.client_host)
        for i, departed in enumerate(self.members):
            if member.instance is not None:
                same = departed.instance == member.instance
            else:
                same = (departed.instance, departed.client_id, departed.host) == client and (
                    not same_settings or departed.settings == _settings(member)
                )
            if same:
                match = i
                if departed.is_bounce(time_ms):
                    break
        return None if match is None else self.members.pop(match)


def _settings(member: MemberState) -> tuple[int, int, int]:
    version = -1 if member.subscription is None else member.subscription.version
    return member.session_timeout_ms, member.rebalance_timeout_ms, version
