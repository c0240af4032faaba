"""Between the bytes of a group and its leader: user data of a member in, user data for it out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from partage.errors import InvalidProblemError
from partage.streams.final import ConsumerAssignment, Hosts
from partage.streams.ids import ProcessId, TaskId
from partage.streams.layout import TopicPartition
from partage.streams.members import FUTURE_PROCESS, LATEST_VERSION, StreamsMember
from partage.wire.streams.assignment_info import AssignmentInfo
from partage.wire.streams.subscription_info import SubscriptionInfo

__all__ = ["assignment_info", "member_of"]

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
    """A member as the leader sees it.

    Args:
        name: the consumer's id.
        info: the user data of its subscription. Of a version that the leader does not know
            nothing but the versions is read.
        owned: partitions that its subscription claims.
        rack: of its subscription.

    Raises:
        InvalidProblemError: an end point that is no ``host:port`` (to Kafka a ConfigException),
            or a version below 1.
        WireFormatError: a client tag is there twice.

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
    assignment: ConsumerAssignment, hosts: Hosts | None = None, standby_hosts: Hosts | None = None
) -> AssignmentInfo:
    """What the leader sends to a consumer beside its partitions.

    Args:
        assignment: of the consumer; an error code goes alone.
        hosts: source partitions of active tasks by end point, the same for every consumer.
        standby_hosts: those of standbys.

    Raises:
        UnsupportedVersionError: the version is not from 1 to 11.

    Source: ``StreamsPartitionAssignor.addClientAssignments`` and ``errorAssignment`` 4.3.1.

    >>> assignment_info(ConsumerAssignment((("t", 2),), (TaskId(0, 2),))).active
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
