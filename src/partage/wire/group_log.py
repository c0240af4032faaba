"""One record of ``__consumer_offsets``: key and value bytes to plain values, and back.

Exact to ``GroupCoordinatorRecordSerde`` of Kafka 4.3.1, for every record type that it can read. A
key is an int16 record type and a body, a value an int16 version and a body; null is a tombstone.
Trailing bytes are ignored, as in Kafka; value versions that Kafka does not know are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from partage.errors import WireFormatError
from partage.wire.codec import encode, place, struct_reader
from partage.wire.faults import (
    EncodingError,
    TruncatedError,
    UnknownRecordTypeError,
    UnknownRecordVersionError,
)
from partage.wire.messages import KEYS, VALUES
from partage.wire.primitives import Reader
from partage.wire.reading import ReadStruct

__all__ = [
    "RECORD_TYPES",
    "DecodedRecord",
    "decode_key",
    "decode_record",
    "decode_value",
    "encode_record",
    "is_canonical",
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


class DecodedRecord(NamedTuple):
    """A record as plain values; see `codec` for their forms.

    ``key_version`` is the record type's number, ``value_version`` and ``value`` are None for a
    tombstone.
    """

    type: str
    key_version: int
    key: dict[str, Any]
    value_version: int | None
    value: dict[str, Any] | None


# Looked up once a record: by type, and by type and version.
_KEY_READERS: dict[int, ReadStruct] = {t: struct_reader(m, 0) for t, m in KEYS.items()}
_VALUE_READERS: dict[tuple[int, int], ReadStruct] = {
    (t, v): struct_reader(m, v)
    for t, m in VALUES.items()
    for v in range(m.valid_versions.lowest, m.valid_versions.highest + 1)
}


def record_type(key: bytes | None) -> int:
    r"""The record type that a key says, known or not, without reading the rest.

    Raises:
        TruncatedError: no key, or fewer than two bytes.

    >>> record_type(b"\x00\x03\x00\x01g")
    3
    """
    if key is None or len(key) < 2:
        raise _no_type(key)
    return int.from_bytes(key[:2], "big", signed=True)


def _no_type(key: bytes | None) -> TruncatedError:
    what = "the key is null" if key is None else f"2 bytes needed, {len(key)} left"
    return TruncatedError(what, offset=0, field="key.type")


def decode_key(key: bytes | None) -> tuple[int, dict[str, Any]]:
    r"""Record type and key values.

    Raises:
        UnknownRecordTypeError: Kafka 4.3.1 knows no such type.
        WireFormatError: the bytes are no key.

    >>> decode_key(b"\x00\x03\x00\x01g")
    (3, {'groupId': 'g'})
    """
    if key is None or len(key) < 2:
        raise _no_type(key)  # not by `record_type`: a frame less in the traceback
    number = int.from_bytes(key[:2], "big", signed=True)
    read = _KEY_READERS.get(number)
    if read is None:
        raise UnknownRecordTypeError(number)
    try:
        return number, read(Reader(key, 2))
    except WireFormatError as error:
        place(error, "key", number)
        raise error.with_traceback(None) from None


def decode_value(number: int, value: bytes) -> tuple[int, dict[str, Any]]:
    r"""Version and values of a value whose key is of record type ``number``.

    Raises:
        UnknownRecordVersionError: Kafka 4.3.1 knows no such version of it.
        WireFormatError: the bytes are no value of that type.

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
        return version, read(Reader(value, 2))
    except WireFormatError as error:
        place(error, "value", version)
        raise error.with_traceback(None) from None


def decode_record(key: bytes | None, value: bytes | None) -> DecodedRecord:
    r"""Decode one record; a null ``value`` is a tombstone.

    Raises:
        UnknownRecordTypeError: Kafka's loader skips such a record.
        UnknownRecordVersionError: Kafka's loader fails on it.
        WireFormatError: the bytes are not what they claim to be.

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
    r"""Key and value bytes of a record of type ``number``; no ``value`` makes a tombstone.

    Raises:
        UnknownRecordTypeError: no such record type.
        EncodingError: a value without version, or one that does not fit the layout.
        UnsupportedVersionError: no such version.

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


def is_canonical(key: bytes, value: bytes | None) -> bool:
    r"""Whether decoding and encoding again gives these bytes.

    Kafka's own records do. Not canonical are bytes that say more than their values: trailing
    bytes, malformed UTF-8, padded varints, tagged fields written with their default, with a false
    size, twice or out of order, a nullable struct marked other than -1 or 1.

    Raises:
        WireFormatError: the record cannot be decoded.

    >>> is_canonical(b"\x00\x03\x00\x01g", None), is_canonical(b"\x00\x03\x00\x01g!", None)
    (True, False)
    """
    record = decode_record(key, value)
    try:
        again = encode_record(
            record.key_version, record.key, version=record.value_version, value=record.value
        )
    except EncodingError:
        return False
    return again == (key, value)
