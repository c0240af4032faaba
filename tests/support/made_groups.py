"""Groups and runs of the report made by hand, without tables."""

from __future__ import annotations

from partage.report.run import GroupFigures, PolicyFigures, RunFigures, Traits, total_metrics
from partage.tables.statuses import RECORDED

COVERAGE = {
    "first_ms": 0, "last_ms": 501_000, "rebalances": 4, "missing_before": 0,
    "missing_within": 0, "transactions": "known", "cluster_states": 1,
}  # fmt: skip


def figures(name: str, **more) -> PolicyFigures:
    entries = {"rows": 4, "done": 4, "proven": 4} | more
    happened = entries["rows"] - entries.get("spared", 0)
    return PolicyFigures.from_sums(name, **({"happened": happened} | entries))


def made_group(name: str = "g", *of: PolicyFigures, **more) -> GroupFigures:
    mine = {
        "anchor": "g0", "kind": "classic", "status": "replayed", "why": None, "claimed": ("range",),
        "clients": ("java",), "records": 0, "commits": 0, "rebalances": 4, "incarnations": 0,
        "missing_generations": 0, "coverage": 1.0, "members_max": 2, "partitions_max": 6,
        "figures": {one.policy: one for one in of}, "per_rebalance": {}, "causes": (),
        "traits": Traits(),
    }  # fmt: skip
    return GroupFigures(name=name, **(mine | more))


def made_run(*groups: GroupFigures, causes=(), **cover) -> RunFigures:
    sums: dict[str, list[PolicyFigures]] = {}
    for group in groups:
        for name, one in group.figures.items():
            sums.setdefault(name, []).append(one)
    overall = {name: total_metrics(of) for name, of in sums.items()}
    return RunFigures(
        {"coverage": COVERAGE | cover, "accounting": {"bad": 0}}, groups,
        tuple(n for n in overall if n != RECORDED), overall, {}, tuple(causes), (),
    )  # fmt: skip


def lost(low: float, high: float) -> PolicyFigures:
    return figures(RECORDED, stopped_known=4, stopped_low=low, stopped_high=high)
