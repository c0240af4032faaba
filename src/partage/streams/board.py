"""The table at which an assignor works: who holds which task, as active or as standby."""

from __future__ import annotations

from partage.streams.problem import TaskProblem

__all__ = ["Board"]


class Board:
    """Sets of task numbers by client number, and the loads that follow from them.

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
