"""The bytes of ``SubscriptionInfo``, both ways: the schema's engine but for the lists of tasks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from partage.errors import WireFormatError
from partage.java.uuids import uuid_bytes, uuid_text
from partage.wire.codec import struct_reader, struct_writer
from partage.wire.faults import EncodingError, UnsupportedVersionError
from partage.wire.messages import SUBSCRIPTION_INFO_DATA
from partage.wire.primitives import Reader, Writer
from partage.wire.reading import joined
from partage.wire.schema import Message, versions
from partage.wire.streams.subscription_info import (
    LATEST_VERSION,
    UNKNOWN_VERSION,
    SubscriptionInfo,
    check_versions,
    subscription_path,
)
from partage.wire.streams.task_bytes import (
    FIRST_NAMED_VERSION,
    append_offset_sums,
    append_tasks,
    neighbours,
    read_grouped_sums,
    read_named_sums,
    read_tasks,
)

__all__ = ["decode_subscription_info", "encode_subscription_info"]

Part = Message | str

_COLUMNS = ("prevTasks", "standbyTasks", "taskOffsetSums")
_ATTRIBUTES = {
    "version": "version",
    "latestSupportedVersion": "latest_version",
    "processId": "process",
    "prevTasks": "previous",
    "standbyTasks": "standby",
    "userEndPoint": "user_endpoint",
    "taskOffsetSums": "offset_sums",
    "uniqueField": "unique",
    "errorCode": "error_code",
    "clientTags": "client_tags",
}


@lru_cache(maxsize=LATEST_VERSION)
def _parts(version: int) -> tuple[Part, ...]:
    """The layout cut at its columns of tasks: what the engine reads, and their names."""
    whole = SUBSCRIPTION_INFO_DATA
    parts: list[Part] = []
    for one in whole.fields:
        if version not in versions(one.versions):
            continue
        if one.name in _COLUMNS:
            parts.append(one.name)
            continue
        fields = (one,)
        if parts and isinstance(parts[-1], Message):
            fields = (*parts.pop().fields, one)  # type: ignore[union-attr]  # a Message: asked above
        parts.append(
            Message(
                whole.name, whole.kind, whole.valid, whole.flexible, fields, None, whole.structs
            )
        )
    return tuple(parts)


def _read_column(reader: Reader, name: str, version: int) -> dict[str, Any]:
    if name != "taskOffsetSums":
        return {name: read_tasks(reader)}
    if version >= FIRST_NAMED_VERSION:
        return {name: read_named_sums(reader)}
    sums, groups = read_grouped_sums(reader)
    usual = neighbours(sums.tasks)
    same = all(map(np.array_equal, groups, usual))
    return {name: sums, "groups": None if same else groups}


def decode_subscription_info(data: bytes, *, latest: int = LATEST_VERSION) -> SubscriptionInfo:
    r"""Read the user data of a member's subscription.

    Args:
        data: the bytes; what follows the message is counted in ``trailing``.
        latest: the latest version that the reader supports; of a later one only the two versions
            are read.

    Raises:
        WireFormatError: the bytes are no such message.

    >>> decode_subscription_info(b"\0\0\0\x0c\0\0\0\x0e whatever").latest_version
    14
    """
    reader = Reader(data)
    name = "version"
    version = -1
    try:
        version = reader.int32()
        if version > latest:
            name = "latestSupportedVersion"
            return _future(version, reader.int32())
        name = ""
        reader.position = 0
        return _read(reader, version)
    except WireFormatError as error:
        error.field = (
            error.field if "." in error.field else subscription_path(joined(name, error.field))
        )
        error.version = version
        raise error.with_traceback(None) from None  # see `reading`


def _future(version: int, latest: int) -> SubscriptionInfo:
    check_versions(version, latest)
    return SubscriptionInfo(version, latest)


def _read(reader: Reader, version: int) -> SubscriptionInfo:
    if not 1 <= version <= LATEST_VERSION:
        check_versions(version, UNKNOWN_VERSION)
    values: dict[str, Any] = {}
    for part in _parts(version):
        if isinstance(part, Message):
            values |= struct_reader(part, version)(reader)
            continue
        try:
            values |= _read_column(reader, part, version)
        except WireFormatError as error:
            error.field = joined(part, error.field)
            raise error.with_traceback(None) from None
    check_versions(version, values.get("latestSupportedVersion", UNKNOWN_VERSION))
    values["processId"] = uuid_bytes(values["processId"])
    tags = values.get("clientTags", ())
    values["clientTags"] = tuple((tag["key"], tag["value"]) for tag in tags)
    known = {_ATTRIBUTES.get(name, name): value for name, value in values.items()}
    return SubscriptionInfo(**known, trailing=reader.left)


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    r"""The bytes of the message, every list in its own order; ``trailing`` is not written.

    Raises:
        UnsupportedVersionError: a version above 11, or versions that contradict each other.
        EncodingError: a value does not fit.

    >>> info = SubscriptionInfo.of(process=bytes(16), version=2, offset_sums={(0, 2): -2})
    >>> encode_subscription_info(info)[20:].hex()
    '0000000100000000000000020000000000000000'
    """
    check_versions(info.version, info.latest_version)
    if info.version > LATEST_VERSION:
        what = f"the latest version that can be written is {LATEST_VERSION}"
        path = subscription_path("version")
        raise UnsupportedVersionError(what, offset=0, field=path, version=info.version)
    writer = Writer()
    values = _values(info)
    for part in _parts(info.version):
        try:
            if isinstance(part, Message):
                # A part has no other fields, and the engine refuses those that it does not know.
                mine = {one.key: values[one.key] for one in part.fields}
                struct_writer(part, info.version)(writer, mine)
            elif part == "taskOffsetSums":
                append_offset_sums(
                    writer, info.offset_sums, version=info.version, groups=info.groups
                )
            else:
                append_tasks(writer, values[part], version=info.version)
        except WireFormatError as error:
            name = "" if isinstance(part, Message) else part
            error.field, error.version = subscription_path(joined(name, error.field)), info.version
            raise
    return bytes(writer.buffer)


def _values(info: SubscriptionInfo) -> dict[str, Any]:
    values = {name: getattr(info, attribute) for name, attribute in _ATTRIBUTES.items()}
    if len(info.process) != 16:
        what = f"not 16 bytes: {info.process!r:.80}"
        raise EncodingError(
            what, offset=0, field=subscription_path("processId"), version=info.version
        )
    values["processId"] = uuid_text(info.process)
    values["clientTags"] = [{"key": key, "value": value} for key, value in info.client_tags]
    return values
