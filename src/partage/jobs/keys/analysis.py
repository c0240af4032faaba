"""`partage keys`: how the keys of an input spread over partitions. This is the entry point.

1. `open_source` checks the input and its columns (`sources`, `columns`).
2. Keys are counted where the data is (`workers`) and travel as blocks by bucket (`blocks`).
3. Each distinct key is placed once: loads, moves, the hottest keys (`loads`).
4. `analyse_keys` sums the rows of all tasks to a `KeySpread`, and searches the fewest partitions
   that keep the hottest one within a limit.

Steps 2 and 3 run in Spark's workers, or in threads of this process if the input is files that one
machine holds (`workers`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.errors import InvalidConfigError
from partage.jobs.keys.blocks import RowKind
from partage.jobs.keys.columns import SERIALIZERS, InputColumns
from partage.jobs.keys.loads import KeyJob
from partage.jobs.keys.sources import KeySource, open_source
from partage.jobs.keys.workers import HOUR_MS, LARGEST_LOCAL, LocalKeyJob, SparkKeyJob
from partage.jobs.spark.failures import jvm_errors, worker_errors
from partage.jobs.spark.progress import Progress, StageTimes
from partage.keys.skew import Load, Moves, summarize_load

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["HotKey", "KeySpread", "analyse_keys"]

_MOST_PARTITIONS = 2**31 - 1
#: Partition counts that are tried in one pass over the distinct keys, and the largest one tried.
_TRIED_AT_ONCE = 64
_LARGEST_TRIED = 10_000


@dataclass(frozen=True, slots=True)
class HotKey:
    """One of the record keys with the most records in a topic, with its share of all records.

    Attributes:
        key: the serialized key.
        records: number of records with this key.
        bytes: bytes of these records.
        share: the key's share of all keyed records, 0 to 1.
    """

    key: bytes
    records: int
    bytes: int
    share: float


@dataclass
class KeySpread:
    """Result of `partage keys`: the number of records in each partition, for each partition count.

    A load is a number of records.

    Attributes:
        records: number of all records.
        nulls: number of records that the producer places independently of their keys.
        distinct: number of distinct keys; None in an approximate run.
        loads: dict from partition count to load of its partitions.
        bytes: dict from partition count to (largest, mean) bytes of a partition.
        timeless: number of records without a time from 1970 on; no hour counts them.
        hours: (partition count, hour in ms, hottest partition, its records, all records).
        moves: what each change of the partition count moves; numbers of keys are -1 in an
            approximate run.
        hottest: the keys with the most records.
        hot_at: dict from hot key to partition count to the key's partition.
        low_by: the largest error of a key's record count in an approximate run; counts are too low.
        floor: the hottest key's share of keyed records, which no partition count goes below.
        max_share, max_rate: the requested limits: share of all keyed records, and records per
            second in ``rate_hour`` (ms), the hour in which one partition got the most records. The
            input covers ``rate_seconds`` of that hour.
        span: first and last timestamp, ms; (0, -1) without times.
        smallest: the smallest partition count within the limits, None if there is none.
        tried: the largest partition count tried; 0 if one key alone exceeds a limit.
        by_partition: dict from partition count to (partition, records, bytes), int64 each.
    """

    records: int = 0
    nulls: int = 0
    distinct: int | None = None
    loads: dict[int, Load] = field(default_factory=dict)
    bytes: dict[int, tuple[int, float]] = field(default_factory=dict)
    timeless: int = 0
    hours: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    moves: list[Moves] = field(default_factory=list)
    hottest: list[HotKey] = field(default_factory=list)
    hot_at: dict[Any, dict[int, int]] = field(default_factory=dict)
    low_by: int = 0
    floor: float = 0.0
    max_share: float | None = None
    max_rate: float | None = None
    rate_hour: int | None = None
    rate_seconds: float = 0.0
    span: tuple[int, int] = (0, -1)
    smallest: int | None = None
    tried: int | None = None
    by_partition: dict[int, tuple[Any, Any, Any]] = field(default_factory=dict)

    @property
    def keyed_records(self) -> int:
        """Number of records whose partition is decided by their key.

        The other records have no key, or a key that the partitioner ignores.
        """
        return self.records - self.nulls


def analyse_keys(
    source: str,
    columns: InputColumns,
    partitions: Sequence[int],
    *,
    partitioner: str = "murmur2",
    serializer: str | None = None,
    top: int = 10,
    max_share: float | None = None,
    max_rate: float | None = None,
    approximate: bool = False,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> KeySpread:
    """Compute how many records each partition would have at each of the given partition counts.

    The keys of existing records are counted, and each key is placed as the chosen client
    partitioner would place it. Records that move to another partition when the partition count
    changes are counted too.

    Args:
        source: a Parquet, CSV or JSON file or folder, a Delta table, ``kafka://host:port/topic``.
        columns: the columns to read.
        partitions: partition counts, 1 to 2**31 - 1.
        partitioner: any of `partage.keys` that decides by the key alone.
        serializer: Kafka serializer of a key column with numbers; text and bytes need none.
        top: number of hottest keys to report.
        max_share: the largest allowed share of all keyed records in one partition. The smallest
            partition count within this limit is searched.
        max_rate: the largest allowed records per second of one partition, in the hour in which one
            partition got the most records. It needs a column of times, and reads the input a second
            time.
        approximate: drop rare keys in the workers to bound memory; ``low_by`` bounds the error.
        spark: a running session, which then does the work. Without one, files of up to 2 GiB
            (these columns, uncompressed) are counted in threads of this process, and Spark is
            started for larger inputs, Delta tables and topics.
        master: Spark's master; Spark does the work, whatever the input.
        conf: Spark settings of a session that is started here.
        kafka: properties of the Kafka client.
        progress: called with (stage, done, total).

    Raises:
        InvalidConfigError: input, column, count, limit or partitioner cannot be used.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    job = KeyJob(columns, partitioner, _valid_counts(partitions), serializer, approximate)
    _expect_limits(max_share, max_rate, columns, source)
    if serializer is not None and serializer not in SERIALIZERS:
        known = ", ".join(SERIALIZERS)
        raise InvalidConfigError("--serializer", f"must be one of {known}", serializer)
    stages = StageTimes(progress)
    with stages.measure_stage("check"):
        _expect_key_partitioner(partitioner)
        by_spark = spark is not None or master is not None or bool(conf)
        opened = open_source(source, columns, serializer, kafka, by_spark=by_spark)
    job = replace(job, columns=opened.columns)
    found = KeySpread(max_share=max_share, max_rate=max_rate)
    local = opened.parts and opened.estimated_bytes <= LARGEST_LOCAL and not _has_session()
    if not by_spark and local:
        run = LocalKeyJob(opened, partial(stages.report_progress, "count"))
        return _count_and_search(run, opened, job, found, hottest_count=top, stages=stages)
    with _spark_job(opened, stages, spark=spark, master=master, conf=conf) as spark_run:
        return _count_and_search(spark_run, opened, job, found, hottest_count=top, stages=stages)


def _has_session() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


@contextmanager
def _spark_job(
    source: KeySource, stages: StageTimes, *, spark: SparkSession | None, master: str | None,
    conf: Mapping[str, str] | None,
) -> Iterator[SparkKeyJob]:  # fmt: skip
    from partage.jobs.spark.session import spark_session

    with ExitStack() as opened:
        with stages.measure_stage("start Spark"):
            opened.enter_context(jvm_errors())
            # Where workers read the files, Java only carries blocks: nothing to compile well.
            brief = source.format == "parquet"
            running = opened.enter_context(
                spark_session(spark, is_short=brief, master=master, conf=conf)
            )
            opened.enter_context(worker_errors())
        yield SparkKeyJob(running, source, opened.enter_context(ExitStack()))


def _valid_counts(counts: Sequence[int]) -> tuple[int, ...]:
    for n in counts:
        if not 1 <= n <= _MOST_PARTITIONS:
            raise InvalidConfigError("--partitions", f"must be 1 to {_MOST_PARTITIONS:,}", n)
    if not counts:
        raise InvalidConfigError("--partitions", "needs at least one count", "")
    return tuple(sorted(set(counts)))


def _expect_limits(
    max_share: float | None, max_rate: float | None, columns: InputColumns, source: str
) -> None:
    """Raise an error if the user's limits on the records of one partition are invalid.

    Args:
        max_share: maximum fraction of all keyed records (0 to 1); None for no limit.
        max_rate: maximum records per second, for which record times are needed; None for no limit.
        columns: the input columns.
        source: path or address of the input; Kafka records have a time of their own.

    Raises:
        InvalidConfigError: a limit is invalid, or the column with the times is missing.
    """
    if max_share is not None and not 0 < max_share <= 1:
        raise InvalidConfigError("--max-share", "must be above 0 and at most 1", max_share)
    if max_rate is None:
        return
    if not max_rate > 0:
        raise InvalidConfigError("--max-rate", "must be above 0", max_rate)
    if columns.time is None and not source.startswith("kafka://"):
        raise InvalidConfigError("--max-rate", "needs a column of times: --time", max_rate)


def _expect_key_partitioner(partitioner: str) -> None:
    """Raise an error if a client partitioner does not choose the partition by the record's key
    alone.

    Partitioners with a state, such as round-robin, cannot be analysed from keys.

    Raises:
        InvalidConfigError: the partitioner does not decide by the key.
    """
    from partage.keys import partition_for
    from partage.keys.registry import find_partitioner

    if find_partitioner(partitioner).explicit == "only":
        reason = "has no say: each record names its partition, whatever its key"
        raise InvalidConfigError("--partitioner", reason, partitioner)
    partition_for([b"x"], partitions=2, partitioner=partitioner)


def _count_and_search(
    run: LocalKeyJob | SparkKeyJob,
    source: KeySource,
    job: KeyJob,
    spread: KeySpread,
    *,
    hottest_count: int,
    stages: StageTimes,
) -> KeySpread:
    """Count the records of each partition, and find the smallest partition count within the limits.

    The limits are a maximum share and a maximum rate of one partition. The search is left out if
    neither is given.

    Args:
        run: executes the counting job in threads or in Spark.
        source: the input.
        job: settings for the workers, such as the partition counts.
        spread: has the limits; receives the results.
        hottest_count: number of hottest keys (most records) to store.
        stages: reports progress.
    """
    job = replace(job, buckets=run.buckets, rows=(source.rows or 0) // run.tasks)
    limited = spread.max_share is not None or spread.max_rate is not None
    keep = limited and not job.approximate
    with stages.measure_stage("count", run.spark):
        _add_up_results(spread, run.count_keys(job, hottest_count, keep=keep), job, hottest_count)
    with stages.measure_stage("keys", run.spark):
        if keep:
            limits = []
            if spread.max_share is not None:
                limits.append(_limit_records(run, spread, spread.max_share))
            if spread.max_rate is not None and not spread.hours and spread.keyed_records:
                reason = "cannot be had: no record has a time from 1970 on"
                raise InvalidConfigError("--max-rate", reason, spread.max_rate)
            if spread.max_rate is not None and spread.hours:
                limits.append(_limit_busiest_hour(run, job, spread))
            spread.smallest, spread.tried = _find_fewest_partitions(limits, job)
    return spread


@dataclass(frozen=True)
class _RecordLimit:
    """Upper limit on the records of one partition, which the search for a partition count must
    meet.

    It applies to all records with a key, or only to the records of one hour.

    Attributes:
        loads: function of (job, partition counts) that returns the records of each partition at
            these counts, as rows of `LOADS_DDL`.
        records: maximum number of records of one partition.
        all: number of records with a key.
        hottest: number of records of the hottest key.
    """

    loads: Callable[[KeyJob, range], pa.Table]
    records: float
    all: int
    hottest: int


def _limit_records(
    run: LocalKeyJob | SparkKeyJob, spread: KeySpread, max_share: float
) -> _RecordLimit:
    """Convert a maximum share of the records in one partition to a maximum number of records.

    For example, a share of 0.1 of 5,000 keyed records is 500 records.

    Args:
        run: the runner that has counted the keys.
        spread: result of this count.
        max_share: maximum fraction (0 to 1) of the keyed records.
    """
    hottest = spread.hottest[0].records if spread.hottest else 0
    return _RecordLimit(
        run.load_function(), max_share * spread.keyed_records, spread.keyed_records, hottest
    )


def _limit_busiest_hour(
    run: LocalKeyJob | SparkKeyJob, job: KeyJob, spread: KeySpread
) -> _RecordLimit:
    """Convert a maximum rate of one partition to a number of records in the busiest hour.

    The busiest hour is the one in which a single partition got the most records. The input is read
    again to count the keys of that hour.

    Args:
        run: the runner that reads and counts.
        job: the settings of the run.
        spread: result of the first count, with the maximum rate and the records by hour.
    """
    _, hour, *_ = max(spread.hours, key=lambda h: (h[3], -h[1]))
    first, last = spread.span
    seconds = (min(hour + HOUR_MS, last + 1) - max(hour, first)) / 1000
    spread.rate_hour, spread.rate_seconds = hour, max(1.0, seconds)
    job = replace(job, hour=hour)
    within = KeySpread()
    _add_up_results(within, run.count_keys(job, 1, keep=True), job, 1)
    allowed = (spread.max_rate or 0.0) * spread.rate_seconds
    return _limit_records(run, within, allowed / max(1, within.keyed_records))


def _find_fewest_partitions(limits: Sequence[_RecordLimit], job: KeyJob) -> tuple[int | None, int]:
    """Find the smallest partition count at which no partition exceeds a limit.

    All partition counts up to 10,000 are tried in ascending order, because the largest load does
    not always fall when a partition is added.

    Returns:
        this count (None if there is none), and the largest count that was tried. The second is 0 if
            one key alone exceeds a limit, because no count helps then.
    """
    limits = [limit for limit in limits if limit.all]
    if not limits or any(limit.hottest > limit.records for limit in limits):
        return None, 0
    low = max(1, *(int(np.ceil(limit.all / limit.records - 1e-9)) for limit in limits))
    tried = 0
    while low <= _LARGEST_TRIED:
        high = min(low + _TRIED_AT_ONCE, _LARGEST_TRIED + 1)
        within = set(range(low, high))
        for limit in limits:
            sums = limit.loads(job, range(low, high)).group_by(["n", "partition"])
            most = sums.aggregate([("records", "sum")]).group_by("n")
            most = most.aggregate([("records_sum", "max")])
            pairs = zip(most["n"].to_pylist(), most["records_sum_max"].to_pylist(), strict=True)
            within -= {n for n, records in pairs if records > limit.records}
        tried = high - 1
        if within:
            return min(within), tried
        low = high
    return None, tried


def _add_up_results(
    spread: KeySpread, worker_rows: pa.Table, job: KeyJob, hottest_count: int
) -> None:
    """Add up the result rows of all workers, and store the sums in ``spread``.

    Args:
        spread: receives the results.
        worker_rows: result rows of all workers, such as records by partition.
        job: settings of the run, with the requested partition counts.
        hottest_count: number of hottest keys (most records) to store.
    """
    hot = worker_rows.filter(np.asarray(worker_rows["kind"]) == int(RowKind.HOT))
    grouped = worker_rows.drop_columns("keys").group_by(["kind", "n", "hour", "partition"])
    sums = grouped.aggregate([("records", "sum"), ("bytes", "sum")])
    columns = {name: sums[name].fill_null(-1).to_numpy() for name in sums.column_names}

    def rows_of(kind: RowKind, n: int | None = None) -> dict[str, Any]:
        chosen = columns["kind"] == int(kind)
        chosen = chosen if n is None else chosen & (columns["n"] == n)
        return {name: column[chosen] for name, column in columns.items()}

    spread.nulls = int(rows_of(RowKind.NULLS)["records_sum"].sum())
    spread.timeless = int(rows_of(RowKind.TIMELESS)["records_sum"].sum())
    spread.low_by = int(rows_of(RowKind.DROPPED)["records_sum"].sum())
    for count in job.counts:
        _store_loads(spread, count, rows_of(RowKind.PARTITION, count))
        _store_busiest_partitions(spread, count, rows_of(RowKind.HOUR, count))
    spans = rows_of(RowKind.SPAN)
    if len(spans["hour"]):
        spread.span = int(spans["hour"].min()), int(spans["partition"].max())
    spread.records = spread.nulls + next(iter(spread.loads.values())).records
    if not job.approximate:
        spread.distinct = int(rows_of(RowKind.DISTINCT)["records_sum"].sum())
    moved = rows_of(RowKind.MOVED)
    changes = zip(moved["n"].tolist(), moved["partition"].tolist(), strict=True)
    row_of = {change: i for i, change in enumerate(changes)}
    for change in job.count_changes:
        records, keys = (int(moved[c][row_of[change]]) if change in row_of else 0
                         for c in ("records_sum", "bytes_sum"))  # fmt: skip
        known = (-1, -1) if spread.distinct is None else (spread.distinct, keys)
        spread.moves.append(Moves(*change, *known, spread.keyed_records, records))
    _fill_hottest(spread, hot.to_pylist(), job, hottest_count)


def _fill_hottest(found: KeySpread, rows: list[dict[str, Any]], job: KeyJob, top: int) -> None:
    from partage.keys import partition_for

    keyed = max(1, found.keyed_records)
    hot = sorted((-r["records"], r["keys"], r["bytes"]) for r in rows)
    found.hottest = [HotKey(key, -less, size, -less / keyed) for less, key, size in hot[:top]]
    found.floor = found.hottest[0].share if found.hottest else 0.0
    hottest = [h.key for h in found.hottest]
    for n in job.counts if hottest else ():
        numbers = partition_for(hottest, partitions=n, partitioner=job.partitioner)
        for key, number in zip(hottest, numbers.tolist(), strict=True):
            found.hot_at.setdefault(key, {})[n] = number


def _store_loads(spread: KeySpread, partition_count: int, rows: dict[str, Any]) -> None:
    """Store the records and bytes of each partition at one partition count, in ``spread``.

    ``rows`` has one element for each partition with records.
    """
    order = np.argsort(rows["partition"])
    numbers, records, size = (rows[c][order] for c in ("partition", "records_sum", "bytes_sum"))
    spread.loads[partition_count] = summarize_load(numbers, records, partition_count)
    spread.bytes[partition_count] = (int(size.max(initial=0)), float(size.sum()) / partition_count)
    spread.by_partition[partition_count] = (numbers, records, size)


def _store_busiest_partitions(
    spread: KeySpread, partition_count: int, rows: dict[str, Any]
) -> None:
    """Store the busiest partition of each hour, at one partition count, in ``spread``.

    ``rows`` has one element for each hour and partition. If two partitions have equally many
    records, the lower partition is stored.
    """
    hour, partition, records = (rows[c] for c in ("hour", "partition", "records_sum"))
    order = np.lexsort((partition, hour))
    firsts = np.flatnonzero(np.diff(hour[order], prepend=-1))
    for chosen in np.split(order, firsts[1:]) if len(order) else []:
        worst = chosen[np.argmax(records[chosen])]
        cell = (int(hour[chosen[0]]), int(partition[worst]), int(records[worst]))
        spread.hours.append((partition_count, *cell, int(records[chosen].sum())))
