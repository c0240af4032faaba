"""Read one Kafka Streams application from a capture, for `partage streams --from-capture`.

| what           | classic protocol                    | streams protocol (KIP-1071)   |
|----------------|-------------------------------------|-------------------------------|
| sub-topologies | tasks and partitions of assignments | STREAMS_GROUP_TOPOLOGY        |
| changelogs     | topic names and partition counts    | STREAMS_GROUP_TOPOLOGY        |
| clients        | user data of the members            | STREAMS_GROUP_MEMBER_METADATA |
| standbys       | copies in the assignment            | STREAMS_GROUP_METADATA        |
| sizes          | ``topics.parquet``, else offsets    | ``topics.parquet``            |
|                | that clients reported               |                               |

Partition counts and racks are those of ``cluster.jsonl``. Sizes from ``topics.parquet`` are the
bytes of all keys and values in the changelogs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from partage.errors import (
    InvalidCaptureError,
    InvalidConfigError,
    InvalidProblemError,
    UnsupportedProblemError,
    WireFormatError,
)
from partage.history.clusters import ClusterHistory
from partage.history.consumer_groups import topics_of_subtopology
from partage.history.records import ClassicState, parse_classic_state
from partage.history.streams_agreement import counts_of, stateful_tasks
from partage.history.streams_application import (
    STREAMS_PROTOCOL,
    ObservedTopology,
    RecordedStreamsRebalance,
    decode_streams_rebalance,
    observe_topology,
    racks_of,
)
from partage.jobs.replay.capture import files_of, open_records, read_metadata, read_slice
from partage.model import Cluster
from partage.streams.members import StreamsMember
from partage.streams.recorded_application import (
    ChangelogSize,
    RecordedApplication,
    RecordedClient,
    RecordedSubtopology,
    client_name,
    select_typical_state,
)
from partage.streams.task_ids import TaskId
from partage.streams.topology import TopicPartition
from partage.wire.group_log import DecodedRecord, decode_record

__all__ = [
    "ClassicGeneration",
    "StreamsState",
    "TopicSizes",
    "application_of",
    "broker_settings",
    "classic_state",
    "read_streams_application",
    "streams_subtopologies",
    "topic_sizes",
]

_RECORDS, _CONFIG = "topics.parquet", "cluster-config.json"
_COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value")
_AT_ONCE = 1 << 16
#: Versions of the keys of offset commits.
_COMMIT_KEYS = (b"\x00\x00", b"\x00\x01")
#: Settings of the file, from settings of the broker.
_BROKER_SETTINGS = {
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
}
_STANDBYS = "num.standby.replicas"
#: Distributions of changelogs over sub-topologies that are tried at most.
_MOST_DISTRIBUTIONS = 1_024
#: Size and end offset of each partition of a topic.
TopicSizes = dict[TopicPartition, tuple[ChangelogSize, int]]
_OFFSETS_NOTE = (
    "State sizes are the offsets that clients reported as restored, in records: recordBytes is "
    "100, because the capture has no records of the changelogs."
)
_BYTES_NOTE = "State sizes are bytes of the recorded changelogs, replaced records included."
_NO_SIZES_NOTE = (
    "State sizes are not in the capture: write the records of each task into the file (stores, "
    "records), and simulate it."
)
_RATE_NOTE = "The restore rate is not in the capture: each client restores 50 MB/s."


class _Record(NamedTuple):
    """Decoded log record of a Kafka Streams group, with its offset and time."""

    offset: int
    time_ms: int
    decoded: DecodedRecord


@dataclass
class StreamsState:
    """Topology and members of a Kafka Streams application at one time, from its group's records."""

    is_streams_group: bool
    at_ms: int
    subtopologies: tuple[RecordedSubtopology, ...]
    clients: tuple[RecordedClient, ...]
    settings: dict[str, str]
    cluster: Cluster
    sizes: dict[TopicPartition, ChangelogSize] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_streams_application(source: str | Path, application_id: str) -> RecordedApplication:
    """Read a Kafka Streams application (topology, clients, settings, sizes) from a capture.

    Of all recorded states, the newest one with the most common number of clients is used.

    Args:
        source: the folder of a capture with ``cluster.jsonl``.
        application_id: ``application.id``, which is the group's name.

    Raises:
        InvalidCaptureError: the capture cannot be read, or lacks the cluster's metadata.
        InvalidConfigError: it has no Streams group with this id.
        UnsupportedProblemError: the application has named topologies.
    """
    folder = Path(source)
    records, committed = _group_records(folder, application_id)
    states, _, _ = read_metadata(folder)
    if not states:
        what = f"{folder}: has no cluster.jsonl, so partition counts are unknown"
        raise InvalidCaptureError(f"{what}; record it with partage capture")
    clusters = ClusterHistory(states)
    logs = topic_sizes(folder)
    found = _state_of_streams_group(records, clusters, folder) or _state_of_classic_group(
        records, clusters, application_id, logs
    )
    if found is None:
        what = "the capture has no Streams group with this name and members"
        raise InvalidConfigError("application_id", what, application_id)
    return application_of(application_id, found, logs, _source_lag(found, logs, committed))


def application_of(
    application_id: str,
    recorded_state: StreamsState,
    logs: TopicSizes,
    source_lag: int | None = None,
) -> RecordedApplication:
    """Describe a Kafka Streams application: its recorded state, with the sizes of its changelogs.

    Args:
        application_id: its ``application.id``.
        recorded_state: its topology and members; warnings about sizes are added to it.
        logs: size and end offset of each partition of recorded topics; empty if none is recorded.
        source_lag: number of records of its source topics that it has not read; None if unknown.
    """
    changelogs = {topic for one in recorded_state.subtopologies for topic in one.changelogs}
    sizes = {place: one for place, (one, _) in logs.items() if place[0] in changelogs}
    if sizes:
        recorded_state.notes.append(_BYTES_NOTE)
    elif recorded_state.sizes:
        sizes = recorded_state.sizes
        recorded_state.notes.append(_OFFSETS_NOTE)
    elif changelogs:
        recorded_state.notes.append(_NO_SIZES_NOTE)
    recorded_state.notes.append(_RATE_NOTE)
    return RecordedApplication(
        application_id, recorded_state.is_streams_group, recorded_state.at_ms,
        recorded_state.subtopologies, recorded_state.clients,
        sizes, recorded_state.settings, _replica_racks(recorded_state), source_lag,
        tuple(recorded_state.notes),
    )  # fmt: skip


# -- records of the group ----------------------------------------------------------------------


def _group_records(folder: Path, group: str) -> tuple[list[_Record], dict[TopicPartition, int]]:
    """Read the records of one group from a capture, in log order, and its last committed offsets.

    Records that cannot be decoded are left out. ``folder`` is the folder of the capture.
    """
    from pyarrow import compute as pc

    found: list[_Record] = []
    # A group's commits of one partition have one key; only the last one is decoded.
    commits: dict[bytes, tuple[int, bytes | None]] = {}
    for piece in open_records(folder):
        for table in read_slice(piece):
            rows = table.filter(pc.fill_null(pc.match_substring(table["key"], group), False))
            for row in rows.to_pylist():
                key, value, offset = row["key"], row["value"], row["offset"]
                if key[:2] in _COMMIT_KEYS:
                    newest = commits.get(key, (-1, None))
                    commits[key] = max(newest, (offset, value), key=itemgetter(0))
                elif (one := _decode_group_record(key, value, group)) is not None:
                    found.append(_Record(offset, row["timestamp_ms"], one))
    found.sort(key=lambda one: one.offset)
    committed: dict[TopicPartition, int] = {}
    for key, (_, value) in commits.items():
        one = _decode_group_record(key, value, group)
        if one is not None and one.value is not None:
            committed[one.key["topic"], one.key["partition"]] = one.value["offset"]
    return found, committed


def _decode_group_record(key: bytes, value: bytes | None, group: str) -> DecodedRecord | None:
    """Decode a ``__consumer_offsets`` record; return None if it is damaged or of another group."""
    try:
        found = decode_record(key, value)
    except WireFormatError:
        return None
    return found if found.key.get("group", found.key.get("groupId")) == group else None


# -- streams protocol --------------------------------------------------------------------------


@dataclass
class _StreamsMembers:
    """Members of a streams group (KIP-1071) at one time, with the tasks that they were assigned."""

    at_ms: int
    members: dict[str, Mapping[str, Any]]
    assigned: dict[str, Mapping[str, Any]]

    @property
    def members_by_process(self) -> dict[str, list[str]]:
        """Member ids by process id; a Kafka Streams process has one member per stream thread."""
        found: dict[str, list[str]] = {}
        for member, value in self.members.items():
            found.setdefault(value["processId"], []).append(member)
        return found


def _state_of_streams_group(
    records: Sequence[_Record], clusters: ClusterHistory, folder: Path
) -> StreamsState | None:
    """Derive a Kafka Streams application's topology and members from its streams group's records.

    The result is None if the topology or the members are unknown.
    """
    topology: Mapping[str, Any] | None = None
    settings: dict[str, str] = {}
    now = _StreamsMembers(0, {}, {})
    states: list[tuple[int, int, int, _StreamsMembers]] = []

    def add(end_ms: int) -> None:
        if now.members:
            state = _StreamsMembers(now.at_ms, dict(now.members), dict(now.assigned))
            states.append((now.at_ms, end_ms, len(state.members_by_process), state))

    for _, time_ms, one in records:
        if one.type == "STREAMS_GROUP_TOPOLOGY" and one.value is not None:
            topology = one.value
        elif one.type == "STREAMS_GROUP_METADATA" and one.value is not None:
            rows = one.value.get("lastAssignmentConfigs") or ()
            settings = {row["key"]: row["value"] for row in rows}
        elif one.type == "STREAMS_GROUP_MEMBER_METADATA":
            add(time_ms)
            now.at_ms = time_ms
            _store_by_member(now.members, one)
        elif one.type == "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT":
            _store_by_member(now.assigned, one)
    if records:
        add(records[-1].time_ms)
    if topology is None or not states:
        return None
    chosen = select_typical_state(states)
    cluster = clusters.cluster_at(chosen.at_ms)
    application = str(records[0].decoded.key["groupId"])
    notes = ["The lag of standbys is not in the records of a streams group."]
    return StreamsState(
        True, chosen.at_ms, streams_subtopologies(topology, cluster),
        _streams_clients(application, chosen),
        {**broker_settings(folder), _STANDBYS: settings.get(_STANDBYS, "0")}, cluster,
        notes=notes,
    )  # fmt: skip


def streams_subtopologies(
    topology: Mapping[str, Any], cluster: Cluster
) -> tuple[RecordedSubtopology, ...]:
    """Return the sub-topologies of a streams group (KIP-1071), from its recorded topology.

    Source topics that the cluster does not have are left out.
    """
    return tuple(
        RecordedSubtopology(
            int(row["subtopologyId"]),
            {
                topic: count
                for topic in topics_of_subtopology(row)
                if (count := _partition_count(cluster, topic))
            },
            tuple(row["repartitionSinkTopics"]),
            tuple(topic["name"] for topic in row["stateChangelogTopics"] or ()),
        )
        for row in sorted(topology["subtopologies"], key=lambda row: int(row["subtopologyId"]))
    )


def _store_by_member(value_by_member: dict[str, Mapping[str, Any]], record: DecodedRecord) -> None:
    """Store a record's value in the dict ``value_by_member``, under the member id in its key.

    A record without a value (a tombstone) removes the member.
    """
    if record.value is None:
        value_by_member.pop(record.key["memberId"], None)
    else:
        value_by_member[record.key["memberId"]] = record.value


def _partition_count(cluster: Cluster, topic: str) -> int:
    """Return the number of partitions of a topic; 0 if the cluster has no such topic."""
    return len(cluster.partitions_of(topic)) if cluster.topic(topic) >= 0 else 0


def _streams_clients(application: str, found: _StreamsMembers) -> tuple[RecordedClient, ...]:
    clients: dict[str, RecordedClient] = {}
    for process, members in found.members_by_process.items():
        first = found.members[members[0]]
        assigned = [found.assigned[one] for one in members if one in found.assigned]
        name = client_name(application, first["clientId"], clients)
        clients[name] = RecordedClient(
            name, process, len(members), first["rackId"],
            {row["key"]: row["value"] for row in first["clientTags"] or ()},
            _list_task_ids(assigned, "activeTasks"), _list_task_ids(assigned, "standbyTasks"),
        )  # fmt: skip
    return tuple(clients.values())


def _list_task_ids(assigned: Iterable[Mapping[str, Any]], kind: str) -> tuple[str, ...]:
    """Return the ids of the Kafka Streams tasks that members were assigned, such as ``0_1``.

    ``kind`` is the field of the assignment to read, for example ``standbyTasks``.
    """
    rows = [row for value in assigned for row in value[kind] or ()]
    return tuple(f"{row['subtopologyId']}_{p}" for row in rows for p in row["partitions"])


def broker_settings(folder: Path) -> dict[str, str]:
    """Read the broker's settings for streams groups from a capture; empty if it has no settings.

    Raises:
        InvalidCaptureError: the file cannot be read.
    """
    path = folder / _CONFIG
    if not path.is_file():
        return {}
    try:
        configs = json.loads(path.read_bytes())["configs"]
        return {
            name: str(configs[broker])
            for name, broker in _BROKER_SETTINGS.items() if broker in configs
        }  # fmt: skip
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        what = f"{path}: cannot be read ({type(e).__name__})"
        raise InvalidCaptureError(f"{what}; record it again, or remove the file") from None


# -- classic protocol --------------------------------------------------------------------------


class ClassicGeneration(NamedTuple):
    """Generation of a classic Kafka Streams group: its members with decoded user data."""

    at_ms: int
    state: ClassicState
    rebalance: RecordedStreamsRebalance


def _state_of_classic_group(
    records: Sequence[_Record], clusters: ClusterHistory, application: str, logs: TopicSizes
) -> StreamsState | None:
    """Derive the state of a Kafka Streams application from the records of its classic group.

    Return None if no generation can be decoded. ``logs`` has the sizes of recorded topics.

    Raises:
        UnsupportedProblemError: the application has named topologies.
    """
    generations = list(_decode_generations(records))
    if not generations:
        return None
    return classic_state(generations, records[-1].time_ms, clusters, application, logs)


def classic_state(
    generations: Sequence[ClassicGeneration],
    end_ms: int,
    clusters: ClusterHistory,
    application: str,
    logs: TopicSizes,
) -> StreamsState:
    """Derive a Kafka Streams application's state from its classic group's generations.

    Args:
        generations: recorded generations, at least one, in order.
        end_ms: time until which the last generation lasted.
        clusters: the cluster metadata over time.
        application: its ``application.id``.
        logs: size and end offset of each partition of recorded topics.

    Raises:
        InvalidCaptureError: the record of a generation contradicts itself.
        UnsupportedProblemError: the application has named topologies.
    """
    ends = [*(one.at_ms for one in generations[1:]), end_ms]
    chosen = select_typical_state(
        (one.at_ms, end, len({member.process for member in one.rebalance.members}), one)
        for one, end in zip(generations, ends, strict=True)
    )
    try:
        seen = observe_topology([one.rebalance for one in reversed(generations)])
    except WireFormatError as e:
        raise InvalidCaptureError(f"group {application}: {e}") from None
    if any(name is not None for _, name in seen.sources):
        what = f"{application}: has named topologies, which the file cannot describe"
        raise UnsupportedProblemError(what)
    cluster = clusters.cluster_at(chosen.at_ms)
    counts = counts_of(seen, cluster)
    changelogs, notes = _guess_changelogs(seen, cluster, counts, application, logs)
    subtopologies = tuple(
        RecordedSubtopology(
            number, {topic: counts[topic] for topic in sorted(topics)},
            changelogs=changelogs.get(number, ()),
        )
        for (number, _), topics in sorted(seen.sources.items(), key=lambda item: item[0][0])
    )  # fmt: skip
    tasks = stateful_tasks(seen, seen.stateful, counts)
    copies = Counter(chosen.rebalance.standby_counts()[task] for task in tasks)
    standbys = copies.most_common(1)[0][0] if copies else 0
    notes.append(
        f"{_STANDBYS}={standbys} is the number of copies in the recorded assignment; other "
        "settings of the application are not in the log."
    )
    session = max((one.session_timeout_ms for one in chosen.state.members), default=0)
    settings = {_STANDBYS: str(standbys)}
    if session > 0:
        settings["session.timeout.ms"] = str(session)
    return StreamsState(
        False, chosen.at_ms, subtopologies, _classic_clients(application, chosen, seen), settings,
        cluster, _estimate_reported_sizes(seen, generations, subtopologies, notes), notes,
    )  # fmt: skip


def _decode_generations(records: Iterable[_Record]) -> Iterator[ClassicGeneration]:
    """Yield the generations of a classic Streams group whose members' user data can be decoded."""
    for _, time_ms, one in records:
        if one.type != "GROUP_METADATA" or one.value is None:
            continue
        if one.value["protocol"] != STREAMS_PROTOCOL or not one.value["members"]:
            continue
        state = parse_classic_state(one.value)
        try:
            yield ClassicGeneration(time_ms, state, decode_streams_rebalance(state))
        except (WireFormatError, InvalidProblemError):
            continue


def _guess_changelogs(
    observed: ObservedTopology,
    cluster: Cluster,
    counts: Mapping[str, int],
    application: str,
    logs: TopicSizes,
) -> tuple[dict[int, tuple[str, ...]], list[str]]:
    """Guess which changelog topics belong to each stateful sub-topology of a Streams application.

    No record says this. Return the topics by sub-topology number, and warnings for the user.

    Args:
        observed: sources and stateful sub-topologies that were observed.
        cluster: the cluster metadata.
        counts: partition counts by topic.
        application: the application id, which changelog names begin with.
        logs: sizes and end offsets of recorded topics.
    """
    # A changelog has as many partitions as its sub-topology has tasks. If this fits several sub-
    # topologies, the choice is the one whose sums of end offsets are closest to those that clients
    # reported.
    tasks = {key[0]: max(counts[t] for t in observed.sources[key]) for key in observed.stateful}
    names = sorted(
        topic for t, topic in enumerate(cluster.index.topics)
        if cluster.topic_exists[t] and topic.startswith(f"{application}-")
        and topic.endswith("-changelog")
    )  # fmt: skip
    fitting = [
        [number for number in sorted(tasks) if tasks[number] == _partition_count(cluster, name)]
        for name in names
    ]
    placed = [(name, numbers) for name, numbers in zip(names, fitting, strict=True) if numbers]
    best: dict[int, tuple[str, ...]] = {}
    least: tuple[int, int] | None = None
    for choice in islice(product(*(numbers for _, numbers in placed)), _MOST_DISTRIBUTIONS):
        found: dict[int, tuple[str, ...]] = dict.fromkeys(tasks, ())
        for (name, _), number in zip(placed, choice, strict=True):
            found[number] = (*found[number], name)
        empty = sum(not of_number for of_number in found.values())
        distance = sum(
            abs(total - sum(logs[log, task.partition][1] for log in found.get(task.subtopology, ())
                            if (log, task.partition) in logs))
            for task, total in observed.ends.items() if total > 0
        )  # fmt: skip
        if least is None or (empty, distance) < least:
            least, best = (empty, distance), found
    notes = []
    guessed = [name for name, numbers in placed if len(numbers) > 1]
    if guessed:
        how = "best fits the reported offsets" if logs else "is a guess, because several fit"
        notes.append(f"The sub-topology of {', '.join(guessed)} {how}.")
    return {
        number: best.get(number, ()) or (f"{application}-state-{number}-changelog",)
        for number in sorted(tasks)
    }, notes


def _classic_clients(
    application: str, chosen: ClassicGeneration, seen: ObservedTopology
) -> tuple[RecordedClient, ...]:
    client_ids = {one.id: one.client_id for one in chosen.state.members}
    by_process: dict[str, list[StreamsMember]] = {}
    for member in chosen.rebalance.members:
        by_process.setdefault(str(member.process), []).append(member)
    clients: dict[str, RecordedClient] = {}
    for process, members in by_process.items():
        infos = [chosen.rebalance.infos[m.id] for m in members if m.id in chosen.rebalance.infos]
        active = [TaskId(*task) for info in infos for task in info.active]
        standby = [TaskId(*task) for info in infos for task in info.standby_tasks()]
        reported = {task: total for m in members for task, total in m.offset_sums.items()}
        name = client_name(application, client_ids[members[0].id], clients)
        clients[name] = RecordedClient(
            name, process, len(members), members[0].rack, dict(members[0].tags),
            tuple(map(str, sorted(set(active)))), tuple(map(str, sorted(set(standby)))),
            {
                str(task): max(0, seen.ends.get(task, 0) - total)
                for task, total in sorted(reported.items())
                if total >= 0 and task not in active
            },
        )  # fmt: skip
    return tuple(clients.values())


def _estimate_reported_sizes(
    observed: ObservedTopology,
    generations: Sequence[ClassicGeneration],
    subtopologies: Iterable[RecordedSubtopology],
    notes: list[str],
) -> dict[TopicPartition, ChangelogSize]:
    """Estimate changelog sizes (numbers of records) from offset sums that Streams clients reported.

    An offset sum is the number of a task's changelog records that a client has restored (KIP-441).
    The largest one counts. Warnings for the user are added to ``notes``.
    """
    # It is given to the first changelog of the sub-topology, because a sum is not divided by
    # changelog. A task without a report gets the mean size of its sub-topology's other tasks.
    times: dict[TaskId, list[tuple[int, int]]] = {}
    for one in generations:
        for member in one.rebalance.members:
            for task, total in member.offset_sums.items():
                if total >= 0:
                    times.setdefault(task, []).append((one.at_ms, total))
    sizes: dict[TopicPartition, ChangelogSize] = {}
    missing = 0
    for sub in subtopologies:
        ends = {
            p: observed.ends[task] for p in range(sub.task_count)
            if (task := TaskId(sub.number, p)) in times
        }  # fmt: skip
        if not ends or not sub.changelogs:
            continue
        mean = round(sum(ends.values()) / len(ends))
        missing += sub.task_count - len(ends)
        for p in range(sub.task_count):
            rate = _estimate_growth(times.get(TaskId(sub.number, p), []))
            sizes[sub.changelogs[0], p] = ChangelogSize(ends.get(p, mean), None, rate)
    if missing:
        notes.append(f"{missing} tasks have the mean size of the others: no client reported them.")
    return sizes


def _estimate_growth(reports: Sequence[tuple[int, int]]) -> float:
    """Return how fast the changelog of a Streams task grew, in records per second.

    ``reports`` has (time in ms, number of records) pairs, as clients reported them.

    >>> _estimate_growth([(0, 100), (5_000, 90), (10_000, 150)])
    5.0
    """
    if len(reports) < 2:
        return 0.0
    (first_ms, first), (last_ms, last) = reports[0], reports[-1]
    return max(0, last - first) * 1_000 / (last_ms - first_ms) if last_ms > first_ms else 0.0


# -- topics ------------------------------------------------------------------------------------


def topic_sizes(folder: Path, suffix: str = "") -> TopicSizes:
    """Return the size and the end offset of each topic partition, from a capture.

    They come from ``topics.parquet`` ({} if missing), for topics whose names end with ``suffix``.

    Raises:
        InvalidCaptureError: ``topics.parquet`` cannot be read.
    """
    import pyarrow as pa
    from pyarrow import compute as pc
    from pyarrow import parquet

    path = folder / _RECORDS
    if not path.exists():
        return {}
    sums: dict[TopicPartition, list[int]] = {}
    try:
        for file in files_of(path):
            with parquet.ParquetFile(file) as opened:
                for batch in opened.iter_batches(_AT_ONCE, columns=list(_COLUMNS)):
                    rows = pa.Table.from_batches([batch])
                    wanted = pc.ends_with(pc.cast(rows["topic"], pa.string()), pattern=suffix)
                    _add_sizes(sums, rows.filter(wanted) if suffix else rows)
    except (pa.ArrowException, OSError, KeyError) as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InvalidCaptureError(f"{path}: cannot be read ({reason}); record it again") from None
    found = {}
    for place, (records, size, first_ms, last_ms, end) in sums.items():
        rate = records * 1_000 / (last_ms - first_ms) if last_ms > first_ms else 0.0
        found[place] = ChangelogSize(records, size, rate), end
    return found


def _add_sizes(sums: dict[TopicPartition, list[int]], rows: Any) -> None:
    """Add a table of topic records to the sizes of their partitions, in place.

    ``sums`` is a dict from partition to records, bytes, first and last time, and end offset.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    lengths = [pc.fill_null(pc.binary_length(rows[name]), 0) for name in ("key", "value")]
    size = pc.add(*(pc.cast(one, pa.int64()) for one in lengths))
    table = rows.select(["topic", "partition", "offset", "timestamp_ms"])
    grouped = table.append_column("bytes", size).group_by(["topic", "partition"])
    for row in grouped.aggregate([
        ("bytes", "count"), ("bytes", "sum"), ("timestamp_ms", "min"), ("timestamp_ms", "max"),
        ("offset", "max"),
    ]).to_pylist():  # fmt: skip
        place = (row["topic"], row["partition"])
        known = sums.setdefault(place, [0, 0, row["timestamp_ms_min"], row["timestamp_ms_max"], 0])
        known[0] += row["bytes_count"]
        known[1] += row["bytes_sum"]
        known[2] = min(known[2], row["timestamp_ms_min"])
        known[3] = max(known[3], row["timestamp_ms_max"])
        known[4] = max(known[4], row["offset_max"] + 1)


def _source_lag(
    application: StreamsState, logs: TopicSizes, committed: Mapping[TopicPartition, int]
) -> int | None:
    """Return how many records of its source topics a Streams application has not read yet.

    The lag is the end offset minus the committed offset, summed over partitions. The result is None
    if no end offset is known. ``logs`` has the end offsets.
    """
    places = [
        (topic, p) for one in application.subtopologies for topic, count in one.sources.items()
        for p in range(count)
    ]  # fmt: skip
    known = [(place, *logs[place]) for place in places if place in logs]
    if not known:
        return None
    return sum(max(0, end - committed.get(place, end - size.records)) for place, size, end in known)


def _replica_racks(application: StreamsState) -> dict[str, list[list[str]]]:
    """Return the racks of the replicas of each partition, as a dict from topic to lists of racks.

    A topic is left out if the rack of one of its replicas is unknown.
    """
    counts = {t: n for one in application.subtopologies for t, n in one.sources.items()}
    counts |= {log: one.task_count for one in application.subtopologies for log in one.changelogs}
    known = racks_of(application.cluster, counts)
    return {
        topic: [sorted(known[topic, p]) for p in range(count)]
        for topic, count in counts.items()
        if all((topic, p) in known for p in range(count))
    }
