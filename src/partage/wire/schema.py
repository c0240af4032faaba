"""Message layouts as data, in the terms of Kafka's own schema language.

A `Message` says what its JSON definition in Kafka's jars says (``common/message/*.json``): name,
valid and flexible versions, fields with type, versions, nullability, tag and default. The words
mean what they mean there; ``tests/unit/wire/test_schema_drift.py`` compares the two. `codec`
turns one version of a message into a reader and a writer.

Types: ``bool int8 int16 uint16 int32 int64 uuid string bytes``, the name of a struct, and ``[]``
before any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

__all__ = ["NOT_GIVEN", "UNKNOWN_TAGS", "Field", "Message", "Versions", "default_of", "versions"]

UNKNOWN_TAGS: Final = "_unknownTaggedFields"
"""Key under which a decoded struct keeps tagged fields that its layout does not know, as pairs
``(tag, bytes)`` in the order of arrival; absent when there are none."""


class _NotGiven:
    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final = _NotGiven()
"""A field's ``default`` that its definition does not give: zero, empty, or an empty struct."""

_ZERO: Final[dict[str, Any]] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "int64": 0,
    "uuid": "A" * 22,
    "string": "",
    "bytes": b"",
}


@dataclass(frozen=True)
class Versions:
    """A closed range of versions, empty when ``lowest > highest``."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest


@lru_cache(maxsize=64)
def versions(text: str) -> Versions:
    """Parse Kafka's notation of versions.

    >>> versions("2+").lowest, 3 in versions("0-4"), 1 in versions("none"), 1 in versions("1")
    (2, True, False, True)
    """
    if text == "none":
        return Versions(0, -1)
    if text.endswith("+"):
        return Versions(int(text[:-1]), 0x7FFF)
    lowest, _, highest = text.partition("-")
    return Versions(int(lowest), int(highest or lowest))


@dataclass(frozen=True, eq=False)
class Field:
    """One field of a struct.

    ``default`` is what the definition says: a number, ``"null"`` (null), or None for a JSON null
    literal. The last is a trap: Kafka's generator takes it for "not given", so that the default is
    an empty struct or array and not null (quirk Q14).
    """

    name: str
    type: str
    versions: str
    nullable: str = "none"
    tag: int | None = None
    tagged: str = "none"
    default: object = NOT_GIVEN
    ignorable: bool = False
    zero_copy: bool = False
    fields: tuple[Field, ...] = ()

    @property
    def key(self) -> str:
        """The name in decoded values and in Kafka's JSON: the first letter is small."""
        return self.name[0].lower() + self.name[1:]


@dataclass(frozen=True, eq=False)
class Message:
    """The layout of a message in all its versions.

    ``kind`` is ``coordinator-key``, ``coordinator-value`` (then ``api_key`` is the record type) or
    ``data``, or ``metadata`` (a record of the metadata log, by its ``api_key``); ``structs`` are
    those that fields refer to by name.
    """

    name: str
    kind: str
    valid: str
    flexible: str
    fields: tuple[Field, ...]
    api_key: int | None = None
    structs: tuple[Field, ...] = ()

    @property
    def valid_versions(self) -> Versions:
        """The versions that can be read and written."""
        return versions(self.valid)

    def members_of(self, field: Field, type_name: str) -> tuple[Field, ...]:
        """Fields of the struct ``type_name``: those declared in ``field``, or the common ones."""
        if field.fields:
            return field.fields
        for struct in self.structs:
            if struct.name == type_name:
                return struct.fields
        raise LookupError(f"{self.name}.{field.name}: no struct {type_name}")


def default_of(message: Message, field: Field, version: int) -> Any:
    """The value that Kafka gives ``field`` where the bytes do not have it.

    >>> default_of(Message("M", "data", "0", "none", ()), Field("x", "int32", "0+", default=-1), 0)
    -1
    """
    if field.default == "null":
        return None
    if field.type.startswith("[]"):
        return ()
    if field.type not in _ZERO:
        members = message.members_of(field, field.type)
        return {
            member.key: default_of(message, member, version)
            for member in members
            if version in versions(member.versions) and version not in versions(member.tagged)
        }
    if field.default is NOT_GIVEN or field.default is None:
        return _ZERO[field.type]
    zero = _ZERO[field.type]
    if isinstance(zero, bool):
        return str(field.default) == "true"
    return int(str(field.default)) if isinstance(zero, int) else field.default
