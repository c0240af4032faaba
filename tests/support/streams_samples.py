"""Streams' infos in the terms of the vectors, and of what our Java program answers."""

from __future__ import annotations

from partage.wire.errors import LengthError, TruncatedError, UnsupportedVersionError
from partage.wire.streams.assignment_info import NEVER_MS, AssignmentInfo
from partage.wire.streams.subscription_info import SubscriptionInfo


def _int64(half):
    return int.from_bytes(half, "big", signed=True)


def process_of(line):
    """The 16 bytes of the two halves."""
    return b"".join(line[half].to_bytes(8, "big", signed=True) for half in ("msb", "lsb"))


def subscription_of(line):
    """The message that Kafka's constructor makes of a vector's arguments."""
    return SubscriptionInfo.of(
        process=process_of(line),
        version=line["version"],
        latest_version=line["latest"],
        endpoint=line["endpoint"],
        offset_sums={tuple(task): value for task, value in line["offsets"]},
        unique=line["unique"],
        error_code=line["errorCode"],
        tags=dict(line["tags"]),
    )


def _named(task):
    """A task as the vectors print it: a name only where there is one."""
    return list(task[:2]) if task[2] is None else list(task)


def _sorted(pairs):
    return sorted(pairs, key=lambda pair: repr_key(pair[0]))


def repr_key(task):
    """Order of tasks in the vectors: by name where there is one, then the two numbers."""
    return (_utf16(task[2]) if len(task) > 2 else b"", *task[:2])


def _utf16(text):
    return text.encode("utf-16-be", "surrogatepass")


def subscription_view(info):
    """What the vectors print of a message that was read."""
    return {
        "version": info.version,
        "latest": info.latest_version,
        "msb": _int64(info.process[:8]),
        "lsb": _int64(info.process[8:]),
        "endpoint": info.endpoint,
        "offsets": _sorted([_named(t), v] for t, v in info.task_offset_sums.to_dict().items()),
        "prev": sorted((_named(t) for t in info.previous_tasks()), key=repr_key),
        "standby": sorted((_named(t) for t in info.standby_tasks()), key=repr_key),
        "errorCode": info.error_code,
        "tags": sorted([k, v] for k, v in info.tags.items()),
    }


def assignment_of(line):
    """The message that Kafka's constructor makes of a vector's arguments."""
    return AssignmentInfo.of(
        version=line["version"],
        common_version=line["common"],
        active=[tuple(task) for task in line["active"]],
        standby={tuple(task): _pairs(own) for task, own in line["standby"]},
        hosts={(host, port): _pairs(own) for host, port, own in line["hosts"]},
        standby_hosts={(host, port): _pairs(own) for host, port, own in line["standbyHosts"]},
        error_code=line["errorCode"],
        next_rebalance_ms=line.get("next", NEVER_MS),
    )


def _pairs(partitions):
    """Distinct, as a linked set of them."""
    return list(dict.fromkeys(tuple(one) for one in partitions))


def _partitions(own):
    return [list(one) for one in sorted(set(own), key=lambda one: (_utf16(one[0]), one[1]))]


def _hosts(hosts):
    pairs = hosts.to_dict().items()
    made = [[host, port, _partitions(own)] for (host, port), own in pairs]
    return sorted(made, key=lambda one: (_utf16(one[0]), one[1]))


def assignment_view(info):
    """What the vectors print of a message that was read."""
    standby = info.standby_tasks().items()
    return {
        "version": info.version,
        "common": info.common_version,
        "active": [_named(task) for task in info.active],
        "standby": _sorted([_named(task), _partitions(own)] for task, own in standby),
        "hosts": _hosts(info.hosts),
        "standbyHosts": _hosts(info.standby_hosts),
        "errorCode": info.error_code,
        "next": info.next_rebalance_ms,
    }


def java_name(error, *, writing=False):
    """The Java exception of an error in a subscription, or while either message is written."""
    if isinstance(error, UnsupportedVersionError) and str(error).startswith("SubscriptionInfoD"):
        # A subscription's constructor takes versions to come, its writer does not.
        late = "can be written" in str(error)
        return "IllegalStateException" if late else "IllegalArgumentException"
    if isinstance(error, UnsupportedVersionError):
        return "IllegalArgumentException"
    if isinstance(error, TruncatedError):
        return "BufferUnderflowException"
    if isinstance(error, LengthError):
        return "RuntimeException"
    assert writing
    return "TaskAssignmentException"
