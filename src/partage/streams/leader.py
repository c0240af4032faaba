"""One rebalance of a Kafka Streams application, as its group leader computes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError, InvalidTopologyError, PlanInvariantError
from partage.streams.assignment_configs import LONG_MAX, AssignmentConfigs
from partage.streams.high_availability import HighAvailability
from partage.streams.member_assignments import (
    Hosts,
    StreamsMemberAssignment,
    error_assignments,
    member_assignments,
    source_partitions_by_host,
)
from partage.streams.members import ClientGroup, StreamsMember, group_by_client
from partage.streams.problem import ClientState, PartitionRacks, TaskPlan, TaskProblem
from partage.streams.registry import EARLY_RELEASES, TaskAssignor
from partage.streams.sticky import FallbackPrior, LegacySticky, PublicSticky
from partage.streams.task_assignment_utils import AssignmentError, validate_task_assignment
from partage.streams.task_ids import ProcessId, TaskId
from partage.streams.topology import TopicPartition, Topology, TopologyLayout
from partage.wire.streams.subscription_info import LATEST_OFFSET, LATEST_VERSION, UNKNOWN_OFFSET_SUM
from partage.wire.streams.versions import (
    EARLIEST_PROBEABLE_VERSION,
    SHUTDOWN_REQUESTED,
    group_versions_from_tuples,
)

__all__ = [
    "StreamsApplication",
    "StreamsGroupAssignment",
    "compute_group_assignment",
    "end_offset_sums",
    "task_lags",
]


def end_offset_sums(
    layout: TopologyLayout,
    end_offsets: Mapping[TopicPartition, int] | None,
    committed: Mapping[TopicPartition, int | None] | None = None,
) -> dict[TaskId, int]:
    """Return the total end offset of the changelog partitions of each Kafka Streams task.

    This sum says how much state a client has to restore for the task. It is -3 (unknown) for all
    tasks if ``end_offsets`` is None. A changelog that does not exist yet counts 0. A changelog that
    is also a source topic ends at the group's committed offset, or at 0 if nothing is committed.
    Sums are at most the largest int64.

    Args:
        layout: tasks and internal topics of the application.
        end_offsets: end offsets of changelog partitions; None if the request failed.
        committed: committed offsets of changelogs that are source topics.

    Raises:
        InvalidTopologyError: the end offset of a partition is missing (Kafka throws an
            IllegalStateException).
        InvalidProblemError: an offset is negative or not an int64.

    Source: ``StreamsPartitionAssignor.computeEndOffsetSumsByTask`` 4.3.1.

    >>> from partage.streams.topology import Subtopology, Topology
    >>> topology = Topology([Subtopology(0, ("lines",), changelogs=("counts",))])
    >>> layout = TopologyLayout.for_partition_counts(topology, {"lines": 1, "counts": 1})
    >>> end_offset_sums(layout, {("counts", 0): 7})
    {TaskId(subtopology=0, partition=0, topology=None): 7}
    """
    if end_offsets is None:
        return dict.fromkeys(layout.changelogs_of, UNKNOWN_OFFSET_SUM)
    sums = {}
    for task, changelogs in layout.changelogs_of.items():
        total = 0
        for partition in changelogs:
            topic = partition[0]
            if topic in layout.to_create:
                continue
            if topic in layout.source_changelogs:
                total += _offset(partition, (committed or {}).get(partition) or 0)
            elif partition in end_offsets:
                total += _offset(partition, end_offsets[partition])
            else:
                raise InvalidTopologyError(
                    f"the end offset of partition {partition[1]} is missing",
                    topics=[topic],
                    java_exception="IllegalStateException",
                )
        sums[task] = min(total, LONG_MAX)
    return sums


def _offset(partition: TopicPartition, offset: int) -> int:
    if not 0 <= offset <= LONG_MAX:
        raise InvalidProblemError(
            "must be an int64 >= 0", path=f"offset of {partition[0]}-{partition[1]}", value=offset
        )
    return offset


def task_lags(
    tasks: Sequence[TaskId],
    ends: Mapping[TaskId, int],
    offset_sums: Iterable[Mapping[TaskId, int]],
) -> NDArray[np.int64]:
    """Return how many changelog records each Kafka Streams client has yet to restore for each task.

    The result is int64[clients, tasks]. The lag is the task's end offset sum minus the offset sum
    that the client reported. The sentinels -2 (fully restored active task) and -3 (unknown) stay.
    If the client reports no offset sum, or a larger one, the lag is the whole end offset sum. Tasks
    without an end offset sum have lag 0.

    Args:
        tasks: the task of each column of the result.
        ends: end offset sum of each stateful task.
        offset_sums: offset sums that each client reported.

    Raises:
        InvalidProblemError: an offset sum is neither -2, -3 nor an int64 >= 0.

    Source: ``ClientState.computeTaskLags`` 4.3.1.

    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> task_lags(tasks, {tasks[0]: 10, tasks[1]: 10}, [{tasks[0]: 7}, {tasks[1]: -2}]).tolist()
    [[3, 10], [10, -2]]
    """
    end = np.array([ends.get(task, 0) for task in tasks], np.int64)
    place = {task: number for number, task in enumerate(tasks) if task in ends}
    rows = []
    for reported in offset_sums:
        row = end.copy()
        for task, total in reported.items():
            if not (0 <= total <= LONG_MAX or total in {LATEST_OFFSET, UNKNOWN_OFFSET_SUM}):
                raise InvalidProblemError(
                    "must be an int64 >= 0, or -2 (runs it) or -3 (unknown)",
                    path=f"offset sum of {task}",
                    value=total,
                )
            number = place.get(task)
            if number is None:
                continue
            if total < 0:
                row[number] = total
            elif end[number] >= total:
                row[number] = end[number] - total
        rows.append(row)
    return np.stack(rows) if rows else np.zeros((0, len(tasks)), np.int64)


#: Kafka's internal assignors. The leader validates neither their plans nor `EARLY_RELEASES`'.
_KAFKAS_OWN = (HighAvailability, LegacySticky, FallbackPrior)
_NO_TASK = TaskId(-1, -1)
#: Assignors that do not read lags; `EARLY_RELEASES` as well.
_IGNORE_LAGS = (LegacySticky, PublicSticky)


@dataclass(frozen=True)
class StreamsApplication:
    """Kafka Streams application as the leader of its group sees it in a rebalance.

    The leader's task assignor computes the assignment of tasks from it.

    Attributes:
        topology: sub-topologies with their source, sink and changelog topics.
        counts: partition counts of all topics of the cluster, including internal ones.
        settings: settings that the task assignor reads.
        end_offsets: end offsets of changelog partitions; None if they cannot be read.
        committed: the group's committed offsets in changelogs that are source topics.
        racks: racks of each partition's replicas; partitions with unknown racks are missing.
    """

    topology: Topology
    counts: Mapping[str, int]
    settings: AssignmentConfigs = field(default_factory=AssignmentConfigs)
    end_offsets: Mapping[TopicPartition, int] | None = field(default_factory=dict)
    committed: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamsGroupAssignment:
    """Result of a rebalance of a Kafka Streams application: the assignment of each member.

    The leader of the group sends it to the coordinator with SyncGroup.

    Attributes:
        consumers: assignment of each member, by member id.
        plan: tasks of the clients; None if all members get an error code.
        layout: tasks and internal topics; None if all members get an error code.
        hosts: source partitions of active tasks by endpoint.
        standby_hosts: source partitions of standby tasks by endpoint.
        stable: whether no other rebalance follows by itself.
        error: reason for the error code that all members get; None without an error.
    """

    consumers: dict[str, StreamsMemberAssignment]
    plan: TaskPlan | None = None
    layout: TopologyLayout | None = None
    hosts: Hosts = field(default_factory=dict)
    standby_hosts: Hosts = field(default_factory=dict)
    stable: bool = False
    error: str | None = None


def compute_group_assignment(
    application: StreamsApplication,
    members: Iterable[StreamsMember],
    *,
    leader: ProcessId,
    now_ms: int,
    assignor: TaskAssignor | None = None,
) -> StreamsGroupAssignment:
    """Compute the assignment of each member of a Kafka Streams application.

    The group leader does this in a rebalance. If a source topic is missing, or the partition count
    of a repartition topic cannot be derived, every member gets an error code.

    Args:
        application: topology, settings and state of the cluster.
        members: members in the order in which the group's coordinator lists them.
        leader: client of the group leader, which gets the time of the probing rebalance.
        now_ms: clock of the leader, in milliseconds.
        assignor: task assignor; high availability if None. If end offsets are unknown, all
            but the sticky assignors are replaced by `FallbackPrior`.

    Raises:
        InvalidTopologyError: the topology has an error that stops Kafka's leader too; its
            ``code`` is None.
        PlanInvariantError: the plan of a custom assignor violates the rules of
            ``TaskAssignmentUtils.validateTaskAssignment`` (Kafka throws a StreamsException).
            The callback ``onAssignmentComputed`` is not supported.
        InvalidProblemError: there are no members, an id occurs twice, or an offset sum is out
            of range.

    Source: ``StreamsPartitionAssignor.assign`` 4.3.1.

    >>> from partage.streams.topology import Subtopology
    >>> topology = Topology([Subtopology(0, ("lines",), changelogs=("counts",))])
    >>> app = StreamsApplication(topology, {"lines": 2, "counts": 2},
    ...                   end_offsets={("counts", 0): 9, ("counts", 1): 9})
    >>> members = [StreamsMember("a", ProcessId(0, 1)), StreamsMember("b", ProcessId(0, 2))]
    >>> result = compute_group_assignment(app, members, leader=ProcessId(0, 1), now_ms=0)
    >>> {name: one.partitions for name, one in result.consumers.items()}
    {'a': (('lines', 0),), 'b': (('lines', 1),)}
    """
    clients = group_by_client(members)
    every = [member for one in clients for member in one.members]
    versions = group_versions_from_tuples(
        (one.version, one.latest_version, one.shutdown) for one in every
    )
    if versions.error_code == SHUTDOWN_REQUESTED:
        return _error(clients, SHUTDOWN_REQUESTED, "a member asked for shutdown")
    try:
        layout = TopologyLayout.for_partition_counts(
            application.topology, application.counts, check_changelogs=False
        )
    except InvalidTopologyError as error:
        if error.code is None:
            raise
        return _error(clients, error.code, str(error))
    if versions.error_code:
        return _error(
            clients,
            versions.error_code,
            f"a member of a version above {LATEST_VERSION} and one of version {versions.used}: "
            f"versions below {EARLIEST_PROBEABLE_VERSION} cannot be probed",
        )
    layout.check_counts(application.counts)
    return _assign_clients(
        application,
        clients,
        layout,
        assignor or HighAvailability(),
        deadline=(leader, now_ms + application.settings.probing_rebalance_interval_ms),
        versions=(versions.used, versions.common),
        probing_versions=versions.is_version_probe,
    )


def _error(clients: Sequence[ClientGroup], code: int, why: str) -> StreamsGroupAssignment:
    return StreamsGroupAssignment(error_assignments(clients, code), error=why)


def _assign_clients(
    application: StreamsApplication,
    clients: Sequence[ClientGroup],
    layout: TopologyLayout,
    assignor: TaskAssignor,
    *,
    deadline: tuple[ProcessId, int],
    versions: tuple[int, int],
    probing_versions: bool,
) -> StreamsGroupAssignment:
    """Assign the tasks of a Kafka Streams application to its clients, then to their threads.

    A client is an application instance. The group leader does this last in a rebalance.

    Args:
        application: topology, settings and state of the cluster.
        clients: the instances with their stream threads.
        layout: the tasks and the partitions that each reads.
        assignor: the task assignor.
        deadline: process id of the leader's client, and the time (ms) of its probing rebalance.
        versions: lowest version used, and latest version that all members support.
        probing_versions: whether a member has a version that the leader cannot read.
    """
    public = isinstance(assignor, PublicSticky)
    problem = _problem(application, clients, layout, public=public)
    is_early = assignor.name in EARLY_RELEASES
    ignores_lags = is_early or isinstance(assignor, _IGNORE_LAGS)
    if application.end_offsets is None and not ignores_lags:
        assignor = FallbackPrior()
    plan = assignor.assign(problem)
    if not is_early and not isinstance(assignor, _KAFKAS_OWN):
        _validate(plan, problem, assignor.name)
    owned = {one for group in clients for one in group.owner}
    leader, later = deadline
    by_process = {group.process: group for group in clients}
    consumers: dict[str, StreamsMemberAssignment] = {}
    waits = probing_versions
    for client in problem.client_map_order:
        process = problem.clients[client].process
        due = later if plan.probing and process == leader else None
        if client in plan.follow_up:
            due = 0
        consumers |= member_assignments(
            plan,
            client,
            by_process[process],
            layout,
            owned=owned,
            deadline_ms=due,
            versions=versions,
        )
        waits |= due is not None
    waits |= any(one.withheld for one in consumers.values())
    actives, standbys = (
        source_partitions_by_host(plan, clients, layout) if versions[0] >= 2 else ({}, {})
    )
    return StreamsGroupAssignment(consumers, plan, layout, actives, standbys, stable=not waits)


def _validate(plan: TaskPlan, problem: TaskProblem, name: str) -> None:
    # KIP-924's rules for the plan of a custom assignor.
    def tasks(row: Sequence[int]) -> list[TaskId]:
        numbers = range(len(problem.tasks))
        # An invalid number becomes an unknown task, which the validation reports.
        return [problem.tasks[one] if one in numbers else _NO_TASK for one in row]

    rows = len(problem.clients), len(plan.active), len(plan.standby)
    if len(set(rows)) > 1:
        what = f"{name}: {rows[0]} clients, but {rows[1]} rows of actives and {rows[2]} of standbys"
        raise PlanInvariantError([what])
    entries = [
        (client.process, tasks(active), tasks(standby))
        for client, active, standby in zip(problem.clients, plan.active, plan.standby, strict=True)
    ]
    error = validate_task_assignment(problem, entries)
    if error is not AssignmentError.NONE:
        raise PlanInvariantError(
            [f"{name}: {error.name}: {error.value}{_first_place(plan, error)}"]
        )


def _first_place(plan: TaskPlan, error: AssignmentError) -> str:
    # Empty if the error names no task.
    problem = plan.problem
    seen: set[int] = set()
    for client, active, standby in zip(problem.clients, plan.active, plan.standby, strict=True):
        for task in (*active, *standby):
            unknown = task not in range(len(problem.tasks))
            wrong = {
                AssignmentError.UNKNOWN_TASK_ID: unknown,
                AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES: task in seen,
                AssignmentError.INVALID_STANDBY_TASK: task in standby
                and task not in problem.with_stores,
            }
            if wrong.get(error):
                named = f"number {task}" if unknown else str(problem.tasks[task])
                return f" ({named} on {client.process})"
        seen.update(active)
    return ""


def _problem(
    application: StreamsApplication,
    clients: Sequence[ClientGroup],
    layout: TopologyLayout,
    *,
    public: bool,
) -> TaskProblem:
    tasks = layout.task_arrival
    ends = end_offset_sums(layout, application.end_offsets, application.committed)
    states = []
    for group in clients:
        active, standby = group.previous_tasks(layout)
        states.append(
            ClientState(
                group.process,
                len(group.members),
                active,
                standby,
                tags=group.client_tags,
                rack=group.common_rack(of_first=public),
            )
        )
    return TaskProblem(
        states,
        tasks,
        [task for task in tasks if task in layout.changelogs_of],
        application.settings,
        racks={task: _racks(application, layout, task) for task in tasks},
        with_stores=layout.with_stores,
        lags=task_lags(tasks, ends, [group.offset_sums for group in clients]),
    )


def _racks(application: StreamsApplication, layout: TopologyLayout, task: TaskId) -> PartitionRacks:
    known = application.racks
    return PartitionRacks(
        tuple(known.get(one) for one in layout.partitions_of[task]),
        tuple(known.get(one) for one in layout.changelogs_of.get(task, ())),
    )
