"""What the coordinator knew when it decided on a target assignment: input of its assignor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partage.history.server_records import ById

__all__ = ["Roles", "StreamsInput", "TargetInput"]

#: (role, (topic id or subtopology, numbers)) of one member; consumers and share: owner only.
Roles = tuple[tuple[str, ById], ...]


@dataclass(frozen=True, slots=True)
class StreamsInput:
    """What a streams group's assignor is told besides (KIP-1071).

    Attributes:
        processes: member id -> process id; members of one process share a disk.
        topology: the STREAMS_GROUP_TOPOLOGY value; None if the log lacks it.
        settings: assignment settings of the group, as ``num.standby.replicas``.
    """

    processes: Mapping[str, str]
    topology: Mapping[str, Any] | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TargetInput:
    """Previous targets and settings behind one target assignment (KIP-848, KIP-932, KIP-1071).

    Attributes:
        target: member id -> what it was given by role, by topic id or subtopology.
        before: member id -> its target before, in the order of its record; a static member
            that came back has that of the member it replaced.
        known: whether ``before`` is whole for certain: the log has the group from its beginning.
        assignable: partitions that may be given at all, by topic id (share groups: those
            whose share state is initialised); None for all.
        decided_ms: ``assignmentTimestamp``; None if the record has none: nobody decided,
            the assignment of a classic group was taken over.
        streams: of a streams group, what its assignor is told besides; None for others.
    """

    target: Mapping[str, Roles]
    before: Mapping[str, Roles]
    known: bool
    assignable: ById | None
    decided_ms: int | None
    streams: StreamsInput | None = None
