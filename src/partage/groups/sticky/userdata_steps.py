"""Reading many members' sticky user data at once, as a kernel over foreign bytes."""
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = ["hash_names", "read_claims"]

_PRIME = 0x01000193
_BASIS = 0x811C9DC5
_MASK = 0xFFFFFFFF


@piece
def _hash(data, begin, end):
    """FNV-1a of some bytes."""
    value = _BASIS
    for i in range(begin, end):
        value = ((value ^ data[i]) * _PRIME) & _MASK
    return value


@piece
def _int(data, at, size):
    """A big-endian signed integer of ``size`` bytes."""
    value = 0
    for i in range(at, at + size):
        value = (value << 8) | data[i]
    half = 1 << (8 * size - 1)
    return value - 2 * half if value >= half else value


@piece
def _same(data, at, names, begin, size):
    """Whether ``size`` bytes are alike."""
    for i in range(size):  # noqa: SIM110 - Numba has no generators in all()
        if data[at + i] != names[begin + i]:
            return False
    return True


@piece
def _is(k, data, at, size, names, name_start):
    """Whether the name in the bytes is that of topic ``k``."""
    begin = name_start[k]
    return name_start[k + 1] - begin == size and _same(data, at, names, begin, size)


@piece
def _topic(data, at, size, names, name_start, table):
    """The topic of a name in the bytes, -1 for a name that is not known."""
    mask = len(table) - 1
    place = _hash(data, at, at + size) & mask
    while table[place] >= 0:
        if _is(table[place], data, at, size, names, name_start):
            return table[place]
        place = (place + 1) & mask
    return -1


@kernel("void(uint8[::1], int64[::1], int32[::1])")
def hash_names(names, name_start, table):
    """Enter names into a hash table that has more slots than there are names; -1 is empty."""
    mask = len(table) - 1
    for k in range(len(name_start) - 1):
        if name_start[k + 1] == name_start[k]:
            continue
        place = _hash(names, name_start[k], name_start[k + 1]) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = k


@kernel(
    "int64(uint8[::1], int64[::1], uint8[::1], int64[::1], int32[::1], int32[::1], int32[::1],"
    " int32[::1], int64[::1], int64[::1], boolean[::1])"
)
def read_claims(
    data, start, names, name_start, table, after, topic, number, count, generation, dated
):
    """Claims on known topics of members one after the other; answers how many there are.

    ``start`` has where each member's bytes begin and, last, end. Out: ``topic`` and ``number``
    a claim, ``count`` of claims, ``generation`` and ``dated`` a member. Bytes are what
    `decode_sticky_user_data` says: those that are damaged claim nothing, with generation -1.
    ``after`` (scratch, -1) has which topic came after each one last: Java's hash order is the
    same for all members, so it does so again more often than not, and needs no look-up.
    """
    total = 0
    for m in range(len(start) - 1):
        at, end, first, before = start[m], start[m + 1], total, -1
        if at == end:
            continue
        good = end - at >= 4
        groups = _int(data, at, 4) if good else 0
        at += 4
        good = good and 0 <= groups <= end - at
        while good and groups > 0:
            groups -= 1
            good = end - at >= 2
            size = _int(data, at, 2) if good else 0
            at += 2
            good = good and 0 <= size <= end - at - 4
            if not good:
                break
            k = after[before + 1]
            if k < 0 or not _is(k, data, at, size, names, name_start):
                k = _topic(data, at, size, names, name_start, table)
                after[before + 1] = k
            before = k
            at += size
            numbers = _int(data, at, 4)
            at += 4
            good = 0 <= numbers <= (end - at) // 4
            if good and k >= 0:
                for i in range(numbers):
                    topic[total] = k
                    number[total] = _int(data, at + 4 * i, 4)
                    total += 1
            at += 4 * numbers
        if good:
            if end - at >= 4:
                generation[m] = _int(data, at, 4)
                dated[m] = True
        else:
            total = first
            dated[m] = True
        count[m] = total - first
    return total
