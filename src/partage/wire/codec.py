"""The schema engine: decodes and encodes any message by its layout in `messages`.

Decoded values: a struct is a dict with Kafka's JSON names, an array a tuple, ``bytes`` is bytes, a
uuid its 22 characters, null is None. A field that the version does not have is left out, and so is
a tagged field with its default. Unknown tagged fields stay, under `schema.UNKNOWN_TAGS`.

Each type of a layout becomes a `Codec`, two nested closures that are made once. An error drops its
traceback at each level that adds to its path: the path says the same, and the frames of all levels
would take more memory than a short payload may.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from partage.errors import WireFormatError
from partage.wire.errors import TruncatedError, UnsupportedVersionError
from partage.wire.primitives import ByteReader, ByteWriter
from partage.wire.schema import UNKNOWN_TAGS, Field, Message, default_value

__all__ = [
    "Codec",
    "codec_with_replacements",
    "decode",
    "encode",
    "join_path",
    "message_codec",
    "set_location",
]

Read = Callable[[ByteReader], Any]
Write = Callable[[ByteWriter, Any], None]


class Codec(NamedTuple):
    """The pair of functions that decode and encode one type of field in Kafka messages.

    An error in a field names the field; the caller adds the message version.
    """

    read: Read
    write: Write


class _MessageLayout(NamedTuple):
    """The settings with which the decoder and encoder of one message version are built.

    ``flexible`` says whether the version has compact lengths and tagged fields (KIP-482).
    ``replaced`` maps a type, such as ``[]TaskId``, to the caller's codec for it.
    """

    name: str
    version: int
    flexible: bool
    replaced: Mapping[str, Codec]


_SCALARS = {
    "bool": Codec(lambda reader: reader.read_int8() != 0, ByteWriter.write_int8),
    "int8": Codec(ByteReader.read_int8, ByteWriter.write_int8),
    "int16": Codec(ByteReader.read_int16, ByteWriter.write_int16),
    "uint16": Codec(ByteReader.read_uint16, ByteWriter.write_uint16),
    "int32": Codec(ByteReader.read_int32, ByteWriter.write_int32),
    "int64": Codec(ByteReader.read_int64, ByteWriter.write_int64),
    "uuid": Codec(ByteReader.read_uuid, ByteWriter.write_uuid),
    "modifiedUtf8": Codec(ByteReader.modified_utf8, ByteWriter.modified_utf8),
    "utf16": Codec(ByteReader.read_utf16, ByteWriter.write_utf16),
}
#: Types whose arrays are unpacked at once: code of the struct module and bytes.
_BULK = {"int8": ("b", 1), "int16": ("h", 2), "int32": ("i", 4)}


def decode(message: Message, reader: ByteReader, *, version: int, path: str = "") -> dict[str, Any]:
    r"""Decode the body of a Kafka message to a dict from field name to value.

    Fields that the message version does not have are left out.

    Args:
        message: layout of the message.
        reader: the bytes, and the position of the body.
        version: version of the message.
        path: field path that errors have before the field's name.

    Raises:
        WireFormatError: the bytes do not follow this layout, or the message has no such version.

    >>> from partage.wire.messages import load_message
    >>> decode(load_message("ConsumerGroupMetadataValue"), ByteReader(b"\0\0\0\x0a\0"), version=0)
    {'epoch': 10}
    """
    read = message_codec(message, version).read
    try:
        values: dict[str, Any] = read(reader)
    except WireFormatError as error:
        set_location(error, path, version)
        raise error.with_traceback(None) from None  # see the module's docstring
    return values


def encode(message: Message, values: Mapping[str, Any], *, version: int, path: str = "") -> bytes:
    r"""Encode a dict from field name to value as the body of a Kafka message, without header.

    Fields that are missing in ``values`` get their defaults. Unknown names are an error. A field
    that this version does not have must be ignorable or have its default.

    Args:
        message: layout of the message.
        values: the values by field name.
        version: version of the message.
        path: field path that errors have before the field's name.

    Raises:
        EncodingError: a value does not fit the layout (path and version say where).
        UnsupportedVersionError: the message has no such version.

    >>> from partage.wire.messages import load_message
    >>> encode(load_message("ConsumerGroupMetadataValue"), {"epoch": 10}, version=0)
    b'\x00\x00\x00\n\x00'
    """
    write = message_codec(message, version).write
    writer = ByteWriter()
    try:
        write(writer, values)
    except WireFormatError as error:
        set_location(error, path, version)
        raise
    return bytes(writer.buffer)


@lru_cache(maxsize=256)
def message_codec(message: Message, version: int) -> Codec:
    """Return the decoder and encoder for one version of a Kafka message.

    They are built at the first call and then cached.

    Raises:
        UnsupportedVersionError: the message has no such version.
    """
    if version not in message.versions:
        what = f"{message.name} has versions {message.versions}"
        raise UnsupportedVersionError(what, offset=0, field="version", version=version)
    return codec_with_replacements(message, version, {})


def codec_with_replacements(message: Message, version: int, replaced: Mapping[str, Codec]) -> Codec:
    """Build the codec of a Kafka message, with special codecs for some of its field types.

    ``replaced`` maps a type, such as ``[]TaskId``, to its codec. For example, such a codec can
    decode a large array to NumPy arrays instead of a tuple.
    """
    layout = _MessageLayout(message.name, version, version in message.flexible, replaced)
    return _struct_codec(message.fields, layout)


def set_location(error: WireFormatError, field: str, version: int) -> None:
    """Add the field path and the message version to an error that was raised while decoding a
    field.

    The error is changed in place; the caller raises it again.
    """
    error.field, error.version = join_path(field, error.field), version


def join_path(outer: str, inner: str) -> str:
    """Join two parts of a field path with a dot, such as ``members`` and ``id``.

    >>> join_path("members", "[2].clientId"), join_path("value", ""), join_path("a", "b")
    ('members[2].clientId', 'value', 'a.b')
    """
    dot = "." if outer and inner and not inner.startswith("[") else ""
    return f"{outer}{dot}{inner}"


def _codec(field: Field, layout: _MessageLayout, *, tagged: bool = False) -> Codec:
    # In a tagged struct null is encoded differently.
    name, nullable = field.type, layout.version in field.nullable
    if name in layout.replaced:
        return layout.replaced[name]
    if name in _SCALARS:
        return _SCALARS[name]
    if name == "string":
        return _string_codec(flexible=layout.flexible, nullable=nullable)
    if name == "bytes":
        return _bytes_codec(flexible=layout.flexible, nullable=nullable)
    if name.startswith("[]"):
        return _array_codec(field, layout, nullable=nullable)
    codec = _struct_codec(field.fields, layout)
    return _nullable_codec(codec, tagged=tagged) if nullable else codec


# --- structs ---------------------------------------------------------------------------------


def _struct_codec(fields: tuple[Field, ...], layout: _MessageLayout) -> Codec:
    version = layout.version
    present = [f for f in fields if version in f.versions]
    plain = [f for f in present if version not in f.tagged]
    codecs = [(f, _codec(f, layout)) for f in plain]
    read = _struct_reader([(f.name, codec.read) for f, codec in codecs])
    write = _struct_writer(
        [(f.name, codec.write, default_value(f, version)) for f, codec in codecs],
        _names_checker(fields, layout),
    )
    if not layout.flexible:
        return Codec(read, write)
    tagged = [f for f in present if version in f.tagged]
    known = {
        f.tag: (f.name, _codec(f, layout, tagged=True), default_value(f, version))
        for f in tagged
        if f.tag is not None
    }
    return _flexible_codec(Codec(read, write), _tags_reader(known), _tags_writer(known))


def _struct_reader(plain: list[tuple[str, Read]]) -> Read:
    def read(reader: ByteReader) -> dict[str, Any]:
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, read_value in plain:
                values[name] = read_value(reader)
        except WireFormatError as error:
            error.field = join_path(name, error.field)
            raise error.with_traceback(None) from None
        return values

    return read


def _struct_writer(
    plain: list[tuple[str, Write, Any]], check: Callable[[ByteWriter, Mapping[str, Any]], None]
) -> Write:
    def write(writer: ByteWriter, values: Any) -> None:
        if not isinstance(values, Mapping):
            writer.raise_encoding_error(f"not a struct: {values!r:.80}")
        check(writer, values)
        name = ""
        try:
            for name, write_value, default in plain:
                write_value(writer, values.get(name, default))
        except WireFormatError as error:
            error.field = join_path(name, error.field)
            raise

    return write


def _names_checker(
    fields: tuple[Field, ...], layout: _MessageLayout
) -> Callable[[ByteWriter, Mapping[str, Any]], None]:
    """Return a function that checks the field names of a dict before it is encoded.

    It raises an error for unknown fields. A field that only other message versions have must have
    its default value.
    """
    known = {f.name for f in fields} | {UNKNOWN_TAGS}
    absent = [
        (f.name, default_value(f, layout.version))
        for f in fields
        if layout.version not in f.versions and not f.ignorable
    ]

    def check(writer: ByteWriter, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in known:
                writer.raise_encoding_error(f"{layout.name} has no field {name!r}")
        for name, default in absent:
            if values.get(name, default) != default:
                writer.raise_encoding_error(
                    f"version {layout.version} of {layout.name} has no field {name!r}"
                )
        if not layout.flexible and values.get(UNKNOWN_TAGS):
            writer.raise_encoding_error(
                f"version {layout.version} of {layout.name} has no tagged fields"
            )

    return check


def _nullable_codec(codec: Codec, *, tagged: bool) -> Codec:
    # The null marker is an int8, below 0 for null; in a tagged field it is a varint, 0 for null.
    if tagged:
        return Codec(
            lambda reader: None if reader.read_varint() <= 0 else codec.read(reader),
            _marked_writer(codec.write, lambda writer, there: writer.write_varint(int(there))),
        )
    return Codec(
        lambda reader: None if reader.read_int8() < 0 else codec.read(reader),
        _marked_writer(codec.write, lambda writer, there: writer.write_int8(1 if there else -1)),
    )


def _marked_writer(write_struct: Write, write_marker: Callable[[ByteWriter, bool], None]) -> Write:
    def write(writer: ByteWriter, value: Any) -> None:
        write_marker(writer, value is not None)
        if value is not None:
            write_struct(writer, value)

    return write


# --- tagged fields ---------------------------------------------------------------------------

_Tagged = dict[int, tuple[str, Codec, Any]]  # tag -> name, codec and default


def _flexible_codec(
    plain: Codec,
    read_tags: Callable[[ByteReader, dict[str, Any]], None],
    write_tags: Callable[[ByteWriter, Mapping[str, Any]], None],
) -> Codec:
    def read(reader: ByteReader) -> dict[str, Any]:
        values: dict[str, Any] = plain.read(reader)
        position = reader.position
        if position < reader.end and reader.data[position] == 0:  # no tags: nearly always
            reader.position = position + 1
        else:
            read_tags(reader, values)
        return values

    def write(writer: ByteWriter, values: Any) -> None:
        plain.write(writer, values)
        write_tags(writer, values)

    return Codec(read, write)


def _tags_reader(known: _Tagged) -> Callable[[ByteReader, dict[str, Any]], None]:
    """Return a function that decodes the tagged fields at the end of a Kafka message or struct.

    ``known`` has the name, codec and default value of each known tag. Unknown tags are kept as
    bytes. A field with its default value is left out of the result.
    """

    # As in Kafka, known tags are decoded by their type, and their encoded size is ignored. A field
    # with its default value is left out of the result.
    def read_one(
        reader: ByteReader, values: dict[str, Any], unknown: list[tuple[int, bytes]]
    ) -> None:
        tag = reader.read_varint()
        size = reader.read_varint()
        entry = known.get(tag)
        if entry is None:
            unknown.append((tag, reader.read_bytes(size)))
            return
        name, codec, default = entry
        try:
            value = codec.read(reader)
        except WireFormatError as error:
            error.field = join_path(name, error.field)
            raise error.with_traceback(None) from None
        if value == default:
            values.pop(name, None)
        else:
            values[name] = value

    def read(reader: ByteReader, values: dict[str, Any]) -> None:
        unknown: list[tuple[int, bytes]] = []
        try:
            for _ in range(reader.read_varint()):
                read_one(reader, values, unknown)
        except WireFormatError as error:
            error.field = error.field or UNKNOWN_TAGS
            raise error.with_traceback(None) from None
        if unknown:
            values[UNKNOWN_TAGS] = tuple(unknown)

    return read


def _tags_writer(known: _Tagged) -> Callable[[ByteWriter, Mapping[str, Any]], None]:
    def write(writer: ByteWriter, values: Mapping[str, Any]) -> None:
        payloads: list[tuple[int, bytes]] = []
        for tag, (name, codec, default) in known.items():
            value = values.get(name, default)
            if not _is_default(value, default):
                payload = ByteWriter()
                try:
                    codec.write(payload, value)
                except WireFormatError as error:
                    error.field = join_path(name, error.field)
                    raise
                payloads.append((tag, bytes(payload.buffer)))
        unknown = values.get(UNKNOWN_TAGS, ())
        _check_unknown(writer, unknown, known)
        writer.write_varint(len(payloads) + len(unknown))
        for tag, data in sorted([*payloads, *unknown]):
            writer.write_varint(tag)
            writer.write_varint(len(data))
            writer.raw(data)

    return write


def _is_default(value: Any, default: Any) -> bool:
    # The value may be a list, or a struct with some of its fields.
    if isinstance(value, list):
        return not value and default == ()
    if isinstance(value, Mapping) and isinstance(default, Mapping):
        return value.keys() <= default.keys() and all(
            _is_default(value[name], default[name]) for name in value
        )
    return bool(value == default)


def _check_unknown(writer: ByteWriter, unknown: Any, known: _Tagged) -> None:
    # Kafka requires ascending tags and keeps the given order.
    before = -1
    for tag, data in unknown:
        if tag in known or not isinstance(data, bytes):
            writer.raise_encoding_error(f"tag {tag} is not an unknown tag with bytes")
        if tag <= before:
            writer.raise_encoding_error(f"unknown tag {tag} comes after tag {before}")
        before = tag


# --- strings, bytes and arrays ---------------------------------------------------------------


def _length_writer(
    fixed: Write, *, flexible: bool, nullable: bool
) -> Callable[[ByteWriter, int | None], None]:
    """Return a function that encodes the length of a string, byte array or array.

    In ``flexible`` message versions the length is a varint, otherwise ``fixed`` writes it as an
    integer of fixed width. The length of a null value is None, which only ``nullable`` fields may
    have.
    """

    def write(writer: ByteWriter, length: int | None) -> None:
        if length is None and not nullable:
            writer.raise_encoding_error("null for a field that is not nullable")
        if flexible:
            writer.write_varint(0 if length is None else length + 1)
        else:
            fixed(writer, -1 if length is None else length)

    return write


def _string_codec(*, flexible: bool, nullable: bool) -> Codec:
    write_length = _length_writer(ByteWriter.write_int16, flexible=flexible, nullable=nullable)

    def read_compact(reader: ByteReader) -> str | None:
        length = reader.compact_length()
        if length < 0 and nullable:
            return None
        return reader.read_text(reader.not_null(length))

    def write(writer: ByteWriter, value: Any) -> None:
        data = None if value is None else writer.encode_utf8(value)
        write_length(writer, None if data is None else len(data))
        writer.raw(data or b"")

    if flexible:
        return Codec(read_compact, write)
    return Codec(ByteReader.nullable_string if nullable else ByteReader.read_string, write)


def _bytes_codec(*, flexible: bool, nullable: bool) -> Codec:
    read_length = ByteReader.compact_length if flexible else ByteReader.read_int32
    write_length = _length_writer(ByteWriter.write_int32, flexible=flexible, nullable=nullable)

    def read(reader: ByteReader) -> bytes | None:
        length = read_length(reader)
        if length < 0 and nullable:
            return None
        return reader.read_bytes(reader.not_null(length))

    def write(writer: ByteWriter, value: Any) -> None:
        if not isinstance(value, bytes | bytearray | memoryview | None):
            writer.raise_encoding_error(f"not bytes: {value!r:.80}")
        write_length(writer, None if value is None else len(value))
        writer.raw(bytes(value or b""))

    return Codec(read, write)


def _array_codec(field: Field, layout: _MessageLayout, *, nullable: bool) -> Codec:
    # An empty tuple needs no memory, on which the limit on memory relies.
    read_length = ByteReader.compact_length if layout.flexible else ByteReader.read_int32
    write_length = _length_writer(
        ByteWriter.write_int32, flexible=layout.flexible, nullable=nullable
    )
    element = field.type.removeprefix("[]")
    codec = _SCALARS.get(element) or _element_codec(element, field, layout)
    read_elements = (
        _numbers_reader(*_BULK[element]) if element in _BULK else _elements_reader(codec.read)
    )

    def read(reader: ByteReader) -> tuple[Any, ...] | None:
        length = read_length(reader)
        if length < 0 and nullable:
            return None
        return read_elements(reader, reader.check_array_length(reader.not_null(length)))

    def write(writer: ByteWriter, value: Any) -> None:
        if not isinstance(value, list | tuple | None):
            writer.raise_encoding_error(f"not a list: {value!r:.80}")
        write_length(writer, None if value is None else len(value))
        index = 0
        try:
            for index, one in enumerate(value or ()):  # noqa: B007 - the error names the index
                codec.write(writer, one)
        except WireFormatError as error:
            error.field = join_path(f"[{index}]", error.field)
            raise

    return Codec(read, write)


def _element_codec(element: str, field: Field, layout: _MessageLayout) -> Codec:
    if element == "string":
        return _string_codec(flexible=layout.flexible, nullable=False)
    if element == "bytes":
        return _bytes_codec(flexible=layout.flexible, nullable=False)
    return _struct_codec(field.fields, layout)


def _elements_reader(read_element: Read) -> Callable[[ByteReader, int], tuple[Any, ...]]:
    def read(reader: ByteReader, count: int) -> tuple[Any, ...]:
        elements: list[Any] = []
        try:
            while len(elements) < count:
                elements.append(read_element(reader))
        except WireFormatError as error:
            error.field = join_path(f"[{len(elements)}]", error.field)
            raise error.with_traceback(None) from None
        return tuple(elements)

    return read


def _numbers_reader(code: str, width: int) -> Callable[[ByteReader, int], tuple[Any, ...]]:
    # One call of struct decodes the whole array.
    def read(reader: ByteReader, count: int) -> tuple[Any, ...]:
        start = reader.position
        stop = start + count * width
        if stop > reader.end:
            whole = reader.remaining_bytes // width
            offset = start + whole * width
            what = f"{width} bytes needed, {reader.end - offset} left"
            raise TruncatedError(what, offset=offset, field=f"[{whole}]")
        reader.position = stop
        return struct.unpack_from(f">{count}{code}", reader.data, start)

    return read
