"""The first sticky task assignor, of Kafka Streams 0.11 (2017)."""

from __future__ import annotations

from partage.legacy.streams_0_10_2 import tasks_in_turn
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.sticky import StickyCore
from partage.streams.task_ids import TaskId, early_task_hash, tasks_in_hash_order

__all__ = ["Release011"]


class Release011:
    """Tasks stay on their clients, or move to clients with their state; the least loaded are next.

    The predecessor of `partage.streams.sticky.LegacySticky` differs in four points. Tasks
    without a previous client are assigned in the order of a hash set. Stateless tasks get
    standbys too. There are no racks. Task ids have another hash code.

    Exact to ``StickyTaskAssignor`` of kafka-streams 0.11.0.3 (its clients in a ``HashMap``,
    tasks in a hash set, previous tasks in a hash set filled in the order given).

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
        """Return the plan.

        Raises:
            UnsupportedProblemError: Kafka's class cannot count the pairs of so many tasks.
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
            core.assign_active(task, core.best(task, core.map_order))
        core.assign_standbys(number_of[task] for task in every)
        return TaskPlan.of(problem, core.draft, in_turn=tasks_in_turn(problem, core.given))
