"""Workers of `partage keys`: threads of this process, or one Spark job of two stages.

In the first stage, each worker reads its parts of the input and counts the keys in one hash table
(`partage.keys.distinct`). It sends the distinct keys in packed rows, by bucket: equal keys of all
workers are in the same bucket. It also sends the number of records by hour and partition. In the
second stage (`partage.jobs.keys.loads`), the partition of each distinct key is computed once.

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
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidKeysError
from partage.jobs.keys.blocks import ROWS_DDL, RowKind, is_block, key_array, pack_keys, row_batch
from partage.jobs.keys.columns import (
    NO_TIME,
    convert_times,
    expect_columns,
    normalize_empty_keys,
    serialize_keys,
    value_sizes,
)
from partage.jobs.keys.loads import (
    LOADS_DDL,
    KeyJob,
    PartitionLoads,
    loads_at,
    merge_bucket,
    partitions_at,
)
from partage.jobs.keys.sources import InputPart, KeySource, parse_address, read_part
from partage.jobs.spark.shipping import freeze_imports
from partage.jobs.spark.tables import topic_records
from partage.keys.columns import LONGEST_KEY, arrow_column
from partage.keys.distinct import COUNT, DistinctKeys

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "HOUR_MS",
    "LARGEST_LOCAL",
    "KeyCounter",
    "LocalKeyJob",
    "SparkKeyJob",
    "count_part",
    "read_and_count",
]

#: Largest input in bytes, uncompressed, that this process counts: distinct keys take up to five
#: times as much memory. Larger inputs go to Spark, which spills to disk.
LARGEST_LOCAL = 2 << 30
#: Bytes of input for which another thread pays.
_BYTES_A_THREAD = 8 << 20
#: Buckets a thread: it merges one at a time, so that its hash table holds a part of all keys.
_BUCKETS_A_THREAD = 4

_T = TypeVar("_T")


class LocalKeyJob:
    """Runner of `partage keys` without Spark: threads of this process read and count the keys.

    Attributes:
        spark: None, because there is no session as in `SparkKeyJob`.
        tasks: number of threads.
        buckets: number of buckets of keys.
    """

    spark = None

    def __init__(self, source: KeySource, progress: Callable[[int, int], None]) -> None:
        self._source, self._progress = source, progress
        worthwhile = max(1, source.estimated_bytes // _BYTES_A_THREAD)
        self.tasks = max(1, min(_cores(), len(source.parts), worthwhile))
        self.buckets = 1 if worthwhile == 1 else _BUCKETS_A_THREAD * self.tasks
        self._kept: list[pa.RecordBatch] = []

    def count_keys(self, job: KeyJob, hottest_count: int, *, keep: bool) -> pa.Table:
        """Count the records of each key of the whole input in threads, and return all result rows.

        The rows have the records of each partition, the hottest keys and totals.

        Args:
            job: the settings of the run, such as the partition counts.
            hottest_count: number of hottest keys (most records) to return.
            keep: whether the counted keys stay in memory, for `load_function`.
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
        rows = [row for some in self._run_in_threads(work, stop) for row in some]
        blocks: list[list[pa.RecordBatch]] = [[] for _ in range(self.buckets)]
        for row in filter(is_block, rows):
            blocks[row.column(1)[0].as_py()].append(row)
        found = [row for row in rows if not is_block(row)]
        del rows
        merge = [
            partial(_merge_one_bucket, job, hottest_count, blocks, bucket, stop, keep_keys=keep)
            for bucket in range(self.buckets)
        ]
        merged = [row for some in self._run_in_threads(merge, stop) for row in some]
        self._kept = list(filter(is_block, merged))
        return pa.Table.from_batches(found + [row for row in merged if not is_block(row)])

    def load_function(self) -> Callable[[KeyJob, range], pa.Table]:
        """Return a function that computes the records of each partition at other partition counts.

        The function takes the run's settings and a range of partition counts. It uses the keys that
        the last call of `count_keys` kept in memory.
        """
        return partial(self._loads, tuple(self._kept))

    def _loads(self, kept: tuple[pa.RecordBatch, ...], job: KeyJob, counts: range) -> pa.Table:
        import pyarrow as pa

        def share_loads(share: tuple[pa.RecordBatch, ...]) -> list[pa.RecordBatch]:
            return list(loads_at(job, counts, share))

        work = [partial(share_loads, kept[number :: self.tasks]) for number in range(self.tasks)]
        return pa.Table.from_batches(
            [row for some in self._run_in_threads(work, Event()) for row in some]
        )

    def _run_in_threads(self, functions: Iterable[Callable[[], _T]], stop: Event) -> list[_T]:
        """Call several functions in threads, and return their results in the order of the
        functions.

        If a function raises an error, the event ``stop`` is set to end the other threads, and the
        error is raised.
        """
        with ThreadPoolExecutor(self.tasks, "partage-keys") as pool:
            # A context variable decides which form of a kernel runs.
            running = [pool.submit(copy_context().run, task) for task in functions]
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
    """Thread-safe queue of the parts of the input (row groups or files) that are still to be read.

    Each worker thread takes the next part when it has finished one.
    """

    def __init__(self, parts: tuple[InputPart, ...], progress: Callable[[int, int], None]) -> None:
        self._parts, self._progress = parts, progress
        self._lock, self._next, self._done = Lock(), 0, 0

    def take_parts(self, share: tuple[int, int] | None) -> Iterator[InputPart]:
        """Yield parts of the input (row groups or files) to one worker thread until none is left.

        If ``share`` is None, each part goes to the first free thread. If it is (number, count),
        this thread gets the parts number, number + count, number + 2 count and so on.
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
    for part in queue.take_parts(share):
        out += count_part(counter, part, stop.is_set)
        if stop.is_set():
            return []
    return [*out, *counter.remaining_batches()]


def _merge_one_bucket(
    job: KeyJob, hottest_count: int, blocks: list[list[pa.RecordBatch]], bucket: int, stop: Event,
    *,
    keep_keys: bool,
) -> list[pa.RecordBatch]:  # fmt: skip
    """Add up the workers' counts of equal keys in one bucket, which is a subset of the keys.

    Args:
        job: the settings of the run.
        hottest_count: number of hottest keys (most records) to return.
        blocks: packed keys of each bucket; each block is freed as soon as it is added.
        bucket: number of the bucket.
        stop: event that ends the work early.
        keep_keys: whether to return the merged keys too.
    """
    if stop.is_set():
        return []
    rows, blocks[bucket] = blocks[bucket][::-1], []
    return list(
        merge_bucket(
            job, hottest_count, (rows.pop() for _ in range(len(rows))), keep_keys=keep_keys
        )
    )


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


class SparkKeyJob:
    """Runner of `partage keys` in Spark: the session's workers read and count the keys.

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

    def count_keys(self, job: KeyJob, hottest_count: int, *, keep: bool) -> pa.Table:
        """Count the records of each key of the whole input in Spark, and return all result rows.

        The rows have the records of each partition, the hottest keys and totals.

        Args:
            job: the settings of the run, such as the partition counts.
            hottest_count: number of hottest keys (most records) to return.
            keep: whether Spark caches the counted keys, for `load_function`.
        """
        rows = self._count_keys(job).repartitionById(self.tasks, "bucket")
        rows = rows.mapInArrow(partial(_merge_in_worker, job, hottest_count, keep=keep), ROWS_DDL)
        if keep:
            self._rows = rows = rows.persist()
            self._opened.callback(rows.unpersist)
        return rows.where(f"kind <> {int(RowKind.KEYS)}").toArrow()

    def load_function(self) -> Callable[[KeyJob, range], pa.Table]:
        """Return a function that computes the records of each partition at other partition counts.

        The function takes the run's settings and a range of partition counts. It uses the keys that
        the last call of `count_keys` cached in Spark.
        """
        if self._rows is None:
            raise RuntimeError("no keys were kept")
        return partial(_loads, self._rows.where(f"kind = {int(RowKind.KEYS)}"))

    def _count_keys(self, job: KeyJob) -> DataFrame:
        if self._source.format == "parquet":
            work = partial(read_and_count, job, self._source.parts, self.tasks)
            return self.spark.range(0, self.tasks, 1, self.tasks).mapInArrow(work, ROWS_DDL)
        frame = _load_key_columns(self.spark, self._source)
        return frame.mapInArrow(partial(_count_batches, job), ROWS_DDL)


def read_and_count(
    job: KeyJob, parts: Sequence[InputPart], tasks: int, task_numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read this Spark task's parts of the input (row groups or files), and count records by key.

    Task n of ``tasks`` reads the parts n, n + ``tasks``, n + 2 ``tasks`` and so on. It yields
    packed keys and other result rows.

    Args:
        job: the settings of the run.
        parts: all parts of the input.
        tasks: number of tasks.
        task_numbers: batches with the number of this task.
    """
    counter = KeyCounter(job)
    for batch in task_numbers:
        for number in batch.column(0).to_pylist():
            for part in parts[number::tasks]:
                yield from count_part(counter, part)
    yield from counter.remaining_batches()
    freeze_imports()


def _count_batches(job: KeyJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the records of each key in batches that Spark has read, and yield packed keys.

    The batches have the columns of ``job.columns.column_names``, in this order.
    """
    counter = KeyCounter(job)
    for batch in batches:
        if batch.num_rows:
            counter.count_batch(batch.rename_columns(job.columns.column_names))
            yield from counter.flush_if_full()
    yield from counter.remaining_batches()


def _merge_in_worker(
    job: KeyJob, top: int, batches: Iterable[pa.RecordBatch], *, keep: bool
) -> Iterator[pa.RecordBatch]:
    yield from merge_bucket(job, top, batches, keep_keys=keep)
    freeze_imports()


def _loads(keys: DataFrame, job: KeyJob, counts: range) -> pa.Table:
    return keys.mapInArrow(partial(loads_at, job, counts), LOADS_DDL).toArrow()


def _load_key_columns(spark: SparkSession, source: KeySource) -> DataFrame:
    """Return the key, value and time of an input as a Spark data frame.

    Its columns are named ``0``, ``1`` and ``2``.

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
    paths = ([n] if n in schema.names else n.split(".") for n in source.columns.column_names)
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


# -- first stage: count the records of each distinct key -------------------------------------------

_Longs = NDArray[np.int64]
HOUR_MS = 3_600_000
#: Later than any timestamp.
_NEVER = 1 << 62
#: Bytes of distinct keys that a worker holds before it sends them on.
_HELD_BYTES = 256 << 20
#: Distinct keys that an approximate count keeps.
_SKETCH = 200_000
#: Time that Arrow's dictionary encoding takes for a key, in steps of the interpreted kernel.
_STEPS_A_KEY = 3
#: Rows of hours and partitions that are held before they are summed.
_MOST_HOUR_ROWS = 1_000_000
_HOUR_ROW = ("n", "hour", "partition", "records")


def count_part(
    counter: KeyCounter, part: InputPart, is_stopped: Callable[[], bool] = bool
) -> Iterator[pa.RecordBatch]:
    """Read a part of the input (row group or file), and count its records by key.

    The counts stay in ``counter``. Only when its memory is full are they yielded, as packed rows
    for other workers.

    Args:
        counter: the worker's counts.
        part: the row group or file to read.
        is_stopped: called after each batch; if it returns True, counting ends.
    """
    counter.where = f" of {part.description}"
    for rows in read_part(part, counter.job.columns):
        if rows.num_rows:
            counter.count_batch(rows)
        yield from counter.flush_if_full()
        if is_stopped():
            return


@dataclass
class KeyCounter:
    """Counter of the records and bytes of each distinct key, in one worker of `partage keys`.

    Call `count_batch` for each batch, and send the rows that `flush_if_full` yields. At the end,
    send the rows of `remaining_batches`.

    Attributes:
        nulls: number of records that the producer places independently of their keys.
        timeless: number of records without a time from 1970 on.
        dropped: maximum number of records that are missing in an approximate count of a key.
        seen: number of records added.
        where: name of the part that is being read, for errors.
    """

    job: KeyJob
    nulls: int = 0
    timeless: int = 0
    dropped: int = 0
    seen: int = 0
    where: str = ""
    _table: DistinctKeys = field(init=False)
    _rare: PartitionLoads | None = None
    _hour_rows: list[Any] = field(default_factory=list)
    _first: int = _NEVER
    _last: int = NO_TIME

    def __post_init__(self) -> None:
        self._table = DistinctKeys(sized=self.job.columns.value is not None)

    def count_batch(self, batch: pa.RecordBatch) -> None:
        """Count the records of a batch by key, and by hour if a time column is given.

        Raises:
            InvalidConfigError: keys or times have a type that cannot be used.
            InvalidKeysError: a key is longer than a producer sends.
        """
        import pyarrow as pa

        columns = self.job.columns
        self.seen += batch.num_rows
        if columns.time is not None:
            batch = self._filter_by_time(batch, columns.time)
        keys = _serialize_key_column(
            batch.column(batch.schema.get_field_index(columns.key)), self.job
        )
        keys = normalize_empty_keys(keys, self.job.partitioner)
        value = None
        if columns.value is not None:
            value = value_sizes(batch.column(batch.schema.get_field_index(columns.value)))
        if columns.time is not None:
            self._count_hours(batch, keys)
        # Compiling takes a second: Arrow's dictionary encoding is faster for a short input.
        if not pa.types.is_dictionary(keys.type):
            if COUNT.is_worth_compiling(work=_STEPS_A_KEY * max(self.seen, self.job.rows)):
                self._count_keys(keys, value_bytes=value)
                return
            keys = keys.dictionary_encode()
        self._count_dictionary(keys, value)

    def _count_keys(
        self, keys: pa.Array, *, records: _Longs | None = None, value_bytes: _Longs | None = None,
        size: _Longs | None = None,
    ) -> None:  # fmt: skip
        """Add keys to the hash table that counts records and bytes by key.

        Args:
            keys: the keys.
            records: number of records of each key; None means 1.
            value_bytes: bytes of each record's value; None for none.
            size: bytes of each key's records; None means the bytes of key and value.
        """
        import pyarrow as pa

        column = arrow_column(keys, pa)
        try:
            column.check_key_lengths(LONGEST_KEY)
        except InvalidKeysError:
            reason = (
                f"has a key of {int(column.key_lengths.max()):,} bytes; "
                f"a producer sends no more than "
                f"{LONGEST_KEY:,} by default (max.request.size)"
            )
            where = f"column {self.job.columns.key}{self.where}"
            raise InvalidKeysError(reason, where=where) from None
        if column.null is not None and records is None:
            self.nulls += int(column.null.sum())
        if value_bytes is not None:
            size = column.key_lengths + value_bytes
        starts = column.starts.astype(np.int64, copy=False)
        self._table.count_batch(column.data, starts, null=column.null, times=records, sizes=size)

    def _count_dictionary(self, keys: pa.DictionaryArray, value_bytes: _Longs | None) -> None:
        """Count records by key in a dictionary-encoded Arrow column.

        Each distinct key is hashed only once. ``value_bytes`` are the sizes of the records' values;
        None if bytes are not counted.
        """
        codes = keys.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct = keys.dictionary
        valid = codes >= 0
        if distinct.null_count:  # a null may also be an entry of the dictionary
            valid &= distinct.is_valid().to_numpy(zero_copy_only=False)[codes]
        self.nulls += int((~valid).sum())
        all_valid = bool(valid.all())
        codes = codes if all_valid else codes[valid]
        times = np.bincount(codes, minlength=len(distinct))
        size = None
        if value_bytes is not None:
            values = value_bytes if all_valid else value_bytes[valid]
            size = np.bincount(codes, values, len(distinct)).astype(np.int64)
            size += value_sizes(distinct) * times
        used = times > 0
        if not used.all():
            distinct, times = distinct.filter(used), times[used]
            size = None if size is None else size[used]
        self._count_keys(distinct, records=times.astype(np.int64), size=size)

    def _filter_by_time(self, batch: pa.RecordBatch, time_column: str) -> pa.RecordBatch:
        """Return the records of the one hour that the run counts, or all records if it counts all
        hours.

        The first and last record time are updated too. ``time_column`` is the column with the
        times.
        """
        import pyarrow as pa

        times = convert_times(batch.column(batch.schema.get_field_index(time_column)), time_column)
        if self.job.hour is not None:
            inside = (times >= self.job.hour) & (times < self.job.hour + HOUR_MS)
            batch, times = batch.filter(pa.array(inside)), times[inside]
        self.timeless += int((times < 0).sum())
        times = times[times > NO_TIME]
        if len(times):
            self._first = min(self._first, int(times.min()))
            self._last = max(self._last, int(times.max()))
        return batch

    def _count_hours(self, batch: pa.RecordBatch, keys: pa.Array) -> None:
        """Count the records of a batch by hour and partition, at each partition count of the job.

        ``keys`` are the serialized keys. Only hours and partitions with records use memory.
        """
        import pyarrow as pa

        name = str(self.job.columns.time)
        hours = convert_times(batch.column(batch.schema.get_field_index(name)), name) // HOUR_MS
        inside = (hours >= 0) & keys.is_valid().to_numpy(zero_copy_only=False)
        known, hour = np.unique(hours[inside], return_inverse=True)
        for n, numbers in partitions_at(keys, self.job.counts, self.job.partitioner).items():
            used, records = _occurrences(hour * n + numbers[inside], len(known) * n)
            rows = {"n": np.full(len(used), n, np.int32), "hour": known[used // n] * HOUR_MS,
                    "partition": used % n, "records": records}  # fmt: skip
            self._hour_rows.append(pa.table(rows))
        if sum(map(len, self._hour_rows)) > _MOST_HOUR_ROWS:
            self._hour_rows = [_sum_by_hour(self._hour_rows)]

    def flush_if_full(self) -> Iterator[pa.RecordBatch]:
        """Free memory if the hash table of key counts is full.

        An exact count then yields all keys as packed rows and empties the table. An approximate
        count drops the rarest keys instead, and yields nothing.
        """
        if self.job.approximate:
            if len(self._table) > 4 * _SKETCH:
                self._drop_rare_keys()
        elif self._table.memory_bytes > _HELD_BYTES:
            yield from pack_keys(self._table, self.job.buckets)
            self._table.remove_keys()

    def _drop_rare_keys(self) -> None:
        """Remove the keys with the fewest records from an approximate count, to bound memory.

        Their records are first added to the sums of their partitions.
        """
        import pyarrow as pa

        counted = self._table.counted_keys()
        excess = len(self._table) - _SKETCH
        if excess <= 0:
            return
        least = int(np.partition(counted.records, excess)[excess])
        self.dropped += least
        keys = key_array(counted.data, counted.starts)
        if self._rare is None:
            self._rare = PartitionLoads(self.job)
        often = counted.records > least
        self._rare.add_keys(keys.filter(pa.array(~often)), counted.records[~often],
                       counted.bytes[~often])  # fmt: skip
        self._table.remove_keys()
        self._count_keys(keys.filter(pa.array(often)), records=counted.records[often],
                    size=counted.bytes[often])  # fmt: skip

    def remaining_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the results that a worker has not sent yet: key counts, records by hour, and
        totals.

        It is called once, after the last batch of records.
        """
        from pyarrow import compute

        if self.job.approximate:
            self._drop_rare_keys()
        yield from pack_keys(self._table, self.job.buckets)
        if self._rare is not None:
            yield from self._rare.load_batches()
        if self._hour_rows:
            by_hour = _sum_by_hour(self._hour_rows)
            for n in compute.unique(by_hour["n"]):
                rows = by_hour.filter(compute.equal(by_hour["n"], n))
                hour, partition, records = (rows[name].to_numpy() for name in _HOUR_ROW[1:])
                yield row_batch(RowKind.HOUR, records, n=n.as_py(), hour=hour, partition=partition)
        if self._last > NO_TIME:
            ends = np.array([self._first]), np.array([self._last])
            yield row_batch(RowKind.SPAN, [0], hour=ends[0], partition=ends[1])
        yield row_batch(RowKind.NULLS, [self.nulls])
        yield row_batch(RowKind.TIMELESS, [self.timeless])
        yield row_batch(RowKind.DROPPED, [self.dropped])


def _serialize_key_column(column: pa.Array, job: KeyJob) -> pa.Array:
    """Serialize the key column to the bytes that a Kafka producer would send.

    ``job`` names the column and the serializer. A dictionary-encoded column stays encoded.
    """
    import pyarrow as pa
    from pyarrow import types

    name = job.columns.key
    if not types.is_dictionary(column.type):
        return serialize_keys(column, job.serializer, name)
    keys = serialize_keys(column.dictionary, job.serializer, name)
    try:
        return pa.DictionaryArray.from_arrays(column.indices, keys)
    except pa.ArrowException as e:  # a damaged page, whose indices pyarrow does not check
        raise InvalidConfigError("INPUT", f"cannot be read ({e})", name) from None


def _occurrences(values: _Longs, end: int) -> tuple[_Longs, _Longs]:
    if end <= 4 * len(values) + 1_000:
        times = np.bincount(values, minlength=end)
        used = np.flatnonzero(times)
        return used, times[used]
    used, times = np.unique(values, return_counts=True)
    return used, times


def _sum_by_hour(tables: list[pa.Table]) -> pa.Table:
    """Add up tables with the number of records by partition count, hour and partition.

    The result has one row for each (partition count, hour, partition) with records.
    """
    import pyarrow as pa

    grouped = pa.concat_tables(tables).group_by(list(_HOUR_ROW[:3]), use_threads=False)
    return grouped.aggregate([("records", "sum")]).rename_columns(list(_HOUR_ROW))
