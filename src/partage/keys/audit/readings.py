"""The ways in which the bytes of a key may be meant, to find the same key written otherwise."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence

__all__ = ["FRAMED", "HEADER", "READINGS", "canonical"]

#: The reading of keys behind a registry's header, and the bytes of that: magic byte, schema id.
FRAMED, HEADER = "Avro with registry header", 5
#: A schema has this share of a topic's keys at least, or the bytes are no schema id.
_OF_A_SCHEMA = 0.01

#: What a key means: equal values of one key, whoever serialized it.
_Meaning = str | None


def _text(key: bytes) -> _Meaning:
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and text else None


def _json(key: bytes) -> _Meaning:
    """JSON text: spacing, and the order of an object's members, do not count."""
    if key[:1] not in b'"{[' or not key:
        return None
    try:
        value = json.loads(key)
        if isinstance(value, str):
            return value
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):  # a thousand brackets are some key, and no JSON of ours
        return None


def _number(size: int) -> Callable[[bytes], _Meaning]:
    def read(key: bytes) -> _Meaning:
        return str(int.from_bytes(key, "big", signed=True)) if len(key) == size else None

    return read


def _uuid(key: bytes) -> _Meaning:
    if len(key) != 16:
        return None
    digits = key.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _framed(key: bytes) -> _Meaning:
    """Confluent's registry frame: magic byte 0, schema id (4 bytes); then Avro's string or long."""
    if len(key) < 6 or key[0]:
        return None
    body = key[5:]
    value, used = _zigzag(body)
    if used and used == len(body):
        return str(value)
    if used and value == len(body) - used:
        return _text(body[used:])
    return "avro:" + body.hex()


def _zigzag(body: bytes) -> tuple[int, int]:
    """An Avro long and the bytes it takes; 0 bytes if there is none."""
    value = 0
    for i, byte in enumerate(body[:10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), i + 1
    return 0, 0


#: name -> how to read; None where a key cannot be meant so.
READINGS: dict[str, Callable[[bytes], _Meaning]] = {
    "text": _text,
    "JSON": _json,
    "int (4 bytes)": _number(4),
    "long (8 bytes)": _number(8),
    "UUID (16 bytes)": _uuid,
    FRAMED: _framed,
}


def canonical(keys: Sequence[bytes], reading: str) -> dict[str, bytes]:
    r"""Meaning to key, for the keys that can be read so; the first key of a meaning stays.

    >>> canonical([b"7", b"\x00\x00\x00\x07"], "int (4 bytes)")
    {'7': b'\x00\x00\x00\x07'}
    """
    read = READINGS[reading]
    out: dict[str, bytes] = {}
    for key in _of_schemas(keys) if reading == FRAMED else keys:
        meaning = read(key)
        if meaning is not None:
            out.setdefault(meaning, key)
    return out


def _of_schemas(keys: Sequence[bytes]) -> list[bytes]:
    """Keys whose schema id others have too: numbers that begin with a zero are no frames."""
    framed = [key for key in keys if key[:1] == b"\0"]
    times = Counter(key[1:HEADER] for key in framed)
    least = _OF_A_SCHEMA * len(keys)
    return [key for key in framed if times[key[1:HEADER]] >= least]
