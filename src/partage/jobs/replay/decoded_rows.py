"""Rows of the table that the decode job returns;
the `DecodedKind` of a row says what it contains.
"""

from __future__ import annotations

import json
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.history.commit_kernels import RUN
from partage.history.commits import RunColumns, Runs
from partage.jobs.replay.records import LogColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.group_records import BlockRows

__all__ = [
    "OUT_COLUMNS",
    "DecodedKind",
    "batch_of_records",
    "batch_of_rows",
    "batch_of_runs",
    "pack_runs",
    "unpack_runs",
]


class DecodedKind(IntEnum):
    """Kinds of rows that the decode job returns, such as group records, commit runs and errors.

    The kind of a row decides which of its columns are used.
    """

    GROUP_RECORD = 0
    COMMIT_RUNS = 1
    BAD_RECORD = 2
    TALLY = 3
    RECEIPT = 4
    #: An undecoded offset commit whose transaction is open, for the next appending run.
    OPEN_COMMIT = 5
    #: Digests of the records of the files that a task has read, see `input_digests`.
    INPUT_DIGESTS = 6


#: name -> Spark type. Which columns a kind uses is said in the functions that fill them.
OUT_COLUMNS: dict[str, str] = {
    "kind": "int",
    "group": "string",
    "topic": "string",
    "topic_partition": "int",
    "minute_ms": "bigint",
    "log_partition": "bigint",
    "log_offset": "bigint",
    "timestamp_ms": "bigint",
    "part": "string",
    "text": "string",
    "record": "int",
    "key": "binary",
    "value": "binary",
}


def _types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    types = {
        "int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary(),
    }  # fmt: skip
    return {name: types[kind] for name, kind in OUT_COLUMNS.items()}


def _batch(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """Return an Arrow batch of result rows of the decode job; columns that are not given are
    null.
    """
    import pyarrow as pa

    arrays = [columns.get(name, pa.nulls(count, kind)) for name, kind in _types().items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(OUT_COLUMNS))


def batch_of_rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Convert result rows of damaged records or record counts, given as dicts,
    to an Arrow batch.
    """
    import pyarrow as pa

    columns = {n: pa.array([row.get(n) for row in rows], kind) for n, kind in _types().items()}
    return _batch(columns, len(rows))


def batch_of_records(log_columns: LogColumns, found: BlockRows) -> pa.RecordBatch:
    """Return decoded records of groups as rows of the decode job.

    A row has the log position and time of its record, and the record's index in a packed block.
    The row of a block's first record also has the block.
    """
    import pyarrow as pa

    rows = found.rows
    columns = {
        "kind": pa.array(np.full(len(rows), int(DecodedKind.GROUP_RECORD), np.int32)),
        "group": pa.array(found.groups, pa.string()),
        "record": pa.array(found.numbers.astype(np.int32)),
        "value": pa.array(found.blocks, pa.binary()),
        "log_partition": pa.array(log_columns.partition[rows]),
        "log_offset": pa.array(log_columns.offset[rows]),
        "timestamp_ms": pa.array(log_columns.timestamp_ms[rows]),
    }  # fmt: skip
    return _batch(columns, len(rows))


def batch_of_runs(made: Runs, pairs: list[tuple[str, str]]) -> pa.RecordBatch:
    """Return commit runs as rows of the decode job; one row has many runs.

    A commit run has the commits of one partition within a minute and between two group records.
    ``pairs[pair]`` are the group and the topic of a commit run.
    """
    import pyarrow as pa

    columns = pack_runs(made, pairs)
    count = len(columns["group"])
    kind = pa.array(np.full(count, int(DecodedKind.COMMIT_RUNS), np.int32))
    return _batch({**columns, "kind": kind}, count)


#: Numbers of a run: where it belongs, where it begins, and what `RUN` has of it.
_PLACES = ("topic", "partition", "log_partition", "log_offset")
_WIDTH = len(_PLACES) + len(RUN) - 2
_NUMBER = np.dtype("<i8")


def pack_runs(made: Runs, pairs: list[tuple[str, str]]) -> dict[str, pa.Array]:
    """Pack commit runs into columns of the decode job; one row has many runs.

    A commit run has the commits of one partition within a minute and between two group records. A
    row has the runs of one group between two of its records, as far as one task has read them.
    Commits that take effect at one transaction marker get a row of their own.

    Column ``value`` has the fields of the runs as little-endian int64, one run after the other.
    Column ``topic`` is a JSON list of their topics.

    Args:
        made: the commit runs.
        pairs: ``pairs[pair]`` are the group and the topic of a run.
    """
    import pyarrow as pa

    groups, topics = _NameCodes(), [_NameCodes() for _ in range(len(pairs))]
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
    """Return the fields of commit runs as integers, one row per run (int64[runs, _WIDTH]).

    Fields without a meaning are 0; a missing gap between commits is -1.
    """
    there = made.commits > 0
    columns: tuple[NDArray[Any], ...] = (
        topic, made.partition, made.log_partition, made.log_offset, made.minute_ms,
        made.first_ms, made.last_ms, np.where(there, made.first_offset, 0),
        np.where(there, made.last_offset, 0), made.commits, made.transactional, made.tombstones,
        np.where(made.commits < 2, -1, made.largest_gap_ms), made.advanced_ms,
    )  # fmt: skip
    out = np.empty((len(topic), _WIDTH), _NUMBER)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out


class _NameCodes:
    """Integer codes for distinct names, from 0 on in order of first use."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}

    def code(self, name: str) -> int:
        return self._code.setdefault(name, len(self._code))

    @property
    def list(self) -> list[str]:
        return [*self._code]


def unpack_runs(rows: pa.RecordBatch) -> tuple[RunColumns, NDArray[np.int64]]:
    """Unpack the commit runs from rows that `pack_runs` made, for all rows at once.

    Return all commit runs, with ``stretch`` 0, and the number of runs in each row.

    Args:
        rows: rows of kind `DecodedKind.COMMIT_RUNS`.
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
    """Return the distinct topic names of packed rows, and the index of each commit run's topic."""
    coded: Any = cells.dictionary_encode()
    codes = _NameCodes()
    lists = [[codes.code(t) for t in json.loads(text)] for text in coded.dictionary.to_pylist()]
    flat = np.array([code for one in lists for code in one], np.int64)
    begins = np.append(0, np.cumsum([len(one) for one in lists]))[:-1].astype(np.int64)
    begin = begins[coded.indices.to_numpy()] if len(cells) else begins
    return codes.list, flat[np.repeat(begin, many) + local] if len(local) else local
