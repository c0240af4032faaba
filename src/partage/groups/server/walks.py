"""Iteration order of many Java hash collections at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.javaorder import copied_hash_set_table, hash_order

__all__ = ["copied_order", "walk_copied_sets", "walk_maps"]

_DEFAULT_TABLE = 16
_LARGEST_TABLE = 1 << 30
_TREE_TABLE = 64
#: A bucket with more keys makes a table below 64 slots grow (``TREEIFY_THRESHOLD``).
_TREE_THRESHOLD = 8

Hashes = NDArray[np.uint32]
Order = NDArray[np.intp]


def copied_order(
    hashes: Sequence[int], size: int, rank: Callable[[], Sequence[int]] | None = None
) -> list[int]:
    """Return the order of keys in ``new HashSet<>(collection)``; ``collection.size()`` is ``size``.

    >>> copied_order([17, 1, 2], 3)
    [0, 1, 2]
    """
    return hash_order(hashes, table=copied_hash_set_table(size), rank=rank)


def walk_maps(group: NDArray[Any], hashes: Hashes) -> Order:
    """Return the positions of keys, map by map, in the order of ``HashMap``s filled by ``put``.

    ``group`` is the map of each key, ascending; keys are in order of insertion.
    """
    return _walk(group, hashes, copied=False)


def walk_copied_sets(group: NDArray[Any], hashes: Hashes) -> Order:
    """Return the same for ``HashSet``s made by the copy constructor, JDK 18 or older.

    >>> walk_copied_sets(np.array([0, 0, 1]), np.array([5, 3, 9], np.uint32)).tolist()
    [1, 0, 2]
    """
    return _walk(group, hashes, copied=True)


def _walk(group: NDArray[Any], hashes: Hashes, *, copied: bool) -> Order:
    if not len(group):
        return np.zeros(0, np.intp)
    first = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    sizes = np.diff(first, append=len(group))
    table = np.full(len(sizes), _DEFAULT_TABLE, np.int64)
    for n in _doublings():
        # Copied sets have a capacity of size * 4/3 + 1; filled maps keep the load under 3/4.
        small = sizes * 4 // 3 + 1 > n if copied else sizes * 4 > n * 3
        if not small.any():
            break
        table[small] = n * 2
    spread = hashes ^ (hashes >> np.uint32(16))
    ordinal = np.repeat(np.arange(len(sizes)), sizes)
    bucket = spread & (np.repeat(table, sizes) - 1).astype(np.uint32)
    key = (ordinal << 32) | bucket
    order = np.argsort(key, kind="stable")
    _walk_large_buckets(order, key[order], first, sizes, hashes, copied=copied)
    return order


def _doublings() -> list[int]:
    return [1 << bit for bit in range(4, _LARGEST_TABLE.bit_length())]


def _walk_large_buckets(
    order: Order,
    keys: NDArray[np.int64],
    first: Order,
    sizes: Order,
    hashes: Hashes,
    *,
    copied: bool,
) -> None:
    """Walk collections with nine or more keys in a bucket one by one: these may have grown.

    A map that grew beyond 64 slots may have had such a bucket before.
    """
    large = keys[np.flatnonzero(keys[_TREE_THRESHOLD:] == keys[:-_TREE_THRESHOLD])] >> 32
    grown = np.zeros(0, np.int64) if copied else np.flatnonzero(sizes * 4 > _TREE_TABLE * 3)
    for one in np.union1d(large, grown).tolist():
        begin, size = int(first[one]), int(sizes[one])
        keys_of_one = hashes[begin : begin + size].tolist()
        places = copied_order(keys_of_one, size) if copied else hash_order(keys_of_one)
        order[begin : begin + size] = begin + np.array(places, np.intp)
