"""What runs stays where it is, because nobody could tell the lags."""

from __future__ import annotations

from partage.streams.legacy_sticky import sticky_board
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem

__all__ = ["FallbackPrior"]


class FallbackPrior:
    """What a client ran it keeps, whatever the load; and the lags are asked for again.

    Kafka's leader falls back to it when it could not fetch the ends of changelogs. It is
    `LegacySticky` that preserves all actives, without racks, and always probes.

    Exact to ``FallbackPriorTaskAssignor`` of kafka-streams 4.3.1 (KIP-441).

    >>> from partage.streams import Client, ProcessId, TaskId
    >>> tasks = [TaskId(0, n) for n in range(3)]
    >>> clients = [Client(ProcessId(0, 1), previous_active=tasks), Client(ProcessId(0, 2))]
    >>> plan = FallbackPrior().assign(TaskProblem(clients, tasks, tasks))
    >>> plan.active, plan.probing
    (((0, 1, 2), ()), True)
    """

    name = "streams:fallback-prior"
    exact_to = (
        "org.apache.kafka.streams.processor.internals.assignment.FallbackPriorTaskAssignor 4.3.1"
    )

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan; ``probing`` is always true.

        Raises:
            UnsupportedProblemError: more tasks than Kafka's class can count pairs of.
        """
        return TaskPlan.of(problem, sticky_board(problem, None, preserve=True).board, probing=True)
