"""The default of Kafka Streams since 2.6: balanced plans, reached by warm-ups (KIP-441)."""

from __future__ import annotations

import heapq

from partage.streams.balancing import balance_over_threads
from partage.streams.board import Board
from partage.streams.movements import Movements
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.standbys import placement_for

__all__ = ["HighAvailability"]

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

    >>> from partage.streams import Client, ProcessId, TaskId
    >>> tasks = [TaskId(0, 0), TaskId(0, 1)]
    >>> old = Client(ProcessId(0, 1), lags={tasks[0]: -2, tasks[1]: -2})
    >>> new = Client(ProcessId(0, 2), lags={tasks[0]: 10**6, tasks[1]: 10**6})
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
        board = Board(problem)
        racks = RackOptimizer.for_legacy(problem)
        self._place_actives(problem, board, racks)
        self._place_standbys(problem, board, racks)
        movements = Movements(problem, board, problem.settings.max_warmup_replicas)
        moved = movements.move_actives()
        moved += movements.move_standbys()
        self._place_stateless(problem, board, racks)
        return TaskPlan.of(problem, board, probing=moved > 0, warmups=movements.warmups)

    @staticmethod
    def _place_actives(problem: TaskProblem, board: Board, racks: RackOptimizer | None) -> None:
        for place, task in enumerate(problem.stateful):
            board.assign_active(place % len(problem.clients), task)
        balance_over_threads(board)
        if racks:
            racks.optimize_active(board, problem.stateful, *_costs(problem))

    @staticmethod
    def _place_standbys(problem: TaskProblem, board: Board, racks: RackOptimizer | None) -> None:
        if problem.settings.num_standby_replicas == 0:
            return
        placement = placement_for(problem)
        placement.assign(board, problem.stateful)
        balance_over_threads(board, standbys=True, may_move=placement.may_balance)
        if racks:
            racks.optimize_standby(board, *_costs(problem), placement.may_swap)

    @staticmethod
    def _place_stateless(problem: TaskProblem, board: Board, racks: RackOptimizer | None) -> None:
        """By active tasks alone: standbys do not count here."""
        capacity = problem.capacity
        heap = [(len(mine) / capacity[client], client) for client, mine in enumerate(board.active)]
        heapq.heapify(heap)
        for task in problem.stateless:
            client = heap[0][1]
            board.assign_active(client, task)
            heapq.heapreplace(heap, (len(board.active[client]) / capacity[client], client))
        if racks:
            racks.optimize_active(board, problem.stateless, 1, 0)


def _costs(problem: TaskProblem) -> tuple[int, int]:
    traffic = problem.settings.rack_aware_assignment_traffic_cost
    non_overlap = problem.settings.rack_aware_assignment_non_overlap_cost
    return (
        _TRAFFIC_COST if traffic is None else traffic,
        _NON_OVERLAP_COST if non_overlap is None else non_overlap,
    )
