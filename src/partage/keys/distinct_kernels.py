# ruff: noqa: PLR0917 - pieces take numbers and arrays by place
"""Kernels of the table of distinct keys (`partage.keys.distinct`): looking up, adding, reading out.

A slot has 31 bits of a key's hash above the 32 bits of where the key lies; 0 is an empty one. Its
number is the hash's highest bits: a table that grows is copied from front to end, without a look
at the keys. An entry of the store is a word with the same hash and the key's length, the key's
records, their bytes where these are asked for, then the key's own bytes by the word, zeros at the
end. Equal means equal bytes, never equal hashes.

Numbers with the highest bit set are unsigned to numba, and so is what they meet: the words of keys
and hashes wrap there, and are masked for Python. Places and counts are signed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import Bytes, Int64s, UInt64s, kernel, piece, prefetch

__all__ = ["KeyColumns", "KeyTable", "count", "headed", "slotted", "unpadded"]


_Longs = NDArray[np.int64]
_Words = NDArray[np.uint64]
_Bytes = NDArray[np.uint8]

_UNALIGNED = "Array(uint64, 1, 'A', readonly=True, aligned=False)"


class KeyColumns(NamedTuple):
    """Keys to count, and the records of each.

    Attributes:
        starts: int64[n + 1], offsets of the keys in their bytes.
        null: uint8[n], 1 for a key that is null and not counted; empty if none is.
        times: int64[n], records of each key; empty if each has one.
        sizes: int64[n], bytes of the records of each key; empty if these are the key's own.
    """

    starts: Int64s
    null: Bytes
    times: Int64s
    sizes: Int64s


class KeyTable(NamedTuple):
    """The memory of a table of distinct keys.

    Attributes:
        slots: a power of two of them.
        store: entries of the keys, one after the other.
        words: the memory of ``store`` as unsigned words.
        used: number of keys, end of the store, bits of a hash that are no slot's, words of an
            entry before the key's bytes.
    """

    slots: Int64s
    store: Int64s
    words: UInt64s
    used: Int64s


@piece
def _last_word(data: _Bytes, wide: _Words, at: int, end: int) -> int:
    """Return the last one to seven bytes of a key as an unsigned word."""
    top = 0x7FFFFFFFFFFFFFFF
    if at < len(wide):
        unused = 64 - 8 * (end - at)
        whole: int = wide[at & top]
        return ((whole << unused) & 0xFFFFFFFFFFFFFFFF) >> unused
    word = 0xFFFFFFFFFFFFFFFF
    word ^= word  # an unsigned zero
    last = end - 1
    while last >= at:
        word = word << 8 | data[last & top]
        last -= 1
    return word


@piece
def _hashed(data: _Bytes, wide: _Words, at: int, end: int) -> int:
    """Return a hash of 31 bits; keys that differ in up to seven trailing zeros may collide."""
    top = 0x7FFFFFFFFFFFFFFF
    h = 0xA0761D6478BD642F
    while at + 8 <= end:
        h = ((h ^ wide[at & top]) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 32
        at += 8
    if at < end:
        h = ((h ^ _last_word(data, wide, at, end)) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 32
    mixed: int = ((h * 0xD6E8FEB86659FD93) & 0xFFFFFFFFFFFFFFFF) >> 33
    return mixed


@piece
def _is_there(data: _Bytes, wide: _Words, at: int, end: int, words: _Words, word: int) -> bool:
    """Return whether a key equals the stored key of the same length at a place."""
    top = 0x7FFFFFFFFFFFFFFF
    while at + 8 <= end:
        if wide[at & top] != words[word & top]:
            return False
        at += 8
        word += 1
    return at == end or _last_word(data, wide, at, end) == words[word & top]


@piece
def _sought(data: _Bytes, wide: _Words, at: int, end: int, tag: int, table: KeyTable) -> int:
    """Return the place of a key; add it if it is new."""
    top = 0x7FFFFFFFFFFFFFFF
    slots, store, words, used = table
    mask = len(slots) - 1
    slot = tag >> used[2]
    head = tag << 32 | (end - at)
    while slots[slot & top] != 0:
        if slots[slot & top] >> 32 == tag:
            place: int = slots[slot & top] & 0xFFFFFFFF
            if store[place & top] == head and _is_there(
                data, wide, at, end, words, place + used[3]
            ):
                return place
        slot = (slot + 1) & mask
    new: int = used[1]
    slots[slot & top] = tag << 32 | new
    store[new & top] = head
    word = new + 1
    while word < new + used[3]:
        store[word & top] = 0
        word += 1
    while at + 8 <= end:
        words[word & top] = wide[at & top]
        at += 8
        word += 1
    if at < end:
        words[word & top] = _last_word(data, wide, at, end)
        word += 1
    used[0] += 1
    used[1] = word
    return new


@piece
def _looked_up(
    data: _Bytes, wide: _Words, starts: _Longs, slots: _Longs, store: _Longs, used: _Longs,
    block: _Longs,
) -> None:  # fmt: skip
    """Look up a block of keys: their hashes, then their slots, then the first words of places.

    Each step loads independent addresses, so that cache misses overlap. Only keys whose first
    slot holds another key, or none, are gathered and probed one by one.
    """
    top = 0x7FFFFFFFFFFFFFFF
    shift = used[2]
    third = len(block) // 3
    for i in range(len(starts) - 1):
        tag = _hashed(data, wide, starts[i & top], starts[(i + 1) & top])
        block[i & top] = tag
        prefetch(slots, (tag >> shift) & top)
    others = 0
    for i in range(len(starts) - 1):
        found = slots[(block[i & top] >> shift) & top]
        block[(i + third) & top] = found
        block[(others + 2 * third) & top] = i
        others += found >> 32 != block[i & top]
        prefetch(store, found & 0xFFFFFFFF)
    for other in range(others):
        i = block[(other + 2 * third) & top]
        found = _next_slot(slots, block[i & top], block[i & top] >> shift)
        block[(i + third) & top] = found
        prefetch(store, found & 0xFFFFFFFF)
    for i in range(len(starts) - 1):
        # Where no slot is the key's the place is 0, and its word is too.
        place = block[(i + third) & top] & 0xFFFFFFFF
        head = block[i & top] << 32 | (starts[(i + 1) & top] - starts[i & top])
        block[(i + third) & top] = place * (store[place & top] == head)


@piece
def _next_slot(slots: _Longs, tag: int, slot: int) -> int:
    """Return the content of the first slot with this hash, or of the empty one before it."""
    top = 0x7FFFFFFFFFFFFFFF
    mask = len(slots) - 1
    found: int = slots[slot & top]
    while found != 0 and found >> 32 != tag:
        slot = (slot + 1) & mask
        found = slots[slot & top]
    return found


@kernel(
    f"int64(Array(uint8, 1, 'C', readonly=True), {_UNALIGNED}, KeyColumns, int64, KeyTable,"
    "int64[::1])",
    KeyColumns, KeyTable,
)  # fmt: skip
def count(
    data: _Bytes, wide: _Words, keys: KeyColumns, first: int, table: KeyTable, block: _Longs
) -> int:  # fmt: skip
    """Count keys until the table has no room for another block.

    Args:
        data: uint8, bytes of the keys.
        wide: uint64, the eight bytes that begin at each of them.
        keys: the keys in ``data``, and the records of each.
        first: number of the first key to count.
        table: memory of the table, changed in place.
        block: int64, three words for each key that is looked up at a time.

    Returns:
        The number of the first key that is not counted.
    """
    top = 0x7FFFFFFFFFFFFFFF
    starts, null, times, sizes = keys
    slots, store, words, used = table
    third = len(block) // 3
    done = first
    while done < len(starts) - 1:
        stop = min(len(starts) - 1, done + third)
        need = used[1] + (starts[stop] - starts[done]) // 8 + 5 * third
        if (used[0] + third) * 2 > len(slots) or need > len(store):
            return done
        _looked_up(data, wide, starts[done : stop + 1], slots, store, used, block)
        for i in range(done, stop):
            if len(null) > 0 and null[i & top] != 0:
                continue
            at = starts[i & top]
            end = starts[(i + 1) & top]
            place = block[(i - done + third) & top]
            if place == 0 or not _is_there(data, wide, at, end, words, place + used[3]):
                place = _sought(data, wide, at, end, block[(i - done) & top], table)
            records = times[i & top] if len(times) > 0 else 1
            store[(place + 1) & top] += records
            if used[3] > 2:
                size = sizes[i & top] if len(sizes) > 0 else records * (end - at)
                store[(place + 2) & top] += size
        done = stop
    return done


@kernel("void(int64[::1], int64[::1], int64)")
def slotted(old: _Longs, slots: _Longs, shift: int) -> None:
    """Fill empty slots with those of a smaller table."""
    mask = len(slots) - 1
    for i in range(len(old)):
        if old[i] != 0:
            slot = (old[i] >> 32) >> shift
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = old[i]


@kernel("int64(int64[::1], int64, int64, int64[::1], int64[:,::1])")
def headed(
    store: _Longs, head: int, place: int, places: _Longs, heads: NDArray[np.int64]
) -> int:  # fmt: skip
    """Write place, length, hash, records and bytes of each key from a place on.

    Returns the place behind them.
    """
    for number in range(len(places)):
        length = store[place] & 0xFFFFFFFF
        places[number] = place
        heads[0, number] = length
        heads[1, number] = store[place] >> 32
        heads[2, number] = store[place + 1]
        heads[3, number] = store[place + 2] if head > 2 else store[place + 1] * length
        place += head + (length + 7) // 8
    return place


@kernel("void(int64[::1], int64, int64[::1], int64[::1], Array(int64, 1, 'A', aligned=False))")
def unpadded(places: _Longs, head: int, store: _Longs, starts: _Longs, out: _Longs) -> None:
    """Copy some keys one after the other; each overwrites the padding zeros of the one before."""
    for i in range(len(places)):
        word = places[i] + head
        at = starts[i]
        while at < starts[i + 1]:
            out[at] = store[word]
            at += 8
            word += 1
