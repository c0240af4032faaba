"""Records of ``__consumer_offsets``: decode keys and values to plain values, and encode them.

Exact to ``GroupCoordinatorRecordSerde`` of Kafka 4.3.1, for every record type that it reads. A key
is an int16 record type and a body, a value an int16 version and a body; null is a tombstone.
Trailing bytes are ignored, as in Kafka. A value version that Kafka does not know is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from partage.errors import WireFormatError
from partage.wire.codec import encode, message_codec, set_location
from partage.wire.errors import (
    EncodingError,
    TruncatedError,
    UnknownRecordTypeError,
    UnknownRecordVersionError,
)
from partage.wire.messages import load_message
from partage.wire.primitives import ByteReader

__all__ = [
    "KEYS",
    "RECORD_TYPES",
    "VALUES",
    "DecodedRecord",
    "decode_key",
    "decode_record",
    "decode_value",
    "encode_record",
    "record_type",
]

RECORD_TYPES: dict[int, str] = {
    0: "LEGACY_OFFSET_COMMIT",
    1: "OFFSET_COMMIT",
    2: "GROUP_METADATA",
    3: "CONSUMER_GROUP_METADATA",
    4: "CONSUMER_GROUP_PARTITION_METADATA",
    5: "CONSUMER_GROUP_MEMBER_METADATA",
    6: "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA",
    7: "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER",
    8: "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    10: "SHARE_GROUP_MEMBER_METADATA",
    11: "SHARE_GROUP_METADATA",
    12: "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA",
    13: "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER",
    14: "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    15: "SHARE_GROUP_STATE_PARTITION_METADATA",
    16: "CONSUMER_GROUP_REGULAR_EXPRESSION",
    17: "STREAMS_GROUP_METADATA",
    19: "STREAMS_GROUP_MEMBER_METADATA",
    20: "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA",
    21: "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER",
    22: "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    23: "STREAMS_GROUP_TOPOLOGY",
}
"""Names of the record types (Kafka's ``CoordinatorRecordType``) by key version."""


def _class_name(record_type: str) -> str:
    return record_type.title().replace("_", "")


KEYS = {number: load_message(f"{_class_name(n)}Key") for number, n in RECORD_TYPES.items()}
"""Layouts of keys by record type."""

VALUES = {number: load_message(f"{_class_name(n)}Value") for number, n in RECORD_TYPES.items()}
"""Layouts of values by record type."""

# Looked up once a record: by type, and by type and version.
_KEY_READERS: dict[int, Callable[[ByteReader], dict[str, Any]]] = {
    number: message_codec(message, 0).read for number, message in KEYS.items()
}
_VALUE_READERS: dict[tuple[int, int], Callable[[ByteReader], dict[str, Any]]] = {
    (number, version): message_codec(message, version).read
    for number, message in VALUES.items()
    for version in range(message.versions.lowest, message.versions.highest + 1)
}


class DecodedRecord(NamedTuple):
    """A decoded record of the topic ``__consumer_offsets``, such as an offset commit.

    Field names are those of Kafka's message definitions.

    Attributes:
        type: the name of the record type.
        key_version: the number of the record type, which is the key's version.
        key: dict of the key's fields.
        value_version: the version of the value; None for a tombstone.
        value: dict of the value's fields; None for a tombstone.
    """

    type: str
    key_version: int
    key: dict[str, Any]
    value_version: int | None
    value: dict[str, Any] | None


def record_type(key: bytes | None) -> int:
    r"""Return the number of a ``__consumer_offsets`` record's type, with which its key begins.

    For example, 1 is an offset commit and 2 the state of a classic group.

    Raises:
        TruncatedError: the key is null, or has fewer than two bytes.

    >>> record_type(b"\x00\x03\x00\x01g")
    3
    """
    if key is None or len(key) < 2:
        raise _missing_type(key)
    return int.from_bytes(key[:2], "big", signed=True)


def _missing_type(key: bytes | None) -> TruncatedError:
    what = "the key is null" if key is None else f"2 bytes needed, {len(key)} left"
    return TruncatedError(what, offset=0, field="key.type")


def decode_key(key: bytes | None) -> tuple[int, dict[str, Any]]:
    r"""Decode the key of a ``__consumer_offsets`` record to its type number and a dict of fields.

    Raises:
        UnknownRecordTypeError: Kafka 4.3.1 knows no such type.
        WireFormatError: the bytes are not a key.

    >>> decode_key(b"\x00\x03\x00\x01g")
    (3, {'groupId': 'g'})
    """
    if key is None or len(key) < 2:
        raise _missing_type(key)  # not by `record_type`: one frame less in the traceback
    number = int.from_bytes(key[:2], "big", signed=True)
    read = _KEY_READERS.get(number)
    if read is None:
        raise UnknownRecordTypeError(number)
    try:
        return number, read(ByteReader(key, 2))
    except WireFormatError as error:
        set_location(error, "key", number)
        raise error.with_traceback(None) from None


def decode_value(number: int, value: bytes) -> tuple[int, dict[str, Any]]:
    r"""Decode the value of a ``__consumer_offsets`` record to its version and a dict of fields.

    Args:
        number: number of the record type, with which the record's key begins.
        value: bytes of the record's value.

    Raises:
        UnknownRecordVersionError: Kafka 4.3.1 knows no such version of this record type.
        WireFormatError: the bytes are not a value of that type.

    >>> decode_value(3, b"\x00\x00\x00\x00\x00\x0a\x00")
    (0, {'epoch': 10})
    """
    if len(value) < 2:
        what = f"2 bytes needed, {len(value)} left"
        raise TruncatedError(what, offset=0, field="value.version")
    version = int.from_bytes(value[:2], "big", signed=True)
    read = _VALUE_READERS.get((number, version))
    if read is None:
        raise UnknownRecordVersionError(number, version)
    try:
        return version, read(ByteReader(value, 2))
    except WireFormatError as error:
        set_location(error, "value", version)
        raise error.with_traceback(None) from None


def decode_record(key: bytes | None, value: bytes | None) -> DecodedRecord:
    r"""Decode a record of ``__consumer_offsets`` from the bytes of its key and value.

    The value is None for a tombstone.

    Raises:
        UnknownRecordTypeError: Kafka's loader skips such a record.
        UnknownRecordVersionError: Kafka's loader fails on it.
        WireFormatError: the bytes are damaged.

    >>> decode_record(b"\x00\x03\x00\x01g", None)[:4]
    ('CONSUMER_GROUP_METADATA', 3, {'groupId': 'g'}, None)
    """
    number, names = decode_key(key)
    if value is None:
        return DecodedRecord(RECORD_TYPES[number], number, names, None, None)
    version, values = decode_value(number, value)
    return DecodedRecord(RECORD_TYPES[number], number, names, version, values)


def encode_record(
    number: int,
    key: Mapping[str, Any],
    *,
    version: int | None = None,
    value: Mapping[str, Any] | None = None,
) -> tuple[bytes, bytes | None]:
    r"""Encode a record of ``__consumer_offsets`` to the bytes of its key and value.

    Args:
        number: number of the record type.
        key: the key's fields by name.
        version: version of the value.
        value: the value's fields by name; None for a tombstone.

    Raises:
        UnknownRecordTypeError: Kafka 4.3.1 knows no such type.
        EncodingError: a value has no version, or does not fit the layout.
        UnsupportedVersionError: the value has no such version.

    >>> encode_record(3, {"groupId": "g"}, version=0, value={"epoch": 10})
    (b'\x00\x03\x00\x01g', b'\x00\x00\x00\x00\x00\n\x00')
    """
    if number not in KEYS:
        raise UnknownRecordTypeError(number)
    names = number.to_bytes(2, "big") + encode(KEYS[number], key, version=0, path="key")
    if value is None:
        return names, None
    if version is None:
        raise EncodingError("a value needs a version", offset=0, field="value.version")
    body = encode(VALUES[number], value, version=version, path="value")
    return names, version.to_bytes(2, "big") + body
