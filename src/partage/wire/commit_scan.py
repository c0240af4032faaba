"""The offset commits of two columns with the compiled kernel: its tables, made and grown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.wire.columns import BinaryColumn, Bytes, CodedColumn, Ints
from partage.wire.commit_kernel import KEY, LONG, MIDDLE, SHORT, UNREAD, scan_rows
from partage.wire.commit_parsing import COLUMNS, Parsed
from partage.wire.name_table import FIRST_NAMES, NameTable

__all__ = ["pays", "scanned"]

#: What NumPy takes longer for a row than the kernel, as steps of the interpreter (`kernels`).
_STEPS_SAVED_A_ROW = 2


def pays(*, rows: int) -> bool:
    """Whether the compiled kernel is there, or worth its start for so many rows."""
    return scan_rows.pays(work=rows * _STEPS_SAVED_A_ROW)


class _Keys(NameTable):
    """Distinct keys, and what each of them says (`KEY`)."""

    def __init__(self, column: BinaryColumn | CodedColumn) -> None:
        super().__init__()
        coded = isinstance(column, CodedColumn)
        self.bytes = column.names if isinstance(column, CodedColumn) else column
        self.code = np.ascontiguousarray(column.code) if isinstance(column, CodedColumn) else _NONE
        many = len(self.bytes) if coded else FIRST_NAMES
        self.said = np.full((len(KEY), many + 1), UNREAD, np.int32)

    def grow(self, count: int) -> None:
        """Room for more; a dictionary's keys are all there from the beginning."""
        super().grow(count)
        more = np.full((len(KEY), len(self.table) - count), UNREAD, np.int32)
        self.said = np.concatenate([self.said[:, :count], more], 1)


_NONE = np.empty(0, np.int32)


def scanned(keys: BinaryColumn | CodedColumn, values: BinaryColumn) -> Parsed:
    """The commits of two columns of equal length, as `commit_parsing.parsed` gives them."""
    rows = len(keys)
    known, pairs, ids = _Keys(keys), NameTable(), NameTable()
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
