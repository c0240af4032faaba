"""User data of Kafka's ``StickyAssignor`` (4.3.1): the partitions that a member claims.

The bytes carry no version: version 1 ends with the generation, version 0 has none, and a reader
tries the newer first. Topics are in the order of the Java map that grouped them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from partage.errors import WireFormatError
from partage.java.hash_order import hash_set_order
from partage.java.strings import string_hash
from partage.wire.codec import encode, message_codec
from partage.wire.messages import load_message
from partage.wire.primitives import Reader

__all__ = [
    "STICKY_ASSIGNOR_USER_DATA", "StickyClaims", "decode_sticky_user_data",
    "encode_sticky_user_data",
]  # fmt: skip

NO_GENERATION = -1
STICKY_ASSIGNOR_USER_DATA = load_message("StickyAssignorUserData")

_MIN_BYTES = 4  # version 0 with an empty list of topics


class StickyClaims(NamedTuple):
    """The partitions that a member with Kafka's sticky assignor owned, and their generation.

    ``generation`` is None if the bytes have none, and -1 if they are not valid user data.
    """

    partitions: tuple[tuple[str, int], ...]
    generation: int | None


def encode_sticky_user_data(
    partitions: Iterable[tuple[str, int]], generation: int = NO_GENERATION, *, version: int = 1
) -> bytes:
    r"""Encode the user data of Kafka's `StickyAssignor`: owned partitions and their generation.

    Version 0 has no generation.

    Raises:
        EncodingError: a value does not fit.

    >>> encode_sticky_user_data([], -1)
    b'\x00\x00\x00\x00\xff\xff\xff\xff'
    """
    claims = list(partitions)
    numbers_by_topic: dict[str, list[int]] = {}
    for topic, number in claims:
        numbers_by_topic.setdefault(topic, []).append(number)
    topics = hash_set_order((topic for topic, _ in claims), string_hash, compute_if_absent=True)
    values = {
        "previousAssignment": [{"topic": t, "partitions": numbers_by_topic[t]} for t in topics],
        "generation": generation,
    }
    return encode(STICKY_ASSIGNOR_USER_DATA, values, version=version, path="userData")


def decode_sticky_user_data(data: bytes | None) -> StickyClaims:
    r"""Decode the user data of Kafka's `StickyAssignor`: owned partitions and their generation.

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
        values = message_codec(STICKY_ASSIGNOR_USER_DATA, version).read(Reader(data))
    except WireFormatError:
        return None
    partitions = tuple(
        (group["topic"], number)
        for group in values["previousAssignment"]
        for number in group["partitions"]
    )
    return StickyClaims(partitions, values.get("generation"))
