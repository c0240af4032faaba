"""Java's strings: hash codes, sort order, and UTF-8 as Java encodes and decodes it.

Java replaces malformed UTF-8 by U+FFFD, as Python does, but counts differently in one case: an
encoded surrogate (``ED A0..BF xx``) is one malformed character to Java and three to Python.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "decode_modified_utf8",
    "decode_utf8",
    "encode_modified_utf8",
    "encode_utf8",
    "string_hash",
    "string_hashes",
    "string_order_key",
    "string_ranks",
]

#: With fewer names, hashing one by one is faster than hashing by columns.
_MIN_NAMES_FOR_COLUMNS = 64
#: Modified UTF-8 writes these UTF-16 units as themselves, in one byte.
_ONE_BYTE_UNITS = range(1, 0x80)


def string_hash(text: str) -> int:
    """Return the hash code of a text, the same as ``String.hashCode`` in Java (signed int32).

    It decides in which order Java's hash maps iterate over strings.

    >>> string_hash("consumer1"), string_hash("Aa") == string_hash("BB")
    (-421004549, True)
    """
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return (value ^ 0x80000000) - 0x80000000


def string_order_key(text: str) -> bytes:
    r"""Return a sort key that orders texts like Java's ``String.compareTo``.

    Java compares UTF-16 units, Python compares characters. The orders differ only for characters
    beyond U+FFFF.

    >>> sorted(["\uff5a", "\U00010000"], key=string_order_key) == ["\U00010000", "\uff5a"]
    True
    """
    return text.encode("utf-16-be", "surrogatepass")


def string_ranks(names: Sequence[str]) -> list[int]:
    """Return the position of each name in the sort order of Java's ``String.compareTo``.

    Positions begin at 0.

    >>> string_ranks(["b", "a"])
    [1, 0]
    """
    rank = [0] * len(names)
    order = sorted(range(len(names)), key=lambda i: string_order_key(names[i]))
    for place, i in enumerate(order):
        rank[i] = place
    return rank


def string_hashes(names: Sequence[str]) -> list[int]:
    """Return the hash code of each name, the same as ``String.hashCode`` in Java (signed int32).

    Long lists are computed with NumPy, which is faster than `string_hash` for each name.

    >>> string_hashes(["consumer1", "Aa", "BB"])
    [-421004549, 2112, 2112]
    """
    if len(names) < _MIN_NAMES_FOR_COLUMNS:
        return [string_hash(name) for name in names]
    units, length = _utf16_units(names)
    by_length = np.argsort(-length, kind="stable")
    start = (np.cumsum(length) - length)[by_length]
    # In descending length, the names that have a unit in a column are a prefix.
    longest = int(length[by_length[0]])
    alive = len(names) - np.searchsorted(np.sort(length), np.arange(longest), side="right")
    value = np.zeros(len(names), np.uint32)
    for column, n in enumerate(alive.tolist()):
        value[:n] *= np.uint32(31)
        value[:n] += units[start[:n] + column]
    out = np.empty(len(names), np.uint32)
    out[by_length] = value
    hashes: list[int] = out.view(np.int32).tolist()
    return hashes


def _utf16_units(
    names: Sequence[str],
) -> tuple[NDArray[np.unsignedinteger[Any]], NDArray[np.int64]]:
    text = "".join(names)
    if text.isascii():
        raw = text.encode("ascii")
        return np.frombuffer(raw, np.uint8), np.array(list(map(len, names)), np.int64)
    encoded = [name.encode("utf-16-le", "surrogatepass") for name in names]
    length = np.array([len(one) // 2 for one in encoded], np.int64)
    return np.frombuffer(b"".join(encoded), dtype="<u2"), length


def _java_replacement(error: UnicodeError) -> tuple[str, int]:
    # An error handler for codecs.register_error, which replaces as many bytes at a time as Java
    # does.
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start, end = error.object, error.start, error.end
    second = data[start + 1 : start + 2]
    if data[start] == 0xED and b"\xa0" <= second <= b"\xbf":
        third = data[start + 2 : start + 3]
        end = start + (3 if b"\x80" <= third <= b"\xbf" else 2)
    return "\ufffd", end


codecs.register_error("partage.java", _java_replacement)


def decode_utf8(data: bytes) -> str:
    r"""Decode UTF-8 data as ``new String(bytes, UTF_8)`` does in Java.

    Malformed bytes become U+FFFD. Python does the same, but Java replaces an encoded surrogate by
    one such character and Python by three.

    >>> decode_utf8(b"caf\xc3\xa9"), decode_utf8(b"a\xffb"), decode_utf8(b"\xed\xa0\x80")
    ('café', 'a\ufffdb', '\ufffd')
    """
    return data.decode("utf-8", "partage.java")


def encode_utf8(text: str) -> bytes:
    r"""Encode text as UTF-8, as ``String.getBytes(UTF_8)`` does in Java.

    A lone surrogate becomes "?", where Python would raise an error.

    >>> encode_utf8("é"), encode_utf8("\ud83d")
    (b'\xc3\xa9', b'?')
    """
    return text.encode("utf-8", "replace")


def decode_modified_utf8(data: bytes) -> str:
    r"""Decode text in Java's modified UTF-8, as ``DataOutput.writeUTF`` writes it.

    ``data`` is without the length prefix. U+0000 has two bytes, and characters beyond U+FFFF are
    encoded as two surrogates. Lone surrogates are kept.

    Raises:
        ValueError: a byte is malformed; the message has its position.

    >>> decode_modified_utf8(b"a\xc0\x80")
    'a\x00'
    """
    if data.isascii():
        return data.decode("ascii")
    units = bytearray()
    position, end = 0, len(data)
    while position < end:
        first = data[position]
        size = 1 if first < 0x80 else 2 if first >> 5 == 0b110 else 3 if first >> 4 == 0b1110 else 0
        rest = data[position + 1 : position + size]
        if not size or len(rest) < size - 1 or any(byte >> 6 != 0b10 for byte in rest):
            raise ValueError(f"malformed string at its byte {position}")
        unit = first if size == 1 else first & (0x1F if size == 2 else 0x0F)
        for byte in rest:
            unit = unit << 6 | byte & 0x3F
        units += unit.to_bytes(2, "big")
        position += size
    return units.decode("utf-16-be", "surrogatepass")


def encode_modified_utf8(text: str) -> bytes:
    r"""Encode text in Java's modified UTF-8, as ``DataOutput.writeUTF`` writes it.

    The result does not begin with the two-byte length prefix that Java writes.

    >>> encode_modified_utf8("é\0")
    b'\xc3\xa9\xc0\x80'
    """
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    units = text.encode("utf-16-be", "surrogatepass")
    out = bytearray()
    for high, low in zip(units[::2], units[1::2], strict=True):
        unit = high << 8 | low
        if unit in _ONE_BYTE_UNITS:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(out)
