"""The task assignors of Kafka Streams 0.10.2 and 0.11 (2017).

That of 0.10.2 assigns tasks by cost, in random order. That of 0.11 is the first sticky one.
"""

from __future__ import annotations

import math

from partage.java.random import JavaRandom, shuffle
from partage.streams.problem import DraftAssignment, TaskPlan, TaskProblem
from partage.streams.sticky import StickyCore, TaskPairs
from partage.streams.task_ids import TaskId, early_task_hash, process_hash
from partage.wire.streams.arrays import tasks_in_hash_order

__all__ = ["Release0102", "Release011"]

#: Costs of a task at a client where it was active, where it has state, and elsewhere.
_COST_ACTIVE, _COST_STATE, _COST_NEW = 0.1, 0.2, 0.5


class Release0102:
    """Task assignor of Kafka Streams 0.10.2: each task goes to the client with the lowest cost.

    Guarantees, in order of priority:

    1. every task is active on exactly one client; every task gets its standbys, whether it
       has state or not, each on another client;
    2. if the previous assignment was balanced and complete, all tasks stay;
    3. otherwise a client's cost for a task is its number of tasks per thread, rounded down, plus
       0.1 if the task was active there, 0.2 if it has state there, else 0.5. On equal costs, the
       client whose tasks cost less so far gets it. Clients come last where the task shares no
       client with a task for the first time.

    Deterministic: the shuffle's seed is the sum of the process ids' hashes. Cost: O(T C), and
    O(T^2 / C) pairs of tasks, for T tasks and C clients.

    It gives the same results as
    ``org.apache.kafka.streams.processor.internals.assignment.TaskAssignor`` of kafka-streams
    0.10.2.1 (its clients in a ``HashMap``, tasks in a hash set).

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(4)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks[:2]),
    ...            ClientState(ProcessId(0, 2), previous_active=tasks[2:])]
    >>> Release0102().assign(TaskProblem(clients, tasks)).active
    ((0, 1), (2, 3))
    """

    name = "streams:0.10.2"
    exact_to = "org.apache.kafka.streams.processor.internals.assignment.TaskAssignor 0.10.2.1"

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign the tasks of a Kafka Streams application to its clients as release 0.10.2 does.

        ``problem`` has the tasks and the clients with their previous tasks.

        Raises:
            UnsupportedProblemError: there are so many tasks that the number of task pairs overflows
                in Kafka's class.
        """
        assignment = _Assignment(problem)
        assignment.assign_all(standbys=False)
        replicas = min(problem.settings.num_standby_replicas, len(problem.clients) - 1)
        for _ in range(replicas):
            assignment.assign_all(standbys=True)
        return TaskPlan.from_draft(
            problem, assignment.draft, in_turn=tasks_in_turn(problem, assignment.ordered_tasks)
        )


def tasks_in_turn(
    problem: TaskProblem, assigned: list[tuple[list[int], list[int]]]
) -> list[tuple[int, ...]]:
    """Return each client's tasks in the order in which it distributes them among its consumers.

    This is the order of Kafka Streams before 2.4: first active tasks, then standbys, both in the
    iteration order of a Java hash set.

    Args:
        problem: the tasks.
        assigned: the active and the standby tasks of each client, in the order of their assignment.
    """
    turns = []
    for actives, standbys in assigned:
        ordered: list[int] = []
        for tasks in (actives, standbys):
            ids = tasks_in_hash_order(
                [problem.tasks[task] for task in tasks], hash_of=early_task_hash
            )
            ordered += [problem.number_of[task] for task in ids]
        turns.append(tuple(ordered))
    return turns


class _Assignment:
    """One run of the task assignor of Kafka Streams 0.10.2, with the tasks assigned so far.

    `assign_all` is called once for active tasks, then once for each standby.

    Attributes:
        draft: the plan so far: active and standby tasks of each client, as sets.
        ordered_tasks: the same tasks of each client, as lists in the order of their assignment.
        _order: clients in the iteration order of Java's ``HashMap``.
        _random: Java's random generator for the shuffles.
        _tasks: tasks in the order of the last shuffle.
        _pairs: pairs of tasks that share a client.
        _was_active: for each client, those of its previous active tasks that are not assigned yet:
            task indices, or ids of tasks that no longer exist.
        _had_state: for each client, the same for its previous active and standby tasks.
        _cost: the total cost of each client's tasks.
        _stays: whether the previous assignment was balanced and complete, so that all tasks stay.
    """

    def __init__(self, problem: TaskProblem) -> None:
        self.draft = DraftAssignment(problem)
        self.ordered_tasks: list[tuple[list[int], list[int]]] = [([], []) for _ in problem.clients]
        self._order = problem.client_map_order
        self._random = JavaRandom.from_seed(
            sum(process_hash(client.process) for client in problem.clients)
        )
        ids = tasks_in_hash_order(
            [problem.tasks[task] for task in problem.task_arrival], hash_of=early_task_hash
        )
        self._tasks = [problem.number_of[task] for task in ids]
        self._pairs = TaskPairs(len(self._tasks))
        known = problem.number_of
        # Tasks that no longer exist have no number, but count in the previous balance.
        self._was_active = [
            {known.get(t, t) for t in one.previous_active} for one in problem.clients
        ]
        self._had_state = [
            active | {known.get(t, t) for t in one.previous_standby}
            for active, one in zip(self._was_active, problem.clients, strict=True)
        ]
        self._cost = [0.0] * len(problem.clients)
        self._stays = self._was_balanced() and self._was_complete()

    def _was_balanced(self) -> bool:
        # Each client had more than half and less than twice the average number of tasks.
        average = len(self._tasks) // len(self._had_state)
        return all(average // 2 < len(tasks) < 2 * average for tasks in self._had_state)

    def _was_complete(self) -> bool:
        every = set().union(*self._had_state)
        return sum(map(len, self._had_state)) == len(every) and every == set(self._tasks)

    def assign_all(self, *, standbys: bool) -> None:
        self._random = shuffle(self._tasks, self._random)
        for task in self._tasks:
            client = self._client_for(task)
            for others in (self.draft.active[client], self.draft.standby[client]):
                self._pairs.add_task(task, others)
            if standbys:
                self.draft.assign_standby(client, task)
            else:
                self.draft.assign_active(client, task)
            self.ordered_tasks[client][standbys].append(task)
            cost = _COST_STATE if task in self._had_state[client] else _COST_NEW
            if task in self._was_active[client]:
                cost = _COST_ACTIVE
            self._had_state[client].discard(task)
            self._was_active[client].discard(task)
            self._cost[client] += cost

    def _client_for(self, task: int) -> int:
        # Preferably a client whose other tasks make new pairs with it.
        client = self._cheapest(task, only_new_pairs=True)
        if client is None:
            client = self._cheapest(task, only_new_pairs=False)
        assert client is not None  # noqa: S101 - there are more clients than copies
        return client

    def _cheapest(self, task: int, *, only_new_pairs: bool) -> int | None:
        # None if every client has a copy of the task.
        draft = self.draft
        best, least = None, 0.0
        for client in self._order:
            if self._stays and task in self._had_state[client]:
                return client
            if draft.has_copy(client, task):
                continue
            if (
                only_new_pairs
                and not self._pairs.has_all_pairs
                and draft.count[client]
                and not self._pairs.has_new(task, draft.active[client], draft.standby[client])
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
        # Release0102 documents the rule.
        cost = math.floor(self.draft.count[client] / self.draft.capacity[client])
        if task not in self._had_state[client]:
            return cost + _COST_NEW
        return cost + (_COST_ACTIVE if task in self._was_active[client] else _COST_STATE)


class Release011:
    """Task assignor of Kafka Streams 0.11, the first that returns tasks to their previous clients.

    It differs from its successor (`partage.streams.sticky.LegacySticky`) in four points. Tasks
    without a previous client are assigned in the order of a hash set, and task ids have a different
    hash code. Stateless tasks get standbys, too. Racks have no effect.

    It gives the same results as ``StickyTaskAssignor`` of kafka-streams 0.11.0.3 (its clients in a
    ``HashMap``, tasks in a hash set, previous tasks in a hash set filled in the order given).

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=[tasks[0], tasks[2]]),
    ...            ClientState(ProcessId(0, 2), previous_active=[tasks[1]]),
    ...            ClientState(ProcessId(0, 3))]
    >>> Release011().assign(TaskProblem(clients, tasks)).active
    ((0,), (1,), (2,))
    """

    name = "streams:0.11"
    exact_to = "org.apache.kafka.streams.processor.internals.assignment.StickyTaskAssignor 0.11.0.3"

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign the tasks of a Kafka Streams application to its clients as release 0.11 does.

        ``problem`` has the tasks and the clients with their previous tasks.

        Raises:
            UnsupportedProblemError: there are so many tasks that the number of task pairs overflows
                in Kafka's class.
        """

        def in_hash_order(tasks: list[TaskId], *, copied: bool = False) -> list[TaskId]:
            return tasks_in_hash_order(tasks, copied=copied, hash_of=early_task_hash)

        core = StickyCore(
            problem, hash_of=early_task_hash, in_order=lambda tasks: in_hash_order(list(tasks))
        )
        every = in_hash_order([problem.tasks[task] for task in problem.task_arrival])
        number_of = problem.number_of
        order = [number_of[task] for task in in_hash_order(every, copied=True)]
        for task in core.assign_previous(order):
            core.assign_active(task, core.best_client(task, core.map_order))
        core.assign_standbys(number_of[task] for task in every)
        return TaskPlan.from_draft(
            problem, core.draft, in_turn=tasks_in_turn(problem, core.ordered_tasks)
        )
