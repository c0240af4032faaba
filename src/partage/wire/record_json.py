"""Decoded records as JSON, one line per record, as `partage decode` prints them.

The form is that of the recorded cluster's ``decoded.jsonl.xz``: Kafka's generated JSON, bytes as
base64, topic ids as Kafka prints them. User data of Kafka Streams has the field names of the
layouts in `messages`, and only the fields of its version. Tasks are written as Kafka writes them
(``0_1``, ``topology__0_1``), lists are in the order of the bytes.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from partage.errors import WireFormatError
from partage.java.strings import decode_utf8
from partage.java.uuids import uuid_text
from partage.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
    read_embedded,
)
from partage.wire.group_log import DecodedRecord
from partage.wire.schema import UNKNOWN_TAGS, Message
from partage.wire.streams.arrays import HostPartitions, TaskKey, TopicPartition
from partage.wire.streams.assignment_info import (
    ASSIGNMENT_INFO,
    AssignmentInfo,
    decode_assignment_info,
)
from partage.wire.streams.subscription_info import (
    SUBSCRIPTION_INFO_DATA,
    SubscriptionInfo,
    decode_subscription_info,
)

__all__ = ["STREAMS_PROTOCOL", "assignment_json", "plain_json", "subscription_json", "to_json"]

STREAMS_PROTOCOL = "stream"
"""Protocol name of Streams' members in classic groups."""

CONSUMER = "consumer"


def plain_json(value: Any) -> Any:
    r"""Convert decoded Kafka messages to JSON types: bytes to base64 text, tuples to lists.

    Unknown tagged fields are left out.

    >>> plain_json({"userData": b"\x01", "topics": ("a",)})
    {'userData': 'AQ==', 'topics': ['a']}
    """
    if isinstance(value, dict):
        return {name: plain_json(v) for name, v in value.items() if name != UNKNOWN_TAGS}
    if isinstance(value, tuple):
        return [plain_json(v) for v in value]
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode("ascii")
    return value


def to_json(record: DecodedRecord, **place: Any) -> dict[str, Any]:
    r"""Convert a decoded record of ``__consumer_offsets`` to the JSON that `partage decode` prints.

    Args:
        record: the decoded record.
        place: fields to put first: ``partition``, ``offset`` and ``timestamp_ms``, if known.

    A tombstone has ``value`` null and no ``value_version``.

    For a classic group with protocol type ``consumer``, ``members_decoded`` has each member's
    subscription and assignment; a member of a consumer group that uses the classic protocol has
    ``classic_protocols_decoded``. User data is base64; that of Streams is decoded too, as
    ``streamsSubscription`` and ``streamsAssignment`` of the member. Embedded bytes that cannot be
    decoded have ``error`` with the reason instead of ``data``.

    >>> from partage.wire.group_log import decode_record
    >>> record = decode_record(b"\x00\x03\x00\x01g", None)
    >>> to_json(record, partition=0, offset=7, timestamp_ms=9)["key"]
    {'groupId': 'g'}
    """
    line: dict[str, Any] = {
        **place,
        "type": record.type,
        "key_version": record.key_version,
        "key": plain_json(record.key),
    }
    if record.value is None:
        return line | {"value": None}
    line["value_version"] = record.value_version
    line["value"] = plain_json(record.value)
    if record.key_version == 2:
        line["members_decoded"] = _members(record.value)
    elif record.key_version == 5 and record.value.get("classicMemberMetadata"):
        line["classic_protocols_decoded"] = [
            {
                "name": protocol["name"],
                "subscription": _embedded(CONSUMER_PROTOCOL_SUBSCRIPTION, protocol["metadata"]),
            }
            for protocol in record.value["classicMemberMetadata"]["supportedProtocols"]
        ]
    return line


def _members(group: Mapping[str, Any]) -> list[dict[str, Any]]:
    # Only their ids if it is not a consumer group.
    if group["protocolType"] != CONSUMER:
        return [{"memberId": member["memberId"]} for member in group["members"]]
    members = [
        {
            "memberId": member["memberId"],
            "subscription": _embedded(CONSUMER_PROTOCOL_SUBSCRIPTION, member["subscription"]),
            "assignment": _embedded(CONSUMER_PROTOCOL_ASSIGNMENT, member["assignment"]),
        }
        for member in group["members"]
    ]
    if group["protocol"] == STREAMS_PROTOCOL:
        return [
            shown | _streams_user_data(member)
            for shown, member in zip(members, group["members"], strict=True)
        ]
    return members


def _streams_user_data(member: Mapping[str, Any]) -> dict[str, Any]:
    sent = _user_data(CONSUMER_PROTOCOL_SUBSCRIPTION, member["subscription"])
    assigned = _user_data(CONSUMER_PROTOCOL_ASSIGNMENT, member["assignment"])
    shown = {
        "streamsSubscription": subscription_json(sent),
        "streamsAssignment": assignment_json(assigned),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _user_data(message: Message, data: bytes) -> bytes | None:
    # None if absent or damaged.
    try:
        found: bytes | None = read_embedded(message, data).data["userData"] if data else None
    except WireFormatError:
        return None
    return found


def _embedded(message: Message, data: bytes) -> dict[str, Any]:
    if not data:
        return {"empty": True}
    try:
        version, fields, trailing = read_embedded(message, data)
    except WireFormatError as error:
        return {"error": str(error)}
    shown: dict[str, Any] = {"version": version, "data": plain_json(fields), "trailing": trailing}
    if message is CONSUMER_PROTOCOL_SUBSCRIPTION and fields["userData"]:
        shown["userDataLen"] = len(fields["userData"])
    return shown


# --- user data of Streams --------------------------------------------------------------------


def subscription_json(data: bytes | None) -> dict[str, Any] | None:
    r"""Decode the user data of a Kafka Streams member's subscription to a JSON object.

    The user data is Kafka's ``SubscriptionInfo``. Return None for null. Damaged bytes give an
    object with ``error``. For a version above 11, only the two version fields can be decoded.

    >>> subscription_json(b"\0\0\0\x0c\0\0\0\x0d")
    {'version': 12, 'latestSupportedVersion': 13}
    """
    return _info_json(data, decode_subscription_info, SUBSCRIPTION_INFO_DATA, _SUBSCRIPTION_FIELDS)


def assignment_json(data: bytes | None) -> dict[str, Any] | None:
    r"""Decode the user data of a Kafka Streams member's assignment to a JSON object.

    The user data is Kafka's ``AssignmentInfo``. Return None for null. Damaged bytes give an object
    with ``error``.

    >>> assignment_json(b"\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0")
    {'version': 1, 'activeTasks': ['0_2'], 'standbyTasks': []}
    """
    return _info_json(data, decode_assignment_info, ASSIGNMENT_INFO, _ASSIGNMENT_FIELDS)


def _info_json(
    data: bytes | None,
    decode: Callable[[bytes], Any],
    message: Message,
    value_of: Mapping[str, Callable[[Any], Any]],
) -> dict[str, Any] | None:
    # Only the fields that the version has, in the order of ``value_of``.
    if data is None:
        return None
    try:
        info = decode(data)
    except WireFormatError as error:
        return {"error": str(error)}
    if isinstance(info, SubscriptionInfo) and info.is_future():
        return {"version": info.version, "latestSupportedVersion": info.latest_version}
    versions = {field.name: field.versions for field in message.fields}
    shown = {name: get(info) for name, get in value_of.items() if info.version in versions[name]}
    if info.trailing:
        shown["trailing"] = info.trailing
    return shown


def _printable(name: str) -> str:
    # JSON parsers reject lone surrogates.
    if name.isascii():
        return name
    return name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _task(task: TaskKey) -> str:
    name = f"{task[0]}_{task[1]}"
    return name if task[2] is None else f"{_printable(task[2])}__{name}"


def _partitions(partitions: Iterable[TopicPartition]) -> list[list[Any]]:
    return [[_printable(topic), number] for topic, number in partitions]


def _hosts(hosts: HostPartitions) -> list[dict[str, Any]]:
    return [
        {"host": _printable(host), "port": port, "partitions": _partitions(partitions)}
        for (host, port), partitions in zip(hosts.names, hosts.partitions, strict=True)
    ]


def _standby(info: AssignmentInfo) -> list[dict[str, Any]]:
    return [
        {"task": _task(task), "partitions": _partitions(partitions)}
        for task, partitions in zip(info.standby, info.standby_partitions, strict=True)
    ]


def _tags(info: SubscriptionInfo) -> list[dict[str, str]]:
    pairs = info.client_tags
    return [{"key": decode_utf8(key), "value": decode_utf8(value)} for key, value in pairs]


_SUBSCRIPTION_FIELDS: dict[str, Callable[[SubscriptionInfo], Any]] = {
    "version": lambda info: info.version,
    "latestSupportedVersion": lambda info: info.latest_version,
    "processId": lambda info: uuid_text(info.process),
    "prevTasks": lambda info: [_task(task) for task in info.previous],
    "standbyTasks": lambda info: [_task(task) for task in info.standby],
    "userEndPoint": lambda info: info.endpoint,
    "taskOffsetSums": lambda info: [
        {"task": _task(task), "offsetSum": value} for task, value in info.offset_sums
    ],
    "uniqueField": lambda info: info.unique,
    "errorCode": lambda info: info.error_code,
    "clientTags": _tags,
}
_ASSIGNMENT_FIELDS: dict[str, Callable[[AssignmentInfo], Any]] = {
    "version": lambda info: info.version,
    "commonlySupportedVersion": lambda info: info.common_version,
    "activeTasks": lambda info: [_task(task) for task in info.active],
    "standbyTasks": _standby,
    "partitionsByHost": lambda info: _hosts(info.hosts),
    "standbyPartitionsByHost": lambda info: _hosts(info.standby_hosts),
    "errCode": lambda info: info.error_code,
    "nextRebalanceMs": lambda info: info.next_rebalance_ms,
}
