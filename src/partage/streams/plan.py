"""What a task assignor answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from partage.streams.board import Board
from partage.streams.ids import ProcessId, TaskId
from partage.streams.problem import TaskProblem

__all__ = ["TaskPlan"]


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
            first; only before 2.4 (see `partage.streams.threads.deal_in_turn`).
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
        board: Board,
        *,
        probing: bool = False,
        warmups: Iterable[tuple[int, int]] = (),
        follow_up: Iterable[int] = (),
        in_turn: Iterable[tuple[int, ...]] = (),
        warnings: Iterable[str] = (),
    ) -> TaskPlan:
        """Return the plan that the board holds."""
        return cls(
            problem,
            tuple(tuple(sorted(tasks)) for tasks in board.active),
            tuple(tuple(sorted(tasks)) for tasks in board.standby),
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
        """Client by client ``{"active": [...], "standby": [...]}``, all as text."""
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
