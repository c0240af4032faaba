"""One clock and one event loop: what happens next is what is due first."""

from __future__ import annotations

import heapq
from collections.abc import Callable

__all__ = ["Loop"]


class Loop:
    """Simulated time: actions run in the order in which they are due, and may plan others.

    Of actions due at one moment those of a lower ``rank`` run first, then those planned
    first: the order never depends on anything else.

    Attributes:
        now_ms: the time of the action that runs; it never goes back.

    >>> loop, seen = Loop(), []
    >>> loop.at(20, lambda: seen.append(("b", loop.now_ms)))
    >>> loop.at(10, lambda: loop.after(10, lambda: seen.append(("a", loop.now_ms)), rank=-1))
    >>> loop.run()
    >>> seen
    [('a', 20), ('b', 20)]
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._due: list[tuple[int, int, int, Callable[[], None]]] = []
        self._planned = 0

    def at(self, time_ms: int, action: Callable[[], None], *, rank: int = 0) -> None:
        """Plan an action; one whose time has passed already is due at once."""
        self._planned += 1
        heapq.heappush(self._due, (time_ms, rank, self._planned, action))

    def after(self, wait_ms: int, action: Callable[[], None], *, rank: int = 0) -> None:
        """Plan an action some time from now."""
        self.at(self.now_ms + wait_ms, action, rank=rank)

    def run(self, before_ms: int | None = None) -> None:
        """Run until nothing is planned, or nothing that is due before a time."""
        while self._due and (before_ms is None or self._due[0][0] < before_ms):
            time_ms, _, _, action = heapq.heappop(self._due)
            self.now_ms = max(self.now_ms, time_ms)
            action()
