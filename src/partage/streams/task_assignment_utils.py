"""X"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from partage.streams.plan import DraftAssignment
from partage.streams.problem import TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.standbys import TagAwareStandbys, give_to_least_loaded
from partage.streams.task_ids import ProcessId, TaskId

__all__ = [
    "AssignmentError",
    "default_standby_task_assignment",
    "identity_assignment",
    "optimize_rack_aware_active_tasks",
    "optimize_rack_aware_standby_tasks",
    "validate_task_assignment",
]


class AssignmentError(Enum):
    """What may be wrong with an assignment, in Kafka's words (KIP-924)."""

    NONE = "none"
    UNKNOWN_TASK_ID = "a task that does not exist"
    ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES = "an active task on two clients"
    INVALID_STANDBY_TASK = "a standby of a task without a store"
    MISSING_PROCESS_ID = "a client without an entry"
    UNKNOWN_PROCESS_ID = "an entry of a client that does not exist"


def identity_assignment(
    problem: TaskProblem,
) -> dict[ProcessId, tuple[list[TaskId], list[TaskId]]]:
    """(active, standby) of each client as it was, tasks that vanished included.

    Source: ``TaskAssignmentUtils.identityAssignment`` 4.3.1.

    >>> from partage.streams import ClientState, ProcessId, TaskId, TaskProblem
    >>> a = ClientState(ProcessId(0, 1), previous_active=[TaskId(0, 1), TaskId(0, 0)])
    >>> [(list(map(str, had)), kept) for had, kept in identity_assignment(
    ...     TaskProblem([a], [TaskId(0, 0)])).values()]
    [(['0_0', '0_1'], [])]
    """
    return {
        client.process: (
            problem.previous(client.previous_active),
            problem.previous(client.previous_standby),
        )
        for client in problem.clients
    }


def validate_task_assignment(
    problem: TaskProblem,
    assignment: Sequence[tuple[ProcessId, Sequence[TaskId], Sequence[TaskId]]],
) -> AssignmentError:
    """The first error of an assignment of (process, actives, standbys), as Kafka's leader looks.

    It looks at the entries, then at the tasks, then at the clients. An active task that
    nobody got is no error to it. Source: ``TaskAssignmentUtils.validateTaskAssignment`` 4.3.1.

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
    """Standbys by tags where tags are configured, else by load; tasks in Java's hash order.

    By tags, a task gets a standby even where ``num.standby.replicas`` is 0, if a client with
    other tags exists. Source: ``TaskAssignmentUtils.defaultStandbyTaskAssignment`` 4.3.1.

    >>> from partage.streams import ClientState, ProcessId, TaskId, TaskProblem
    >>> from partage.streams import AssignmentConfigs
    >>> from partage.streams.plan import DraftAssignment
    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> clients = [ClientState(ProcessId(0, n)) for n in (1, 2)]
    >>> problem = TaskProblem(clients, tasks, tasks, AssignmentConfigs(num_standby_replicas=1))
    >>> draft = DraftAssignment(problem)
    >>> draft.assign_active(0, 0); draft.assign_active(1, 1)
    >>> default_standby_task_assignment(problem, draft)
    >>> draft.standby
    [{1}, {0}]
    """
    tasks = stateful_in_hash_order(problem)
    if problem.settings.rack_aware_assignment_tags:
        TagAwareStandbys(problem).assign(draft, tasks)
    else:
        replicas = problem.settings.num_standby_replicas
        give_to_least_loaded(draft, ((task, replicas) for task in tasks))


def stateful_in_hash_order(problem: TaskProblem) -> list[int]:
    """Tasks with a changelog as a hash set of their ids, filled from the map of all tasks.

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
    traffic_cost: int | None = None,
    non_overlap_cost: int | None = None,
) -> None:
    """Move actives for fewer reads across racks; does nothing unless both costs are configured.

    Not as the internal class: changelog partitions cost like source partitions, clients are
    numbered in the order of a Java hash map, and the costs must stand in the configuration
    even where they are overridden here. Source:
    ``TaskAssignmentUtils.optimizeRackAwareActiveTasks`` 4.3.1.

    Raises:
        UnsupportedProblemError: one of the tasks is active nowhere, or twice.

    >>> from partage.streams import (AssignmentConfigs, ClientState, PartitionRacks, ProcessId,
    ...                              TaskId, TaskProblem)
    >>> from partage.streams.plan import DraftAssignment
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
        racks.optimize_active(draft, tasks, *_costs(problem, traffic_cost, non_overlap_cost))


def optimize_rack_aware_standby_tasks(
    problem: TaskProblem,
    draft: DraftAssignment,
    *,
    traffic_cost: int | None = None,
    non_overlap_cost: int | None = None,
) -> None:
    """Exchange standbys for fewer reads across racks; nothing unless both costs are configured.

    Not as the internal class: the graph is that of the configured strategy, pairs of clients
    come in hash order, and tags never forbid an exchange (Kafka compares the source with
    itself). Source: ``TaskAssignmentUtils.optimizeRackAwareStandbyTasks`` 4.3.1.

    Raises:
        UnsupportedProblemError: as `optimize_rack_aware_active_tasks`.

    >>> from partage.streams import (AssignmentConfigs, ClientState, PartitionRacks, ProcessId,
    ...                              TaskId, TaskProblem)
    >>> from partage.streams.plan import DraftAssignment
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
        costs = _costs(problem, traffic_cost, non_overlap_cost)
        racks.optimize_standby(draft, *costs, lambda *_: True)


def _costs(problem: TaskProblem, traffic: int | None, non_overlap: int | None) -> tuple[int, int]:
    settings = problem.settings
    configured = (
        settings.rack_aware_assignment_traffic_cost,
        settings.rack_aware_assignment_non_overlap_cost,
    )
    return (
        configured[0] or 0 if traffic is None else traffic,
        configured[1] or 0 if non_overlap is None else non_overlap,
    )
