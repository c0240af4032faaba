"""What a member does with its assignment: which version it speaks, when it rebalances again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from partage.errors import InvalidProblemError
from partage.streams.final import ConsumerAssignment
from partage.streams.members import LATEST_VERSION
from partage.streams.settings import LONG_MAX

__all__ = ["Followed", "follow"]

_EARLIEST_PROBEABLE = 3


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
    if assignment.version > version:
        raise InvalidProblemError(
            f"must not exceed the subscription's {version}",
            path="assignment.version",
            value=assignment.version,
        )
    if assignment.common_version > LATEST_VERSION:
        raise InvalidProblemError(
            f"must not exceed {LATEST_VERSION}",
            path="assignment.common_version",
            value=assignment.common_version,
        )
    spoken = version
    if assignment.version >= _EARLIEST_PROBEABLE and (
        assignment.common_version > version or assignment.version < version
    ):
        spoken = assignment.common_version
        return Followed(spoken, 0)
    if endpoint is not None and hosts and endpoint not in hosts:
        return Followed(spoken, 0)
    return Followed(spoken, min(assignment.next_rebalance_ms, LONG_MAX))
