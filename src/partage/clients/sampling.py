"""A consumer's own measure of its partitions: how fast they fill, how far it is behind.

A thread of its own looks at numbers that the client keeps anyway, every few seconds, asks nobody
and changes nothing; it ends when the consumer is gone.

How fast a partition fills is told by the end of its log, which the client learns with every fetch,
and by the last minute: a reader at its limit reads evenly whatever comes, and a group that was
quiet for a week must see what is hot now. Where the end is not known it is what was read.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from partage.weights import lags, rates

__all__ = ["MEASURES", "Offsets", "Sampler"]

#: What can be measured: records that arrive per second, or records not read yet.
MEASURES: Final = ("throughput", "lag")

Partition = tuple[str, int]
#: Positions and ends of the log, by partition, as far as the client knows them.
Offsets = tuple[Mapping[Partition, int], Mapping[Partition, int]]

_SECONDS = 2.0
_WINDOW = 60.0


class Sampler:
    """Loads of the partitions that a consumer has now.

    Args:
        measure: of `MEASURES`.
        seconds: between two looks.
        window: over which what arrives is counted, in seconds; a partition that has not been
            here so long counts since it came.

    >>> Sampler("lag").loads()
    {}
    """

    def __init__(self, measure: str, *, seconds: float = _SECONDS, window: float = _WINDOW) -> None:
        self.measure = measure
        self.seconds = seconds
        self.window = window
        self._looks: deque[tuple[float, Offsets]] = deque()
        self._since: dict[Partition, float] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, read: Callable[[], Offsets | None]) -> None:
        """Begin to look, once; ``read`` answers None when there is nothing left to watch."""
        if self._thread is None:
            name = "partage-sampler"
            self._thread = threading.Thread(target=self._run, args=(read,), name=name, daemon=True)
            self._thread.start()

    def see(self, offsets: Offsets, now: float) -> None:
        """Take one look's numbers; partitions that are gone are forgotten."""
        positions, ends = dict(offsets[0]), dict(offsets[1])
        with self._lock:
            before = self._looks[-1][1][0] if self._looks else {}
            # A reader that was set back starts anew.
            same = {p for p, at in positions.items() if p in before and before[p] <= at}
            self._since = {p: self._since.get(p, now) if p in same else now for p in positions}
            self._looks.append((now, (positions, ends)))
            # One look from before the window stays, or there would be less than a window.
            while len(self._looks) > 2 and self._looks[1][0] <= now - self.window:
                self._looks.popleft()

    def loads(self) -> dict[Partition, float]:
        """Records per second that arrive, or records not read, by partition."""
        with self._lock:
            if not self._looks:
                return {}
            now, (positions, ends) = self._looks[-1]
            if self.measure == "lag":
                return lags(positions, ends)
            left = dict(self._since)
            out: dict[Partition, float] = {}
            for when, (had, ended) in self._looks:
                for one in [p for p, since in left.items() if since <= when]:
                    del left[one]
                    known = one in ended and one in ends
                    first, last = (ended, ends) if known else (had, positions)
                    out |= rates({one: first[one]}, {one: last[one]}, now - when)
            return out

    def _run(self, read: Callable[[], Offsets | None]) -> None:
        while True:
            # The client changes what is read here while it is read: the next look may succeed.
            with contextlib.suppress(Exception):
                offsets = read()
                if offsets is None:
                    return
                self.see(offsets, time.monotonic())
                # The consumer must be free to go meanwhile.
                del offsets
            time.sleep(self.seconds)
