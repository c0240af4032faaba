"""Storms: rebalances that follow each other faster than a group can settle.

A storm is three or more rebalances of a group, each with a cause of its own, within the longest
session timeout of its members; windows that overlap are one storm. Second steps of cooperative
rebalances belong to the storm in which they happen, but do not make one: they are how the
protocol works.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["LEAST_REBALANCES", "LEAST_WINDOW_MS", "StormTracker", "storms"]

#: Rebalances that make a storm.
LEAST_REBALANCES = 3
#: Groups without a known session timeout: Kafka's default for ``session.timeout.ms``.
LEAST_WINDOW_MS = 45_000

_Kept = TypeVar("_Kept")


@dataclass(slots=True)
class _Waiting(Generic[_Kept]):
    """A rebalance of which it is not known yet whether more follow."""

    kept: _Kept
    time_ms: int
    window_ms: int
    counts: bool
    storm: int | None = None


class StormTracker(Generic[_Kept]):
    """Numbers storms while rebalances are fed in log order; keeps one window of them.

    Whatever is fed comes out again in the same order, with the number of its storm or None.

    >>> tracker = StormTracker[str]()
    >>> out = [one for t in (0, 2_000, 4_000, 99_000) for one in tracker.feed(f"{t}", t, 10_000)]
    >>> out + list(tracker.finish())
    [('0', 0), ('2000', 0), ('4000', 0), ('99000', None)]
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting[_Kept]] = deque()
        self._number = 0

    def feed(
        self, kept: _Kept, time_ms: int, window_ms: int | None, *, counts: bool = True
    ) -> Iterator[tuple[_Kept, int | None]]:
        """One rebalance; what is decided by it comes out.

        Args:
            kept: whatever the caller wants back.
            time_ms: when it happened; times that go backwards count as the time before.
            window_ms: longest session timeout of its members; None or 0 where there is none.
            counts: whether it has a cause of its own; False for follow-ups.
        """
        last = self._waiting[-1].time_ms if self._waiting else time_ms
        one = _Waiting(kept, max(time_ms, last), window_ms or LEAST_WINDOW_MS, counts)
        self._waiting.append(one)
        while one.time_ms - self._waiting[0].time_ms > max(
            self._waiting[0].window_ms, one.window_ms
        ):
            yield self._decided()
        if counts:
            self._mark(one)

    def finish(self) -> Iterator[tuple[_Kept, int | None]]:
        """The end of the history: what is still waiting."""
        while self._waiting:
            yield self._decided()

    def _decided(self) -> tuple[_Kept, int | None]:
        first = self._waiting.popleft()
        return first.kept, first.storm

    def _mark(self, last: _Waiting[_Kept]) -> None:
        """The newest rebalance with those before it that lie within one window."""
        near = [w for w in self._waiting if last.time_ms - w.time_ms <= last.window_ms]
        while near and not near[0].counts:
            del near[0]
        if sum(w.counts for w in near) < LEAST_REBALANCES:
            return
        known = next((w.storm for w in near if w.storm is not None), None)
        if known is None:
            known, self._number = self._number, self._number + 1
        for w in near:
            w.storm = known if w.storm is None else w.storm


def storms(
    times: list[int], windows: list[int | None], counts: list[bool] | None = None
) -> list[int | None]:
    """The storm of each rebalance of a history, None for those in none.

    Args:
        times: int[n], ms, in log order.
        windows: int[n], ms, longest session timeout of the members of each.
        counts: bool[n], whether each has a cause of its own; None means that all have.

    >>> storms([0, 1_000, 2_000, 90_000], [10_000] * 4)
    [0, 0, 0, None]
    >>> storms([0, 1_000, 2_000], [10_000] * 3, [True, False, True])
    [None, None, None]
    """
    tracker: StormTracker[int] = StormTracker()
    own = [True] * len(times) if counts is None else counts
    found: list[tuple[int, int | None]] = []
    for i, (time, window, cause) in enumerate(zip(times, windows, own, strict=True)):
        found.extend(tracker.feed(i, time, window, counts=cause))
    found.extend(tracker.finish())
    return [storm for _, storm in found]
