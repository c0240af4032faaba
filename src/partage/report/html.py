"""One HTML page that needs nothing but itself: no network, no file beside it.

What answers the first question stands in the page as text. What is told of a group is data
that its script shows when somebody opens the group; the charting library (vendor/) is a text
in the page that is run when the first chart comes into view.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timezone
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from partage.errors import MissingExtraError
from partage.report import advice, words
from partage.report.document import counts, document, lead, notes, savable
from partage.report.glossary import GLOSSARY
from partage.report.run import FigureRange, GroupFigures, Run
from partage.report.settings import lines_of
from partage.report.shown import MOST_LISTED, group_data, group_row
from partage.tables.statuses import FAILED, NOT_YET, RECORDED, REFUSED

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["environment", "render", "write_page"]

#: Rows of the two lists at the head of the page.
_FIRST = 8
#: Room for the data of single groups: with it, and all else at its largest, a page stays
#: below 20 MB.
_MOST_CHARACTERS = 11_000_000
#: Up to so many groups, the download has the figures of each policy in each.
_FEW = 100
#: Groups named under a piece of advice.
_NAMED = 4

Details = Iterable[tuple[GroupFigures, dict[str, Any]]]


def write_page(run: Run, path: Path, details: Details = ()) -> Path:
    """The page of a run, written whole or not at all.

    Args:
        run: what to show.
        path: of the page.
        details: of single groups, from `partage.report.details`.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    text = render(run, details)
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        temporary.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def render(run: Run, details: Details = ()) -> str:
    """The page of a run as text.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    told = _told(run, details)
    saved, helped = savable(run)
    return environment().get_template("page.html.j2").render(
        run=run,
        summary=run.summary,
        cover=run.summary["coverage"],
        headline=words.headline(run),
        lead=lead(run),
        counts=counts(run),
        saved=saved,
        helped=helped,
        notes=notes(run),
        advice=advice.merged(run.groups),
        record=advice.coverage_advice(run),
        losers=[g for g in run.groups if g.rebalances][:_FIRST],
        rows=[group_row(g) for g in run.groups if g.rebalances][:MOST_LISTED],
        rebalancing=sum(g.rebalances > 0 for g in run.groups),
        told=told,
        most_listed=MOST_LISTED,
        named=_NAMED,
        data=_shortened(document(run)),
        library=_vendor("echarts.min.js"),
    )  # fmt: skip


def _told(run: Run, details: Details) -> dict[str, Markup]:
    """The data of single groups, those that lost most first, while there is room."""
    told: dict[str, Markup] = {}
    room = _MOST_CHARACTERS
    for group, found in details:
        text = _json(group_data(run, group, found))
        room -= len(text)
        if room < 0:
            break
        told[group.anchor] = text
    return told


def _shortened(found: dict[str, Any]) -> dict[str, Any]:
    """For the download: `--format json`, without what stands twice or is too much for a page."""
    groups = found["groups"]
    out = {"advice", "policies_per_rebalance"}
    if len(groups) > _FEW:
        out.add("policies")
    return {
        **found,
        "groups": [{k: v for k, v in g.items() if k not in out} for g in groups[:MOST_LISTED]],
        "groups_not_listed": max(0, len(groups) - MOST_LISTED),
        "left_out_of_groups": sorted(out),
    }


def _vendor(name: str) -> str:
    return (resources.files("partage.report") / "vendor" / name).read_text(encoding="utf-8")


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
        short=words.short_name,
        stopped=words.stopped_words,
        saved=words.saved_words,
        when=_when,
        data=_json,
        raw_script=_raw_script,
    )
    made.globals.update(
        percent=words.percent,
        causerange=lambda cause: FigureRange(cause.low, cause.high),
        todo=advice.todo,
        bar=_bar,
        causes=words.CAUSES,
        glossary=GLOSSARY,
        lines_of=lines_of,
        RECORDED=RECORDED,
        REFUSED=REFUSED,
        FAILED=FAILED,
        NOT_YET=NOT_YET,
    )
    return made


def _json(value: Any) -> Markup:
    """Return JSON for a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for one in "<>&\u2028\u2029":
        text = text.replace(one, f"\\u{ord(one):04x}")
    return _as_markup(text)


def _raw_script(text: str) -> Markup:
    """Return a script of ours, or the chart library, as text that is not escaped.

    Raises:
        MissingExtraError: jinja2 is not installed.
        ValueError: the script would end its element early; such a file must not be shipped.
    """
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError("a script that is put into the page would end its element")
    return _as_markup(text)


def _as_markup(text: str) -> Markup:
    """Return text that the caller made safe, as text that the template engine does not escape.

    Raises:
        MissingExtraError: jinja2, which brings markupsafe along, is not installed.
    """
    try:
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("jinja2", extra="report") from None
    return Markup(text)  # noqa: S704 - made safe by both callers


def _when(ms: int | None) -> str:
    """A day and time, UTC."""
    if ms is None:
        return "-"
    # A damaged record may have any 64 bits for its time: such a time is shown as the limit.
    seconds = min(max(ms / 1000, -62_135_596_800), 253_402_300_799)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _bar(part: float, whole: float) -> float:
    """A length in per cent, none of it below nothing or beyond all."""
    return round(min(max(100 * part / whole, 0), 100), 2) if whole else 0
