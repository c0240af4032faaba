"""What a simulation measures: what users feel, and what it costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from partage.simulation.streams.played import Played

__all__ = ["StreamsMeasures", "measured"]


@dataclass(frozen=True)
class StreamsMeasures:
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


def measured(played: Played) -> StreamsMeasures:
    """The figures of a simulation that is over.

    >>> from partage.streams import TaskId
    >>> one = measured(Played(5000, (TaskId(0, 0),), {"a": 1}, present={"a": [(0, 5000)]}))
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
    return StreamsMeasures(
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


def _moved(played: Played) -> int:
    last: dict[object, str] = {}
    moved = 0
    for span in sorted(played.spans, key=lambda one: one.from_ms):
        if span.kind == "running":
            moved += last.get(span.task, span.client) != span.client
            last[span.task] = span.client
    return moved


def _spreads(played: Played) -> tuple[float, float]:
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
