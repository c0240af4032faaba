"""Decoding of all subscriptions of a group, with owned partitions as arrays.

`decode_subscriptions` equals `partage.wire.consumer_protocol.decode_subscription` member by member,
`split_user_data` equals `partage.wire.member_extras.split_trailer`, and `decode_sticky_claims`
equals `partage.wire.consumer_protocol.decode_sticky_user_data`. Each gives None for bytes that only
the engine reads: other versions, bytes after the body, loads in the trailer, damaged input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from partage.errors import WireFormatError
from partage.wire.columns.partition_lists import PartitionList, read_partition_lists
from partage.wire.consumer_protocol import HIGHEST_VERSION
from partage.wire.member_extras import trailer_start
from partage.wire.primitives import ByteReader

__all__ = [
    "SubscriptionColumns", "TrailerColumns", "decode_sticky_claims", "decode_subscriptions",
    "distinct_subscriptions", "split_user_data",
]  # fmt: skip

#: So many distinct lists of topics are compared with the next subscription.
_MOST_PREFIXES = 8
#: An empty list of loads at the end of a trailer.
_NO_LOADS = bytes(4)


class SubscriptionColumns(NamedTuple):
    """The decoded subscription of a group member, with its owned partitions as arrays.

    A leader with many members decodes all subscriptions to this form.

    Attributes:
        topics: the subscribed topics; members with equal topics share one tuple.
        user_data: the assignment strategy's own bytes.
        owned: the owned partitions.
        generation: the generation of ``owned``; None if the member sends none.
        rack: the member's rack; None if it sends none.
    """

    topics: tuple[str, ...]
    user_data: bytes | None
    owned: PartitionList
    generation: int | None
    rack: str | None


class TrailerColumns(NamedTuple):
    """User data of a member's subscription, split into the strategy's bytes and Partage's trailer.

    The trailer has the partitions that the member owned (see `partage.wire.member_extras`).

    Attributes:
        user_data: the assignment strategy's own bytes.
        claims: the partitions that the member owned before it revoked all to rejoin.
        generation: the generation in which it owned them.
    """

    user_data: bytes | None
    claims: PartitionList
    generation: int


class _SubscriptionPrefix(NamedTuple):
    """The beginning of an encoded subscription (version and topics), with the decoded topics.

    It is kept, because members of a group often subscribe to the same topics.
    """

    # Members of a group often have the same topics, so these bytes are decoded once.
    data: bytes
    version: int
    topics: tuple[str, ...]


class _SubscriptionHead(NamedTuple):
    """The decoded version, topics and user data of a member's subscription.

    ``end`` is the byte offset of the owned partitions, which come next.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    end: int


def decode_subscriptions(metadata: Sequence[bytes]) -> list[SubscriptionColumns | None]:
    r"""Decode the subscriptions of all members of a consumer group at once.

    It is faster than decoding them one by one. ``metadata`` are the encoded subscriptions. The
    result has None for each subscription that only the general decoder can decode.

    >>> sent = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\1\0\1t\0\0\0\1\0\0\0\7"
    >>> decode_subscriptions([sent] * 6)[5].owned.number.tolist()
    [7]
    """
    prefixes: list[_SubscriptionPrefix] = []
    heads = [_read_head(one, prefixes) for one in metadata]
    read = [i for i, head in enumerate(heads) if head is not None]
    lists = read_partition_lists([metadata[i][heads[i].end :] for i in read])  # type: ignore[union-attr]  # filtered
    out: list[SubscriptionColumns | None] = [None] * len(heads)
    # Few distinct tails occur: members have one generation and few racks.
    read_tail = cache(_read_tail)
    for i, owned in zip(read, lists, strict=True):
        head = heads[i]
        if head is not None and owned is not None:
            tail = read_tail(head.version, metadata[i][head.end + owned.end :])
            if tail is not None:
                out[i] = SubscriptionColumns(head.topics, head.user_data, owned, *tail)
    return out


def distinct_subscriptions(metadata: Sequence[bytes]) -> list[int]:
    r"""Return the positions of subscriptions whose topics are new, compared with earlier ones.

    Most members of a group have equal topics, so these are few. Damaged subscriptions are among
    them. ``metadata`` are the encoded subscriptions.

    >>> same = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"
    >>> distinct_subscriptions([same, same + b"\0\0\0\0", b"damaged", same])
    [0, 2]
    """
    prefixes: list[_SubscriptionPrefix] = []
    found = []
    for i, data in enumerate(metadata):
        last = prefixes[:1]
        if _read_head(data, prefixes) is None or prefixes[:1] != last:
            found.append(i)
    return found


def _read_head(data: bytes, prefixes: list[_SubscriptionPrefix]) -> _SubscriptionHead | None:
    """Decode the version, topics and user data of a member's subscription; return None if damaged.

    ``prefixes`` are the decoded beginnings of recent subscriptions. Equal topics are looked up
    there and not decoded again.
    """
    prefix = next((one for one in prefixes if data.startswith(one.data)), None)
    if prefix is None:
        prefix = _read_prefix(data)
        if prefix is None:
            return None
        prefixes.insert(0, prefix)
        del prefixes[_MOST_PREFIXES:]
    reader = ByteReader(data, len(prefix.data))
    try:
        length = reader.read_int32()
        user_data = None if length < 0 else reader.read_bytes(length)
    except WireFormatError:
        return None
    return _SubscriptionHead(prefix.version, prefix.topics, user_data, reader.position)


def _read_prefix(data: bytes) -> _SubscriptionPrefix | None:
    reader = ByteReader(data)
    try:
        version = reader.read_int16()
        count = reader.check_array_length(reader.not_null(reader.read_int32()))
        topics = tuple([reader.read_string() for _ in range(count)])
    except WireFormatError:
        return None
    if not 1 <= version <= HIGHEST_VERSION:
        return None
    return _SubscriptionPrefix(data[: reader.position], version, topics)


def _read_tail(version: int, data: bytes) -> tuple[int | None, str | None] | None:
    """Decode the last fields of a member's subscription: the generation and the rack.

    ``version`` says which of them exist. The result is None if the bytes do not fit.
    """
    reader = ByteReader(data)
    generation, rack = -1, None
    try:
        if version >= 2:
            generation = reader.read_int32()
        if version >= 3:
            rack = reader.nullable_string()
    except WireFormatError:
        return None
    if reader.remaining_bytes:
        return None
    return generation if generation >= 0 else None, rack or None


def split_user_data(user_data: Sequence[bytes]) -> list[TrailerColumns | None]:
    r"""Split members' user data into the strategy's own bytes and the trailer that Partage appends.

    The trailer has the partitions that a member owned. The result is None for user data without it,
    or with measured loads in it.

    >>> from partage.wire.member_extras import Extras, append_trailer
    >>> data = append_trailer(b"own", Extras((("t", 7),), 4))
    >>> split_user_data([data] * 6)[5].claims.number.tolist()
    [7]
    """
    starts = [trailer_start(one) for one in user_data]
    lists = read_partition_lists(
        [one[a:-8] if a >= 0 else b"" for one, a in zip(user_data, starts, strict=True)]
    )
    out: list[TrailerColumns | None] = []
    for one, start, claims in zip(user_data, starts, lists, strict=True):
        rest = one[start + claims.end : -8] if claims is not None else b""
        if claims is None or len(rest) != 8 or rest[4:] != _NO_LOADS:
            out.append(None)
        else:
            generation = int.from_bytes(rest[:4], "big", signed=True)
            out.append(TrailerColumns(one[:start] or None, claims, generation))
    return out


def decode_sticky_claims(user_data: Sequence[bytes]) -> list[tuple[PartitionList, int] | None]:
    r"""Decode the owned partitions and generations that members send to Kafka's sticky assignor.

    ``user_data`` has the bytes of each member. The result has a pair (partitions, generation) for
    each; it is None for bytes in another format.

    >>> claims, generation = decode_sticky_claims([b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\2\0\0\0\5"] * 6)[5]
    >>> claims.number.tolist(), generation
    ([2], 5)
    """
    return [
        None if claims is None or len(data) != claims.end + 4
        else (claims, int.from_bytes(data[-4:], "big", signed=True))
        for data, claims in zip(user_data, read_partition_lists(user_data), strict=True)
    ]  # fmt: skip
