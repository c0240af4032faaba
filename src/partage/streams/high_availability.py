"""The default task assignor of Kafka Streams since 2.6 (KIP-441).

`HighAvailability.assign` reads as the algorithm: balance tasks over threads, then move active
tasks back to caught-up clients and leave warm-up replicas where the tasks belong.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.java.priority_queue import poll_order
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.problem import DraftAssignment, TaskPlan, TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.standbys import placement_for
from partage.wire.streams.subscription_info import LATEST_OFFSET

__all__ = ["HighAvailability", "TaskMovements", "balance_over_threads"]

#: (source client, destination client) -> whether standbys may move between them.
MayMove = Callable[[int, int], bool]


def balance_over_threads(
    draft: DraftAssignment, *, standbys: bool = False, may_move: MayMove = lambda _source, _to: True
) -> None:
    """Move Kafka Streams tasks between clients until the number of tasks per stream thread is even.

    A client is an application instance, and both its active and standby tasks count. A task moves
    if that reduces the difference between the loads of two clients.

    Args:
        draft: unfinished assignment of tasks to clients; changed in place.
        standbys: whether standby tasks move instead of active tasks.
        may_move: whether standby tasks may move from a source to a destination client.

    Source: ``HighAvailabilityTaskAssignor.balanceTasksOverThreads`` 4.3.1.
    """
    # Pairs of clients are visited in a fixed order, as in Kafka, until a round moves no task.
    moved = True
    while moved:
        moved = False
        for source in range(len(draft.count)):
            for destination in _reachable(draft, source):
                moved |= _move(draft, source, destination, standbys=standbys, may_move=may_move)


def _reachable(draft: DraftAssignment, source: int) -> list[int]:
    # A superset is sufficient: _should_move decides, and the load of a source only falls.
    count = np.array(draft.count)
    capacity = np.array(draft.capacity)
    after = (count + 1.0) / capacity
    before = (draft.count[source] - 1.0) / draft.capacity[source]
    reachable: list[int] = np.flatnonzero(after <= before).tolist()
    return reachable


def _move(
    draft: DraftAssignment, source: int, destination: int, *, standbys: bool, may_move: MayMove
) -> bool:
    # True if any task moved.
    tasks = draft.standby if standbys else draft.active
    moved = False
    for task in sorted(tasks[source]):
        if not _should_move(draft, source, destination):
            break
        if draft.has_copy(destination, task) or not may_move(source, destination):
            continue
        draft.move_task(tasks, task, source, destination)
        moved = True
    return moved


def _should_move(draft: DraftAssignment, source: int, destination: int) -> bool:
    # The move must reduce the load difference without reversing it.
    skew = draft.load[source] - draft.load[destination]
    if skew <= 0:
        return False
    destination_after = (draft.count[destination] + 1.0) / draft.capacity[destination]
    source_after = (draft.count[source] - 1.0) / draft.capacity[source]
    # A negative difference means that the move only reverses the imbalance.
    return 0 <= source_after - destination_after < skew


@dataclass
class TaskMovements:
    """Temporary moves of Kafka Streams tasks to clients with up-to-date state (KIP-441).

    A client is an application instance. If the client of a task in the balanced assignment has to
    restore the task's state first, a caught-up client runs the task meanwhile. The intended client
    restores the state in a warm-up replica, and then takes over the task.

    Attributes:
        problem: clients, tasks and settings of the rebalance.
        draft: balanced assignment of tasks to clients; changed in place.
        budget: number of warm-up replicas that may still be added; may fall below 0.
        warmups: (client, task) of each warm-up replica.

    Source: ``TaskMovement`` 4.3.1.
    """

    problem: TaskProblem
    draft: DraftAssignment
    budget: int
    warmups: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Transposed to [tasks, clients], because a movement reads all lags of one task.
        self.lags = np.ascontiguousarray(self.problem.changelog_lags.T)
        acceptable = self.problem.settings.acceptable_recovery_lag
        self.caught_up: NDArray[np.bool_] = (self.lags == LATEST_OFFSET) | (
            (self.lags >= 0) & (self.lags <= acceptable)
        )
        if acceptable == LONG_MAX:
            self.caught_up[:] = True
        self.ready = self.caught_up.sum(axis=1).tolist()
        # The client with the least (lag, number): argmin returns the first of equal values.
        self.first = self.lags.argmin(axis=1)
        best = np.take_along_axis(self.lags, self.first[:, None], axis=1)
        self.behind = ~self.caught_up & (best < self.lags)
        self.load = np.array(self.draft.load)

    def move_actives(self) -> int:
        """Move active Kafka Streams tasks from clients that lag behind to caught-up clients.

        The client that lags behind gets a warm-up replica, as long as the limit allows. It restores
        the task's state there, so that the task can return later.

        Returns:
            The number of moved tasks.
        """
        wanted = [
            (self.ready[task], task, client)
            for client, tasks in enumerate(self.draft.active)
            for task in tasks
            if self.behind[task, client]
        ]
        copies: dict[int, list[int]] = {task: [] for _, task, _ in wanted}
        for client, tasks in enumerate(self.draft.standby):
            for task in tasks & copies.keys():
                copies[task].append(client)
        for _, task, client in sorted(wanted):
            self._move_active(task, client, copies[task])
        return len(wanted)

    def _move_active(self, task: int, destination: int, copies: list[int]) -> None:
        """Move an active Kafka Streams task away from its intended client until that has the state.

        The task moves to a caught-up client, or to the client with the least lag. The intended
        client restores the state in a warm-up replica, if the limit allows.

        Args:
            task: number of the task.
            destination: intended client, which has the task in the balanced assignment.
            copies: clients with a standby of the task.
        """
        draft = self.draft
        standbys = [one for one in copies if self.caught_up[task, one]]
        if standbys:
            draft.swap_roles(
                min(standbys, key=lambda one: (draft.load[one], one)), destination, task
            )
            return
        if self.ready[task]:
            candidates = self.caught_up[task].nonzero()[0]
            source = int(candidates[self.load[candidates].argmin()])
        else:
            source = int(self.first[task])
            if source in copies:
                draft.swap_roles(source, destination, task)
                return
        draft.move_task(draft.active, task, destination, source)
        if self.budget > 0:
            draft.assign_standby(destination, task)
            self.warmups.append((destination, task))
        self.budget -= 1
        self._update_loads(source, destination)

    def move_standbys(self) -> int:
        """Move standby tasks from Kafka Streams clients that lag behind to clients that lag less.

        A standby is a copy of a task's state, which can take over quickly if it is up to date.

        Returns:
            The number of moved tasks.
        """
        warm = set(self.warmups)
        size = len(self.problem.tasks)
        keys, places = [], []
        for client, tasks in enumerate(self.draft.standby):
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
        # Active or standby.
        holders: dict[int, list[int]] = {task: [] for task in tasks}
        for client in range(len(self.draft.count)):
            for held in (self.draft.active[client], self.draft.standby[client]):
                for task in held & tasks:
                    holders[task].append(client)
        return holders

    def _move_standby(self, task: int, destination: int, holders: list[int]) -> bool:
        # False if no client lags less.
        source = self._standby_source(task, destination, holders)
        if source is None:
            return False
        draft = self.draft
        draft.assign_standby(source, task)
        holders.append(source)
        if self.budget <= 0:
            draft.unassign_standby(destination, task)
            holders.remove(destination)
        else:
            self.warmups.append((destination, task))
        self.budget -= 1
        self._update_loads(source, destination)
        return True

    def _standby_source(self, task: int, destination: int, holders: list[int]) -> int | None:
        # The least loaded caught-up client without a copy, else the client that lags least; None if
        # no client lags less.
        if self.ready[task]:
            caught_up = self.caught_up[task].copy()
            caught_up[holders] = False
            candidates = caught_up.nonzero()[0]
            if len(candidates):
                return int(candidates[self.load[candidates].argmin()])
        lags = self.lags[task]
        better = lags < lags[destination]
        better[:destination] |= lags[:destination] == lags[destination]
        better[holders] = False
        candidates = better.nonzero()[0]
        return int(candidates[lags[candidates].argmin()]) if len(candidates) else None

    def _update_loads(self, *clients: int) -> None:
        for client in clients:
            self.load[client] = self.draft.load[client]


def _in_heap_order(keys: list[int]) -> list[int]:
    # The order in which a Java PriorityQueue polls. Distinct keys need no emulation: any heap polls
    # them in ascending order.
    if len(set(keys)) == len(keys):
        return sorted(range(len(keys)), key=keys.__getitem__)
    return poll_order(keys)


#: Default costs of a partition read across racks and of a task that moves. Traffic counts more.
_COSTS = 10, 1


class HighAvailability:
    """Kafka Streams' default task assignor (KIP-441): tasks run on clients with up-to-date state.

    Guarantees, in order of priority:

    1. Every task is active on exactly one client, and no standby is on its active's client.
    2. A stateful task runs on a client with an acceptable lag if one exists, else on the client
       with the least lag.
    3. There are at most ``max.warmup.replicas`` copies beyond ``num.standby.replicas``. A
       promoted standby does not count.
    4. If all clients are caught up, no move of a single task makes loads per thread more equal.

    The result is deterministic: it depends on process ids and lags, not on what clients ran
    before. Java's hash order matters only for the last tag-aware standbys. Cost:
    O(T log T + C T / 64 + M C) for T tasks, C clients and M misplaced tasks.

    Where it is not optimal: process ids determine the balanced assignment, so a new client with
    a low id moves nearly all tasks.

    It gives the same results as ``HighAvailabilityTaskAssignor`` of kafka-streams 4.3.1.

    >>> from partage.streams import ClientState, ProcessId, TaskId
    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> old = ClientState(ProcessId(0, 1), lags={tasks[0]: -2, tasks[1]: -2})
    >>> new = ClientState(ProcessId(0, 2), lags={tasks[0]: 10**6, tasks[1]: 10**6})
    >>> plan = HighAvailability().assign(TaskProblem([old, new], tasks, tasks))
    >>> plan.active, plan.standby, plan.probing
    (((0, 1), ()), ((), (1,)), True)
    """

    name = "streams:high-availability"
    exact_to = (
        "org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor 4.3.1"
    )

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign all tasks of a Kafka Streams application to its instances (clients).

        ``problem`` has the clients, tasks and lags. If a task runs on another client until its
        intended client has restored the state, the result requests a probing rebalance
        (``probing``).

        Raises:
            InvalidProblemError: a client does not report the lag of a stateful task.
        """
        draft = DraftAssignment(problem)
        racks = RackOptimizer.for_legacy(problem)
        self._place_actives(problem, draft, racks)
        self._place_standbys(problem, draft, racks)
        movements = TaskMovements(problem, draft, problem.settings.max_warmup_replicas)
        moved = movements.move_actives()
        moved += movements.move_standbys()
        self._place_stateless(problem, draft, racks)
        return TaskPlan.from_draft(problem, draft, probing=moved > 0, warmups=movements.warmups)

    @staticmethod
    def _place_actives(
        problem: TaskProblem, draft: DraftAssignment, racks: RackOptimizer | None
    ) -> None:
        for place, task in enumerate(problem.stateful):
            draft.assign_active(place % len(problem.clients), task)
        balance_over_threads(draft)
        if racks:
            racks.optimize_active(
                draft, problem.stateful, *problem.settings.rack_aware_costs(*_COSTS)
            )

    @staticmethod
    def _place_standbys(
        problem: TaskProblem, draft: DraftAssignment, racks: RackOptimizer | None
    ) -> None:
        if problem.settings.num_standby_replicas == 0:
            return
        placement = placement_for(problem)
        placement.assign_standbys(draft, problem.stateful)
        balance_over_threads(draft, standbys=True, may_move=placement.may_balance)
        if racks:
            racks.optimize_standby(
                draft, *problem.settings.rack_aware_costs(*_COSTS), placement.may_swap
            )

    @staticmethod
    def _place_stateless(
        problem: TaskProblem, draft: DraftAssignment, racks: RackOptimizer | None
    ) -> None:
        # The client with the fewest active tasks per thread comes first.
        capacity = problem.thread_counts
        heap = [(len(mine) / capacity[client], client) for client, mine in enumerate(draft.active)]
        heapq.heapify(heap)
        for task in problem.stateless_tasks:
            client = heap[0][1]
            draft.assign_active(client, task)
            heapq.heapreplace(heap, (len(draft.active[client]) / capacity[client], client))
        if racks:
            racks.optimize_active(draft, problem.stateless_tasks, 1, 0)
