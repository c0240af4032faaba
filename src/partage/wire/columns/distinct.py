"""A hash table of distinct byte strings for compiled kernels, and functions that they share.

A kernel replaces each string by a code: equal strings have equal codes, and each distinct string
becomes a Python object at most once. The table is open-addressed with linear probing. It keeps no
bytes of its own, only the position of each string in the column::

    data     ... o r d e r s . c l i c k s . o r d e r s ...
                 ^10           ^17
    slots    [ -1, 1, -1, 0 ]                        code at each hash slot
    table    [ hash, 10, 6 ]  [ hash, 17, 6 ]        one row a code: hash, position, size

Callers of the pieces check that the bytes exist.
"""

# ruff: noqa: ANN001, ANN201, ANN202 - a kernel's types stand in its signature
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import Int32s, Int64Rows, Int64s, inline_piece, kernel, kernel_helper
from partage.wire.columns import Bytes

__all__ = [
    "FIRST_NAMES",
    "NameHashTable",
    "NameTable",
    "fill_slots",
    "find_or_add",
    "find_or_add_likely",
    "hash_of",
    "int16_at",
    "int32_at",
    "int64_at",
    "is_half_full",
    "is_string",
    "read_only",
    "same_bytes",
]  # fmt: skip

#: The initial number of names that a table has room for, unless more are expected.
FIRST_NAMES = 1 << 10
_STEPS_A_NAME = 8


class NameHashTable(NamedTuple):
    """Hash table that gives distinct byte strings the numbers 0, 1 and so on.

    A string's number is called its code. Compiled code uses this tuple of arrays.

    Attributes:
        slots: the code at each hash index, -1 for none; the length is a power of two.
        table: hash, offset and size of each string, one row per code.
        used: one element, the number of strings.
    """

    slots: Int32s
    table: Int64Rows
    used: Int64s


#: Mask of a position in a column. It tells the compiler that no index is negative, so that it
#: reads eight bytes by one load instead of eight checked ones.
_PLACE = (1 << 40) - 1
#: A hash has 62 bits, so that it is the same number compiled and interpreted.
_HASH_BITS = (1 << 62) - 1
_MULTIPLIER = 0x1B873593CC9E2D51


@kernel_helper
def int16_at(data, at):
    """Return the big-endian signed 16-bit integer at position ``at`` of a byte array."""
    at = at & _PLACE
    high = data[at]
    return ((high - ((high & 128) << 1)) << 8) | data[at + 1]


@kernel_helper
def int32_at(data, at):
    """Return the big-endian signed 32-bit integer at position ``at`` of a byte array."""
    at = at & _PLACE
    high = data[at]
    return (
        ((high - ((high & 128) << 1)) << 24)
        | (data[at + 1] << 16)
        | (data[at + 2] << 8)
        | data[at + 3]
    )


@kernel_helper
def int64_at(data, at):
    """Return the big-endian signed 64-bit integer at position ``at`` of a byte array."""
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


@kernel_helper
def _mix(out, word):
    out = ((out ^ (word & _HASH_BITS)) * _MULTIPLIER) & _HASH_BITS
    return out ^ (out >> 29)


@kernel_helper
def hash_of(data, at, stop):
    """Return a 62-bit hash of the bytes ``data[at:stop]``.

    The hash is the same in compiled and interpreted code.
    """
    size = stop - at
    out = size
    # Four independent partial hashes, which a processor computes in parallel.
    if size >= 32:
        second, third, fourth = 1, 2, 3
        while at + 32 <= stop:
            out = _mix(out, int64_at(data, at)) ^ (data[at] >> 6)
            second = _mix(second, int64_at(data, at + 8)) ^ (data[at + 8] >> 6)
            third = _mix(third, int64_at(data, at + 16)) ^ (data[at + 16] >> 6)
            fourth = _mix(fourth, int64_at(data, at + 24)) ^ (data[at + 24] >> 6)
            at += 32
        out = _mix(_mix(_mix(out, second), third), fourth)
    while at + 8 <= stop:
        out = _mix(out, int64_at(data, at)) ^ (data[at] >> 6)
        at += 8
    if at < stop and size >= 8:
        return _mix(out, int64_at(data, stop - 8))
    if at + 4 <= stop:
        return _mix(_mix(out, int32_at(data, at)), int32_at(data, stop - 4))
    while at < stop:
        out = _mix(out, data[at])
        at += 1
    return out


@kernel_helper
def same_bytes(data, at, other, size):
    """Return whether two byte strings in one array are equal.

    They are ``data[at:at + size]`` and ``data[other:other + size]``.
    """
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


@inline_piece
def find_or_add(data, at, stop, names):
    """Return the number of a byte string in a hash table of distinct strings; add it if it is new.

    The string is ``data[at:stop]``, the table is ``names``. A new string gets the next free number.
    """
    slots, table = names.slots, names.table
    size = stop - at
    wanted = hash_of(data, at, stop)
    slot = wanted & (len(slots) - 1)
    code = slots[slot]
    while code >= 0:
        alike = table[code, 0] == wanted and table[code, 2] == size
        if alike and same_bytes(data, at, table[code, 1], size):
            return code
        slot = (slot + 1) & (len(slots) - 1)
        code = slots[slot]
    code = names.used[0]
    names.used[0] = code + 1
    slots[slot] = code
    table[code, 0], table[code, 1], table[code, 2] = wanted, at, size
    return code


@inline_piece
def is_string(data, at, stop, names, code):
    """Return whether a byte string is the one with number ``code`` in a hash table.

    The string is ``data[at:stop]``, the table is ``names``. The result is False for code -1.
    """
    size = stop - at
    if code < 0 or names.table[code, 2] != size:
        return False
    return same_bytes(data, at, names.table[code, 1], size)


@inline_piece
def find_or_add_likely(data, at, stop, names, like):
    """Return the number of a byte string in a hash table, given a likely number to try first.

    If the string is the expected one, this is faster than `find_or_add`, because comparing takes
    less time than hashing. A new string is added.

    Args:
        data: bytes that have the string.
        at: index of its first byte.
        stop: index after its last byte.
        names: the hash table.
        like: number of a likely string, compared first; -1 for none.
    """
    # A comparison takes less time than a hash.
    return like if is_string(data, at, stop, names, like) else find_or_add(data, at, stop, names)


@inline_piece
def is_half_full(names, more):
    """Return whether a hash table would be half full after some strings are added.

    The table must be enlarged then. ``names`` is the table, ``more`` the number of strings to add.
    """
    return 2 * (names.used[0] + more) >= len(names.slots)


@kernel("void(int64[:, ::1], int64, int32[::1])")
def fill_slots(table, count, slots):
    """Rebuild the index of a hash table of byte strings, after the index was enlarged.

    The strings keep their numbers.

    Args:
        table: hash, offset and size of each string.
        count: number of strings to insert.
        slots: receives the number of the string at each hash index.
    """
    for code in range(count):
        slot = table[code, 0] & (len(slots) - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = code


class NameTable:
    """Growing hash table of distinct byte strings, which compiled code fills.

    Compiled code cannot enlarge it: it stops when the table is full, and the caller enlarges it.

    Args:
        expected: approximate number of strings; the table grows if there are more.
    """

    def __init__(self, expected: int = 0) -> None:
        room = 1 << max(expected - 1, FIRST_NAMES - 1).bit_length()
        table = np.empty((room + 1, 3), np.int64)
        self.names = NameHashTable(np.full(2 * room, -1, np.int32), table, np.zeros(1, np.int64))

    def __len__(self) -> int:
        return int(self.names.used[0])

    def enlarge(self) -> None:
        """Enlarge the hash table to about four times its capacity.

        The strings keep their numbers.
        """
        count = max(len(self), 16)
        slots = np.full(1 << (8 * count - 1).bit_length(), -1, np.int32)
        more = np.empty((len(slots) // 2 + 1, 3), np.int64)
        more[: len(self)] = self.names.table[: len(self)]
        fill_slots(more, len(self), slots, work=len(self) * _STEPS_A_NAME)
        self.names = NameHashTable(slots, more, self.names.used)

    def is_full(self, reserve: int) -> bool:
        """Return whether the hash table must be enlarged before more strings are added.

        ``reserve`` is the number of strings to add. A table should be at most half full.
        """
        return bool(is_half_full(self.names, reserve))

    def names_in_code_order(self, data: Bytes) -> list[bytes]:
        """Return all byte strings of the hash table, sorted by their numbers.

        ``data`` is the array of bytes from which the strings were added.
        """
        return [data[at : at + n].tobytes() for at, n in self.name_positions().tolist()]

    def name_positions(self) -> NDArray[np.int64]:
        """Return the position of each string in the source bytes: offset and size (int64[n, 2]).

        The source bytes are those from which the strings were added. The result is a copy.
        """
        positions: NDArray[np.int64] = self.names.table[: len(self), 1:].copy()
        return positions


def read_only(array: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    """Convert an array to a read-only, contiguous array of a type, as compiled code needs it.

    It is copied only if it has another type or layout.

    Args:
        array: the array to convert.
        kind: the NumPy type of the result.
    """
    view: NDArray[Any] = np.require(array, kind, ["C", "A"]).view()
    view.flags.writeable = False
    return view
