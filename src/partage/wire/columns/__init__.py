"""Columns of byte strings, and compiled decoders for whole columns of records.

`BinaryColumn` and `CodedColumn` have the memory layout of Arrow's binary and dictionary arrays,
without Arrow. Decoders give the engine's values for every row.

    commits           offset commits
    commit_kernel     its kernel
    classic_groups    group records of the classic protocol
    classic_kernels   its kernels
    subscriptions     subscriptions of the members of one group
    partition_lists   lists of partitions in what members and their leader send each other
    distinct          numbers of equal byte strings
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BinaryColumn", "Bytes", "CodedColumn", "Ints"]

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BinaryColumn:
    """A column of byte strings that are stored in one buffer, like a binary array of Arrow.

    It needs no Python object for each row, so that compiled code can read it.

    Attributes:
        data: the bytes of all rows (uint8).
        start: where each row begins in ``data``, and the end (int32 or int64[n + 1]).
        valid: False for null rows (bool[n]); None if no row is null.

    >>> column = BinaryColumn.from_rows([b"ab", None, b""])
    >>> len(column), column[0], column[1], column[2]
    (3, b'ab', None, b'')
    """

    data: Bytes
    start: NDArray[np.integer[Any]]
    valid: NDArray[np.bool_] | None = None

    @staticmethod
    def from_rows(rows: Sequence[bytes | None]) -> BinaryColumn:
        """Build a column from a list of Python byte strings; None becomes a null row."""
        lengths = np.fromiter((len(row or b"") for row in rows), np.int64, len(rows))
        start = np.concatenate(([0], np.cumsum(lengths)))
        data = np.frombuffer(b"".join(row or b"" for row in rows), np.uint8)
        return BinaryColumn(
            data, start, np.fromiter((r is not None for r in rows), bool, len(rows))
        )

    @staticmethod
    def from_buffers(
        buffers: Sequence[Any], *, length: int, offset: int = 0, large: bool = False
    ) -> BinaryColumn:
        """Build a column from the buffers of an Arrow array, without copying its byte strings.

        Args:
            buffers: validity, offsets and data, as the array's ``buffers()`` returns them.
            length: the array's length.
            offset: the array's offset into its buffers.
            large: whether the offsets are int64.

        >>> starts = np.array([0, 1, 3], np.int32)
        >>> BinaryColumn.from_buffers([None, starts, b"xyz"], length=1, offset=1)[0]
        b'yz'
        """
        bits, starts, data = buffers
        every = np.frombuffer(starts, np.int64 if large else np.int32)
        valid = None
        if bits is not None:
            packed = np.frombuffer(bits, np.uint8)
            unpacked = np.unpackbits(packed, count=offset + length, bitorder="little")
            valid = unpacked[offset:].astype(bool)
        content = np.frombuffer(b"" if data is None else data, np.uint8)
        return BinaryColumn(content, every[offset : offset + length + 1], valid)

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, row: int) -> bytes | None:
        if self.valid is not None and not self.valid[row]:
            return None
        return self.data[self.start[row] : self.start[row + 1]].tobytes()

    def is_valid(self) -> NDArray[np.bool_]:
        """Return a mask of the rows that are not null (bool[n]).

        Unlike the attribute `valid`, it is an array even if no row is null.
        """
        return np.ones(len(self), bool) if self.valid is None else self.valid

    def byte_bounds(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the positions of some rows' byte strings in the buffer: first byte and end.

        ``rows`` are row numbers (int64[n]); the result is two int64[n].
        """
        return self.start[rows].astype(np.int64), self.start[rows + 1].astype(np.int64)


@dataclass(frozen=True)
class CodedColumn:
    """A dictionary-encoded column of byte strings: the distinct strings, and an index for each row.

    ``names`` has the strings. ``code`` has the index of each row's string, -1 for null (int32[n]).
    Strings may repeat or be unused, but none is null.

    >>> column = CodedColumn(BinaryColumn.from_rows([b"a", b"b"]), np.array([1, -1, 1], np.int32))
    >>> len(column), column[0], column[1]
    (3, b'b', None)
    """

    names: BinaryColumn
    code: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, row: int) -> bytes | None:
        code = int(self.code[row])
        return None if code < 0 else self.names[code]
