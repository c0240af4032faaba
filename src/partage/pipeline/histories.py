"""Second job: each group's history rebuilt and lived again, where its records come together.

Group records and runs of commits are repartitioned by group and sorted by place in the log;
a worker meets one group after the other, finds the boundaries itself, and keeps an open
group over the borders of Arrow batches. It writes its tables itself and returns receipts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from partage.history.clusters import ClusterHistory
from partage.pipeline.decode import Kind
from partage.pipeline.group_rows import GroupRows
from partage.pipeline.write import TableWriters, task_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

    from partage.groups.api import Strategy

__all__ = ["RECEIPT_DDL", "bad_records_job", "histories_job"]

RECEIPT_DDL = "what string, text string"

_ORDER = (
    "group", "kind", "topic", "topic_partition", "minute_ms", "log_partition", "log_offset",
)  # fmt: skip


def histories_job(
    decoded: DataFrame,
    states: Broadcast[Any],
    strategies: Sequence[str | Strategy],
    *,
    out: str,
    run_id: str,
    tasks: int,
) -> DataFrame:
    """Receipts of files, and one line of totals a group; nothing is computed yet."""
    groups = decoded.where(f"kind in ({int(Kind.GROUP_RECORD)}, {int(Kind.COMMIT_RUN)})")
    ordered = groups.repartition(tasks, "group").sortWithinPartitions(*_ORDER)
    work = partial(_task, states, tuple(strategies), out, run_id)
    return ordered.mapInArrow(work, RECEIPT_DDL)


def bad_records_job(decoded: DataFrame, *, out: str, run_id: str, tasks: int) -> DataFrame:
    """Receipts of table ``bad_records``; nothing is computed yet."""
    bad = decoded.where(f"kind = {int(Kind.BAD_RECORD)}")
    ordered = bad.repartition(tasks, "log_partition").sortWithinPartitions(
        "log_partition", "log_offset"
    )
    return ordered.mapInArrow(partial(_bad_task, out, run_id), RECEIPT_DDL)


def _task(
    states: Broadcast[Any],
    strategies: tuple[str | Strategy, ...],
    out: str,
    run_id: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: rows of many groups in order, receipts out."""
    clusters = _clusters(states.value)
    chosen = _chosen(strategies)
    totals: list[str] = []
    with TableWriters(out, run_id, task_name()) as writers:
        group: GroupRows | None = None
        for row in _rows(batches):
            if group is None or row["group"] != group.name:
                if group is not None:
                    totals.append(json.dumps(group.finish()))
                group = GroupRows(row["group"], clusters, chosen, writers)
            group.feed(row)
        if group is not None:
            totals.append(json.dumps(group.finish()))
        files = [json.dumps(asdict(r)) for r in writers.finish()]
    yield _receipts([("file", f) for f in files] + [("group", t) for t in totals])


def _bad_task(out: str, run_id: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with TableWriters(out, run_id, task_name()) as writers:
        for row in _rows(batches):
            writers.add(
                "bad_records",
                {
                    "partition": row["log_partition"],
                    "offset": row["log_offset"],
                    "timestamp_ms": row["timestamp_ms"],
                    "part": row["part"],
                    "why": row["text"],
                    "group": row["group"],
                    "key": row["key"],
                    "value": row["value"],
                },
            )
        files = [json.dumps(asdict(r)) for r in writers.finish()]
    yield _receipts([("file", f) for f in files])


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for start in range(0, batch.num_rows, 1_000):  # rows as dicts are large: a few at a time
            yield from batch.slice(start, 1_000).to_pylist()


def _receipts(rows: list[tuple[str, str]]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.array([row[i] for row in rows], pa.string()) for i in (0, 1)]
    return pa.RecordBatch.from_arrays(columns, names=["what", "text"])


def _clusters(states: tuple[str, ...]) -> ClusterHistory:
    """One numbering a worker process, not one a task."""
    return _made_once(states)


@lru_cache(maxsize=1)
def _made_once(states: tuple[str, ...]) -> ClusterHistory:
    return ClusterHistory([json.loads(state) for state in states])


def _chosen(strategies: tuple[str | Strategy, ...]) -> list[Strategy]:
    from partage.groups import registry

    return [registry.find(s) for s in strategies]
