"""The task assignor of Kafka Streams 0.10.2 (2017): by cost, in a shuffled order."""

from __future__ import annotations

import math

from partage.java.random import JavaRandom, shuffle
from partage.streams.board import Board
from partage.streams.hashing import tasks_in_hash_order
from partage.streams.ids import early_task_hash, process_hash
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.sticky_core import TaskPairs

__all__ = ["Release0102"]

_RAN, _HAD, _NEW = 0.1, 0.2, 0.5


class Release0102:
    """Each task, in a shuffled order, to the client where it costs least.

    Guarantees, the first before the next:

    1. every task is active on exactly one client; every task gets its standbys, whether it
       has state or not, each on another client;
    2. if the previous assignment was balanced and complete, everything stays;
    3. otherwise a client's cost for a task is its number of tasks per thread, rounded down,
       plus 0.1 where the task ran, 0.2 where it has state, 0.5 elsewhere; ties go to the
       client whose tasks cost less so far. Clients with which the task makes no new pair
       come last.

    Deterministic: the shuffle's seed is the sum of the process ids' hashes. Cost: O(T C) and
    O(T^2 / C) pairs for T tasks, C clients.

    Exact to ``org.apache.kafka.streams.processor.internals.assignment.TaskAssignor`` of
    kafka-streams 0.10.2.1 (its clients in a ``HashMap``, tasks in a hash set).

    >>> from partage.streams import Client, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(4)]
    >>> clients = [Client(ProcessId(0, 1), previous_active=tasks[:2]),
    ...            Client(ProcessId(0, 2), previous_active=tasks[2:])]
    >>> Release0102().assign(TaskProblem(clients, tasks)).active
    ((0, 1), (2, 3))
    """

    name = "streams:0.10.2"
    exact_to = "org.apache.kafka.streams.processor.internals.assignment.TaskAssignor 0.10.2.1"

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """
        state = _State(problem)
        state.assign(standbys=False)
        replicas = min(problem.settings.num_standby_replicas, len(problem.clients) - 1)
        for _ in range(replicas):
            state.assign(standbys=True)
        return TaskPlan.of(problem, state.board, in_turn=in_turn(problem, state.given))


def in_turn(
    problem: TaskProblem, given: list[tuple[list[int], list[int]]]
) -> list[tuple[int, ...]]:
    """Tasks of each client as its two hash sets are walked, which got them in this order."""
    turns = []
    for actives, standbys in given:
        walked: list[int] = []
        for tasks in (actives, standbys):
            ids = tasks_in_hash_order(
                [problem.tasks[task] for task in tasks], hash_of=early_task_hash
            )
            walked += [problem.number_of[task] for task in ids]
        turns.append(tuple(walked))
    return turns


class _State:
    def __init__(self, problem: TaskProblem) -> None:
        self.board = Board(problem)
        self.given: list[tuple[list[int], list[int]]] = [([], []) for _ in problem.clients]
        self._order = problem.client_map_order
        self._random = JavaRandom.of(
            sum(process_hash(client.process) for client in problem.clients)
        )
        walked = tasks_in_hash_order(
            [problem.tasks[task] for task in problem.task_arrival], hash_of=early_task_hash
        )
        self._tasks = [problem.number_of[task] for task in walked]
        self._pairs = TaskPairs(len(self._tasks))
        known = problem.number_of
        # Tasks that are gone count in the past's balance, and get no number.
        self._ran = [{known.get(t, t) for t in one.previous_active} for one in problem.clients]
        self._had = [
            ran | {known.get(t, t) for t in one.previous_standby}
            for ran, one in zip(self._ran, problem.clients, strict=True)
        ]
        self._cost = [0.0] * len(problem.clients)
        self._everything_stays = self._was_balanced() and self._was_complete()

    def _was_balanced(self) -> bool:
        average = len(self._tasks) // len(self._had)
        return all(average // 2 < len(had) < 2 * average for had in self._had)

    def _was_complete(self) -> bool:
        every = set().union(*self._had)
        return sum(map(len, self._had)) == len(every) and every == set(self._tasks)

    def assign(self, *, standbys: bool) -> None:
        self._random = shuffle(self._tasks, self._random)
        for task in self._tasks:
            client = self._client_for(task)
            for others in (self.board.active[client], self.board.standby[client]):
                self._pairs.add(task, others)
            if standbys:
                self.board.assign_standby(client, task)
            else:
                self.board.assign_active(client, task)
            self.given[client][standbys].append(task)
            cost = _HAD if task in self._had[client] else _NEW
            if task in self._ran[client]:
                cost = _RAN
            self._had[client].discard(task)
            self._ran[client].discard(task)
            self._cost[client] += cost

    def _client_for(self, task: int) -> int:
        found = self._cheapest(task, only_new_pairs=True)
        if found is None:
            found = self._cheapest(task, only_new_pairs=False)
        assert found is not None  # noqa: S101 - there are more clients than copies
        return found

    def _cheapest(self, task: int, *, only_new_pairs: bool) -> int | None:
        board = self.board
        best, least = None, 0.0
        for client in self._order:
            if self._everything_stays and task in self._had[client]:
                return client
            if board.holds(client, task):
                continue
            if (
                only_new_pairs
                and not self._pairs.full
                and board.count[client]
                and not self._pairs.has_new(task, board.active[client], board.standby[client])
            ):
                continue
            cost = self._cost_of(task, client)
            if (
                best is None
                or cost < least
                or (cost == least and self._cost[client] < self._cost[best])
            ):
                best, least = client, cost
        return best

    def _cost_of(self, task: int, client: int) -> float:
        cost = math.floor(self.board.count[client] / self.board.capacity[client])
        if task not in self._had[client]:
            return cost + _NEW
        return cost + (_RAN if task in self._ran[client] else _HAD)
