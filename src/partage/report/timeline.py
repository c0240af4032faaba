"""Who owned what as a drawing: rows of partitions, times across, at most so many rectangles.

A small group is drawn exactly. A large one is put into bins, some partitions a row and some
time a column, and each bin shows who owned most of it and how much that was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_ROWS", "Owned", "drawn"]

#: More rows than this cannot be told apart on a screen.
MOST_ROWS = 48
_COLUMNS = (240, 160, 96, 64, 40, 24, 12)
_Ints = NDArray[np.int64]


class _Spans(NamedTuple):
    """Intervals in rows of the drawing; times from its beginning."""

    row: _Ints
    owner: _Ints
    start: _Ints
    end: _Ints


class _Cells(NamedTuple):
    """Cells that somebody owned, sorted by row and column: who owned most, and how much."""

    row: _Ints
    column: _Ints
    owner: _Ints
    share: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Owned:
    """One group's intervals of ownership, as arrays int64[N].

    Attributes:
        row: number of the partition among ``partitions``.
        owner: number of the owner among ``owners``.
        start, end: ms; ``end`` is the end of the history where it lasts.
        partitions: (topic, number), sorted.
        owners: instance or member ids, in order of appearance.
    """

    row: _Ints
    owner: _Ints
    start: _Ints
    end: _Ints
    partitions: Sequence[tuple[str, int]]
    owners: Sequence[str]


def drawn(owned: Owned, first_ms: int, last_ms: int, budget: int) -> dict[str, Any]:
    """The drawing as plain numbers.

    Args:
        owned: what was owned; times beyond the ends are cut.
        first_ms: beginning of the drawing.
        last_ms: its end.
        budget: about how many rectangles it may have.

    Returns:
        ``rows``: [topic, first number, last topic, last number] of each row;
        ``boxes``: row, start and end (ms since ``first_ms``), owner, share in per cent, one
        after the other; ``exact``: whether every box is one partition and one interval.
    """
    span = max(last_ms - first_ms, 1)
    start = np.clip(owned.start - first_ms, 0, span)
    end = np.clip(owned.end - first_ms, 0, span)
    seen = end > start
    row, owner, start, end = (a[seen] for a in (owned.row, owned.owner, start, end))
    size = len(owned.partitions)
    exact = size <= MOST_ROWS and len(row) <= budget and not _overlapping(row, start, end)
    if exact:
        rows = size
        boxes = np.column_stack([row, start, end, owner, np.full(len(row), 100)])
    else:
        rows = min(size, MOST_ROWS, max(budget // 8, 4))
        boxes = _binned(_Spans(row * rows // max(size, 1), owner, start, end), span, budget)
    names = [owned.partitions[i] for i in range(size)]
    edges = [(r * size + rows - 1) // rows for r in range(rows + 1)] if rows else [0]
    return {
        "rows": [
            [*names[a], *names[b - 1]]
            for a, b in pairwise(edges)
        ],
        "boxes": boxes.astype(np.int64).ravel().tolist(),
        "exact": bool(exact),
    }  # fmt: skip


def _overlapping(row: _Ints, start: _Ints, end: _Ints) -> bool:
    """Whether some partition had two owners at once: share groups do."""
    order = np.lexsort((start, row))
    row, start, end = row[order], start[order], end[order]
    return bool(((row[1:] == row[:-1]) & (start[1:] < end[:-1])).any())


def _binned(spans: _Spans, span: int, budget: int) -> NDArray[np.int64]:
    """As many columns as the budget bears, neighbours of one owner joined."""
    found = np.zeros((0, 5), np.int64)
    for columns in _COLUMNS:
        found = _joined(_cells(spans, span, columns), span, columns)
        if len(found) <= budget:
            break
    return found


def _cells(spans: _Spans, span: int, columns: int) -> _Cells:
    """The drawing cut into columns of time."""
    row, owner, start, end = spans
    width = span / columns
    first = np.minimum((start / width).astype(np.int64), columns - 1)
    last = np.minimum(np.ceil(end / width).astype(np.int64), columns)
    last = np.maximum(last, first + 1)
    times = last - first
    place = np.repeat(np.arange(len(row)), times)
    column = np.arange(len(place)) - np.repeat(np.cumsum(times) - times, times) + first[place]
    weight = np.minimum(end[place], (column + 1) * width) - np.maximum(start[place], column * width)
    owners = int(owner.max(initial=0)) + 1
    key = (row[place] * columns + column) * owners + owner[place]
    keys, which = np.unique(key, return_inverse=True)
    weights = np.bincount(which, np.maximum(weight, 0), len(keys))
    cell, who = keys // owners, keys % owners
    order = np.lexsort((weights, cell))
    newest = np.append(cell[order][1:] != cell[order][:-1], [True] * (len(order) > 0))
    best = order[newest.astype(bool)]
    whole = np.bincount(np.unique(cell, return_inverse=True)[1], weights)
    share = weights[best] / np.maximum(whole, 1e-9)
    return _Cells(cell[best] // columns, cell[best] % columns, who[best], share)


def _joined(cells: _Cells, span: int, columns: int) -> NDArray[np.int64]:
    """Neighbouring cells of one owner, and about one share, as one box."""
    row, column, owner, share = cells
    if not len(row):
        return np.zeros((0, 5), np.int64)
    coarse = np.ceil(share * 4)
    new = np.append(
        [True],
        (row[1:] != row[:-1])
        | (column[1:] != column[:-1] + 1)
        | (owner[1:] != owner[:-1])
        | (coarse[1:] != coarse[:-1]),
    )
    begins = np.flatnonzero(new)
    ends = np.append(begins[1:], len(row)) - 1
    mean = np.add.reduceat(share, begins) / (ends - begins + 1)
    width = span / columns
    return np.column_stack([
        row[begins], np.rint(column[begins] * width), np.rint((column[ends] + 1) * width),
        owner[begins], np.maximum(np.rint(100 * mean), 1),
    ]).astype(np.int64)  # fmt: skip
