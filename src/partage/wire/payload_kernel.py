"""Subscriptions and assignments of the consumer protocol in one pass; numbers out, no objects.

Each distinct payload is read once. The layouts are those of versions 0 to 3, a later one is read
as 3, as Kafka does; what is not plain is only noted, for the engine to look at.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece
from partage.wire.kernel_pieces import code_of, int16_at, int32_at

__all__ = ["PAYLOAD", "scan_payloads"]

#: Columns of each payload: -1 in ``version`` if the engine is to read it; sizes are -1 for null.
#: Topics and pairs (a topic with its partitions) stand in lists of their own.
PAYLOAD = (
    "version", "topics_from", "topics", "pairs_from", "pairs", "user_at", "user_size",
    "generation", "rack_at", "rack_size",
)  # fmt: skip

_READ = "Array(uint8, 1, 'C', readonly=True)"


@piece
def _text_stop(data, at, end):
    """Where a string ends that is not null; -1 if it is not plain."""
    if at + 2 > end:
        return -1
    length = int16_at(data, at)
    stop = at + 2 + length
    return stop if length >= 0 and stop <= end else -1


@piece
def _count(data, at, end, least):
    """The count of an array whose elements take ``least`` bytes; -1 if it is none."""
    if at + 4 > end:
        return -1
    count = int32_at(data, at)
    return count if count >= 0 and count * least <= end - at - 4 else -1


@piece
def _topics(data, at, end, slots, names, topics, counts):
    """The topics of a subscription into their list; the place behind them, -1 if odd."""
    count = _count(data, at, end, 2)
    if count < 0:
        return -1
    at += 4
    for _ in range(count):
        stop = _text_stop(data, at, end)
        if stop < 0:
            return -1
        if 2 * counts[0] + 2 >= len(slots):
            return -2
        topics[counts[1]] = code_of(data, at + 2, stop, slots, names, counts, 0)
        counts[1] += 1
        at = stop
    return at


@piece
def _pairs(data, at, end, slots, names, pairs, numbers, counts):
    """Topics with their partitions into their lists; the place behind them, -1 if odd."""
    count = _count(data, at, end, 6)
    if count < 0:
        return -1
    at += 4
    for _ in range(count):
        stop = _text_stop(data, at, end)
        if stop < 0:
            return -1
        many = _count(data, stop, end, 4)
        if many < 0:
            return -1
        if 2 * counts[0] + 2 >= len(slots):
            return -2
        pair = counts[2]
        pairs[pair, 0] = code_of(data, at + 2, stop, slots, names, counts, 0)
        pairs[pair, 1] = counts[3]
        pairs[pair, 2] = many
        counts[2] += 1
        at = stop + 4
        for _ in range(many):
            numbers[counts[3]] = int32_at(data, at)
            counts[3] += 1
            at += 4
    return at


@piece
def _user_data(data, at, end, place, heads):
    if at + 4 > end:
        return -1
    size = int32_at(data, at)
    heads[place, 5] = at + 4
    heads[place, 6] = max(size, -1)
    stop = at + 4 + max(size, 0)
    return stop if stop <= end else -1


@piece
def _rest(data, at, end, version, place, heads, slots, names, pairs, numbers, counts):
    """What later versions of a subscription have; the place behind it, -1 if odd."""
    if version >= 1:
        at = _pairs(data, at, end, slots, names, pairs, numbers, counts)
    if at >= 0 and version >= 2:
        if at + 4 > end:
            return -1
        heads[place, 7] = int32_at(data, at)
        at += 4
    if at >= 0 and version >= 3:
        if at + 2 > end:
            return -1
        size = int16_at(data, at)
        heads[place, 8] = at + 2
        heads[place, 9] = max(size, -1)
        at += 2 + max(size, 0)
    return at if at <= end else -1


@piece
def _payload(data, at, end, sent, place, heads, slots, names, topics, pairs, numbers, counts):
    """One payload; the place behind it, -1 if it is odd, -2 for no room."""
    if at + 2 > end:
        return -1
    version = int16_at(data, at)
    heads[place, 1] = counts[1]
    heads[place, 3] = counts[2]
    heads[place, 7] = -1
    heads[place, 9] = -1
    if version < 0:
        return -1
    at += 2
    if sent:
        at = _topics(data, at, end, slots, names, topics, counts)
        if at >= 0:
            at = _user_data(data, at, end, place, heads)
        if at >= 0:
            at = _rest(data, at, end, version, place, heads, slots, names, pairs, numbers,
                       counts)  # fmt: skip
    else:
        at = _pairs(data, at, end, slots, names, pairs, numbers, counts)
        if at >= 0:
            at = _user_data(data, at, end, place, heads)
    if at >= 0:
        heads[place, 0] = version
        heads[place, 2] = counts[1] - heads[place, 1]
        heads[place, 4] = counts[2] - heads[place, 3]
    return at


@kernel(
    f"int64({_READ}, int64[::1], int64[::1], int64, int64, int32[::1], int64[:, ::1], "
    "int64[:, ::1], int32[::1], int64[:, ::1], int32[::1], int64[::1])"
)
def scan_payloads(data, at, size, sent, first, slots, names, heads, topics, pairs, numbers, counts):
    """Payloads from the ``first`` on, until their end or until there is no room for topics.

    ``sent``: 1 for subscriptions, 0 for assignments. ``heads`` has the columns `PAYLOAD`;
    ``pairs`` has topic, first number and how many; ``counts``: topic names, topics, pairs and
    numbers so far. Gives the first payload not looked at.
    """
    for i in range(first, len(at)):
        topic, pair, number = counts[1], counts[2], counts[3]
        stop = _payload(data, at[i], at[i] + size[i], sent, i, heads, slots, names, topics, pairs,
                        numbers, counts)  # fmt: skip
        if stop < 0:
            counts[1], counts[2], counts[3] = topic, pair, number
            heads[i, 0] = -1
            heads[i, 2] = 0
            heads[i, 4] = 0
        if stop == -2:
            return i
    return len(at)
