"""The claims that Kafka's ``StickyAssignor`` sends as user data (4.3.1), in both its versions.

The bytes carry no version: version 1 ends with the generation, version 0 lacks it, and a reader
tries the newer first. Topics stand in the order of the Java map that grouped them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from partage.errors import WireFormatError
from partage.java.hash_order import hash_set_order
from partage.java.strings import string_hash
from partage.wire.codec import encode, struct_reader
from partage.wire.messages import STICKY_ASSIGNOR_USER_DATA
from partage.wire.primitives import Reader

__all__ = ["StickyClaims", "decode_sticky_user_data", "encode_sticky_user_data"]

NO_GENERATION = -1

_SHORTEST = 4  # a count of no topics, version 0


class StickyClaims(NamedTuple):
    """What a member says it owned; ``generation`` is None where the bytes have none.

    Bytes that are no user data at all claim nothing, with generation -1, as in Kafka.
    """

    partitions: tuple[tuple[str, int], ...]
    generation: int | None


def encode_sticky_user_data(
    partitions: Iterable[tuple[str, int]], generation: int = NO_GENERATION, *, version: int = 1
) -> bytes:
    r"""The bytes of a member's claims; version 0 drops the generation.

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
    r"""The claims in ``data``, by Kafka's rules: never an error.

    Null or empty: no claims, no generation. Neither version fits: no claims, generation -1.

    >>> decode_sticky_user_data(b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\2\0\0\0\5")
    StickyClaims(partitions=(('t', 2),), generation=5)
    """
    if not data:
        return StickyClaims((), None)
    if len(data) < _SHORTEST:
        return StickyClaims((), NO_GENERATION)
    return _claims(data, 1) or _claims(data, 0) or StickyClaims((), NO_GENERATION)


def _claims(data: bytes, version: int) -> StickyClaims | None:
    try:
        values = struct_reader(STICKY_ASSIGNOR_USER_DATA, version)(Reader(data))
    except WireFormatError:
        return None
    return StickyClaims(_flat(values), values.get("generation"))


def _flat(values: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    groups = values["previousAssignment"]
    return tuple((group["topic"], number) for group in groups for number in group["partitions"])
