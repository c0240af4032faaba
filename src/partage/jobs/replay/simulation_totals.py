"""What lives add up to, by group, policy and reading: small, from workers to the driver."""

from __future__ import annotations

import json
from typing import Any

from partage.groups import registry
from partage.history.agreement import Verdict
from partage.history.events import Generation
from partage.history.streams_application import STREAMS_PROTOCOL
from partage.simulation.metrics import SimulatedRebalance
from partage.tables.statuses import FAILED, NOT_YET, PER_REBALANCE

__all__ = ["LivesTotals"]

#: How many disagreements and failures a task tells of one by one, a group; all are counted.
_MOST_TOLD = 20
#: Sums, from a row of table ``replays``; null counts as nothing.
_SUMS = (
    "moved", "avoidable", "idle", "rack_mismatches", "breaches", "changed", "stopped_low_ps",
    "stopped_high_ps", "reread_low", "reread_high",
)  # fmt: skip

_Totals = dict[str, Any]


def _blank() -> _Totals:
    return {
        "rows": 0, "rebalances": 0, "caused": 0, "claimed": 0, "costed": 0, "status": {},
        "largest_spread": None, **dict.fromkeys(_SUMS, 0),
    }  # fmt: skip


class LivesTotals:
    """Add rows while they are written; those of many tasks are merged by the driver.

    Attributes:
        groups: group -> "policy|reading" -> totals. ``rebalances`` are recorded ones, ``caused``
            rebalances that happen under the policy, follow-ups included, ``costed`` rows whose
            stopped partition-seconds are known.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, _Totals]] = {}
        self.verdicts: dict[str, dict[str, dict[str, int]]] = {}
        self.disagreements: dict[str, list[dict[str, Any]]] = {}
        self.failures: dict[str, list[dict[str, Any]]] = {}
        self.strategies: dict[str, list[str]] = {}
        self.not_yet: dict[str, int] = {}

    def add(self, group: str, row: SimulatedRebalance) -> None:
        """A row of table ``replays``."""
        key = f"{row.policy}|{row.reading}"
        if key not in self.strategies:
            self.strategies[key] = []
        if row.strategy not in self.strategies[key]:
            self.strategies[key].append(row.strategy)
        mine = self.groups.setdefault(group, {}).setdefault(key, _blank())
        cells = row.row()
        mine["rows"] += 1
        mine["rebalances"] += row.step == 0
        mine["caused"] += row.caused
        mine["claimed"] += row.claimed and row.step == 0
        mine["costed"] += cells["stopped_low_ps"] is not None
        mine["status"][row.status] = mine["status"].get(row.status, 0) + 1
        for name in _SUMS:
            mine[name] += cells[name] or 0
        if cells["spread"] is not None:
            mine["largest_spread"] = max(mine["largest_spread"] or 0, cells["spread"])
        if row.status == NOT_YET and row.reading == PER_REBALANCE:
            self.not_yet[row.strategy] = self.not_yet.get(row.strategy, 0) + 1
        if row.status == FAILED:
            self._tell(self.failures, group, row.generation, row.strategy, row.detail)

    def judged(self, group: str, found: Generation, said: Verdict) -> None:
        """Whether a recorded rebalance is what its own strategy decides."""
        if said.agrees is None:
            return
        claimed = found.first.strategy or found.protocol
        if claimed == STREAMS_PROTOCOL and said.judged_by is not None:
            claimed = said.judged_by  # the protocol of Streams' leaders names no assignor
        foreign = said.judged_by not in (None, claimed)
        name = str(said.judged_by) if foreign else claimed
        # A plan that was taken over in a migration is judged by where it comes from: no dialect.
        dialect = foreign and all(registry.is_dialect(one) for one in name.split(" or "))
        counts = said.counts and not foreign
        where = "by_dialect" if dialect else "by_strategy" if counts else "others"
        by = self.verdicts.setdefault(f"{found.protocol}|{where}", {})
        mine = by.setdefault(name, {"counted": 0, "agreed": 0})
        mine["counted"] += 1
        mine["agreed"] += said.agrees
        if not said.agrees and said.counts:
            self._tell(self.disagreements, group, found.number, claimed, said.why)

    def _tell(
        self,
        told: dict[str, list[dict[str, Any]]],
        group: str,
        generation: int,
        strategy: str,
        why: str | None,
    ) -> None:
        mine = told.setdefault(group, [])
        if len(mine) < _MOST_TOLD:
            row = {"group": group, "generation": generation, "strategy": strategy, "why": why}
            mine.append(row)

    def to_json(self) -> str:
        """Compact JSON."""
        return json.dumps(vars(self))

    def merge(self, text: str) -> None:
        """Totals of another task, as `to_json` wrote them."""
        other = json.loads(text)
        for group, policies in other["groups"].items():
            for key, totals in policies.items():
                mine = self.groups.setdefault(group, {})
                mine[key] = added(mine.get(key), totals)
        for where, by in other["verdicts"].items():
            for name, counts in by.items():
                mine_of = self.verdicts.setdefault(where, {})
                mine_of[name] = added(mine_of.get(name), counts)
        for mine_told, name in (
            (self.disagreements, "disagreements"), (self.failures, "failures"),
        ):  # fmt: skip
            for group, told in other[name].items():
                rows = [*mine_told.get(group, []), *told]
                rows.sort(key=lambda r: (r["generation"], r["strategy"], str(r["why"])))
                mine_told[group] = rows[:_MOST_TOLD]
        self.not_yet = added(self.not_yet, other["not_yet"])
        for key, names in other["strategies"].items():
            known = self.strategies.setdefault(key, [])
            known += [n for n in names if n not in known]

    def policies(self) -> dict[str, _Totals]:
        """Totals over all groups by "policy|reading", and how many groups they are of."""
        out: dict[str, _Totals] = {}
        for policies in self.groups.values():
            for key, totals in policies.items():
                out[key] = added(out.get(key), {"groups": 1, **totals})
        return out


def added(a: _Totals | None, b: _Totals) -> _Totals:
    """Two totals as one: sums, the larger spread, statuses by name.

    >>> added({"rows": 1, "status": {"done": 1}}, {"rows": 2, "status": {"done": 1, "failed": 1}})
    {'rows': 3, 'status': {'done': 2, 'failed': 1}}
    """
    if a is None:
        return b
    out = dict(a)
    for name, value in b.items():
        old = out.get(name)
        if isinstance(value, dict):
            out[name] = added(old or {}, value)
        elif name == "largest_spread":
            known = [v for v in (old, value) if v is not None]
            out[name] = max(known, default=None)
        else:
            out[name] = (old or 0) + value
    return out
