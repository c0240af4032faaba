"""Message layouts in the terms of Kafka's schema language.

`Message` and `Field` hold what a JSON message definition of Kafka says (``common/message/*.json``
in its jars). `parse_message` makes them of such a document, `messages` has the documents, and
`codec` turns one version of a message into functions that read and write it.

Types: ``bool int8 int16 uint16 int32 int64 uuid string bytes``, the name of a struct, and ``[]``
before any of them. Kafka's schema language has no name for the two strings that a Java
``DataOutputStream`` writes: here they are ``modifiedUtf8`` (``writeUTF``) and ``utf16``
(``writeChars``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

__all__ = [
    "UNKNOWN_TAGS", "Field", "Message", "Versions", "default_value", "parse_message",
    "parse_versions",
]  # fmt: skip

UNKNOWN_TAGS: Final = "_unknownTaggedFields"
"""Key of the tagged fields that a layout does not know, in a decoded struct: pairs ``(tag, bytes)``
in the order of arrival. The key is absent if there are none."""

_HIGHEST_VERSION: Final = 0x7FFF
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
    "modifiedUtf8": "",
    "utf16": None,
}


@dataclass(frozen=True)
class Versions:
    """A range of message versions, such as 2 to 4, with both ends included.

    The range is empty if ``lowest`` is above ``highest``.
    """

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __str__(self) -> str:
        return f"{self.lowest}-{self.highest}" if self.lowest != self.highest else f"{self.lowest}"


@lru_cache(maxsize=64)
def parse_versions(text: str) -> Versions:
    """Parse a range of versions in Kafka's notation, such as ``2+``, ``0-4`` or ``none``.

    >>> parse_versions("2+").lowest, 3 in parse_versions("0-4"), 1 in parse_versions("none")
    (2, True, False)
    """
    if text == "none":
        return Versions(0, -1)
    if text.endswith("+"):
        return Versions(int(text[:-1]), _HIGHEST_VERSION)
    lowest, _, highest = text.partition("-")
    return Versions(int(lowest), int(highest or lowest))


@dataclass(frozen=True, eq=False)
class Field:
    """A field of a Kafka message, as Kafka's JSON message definition declares it.

    Attributes:
        name: the name in decoded values and in Kafka's JSON; its first letter is lower case.
        type: Kafka's name of the type, such as ``int32`` or ``[]string``.
        versions: versions of the message that have the field.
        nullable: versions in which its value may be null.
        tagged: versions in which it is a tagged field, with number ``tag``.
        default: the value if the bytes do not have the field. Kafka's generator takes the JSON
            literal null for "not given", so that the default is an empty struct or array (quirk
            Q14). The text ``"null"`` means null.
        ignorable: whether a value may be dropped in a version that does not have the field.
        fields: the fields of its struct, or of each element of its array.
    """

    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: object
    ignorable: bool
    fields: tuple[Field, ...]


@dataclass(frozen=True, eq=False)
class Message:
    """The layout of a Kafka message in all its versions, from Kafka's JSON message definition.

    Decoders and encoders of each version are built from it.

    Attributes:
        name: Kafka's name of the message.
        kind: ``coordinator-key`` or ``coordinator-value`` (a record of a group),
            ``metadata`` (a record of the metadata log) or ``data``.
        api_key: the number of the record type; None for ``data``.
        versions: versions that can be read and written.
        flexible: versions with compact lengths and tagged fields.
        fields: the fields in the order of the bytes.
    """

    name: str
    kind: str
    api_key: int | None
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


def parse_message(document: Mapping[str, Any]) -> Message:
    """Convert Kafka's JSON definition of a message to a `Message` object.

    Kafka's jars contain such definitions.

    Raises:
        LookupError: a field's type is neither a type of Kafka nor declared in the document.
    """
    structs = {struct["name"]: struct["fields"] for struct in document.get("commonStructs", ())}
    return Message(
        name=document["name"],
        kind=document["type"],
        api_key=document.get("apiKey"),
        versions=parse_versions(document["validVersions"]),
        flexible=parse_versions(document["flexibleVersions"]),
        fields=_parse_fields(document["fields"], structs),
    )


def _parse_fields(
    documents: Sequence[Mapping[str, Any]], structs: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[Field, ...]:
    # The fields of a struct are inline, or declared in ``structs``.
    fields = []
    for document in documents:
        name, element = document["name"], document["type"].removeprefix("[]")
        inner = document.get("fields") or (() if element in _ZERO else structs[element])
        fields.append(
            Field(
                name=name[0].lower() + name[1:],
                type=document["type"],
                # LastAssignmentConfigs of StreamsGroupMetadataValue has no versions: all have it.
                versions=parse_versions(document.get("versions", "0+")),
                nullable=parse_versions(document.get("nullableVersions", "none")),
                tagged=parse_versions(document.get("taggedVersions", "none")),
                tag=document.get("tag"),
                default=document.get("default"),
                ignorable=document.get("ignorable", False),
                fields=_parse_fields(inner, structs),
            )
        )
    return tuple(fields)


def default_value(field: Field, version: int) -> Any:
    """Return the default value of a field of a Kafka message, used if the bytes lack the field.

    ``version`` is the message version, which decides the fields of a struct.

    >>> document = {"name": "x", "type": "int32", "default": "-1"}
    >>> default_value(_parse_fields([document], {})[0], version=0)
    -1
    """
    if field.default == "null":
        return None
    if field.type.startswith("[]"):
        return ()
    if field.type not in _ZERO:
        return {
            member.name: default_value(member, version)
            for member in field.fields
            if version in member.versions and version not in member.tagged
        }
    zero = _ZERO[field.type]
    if field.default is None:
        return zero
    if isinstance(zero, bool):
        return str(field.default) == "true"
    return int(str(field.default)) if isinstance(zero, int) else field.default
