"""Subscriptions and assignments of members: user data, version probing, next rebalance."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from partage.errors import InvalidProblemError
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.member_assignments import Hosts, StreamsMemberAssignment
from partage.streams.members import FUTURE_PROCESS, LATEST_VERSION, StreamsMember
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import TopicPartition
from partage.wire.errors import UnsupportedVersionError
from partage.wire.streams.assignment_info import AssignmentInfo
from partage.wire.streams.subscription_info import SubscriptionInfo
from partage.wire.streams.versions import next_version

__all__ = ["NextRebalance", "assignment_info", "member_of", "on_assignment"]

_SHUTDOWN = 4
#: ``Utils.HOST_PORT_PATTERN`` of Kafka 4.3.1, which has to match as a whole.
_HOST_AND_PORT = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,10})")
_INT_MAX = 2**31 - 1


def member_of(
    name: str,
    info: SubscriptionInfo,
    *,
    owned: Iterable[TopicPartition] = (),
    rack: str | None = None,
) -> StreamsMember:
    """Build a `StreamsMember` from the subscription that a Streams consumer sends in its JoinGroup
    request.

    Args:
        name: member id of the consumer.
        info: user data of the subscription. Only the versions are read if the leader does not
            support the version.
        owned: owned partitions in the subscription.
        rack: rack in the subscription.

    Raises:
        InvalidProblemError: the endpoint is not ``host:port`` (Kafka throws a
            ConfigException), or the version is below 1.
        WireFormatError: a client tag occurs twice.

    Source: ``StreamsPartitionAssignor.assign``, step 0, 4.3.1.

    >>> info = SubscriptionInfo.of(process=bytes([*bytes(15), 7]), endpoint="here:80",
    ...                            offset_sums={(0, 1): -2})
    >>> one = member_of("a", info)
    >>> one.process, one.endpoint, {str(task): total for task, total in one.offset_sums.items()}
    (ProcessId(msb=0, lsb=7), ('here', 80), {'0_1': -2})
    """
    pairs = tuple(owned)
    if info.is_future(LATEST_VERSION):
        return StreamsMember(
            name,
            FUTURE_PROCESS,
            pairs,
            rack=rack,
            version=info.version,
            latest_version=info.latest_version,
        )
    return StreamsMember(
        name,
        ProcessId.from_bytes(info.process),
        pairs,
        {TaskId(*task): total for task, total in info.task_offset_sums.to_dict().items()},
        info.tags,
        rack,
        _endpoint(name, info.endpoint),
        info.version,
        info.latest_version,
        info.error_code == _SHUTDOWN,
    )


def assignment_info(
    assignment: StreamsMemberAssignment,
    hosts: Hosts | None = None,
    standby_hosts: Hosts | None = None,
) -> AssignmentInfo:
    """Build the user data that the leader of a Streams group sends to a consumer with its
    partitions.

    Args:
        assignment: assignment of the consumer; with an error code, all else is left out.
        hosts: source partitions of active tasks by endpoint, the same for every consumer.
        standby_hosts: source partitions of standby tasks by endpoint.

    Raises:
        UnsupportedVersionError: the version is not from 1 to 11.

    Source: ``StreamsPartitionAssignor.addClientAssignments`` and ``errorAssignment`` 4.3.1.

    >>> assignment_info(StreamsMemberAssignment((("t", 2),), (TaskId(0, 2),))).active
    Tasks([(0, 2, None)])
    """
    return AssignmentInfo.of(
        version=assignment.version,
        common_version=assignment.common_version,
        active=assignment.active,
        standby={(s, p, name): own for (s, p, name), own in assignment.standby.items()},
        hosts=hosts,
        standby_hosts=standby_hosts,
        error_code=assignment.error_code,
        next_rebalance_ms=assignment.next_rebalance_ms,
    )


def _endpoint(name: str, text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None or int(found[2]) > _INT_MAX:
        raise InvalidProblemError(
            "must be host:port", path=f"member {name}.endpoint", value=text[:200]
        )
    return found[1], int(found[2])


@dataclass(frozen=True)
class NextRebalance:
    """Decision of a Streams member after an assignment: when it rejoins, and with which protocol
    version.

    Attributes:
        version: version of its next subscription.
        rebalance_ms: time after which it requests a rebalance; 0: at once, 2**63 - 1: never.
            The clock must have passed this time; reaching it is not sufficient.
    """

    version: int
    rebalance_ms: int


def on_assignment(
    assignment: StreamsMemberAssignment,
    *,
    version: int,
    endpoint: tuple[str, int] | None = None,
    hosts: Collection[tuple[str, int]] = (),
) -> NextRebalance:
    """Decide when a Streams member that received an assignment rejoins, and with which protocol
    version.

    The member rebalances at once if the version has changed, or if its own endpoint is missing
    among the hosts (a static member with an old assignment). Otherwise the assignment contains the
    time.

    Args:
        assignment: assignment of the member, without an error code.
        version: version of the subscription that the member sent.
        endpoint: endpoint of the member, if it has one.
        hosts: endpoints that the assignment names.

    Raises:
        InvalidProblemError: the assignment has a later version than the subscription, or
            the common version is later than this member supports. Kafka throws a
            TaskAssignmentException.

    Source: ``StreamsPartitionAssignor.onAssignment`` 4.3.1.

    >>> on_assignment(StreamsMemberAssignment(next_rebalance_ms=500), version=11).rebalance_ms
    500
    >>> on_assignment(StreamsMemberAssignment(version=9, common_version=9), version=11)
    NextRebalance(version=9, rebalance_ms=0)
    """
    info = AssignmentInfo(assignment.version, assignment.common_version)
    try:
        after = next_version(info, used=version)
    except UnsupportedVersionError as error:
        raise InvalidProblemError(
            f"is not supported: {error}", path="assignment.version", value=assignment.version
        ) from None
    if after.rejoin or (endpoint is not None and hosts and endpoint not in hosts):
        return NextRebalance(after.version, 0)
    return NextRebalance(after.version, min(assignment.next_rebalance_ms, LONG_MAX))
