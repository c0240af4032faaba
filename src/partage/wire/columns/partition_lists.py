"""Decoding and encoding of the partition lists of all members of a group at once.

A subscription's owned partitions, the user data of ``sticky``, the trailer of Partage's members and
an assignment have this layout in common: an int32 count, and so many pairs of a string and an array
of int32. A group of a million partitions has a million such pairs. `read_partition_lists` reads the
k-th pair of all members in one step, `encode_assignments` writes all pairs by one copy. Values and
bytes equal those of `partage.wire.consumer_protocol`, which reads what this module declines.

If the kernels are compiled, they decode and encode pair by pair.
"""
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.java.strings import decode_utf8, encode_utf8
from partage.kernels import Int64Rows, kernel, kernel_helper
from partage.wire.columns import Bytes, Ints
from partage.wire.columns.distinct import (
    NameHashTable,
    NameTable,
    find_or_add_likely,
    int16_at,
    int32_at,
)
from partage.wire.consumer_protocol import encode_assignment
from partage.wire.primitives import LONGEST_STRING

__all__ = [
    "PartitionList", "encode_assignments", "read_pairs", "read_partition_lists", "write_pairs",
]  # fmt: skip

Int32s = NDArray[np.int32]

#: A step of all members takes as long as the engine takes for so many pairs.
_MIN_PAIRS_PER_STEP = 6
#: Bytes of the shortest pair: no name, no partition.
_SHORTEST_PAIR = 6
#: A count after the longest possible name lies within so many bytes.
_PADDING = bytes(2**16 + 8)
#: Version 3 of an assignment.
_HEADER = b"\0\3"
_NULL = b"\xff\xff\xff\xff"


class PartitionList(NamedTuple):
    """A list of topic partitions of one group member, as arrays in the encoded order.

    Duplicates are kept. For example, it can be the partitions that the member owns.

    Attributes:
        names: the distinct topics of all members' lists.
        topic: index of each partition's topic in ``names`` (int32[n]).
        number: partition numbers within the topics (int32[n]).
        end: position after the list in the member's payload, in bytes.
    """

    names: tuple[str, ...]
    topic: Int32s
    number: Int32s
    end: int


_EMPTY = PartitionList((), np.zeros(0, np.int32), np.zeros(0, np.int32), 4)


def read_partition_lists(payloads: Sequence[bytes]) -> list[PartitionList | None]:
    r"""Decode the lists of topic partitions of several group members at once.

    Each element of ``payloads`` begins with such a list. The result is None for a damaged list,
    which the general decoder must report. All results are None if that decoder is faster (few
    members with many topics each).

    >>> lists = read_partition_lists([b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\7!"] * 6 + [b"\0\0\0\1"])
    >>> lists[0].names, lists[0].number.tolist(), lists[0].end, lists[6]
    (('t',), [7], 15, None)
    """
    if not payloads or (len(payloads) < _MIN_PAIRS_PER_STEP and not read_pairs.is_compiled):
        return [None] * len(payloads)
    data = b"".join((*payloads, _PADDING))
    int32 = np.ndarray((len(data) - 3,), ">i4", data, strides=(1,))
    sizes = np.array([len(one) for one in payloads], np.int64)
    end = np.cumsum(sizes)
    begin = end - sizes
    count = int32[begin].astype(np.int64)
    good = (count >= 0) & (4 + count * _SHORTEST_PAIR <= sizes)
    count[~good] = 0
    if not count.any():
        # Members under the eager protocol own nothing when they join.
        return [_EMPTY if fine else None for fine in good.tolist()]
    if read_pairs.is_compiled:
        return _read_compiled(data, np.append(begin, end[-1]), count, good)
    if int(count.sum()) < _MIN_PAIRS_PER_STEP * int(count.max(initial=0)):
        return [None] * len(payloads)
    name, after, read_to = _find_pairs(data, int32, begin + 4, end, count)
    good &= read_to >= 0
    sizes = np.where(np.repeat(good, count), int32[after].astype(np.int64), 0)
    names, topic_of_pair = _number_names(data, name, after)

    topic = np.repeat(topic_of_pair, sizes)
    last = np.cumsum(sizes)
    at = 4 * np.arange(len(topic)) + np.repeat(after + 4 - 4 * (last - sizes), sizes)
    number = int32[at].astype(np.int32)
    pair_end = np.concatenate(([0], np.cumsum(count)))
    start = np.concatenate(([0], last))[pair_end].tolist()
    return [
        PartitionList(names, topic[a:b], number[a:b], to) if fine else None
        for fine, a, b, to in zip(
            good.tolist(), start[:-1], start[1:], (read_to - begin).tolist(), strict=True
        )
    ]


def _read_compiled(
    data: bytes, start: Ints, count: Ints, good: NDArray[np.bool_]
) -> list[PartitionList | None]:
    numbers = int(start[-1]) // 4  # a partition number has four bytes
    topic, number = np.empty(numbers, np.int32), np.empty(numbers, np.int32)
    ends = np.empty((len(count), 2), np.int64)
    table = NameTable(int(count.sum()))
    source = np.frombuffer(data, np.uint8)
    read_pairs(source, start, count, table.names, topic, number, ends, work=3 * len(data))
    names: dict[str, int] = {}
    place = [
        names.setdefault(decode_utf8(one), len(names)) for one in table.names_in_code_order(source)
    ]
    total = int(ends[-1, 1])
    if len(names) < len(place):  # malformed names may decode to the same text
        topic[:total] = np.array(place, np.int32)[topic[:total]]
    every, begin = tuple(names), 0
    out: list[PartitionList | None] = []
    for fine, (size, to) in zip(good.tolist(), ends.tolist(), strict=True):
        found = PartitionList(every, topic[begin:to], number[begin:to], size)
        out.append(found if fine and size >= 0 else None)
        begin = to
    return out


@kernel(
    "void(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], NameHashTable, int32[::1],"
    " int32[::1], int64[:, ::1])",
    NameHashTable,
)
def read_pairs(  # noqa: PLR0917 - kernels take arrays by position
    data: Bytes,
    start: Ints,
    count: Ints,
    names: NameHashTable,
    topic: Int32s,
    number: Int32s,
    ends: Int64Rows,
) -> None:
    """Decode the topic partition lists of many group members, in compiled code.

    A list is damaged if its lengths do not fit its bytes; other lists are still decoded.

    Args:
        data: all encoded lists, one after the other.
        start: int64[n + 1], the first byte of each list.
        count: int64[n], the number of topics in each list.
        names: hash table of topic names, with room for the topics of all lists.
        topic: output: code of each partition's topic in ``names``.
        number: output: partition numbers.
        ends: int64[n, 2], output: the size of each list in bytes, -1 if it is damaged, and the
            number of partitions in all lists up to this one.
    """
    total = 0
    for i in range(len(count)):
        at, end, first, code, left = start[i] + 4, start[i + 1], total, -1, count[i]
        while left > 0 and at + 6 <= end:
            stop = at + 2 + int16_at(data, at)
            if stop < at + 2 or stop + 4 > end:
                break
            amount = int32_at(data, stop)
            if amount < 0 or amount > (end - stop - 4) // 4:
                break
            # Members list topics in the same order, so the next name is mostly the next code.
            like = code + 1 if code + 1 < names.used[0] else -1
            code = find_or_add_likely(data, at + 2, stop, names, like)
            at = stop + 4
            for _ in range(amount):
                topic[total] = code
                number[total] = int32_at(data, at)
                total += 1
                at += 4
            left -= 1
        if left > 0:
            total = first
        ends[i, 0] = -1 if left > 0 else at - start[i]
        ends[i, 1] = total


def _find_pairs(
    data: bytes, int32: NDArray[np.int32], at: Ints, end: Ints, count: Ints
) -> tuple[Ints, Ints, Ints]:
    """Find where topic names are in the encoded partition lists of many group members.

    The result has the first byte and the end of each topic name, and the end of each list (-1 for a
    damaged one).

    Args:
        data: the bytes of all lists.
        int32: the 32-bit integer at each byte of ``data``.
        at: position of the first topic of each list.
        end: end of the bytes that each list may use.
        count: number of topics in each list.
    """
    # Step k reads the k-th topic of every list that has so many topics. Sorted by length, these
    # lists come first.
    uint16 = np.ndarray((len(data) - 1,), ">u2", data, strides=(1,))
    order = np.argsort(-count, kind="stable")
    at, end = at[order], end[order]
    fits = np.ones(len(order), bool)
    row = (np.cumsum(count) - count)[order]
    pairs = int(count.sum())
    name, after = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    steps = np.arange(int(count.max(initial=0)))
    for k, lists in enumerate(np.searchsorted(-count[order], -steps, side="left").tolist()):
        here = at[:lists]
        length = uint16[here].astype(np.int64)
        numbers = here + 2 + length
        amount = int32[numbers].astype(np.int64)
        behind = numbers + 4 + 4 * amount
        fine = (length <= LONGEST_STRING) & (amount >= 0) & (behind <= end[:lists])
        fits[:lists] &= fine
        rows = row[:lists] + k
        name[rows] = here + 2
        after[rows] = numbers
        at[:lists] = np.where(fine, behind, here)  # a damaged list stays where it is
    read_to = np.empty_like(at)
    read_to[order] = np.where(fits, at, -1)
    damaged = np.repeat(read_to < 0, count)
    name[damaged] = after[damaged] = 0
    return name, after, read_to


class _ConsecutiveNumbers(dict[bytes, int]):
    """Dict that gives each new byte string the next number (0, 1, ...) when it is looked up."""

    def __missing__(self, key: bytes) -> int:
        number = self[key] = len(self)
        return number


def _number_names(data: bytes, begin: Ints, end: Ints) -> tuple[tuple[str, ...], Int32s]:
    numbers = _ConsecutiveNumbers()
    number = np.empty(len(begin), np.int32)
    for width, pairs in _by_size(end - begin):
        raw = _items(data, width)[begin[pairs]].tolist() if width else [b""] * len(pairs)
        number[pairs] = np.fromiter(map(numbers.__getitem__, raw), np.int32, len(pairs))
    names: dict[str, int] = {}
    # Malformed names may decode to the same text.
    place = [names.setdefault(decode_utf8(one), len(names)) for one in numbers]
    return tuple(names), np.array(place, np.int32)[number]


def encode_assignments(
    names: Sequence[str],
    start: NDArray[np.int32],
    topic: Int32s,
    number: Int32s,
    user_data: Sequence[bytes | None],
) -> list[bytes]:
    r"""Encode the assignments of all members of a group at once, from arrays.

    The bytes equal those of `encode_assignment` for each member.

    Args:
        names: distinct topic names.
        start: where each member's partitions begin in ``topic`` and ``number`` (int32[members +
            1]).
        topic: index of each partition's topic in ``names`` (int32[n]).
        number: partition numbers within the topics (int32[n]).
        user_data: the strategy's user data for each member.

    Raises:
        EncodingError: a value does not fit.

    >>> zero, two = np.zeros(1, np.int32), np.array([0, 1], np.int32)
    >>> encode_assignments(["t"], two, zero, zero, [None]) == [encode_assignment([("t", 0)])]
    True
    """
    encoded = [encode_utf8(name) for name in names]
    if any(len(one) > LONGEST_STRING for one in encoded):
        return _encode_one_by_one(names, start, topic, number, user_data)
    if write_pairs.is_compiled:
        return _encode_compiled(encoded, start, topic, number, user_data)
    member = np.repeat(np.arange(len(start) - 1), np.diff(start))
    order, first, size = _group_by_first_use(member * len(names) + topic)

    # Each pair is three pieces of one source: the name with its length, the count, the numbers.
    heads, head_size = _encode_names(encoded)
    source = np.frombuffer(
        heads + size.astype(">i4").tobytes() + number[order].astype(">i4").tobytes(), np.uint8
    )
    used = topic[order[first]]
    pieces = np.empty((len(first), 3), np.int64)
    pieces[:, 0] = (np.cumsum(head_size) - head_size)[used]
    pieces[:, 1] = len(heads) + 4 * np.arange(len(first))
    pieces[:, 2] = len(heads) + 4 * len(first) + 4 * first
    sizes = np.full((len(first), 3), 4, np.int64)
    sizes[:, 0] = head_size[used]
    sizes[:, 2] = 4 * size
    body = _join_pieces(source, pieces.reshape(-1), sizes.reshape(-1))

    pair_start = np.searchsorted(first, start)
    at = np.concatenate(([0], np.cumsum(sizes.sum(axis=1))))[pair_start].tolist()
    return _add_headers(body, np.diff(pair_start).tolist(), at, user_data)


def _add_headers(
    body: bytes, counts: list[int], at: list[int], user_data: Sequence[bytes | None]
) -> list[bytes]:
    return [
        b"".join((_HEADER, pairs.to_bytes(4, "big"), body[a:b], _nullable(data)))
        for pairs, a, b, data in zip(counts, at[:-1], at[1:], user_data, strict=True)
    ]


def _encode_names(names: Sequence[bytes]) -> tuple[bytes, Ints]:
    # The names with their lengths, one after the other, and the size of each.
    heads = b"".join(len(one).to_bytes(2, "big") + one for one in names)
    return heads, np.array([len(one) + 2 for one in names], np.int64)


def _encode_compiled(
    names: Sequence[bytes],
    start: NDArray[np.int32],
    topic: Int32s,
    number: Int32s,
    user_data: Sequence[bytes | None],
) -> list[bytes]:
    heads, head_size = _encode_names(names)
    members, topics = len(start) - 1, len(names)
    most_pairs = int(np.minimum(np.diff(start), topics).sum())
    out = np.empty((int(head_size.max(initial=0)) + 4) * most_pairs + 4 * len(topic), np.uint8)
    ends = np.zeros((members + 1, 2), np.int64)
    write_pairs(
        np.ascontiguousarray(start, np.int32), np.ascontiguousarray(topic, np.int32),
        np.ascontiguousarray(number, np.int32), np.frombuffer(heads, np.uint8),
        np.cumsum(np.append(0, head_size)), np.full((topics, 2), -1, np.int64), out, ends,
        work=20 * len(topic),
    )  # fmt: skip
    at = ends[:, 0].tolist()
    return _add_headers(out[: at[-1]].tobytes(), ends[1:, 1].tolist(), at, user_data)


@kernel(
    "void(int32[::1], int32[::1], int32[::1], Array(uint8, 1, 'C', readonly=True), int64[::1],"
    " int64[:, ::1], uint8[::1], int64[:, ::1])"
)
def write_pairs(  # noqa: PLR0917 - kernels take arrays by position
    start: Int32s,
    topic: Int32s,
    number: Int32s,
    heads: Bytes,
    head_start: Ints,
    place: Int64Rows,
    out: Bytes,
    ends: Int64Rows,
) -> None:
    """Encode the topic partition lists of all members of a group, in compiled code.

    The topics of a list are in the order of their first partition.

    Args:
        start: int32[M + 1], index of each member's first partition.
        topic: int32[n], topic of each partition.
        number: int32[n], partition numbers.
        heads: the encoded topic names, with their lengths.
        head_start: int64[T + 1], first byte of each name in ``heads``.
        place: int64[T, 2], a buffer filled with -1: the member's number of partitions in a topic,
            and the byte in ``out`` for its next partition.
        out: output: the lists of all members.
        ends: int64[M + 1, 2], output: the end of each member's list in ``out``, and its number of
            topics. The first row is zero.
    """
    # The topics of a list are in order of first use.
    at: Any = 0
    for m in range(len(start) - 1):
        for i in range(start[m], start[m + 1]):
            place[topic[i], 0] = max(place[topic[i], 0], 0) + 1
        pairs = 0
        for i in range(start[m], start[m + 1]):
            t = topic[i]
            if place[t, 0] > 0:
                for j in range(head_start[t], head_start[t + 1]):
                    out[at] = heads[j]
                    at += 1
                _write_int32(out, at, place[t, 0])
                place[t, 1] = at + 4
                at += 4 + 4 * place[t, 0]
                place[t, 0] = -1
                pairs += 1
            _write_int32(out, place[t, 1], number[i])
            place[t, 1] += 4
        ends[m + 1, 0], ends[m + 1, 1] = at, pairs


@kernel_helper
def _write_int32(out: Bytes, at: Any, value: Any) -> None:
    for byte in range(4):
        out[at + byte] = (value >> (24 - 8 * byte)) & 255


def _encode_one_by_one(
    names: Sequence[str],
    start: NDArray[np.int32],
    topic: Int32s,
    number: Int32s,
    user_data: Sequence[bytes | None],
) -> list[bytes]:
    # The schema engine's error names the value that does not fit.
    ends = start.tolist()
    named = list(zip([names[t] for t in topic.tolist()], number.tolist(), strict=True))
    return [
        encode_assignment(named[a:b], user_data=data)
        for a, b, data in zip(ends[:-1], ends[1:], user_data, strict=True)
    ]


def _nullable(data: bytes | None) -> bytes:
    return _NULL if data is None else len(data).to_bytes(4, "big") + data


def _group_by_first_use(key: Ints) -> tuple[NDArray[np.intp], Ints, Ints]:
    """Group equal integers in an array, with groups in the order of their first occurrence.

    Return the indices that sort ``key`` in this way, and the first index and the size of each group
    in the sorted order. For example, the groups of 5, 3, 5 are (5, 5) and (3).
    """
    order = np.argsort(key, kind="stable")
    first, size = _runs(key[order])
    by_use = np.argsort(order[first], kind="stable")
    if (np.diff(by_use) < 0).any():
        rank = np.empty_like(by_use)
        rank[by_use] = np.arange(len(by_use))
        order = order[np.argsort(np.repeat(rank, size), kind="stable")]
        size = size[by_use]
        first = np.cumsum(size) - size
    return order, first, size


def _runs(values: Ints) -> tuple[Ints, Ints]:
    first = np.flatnonzero(np.diff(values, prepend=-1))
    return first, np.diff(first, append=len(values))


def _join_pieces(source: Bytes, start: Ints, size: Ints) -> bytes:
    end = np.cumsum(size)
    out = np.empty(int(size.sum()), np.uint8)
    for width, pieces in _by_size(size):
        if width:
            _items(out, width)[end[pieces] - width] = _items(source, width)[start[pieces]]
    return out.tobytes()


def _by_size(size: Ints) -> Iterator[tuple[int, NDArray[np.intp]]]:
    narrow = size.astype(np.uint16) if int(size.max(initial=0)) < 2**16 else size
    order = np.argsort(narrow, kind="stable")
    first, count = _runs(size[order])
    for a, n in zip(first.tolist(), count.tolist(), strict=True):
        yield int(size[order[a]]), order[a : a + n]


def _items(data: bytes | Bytes, width: int) -> NDArray[np.void]:
    # Item i is the window of ``width`` bytes that begins at byte i.
    items: NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return items
