"""Input of the histories job: one group's share of a batch at a time.

Runs of commits stay columns. Group records are made one by one, when they are requested, from the
blocks in which the decode job sent them (`group_records`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from partage.history.commit_kernels import RUN
from partage.history.commits import MINUTE_MS, RunColumns
from partage.history.records import GroupRecord
from partage.jobs.replay.clocks import Clocks
from partage.jobs.replay.decoded_rows import DecodedKind, unpack_runs
from partage.jobs.replay.group_records import BlockReader

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["GroupInput", "read_group_inputs"]


@dataclass(frozen=True)
class GroupInput:
    """Some rows of one group, in log order.

    Attributes:
        group: its name.
        runs: its runs; the ``stretch`` of each says how many of ``records`` stand before it.
        records: to be taken before the next rows are looked at.
    """

    group: str
    runs: RunColumns
    records: Iterator[GroupRecord]


def read_group_inputs(
    batches: Iterable[pa.RecordBatch], clocks: Clocks | None = None
) -> Iterator[GroupInput]:
    """Yield each group's rows with corrected times, in pieces where a batch ends within a group."""
    reader = BlockReader()
    for batch in batches:
        if batch.num_rows:
            wrong = clocks if clocks is not None and clocks.wrong else None
            yield from _split_batch(
                batch if wrong is None else _correct_records(batch, wrong), reader, wrong
            )


def _correct_records(rows: pa.RecordBatch, clocks: Clocks) -> pa.RecordBatch:
    """Return group records with wrong times replaced."""
    import pyarrow as pa

    at = rows.schema.get_field_index("timestamp_ms")
    cells = rows.column(at)
    times = cells.fill_null(0).to_numpy(zero_copy_only=False).copy()
    places = (rows.column(name).fill_null(-1).to_numpy(zero_copy_only=False)
              for name in ("log_partition", "log_offset"))  # fmt: skip
    clocks.correct(*places, times)
    mask = cells.is_null().to_numpy(zero_copy_only=False)
    return rows.set_column(at, "timestamp_ms", pa.array(times, pa.int64(), mask=mask))


def _correct_runs(runs: RunColumns, clocks: Clocks) -> None:
    """Replace wrong times of runs; all commits of such a run get one time."""
    first, last, minute, gap = (
        runs.table[RUN.index(name)] for name in ("first_ms", "last_ms", "minute_ms", "gap")
    )
    changed = clocks.correct(*runs.positions, first, last, minute)
    minute[changed] = minute[changed] // MINUTE_MS * MINUTE_MS
    gap[changed] = np.minimum(gap[changed], 0)


def _split_batch(
    rows: pa.RecordBatch, reader: BlockReader, clocks: Clocks | None
) -> Iterator[GroupInput]:
    import pyarrow as pa

    names, code = _distinct_names(rows.column("group"))
    is_run = rows.column("kind").to_numpy() == DecodedKind.COMMIT_RUNS
    runs, many = unpack_runs(rows.filter(pa.array(is_run)))
    if clocks is not None:
        _correct_runs(runs, clocks)
    runs.table[1] = np.repeat(np.cumsum(~is_run)[is_run], many)
    records = reader.records(rows.filter(pa.array(~is_run)))
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
        # Each group has an iterator of its own, which another group's error does not end.
        yield GroupInput(names[code[first]], mine, map(_make, records[before:after]))


def _distinct_names(cells: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct names, and the index of each row's name."""
    coded = cells.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _make(record: Callable[[], GroupRecord]) -> GroupRecord:
    return record()
