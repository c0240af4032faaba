"""Reading and writing Kafka's primitive types, every length checked before it is believed.

The layouts are those of Kafka's generated code (4.3.1): big-endian integers; unsigned varints of
at most five bytes; strings, bytes and arrays with a fixed length (-1 = null) or, in flexible
versions, a compact one (varint of length + 1, 0 = null).
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import NoReturn

from partage.java.strings import decode_utf8, encode_utf8
from partage.java.uuids import uuid_bytes, uuid_text
from partage.wire.faults import EncodingError, LengthError, TruncatedError

__all__ = ["LONGEST_STRING", "Reader", "Writer"]

LONGEST_STRING = 0x7FFF
"""UTF-8 bytes of the longest string in any layout, compact ones included."""

_INT8 = Struct(">b")
_INT16 = Struct(">h")
_UINT16 = Struct(">H")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class Reader:
    r"""A place in a payload: each method reads one value there and moves on.

    ``position`` and ``end`` are byte offsets in ``data``. Methods raise `TruncatedError` or
    `LengthError`, with the offset at which the value began and an empty ``field``, which the
    schema engine fills in.

    >>> reader = Reader(b"\x00\x02hi\x07")
    >>> reader.string(), reader.int8(), reader.left
    ('hi', 7, 0)
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes | bytearray | memoryview, position: int = 0) -> None:
        self.data = data if type(data) is bytes else bytes(data)
        self.end = len(self.data)
        self.position = position

    @property
    def left(self) -> int:
        """Bytes not yet read."""
        return self.end - self.position

    # Errors are made here and raised by the caller: one frame less in each traceback.
    def _short(self, needed: int) -> TruncatedError:
        left = self.end - self.position
        return TruncatedError(f"{needed} bytes needed, {left} left", offset=self.position, field="")

    def _bad_length(self, what: str) -> LengthError:
        return LengthError(what, offset=self.position, field="")

    def int8(self) -> int:
        """A signed byte."""
        start = self.position
        if start >= self.end:
            raise self._short(1)
        self.position = start + 1
        value: int = _INT8.unpack_from(self.data, start)[0]
        return value

    def int16(self) -> int:
        """A signed 16-bit integer."""
        start = self.position
        if start + 2 > self.end:
            raise self._short(2)
        self.position = start + 2
        value: int = _INT16.unpack_from(self.data, start)[0]
        return value

    def uint16(self) -> int:
        """An unsigned 16-bit integer."""
        start = self.position
        if start + 2 > self.end:
            raise self._short(2)
        self.position = start + 2
        value: int = _UINT16.unpack_from(self.data, start)[0]
        return value

    def int32(self) -> int:
        """A signed 32-bit integer."""
        start = self.position
        if start + 4 > self.end:
            raise self._short(4)
        self.position = start + 4
        value: int = _INT32.unpack_from(self.data, start)[0]
        return value

    def int64(self) -> int:
        """A signed 64-bit integer."""
        start = self.position
        if start + 8 > self.end:
            raise self._short(8)
        self.position = start + 8
        value: int = _INT64.unpack_from(self.data, start)[0]
        return value

    def uuid(self) -> str:
        """16 bytes, as Kafka prints them (22 characters)."""
        start = self.position
        if start + 16 > self.end:
            raise self._short(16)
        self.position = start + 16
        return uuid_text(self.data[start : start + 16])

    def varint(self) -> int:
        """An unsigned varint; like Java's it wraps to a signed 32-bit integer."""
        start = place = self.position
        value = shift = 0
        while True:
            if place >= self.end:
                raise self._short(place - start + 1)
            byte = self.data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise self._bad_length("a varint of more than 5 bytes")
        self.position = place
        return value if shift < 28 else (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000

    def compact_length(self) -> int:
        """Length of a compact string, bytes or array; negative = null."""
        value = self.varint() - 1
        return value if value >= -0x80000000 else 0x7FFFFFFF

    def raw(self, length: int) -> bytes:
        """The next ``length`` bytes, copied only when they are there."""
        start = self.position
        stop = start + length
        if length < 0 or stop > self.end:
            raise self._bad_length(f"length {length}, but {self.end - start} bytes left")
        self.position = stop
        return self.data[start:stop]

    def text(self, length: int) -> str:
        """A string of ``length`` UTF-8 bytes; malformed ones become U+FFFD as in Java."""
        start = self.position
        stop = start + length
        if stop > self.end:
            raise self._bad_length(f"string length {length}, but {self.end - start} bytes left")
        if length > LONGEST_STRING:
            raise self._bad_length(f"string length {length}, largest is {LONGEST_STRING}")
        self.position = stop
        return decode_utf8(self.data[start:stop])

    def not_null(self, length: int) -> int:
        """``length``, if it is one.

        Raises:
            LengthError: it is negative, which says null.
        """
        if length < 0:
            raise self._bad_length("null for a field that is not nullable")
        return length

    def count(self, length: int) -> int:
        """``length`` as the number of an array's elements, each of at least one byte.

        Kafka compares the count with the bytes left, not with what the elements take.
        """
        if length > self.end - self.position:
            raise self._bad_length(f"count {length}, but {self.end - self.position} bytes left")
        return length

    def string(self) -> str:
        """A string with an int16 length, not null."""
        return self.text(self.not_null(self.int16()))

    def nullable_string(self) -> str | None:
        """A string with an int16 length, null if that is negative."""
        length = self.int16()
        return None if length < 0 else self.text(length)


class Writer:
    r"""Bytes being made: each method appends one value.

    Methods raise `EncodingError` with an empty ``field`` for a value that does not fit.

    >>> writer = Writer()
    >>> writer.string("hi"); writer.int8(7); bytes(writer.buffer)
    b'\x00\x02hi\x07'
    """

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def refuse(self, what: str) -> NoReturn:
        """Raise `EncodingError` at this place."""
        raise EncodingError(what, offset=len(self.buffer), field="")

    def _pack(self, layout: Struct, value: object, name: str) -> None:
        try:
            self.buffer += layout.pack(value)
        except struct_error:
            self.refuse(f"not an {name}: {value!r:.80}")

    def int8(self, value: object) -> None:
        """A signed byte."""
        self._pack(_INT8, value, "int8")

    def int16(self, value: object) -> None:
        """A signed 16-bit integer."""
        self._pack(_INT16, value, "int16")

    def uint16(self, value: object) -> None:
        """An unsigned 16-bit integer."""
        self._pack(_UINT16, value, "uint16")

    def int32(self, value: object) -> None:
        """A signed 32-bit integer."""
        self._pack(_INT32, value, "int32")

    def int64(self, value: object) -> None:
        """A signed 64-bit integer."""
        self._pack(_INT64, value, "int64")

    def uuid(self, value: object) -> None:
        """16 bytes, given as Kafka prints them."""
        try:
            self.buffer += uuid_bytes(value if isinstance(value, str) else "")
        except ValueError:
            self.refuse(f"not a uuid in Kafka's base64: {value!r:.80}")

    def varint(self, value: int) -> None:
        """An unsigned varint of a 32-bit integer; a negative one takes five bytes as in Java."""
        value &= 0xFFFFFFFF
        while value >= 0x80:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self.buffer += data

    def utf8(self, value: object) -> bytes:
        """The UTF-8 bytes of a string, if there are not too many for Kafka."""
        if not isinstance(value, str):
            self.refuse(f"not a string: {value!r:.80}")
        data = encode_utf8(value)
        if len(data) > LONGEST_STRING:
            self.refuse(f"string of {len(data)} bytes, largest is {LONGEST_STRING}")
        return data

    def string(self, value: object) -> None:
        """A string with an int16 length, not null."""
        data = self.utf8(value)
        self.int16(len(data))
        self.buffer += data
