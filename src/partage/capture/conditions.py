"""Lasting conditions of a capture, reported when they begin, every minute, and when they end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["LastingConditions"]

_AGAIN_SECONDS = 60.0
#: Shorter conditions are normal (a leader moves, a broker restarts) and not recorded.
_WORTH_KEEPING_SECONDS = 5.0


@dataclass
class LastingConditions:
    """Conditions that hold for some time; the words before the first colon are their kind.

    Attributes:
        report: called with a sentence for the user.
        remember: called with a sentence for the capture's manifest.
        last: the latest condition; "" before the first one.
    """

    report: Callable[[str], None]
    remember: Callable[[str], None]
    last: str = ""
    _since: dict[str, float] = field(default_factory=dict)
    _reported_at: dict[str, float] = field(default_factory=dict)

    def say(self, what: str) -> None:
        """Report a condition that holds now; repeat it at most once a minute."""
        now, kind = time.time(), what.partition(":")[0]
        self.last = what
        since = self._since.setdefault(kind, now)
        if kind not in self._reported_at:
            self.report(what)
        elif now - self._reported_at[kind] >= _AGAIN_SECONDS:
            self.report(f"{what}; still so, since {_clock(since)}")
        else:
            return
        self._reported_at[kind] = now

    def well(self) -> None:
        """Report the end of all conditions."""
        if not self._since:
            return
        since, now = min(self._since.values()), time.time()
        self._since.clear()
        self._reported_at.clear()
        self.report(f"reading again, after {now - since:.0f} s")
        if now - since >= _WORTH_KEEPING_SECONDS:
            self.remember(f"not everything could be read from {_clock(since)} to {_clock(now)} "
                      f"({self.last}); the metadata of that time were not read")  # fmt: skip


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
