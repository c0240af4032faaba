"""What one group adds to the summary; small, and the same whatever the length of its history."""

from __future__ import annotations

from typing import Any

from partage.history.records import LogPosition
from partage.tables.statuses import NOT_REPLAYED, OFFSETS_ONLY, REPLAYED

__all__ = ["GroupTotals"]


class GroupTotals:
    """Counts of one group, added up while its rows are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.commits = 0
        self.incarnations = 0
        self._kinds: list[str] = []
        self._place: LogPosition | None = None
        self._records = 0
        self._times: list[int] = []
        self._rebalances = 0
        self._members_max = 0
        self._partitions_max = 0
        self._replayed = 0
        self._whys: dict[str, int] = {}
        self._claimed: dict[str, int] = {}
        self._clients: set[str] = set()
        self._missing = (0, 0)
        self._causes: dict[str, dict[str, int]] = {}

    def record(self, kind: str, place: LogPosition, time_ms: int) -> None:
        """A record that is no commit."""
        if kind not in self._kinds:
            self._kinds.append(kind)
        self._place = self._place or place
        self._records += 1
        self._times = [min([*self._times, time_ms]), max([*self._times, time_ms])]

    def commit_place(self, place: LogPosition) -> None:
        """Where a commit stands, for groups that have nothing else."""
        self._place = self._place or place

    def missing(self, before: int, within: int) -> None:
        """Generations that the log lacks: before its first record, and between two of them."""
        self._missing = (before, within)

    def rebalance(self, row: dict[str, Any]) -> None:
        """A row of table ``rebalances``."""
        self._rebalances += 1
        self._members_max = max(self._members_max, row["members"])
        self._partitions_max = max(self._partitions_max, row["partitions"])
        self._replayed += row["replayed"]
        if row["why_not"] is not None:
            self._whys[row["why_not"]] = self._whys.get(row["why_not"], 0) + 1
        if row["strategy"] is not None:
            self._claimed[row["strategy"]] = self._claimed.get(row["strategy"], 0) + 1
        self._clients.update(row["clients"])
        cause = self._causes.setdefault(row["cause_kind"], {"recorded": 0, "inferred": 0})
        cause[row["cause_source"]] += 1

    def row(self) -> dict[str, Any]:
        """The row of table ``groups``, without the group's name."""
        status, why = self._status()
        return {
            "kind": "+".join(self._kinds) or OFFSETS_ONLY,
            "status": status,
            "why": why,
            "traceback": None,
            "log_partition": self._place.partition if self._place else -1,
            "records": self._records,
            "commits": self.commits,
            "rebalances": self._rebalances,
            "incarnations": self.incarnations,
            "missing_generations": sum(self._missing),
            "first_ms": self._times[0] if self._times else None,
            "last_ms": self._times[1] if self._times else None,
            "claimed": list(self._claimed),
            "clients": sorted(self._clients),
            "coverage": self._coverage(),
            "members_max": self._members_max if self._rebalances else None,
            "partitions_max": self._partitions_max if self._rebalances else None,
        }

    def _coverage(self) -> float | None:
        """Recorded generations by those that are known to have been; None if none is."""
        known = self._rebalances + sum(self._missing)
        return self._rebalances / known if known else None

    def _status(self) -> tuple[str, str | None]:
        if not self._kinds:
            return OFFSETS_ONLY, None
        if self._replayed:
            return REPLAYED, None
        return NOT_REPLAYED, next(
            (w for w in self._whys if w != "no members"), "nobody ever joined"
        )

    def summary(self) -> dict[str, Any]:
        """The group's entry in ``summary.json``."""
        return {
            "group": self.name,
            **self.row(),
            "missing_before": self._missing[0],
            "missing_within": self._missing[1],
            "not_replayed": self._whys,
            "claims": self._claimed,
            "causes": self._causes,
        }
