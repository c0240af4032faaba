r"""Claims in the user data of the clients' sticky assignors: encoding, decoding and memory.

A claim is a partition that a member says it owned. The body is Kafka's ``StickyAssignorUserData``
version 1: topics with their partitions, then the generation. aiokafka and librdkafka send the body,
as Java does. kafka-python 3.0 sends the version in front of it as an int16. Java takes these two
bytes for the start of the topic count, so neither client decodes the other's claims; kafka-python
takes the first two bytes of a Java member's user data for version 0 and decodes a wrong count after
them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from partage.errors import InvalidConfigError
from partage.groups.api import PlainStrategy
from partage.groups.dialects.problem import PeerAssignorError
from partage.model import NO_GENERATION, Assignment
from partage.wire.codec import encode
from partage.wire.consumer_protocol import STICKY_ASSIGNOR_USER_DATA

__all__ = [
    "Claims", "LastAssignment", "RemembersAssignment", "decode_claims", "encode_claims",
]  # fmt: skip

#: Claimed (topic or None, partition number) pairs in the order sent, and their generation.
Claims = tuple[Sequence[tuple["str | None", int]], int]


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """State of a consumer with a sticky assignor: its last partitions and their generation.

    The consumer reports it when it joins again.

    >>> LastAssignment((("t", 0),), 3).generation
    3
    """

    partitions: tuple[tuple[str, int], ...]
    generation: int = NO_GENERATION

    @classmethod
    def check_memory(cls, memory: object) -> LastAssignment | None:
        """Check that a value is the stored state of a sticky assignor, and return it.

        None is accepted, too; it is the state of a consumer before its first rebalance.

        Raises:
            InvalidConfigError: another assignor stored the state.
        """
        if memory is None or isinstance(memory, cls):
            return memory
        what = "must be the value that on_assignment of this strategy returned"
        raise InvalidConfigError("memory", what, memory)


class RemembersAssignment(PlainStrategy):
    """Base class of assignors whose consumers report their last assignment as user data.

    Such a consumer stores its assignment after each rebalance and sends it when it joins again.
    Sticky assignors use it to leave partitions where they are.
    """

    #: Whether the user data begins with the version as int16, as kafka-python's does.
    version_first: bool = False
    #: Whether each topic is written once; librdkafka writes a topic again where another one
    #: stands between its partitions.
    merges_topics: bool = True

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes:
        """Encode the partitions that a consumer owned last, and their generation, as user data.

        The consumer sends them when it joins its group, so that the leader can leave partitions
        where they are.

        Args:
            topics: the subscribed topics; not used.
            memory: the consumer's last assignment; without one the result is b"".
        """
        last = LastAssignment.check_memory(memory)
        if last is None:
            return b""
        return encode_claims(
            last.partitions,
            last.generation,
            version_first=self.version_first,
            merge_topics=self.merges_topics,
        )

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> LastAssignment:
        """Return the state that a consumer stores until the next rebalance.

        It consists of the consumer's new partitions and their generation, which it reports when it
        joins again.

        Args:
            assignment: the partitions that the consumer got.
            user_data: ignored.
            generation: the group's generation.
            memory: ignored.
        """
        pairs = tuple(pair for owned in assignment.to_pairs().values() for pair in owned)
        return LastAssignment(pairs, generation)


def encode_claims(
    partitions: Iterable[tuple[str, int]],
    generation: int,
    *,
    version_first: bool,
    merge_topics: bool = True,
) -> bytes:
    r"""Encode a consumer's owned partitions and their generation as user data of a sticky assignor.

    The format is that of Kafka's ``StickyAssignor``. In kafka-python's variant, a version number
    comes first.

    Args:
        partitions: (topic, partition number) pairs.
        generation: the generation of the assignment.
        version_first: whether to write kafka-python's format, which begins with the version.
        merge_topics: whether to write each topic once, in order of its first partition.

    Raises:
        EncodingError: a value does not fit its field.

    >>> encode_claims([("t", 2)], 5, version_first=True).hex(" ", 4)
    '00 01000000 01000174 00000001 00000002 00000005'
    """
    # Each run of one topic; a stable sort by first occurrence joins the runs of a topic.
    pairs = list(partitions)
    if merge_topics:
        first = {topic: i for i, topic in enumerate(dict.fromkeys(t for t, _ in pairs))}
        pairs.sort(key=lambda pair: first[pair[0]])
    runs = groupby(pairs, key=lambda pair: pair[0])
    values = {
        "previousAssignment": [
            {"topic": topic, "partitions": [number for _, number in run]} for topic, run in runs
        ],
        "generation": generation,
    }
    body = encode(STICKY_ASSIGNOR_USER_DATA, values, version=1, path="userData")
    return b"\0\1" + body if version_first else body


def decode_claims(data: bytes | None, *, version_first: bool) -> Claims:
    r"""Decode a consumer's owned partitions and their generation from its user data.

    The format is that of Kafka's ``StickyAssignor``; kafka-python writes a version in front of it.
    Malformed bytes give no partitions and generation -1, as in the Python clients.

    Args:
        data: the user data as sent.
        version_first: whether to decode kafka-python's format, which begins with the version.

    Raises:
        PeerAssignorError: a list is null, on which the Python client fails.

    >>> decode_claims(b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\2\0\0\0\5", version_first=False)
    ([('t', 2)], 5)
    """
    if not data:
        return [], NO_GENERATION
    reader = _LenientReader(data)
    try:
        version = reader.integer(2) if version_first else 1
        topics = _read_topics(reader) if version >= 0 else []
        generation = reader.integer(4) if version >= 1 else NO_GENERATION
    except _UnreadableError:
        return [], NO_GENERATION
    if topics is None or any(numbers is None for _, numbers in topics):
        raise PeerAssignorError("user data with a null list (TypeError)", "TypeError")
    return [(topic, p) for topic, numbers in topics for p in numbers or ()], generation


def _read_topics(reader: _LenientReader) -> list[tuple[str | None, list[int] | None]] | None:
    count = reader.integer(4)
    if count == -1:
        return None
    # The bytes bound the loop whatever the count says: each topic takes six bytes at least.
    return [(reader.string(), reader.int32_list()) for _ in range(count)]


class _UnreadableError(Exception):
    """Raised if the user data of a sticky assignor end too early or have a topic name that is not
    UTF-8.

    The consumer is then treated as one without previous partitions.
    """


class _LenientReader:
    """Decoder of a sticky assignor's user data that is as tolerant as the Python clients.

    A negative length means null, and trailing bytes are ignored.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def integer(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def string(self) -> str | None:
        # The length is an int16; a negative one means null.
        length = self.integer(2)
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise _UnreadableError from None

    def int32_list(self) -> list[int] | None:
        count = self.integer(4)
        if count == -1:
            return None
        data = self._take(4 * max(count, 0))
        return [number for (number,) in struct.iter_unpack(">i", data)]

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._position:
            raise _UnreadableError
        self._position += size
        return self._data[self._position - size : self._position]
