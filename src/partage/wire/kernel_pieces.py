"""What the kernels over foreign bytes share: big-endian integers, and codes of equal strings.

A name becomes a code by a hash table over the column's own bytes: each distinct one is made a
string once, by the caller. Whoever calls these has looked that the bytes are there.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = [
    "code_like", "code_of", "fill_slots", "hash_of", "int16_at", "int32_at", "int64_at",
    "same_bytes",
]  # fmt: skip

#: A place within a column. It tells the compiler that no index is negative: eight bytes are then
#: one load, and not eight with a question each.
_PLACE = (1 << 40) - 1
#: A hash has 62 bits, so that it is the same number compiled and interpreted.
_HASH_BITS = (1 << 62) - 1
_MULTIPLIER = 0x1B873593CC9E2D51


@piece
def int16_at(data, at):
    """Two bytes as a signed number."""
    at = at & _PLACE
    high = data[at]
    return ((high - ((high & 128) << 1)) << 8) | data[at + 1]


@piece
def int32_at(data, at):
    """Four bytes as a signed number."""
    at = at & _PLACE
    high = data[at]
    return (
        ((high - ((high & 128) << 1)) << 24)
        | (data[at + 1] << 16)
        | (data[at + 2] << 8)
        | data[at + 3]
    )


@piece
def int64_at(data, at):
    """Eight bytes as a signed number."""
    at = at & _PLACE
    high = data[at]
    return (
        ((high - ((high & 128) << 1)) << 56)
        | (data[at + 1] << 48)
        | (data[at + 2] << 40)
        | (data[at + 3] << 32)
        | (data[at + 4] << 24)
        | (data[at + 5] << 16)
        | (data[at + 6] << 8)
        | data[at + 7]
    )


@piece
def _stirred(out, word):
    """62 bits of a hash and 62 bits of a word."""
    out = ((out ^ (word & _HASH_BITS)) * _MULTIPLIER) & _HASH_BITS
    return out ^ (out >> 29)


@piece
def hash_of(data, at, stop):
    """62 bits of the bytes within [at, stop); the last eight are taken once more if need be.

    Long ones go through four sums at a time, which wait for nothing of each other.
    """
    size = stop - at
    out = size
    if size >= 32:
        second, third, fourth = 1, 2, 3
        while at + 32 <= stop:
            out = _stirred(out, int64_at(data, at)) ^ (data[at] >> 6)
            second = _stirred(second, int64_at(data, at + 8)) ^ (data[at + 8] >> 6)
            third = _stirred(third, int64_at(data, at + 16)) ^ (data[at + 16] >> 6)
            fourth = _stirred(fourth, int64_at(data, at + 24)) ^ (data[at + 24] >> 6)
            at += 32
        out = _stirred(_stirred(_stirred(out, second), third), fourth)
    while at + 8 <= stop:
        out = _stirred(out, int64_at(data, at)) ^ (data[at] >> 6)
        at += 8
    if at < stop and size >= 8:
        return _stirred(out, int64_at(data, stop - 8))
    if at + 4 <= stop:
        return _stirred(_stirred(out, int32_at(data, at)), int32_at(data, stop - 4))
    while at < stop:
        out = _stirred(out, data[at])
        at += 1
    return out


@piece
def same_bytes(data, at, other, size):
    """Whether two places have the same bytes."""
    done = 0
    while done + 8 <= size:
        if int64_at(data, at + done) != int64_at(data, other + done):
            return False
        done += 8
    if done < size and size >= 8:
        return int64_at(data, at + size - 8) == int64_at(data, other + size - 8)
    while done < size:
        if data[at + done] != data[other + done]:
            return False
        done += 1
    return True


@piece
def code_of(data, at, stop, slots, names, counts, which):
    """The code of the bytes within [at, stop): that of equal ones met before, else a new one."""
    size = stop - at
    wanted = hash_of(data, at, stop)
    slot = wanted & (len(slots) - 1)
    code = slots[slot]
    while code >= 0:
        alike = names[code, 0] == wanted and names[code, 2] == size
        if alike and same_bytes(data, at, names[code, 1], size):
            return code
        slot = (slot + 1) & (len(slots) - 1)
        code = slots[slot]
    code = counts[which]
    counts[which] = code + 1
    slots[slot] = code
    names[code, 0], names[code, 1], names[code, 2] = wanted, at, size
    return code


@piece
def code_like(data, at, stop, slots, names, counts, which, like):
    """The same, where the bytes are most often those of code ``like`` (-1: nobody knows): to
    compare is sooner done than to hash.
    """
    size = stop - at
    if like >= 0 and names[like, 2] == size and same_bytes(data, at, names[like, 1], size):
        return like
    return code_of(data, at, stop, slots, names, counts, which)


@kernel("void(int64[:, ::1], int64, int32[::1])")
def fill_slots(names, count, slots):
    """Puts so many names, by their hashes, into a table of empty slots."""
    for code in range(count):
        slot = names[code, 0] & (len(slots) - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = code
