"""What a capture says about trouble: once, now and then while it lasts, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["LastingConditions"]

_AGAIN_SECONDS = 60.0
#: Shorter than that is the life of a cluster: a leader moves, a broker restarts.
_WORTH_KEEPING_SECONDS = 5.0


@dataclass
class LastingConditions:
    """Conditions that last, by their kind: the words before the first colon.

    Attributes:
        told: is told a sentence.
        kept: is told what a capture should remember of it.
        last: the last condition; "" for none.
    """

    told: Callable[[str], None]
    kept: Callable[[str], None]
    last: str = ""
    _since: dict[str, float] = field(default_factory=dict)
    _told_at: dict[str, float] = field(default_factory=dict)

    def say(self, what: str) -> None:
        """Something is not as it should be, now."""
        now, kind = time.time(), what.partition(":")[0]
        self.last = what
        since = self._since.setdefault(kind, now)
        if kind not in self._told_at:
            self.told(what)
        elif now - self._told_at[kind] >= _AGAIN_SECONDS:
            self.told(f"{what}; still so, since {_clock(since)}")
        else:
            return
        self._told_at[kind] = now

    def well(self) -> None:
        """All is as it should be again."""
        if not self._since:
            return
        since, now = min(self._since.values()), time.time()
        self._since.clear()
        self._told_at.clear()
        self.told(f"reading again, after {now - since:.0f} s")
        if now - since >= _WORTH_KEEPING_SECONDS:
            self.kept(f"not everything could be read from {_clock(since)} to {_clock(now)} "
                      f"({self.last}); what the metadata were then nobody looked at")  # fmt: skip


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
