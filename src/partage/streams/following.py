"""What a member does with its assignment: which version it speaks, when it rebalances again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from partage.errors import InvalidProblemError
from partage.streams.final import ConsumerAssignment
from partage.streams.settings import LONG_MAX
from partage.wire.faults import UnsupportedVersionError
from partage.wire.streams.assignment_info import AssignmentInfo
from partage.wire.streams.versions import next_version

__all__ = ["Followed", "follow"]


@dataclass(frozen=True)
class Followed:
    """The member's state after an assignment.

    Attributes:
        version: that its next subscription uses.
        rebalance_ms: when it rebalances again by itself; 0: at once, 2**63 - 1: never. It
            does when the clock has passed that time, not when it has just reached it.
    """

    version: int
    rebalance_ms: int


def follow(
    assignment: ConsumerAssignment,
    *,
    version: int,
    endpoint: tuple[str, int] | None = None,
    hosts: Collection[tuple[str, int]] = (),
) -> Followed:
    """Take over an assignment.

    The first that holds decides when to rebalance again: the version changed, or the
    member's own end point is missing among the hosts (a static member with an old
    assignment): at once; else what the assignment says.

    Args:
        assignment: without an error code.
        version: of the subscription that the member sent.
        endpoint: its own, if it has one.
        hosts: end points that the assignment names.

    Raises:
        InvalidProblemError: the assignment is of a later version than the subscription, or
            others support versions that this member does not; to Kafka a
            TaskAssignmentException.

    Source: ``StreamsPartitionAssignor.onAssignment`` 4.3.1.

    >>> follow(ConsumerAssignment(next_rebalance_ms=500), version=11).rebalance_ms
    500
    >>> follow(ConsumerAssignment(version=9, common_version=9), version=11)
    Followed(version=9, rebalance_ms=0)
    """
    answer = AssignmentInfo(assignment.version, assignment.common_version)
    try:
        after = next_version(answer, used=version)
    except UnsupportedVersionError as refused:
        raise InvalidProblemError(
            f"is refused: {refused}", path="assignment.version", value=assignment.version
        ) from None
    if after.rejoin or (endpoint is not None and hosts and endpoint not in hosts):
        return Followed(after.version, 0)
    return Followed(after.version, min(assignment.next_rebalance_ms, LONG_MAX))
