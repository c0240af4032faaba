"""`partage keys`: how the keys of an input spread over partitions. The table of contents.

Two stages. In the first keys are read and counted where the data is (`key_counts`). Distinct keys
then meet by buckets, packed by the megabyte (`key_rows`); in the second each is placed once: loads,
what changes move, the hottest (`key_tally`). Both run in Spark's workers (`key_spark`), or, where
the input is files that one machine holds, in threads of this process (`key_here`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.errors import InvalidConfigError
from partage.jobs.keys.bytes import SERIALIZERS
from partage.jobs.keys.counts import Spec
from partage.jobs.keys.here import MOST_HERE, Here
from partage.jobs.keys.limits import HOUR_MS, KeyBound, Limits, fewest
from partage.jobs.keys.rows import KeyRowKind
from partage.jobs.keys.sources import KeySource, open_source
from partage.jobs.spark.progress import Progress, Stages
from partage.keys.skew import Load, Moves, load_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from partage.jobs.keys.columns import Columns
    from partage.jobs.keys.spark import BySpark

__all__ = ["HotKey", "KeysFound", "analyse_keys"]

MOST_PARTITIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class HotKey:
    """One of the keys with most records."""

    key: bytes
    records: int
    bytes: int
    share: float


@dataclass
class KeysFound:
    """What `partage keys` tells.

    Attributes:
        records: all, keyless ones too.
        nulls: keyless ones: the producer puts them anywhere.
        distinct: keys; None in an approximate run.
        loads: by partition count.
        bytes: partition count -> (most, mean) bytes a partition.
        timeless: records without a time, or with one before 1970: they are in no hour.
        hours: (partition count, hour in ms, hottest partition, its records, all records).
        moves: changes of the count; keys of an approximate run are -1.
        hottest: keys with most records.
        hot_at: each of them -> partition count -> its partition.
        low_by: most records that any count of an approximate run may lack.
        floor: share of keyed records that the hottest partition has at any count: its key's.
        max_share, max_rate: the limits that were asked for: of all records, and records a second
            in ``rate_hour`` (ms), the hour in which one partition got most, of which the input
            has ``rate_seconds``.
        span: first and last time of a record, ms; (0, -1) without times.
        smallest: the smallest count within the limits, None if there is none (see ``tried``).
        tried: largest partition count tried for it; 0 where one key alone is more than that.
        by_partition: partition count -> (partition, records, bytes), int64 each, where not empty.
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


def analyse_keys(
    where: str,
    columns: Columns,
    counts: Sequence[int],
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
) -> KeysFound:
    """How keys spread over each of the partition counts, and what a change would move.

    Args:
        where: a Parquet, CSV or JSON file or folder, a Delta table, ``kafka://host:port/topic``.
        columns: the columns that are read.
        counts: partition counts, 1 to 2**31 - 1.
        partitioner: any of `partage.keys` that decides by the key alone.
        serializer: how numbers become bytes; text and bytes need none.
        top: how many of the hottest keys are told.
        max_share: the share of all keyed records which the hottest partition may have; the
            smallest count that keeps to it is looked for.
        max_rate: the same in records per second, in the hour in which one partition got most;
            needs a column of times, and reads the input once more.
        approximate: drop rare keys in the workers; ``low_by`` says by how much counts may be low.
        spark: a session of yours, which then does the work. Without one, files of up to 2 GiB
            (these columns, unpacked) are counted by threads of this process, and Spark is
            started for all else.
        master: Spark's master: Spark does the work, whatever the input.
        conf: settings of a session that is started.
        kafka: properties of the client of a cluster, by Kafka's names.
        progress: called with (stage, done, total).

    Raises:
        InvalidConfigError: input, column, count or partitioner cannot be used.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    spec = Spec(columns, partitioner, _counts(counts), serializer, approximate)
    limits = Limits(max_share, max_rate)
    limits.expect(columns, where)
    if serializer is not None and serializer not in SERIALIZERS:
        known = ", ".join(SERIALIZERS)
        raise InvalidConfigError("--serializer", f"must be one of {known}", serializer)
    stages = Stages(progress)
    with stages.stage("check"):
        _expect_keyed(partitioner)
        by_spark = spark is not None or master is not None or bool(conf)
        source = open_source(where, columns, serializer, kafka, by_spark=by_spark)
    spec = replace(spec, columns=source.columns)
    if not by_spark and _here(source):
        run = Here(source, partial(stages.reached, "count"))
        return _analysed(run, source, spec, top=top, limits=limits, stages=stages)
    with _by_spark(source, stages, spark=spark, master=master, conf=conf) as job:
        return _analysed(job, source, spec, top=top, limits=limits, stages=stages)


def _here(source: KeySource) -> bool:
    """Whether this process does it: files, not too large, and no session that is there for it."""
    return bool(source.pieces) and source.size <= MOST_HERE and not _session_there()


def _session_there() -> bool:
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


@contextmanager
def _by_spark(
    source: KeySource, stages: Stages, *, spark: SparkSession | None, master: str | None,
    conf: Mapping[str, str] | None,
) -> Iterator[BySpark]:  # fmt: skip
    from partage.jobs.keys.spark import BySpark
    from partage.jobs.spark.failures import jvm_watched
    from partage.jobs.spark.session import session
    from partage.jobs.spark.worker_errors import told_by_workers

    with ExitStack() as opened:
        with stages.stage("start Spark"):
            opened.enter_context(jvm_watched())
            # Where workers read, Java carries blocks of bytes: little to compile well.
            brief = source.kind == "parquet"
            running = opened.enter_context(session(spark, brief=brief, master=master, conf=conf))
            opened.enter_context(told_by_workers())
        held = opened.enter_context(ExitStack())
        yield BySpark(running, source, held)


def _counts(counts: Sequence[int]) -> tuple[int, ...]:
    for n in counts:
        if not 1 <= n <= MOST_PARTITIONS:
            raise InvalidConfigError("--partitions", f"must be 1 to {MOST_PARTITIONS:,}", n)
    if not counts:
        raise InvalidConfigError("--partitions", "needs at least one count", "")
    return tuple(sorted(set(counts)))


def _expect_keyed(partitioner: str) -> None:
    """A partitioner that needs no state: one that the key alone decides."""
    from partage.keys import partition_for
    from partage.keys.registry import find

    if find(partitioner).explicit == "only":
        told = "has no say: each record names its partition, whatever its key"
        raise InvalidConfigError("--partitioner", told, partitioner)
    partition_for([b"x"], partitions=2, partitioner=partitioner)


def _analysed(
    run: Here | BySpark,
    source: KeySource,
    spec: Spec,
    *,
    top: int,
    limits: Limits,
    stages: Stages,
) -> KeysFound:
    found = KeysFound(max_share=limits.share, max_rate=limits.rate)
    spec = replace(spec, buckets=run.buckets, rows=(source.rows or 0) // run.tasks)
    keep = limits.any and not spec.approximate
    with stages.stage("count", run.spark):
        _fill(found, run.told(spec, top, keep=keep), spec, top)
    with stages.stage("keys", run.spark):
        if keep:
            bounds = []
            if limits.share is not None:
                bounds.append(_bound(run, found, limits.share))
            if limits.rate is not None and not found.hours and found.records > found.nulls:
                told = "cannot be had: no record has a time from 1970 on"
                raise InvalidConfigError("--max-rate", told, limits.rate)
            if limits.rate is not None and found.hours:
                bounds.append(_worst_hour(run, spec, found))
            found.smallest, found.tried = fewest(bounds, spec)
    return found


def _bound(run: Here | BySpark, found: KeysFound, share: float) -> KeyBound:
    """Of the keys that were kept last."""
    keyed = found.records - found.nulls
    hottest = found.hottest[0].records if found.hottest else 0
    return KeyBound(run.loads(), share * keyed, keyed, hottest)


def _worst_hour(run: Here | BySpark, spec: Spec, found: KeysFound) -> KeyBound:
    """The keys of the hour in which one partition got most, read once more."""
    _, hour, *_ = max(found.hours, key=lambda h: (h[3], -h[1]))
    first, last = found.span
    seconds = (min(hour + HOUR_MS, last + 1) - max(hour, first)) / 1000
    found.rate_hour, found.rate_seconds = hour, max(1.0, seconds)
    alone = replace(spec, hour=hour)
    then = KeysFound()
    _fill(then, run.told(alone, 1, keep=True), alone, 1)
    allowed = (found.max_rate or 0.0) * found.rate_seconds
    return _bound(run, then, allowed / max(1, then.records - then.nulls))


def _fill(found: KeysFound, told: pa.Table, spec: Spec, top: int) -> None:
    """What the job returned, summed over its tasks."""
    hot = told.filter(np.asarray(told["kind"]) == int(KeyRowKind.HOT))
    small = told.drop_columns("keys").group_by(["kind", "n", "hour", "partition"])
    sums = small.aggregate([("records", "sum"), ("bytes", "sum")])
    columns = {name: sums[name].fill_null(-1).to_numpy() for name in sums.column_names}
    kind = columns["kind"]

    def rows_of(wanted: KeyRowKind, n: int | None = None) -> dict[str, Any]:
        mine = kind == int(wanted)
        mine = mine if n is None else mine & (columns["n"] == n)
        return {name: column[mine] for name, column in columns.items()}

    found.nulls = int(rows_of(KeyRowKind.NULLS)["records_sum"].sum())
    found.timeless = int(rows_of(KeyRowKind.TIMELESS)["records_sum"].sum())
    found.low_by = int(rows_of(KeyRowKind.DROPPED)["records_sum"].sum())
    for count in spec.counts:
        _fill_count(found, count, rows_of(KeyRowKind.PARTITION, count))
        _fill_hours(found, count, rows_of(KeyRowKind.HOUR, count))
    spans = rows_of(KeyRowKind.SPAN)
    if len(spans["hour"]):
        found.span = int(spans["hour"].min()), int(spans["partition"].max())
    keyed = next(iter(found.loads.values())).records
    found.records = found.nulls + keyed
    if not spec.approximate:
        found.distinct = int(rows_of(KeyRowKind.DISTINCT)["records_sum"].sum())
    moved = rows_of(KeyRowKind.MOVED)
    pairs = zip(moved["n"].tolist(), moved["partition"].tolist(), strict=True)
    at = {pair: i for i, pair in enumerate(pairs)}
    for pair in spec.changes:
        records, keys = (int(moved[c][at[pair]]) if pair in at else 0
                         for c in ("records_sum", "bytes_sum"))  # fmt: skip
        known = (-1, -1) if found.distinct is None else (found.distinct, keys)
        found.moves.append(Moves(*pair, *known, keyed, records))
    _fill_hottest(found, hot.to_pylist(), spec, top)


def _fill_hottest(found: KeysFound, rows: list[dict[str, Any]], spec: Spec, top: int) -> None:
    from partage.keys import partition_for

    keyed = max(1, found.records - found.nulls)
    hot = sorted((-r["records"], r["keys"], r["bytes"]) for r in rows)
    found.hottest = [HotKey(key, -less, size, -less / keyed) for less, key, size in hot[:top]]
    found.floor = found.hottest[0].share if found.hottest else 0.0
    hottest = [h.key for h in found.hottest]
    for n in spec.counts if hottest else ():
        where = partition_for(hottest, partitions=n, partitioner=spec.partitioner)
        for key, at in zip(hottest, where.tolist(), strict=True):
            found.hot_at.setdefault(key, {})[n] = at


def _fill_count(found: KeysFound, count: int, rows: dict[str, Any]) -> None:
    """Buckets of keys are summed already: each partition has one row."""
    order = np.argsort(rows["partition"])
    numbers, records, size = (rows[c][order] for c in ("partition", "records_sum", "bytes_sum"))
    found.loads[count] = load_of(numbers, records, count)
    found.bytes[count] = (int(size.max(initial=0)), float(size.sum()) / count)
    found.by_partition[count] = (numbers, records, size)


def _fill_hours(found: KeysFound, count: int, rows: dict[str, Any]) -> None:
    hour, partition, records = (rows[c] for c in ("hour", "partition", "records_sum"))
    order = np.lexsort((partition, hour))
    firsts = np.flatnonzero(np.diff(hour[order], prepend=-1))
    for mine in np.split(order, firsts[1:]) if len(order) else []:
        worst = mine[np.argmax(records[mine])]
        cell = (int(hour[mine[0]]), int(partition[worst]), int(records[worst]))
        found.hours.append((count, *cell, int(records[mine].sum())))
