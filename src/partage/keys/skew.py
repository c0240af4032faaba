"""Skew of partitions for a set of keys, and the keys that move if the partition count changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel

__all__ = ["TALLIED", "Load", "Moves", "compare_counts", "count_moves", "summarize_load"]

_Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """Summary of how evenly a topic's records are distributed over its partitions.

    It shows, for example, whether a hot key makes one partition much larger than the others.

    Attributes:
        partitions: number of partitions.
        records: number of records in all partitions.
        hottest: number of the partition with the most records, the lowest of several.
        most, least: records of the fullest and of the emptiest partition.
        share: share of the records in the fullest partition; 0 without records.
        even: value of ``share`` for an even distribution.
        spread: ``most / mean``; 1.0 is even.
        empty: number of partitions without any record.
    """

    partitions: int
    records: int
    hottest: int
    most: int
    least: int
    share: float
    even: float
    spread: float
    empty: int


def summarize_load(partition: _Longs, records: _Longs, partitions: int) -> Load:
    """Summarize how evenly a topic's records are distributed over its partitions.

    The result has, for example, the share of the records in the fullest partition.

    Args:
        partition: int64[n], distinct partition numbers.
        records: int64[n], number of records of each.
        partitions: number of all partitions, up to 2**31 - 1; few of them need have records.

    >>> summarize_load(np.array([0, 2]), np.array([30, 10]), 4).spread
    3.0
    """
    used = records > 0
    total = int(records.sum())
    if not total:
        return Load(partitions, 0, 0, 0, 0, 0.0, 1 / partitions, 1.0, partitions)
    most = int(records.max())
    empty = partitions - int(used.sum())
    return Load(
        partitions, total, int(partition[records == most].min()), most,
        0 if empty else int(records.min()), most / total, 1 / partitions,
        most * partitions / total, empty,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moves:
    """Numbers of keys and records that change partition when a topic's partition count changes.

    Such a key has old and new records in different partitions, so consumers may read them out of
    order.

    Attributes:
        before, after: the partition counts.
        keys, moved_keys: number of distinct keys, and of those whose partition changes.
        records, moved_records: number of records of these keys.
    """

    before: int
    after: int
    keys: int
    moved_keys: int
    records: int
    moved_records: int

    def __add__(self, other: Moves) -> Moves:
        return Moves(
            self.before, self.after, self.keys + other.keys, self.moved_keys + other.moved_keys,
            self.records + other.records, self.moved_records + other.moved_records,
        )  # fmt: skip


def count_moves(
    placed: dict[int, NDArray[np.int32]], records: _Longs, changes: list[tuple[int, int]]
) -> list[Moves]:
    """Count the keys and records that change partition when a topic's partition count changes.

    Several changes, such as 6 to 12 and 12 to 24, are counted at once.

    Args:
        placed: dict from partition count to the partition of each key (int32[k]).
        records: int64[k], number of records of each key.
        changes: pairs of partition counts (before, after).

    >>> placed = {1: np.zeros(4, np.int32), 2: np.array([0, 1, 0, 1], np.int32)}
    >>> count_moves(placed, np.array([5, 1, 1, 1]), [(1, 2)])[0].moved_records
    2
    """
    out = []
    for before, after in changes:
        moved = placed[before] != placed[after]
        out.append(
            Moves(before, after, len(records), int(moved.sum()), int(records.sum()),
                  int(records[moved].sum()))
        )  # fmt: skip
    return out


# ruff: noqa: PLR0917 - kernels take arrays by place, and have many


@kernel(
    "void(Array(uint32, 1, 'C', readonly=True), int64[::1], int64[::1], uint32[::1],"
    "int64[:,::1], int64[:,:,::1], int64[::1])"
)
def _tallied(
    whole: NDArray[np.uint32], records: _Longs, sizes: _Longs, counts: NDArray[np.uint32],
    loads: _Longs, moved: _Longs, at: _Longs,
) -> None:  # fmt: skip
    for i in range(len(whole)):
        first = 0
        for c in range(len(counts)):
            at[c] = whole[i] % counts[c]
            loads[0, first + at[c]] += records[i]
            loads[1, first + at[c]] += sizes[i]
            first += counts[c] & 0x7FFFFFFF
        for after in range(1, len(counts)):
            for before in range(after):
                if at[before] != at[after]:
                    moved[0, before, after] += 1
                    moved[1, before, after] += records[i]


#: The kernel, to be asked whether it pays.
TALLIED = _tallied


def compare_counts(
    partition: NDArray[np.uint32],
    records: _Longs,
    sizes: _Longs,
    counts: Sequence[int],
    *,
    work: int,
) -> tuple[list[_Longs], _Longs]:
    """Compare how evenly several partition counts would spread the records of a topic.

    The result has the load of each partition at each count, and how many keys would move between
    two counts.

    Args:
        partition: uint32[k], each key's partition at a common multiple of all ``counts``; modulo a
            count it is the partition at that count.
        records: int64[k], number of records of each key.
        sizes: int64[k], bytes of these records.
        counts: the partition counts to compare.
        work: estimated steps of this call and of all calls before, which decide whether the kernel
            is compiled.

    Returns:
        For each count, int64[2, n]: records and bytes by partition. Then int64[2, c, c]: the number
            of keys, and of their records, whose partition differs between two of the counts.

    >>> whole, records = np.array([0, 1, 2, 3], np.uint32), np.arange(4)
    >>> loads, moved = compare_counts(whole, records, np.ones(4, np.int64), [2, 4], work=4)
    >>> loads[0].tolist(), moved[:, 0, 1].tolist()
    ([[2, 4], [2, 2]], [2, 5])
    """
    found = np.zeros((2, sum(counts)), np.int64)
    moved = np.zeros((2, len(counts), len(counts)), np.int64)
    at = np.zeros(2 * len(counts), np.int64)
    _tallied(partition, records, sizes, np.array(counts, np.uint32), found, moved, at, work=work)
    return np.split(found, np.cumsum(counts)[:-1], axis=1), moved
