"""The result of a task assignor, and the draft that it edits while it assigns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from partage.streams.problem import TaskProblem
from partage.streams.task_ids import ProcessId, TaskId

__all__ = ["DraftAssignment", "TaskPlan"]


class DraftAssignment:
    """Task assignment under construction: the active and standby tasks of each client, and its
    load.

    Attributes:
        active: active tasks of each client.
        standby: standby tasks of each client.
        count: number of tasks of each client in both roles.
        load: tasks per stream thread (``count / capacity``) of each client; Kafka's
            ``assignedTaskLoad``.
    """

    def __init__(self, problem: TaskProblem) -> None:
        clients = len(problem.clients)
        self.capacity = problem.capacity
        self.active: list[set[int]] = [set() for _ in range(clients)]
        self.standby: list[set[int]] = [set() for _ in range(clients)]
        self.count = [0] * clients
        self.load = [0.0] * clients

    def holds(self, client: int, task: int) -> bool:
        """Return whether a client has a task in the draft assignment, active or standby."""
        return task in self.active[client] or task in self.standby[client]

    def assign_active(self, client: int, task: int) -> None:
        """Assign an active task to a client that has no copy of the task."""
        self.active[client].add(task)
        self._add_to_count(client, 1)

    def assign_standby(self, client: int, task: int) -> None:
        """Assign a standby task to a client that has no copy of the task."""
        self.standby[client].add(task)
        self._add_to_count(client, 1)

    def unassign_standby(self, client: int, task: int) -> None:
        """Remove a standby task from the client that has it."""
        self.standby[client].remove(task)
        self._add_to_count(client, -1)

    def move(self, tasks: list[set[int]], task: int, source: int, destination: int) -> None:
        """Move a task from one client to another that has no copy of it.

        ``tasks`` is the attribute ``active`` or ``standby``.
        """
        tasks[source].remove(task)
        tasks[destination].add(task)
        self._add_to_count(source, -1)
        self._add_to_count(destination, 1)

    def swap_roles(self, standby_at: int, active_at: int, task: int) -> None:
        """Make a standby task active, and the active copy on the other client a standby."""
        self.standby[standby_at].remove(task)
        self.active[standby_at].add(task)
        self.active[active_at].remove(task)
        self.standby[active_at].add(task)

    def _add_to_count(self, client: int, more: int) -> None:
        self.count[client] += more
        self.load[client] = self.count[client] / self.capacity[client]


@dataclass(frozen=True)
class TaskPlan:
    """Result of a Kafka Streams task assignor: the active and standby tasks of each client.

    Attributes:
        problem: the input of the assignor.
        active: numbers of the active tasks of each client, ascending.
        standby: numbers of the standby tasks of each client, including warm-ups, ascending.
        probing: whether a probing rebalance follows after the probing interval.
        warmups: (client, task) of each warm-up replica: a standby beyond
            ``num.standby.replicas`` on the client to which the task moves later.
        follow_up: clients that rebalance again at once (KIP-924 only).
        in_turn: tasks of each client in round-robin order over its consumers, actives first;
            only before 2.4 (see `partage.streams.member_assignments.assign_in_turn`).
        warnings: messages about this plan for the operator.
    """

    problem: TaskProblem
    active: tuple[tuple[int, ...], ...]
    standby: tuple[tuple[int, ...], ...]
    probing: bool = False
    warmups: tuple[tuple[int, int], ...] = ()
    follow_up: tuple[int, ...] = ()
    in_turn: tuple[tuple[int, ...], ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        problem: TaskProblem,
        draft: DraftAssignment,
        *,
        probing: bool = False,
        warmups: Iterable[tuple[int, int]] = (),
        follow_up: Iterable[int] = (),
        in_turn: Iterable[tuple[int, ...]] = (),
        warnings: Iterable[str] = (),
    ) -> TaskPlan:
        """Build the immutable result of a task assignor from a finished draft."""
        return cls(
            problem,
            tuple(tuple(sorted(tasks)) for tasks in draft.active),
            tuple(tuple(sorted(tasks)) for tasks in draft.standby),
            probing,
            tuple(warmups),
            tuple(follow_up),
            tuple(in_turn),
            tuple(warnings),
        )

    def active_of(self, process: ProcessId) -> list[TaskId]:
        """Return the active tasks of one client by its process id, ascending."""
        return self._named(self.active, process)

    def standby_of(self, process: ProcessId) -> list[TaskId]:
        """Return the standby tasks of one client by its process id, ascending."""
        return self._named(self.standby, process)

    def _named(self, rows: tuple[tuple[int, ...], ...], process: ProcessId) -> list[TaskId]:
        for client, row in zip(self.problem.clients, rows, strict=True):
            if client.process == process:
                return [self.problem.tasks[task] for task in row]
        return []

    def to_dict(self) -> dict[str, dict[str, list[str]]]:
        """Return the task plan for JSON: a dict from process id to ``{"active": [...], "standby":
        [...]}``.

        Tasks are ids as text, such as "0_3".
        """
        tasks = self.problem.tasks
        return {
            str(client.process): {
                "active": [str(tasks[task]) for task in mine],
                "standby": [str(tasks[task]) for task in copies],
            }
            for client, mine, copies in zip(
                self.problem.clients, self.active, self.standby, strict=True
            )
        }
