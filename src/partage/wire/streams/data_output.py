"""Strings as ``java.io.DataOutputStream`` writes them, in bytes of Kafka Streams.

``writeUTF`` writes a uint16 of bytes and modified UTF-8; ``writeChars`` writes UTF-16 units.
"""

from __future__ import annotations

from partage.java.strings import decode_modified_utf8, encode_modified_utf8
from partage.wire.faults import LengthError
from partage.wire.primitives import Reader, Writer

__all__ = ["LONGEST_UTF", "read_chars", "read_utf", "write_chars", "write_utf"]

LONGEST_UTF = 0xFFFF
"""Bytes of the longest string that ``writeUTF`` takes."""


def read_utf(reader: Reader) -> str:
    r"""Read a string as ``readUTF`` does.

    Raises:
        TruncatedError: the payload ends inside the string.
        LengthError: the bytes are malformed (``UTFDataFormatException``).

    >>> read_utf(Reader(b"\0\3a\xc0\x80"))
    'a\x00'
    """
    start = reader.position
    data = reader.raw(reader.uint16())
    try:
        return decode_modified_utf8(data)
    except ValueError as error:
        raise LengthError(str(error), offset=start, field="") from None


def write_utf(writer: Writer, text: object) -> None:
    r"""Write a string as ``writeUTF`` does.

    Raises:
        EncodingError: the value is no string, or has more than 65,535 bytes.

    >>> writer = Writer()
    >>> write_utf(writer, "é\0"); bytes(writer.buffer)
    b'\x00\x04\xc3\xa9\xc0\x80'
    """
    if not isinstance(text, str):
        writer.refuse(f"not a string: {text!r:.80}")
    data = encode_modified_utf8(text)
    if len(data) > LONGEST_UTF:
        writer.refuse(f"string of {len(data)} bytes, largest is {LONGEST_UTF}")
    writer.uint16(len(data))
    writer.raw(data)


def read_chars(reader: Reader) -> str | None:
    r"""Read the name of a topology: an int32 of UTF-16 units, and the units.

    A count of zero or less means that there is no name, as in Kafka.

    >>> read_chars(Reader(b"\0\0\0\1\0a")), read_chars(Reader(bytes(4)))
    ('a', None)
    """
    units = reader.int32()
    if units <= 0:
        return None
    return reader.raw(2 * units).decode("utf-16-be", "surrogatepass")


def write_chars(writer: Writer, text: str | None) -> None:
    r"""Write the name of a topology; None and an empty name are written alike.

    >>> writer = Writer()
    >>> write_chars(writer, "a"); bytes(writer.buffer)
    b'\x00\x00\x00\x01\x00a'
    """
    units = (text or "").encode("utf-16-be", "surrogatepass")
    writer.int32(len(units) // 2)
    writer.raw(units)
