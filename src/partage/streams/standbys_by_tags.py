"""Standbys on clients whose tags differ (KIP-708)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from partage.streams.board import Board
from partage.streams.problem import TaskProblem

__all__ = ["TagAwareStandbys", "TagIndex"]

Tag = tuple[str, str]


class TagIndex:
    """Which values a tag key has in the group, and which clients carry which tag."""

    def __init__(self, problem: TaskProblem) -> None:
        self.configured = frozenset(problem.settings.rack_aware_assignment_tags)
        self.tags = [dict(client.tags) for client in problem.clients]
        self.values: dict[str, set[str]] = {}
        for tags in self.tags:
            for key, value in tags.items():
                self.values.setdefault(key, set()).add(value)

    def mark(self, used: set[Tag], client: int, copies: int) -> None:
        """Mark the configured tags of a client that got a copy, the ``copies``-th of its task.

        A key of which there are no more values than copies is free again as a whole.
        """
        for key, value in self.tags[client].items():
            if key not in self.configured:
                continue
            if len(self.values[key]) <= copies:
                used -= {(key, other) for other in self.values[key]}
            else:
                used.add((key, value))

    def is_used(self, used: set[Tag], client: int) -> bool:
        """Whether the client carries a marked tag."""
        return any(self.tags[client].get(key) == value for key, value in used)


class TagAwareStandbys:
    """Standbys spread over tags (``ClientTagAwareStandbyTaskAssignor`` 4.3.1, KIP-708).

    A copy goes to the least loaded client that shares no configured tag with an earlier copy
    of its task; a key with fewer values than copies stops counting. What cannot be placed
    so goes to the least loaded clients at the end, in the order of a Java hash map.

    >>> from partage.streams import Client, ProcessId, Settings, TaskId
    >>> settings = Settings(num_standby_replicas=1, rack_aware_assignment_tags=("zone",))
    >>> clients = [Client(ProcessId(0, n), tags={"zone": zone}) for n, zone in enumerate("aab")]
    >>> problem = TaskProblem(clients, [TaskId(0, 0)], [TaskId(0, 0)], settings)
    >>> board = Board(problem)
    >>> board.assign_active(0, 0); TagAwareStandbys(problem).assign(board, [0]); board.standby
    [set(), set(), {0}]
    """

    def __init__(self, problem: TaskProblem) -> None:
        self._problem = problem
        self._replicas = problem.settings.num_standby_replicas
        self._index = TagIndex(problem)

    def assign(self, board: Board, tasks: Iterable[int]) -> None:
        """Give each task that has an active its standbys, in the order given."""
        active_at = {task: client for client, mine in enumerate(board.active) for task in mine}
        order = list(tasks)
        missing = dict.fromkeys(order, self._replicas)
        for task in order:
            if task in active_at:
                missing[task] = self.spread(board, task, active_at[task])
        # Kafka's map got every task at first, and lost those that are done.
        for task in self._problem.task_hash_order(order):
            self._give_anywhere(board, task, missing[task])

    @staticmethod
    def _give_anywhere(board: Board, task: int, copies: int) -> None:
        for _ in range(copies):
            client = least_loaded(board, lambda one: not board.holds(one, task))
            if client is None:
                return
            board.assign_standby(client, task)

    def spread(self, board: Board, task: int, active_at: int) -> int:
        """Place standbys on unused tags; how many could not be. Tries one even where N is 0."""
        index = self._index
        used: set[Tag] = set()
        copies, left, last = 1, self._replicas, active_at
        while True:
            index.mark(used, last, copies)
            client = least_loaded(
                board, lambda one: not board.holds(one, task) and not index.is_used(used, one)
            )
            if client is None:
                return left
            board.assign_standby(client, task)
            copies, left, last = copies + 1, left - 1, client
            if left <= 0:
                return left

    def may_balance(self, source: int, destination: int) -> bool:
        """Whether the destination has every tag of the source, configured or not."""
        there = self._index.tags[destination]
        return all(there.get(key) == value for key, value in self._index.tags[source].items())

    def may_swap(self, board: Board, source: int, destination: int, task: int) -> bool:
        """Whether the task's copies carry no fewer distinct tags after the move."""
        others = {
            tag
            for client, tags in enumerate(self._index.tags)
            if client not in {source, destination} and board.holds(client, task)
            for tag in tags.items()
        }
        after = others | set(self._index.tags[destination].items())
        before = others | set(self._index.tags[source].items())
        return len(after) >= len(before)


def least_loaded(board: Board, eligible: Callable[[int], bool]) -> int | None:
    """The eligible client of least (load, number)."""
    best, least = None, 0.0
    for client, load in enumerate(board.load):
        if (best is None or load < least) and eligible(client):
            best, least = client, load
    return best
