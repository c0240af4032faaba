"""`partage audit`: find the partitioner that wrote each topic, and joins that cannot work.

One Spark job reads the topics and counts the records of each (topic, key, partition). A second job
finds each topic's partitioners from these counts. At the end the topics that are read together are
compared, on samples of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import InvalidConfigError, WireFormatError
from partage.history.records import parse_classic_state
from partage.jobs.audit.topics import (
    COLUMNS,
    JUDGED_DDL,
    NOWHERE,
    PAIRS_DDL,
    PairCounter,
    TopicSource,
    filter_by_level,
    judge_topics,
    key_pairs,
    known_families,
    open_topics,
    partitions_of,
    read_records,
)
from partage.jobs.replay.capture import open_records
from partage.jobs.replay.records import count_tasks, read_slice
from partage.jobs.spark.failures import jvm_errors, worker_errors
from partage.jobs.spark.progress import Progress, StageTimes
from partage.jobs.spark.tables import topic_records
from partage.keys.audit import InferredWriters, JoinProblem, JoinSide, broken_joins, infer_writers
from partage.model.validation import reject_text
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Audit",
    "BrokenJoin",
    "CoSubscription",
    "TopicAudit",
    "audit_topics",
    "read_co_subscriptions",
]

#: Record types that name the topics of a group: by the number before their key.
_CLASSIC, _CONSUMER, _TOPOLOGY = 2, 5, 23


@dataclass(frozen=True, slots=True)
class CoSubscription:
    """Consumer groups that subscribe to the same set of topics, and so may join these topics.

    The audit compares how such topics are partitioned.

    Attributes:
        groups: the group ids, sorted.
        joined: whether the topology of one of these groups (KIP-1071) joins the topics.
    """

    groups: tuple[str, ...]
    joined: bool


def read_co_subscriptions(
    spark: SparkSession, capture: str | Path
) -> dict[tuple[str, ...], CoSubscription]:
    """Return the sets of topics that are read together by a consumer group, from a capture.

    Such topics may be joined, so the audit compares how they are partitioned. It runs as a Spark
    job.

    Returns:
        dict from a sorted tuple of two or more topics to the groups that read them.

    Raises:
        InvalidCaptureError: ``consumer_offsets.parquet`` cannot be read.
    """
    slices = open_records(capture)
    ddl = "group string, topics array<string>, joined boolean"
    work = partial(_find_subscribed_topics, slices)
    tasks = count_tasks(slices, spark.sparkContext.defaultParallelism)
    rows = spark.range(0, len(slices), 1, tasks).mapInArrow(work, ddl).collect()
    found: dict[tuple[str, ...], set[tuple[str, bool]]] = {}
    for row in rows:
        found.setdefault(tuple(row.topics), set()).add((row.group, row.joined))
    return {
        topics: CoSubscription(
            tuple(sorted({g for g, _ in some})), any(joined for _, joined in some)
        )
        for topics, some in sorted(found.items())
    }


def _find_subscribed_topics(
    slices: tuple[Any, ...], slice_numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Find the sets of topics that consumer groups subscribe to, in one Spark task.

    Each row of the result has a group id, a set of topics, and whether the group's topology joins
    these topics.

    Args:
        slices: row ranges of Parquet files with the groups' records.
        slice_numbers: batches with the indices of the row ranges that this task reads.
    """
    # Only group metadata is decoded; offset commits are skipped.
    import pyarrow as pa

    found: dict[tuple[str, tuple[str, ...], bool], None] = {}
    for batch in slice_numbers:
        for number in batch.column(0).to_pylist():
            for table in read_slice(slices[number]):
                for key, value in _group_records(table):
                    found.update(dict.fromkeys(_decode_subscribed_topics(key, value)))
    rows = list(found)
    yield pa.RecordBatch.from_arrays(
        [
            pa.array([group for group, _, _ in rows], pa.string()),
            pa.array([list(topics) for _, topics, _ in rows], pa.list_(pa.string())),
            pa.array([joined for _, _, joined in rows], pa.bool_()),
        ],
        names=["group", "topics", "joined"],
    )


def _group_records(table: pa.Table) -> Iterator[tuple[bytes | None, bytes | None]]:
    import pyarrow as pa
    from pyarrow import compute

    wanted = pa.array([n.to_bytes(2, "big") for n in (_CLASSIC, _CONSUMER, _TOPOLOGY)])
    version = compute.binary_slice(table["key"], 0, 2)
    mine = table.filter(compute.is_in(version, value_set=wanted))
    yield from zip(mine["key"].to_pylist(), mine["value"].to_pylist(), strict=True)


def _decode_subscribed_topics(
    key: bytes | None, value: bytes | None
) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Decode a group metadata record, and yield each set of topics that the group reads together.

    A result is a tuple (group id, sorted topics, flag). The flag says whether the topology of a
    streams group joins the topics. ``key`` and ``value`` are the bytes of the record. A damaged
    record yields nothing.
    """
    try:
        record = decode_record(key, value)
    except WireFormatError:
        return
    if record.value is None:
        return
    group = str(record.key.get("groupId", record.key.get("group")))
    for topics in _topics(record.key_version, record.value):
        if len(set(topics)) > 1:
            yield group, tuple(sorted(set(topics))), record.key_version == _TOPOLOGY


def _topics(version: int, value: Mapping[str, Any]) -> Iterator[Iterable[str]]:
    if version == _CLASSIC:
        for member in parse_classic_state(value).members:
            if member.subscription is not None:
                yield member.subscription.topics
    elif version == _CONSUMER:
        yield value["subscribedTopicNames"] or ()
    else:
        for part in value["subtopologies"]:
            sources = part["sourceTopics"]
            repartition = [t["name"] for t in part["repartitionSourceTopics"]]
            for joined in part["copartitionGroups"]:  # positions in the two lists
                yield [
                    *(sources[i] for i in joined["sourceTopics"]),
                    *(repartition[i] for i in joined["repartitionSourceTopics"]),
                ]


#: Keys in several partitions for no reason that can be seen: so many of all, and so many at least.
_SCATTERED, _FEWEST_SCATTERED = 0.05, 10
#: Share of keys that a writer explains where its partition count is taken for the topic's.
_MOSTLY = 0.95
#: Keys in common from which on two topics of as many partitions are meant to join.
_FEWEST_SHARED = 10
#: A group that reads more topics (a mirror, a sink with a pattern) does not join each with each.
_MOST_READ = 32


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """The audit result of one topic: which client partitioners wrote it, and which keys are split.

    A key is split if its records are in several partitions. Times are milliseconds UTC.

    Attributes:
        counts: partition counts of the topic over time; ``counts_known`` says whether they are from
            metadata.
        sampled: the sampling rate: one in ``sampled`` keys was examined.
        status: whether the partitioners were found, see `partage.keys.audit.InferredWriters`.
        explained: share of (key, partition) pairs that the partitioners found would produce.
        writers: the partitioners found, with their time ranges.
        nulls: how records without a key are spread over partitions, and their number.
        split: number of split keys by reason, with examples.
    """

    topic: str
    counts: tuple[int, ...]
    counts_known: bool
    records: int
    keys: int
    sampled: int
    status: str
    explained: float
    writers: tuple[dict[str, Any], ...]
    nulls: dict[str, Any]
    split: dict[str, Any]

    @property
    def needs_attention(self) -> bool:
        """Return whether several client partitioners wrote the topic, or many of its keys are
        split.

        A key is split if its records are in several partitions, so their order is lost.
        """
        return self.status == "mixed" or self.split["writers"] > 0 or self.has_scattered_keys

    @property
    def has_scattered_keys(self) -> bool:
        """Return whether many keys have records in several partitions for no known reason.

        Many means 5 % of the topic's keys, and at least ten keys. Known reasons are a changed
        partition count and several client partitioners.
        """
        few = max(_FEWEST_SCATTERED, _SCATTERED * self.keys)
        return bool(self.split["unexplained"] >= few)


@dataclass(frozen=True, slots=True)
class BrokenJoin:
    """Two topics whose join loses records, because equal keys are in different partitions.

    Attributes:
        broken: the reason, with examples.
        groups: the consumer groups that read both topics.
        meant: whether the join is intended: the user named it, a streams group's topology has it,
            or the topics share keys and have equal partition counts.
    """

    broken: JoinProblem
    groups: tuple[str, ...]
    meant: bool


@dataclass
class Audit:
    """Result of `partage audit`: one entry for each topic, and the joins that lose records.

    Attributes:
        topics: audit results of the topics, sorted by name.
        joins: pairs of topics whose join loses records.
        looked_at: number of pairs of topics that were compared.
        too_many: number of pairs that were not compared, because a group reads very many topics.
        without_a_place: number of records without a topic or a partition, which are not audited.
    """

    topics: list[TopicAudit] = field(default_factory=list)
    joins: list[BrokenJoin] = field(default_factory=list)
    looked_at: int = 0
    too_many: int = 0
    without_a_place: int = 0

    @property
    def has_no_problem(self) -> bool:
        """Return whether no topic needs attention and no intended join loses records.

        A join is intended if the user or a Streams topology names it, or if both topics have common
        keys and equal partition counts.
        """
        return not any(j.meant for j in self.joins) and not any(
            t.needs_attention for t in self.topics
        )


def audit_topics(
    where: str,
    *,
    topics: Sequence[str] | None = None,
    joins: Sequence[Sequence[str]] = (),
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Find the client partitioners that wrote each topic, and joins that lose records.

    A join of two topics loses records if equal keys are in different partitions. The input is a
    capture, Parquet files, or a running cluster.

    Args:
        where: a path or address, see `partage.jobs.audit.topics.open_topics`.
        topics: names of the topics to audit; None for all.
        joins: sets of topics that are meant to be joined. Topics that groups of the capture read
            together are compared as well.
        spark: a running session; None starts one in this process.
        master: Spark's master; ``local[*]`` if not given.
        conf: Spark settings of a session that is started here.
        kafka: properties of the client of a cluster, by Kafka's names.
        progress: called with (stage, done, total).

    Raises:
        InvalidCaptureError, InvalidConfigError: the input cannot be used, or has no such topic.
        MissingExtraError, MissingJavaError: Spark cannot be started.
    """
    from partage.jobs.spark.session import spark_session

    reject_text(topics, "topics")
    stages = StageTimes(progress)
    with stages.measure_stage("check"):
        source = open_topics(where, kafka)
    with ExitStack() as opened:
        with stages.measure_stage("start Spark"):
            opened.enter_context(jvm_errors())
            running = opened.enter_context(spark_session(spark, master=master, conf=conf))
            opened.enter_context(worker_errors())
        return _run_audit(running, source, topics, joins, stages)


def _run_audit(
    spark: SparkSession,
    source: TopicSource,
    topics: Sequence[str] | None,
    joins: Sequence[Sequence[str]],
    stages: StageTimes,
) -> Audit:
    together: dict[tuple[str, ...], CoSubscription] = {}
    if source.kafka_address is None and (Path(source.where) / "consumer_offsets.parquet").exists():
        with stages.measure_stage("groups", spark):
            together = read_co_subscriptions(spark, source.where)
    given = [tuple(sorted(set(some))) for some in joins]
    together |= {some: CoSubscription((), joined=True) for some in given if some not in together}
    together |= {some: replace(together[some], joined=True) for some in given}
    wanted = {
        t for some, by in together.items() for t in some if by.joined or len(some) <= _MOST_READ
    }
    with stages.measure_stage("topics", spark):
        rows = _judge(spark, source, topics, wanted)
    found = Audit([_topic_found(row["found"]) for row in rows if row["topic"] != NOWHERE])
    found.without_a_place = sum(int(row["found"]) for row in rows if row["topic"] == NOWHERE)
    found.topics.sort(key=lambda t: t.topic)
    _expect_all({t for some in given for t in some} | set(topics or ()), found)
    with stages.measure_stage("joins"):
        few = {some: by for some, by in together.items() if by.joined or len(some) <= _MOST_READ}
        found.joins, found.looked_at = _find_broken_joins(
            {t.topic: t for t in found.topics}, {r["topic"]: r["pairs"] for r in rows}, few
        )
        found.too_many = sum(comb(len(some), 2) for some in together if some not in few)
    return found


def _expect_all(wanted: set[str], found: Audit) -> None:
    missing = sorted(wanted - {t.topic for t in found.topics})
    if missing:
        had = ", ".join(t.topic for t in found.topics[:10]) or "none"
        raise InvalidConfigError(
            "--topic", f"no records of such a topic (found: {had})", missing[0]
        )


def _judge(
    spark: SparkSession, source: TopicSource, topics: Sequence[str] | None, wanted: set[str]
) -> list[dict[str, Any]]:
    from pyspark.sql import functions as f

    pairs = _pairs(spark, source)
    if topics is not None:
        pairs = pairs.where(f.col("topic").isin([*topics, NOWHERE]))
    tasks = max(2, 2 * spark.sparkContext.defaultParallelism)
    work = partial(judge_topics, source.counts, frozenset(wanted))
    ordered = pairs.repartition(tasks, "topic").sortWithinPartitions("topic", "first_ms", "place")
    rows: list[dict[str, Any]] = ordered.mapInArrow(work, JUDGED_DDL).toArrow().to_pylist()
    return rows


def _pairs(spark: SparkSession, source: TopicSource) -> DataFrame:
    if source.kafka_address is None:
        count = min(len(source.pieces), 4 * spark.sparkContext.defaultParallelism)
        work = partial(_count_row_groups, source.pieces, count)
        return spark.range(0, count, 1, count).mapInArrow(work, PAIRS_DDL)
    from pyspark.sql import functions as f

    servers, topics = source.kafka_address
    frame = topic_records(spark, servers, topics, source.properties)
    time_ms = f.unix_millis("timestamp").alias("timestamp_ms")
    return frame.select("topic", "partition", "offset", time_ms, "key").mapInArrow(
        _count_spark_batches, PAIRS_DDL
    )


def _count_row_groups(
    row_groups: Sequence[tuple[str, int]], tasks: int, task_numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count the records of each (topic, key, partition) in some row groups of Parquet files.

    It runs as one Spark task. Task n of ``tasks`` reads the row groups n, n + ``tasks``, n + 2
    ``tasks`` and so on.

    Args:
        row_groups: (path, row group) pairs of all files.
        tasks: number of tasks.
        task_numbers: batches with the number of this task.
    """
    pairing = PairCounter()
    for batch in task_numbers:
        for number in batch.column(0).to_pylist():
            for path, row_group in row_groups[number::tasks]:
                for table in read_records(path, row_group):
                    pairing.count_records(table)
    yield from pairing.count_batches()


def _count_spark_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the records of each (topic, key, partition) in batches that Spark reads from Kafka.

    It runs in a Spark task and yields the counts as Arrow batches.
    """
    import pyarrow as pa

    pairing = PairCounter()
    for batch in batches:
        pairing.count_records(pa.Table.from_batches([batch]).select(list(COLUMNS)))
    yield from pairing.count_batches()


def _topic_found(text: str) -> TopicAudit:
    found = json.loads(text)
    return TopicAudit(**{**found, "counts": tuple(found["counts"]),
                         "writers": tuple(found["writers"])})  # fmt: skip


def _find_broken_joins(
    audits: dict[str, TopicAudit],
    samples: dict[str, bytes | None],
    co_subscriptions: dict[tuple[str, ...], CoSubscription],
) -> tuple[list[BrokenJoin], int]:
    """Find pairs of topics that a group reads together although equal keys are in different
    partitions.

    Each pair is compared once, even if several groups read both topics.

    Args:
        audits: dict from topic to its audit result.
        samples: dict from topic to a sample of its (key, partition) pairs, as an Arrow stream.
        co_subscriptions: dict from a set of topics to the groups that read them.

    Returns:
        the broken joins, and the number of compared pairs.
    """
    import pyarrow as pa

    tables = {t: pa.ipc.open_stream(raw).read_all() for t, raw in samples.items() if raw}
    pairs: dict[tuple[str, str], CoSubscription] = {}
    for some, readers in co_subscriptions.items():
        for pair in combinations([t for t in some if t in tables], 2):
            had = pairs.get(pair, CoSubscription((), joined=False))
            groups = tuple(sorted({*had.groups, *readers.groups}))
            pairs[pair] = CoSubscription(groups, had.joined or readers.joined)
    verdicts = {
        t: _find_partitioners(tables[t], audits[t]) for t in {t for pair in pairs for t in pair}
    }
    out = []
    for pair, readers in sorted(pairs.items()):
        sides = _sample_both_topics(pair, tables, audits, verdicts)
        meant = readers.joined or _is_join_likely(*sides)
        out += [BrokenJoin(broken, readers.groups, meant) for broken in broken_joins(sides)]
    return out, len(pairs)


def _is_join_likely(topic: JoinSide, other_topic: JoinSide) -> bool:
    """Return whether an application probably joins two topics.

    This is assumed if their partition counts are equal and samples of their keys have ten or more
    keys in common.
    """
    common = len(set(topic.seen.keys) & set(other_topic.seen.keys))
    return not topic.surely_differs(other_topic) and common >= _FEWEST_SHARED


def _find_partitioners(pairs: pa.Table, topic: TopicAudit) -> InferredWriters:
    """Find the client partitioners that explain in which partitions a topic's keys are.

    Args:
        pairs: a sample of the topic's (key, partition) pairs.
        topic: audit result of the topic, which has its partition counts.
    """
    counts = {*topic.counts, *(w["partitions"] for w in topic.writers)}
    return infer_writers(key_pairs(pairs), sorted(counts), known_families(), partitions_of)


def _is_partition_count_certain(topic: TopicAudit, inferred_writers: InferredWriters) -> bool:
    """Return whether a topic's current partition count is certain.

    Cluster metadata makes it certain. Without metadata, the partitioners that were found must
    explain 95 % of the sampled keys with this count.

    Args:
        topic: audit result of the topic.
        inferred_writers: the partitioners that were found.
    """
    if topic.counts_known:
        return True
    by_writers = {w.partitions for w in inferred_writers.writers}
    return by_writers == {topic.counts[-1]} and inferred_writers.explained >= _MOSTLY


def _sample_both_topics(
    topic_names: tuple[str, str],
    tables: dict[str, pa.Table],
    audits: dict[str, TopicAudit],
    inferred_writers: dict[str, InferredWriters],
) -> tuple[JoinSide, JoinSide]:
    """Return comparable samples of the keys of two topics that may be joined.

    A hash of the key decides which keys are sampled, at the same rate in both topics. So a key of
    both topics is in both samples or in neither.

    Args:
        topic_names: the names of the two topics.
        tables: sampled (key, partition) pairs by topic.
        audits: audit results by topic.
        inferred_writers: client partitioners found in the samples, by topic.
    """
    level = max(max([*tables[t]["level"].to_pylist()[:1], 0]) for t in topic_names)
    one, other = (
        JoinSide(t, audits[t].counts[-1], key_pairs(filter_by_level(tables[t], level)),
             inferred_writers[t], _is_partition_count_certain(audits[t], inferred_writers[t]))
        for t in topic_names
    )  # fmt: skip
    return one, other
