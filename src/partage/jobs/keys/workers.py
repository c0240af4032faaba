"""Workers of `partage keys`: threads of this process, or one Spark job of two stages.

In the first stage, workers read their parts of the input and count the keys. Distinct keys are
then distributed by bucket, so that equal keys meet. In the second stage, the partition of each
distinct key is computed once.

Inputs that one machine can hold are counted in threads, without starting Spark. The threads run
the same functions as Spark's workers. pyarrow and compiled kernels release the global interpreter
lock. Each thread merges one bucket after the other, and frees a bucket's memory before the next
one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, TypeVar

from partage.errors import InvalidConfigError
from partage.jobs.keys.blocks import ROWS_DDL, RowKind, is_block
from partage.jobs.keys.columns import expect_columns
from partage.jobs.keys.counting import KeyCounter, count_part
from partage.jobs.keys.loads import LOADS_DDL, KeyJob, loads_at, merge_bucket
from partage.jobs.keys.sources import InputPart, KeySource, parse_address
from partage.jobs.spark.shipping import freeze_imports
from partage.jobs.spark.tables import topic_records

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LARGEST_LOCAL", "LocalJob", "SparkJob", "read_and_count"]

#: Largest input in bytes, uncompressed, that this process counts: distinct keys take up to five
#: times as much memory. Larger inputs go to Spark, which spills to disk.
LARGEST_LOCAL = 2 << 30
#: Bytes of input for which another thread pays.
_BYTES_A_THREAD = 8 << 20
#: Buckets a thread: it merges one at a time, so that its hash table holds a part of all keys.
_BUCKETS_A_THREAD = 4

_T = TypeVar("_T")


class LocalJob:
    """Runner of `partage keys` without Spark: both stages (count, merge) run in threads.

    Attributes:
        spark: always None; for `SparkJob` it is the session.
        tasks: number of threads.
        buckets: number of buckets of keys.
    """

    spark = None

    def __init__(self, source: KeySource, progress: Callable[[int, int], None]) -> None:
        self._source, self._progress = source, progress
        worthwhile = max(1, source.size // _BYTES_A_THREAD)
        self.tasks = max(1, min(_cores(), len(source.parts), worthwhile))
        self.buckets = 1 if worthwhile == 1 else _BUCKETS_A_THREAD * self.tasks
        self._kept: list[pa.RecordBatch] = []

    def summaries(self, job: KeyJob, top: int, *, keep: bool) -> pa.Table:
        """Count and merge the keys of the whole input; return the result rows as a table.

        With ``keep`` the merged keys stay in memory for `loads`.
        """
        import pyarrow as pa

        stop = Event()
        queue = _PartQueue(self._source.parts, self._progress)
        # The result of an approximate count depends on the order of parts: shares are fixed then.
        work = [
            partial(
                _count_parts, job, queue, stop, (number, self.tasks) if job.approximate else None
            )
            for number in range(self.tasks)
        ]
        rows = [row for some in self._in_threads(work, stop) for row in some]
        blocks: list[list[pa.RecordBatch]] = [[] for _ in range(self.buckets)]
        for row in filter(is_block, rows):
            blocks[row.column(1)[0].as_py()].append(row)
        found = [row for row in rows if not is_block(row)]
        del rows
        merge = [
            partial(_merge_one_bucket, job, top, blocks, bucket, stop, keep=keep)
            for bucket in range(self.buckets)
        ]
        merged = [row for some in self._in_threads(merge, stop) for row in some]
        self._kept = list(filter(is_block, merged))
        return pa.Table.from_batches(found + [row for row in merged if not is_block(row)])

    def loads(self) -> Callable[[KeyJob, range], pa.Table]:
        """Return a function that computes the loads of partitions at other partition counts.

        It uses the keys that the last call of `summaries` kept.
        """
        return partial(self._loads, tuple(self._kept))

    def _loads(self, kept: tuple[pa.RecordBatch, ...], job: KeyJob, counts: range) -> pa.Table:
        import pyarrow as pa

        def share_loads(share: tuple[pa.RecordBatch, ...]) -> list[pa.RecordBatch]:
            return list(loads_at(job, counts, share))

        work = [partial(share_loads, kept[number :: self.tasks]) for number in range(self.tasks)]
        return pa.Table.from_batches(
            [row for some in self._in_threads(work, Event()) for row in some]
        )

    def _in_threads(self, work: Iterable[Callable[[], _T]], stop: Event) -> list[_T]:
        """Run functions in threads, and return their results in the order of the functions.

        An error in one thread stops the others and is raised.
        """
        with ThreadPoolExecutor(self.tasks, "partage-keys") as pool:
            # A context variable decides which form of a kernel runs.
            running = [pool.submit(copy_context().run, task) for task in work]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
                for task in running:
                    if task.done() and task.exception() is not None:
                        task.result()
                return [task.result() for task in running]
            except BaseException:
                stop.set()
                for task in running:
                    task.cancel()
                raise


class _PartQueue:
    """A thread-safe queue of the input parts (row groups or files) that are still to be read."""

    def __init__(self, parts: tuple[InputPart, ...], progress: Callable[[int, int], None]) -> None:
        self._parts, self._progress = parts, progress
        self._lock, self._next, self._done = Lock(), 0, 0

    def take(self, share: tuple[int, int] | None) -> Iterator[InputPart]:
        """Yield input parts to one thread.

        With ``share`` (number, count), yield every ``count``-th part from ``number`` on. Without
        it, yield parts that no other thread has taken.
        """
        if share is not None:
            for part in self._parts[share[0] :: share[1]]:
                yield part
                self._finished()
            return
        while True:
            with self._lock:
                number, self._next = self._next, self._next + 1
            if number >= len(self._parts):
                return
            yield self._parts[number]
            self._finished()

    def _finished(self) -> None:
        with self._lock:
            self._done += 1
            self._progress(self._done, len(self._parts))


def _count_parts(
    job: KeyJob, queue: _PartQueue, stop: Event, share: tuple[int, int] | None
) -> list[pa.RecordBatch]:
    counter = KeyCounter(job)
    out: list[pa.RecordBatch] = []
    for part in queue.take(share):
        out += count_part(counter, part, stop.is_set)
        if stop.is_set():
            return []
    return [*out, *counter.rows()]


def _merge_one_bucket(
    job: KeyJob, top: int, blocks: list[list[pa.RecordBatch]], bucket: int, stop: Event, *,
    keep: bool,
) -> list[pa.RecordBatch]:  # fmt: skip
    """Add up the counts of equal keys in one bucket, and return the result rows.

    The memory of each packed row of keys is freed as soon as the row is added.
    """
    if stop.is_set():
        return []
    rows, blocks[bucket] = blocks[bucket][::-1], []
    return list(merge_bucket(job, top, (rows.pop() for _ in range(len(rows))), keep=keep))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    """Runner of `partage keys` in Spark: both stages (count, merge) run in the session's workers.

    Attributes:
        spark: the session.
        tasks: number of tasks of each stage.
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
        """Count and merge the keys of the whole input in Spark; return the result rows as a table.

        With ``keep`` Spark caches the merged keys for `loads`.
        """
        rows = self._count(job).repartitionById(self.tasks, "bucket")
        rows = rows.mapInArrow(partial(_merge_in_worker, job, top, keep=keep), ROWS_DDL)
        if keep:
            self._rows = rows = rows.persist()
            self._opened.callback(rows.unpersist)
        return rows.where(f"kind <> {int(RowKind.KEYS)}").toArrow()

    def loads(self) -> Callable[[KeyJob, range], pa.Table]:
        """Return a function that computes the loads of partitions at other partition counts.

        It uses the keys that the last call of `summaries` kept.
        """
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
    job: KeyJob, parts: Sequence[InputPart], tasks: int, task_numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read this Spark task's parts of the input, and count their records by key.

    Task n of ``tasks`` reads the parts n, n + ``tasks``, n + 2 ``tasks`` and so on.
    """
    counter = KeyCounter(job)
    for batch in task_numbers:
        for number in batch.column(0).to_pylist():
            for part in parts[number::tasks]:
                yield from count_part(counter, part)
    yield from counter.rows()
    freeze_imports()


def _count_batches(job: KeyJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the records of batches that Spark has read, by key.

    The columns of a batch are in the order of ``job.columns.names``.
    """
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
    """Return a Spark data frame with the input's key, value and time; column names are numbers.

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
