"""A cluster's metadata where nobody recorded it: from what was assigned, and what was committed.

A topic has at least as many partitions as the highest number that anybody was given or committed.
Racks and replicas are not known then, nor when a topic grew: there is one state for all of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from partage.errors import WireFormatError
from partage.history.records import classic_state
from partage.pipeline.decoded_rows import Kind
from partage.pipeline.tally import MOST_PARTITIONS
from partage.wire.group_log import decode_record

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from partage.pipeline.tally import Tally

__all__ = ["assigned_counts", "inferred_states", "state_of"]


def inferred_states(decoded: DataFrame, tally: Tally) -> tuple[Mapping[str, Any], ...]:
    """One state, older than the first record."""
    counts = {topic: highest + 1 for topic, highest in tally.highest.items()}
    given = decoded.where(f"kind = {int(Kind.GROUP_RECORD)}").select("key", "value")
    found = given.mapInArrow(_task, "topic string, highest int").groupBy("topic").max("highest")
    for row in found.toDF("topic", "highest").collect():
        counts[row.topic] = max(counts.get(row.topic, 0), row.highest + 1)
    for topic_id in [i for i in tally.topic_ids if i in counts]:
        name = tally.topic_ids[topic_id]
        counts[name] = max(counts.get(name, 0), counts.pop(topic_id))
    ids = {name: topic_id for topic_id, name in sorted(tally.topic_ids.items())}
    return (state_of(counts, (tally.first_ms or 0) - 1, ids),)


def state_of(
    counts: Mapping[str, int], ts_ms: int, ids: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """A line of ``cluster.jsonl`` that knows partition counts, and ids as far as commits tell.

    >>> state_of({"t": 2}, 5)["topics"]["t"]["partitions"][1]
    {'p': 1, 'leader': -1, 'replicas': []}
    """
    topics = {
        name: {
            "id": (ids or {}).get(name),
            "partitions": [{"p": p, "leader": -1, "replicas": []} for p in range(n)],
        }
        for name, n in sorted(counts.items())
    }
    return {"ts_ms": ts_ms, "brokers": [], "topics": topics}


def _task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    highest: dict[str, int] = {}
    for batch in batches:
        for row in batch.to_pylist():
            for topic, number in assigned_counts(row["key"], row["value"]):
                highest[topic] = max(highest.get(topic, -1), number)
    columns = [pa.array(list(highest), pa.string()), pa.array(list(highest.values()), pa.int32())]
    yield pa.RecordBatch.from_arrays(columns, names=["topic", "highest"])


def assigned_counts(key: bytes | None, value: bytes | None) -> Iterator[tuple[str, int]]:
    """Topics and the highest partition assigned: by name in a classic group's record, by id in
    targets of consumer and share groups; else nothing.
    """
    if value is None or key is None or key[:2] not in _ASSIGNS:
        return
    try:
        record = decode_record(key, value)
    except WireFormatError:
        return
    if key[:2] != _CLASSIC:  # topics by id: of what name, commits may tell
        for row in (record.value or {}).get("topicPartitions", ()):
            if row["partitions"] and 0 <= max(row["partitions"]) < _MOST:
                yield row["topicId"], max(row["partitions"])
        return
    for member in classic_state(record.value or {}).members:
        for topic, numbers in member.assigned:
            if numbers and 0 <= max(numbers) < _MOST:
                yield topic, max(numbers)


_CLASSIC = b"\0\2"
#: Key types of records that assign partitions: classic groups, targets of consumers and shares.
_ASSIGNS = (_CLASSIC, b"\0\7", b"\0\15")
#: A number above is damage.
_MOST = MOST_PARTITIONS
