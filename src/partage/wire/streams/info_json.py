"""Streams' user data as JSON can hold it, for `partage decode`.

Fields have Kafka's names and stand only where the version has them; tasks are written as Kafka
writes them (``0_1``, ``topology__0_1``), lists are in the order of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from partage.errors import WireFormatError
from partage.java.strings import decode_utf8
from partage.java.uuids import uuid_text
from partage.wire.streams.assignment_bytes import decode_assignment_info
from partage.wire.streams.assignment_info import AssignmentInfo
from partage.wire.streams.partitions import Hosts, TopicPartition
from partage.wire.streams.subscription_bytes import decode_subscription_info
from partage.wire.streams.subscription_info import SubscriptionInfo
from partage.wire.streams.tasks import TaskKey

__all__ = ["STREAMS_PROTOCOL", "assignment_json", "subscription_json"]

STREAMS_PROTOCOL = "stream"
"""Name under which Streams joins a group of the classic protocol."""


def subscription_json(data: bytes | None) -> dict[str, Any] | None:
    r"""Fields of a ``SubscriptionInfo``; ``error`` where the bytes are none, None for null.

    Of a version above 11 there are the two versions only.

    >>> subscription_json(b"\0\0\0\x0c\0\0\0\x0d")
    {'version': 12, 'latestSupportedVersion': 13}
    """
    return _shown(data, decode_subscription_info, _subscription)


def assignment_json(data: bytes | None) -> dict[str, Any] | None:
    r"""Fields of an ``AssignmentInfo``; ``error`` where the bytes are none, None for null.

    >>> assignment_json(b"\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0")
    {'version': 1, 'activeTasks': ['0_2'], 'standbyTasks': []}
    """
    return _shown(data, decode_assignment_info, _assignment)


def _shown(
    data: bytes | None, read: Callable[[bytes], Any], show: Callable[[Any], dict[str, Any]]
) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        made = read(data)
    except WireFormatError as error:
        return {"error": str(error)}
    shown = show(made)
    if made.trailing:
        shown["trailing"] = made.trailing
    return shown


def _text(name: str) -> str:
    """Lone surrogates, which JSON's readers refuse, become U+FFFD."""
    if name.isascii():
        return name
    return name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _task(task: TaskKey) -> str:
    name = f"{task[0]}_{task[1]}"
    return name if task[2] is None else f"{_text(task[2])}__{name}"


def _subscription(info: SubscriptionInfo) -> dict[str, Any]:
    version = info.version
    shown: dict[str, Any] = {"version": version}
    if version >= 3:
        shown["latestSupportedVersion"] = info.latest_version
    if info.is_future():
        return shown
    shown["processId"] = uuid_text(info.process)
    if version <= 6:
        shown["prevTasks"] = [_task(task) for task in info.previous]
        shown["standbyTasks"] = [_task(task) for task in info.standby]
    if version >= 2:
        shown["userEndPoint"] = info.endpoint
    if version >= 7:
        shown["taskOffsetSums"] = [
            {"task": _task(task), "offsetSum": value} for task, value in info.offset_sums
        ]
    if version >= 8:
        shown["uniqueField"] = info.unique
    if version >= 9:
        shown["errorCode"] = info.error_code
    if version >= 11:
        shown["clientTags"] = [
            {"key": decode_utf8(key), "value": decode_utf8(value)}
            for key, value in info.client_tags
        ]
    return shown


def _assignment(info: AssignmentInfo) -> dict[str, Any]:
    version = info.version
    shown: dict[str, Any] = {"version": version}
    if version >= 3:
        shown["commonlySupportedVersion"] = info.common_version
    shown["activeTasks"] = [_task(task) for task in info.active]
    shown["standbyTasks"] = [
        {"task": _task(task), "partitions": _partitions(own)}
        for task, own in zip(info.standby, info.standby_partitions, strict=True)
    ]
    if version >= 2:
        shown["partitionsByHost"] = _hosts(info.hosts)
    if version >= 6:
        shown["standbyPartitionsByHost"] = _hosts(info.standby_hosts)
    if version >= 4:
        shown["errCode"] = info.error_code
    if version >= 7:
        shown["nextRebalanceMs"] = info.next_rebalance_ms
    return shown


def _hosts(hosts: Hosts) -> list[dict[str, Any]]:
    return [
        {"host": _text(host), "port": port, "partitions": _partitions(own)}
        for (host, port), own in zip(hosts.names, hosts.partitions, strict=True)
    ]


def _partitions(own: Iterable[TopicPartition]) -> list[list[Any]]:
    return [[_text(topic), number] for topic, number in own]
