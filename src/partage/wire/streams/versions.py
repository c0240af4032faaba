"""Version probing: how members of different releases agree on a user data version (KIP-268).

One round, as pure functions of decoded messages:

1. Every member joins with its used version, first the latest that it knows, and sends the
   latest version that it supports.
2. The leader decodes what it can (`group_versions`). A member with a version above the leader's
   own is a *future* member: the leader only counts it. It replies in the lowest version of all,
   with the latest version that all members support. If the group has a future member and one of
   version 1 or 2, which cannot follow a probe, all members get error code 3.
3. A member whose reply has a lower version than its own takes the common version and rejoins at
   once. So does one that receives a higher common version (`next_version`). This follow-up
   rebalance ends a rolling upgrade: after the last old member leaves, all members upgrade.

Source: ``StreamsPartitionAssignor`` of kafka-streams 4.3.1; differences of older releases are
noted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from partage.wire.errors import UnsupportedVersionError
from partage.wire.streams.assignment_info import AssignmentInfo
from partage.wire.streams.subscription_info import (
    LATEST_VERSION,
    SubscriptionInfo,
)

__all__ = [
    "ASSIGNMENT_ERROR",
    "EARLIEST_PROBEABLE_VERSION",
    "SHUTDOWN_REQUESTED",
    "GroupVersions",
    "NextVersion",
    "group_versions",
    "group_versions_from_tuples",
    "next_version",
]

EARLIEST_PROBEABLE_VERSION = 3
"""The first version with the latest version that the member supports."""
ASSIGNMENT_ERROR = 3
SHUTDOWN_REQUESTED = 4


@dataclass(frozen=True)
class GroupVersions:
    """The user data versions that the leader of a Kafka Streams group derives from its members.

    Members of different releases send different versions (KIP-268).

    Attributes:
        used: the lowest version that any member used, at most the leader's latest; the leader
            replies in this version.
        common: the lowest of the latest supported versions, at most the leader's latest.
        future: indexes of the members that the leader cannot decode.
        error_code: 0 for none; 3 if a future member meets one that does not support probing; 4 if a
            member asks for shutdown. With an error every member receives only the code.
    """

    used: int
    common: int
    future: tuple[int, ...] = ()
    error_code: int = 0

    @property
    def is_version_probe(self) -> bool:
        """Return whether some member's version is too new for the leader (version probing,
        KIP-268).

        The leader then replies with the latest version that all members support, and the member
        rejoins with that one.
        """
        return bool(self.future) and not self.error_code


def group_versions(
    members: Iterable[SubscriptionInfo], *, latest: int = LATEST_VERSION
) -> GroupVersions:
    """Decide which user data version the leader of a Streams group uses, from all subscriptions.

    The leader replies in the lowest version that any member used, at most its own latest (KIP-268).

    Args:
        members: the decoded subscriptions.
        latest: the latest version that the leader supports.

    >>> old = SubscriptionInfo.of(process=bytes(16), version=9, latest_version=9)
    >>> new = SubscriptionInfo.of(process=bytes(16))
    >>> group_versions([old, new])
    GroupVersions(used=9, common=9, future=(), error_code=0)
    >>> group_versions([old, new], latest=9)
    GroupVersions(used=9, common=9, future=(1,), error_code=0)
    """
    return group_versions_from_tuples(
        ((i.version, i.latest_version, i.error_code == SHUTDOWN_REQUESTED) for i in members),
        latest=latest,
    )


def group_versions_from_tuples(
    members: Iterable[tuple[int, int, bool]], *, latest: int = LATEST_VERSION
) -> GroupVersions:
    """Decide which user data version the leader of a Streams group uses, from members' versions.

    Args:
        members: tuples (version, latest supported version, whether the member requests shutdown).
        latest: the latest version that the leader supports.

    >>> group_versions_from_tuples([(9, 9, False), (12, 12, True)])
    GroupVersions(used=9, common=9, future=(1,), error_code=0)
    """
    used = common = latest
    future: list[int] = []
    shutdown = False
    for index, (version, supported, asks) in enumerate(members):
        used = min(used, version)
        # The -1 of versions 1 and 2 counts too, as in Kafka; their replies do not have it.
        common = min(common, supported)
        if version > latest:
            future.append(index)
        else:
            shutdown |= asks
    code = 0
    if shutdown:
        code = SHUTDOWN_REQUESTED
    elif future and used < EARLIEST_PROBEABLE_VERSION:
        code = ASSIGNMENT_ERROR
    return GroupVersions(used, common, tuple(future), code)


@dataclass(frozen=True)
class NextVersion:
    """The user data version that a Kafka Streams member uses next, and whether it rejoins at once.

    A member changes its version after it learns what the other members support (KIP-268).

    Attributes:
        version: the version of its next subscription.
        rejoin: whether it rejoins at once, because its version changed.
        error_code: the error code of the reply; if it is not 0, the rest of the reply is ignored.
    """

    version: int
    rejoin: bool = False
    error_code: int = 0


def next_version(answer: AssignmentInfo, *, used: int, latest: int = LATEST_VERSION) -> NextVersion:
    """Decide which user data version a Kafka Streams member uses after the leader's reply.

    It rejoins at once with another version if the members can use a later one, or must use an
    earlier one (version probing, KIP-268).

    Args:
        answer: the leader's reply, as the member decoded it.
        used: the version of the subscription that the member sent.
        latest: the latest version that the member supports.

    Raises:
        UnsupportedVersionError: the reply's version is later than the subscription's, or the common
            version is later than ``latest`` (TaskAssignmentException in Kafka).

    >>> next_version(AssignmentInfo(9, 9), used=11)
    NextVersion(version=9, rejoin=True, error_code=0)
    >>> next_version(AssignmentInfo(9, 11), used=9)
    NextVersion(version=11, rejoin=True, error_code=0)
    """
    if answer.error_code:
        return NextVersion(used, error_code=answer.error_code)
    if answer.version > used:
        _fail(f"an answer in version {answer.version} to a subscription in {used}", answer)
    if answer.common_version > latest:
        _fail(f"all support {answer.common_version}, this member only {latest}", answer)
    if answer.version < EARLIEST_PROBEABLE_VERSION:
        return NextVersion(used)
    if answer.common_version > used or answer.version < used:
        return NextVersion(answer.common_version, rejoin=True)
    return NextVersion(used)


def _fail(what: str, answer: AssignmentInfo) -> NoReturn:
    field = "AssignmentInfo.version"
    raise UnsupportedVersionError(what, offset=0, field=field, version=answer.version)
