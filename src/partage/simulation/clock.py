"""Simulated time: a queue of scheduled actions, run in the order in which they are due."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["Clock"]

Item = TypeVar("Item")


class Clock:
    """A simulated clock that runs scheduled functions in order of their due times.

    A simulation uses it instead of real time: the clock jumps to the due time of the next function.
    A function may schedule others. Of functions with the same due time, those with a lower ``rank``
    run first, then those that were scheduled first.

    Attributes:
        now_ms: due time of the action that runs; it never decreases.

    >>> clock, log = Clock(), []
    >>> clock.schedule_at(20, lambda: log.append(("b", clock.now_ms)))
    >>> append_a = lambda: log.append(("a", clock.now_ms))
    >>> clock.schedule_at(10, lambda: clock.schedule_after(10, append_a, rank=-1))
    >>> clock.run_scheduled()
    >>> log
    [('a', 20), ('b', 20)]
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._before_ms: int | None = None

    def schedule_at(self, time_ms: int, action: Callable[[], None], *, rank: int = 0) -> None:
        """Schedule a function to run at a simulated time.

        Nothing runs before `run_scheduled` is called. A time in the past means as soon as possible.

        Args:
            time_ms: the simulated time at which the function is due (ms).
            action: the function; it is called without arguments.
            rank: among functions with the same due time, those with a lower rank run first.
        """
        self._scheduled += 1
        heapq.heappush(self._queue, (time_ms, rank, self._scheduled, action))

    def schedule_after(self, wait_ms: int, action: Callable[[], None], *, rank: int = 0) -> None:
        """Schedule a function to run after a simulated delay.

        Nothing runs before `run_scheduled` is called.

        Args:
            wait_ms: the delay from the current simulated time (ms).
            action: the function; it is called without arguments.
            rank: among functions with the same due time, those with a lower rank run first.
        """
        self.schedule_at(self.now_ms + wait_ms, action, rank=rank)

    def after_each(
        self, waits_ms: Iterable[tuple[int, Item]], action: Callable[[Item], None]
    ) -> None:
        """Schedule a call of a function for each of many items, each after its own delay.

        It is a faster equivalent of one `schedule_after` for each item.

        Args:
            waits_ms: pairs of a simulated delay in milliseconds and an item.
            action: the function; it is called with the item.

        >>> clock, log = Clock(), []
        >>> clock.after_each([(30, "c"), (10, "a")], lambda item: log.append((clock.now_ms, item)))
        >>> clock.schedule_after(20, lambda: log.append((clock.now_ms, "b")))
        >>> clock.run_scheduled()
        >>> log
        [(10, 'a'), (20, 'b'), (30, 'c')]
        """
        now_ms, first = self.now_ms, self._scheduled + 1
        # The order numbers are unique, so that items themselves are never compared.
        calls = sorted(
            (now_ms + wait_ms, 0, number, item)
            for number, (wait_ms, item) in enumerate(waits_ms, first)
        )
        self._scheduled += len(calls)
        calls.reverse()

        def run_calls() -> None:
            # Only the next call is in the queue. Those that precede all other actions follow it.
            while True:
                action(calls.pop()[3])
                if not calls:
                    return
                time_ms, rank, number, _ = calls[-1]
                due = (time_ms, rank, number, run_calls)
                is_late = self._before_ms is not None and time_ms >= self._before_ms
                if is_late or (self._queue and self._queue[0] < due):
                    heapq.heappush(self._queue, due)
                    return
                self.now_ms = time_ms

        if calls:
            heapq.heappush(self._queue, (*calls[-1][:3], run_calls))

    def run_scheduled(self, before_ms: int | None = None) -> None:
        """Run all scheduled functions in order of their due times.

        The simulated time ``now_ms`` advances to the due time of each function before it runs.

        Args:
            before_ms: if given, only functions due before this simulated time (ms) run.
        """
        self._before_ms = before_ms
        while self._queue and (before_ms is None or self._queue[0][0] < before_ms):
            time_ms, _, _, action = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, time_ms)
            action()

    def list_scheduled(self) -> list[tuple[int, Callable[[], None]]]:
        """Return the scheduled functions in the order in which they will run.

        Each list item is a pair (due time in ms, function). Nothing is run or removed.
        """
        # No two entries have one number, so that actions themselves are never compared.
        return [(time_ms, action) for time_ms, _, _, action in sorted(self._queue)]
