"""What a member of a consumer, share or streams group has, as the coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass

from partage.history.records import Place

__all__ = ["ACTIVE", "OWNER", "RELEASING", "STANDBY", "WARMUP", "Held"]

OWNER, RELEASING = "owner", "releasing"
ACTIVE, STANDBY, WARMUP = "active", "standby", "warmup"


@dataclass(frozen=True, slots=True)
class Held:
    """One CURRENT_MEMBER_ASSIGNMENT record: everything that a member has from now on.

    Attributes:
        epoch: of the group's target assignment at that time.
        member_epoch: the epoch the member itself is in; -2 while a static one is away.
        parts: (role, topic id or None, topic, partition); empty when it is gone.
    """

    incarnation: int
    place: Place
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
