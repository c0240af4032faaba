"""Partitions to members on their racks, one by one, as a kernel."""
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = ["give"]


@piece
def _alive(after, row):
    """The first row from ``row`` on that is not gone; the way there is made short."""
    root = row
    while after[root] != root:
        root = after[root]
    while after[row] != root:
        step = after[row]
        after[row] = root
        row = step
    return root


@piece
def _not_before(under_place, begin, end, place):
    """The first row of a rack whose position is ``place`` or later."""
    while begin < end:
        middle = (begin + end) >> 1
        if under_place[middle] < place:
            begin = middle + 1
        else:
            end = middle
    return begin


@piece
def _next_under(spot, place, rack_start, rack, under_start, under_place, after):
    """The row of the next member in the circle, from ``place`` on, that is on the spot's racks."""
    ahead, behind = -1, -1
    best, first = -1, -1
    for j in range(rack_start[spot], rack_start[spot + 1]):
        r = rack[j]
        begin, end = under_start[r], under_start[r + 1]
        row = _alive(after, _not_before(under_place, begin, end, place) + r)
        if row - r < end:
            if best < 0 or under_place[row - r] < best:
                best, ahead = under_place[row - r], row
            continue
        row = _alive(after, begin + r)
        if row - r < end and (first < 0 or under_place[row - r] < first):
            first, behind = under_place[row - r], row
    return (ahead, best) if ahead >= 0 else (behind, first)


@piece
def _longest_waiting(spot, rack_start, rack, queue, head, tail, sequence):
    """Of the heads of the queues of the spot's racks the one with the lowest number."""
    chosen = -1
    for j in range(rack_start[spot], rack_start[spot + 1]):
        r = rack[j]
        if head[r] < tail[r]:
            m = queue[head[r]]
            if chosen < 0 or sequence[m] < sequence[chosen]:
                chosen = m
    return chosen


@kernel(
    "int64(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int64[::1], boolean[::1],"
    " int32[::1], int64[::1])"
)
def give(
    free, rack_start, rack, member_rack, under, under_start, under_place, after, queue, head,
    tail, sequence, size, gone, out, numbers,
):  # fmt: skip
    """One spot after the other; answers how many members have one more than the low quota.

    ``under`` is walked in a circle from ``place``. For each rack, ``under_place`` has the
    positions in ``under`` of its members; ``after`` leads from each of these (one row more
    per rack ends it) to the next that is not gone yet. ``queue`` has, per rack, members
    that wait for one more; the one with the lowest ``sequence`` has waited longest.
    """
    low, high, extra = numbers[0], numbers[1], numbers[2]
    over, clock, place = numbers[3], numbers[4], 0
    for i in range(len(free)):
        row, at = _next_under(free[i], place, rack_start, rack, under_start, under_place, after)
        if row >= 0:
            m = under[at]
            size[m] += 1
            out[i] = m
            place = at + 1
            if size[m] >= low:
                after[row] = row + 1
                gone[at] = True
                if size[m] < high and over < extra:
                    r = member_rack[m]
                    queue[tail[r]] = m
                    tail[r] += 1
                    sequence[m] = clock
                    clock += 1
            continue
        if over == extra:
            continue
        m = _longest_waiting(free[i], rack_start, rack, queue, head, tail, sequence)
        if m >= 0:
            size[m] += 1
            out[i] = m
            if size[m] == high:
                head[member_rack[m]] += 1
                sequence[m] = -1
                over += 1
                if over == extra:  # nobody waits any more
                    for other in range(len(sequence)):
                        sequence[other] = -1
    return over
