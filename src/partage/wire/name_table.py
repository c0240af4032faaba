"""Distinct byte strings within a column: the hash table that kernels fill (`kernel_pieces`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.wire.columns import Bytes
from partage.wire.kernel_pieces import fill_slots

__all__ = ["FIRST_NAMES", "NameTable"]

#: Names that a table has room for at first, unless more are expected; it doubles.
FIRST_NAMES = 1 << 10
_STEPS_A_NAME = 8


class NameTable:
    """Hash slots, and hash, place and size of each name.

    Args:
        expected: about how many there may be; it grows where there are more.
    """

    def __init__(self, expected: int = 0) -> None:
        room = 1 << max(expected - 1, FIRST_NAMES - 1).bit_length()
        self.slots = np.full(2 * room, -1, np.int32)
        self.table: NDArray[np.int64] = np.empty((room + 1, 3), np.int64)

    def grow(self, count: int) -> None:
        """Room for four times as many."""
        self.slots = np.full(1 << (8 * count - 1).bit_length(), -1, np.int32)
        more = np.empty((len(self.slots) // 2 + 1 - count, 3), np.int64)
        self.table = np.concatenate([self.table[:count], more])
        fill_slots(self.table, count, self.slots, work=count * _STEPS_A_NAME)

    def found(self, data: Bytes, count: int) -> list[bytes]:
        """The strings, by code."""
        return [data[at : at + n].tobytes() for at, n in self.table[:count, 1:].tolist()]

    def places(self, count: int) -> NDArray[np.int64]:
        """int64[count, 2]: first byte and size of each."""
        places: NDArray[np.int64] = self.table[:count, 1:].copy()
        return places
