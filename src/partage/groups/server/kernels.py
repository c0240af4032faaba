"""Compiled inner loops (numba kernels) of the uniform assignor.

They decode claims, compute quotas and balance topic by topic. In the kernels of the heterogeneous
builder members are numbers (their position in the coordinator's map), ``sizes`` is the number of
partitions of each member over all topics, and ``owner`` is a member number by partition, -1 for
none. A ``line`` is a topic's subscribers sorted by (size, number); it is built anew for each topic.
"""
# ruff: noqa: ANN001, ANN201, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel

__all__ = [
    "assign_to_least_loaded",
    "balance_topic",
    "collect_by_owner",
    "compute_quotas",
    "next_uneven_topic",
    "read_claims",
    "sort_by_load",
]  # fmt: skip


@kernel(
    "int64(int64[::1], int64[::1], int32[::1], int32[::1], int32[:, ::1], int32[::1],"
    " int32[::1], boolean[::1])"
)
def read_claims(claim_start, name_start, name, number, extent, size, partition, is_reported):
    """Convert members' owned partitions from (topic name, partition number) to partition indices.

    The conversion stops at the first special case, such as a partition that does not exist or is
    reported twice. The caller then uses slower code.

    Args:
        claim_start: int64[M + 1], where each member's partitions begin in ``name`` and ``number``.
        name_start: int64[M + 1], first topic name of each member.
        name: int32[n], topic name of each partition, counted from the member's first.
        number: int32[n], partition number.
        extent: int32[N, 2], first index of each topic name's partitions, and their number.
        size: int32[N], output: number of partitions of each name.
        partition: int32[n], output: indices of the partitions.
        is_reported: bool[P], output: whether a partition is reported.

    Returns:
        The number of converted partitions.
    """
    # The conversion stops at the first special case: a partition that the topic does not have, a
    # partition that is reported twice, or partitions of one topic that are not consecutive.
    for m in range(len(claim_start) - 1):
        i, end, last = claim_start[m], claim_start[m + 1], name_start[m]
        while i < end:
            same, begin = name[i], i
            one = name_start[m] + same
            if one < last or one >= name_start[m + 1]:
                return i
            last = one + 1
            first, limit = extent[one, 0], extent[one, 1]
            while i < end and name[i] == same:
                if number[i] < 0 or number[i] >= limit:
                    return i
                dense = first + number[i]
                if is_reported[dense]:
                    return i
                is_reported[dense] = True
                partition[i] = dense
                i += 1
            size[one] += i - begin
    return len(number)


@kernel("void(int64[::1], int64, int64, int64[::1], int64[::1])")
def compute_quotas(previous, quota, extra, kept, missing):
    """Compute how many previous partitions each member keeps, and how many new ones it gets.

    If partitions cannot be divided evenly, some members get one more than others. These are the
    first members with enough previous partitions; if there are too few, also the last members.

    Args:
        previous: number of previous partitions of each member, in the order of the coordinator's
            map.
        quota: number of partitions that each member gets at least.
        extra: number of members that may have one more.
        kept: output: number of previous partitions that each member keeps.
        missing: output: number of new partitions.
    """
    for i in range(len(previous)):
        limit = quota + 1 if extra > 0 else quota
        keeps = min(previous[i], limit)
        left = limit - keeps
        if extra > 0:
            if left > 0 and len(previous) - i > extra:
                left -= 1
            else:
                extra -= 1
        kept[i] = keeps
        missing[i] = left


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int64)")
def sort_by_load(members, sizes, sorted_members, buffer, count, bits):
    """Sort the members of a group by their number of partitions.

    The method is a radix sort. Members with equally many partitions keep their order.

    Args:
        members: the members to sort.
        sizes: number of partitions of each member.
        sorted_members: output: the sorted members.
        buffer: buffer as long as ``sorted_members``.
        count: buffer with 2 ** bits counters.
        bits: number of bits that are sorted at once.
    """
    low = high = sizes[members[0]]
    for i in range(len(members)):
        sorted_members[i] = members[i]
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
            count[((sizes[sorted_members[i]] - low) >> shift) & mask] += 1
        before = 0
        for d in range(digits):
            here = count[d]
            count[d] = before
            before += here
        for i in range(len(members)):
            d = ((sizes[sorted_members[i]] - low) >> shift) & mask
            buffer[count[d]] = sorted_members[i]
            count[d] += 1
        for i in range(len(members)):
            sorted_members[i] = buffer[i]
        shift += bits


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def assign_to_least_loaded(sorted_members, sizes, free, owner):
    """Assign each unassigned partition of a topic to the member with the fewest partitions so far.

    Members with equally many partitions take turns, in the order of ``sorted_members``.

    Args:
        sorted_members: the members, sorted by their number of partitions.
        sizes: number of partitions of each member; updated.
        free: the unassigned partitions.
        owner: owner of each partition; updated.
    """
    end = at = 0
    level = sizes[sorted_members[0]] - 1
    for i in range(len(free)):
        if at >= end:
            level += 1
            while end < len(sorted_members) and sizes[sorted_members[end]] == level:
                end += 1
            at = 0
        owner[free[i]] = sorted_members[at]
        sizes[sorted_members[at]] += 1
        at += 1


@kernel("int64(int64, int64, int32[::1], int32[::1], int32[::1], int32[::1])")
def next_uneven_topic(begin, end, set_of_topic, start, members, sizes):
    """Return the next topic whose subscribers' loads differ by two or more partitions.

    The assignor then moves partitions between these subscribers.

    Args:
        begin: first topic to search.
        end: topic after the last one to search; returned if there is no such topic.
        set_of_topic: the set of subscribers of each topic.
        start: where each set begins in ``members`` (CSR).
        members: members of the sets.
        sizes: number of partitions of each member.
    """
    even_set = -1
    for topic in range(begin, end):
        subscribers = set_of_topic[topic]
        if subscribers == even_set:
            continue
        low = high = sizes[members[start[subscribers]]]
        for i in range(start[subscribers], start[subscribers + 1]):
            size = sizes[members[i]]
            low = min(low, size)
            high = max(high, size)
        if high - low > 1:
            return topic
        even_set = subscribers
    return end


@kernel(
    "int64(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int32[::1])"
)
def balance_topic(members, sorted_members, sizes, partitions, owner, block, left, begin):
    """Move partitions of one topic between its subscribers until their loads are even.

    Each partition moves from the member with the most to the one with the fewest partitions. A load
    is the number of a member's partitions in all topics.

    Args:
        members: the topic's subscribers.
        sorted_members: the subscribers, sorted by their number of partitions.
        sizes: number of partitions of each member; updated.
        partitions: the topic's partitions.
        owner: owner of each partition; updated.
        block: buffer as long as ``partitions``: partitions sorted by owner and number.
        left: buffer: number of each member's partitions that are not yet moved.
        begin: buffer: first index of each member in ``block``.

    Returns:
        The number of moved partitions.
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
    low = sizes[sorted_members[0]] - 1
    start = stop = len(sorted_members)
    high = sizes[sorted_members[len(sorted_members) - 1]] + 1
    top = len(sorted_members) - 1
    while high - low > 1:
        donor = -1
        while True:
            if top < start:
                if stop <= start and start > 0:
                    high = sizes[sorted_members[start - 1]]
                else:
                    high -= 1
                while start > 0 and sizes[sorted_members[start - 1]] == high:
                    start -= 1
                top = stop - 1
            if top < 0:
                break
            donor = sorted_members[top]
            top -= 1
            if left[donor] > 0:
                break
            # It has no partition of this topic left: remove it from the line.
            stop -= 1
            sorted_members[top + 1] = sorted_members[stop]
            sorted_members[stop] = donor
            donor = -1
        if donor < 0:
            break
        left[donor] -= 1
        candidate = block[begin[donor] + left[donor]]
        if at >= end:
            low += 1
            while end < len(sorted_members) and sizes[sorted_members[end]] == low:
                end += 1
            at = 0
        receiver = sorted_members[at]
        at += 1
        if high - low <= 1:
            break
        owner[candidate] = receiver
        sizes[donor] -= 1
        sizes[receiver] += 1
        moved += 1
    return moved


@kernel("void(int32[::1], int32[::1], int32[::1])")
def collect_by_owner(owner, end, out):
    """Write all assigned partitions to an array, grouped by their owner.

    Partitions without an owner are left out.

    Args:
        owner: int32[P], owner of each partition, -1 for none.
        end: for each owner the index in ``out`` of its next partition; advanced.
        out: output: the partitions.
    """
    for partition in range(len(owner)):
        m = owner[partition]
        if m >= 0:
            out[end[m]] = partition
            end[m] += 1
