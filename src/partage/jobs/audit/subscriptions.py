"""Topics that a group reads together, from a capture's group records: candidates for a join.

The topology of a streams group says which topics it joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partage.errors import WireFormatError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["CoSubscription", "read_co_subscriptions"]

#: Record types that name the topics of a group: by the number before their key.
_CLASSIC, _CONSUMER, _TOPOLOGY = 2, 5, 23


@dataclass(frozen=True, slots=True)
class CoSubscription:
    """The groups that read some topics together.

    Attributes:
        groups: their ids, sorted.
        joined: whether one of them joins the topics, by its topology (KIP-1071).
    """

    groups: tuple[str, ...]
    joined: bool


def read_co_subscriptions(
    spark: SparkSession, capture: str | Path
) -> dict[tuple[str, ...], CoSubscription]:
    """Return sets of two or more topics (sorted) with the groups that subscribed to them at once.

    Raises:
        InvalidCaptureError: ``consumer_offsets.parquet`` cannot be read.
    """
    from partage.jobs.replay.capture import open_records
    from partage.jobs.replay.records import count_tasks

    slices = open_records(capture)
    ddl = "group string, topics array<string>, joined boolean"
    work = partial(_task, slices)
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


def _task(slices: tuple[Any, ...], numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield, in a worker, the topic sets of some slices; offset commits are not even decoded."""
    import pyarrow as pa

    from partage.jobs.replay.capture import read_slice

    found: dict[tuple[str, tuple[str, ...], bool], None] = {}
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for table in read_slice(slices[number]):
                for key, value in _group_records(table):
                    found.update(dict.fromkeys(_sets(key, value)))
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


def _sets(key: bytes | None, value: bytes | None) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Yield (group, topics, joined) of a record; damaged records are the replay's to report."""
    from partage.wire.group_log import decode_record

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
    from partage.history.records import parse_classic_state

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
