"""What comes to the histories job: group records as rows, runs of commits from their columns.

Runs are many, and most of a row's columns are not theirs: they are taken from whole columns,
which costs a fifth of what a row as a dict costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from partage.history.commits import CommitRun
from partage.history.records import Place
from partage.pipeline.decoded_rows import Kind

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RECORD_COLUMNS", "arriving"]

#: Rows that are Python objects at a time.
_AT_A_TIME = 4_000
#: What a group record has.
RECORD_COLUMNS = ("group", "log_partition", "log_offset", "timestamp_ms", "key", "value")
_NUMBERS = (
    "topic_partition", "minute_ms", "log_partition", "log_offset", "last_partition",
    "last_log_offset", "first_ms", "last_ms", "commits", "transactional", "tombstones",
)  # fmt: skip


def arriving(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, CommitRun | dict[str, Any]]]:
    """Groups, and a run of commits or a group record of each, in the order of the rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, _AT_A_TIME):
            yield from _some(batch.slice(start, _AT_A_TIME))


def _some(rows: pa.RecordBatch) -> Iterator[tuple[str, CommitRun | dict[str, Any]]]:
    import pyarrow as pa

    is_run = rows.column("kind").to_numpy() == Kind.COMMIT_RUN
    runs = _runs(rows.filter(pa.array(is_run)))
    records = iter(rows.select(list(RECORD_COLUMNS)).filter(pa.array(~is_run)).to_pylist())
    for run in is_run.tolist():
        if run:
            one = next(runs)
            yield one.group, one
        else:
            row = next(records)
            yield row["group"], row


def _runs(rows: pa.RecordBatch) -> Iterator[CommitRun]:
    if not rows.num_rows:
        return
    group, topic = (_texts(rows.column(name)) for name in ("group", "topic"))
    (
        partition, minute_ms, log_partition, log_offset, last_partition, last_log_offset,
        first_ms, last_ms, commits, transactional, tombstones,
    ) = (rows.column(name).to_numpy().tolist() for name in _NUMBERS)  # fmt: skip
    first_offset, last_offset, gap = (
        rows.column(name).to_pylist() for name in ("first_offset", "last_offset", "largest_gap_ms")
    )
    first = map(Place, log_partition, log_offset)
    last = map(Place, last_partition, last_log_offset)
    yield from map(
        CommitRun, group, topic, partition, minute_ms, first, last, first_ms, last_ms,
        first_offset, last_offset, commits, transactional, tombstones, gap,
    )  # fmt: skip


def _texts(cells: pa.Array) -> list[str]:
    """Few distinct names, each made once."""
    coded = cells.dictionary_encode()
    names = coded.dictionary.to_pylist()
    return [names[i] for i in coded.indices.to_numpy().tolist()]
