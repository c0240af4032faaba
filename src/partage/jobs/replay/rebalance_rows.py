"""Rows of table `rebalances`, held until the commits around a rebalance have told its length."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from partage.history.events import Generation
from partage.history.pauses import Pause, stopped_partitions
from partage.history.storms import StormTracker
from partage.simulation.costs import stop_length
from partage.simulation.metrics import NOTHING

__all__ = ["RebalanceRows"]

#: Rows that wait; of older ones the length is what is known by then.
_MOST_HELD = 256
_Key = tuple[int, int]
_Held = tuple[_Key, dict[str, Any], frozenset[tuple[str, int]]]


class RebalanceRows:
    """Feed rows and pauses in the order of the log; complete rows come out in that order too."""

    def __init__(self) -> None:
        self._storms: StormTracker[_Held] = StormTracker()
        self._held: deque[tuple[_Held, int | None]] = deque()
        self._pauses: dict[_Key, list[Pause]] = {}

    def row(self, found: Generation, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A rebalance's row; rows that are complete by now."""
        key = (found.incarnation, found.number)
        window = max((m.session_timeout_ms for m in found.first.members), default=0)
        counts = row["cause_kind"] not in ("follow-up", "migration")
        held = (key, row, stopped_partitions(found))
        fed = self._storms.feed(held, found.timestamp_ms, max(window, 0), counts=counts)
        self._held.extend(fed)
        while len(self._held) > _MOST_HELD:
            yield self._complete()

    def pause(self, pause: Pause) -> None:
        """A pause, of a rebalance whose row may come later."""
        self._pauses.setdefault((pause.incarnation, pause.generation), []).append(pause)
        if len(self._pauses) > 2 * _MOST_HELD:
            del self._pauses[next(iter(self._pauses))]

    def finish(self) -> Iterator[dict[str, Any]]:
        """The rows that are left."""
        self._held.extend(self._storms.finish())
        while self._held:
            yield self._complete()

    def _complete(self) -> dict[str, Any]:
        (key, row, stopped), storm = self._held.popleft()
        mine = (p for p in self._pauses.get(key, []) if (p.topic, p.partition) in stopped)
        bounds = stop_length((pause, NOTHING) for pause in mine)
        return row | {
            "storm": storm,
            "stopped_low_ms": None if bounds is None else int(bounds.low),
            "stopped_high_ms": None if bounds is None else int(bounds.high),
        }
