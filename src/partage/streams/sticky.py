"""The sticky task assignors of kafka-streams 4.3.1, and the public ones of 4.4.0.

`StickyCore` has the steps that they share with the assignor of 0.11
(`partage.legacy.streams_0_x`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from partage.errors import UnsupportedProblemError
from partage.streams.problem import DraftAssignment, TaskPlan, TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.task_assignment_utils import (
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
    stateful_in_hash_order,
)
from partage.streams.task_ids import TaskId
from partage.wire.streams.arrays import task_hash, task_order_key, tasks_in_hash_order

__all__ = [
    "FallbackPrior",
    "LegacySticky",
    "PublicSticky",
    "PublicSticky44",
    "PublicStickyPreserving",
    "PublicStickyPreserving44",
    "StickyCore",
    "TaskPairs",
]

_HASH_BITS = 0xFFFFFFFF


class TaskPairs:
    """Pairs of Kafka Streams tasks that have been on the same client, for sticky task assignors.

    Assignors prefer new pairs, so that the tasks of a failed client spread over several others.

    Raises:
        UnsupportedProblemError: there are so many tasks that the number of pairs overflows Kafka's
            int32, and Kafka's class fails.
    """

    def __init__(self, tasks: int) -> None:
        # Java computes n * (n - 1) / 2 in int32, which overflows from 46,342 tasks on.
        product = (tasks * (tasks - 1) & _HASH_BITS ^ 1 << 31) - (1 << 31)
        if product < 0:
            raise UnsupportedProblemError(
                f"{tasks} tasks: Kafka's class counts pairs of tasks in int32 and fails above 46341"
            )
        self._most = product // 2
        self._size = tasks
        self._pairs: set[int] = set()

    def add_task(self, task: int, others: Iterable[int]) -> None:
        """Record that a Kafka Streams task is on the same client as each task in ``others``.

        Sticky task assignors prefer clients on which a task forms a new pair with another task.
        """
        self._pairs.update(self._pair(task, other) for other in others)

    def has_new(self, task: int, *others: Iterable[int]) -> bool:
        """Return whether a Kafka Streams task would form a new pair with one of a client's tasks.

        A pair is new if the two tasks have never been on the same client. Sticky task assignors
        prefer new pairs, so that tasks spread well after a failure.

        Args:
            task: number of the task.
            others: the client's tasks, as one or several collections.
        """
        if self.has_all_pairs:
            return False
        return any(self._pair(task, other) not in self._pairs for some in others for other in some)

    @property
    def has_all_pairs(self) -> bool:
        """Return whether every two Kafka Streams tasks have already been on one client together.

        No further assignment can then form a new pair.
        """
        return len(self._pairs) == self._most

    def _pair(self, task: int, other: int) -> int:
        return task * self._size + other if task < other else other * self._size + task


class StickyCore:
    """Common base of the sticky task assignors of Kafka Streams 0.11 to 4.3.

    The assignors differ in the order in which they visit tasks, and in how they compare equal
    loads.

    Attributes:
        problem: clients, tasks and settings of the rebalance.
        draft: assignment under construction.
        ordered_tasks: active and standby tasks of each client in the order of their assignment.
        map_order: clients in the iteration order of Kafka's map of clients.
        quota: active tasks per thread that a client keeps, rounded down.
        previous_active: dict from task to the client that ran it.
        previous_standby: dict from task to the clients with its state, in the order of their hash
            set.
        active_order: tasks of ``previous_active`` in the iteration order of its hash map.
    """

    def __init__(
        self,
        problem: TaskProblem,
        *,
        capacity_breaks_ties: bool = True,
        rounds_up: bool = False,
        hash_of: Callable[[TaskId], int] = task_hash,
        in_order: Callable[[Iterable[TaskId]], list[TaskId]] | None = None,
    ) -> None:
        self.problem = problem
        self.draft = DraftAssignment(problem)
        self.ordered_tasks: list[tuple[list[int], list[int]]] = [([], []) for _ in problem.clients]
        self.map_order = problem.client_map_order
        self.quota = len(problem.tasks) // sum(problem.thread_counts)
        self._ties = capacity_breaks_ties
        self._rounds_up, self._threads = rounds_up, sum(problem.thread_counts)
        self._pairs = TaskPairs(len(problem.tasks))
        self._collect_previous_tasks(
            in_order or (lambda tasks: sorted(tasks, key=task_order_key)), hash_of
        )

    def _collect_previous_tasks(
        self,
        sort_tasks: Callable[[Iterable[TaskId]], list[TaskId]],
        java_hash: Callable[[TaskId], int],
    ) -> None:
        """Find which clients previously ran each Kafka Streams task or had a standby of it.

        Sticky task assignors prefer these clients.

        Args:
            sort_tasks: function that sorts a client's previous active tasks as Kafka visits them.
            java_hash: function that returns the Java hash code of a task id.
        """
        number_of = self.problem.number_of
        ran: dict[TaskId, int] = {}
        had: dict[TaskId, list[int]] = {}
        # If several clients ran a task, the last one in the order of Kafka's map counts.
        for client in self.map_order:
            its = self.problem.clients[client]
            for task in sort_tasks(its.previous_active):
                ran[task] = client
            for task in its.previous_standby:
                had.setdefault(task, []).append(client)
        walked = tasks_in_hash_order(ran, hash_of=java_hash)
        self.active_order = [number_of[task] for task in walked if task in number_of]
        self.previous_active = {
            number_of[task]: client for task, client in ran.items() if task in number_of
        }
        self.previous_standby = {
            number_of[task]: self.problem.client_hash_order(clients)
            for task, clients in had.items()
            if task in number_of
        }

    # -- assigning -------------------------------------------------------------------------------

    def assign_active(self, task: int, client: int) -> None:
        """Assign an active Kafka Streams task to a client, and record its new pairs of tasks.

        A pair is two tasks on the same client. Sticky assignors prefer clients on which pairs are
        new.
        """
        self._add_pairs(task, client)
        self.draft.assign_active(client, task)
        self.ordered_tasks[client][0].append(task)

    def assign_standby(self, task: int, client: int) -> None:
        """Assign a standby Kafka Streams task to a client, and record its new pairs of tasks.

        A pair is two tasks on the same client. Sticky assignors prefer clients on which pairs are
        new.
        """
        self._add_pairs(task, client)
        self.draft.assign_standby(client, task)
        self.ordered_tasks[client][1].append(task)

    def _add_pairs(self, task: int, client: int) -> None:
        self._pairs.add_task(task, self.draft.active[client])
        self._pairs.add_task(task, self.draft.standby[client])

    def has_room(self, client: int) -> bool:
        """Return whether a Kafka Streams client has fewer active tasks than its quota.

        The quota grows with the client's number of threads.
        """
        threads = self.draft.capacity[client]
        if self._rounds_up:  # from 4.4 on: the client's share of all tasks, rounded up
            most = -(-len(self.problem.tasks) * threads // self._threads)
        else:
            most = threads * self.quota
        return len(self.draft.active[client]) < most

    def assign_previous(self, tasks: Iterable[int], *, ignore_quota: bool = False) -> list[int]:
        """Assign Kafka Streams tasks to their previous clients, else to clients with a standby.

        Each client gets tasks only up to its quota.

        Args:
            tasks: all tasks, in the order in which previous standbys are promoted.
            ignore_quota: whether clients keep all their active tasks, whatever the load.

        Returns:
            The tasks that are still unassigned.
        """
        assigned = set()
        for task in self.active_order:
            client = self.previous_active[task]
            if ignore_quota or self.has_room(client):
                self.assign_active(task, client)
                assigned.add(task)
        remaining = []
        for task in tasks:
            if task in assigned:
                continue
            promoted = next(filter(self.has_room, self.previous_standby.get(task, ())), None)
            if promoted is None:
                remaining.append(task)
            else:
                self.assign_active(task, promoted)
        return remaining

    def assign_standbys(self, tasks: Iterable[int]) -> None:
        """Assign the configured number of standbys to each Kafka Streams task.

        Each standby goes to a client without a copy of the task. A task gets fewer standbys if
        there are too few clients.
        """
        for task in tasks:
            for _ in range(self.problem.settings.num_standby_replicas):
                free = [
                    client for client in self.map_order if not self.draft.has_copy(client, task)
                ]
                if not free:
                    break
                self.assign_standby(
                    task, self.best_client(task, self.problem.client_hash_order(free))
                )

    # -- choosing --------------------------------------------------------------------------------

    def best_client(self, task: int, clients: Sequence[int]) -> int:
        """Choose the best of several clients for a Kafka Streams task.

        The client that ran the task before comes first, then one with its standby, then the least
        loaded client. A fully loaded client is skipped if another one is less loaded.

        Args:
            task: number of the task.
            clients: numbers of the clients.
        """
        if len(clients) == 1:
            return clients[0]
        within = set(clients)
        before = self.previous_active.get(task)
        if before is None or before not in within:
            before = self._best_standby(task, within)
        if before is not None:
            # A client with a task for each thread is not preferred while another client is less
            # loaded.
            if not self._should_balance(before):
                return before
            standby = self._best_standby(task, within)
            if standby is not None and not self._should_balance(standby):
                return standby
        chosen = self._least_loaded(task, clients)
        assert chosen is not None  # noqa: S101 - `clients` is not empty
        return chosen

    def _best_standby(self, task: int, within: set[int]) -> int | None:
        # None if no candidate has the state.
        known = self.previous_standby.get(task)
        if known is None:
            return None
        copied = self.problem.client_hash_order(known, copied=True)
        return self._least_loaded(task, [client for client in copied if client in within])

    def _should_balance(self, client: int) -> bool:
        """Return whether a Kafka Streams client is full while another client is less loaded.

        A client is full if it has at least one task for each of its threads. Sticky task assignors
        then do not prefer it for its previous tasks.
        """
        draft = self.draft
        if draft.count[client] < draft.capacity[client]:
            return False
        return any(self._more_free(other, client) for other in range(len(draft.count)))

    def _more_free(self, client: int, other: int) -> bool:
        # More threads may break ties.
        load, other_load = self.draft.load[client], self.draft.load[other]
        if load != other_load or not self._ties:
            return load < other_load
        return self.draft.capacity[client] > self.draft.capacity[other]

    def _least_loaded(self, task: int, clients: Sequence[int]) -> int | None:
        # A client on which the task makes a new pair is preferred (see `TaskPairs`).
        draft = self.draft
        best: int | None = None
        for client in clients:
            if draft.count[client] == 0:
                return client
            if (best is None or self._more_free(client, best)) and self._pairs.has_new(
                task, draft.active[client], draft.standby[client]
            ):
                best = client
        if best is not None:
            return best
        for client in clients:
            if best is None or self._more_free(client, best):
                best = client
        return best


#: Default costs of a partition read across racks and of a task that moves. Moves count more.
_COSTS = 1, 10


class LegacySticky:
    """Sticky task assignor of Kafka Streams before 2.6: tasks stay in place or go to their state.

    Each client keeps tasks up to a quota. Guarantees, in order of priority:

    1. Every task is active on exactly one client, and no standby is on its active's client.
    2. A client keeps the tasks that it ran, up to ``tasks // threads`` actives per thread. Then
       it gets tasks of which it has state.
    3. The other tasks go to previous clients that are not full, or to the least loaded client,
       preferably one with which the task makes a new pair.
    4. Standbys of stateful tasks are placed by the same rule.

    Lags are ignored, and ``probing`` is always false. Java's hash order decides which tasks stay
    where a client had too many, and the order of the clients. Cost: O(T C) and O(T^2 / C) pairs for
    T tasks and C clients.

    Where it is not optimal: there is one pass, so loads may differ by more than one task per
    thread. With fewer tasks than threads the quota is 0, and step 2 keeps nothing.

    It gives the same results as ``LegacyStickyTaskAssignor`` of kafka-streams 4.3.1 with a
    ``HashMap`` of clients, as in production (Kafka's unit tests use a sorted map).

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=[tasks[0], tasks[2]]),
    ...            ClientState(ProcessId(0, 2), previous_active=[tasks[1]]),
    ...            ClientState(ProcessId(0, 3))]
    >>> LegacySticky().assign(TaskProblem(clients, tasks, tasks)).active
    ((2,), (1,), (0,))
    """

    name = "streams:legacy-sticky"
    exact_to = (
        "org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor 4.3.1"
    )

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign all tasks of a Kafka Streams application to its instances (clients).

        ``problem`` has the clients, tasks and settings.

        Raises:
            UnsupportedProblemError: Kafka's class cannot count the pairs of so many tasks.
        """
        return TaskPlan.from_draft(
            problem, _run_legacy_sticky(problem, RackOptimizer.for_legacy(problem))
        )


def _run_legacy_sticky(
    problem: TaskProblem, racks: RackOptimizer | None, *, preserve: bool = False
) -> DraftAssignment:
    """Run the sticky task assignor of Kafka Streams before 2.6 (``StickyTaskAssignor``).

    Active tasks stay on their previous clients as far as the loads permit; standbys are assigned
    last.

    Args:
        problem: clients, tasks and settings.
        racks: optimizer for reads across racks; None if racks do not matter.
        preserve: whether all active tasks stay on their clients, even if loads are uneven.

    Returns:
        The active and standby tasks of each client.
    """
    core = StickyCore(problem)
    draft = core.draft
    every = problem.task_hash_order(problem.task_hash_order(problem.task_arrival), copied=True)
    for task in sorted(core.assign_previous(every, ignore_quota=preserve)):
        core.assign_active(task, core.best_client(task, core.map_order))
    costs = problem.settings.rack_aware_costs(*_COSTS)
    if racks:
        racks.optimize_active(draft, problem.stateful, *costs)
        racks.optimize_active(draft, problem.stateless_tasks, 1, 0)
    core.assign_standbys(problem.task_hash_order(problem.stateful_arrival))
    if racks and problem.settings.num_standby_replicas > 0:
        racks.optimize_standby(draft, *costs, lambda *_: True)
    return draft


class FallbackPrior:
    """Kafka Streams task assignor that leaves every active task on its client, whatever the load.

    Kafka's leader uses it if it cannot read the end offsets of changelogs. A probing rebalance
    follows. It is `LegacySticky` without a limit of kept tasks and without racks.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks),
    ...            ClientState(ProcessId(0, 2))]
    >>> plan = FallbackPrior().assign(TaskProblem(clients, tasks, tasks))
    >>> plan.active, plan.probing
    (((0, 1, 2), ()), True)
    """

    name = "streams:fallback-prior"
    exact_to = (
        "org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor 4.3.1"
    )

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign all tasks of a Kafka Streams application to its instances (clients).

        ``problem`` has the clients, tasks and settings. The result always requests a probing
        rebalance.

        Raises:
            UnsupportedProblemError: Kafka's class cannot count the pairs of so many tasks.
        """
        return TaskPlan.from_draft(
            problem, _run_legacy_sticky(problem, None, preserve=True), probing=True
        )


class PublicSticky:
    """Sticky task assignor of Kafka Streams 4, which uses the public interface of KIP-924.

    It differs from `LegacySticky` in three points: the number of threads does not break ties
    between equal loads, only tasks with a changelog get standbys, and racks are optimised only if
    both costs are configured (see `partage.streams.task_assignment_utils`). In 4.3.1 it is the only
    assignor on this interface.

    Kafka visits the tasks that need standbys in the order of a hash set of objects without a
    hash code of their own, which differs from run to run. Here they have the hash of their task
    id. All else is exact.

    It gives the same results as
    ``org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor`` of kafka-streams
    4.3.1, tasks hashed as task ids.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks),
    ...            ClientState(ProcessId(0, 2))]
    >>> PublicSticky().assign(TaskProblem(clients, tasks, tasks)).active
    ((1, 2), (0,))
    """

    name = "streams:sticky"
    exact_to = (
        "org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor 4.3.1"
        " (tasks hashed as task ids)"
    )
    preserve = False
    rounds_up = False

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign all tasks of a Kafka Streams application to its instances (clients).

        ``problem`` has the clients, tasks and settings.

        Raises:
            UnsupportedProblemError: Kafka's class cannot count the pairs of so many tasks.
        """
        core = StickyCore(problem, capacity_breaks_ties=False, rounds_up=self.rounds_up)
        draft = core.draft
        every = problem.task_hash_order(problem.task_hash_order(problem.task_arrival), copied=True)
        clients = problem.client_hash_order(core.map_order)
        for task in sorted(core.assign_previous(every, ignore_quota=self.preserve)):
            core.assign_active(task, core.best_client(task, clients))
        costs = problem.settings.rack_aware_costs(*_COSTS)
        if not self.preserve:
            stores = set(problem.with_stores)
            others = [task for task in range(len(problem.tasks)) if task not in stores]
            optimize_rack_aware_active_tasks(problem, draft, problem.with_stores, costs=costs)
            optimize_rack_aware_active_tasks(problem, draft, others, costs=(1, 0))
        core.assign_standbys(stateful_in_hash_order(problem))
        if not self.preserve and problem.settings.num_standby_replicas > 0:
            optimize_rack_aware_standby_tasks(problem, draft, costs=costs)
        return TaskPlan.from_draft(problem, draft, follow_up=clients[:1] if self.preserve else ())


class PublicStickyPreserving(PublicSticky):
    """KIP-924's sticky task assignor that keeps every active task until a follow-up rebalance.

    It gives the same results as Kafka's class with ``mustPreserveActiveTaskAssignment``: racks are
    ignored, and the first client of a Java hash map has a follow-up deadline of 0.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks),
    ...            ClientState(ProcessId(0, 2))]
    >>> plan = PublicStickyPreserving().assign(TaskProblem(clients, tasks, tasks))
    >>> plan.active, plan.follow_up
    (((0, 1, 2), ()), (0,))
    """

    name = "streams:sticky-preserving"
    preserve = True


class PublicSticky44(PublicSticky):
    """Sticky task assignor of Kafka Streams 4.4 (KIP-924), which keeps more tasks in place.

    A client keeps its share of all active tasks, rounded up. Up to 4.3 it keeps ``tasks //
    threads`` of them per thread: with fewer tasks than threads none, and otherwise up to one per
    thread less than its share.

    It gives the same results as
    ``org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor`` of kafka-streams
    4.4.0, tasks hashed as task ids.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [ClientState(ProcessId(0, 1), previous_active=tasks[:2]),
    ...            ClientState(ProcessId(0, 2))]
    >>> [one().assign(TaskProblem(clients, tasks, tasks)).active
    ...  for one in (PublicSticky, PublicSticky44)]
    [((1, 2), (0,)), ((0, 1), (2,))]
    """

    name = "streams:sticky@4.4"
    exact_to = PublicSticky.exact_to.replace("4.3.1", "4.4.0")
    rounds_up = True


class PublicStickyPreserving44(PublicSticky44):
    """KIP-924's sticky task assignor of Kafka Streams 4.4 that keeps every active task in place.

    A task that no client ran goes to a client with a standby of it; in this choice the assignor
    differs from that of Kafka 4.3 (`PublicStickyPreserving`).
    """

    name = "streams:sticky-preserving@4.4"
    preserve = True
