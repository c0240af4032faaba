"""Infer cluster metadata from the log, for times without recorded metadata.

A topic has at least as many partitions as the highest number that was assigned or committed.
Without ``cluster.jsonl`` one state covers the whole log, without racks and replicas. If recorded
metadata begins later than the log, the partition counts before it follow from the records of that
time. Brokers and replicas are then those of the first recorded state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from partage.history.records import GroupRecord, MemberState, parse_classic_state
from partage.jobs.replay.decoded_rows import BlockReader, DecodedKind
from partage.jobs.replay.tally import MOST_PARTITIONS

if TYPE_CHECKING:
    import pyarrow as pa

    from partage.jobs.replay.engines import LazyRows
    from partage.jobs.replay.tally import RecordTally

__all__ = ["assigned_counts", "inferred_states", "state_of", "states_before", "with_earlier_states"]

#: Times at which a topic grew, and partitions times states, for which a state each is made.
#: Beyond either there is one state for all the time before the recorded metadata.
_MOST_STEPS = 256
_MOST_CELLS = 1_000_000

#: A topic (name, or id), the highest partition that a record shows of it, and when. The highest
#: is -1 where members subscribed to the topic and their assignment has no partition of it, and
#: -2 where a member's metadata names the topic, before anything was assigned.
_SUBSCRIBED = -2
HighestPartition = tuple[str, int, int]


def inferred_states(decoded: LazyRows, tally: RecordTally) -> tuple[Mapping[str, Any], ...]:
    """Infer topics and partition counts from assignments and offset commits.

    It is used for a capture without cluster metadata. Return a tuple with one metadata state, dated
    before the first record.

    Args:
        decoded: the decoded records.
        tally: counts of the records, with the highest partition of each topic in offset commits.
    """
    counts = {topic: highest + 1 for topic, highest in tally.highest.items()}
    records = decoded.filter_kinds(DecodedKind.GROUP_RECORD)
    found = records.apply_job(_find_highest_assigned, "topic string, highest int")
    for topic, highest in found.collect_columns("topic", "highest"):
        counts[topic] = max(counts.get(topic, 0), highest + 1)
    for topic_id in [i for i in tally.topic_ids if i in counts]:
        name = tally.topic_ids[topic_id]
        counts[name] = max(counts.get(name, 0), counts.pop(topic_id))
    ids = {name: topic_id for topic_id, name in sorted(tally.topic_ids.items())}
    return ({**state_of(counts, (tally.first_ms or 0) - 1, ids), "assumed": True},)


def with_earlier_states(
    decoded: LazyRows, tally: RecordTally, states: tuple[Mapping[str, Any], ...]
) -> tuple[Mapping[str, Any], ...]:
    """Add inferred cluster metadata for the time before the first recorded metadata.

    Return all states. They replace a first state that `partage capture` has dated back (marked
    ``assumed``).

    Args:
        decoded: the decoded records, from which metadata is inferred.
        tally: counts of the records.
        states: the recorded metadata over time.
    """
    ordered = sorted(states, key=lambda state: state["ts_ms"])
    dated_back = bool(ordered[0].get("assumed"))
    first_ms, last_ms, _ = tally.time_range()
    if first_ms is None or last_ms is None:
        return states
    later = ordered[1:] if dated_back else ordered
    if not later:
        later = [{**ordered[0], "ts_ms": last_ms + 1}]
    until_ms = min(later[0]["ts_ms"], last_ms + 1)
    if until_ms <= first_ms:
        return states
    records = decoded.filter_kinds(DecodedKind.GROUP_RECORD)
    task = partial(_find_partitions, until_ms)
    found = records.apply_job(task, "topic string, highest int, time_ms long")
    first: dict[tuple[str, int], int] = {}
    for topic, highest, time_ms in found.collect_columns("topic", "highest", "time_ms"):
        first[topic, highest] = min(first.get((topic, highest), time_ms), time_ms)
    seen = [(topic, highest, time_ms) for (topic, highest), time_ms in first.items()]
    if not seen:
        return states
    before = states_before(
        seen, first_ms - 1, later[0], committed=tally.highest, names=tally.topic_ids
    )
    return (*before, *later)


def states_before(
    topics_in_records: Iterable[HighestPartition],
    first_ms: int,
    recorded: Mapping[str, Any],
    *,
    committed: Mapping[str, int],
    names: Mapping[str, str],
) -> list[Mapping[str, Any]]:
    """Infer cluster metadata for the time before the first recorded metadata.

    A topic counts as missing while members subscribe to it without getting any partition. A topic
    that no group record mentions is as in the first recorded state.

    Args:
        topics_in_records: topics with the highest partition in a group record and the record's
            time.
        first_ms: the time of the first state.
        recorded: the first recorded state.
        committed: dict from topic to the highest partition of its offset commits, at any time.
        names: dict from topic id to name, from offset commits.
    """
    ids = {t["id"]: name for name, t in recorded["topics"].items() if t.get("id")}
    by_id = {**names, **ids}
    rows = sorted(
        (time_ms, by_id.get(topic, topic), highest) for topic, highest, time_ms in topics_in_records
    )
    mentioned = {name for _, name, _ in rows}
    counts = {
        name: max((part["p"] for part in topic["partitions"]), default=-1) + 1
        for name, topic in recorded["topics"].items()
        if name not in mentioned
    }
    for name, highest in committed.items():
        if highest >= 0 and name not in mentioned:
            counts[name] = max(counts.get(name, 0), highest + 1)
    earliest = dict(counts)
    steps: dict[int, dict[str, int]] = {}
    for time_ms, name, highest in rows:
        if highest == _SUBSCRIBED:
            continue
        if name not in counts:
            earliest[name] = highest + 1  # as it was before the first record
        elif highest + 1 > counts[name]:
            steps.setdefault(max(time_ms, first_ms), {})[name] = highest + 1
        counts[name] = max(counts.get(name, 0), highest + 1)
    cells = sum(counts.values()) * (len(steps) + 1)
    if len(steps) > _MOST_STEPS or cells > _MOST_CELLS:
        earliest, steps = counts, {}
    out, now = [_with_inferred_counts(recorded, earliest, first_ms, by_id)], dict(earliest)
    for time_ms, grown in sorted(steps.items()):
        now |= grown
        out.append(_with_inferred_counts(recorded, now, time_ms, by_id))
    return out


def _with_inferred_counts(
    recorded: Mapping[str, Any], counts: Mapping[str, int], ts_ms: int, names: Mapping[str, str]
) -> Mapping[str, Any]:
    """Copy recorded cluster metadata for an earlier time, with partition counts inferred for that
    time.

    Replicas and racks are those of the recorded state.

    Args:
        recorded: the recorded metadata.
        counts: inferred partition count of each topic.
        ts_ms: the earlier time.
        names: dict from topic id to name.
    """
    ids = {name: topic_id for topic_id, name in sorted(names.items())}
    plain = state_of({name: n for name, n in counts.items() if n > 0}, ts_ms, ids)
    topics = {}
    for name, topic in plain["topics"].items():
        later = recorded["topics"].get(name)
        known = {part["p"]: part for part in later["partitions"]} if later else {}
        topics[name] = {
            "id": later.get("id") if later else topic["id"],
            "partitions": [known.get(part["p"], part) for part in topic["partitions"]],
        }
    return {**recorded, "topics": topics, "ts_ms": ts_ms, "assumed": True}


def state_of(
    counts: Mapping[str, int], ts_ms: int, ids: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Build cluster metadata in the form of a line of ``cluster.jsonl``, from partition counts.

    It has no brokers and no replicas.

    Args:
        counts: dict from topic to partition count.
        ts_ms: time of the metadata.
        ids: dict from topic to topic id.

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


def _find_highest_assigned(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Find the highest partition of each topic that any member was assigned, in a Spark task.

    ``batches`` are decoded log records, as Arrow batches. Yield one row for each topic.
    """
    import pyarrow as pa

    highest: dict[str, int] = {}
    for record in _unpack_records(batches):
        for topic, number in assigned_counts(record):
            highest[topic] = max(highest.get(topic, -1), number)
    columns = [pa.array(list(highest), pa.string()), pa.array(list(highest.values()), pa.int32())]
    yield pa.RecordBatch.from_arrays(columns, names=["topic", "highest"])


def _find_partitions(until_ms: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Find the partitions that group records mention before a time, in a Spark task.

    The records before ``until_ms`` show how many partitions a topic had then. Each result row has a
    topic, its highest partition in a record, and the first time of such a record. ``batches`` are
    decoded log records, as Arrow batches.
    """
    import pyarrow as pa

    first: dict[tuple[str, int], int] = {}
    for record in _unpack_records(batches):
        for seen in highest_partitions(record) if record.timestamp_ms < until_ms else ():
            first[seen] = min(first.get(seen, record.timestamp_ms), record.timestamp_ms)
    rows = [(topic, highest, time_ms) for (topic, highest), time_ms in first.items()]
    types = (pa.string(), pa.int32(), pa.int64())
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
    yield pa.RecordBatch.from_arrays(columns, names=["topic", "highest", "time_ms"])


def _unpack_records(batches: Iterable[pa.RecordBatch]) -> Iterator[GroupRecord]:
    """Yield the group records that are packed in Arrow batches of decoded rows, in log order."""
    reader = BlockReader()
    for batch in batches:
        for make in reader.record_builders(batch):
            yield make()


def highest_partitions(record: GroupRecord) -> Iterator[tuple[str, int]]:
    """Yield each topic in a group record, with the highest partition that a member owns or was
    assigned.

    The topic has at least this partition. The number is -1 if members subscribe to the topic
    without getting a partition, and -2 if the record only has subscriptions.
    """
    if record.type in _SUBSCRIBES:
        names = (record.value or {}).get("subscribedTopicNames") or ()
        yield from ((name, _SUBSCRIBED) for name in names)
        return
    if record.type != _CLASSIC:
        yield from assigned_counts(record)
        return
    highest: dict[str, int] = {}
    members = _members_of(record)
    # Before the leader has assigned anything, unassigned partitions say nothing of the topics.
    decided = any(member.assigned for member in members)
    for member in members:
        sent = member.subscription
        for topic in sent.topics if sent is not None and decided else ():
            highest.setdefault(topic, -1)
        for topic, numbers in (*member.assigned, *(sent.owned if sent is not None else ())):
            if numbers and 0 <= max(numbers) < _MOST:
                highest[topic] = max(highest.get(topic, -1), *numbers)
    yield from highest.items()


def assigned_counts(record: GroupRecord) -> Iterator[tuple[str, int]]:
    """Yield each topic in the assignments of a group record, with its highest assigned partition.

    For classic groups, the topic is given by its name. Target assignments of consumer and share
    groups have only the topic's id.
    """
    if record.type in _TARGETS:
        for row in (record.value or {}).get("topicPartitions", ()):
            if row["partitions"] and 0 <= max(row["partitions"]) < _MOST:
                yield row["topicId"], max(row["partitions"])
    for member in _members_of(record) if record.type == _CLASSIC else ():
        for topic, numbers in member.assigned:
            if numbers and 0 <= max(numbers) < _MOST:
                yield topic, max(numbers)


def _members_of(record: GroupRecord) -> tuple[MemberState, ...]:
    """Return the members in a ``GROUP_METADATA`` record of a classic group.

    A deleted group has no members.
    """
    if record.state is not None:
        return record.state.members
    return () if record.value is None else parse_classic_state(record.value).members


_CLASSIC = "GROUP_METADATA"
#: Types of members' metadata: of consumer and share groups.
_SUBSCRIBES = ("CONSUMER_GROUP_MEMBER_METADATA", "SHARE_GROUP_MEMBER_METADATA")
#: Types of members' target assignments: of consumer and share groups.
_TARGETS = (
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER", "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER",
)  # fmt: skip
#: A partition number from here on is damage.
_MOST = MOST_PARTITIONS
