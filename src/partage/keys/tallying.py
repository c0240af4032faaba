# ruff: noqa: PLR0917 - kernels take arrays by place, and have many
"""Loads at several partition counts, and what changes between these move, in one pass over keys.

NumPy would go over the keys some dozen times; see `partage.jobs.keys.tally` for that way, which
is taken where Numba is not there or not worth its start.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel

__all__ = ["TALLIED", "tallied"]

_Longs = NDArray[np.int64]


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


def tallied(
    whole: NDArray[np.uint32], records: _Longs, sizes: _Longs, counts: Sequence[int], *, work: int
) -> tuple[list[_Longs], _Longs]:
    """What the kernel adds up.

    Args:
        whole: uint32[k], each key's partition at a multiple of all the counts.
        records: int64[k], of each key.
        sizes: int64[k], their bytes.
        counts: partition counts.
        work: keys of this call and of all before it, in the kernel's steps.

    Returns:
        For each count int64[2, n], records and bytes by partition; and int64[2, c, c]: keys, and
        records of these, whose partitions differ between two of the counts.

    >>> whole, records = np.array([0, 1, 2, 3], np.uint32), np.arange(4)
    >>> loads, moved = tallied(whole, records, np.ones(4, np.int64), [2, 4], work=4)
    >>> loads[0].tolist(), moved[:, 0, 1].tolist()
    ([[2, 4], [2, 2]], [2, 5])
    """
    found = np.zeros((2, sum(counts)), np.int64)
    moved = np.zeros((2, len(counts), len(counts)), np.int64)
    at = np.zeros(2 * len(counts), np.int64)
    _tallied(whole, records, sizes, np.array(counts, np.uint32), found, moved, at, work=work)
    return np.split(found, np.cumsum(counts)[:-1], axis=1), moved
