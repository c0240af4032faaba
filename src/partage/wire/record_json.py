"""A decoded record in the shape of `partage decode`, which is that of the recorded cluster's
``decoded.jsonl.xz``: Kafka's generated JSON, bytes as base64, topic ids as Kafka prints them.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from typing import Any

from partage.errors import WireFormatError
from partage.wire.consumer_protocol import read_embedded
from partage.wire.group_log import DecodedRecord
from partage.wire.messages import CONSUMER_PROTOCOL_ASSIGNMENT, CONSUMER_PROTOCOL_SUBSCRIPTION
from partage.wire.schema import UNKNOWN_TAGS, Message
from partage.wire.streams.info_json import (
    STREAMS_PROTOCOL,
    assignment_json,
    subscription_json,
)

__all__ = ["plain_json", "to_json"]

CONSUMER = "consumer"


def plain_json(value: Any) -> Any:
    r"""Decoded values as JSON can hold them: base64 for bytes, lists; unknown tags left out.

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


def to_json(
    record: DecodedRecord, *, partition: int, offset: int, timestamp_ms: int
) -> dict[str, Any]:
    r"""One line of `partage decode`; a tombstone has ``value`` null and no ``value_version``.

    For a classic group with protocol type ``consumer``, ``members_decoded`` has each member's
    subscription and assignment; for a member of a consumer group that speaks the classic protocol
    there is ``classic_protocols_decoded``. User data stays base64; that of Streams is decoded too,
    as ``streamsSubscription`` and ``streamsAssignment`` beside the member's others. Embedded bytes
    that cannot be decoded give ``error`` with the reason instead of ``data``.

    >>> from partage.wire.group_log import decode_record
    >>> record = decode_record(b"\x00\x03\x00\x01g", None)
    >>> to_json(record, partition=0, offset=7, timestamp_ms=9)["key"]
    {'groupId': 'g'}
    """
    line: dict[str, Any] = {
        "partition": partition,
        "offset": offset,
        "timestamp_ms": timestamp_ms,
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
    """Members of a classic group; of another protocol type than consumer only their ids."""
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
            shown | _streams(member)
            for shown, member in zip(members, group["members"], strict=True)
        ]
    return members


def _streams(member: Mapping[str, Any]) -> dict[str, Any]:
    """What a member of a Streams application said, and was told; what is not there is left out."""
    said = _user_data(CONSUMER_PROTOCOL_SUBSCRIPTION, member["subscription"])
    told = _user_data(CONSUMER_PROTOCOL_ASSIGNMENT, member["assignment"])
    shown = {
        "streamsSubscription": subscription_json(said),
        "streamsAssignment": assignment_json(told),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _user_data(message: Message, data: bytes) -> bytes | None:
    """User data of a message that can be read; whether it can is said in its own place."""
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
