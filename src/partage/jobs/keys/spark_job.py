"""`partage keys` as one Spark job of two stages: for clusters, tables and large inputs.

In the first stage workers read and count keys where the data is. Distinct keys are repartitioned
by bucket, and in the second stage each is placed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from partage.errors import InvalidConfigError
from partage.jobs.keys.blocks import ROWS_DDL, RowKind
from partage.jobs.keys.columns import expect_columns
from partage.jobs.keys.counting import KeyCounter, count_part
from partage.jobs.keys.loads import LOADS_DDL, KeyJob, loads_at, merge_bucket
from partage.jobs.keys.sources import InputPart, KeySource, parse_address
from partage.jobs.spark.kafka import topic_records
from partage.jobs.spark.shipping import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkJob", "read_and_count"]

#: Records a task, at least: a worker's start costs more than fewer take to read.
_ROWS_A_TASK = 1_000_000
#: Connectors that Spark's wheel lacks, as advice in errors.
_CONNECTORS = {
    name: f"; does it have the connector? PYSPARK_SUBMIT_ARGS='--packages {package} pyspark-shell'"
    for name, package in (
        ("kafka", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"),
        ("delta", "io.delta:delta-spark_2.13:VERSION"),
    )
}


class SparkJob:
    """Both stages in the workers of a session.

    Attributes:
        spark: the session.
        tasks: tasks of each stage.
        buckets: number of buckets of keys.
    """

    def __init__(self, spark: SparkSession, source: KeySource, opened: ExitStack) -> None:
        self.spark, self._source, self._opened = spark, source, opened
        cores = max(1, spark.sparkContext.defaultParallelism)
        # No more than there are cores: each task sends its distinct keys once more.
        self.tasks = cores
        if source.rows is not None:
            self.tasks = max(1, min(cores, len(source.parts), -(-source.rows // _ROWS_A_TASK)))
        self.buckets = self.tasks
        self._rows: DataFrame | None = None

    def summaries(self, job: KeyJob, top: int, *, keep: bool) -> pa.Table:
        """Return the rows about the keys; with ``keep`` hold the keys for `loads`."""
        rows = self._count(job).repartitionById(self.tasks, "bucket")
        rows = rows.mapInArrow(partial(_merge_in_worker, job, top, keep=keep), ROWS_DDL)
        if keep:
            self._rows = rows = rows.persist()
            self._opened.callback(rows.unpersist)
        return rows.where(f"kind <> {int(RowKind.KEYS)}").toArrow()

    def loads(self) -> Callable[[KeyJob, range], pa.Table]:
        """Return `loads_at` over the keys that the last `summaries` kept."""
        if self._rows is None:
            raise RuntimeError("no keys were kept")
        return partial(_loads, self._rows.where(f"kind = {int(RowKind.KEYS)}"))

    def _count(self, job: KeyJob) -> DataFrame:
        if self._source.format == "parquet":
            work = partial(read_and_count, job, self._source.parts, self.tasks)
            return self.spark.range(0, self.tasks, 1, self.tasks).mapInArrow(work, ROWS_DDL)
        frame = _key_frame(self.spark, self._source)
        return frame.mapInArrow(partial(_count_batches, job), ROWS_DDL)


def read_and_count(
    job: KeyJob, parts: Sequence[InputPart], tasks: int, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read and count, in a worker, every ``tasks``-th part, from each task number on."""
    counter = KeyCounter(job)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for part in parts[number::tasks]:
                yield from count_part(counter, part)
    yield from counter.rows()
    freeze_imports()


def _count_batches(job: KeyJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count, in a worker, what Spark has read, its columns in the order of the job's."""
    counter = KeyCounter(job)
    for batch in batches:
        if batch.num_rows:
            counter.add(batch.rename_columns(job.columns.names))
            yield from counter.overflow()
    yield from counter.rows()


def _merge_in_worker(
    job: KeyJob, top: int, batches: Iterable[pa.RecordBatch], *, keep: bool
) -> Iterator[pa.RecordBatch]:
    yield from merge_bucket(job, top, batches, keep=keep)
    freeze_imports()


def _loads(keys: DataFrame, job: KeyJob, counts: range) -> pa.Table:
    return keys.mapInArrow(partial(loads_at, job, counts), LOADS_DDL).toArrow()


def _key_frame(spark: SparkSession, source: KeySource) -> DataFrame:
    """Return the job's columns as Spark reads them, named by their number.

    Raises:
        InvalidConfigError: Spark cannot read the input, or a column is missing or nested.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        found = _load(spark, source)
        schema = found.schema
    except (PySparkException, Py4JJavaError) as e:  # Py4J's if the connector's class is missing
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        first = next((line for line in lines if "Exception: " in line), lines[0])[:200]
        reason = f"Spark cannot read it ({first}){_CONNECTORS.get(source.format, '')}"
        raise InvalidConfigError("INPUT", reason, source.where) from None
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    expect_columns(arrow_schema, source.columns, source.serializer, source.where)
    paths = ([n] if n in schema.names else n.split(".") for n in source.columns.names)
    # mapInArrow takes a name with a dot for a path and finds no such column.
    return found.selectExpr(
        *(f"{'.'.join(f'`{part}`' for part in path)} AS `{i}`" for i, path in enumerate(paths))
    )


def _load(spark: SparkSession, source: KeySource) -> DataFrame:
    if source.format == "csv":
        return spark.read.option("header", True).csv(source.where)
    if source.format == "json":
        return spark.read.json(source.where)
    if source.format == "kafka":
        servers, topic = parse_address(source.where)
        return topic_records(spark, servers, topic, source.properties)
    return spark.read.format(source.format).load(source.where)
