r"""The claims that the Python clients' sticky assignors send as user data.

The body is that of Kafka's ``StickyAssignorUserData`` version 1: topics with their partitions,
then the generation. aiokafka sends just this, as Java does; kafka-python (3.0) puts the
version in front as an int16, so neither it nor Java can read the other's claims: of a Java
member's bytes it takes the first two for version 0 and a wrong count after them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from partage.groups.dialects.refusals import PeerRefusal
from partage.model import NO_GENERATION
from partage.wire.codec import encode
from partage.wire.messages import STICKY_ASSIGNOR_USER_DATA

__all__ = ["Claims", "claims_of", "user_data_of"]

#: (topic or None, partition) pairs in the order sent, and their generation.
Claims = tuple[Sequence[tuple["str | None", int]], int]


class _Unreadable(Exception):  # noqa: N818 - never leaves this file
    """The bytes end too early, or a name is no UTF-8: the class goes on as without claims."""


class _Lenient:
    """Reads as the clients do: a negative length is null, what is left over does not matter."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def text(self) -> str | None:
        length = self.number(2)
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise _Unreadable from None

    def int32s(self) -> list[int] | None:
        count = self.number(4)
        if count == -1:
            return None
        data = self._take(4 * max(count, 0))
        return [one for (one,) in struct.iter_unpack(">i", data)]

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise _Unreadable
        self._at += size
        return self._data[self._at - size : self._at]


def claims_of(data: bytes | None, *, version_first: bool) -> Claims:
    r"""What a member claims; nothing, of generation -1, where the bytes cannot be read.

    Args:
        data: the user data as sent.
        version_first: kafka-python's form.

    Raises:
        PeerRefusal: a list is null: read without error, and then the class cannot loop over it.

    >>> claims_of(b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\2\0\0\0\5", version_first=False)
    ([('t', 2)], 5)
    """
    if not data:
        return [], NO_GENERATION
    reader = _Lenient(data)
    try:
        version = reader.number(2) if version_first else 1
        groups = _groups(reader) if version >= 0 else []
        generation = reader.number(4) if version >= 1 else NO_GENERATION
    except _Unreadable:
        return [], NO_GENERATION
    if groups is None or any(numbers is None for _, numbers in groups):
        raise PeerRefusal("user data with a null list (TypeError)", "TypeError")
    return [(topic, p) for topic, numbers in groups for p in numbers or ()], generation


def _groups(reader: _Lenient) -> list[tuple[str | None, list[int] | None]] | None:
    count = reader.number(4)
    if count == -1:
        return None
    # A lying count ends with the bytes: each turn takes six of them at least.
    return [(reader.text(), reader.int32s()) for _ in range(count)]


def user_data_of(
    partitions: Iterable[tuple[str, int]], generation: int, *, version_first: bool
) -> bytes:
    r"""The bytes of a member's claims, topics in order of their first partition.

    Raises:
        EncodingError: a value does not fit.

    >>> user_data_of([("t", 2)], 5, version_first=True).hex(" ", 4)
    '00 01000000 01000174 00000001 00000002 00000005'
    """
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    values = {
        "previousAssignment": [{"topic": t, "partitions": p} for t, p in by_topic.items()],
        "generation": generation,
    }
    body = encode(STICKY_ASSIGNOR_USER_DATA, values, version=1, path="userData")
    return b"\0\1" + body if version_first else body
