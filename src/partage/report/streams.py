"""The page of `partage streams`: who ran which task when, and what it cost. Plain data in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from partage.report.html import environment

__all__ = ["write_streams_page"]

#: Rows of one timeline; more tasks are counted, not drawn. Those that were away come first.
_MOST_ROWS = 120
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_TICKS = 12
_MOST_EVENTS = 40
_MOST_BEST = 3


def write_streams_page(
    cells: Sequence[Mapping[str, Any]],
    path: Path,
    *,
    title: str,
    seconds: float,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    events: Sequence[Mapping[str, Any]] = (),
    subtopologies: Sequence[str] = (),
) -> Path:
    """The page, as one offline file.

    Args:
        cells: what ``partage streams --json`` prints.
        path: of the page.
        title: name of the application.
        seconds: that were played.
        heads: of the table, the settings that were swept among them.
        rows: of the table, one a cell.
        events: what happened: ``at`` (seconds) and ``label``.
        subtopologies: what the first number of a task means, in words.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: it cannot be written.
    """
    text = environment().get_template("streams.html.j2").render(
        title=title,
        headline=_headline(cells),
        lead=f"{seconds:,.0f} seconds of the application, played {len(cells)} "
        f"{'way' if len(cells) == 1 else 'ways'}.",
        heads=heads,
        rows=rows,
        cells=[_timeline(cell, seconds) for cell in cells],
        ticks=_ticks(seconds),
        events=[
            {
                "left": round(100 * one["at"] / seconds, 3),
                "label": f"{one['at']:,.0f} s: {one['label']}",
            }
            for one in events
        ],
        most_events=_MOST_EVENTS,
        subtopologies=subtopologies,
    )  # fmt: skip
    path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    return path


def _headline(cells: Sequence[Mapping[str, Any]]) -> str:
    away = [cell["measures"]["total_unavailable"] for cell in cells]
    if not any(away):
        return "No task was ever away"
    if len(cells) == 1:
        worst = cells[0]["measures"]["worst_unavailable"]
        return f"Tasks were away for {away[0]:,.1f} seconds together, the worst for {worst:,.1f}"
    if min(away) == max(away):
        return f"Tasks are away for {away[0]:,.1f} seconds, whichever way"
    best = [_name(cell) for cell, its in zip(cells, away, strict=True) if its == min(away)]
    more = f", or {len(best) - _MOST_BEST} more ways" if len(best) > _MOST_BEST else ""
    least = f"{' or '.join(best[:_MOST_BEST])}{more}"
    return f"Tasks are away for {min(away):,.1f} to {max(away):,.1f} seconds; least: {least}"


def _name(cell: Mapping[str, Any]) -> str:
    told = [f"{key}={value}" for key, value in cell["settings"].items()]
    return ", ".join([cell["assignor"].removeprefix("streams:"), *told])


def _timeline(cell: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    away = cell["measures"]["unavailable_seconds"]
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for span in cell["spans"]:
        left, right = span["from"] / seconds, span["to"] / seconds
        told = f"{span['client']}: {span['task']} {span['kind']}"
        bar = {
            "kind": span["kind"],
            "left": round(100 * left, 3),
            "width": round(100 * (right - left), 3),
            "label": f"{told}, {span['from']:,.1f} to {span['to']:,.1f} s",
        }
        rows.setdefault((span["task"], span["client"]), []).append(bar)
    order = {task: place for place, task in enumerate(away)}
    tasks = sorted(away, key=lambda task: (-away[task], order[task]))
    shown = [
        {"task": task, "client": client, "first": place == 0, "away": away[task], "bars": rows[key]}
        for task in tasks
        for place, key in enumerate(sorted(one for one in rows if one[0] == task))
        for client in (key[1],)
    ]
    return {
        "name": _name(cell),
        "rows": shown[:_MOST_ROWS],
        "hidden": len(shown) - _MOST_ROWS,
        "rebalances": [
            {
                "left": round(100 * one["at"] / seconds, 3),
                "label": f"{one['at']:,.1f} s: {', '.join(one['causes'])}",
            }
            for one in cell["rebalances"]
        ],
    }


def _ticks(seconds: float) -> list[dict[str, Any]]:
    step = next((one for one in _STEPS if seconds / one <= _TICKS), seconds / _TICKS)
    count = int(seconds // step)
    # The last one would stand across the edge.
    return [
        {"left": round(100 * n * step / seconds, 3), "label": f"{n * step:,.0f} s"}
        for n in range(count + 1)
        if n * step <= seconds * 0.96
    ]
