"""One HTML page that needs nothing but itself: no network, no file beside it, no script even."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from partage.errors import MissingExtraError
from partage.report import words
from partage.report.charts import timeline
from partage.report.run import Figures, Group, Run
from partage.statuses import DONE, FAILED, NOT_YET, RECORDED, REFUSED

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["environment", "render", "write_page"]

#: Groups whose rebalances are told one by one.
MOST_DETAILS = 500
#: Rows of a table on the page; what is beyond stands in the run's own tables.
MOST_LISTED = 2_000


def write_page(run: Run, path: Path) -> Path:
    """The page of a run, written whole or not at all.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    text = render(run)
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        temporary.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def render(run: Run) -> str:
    """The page of a run as text.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    cover = run.summary["coverage"]
    first, last = cover.get("first_ms"), cover.get("last_ms")
    details = [g for g in run.replayed if g.steps][:MOST_DETAILS]
    return environment().get_template("page.html.j2").render(
        run=run,
        summary=run.summary,
        cover=cover,
        headline=words.headline(run),
        advice=words.advice(run),
        best=words.best_alternative(run),
        details=details,
        most_listed=MOST_LISTED,
        drawings={g.anchor: timeline(g.steps, first, last) for g in details},
        most_moved=max((f.moved for f in run.figures.values()), default=0),
        data=_data(run),
    )  # fmt: skip


@cache
def environment() -> Environment:
    """The template engine: everything is escaped, a misspelt name is an error.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError("jinja2", extra="report") from None
    made = Environment(
        loader=PackageLoader("partage.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=words.count,
        plural=words.plural,
        duration=words.duration,
        when=_when,
        clock=_clock,
    )
    made.globals.update(
        percent=words.percent,
        bar=_bar,
        recorded_name=RECORDED,
        DONE=DONE,
        REFUSED=REFUSED,
        FAILED=FAILED,
        NOT_YET=NOT_YET,
    )
    return made


def _when(ms: int | None) -> str:
    """A day and time, UTC."""
    return "-" if ms is None else f"{_utc(ms):%Y-%m-%d %H:%M:%S} UTC"


def _clock(ms: int) -> str:
    """A time of the day, UTC."""
    return f"{_utc(ms):%H:%M:%S}"


def _utc(ms: int) -> datetime:
    # A damaged record may have any 64 bits for its time: such a time is shown as the limit.
    seconds = min(max(ms / 1000, -62_135_596_800), 253_402_300_799)
    return datetime.fromtimestamp(seconds, timezone.utc)


def _bar(part: int, whole: int) -> float:
    """A length in per cent."""
    return round(100 * part / whole, 2) if whole else 0


def _data(run: Run) -> dict[str, Any]:
    """The page's own figures for programs: behind its download button."""
    return {
        "run_id": run.summary.get("run_id"),
        "headline": words.headline(run),
        "coverage": run.summary["coverage"],
        "accounting": run.summary["accounting"],
        "agreement": run.summary["agreement"],
        "failures": list(run.failures),
        "strategies": {n: _plain(f) for n, f in run.figures.items()},
        "groups": [_group(g) for g in run.groups[:MOST_LISTED]],
        "groups_not_listed": max(0, len(run.groups) - MOST_LISTED),
    }


def _group(group: Group) -> dict[str, Any]:
    same = ("name", "kind", "status", "why", "claimed", "rebalances", "missing_generations")
    return {
        **{name: getattr(group, name) for name in same},
        "strategies": {n: _plain(f) for n, f in group.figures.items()},
    }


def _plain(figures: Figures) -> dict[str, Any]:
    same = (
        "rebalances", "done", "refused", "failed", "missing", "moved", "avoidable", "proven",
        "even", "largest_spread", "idle", "rack_mismatches", "incomplete",
    )  # fmt: skip
    return {name: getattr(figures, name) for name in same}
