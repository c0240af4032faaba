"""`partage keys`: how the keys of an input spread over partitions. The table of contents.

One job of two stages. In the first the workers read and count keys where the data is
(`key_counts`). Distinct keys then meet by buckets, packed by the megabyte (`key_rows`); in the
second stage each is placed once: loads, what changes move, the hottest (`key_tally`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from partage.errors import InvalidConfigError
from partage.keys.skew import Load, Moves, load_of
from partage.pipeline.failures import jvm_watched
from partage.pipeline.key_bytes import SERIALIZERS
from partage.pipeline.key_counts import Spec
from partage.pipeline.key_rows import ROWS_DDL, Kind
from partage.pipeline.key_sources import KeySource, open_source
from partage.pipeline.key_workers import LOADS_DDL, count_batches, loads_in, met, read_and_count
from partage.pipeline.progress import Progress, Stages
from partage.pipeline.told_by_workers import told_by_workers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from partage.pipeline.key_sources import Columns

__all__ = ["HotKey", "KeysFound", "analyse_keys"]

MOST_PARTITIONS = 2**31 - 1
#: Fewer records than this are read by one task a million: a worker's start costs more.
_ROWS_A_TASK = 1_000_000
#: Partition counts tried in one pass over the distinct keys when the smallest is looked for.
_TRIED_AT_ONCE = 64
#: The largest partition count that is tried for a limit on the hottest partition.
_LARGEST_TRIED = 10_000


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
        hours: (partition count, hour in ms, hottest partition, its records, all records).
        moves: changes of the count; keys of an approximate run are -1.
        hottest: keys with most records.
        low_by: most records that any count of an approximate run may lack.
        floor: share of keyed records that the hottest partition has at any count: its key's.
        smallest: the smallest count within ``max_share``, None if there is none (see ``tried``).
        tried: largest partition count tried for it; 0 where one key alone is more than that.
        by_partition: partition count -> (partition, records, bytes), int64 each, where not empty.
    """

    records: int = 0
    nulls: int = 0
    distinct: int | None = None
    loads: dict[int, Load] = field(default_factory=dict)
    bytes: dict[int, tuple[int, float]] = field(default_factory=dict)
    hours: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    moves: list[Moves] = field(default_factory=list)
    hottest: list[HotKey] = field(default_factory=list)
    low_by: int = 0
    floor: float = 0.0
    max_share: float | None = None
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
        max_rate: the same in records per second, over the busiest hour; needs a column of times.
        approximate: drop rare keys in the workers; ``low_by`` says by how much counts may be low.
        spark: a session of yours; None starts one in this process.
        progress: called with (stage, done, total).

    Raises:
        InvalidConfigError: input, column, count or partitioner cannot be used.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    from partage.pipeline.session import session

    spec = Spec(columns, partitioner, _counts(counts), serializer, approximate)
    limits = _Limits(max_share, max_rate)
    _expect_limits(limits, columns, where)
    if serializer is not None and serializer not in SERIALIZERS:
        known = ", ".join(SERIALIZERS)
        raise InvalidConfigError("--serializer", f"must be one of {known}", serializer)
    stages = Stages(progress)
    with stages.stage("check"):
        _expect_keyed(partitioner)
        source = open_source(where, columns)
    with ExitStack() as opened:
        with stages.stage("start Spark"):
            opened.enter_context(jvm_watched())
            # Where workers read, Java carries blocks of bytes: little to compile well.
            running = opened.enter_context(session(spark, brief=bool(source.pieces)))
            opened.enter_context(told_by_workers())
        return _analysed(running, source, spec, top=top, limits=limits, stages=stages)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the hottest partition may have."""

    share: float | None
    rate: float | None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self.share is not None or self.rate is not None

    def share_of(self, found: KeysFound) -> float | None:
        """Both as a share: a rate by the records of the busiest hour, as if keys were the same."""
        if self.rate is None or not found.hours:
            return self.share
        busiest = max(total for *_, total in found.hours) / 3600
        share = min(1.0, self.rate / busiest) if busiest else 1.0
        return share if self.share is None else min(share, self.share)


def _expect_limits(limits: _Limits, columns: Columns, where: str) -> None:
    if limits.share is not None and not 0 < limits.share <= 1:
        raise InvalidConfigError("--max-share", "must be above 0 and at most 1", limits.share)
    if limits.rate is None:
        return
    if not limits.rate > 0:
        raise InvalidConfigError("--max-rate", "must be above 0", limits.rate)
    if columns.time is None and not where.startswith("kafka://"):
        raise InvalidConfigError("--max-rate", "needs a column of times: --time", limits.rate)


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
    spark: SparkSession,
    source: KeySource,
    spec: Spec,
    *,
    top: int,
    limits: _Limits,
    stages: Stages,
) -> KeysFound:
    found = KeysFound()
    tasks = _tasks(spark, source)
    spec = replace(spec, columns=source.columns, buckets=tasks, rows=(source.rows or 0) // tasks)
    keep = limits.any and not spec.approximate
    rows = _counted(spark, source, spec, tasks).repartitionById(tasks, "bucket")
    rows = rows.mapInArrow(partial(met, spec, top, keep=keep), ROWS_DDL)
    if keep:
        rows = rows.persist()
    try:
        with stages.stage("count", spark):
            _fill(found, rows.where(f"kind <> {int(Kind.KEYS)}").toArrow(), spec, top)
        found.max_share = limits.share_of(found)
        with stages.stage("keys", spark):
            if keep and found.max_share is not None:
                _smallest(found, rows.where(f"kind = {int(Kind.KEYS)}"), spec)
    finally:
        if keep:
            rows.unpersist()
    return found


def _tasks(spark: SparkSession, source: KeySource) -> int:
    """As many as there are cores: each more of them sends its distinct keys once more."""
    cores = max(1, spark.sparkContext.defaultParallelism)
    if source.rows is None:
        return cores
    return max(1, min(cores, len(source.pieces), -(-source.rows // _ROWS_A_TASK)))


def _counted(spark: SparkSession, source: KeySource, spec: Spec, tasks: int) -> DataFrame:
    if source.pieces:
        work = partial(read_and_count, spec, source.pieces, tasks)
        return spark.range(0, tasks, 1, tasks).mapInArrow(work, ROWS_DDL)
    return source.frame(spark).mapInArrow(partial(count_batches, spec), ROWS_DDL)


def _fill(found: KeysFound, told: pa.Table, spec: Spec, top: int) -> None:
    """What the job returned, summed over its tasks."""
    hot = told.filter(np.asarray(told["kind"]) == int(Kind.HOT))
    small = told.drop_columns("keys").group_by(["kind", "n", "hour", "partition"])
    sums = small.aggregate([("records", "sum"), ("bytes", "sum")])
    columns = {name: sums[name].fill_null(-1).to_numpy() for name in sums.column_names}
    kind = columns["kind"]

    def rows_of(wanted: Kind, n: int | None = None) -> dict[str, Any]:
        mine = kind == int(wanted)
        mine = mine if n is None else mine & (columns["n"] == n)
        return {name: column[mine] for name, column in columns.items()}

    found.nulls = int(rows_of(Kind.NULLS)["records_sum"].sum())
    found.low_by = int(rows_of(Kind.DROPPED)["records_sum"].sum())
    for count in spec.counts:
        _fill_count(found, count, rows_of(Kind.PARTITION, count))
        _fill_hours(found, count, rows_of(Kind.HOUR, count))
    keyed = next(iter(found.loads.values())).records
    found.records = found.nulls + keyed
    if not spec.approximate:
        found.distinct = int(rows_of(Kind.DISTINCT)["records_sum"].sum())
    moved = rows_of(Kind.MOVED)
    pairs = zip(moved["n"].tolist(), moved["partition"].tolist(), strict=True)
    at = {pair: i for i, pair in enumerate(pairs)}
    for pair in spec.changes:
        records, keys = (int(moved[c][at[pair]]) if pair in at else 0
                         for c in ("records_sum", "bytes_sum"))  # fmt: skip
        known = (-1, -1) if found.distinct is None else (found.distinct, keys)
        found.moves.append(Moves(*pair, *known, keyed, records))
    _fill_hottest(found, hot.to_pylist(), top)


def _fill_hottest(found: KeysFound, rows: list[dict[str, Any]], top: int) -> None:
    keyed = max(1, found.records - found.nulls)
    hot = sorted((-r["records"], r["keys"], r["bytes"]) for r in rows)
    found.hottest = [HotKey(key, -less, size, -less / keyed) for less, key, size in hot[:top]]
    found.floor = found.hottest[0].share if found.hottest else 0.0


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


def _smallest(found: KeysFound, merged: DataFrame, spec: Spec) -> None:
    """Counts from the least possible one upward, some in one pass, until one keeps the limit."""
    share = found.max_share
    if share is None:
        return
    keyed = found.records - found.nulls
    if found.floor > share or not keyed:  # one key alone is more: no count can do it
        found.tried = 0
        return
    low = max(1, int(np.ceil(1 / share - 1e-9)))
    while low <= _LARGEST_TRIED:
        high = min(low + _TRIED_AT_ONCE, _LARGEST_TRIED + 1)
        fullest = _fullest(merged, spec, range(low, high))
        fit = [n for n in range(low, high) if fullest.get(n, 0) <= share * keyed]
        found.tried = high - 1
        if fit:
            found.smallest = min(fit)
            return
        low = high


def _fullest(merged: DataFrame, spec: Spec, counts: range) -> dict[int, int]:
    """Partition count -> records of its fullest partition."""
    work = partial(loads_in, spec, counts)
    rows = merged.mapInArrow(work, LOADS_DDL).toArrow()
    sums = rows.group_by(["n", "partition"]).aggregate([("records", "sum")])
    most = sums.group_by("n").aggregate([("records_sum", "max")])
    return dict(zip(most["n"].to_pylist(), most["records_sum_max"].to_pylist(), strict=True))
