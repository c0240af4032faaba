"""A consumer's own measure of its partitions: how fast they are read, how far it is behind.

A thread of its own looks at numbers that the client keeps anyway, every few seconds, asks nobody
and changes nothing; it ends when the consumer is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from partage.weights import lags, rates

__all__ = ["MEASURES", "Offsets", "Sampler"]

#: What can be measured: records read per second, or records not read yet.
MEASURES: Final = ("throughput", "lag")

Partition = tuple[str, int]
#: Positions and ends of the log, by partition, as far as the client knows them.
Offsets = tuple[Mapping[Partition, int], Mapping[Partition, int]]

_SECONDS = 2.0


class Sampler:
    """Loads of the partitions that a consumer has now.

    >>> Sampler("lag").loads()
    {}
    """

    def __init__(self, measure: str, *, seconds: float = _SECONDS) -> None:
        self.measure = measure
        self.seconds = seconds
        self._first: dict[Partition, tuple[float, int]] = {}
        self._last: dict[Partition, tuple[float, int]] = {}
        self._ends: dict[Partition, int] = {}
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
        positions, ends = offsets
        with self._lock:
            self._ends = dict(ends)
            self._first = {p: at for p, at in self._first.items() if p in positions}
            self._last = {p: (now, offset) for p, offset in positions.items()}
            for one, at in self._last.items():
                # A reader that was set back starts anew.
                if one not in self._first or self._first[one][1] > at[1]:
                    self._first[one] = at

    def loads(self) -> dict[Partition, float]:
        """Records per second since the partition came, or records not read, by partition."""
        with self._lock:
            if self.measure == "lag":
                return lags({p: at[1] for p, at in self._last.items()}, self._ends)
            out: dict[Partition, float] = {}
            for one, (when, offset) in self._last.items():
                since, first = self._first[one]
                out |= rates({one: first}, {one: offset}, when - since)
            return out

    def _run(self, read: Callable[[], Offsets | None]) -> None:
        while (offsets := read()) is not None:
            self.see(offsets, time.monotonic())
            # The consumer must be free to go meanwhile.
            del offsets
            time.sleep(self.seconds)
