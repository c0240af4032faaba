"""Reads a published run, through its manifest, into plain values.

Sums are made by columns, so that a large run costs little; what is told of single rebalances
is read by `partage.report.details`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from partage.errors import InvalidCaptureError, MissingExtraError
from partage.report.columns import loaded
from partage.report.run import BadRecord, CauseShare, Figures, GroupFigures, Run, Traits, total
from partage.report.sums import summed
from partage.report.traits import causes_by_group, traits_by_group
from partage.runs.published_run import PublishedRun
from partage.tables.statuses import FAILED, RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_BAD", "read_run", "run_of"]

MOST_BAD = 200
#: What every report tells of.
_NEEDED = ("coverage", "accounting", "agreement", "versions")


def read_run(out: str | Path, run: str | None = None) -> Run:
    """A published run of an output folder: the newest, or one by its id.

    Raises:
        InvalidCaptureError: there is none, or one of its files cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    return run_of(PublishedRun(out, run))


def run_of(folder: PublishedRun) -> Run:
    """The run of an opened folder.

    Raises:
        InvalidCaptureError: one of its files cannot be read.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        from pyarrow import compute as pc
    except ImportError:
        raise MissingExtraError("pyarrow", extra="spark") from None
    lacking = [name for name in _NEEDED if not isinstance(folder.summary.get(name), dict)]
    if lacking:
        what = f"the summary lacks {', '.join(lacking)}; run partage replay again"
        raise InvalidCaptureError(f"{folder.out}: {what}")
    # Of a group that failed there are the rows written before that: no sums are made of them.
    table = loaded(folder, "groups")
    failed = table.filter(pc.fill_null(pc.equal(table["status"], FAILED), False))["group"]
    replays = loaded(folder, "replays")
    replays = replays.filter(pc.invert(pc.is_in(replays["group"], failed)))
    rebalances = loaded(folder, "rebalances")
    main, other = summed(replays)
    causes = causes_by_group(rebalances, replays)
    lists = folder.table("groups", ["group", "claimed", "clients"]).to_pylist()
    rows = table.to_pylist()
    if (folder.summary.get("selection") or {}).get("from_ms") is not None:
        # Table groups is of whole histories, tables of rebalances of the span that was asked for.
        told = Counter(rebalances["group"].to_pylist())
        rows = [row | {"rebalances": told[row["group"]]} for row in rows]
    found = _Found(main, other, causes, traits_by_group(folder, rebalances), _most(rebalances))
    chosen = _last_chosen(rebalances)
    for also in lists:
        also["claimed"] = _in_order(also["claimed"] or (), chosen.get(also["group"]))
    groups = [_group({**row, **also}, found) for row, also in zip(rows, lists, strict=True)]
    groups = [_without_zero(group) for group in groups]
    ordered = tuple(_anchored(i, group) for i, group in enumerate(sorted(groups, key=_by_loss)))
    figures = _overall(main)
    run = Run(
        _within(folder.summary), ordered, _order(folder.summary, figures), figures, _overall(other),
        _all_causes(causes), _bad(folder),
    )  # fmt: skip
    return _without_zero(run)


_Known = TypeVar("_Known", GroupFigures, Run)


def _without_zero(found: _Known) -> _Known:
    """Return a group or a run without times lost, where it has none in few of many rebalances.

    What the log does not have is not known, never zero.
    """
    if found.covered or found.recorded.stopped_high:
        return found
    figures, other = (
        {name: replace(one, timed=0, compared=0, gain_known=0) for name, one in of.items()}
        for of in (found.figures, found.per_rebalance)
    )
    causes = tuple(replace(one, timed=0) for one in found.causes)
    return replace(found, figures=figures, per_rebalance=other, causes=causes)


def _last_chosen(rebalances: pa.Table) -> dict[str, str]:
    """Return the strategy that each group chose last: groups change and change back."""
    from pyarrow import compute as pc

    table = rebalances.filter(pc.is_valid(rebalances["strategy"]))
    order = [(name, "ascending") for name in ("group", "log_partition", "log_offset")]
    table = table.sort_by(order).select(["group", "strategy"])
    return {row["group"]: row["strategy"] for row in table.to_pylist()}


def _in_order(claimed: Iterable[str], last: str | None) -> tuple[str, ...]:
    """Return the strategies of a group with the one that it chose last at the end."""
    known = tuple(claimed)
    return known if last not in known else (*(one for one in known if one != last), str(last))


def _within(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary, whose span is the one that was asked for (``--from``, ``--to``)."""
    cover, asked = dict(summary.get("coverage", {})), summary.get("selection") or {}
    first, last = asked.get("from_ms"), asked.get("to_ms")
    if cover.get("first_ms") is not None and first is not None:
        cover["first_ms"] = min(max(cover["first_ms"], first), cover["last_ms"])
    if cover.get("last_ms") is not None and last is not None:
        cover["last_ms"] = max(min(cover["last_ms"], last), cover["first_ms"])
    return {**summary, "coverage": cover}


def _by_loss(group: GroupFigures) -> tuple[float, int, str]:
    return (-(group.lost.high if group.lost else 0.0), -group.rebalances, group.name)


def _anchored(number: int, group: GroupFigures) -> GroupFigures:
    return replace(group, anchor=f"g{number}")


def _overall(by_group: Mapping[str, Mapping[str, Figures]]) -> dict[str, Figures]:
    found: dict[str, list[Figures]] = {}
    for policies in by_group.values():
        for name, one in policies.items():
            found.setdefault(name, []).append(one)
    return {name: total(of) for name, of in found.items()}


def _all_causes(by_group: Mapping[str, Iterable[CauseShare]]) -> tuple[CauseShare, ...]:
    found: dict[str, CauseShare] = {}
    for shares in by_group.values():
        for one in shares:
            found[one.kind] = found[one.kind] + one if one.kind in found else one
    return tuple(sorted(found.values(), key=lambda c: (-c.high, -c.rebalances, c.kind)))


def _most(rebalances: pa.Table) -> dict[str, tuple[int, int]]:
    """Members and partitions of each group's largest rebalance."""
    found = rebalances.group_by("group").aggregate([("members", "max"), ("partitions", "max")])
    return {
        row["group"]: (row["members_max"] or 0, row["partitions_max"] or 0)
        for row in found.to_pylist()
    }


@dataclass(frozen=True, slots=True)
class _Found:
    """What the tables tell of groups, by name.

    Attributes:
        main, other: figures by policy, in the two readings.
        most: members and partitions of the largest rebalance.
    """

    main: Mapping[str, Mapping[str, Figures]]
    other: Mapping[str, Mapping[str, Figures]]
    causes: Mapping[str, tuple[CauseShare, ...]]
    traits: Mapping[str, Traits]
    most: Mapping[str, tuple[int, int]]


def _group(row: Mapping[str, Any], found: _Found) -> GroupFigures:
    name = row["group"]
    members, partitions = found.most.get(name, (0, 0))
    same = (
        "kind", "status", "why", "records", "commits", "rebalances", "incarnations",
        "missing_generations",
    )  # fmt: skip
    known = row["rebalances"] + row["missing_generations"]
    coverage = row["coverage"]
    if coverage is None and row["rebalances"]:
        coverage = row["rebalances"] / known
    return GroupFigures(
        name=name,
        anchor="",
        claimed=tuple(row["claimed"] or ()),
        clients=tuple(row["clients"] or ()),
        coverage=coverage,
        members_max=row["members_max"] or members,
        partitions_max=row["partitions_max"] or partitions or None,
        figures=found.main.get(name, {}),
        per_rebalance=found.other.get(name, {}),
        causes=found.causes.get(name, ()),
        traits=found.traits.get(name, Traits()),
        **{column: row[column] for column in same},
    )


def _order(summary: Mapping[str, Any], figures: Mapping[str, Figures]) -> tuple[str, ...]:
    """As the run was asked, then those that Partage does not have yet."""
    asked = [name for name in summary.get("asked", ()) if name in figures]
    rest = sorted(name for name in figures if name not in asked and name != RECORDED)
    return (*dict.fromkeys(asked), *rest)


def _bad(run: PublishedRun) -> tuple[BadRecord, ...]:
    """The first bad records, in the log's order."""
    table = loaded(run, "bad_records")
    order = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return tuple(BadRecord(**row) for row in order.slice(0, MOST_BAD).to_pylist())
