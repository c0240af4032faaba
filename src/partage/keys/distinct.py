# ruff: noqa: PLR0917 - kernels take arrays by place, and have many
"""Distinct keys with their records, counted in one pass: an open hash table over plain arrays.

Everything about a key lies together in one array of words, its bytes at the end, the last word
filled up with zeros. A slot has 31 bits of the key's hash and where the key lies; equal means
equal bytes, never equal hashes. Keys are looked up in blocks, first all slots of a block, then
what they point to, so that the memory's answers overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel, piece

__all__ = ["COUNT", "Distinct", "KeysCounted"]

_Longs = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

#: Keys looked up at a time.
_BLOCK = 256
_FIRST = 1 << 14
#: Words of a key before its bytes: its length, its hash, its records, their bytes.
_HEAD = 4
#: Where a key lies has 32 bits in a slot.
_MOST_WORDS = 1 << 32
_NO_LONGS = np.zeros(0, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)
_WIDE = "Array(int64, 1, 'A', readonly=True, aligned=False)"


@piece
def _last_word(data: _Bytes, wide: _Longs, at: int, end: int) -> int:
    """The one to seven bytes that are left over."""
    top = 0x7FFFFFFFFFFFFFFF
    if at < len(wide):
        whole: int = wide[at & top] & ((1 << (8 * (end - at))) - 1)
        return whole
    word = 0
    shift = 0
    while at < end:
        word |= data[at & top] << shift
        shift += 8
        at += 1
    return word


@piece
def _mixed(h: int, word: int) -> int:
    """63 bits. No product reaches 2**63: what would wrap, compiled code may take for impossible."""
    low = ((h ^ word) & 0xFFFFFFFF) * 0x5BD1E995
    high = (((h >> 32) ^ (word >> 32)) & 0xFFFFFFFF) * 0x4F2D1A4B
    low ^= low >> 31
    high ^= high >> 29
    mixed: int = ((low & 0x7FFFFFFF) << 32 | (high & 0xFFFFFFFF)) ^ ((low >> 31) & 0xFFFFFFFF)
    return mixed


@piece
def _hashed(data: _Bytes, wide: _Longs, at: int, end: int) -> int:
    h = 0x1F3D5B79
    length = end - at
    while at + 8 <= end:
        h = _mixed(h, wide[at & 0x7FFFFFFFFFFFFFFF])
        at += 8
    if at < end:
        h = _mixed(h, _last_word(data, wide, at, end))
    mixed: int = _mixed(h, length | length << 32)
    return mixed


@piece
def _is_there(
    data: _Bytes, wide: _Longs, at: int, end: int, store: _Longs, place: int
) -> bool:  # fmt: skip
    """Whether the key lies at this place."""
    top = 0x7FFFFFFFFFFFFFFF
    if store[place & top] != end - at:
        return False
    word = place + 4
    while at + 8 <= end:
        if wide[at & top] != store[word & top]:
            return False
        at += 8
        word += 1
    return at == end or _last_word(data, wide, at, end) == store[word & top]


@piece
def _put(
    data: _Bytes, wide: _Longs, at: int, end: int, store: _Longs, used: _Longs, h: int
) -> int:  # fmt: skip
    """Where the new key lies now."""
    top = 0x7FFFFFFFFFFFFFFF
    place: int = used[1]
    store[place & top] = end - at
    store[(place + 1) & top] = h
    store[(place + 2) & top] = 0
    store[(place + 3) & top] = 0
    word = place + 4
    while at + 8 <= end:
        store[word & top] = wide[at & top]
        at += 8
        word += 1
    if at < end:
        store[word & top] = _last_word(data, wide, at, end)
        word += 1
    used[0] += 1
    used[1] = word
    return place


@piece
def _slots_of(
    data: _Bytes, wide: _Longs, starts: _Longs, slots: _Longs, store: _Longs, block: _Longs
) -> None:  # fmt: skip
    """Hashes of a block of keys, and their slots and places asked for ahead of need."""
    top = 0x7FFFFFFFFFFFFFFF
    mask = len(slots) - 1
    half = len(block) // 2
    for i in range(len(starts) - 1):
        h = _hashed(data, wide, starts[i & top], starts[(i + 1) & top])
        block[i & top] = h
        block[(i + half) & top] = slots[h & mask]
    for i in range(len(starts) - 1):
        block[(i + half) & top] = store[(block[(i + half) & top] & 0xFFFFFFFF)]


@kernel(
    f"int64(Array(uint8, 1, 'C', readonly=True), {_WIDE}, int64[::1], uint8[::1], int64[::1],"
    "int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def _count(
    data: _Bytes, wide: _Longs, starts: _Longs, null: _Bytes, times: _Longs, sizes: _Longs,
    slots: _Longs, store: _Longs, used: _Longs, block: _Longs,
) -> int:  # fmt: skip
    """Count keys until all are, or the table has no room for a block more; how many were."""
    top = 0x7FFFFFFFFFFFFFFF
    count = len(starts) - 1
    mask = len(slots) - 1
    half = len(block) // 2
    done = 0
    while done < count:
        stop = min(count, done + half)
        need = used[1] + (starts[stop] - starts[done]) // 8 + 5 * half
        if (used[0] + half) * 2 > len(slots) or need > len(store):
            return done
        _slots_of(data, wide, starts[done : stop + 1], slots, store, block)
        for i in range(done, stop):
            if len(null) > 0 and null[i & top] != 0:
                continue
            at = starts[i & top]
            end = starts[(i + 1) & top]
            h = block[(i - done) & top]
            slot = h & mask
            place = -1
            while slots[slot & top] != 0 and place < 0:
                if slots[slot & top] >> 32 == h >> 32:
                    place = slots[slot & top] & 0xFFFFFFFF
                    if not _is_there(data, wide, at, end, store, place):
                        place = -1
                slot = (slot + 1) & mask
            if place < 0:
                place = _put(data, wide, at, end, store, used, h)
                slots[slot & top] = (h >> 32) << 32 | place
            records = times[i & top] if len(times) > 0 else 1
            store[(place + 2) & top] += records
            store[(place + 3) & top] += sizes[i & top] if len(sizes) > 0 else records * (end - at)
        done = stop
    return done


@kernel("void(int64[::1], int64[::1], int64)")
def _slotted(slots: _Longs, store: _Longs, end: int) -> None:
    """Fill empty slots with the keys that are there, which end at this word."""
    mask = len(slots) - 1
    place = 1
    while place < end:
        h = store[place + 1]
        slot = h & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = (h >> 32) << 32 | place
        place += 4 + (store[place] + 7) // 8


@kernel("void(int64[::1], int64[::1], int64[:,::1])")
def _headed(store: _Longs, places: _Longs, heads: NDArray[np.int64]) -> None:
    """Where each key lies, and its length, hash, records and bytes, a row each."""
    place = 1
    for number in range(len(places)):
        length = store[place]
        places[number] = place
        heads[0, number] = length
        heads[1, number] = store[place + 1]
        heads[2, number] = store[place + 2]
        heads[3, number] = store[place + 3]
        place += 4 + (length + 7) // 8


@kernel("void(int64[::1], int64[::1], int64[::1], Array(int64, 1, 'A', aligned=False))")
def _unpadded(places: _Longs, store: _Longs, starts: _Longs, out: _Longs) -> None:
    """Bytes of some keys, one after the other: each begins on the zeros that filled up the last."""
    for i in range(len(places)):
        word = places[i] + 4
        at = starts[i]
        while at < starts[i + 1]:
            out[at] = store[word]
            at += 8
            word += 1


#: The kernel, to be asked whether it pays.
COUNT = _count


class KeysCounted(NamedTuple):
    """Some keys and what was counted of them.

    Attributes:
        data: uint8, their bytes.
        starts: int64[n + 1]; key i is ``data[starts[i]:starts[i + 1]]``.
        records: int64[n].
        bytes: int64[n].
    """

    data: _Bytes
    starts: _Longs
    records: _Longs
    bytes: _Longs


class Distinct:
    """A table of keys in order of appearance, with their records and bytes.

    >>> table = Distinct()
    >>> data, starts = np.frombuffer(b"abcab", np.uint8), np.array([0, 2, 3, 5])
    >>> table.count(data, starts)
    >>> counted = table.counted()
    >>> counted.data.tobytes(), counted.records.tolist(), counted.bytes.tolist()
    (b'abc', [2, 1], [4, 1])
    """

    def __init__(self) -> None:
        self._slots = np.zeros(_FIRST, np.int64)
        self._store = np.zeros(8 * _FIRST, np.int64)
        self._used = np.array([0, 1], np.int64)  # keys, words: a slot of 0 is an empty one
        self._block = np.zeros(2 * _BLOCK, np.int64)
        self._work = 0

    def __len__(self) -> int:
        return int(self._used[0])

    def clear(self) -> None:
        """No keys; the memory is kept."""
        self._slots.fill(0)
        self._used[:] = 0, 1

    @property
    def nbytes(self) -> int:
        """Memory that is used."""
        return self._slots.nbytes + 8 * int(self._used[1])

    def count(
        self,
        data: _Bytes,
        starts: _Longs,
        *,
        null: NDArray[np.bool_] | None = None,
        times: _Longs | None = None,
        sizes: _Longs | None = None,
    ) -> None:
        """Count keys.

        Args:
            data: uint8, the bytes of all keys.
            starts: int64[n + 1], never falling, within the bytes.
            null: bool[n]: which are none, and not counted.
            times: int64[n]: records of each; one if not given.
            sizes: int64[n]: bytes of all records of each; the key's own if not given.
        """
        count = len(starts) - 1
        nulls = _NO_BYTES if null is None else null.view(np.uint8)
        wide: _Longs = np.ndarray(max(0, len(data) - 7), "<i8", data, 0, (1,))
        # All work so far: many small batches are worth a compiled table as one large one is.
        self._work += 40 * count + 10 * (int(starts[-1] - starts[0]) // 8)
        done = 0
        while True:
            done += _count(
                data, wide, starts[done:], nulls[done:], _rest(times, done), _rest(sizes, done),
                self._slots, self._store, self._used, self._block,
                work=self._work,
            )  # fmt: skip
            if done >= count:
                return
            self._grow(int(starts[min(count, done + _BLOCK)] - starts[done]))

    def _grow(self, more: int) -> None:
        """Room for a block of keys with so many bytes."""
        known, end = self._used.tolist()
        if (known + _BLOCK) * 2 > len(self._slots):
            self._slots = np.zeros(4 * len(self._slots), np.int64)
            _slotted(self._slots, self._store, end, work=10 * known)
        need = end + more // 8 + 5 * _BLOCK
        if need > len(self._store):
            if need > _MOST_WORDS:
                raise MemoryError("a table of keys has at most 32 GiB")
            wider = np.empty(max(2 * len(self._store), need), np.int64)
            wider[:end] = self._store[:end]
            self._store = wider

    def heads(self) -> tuple[_Longs, _Longs]:
        """int64[n]: where each key lies, for `keys_at`; int64[4, n]: length, hash, records, bytes.

        The hash has 63 bits and is the same in every table.
        """
        places, heads = np.empty(len(self), np.int64), np.empty((_HEAD, len(self)), np.int64)
        _headed(self._store, places, heads, work=10 * len(self))
        return places, heads

    def keys_at(self, places: _Longs, lengths: _Longs) -> tuple[_Bytes, _Longs]:
        """Bytes of some keys, and int64[n + 1] where each starts."""
        starts = np.zeros(len(places) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        data = np.zeros(int(starts[-1]) + 8, np.uint8)
        wide: _Longs = np.ndarray(len(data) - 7, "<i8", data, 0, (1,))
        _unpadded(places, self._store, starts, wide, work=len(data) // 4)
        return data[: int(starts[-1])], starts

    def counted(self) -> KeysCounted:
        """All keys in order of appearance, and what was counted of them."""
        places, heads = self.heads()
        data, starts = self.keys_at(places, heads[0])
        return KeysCounted(data, starts, heads[2], heads[3])


def _rest(values: _Longs | None, done: int) -> _Longs:
    return _NO_LONGS if values is None else values[done:]
