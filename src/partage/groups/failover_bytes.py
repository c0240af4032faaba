r"""What a member of a failover group says about itself: its priority, as user data.

The documented format is an int32, big-endian: 4 bytes, nothing else. Ours for priorities per
topic begins with those same 4 bytes, so that a reader of the documented kind that looks at no
more than an int32 still sees the general priority:

    int32  priority       of all topics that are not listed
    int32  marker         0x50464f31, "PFO1": format and its version in one
    array  of { string topic, int32 priority }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from partage.errors import WireFormatError
from partage.wire.codec import decode, encode
from partage.wire.primitives import Reader
from partage.wire.schema import Field, Message

__all__ = ["DEFAULT_PRIORITY", "LOWEST", "Priorities", "read_priorities", "write_priorities"]

#: Of a member whose configuration has no priority (the document's ``Integer.MAX_VALUE``).
DEFAULT_PRIORITY = 2**31 - 1
#: Of a member whose user data cannot be read: below everyone who has a priority.
LOWEST = -(2**31) - 1
_MARKER = 0x50464F31

_USER_DATA = Message(
    "FailoverUserData",
    kind="data",
    valid="0-1",
    flexible="none",
    fields=(
        Field("priority", "int32", "0+"),
        Field("marker", "int32", "1+", default=_MARKER, ignorable=True),
        Field(
            "topics",
            "[]TopicPriority",
            "1+",
            ignorable=True,
            fields=(Field("topic", "string", "0+"), Field("priority", "int32", "0+")),
        ),
    ),
)


@dataclass(frozen=True)
class Priorities:
    """A member's priority, and those that it has for single topics.

    >>> Priorities(5, {"orders": 9}).of("orders"), Priorities(5).of("orders")
    (9, 5)
    """

    general: int = DEFAULT_PRIORITY
    by_topic: Mapping[str, int] = field(default_factory=dict, hash=False)

    def of(self, topic: str) -> int:
        """The priority that decides about a topic."""
        return self.by_topic.get(topic, self.general)


def write_priorities(priorities: Priorities) -> bytes:
    r"""The documented 4 bytes, or our extension where topics have priorities of their own.

    >>> write_priorities(Priorities(10))
    b'\x00\x00\x00\n'
    """
    values: dict[str, object] = {"priority": priorities.general}
    if not priorities.by_topic:
        return encode(_USER_DATA, values, version=0, path="userData")
    by_topic = sorted(priorities.by_topic.items())
    values["topics"] = [{"topic": t, "priority": p} for t, p in by_topic]
    return encode(_USER_DATA, values, version=1, path="userData")


def read_priorities(data: bytes | None) -> tuple[Priorities, str | None]:
    r"""The priorities in user data, and what is wrong with it (None: nothing).

    Null, short and long data, and an extension that is none, mean the lowest priority:
    a member whose setting cannot be read must not take everything.

    >>> read_priorities(b"\0\0\0\x0a")
    (Priorities(general=10, by_topic={}), None)
    >>> read_priorities(b"\0")[1]
    'has 1 byte of user data where 4 are due'
    """
    if data is None:
        return Priorities(LOWEST), "has no user data"
    if len(data) == 4:
        return Priorities(int.from_bytes(data, "big", signed=True)), None
    by_topic = _extension(data)
    if by_topic is None:
        unit = "byte" if len(data) == 1 else "bytes"
        return Priorities(LOWEST), f"has {len(data)} {unit} of user data where 4 are due"
    return Priorities(int.from_bytes(data[:4], "big", signed=True), by_topic), None


def _extension(data: bytes) -> dict[str, int] | None:
    reader = Reader(data)
    try:
        values = decode(_USER_DATA, reader, version=1)
    except WireFormatError:
        return None
    if values["marker"] != _MARKER or reader.position != len(data):
        return None
    return {one["topic"]: one["priority"] for one in values["topics"]}
