"""From a layout to a reader: one version of a message becomes nested closures, made once.

An error drops its traceback at each level that adds to its path: the path says the same, and the
frames of all levels would take more memory than a short payload is allowed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from partage.errors import WireFormatError
from partage.wire.faults import TruncatedError
from partage.wire.primitives import Reader
from partage.wire.schema import UNKNOWN_TAGS, Field, Message, default_of, versions

__all__ = ["ReadStruct", "joined", "reader_of"]

ReadValue = Callable[[Reader], Any]
ReadStruct = Callable[[Reader], dict[str, Any]]

_SCALARS: dict[str, ReadValue] = {
    "bool": lambda reader: reader.int8() != 0,
    "int8": Reader.int8,
    "int16": Reader.int16,
    "uint16": Reader.uint16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "uuid": Reader.uuid,
}
_BULK: dict[str, tuple[str, int]] = {"int8": ("b", 1), "int16": ("h", 2), "int32": ("i", 4)}


def joined(outer: str, inner: str) -> str:
    """A dotted path of two parts, either of which may be empty; an index needs no dot.

    >>> joined("members", "[2].clientId"), joined("value", ""), joined("a", "b")
    ('members[2].clientId', 'value', 'a.b')
    """
    dot = "." if outer and inner and not inner.startswith("[") else ""
    return f"{outer}{dot}{inner}"


def reader_of(message: Message, version: int) -> ReadStruct:
    """A function that reads the body of ``message`` in ``version`` (no header).

    Its errors have the field's path within the message and no version.
    """
    return _struct_reader(message, message.fields, version)


def _struct_reader(message: Message, fields: tuple[Field, ...], version: int) -> ReadStruct:
    here = [f for f in fields if version in versions(f.versions)]
    plain = [
        (f.key, _value_reader(message, f, f.type, version))
        for f in here
        if version not in versions(f.tagged)
    ]
    if version not in versions(message.flexible):
        return _plain_reader(plain)
    read_tags = _tags_reader(message, [f for f in here if version in versions(f.tagged)], version)
    return _flexible_reader(plain, read_tags)


def _plain_reader(plain: list[tuple[str, ReadValue]]) -> ReadStruct:
    def read(reader: Reader) -> dict[str, Any]:
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, read_value in plain:
                values[name] = read_value(reader)
        except WireFormatError as error:
            error.field = joined(name, error.field)
            raise error.with_traceback(None) from None
        return values

    return read


def _flexible_reader(
    plain: list[tuple[str, ReadValue]], read_tags: Callable[[Reader, dict[str, Any]], None]
) -> ReadStruct:
    read_plain = _plain_reader(plain)

    def read(reader: Reader) -> dict[str, Any]:
        values = read_plain(reader)
        place = reader.position
        if place < reader.end and reader.data[place] == 0:
            reader.position = place + 1
        else:
            read_tags(reader, values)
        return values

    return read


def _tags_reader(
    message: Message, tagged: list[Field], version: int
) -> Callable[[Reader, dict[str, Any]], None]:
    """The tag section: known tags are read as they come, whatever size they claim, as in Kafka.

    A known field that carries its default is left out, like one that was not written.
    """
    known = {
        f.tag: (f.key, _tagged_reader(message, f, version), default_of(message, f, version))
        for f in tagged
    }

    def read_one(reader: Reader, values: dict[str, Any], unknown: list[tuple[int, bytes]]) -> None:
        tag = reader.varint()
        size = reader.varint()
        entry = known.get(tag)
        if entry is None:
            unknown.append((tag, reader.raw(size)))
            return
        name, read_value, default = entry
        try:
            value = read_value(reader)
        except WireFormatError as error:
            error.field = joined(name, error.field)
            raise error.with_traceback(None) from None
        if value == default:
            values.pop(name, None)
        else:
            values[name] = value

    def read(reader: Reader, values: dict[str, Any]) -> None:
        unknown: list[tuple[int, bytes]] = []
        try:
            for _ in range(reader.varint()):
                read_one(reader, values, unknown)
        except WireFormatError as error:
            error.field = error.field or UNKNOWN_TAGS
            raise error.with_traceback(None) from None
        if unknown:
            values[UNKNOWN_TAGS] = tuple(unknown)

    return read


def _tagged_reader(message: Message, field: Field, version: int) -> ReadValue:
    """A tagged field; a nullable struct has a varint before it there, 0 for null."""
    read = _value_reader(message, field, field.type, version, untagged=False)
    if not _is_struct(field.type) or version not in versions(field.nullable):
        return read
    return lambda reader: None if reader.varint() <= 0 else read(reader)


def _is_struct(type_name: str) -> bool:
    return (
        type_name not in _SCALARS and type_name not in ("string", "bytes") and type_name[0] != "["
    )


def _value_reader(
    message: Message, field: Field, type_name: str, version: int, *, untagged: bool = True
) -> ReadValue:
    flexible = version in versions(message.flexible)
    nullable = version in versions(field.nullable)
    if type_name in _SCALARS:
        return _SCALARS[type_name]
    if type_name == "string":
        return _string_reader(flexible=flexible, nullable=nullable)
    if type_name == "bytes":
        return _bytes_reader(flexible=flexible, nullable=nullable)
    if type_name.startswith("[]"):
        return _array_reader(message, field, type_name[2:], version)
    read = _struct_reader(message, message.members_of(field, type_name), version)
    if untagged and nullable:
        return lambda reader: None if reader.int8() < 0 else read(reader)
    return read


def _string_reader(*, flexible: bool, nullable: bool) -> ReadValue:
    if not flexible:
        return Reader.nullable_string if nullable else Reader.string

    def read(reader: Reader) -> str | None:
        length = reader.compact_length()
        if length < 0 and nullable:
            return None
        return reader.text(reader.not_null(length))

    return read


def _bytes_reader(*, flexible: bool, nullable: bool) -> ReadValue:
    length_of = Reader.compact_length if flexible else Reader.int32

    def read(reader: Reader) -> bytes | None:
        length = length_of(reader)
        if length < 0 and nullable:
            return None
        return reader.raw(reader.not_null(length))

    return read


def _array_reader(message: Message, field: Field, element: str, version: int) -> ReadValue:
    """An array, as a tuple: an empty one costs no memory, which the memory bound relies on."""
    length_of = Reader.compact_length if version in versions(message.flexible) else Reader.int32
    nullable = version in versions(field.nullable)
    read_elements = _elements_reader(message, field, element, version)

    def read(reader: Reader) -> tuple[Any, ...] | None:
        length = length_of(reader)
        if length < 0 and nullable:
            return None
        return read_elements(reader, reader.count(reader.not_null(length)))

    return read


def _elements_reader(
    message: Message, field: Field, element: str, version: int
) -> Callable[[Reader, int], tuple[Any, ...]]:
    if element in _BULK:
        return _numbers_reader(*_BULK[element])
    element_field = Field(field.name, element, "0+", fields=field.fields)
    read_element = _value_reader(message, element_field, element, version)

    def read(reader: Reader, count: int) -> tuple[Any, ...]:
        elements: list[Any] = []
        try:
            while len(elements) < count:
                elements.append(read_element(reader))
        except WireFormatError as error:
            error.field = joined(f"[{len(elements)}]", error.field)
            raise error.with_traceback(None) from None
        return tuple(elements)

    return read


def _numbers_reader(code: str, width: int) -> Callable[[Reader, int], tuple[Any, ...]]:
    """Numbers of one width are unpacked at once, after a look at the bytes that they take."""

    def read(reader: Reader, count: int) -> tuple[Any, ...]:
        start = reader.position
        stop = start + count * width
        if stop > reader.end:
            whole = reader.left // width
            at = start + whole * width
            what = f"{width} bytes needed, {reader.end - at} left"
            raise TruncatedError(what, offset=at, field=f"[{whole}]")
        reader.position = stop
        return struct.unpack_from(f">{count}{code}", reader.data, start)

    return read
