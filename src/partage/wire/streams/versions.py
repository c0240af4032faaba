"""Version probing: how members and leader of different releases agree on a version (KIP-268).

A round, as pure functions on what is read and written:

1. Every member sends in its used version, at first the latest that it knows (`first_version`),
   and says which is the latest that it supports.
2. The leader reads what it can (`group_versions`). A member whose version is above its own it can
   only count: it is one of the *future* members. It answers in the lowest version of all, and
   tells them the latest version that all support. A future member beside one of version 1 or 2 is
   a dead end: those cannot be told to change, everybody gets error code 3.
3. A member that is answered in a lower version than it used takes the common one, and joins again
   at once; so does one that hears of a higher common version (`next_version`). That follow-up
   rebalance is what ends a rolling upgrade: once the last old member has gone, all go up.

Source: ``StreamsPartitionAssignor`` of kafka-streams 4.3.1; where releases differ it is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from partage.errors import InvalidConfigError
from partage.wire.errors import UnsupportedVersionError
from partage.wire.streams.assignment_info import AssignmentInfo, error_assignment
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
    "first_version",
    "group_versions",
    "next_version",
    "probing_answer",
    "versions_of",
]

EARLIEST_PROBEABLE_VERSION = 3
"""The first version that says which is the latest that the member supports."""
ASSIGNMENT_ERROR = 3
SHUTDOWN_REQUESTED = 4

_PINNED = {
    "0.10.0": 1,
    **dict.fromkeys(("0.10.1", "0.10.2", "0.11.0", "1.0", "1.1"), 2),
}
_UP_TO_2_3 = (*_PINNED, "2.0", "2.1", "2.2", "2.3")
_SINCE_2_4 = (
    *(f"2.{minor}" for minor in range(4, 9)),
    *(f"3.{minor}" for minor in range(10)),
    *(f"4.{minor}" for minor in range(3)),
)


def first_version(
    upgrade_from: str | None = None, *, latest: int = LATEST_VERSION, release_4: bool = True
) -> int:
    """The version that a member starts with.

    Args:
        upgrade_from: the setting ``upgrade.from``, None if it is not set.
        latest: the latest version that the member supports.
        release_4: whether the member is of release 4, where the setting no longer matters here and
            takes nothing before 2.4; before, it pins the version to 1 or 2 for a rolling upgrade
            from 0.10.0 to 1.1, whose leaders cannot be probed.

    Raises:
        InvalidConfigError: Streams has no such value.

    >>> first_version(), first_version("3.9"), first_version("0.11.0", release_4=False)
    (11, 11, 2)
    """
    known = _SINCE_2_4 if release_4 else (*_UP_TO_2_3, *_SINCE_2_4)
    if upgrade_from is not None and upgrade_from not in known:
        raise InvalidConfigError("upgrade.from", f"must be one of {', '.join(known)}", upgrade_from)
    return min(latest, _PINNED.get(upgrade_from or "", latest))


@dataclass(frozen=True)
class GroupVersions:
    """What the leader makes of its members' versions.

    Attributes:
        used: the lowest that any member used, at most the leader's latest: that of its answers.
        common: the lowest of the latest supported versions, likewise.
        future: places of the members that the leader can only count.
        error_code: 0; 3: a future member beside one that cannot be probed; 4: a member asks for
            shutdown. With an error every member gets `error_assignment`.
    """

    used: int
    common: int
    future: tuple[int, ...] = ()
    error_code: int = 0

    @property
    def probing(self) -> bool:
        """Whether this is a round of version probing."""
        return bool(self.future) and not self.error_code


def group_versions(
    members: Iterable[SubscriptionInfo], *, latest: int = LATEST_VERSION
) -> GroupVersions:
    """The versions of a group as its leader sees them.

    Args:
        members: subscriptions as the leader read them (with the same ``latest``).
        latest: the latest version that the leader supports.

    >>> old = SubscriptionInfo.of(process=bytes(16), version=9, latest_version=9)
    >>> new = SubscriptionInfo.of(process=bytes(16))
    >>> group_versions([old, new])
    GroupVersions(used=9, common=9, future=(), error_code=0)
    >>> group_versions([old, new], latest=9)
    GroupVersions(used=9, common=9, future=(1,), error_code=0)
    """
    return versions_of(
        ((i.version, i.latest_version, i.error_code == SHUTDOWN_REQUESTED) for i in members),
        latest=latest,
    )


def versions_of(
    members: Iterable[tuple[int, int, bool]], *, latest: int = LATEST_VERSION
) -> GroupVersions:
    """The same of each member's version, its latest version, and whether it asks for shutdown.

    >>> versions_of([(9, 9, False), (12, 12, True)])
    GroupVersions(used=9, common=9, future=(1,), error_code=0)
    """
    used = common = latest
    future: list[int] = []
    shutdown = False
    for place, (version, supported, asks) in enumerate(members):
        used = min(used, version)
        # The -1 of versions 1 and 2 counts too, as in Kafka: their answers do not carry it.
        common = min(common, supported)
        if version > latest:
            future.append(place)
        else:
            shutdown |= asks
    code = 0
    if shutdown:
        code = SHUTDOWN_REQUESTED
    elif future and used < EARLIEST_PROBEABLE_VERSION:
        code = ASSIGNMENT_ERROR
    return GroupVersions(used, common, tuple(future), code)


def probing_answer(versions: GroupVersions, *, latest: int = LATEST_VERSION) -> AssignmentInfo:
    """An answer that holds nothing but versions, or the error code.

    What a future member gets that the leader finds no task for: in 4.3.1 future members are one
    client, whose previous tasks follow from the partitions that they own, and are assigned tasks
    like others; it has no end point, no tags, and nothing to restore from.

    >>> answer = probing_answer(GroupVersions(used=9, common=9, future=(1,)))
    >>> answer.version, answer.common_version, len(answer.active)
    (9, 9, 0)
    """
    if versions.error_code:
        return error_assignment(versions.error_code, latest=latest)
    return AssignmentInfo(versions.used, versions.common)


@dataclass(frozen=True)
class NextVersion:
    """What a member does about versions after an answer.

    Attributes:
        version: of its next subscription.
        rejoin: whether it joins again at once, since its version changed.
        error_code: of the answer; other than 0, nothing else in it counts.
    """

    version: int
    rejoin: bool = False
    error_code: int = 0


def next_version(answer: AssignmentInfo, *, used: int, latest: int = LATEST_VERSION) -> NextVersion:
    """The version that a member goes on with.

    Args:
        answer: of the leader, as the member read it.
        used: the version of the subscription that it sent.
        latest: the latest version that it supports.

    Raises:
        UnsupportedVersionError: the answer is of a later version than the subscription, or others
            support versions that this member does not; to Kafka a TaskAssignmentException.

    >>> next_version(AssignmentInfo(9, 9), used=11)
    NextVersion(version=9, rejoin=True, error_code=0)
    >>> next_version(AssignmentInfo(9, 11), used=9)
    NextVersion(version=11, rejoin=True, error_code=0)
    """
    if answer.error_code:
        return NextVersion(used, error_code=answer.error_code)
    if answer.version > used:
        _refuse(f"an answer in version {answer.version} to a subscription in {used}", answer)
    if answer.common_version > latest:
        _refuse(f"all support {answer.common_version}, this member only {latest}", answer)
    if answer.version < EARLIEST_PROBEABLE_VERSION:
        return NextVersion(used)
    if answer.common_version > used or answer.version < used:
        return NextVersion(answer.common_version, rejoin=True)
    return NextVersion(used)


def _refuse(what: str, answer: AssignmentInfo) -> None:
    field = "AssignmentInfo.version"
    raise UnsupportedVersionError(what, offset=0, field=field, version=answer.version)
