"""All records as rows of Spark: for what cannot be done slice by slice, which is the exception."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from partage.jobs.replay.slices import RECORD_COLUMNS, Slice, read_slice, tasks_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.capture import Capture

__all__ = ["in_log_order", "record_rows"]

_DDL = "partition bigint, offset bigint, timestamp_ms bigint, key binary, value binary"


def record_rows(spark: SparkSession, capture: Capture) -> DataFrame:
    """The five columns of a capture's records, in any order."""
    if capture.table is not None:
        return capture.table.rows(spark)
    tasks = tasks_of(capture.slices, spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(capture.slices), 1, tasks)
    return numbers.mapInArrow(partial(_read, capture.slices), _DDL)


def in_log_order(spark: SparkSession, capture: Capture) -> DataFrame:
    """The same, each log partition in one piece and sorted.

    Commits are reduced where they are read. Where the files of a capture have a log partition's
    records in any order, as after Spark's own `repartition`, they have to be put in order before.
    """
    rows = record_rows(spark, capture)
    tasks = max(4, 2 * spark.sparkContext.defaultParallelism)
    return rows.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")


def _read(slices: tuple[Slice, ...], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for table in read_slice(slices[number]):
                yield from table.select(list(RECORD_COLUMNS)).to_batches()
