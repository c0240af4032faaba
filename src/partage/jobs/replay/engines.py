"""Engines of a replay: objects that run its jobs, either in Spark or in this process.

A job is a function from Arrow batches to Arrow batches. `SparkEngine` runs it in Python workers
(`mapInArrow`), `LocalEngine` runs it in this process, without Spark and Java. Both give a job the
same rows, so that the tables of a run are equal.

Rows between two jobs have the columns of `decoded_rows`. The local engine keeps them in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from partage.errors import InvalidConfigError
from partage.jobs.processes import WorkerProcesses, available_cores, rare_collections

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.jobs.replay.capture import Capture
    from partage.jobs.spark.progress import StageTimes
    from partage.jobs.spark.tables import SparkTable

__all__ = [
    "ENGINES",
    "LOCAL_RECORDS",
    "EngineChoice",
    "Job",
    "LazyRows",
    "LocalEngine",
    "LocalRows",
    "ReplayEngine",
    "SharedValue",
    "SparkEngine",
    "SparkRows",
    "choose_engine",
    "local_processes",
]

ENGINES = ("auto", "local", "spark")
#: Records up to which engine ``auto`` replays in this process; their rows fit into memory.
LOCAL_RECORDS = 2_000_000
#: Records times policies that make another process worthwhile: it needs a second of CPU to start.
_WORK_OF_A_PROCESS = 200_000
#: Processes that are started unless the user wants more: each takes memory.
_MOST_PROCESSES = 8

#: A job: Arrow batches in, Arrow batches out.
Job = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class SharedValue(Protocol):
    """Interface of a read-only value that all tasks of a job can read, such as a Spark broadcast.

    It is used for large inputs of all tasks, for example the cluster metadata.
    """

    @property
    def value(self) -> Any:
        """The value that the tasks of a job share, for example the cluster metadata.

        All tasks may read it, and none may change it.
        """

    def destroy(self) -> None:
        """Free the memory of the shared value in all processes.

        No job may read it afterwards.
        """


class LazyRows(Protocol):
    """Interface of a lazy table, whose rows are computed when they are read.

    The jobs of a replay exchange such tables. Spark or this process computes the rows.
    """

    def filter_kinds(self, *kinds: int) -> LazyRows:
        """Return only the rows whose column ``kind`` has one of the given values.

        The kind says what a row contains, for example a damaged record.
        """

    def sorted_by(self, key: str, sort_columns: Sequence[str]) -> LazyRows:
        """Group the rows by a column, and sort them by other columns.

        Rows with an equal value in column ``key`` get into the same task. Each task then sorts its
        rows by ``sort_columns``.
        """

    def union_rows(self, other_rows: LazyRows) -> LazyRows:
        """Return a table with the rows of this table and of another one.

        Both tables must have the same columns.
        """

    def apply_job(self, job: Job, ddl: str) -> LazyRows:
        """Apply a job to the rows, and return the result as another lazy table.

        Args:
            job: function from Arrow batches to Arrow batches.
            ddl: names and types of the result's columns, as Spark SQL.
        """

    def collect_columns(self, *columns: str) -> list[tuple[Any, ...]]:
        """Compute the rows, and return the named columns as a list of tuples, one for each row.

        All of these rows must fit into the memory of the calling process.
        """

    def persist(self) -> LazyRows:
        """Cache the rows, so that several jobs can read them without computing them again.

        Return the cached table. `unpersist` frees the memory.
        """

    def unpersist(self) -> object:
        """Free the memory of rows that `persist` has cached.

        If they are read later, they are computed again.
        """


class ReplayEngine(Protocol):
    """Interface of an engine, which runs the jobs of a replay in Spark or in this process.

    Both engines give the same results.

    Attributes:
        name: ``spark`` or ``local``.
        cores: number of tasks that run at the same time.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class

    @property
    def cores(self) -> int: ...  # noqa: D102 - see the class

    def share_value(self, shared_value: Any) -> SharedValue:
        """Make a large read-only value, such as the cluster metadata, available to all tasks of
        later jobs.

        With Spark, the value becomes a broadcast.
        """

    def run_job(self, job: Job, number_count: int, tasks: int, ddl: str) -> LazyRows:
        """Run a function in parallel tasks on the numbers 0 to ``number_count`` - 1; return lazy
        rows.

        The numbers are usually indices, for example of row ranges in input files.

        Args:
            job: function from Arrow batches of numbers to Arrow batches of rows.
            number_count: how many numbers.
            tasks: number of tasks that share them.
            ddl: names and types of the result's columns, as Spark SQL.
        """

    def read_spark_table(self, table: SparkTable) -> LazyRows:
        """Return the records of a table that only Spark can read, such as Delta or Iceberg.

        Raises:
            InvalidConfigError: the engine does not use Spark.
        """

    def measure_stage(self, stages: StageTimes, name: str) -> AbstractContextManager[None]:
        """Measure how long a ``with`` block takes, and report the progress of its jobs.

        Args:
            stages: receives the duration and the progress.
            name: name of the stage of the run.
        """


#: Tasks a core in the jobs that shuffle: enough for all cores to end at one time.
_TASKS_A_CORE = 4


@dataclass(frozen=True)
class SparkRows:
    """Lazy rows of a replay that are a Spark data frame.

    Each method returns another lazy data frame. Spark computes it when its rows are collected.
    """

    frame: DataFrame

    def filter_kinds(self, *kinds: int) -> SparkRows:
        """Return only the rows whose column ``kind`` has one of the given values.

        The kind says what a row contains, for example a damaged record.
        """
        wanted = ", ".join(str(int(kind)) for kind in kinds)
        return SparkRows(self.frame.where(f"kind in ({wanted})"))

    def sorted_by(self, key: str, sort_columns: Sequence[str]) -> SparkRows:
        """Repartition the data frame by column ``key``, and sort each partition by
        ``sort_columns``.

        Rows with equal keys are in the same partition, so one task processes them.
        """
        cores = self.frame.sparkSession.sparkContext.defaultParallelism
        shuffled = self.frame.repartition(max(4, _TASKS_A_CORE * cores), key)
        return SparkRows(shuffled.sortWithinPartitions(*sort_columns))

    def union_rows(self, other_rows: LazyRows) -> SparkRows:
        """Return these rows and those of another Spark data frame with the same columns.

        It is Spark's `union`, which keeps duplicates.
        """
        if not isinstance(other_rows, SparkRows):
            raise TypeError("both tables must be Spark's")
        return SparkRows(self.frame.union(other_rows.frame))

    def apply_job(self, job: Job, ddl: str) -> SparkRows:
        """Apply a job to the rows with `mapInArrow`, and return the result as a lazy data frame.

        Args:
            job: function from Arrow batches to Arrow batches.
            ddl: names and types of the result's columns, as Spark SQL.
        """
        return SparkRows(self.frame.mapInArrow(job, ddl))

    def collect_columns(self, *columns: str) -> list[tuple[Any, ...]]:
        """Compute the rows in Spark, and return the named columns as a list of tuples.

        All of these rows must fit into the driver's memory.
        """
        return [tuple(row) for row in self.frame.select(*columns).collect()]

    def persist(self) -> SparkRows:
        """Let Spark cache the rows when it computes them, and return the cached rows.

        Several jobs can then read them without computing them again.
        """
        return SparkRows(self.frame.persist())

    def unpersist(self) -> object:
        """Free the memory of rows that Spark has cached.

        If they are read later, Spark computes them again.
        """
        return self.frame.unpersist()


@dataclass(frozen=True)
class SparkEngine:
    """Engine that runs the jobs of a replay in the Python workers of a Spark session.

    The rows between two jobs are Spark data frames.
    """

    spark: SparkSession
    name: str = "spark"

    @property
    def cores(self) -> int:
        """Number of Spark tasks that run at the same time."""
        return max(1, self.spark.sparkContext.defaultParallelism)

    def share_value(self, shared_value: Any) -> SharedValue:
        """Send a read-only value to all Spark workers as a broadcast.

        Each executor receives it once, however many tasks it runs.
        """
        return self.spark.sparkContext.broadcast(shared_value)

    def run_job(self, job: Job, number_count: int, tasks: int, ddl: str) -> SparkRows:
        """Run a job on the numbers 0 to ``number_count`` - 1, divided among ``tasks`` Spark tasks.

        The numbers are usually indices, for example of row ranges in input files. Return the lazy
        result rows; ``ddl`` has the names and types of their columns.
        """
        return SparkRows(self.spark.range(0, number_count, 1, max(1, tasks)).mapInArrow(job, ddl))

    def read_spark_table(self, table: SparkTable) -> SparkRows:
        """Return the records of a table that only Spark can read, such as a Delta table.

        It can also be a topic of a running cluster. Spark reads the records when they are used.
        """
        return SparkRows(table.read_data_frame(self.spark))

    def measure_stage(self, stages: StageTimes, name: str) -> AbstractContextManager[None]:
        """Measure how long a ``with`` block takes, and report the number of finished Spark tasks.

        Args:
            stages: receives the duration and the progress.
            name: name of the stage of the run.
        """
        return stages.measure_stage(name, self.spark)


#: Rows of a batch after sorting.
_BATCH_ROWS = 20_000


def _ignore_progress(done: int, total: int) -> None:
    """Do nothing with a progress report; used if no progress function is given."""


class LocalRows:
    """Lazy table of a replay without Spark: this process computes the rows when they are read.

    Args:
        batches: function that returns the rows as Arrow batches; called once for each job that
            reads them.
        on_progress: function that is called with (done, total) while sorted rows are read.
        workers: processes that share the jobs on sorted rows; None to use only the calling process.
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[pa.RecordBatch]],
        on_progress: Callable[[int, int], None] | None = None,
        workers: WorkerProcesses | None = None,
    ) -> None:
        self._batches, self._on_progress = batches, on_progress or _ignore_progress
        self._workers = workers
        self._kept: list[pa.RecordBatch] | None = None

    def _rows(self, batches: Callable[[], Iterable[pa.RecordBatch]]) -> LocalRows:
        return LocalRows(batches, self._on_progress, self._workers)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches() if self._kept is None else self._kept)

    def filter_kinds(self, *kinds: int) -> LocalRows:
        """Return only the rows whose column ``kind`` has one of the given values.

        The kind says what a row contains, for example a damaged record.
        """

        def some() -> Iterator[pa.RecordBatch]:
            import pyarrow as pa
            from pyarrow import compute as pc

            wanted = pa.array([int(kind) for kind in kinds], pa.int32())
            for batch in self:
                found = batch.filter(pc.is_in(batch.column("kind"), wanted))
                if found.num_rows:
                    yield found

        return self._rows(some)

    def sorted_by(self, key: str, sort_columns: Sequence[str]) -> LocalRows:
        """Sort the rows by ``sort_columns``, and divide them among worker processes by column
        ``key``.

        Rows with an equal key are in the same process. Without worker processes, all rows stay
        together.
        """
        if self._workers is not None:
            return _PartitionedRows(self, key, sort_columns, self._workers)
        return self._rows(lambda: self._sorted(sort_columns))

    def _sorted(self, order: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        batches = list(self)
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        done = 0
        for batch in _sorted_batches(table, order):
            self._on_progress(done, table.num_rows)
            yield batch
            done += batch.num_rows

    def union_rows(self, other_rows: LazyRows) -> LocalRows:
        """Return these rows, followed by those of another table with the same columns.

        The other table must also be computed without Spark.
        """
        if not isinstance(other_rows, LocalRows):
            raise TypeError("both tables must be of this process")
        return self._rows(lambda: chain(self, other_rows))

    def apply_job(self, job: Job, ddl: str) -> LocalRows:  # noqa: ARG002 - Spark needs the columns
        """Apply a job to the rows in this process, and return the result as another lazy table.

        Args:
            job: function from Arrow batches to Arrow batches.
            ddl: names and types of the result's columns; only Spark needs them.
        """
        return self._rows(lambda: job(iter(self)))

    def collect_columns(self, *columns: str) -> list[tuple[Any, ...]]:
        """Compute the rows in this process, and return the named columns as a list of tuples.

        Each tuple is one row, in the order of the names.
        """
        return [
            row
            for batch in self
            for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        ]

    def persist(self) -> LocalRows:
        """Compute the rows, and keep them in memory.

        Several jobs can then read them without computing them again. Return the same table.
        """
        self._kept = list(self._batches())
        return self

    def unpersist(self) -> None:
        """Free the memory of rows that `persist` has cached.

        If they are read later, they are computed again.
        """
        self._kept = None


def _sorted_batches(table: pa.Table, order: Sequence[str]) -> list[pa.RecordBatch]:
    from pyarrow import compute as pc

    place = pc.sort_indices(table, [(name, "ascending") for name in order])
    batches: list[pa.RecordBatch] = table.take(place).to_batches(max_chunksize=_BATCH_ROWS)
    return batches


class _PartitionedRows(LocalRows):
    """Sorted rows that are divided into one part for each process by the value of a key column.

    All rows with an equal key are in one part, for example all rows of a consumer group.

    Args:
        rows: the rows.
        key: column whose equal values stay together.
        order: columns to sort each part by.
        workers: processes that share the jobs on the rows.
    """

    def __init__(
        self, rows: LocalRows, key: str, order: Sequence[str], workers: WorkerProcesses
    ) -> None:
        super().__init__(lambda: chain.from_iterable(self._divide_rows()), workers=workers)
        self._unsorted, self._key, self._order = rows, key, order

    def apply_job(self, job: Job, ddl: str) -> LocalRows:  # noqa: ARG002 - Spark needs the columns
        """Apply a job to the rows of each process, and return the result as a lazy table.

        Args:
            job: function from Arrow batches to Arrow batches.
            ddl: names and types of the result's columns; only Spark needs them.
        """
        return self._rows(lambda: self._results(job))

    def _results(self, job: Job) -> Iterator[pa.RecordBatch]:
        parts = self._divide_rows()
        if self._workers is None or len(parts) < 2:
            return job(chain.from_iterable(parts))
        return chain.from_iterable(self._workers.map_items(partial(_run_part, job), parts))

    def _divide_rows(self) -> list[list[pa.RecordBatch]]:
        """Divide the rows among the processes, and sort each part.

        Return a list of Arrow batches for each process. The rows of a key go to the process that
        has the fewest rows so far, beginning with the largest key.
        """
        import pyarrow as pa
        from pyarrow import compute as pc

        batches = list(self._unsorted)
        if not batches or self._workers is None:
            return []
        table = pa.Table.from_batches(batches)
        found = table.group_by(self._key).aggregate([([], "count_all")])
        counts = zip(found["count_all"].to_pylist(), found[self._key].to_pylist(), strict=True)
        keys: list[list[Any]] = [[] for _ in range(self._workers.process_count + 1)]
        rows = [0] * len(keys)
        for count, key in sorted(counts, key=lambda one: (-one[0], str(one[1]))):
            smallest = rows.index(min(rows))
            keys[smallest].append(key)
            rows[smallest] += count
        kind = table.schema.field(self._key).type
        parts = (table.filter(pc.is_in(table[self._key], pa.array(of, kind))) for of in keys if of)
        return [_sorted_batches(part, self._order) for part in parts]


def _run_part(job: Job, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(job(iter(batches)))


@dataclass
class _LocalValue:
    """Read-only value that all tasks of a replay without Spark share.

    It has the interface of a Spark broadcast.
    """

    value: Any

    def destroy(self) -> None:
        self.value = None


#: Modules of the jobs that have independent parts.
_WORKER_MODULES = ("partage.jobs.replay.decode", "partage.jobs.replay.simulations")


def _run_task(job: Job, numbers: range) -> list[pa.RecordBatch]:
    return list(job(map(_number_batch, numbers)))


def _number_batch(number: int) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["id"])


class LocalEngine:
    """Engine that runs the jobs of a replay in this process and worker processes, without Spark.

    Jobs whose parts are independent are divided among the processes. Use it in a ``with`` block,
    which ends the worker processes.

    Args:
        processes: number of processes that run at the same time, this one included.
    """

    name = "local"

    def __init__(self, processes: int = 1) -> None:
        self.cores = processes
        self._workers = WorkerProcesses(processes - 1, _WORKER_MODULES)
        self._report: Callable[[int, int], None] = _ignore_progress
        self._opened = ExitStack()

    def __enter__(self) -> LocalEngine:  # noqa: PYI034 - typing.Self is of Python 3.11
        self._opened.enter_context(rare_collections())
        self._opened.callback(self._workers.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()

    def share_value(self, shared_value: Any) -> SharedValue:
        """Wrap a read-only value, so that the jobs can read it as they read a Spark broadcast."""
        return _LocalValue(shared_value)

    def run_job(self, job: Job, number_count: int, tasks: int, ddl: str) -> LocalRows:  # noqa: ARG002 - Spark's
        """Run a job on the numbers 0 to ``number_count`` - 1 without Spark, and return lazy rows.

        The numbers are usually indices, for example of row ranges in input files. With several
        processes, they are divided into ``tasks`` tasks. ``ddl`` has the names and types of the
        result's columns.
        """
        if self.cores == 1:
            return LocalRows(lambda: job(self._numbers(number_count)), self._on_progress)
        batches = partial(self._in_processes, job, number_count, tasks)
        return LocalRows(batches, self._on_progress, self._workers)

    def _in_processes(self, job: Job, count: int, tasks: int) -> Iterator[pa.RecordBatch]:
        tasks = max(1, min(tasks, count))
        starts = [count * task // tasks for task in range(tasks + 1)]
        ranges = [range(*ends) for ends in pairwise(starts)]
        found = self._workers.map_items(
            partial(_run_task, job), ranges, lambda done: self._on_progress(done, tasks)
        )
        return chain.from_iterable(found)

    def _numbers(self, count: int) -> Iterator[pa.RecordBatch]:
        for number in range(count):
            self._on_progress(number, count)
            yield _number_batch(number)

    def _on_progress(self, done: int, total: int) -> None:
        if done:  # a stage begins with (0, 0)
            self._report(done, total)

    def read_spark_table(self, table: SparkTable) -> LocalRows:
        """Raise an error, because this engine does not use Spark.

        Raises:
            InvalidConfigError: always.
        """
        raise InvalidConfigError("--engine", _spark_only(table), self.name)

    @contextmanager
    def measure_stage(self, stages: StageTimes, name: str) -> Iterator[None]:
        """Measure how long a ``with`` block takes, and report the progress of its jobs.

        Args:
            stages: receives the duration and the progress.
            name: name of the stage of the run.
        """
        with stages.measure_stage(name):
            self._report = lambda done, total: stages.report_progress(name, done, total)
            yield


@dataclass(frozen=True)
class EngineChoice:
    """The engine that was chosen for a run (Spark or this process), with the reason.

    Attributes:
        name: ``spark`` or ``local``.
        reason: why it was chosen, as a clause for the summary.
        note: advice for the user; empty if there is none.
    """

    name: str
    reason: str
    note: str = ""


def choose_engine(
    requested: str,
    capture: Capture,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> EngineChoice:
    """Choose whether a replay runs in Spark or in this process without Spark.

    The value ``auto`` chooses this process for Parquet files with at most `LOCAL_RECORDS` records.
    If the user gives a Spark session, master or setting, it chooses Spark.

    Args:
        requested: the user's choice: ``auto``, ``spark`` or ``local``.
        capture: the input.
        spark: the user's session; None for none.
        master: the user's Spark master; None for none.
        conf: the user's Spark settings.

    Raises:
        InvalidConfigError: no engine has this name, or the local engine cannot do what is
            requested.
    """
    if requested not in ENGINES:
        raise InvalidConfigError("--engine", f"must be one of {', '.join(ENGINES)}", requested)
    needed = [
        (spark is not None, "a Spark session is given"),
        (master is not None, "--master is given"),
        (bool(conf), "--conf is given"),
        (capture.table is not None, _spark_only(capture.table)),
    ]
    reason = next((why for is_so, why in needed if is_so), None)
    if requested == "spark":
        return EngineChoice("spark", "it was asked for")
    if requested == "local":
        if reason is not None:
            raise InvalidConfigError("--engine", f"must be spark or auto: {reason}", requested)
        note = ""
        if capture.records is not None and capture.records > LOCAL_RECORDS:
            note = (
                f"One process replayed {capture.records:,} records. Above {LOCAL_RECORDS:,}, "
                "Spark is advisable: --engine spark."
            )
        return EngineChoice("local", "it was asked for", note)
    if reason is not None:
        return EngineChoice("spark", reason)
    if capture.decoded is not None:
        return EngineChoice("local", "the records are decoded")
    count = f"{capture.records:,} records"
    if capture.records is not None and capture.records > LOCAL_RECORDS:
        reason = f"{count} are more than {LOCAL_RECORDS:,}, the limit of one process"
        return EngineChoice("spark", reason, f"Spark was used: {reason}.")
    return EngineChoice("local", f"{count} are at most {LOCAL_RECORDS:,}")


def _spark_only(table: SparkTable | None) -> str:
    return "" if table is None else f"only Spark reads {table.name}"


def local_processes(capture: Capture, policies: int, requested: int | None = None) -> int:
    """Return how many processes a replay without Spark uses for its input.

    A small input is not worth the start of further processes.

    Args:
        capture: the input.
        policies: number of simulated policies.
        requested: the number that the user wants; None for one per core, or fewer for a small
            input.

    Raises:
        InvalidConfigError: the user wants fewer than one.
    """
    if requested is not None:
        if requested < 1:
            raise InvalidConfigError("--processes", "must be at least 1", requested)
        return requested
    worth = (capture.records or 0) * (policies + 1) // _WORK_OF_A_PROCESS
    return max(1, min(available_cores(), _MOST_PROCESSES, worth))
