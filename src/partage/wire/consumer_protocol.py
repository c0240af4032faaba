"""The consumer protocol of classic groups: a member's subscription and its assignment.

Exact to ``ConsumerProtocol`` of Kafka 4.3.1: an int16 version and a body. Versions above 3 are read
and written as 3, those below 0 are errors; bytes after the body never are. A subscription's topics
and owned partitions are sorted when written, an assignment's partitions are not (Q21).

User data of Kafka's ``StickyAssignor`` (4.3.1) has the partitions that a member claims. Its bytes
have no version number: version 1 ends with the generation, version 0 has none, and a reader tries
the newer first. Topics are in the order of the Java map that grouped them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from partage.errors import WireFormatError
from partage.java.hash_order import hash_set_order
from partage.java.strings import string_hash, string_order_key
from partage.wire.codec import encode, message_codec, set_location
from partage.wire.errors import EncodingError, TruncatedError, UnsupportedVersionError
from partage.wire.messages import load_message
from partage.wire.primitives import ByteReader
from partage.wire.schema import Message

__all__ = [
    "CONSUMER_PROTOCOL_ASSIGNMENT",
    "CONSUMER_PROTOCOL_SUBSCRIPTION",
    "FAUST_VERSION",
    "HIGHEST_VERSION",
    "STICKY_ASSIGNOR_USER_DATA",
    "ConsumerAssignment",
    "ConsumerSubscription",
    "Embedded",
    "StickyClaims",
    "TopicPartition",
    "decode_assignment",
    "decode_sticky_user_data",
    "decode_subscription",
    "encode_assignment",
    "encode_sticky_user_data",
    "encode_subscription",
    "read_embedded",
    "read_recorded_subscription",
]

CONSUMER_PROTOCOL_ASSIGNMENT = load_message("ConsumerProtocolAssignment")
CONSUMER_PROTOCOL_SUBSCRIPTION = load_message("ConsumerProtocolSubscription")
HIGHEST_VERSION = 3
#: Version in the headers of Faust's subscriptions and assignments; Kafka's end with 3.
FAUST_VERSION = 4
_FAUST_HEADER = FAUST_VERSION.to_bytes(2, "big")

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class ConsumerSubscription:
    """The decoded subscription of a group member, which its consumer sends when it joins.

    The leader of a classic group assigns partitions by these subscriptions.

    Attributes:
        topics: the subscribed topics.
        user_data: the assignment strategy's own bytes.
        owned: owned (topic, partition) pairs, with order and duplicates as sent.
        generation: the generation of ``owned``; None if the member sends none.
        rack: the member's rack; None if it sends none.
        version: the version in the header.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    rack: str | None = None
    version: int = HIGHEST_VERSION


@dataclass(frozen=True)
class ConsumerAssignment:
    """The decoded assignment of a group member, which the group's leader sends.

    ``partitions`` are (topic, partition) pairs in the leader's order; duplicates are kept.
    ``user_data`` are the assignment strategy's own bytes.
    """

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None
    version: int = HIGHEST_VERSION


class Embedded(NamedTuple):
    """A decoded subscription or assignment, which was a bytes field of another Kafka message.

    Group records and JoinGroup requests have such fields.

    Attributes:
        version: the version in the embedded header.
        data: the decoded fields.
        trailing: the number of bytes after the last field.
    """

    version: int
    data: dict[str, Any]
    trailing: int


def _unsupported(message: Message, version: int) -> UnsupportedVersionError:
    what, field = "versions below 0 are not supported", f"{message.name}.version"
    return UnsupportedVersionError(what, offset=0, field=field, version=version)


def read_embedded(message: Message, data: bytes, *, version: int | None = None) -> Embedded:
    r"""Decode a member's subscription or assignment to its version and a dict of raw fields.

    Args:
        message: layout of the subscription or assignment.
        data: bytes of the subscription or assignment.
        version: version of the bytes if they have no header; None reads it from the header.

    Raises:
        WireFormatError: the bytes are not this message.

    >>> read_embedded(CONSUMER_PROTOCOL_ASSIGNMENT, b"\0\3\0\0\0\0\xff\xff\xff\xff!")
    Embedded(version=3, data={'assignedPartitions': (), 'userData': None}, trailing=1)
    """
    reader = ByteReader(data)
    if version is None:
        if reader.remaining_bytes < 2:
            what, field = (
                f"2 bytes needed, {reader.remaining_bytes} left",
                f"{message.name}.version",
            )
            raise TruncatedError(what, offset=0, field=field)
        version = reader.read_int16()
    if version < 0:
        raise _unsupported(message, version)
    layout = min(version, HIGHEST_VERSION)
    try:
        fields = message_codec(message, layout).read(reader)
    except WireFormatError as error:
        set_location(error, message.name, layout)
        raise error.with_traceback(None) from None  # see `codec`
    return Embedded(version, fields, reader.remaining_bytes)


def read_recorded_subscription(data: bytes) -> Embedded:
    r"""Decode a subscription from a record of ``__consumer_offsets``, even if a Faust worker sent
    it.

    Faust writes version 4 into the header, followed by the fields of version 0. Such bytes end with
    the user data, where Kafka's layout continues with owned partitions. `decode_subscription`
    raises an error for Faust's bytes, as Kafka's class does.

    Raises:
        WireFormatError: the bytes are not a subscription.

    >>> read_recorded_subscription(b"\0\4\0\0\0\1\0\1t\xff\xff\xff\xff")
    Embedded(version=4, data={'topics': ('t',), 'userData': None}, trailing=0)
    """
    message = CONSUMER_PROTOCOL_SUBSCRIPTION
    try:
        return read_embedded(message, data)
    except WireFormatError:
        if data[:2] != _FAUST_HEADER:
            raise
        try:
            found = read_embedded(message, data[2:], version=0)
        except WireFormatError:
            found = None
        if found is None or found.trailing:
            raise
        return found._replace(version=FAUST_VERSION)


def decode_subscription(data: bytes, *, version: int | None = None) -> ConsumerSubscription:
    r"""Decode the bytes of a group member's subscription (consumer protocol, versions 0 to 3).

    ``version`` is needed only for bytes without a header. A negative generation and an empty rack
    become None, as in Kafka.

    Raises:
        WireFormatError: the bytes are not a subscription.

    >>> decode_subscription(b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff").topics
    ('t',)
    """
    header, fields, _ = read_embedded(CONSUMER_PROTOCOL_SUBSCRIPTION, data, version=version)
    generation = fields.get("generationId", -1)
    return ConsumerSubscription(
        topics=fields["topics"],
        user_data=fields["userData"],
        owned=_flat(fields.get("ownedPartitions", ())),
        generation=generation if generation >= 0 else None,
        rack=fields.get("rackId") or None,
        version=header,
    )


def decode_assignment(data: bytes, *, version: int | None = None) -> ConsumerAssignment:
    r"""Decode the bytes of a group member's assignment (consumer protocol, versions 0 to 3).

    ``version`` is needed only for bytes without a header.

    Raises:
        WireFormatError: the bytes are not an assignment.

    >>> decode_assignment(b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\7\xff\xff\xff\xff").partitions
    (('t', 7),)
    """
    header, fields, _ = read_embedded(CONSUMER_PROTOCOL_ASSIGNMENT, data, version=version)
    return ConsumerAssignment(_flat(fields["assignedPartitions"]), fields["userData"], header)


def encode_subscription(
    topics: Iterable[str],
    *,
    user_data: bytes | None = None,
    owned: Iterable[TopicPartition] = (),
    generation: int | None = None,
    rack: str | None = None,
    version: int = HIGHEST_VERSION,
) -> bytes:
    r"""Encode a group member's subscription, byte for byte as Kafka's Java consumer does.

    Topics and owned partitions are sorted. Fields that the ``version`` lacks are left out.

    Args:
        topics: the subscribed topics.
        user_data: the assignment strategy's own bytes.
        owned: owned (topic, partition) pairs.
        generation: the generation in which they were owned.
        rack: the member's rack.
        version: version of the message.

    Raises:
        UnsupportedVersionError: ``version`` is below 0.
        EncodingError: a value does not fit.

    >>> encode_subscription(["t"], version=0)
    b'\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff'
    """
    try:
        names = sorted(topics, key=string_order_key)
        claims = sorted(owned, key=lambda claim: (string_order_key(claim[0]), claim[1]))
    except (TypeError, AttributeError, LookupError) as error:
        what = f"topics are strings, owned are (topic, partition) pairs: {error}"
        raise EncodingError(what, offset=0, field="owned") from None
    fields = {
        "topics": names,
        "userData": user_data,
        "ownedPartitions": _grouped(claims),
        "generationId": -1 if generation is None or generation < 0 else generation,
        "rackId": rack,
    }
    return _encoded(CONSUMER_PROTOCOL_SUBSCRIPTION, fields, version)


def encode_assignment(
    partitions: Iterable[TopicPartition],
    *,
    user_data: bytes | None = None,
    version: int = HIGHEST_VERSION,
) -> bytes:
    r"""Encode a group member's assignment, as the leader of a classic group sends it.

    Topics are in order of first use. The partitions of a topic keep their order.

    Args:
        partitions: assigned (topic, partition) pairs.
        user_data: the assignment strategy's own bytes.
        version: version of the message.

    Raises:
        UnsupportedVersionError: ``version`` is below 0.
        EncodingError: a value does not fit.

    >>> encode_assignment([])
    b'\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff'
    """
    fields = {"assignedPartitions": _grouped(partitions), "userData": user_data}
    return _encoded(CONSUMER_PROTOCOL_ASSIGNMENT, fields, version)


def _encoded(message: Message, fields: Mapping[str, Any], version: int) -> bytes:
    if version < 0:
        raise _unsupported(message, version)
    layout = min(version, HIGHEST_VERSION)
    return layout.to_bytes(2, "big") + encode(message, fields, version=layout, path=message.name)


def _flat(grouped: Sequence[Mapping[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple((group["topic"], number) for group in grouped for number in group["partitions"])


def _grouped(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    numbers_by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers_by_topic.setdefault(topic, []).append(number)
    return [{"topic": topic, "partitions": n} for topic, n in numbers_by_topic.items()]


# --- user data of the sticky assignor ------------------------------------------------------


NO_GENERATION = -1
STICKY_ASSIGNOR_USER_DATA = load_message("StickyAssignorUserData")

_MIN_BYTES = 4  # version 0 with an empty list of topics
#: Encoded claims of a member are cached up to this number: 4,096 entries take some 40 MB at most.
_MOST_CACHED_CLAIMS = 64


class StickyClaims(NamedTuple):
    """The owned partitions that a member sends to Kafka's sticky assignor, and their generation.

    ``generation`` is None if the user data have no generation, and -1 if they are damaged.
    """

    partitions: tuple[tuple[str, int], ...]
    generation: int | None


def encode_sticky_user_data(
    partitions: Iterable[tuple[str, int]], generation: int = NO_GENERATION, *, version: int = 1
) -> bytes:
    r"""Encode the user data that Kafka's `StickyAssignor` sends: owned partitions, generation.

    ``partitions`` are (topic, partition) pairs. Version 0 has no generation.

    Raises:
        EncodingError: a value does not fit.

    >>> encode_sticky_user_data([], -1)
    b'\x00\x00\x00\x00\xff\xff\xff\xff'
    """
    claims = tuple([(topic, number) for topic, number in partitions])
    is_cached = version == 1 and len(claims) <= _MOST_CACHED_CLAIMS
    if is_cached and type(generation) is int and -(2**31) <= generation < 2**31:
        return _sticky_partitions(claims) + generation.to_bytes(4, "big", signed=True)
    values = {"previousAssignment": _sticky_topics(claims), "generation": generation}
    return encode(STICKY_ASSIGNOR_USER_DATA, values, version=version, path="userData")


@lru_cache(maxsize=4_096)
def _sticky_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    # Version 0 is version 1 without the generation at its end. Sticky members mostly keep their
    # partitions, so that the same ones are encoded many times.
    values = {"previousAssignment": _sticky_topics(partitions)}
    return encode(STICKY_ASSIGNOR_USER_DATA, values, version=0, path="userData")


def _sticky_topics(claims: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    by_topic = {group["topic"]: group for group in _grouped(claims)}
    topics = hash_set_order((topic for topic, _ in claims), string_hash, compute_if_absent=True)
    return [by_topic[t] for t in topics]


def decode_sticky_user_data(data: bytes | None) -> StickyClaims:
    r"""Decode the user data that Kafka's `StickyAssignor` sends: owned partitions, generation.

    Like Kafka's class it never raises an error. Null and empty data mean no owned partitions and no
    generation. Data that fits neither version means no owned partitions, and generation -1.

    >>> decode_sticky_user_data(b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\2\0\0\0\5")
    StickyClaims(partitions=(('t', 2),), generation=5)
    """
    if not data:
        return StickyClaims((), None)
    if len(data) < _MIN_BYTES:
        return StickyClaims((), NO_GENERATION)
    return _decode_version(data, 1) or _decode_version(data, 0) or StickyClaims((), NO_GENERATION)


def _decode_version(data: bytes, version: int) -> StickyClaims | None:
    try:
        values = message_codec(STICKY_ASSIGNOR_USER_DATA, version).read(ByteReader(data))
    except WireFormatError:
        return None
    return StickyClaims(_flat(values["previousAssignment"]), values.get("generation"))
