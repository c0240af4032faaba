"""The sticky assignor of 0.11 as it lives on in 4.3.1 (internal interface)."""

from __future__ import annotations

from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.rack_aware import RackOptimizer
from partage.streams.sticky_core import StickyCore

__all__ = ["LegacySticky"]

_TRAFFIC_COST, _NON_OVERLAP_COST = 1, 10


class LegacySticky:
    """Tasks stay, or go where their state is, as long as no thread gets more than its share.

    Guarantees, the first before the next:

    1. every task is active on exactly one client, standbys never with their active;
    2. a client keeps what it ran, up to ``tasks // threads`` actives a thread, then gets
       tasks of which it has state; the rest goes to previous owners that are not full, or
       to the least loaded client, one with which the task makes a new pair if there is one;
    3. standbys of stateful tasks by the same choice.

    Lags have no say, and ``probing`` is always false. Java's hash order decides which tasks
    are kept where a client had too many, and the order of the clients; it is followed.
    Cost: O(T C) and O(T^2 / C) pairs for T tasks, C clients.

    Where it is not optimal: one pass, so that loads may differ by more than one task a
    thread; with fewer tasks than threads the share is 0 and nothing is kept by step 2.

    Exact to ``LegacyStickyTaskAssignor`` of kafka-streams 4.3.1, its client map being a
    ``HashMap`` as in production (Kafka's unit tests pass a sorted map).

    >>> from partage.streams import Client, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [Client(ProcessId(0, 1), previous_active=[tasks[0], tasks[2]]),
    ...            Client(ProcessId(0, 2), previous_active=[tasks[1]]), Client(ProcessId(0, 3))]
    >>> LegacySticky().assign(TaskProblem(clients, tasks, tasks)).active
    ((2,), (1,), (0,))
    """

    name = "streams:legacy-sticky"
    exact_to = (
        "org.apache.kafka.streams.processor.internals.assignment.LegacyStickyTaskAssignor 4.3.1"
    )

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """
        return TaskPlan.of(problem, sticky_board(problem, RackOptimizer.for_legacy(problem)).board)


def sticky_board(
    problem: TaskProblem, racks: RackOptimizer | None, *, preserve: bool = False
) -> StickyCore:
    """The whole algorithm; with ``preserve`` what runs stays whatever the load."""
    core = StickyCore(problem)
    core.keep_actives(whatever_the_load=preserve)
    arrived = problem.task_hash_order(problem.task_arrival)
    unassigned = [
        task
        for task in problem.task_hash_order(arrived, copied=True)
        if not any(task in mine for mine in core.board.active)
    ]
    for task in sorted(core.revive_standbys(unassigned)):
        core.give_active(task, core.best(task, core.map_order))
    traffic, non_overlap = sticky_costs(problem)
    if racks:
        racks.optimize_active(core.board, problem.stateful, traffic, non_overlap)
        racks.optimize_active(core.board, problem.stateless, 1, 0)
    place_standbys(core, problem.task_hash_order(problem.stateful_arrival))
    if racks and problem.settings.num_standby_replicas > 0:
        racks.optimize_standby(core.board, traffic, non_overlap, lambda *_: True)
    return core


def place_standbys(core: StickyCore, tasks: list[int]) -> None:
    """Each task's standbys, as far as there are clients without a copy."""
    for task in tasks:
        for _ in range(core.problem.settings.num_standby_replicas):
            free = core.without_copy(task)
            if not free:
                break
            core.give_standby(task, core.best(task, free))


def sticky_costs(problem: TaskProblem) -> tuple[int, int]:
    """Costs of traffic and of moving; moving is dear where stickiness is the aim."""
    traffic = problem.settings.rack_aware_assignment_traffic_cost
    non_overlap = problem.settings.rack_aware_assignment_non_overlap_cost
    return (
        _TRAFFIC_COST if traffic is None else traffic,
        _NON_OVERLAP_COST if non_overlap is None else non_overlap,
    )
