"""Strings as ``java.io.DataOutputStream`` writes them, which is not UTF-8.

``writeUTF``: a uint16 of bytes, then each UTF-16 unit alone, in one to three bytes; U+0000 takes
two, so does nothing that UTF-8 does with one or four. ``writeChars``: UTF-16 units as they are.
Lone surrogates are ordinary units to both, and come out as such in a Python string.
"""

from __future__ import annotations

from typing import NoReturn

from partage.wire.faults import LengthError
from partage.wire.primitives import Reader, Writer

__all__ = ["LONGEST_UTF", "read_chars", "read_utf", "write_chars", "write_utf"]

LONGEST_UTF = 0xFFFF
"""Bytes of the longest string that ``writeUTF`` takes."""

_IS_TEXT_ITSELF = range(1, 0x80)


def read_utf(reader: Reader) -> str:
    r"""A string as ``readUTF`` reads it.

    Raises:
        TruncatedError: the payload ends inside.
        LengthError: the bytes are no such string (``UTFDataFormatException``).

    >>> read_utf(Reader(b"\0\3a\xc0\x80"))
    'a\x00'
    """
    start = reader.position
    data = reader.raw(reader.uint16())
    if data.isascii():
        return data.decode("ascii")
    return _from_units(_units(data, start))


def _units(data: bytes, start: int) -> bytearray:
    """UTF-16BE of modified UTF-8; ``start`` is where the string stands in the payload."""
    units = bytearray()
    place, end = 0, len(data)
    while place < end:
        first = data[place]
        size = 1 if first < 0x80 else 2 if first >> 5 == 0b110 else 3 if first >> 4 == 0b1110 else 0
        rest = data[place + 1 : place + size]
        if not size or len(rest) < size - 1 or any(one >> 6 != 0b10 for one in rest):
            _malformed(start, place)
        unit = first if size == 1 else first & (0x1F if size == 2 else 0x0F)
        for one in rest:
            unit = unit << 6 | one & 0x3F
        units += unit.to_bytes(2, "big")
        place += size
    return units


def _malformed(start: int, place: int) -> NoReturn:
    raise LengthError(f"malformed string at its byte {place}", offset=start, field="")


def _from_units(units: bytes | bytearray) -> str:
    return units.decode("utf-16-be", "surrogatepass")


def write_utf(writer: Writer, text: object) -> None:
    r"""A string as ``writeUTF`` writes it.

    Raises:
        EncodingError: no string, or one of more than 65,535 bytes.

    >>> writer = Writer()
    >>> write_utf(writer, "é\0"); bytes(writer.buffer)
    b'\x00\x04\xc3\xa9\xc0\x80'
    """
    if not isinstance(text, str):
        writer.refuse(f"not a string: {text!r:.80}")
    if text.isascii() and "\0" not in text:
        data = text.encode("ascii")
    else:
        data = _modified(text.encode("utf-16-be", "surrogatepass"))
    if len(data) > LONGEST_UTF:
        writer.refuse(f"string of {len(data)} bytes, largest is {LONGEST_UTF}")
    writer.uint16(len(data))
    writer.raw(data)


def _modified(units: bytes) -> bytes:
    made = bytearray()
    for high, low in zip(units[::2], units[1::2], strict=True):
        unit = high << 8 | low
        if unit in _IS_TEXT_ITSELF:
            made.append(unit)
        elif unit < 0x800:
            made += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            made += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(made)


def read_chars(reader: Reader) -> str | None:
    r"""A name of a topology: an int32 of UTF-16 units and the units; none of them is None.

    A negative count is none too, as in Kafka.

    >>> read_chars(Reader(b"\0\0\0\1\0a")), read_chars(Reader(bytes(4)))
    ('a', None)
    """
    units = reader.int32()
    if units <= 0:
        return None
    return _from_units(reader.raw(2 * units))


def write_chars(writer: Writer, text: str | None) -> None:
    r"""What `read_chars` reads; an empty name is no name.

    >>> writer = Writer()
    >>> write_chars(writer, "a"); bytes(writer.buffer)
    b'\x00\x00\x00\x01\x00a'
    """
    units = (text or "").encode("utf-16-be", "surrogatepass")
    writer.int32(len(units) // 2)
    writer.raw(units)
