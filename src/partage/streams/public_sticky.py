"""The sticky assignor on the public interface of KIP-924."""

from __future__ import annotations

from partage.streams.legacy_sticky import place_standbys, sticky_costs
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.public_helpers import (
    optimize_rack_aware_active_tasks,
    optimize_rack_aware_standby_tasks,
    stateful_in_hash_order,
)
from partage.streams.sticky_core import StickyCore

__all__ = ["PublicSticky", "PublicStickyPreserving"]


class PublicSticky:
    """Tasks stay, or go where their state is: Kafka's sticky assignor of KIP-924.

    As `partage.streams.legacy_sticky.LegacySticky`, but loads alone compare (threads break no
    tie), standbys are for tasks with a changelog, and racks are optimised only where both
    costs are configured, by the helpers of `partage.streams.public_helpers`.

    It is the only assignor of that package in 4.3.1: high availability is still on the internal
    interface.

    Kafka walks standbys' tasks in a hash set of objects without a hash of their own: in
    the order of their addresses, which differs from run to run. Here the tasks are hashed
    as task ids. All else is exact.

    Exact to ``org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor`` of
    kafka-streams 4.3.1, tasks hashed as task ids.

    >>> from partage.streams import Client, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [Client(ProcessId(0, 1), previous_active=tasks), Client(ProcessId(0, 2))]
    >>> PublicSticky().assign(TaskProblem(clients, tasks, tasks)).active
    ((1, 2), (0,))
    """

    name = "streams:sticky"
    exact_to = (
        "org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor 4.3.1"
        " (tasks hashed as task ids)"
    )
    preserve = False

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """
        core = StickyCore(problem, capacity_breaks_ties=False)
        board = core.board
        core.keep_actives(whatever_the_load=self.preserve)
        walked = problem.task_hash_order(problem.task_arrival)
        unassigned = [
            task
            for task in problem.task_hash_order(walked, copied=True)
            if not any(task in mine for mine in board.active)
        ]
        everybody = problem.client_hash_order(core.map_order)
        for task in sorted(core.revive_standbys(unassigned)):
            core.give_active(task, core.best(task, everybody))
        traffic, non_overlap = sticky_costs(problem)
        costs = {"traffic_cost": traffic, "non_overlap_cost": non_overlap}
        if not self.preserve:
            stores = set(problem.with_stores)
            rest = [task for task in range(len(problem.tasks)) if task not in stores]
            optimize_rack_aware_active_tasks(problem, board, problem.with_stores, **costs)
            optimize_rack_aware_active_tasks(
                problem, board, rest, traffic_cost=1, non_overlap_cost=0
            )
        place_standbys(core, stateful_in_hash_order(problem))
        if not self.preserve and problem.settings.num_standby_replicas > 0:
            optimize_rack_aware_standby_tasks(problem, board, **costs)
        return TaskPlan.of(problem, board, follow_up=everybody[:1] if self.preserve else ())


class PublicStickyPreserving(PublicSticky):
    """KIP-924's sticky assignor that leaves every active where it is, and rebalances at once.

    Kafka's class with ``mustPreserveActiveTaskAssignment``: no racks, and the first client of
    a Java hash map has a follow-up deadline of 0.

    >>> from partage.streams import Client, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [Client(ProcessId(0, 1), previous_active=tasks), Client(ProcessId(0, 2))]
    >>> plan = PublicStickyPreserving().assign(TaskProblem(clients, tasks, tasks))
    >>> plan.active, plan.follow_up
    (((0, 1, 2), ()), (0,))
    """

    name = "streams:sticky-preserving"
    preserve = True
