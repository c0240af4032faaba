"""What comes to the histories job, a group's share of a batch at a time.

Runs of commits stay columns. Group records are made one after the other, when they are asked for:
states of classic groups from columns, without a look at what has been met before; the others, and
whatever is not plain, by the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from partage.history.classic_states import ClassicStates
from partage.history.fold_kernel import RUN
from partage.history.folding import RunColumns
from partage.history.records import ClassicState, Place
from partage.history.server_records import GroupRecord
from partage.pipeline.decoded_rows import Kind
from partage.pipeline.placed import binary_column
from partage.wire.classic_columns import classic_columns, pays
from partage.wire.remembering import Remembering

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Arrived", "arriving"]

_CLASSIC = b"\0\2"
#: Where `RUN` finds its columns in rows of the decode job; series and stretch are made here.
_COLUMNS = (
    "minute_ms", "first_ms", "last_ms", "first_offset", "last_offset", "commits",
    "transactional", "tombstones", "largest_gap_ms",
)  # fmt: skip


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


def arriving(batches: Iterable[pa.RecordBatch]) -> Iterator[Arrived]:
    """Each group's rows, in pieces where a batch ends within them."""
    reads = _Reads()
    for batch in batches:
        if batch.num_rows:
            yield from _some(batch, reads)


def _some(rows: pa.RecordBatch, reads: _Reads) -> Iterator[Arrived]:
    import pyarrow as pa

    names, code = _coded(rows.column("group"))
    is_run = rows.column("kind").to_numpy() == Kind.COMMIT_RUN
    runs = _runs(rows.filter(pa.array(is_run)), np.cumsum(~is_run)[is_run])
    records = reads.records(rows.filter(pa.array(~is_run)))
    edges = [0, *(np.flatnonzero(code[1:] != code[:-1]) + 1).tolist(), len(code)]
    runs_before = np.concatenate(([0], np.cumsum(is_run))).tolist()
    for first, end in pairwise(edges):
        a, b = runs_before[first], runs_before[end]
        mine = RunColumns(
            runs.topics, runs.topic[a:b], runs.partition[a:b], runs.place[:, a:b],
            runs.table[:, a:b].copy(),
        )  # fmt: skip
        mine.table[1] -= first - a  # records before the group's first row here
        many = (end - first) - (b - a)
        some = islice(records, many)
        yield Arrived(names[code[first]], mine, some)
        for _ in some:  # whoever did not want them: the next group's come after them
            pass


def _runs(rows: pa.RecordBatch, stretch: NDArray[np.int64]) -> RunColumns:
    table = np.empty((len(RUN), rows.num_rows), np.int64)
    table[0], table[1] = 0, stretch
    for i, name in enumerate(_COLUMNS):
        empty = -1 if name == "largest_gap_ms" else 0
        table[2 + i] = rows.column(name).fill_null(empty).to_numpy(zero_copy_only=False)
    topics, topic = _coded(rows.column("topic"))
    partition, *place = (
        rows.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("topic_partition", "log_partition", "log_offset")
    )
    return RunColumns(topics, topic, partition, np.array(place).reshape(2, -1), table)


def _coded(cells: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Few distinct names, each made once, and each row's place among them."""
    coded = cells.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


class _Reads:
    """Makes group records of rows, and remembers from batch to batch what it has met."""

    def __init__(self) -> None:
        self._engine = Remembering()
        self._states = ClassicStates()

    def records(self, rows: pa.RecordBatch) -> Iterator[GroupRecord]:
        """A record for each row, made when it is asked for."""
        keys, values = rows.column("key").to_pylist(), rows.column("value")
        plain = self._plain(keys, values)
        ahead = next(plain, None)
        places = zip(
            *(rows.column(n).to_pylist() for n in ("group", "log_partition", "log_offset",
                                                   "timestamp_ms")), strict=True,
        )  # fmt: skip
        for row, (group, log_partition, log_offset, time_ms) in enumerate(places):
            at = Place(log_partition, log_offset)
            if ahead is not None and ahead[0] == row:
                key: dict[str, Any] = {"group": group}
                yield GroupRecord(at, time_ms, "GROUP_METADATA", key, None, ahead[1])
                ahead = next(plain, None)
            else:
                read = self._engine.record(keys[row], values[row].as_py())
                yield GroupRecord(at, time_ms, read.type, read.key, read.value)

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
