"""Runs of commits on their way to their group: many in one row, since rows of Spark are dear.

A row has the runs of one group between two of its records, as far as one task has seen them
(and apart from those, commits of one marker). Their numbers are in ``value``, little-endian
int64, run after run; the names of their topics are in ``topic``, as a list in JSON.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.history.commit_kernels import RUN
from partage.history.commits import RunColumns, Runs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["packed_runs", "unpacked_runs"]

#: Numbers of a run: where it belongs, where it begins, and what `RUN` has of it.
_PLACES = ("topic", "partition", "log_partition", "log_offset")
_WIDTH = len(_PLACES) + len(RUN) - 2
_NUMBER = np.dtype("<i8")


def packed_runs(made: Runs, pairs: list[tuple[str, str]]) -> dict[str, pa.Array]:
    """Columns of rows (see `decoded_rows.OUT_COLUMNS`); ``pairs[pair]`` are group and topic."""
    import pyarrow as pa

    groups, topics = _Names(), [_Names() for _ in range(len(pairs))]
    group_of = np.array([groups.code(group) for group, _ in pairs], np.int64)
    topic_of = np.array([topics[groups.code(g)].code(t) for g, t in pairs], np.int64)
    rank = np.empty(len(pairs), np.int64)
    rank[sorted(range(len(pairs)), key=lambda i: pairs[i][1])] = np.arange(len(pairs))
    group = group_of[made.pair]
    order = np.lexsort((
        made.minute_ms, made.partition, rank[made.pair], made.log_offset, made.log_partition, group,
    ))  # fmt: skip
    numbers = _numbers(made, topic_of[made.pair])[order]
    group, stretch, partition = group[order], made.stretch[order], made.log_partition[order]
    new = (group[1:] != group[:-1]) | (stretch[1:] != stretch[:-1])
    first = np.append(0, np.flatnonzero(new | (partition[1:] != partition[:-1])) + 1)
    bounds = np.append(first, len(order)) * _WIDTH * _NUMBER.itemsize
    texts = [json.dumps(names.list) for names in topics[: len(groups.list)]]
    which = pa.array(group[first])
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(numbers)]
    return {
        "group": pa.array(groups.list, pa.string()).take(which),
        "topic": pa.array(texts, pa.string()).take(which),
        "topic_partition": pa.array(numbers[first, 1].astype(np.int32)),
        "log_partition": pa.array(numbers[first, 2]), "log_offset": pa.array(numbers[first, 3]),
        "minute_ms": pa.array(numbers[first, 4]),
        "value": pa.Array.from_buffers(pa.binary(), len(first), buffers),
    }  # fmt: skip


def _numbers(made: Runs, topic: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n, _WIDTH]; what has no meaning is 0, a wait that there is not -1."""
    there = made.commits > 0
    columns: tuple[NDArray[Any], ...] = (
        topic, made.partition, made.log_partition, made.log_offset, made.minute_ms,
        made.first_ms, made.last_ms, np.where(there, made.first_offset, 0),
        np.where(there, made.last_offset, 0), made.commits, made.transactional, made.tombstones,
        np.where(made.commits < 2, -1, made.largest_gap_ms),
    )  # fmt: skip
    out = np.empty((len(topic), _WIDTH), _NUMBER)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out


class _Names:
    """Codes of names, in order of appearance."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}

    def code(self, name: str) -> int:
        return self._code.setdefault(name, len(self._code))

    @property
    def list(self) -> list[str]:
        return [*self._code]


def unpacked_runs(rows: pa.RecordBatch) -> tuple[RunColumns, NDArray[np.int64]]:
    """All runs of some rows, and how many each row has; ``stretch`` is 0 everywhere.

    Args:
        rows: as `packed_runs` made them.
    """
    sizes = np.array([len(cell) for cell in rows.column("value").to_pylist()], np.int64)
    many = sizes // (_WIDTH * _NUMBER.itemsize)
    whole = b"".join(rows.column("value").to_pylist())
    numbers = np.frombuffer(whole, _NUMBER).reshape(-1, _WIDTH).T.astype(np.int64)
    names, topic = _topics(rows.column("topic"), many, numbers[0])
    table = np.zeros((len(RUN), numbers.shape[1]), np.int64)
    table[2:] = numbers[len(_PLACES) :]
    return RunColumns(names, topic, numbers[1], numbers[2:4], table), many


def _topics(
    cells: pa.Array, many: NDArray[np.int64], local: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    """Names of topics, each once, and each run's place among them."""
    coded: Any = cells.dictionary_encode()
    codes = _Names()
    lists = [[codes.code(t) for t in json.loads(text)] for text in coded.dictionary.to_pylist()]
    flat = np.array([code for one in lists for code in one], np.int64)
    begins = np.append(0, np.cumsum([len(one) for one in lists]))[:-1].astype(np.int64)
    begin = begins[coded.indices.to_numpy()] if len(cells) else begins
    return codes.list, flat[np.repeat(begin, many) + local] if len(local) else local
