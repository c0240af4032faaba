"""What a replay says while it works: bars, lines, JSON lines, or nothing; always on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from partage.cli.consoles import tell

if TYPE_CHECKING:
    from rich.progress import Task
    from rich.text import Text

    from partage.pipeline.progress import Progress

__all__ = ["STAGES", "time_left", "told"]

STAGES: Mapping[str, str] = {
    "check": "checking the capture",
    "start Spark": "starting Spark in this process",
    "decode": "decoding records",
    "histories": "rebuilding histories",
    "bad records": "keeping what could not be decoded",
    "replay": "living rebalances again",
    "publish": "publishing tables",
    "report": "writing the report",
}
#: Not stages, but what is known by then.
_COUNTS = ("records", "rebalances")
#: Before that share of a stage is done nobody can tell when it ends.
_TELLING = 0.05


@contextmanager
def told(*, quiet: bool = False, as_json: bool = False) -> Iterator[Progress]:
    """A function for (stage, done, total), and how it is shown."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if as_json:
        yield _json_lines(monotonic)
    elif quiet:
        yield _nothing
    elif console.is_terminal:
        with _bars(console) as moved:
            yield moved
    else:
        yield _lines()


def time_left(done: int, total: int, seconds: float) -> float | None:
    """Seconds to the end of a stage, if its tasks go on as they went; None if nobody can tell.

    >>> time_left(10, 40, 5.0), time_left(0, 40, 5.0)
    (15.0, None)
    """
    if total <= 0 or done <= 0 or done / total < _TELLING:
        return None
    return seconds * (total - done) / done


def _json_lines(clock: Callable[[], float]) -> Progress:
    """A JSON object a line, for programs: stage, done, total, seconds, seconds left, counts."""
    began: dict[str, float] = {}
    counts: dict[str, int] = {}

    def moved(stage: str, done: int, total: int) -> None:
        if stage in _COUNTS:
            counts[stage] = done
        now = clock()
        since = now - began.setdefault(stage, now)
        left = time_left(done, total, since)
        line: dict[str, Any] = {"stage": stage, "done": done, "total": total}
        line |= {"seconds": round(since, 3), "left": None if left is None else round(left, 1)}
        tell(json.dumps(line | counts))

    return moved


def _nothing(stage: str, done: int, total: int) -> None:
    """Nobody wants to know."""


def _lines() -> Progress:
    seen: set[str] = set()

    def moved(stage: str, done: int, _total: int) -> None:
        if stage in _COUNTS:
            tell(f"  {done:,} {stage}")
        elif stage not in seen:
            seen.add(stage)
            tell(f"{STAGES.get(stage, stage)} ...")

    return moved


@contextmanager
def _bars(console: Any) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Left(ProgressColumn):
        """The time left, of stages that are under way."""

        def render(self, task: Task) -> Text:
            left = None
            if not task.finished and task.total:
                left = time_left(int(task.completed), int(task.total), task.elapsed or 0.0)
            return Text("" if left is None else f"{left:.0f} s left", style="dim")

    columns = (
        SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"),
        BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), Left(),
    )  # fmt: skip
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, Any] = {}
        last = ""

        def moved(stage: str, done: int, total: int) -> None:
            nonlocal last
            if stage in _COUNTS:
                known = f"{STAGES.get(last, last)} [dim]({done:,} {stage})[/dim]"
                bars.update(tasks[last], description=known)
                return
            last = stage
            if stage not in tasks:
                tasks[stage] = bars.add_task(STAGES.get(stage, stage), total=None)
            # (1, 1) is the end of a stage, whatever it counted before.
            if total:
                bars.update(tasks[stage], completed=done, total=total)

        yield moved
