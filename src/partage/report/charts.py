"""Geometry of the drawings, in per cent of their box; templates make SVG of it.

Drawn here and not by a charting library: the two drawings are bars on a time axis, and the
libraries that draw offline weigh more than the whole page (plotly: over 3 MB a page), need
their script to show anything, or fix colours that must follow light, dark and print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partage.report.run import Step

__all__ = ["Bar", "Timeline", "timeline"]

#: The narrowest bar, in per cent of the drawing's width.
_LEAST_WIDTH = 0.35
_LEAST_HEIGHT = 6.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A rebalance: x, width and heights in per cent; heights grow from the base line.

    Attributes:
        sort: the kind of cause, for the colour.
        height: by partitions moved as recorded; a stub where none moved.
        avoidable: the part of it that was avoidable.
    """

    x: float
    sort: str
    height: float
    avoidable: float
    title: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rebalances of a group on a time axis.

    Attributes:
        members: the line of member counts, as points "x,y" of an SVG polyline.
        most_moved: what the tallest bar stands for.
        most_members: what the top of the line stands for.
        first_ms, last_ms: ends of the axis.
    """

    bars: tuple[Bar, ...]
    members: str
    width: float
    most_moved: int
    most_members: int
    first_ms: int
    last_ms: int


def timeline(steps: Sequence[Step], first_ms: int | None, last_ms: int | None) -> Timeline:
    """The drawing of some rebalances between two times; times outside are drawn at the ends."""
    times = [s.time_ms for s in steps]
    first = min([*times, *([] if first_ms is None else [first_ms])], default=0)
    last = max([*times, *([] if last_ms is None else [last_ms])], default=first + 1)
    span = max(last - first, 1)
    moved = max((s.moved for s in steps), default=0)
    members = max((s.members for s in steps), default=0)
    width = _LEAST_WIDTH
    bars: list[Bar] = []
    points: list[str] = []
    before = 0.0
    for step in steps:
        x = round((step.time_ms - first) / span * (100 - 2 * width) + width, 2)
        y = round(96 - step.members / max(members, 1) * 88, 2)
        points += [f"{x},{before}", f"{x},{y}"] if points else [f"{x},{y}"]
        before = y
        bars.append(_bar(step, x, moved))
    if points:
        points.append(f"100,{before}")
    return Timeline(tuple(bars), " ".join(points), width, moved, members, first, last)


def _bar(step: Step, x: float, most: int) -> Bar:
    scale = (100 - _LEAST_HEIGHT) / max(most, 1)
    height = _LEAST_HEIGHT + step.moved * scale
    title = f"generation {step.generation}: {step.cause}; {step.moved} moved"
    if step.avoidable:
        title += f", {step.avoidable} avoidable"
    return Bar(x, step.sort, round(height, 1), round(step.avoidable * scale, 1), title)
