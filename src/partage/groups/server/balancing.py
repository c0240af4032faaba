"""The loops of the heterogeneous uniform builder: one topic at a time, over its subscribers.

Members are numbers (their position in the coordinator's map), ``sizes`` is how many partitions
each has over all topics, ``owner`` a member by partition, -1 for none. A "line" is a topic's
subscribers by (size, number); it is drawn up anew for each topic.
"""
# ruff: noqa: ANN001, ANN201, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel

__all__ = ["collect", "fill", "line_up", "next_uneven", "rebalance"]


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int64)")
def line_up(members, sizes, line, other, count, bits):
    """``members`` (ascending numbers) into ``line`` by size, stable: a radix sort.

    ``other`` is as long as ``line``; ``count`` has 2 ** bits places.
    """
    low = high = sizes[members[0]]
    for i in range(len(members)):
        line[i] = members[i]
        size = sizes[members[i]]
        low = min(low, size)
        high = max(high, size)
    mask = (1 << bits) - 1
    shift = 0
    while (high - low) >> shift > 0:
        digits = min((high - low) >> shift, mask) + 1
        for d in range(digits):
            count[d] = 0
        for i in range(len(members)):
            count[((sizes[line[i]] - low) >> shift) & mask] += 1
        before = 0
        for d in range(digits):
            here = count[d]
            count[d] = before
            before += here
        for i in range(len(members)):
            d = ((sizes[line[i]] - low) >> shift) & mask
            other[count[d]] = line[i]
            count[d] += 1
        for i in range(len(members)):
            line[i] = other[i]
        shift += bits


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def fill(line, sizes, free, owner):
    """Each free partition to the next member of the least loaded ones.

    The members at the lowest level get one each, in the order of the line; then they are at
    the next level, with those that were there before.
    """
    end = at = 0
    level = sizes[line[0]] - 1
    for i in range(len(free)):
        if at >= end:
            level += 1
            while end < len(line) and sizes[line[end]] == level:
                end += 1
            at = 0
        owner[free[i]] = line[at]
        sizes[line[at]] += 1
        at += 1


@kernel("int64(int64, int64, int32[::1], int32[::1], int32[::1], int32[::1])")
def next_uneven(begin, end, audience_of, start, members, sizes):
    """The first topic from ``begin`` on whose subscribers' sizes differ by two; else ``end``.

    Topics that follow each other often have the same audience: it is looked at once.
    """
    seen = -1
    for topic in range(begin, end):
        audience = audience_of[topic]
        if audience == seen:
            continue
        low = high = sizes[members[start[audience]]]
        for i in range(start[audience], start[audience + 1]):
            size = sizes[members[i]]
            low = min(low, size)
            high = max(high, size)
        if high - low > 1:
            return topic
        seen = audience
    return end


@kernel(
    "int64(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int32[::1])"
)
def rebalance(members, line, sizes, partitions, owner, block, left, begin):
    """Move partitions of one topic from its most to its least loaded subscribers; how many.

    ``block`` (as long as ``partitions``) gets the topic's partitions by (owner, number);
    ``begin`` and ``left`` (by member) say where a member's begin and what of them is left.
    """
    for i in range(len(members)):
        left[members[i]] = 0
    for i in range(len(partitions)):
        left[owner[partitions[i]]] += 1
    place = 0
    for i in range(len(members)):
        begin[members[i]] = place
        place += left[members[i]]
        left[members[i]] = 0
    for i in range(len(partitions)):
        m = owner[partitions[i]]
        block[begin[m] + left[m]] = partitions[i]
        left[m] += 1
    moved = 0
    # The least loaded are line[:end], all at `low`; the most loaded line[start:stop], at `high`.
    end = at = 0
    low = sizes[line[0]] - 1
    start = stop = len(line)
    high = sizes[line[len(line) - 1]] + 1
    top = len(line) - 1
    while high - low > 1:
        giver = -1
        while True:
            if top < start:
                if stop <= start and start > 0:
                    high = sizes[line[start - 1]]
                else:
                    high -= 1
                while start > 0 and sizes[line[start - 1]] == high:
                    start -= 1
                top = stop - 1
            if top < 0:
                break
            giver = line[top]
            top -= 1
            if left[giver] > 0:
                break
            # Nothing of this topic is left to take from it: out of the line, for this topic.
            stop -= 1
            line[top + 1] = line[stop]
            line[stop] = giver
            giver = -1
        if giver < 0:
            break
        left[giver] -= 1
        candidate = block[begin[giver] + left[giver]]
        if at >= end:
            low += 1
            while end < len(line) and sizes[line[end]] == low:
                end += 1
            at = 0
        taker = line[at]
        at += 1
        if high - low <= 1:
            break
        owner[candidate] = taker
        sizes[giver] -= 1
        sizes[taker] += 1
        moved += 1
    return moved


@kernel("void(int32[::1], int32[::1], int32[::1])")
def collect(owner, end, out):
    """Partitions by owner, ascending; ``end`` holds where each owner's begin, then end."""
    for partition in range(len(owner)):
        m = owner[partition]
        if m >= 0:
            out[end[m]] = partition
            end[m] += 1
