"""What comes to the histories job, a group's share of a batch at a time.

Runs of commits stay columns. Group records are made one after the other, when they are asked for:
states of classic groups from columns, without a look at what has been met before; the others, and
whatever is not plain, by the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.history.commit_kernels import RUN
from partage.history.commits import MINUTE_MS, RunColumns
from partage.history.records import ClassicState, ClassicStates, GroupRecord, LogPosition
from partage.jobs.replay.clocks import Clocks
from partage.jobs.replay.decoded_rows import Kind
from partage.jobs.replay.packed_runs import unpacked_runs
from partage.jobs.replay.placed import binary_column
from partage.wire.columns.classic_groups import classic_columns, pays
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Arrived", "arriving"]

_CLASSIC = b"\0\2"


@dataclass(frozen=True)
class Arrived:
    """Some rows of one group, in the order of the log.

    Attributes:
        group: its name.
        runs: its runs; the ``stretch`` of each says how many of ``records`` stand before it.
        records: to be taken before the next rows are looked at.
    """

    group: str
    runs: RunColumns
    records: Iterator[GroupRecord]


def arriving(batches: Iterable[pa.RecordBatch], clocks: Clocks | None = None) -> Iterator[Arrived]:
    """Each group's rows, in pieces where a batch ends within them; times put right."""
    reads = _Reads()
    for batch in batches:
        if batch.num_rows:
            wrong = clocks if clocks is not None and clocks.wrong else None
            yield from _some(batch if wrong is None else _retimed(batch, wrong), reads, wrong)


def _retimed(rows: pa.RecordBatch, clocks: Clocks) -> pa.RecordBatch:
    """Group records with the times that are believed."""
    import pyarrow as pa

    at = rows.schema.get_field_index("timestamp_ms")
    cells = rows.column(at)
    times = cells.fill_null(0).to_numpy(zero_copy_only=False).copy()
    places = (rows.column(name).fill_null(-1).to_numpy(zero_copy_only=False)
              for name in ("log_partition", "log_offset"))  # fmt: skip
    clocks.put_right(*places, times)
    mask = cells.is_null().to_numpy(zero_copy_only=False)
    return rows.set_column(at, "timestamp_ms", pa.array(times, pa.int64(), mask=mask))


def _put_right(runs: RunColumns, clocks: Clocks) -> None:
    """Runs with the times that are believed: all commits of one that is misdated at one time."""
    first, last, minute, gap = (
        runs.table[RUN.index(name)] for name in ("first_ms", "last_ms", "minute_ms", "gap")
    )
    changed = clocks.put_right(*runs.positions, first, last, minute)
    minute[changed] = minute[changed] // MINUTE_MS * MINUTE_MS
    gap[changed] = np.minimum(gap[changed], 0)


def _some(rows: pa.RecordBatch, reads: _Reads, clocks: Clocks | None) -> Iterator[Arrived]:
    import pyarrow as pa

    names, code = _coded(rows.column("group"))
    is_run = rows.column("kind").to_numpy() == Kind.COMMIT_RUNS
    runs, many = unpacked_runs(rows.filter(pa.array(is_run)))
    if clocks is not None:
        _put_right(runs, clocks)
    runs.table[1] = np.repeat(np.cumsum(~is_run)[is_run], many)
    records = reads.records(rows.filter(pa.array(~is_run)))
    edges = [0, *(np.flatnonzero(code[1:] != code[:-1]) + 1).tolist(), len(code)]
    each = np.zeros(len(code), np.int64)
    each[is_run] = many
    runs_before = np.append(0, np.cumsum(each)).tolist()
    records_before = np.append(0, np.cumsum(~is_run)).tolist()
    for first, end in pairwise(edges):
        a, b = runs_before[first], runs_before[end]
        before, after = records_before[first], records_before[end]
        mine = RunColumns(
            runs.topics, runs.topic[a:b], runs.partition[a:b], runs.positions[:, a:b],
            runs.table[:, a:b].copy(),
        )  # fmt: skip
        mine.table[1] -= before
        # By their places: where reading one fails, the next group's records are where they were.
        yield Arrived(names[code[first]], mine, map(records.at, range(before, after)))


def _coded(cells: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Few distinct names, each made once, and each row's place among them."""
    coded = cells.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


class _Reads:
    """Makes group records of rows; equal members are one object over all batches."""

    def __init__(self) -> None:
        self._states = ClassicStates()

    def records(self, rows: pa.RecordBatch) -> _Records:
        """Return the records of a batch, each made when it is asked for."""
        keys, values = rows.column("key").to_pylist(), rows.column("value")
        names = ("group", "log_partition", "log_offset", "timestamp_ms")
        cells = [rows.column(name).to_pylist() for name in names]
        return _Records(keys, values, cells, self._plain(keys, values))

    def _plain(
        self, keys: list[bytes | None], values: pa.Array
    ) -> Iterator[tuple[int, ClassicState]]:
        import pyarrow as pa

        classic = [i for i, key in enumerate(keys) if key is not None and key[:2] == _CLASSIC]
        there = values.is_valid().to_numpy(zero_copy_only=False)
        rows = np.array([i for i in classic if there[i]], np.int64)
        if not len(rows) or not pays(rows=len(rows)):
            return
        for found in classic_columns(binary_column(pa.chunked_array([values])), rows):
            yield from self._states.of(found)


class _Records:
    """Group records of one batch by their rows, which only go up."""

    def __init__(
        self,
        keys: list[bytes | None],
        values: pa.Array,
        cells: list[list[Any]],
        plain: Iterator[tuple[int, ClassicState]],
    ) -> None:
        self._keys, self._values = keys, values
        self._cells, self._plain = cells, plain
        self._ahead = next(plain, None)

    def at(self, row: int) -> GroupRecord:
        """Return the record of a row."""
        while self._ahead is not None and self._ahead[0] < row:
            self._ahead = next(self._plain, None)
        group, log_partition, log_offset, time_ms = (column[row] for column in self._cells)
        at = LogPosition(log_partition, log_offset)
        if self._ahead is not None and self._ahead[0] == row:
            key: dict[str, Any] = {"group": group}
            return GroupRecord(at, time_ms, "GROUP_METADATA", key, None, self._ahead[1])
        read = decode_record(self._keys[row], self._values[row].as_py())
        return GroupRecord(at, time_ms, read.type, read.key, read.value)
