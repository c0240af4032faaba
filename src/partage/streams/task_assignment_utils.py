"""The helpers that KIP-924 offers to authors of task assignors (``TaskAssignmentUtils``).

They resemble the steps of Kafka's internal assignors, but differ in details; each function
states how.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from partage.streams.problem import DraftAssignment, TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.standbys import placement_for
from partage.streams.task_ids import ProcessId, TaskId
from partage.wire.streams.arrays import task_order_key

__all__ = [
    "AssignmentError",
    "default_standby_task_assignment",
    "identity_assignment",
    "optimize_rack_aware_active_tasks",
    "optimize_rack_aware_standby_tasks",
    "validate_task_assignment",
]


class AssignmentError(Enum):
    """Reasons for which the leader of a Kafka Streams application rejects a task assignment.

    The names are those of KIP-924. ``NONE`` stands for a valid assignment.
    """

    NONE = "none"
    UNKNOWN_TASK_ID = "a task that does not exist"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "an active task on two clients"
    INVALID_STANDBY_TASK = "a standby of a task without a store"
    MISSING_PROCESS_ID = "a client without an entry"
    UNKNOWN_PROCESS_ID = "an entry of a client that does not exist"


def identity_assignment(
    problem: TaskProblem,
) -> dict[ProcessId, tuple[list[TaskId], list[TaskId]]]:
    """Return the Kafka Streams tasks that each client had before the rebalance, as an assignment.

    The result is a dict from process id to the client's active tasks and standby tasks. Tasks that
    no longer exist are included. ``problem`` has the clients.

    Source: ``TaskAssignmentUtils.identityAssignment`` 4.3.1.

    >>> from partage.streams import ClientState, ProcessId, TaskId, TaskProblem
    >>> a = ClientState(ProcessId(0, 1), previous_active=[TaskId(0, 1), TaskId(0, 0)])
    >>> [(list(map(str, had)), kept) for had, kept in identity_assignment(
    ...     TaskProblem([a], [TaskId(0, 0)])).values()]
    [(['0_0', '0_1'], [])]
    """
    return {
        client.process: (
            sorted(client.previous_active, key=task_order_key),
            sorted(client.previous_standby, key=task_order_key),
        )
        for client in problem.clients
    }


def validate_task_assignment(
    problem: TaskProblem,
    assignment: Sequence[tuple[ProcessId, Sequence[TaskId], Sequence[TaskId]]],
) -> AssignmentError:
    """Check a custom task assignment as the leader of a Kafka Streams application does (KIP-924).

    The result is the first error found, or ``NONE``. The leader checks the entries, then the tasks,
    then the clients. It accepts an assignment that lacks an active task. Source:
    ``TaskAssignmentUtils.validateTaskAssignment`` 4.3.1.

    Args:
        problem: clients, tasks and settings of the rebalance.
        assignment: (process id, active tasks, standby tasks) of each client.

    >>> from partage.streams import ClientState, ProcessId, TaskId, TaskProblem
    >>> task, process = TaskId(0, 0), ProcessId(0, 1)
    >>> problem = TaskProblem([ClientState(process)], [task])
    >>> validate_task_assignment(problem, [(process, [task, task], [])]).name
    'ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES'
    """
    seen: set[TaskId] = set()
    copies: set[TaskId] = set()
    for _, actives, standbys in assignment:
        roles = [(task, True) for task in actives] + [(task, False) for task in standbys]
        for task, active in roles:
            if task not in problem.number_of:
                return AssignmentError.UNKNOWN_TASK_ID
            if active and task in seen:
                return AssignmentError.ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES
            (seen if active else copies).add(task)
    with_stores = set(problem.with_stores)
    if any(
        task in copies for number, task in enumerate(problem.tasks) if number not in with_stores
    ):
        return AssignmentError.INVALID_STANDBY_TASK
    entries = {process for process, _, _ in assignment}
    members = {client.process for client in problem.clients}
    if members - entries:
        return AssignmentError.MISSING_PROCESS_ID
    return AssignmentError.UNKNOWN_PROCESS_ID if entries - members else AssignmentError.NONE


def default_standby_task_assignment(problem: TaskProblem, draft: DraftAssignment) -> None:
    """Assign the configured number of standbys of each Kafka Streams task to clients (instances).

    If client tags are configured (KIP-708), standbys are spread over tags, else by load. Tasks are
    visited in Java's hash order. As in Kafka, a task gets one standby even if
    ``num.standby.replicas`` is 0, if tags are configured and a client with other tags exists.

    Args:
        problem: clients, tasks and settings.
        draft: the unfinished assignment; changed in place.

    Source: ``TaskAssignmentUtils.defaultStandbyTaskAssignment`` 4.3.1.

    >>> from partage.streams import ClientState, ProcessId, TaskId, TaskProblem
    >>> from partage.streams import AssignmentConfigs
    >>> from partage.streams.problem import DraftAssignment
    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> clients = [ClientState(ProcessId(0, n)) for n in (1, 2)]
    >>> problem = TaskProblem(clients, tasks, tasks, AssignmentConfigs(num_standby_replicas=1))
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_active(0, 0); draft.assign_active(1, 1)
    >>> default_standby_task_assignment(problem, draft)
    >>> draft.standby
    [{1}, {0}]
    """
    placement_for(problem).assign_standbys(draft, stateful_in_hash_order(problem))


def stateful_in_hash_order(problem: TaskProblem) -> list[int]:
    """Return the Kafka Streams tasks with a changelog in the order of a Java ``HashSet``.

    Kafka fills the set from the hash map of all tasks. The result has task numbers.

    >>> from partage.streams import ClientState, ProcessId, TaskId, TaskProblem
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> stateful_in_hash_order(TaskProblem([ClientState(ProcessId(0, 1))], tasks, tasks))
    [2, 1, 0]
    """
    stateful = set(problem.stateful)
    walked = problem.task_hash_order(problem.task_arrival)
    return problem.task_hash_order([task for task in walked if task in stateful])


def optimize_rack_aware_active_tasks(
    problem: TaskProblem,
    draft: DraftAssignment,
    tasks: Sequence[int] | None = None,
    *,
    costs: tuple[int, int] | None = None,
) -> None:
    """Move active Kafka Streams tasks between clients so that fewer reads cross racks.

    This does nothing unless both rack-aware costs are configured, even if ``costs`` overrides them.
    In contrast to Kafka's built-in assignors, changelog partitions cost as much as source
    partitions, and clients are visited in the order of a Java hash map.

    Source: ``TaskAssignmentUtils.optimizeRackAwareActiveTasks`` 4.3.1.

    Args:
        problem: clients, tasks and settings of the rebalance.
        draft: unfinished assignment of tasks to clients; changed in place.
        tasks: numbers of the tasks that may move, ascending; None: all active tasks.
        costs: traffic cost and non-overlap cost; None: those of the configuration.

    Raises:
        UnsupportedProblemError: a task is active on no client or on several.

    >>> from partage.streams import (AssignmentConfigs, ClientState, PartitionRacks, ProcessId,
    ...                              TaskId, TaskProblem)
    >>> from partage.streams.problem import DraftAssignment
    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> clients = [ClientState(ProcessId(0, n), rack=f"r{n}") for n in (1, 2)]
    >>> asked = AssignmentConfigs(rack_aware_assignment_strategy="min_traffic",
    ...                  rack_aware_assignment_traffic_cost=10,
    ...                  rack_aware_assignment_non_overlap_cost=1)
    >>> racks = {task: PartitionRacks((frozenset({f"r{2 - task.partition}"}),), ())
    ...          for task in tasks}
    >>> problem = TaskProblem(clients, tasks, settings=asked, racks=racks)
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_active(0, 0); draft.assign_active(1, 1)
    >>> optimize_rack_aware_active_tasks(problem, draft)
    >>> draft.active
    [{1}, {0}]
    """
    tasks = sorted(set().union(*draft.active) if tasks is None else tasks)
    racks = RackOptimizer.for_public(problem, standbys=False)
    if racks and tasks:
        chosen = costs or problem.settings.rack_aware_costs(0, 0)
        racks.optimize_active(draft, tasks, *chosen)


def optimize_rack_aware_standby_tasks(
    problem: TaskProblem,
    draft: DraftAssignment,
    *,
    costs: tuple[int, int] | None = None,
) -> None:
    """Exchange standby tasks between Kafka Streams clients so that fewer reads cross racks.

    Nothing changes unless both rack-aware costs are configured. The function imitates a utility for
    custom assignors, which differs from Kafka's own assignors in three points. The configured
    strategy decides how standbys are exchanged. Pairs of clients are visited in hash order. Client
    tags never prevent an exchange, which is a defect of Kafka's utility.

    Source: ``TaskAssignmentUtils.optimizeRackAwareStandbyTasks`` 4.3.1.

    Args:
        problem: clients, tasks and settings of the rebalance.
        draft: unfinished assignment of tasks to clients; changed in place.
        costs: traffic cost and non-overlap cost; None: those of the configuration.

    Raises:
        UnsupportedProblemError: a standby in question is on no client or on several.

    >>> from partage.streams import (AssignmentConfigs, ClientState, PartitionRacks, ProcessId,
    ...                              TaskId, TaskProblem)
    >>> from partage.streams.problem import DraftAssignment
    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> clients = [ClientState(ProcessId(0, n), rack=f"r{n}") for n in (1, 2)]
    >>> asked = AssignmentConfigs(rack_aware_assignment_strategy="min_traffic",
    ...                  rack_aware_assignment_traffic_cost=10,
    ...                  rack_aware_assignment_non_overlap_cost=1)
    >>> racks = {task: PartitionRacks((), (frozenset({f"r{2 - task.partition}"}),))
    ...          for task in tasks}
    >>> problem = TaskProblem(clients, tasks, tasks, asked, racks=racks)
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_standby(0, 0); draft.assign_standby(1, 1)
    >>> optimize_rack_aware_standby_tasks(problem, draft)
    >>> draft.standby
    [{1}, {0}]
    """
    racks = RackOptimizer.for_public(problem, standbys=True)
    if racks and any(draft.standby):
        chosen = costs or problem.settings.rack_aware_costs(0, 0)
        racks.optimize_standby(draft, *chosen, lambda *_: True)
