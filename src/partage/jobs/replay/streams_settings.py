"""Recorded Kafka Streams groups under other settings: rows of table ``streams_settings``.

The group's rebalances show when its clients started and stopped (`record_trace`), its topology and
its state. This trace is simulated with the present settings and with others. The first row of a
group has the log's own figures, so that the error of the simulation can be seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from partage.errors import PartageError
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.stop_model import UnreadInterval, heartbeat_interval
from partage.history.streams_application import STREAMS_PROTOCOL, decode_streams_rebalance
from partage.jobs.replay.capture import files_of
from partage.jobs.streams_capture import (
    ClassicGeneration,
    StreamsState,
    TopicSizes,
    application_of,
    broker_settings,
    classic_state,
    streams_subtopologies,
    topic_sizes,
)
from partage.model import Cluster
from partage.simulation.recorded_rebalances import RecordedRebalance, session_timeout_ms
from partage.simulation.streams import SimulatedApplication, SweepCell, read_application
from partage.simulation.streams.recorded_trace import (
    ClientThread,
    RecordedChange,
    RecordedTrace,
    apply_trace,
    record_trace,
)
from partage.simulation.streams.sweep import settings_outcome, settings_to_compare
from partage.streams.assignment_configs import LONG_MAX, AssignmentConfigs
from partage.streams.recorded_application import (
    RecordedApplication,
    RecordedClient,
    RecordedSubtopology,
    client_name,
    describe_application,
)
from partage.streams.task_ids import ProcessId, TaskId
from partage.tables.statuses import RECORDED

__all__ = [
    "TAIL_MS",
    "StreamsInputs",
    "has_streams",
    "is_streams",
    "observed_settings",
    "read_streams_inputs",
    "streams_inputs_digest",
    "streams_settings_rows",
]

#: Starts and stops of clients that are simulated at most; the newest count.
_MOST_EVENTS = 60
#: Threads times tasks times events times simulated settings, as far as a group is simulated.
_MOST_WORK = 40_000_000
#: Simulated times of the trace within a heartbeat interval, and events from which on one suffices.
_PHASES, _MANY_EVENTS = 5, 20
#: Time that is simulated after the last recorded rebalance, beside a session timeout (ms). Cluster
#: metadata of this time counts, too.
TAIL_MS = 60_000
_STANDBYS, _HEARTBEAT = "num.standby.replicas", "heartbeat.interval.ms"
_LAG, _WARMUPS = "acceptable.recovery.lag", "max.warmup.replicas"
_PROBING = "probing.rebalance.interval.ms"
#: Process id of a member that the record lacks.
_NOBODY = ProcessId(-1, -1)
_SERVER_SESSION, _SERVER_SESSION_MS = "streams.session.timeout.ms", 45_000
#: Kinds of causes: a departure of unknown kind, and a session timeout.
_DEPARTURE, _EXPIRY = "departure", "expiry"
#: Version of the user data -> assignor of the members' release, the newest first.
_ASSIGNORS = (
    (7, "streams:high-availability"), (3, "streams:legacy-sticky"), (0, "streams:0.11"),
)  # fmt: skip


@dataclass(frozen=True)
class StreamsInputs:
    """Changelog sizes and broker settings, which simulations of Kafka Streams groups need.

    The log of the group lacks them; they come from the capture.

    Attributes:
        groups: names of the groups that are Streams applications.
        sizes: size and end offset of each partition of a changelog; empty if none is recorded.
        settings: the broker's settings of streams groups, by the names of `partage streams`.
        digest: digest of sizes and settings (`streams_inputs_digest`).
    """

    groups: frozenset[str] = frozenset()
    sizes: TopicSizes = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""


def read_streams_inputs(folder: str | Path, totals: Iterable[str]) -> StreamsInputs:
    """Read the changelog sizes and broker settings of a run's Streams applications from a capture.

    Args:
        folder: the folder of the capture, or a file in it.
        totals: JSON text of each group's totals (`GroupTotals.to_summary`).

    Raises:
        InvalidCaptureError: ``topics.parquet`` or ``cluster-config.json`` cannot be read.
    """
    found = [json.loads(text) for text in totals]
    names = frozenset(one["group"] for one in found if has_streams(one))
    if not names:
        return StreamsInputs()
    at = Path(folder)
    inside = at if at.is_dir() else at.parent
    sizes = topic_sizes(inside, suffix="-changelog")
    return StreamsInputs(names, sizes, broker_settings(inside), streams_inputs_digest(folder))


def has_streams(totals: Mapping[str, Any]) -> bool:
    """Return whether a consumer group was a Kafka Streams application.

    ``totals`` is the dict of its totals (`GroupTotals.to_summary`).
    """
    return "streams" in totals["kind"].split("+") or STREAMS_PROTOCOL in totals["claimed"]


def streams_inputs_digest(folder: str | Path) -> str:
    """Return a digest of the broker settings and topic files that Streams simulations read.

    If it changes, stored rows of table ``streams_settings`` are computed again. ``folder`` is the
    folder of the capture.
    """
    at = Path(folder)
    inside = at if at.is_dir() else at.parent
    parts: list[object] = [sorted(broker_settings(inside).items())]
    topics = inside / "topics.parquet"
    if topics.exists():
        for path in files_of(topics):
            stat = path.stat()
            parts.append((path.name, stat.st_size, stat.st_mtime_ns))
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def is_streams(generation: Generation) -> bool:
    """Return whether a recorded generation belongs to a Kafka Streams application.

    This is so for a streams group (KIP-1071), and for a classic group with the protocol ``stream``.
    """
    if generation.protocol == "streams":
        return True
    return generation.protocol == "classic" and generation.first.strategy == STREAMS_PROTOCOL


def streams_settings_rows(
    group: str,
    rebalances: Iterable[RecordedRebalance],
    clusters: ClusterHistory,
    capture_data: StreamsInputs,
    from_ms: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield rows with the outages of a Kafka Streams application under several settings.

    The first row has the recorded outages. The others are simulations, first with the present
    settings.

    Args:
        group: name of the group.
        rebalances: its recorded rebalances in order.
        clusters: the cluster metadata over time.
        capture_data: sizes of changelogs, and the broker's settings.
        from_ms: time of the first rebalance to use; None for all.
    """
    mine = _select_newest_rebalances(rebalances, from_ms)
    if not mine:
        return
    newest = mine[-1].generation
    head: dict[str, Any] = {"group": group, "incarnation": newest.incarnation}
    try:
        found = _describe_application(group, mine, clusters, capture_data)
    except PartageError as e:
        yield {**head, **_row_without_result(str(e))}
        return
    if found is None:
        yield {**head, **_row_without_result("the log lacks its topology, or its members")}
        return
    application, trace = found.application, found.trace
    head |= {
        "from_ms": trace.from_ms, "to_ms": trace.to_ms, "events": len(trace.events),
        "clients": len(trace.clients), "tasks": len(application.layout.partitions_of),
        "standbys": application.settings.num_standby_replicas,
        "unit": _unit_of_sizes(found.described),
    }  # fmt: skip
    yield {**head, **_build_recorded_row(mine, found.described, trace, newest.protocol)}
    cells = settings_to_compare(application, found.assignor, has_racks=_has_racks(found.described))
    for position, cell in enumerate(cells, 1):
        yield {**head, "position": position, **_simulate_row(application, cell, head["unit"])}


class _DescribedApplication(NamedTuple):
    """Kafka Streams application as recorded, ready to be simulated with its clients' starts and
    stops.

    Attributes:
        described: the application as the log shows it.
        application: the same application with its trace.
        trace: starts and stops of the clients.
        assignor: name of its task assignor.
    """

    described: RecordedApplication
    application: SimulatedApplication
    trace: RecordedTrace
    assignor: str


def _describe_application(
    group: str,
    rebalances: Sequence[RecordedRebalance],
    clusters: ClusterHistory,
    capture_data: StreamsInputs,
) -> _DescribedApplication | None:
    """Derive a Kafka Streams application from recorded rebalances, so that it can be simulated.

    The result is None if the records do not suffice, for example without its topology.

    Args:
        group: name of the group.
        rebalances: its recorded rebalances in order.
        clusters: the cluster metadata over time.
        capture_data: sizes of changelogs, and the broker's settings.

    Raises:
        PartageError: it cannot be described.
    """
    if not rebalances:
        return None
    is_server = rebalances[-1].generation.protocol == "streams"
    make = _describe_streams_group if is_server else _describe_classic_group
    found = make(group, rebalances, clusters, capture_data)
    if found is None:
        return None
    described, changes, assignor = found
    application = read_application(describe_application(described))
    trace = _derive_trace(group, changes, application, is_server=is_server)
    return _DescribedApplication(described, apply_trace(application, trace), trace, assignor)


def _select_newest_rebalances(
    rebalances: Iterable[RecordedRebalance], from_ms: int | None
) -> list[RecordedRebalance]:
    """Return the newest consecutive rebalances in which a Streams application kept its protocol.

    The protocol is classic or streams. Rebalances without members are included, because all clients
    may stop for a while. ``from_ms`` is the time of the first rebalance to use; None for all.
    """
    found: list[RecordedRebalance] = []
    for one in rebalances:
        generation = one.generation
        if from_ms is not None and generation.timestamp_ms < from_ms:
            continue
        if found and (
            generation.incarnation != found[-1].generation.incarnation
            or generation.protocol != found[-1].generation.protocol
        ):
            found = []
        if is_streams(generation) or (found and not generation.first.members):
            found.append(one)
        elif generation.first.members:
            found = []
    return found


def _derive_trace(
    group: str,
    changes: Sequence[RecordedChange],
    application: SimulatedApplication,
    *,
    is_server: bool,
) -> RecordedTrace:
    """Return when the clients of a Kafka Streams application started and stopped, as a trace.

    A long trace is cut to its newest events, so that it is fast to simulate.

    Args:
        group: name of the group.
        changes: its rebalances in order.
        application: the application.
        is_server: whether it uses the streams protocol (KIP-1071).
    """
    runtime = application.runtime
    session_ms = runtime.streams_session_timeout_ms if is_server else runtime.session_timeout_ms
    threads = max(sum(map(len, one.clients.values())) for one in changes)
    work = max(1, threads * len(application.layout.partitions_of))
    return record_trace(
        group, changes, changes[-1].at_ms + session_ms + TAIL_MS,
        heartbeat_ms=runtime.heartbeat_interval_ms, is_streams_group=is_server,
        most_events=max(1, min(_MOST_EVENTS, _MOST_WORK // (16 * work))),
    )  # fmt: skip


def _find_stops(
    rebalance: RecordedRebalance, session_ms: int | None = None
) -> dict[str, tuple[int, bool]]:
    """Return when each member that left before a rebalance stopped, and whether it timed out.

    Kafka Streams sends no LeaveGroup by default. So a departure without another explanation counts
    as a session timeout. The result is a dict from member id to (time in ms, flag).

    Args:
        rebalance: the rebalance.
        session_ms: the broker's session timeout of streams groups, whose members send none; None
            for a classic group.
    """
    unexplained = {
        cause.member for cause in rebalance.generation.causes
        if cause.kind == _DEPARTURE and cause.other == _EXPIRY
    }  # fmt: skip
    found = {}
    for one in rebalance.departures:
        expired, stop_ms = one.expired, one.gone_ms
        if one.member.id in unexplained:
            expired = True
        if expired and (session_ms is not None or not one.expired):
            timeout_ms = session_timeout_ms(one.member) if session_ms is None else session_ms
            stop_ms = rebalance.generation.timestamp_ms - timeout_ms
        found[one.member.id] = (stop_ms, expired)
    return found


# -- applications in classic groups ----------------------------------------------------------------

_Found = tuple[RecordedApplication, list[RecordedChange], str]


def _describe_classic_group(
    group: str,
    rebalances: Sequence[RecordedRebalance],
    clusters: ClusterHistory,
    capture_data: StreamsInputs,
) -> _Found | None:
    """Describe a recorded Kafka Streams application that uses the classic protocol.

    Return its description, its rebalances and its task assignor; None if no generation has members.
    ``capture_data`` has changelog sizes and settings.

    Raises:
        PartageError: the user data of a member cannot be decoded, or the application cannot be
            described.
    """
    generations: list[ClassicGeneration] = []
    changes: list[RecordedChange] = []
    for one in rebalances:
        state, at_ms = one.generation.first, one.generation.timestamp_ms
        clients: dict[ProcessId, tuple[ClientThread, ...]] = {}
        if state.members:
            decoded = decode_streams_rebalance(state)
            generations.append(ClassicGeneration(at_ms, state, decoded))
            client_ids = {member.id: member.client_id for member in state.members}
            for member in decoded.members:
                thread = ClientThread(member.id, client_ids[member.id], member.rack, member.tags)
                clients[member.process] = (*clients.get(member.process, ()), thread)
        changes.append(RecordedChange(at_ms, clients, _find_stops(one)))
    if not generations:
        return None
    state_of_group = classic_state(
        generations, changes[-1].at_ms + TAIL_MS, clusters, group, capture_data.sizes
    )
    members = generations[-1].state.members
    session_ms = max(map(session_timeout_ms, members))
    state_of_group.settings |= {
        **capture_data.settings, _HEARTBEAT: str(int(heartbeat_interval(session_ms))),
    }  # fmt: skip
    state_of_group.settings |= observed_settings(generations, state_of_group.settings)
    version = max(member.version for member in generations[-1].rebalance.members)
    assignor = next(name for least, name in _ASSIGNORS if version >= least)
    return application_of(group, state_of_group, capture_data.sizes), changes, assignor


def observed_settings(
    generations: Sequence[ClassicGeneration], settings: Mapping[str, str]
) -> dict[str, str]:
    """Infer settings of the Streams task assignor from recorded generations.

    The result is a dict by Kafka's names. ``settings`` are other known settings. A setting that no
    assignment shows keeps Kafka's default.

    * A leader sends the time of the next probing rebalance, which gives the interval.
    * A task with more copies than standbys has warm-ups. Their clients lagged by more than
      ``acceptable.recovery.lag``, and there were no more than ``max.warmup.replicas``.
    """
    standbys = int(settings[_STANDBYS])
    ends: dict[TaskId, int] = {}
    acceptable, warmups = AssignmentConfigs.acceptable_recovery_lag, 0
    probing: list[int] = []
    for one in generations:
        reported: dict[TaskId, dict[ProcessId, int]] = {}
        for member in one.rebalance.members:
            for task, total in member.offset_sums.items():
                ends[task] = max(ends.get(task, 0), total)
                reported.setdefault(task, {})[member.process] = total
        process_of = {member.id: member.process for member in one.rebalance.members}
        copies: dict[TaskId, list[int]] = {}
        for name, info in one.rebalance.infos.items():
            if 0 < info.next_rebalance_ms < LONG_MAX:
                probing.append(info.next_rebalance_ms - one.at_ms)
            for task in (TaskId(*each) for each in info.standby):
                total = reported.get(task, {}).get(process_of.get(name, _NOBODY), 0)
                copies.setdefault(task, []).append(ends.get(task, 0) - max(0, total))
        extra = {task: sorted(lags)[standbys:] for task, lags in copies.items()}
        warmups = max(warmups, sum(map(len, extra.values())))
        beyond = [lag for lags in extra.values() for lag in lags if lag > 0]
        acceptable = min([acceptable, *(lag - 1 for lag in beyond)])
    found = {_LAG: str(acceptable)}
    if warmups > AssignmentConfigs.max_warmup_replicas:
        found[_WARMUPS] = str(warmups)
    if probing:
        seconds = max(60, round(median(probing) / 1_000))
        found[_PROBING] = str(1_000 * seconds)
    return found


# -- streams groups --------------------------------------------------------------------------------


def _describe_streams_group(
    group: str,
    rebalances: Sequence[RecordedRebalance],
    clusters: ClusterHistory,
    capture_data: StreamsInputs,
) -> _Found | None:
    """Describe a recorded Kafka Streams application that uses the streams protocol (KIP-1071).

    Return its description, its rebalances and its task assignor. The result is None if the log
    lacks its topology or its members' process ids. ``capture_data`` has changelog sizes and broker
    settings.

    Raises:
        PartageError: the process id of a member is malformed.
    """
    changes: list[RecordedChange] = []
    topology: Mapping[str, Any] | None = None
    settings: Mapping[str, str] = {}
    session_ms = int(capture_data.settings.get(_SERVER_SESSION, _SERVER_SESSION_MS))
    for one in rebalances:
        target = one.generation.target
        known = None if target is None else target.streams
        clients: dict[ProcessId, tuple[ClientThread, ...]] = {}
        if known is not None:
            topology, settings = known.topology or topology, known.settings
            for member in one.generation.first.members:
                name = known.processes.get(member.id)
                if name is not None:
                    rack = member.subscription.rack if member.subscription else None
                    thread = ClientThread(member.id, member.client_id, rack)
                    at = ProcessId.parse(name)
                    clients[at] = (*clients.get(at, ()), thread)
        stops = _find_stops(one, session_ms)
        changes.append(RecordedChange(one.generation.timestamp_ms, clients, stops))
    last = next((one for one in reversed(changes) if one.clients), None)
    if topology is None or last is None:
        return None
    cluster: Cluster = clusters.cluster_at(last.at_ms)
    subtopologies: tuple[RecordedSubtopology, ...] = streams_subtopologies(topology, cluster)
    names: dict[str, RecordedClient] = {}
    for process, threads in last.clients.items():
        name = client_name(group, threads[0].client_id, names)
        names[name] = RecordedClient(name, str(process), len(threads), threads[0].rack)
    state = StreamsState(
        True, last.at_ms, subtopologies, tuple(names.values()),
        {**capture_data.settings, _STANDBYS: settings.get(_STANDBYS, "0")}, cluster,
    )  # fmt: skip
    described = application_of(group, state, capture_data.sizes)
    return described, changes, described.default_assignor


# -- rows ------------------------------------------------------------------------------------------


def _unit_of_sizes(application: RecordedApplication) -> str | None:
    """Return the unit of a Streams application's state sizes: ``bytes`` or ``records``.

    The result is None if the sizes are unknown.
    """
    if not any(one.changelogs for one in application.subtopologies):
        return "bytes"  # an application without state
    if not application.sizes:
        return None
    is_in_bytes = all(one.bytes is not None for one in application.sizes.values())
    return "bytes" if is_in_bytes else "records"


def _has_racks(application: RecordedApplication) -> bool:
    topics = {topic for one in application.subtopologies for topic in one.sources}
    return all(one.rack for one in application.clients) and topics <= application.racks.keys()


def _row_without_result(reason: str) -> dict[str, Any]:
    """Return the output columns for a Streams application that could not be simulated.

    ``reason`` is shown to the user, for example that the topology is unknown.
    """
    return {"position": 0, "simulated": False, "protocol": "", "assignor": RECORDED,
            "settings": "", "detail": reason}  # fmt: skip


def _simulate_row(
    application: SimulatedApplication, cell: SweepCell, unit: str | None
) -> dict[str, Any]:
    """Simulate a Streams application under one combination of settings, and return a table row.

    If the settings are not applicable, the row only has the reason.

    Args:
        application: the application, with the starts and stops of its clients.
        cell: the task assignor and settings to simulate.
        unit: unit of the state sizes; None if unknown.
    """
    row: dict[str, Any] = {
        "simulated": True, "assignor": cell.assignor,
        "protocol": "streams" if "server-sticky" in cell.assignor else "classic",
        "settings": " ".join(f"{key}={value}" for key, value in cell.config),
    }  # fmt: skip
    config = dict(cell.config)
    if _STANDBYS in config:
        row["standbys"] = int(config[_STANDBYS])
    phases = 1 if len(application.events) > _MANY_EVENTS else _PHASES
    try:
        found = settings_outcome(application, cell, phases=phases)
    except PartageError as e:
        return {**row, "detail": str(e)}
    row |= asdict(found) | {"mean_outage_s": found.mean_outage_s}
    for name in ("restored", "disk"):
        size = row.pop(f"{name}_bytes")
        # Sizes in records are simulated with 100 bytes each.
        row[name] = None if unit is None else round(size / (100 if unit == "records" else 1))
    return row


def _build_recorded_row(
    rebalances: Sequence[RecordedRebalance],
    application: RecordedApplication,
    trace: RecordedTrace,
    protocol: str,
) -> dict[str, Any]:
    """Return the recorded rebalances and task outages of a Streams application, as output columns.

    In an outage, a task has no owner; it ends when the next owner is assigned. Records do not show
    how long that owner restored state, how much it restored, or the used disk space.

    Args:
        rebalances: the recorded rebalances.
        application: the application.
        trace: starts and stops of its clients.
        protocol: its rebalance protocol.
    """
    inside = [one.generation for one in rebalances if one.generation.timestamp_ms > trace.from_ms]
    task_of = {
        (topic, p): (one.number, p)
        for one in application.subtopologies
        for topic, count in one.sources.items()
        for p in range(count)
    }
    lengths = [length for one in inside for length in _task_outages(one.unread_intervals, task_of)]
    total = sum(lengths) / 1_000
    return {
        "position": 0, "simulated": False, "protocol": protocol, "assignor": RECORDED,
        "settings": "", "rebalances": float(len(inside)), "outages": float(len(lengths)),
        "outage_s": total, "mean_outage_s": total / len(lengths) if lengths else 0.0,
        "worst_outage_s": max(lengths, default=0.0) / 1_000,
    }  # fmt: skip


def _task_outages(
    intervals: Iterable[UnreadInterval], task_of: Mapping[tuple[str, int], tuple[int, int]]
) -> list[float]:
    """Return the longest time (ms) in which each Kafka Streams task had no owner.

    Tasks that always had an owner are left out. If a task reads several partitions, the longest
    time of any of them counts.

    Args:
        intervals: times in which partitions were not consumed.
        task_of: dict from (topic, partition) to the task that reads it.
    """
    longest: dict[tuple[int, int], float] = {}
    for one in intervals:
        task = task_of.get((one.topic, one.partition))
        if task is not None and one.unread_ms > 0:
            longest[task] = max(longest.get(task, 0.0), float(one.unread_ms))
    return list(longest.values())
