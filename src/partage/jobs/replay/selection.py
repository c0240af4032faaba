"""The selected part of a capture: groups that match patterns, and a span of time."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from difflib import get_close_matches
from fnmatch import translate
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError

__all__ = ["EVERYTHING", "Selection", "parse_time"]

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class Selection:
    """The consumer groups and the time span that the user selected for the output of a replay.

    All records are decoded and counted, whatever the selection. The history of a selected group is
    rebuilt from its first record on, but tables have only rows from ``from_ms`` on.

    Attributes:
        groups: shell patterns of group ids (``orders-*``); empty selects all groups.
        from_ms: first millisecond of the span; None for the beginning of the log.
        to_ms: end of the span, exclusive; None for the end of the log.

    >>> chosen = Selection(("orders-*",), from_ms=1_000)
    >>> [chosen.includes_group(name) for name in ("orders-1", "payments")]
    [True, False]
    >>> chosen.is_after_start(999)
    False
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
    def is_unrestricted(self) -> bool:
        """Return whether the selection includes all groups and all times.

        It is then not mentioned in the summary of the run.
        """
        return not self.groups and self.from_ms is None and self.to_ms is None

    def includes_group(self, name: str) -> bool:
        """Return whether the consumer group with this id is selected.

        It is selected if a pattern matches it, or if there are no patterns.
        """
        return not self.groups or self._pattern.match(name) is not None

    def unmatched_patterns(
        self, groups: Collection[str], others: Collection[str] = ()
    ) -> dict[str, list[str]]:
        """Return the user's patterns that match no consumer group, with similar group ids as
        suggestions.

        A misspelt group id is found in this way.

        Args:
            groups: ids of the groups that match a pattern.
            others: ids of all other groups, which are suggested too.

        Returns:
            Dict from pattern to at most three similar ids, the most similar first.

        >>> Selection(("billing", "order-*")).unmatched_patterns(["billing"], ["orders-1"])
        {'order-*': ['orders-1']}
        """
        found = {}
        for pattern in dict.fromkeys(self.groups):
            matches = re.compile(translate(pattern)).match
            if not any(matches(group) for group in groups):
                found[pattern] = get_close_matches(pattern, sorted({*groups, *others}), 3)
        return found

    def is_after_start(self, time_ms: int) -> bool:
        """Return whether a time (ms since the epoch) is at or after the start of the selected span.

        The end of the span is not considered; `is_after_end` checks it.
        """
        return self.from_ms is None or time_ms >= self.from_ms

    def is_after_end(self, time_ms: int) -> bool:
        """Return whether a time (ms since the epoch) is at or after the end of the selected span.

        The end itself is not part of the span.
        """
        return self.to_ms is not None and time_ms >= self.to_ms

    def commit_mask(
        self, pairs: Sequence[tuple[str, str]], pair: NDArray[np.int32], time_ms: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """Return which offset commits belong to selected groups and times, as a mask (bool[n]).

        The result is None if all are selected. Commits before the time span are included, because a
        pause in consumption may begin there.

        Args:
            pairs: list of (group, topic).
            pair: each commit's index into ``pairs`` (int[n]).
            time_ms: each commit's time (int64[n]).
        """
        # Commits before ``from_ms`` are included, because a pause begins with the last commit
        # before a rebalance.
        if not self.groups and self.to_ms is None:
            return None
        wanted = np.array([self.includes_group(group) for group, _ in pairs] or [True])
        high = _HIGHEST if self.to_ms is None else min(self.to_ms, _HIGHEST)
        return wanted[pair] & (time_ms < high)

    def as_json(self) -> dict[str, object]:
        """Return the selected groups and times as a dict for the summary of the run.

        The dict is empty if everything is selected.
        """
        found = {"groups": list(self.groups), "from_ms": self.from_ms, "to_ms": self.to_ms}
        return {name: value for name, value in found.items() if value not in (None, [])}


EVERYTHING = Selection()


def parse_time(time_text: str, setting: str) -> int:
    """Parse a time that the user gives, and return it in milliseconds since the epoch.

    It is ISO 8601 text or a number of milliseconds. Text without an offset is UTC. ``setting`` is
    the option's name, for errors.

    Raises:
        InvalidConfigError: the text is neither.

    >>> parse_time("2026-11-21T12:00", "--from"), parse_time("1795208590312", "--from")
    (1795262400000, 1795208590312)
    """
    said = time_text.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,19}", said) and "-" not in said[1:]:
        made = int(said)
    else:
        try:
            # Python 3.10 does not know the Z.
            found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", said))
        except ValueError:
            what = "must be an ISO time such as 2026-11-21T12:00:00Z, or epoch milliseconds"
            raise InvalidConfigError(setting, what, time_text) from None
        if found.tzinfo is None:
            found = found.replace(tzinfo=timezone.utc)
        made = round(found.timestamp() * 1_000)
    if not _LOWEST <= made <= _HIGHEST:
        raise InvalidConfigError(setting, "must be within 64 bits of milliseconds", time_text)
    return made
