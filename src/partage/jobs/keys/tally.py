"""Distinct keys with their records become loads: by partition count, and what changes move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.jobs.keys.rows import KeyRowKind, row_batch
from partage.kernels import form
from partage.keys.skew import Moves, moves_of
from partage.keys.tallying import TALLIED, tallied

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KeyLoads", "placed_at"]

_Longs = NDArray[np.int64]
#: Partition counts up to here are counted in an array, larger ones by sorting.
_DENSE = 1 << 20
_MOST = (1 << 31) - 1
#: Bytes of keys that take longer by plain Python than numba takes to start.
_COMPILED_FROM = 32 << 20


def placed_at(keys: pa.Array, counts: Sequence[int], partitioner: str) -> dict[int, Any]:
    """Return the partition of each key, int32[k], by partition count; null keys anywhere.

    Every client folds a hash by a remainder, so that the partition at a multiple of n gives the
    one at n: where the counts have a small common multiple, keys are hashed once. A custom
    partitioner need not do so, and is asked at each count.
    """
    common = lcm(*counts)
    if common > _MOST or not _folds(partitioner):
        return {n: _at(keys, n, partitioner).view(np.int32) for n in counts}
    whole = _at(keys, common, partitioner)
    # By a scalar a division is done for many at once, a remainder is not.
    return {n: (whole - whole // np.uint32(n) * np.uint32(n)).view(np.int32) for n in counts}


def _folds(partitioner: str) -> bool:
    """Return whether a partitioner takes a hash modulo the number of partitions."""
    from partage.keys.custom import CustomRule
    from partage.keys.registry import find

    return not isinstance(find(partitioner).rule, CustomRule)


def _at(keys: pa.Array, partitions: int, partitioner: str) -> NDArray[np.uint32]:
    from partage.keys import partition_for

    found = partition_for(keys, partitions=partitions, partitioner=partitioner)
    where: NDArray[np.int32] = found.fill_null(0).to_numpy(zero_copy_only=False)
    return where.view(np.uint32)


class KeyLoads:
    """Loads at each of some partition counts, and what the changes between them move."""

    def __init__(
        self, counts: Sequence[int], changes: list[tuple[int, int]], partitioner: str
    ) -> None:
        self.counts, self.changes, self.partitioner = counts, changes, partitioner
        self._dense: dict[int, _Longs] = {}
        self._sparse: list[tuple[int, _Longs, _Longs, _Longs]] = []
        self._moves: dict[tuple[int, int], Moves] = {}
        self._bytes = self._steps = 0
        self._common = lcm(*counts)
        self._may_compile = max(counts) <= _DENSE and self._common <= _MOST and _folds(partitioner)

    def add(self, keys: pa.Array, records: _Longs, size: _Longs) -> None:
        """Keys, no two of them the same, with their records and the bytes of these."""
        # Blocks are small: whether to compile is asked of all of them together.
        self._bytes += keys.nbytes
        self._steps += len(keys)
        with form("compiled") if self._bytes > _COMPILED_FROM else nullcontext():
            if self._may_compile and TALLIED.pays(work=self._steps):
                self._add_compiled(keys, records, size)
                return
            placed = placed_at(keys, self.counts, self.partitioner)
        for n, where in placed.items():
            self._add(n, where, (records, size))
        for move in moves_of(placed, records, self.changes):
            at = (move.before, move.after)
            self._moves[at] = self._moves[at] + move if at in self._moves else move

    def _add_compiled(self, keys: pa.Array, records: _Longs, size: _Longs) -> None:
        """The same in one pass over the keys."""
        whole = _at(keys, self._common, self.partitioner)
        loads, moved = tallied(whole, records, size, self.counts, work=self._steps)
        for n, load in zip(self.counts, loads, strict=True):
            self._dense[n] = self._dense[n] + load if n in self._dense else load
        number = {n: i for i, n in enumerate(self.counts)}
        for before, after in self.changes:
            at = number[before], number[after]
            move = Moves(before, after, len(keys), int(moved[0][at]), int(records.sum()),
                         int(moved[1][at]))  # fmt: skip
            known = self._moves.get((before, after))
            self._moves[before, after] = move if known is None else known + move

    def _add(self, n: int, where: NDArray[np.int32], weights: tuple[_Longs, _Longs]) -> None:
        if n > _DENSE:
            used, codes = np.unique(where, return_inverse=True)
            records, size = (np.bincount(codes, w, len(used)).astype(np.int64) for w in weights)
            self._sparse.append((n, used.astype(np.int64), records, size))
            return
        found = np.stack([np.bincount(where, w, n).astype(np.int64) for w in weights])
        self._dense[n] = self._dense[n] + found if n in self._dense else found

    def rows(self) -> Iterator[pa.RecordBatch]:
        """As rows."""
        for n, (records, size) in self._dense.items():
            used = np.flatnonzero(records)
            yield row_batch(KeyRowKind.PARTITION, records[used], size[used], n=n, partition=used)
        for n, used, records, size in self._sparse:
            yield row_batch(KeyRowKind.PARTITION, records, size, n=n, partition=used)
        for (before, after), move in self._moves.items():
            yield row_batch(
                KeyRowKind.MOVED, [move.moved_records], [move.moved_keys], n=before,
                partition=np.array([after]),
            )  # fmt: skip
