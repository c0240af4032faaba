"""From the balanced plan back to clients that are caught up (KIP-441 as shipped)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.java.priority_queue import poll_order
from partage.streams.board import Board
from partage.streams.problem import TaskProblem
from partage.streams.settings import LATEST_OFFSET, LONG_MAX

__all__ = ["Movements"]


@dataclass
class Movements:
    """Moves of stateful tasks to caught-up clients, with warm-ups where they shall be later.

    Attributes:
        problem, board: the question, and the balanced plan, which is changed.
        budget: warm-up replicas left; may fall below 0.
        warmups: (client, task) standbys that were left where an active is to be.

    Source: ``TaskMovement`` 4.3.1.
    """

    problem: TaskProblem
    board: Board
    budget: int
    warmups: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Task by task: what a movement looks at lies together in memory.
        self.lags = np.ascontiguousarray(self.problem.lags.T)
        acceptable = self.problem.settings.acceptable_recovery_lag
        self.caught_up: NDArray[np.bool_] = (self.lags == LATEST_OFFSET) | (
            (self.lags >= 0) & (self.lags <= acceptable)
        )
        if acceptable == LONG_MAX:
            self.caught_up[:] = True
        self.ready = self.caught_up.sum(axis=1).tolist()
        # The first by (lag, client): argmin takes the lowest of equals.
        self.first = self.lags.argmin(axis=1)
        best = np.take_along_axis(self.lags, self.first[:, None], axis=1)
        self.behind = ~self.caught_up & (best < self.lags)
        self.load = np.array(self.board.load)

    def move_actives(self) -> int:
        """Send every active that is behind to who is less so; how many there were."""
        wanted = [
            (self.ready[task], task, client)
            for client, tasks in enumerate(self.board.active)
            for task in tasks
            if self.behind[task, client]
        ]
        copies: dict[int, list[int]] = {task: [] for _, task, _ in wanted}
        for client, tasks in enumerate(self.board.standby):
            for task in tasks & copies.keys():
                copies[task].append(client)
        for _, task, client in sorted(wanted):
            self._move_active(task, client, copies[task])
        return len(wanted)

    def _move_active(self, task: int, destination: int, copies: list[int]) -> None:
        board = self.board
        standbys = [one for one in copies if self.caught_up[task, one]]
        if standbys:
            board.swap_roles(
                min(standbys, key=lambda one: (board.load[one], one)), destination, task
            )
            return
        if self.ready[task]:
            able = self.caught_up[task].nonzero()[0]
            source = int(able[self.load[able].argmin()])
        else:
            source = int(self.first[task])
            if source in copies:
                board.swap_roles(source, destination, task)
                return
        board.assign_active(source, task)
        board.unassign_active(destination, task)
        if self.budget > 0:
            board.assign_standby(destination, task)
            self.warmups.append((destination, task))
        self.budget -= 1
        self._changed(source, destination)

    def move_standbys(self) -> int:
        """Send every standby that is behind to who is less so; how many could be sent."""
        warm = set(self.warmups)
        size = len(self.problem.tasks)
        keys, places = [], []
        for client, tasks in enumerate(self.board.standby):
            for task in sorted(tasks):
                if self.behind[task, client] and (client, task) not in warm:
                    keys.append(self.ready[task] * size + task)
                    places.append((task, client))
        holders = self._holders({task for task, _ in places})
        moved = 0
        for entry in _in_heap_order(keys):
            task, client = places[entry]
            moved += self._move_standby(task, client, holders[task])
        return moved

    def _holders(self, tasks: set[int]) -> dict[int, list[int]]:
        holders: dict[int, list[int]] = {task: [] for task in tasks}
        for client in range(len(self.board.count)):
            for held in (self.board.active[client], self.board.standby[client]):
                for task in held & tasks:
                    holders[task].append(client)
        return holders

    def _move_standby(self, task: int, destination: int, holders: list[int]) -> bool:
        source = self._standby_source(task, destination, holders)
        if source is None:
            return False
        board = self.board
        board.assign_standby(source, task)
        holders.append(source)
        if self.budget <= 0:
            board.unassign_standby(destination, task)
            holders.remove(destination)
        else:
            self.warmups.append((destination, task))
        self.budget -= 1
        self._changed(source, destination)
        return True

    def _standby_source(self, task: int, destination: int, holders: list[int]) -> int | None:
        """The least loaded caught-up client without a copy, else the least lagging one."""
        if self.ready[task]:
            caught_up = self.caught_up[task].copy()
            caught_up[holders] = False
            able = caught_up.nonzero()[0]
            if len(able):
                return int(able[self.load[able].argmin()])
        lags = self.lags[task]
        earlier = lags < lags[destination]
        earlier[:destination] |= lags[:destination] == lags[destination]
        earlier[holders] = False
        able = earlier.nonzero()[0]
        return int(able[lags[able].argmin()]) if len(able) else None

    def _changed(self, *clients: int) -> None:
        for client in clients:
            self.load[client] = self.board.load[client]


def _in_heap_order(keys: list[int]) -> list[int]:
    """Entries as Java's priority queue gives them out; only equal keys need its mechanics."""
    if len(set(keys)) == len(keys):
        heap = [(key, entry) for entry, key in enumerate(keys)]
        heapq.heapify(heap)
        return [heapq.heappop(heap)[1] for _ in range(len(heap))]
    return poll_order(keys)
