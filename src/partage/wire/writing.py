"""From a layout to a writer: the mirror of `reading`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from partage.errors import WireFormatError
from partage.wire.primitives import Writer
from partage.wire.reading import joined
from partage.wire.schema import UNKNOWN_TAGS, Field, Message, default_of, versions

__all__ = ["WriteStruct", "writer_of"]

WriteValue = Callable[[Writer, Any], None]
WriteStruct = Callable[[Writer, Mapping[str, Any]], None]

_SCALARS: dict[str, WriteValue] = {
    "bool": Writer.int8,
    "int8": Writer.int8,
    "int16": Writer.int16,
    "uint16": Writer.uint16,
    "int32": Writer.int32,
    "int64": Writer.int64,
    "uuid": Writer.uuid,
}


def writer_of(message: Message, version: int) -> WriteStruct:
    """A function that appends the body of ``message`` in ``version`` (no header).

    A field that the values lack gets its default; a name that the layout lacks is refused, and so
    is a value other than the default for a field that this version does not have, unless the
    definition calls it ignorable.
    """
    return _struct_writer(message, message.fields, version)


def _struct_writer(message: Message, fields: tuple[Field, ...], version: int) -> WriteStruct:
    flexible = version in versions(message.flexible)
    here = [f for f in fields if version in versions(f.versions)]
    plain = [
        (f.key, _value_writer(message, f, f.type, version), default_of(message, f, version))
        for f in here
        if version not in versions(f.tagged)
    ]
    check = _names_checker(message, fields, version)
    tagged = [f for f in here if version in versions(f.tagged)]
    write_tags = _tags_writer(message, tagged, version) if flexible else None

    def write(writer: Writer, values: Mapping[str, Any]) -> None:
        if not isinstance(values, Mapping):
            writer.refuse(f"not a struct: {values!r:.80}")
        check(writer, values)
        name = ""
        try:
            for name, write_value, default in plain:
                write_value(writer, values.get(name, default))
        except WireFormatError as error:
            error.field = joined(name, error.field)
            raise
        if write_tags is not None:
            write_tags(writer, values)

    return write


def _names_checker(
    message: Message, fields: tuple[Field, ...], version: int
) -> Callable[[Writer, Mapping[str, Any]], None]:
    """Refuses names that the layout does not have, and values that this version cannot carry."""
    known = {f.key for f in fields} | {UNKNOWN_TAGS}
    absent = [
        (f.key, default_of(message, f, version))
        for f in fields
        if version not in versions(f.versions) and not f.ignorable
    ]
    flexible = version in versions(message.flexible)

    def check(writer: Writer, values: Mapping[str, Any]) -> None:
        for name in values:
            if name not in known:
                writer.refuse(f"{message.name} has no field {name!r}")
        for name, default in absent:
            if values.get(name, default) != default:
                writer.refuse(f"version {version} of {message.name} has no field {name!r}")
        if not flexible and values.get(UNKNOWN_TAGS):
            writer.refuse(f"version {version} of {message.name} has no tagged fields")

    return check


def _tags_writer(
    message: Message, tagged: list[Field], version: int
) -> Callable[[Writer, Mapping[str, Any]], None]:
    known = {
        f.tag: (f.key, _tagged_writer(message, f, version), default_of(message, f, version))
        for f in tagged
        if f.tag is not None
    }

    def write(writer: Writer, values: Mapping[str, Any]) -> None:
        payloads: list[tuple[int, bytes]] = []
        for tag, (name, write_value, default) in known.items():
            value = values.get(name, default)
            if not _same(value, default):
                payload = Writer()
                try:
                    write_value(payload, value)
                except WireFormatError as error:
                    error.field = joined(name, error.field)
                    raise
                payloads.append((tag, bytes(payload.buffer)))
        unknown = values.get(UNKNOWN_TAGS, ())
        _check_unknown(writer, unknown, known)
        writer.varint(len(payloads) + len(unknown))
        for tag, data in sorted([*payloads, *unknown]):
            writer.varint(tag)
            writer.varint(len(data))
            writer.raw(data)

    return write


def _same(value: Any, default: Any) -> bool:
    """Whether a tagged value is its default; lists and left-out fields are understood."""
    if isinstance(value, list):
        return not value and default == ()
    if isinstance(value, Mapping) and isinstance(default, Mapping):
        return value.keys() <= default.keys() and all(
            _same(value[name], default[name]) for name in value
        )
    return bool(value == default)


def _check_unknown(writer: Writer, unknown: Any, known: Mapping[int, object]) -> None:
    """Kafka writes unknown tags as they came, and refuses them unless they ascend."""
    before = -1
    for tag, data in unknown:
        if tag in known or not isinstance(data, bytes):
            writer.refuse(f"tag {tag} is not an unknown tag with bytes")
        if tag <= before:
            writer.refuse(f"unknown tag {tag} comes after tag {before}")
        before = tag


def _tagged_writer(message: Message, field: Field, version: int) -> WriteValue:
    write = _value_writer(message, field, field.type, version, untagged=False)
    if not _is_struct(field.type) or version not in versions(field.nullable):
        return write

    def write_nullable(writer: Writer, value: Any) -> None:
        writer.varint(0 if value is None else 1)
        if value is not None:
            write(writer, value)

    return write_nullable


def _is_struct(type_name: str) -> bool:
    return (
        type_name not in _SCALARS and type_name not in ("string", "bytes") and type_name[0] != "["
    )


def _value_writer(
    message: Message, field: Field, type_name: str, version: int, *, untagged: bool = True
) -> WriteValue:
    flexible = version in versions(message.flexible)
    nullable = version in versions(field.nullable)
    if type_name in _SCALARS:
        return _SCALARS[type_name]
    if type_name == "string":
        return _string_writer(flexible=flexible, nullable=nullable)
    if type_name == "bytes":
        return _bytes_writer(flexible=flexible, nullable=nullable)
    if type_name.startswith("[]"):
        return _array_writer(message, field, type_name[2:], version)
    write = _struct_writer(message, message.members_of(field, type_name), version)
    if not (untagged and nullable):
        return write

    def write_nullable(writer: Writer, value: Any) -> None:
        writer.int8(-1 if value is None else 1)
        if value is not None:
            write(writer, value)

    return write_nullable


def _length_writer(fixed: WriteValue, *, flexible: bool, nullable: bool) -> WriteValue:
    """Writes a length, or null for None."""

    def write(writer: Writer, length: int | None) -> None:
        if length is None and not nullable:
            writer.refuse("null for a field that is not nullable")
        if flexible:
            writer.varint(0 if length is None else length + 1)
        else:
            fixed(writer, -1 if length is None else length)

    return write


def _string_writer(*, flexible: bool, nullable: bool) -> WriteValue:
    write_length = _length_writer(Writer.int16, flexible=flexible, nullable=nullable)

    def write(writer: Writer, value: Any) -> None:
        data = None if value is None else writer.utf8(value)
        write_length(writer, None if data is None else len(data))
        writer.raw(data or b"")

    return write


def _bytes_writer(*, flexible: bool, nullable: bool) -> WriteValue:
    write_length = _length_writer(Writer.int32, flexible=flexible, nullable=nullable)

    def write(writer: Writer, value: Any) -> None:
        if not isinstance(value, bytes | bytearray | memoryview | None):
            writer.refuse(f"not bytes: {value!r:.80}")
        write_length(writer, None if value is None else len(value))
        writer.raw(bytes(value or b""))

    return write


def _array_writer(message: Message, field: Field, element: str, version: int) -> WriteValue:
    flexible = version in versions(message.flexible)
    nullable = version in versions(field.nullable)
    write_length = _length_writer(Writer.int32, flexible=flexible, nullable=nullable)
    element_field = Field(field.name, element, "0+", fields=field.fields)
    write_element = _value_writer(message, element_field, element, version)

    def write(writer: Writer, value: Any) -> None:
        if not isinstance(value, list | tuple | None):
            writer.refuse(f"not a list: {value!r:.80}")
        write_length(writer, None if value is None else len(value))
        place = 0
        try:
            for place, one in enumerate(value or ()):  # noqa: B007 - the place is for the error
                write_element(writer, one)
        except WireFormatError as error:
            error.field = joined(f"[{place}]", error.field)
            raise

    return write
