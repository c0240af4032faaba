"""The offset commits of two columns with the compiled kernel: its tables, made and grown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.wire.columns import BinaryColumn, Bytes, CodedColumn, Ints
from partage.wire.commit_kernel import KEY, LONG, MIDDLE, SHORT, UNREAD, scan_rows
from partage.wire.commit_parsing import COLUMNS, Parsed

__all__ = ["pays", "scanned"]

#: What NumPy takes longer for a row than the kernel, as steps of the interpreter (`kernels`).
_STEPS_SAVED_A_ROW = 2
#: Names that a table has room for at first; it doubles.
_FIRST_NAMES = 1 << 10


def pays(*, rows: int) -> bool:
    """Whether the compiled kernel is there, or worth its start for so many rows."""
    return scan_rows.pays(work=rows * _STEPS_SAVED_A_ROW)


class _Names:
    """Distinct byte strings within a column: hash slots, and hash, place and size of each."""

    def __init__(self) -> None:
        self.slots = np.full(2 * _FIRST_NAMES, -1, np.int32)
        self.table = np.empty((3, _FIRST_NAMES + 1), np.int64)

    def grow(self, count: int) -> None:
        """Room for four times as many."""
        self.table = np.concatenate([self.table[:, :count], _room(np.int64, 4 * count)], 1)
        slots = [-1] * (8 * count)
        for code, wanted in enumerate(self.table[0, :count].tolist()):
            slot = wanted & (len(slots) - 1)
            while slots[slot] >= 0:
                slot = (slot + 1) & (len(slots) - 1)
            slots[slot] = code
        self.slots = np.array(slots, np.int32)

    def found(self, data: Bytes, count: int) -> list[bytes]:
        """The strings, by code."""
        places, sizes = self.table[1, :count].tolist(), self.table[2, :count].tolist()
        return [data[at : at + n].tobytes() for at, n in zip(places, sizes, strict=True)]


class _Keys(_Names):
    """Distinct keys, and what each of them says (`KEY`)."""

    def __init__(self, column: BinaryColumn | CodedColumn) -> None:
        super().__init__()
        coded = isinstance(column, CodedColumn)
        self.bytes = column.names if isinstance(column, CodedColumn) else column
        self.code = np.ascontiguousarray(column.code) if isinstance(column, CodedColumn) else _NONE
        many = len(self.bytes) if coded else _FIRST_NAMES
        self.said = np.full((len(KEY), many + 1), UNREAD, np.int32)

    def grow(self, count: int) -> None:
        """Room for more; a dictionary's keys are all there from the beginning."""
        super().grow(count)
        more = np.full((len(KEY), self.table.shape[1] - count), UNREAD, np.int32)
        self.said = np.concatenate([self.said[:, :count], more], 1)


_NONE = np.empty(0, np.int32)


def _room(kind: type[Any], count: int) -> NDArray[Any]:
    return np.empty((3, count), kind)


def scanned(keys: BinaryColumn | CodedColumn, values: BinaryColumn) -> Parsed:
    """The commits of two columns of equal length, as `commit_parsing.parsed` gives them."""
    rows = len(keys)
    known, pairs, ids = _Keys(keys), _Names(), _Names()
    counts = np.zeros(6, np.int64)
    short = np.empty((len(SHORT), rows + 1), np.int16)
    middle = np.empty((len(MIDDLE), rows + 1), np.int32)
    long = np.empty((len(LONG), rows + 1), np.int64)
    others, odd = np.empty(rows, np.int64), np.empty(rows, np.int64)
    row = 0
    while True:
        row = scan_rows(
            *_buffers(known.bytes), known.code, *_buffers(values), row,
            known.slots, known.table, known.said, pairs.slots, pairs.table, ids.slots, ids.table,
            counts, short, middle, long, others, odd, work=rows * _STEPS_SAVED_A_ROW,
        )  # fmt: skip
        if row == rows:
            break
        for names, count in zip((pairs, ids, known), counts[3:].tolist(), strict=True):
            if 2 * count >= len(names.slots):
                names.grow(count)
    made, n_others, n_odd, n_pairs, n_ids, _ = counts.tolist()
    columns: dict[str, NDArray[Any]] = {}
    for names_of, table in ((SHORT, short), (MIDDLE, middle), (LONG, long)):
        columns |= {name: table[i, :made] for i, name in enumerate(names_of)}
    key = columns["key"]
    columns |= {name: known.said[i][key] for i, name in enumerate(KEY)}
    return Parsed(
        {name: columns[name].astype(kind, copy=False) for name, kind in COLUMNS.items()},
        pairs.found(known.bytes.data, n_pairs), ids.found(values.data, n_ids),
        others[:n_others].copy(), odd[:n_odd].copy(), (key, known.said[1:]),
    )  # fmt: skip


def _buffers(column: BinaryColumn) -> tuple[Bytes, Ints, NDArray[np.uint8]]:
    """Data, starts and validity (empty where every row is valid) as the kernel takes them."""
    valid = column.valid
    bits = np.empty(0, np.uint8) if valid is None else np.ascontiguousarray(valid).view(np.uint8)
    data = np.ascontiguousarray(column.data)
    return data, np.ascontiguousarray(column.start, np.int64), bits
