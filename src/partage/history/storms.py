"""Rebalance storms: rebalances that follow each other faster than a group can settle.

A storm is three or more rebalances of a group, each with a cause of its own, within the longest
session timeout of its members; overlapping windows are one storm. Follow-ups of cooperative
rebalances belong to the storm around them but never start one, because the protocol requires them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["LEAST_REBALANCES", "LEAST_WINDOW_MS", "StormTracker"]

#: Rebalances that make a storm.
LEAST_REBALANCES = 3
#: Window of groups without a known session timeout: Kafka's default for ``session.timeout.ms``.
LEAST_WINDOW_MS = 45_000

_Item = TypeVar("_Item")


@dataclass(slots=True)
class _PendingRebalance(Generic[_Item]):
    """A recent rebalance of which it is not known yet whether it belongs to a rebalance storm.

    A storm is a series of many rebalances in quick succession.
    """

    item: _Item
    time_ms: int
    window_ms: int
    counts: bool
    storm: int | None = None


class StormTracker(Generic[_Item]):
    """Finder of a consumer group's rebalance storms: many rebalances in quick succession.

    Call `add_rebalance` for each rebalance, then `finish_storms`. They yield earlier rebalances in
    the same order, with the number of their storm or None.

    >>> tracker = StormTracker[str]()
    >>> times = (0, 2_000, 4_000, 99_000)
    >>> out = [one for t in times for one in tracker.add_rebalance(f"{t}", t, 10_000)]
    >>> out + list(tracker.finish_storms())
    [('0', 0), ('2000', 0), ('4000', 0), ('99000', None)]
    """

    def __init__(self) -> None:
        self._pending: deque[_PendingRebalance[_Item]] = deque()
        self._number = 0

    def export_state(self) -> tuple[Any, ...]:
        """Return the newest rebalances as plain values that can be stored between two runs.

        Later rebalances may still show that these belong to a storm (many rebalances in quick
        succession). `restore_state` takes the values.
        """
        waiting = [(w.item, w.time_ms, w.window_ms, w.counts, w.storm) for w in self._pending]
        return waiting, self._number

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the newest rebalances from the values that `export_state` returned.

        Later rebalances may still show that these belong to a storm (many rebalances in quick
        succession). The next call of `add_rebalance` continues from them.
        """
        waiting, self._number = state
        self._pending = deque(_PendingRebalance(*one) for one in waiting)

    def add_rebalance(
        self, item: _Item, time_ms: int, window_ms: int | None, *, counts: bool = True
    ) -> Iterator[tuple[_Item, int | None]]:
        """Add the group's next rebalance; yield earlier ones, each with the number of its storm.

        A rebalance is yielded when later ones can no longer make it part of a storm, as (object of
        the rebalance, number of its storm or None).

        Args:
            item: the caller's object that represents the rebalance.
            time_ms: its time (ms); a time before that of the previous rebalance is replaced by that
                one.
            window_ms: longest session timeout of its members; None or 0 if there is none.
            counts: whether it counts towards a storm; False for the second rebalance of a
                cooperative one.
        """
        last = self._pending[-1].time_ms if self._pending else time_ms
        newest = _PendingRebalance(item, max(time_ms, last), window_ms or LEAST_WINDOW_MS, counts)
        self._pending.append(newest)
        while newest.time_ms - self._pending[0].time_ms > max(
            self._pending[0].window_ms, newest.window_ms
        ):
            yield self._pop()
        if counts:
            self._assign_storm_number(newest)

    def is_ongoing(self, time_ms: int) -> bool:
        """Return whether the consumer group is in a rebalance storm (many quick rebalances) at a
        time.

        It is if its newest rebalance is part of a storm and at most one session timeout ago.
        """
        newest = self._pending[-1] if self._pending else None
        return (
            newest is not None
            and newest.storm is not None
            and time_ms - newest.time_ms <= newest.window_ms
        )

    def finish_storms(self) -> Iterator[tuple[_Item, int | None]]:
        """Yield the last rebalances, with the number of their storm, when the log ends.

        A storm is a series of many rebalances in quick succession. Each item is (object of the
        rebalance, storm number or None).
        """
        while self._pending:
            yield self._pop()

    def _pop(self) -> tuple[_Item, int | None]:
        first = self._pending.popleft()
        return first.item, first.storm

    def _assign_storm_number(self, newest: _PendingRebalance[_Item]) -> None:
        """Give the newest rebalance and those shortly before it one storm number, if they are a
        storm.

        A storm has at least three rebalances within one session timeout. If one of them already has
        a storm number, the others get the same.
        """
        # At least LEAST_REBALANCES are needed within the newest one's session timeout. If one of
        # them already has a storm number, the others get the same number.
        near = [w for w in self._pending if newest.time_ms - w.time_ms <= newest.window_ms]
        while near and not near[0].counts:
            del near[0]
        if sum(w.counts for w in near) < LEAST_REBALANCES:
            return
        known = next((w.storm for w in near if w.storm is not None), None)
        if known is None:
            known, self._number = self._number, self._number + 1
        for w in near:
            w.storm = known if w.storm is None else w.storm
