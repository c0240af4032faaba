"""What a simulation of a Streams application is given: the application, its clients, a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """What each task of a sub-topology holds and does.

    Attributes:
        records: in its changelogs when the simulation begins, all stores together.
        writes_per_second: records that it adds while it runs.
        record_bytes: of one record of a changelog.
        read_bytes_per_second: that it reads from its sources while it runs.
    """

    records: int = 0
    writes_per_second: float = 0.0
    record_bytes: int = 100
    read_bytes_per_second: float = 0.0


@dataclass(frozen=True)
class SimulatedClient:
    """One instance of the application.

    Attributes:
        name: as the output calls it.
        process: its id; low ids come first in the plans of high availability.
        threads: stream threads, each of them a consumer.
        rack: of its consumers.
        tags: client tags.
        restore_bytes_per_second: that it can restore, all its tasks together.
        starts: whether it is there from the beginning.
        consumers: ids of its threads' consumers each time that it starts; Kafka draws them, and
            a coordinator that assigns goes by their hashes. Without them they are numbered.
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
    """Something that happens.

    Attributes:
        at_ms: when.
        kind: what; see `EVENTS`.
        clients: whom it happens to, in this order; a rolling restart, to all who are up then.
        disk: whether state survives a crash.
        back_ms: time until they come back, None: they do not.
        every_ms: from one client's restart to the next one's.
        leaves: whether a client that restarts tells the group that it goes; Streams does not.
        for_ms: how long brokers lag.
        factor: share of the restore rate that lagging brokers still give; at 0 they do not
            answer, so that the leader knows no lags.
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
    """Settings that no assignor reads, but that time depends on; all in milliseconds.

    Attributes:
        session_timeout_ms: from a client's last word until the group misses it.
        heartbeat_interval_ms: between a member's heartbeats, by which it hears of a rebalance.
        poll_ms: that a thread is busy at most before it looks whether it has to join again.
        group_initial_rebalance_delay_ms: that an empty group waits for more members.
        state_cleanup_delay_ms: how long a client keeps the state of a task that it gave up, at
            least; it looks after that at the same interval.
        streams_session_timeout_ms: as the first, of a streams group (KIP-1071).
        streams_heartbeat_interval_ms: between a member's heartbeats in a streams group.
        streams_initial_rebalance_delay_ms: that an empty streams group waits for more members.
        streams_assignment_interval_ms: least time between two targets of a streams group.
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
    """Everything that a simulation is given; `read_application` reads it from JSON.

    Attributes:
        name: of the application.
        length_ms: how long it is played.
        topology: of the application.
        counts: partition counts of its sources.
        states: of each sub-topology's tasks, by its number.
        clients: by name.
        events: in the order in which they happen.
        settings: of the assignor.
        runtime: other settings.
        racks: topic -> racks of the replicas of each partition.
        exactly_once: whether ``processing.guarantee`` is ``exactly_once_v2``.
        caught_up: whether everything has its state at the beginning.
        config: the settings as they were given, by Kafka's names.
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
        """Tasks and topics; all internal topics exist."""
        made = TopologyLayout.of(self.topology, self.counts)
        return TopologyLayout.of(self.topology, {**self.counts, **made.internal})

    @cached_property
    def all_counts(self) -> dict[str, int]:
        """Partition counts, those of internal topics included."""
        return {**self.counts, **self.layout.internal}

    def state_of(self, task: TaskId) -> TaskState:
        """What a task holds and does."""
        return self.states[task.subtopology]
