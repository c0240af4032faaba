"""What Kafka Streams' sticky assignors of 0.11 to 4.3 have in common: whom a task goes to.

They differ in the orders in which they walk tasks, and in how two loads compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from partage.errors import UnsupportedProblemError
from partage.streams.board import Board
from partage.streams.hashing import tasks_in_hash_order
from partage.streams.ids import TaskId, task_hash, task_order_key
from partage.streams.problem import TaskProblem

__all__ = ["StickyCore", "TaskPairs"]

_HASH_BITS = 0xFFFFFFFF


class TaskPairs:
    """Pairs of tasks that share a client already; a new pair is worth a client.

    Raises:
        UnsupportedProblemError: so many tasks that Kafka's int32 count of pairs is negative,
            at which its hash set refuses to be made.
    """

    def __init__(self, tasks: int) -> None:
        # Java: n * (n - 1) / 2 in int32, which wraps from 46,342 tasks on.
        product = (tasks * (tasks - 1) & _HASH_BITS ^ 1 << 31) - (1 << 31)
        if product < 0:
            raise UnsupportedProblemError(
                f"{tasks} tasks: Kafka's class counts pairs of tasks in int32 and fails above 46341"
            )
        self._most = product // 2
        self._size = tasks
        self._pairs: set[int] = set()

    def add(self, task: int, others: Iterable[int]) -> None:
        """The task joins these."""
        self._pairs.update(self._pair(task, other) for other in others)

    def has_new(self, task: int, *others: Iterable[int]) -> bool:
        """Whether one of the others has not shared a client with the task yet."""
        if self.full:
            return False
        return any(self._pair(task, other) not in self._pairs for some in others for other in some)

    @property
    def full(self) -> bool:
        """Whether no pair is new any more."""
        return len(self._pairs) == self._most

    def _pair(self, one: int, other: int) -> int:
        return one * self._size + other if one < other else other * self._size + one


class StickyCore:
    """Past and present of the tasks, and the choice of a client.

    Attributes:
        problem, board: the question and what was given so far.
        map_order: clients as the client map walks them.
        previous_active: client that ran the task, by number of the task.
        previous_standby: clients that had its state, in the order of their hash set.
        given: actives and standbys of each client in the order of giving.
        active_order: tasks of ``previous_active`` as its hash map walks them.
    """

    def __init__(
        self,
        problem: TaskProblem,
        *,
        capacity_breaks_ties: bool = True,
        hash_of: Callable[[TaskId], int] = task_hash,
        in_order: Callable[[Iterable[TaskId]], list[TaskId]] | None = None,
    ) -> None:
        self.problem = problem
        self.board = Board(problem)
        self.given: list[tuple[list[int], list[int]]] = [([], []) for _ in problem.clients]
        self.map_order = problem.client_map_order
        self.quota = len(problem.tasks) // sum(problem.capacity)
        self._ties = capacity_breaks_ties
        self._pairs = TaskPairs(len(problem.tasks))
        self._remember(in_order or (lambda tasks: sorted(tasks, key=task_order_key)), hash_of)

    def _remember(
        self,
        in_order: Callable[[Iterable[TaskId]], list[TaskId]],
        hash_of: Callable[[TaskId], int],
    ) -> None:
        number_of = self.problem.number_of
        ran: dict[TaskId, int] = {}
        had: dict[TaskId, list[int]] = {}
        for client in self.map_order:
            its = self.problem.clients[client]
            for task in in_order(its.previous_active):
                ran[task] = client
            for task in its.previous_standby:
                had.setdefault(task, []).append(client)
        walked = tasks_in_hash_order(ran, hash_of=hash_of)
        self.active_order = [number_of[task] for task in walked if task in number_of]
        self.previous_active = {
            number_of[task]: client for task, client in ran.items() if task in number_of
        }
        self.previous_standby = {
            number_of[task]: self.problem.client_hash_order(clients)
            for task, clients in had.items()
            if task in number_of
        }

    # -- giving ----------------------------------------------------------------------------------

    def give_active(self, task: int, client: int) -> None:
        """The task becomes active there, and a pair with all that is there."""
        self._paired(task, client)
        self.board.assign_active(client, task)
        self.given[client][0].append(task)

    def give_standby(self, task: int, client: int) -> None:
        """The task becomes a standby there, and a pair with all that is there."""
        self._paired(task, client)
        self.board.assign_standby(client, task)
        self.given[client][1].append(task)

    def _paired(self, task: int, client: int) -> None:
        self._pairs.add(task, self.board.active[client])
        self._pairs.add(task, self.board.standby[client])

    def has_room(self, client: int) -> bool:
        """Whether the client has fewer actives than its threads' share of all tasks."""
        return len(self.board.active[client]) < self.board.capacity[client] * self.quota

    def keep_actives(self, *, whatever_the_load: bool) -> None:
        """Each task back to the client that ran it, if that has room."""
        for task in self.active_order:
            client = self.previous_active[task]
            if whatever_the_load or self.has_room(client):
                self.give_active(task, client)

    def revive_standbys(self, tasks: Iterable[int]) -> list[int]:
        """Each task to the first client with room that has its state; those left over."""
        left = []
        for task in tasks:
            client = next(filter(self.has_room, self.previous_standby.get(task, ())), None)
            if client is None:
                left.append(task)
            else:
                self.give_active(task, client)
        return left

    def without_copy(self, task: int) -> list[int]:
        """Clients without a copy of the task, as a hash set of them is walked."""
        free = [client for client in self.map_order if not self.board.holds(client, task)]
        return self.problem.client_hash_order(free)

    # -- choosing --------------------------------------------------------------------------------

    def best(self, task: int, among: Sequence[int]) -> int:
        """The client for a task: where it was, where its state is, or the least loaded."""
        if len(among) == 1:
            return among[0]
        within = set(among)
        before = self.previous_active.get(task)
        if before is None or before not in within:
            before = self._best_standby(task, within)
        if before is not None:
            if not self._should_balance(before):
                return before
            standby = self._best_standby(task, within)
            if standby is not None and not self._should_balance(standby):
                return standby
        chosen = self._least_loaded(task, among)
        assert chosen is not None  # noqa: S101 - `among` is not empty
        return chosen

    def _best_standby(self, task: int, within: set[int]) -> int | None:
        known = self.previous_standby.get(task)
        if known is None:
            return None
        copied = self.problem.client_hash_order(known, copied=True)
        return self._least_loaded(task, [client for client in copied if client in within])

    def _should_balance(self, client: int) -> bool:
        board = self.board
        if board.count[client] < board.capacity[client]:
            return False
        return any(self._more_free(other, client) for other in range(len(board.count)))

    def _more_free(self, client: int, other: int) -> bool:
        mine, its = self.board.load[client], self.board.load[other]
        if mine != its or not self._ties:
            return mine < its
        return self.board.capacity[client] > self.board.capacity[other]

    def _least_loaded(self, task: int, among: Sequence[int]) -> int | None:
        board = self.board
        best: int | None = None
        for client in among:
            if board.count[client] == 0:
                return client
            if (best is None or self._more_free(client, best)) and self._pairs.has_new(
                task, board.active[client], board.standby[client]
            ):
                best = client
        if best is not None:
            return best
        for client in among:
            if best is None or self._more_free(client, best):
                best = client
        return best
