"""The default task assignor of Kafka Streams since 2.6 (KIP-441)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partage.java.priority_queue import poll_order
from partage.streams.assignment_configs import LATEST_OFFSET, LONG_MAX
from partage.streams.plan import DraftAssignment, TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.standbys import placement_for

__all__ = ["HighAvailability", "TaskMovements", "balance_over_threads"]

#: (source client, destination client) -> whether standbys may move between them.
MayMove = Callable[[int, int], bool]


def balance_over_threads(
    draft: DraftAssignment, *, standbys: bool = False, may_move: MayMove = lambda _source, _to: True
) -> None:
    """Move tasks of one role until no move makes two clients more even.

    Sweeps go over all pairs of clients in order. A pair's tasks are tried in order while the
    source's load exceeds the destination's by enough for one task, both roles counted.
    Kafka: ``HighAvailabilityTaskAssignor.balanceTasksOverThreads`` 4.3.1.
    """
    moved = True
    while moved:
        moved = False
        for source in range(len(draft.count)):
            for destination in _reachable(draft, source):
                moved |= _move(draft, source, destination, standbys=standbys, may_move=may_move)


def _reachable(draft: DraftAssignment, source: int) -> list[int]:
    """The only clients that may come out even better with one more task and the source one less.

    A superset is enough: `_should_move` has the last word, and a source only shrinks.
    """
    count = np.array(draft.count)
    capacity = np.array(draft.capacity)
    after = (count + 1.0) / capacity
    before = (draft.count[source] - 1.0) / draft.capacity[source]
    reachable: list[int] = np.flatnonzero(after <= before).tolist()
    return reachable


def _move(
    draft: DraftAssignment, source: int, destination: int, *, standbys: bool, may_move: MayMove
) -> bool:
    tasks = draft.standby[source] if standbys else draft.active[source]
    moved = False
    for task in sorted(tasks):
        if not _should_move(draft, source, destination):
            break
        if draft.holds(destination, task) or not may_move(source, destination):
            continue
        if standbys:
            draft.unassign_standby(source, task)
            draft.assign_standby(destination, task)
        else:
            draft.unassign_active(source, task)
            draft.assign_active(destination, task)
        moved = True
    return moved


def _should_move(draft: DraftAssignment, source: int, destination: int) -> bool:
    skew = draft.load[source] - draft.load[destination]
    if skew <= 0:
        return False
    there = (draft.count[destination] + 1.0) / draft.capacity[destination]
    here = (draft.count[source] - 1.0) / draft.capacity[source]
    # Below 0 the move would only turn the imbalance round.
    return 0 <= here - there < skew


@dataclass
class TaskMovements:
    """Moves of stateful tasks to caught-up clients, with warm-ups where they shall be later.

    Attributes:
        problem, draft: the question, and the balanced plan, which is changed.
        budget: warm-up replicas left; may fall below 0.
        warmups: (client, task) standbys that were left where an active is to be.

    Source: ``TaskMovement`` 4.3.1.
    """

    problem: TaskProblem
    draft: DraftAssignment
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
        self.load = np.array(self.draft.load)

    def move_actives(self) -> int:
        """Send every active that is behind to who is less so; how many there were."""
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
        draft = self.draft
        standbys = [one for one in copies if self.caught_up[task, one]]
        if standbys:
            draft.swap_roles(
                min(standbys, key=lambda one: (draft.load[one], one)), destination, task
            )
            return
        if self.ready[task]:
            able = self.caught_up[task].nonzero()[0]
            source = int(able[self.load[able].argmin()])
        else:
            source = int(self.first[task])
            if source in copies:
                draft.swap_roles(source, destination, task)
                return
        draft.assign_active(source, task)
        draft.unassign_active(destination, task)
        if self.budget > 0:
            draft.assign_standby(destination, task)
            self.warmups.append((destination, task))
        self.budget -= 1
        self._changed(source, destination)

    def move_standbys(self) -> int:
        """Send every standby that is behind to who is less so; how many could be sent."""
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
        holders: dict[int, list[int]] = {task: [] for task in tasks}
        for client in range(len(self.draft.count)):
            for held in (self.draft.active[client], self.draft.standby[client]):
                for task in held & tasks:
                    holders[task].append(client)
        return holders

    def _move_standby(self, task: int, destination: int, holders: list[int]) -> bool:
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
            self.load[client] = self.draft.load[client]


def _in_heap_order(keys: list[int]) -> list[int]:
    """Entries as Java's priority queue gives them out; only equal keys need its mechanics."""
    if len(set(keys)) == len(keys):
        heap = [(key, entry) for entry, key in enumerate(keys)]
        heapq.heapify(heap)
        return [heapq.heappop(heap)[1] for _ in range(len(heap))]
    return poll_order(keys)


_TRAFFIC_COST, _NON_OVERLAP_COST = 10, 1


class HighAvailability:
    """Balanced plans, reached by way of whoever is caught up (KIP-441 as shipped).

    Guarantees, the first before the next:

    1. every task is active on exactly one client, standbys never with their active;
    2. a stateful task runs on a client whose lag is acceptable if there is one, else on the
       least lagging one;
    3. at most ``max.warmup.replicas`` copies beyond ``num.standby.replicas``; a promoted
       standby costs none;
    4. when all are caught up, loads per thread are as even as moves of single tasks make them.

    Deterministic: process ids and lags decide, what clients ran before does not. Only
    leftovers of tag-aware standbys meet Java's hash order. Cost: O(T log T + C T / 64 + M C)
    for T tasks, C clients, M tasks that are not where they should be.

    Where it is not optimal: the balanced plan is fixed by process ids, so that a new client
    with a low id moves nearly everything.

    Exact to ``HighAvailabilityTaskAssignor`` of kafka-streams 4.3.1.

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
        """The plan; ``probing`` is whether any task had to move.

        Raises:
            InvalidProblemError: a client says nothing of a stateful task's lag.
        """
        draft = DraftAssignment(problem)
        racks = RackOptimizer.for_legacy(problem)
        self._place_actives(problem, draft, racks)
        self._place_standbys(problem, draft, racks)
        movements = TaskMovements(problem, draft, problem.settings.max_warmup_replicas)
        moved = movements.move_actives()
        moved += movements.move_standbys()
        self._place_stateless(problem, draft, racks)
        return TaskPlan.of(problem, draft, probing=moved > 0, warmups=movements.warmups)

    @staticmethod
    def _place_actives(
        problem: TaskProblem, draft: DraftAssignment, racks: RackOptimizer | None
    ) -> None:
        for place, task in enumerate(problem.stateful):
            draft.assign_active(place % len(problem.clients), task)
        balance_over_threads(draft)
        if racks:
            racks.optimize_active(draft, problem.stateful, *_costs(problem))

    @staticmethod
    def _place_standbys(
        problem: TaskProblem, draft: DraftAssignment, racks: RackOptimizer | None
    ) -> None:
        if problem.settings.num_standby_replicas == 0:
            return
        placement = placement_for(problem)
        placement.assign(draft, problem.stateful)
        balance_over_threads(draft, standbys=True, may_move=placement.may_balance)
        if racks:
            racks.optimize_standby(draft, *_costs(problem), placement.may_swap)

    @staticmethod
    def _place_stateless(
        problem: TaskProblem, draft: DraftAssignment, racks: RackOptimizer | None
    ) -> None:
        """By active tasks alone: standbys do not count here."""
        capacity = problem.capacity
        heap = [(len(mine) / capacity[client], client) for client, mine in enumerate(draft.active)]
        heapq.heapify(heap)
        for task in problem.stateless:
            client = heap[0][1]
            draft.assign_active(client, task)
            heapq.heapreplace(heap, (len(draft.active[client]) / capacity[client], client))
        if racks:
            racks.optimize_active(draft, problem.stateless, 1, 0)


def _costs(problem: TaskProblem) -> tuple[int, int]:
    traffic = problem.settings.rack_aware_assignment_traffic_cost
    non_overlap = problem.settings.rack_aware_assignment_non_overlap_cost
    return (
        _TRAFFIC_COST if traffic is None else traffic,
        _NON_OVERLAP_COST if non_overlap is None else non_overlap,
    )
