"""Implementations of a hash function, and the choice of the fastest for a column of keys.

A column is bytes and where each key starts in them, as Arrow lays it out: no Python object a key.
It is walked in chunks that stay in the processor's cache. In each chunk:

* keys of one length, as ids and codes mostly are, go through lanes: one instruction works on
  many keys at once, where need be after the first words of all, then the second ones and so on
  were put side by side;
* others go through a loop key by key, compiled;
* where compiling does not pay (a small column, no numba), keys of one length at a time go
  through NumPy, and a handful of keys through plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidKeysError
from partage.kernels import Kernel

__all__ = ["Hash", "Int64Array", "KeyHashKernel", "UInt8Array", "UInt32Array", "hash_all"]

UInt8Array = NDArray[np.uint8]
UInt32Array = NDArray[np.uint32]
Int64Array = NDArray[np.int64]
Starts = NDArray[np.int32] | NDArray[np.int64]

KEYS_AT_ONCE = 16_384
#: Keys of one length up to this many bytes go through lanes; longer ones gain nothing by it.
LONGEST_IN_LANES = 64
#: Fewer keys of one length than this are sooner done one by one.
_FEWEST_KEYS_IN_ROWS = 8
#: A word of a lane costs NumPy about a fiftieth of what a kernel's interpreted step costs.
_LANE_WORDS_A_STEP = 50
#: Bytes that are gathered at once where keys of one length lie apart.
_GATHERED_AT_ONCE = 1 << 22


class KeyHashKernel(Protocol):
    """Interface of a compiled function (kernel) that hashes every key of a column.

    Each hash function of a Kafka client, such as murmur2, may have such a kernel.
    """

    def is_worth_compiling(self, *, work: int) -> bool:
        """Return whether compiling this kernel takes less time than it saves.

        ``work`` is the number of bytes to hash. A small column of keys is hashed faster without
        compilation.
        """
        ...

    def __call__(
        self, data: UInt8Array, starts: NDArray[np.int64], out: UInt32Array, /, *, work: int
    ) -> None:
        """Hash every record key of a column and write the hashes to ``out`` (uint32[n]).

        Compiled code processes the whole column in one call.

        Args:
            data: the bytes of all keys.
            starts: offsets; key i is ``data[starts[i]:starts[i + 1]]``.
            out: receives the hashes.
            work: number of bytes to hash.
        """
        ...


@dataclass(frozen=True, slots=True)
class Hash:
    """Hash function for record keys, such as murmur2, in several implementations.

    A single key is hashed in plain Python, a column of keys by NumPy or a compiled kernel.

    Attributes:
        name: name of the hash.
        hash_key: function that hashes one key, 0 <= h < 2**32.
        hash_rows: NumPy function that hashes n keys of equal length L: uint8[n, L] -> uint32[n].
        lanes: the same as a compiled kernel that writes to its second argument; None if `each` is
            faster.
        lane_kernel: function of a key length that returns that kernel; None for lengths that `each`
            hashes.
        each: compiled kernel (data, starts, out) for keys of any length, one after the other.
    """

    name: str
    hash_key: Callable[[bytes], int]
    hash_rows: Callable[[UInt8Array], UInt32Array]
    lanes: Callable[[UInt8Array, UInt32Array], None] | None
    lane_kernel: Callable[[int], Kernel | None] | None
    each: KeyHashKernel

    def __post_init__(self) -> None:
        _HASHES[self.name] = self

    def __reduce__(self) -> str | tuple[object, ...]:
        return _by_name, (self.name,)


#: Hashes by name. Unpickling finds them here: importing this module imports the package first.
_HASHES: dict[str, Hash] = {}


def _by_name(name: str) -> Hash:
    # pickle calls it.
    return _HASHES[name]


def hash_all(
    hash_: Hash,
    data: UInt8Array,
    starts: Starts,
    post_process: Callable[[UInt32Array], None] | None = None,
) -> UInt32Array:
    """Hash every key of a column with the fastest implementation for it.

    The result is uint32[n], one hash for each key.

    Args:
        hash_: the hash function in all its implementations.
        data: uint8, the bytes of all keys.
        starts: int32[n + 1] or int64[n + 1], ascending; key i is ``data[starts[i]:starts[i + 1]]``.
        post_process: function that changes each chunk of hashes in place, while it is in the cache.

    Raises:
        InvalidKeysError: a start is beyond the data, or less than the start before it.

    >>> data = np.frombuffer(b"abcab", np.uint8)
    >>> from partage.keys.hashing import CRC32
    >>> [hex(h) for h in hash_all(CRC32, data, np.array([0, 3, 5]))]
    ['0x352441c2', '0x9e83486d']
    """
    count = len(starts) - 1
    out = np.empty(max(count, 0), np.uint32)
    for first in range(0, count, KEYS_AT_ONCE):
        stop = min(count, first + KEYS_AT_ONCE)
        _hash_chunk(
            hash_, data, starts[first : stop + 1], out[first:stop], count=count, first=first
        )
        if post_process is not None:
            post_process(out[first:stop])
    return out


def _hash_chunk(
    hash_: Hash,
    data: UInt8Array,
    starts: Starts,
    out: UInt32Array,
    *,
    count: int,
    first: int,
) -> None:
    begin, end = int(starts[0]), int(starts[-1])
    length, left = divmod(end - begin, len(out))
    chunks = -(-count // len(out))
    work = (end - begin) * chunks // 4
    fits = (
        not left and begin >= 0 <= length and end <= len(data) and len(out) >= _FEWEST_KEYS_IN_ROWS
    )
    fits = fits and hash_.lanes is not None
    # Where all steps are equal and the ends are right, none of them has wrapped around.
    if fits and bool((starts[1:] - starts[:-1] == length).all()):
        rows = data[begin:end].reshape(len(out), length)
        if _hash_in_lanes(hash_, rows, out, work=work // _LANE_WORDS_A_STEP):
            return
    wide = starts.astype(np.int64)
    lengths = np.diff(wide)
    if begin < 0 or end > len(data) or int(lengths.min()) < 0:
        raise InvalidKeysError(
            "have offsets that do not fit the bytes",
            where=f"keys {first} to {first + len(out) - 1}",
        )
    if hash_.each.is_worth_compiling(work=(work + count) // 4):
        hash_.each(data, wide, out, work=end - begin)
    else:
        _hash_by_numpy(hash_, data, wide, lengths, out)


def _hash_in_lanes(hash_: Hash, rows: UInt8Array, out: UInt32Array, *, work: int) -> bool:
    # False: hashing one key after the other is faster.
    length = rows.shape[1]
    chosen = hash_.lane_kernel(length) if hash_.lane_kernel is not None else None
    if chosen is None or hash_.lanes is None:
        return False
    if chosen.is_worth_compiling(work=work):
        hash_.lanes(rows, out)
    elif length <= LONGEST_IN_LANES:
        out[:] = hash_.hash_rows(rows)
    else:
        return False
    return True


def _hash_by_numpy(
    hash_: Hash,
    data: UInt8Array,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: UInt32Array,
) -> None:
    """Hash every record key of a column with NumPy, without compiling a kernel.

    The hashes are written to ``out``. It is used for small columns.

    Args:
        hash_: the hash function in all its implementations.
        data: uint8, the bytes of all keys.
        starts: offset of each key.
        lengths: bytes of each key.
        out: receives the hashes.
    """
    # Keys of the same length are hashed together, or one by one if they are few or long.
    order = np.argsort(lengths, kind="stable")
    values, firsts, counts = np.unique(lengths[order], return_index=True, return_counts=True)
    for length, first, many in zip(values.tolist(), firsts.tolist(), counts.tolist(), strict=True):
        which = order[first : first + many]
        at_once = max(1, _GATHERED_AT_ONCE // max(1, length))
        if min(many, at_once) < _FEWEST_KEYS_IN_ROWS:
            for i in which.tolist():
                out[i] = hash_.hash_key(data[starts[i] : starts[i] + length].tobytes())
            continue
        for part in range(0, many, at_once):
            some = which[part : part + at_once]
            rows = data[starts[some][:, None] + np.arange(length)]
            out[some] = hash_.hash_rows(rows)
