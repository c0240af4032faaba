"""What came of it: who ran what when, and the rebalances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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
    "measure",
]

#: running: an active that has all its state; restoring: one that has not; stopped: one in a
#: rebalance in which the whole group stops (before Kafka 2.4).
Kind = Literal["running", "restoring", "stopped", "standby", "warm-up"]


@dataclass(frozen=True)
class TaskInterval:
    """A task on a client for some time, from `from_ms` up to `to_ms`."""

    client: str
    task: TaskId
    kind: Kind
    from_ms: int
    to_ms: int


@dataclass(frozen=True)
class StreamsRebalance:
    """A rebalance.

    Attributes:
        began_ms: when its first cause came up.
        at_ms: when everybody had its assignment.
        causes: in the order in which they came up.
        active: tasks of each client by the plan.
        standby: the same for standbys and warm-ups.
        warmups: (client, task) of the warm-ups among them.
        withheld: tasks that somebody else had to give up first.
        probing: whether lags are looked at again after the probing interval.
        given: of each client's threads in order: active tasks, in a classic group without
            those withheld, and standbys.
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


@dataclass
class SimulationResult:
    """A simulation that is over.

    Attributes:
        length_ms: of the simulation.
        tasks: all of them.
        threads: of each client.
        spans: in the order in which they ended.
        present: client -> the times from and to which it was up.
        rebalances: in order, the first one included.
        restored_bytes: that copies read because they were behind.
        followed_bytes: that caught-up standbys read to stay so.
        cross_rack_bytes: read from another rack: sources, and changelogs.
        spare_byte_ms: bytes of state beside that of the actives, over time.
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
        """Rebalances and spans as JSON has them, times in seconds."""
        return {
            "rebalances": [
                {
                    "began": one.began_ms / 1000,
                    "at": one.at_ms / 1000,
                    "causes": list(one.causes),
                    "active": _named(one.active),
                    "standby": _named(one.standby),
                    "warmups": [[client, str(task)] for client, task in one.warmups],
                    "withheld": [str(task) for task in one.withheld],
                    "probing": one.probing,
                }
                for one in self.rebalances
            ],
            "spans": [
                {
                    "client": one.client,
                    "task": str(one.task),
                    "kind": one.kind,
                    "from": one.from_ms / 1000,
                    "to": one.to_ms / 1000,
                }
                for one in sorted(self.spans, key=lambda one: (one.from_ms, one.client, one.task))
            ],
        }


def _named(rows: Mapping[str, tuple[TaskId, ...]]) -> dict[str, list[str]]:
    return {client: [str(task) for task in tasks] for client, tasks in rows.items()}


class IntervalRecorder:
    """Turns what is seen at each moment into spans."""

    def __init__(self, played: SimulationResult) -> None:
        self._played = played
        self._open: dict[tuple[str, TaskId], tuple[Kind, int]] = {}
        self._up: dict[str, int] = {}

    def see(self, now_ms: int, seen: Mapping[tuple[str, TaskId], Kind]) -> None:
        """What there is from now on."""
        for key, (kind, since) in list(self._open.items()):
            if seen.get(key) != kind:
                del self._open[key]
                if now_ms > since:
                    self._played.spans.append(TaskInterval(*key, kind, since, now_ms))
        for key, kind in seen.items():
            self._open.setdefault(key, (kind, now_ms))

    def up(self, now_ms: int, client: str) -> None:
        """A client is there from now on."""
        self._up[client] = now_ms

    def down(self, now_ms: int, client: str) -> None:
        """A client is gone from now on."""
        self._played.present.setdefault(client, []).append((self._up.pop(client), now_ms))

    def end(self, now_ms: int) -> None:
        """It is over."""
        self.see(now_ms, {})
        for client in list(self._up):
            self.down(now_ms, client)


@dataclass(frozen=True)
class StreamsMetrics:
    """Figures of a simulation, the length of it being the unit of all means.

    Attributes:
        unavailable_seconds: task -> seconds without an active that has all its state.
        total_unavailable: of all tasks together, in seconds.
        worst_unavailable: of the task that has most, in seconds.
        restored_bytes: that copies read because they were behind.
        followed_bytes: that caught-up standbys read to stay so.
        standby_bytes: mean bytes of state beside that of the actives: standbys, warm-ups, and
            what is left of tasks that were given up.
        cross_rack_bytes: read from another rack.
        rebalances: after the first.
        probing: of them, those that were only to look at lags again.
        moved: times that a task came to run on another client than the last.
        spread: mean difference between most and fewest active tasks per thread over clients.
        final_spread: the same at the end.
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
        """As JSON has it."""
        return asdict(self)


def measure(played: SimulationResult) -> StreamsMetrics:
    """The figures of a simulation that is over.

    >>> from partage.streams import TaskId
    >>> one = measure(SimulationResult(5000, (TaskId(0, 0),), {"a": 1}, present={"a": [(0, 5000)]}))
    >>> one.unavailable_seconds, one.rebalances
    ({'0_0': 5.0}, 0)
    """
    ran = Counter[str]()
    for span in played.spans:
        if span.kind == "running":
            ran[str(span.task)] += span.to_ms - span.from_ms
    away = {str(task): (played.length_ms - ran[str(task)]) / 1000 for task in played.tasks}
    later = played.rebalances[1:]
    spread, final = _spreads(played)
    return StreamsMetrics(
        away,
        round(sum(away.values()), 3),
        max(away.values(), default=0.0),
        round(played.restored_bytes),
        round(played.followed_bytes),
        round(played.spare_byte_ms / played.length_ms),
        round(played.cross_rack_bytes),
        len(later),
        sum(one.causes == ("probing",) for one in later),
        _moved(played),
        round(spread, 3),
        round(final, 3),
    )


def _moved(played: SimulationResult) -> int:
    last: dict[object, str] = {}
    moved = 0
    for span in sorted(played.spans, key=lambda one: one.from_ms):
        if span.kind == "running":
            moved += last.get(span.task, span.client) != span.client
            last[span.task] = span.client
    return moved


def _spreads(played: SimulationResult) -> tuple[float, float]:
    """Over time, and in the last moment."""
    changes: dict[int, list[tuple[str, int, int]]] = {}
    for span in played.spans:
        if span.kind not in {"standby", "warm-up"}:
            changes.setdefault(span.from_ms, []).append((span.client, 0, 1))
            changes.setdefault(span.to_ms, []).append((span.client, 0, -1))
    for client, times in played.present.items():
        for begin, end in times:
            changes.setdefault(begin, []).append((client, 1, 0))
            changes.setdefault(end, []).append((client, -1, 0))
    up, tasks = Counter[str](), Counter[str]()
    total, spread, before = 0.0, 0.0, 0
    for now in sorted(changes):
        total += spread * (now - before)
        if now >= played.length_ms:
            break
        for client, comes, more in changes[now]:
            up[client] += comes
            tasks[client] += more
        loads = [tasks[one] / played.threads[one] for one in up if up[one] > 0]
        spread, before = (max(loads) - min(loads) if loads else 0.0), now
    return total / played.length_ms, spread
