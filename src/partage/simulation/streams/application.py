"""Input of a Streams simulation: the application, its clients, a trace of events, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from partage.streams import AssignmentConfigs, ProcessId, TaskId, Topology, TopologyLayout

__all__ = [
    "EVENTS",
    "RuntimeSettings",
    "SimulatedApplication",
    "SimulatedClient",
    "TaskState",
    "TraceEvent",
]

EventKind = Literal[
    "join", "leave", "crash", "rollingRestart", "scaleOut", "brokerLag", "rebalance"
]
EVENTS: tuple[EventKind, ...] = (
    "join", "leave", "crash", "rollingRestart", "scaleOut", "brokerLag", "rebalance",
)  # fmt: skip


@dataclass(frozen=True)
class TaskState:
    """State size and throughput of the Kafka Streams tasks of one sub-topology.

    Attributes:
        records: number of records in the changelogs of all its stores when the simulation begins.
        writes_per_second: records per second added to its changelogs while it runs.
        record_bytes: size of a changelog record in bytes.
        read_bytes_per_second: bytes per second read from its sources while it runs.
        records_by_task: number of records of each task, by partition; empty if all have `records`.
    """

    records: int = 0
    writes_per_second: float = 0.0
    record_bytes: int = 100
    read_bytes_per_second: float = 0.0
    records_by_task: tuple[int, ...] = ()


@dataclass(frozen=True)
class SimulatedClient:
    """One client (operating system process) of a simulated Kafka Streams application.

    Attributes:
        name: its name in the output.
        process: process id; the high-availability assignor prefers low ids.
        threads: number of stream threads; each is a consumer.
        rack: ``client.rack`` of its consumers.
        tags: client tags.
        restore_bytes_per_second: total restore rate of all its tasks.
        starts: whether it runs when the simulation begins.
        consumers: consumer ids of its threads for each of its starts; numbered if missing.
            Kafka draws them at random, and a coordinator's assignment depends on their hashes.
    """

    name: str
    process: ProcessId
    threads: int = 1
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    restore_bytes_per_second: float = 50_000_000.0
    starts: bool = True
    consumers: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class TraceEvent:
    """An event of a Streams simulation, such as a crash, a scale-out or a rolling restart.

    Times are in milliseconds of simulated time.

    Attributes:
        at_ms: time of the event.
        kind: one of `EVENTS`.
        clients: affected clients, in this order; a rolling restart affects all running ones.
        disk: whether state survives a crash.
        back_ms: time until the clients return; None if they do not.
        every_ms: time between the restarts of two clients.
        leaves: whether a restarting client sends a LeaveGroup; Kafka Streams does not.
        for_ms: duration of a broker lag.
        factor: share of the restore rate during a broker lag; at 0 brokers do not respond, and the
            leader knows no lags.
    """

    at_ms: int
    kind: EventKind
    clients: tuple[str, ...] = ()
    disk: bool = True
    back_ms: int | None = None
    every_ms: int = 0
    leaves: bool = False
    for_ms: int = 0
    factor: float = 1.0


@dataclass(frozen=True)
class RuntimeSettings:
    """Timeouts and intervals of a simulated Kafka Streams application, all in milliseconds.

    They affect when rebalances happen, not how tasks are assigned.

    Attributes:
        session_timeout_ms: time from a client's last heartbeat to its eviction.
        heartbeat_interval_ms: time between heartbeats, by which a member learns of a rebalance.
        poll_ms: longest time between two polls of a thread, in which it may join again.
        group_initial_rebalance_delay_ms: time that an empty group waits for more members.
        state_cleanup_delay_ms: minimum time that a client stores state of revoked tasks; its
            cleaner runs at the same interval.
        streams_session_timeout_ms: the session timeout of a streams group (KIP-1071).
        streams_heartbeat_interval_ms: the heartbeat interval of a streams group.
        streams_initial_rebalance_delay_ms: time that an empty streams group waits for members.
        streams_assignment_interval_ms: minimum time between two target assignments of a streams
            group.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    poll_ms: int = 100
    group_initial_rebalance_delay_ms: int = 3_000
    state_cleanup_delay_ms: int = 600_000
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_assignment_interval_ms: int = 1_000


@dataclass(frozen=True)
class SimulatedApplication:
    """The input of a Streams simulation: an application, its clients and a trace of events.

    `read_application` parses it from JSON.

    Attributes:
        name: name of the application.
        length_ms: simulated time.
        topology: sub-topologies of the application.
        counts: dict from source topic to number of partitions.
        states: dict from sub-topology number to state of each of its tasks.
        clients: dict from name to client.
        events: the events of the trace, in order of time.
        settings: settings of the task assignor.
        runtime: settings that affect timing.
        racks: dict from topic to racks of the replicas of each partition.
        caught_up: whether all copies are complete when the simulation begins.
        exactly_once: whether ``processing.guarantee`` is ``exactly_once_v2``.
        config: all settings as given, by Kafka's names.
    """

    name: str
    length_ms: int
    topology: Topology
    counts: Mapping[str, int]
    states: Mapping[int, TaskState]
    clients: Mapping[str, SimulatedClient]
    events: tuple[TraceEvent, ...] = ()
    settings: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    racks: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    caught_up: bool = True
    exactly_once: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def layout(self) -> TopologyLayout:
        """The application's Kafka Streams tasks with their source, changelog and internal topics.

        They are derived from the sub-topologies and the partition counts of the source topics.
        """
        made = TopologyLayout.for_partition_counts(self.topology, self.counts)
        return TopologyLayout.for_partition_counts(self.topology, {**self.counts, **made.internal})

    @cached_property
    def all_counts(self) -> dict[str, int]:
        """A dict from topic to its number of partitions, including internal topics.

        Internal topics are the changelog and repartition topics that Kafka Streams creates.
        """
        return {**self.counts, **self.layout.internal}

    @cached_property
    def _task_states(self) -> dict[TaskId, TaskState]:
        """A dict from task to the size of its state and its throughput.

        Tasks of one sub-topology may have different numbers of records.
        """
        found = {}
        for task in self.layout.partitions_of:
            state = self.states[task.subtopology]
            if state.records_by_task:
                state = replace(state, records=state.records_by_task[task.partition])
            found[task] = state
        return found

    def state_of(self, task: TaskId) -> TaskState:
        """Return the size of a Kafka Streams task's state and its throughput.

        The simulation derives from it how long the task takes to restore its state.
        """
        return self._task_states[task]
