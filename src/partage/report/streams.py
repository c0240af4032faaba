"""The HTML page of `partage streams`: tasks over time and their unavailability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from partage.report.html import write_template
from partage.report.messages import plural

__all__ = ["write_streams_page"]

#: Rows of one timeline, unavailable tasks first; more tasks are only counted.
_MAX_ROWS = 120
#: Seconds between two ticks of the time axis.
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_TICKS = 12
_MAX_EVENTS = 40
_MAX_BEST = 3


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
    """Write the HTML page of `partage streams`, one file that works offline.

    The page shows which client ran each task of a simulated Streams application over time.

    Args:
        cells: simulation results from the JSON document of ``partage streams``, one for each
            combination of assignor and settings.
        path: path of the page.
        title: name of the application.
        seconds: simulated time.
        heads: headings of the table, including the varied settings.
        rows: rows of the table, one per result.
        events: events with ``at`` (seconds) and ``label``.
        subtopologies: meaning of the first number of a task, as text.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    return write_template(
        "streams.html.j2", path,
        title=title,
        headline=_headline(cells),
        lead=f"{seconds:,.0f} simulated seconds of the application, "
        f"{plural(len(cells), 'combination')} of assignor and settings.",
        heads=heads,
        rows=rows,
        cells=[_build_timeline(cell, seconds) for cell in cells],
        ticks=_ticks(seconds),
        events=[
            {
                "left": round(100 * one["at"] / seconds, 3),
                "label": f"{one['at']:,.0f} s: {one['label']}",
            }
            for one in events
        ],
        most_events=_MAX_EVENTS,
        subtopologies=subtopologies,
    )  # fmt: skip


def _headline(cells: Sequence[Mapping[str, Any]]) -> str:
    seconds = [cell["measures"]["total_unavailable"] for cell in cells]
    if not any(seconds):
        return "All tasks were always available"
    if len(cells) == 1:
        worst = cells[0]["measures"]["worst_unavailable"]
        return f"Tasks were unavailable for {seconds[0]:,.1f} s, the worst one for {worst:,.1f} s"
    if min(seconds) == max(seconds):
        return f"Tasks are unavailable for {seconds[0]:,.1f} seconds in all combinations"
    best = [_name(cell) for cell, its in zip(cells, seconds, strict=True) if its == min(seconds)]
    more = f", or {len(best) - _MAX_BEST} more" if len(best) > _MAX_BEST else ""
    least = f"{' or '.join(best[:_MAX_BEST])}{more}"
    span = f"{min(seconds):,.1f} to {max(seconds):,.1f} s"
    return f"Tasks are unavailable for {span}; least: {least}"


def _name(cell: Mapping[str, Any]) -> str:
    settings = [f"{key}={value}" for key, value in cell["settings"].items()]
    return ", ".join([cell["assignor"].removeprefix("streams:"), *settings])


def _build_timeline(cell: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the data of a timeline that shows which client ran each task of a Streams application.

    ``cell`` is the result of the simulation under one combination of settings. Positions are
    percentages of the simulated time ``seconds``.
    """
    unavailable = cell["measures"]["unavailable_seconds"]
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for span in cell["spans"]:
        left, right = span["from"] / seconds, span["to"] / seconds
        name = f"{span['client']}: {span['task']} {span['kind']}"
        bar = {
            "kind": span["kind"],
            "left": round(100 * left, 3),
            "width": round(100 * (right - left), 3),
            "label": f"{name}, {span['from']:,.1f} to {span['to']:,.1f} s",
        }
        rows.setdefault((span["task"], span["client"]), []).append(bar)
    order = {task: place for place, task in enumerate(unavailable)}
    tasks = sorted(unavailable, key=lambda task: (-unavailable[task], order[task]))
    shown = [
        {
            "task": task,
            "client": client,
            "first": place == 0,
            "unavailable": unavailable[task],
            "bars": rows[key],
        }
        for task in tasks
        for place, key in enumerate(sorted(one for one in rows if one[0] == task))
        for client in (key[1],)
    ]
    return {
        "name": _name(cell),
        "rows": shown[:_MAX_ROWS],
        "hidden": len(shown) - _MAX_ROWS,
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
    # A tick at the very end would cross the edge.
    return [
        {"left": round(100 * n * step / seconds, 3), "label": f"{n * step:,.0f} s"}
        for n in range(count + 1)
        if n * step <= seconds * 0.96
    ]
