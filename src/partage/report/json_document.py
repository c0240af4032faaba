"""A run's report as a JSON document; docs/report_json.md lists its fields.

A version number marks changes of the fields.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from partage.report import messages
from partage.report.advice import (
    Advice,
    best_policy,
    coverage_advice,
    merge_advice,
    total_savings,
)
from partage.report.gains import simulation_error
from partage.report.limit_notes import limit_notes
from partage.report.messages import groups_unit
from partage.report.recommendations import (
    Recommendation,
    count_changed_groups,
    recommendations_for,
    sum_estimated_gains,
)
from partage.report.run import (
    CauseShare,
    Estimate,
    FigureRange,
    GroupFigures,
    PolicyFigures,
    RunFigures,
)
from partage.report.view_model import group_row
from partage.tables.sums import json_metrics as metrics_document

__all__ = ["FORMAT", "VERSION", "json_document"]

FORMAT, VERSION = "partage-report", 2


def json_document(run: RunFigures, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the report of a run as a dict that can be written as JSON.

    It has the same numbers and texts as the HTML page; docs/report_json.md lists its fields.
    ``without`` names fields of the groups to leave out.
    """
    saved, helped = total_savings(run)
    unit = groups_unit(run.groups)
    return {
        "format": FORMAT,
        "version": VERSION,
        "run": {
            n: run.summary.get(n) for n in ("run_id", "capture", "engine", "versions", "seconds")
        },
        "headline": messages.run_headline(run),
        "lead": messages.opening_sentences(
            run,
            saved,
            helped,
            count_changed_groups(run.groups_with_rebalances),
            sum_estimated_gains(run.groups_with_rebalances),
        ),
        "trust_line": messages.reliability_sentences(run),
        "coverage": {
            "share": run.in_log / run.rebalance_count if run.rebalance_count else None,
            "enough": run.has_reliable_downtime,
            "what_to_do": None if run.has_reliable_downtime else messages.RECORD_MORE,
        },
        "rebalances": {
            "known": run.rebalance_count,
            "in_log": run.in_log,
            "simulated": run.recorded_figures.happened,
        },
        "lost_partition_seconds": _range(run.downtime_bounds),
        "unread_partition_seconds": _estimate(run.downtime_estimate),
        "assigned_partition_seconds": round(run.assigned_ps, 3),
        "savable": {"partition_seconds": _estimate(saved), "groups": helped},
        "trust": {
            "coverage": run.summary.get("coverage"),
            "agreement": run.summary.get("agreement"),
            "accounting": run.summary.get("accounting"),
            "notes": limit_notes(run),
            "back_tests": [
                {**asdict(one), "agrees": one.agrees_with_recording} for one in run.back_tests
            ],
        },
        "causes": [_cause(c) for c in run.causes],
        "advice": _advice(run),
        "policies": {n: _figures(f) for n, f in run.figures.items()},
        "policies_per_rebalance": {n: _figures(f) for n, f in run.per_rebalance.items()},
        "groups": [_group(g, unit, without) for g in run.groups],
        "failures": [dict(f) for f in run.strategy_failures],
        "bad_records": [asdict(b) for b in run.bad],
    }


def _range(found: FigureRange | None) -> dict[str, float] | None:
    return None if found is None else {"low": round(found.low, 3), "high": round(found.high, 3)}


def _estimate(found: Estimate | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {name: round(value, 3) for name, value in asdict(found).items()}


def _cause(one: CauseShare) -> dict[str, Any]:
    known = one.timed > 0
    return {
        "kind": one.kind, "rebalances": one.rebalances, "recorded": one.recorded,
        "lost_partition_seconds": _range(FigureRange(one.low, one.high)) if known else None,
        "unread_partition_seconds": round(one.best, 3) if known and one.best else None,
    }  # fmt: skip


def _one_advice(one: Advice) -> dict[str, Any]:
    return {
        "rule": one.rule, "title": one.title, "why": one.why, "where": one.where,
        "lines": list(one.lines), "policy": one.policy,
        "saves_partition_seconds": _estimate(one.saves),
    }  # fmt: skip


def _recommendation(one: Recommendation) -> dict[str, Any]:
    return {
        **_one_advice(one.advice), "gain": one.gain_text, "share": one.share_text or None,
        "confidence": one.confidence or None,
        "now": {setting.name: setting.now for setting in one.now},
        "new": {setting.name: setting.new for setting in one.now if setting.new},
        "defaults": {setting.name: setting.default for setting in one.now if setting.default},
        "risk": one.risk, "rollout": one.rollout, "verify": one.verify,
    }  # fmt: skip


def _advice(run: RunFigures) -> list[dict[str, Any]]:
    found = [
        {
            "rule": m.advice.rule, "title": m.advice.title,
            "saves_partition_seconds": _estimate(m.saves),
            "groups": [{"group": g.name, **_one_advice(a)} for g, a in m.groups],
        }
        for m in merge_advice(run.groups)
    ]  # fmt: skip
    record = coverage_advice(run)
    if record is not None:
        found.append({"groups": [], **_one_advice(record)})
    return found


def _figures(f: PolicyFigures) -> dict[str, Any]:
    return {"reading": f.reading, "comparable": f.is_comparable, **metrics_document(f.sums)}


def _group(
    group: GroupFigures, unit: messages.TimeUnit, without: Collection[str]
) -> dict[str, Any]:
    """Return a consumer group's part of the JSON document as a dict.

    Args:
        group: the group's metrics and causes.
        unit: unit of all downtimes in the document's texts.
        without: names of fields to leave out.
    """
    same = (
        "name", "kind", "status", "why", "claimed", "clients", "rebalances", "coverage",
        "missing_generations", "members_max", "partitions_max",
    )  # fmt: skip
    best = best_policy(group)
    # The figures of all policies take most of the time.
    figures = {
        "policies": group.figures, "policies_per_rebalance": group.per_rebalance,
    }  # fmt: skip
    by_policy = {
        name: {policy: _figures(of) for policy, of in found.items()}
        for name, found in figures.items() if name not in without
    }  # fmt: skip
    values = {
        **{name: getattr(group, name) for name in same},
        "lost_partition_seconds": _range(group.downtime_bounds),
        "unread_partition_seconds": _estimate(group.downtime_estimate),
        "unread_share": group.unread_share,
        "rebalances_per_hour": group.rebalances_per_hour,
        "best_policy": best.policy if best else None,
        "savable_partition_seconds": _estimate(best.saved) if best else None,
        "simulation_error_partition_seconds": simulation_error(group),
        "causes": [_cause(c) for c in group.causes],
        "verdict": _group_texts(group, unit),
        "advice": [_recommendation(one) for one in recommendations_for(group)],
        "traits": asdict(group.traits),
        **by_policy,
        "streams_settings": [asdict(one) for one in group.streams],
    }
    return {name: value for name, value in values.items() if name not in without}


def _group_texts(group: GroupFigures, unit: messages.TimeUnit) -> dict[str, str]:
    """Return the texts of a group's row in the report's table of groups, by field name.

    They are the same texts as on the HTML page and the terminal, such as its downtime and main
    cause. ``unit`` is the time unit of the whole table.
    """
    row = group_row(group, unit)
    return {
        "downtime": row.downtime.text, "unread": row.share.text,
        "rebalances_per_hour": row.per_hour.text, "main_cause": row.cause,
        "main_cause_share": row.cause_share, "change": row.action, "now": row.now,
        "expected_gain": row.gain.text,
        "expected_gain_share": row.first.share_text if row.first else "",
        "confidence": row.first.confidence if row.first else "",
        "expected_gain_of_all_changes": row.together,
    }  # fmt: skip
