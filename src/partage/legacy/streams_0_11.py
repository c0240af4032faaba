"""The sticky task assignor as it came with Kafka Streams 0.11 (2017)."""

from __future__ import annotations

from partage.legacy.streams_0_10_2 import in_turn
from partage.streams.hashing import tasks_in_hash_order
from partage.streams.ids import TaskId, early_task_hash
from partage.streams.legacy_sticky import place_standbys
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.sticky_core import StickyCore

__all__ = ["Release011"]


class Release011:
    """Tasks stay, or go where their state is; then to the least loaded client.

    The first `partage.streams.legacy_sticky.LegacySticky`: what no client claimed is given in
    the order of a hash set, not sorted; every task gets standbys, stateless ones too; there
    are no racks; and task ids hash otherwise.

    Exact to ``StickyTaskAssignor`` of kafka-streams 0.11.0.3 (its clients in a ``HashMap``,
    tasks in a hash set, previous tasks in a hash set filled in the order given).

    >>> from partage.streams import Client, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [Client(ProcessId(0, 1), previous_active=[tasks[0], tasks[2]]),
    ...            Client(ProcessId(0, 2), previous_active=[tasks[1]]), Client(ProcessId(0, 3))]
    >>> Release011().assign(TaskProblem(clients, tasks)).active
    ((0,), (1,), (2,))
    """

    name = "streams:0.11"
    exact_to = "org.apache.kafka.streams.processor.internals.assignment.StickyTaskAssignor 0.11.0.3"

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """

        def walked(tasks: list[TaskId], *, copied: bool = False) -> list[TaskId]:
            return tasks_in_hash_order(tasks, copied=copied, hash_of=early_task_hash)

        core = StickyCore(
            problem, hash_of=early_task_hash, in_order=lambda tasks: walked(list(tasks))
        )
        every = walked([problem.tasks[task] for task in problem.task_arrival])
        core.keep_actives(whatever_the_load=False)
        unassigned = [
            problem.number_of[task]
            for task in walked(every, copied=True)
            if not any(problem.number_of[task] in mine for mine in core.board.active)
        ]
        for task in core.revive_standbys(unassigned):
            core.give_active(task, core.best(task, core.map_order))
        place_standbys(core, [problem.number_of[task] for task in every])
        return TaskPlan.of(problem, core.board, in_turn=in_turn(problem, core.given))
