# ruff: noqa: PLR0917 - pieces take numbers and arrays by place
"""Hash table that counts distinct keys: open addressing in NumPy arrays, filled in one pass.

Keys are looked up in blocks, first all slots of a block, then the entries that they point to, so
that cache misses overlap.

A slot has 31 bits of a key's hash above the 32 bits of the key's place; 0 is an empty slot. Its
number is the hash's highest bits, so a table that grows is copied from front to end without
reading the keys. An entry of the store is a word with the same hash and the key's length, the
key's records, their bytes if these are counted, then the key's own bytes by the word, with zeros
at the end. Two keys are equal if their bytes are, never because their hashes are.

Numbers with the highest bit set are unsigned to Numba, and so are results that they enter: the
words of keys and hashes wrap there, and are masked for Python. Places and counts are signed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import Bytes, Int64s, UInt64s, kernel, kernel_helper, prefetch_item

__all__ = ["COUNT", "DistinctKeys", "KeysCounted"]

_Longs = NDArray[np.int64]
_Words = NDArray[np.uint64]
_Bytes = NDArray[np.uint8]

_UNALIGNED = "Array(uint64, 1, 'A', readonly=True, aligned=False)"


#: Elements of `KeyTable.used`: number of keys, end of the store, hash bits that do not select the
#: slot, and words of an entry before the key's bytes.
_KEYS, _END, _SHIFT, _HEAD = range(4)


class KeyColumns(NamedTuple):
    """Batch of record keys to count in a hash table, with each key's number of records and bytes.

    Compiled code counts all keys of the batch in one call.

    Attributes:
        starts: int64[n + 1], offset of each key in the bytes of all keys.
        null: uint8[n], 1 for a key that is null and not counted; empty if none is.
        times: int64[n], number of records of each key; empty if each key has one record.
        sizes: int64[n], bytes of the records of each key; empty to count only the key's bytes.
    """

    starts: Int64s
    null: Bytes
    times: Int64s
    sizes: Int64s


class KeyTable(NamedTuple):
    """Arrays of a hash table (open addressing) that counts the records of each distinct key.

    Compiled kernels work on these arrays.

    Attributes:
        slots: hash indices, a power of two; each combines bits of a key's hash with the offset of
            its entry in ``store``.
        store: entries of the keys (length, hash, counts and bytes), one after the other.
        words: ``store`` viewed as unsigned integers.
        used: four numbers: number of keys, end of the store, hash shift, and size of an entry's
            head.
    """

    slots: Int64s
    store: Int64s
    words: UInt64s
    used: Int64s


@kernel_helper
def _last_word(data: _Bytes, wide: _Words, at: int, end: int) -> int:
    # The last one to seven bytes of a key, padded with zeros.
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


@kernel_helper
def _hash_key(data: _Bytes, words: _Words, begin: int, end: int) -> int:
    """Return a 31-bit hash of one record key, the bytes from ``begin`` to ``end`` of ``data``.

    It selects the key's slot in the hash table of distinct keys. Kafka itself does not use this
    hash.

    Args:
        data: bytes of all keys.
        words: for each byte of ``data``, the 8-byte integer that begins there.
        begin: index of the key's first byte.
        end: index after the key's last byte.
    """
    # Keys that differ only in up to seven trailing zero bytes may collide.
    top = 0x7FFFFFFFFFFFFFFF
    h = 0xA0761D6478BD642F
    while begin + 8 <= end:
        h = ((h ^ words[begin & top]) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 32
        begin += 8
    if begin < end:
        h = ((h ^ _last_word(data, words, begin, end)) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 32
    mixed: int = ((h * 0xD6E8FEB86659FD93) & 0xFFFFFFFFFFFFFFFF) >> 33
    return mixed


@kernel_helper
def _is_stored_at(data: _Bytes, wide: _Words, at: int, end: int, words: _Words, word: int) -> bool:
    top = 0x7FFFFFFFFFFFFFFF
    while at + 8 <= end:
        if wide[at & top] != words[word & top]:
            return False
        at += 8
        word += 1
    return at == end or _last_word(data, wide, at, end) == words[word & top]


@kernel_helper
def _find_or_add(data: _Bytes, wide: _Words, at: int, end: int, tag: int, table: KeyTable) -> int:
    top = 0x7FFFFFFFFFFFFFFF
    slots, store, words, used = table
    mask = len(slots) - 1
    slot = tag >> used[_SHIFT]
    head = tag << 32 | (end - at)
    while slots[slot & top] != 0:
        if slots[slot & top] >> 32 == tag:
            place: int = slots[slot & top] & 0xFFFFFFFF
            if store[place & top] == head and _is_stored_at(
                data, wide, at, end, words, place + used[_HEAD]
            ):
                return place
        slot = (slot + 1) & mask
    new: int = used[_END]
    slots[slot & top] = tag << 32 | new
    store[new & top] = head
    word = new + 1
    while word < new + used[_HEAD]:
        store[word & top] = 0
        word += 1
    while at + 8 <= end:
        words[word & top] = wide[at & top]
        at += 8
        word += 1
    if at < end:
        words[word & top] = _last_word(data, wide, at, end)
        word += 1
    used[_KEYS] += 1
    used[_END] = word
    return new


@kernel_helper
def _look_up(
    data: _Bytes, wide: _Words, starts: _Longs, slots: _Longs, store: _Longs, used: _Longs,
    block: _Longs,
) -> None:  # fmt: skip
    """Look up a batch of record keys in a hash table of distinct keys.

    The hash of each key and the index of its entry are written to ``block``. The index is 0 if the
    table does not have the key yet.

    Args:
        data: uint8, bytes of the keys.
        wide: uint64, the eight bytes that begin at each byte of ``data``.
        starts: offset of each key in ``data``.
        slots: hash slots of the table.
        store: entries of the table.
        used: sizes of the table.
        block: buffer of three integers for each key; output.
    """
    # Three steps for all keys together compute all hashes, read all slots and read all entries.
    # Each step loads independent addresses, so that cache misses overlap. Only keys whose first
    # slot has another key, or none, are collected and probed one by one.
    top = 0x7FFFFFFFFFFFFFFF
    shift = used[_SHIFT]
    third = len(block) // 3
    for i in range(len(starts) - 1):
        tag = _hash_key(data, wide, starts[i & top], starts[(i + 1) & top])
        block[i & top] = tag
        prefetch_item(slots, (tag >> shift) & top)
    others = 0
    for i in range(len(starts) - 1):
        found = slots[(block[i & top] >> shift) & top]
        block[(i + third) & top] = found
        block[(others + 2 * third) & top] = i
        others += found >> 32 != block[i & top]
        prefetch_item(store, found & 0xFFFFFFFF)
    for other in range(others):
        i = block[(other + 2 * third) & top]
        found = _next_slot(slots, block[i & top], block[i & top] >> shift)
        block[(i + third) & top] = found
        prefetch_item(store, found & 0xFFFFFFFF)
    for i in range(len(starts) - 1):
        # Where no slot is the key's the place is 0, and its word is too.
        place = block[(i + third) & top] & 0xFFFFFFFF
        head = block[i & top] << 32 | (starts[(i + 1) & top] - starts[i & top])
        block[(i + third) & top] = place * (store[place & top] == head)


@kernel_helper
def _next_slot(slots: _Longs, tag: int, slot: int) -> int:
    # 0 if an empty slot comes first.
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
def _count_keys(
    data: _Bytes, wide: _Words, keys: KeyColumns, first_key: int, table: KeyTable, block: _Longs
) -> int:  # fmt: skip
    """Count the records of each key in a hash table, until the table is full.

    The caller then enlarges the table and goes on with the first key that was not counted.

    Args:
        data: uint8, bytes of the keys.
        wide: uint64, the eight bytes that begin at each byte of ``data``.
        keys: the keys in ``data``, and the records of each.
        first_key: index of the first key to count.
        table: arrays of the table, changed in place.
        block: int64 buffer with three integers for each key.

    Returns:
        The index of the first key that is not counted.
    """
    top = 0x7FFFFFFFFFFFFFFF
    starts, null, times, sizes = keys
    slots, store, words, used = table
    third = len(block) // 3
    done = first_key
    while done < len(starts) - 1:
        stop = min(len(starts) - 1, done + third)
        need = used[_END] + (starts[stop] - starts[done]) // 8 + 5 * third
        if (used[_KEYS] + third) * 2 > len(slots) or need > len(store):
            return done
        _look_up(data, wide, starts[done : stop + 1], slots, store, used, block)
        for i in range(done, stop):
            if len(null) > 0 and null[i & top] != 0:
                continue
            at = starts[i & top]
            end = starts[(i + 1) & top]
            place = block[(i - done + third) & top]
            if place == 0 or not _is_stored_at(data, wide, at, end, words, place + used[_HEAD]):
                place = _find_or_add(data, wide, at, end, block[(i - done) & top], table)
            records = times[i & top] if len(times) > 0 else 1
            store[(place + 1) & top] += records
            if used[_HEAD] > 2:
                size = sizes[i & top] if len(sizes) > 0 else records * (end - at)
                store[(place + 2) & top] += size
        done = stop
    return done


@kernel("void(int64[::1], int64[::1], int64)")
def _move_slots(old: _Longs, slots: _Longs, shift: int) -> None:
    mask = len(slots) - 1
    for i in range(len(old)):
        if old[i] != 0:
            slot = (old[i] >> 32) >> shift
            while slots[slot] != 0:
                slot = (slot + 1) & mask
            slots[slot] = old[i]


@kernel("int64(int64[::1], int64, int64, int64[::1], int64[:,::1])")
def _copy_counts(
    store: _Longs, head_size: int, offset: int, offsets: _Longs, counts: NDArray[np.int64]
) -> int:  # fmt: skip
    """Copy the counts of distinct record keys from a hash table to arrays.

    The caller can then read them without knowledge of the table's layout.

    Args:
        store: the table's entries, one for each distinct key.
        head_size: number of integers before the bytes of a key in its entry.
        offset: offset in ``store`` of the first entry to copy.
        offsets: output: offset of each key's entry.
        counts: output: length, hash, number of records and bytes of each key.

    Returns:
        the offset in ``store`` after the last copied entry.
    """
    for number in range(len(offsets)):
        length = store[offset] & 0xFFFFFFFF
        offsets[number] = offset
        counts[0, number] = length
        counts[1, number] = store[offset] >> 32
        counts[2, number] = store[offset + 1]
        counts[3, number] = store[offset + 2] if head_size > 2 else store[offset + 1] * length
        offset += head_size + (length + 7) // 8
    return offset


@kernel("void(int64[::1], int64, int64[::1], int64[::1], Array(int64, 1, 'A', aligned=False))")
def _copy_keys(places: _Longs, head: int, store: _Longs, starts: _Longs, out: _Longs) -> None:
    # Each copy overwrites the padding zeros of the key before.
    for i in range(len(places)):
        word = places[i] + head
        at = starts[i]
        while at < starts[i + 1]:
            out[at] = store[word]
            at += 8
            word += 1


#: Keys looked up at a time.
_BLOCK = 256
#: Slots of an empty table, 2 to this power.
_FIRST_SLOT_BITS = 14
_HASH_BITS = 31
#: Where the first key lies: its words then share as few lines of the cache as can be.
_BEGIN = 8
#: Where a key lies has 32 bits in a slot.
_MOST_WORDS = 1 << 32
_NO_LONGS = np.zeros(0, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)

#: The kernel, to be asked whether it pays.
COUNT = _count_keys


class KeysCounted(NamedTuple):
    """Distinct record keys, with the number of records and bytes of each.

    `DistinctKeys.counted_keys` returns it.

    Attributes:
        data: uint8, the bytes of all keys.
        starts: int64[n + 1]; key i is ``data[starts[i]:starts[i + 1]]``.
        records: int64[n], number of records of each key.
        bytes: int64[n], bytes of these records.
    """

    data: _Bytes
    starts: _Longs
    records: _Longs
    bytes: _Longs


class DistinctKeys:
    """Hash table that counts the records and bytes of each distinct key.

    The keys are returned in the order in which they first appeared.

    Args:
        sized: whether the caller gives the bytes of each key's records. Otherwise only the bytes
            of the keys themselves count, and the table is smaller.

    >>> table = DistinctKeys()
    >>> data, starts = np.frombuffer(b"abcab", np.uint8), np.array([0, 2, 3, 5])
    >>> table.count_batch(data, starts)
    >>> counted = table.counted_keys()
    >>> counted.data.tobytes(), counted.records.tolist(), counted.bytes.tolist()
    (b'abc', [2, 1], [4, 1])
    """

    def __init__(self, *, sized: bool = False) -> None:
        self._head = 3 if sized else 2
        self._slots = np.zeros(1 << _FIRST_SLOT_BITS, np.int64)
        self._store = _allocate_words(8 << _FIRST_SLOT_BITS)
        self._used = np.array([0, _BEGIN, _HASH_BITS - _FIRST_SLOT_BITS, self._head], np.int64)
        self._block = np.zeros(3 * _BLOCK, np.int64)
        self._work = 0

    def __len__(self) -> int:
        return int(self._used[_KEYS])

    def remove_keys(self) -> None:
        """Remove all keys and their counts from the hash table.

        The allocated memory is kept for the keys that are counted next.
        """
        self._slots.fill(0)
        self._used[:2] = 0, _BEGIN

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes that the hash table of distinct keys uses.

        The bytes of the keys are included.
        """
        return self._slots.nbytes + 8 * int(self._used[_END])

    def count_batch(
        self,
        data: _Bytes,
        starts: _Longs,
        *,
        null: NDArray[np.bool_] | None = None,
        times: _Longs | None = None,
        sizes: _Longs | None = None,
    ) -> None:
        """Count the records of a batch of keys in the hash table.

        Keys that the table does not have yet are added.

        Args:
            data: uint8, the bytes of all keys.
            starts: int64[n + 1], start offset of each key, ascending.
            null: bool[n], the keys that are null and not counted.
            times: int64[n], number of records of each key; one if not given.
            sizes: int64[n], bytes of all records of each key, for a table with ``sized``; the
                key's own bytes if not given.
        """
        count = len(starts) - 1
        nulls = _NO_BYTES if null is None else null.view(np.uint8)
        wide: NDArray[np.uint64] = np.ndarray(max(0, len(data) - 7), "<u8", data, 0, (1,))
        # All work so far, and all kernels by the same: many small batches are worth a compiled
        # table as one large one is, and what was counted compiled is not read out by Python.
        self._work += 40 * count + 10 * (int(starts[-1] - starts[0]) // 8)
        keys = KeyColumns(
            starts,
            nulls,
            _NO_LONGS if times is None else times,
            _NO_LONGS if sizes is None else sizes,
        )
        done = 0
        while True:
            done = _count_keys(data, wide, keys, done, self._memory(), self._block, work=self._work)
            if done >= count:
                return
            self._grow(int(starts[min(count, done + _BLOCK)] - starts[done]))

    def _memory(self) -> KeyTable:
        return KeyTable(self._slots, self._store, self._store.view(np.uint64), self._used)

    def _grow(self, more: int) -> None:
        # ``more`` is the number of bytes of the next block of keys.
        known, end = self._used[:2].tolist()
        if (known + _BLOCK) * 2 > len(self._slots):
            slots = np.zeros(4 * len(self._slots), np.int64)
            self._used[_SHIFT] -= 2
            _move_slots(self._slots, slots, int(self._used[_SHIFT]), work=self._work)
            self._slots = slots
        need = end + more // 8 + 5 * _BLOCK
        if need > len(self._store):
            if need > _MOST_WORDS:
                raise MemoryError("a table of keys has at most 32 GiB")
            wider = _allocate_words(max(2 * len(self._store), need))
            wider[:end] = self._store[:end]
            self._store = wider

    def counts_and_offsets(self) -> tuple[_Longs, _Longs]:
        """Return the counts of each distinct key, and the offset of its bytes in the hash table.

        `keys_at` returns the bytes at these offsets.

        Returns:
            int64[n] offsets; int64[4, n] counts: length, hash (31 bits), records and bytes of each
                key.
        """
        places, heads, _ = self._heads(_BEGIN, len(self))
        # The hash is the same in every table.
        return places, heads

    def head_blocks(self, max_keys: int) -> Iterator[tuple[_Longs, _Longs]]:
        """Yield the counts of the distinct keys in blocks of at most ``max_keys`` keys.

        This needs less memory than all counts at once. Each block has the two arrays that
        `counts_and_offsets` returns.
        """
        place, left = _BEGIN, len(self)
        while left:
            places, heads, place = self._heads(place, min(max_keys, left))
            left -= len(places)
            yield places, heads

    def _heads(self, place: int, count: int) -> tuple[_Longs, _Longs, int]:
        places, heads = np.empty(count, np.int64), np.empty((4, count), np.int64)
        behind = _copy_counts(self._store, self._head, place, places, heads, work=self._work)
        return places, heads, int(behind)

    def keys_at(self, places: _Longs, lengths: _Longs) -> tuple[_Bytes, _Longs]:
        """Return the bytes of some counted keys, concatenated, and the offset of each key.

        The bytes are a uint8 array, the offsets int64[n + 1].

        Args:
            places: offsets of the keys' entries in the table, from `counts_and_offsets`.
            lengths: lengths of the keys in bytes.
        """
        starts = np.zeros(len(places) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        data = np.zeros(int(starts[-1]) + 8, np.uint8)
        wide: _Longs = np.ndarray(len(data) - 7, "<i8", data, 0, (1,))
        _copy_keys(places, self._head, self._store, starts, wide, work=self._work)
        return data[: int(starts[-1])], starts

    def counted_keys(self) -> KeysCounted:
        """Return all distinct keys with the number of records and bytes of each.

        They are in the order in which they first appeared.
        """
        places, heads = self.counts_and_offsets()
        data, starts = self.keys_at(places, heads[0])
        return KeysCounted(data, starts, heads[2], heads[3])


def _allocate_words(count: int) -> _Longs:
    # Aligned to a cache line. Word 0 belongs to no key, so that offset 0 means none.
    room = np.empty(count + 8, np.int64)
    skipped = -room.ctypes.data % 64 // 8
    words = room[skipped : skipped + count]
    words[0] = 0
    return words
