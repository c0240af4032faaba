"""Kafka's key serializers: the same key as different bytes goes to different partitions.

A partitioner sees bytes. "42" as a string, an int, a long, or in Avro with a registry's header
are different bytes, so that two topics with one key in two forms cannot be joined. These are the
bytes of Kafka's own serializers (``org.apache.kafka.common.serialization``, 4.3.1), of Confluent's
wire format, and of JSON as it is commonly spaced. `serialize_by_all` shows one key in all of them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from partage.errors import InvalidKeysError

__all__ = [
    "JSON_SPACINGS",
    "avro_long",
    "avro_string",
    "double",
    "float_",
    "int_",
    "java_hash_of_long",
    "json_key",
    "long_",
    "registry_framed",
    "serialize_by_all",
    "short",
    "string",
    "uuid_text",
]


def string(key: str) -> bytes:
    """Serialize text like Kafka's ``StringSerializer``, as UTF-8 bytes.

    A lone surrogate, which UTF-8 does not have, becomes ``?``.

    >>> string("42")
    b'42'
    """
    return key.encode("utf-8", "replace")


def _packed(layout: str, key: float, name: str) -> bytes:
    try:
        return struct.pack(layout, key)
    except (struct.error, OverflowError) as e:
        raise InvalidKeysError(f"does not fit {name}", where="a key", value=key) from e


def short(key: int) -> bytes:
    """Serialize an integer key like Kafka's ``ShortSerializer``: 2 bytes, big-endian.

    A Kafka client computes the record's partition from these bytes.

    Raises:
        InvalidKeysError: the number does not fit.
    """
    return _packed(">h", key, "a short")


def int_(key: int) -> bytes:
    """Serialize an integer key like Kafka's ``IntegerSerializer``: 4 bytes, big-endian.

    A Kafka client computes the record's partition from these bytes.

    Raises:
        InvalidKeysError: the number does not fit.

    >>> int_(42).hex(), int_(-1).hex()
    ('0000002a', 'ffffffff')
    """
    return _packed(">i", key, "an int of 32 bits")


def long_(key: int) -> bytes:
    """Serialize an integer key like Kafka's ``LongSerializer``: 8 bytes, big-endian.

    A Kafka client computes the record's partition from these bytes.

    Raises:
        InvalidKeysError: the number does not fit.

    >>> long_(42).hex()
    '000000000000002a'
    """
    return _packed(">q", key, "a long of 64 bits")


def float_(key: float) -> bytes:
    """Serialize a number like Kafka's ``FloatSerializer``: 4 bytes of IEEE 754, big-endian.

    The bytes are the record's key, from which a client computes its partition.
    """
    return _packed(">f", key, "a float")


def double(key: float) -> bytes:
    """Serialize a number like Kafka's ``DoubleSerializer``: 8 bytes of IEEE 754, big-endian.

    The bytes are the record's key, from which a client computes its partition.
    """
    return _packed(">d", key, "a double")


def uuid_text(key: object) -> bytes:
    """Serialize a UUID like Kafka's ``UUIDSerializer``: as 36 characters of text in lower case.

    The key is a UUID object, or its text with or without hyphens.

    Raises:
        InvalidKeysError: the key is not a UUID.

    >>> uuid_text("0B7E3A52-9F3C-4E9C-8F4A-5B1D2C3E4F50")[:13]
    b'0b7e3a52-9f3c'
    """
    digits = str(key).replace("-", "").removeprefix("urn:uuid:").lower()
    if len(digits) != 32 or set(digits) - set("0123456789abcdef"):
        raise InvalidKeysError("is no UUID", where="a key", value=key)
    cuts = (0, 8, 12, 16, 20, 32)
    return "-".join(digits[a:b] for a, b in pairwise(cuts)).encode()


def avro_long(key: int) -> bytes:
    """Encode an integer as Avro's int or long (a zigzag varint).

    The zigzag-encoded number is written with seven bits per byte, the low bits first.

    Raises:
        InvalidKeysError: the number does not fit into 64 bits.

    >>> avro_long(42).hex(), avro_long(-1).hex()
    ('54', '01')
    """
    if not -(1 << 63) <= key < 1 << 63:
        raise InvalidKeysError("does not fit a long of 64 bits", where="a key", value=key)
    rest, out = (key << 1) ^ (key >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def avro_string(key: str) -> bytes:
    r"""Encode text as an Avro string.

    The length of the text comes first, as an Avro long, then its UTF-8 bytes.

    >>> avro_string("42")
    b'\x0442'
    """
    text = string(key)
    return avro_long(len(text)) + text


def registry_framed(payload: bytes, schema_id: int) -> bytes:
    """Prepend the header of Confluent's schema registry to a serialized key.

    The header is a zero byte and the schema id (4 bytes). Partitioners hash it as well, so equal
    keys with different ids are in different partitions. Ids differ between subjects, between
    registries, and after a schema change.

    Raises:
        InvalidKeysError: the schema id does not fit into 31 bits.

    >>> registry_framed(avro_string("42"), 7).hex()
    '0000000007043432'
    """
    if not 0 <= schema_id < 1 << 31:
        raise InvalidKeysError(
            "must be an int of 0 to 2**31 - 1", where="schema_id", value=schema_id
        )
    return b"\0" + struct.pack(">i", schema_id) + payload


#: Libraries -> separators of items, and of key and value.
JSON_SPACINGS: Mapping[str, tuple[str, str]] = {
    "compact (Jackson, JavaScript, Go)": (",", ":"),
    "spaced (Python's json)": (", ", ": "),
}


def json_key(key: object, *, item: str = ",", colon: str = ":") -> bytes:
    """Serialize a key as JSON in UTF-8, with the object fields in their given order.

    Spacing matters, because partitioners hash the bytes. ``item`` is the separator between fields,
    ``colon`` the one between name and value.

    Raises:
        InvalidKeysError: the key cannot be expressed in JSON.

    >>> json_key({"id": 42}), json_key({"id": 42}, colon=": ")
    (b'{"id":42}', b'{"id": 42}')
    """
    try:
        return json.dumps(key, separators=(item, colon), ensure_ascii=False).encode()
    except (TypeError, ValueError) as e:
        raise InvalidKeysError("is nothing that JSON has", where="a key", value=key) from e


def java_hash_of_long(key: int) -> int:
    """Return the hash code of a Java ``Long`` (``Long.hashCode``, signed int32).

    Kafka's Scala producer 0.8 derives the partition of a Long key from it. The hash code of an
    Integer is its value.

    >>> java_hash_of_long(2**32), java_hash_of_long(-1)
    (1, 0)
    """
    h = (key ^ (key >> 32)) & 0xFFFFFFFF
    return h - (1 << 32) if h >> 31 else h


def serialize_by_all(key: int | str, *, schema_ids: tuple[int, int] = (1, 2)) -> dict[str, bytes]:
    """Serialize one key with every Kafka serializer that accepts it, to compare the bytes.

    The result is a dict from serializer name to bytes. ``schema_ids`` are ids of the schema
    registry for the Avro serializers.

    >>> [name for name in serialize_by_all("a") if "Avro" in name]
    ['Avro string, schema 1', 'Avro string, schema 2']
    """
    text = str(key)
    out: dict[str, bytes] = {"StringSerializer": string(text)}
    number: int | None = None
    try:
        number = int(text) if text == str(int(text)) else None
    except ValueError:
        number = None
    if number is not None:
        kinds: dict[str, Callable[[int], bytes]] = {
            "ShortSerializer": short,
            "IntegerSerializer": int_,
            "LongSerializer": long_,
        }
        for name, make in kinds.items():
            bits = {"S": 15, "I": 31, "L": 63}[name[0]]
            if -(1 << bits) <= number < 1 << bits:
                out[name] = make(number)
        if -(1 << 63) <= number < 1 << 63:
            for one in schema_ids:
                out[f"Avro long, schema {one}"] = registry_framed(avro_long(number), one)
    for one in schema_ids:
        out[f"Avro string, schema {one}"] = registry_framed(avro_string(text), one)
    value: Any = {"id": key}
    for libraries, (item, colon) in JSON_SPACINGS.items():
        out[f"JSON, {libraries}"] = json_key(value, item=item, colon=colon)
    return out
