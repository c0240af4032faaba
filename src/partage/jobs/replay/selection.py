"""The part of a history that a run is about: groups by a pattern, and a span of time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from fnmatch import translate
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError

__all__ = ["EVERYTHING", "Selection", "parse_time"]

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Selection:
    """Groups and times; both ends of the time may be open.

    Every record is decoded and accounted for all the same. Of a chosen group, what happened
    before ``from_ms`` is read, since a history has to begin somewhere, but is in no table.

    Attributes:
        groups: patterns of group ids as a shell has them (``orders-*``); empty takes all.
        from_ms: first millisecond, None from the beginning.
        to_ms: the millisecond after the last one, None to the end.

    >>> chosen = Selection(("orders-*",), from_ms=1_000)
    >>> chosen.group("orders-1"), chosen.group("payments"), chosen.within(999)
    (True, False, False)
    """

    groups: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None

    def __post_init__(self) -> None:
        if self.from_ms is not None and self.to_ms is not None and self.from_ms >= self.to_ms:
            what = f"must be after --from ({self.from_ms} ms)"
            raise InvalidConfigError("--to", what, self.to_ms)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(translate(one) for one in self.groups))

    @property
    def everything(self) -> bool:
        """True if nothing is left out."""
        return not self.groups and self.from_ms is None and self.to_ms is None

    def group(self, name: str) -> bool:
        """Return whether a group is selected."""
        return not self.groups or self._pattern.match(name) is not None

    def within(self, time_ms: int) -> bool:
        """Return whether a time is selected."""
        return self.started(time_ms) and not self.over(time_ms)

    def started(self, time_ms: int) -> bool:
        """Return whether a time is not before the span."""
        return self.from_ms is None or time_ms >= self.from_ms

    def over(self, time_ms: int) -> bool:
        """Return whether a time is after the span."""
        return self.to_ms is not None and time_ms >= self.to_ms

    def commits(
        self, pairs: Sequence[tuple[str, str]], pair: NDArray[np.int32], time_ms: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Return which commits, by pair of group and topic and by time, are selected; None for all.

        A pause begins with the last commit before a rebalance: those before ``from_ms`` stay.

        A pause begins with the last commit before a rebalance: those before ``from_ms`` stay.
        """
        if not self.groups and self.to_ms is None:
            return None
        wanted = np.array([self.group(group) for group, _ in pairs] or [True])
        high = _HIGHEST if self.to_ms is None else min(self.to_ms, _HIGHEST)
        return wanted[pair] & (time_ms < high)

    def as_json(self) -> dict[str, object]:
        """Return the settings for the summary; empty if everything is selected."""
        found = {"groups": list(self.groups), "from_ms": self.from_ms, "to_ms": self.to_ms}
        return {name: value for name, value in found.items() if value not in (None, [])}


EVERYTHING = Selection()


def parse_time(text: str, setting: str) -> int:
    """Return the milliseconds of an ISO time (UTC where it has no offset), or epoch milliseconds.

    Raises:
        InvalidConfigError: it is neither.

    >>> parse_time("2026-11-21T12:00", "--from"), parse_time("1795208590312", "--from")
    (1795262400000, 1795208590312)
    """
    said = text.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,19}", said) and "-" not in said[1:]:
        made = int(said)
    else:
        try:
            # Python 3.10 does not know the Z.
            found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", said))
        except ValueError:
            what = "must be an ISO time such as 2026-11-21T12:00:00Z, or epoch milliseconds"
            raise InvalidConfigError(setting, what, text) from None
        if found.tzinfo is None:
            found = found.replace(tzinfo=timezone.utc)
        made = round(found.timestamp() * 1_000)
    if not _LOWEST <= made <= _HIGHEST:
        raise InvalidConfigError(setting, "must be within 64 bits of milliseconds", text)
    return made
