"""The result of a task assignor, and the assignment that it builds up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from partage.streams.problem import TaskProblem
from partage.streams.task_ids import ProcessId, TaskId

__all__ = ["DraftAssignment", "TaskPlan"]


class DraftAssignment:
    """Sets of task numbers by client number, and the loads that on_assignment from them.

    Attributes:
        active: active tasks of each client.
        standby: standby tasks of each client.
        count: tasks of each client, both roles.
        load: ``count / capacity``, Kafka's ``assignedTaskLoad``.
    """

    def __init__(self, problem: TaskProblem) -> None:
        clients = len(problem.clients)
        self.capacity = problem.capacity
        self.active: list[set[int]] = [set() for _ in range(clients)]
        self.standby: list[set[int]] = [set() for _ in range(clients)]
        self.count = [0] * clients
        self.load = [0.0] * clients

    def holds(self, client: int, task: int) -> bool:
        """Whether the client has the task in either role."""
        return task in self.active[client] or task in self.standby[client]

    def assign_active(self, client: int, task: int) -> None:
        """Give an active task to a client that has no copy of it."""
        self.active[client].add(task)
        self._counted(client, 1)

    def assign_standby(self, client: int, task: int) -> None:
        """Give a standby task to a client that has no copy of it."""
        self.standby[client].add(task)
        self._counted(client, 1)

    def unassign_active(self, client: int, task: int) -> None:
        """Take an active task away from the client that has it."""
        self.active[client].remove(task)
        self._counted(client, -1)

    def unassign_standby(self, client: int, task: int) -> None:
        """Take a standby task away from the client that has it."""
        self.standby[client].remove(task)
        self._counted(client, -1)

    def swap_roles(self, standby_at: int, active_at: int, task: int) -> None:
        """The standby becomes the active, and the active the standby."""
        self.standby[standby_at].remove(task)
        self.active[standby_at].add(task)
        self.active[active_at].remove(task)
        self.standby[active_at].add(task)

    def _counted(self, client: int, more: int) -> None:
        self.count[client] += more
        self.load[client] = self.count[client] / self.capacity[client]


@dataclass(frozen=True)
class TaskPlan:
    """Tasks of each client.

    Attributes:
        problem: the question.
        active: numbers of the active tasks of each client, ascending.
        standby: numbers of its standby tasks (warm-ups among them), ascending.
        probing: whether the leader shall look again after the probing interval.
        warmups: (client, task) of the standbys beyond ``num.standby.replicas`` that were made
            because an active task is to move there.
        follow_up: clients that shall rebalance again at once (KIP-924 only).
        in_turn: tasks of each client in the order in which its consumers take turns, actives
            first; only before 2.4 (see `partage.streams.member_assignments.deal_in_turn`).
        warnings: what the operator should know about this plan.
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
        """Return the plan that the draft holds."""
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
        """Active tasks of one client, ascending."""
        return self._named(self.active, process)

    def standby_of(self, process: ProcessId) -> list[TaskId]:
        """Standby tasks of one client, ascending."""
        return self._named(self.standby, process)

    def _named(self, rows: tuple[tuple[int, ...], ...], process: ProcessId) -> list[TaskId]:
        for client, row in zip(self.problem.clients, rows, strict=True):
            if client.process == process:
                return [self.problem.tasks[task] for task in row]
        return []

    def to_dict(self) -> dict[str, dict[str, list[str]]]:
        """ClientState by client ``{"active": [...], "standby": [...]}``, all as text."""
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
