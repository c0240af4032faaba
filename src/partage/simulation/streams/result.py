"""Result of a simulated Streams application: intervals, rebalances, and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from partage.streams import TaskId

__all__ = [
    "IntervalRecorder",
    "Kind",
    "SimulationResult",
    "StreamsMetrics",
    "StreamsRebalance",
    "TaskInterval",
    "find_outages",
    "measure_streams_result",
]

#: What a client does with a task. running: active with all its state; restoring: active without;
#: stopped: active during an eager rebalance (before Kafka 2.4).
Kind = Literal["running", "restoring", "stopped", "standby", "warm-up"]


@dataclass(frozen=True)
class TaskInterval:
    """A time span in which a client restored, ran or had a copy of one Kafka Streams task.

    ``kind`` is the activity, such as running, restoring or standby. Times are in milliseconds.
    """

    client: str
    task: TaskId
    kind: Kind
    from_ms: int
    to_ms: int


@dataclass(frozen=True)
class StreamsRebalance:
    """One rebalance of a simulated Kafka Streams application, with the new task assignment.

    Attributes:
        began_ms: time of its first cause (ms).
        at_ms: time of its end (ms), when all members have their assignment.
        causes: descriptions of its causes, in order of time.
        active: dict from client to assigned active tasks.
        standby: dict from client to assigned standbys and warm-ups.
        warmups: (client, task) pairs whose copy is a warm-up.
        withheld: tasks that are not assigned yet, because their previous owner must revoke them
            first.
        probing: whether a probing rebalance follows after the probing interval.
        given: dict from client to active tasks and standbys of each thread; in a classic group
            without withheld tasks.
    """

    began_ms: int
    at_ms: int
    causes: tuple[str, ...]
    active: Mapping[str, tuple[TaskId, ...]]
    standby: Mapping[str, tuple[TaskId, ...]]
    warmups: tuple[tuple[str, TaskId], ...] = ()
    withheld: tuple[TaskId, ...] = ()
    probing: bool = False
    given: Mapping[str, tuple[tuple[tuple[TaskId, ...], tuple[TaskId, ...]], ...]] = field(
        default_factory=dict
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the simulated rebalance as a dict that JSON can represent.

        It has, for example, the causes and the new tasks of each client. Times are in seconds.
        """
        return {
            "began": self.began_ms / 1000,
            "at": self.at_ms / 1000,
            "causes": list(self.causes),
            "active": _as_text(self.active),
            "standby": _as_text(self.standby),
            "warmups": [[client, str(task)] for client, task in self.warmups],
            "withheld": [str(task) for task in self.withheld],
            "probing": self.probing,
        }


@dataclass
class SimulationResult:
    """The result of a Streams simulation: the activities of tasks over time, and the rebalances.

    Attributes:
        length_ms: simulated time (ms).
        tasks: all tasks of the application.
        threads: dict from client to number of threads.
        spans: intervals of tasks on clients, in the order in which they ended.
        present: dict from client to (from, to) of each span in which it ran.
        rebalances: all rebalances in order, including the first.
        restored_bytes: bytes read by copies that were behind.
        followed_bytes: bytes read by standbys that had caught up.
        cross_rack_bytes: bytes read from other racks, of sources and changelogs.
        spare_byte_ms: bytes of state in addition to that of active tasks, integrated over time
            (ms).
    """

    length_ms: int
    tasks: tuple[TaskId, ...]
    threads: Mapping[str, int]
    spans: list[TaskInterval] = field(default_factory=list)
    present: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    rebalances: list[StreamsRebalance] = field(default_factory=list)
    restored_bytes: float = 0.0
    followed_bytes: float = 0.0
    cross_rack_bytes: float = 0.0
    spare_byte_ms: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the rebalances and task intervals of the simulation as a dict for JSON.

        Times are in seconds from the beginning of the simulation.
        """
        spans = sorted(self.spans, key=lambda span: (span.from_ms, span.client, span.task))
        return {
            "rebalances": [rebalance.to_dict() for rebalance in self.rebalances],
            "spans": [
                {
                    "client": span.client,
                    "task": str(span.task),
                    "kind": span.kind,
                    "from": span.from_ms / 1000,
                    "to": span.to_ms / 1000,
                }
                for span in spans
            ],
        }


def _as_text(rows: Mapping[str, tuple[TaskId, ...]]) -> dict[str, list[str]]:
    return {client: [str(task) for task in tasks] for client, tasks in rows.items()}


class IntervalRecorder:
    """Recorder of what each client does with each Streams task over time, as intervals.

    For example, a client restores a task's state in one interval and runs the task in the next.
    """

    def __init__(self, result: SimulationResult) -> None:
        self._result = result
        self._open: dict[tuple[str, TaskId], tuple[Kind, int]] = {}
        self._up: dict[str, int] = {}

    def record_activities(self, now_ms: int, activities: Mapping[tuple[str, TaskId], Kind]) -> None:
        """Record what each client does with each of its tasks from the time ``now_ms`` on.

        ``activities`` is a dict from (client, task) to running, restoring, standby and so on. Where
        it differs from the previous one, an interval ends and a new one begins.
        """
        for key, (kind, since) in list(self._open.items()):
            if activities.get(key) != kind:
                del self._open[key]
                if now_ms > since:
                    self._result.spans.append(TaskInterval(*key, kind, since, now_ms))
        for key, kind in activities.items():
            self._open.setdefault(key, (kind, now_ms))

    def record_client_start(self, now_ms: int, client: str) -> None:
        """Record that a Streams client has started, at simulated time ``now_ms``.

        The result shows in which time spans each client ran.
        """
        self._up[client] = now_ms

    def record_client_stop(self, now_ms: int, client: str) -> None:
        """Record that a Streams client has stopped or crashed, at simulated time ``now_ms``.

        The time span since its start is added to the result.
        """
        self._result.present.setdefault(client, []).append((self._up.pop(client), now_ms))

    def close_intervals(self, now_ms: int) -> None:
        """Close all open intervals of task activity at the end of the simulation.

        ``now_ms`` is the time of the end. Clients that still run count as present until then.
        """
        self.record_activities(now_ms, {})
        for client in list(self._up):
            self.record_client_stop(now_ms, client)


# -- metrics -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamsMetrics:
    """Metrics of a Streams simulation; means are averages over the simulated time.

    Attributes:
        unavailable_seconds: dict from task to seconds without an owner that has all its state.
        total_unavailable: sum over all tasks, in seconds.
        worst_unavailable: maximum over all tasks, in seconds.
        restored_bytes: bytes read by copies that were behind.
        followed_bytes: bytes read by standbys that had caught up.
        standby_bytes: mean bytes of state in addition to that of active tasks: standbys, warm-ups,
            and state of revoked tasks that is not cleaned up yet.
        cross_rack_bytes: bytes read from other racks.
        rebalances: number of rebalances after the first one.
        probing: number of probing rebalances among them.
        moved: how often a task began to run on another client than before.
        spread: mean difference between the most and the fewest active tasks per thread, over
            running clients.
        final_spread: that difference at the end.
    """

    unavailable_seconds: dict[str, float]
    total_unavailable: float
    worst_unavailable: float
    restored_bytes: int
    followed_bytes: int
    standby_bytes: int
    cross_rack_bytes: int
    rebalances: int
    probing: int
    moved: int
    spread: float
    final_spread: float

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics of the simulation as a dict that JSON can represent.

        The keys are the names of the metrics.
        """
        return asdict(self)


def measure_streams_result(result: SimulationResult) -> StreamsMetrics:
    """Compute the metrics of a finished Streams simulation.

    >>> from partage.streams import TaskId
    >>> present = {"a": [(0, 5000)]}
    >>> result = SimulationResult(5000, (TaskId(0, 0),), {"a": 1}, present=present)
    >>> found = measure_streams_result(result)
    >>> found.unavailable_seconds, found.rebalances
    ({'0_0': 5.0}, 0)
    """
    ran_ms = Counter[str]()
    for span in result.spans:
        if span.kind == "running":
            ran_ms[str(span.task)] += span.to_ms - span.from_ms
    length = result.length_ms
    unavailable = {str(task): (length - ran_ms[str(task)]) / 1000 for task in result.tasks}
    later = result.rebalances[1:]
    spread, final_spread = _measure_task_spread(result)
    return StreamsMetrics(
        unavailable,
        round(sum(unavailable.values()), 3),
        max(unavailable.values(), default=0.0),
        round(result.restored_bytes),
        round(result.followed_bytes),
        round(result.spare_byte_ms / length),
        round(result.cross_rack_bytes),
        len(later),
        sum(rebalance.causes == ("probing",) for rebalance in later),
        _count_moves(result),
        round(spread, 3),
        round(final_spread, 3),
    )


def find_outages(result: SimulationResult) -> list[int]:
    """Return the outages of Streams tasks (ms): time spans without an owner that has all the task's
    state.

    Time in which no client runs does not count, because no settings shorten it.

    >>> from partage.streams import TaskId
    >>> task = TaskId(0, 0)
    >>> spans = [TaskInterval("a", task, "running", 0, 1000),
    ...          TaskInterval("b", task, "running", 4000, 5000)]
    >>> present = {"a": [(0, 1000)], "b": [(3000, 5000)]}
    >>> find_outages(SimulationResult(5000, (task,), {"a": 1, "b": 1}, spans, present))
    [1000]
    """
    running: dict[TaskId, list[tuple[int, int]]] = {task: [] for task in result.tasks}
    for span in result.spans:
        if span.kind == "running":
            running[span.task].append((span.from_ms, span.to_ms))
    absent = _find_uncovered_times(
        (one for of in result.present.values() for one in of), result.length_ms
    )
    found = []
    for of_task in running.values():
        for begin, end in _find_uncovered_times(of_task, result.length_ms):
            without = sum(max(0, min(end, b) - max(begin, a)) for a, b in absent)
            if end - begin > without:
                found.append(end - begin - without)
    return found


def _find_uncovered_times(
    intervals: Iterable[tuple[int, int]], length_ms: int
) -> list[tuple[int, int]]:
    """Return the parts of the time from 0 to ``length_ms`` that none of the intervals covers.

    For example, the interval from 2 to 5 leaves the parts 0 to 2 and 5 to ``length_ms``.
    """
    found, covered = [], 0
    for begin, end in (*sorted(intervals), (length_ms, length_ms)):
        if begin > covered:
            found.append((covered, begin))
        covered = max(covered, end)
    return found


def _count_moves(result: SimulationResult) -> int:
    """Count how often a Streams task began to run on another client than before.

    ``result`` has the time spans in which each client ran each task.
    """
    last: dict[TaskId, str] = {}
    moves = 0
    for span in sorted(result.spans, key=lambda span: span.from_ms):
        if span.kind == "running":
            moves += last.get(span.task, span.client) != span.client
            last[span.task] = span.client
    return moves


def _measure_task_spread(result: SimulationResult) -> tuple[float, float]:
    """Return how unevenly active tasks are spread over clients: mean over time, and at the end.

    The unit is tasks per thread: the difference between the clients with the most and the fewest.
    """
    changes: dict[int, list[tuple[str, int, int]]] = {}  # time -> (client, starts, active tasks)
    for span in result.spans:
        if span.kind not in {"standby", "warm-up"}:
            changes.setdefault(span.from_ms, []).append((span.client, 0, 1))
            changes.setdefault(span.to_ms, []).append((span.client, 0, -1))
    for client, times in result.present.items():
        for begin, end in times:
            changes.setdefault(begin, []).append((client, 1, 0))
            changes.setdefault(end, []).append((client, -1, 0))
    up, tasks = Counter[str](), Counter[str]()
    total, spread, before = 0.0, 0.0, 0
    for now in sorted(changes):
        total += spread * (now - before)
        if now >= result.length_ms:
            break
        for client, starts, added in changes[now]:
            up[client] += starts
            tasks[client] += added
        loads = [tasks[name] / result.threads[name] for name in up if up[name] > 0]
        spread, before = (max(loads) - min(loads) if loads else 0.0), now
    return total / result.length_ms, spread
