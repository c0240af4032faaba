"""Standbys by load alone, and the choice between the ways to place them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Protocol

from partage.streams.board import Board
from partage.streams.problem import TaskProblem
from partage.streams.standbys_by_tags import TagAwareStandbys

__all__ = ["DefaultStandbys", "StandbyPlacement", "placement_for", "standby_shortage"]


class StandbyPlacement(Protocol):
    """A way to place standbys, and its say in later moves."""

    def assign(self, board: Board, tasks: Iterable[int]) -> None:
        """Give each task its standbys, in the order given."""

    def may_balance(self, source: int, destination: int) -> bool:
        """Whether balancing may move standbys between two clients."""

    def may_swap(self, board: Board, source: int, destination: int, task: int) -> bool:
        """Whether optimising by racks may move this standby."""


class DefaultStandbys:
    """Each standby to the least loaded client without a copy.

    Ties go to the lower process id. Cost: O(log C) for each of T tasks times N standbys.
    Exact to ``DefaultStandbyTaskAssignor`` 4.3.1.

    >>> from partage.streams import Client, ProcessId, Settings, TaskId
    >>> problem = TaskProblem([Client(ProcessId(0, 1)), Client(ProcessId(0, 2))], [TaskId(0, 0)],
    ...                       [TaskId(0, 0)], Settings(num_standby_replicas=1))
    >>> board = Board(problem)
    >>> board.assign_active(0, 0); DefaultStandbys(problem).assign(board, [0]); board.standby
    [set(), {0}]
    """

    def __init__(self, problem: TaskProblem) -> None:
        self._replicas = problem.settings.num_standby_replicas

    def assign(self, board: Board, tasks: Iterable[int]) -> None:
        """Give each task its standbys, in the order given."""
        give_to_least_loaded(board, ((task, self._replicas) for task in tasks))

    def may_balance(self, source: int, destination: int) -> bool:  # noqa: ARG002 - the contract
        """Always."""
        return True

    def may_swap(
        self,
        board: Board,  # noqa: ARG002 - the contract gives every placement all of them
        source: int,  # noqa: ARG002 - the same
        destination: int,  # noqa: ARG002 - the same
        task: int,  # noqa: ARG002 - the same
    ) -> bool:
        """Always."""
        return True


def give_to_least_loaded(board: Board, wanted: Iterable[tuple[int, int]]) -> None:
    """Standbys one by one to the client of least (load, number) without a copy of the task."""
    heap = [(load, client) for client, load in enumerate(board.load)]
    heapq.heapify(heap)
    for task, replicas in wanted:
        aside: list[tuple[float, int]] = []
        left = replicas
        while left > 0 and heap:
            entry = heapq.heappop(heap)
            client = entry[1]
            if not board.holds(client, task):
                board.assign_standby(client, task)
                left -= 1
                entry = board.load[client], client
            # Whoever has a copy by now is out of the question for this task.
            aside.append(entry)
        for entry in aside:
            heapq.heappush(heap, entry)


def placement_for(problem: TaskProblem) -> StandbyPlacement:
    """By tags where tags are configured, else by load.

    The third way of Kafka's factory, by racks as tags, is never taken: the high availability
    assignor gives the factory no racks.
    """
    if problem.settings.rack_aware_assignment_tags:
        return TagAwareStandbys(problem)
    return DefaultStandbys(problem)


def standby_shortage(replicas: int, clients: int) -> str | None:
    """Return a warning if there are too few clients for the standbys of a task; else None.

    A task's active and its standbys are each on a client of their own.

    >>> standby_shortage(5, 2)
    'num.standby.replicas=5 is not possible on 2 clients: each task gets at most 1 standby'
    >>> standby_shortage(1, 2) is None
    True
    """
    most = max(clients - 1, 0)
    if replicas <= most:
        return None
    what = (
        "no standby"
        if most == 0
        else "at most 1 standby"
        if most == 1
        else (f"at most {most} standbys")
    )
    on = "1 client" if clients == 1 else f"{clients} clients"
    return f"num.standby.replicas={replicas} is not possible on {on}: each task gets {what}"
