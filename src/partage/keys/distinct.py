"""Table of distinct keys with counts: open addressing over plain arrays, filled in one pass.

Keys are looked up in blocks, first all slots of a block, then what they point to, so that the
memory's answers overlap (`partage.keys.distinct_kernels` has how the table is laid out).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.keys import distinct_kernels as kernels

__all__ = ["COUNT", "Distinct", "KeysCounted"]

_Longs = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

#: Keys looked up at a time.
_BLOCK = 256
#: Slots of an empty table, 2 to this power.
_FIRST = 14
_HASH_BITS = 31
#: Where the first key lies: its words then share as few lines of the cache as can be.
_BEGIN = 8
#: Where a key lies has 32 bits in a slot.
_MOST_WORDS = 1 << 32
_NO_LONGS = np.zeros(0, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)

#: The kernel, to be asked whether it pays.
COUNT = kernels.count


class KeysCounted(NamedTuple):
    """Distinct keys with their counts.

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

    Args:
        sized: whether bytes are given with the keys; the bytes of a key's records are else as
            many times its own, and the table is smaller.

    >>> table = Distinct()
    >>> data, starts = np.frombuffer(b"abcab", np.uint8), np.array([0, 2, 3, 5])
    >>> table.count(data, starts)
    >>> counted = table.counted()
    >>> counted.data.tobytes(), counted.records.tolist(), counted.bytes.tolist()
    (b'abc', [2, 1], [4, 1])
    """

    def __init__(self, *, sized: bool = False) -> None:
        self._head = 3 if sized else 2
        self._slots = np.zeros(1 << _FIRST, np.int64)
        self._store = _words(8 << _FIRST)
        # Keys, the store's end, bits of a hash that are no slot's, words of a head.
        self._used = np.array([0, _BEGIN, _HASH_BITS - _FIRST, self._head], np.int64)
        self._block = np.zeros(3 * _BLOCK, np.int64)
        self._work = 0

    def __len__(self) -> int:
        return int(self._used[0])

    def clear(self) -> None:
        """Remove all keys and keep the memory."""
        self._slots.fill(0)
        self._used[:2] = 0, _BEGIN

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use."""
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
            sizes: int64[n]: bytes of all records of each, for a table with them; the key's own
                if not given.
        """
        count = len(starts) - 1
        nulls = _NO_BYTES if null is None else null.view(np.uint8)
        wide: NDArray[np.uint64] = np.ndarray(max(0, len(data) - 7), "<u8", data, 0, (1,))
        # All work so far, and all kernels by the same: many small batches are worth a compiled
        # table as one large one is, and what was counted compiled is not read out by Python.
        self._work += 40 * count + 10 * (int(starts[-1] - starts[0]) // 8)
        keys = kernels.KeyColumns(
            starts,
            nulls,
            _NO_LONGS if times is None else times,
            _NO_LONGS if sizes is None else sizes,
        )
        done = 0
        while True:
            done = kernels.count(
                data, wide, keys, done, self._memory(), self._block, work=self._work
            )
            if done >= count:
                return
            self._grow(int(starts[min(count, done + _BLOCK)] - starts[done]))

    def _memory(self) -> kernels.KeyTable:
        return kernels.KeyTable(self._slots, self._store, self._store.view(np.uint64), self._used)

    def _grow(self, more: int) -> None:
        """Make room for a block of keys with ``more`` bytes."""
        known, end = self._used[:2].tolist()
        if (known + _BLOCK) * 2 > len(self._slots):
            slots = np.zeros(4 * len(self._slots), np.int64)
            self._used[2] -= 2
            kernels.slotted(self._slots, slots, int(self._used[2]), work=self._work)
            self._slots = slots
        need = end + more // 8 + 5 * _BLOCK
        if need > len(self._store):
            if need > _MOST_WORDS:
                raise MemoryError("a table of keys has at most 32 GiB")
            wider = _words(max(2 * len(self._store), need))
            wider[:end] = self._store[:end]
            self._store = wider

    def heads(self) -> tuple[_Longs, _Longs]:
        """Return int64[n], the place of each key, and int64[4, n]: length, hash, records, bytes.

        The hash has 31 bits and is the same in every table.
        """
        places, heads, _ = self._heads(_BEGIN, len(self))
        return places, heads

    def head_blocks(self, most: int) -> Iterator[tuple[_Longs, _Longs]]:
        """Yield `heads` of at most ``most`` keys at a time, which bounds the memory."""
        place, left = _BEGIN, len(self)
        while left:
            places, heads, place = self._heads(place, min(most, left))
            left -= len(places)
            yield places, heads

    def _heads(self, place: int, count: int) -> tuple[_Longs, _Longs, int]:
        places, heads = np.empty(count, np.int64), np.empty((4, count), np.int64)
        behind = kernels.headed(self._store, self._head, place, places, heads, work=self._work)
        return places, heads, int(behind)

    def keys_at(self, places: _Longs, lengths: _Longs) -> tuple[_Bytes, _Longs]:
        """Return the bytes of some keys, and int64[n + 1] of their start offsets."""
        starts = np.zeros(len(places) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        data = np.zeros(int(starts[-1]) + 8, np.uint8)
        wide: _Longs = np.ndarray(len(data) - 7, "<i8", data, 0, (1,))
        kernels.unpadded(places, self._head, self._store, starts, wide, work=self._work)
        return data[: int(starts[-1])], starts

    def counted(self) -> KeysCounted:
        """Return all keys in order of appearance with their counts."""
        places, heads = self.heads()
        data, starts = self.keys_at(places, heads[0])
        return KeysCounted(data, starts, heads[2], heads[3])


def _words(count: int) -> _Longs:
    """Return memory aligned to a cache line; word 0 belongs to no key."""
    room = np.empty(count + 8, np.int64)
    skipped = -room.ctypes.data % 64 // 8
    words = room[skipped : skipped + count]
    words[0] = 0
    return words
