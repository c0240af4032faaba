"""Bounds-checked reading and writing of Kafka's primitive types.

The layouts are those of Kafka's generated code (4.3.1): big-endian integers; unsigned varints of
at most five bytes; strings, bytes and arrays with a length of fixed width (-1 = null) or, in
flexible versions, a compact length (varint of length + 1, 0 = null). Every length is compared with
the remaining bytes before memory is allocated for it.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import NoReturn

from partage.java.strings import (
    decode_modified_utf8,
    decode_utf8,
    encode_modified_utf8,
    encode_utf8,
)
from partage.java.uuids import uuid_bytes, uuid_text
from partage.wire.errors import EncodingError, LengthError, TruncatedError

__all__ = ["LONGEST_STRING", "LONGEST_UTF", "ByteReader", "ByteWriter"]

LONGEST_STRING = 0x7FFF
"""UTF-8 bytes of the longest string in any layout, compact ones included."""

LONGEST_UTF = 0xFFFF
"""Bytes of the longest string that Java's ``writeUTF`` takes."""

_INT8 = Struct(">b")
_INT16 = Struct(">h")
_UINT16 = Struct(">H")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


class ByteReader:
    r"""Reader that decodes Kafka's primitive types from bytes; each method moves it forward.

    ``position`` and ``end`` are byte offsets in ``data``. Methods raise `TruncatedError` or
    `LengthError` with the offset at which the value begins. The caller adds the field's name to the
    error.

    >>> reader = ByteReader(b"\x00\x02hi\x07")
    >>> reader.read_string(), reader.read_int8(), reader.remaining_bytes
    ('hi', 7, 0)
    """

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes | bytearray | memoryview, position: int = 0) -> None:
        self.data = data if type(data) is bytes else bytes(data)
        self.end = len(self.data)
        self.position = position

    @property
    def remaining_bytes(self) -> int:
        """Number of bytes that have not been read yet.

        It is the distance from ``position`` to ``end``.
        """
        return self.end - self.position

    # The caller raises the errors that these two return: one frame less in each traceback.
    def _short(self, needed: int) -> TruncatedError:
        left = self.end - self.position
        return TruncatedError(f"{needed} bytes needed, {left} left", offset=self.position, field="")

    def _bad_length(self, what: str) -> LengthError:
        return LengthError(what, offset=self.position, field="")

    def read_int8(self) -> int:
        """Read a signed 8-bit integer."""
        start = self.position
        if start >= self.end:
            raise self._short(1)
        self.position = start + 1
        value: int = _INT8.unpack_from(self.data, start)[0]
        return value

    def read_int16(self) -> int:
        """Read a big-endian signed 16-bit integer."""
        start = self.position
        if start + 2 > self.end:
            raise self._short(2)
        self.position = start + 2
        value: int = _INT16.unpack_from(self.data, start)[0]
        return value

    def read_uint16(self) -> int:
        """Read a big-endian unsigned 16-bit integer."""
        start = self.position
        if start + 2 > self.end:
            raise self._short(2)
        self.position = start + 2
        value: int = _UINT16.unpack_from(self.data, start)[0]
        return value

    def read_int32(self) -> int:
        """Read a big-endian signed 32-bit integer."""
        start = self.position
        if start + 4 > self.end:
            raise self._short(4)
        self.position = start + 4
        value: int = _INT32.unpack_from(self.data, start)[0]
        return value

    def read_int64(self) -> int:
        """Read a big-endian signed 64-bit integer."""
        start = self.position
        if start + 8 > self.end:
            raise self._short(8)
        self.position = start + 8
        value: int = _INT64.unpack_from(self.data, start)[0]
        return value

    def read_uuid(self) -> str:
        """Read a UUID of 16 bytes, and return it as the 22 base64 characters that Kafka prints."""
        start = self.position
        if start + 16 > self.end:
            raise self._short(16)
        self.position = start + 16
        return uuid_text(self.data[start : start + 16])

    def read_varint(self) -> int:
        """Read an unsigned varint of at most five bytes, and return it as a signed 32-bit integer.

        A value of 2**31 or more becomes negative, as in Java.
        """
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
        """Read the length of a string, byte array or array in a message version with compact
        lengths.

        It is encoded as a varint of length + 1. The result is negative for null.
        """
        value = self.read_varint() - 1
        return value if value >= -0x80000000 else 0x7FFFFFFF

    def read_bytes(self, length: int) -> bytes:
        """Read ``length`` bytes and return them.

        Raises:
            TruncatedError: fewer bytes are left; no memory is allocated then.
        """
        start = self.position
        stop = start + length
        if length < 0 or stop > self.end:
            raise self._bad_length(f"length {length}, but {self.end - start} bytes left")
        self.position = stop
        return self.data[start:stop]

    def read_text(self, length: int) -> str:
        """Read a UTF-8 string of ``length`` bytes.

        Malformed bytes become the replacement character U+FFFD, as in Java.
        """
        start = self.position
        stop = start + length
        if stop > self.end:
            raise self._bad_length(f"string length {length}, but {self.end - start} bytes left")
        if length > LONGEST_STRING:
            raise self._bad_length(f"string length {length}, largest is {LONGEST_STRING}")
        self.position = stop
        return decode_utf8(self.data[start:stop])

    def not_null(self, length: int) -> int:
        """Check that the length of a string or array does not mean null, and return the length.

        Raises:
            LengthError: the length is negative, which means null.
        """
        if length < 0:
            raise self._bad_length("null for a field that is not nullable")
        return length

    def check_array_length(self, length: int) -> int:
        """Check that enough bytes are left for an array of ``length`` elements; return the length.

        Like Kafka, it assumes at least one byte per element, whatever the size of the elements.

        Raises:
            LengthError: fewer bytes are left.
        """
        if length > self.end - self.position:
            raise self._bad_length(f"count {length}, but {self.end - self.position} bytes left")
        return length

    def read_string(self) -> str:
        """Read a length (int16), then a UTF-8 string of that many bytes.

        Raises:
            LengthError: the length is negative, which means null.
        """
        return self.read_text(self.not_null(self.read_int16()))

    def nullable_string(self) -> str | None:
        """Read a length (int16), then a UTF-8 string of that many bytes; None if the length is
        negative.
        """
        length = self.read_int16()
        return None if length < 0 else self.read_text(length)

    def modified_utf8(self) -> str:
        r"""Read a string in Java's modified UTF-8, with its length (uint16) before it.

        It is the format of ``DataInputStream.readUTF``.

        Raises:
            LengthError: the bytes are malformed (``UTFDataFormatException``).

        >>> ByteReader(b"\0\3a\xc0\x80").modified_utf8()
        'a\x00'
        """
        start = self.position
        data = self.read_bytes(self.read_uint16())
        try:
            return decode_modified_utf8(data)
        except ValueError as error:
            raise LengthError(str(error), offset=start, field="") from None

    def read_utf16(self) -> str | None:
        r"""Read a length (int32), then a string of that many UTF-16 code units.

        The result is None if the length is 0 or negative.

        >>> ByteReader(b"\0\0\0\1\0a").read_utf16(), ByteReader(bytes(4)).read_utf16()
        ('a', None)
        """
        units = self.read_int32()
        if units <= 0:
            return None
        return self.read_bytes(2 * units).decode("utf-16-be", "surrogatepass")


class ByteWriter:
    r"""Buffer to which each method appends a value of a Kafka type.

    Methods raise `EncodingError` with an empty ``field`` for a value that does not fit.

    >>> writer = ByteWriter()
    >>> writer.write_string("hi"); writer.write_int8(7); bytes(writer.buffer)
    b'\x00\x02hi\x07'
    """

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()

    def raise_encoding_error(self, what: str) -> NoReturn:
        """Raise an `EncodingError` for a value that cannot be encoded, with the reason ``what``.

        Raises:
            EncodingError: always, with the current offset.
        """
        raise EncodingError(what, offset=len(self.buffer), field="")

    def _pack(self, layout: Struct, value: object, name: str) -> None:
        try:
            self.buffer += layout.pack(value)
        except struct_error:
            self.raise_encoding_error(f"not an {name}: {value!r:.80}")

    def write_int8(self, value: object) -> None:
        """Append a signed 8-bit integer."""
        self._pack(_INT8, value, "int8")

    def write_int16(self, value: object) -> None:
        """Append a big-endian signed 16-bit integer."""
        self._pack(_INT16, value, "int16")

    def write_uint16(self, value: object) -> None:
        """Append a big-endian unsigned 16-bit integer."""
        self._pack(_UINT16, value, "uint16")

    def write_int32(self, value: object) -> None:
        """Append a big-endian signed 32-bit integer."""
        self._pack(_INT32, value, "int32")

    def write_int64(self, value: object) -> None:
        """Append a big-endian signed 64-bit integer."""
        self._pack(_INT64, value, "int64")

    def write_uuid(self, value: object) -> None:
        """Append the 16 bytes of a UUID, given as the 22 base64 characters that Kafka prints."""
        try:
            self.buffer += uuid_bytes(value if isinstance(value, str) else "")
        except ValueError:
            self.raise_encoding_error(f"not a uuid in Kafka's base64: {value!r:.80}")

    def write_varint(self, value: int) -> None:
        """Append a 32-bit integer as an unsigned varint; a negative integer takes five bytes."""
        value &= 0xFFFFFFFF
        while value >= 0x80:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def raw(self, data: bytes) -> None:
        """Append bytes as they are, without a length before them."""
        self.buffer += data

    def encode_utf8(self, value: object) -> bytes:
        """Return a string as UTF-8 bytes, after checking that Kafka allows its length.

        Raises:
            EncodingError: the value is not a string, or longer than Kafka allows.
        """
        if not isinstance(value, str):
            self.raise_encoding_error(f"not a string: {value!r:.80}")
        data = encode_utf8(value)
        if len(data) > LONGEST_STRING:
            self.raise_encoding_error(f"string of {len(data)} bytes, largest is {LONGEST_STRING}")
        return data

    def write_string(self, value: object) -> None:
        """Append a string: first its length (int16), then its UTF-8 bytes; None raises an error."""
        data = self.encode_utf8(value)
        self.write_int16(len(data))
        self.buffer += data

    def modified_utf8(self, value: object) -> None:
        r"""Append a string in Java's modified UTF-8, with its length (uint16) before it.

        It is the format of ``DataOutputStream.writeUTF``.

        >>> writer = ByteWriter()
        >>> writer.modified_utf8("é\0"); bytes(writer.buffer)
        b'\x00\x04\xc3\xa9\xc0\x80'
        """
        if not isinstance(value, str):
            self.raise_encoding_error(f"not a string: {value!r:.80}")
        data = encode_modified_utf8(value)
        if len(data) > LONGEST_UTF:
            self.raise_encoding_error(f"string of {len(data)} bytes, largest is {LONGEST_UTF}")
        self.write_uint16(len(data))
        self.buffer += data

    def write_utf16(self, value: str | None) -> None:
        r"""Append a string: first its number of UTF-16 code units (int32), then these units.

        The bytes are those of Java's ``writeChars``. None is written like an empty string.

        >>> writer = ByteWriter()
        >>> writer.write_utf16("a"); bytes(writer.buffer)
        b'\x00\x00\x00\x01\x00a'
        """
        units = (value or "").encode("utf-16-be", "surrogatepass")
        self.write_int32(len(units) // 2)
        self.buffer += units
