"""Progress of a long command on stderr: bars, lines, JSON lines, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from partage.cli.console import print_message, stderr_console
from partage.jobs.spark.progress import COUNTS, STAGES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn

    from partage.jobs.spark.progress import Progress

__all__ = ["report_progress", "show_progress", "time_left"]

#: The remaining time is shown after this share of a stage.
_ENOUGH_TO_ESTIMATE = 0.05


@contextmanager
def report_progress(
    stages: Mapping[str, str] = STAGES, *, quiet: bool = False, as_json: bool = False
) -> Iterator[Progress]:
    """Yield a function that shows the progress of a command on stderr.

    It shows bars, lines of text, or JSON lines. Call it with the name of a stage, the work done,
    and the total.

    Args:
        stages: the text of each stage.
        quiet: whether to show nothing.
        as_json: whether to print JSON lines, which ``quiet`` does not suppress.
    """
    console = stderr_console()
    if as_json:
        yield _json_lines(monotonic)
    elif quiet:
        yield _ignore_progress
    elif console.is_terminal:
        with _bars(console) as bars:
            yield _ProgressBars(bars, stages).update_stage
    else:
        yield _lines(stages)


def time_left(done: int, total: int, seconds: float) -> float | None:
    """Estimate how many seconds an operation will still take, from its progress so far.

    None if its progress is too small for an estimate.

    Args:
        done: amount of work done.
        total: total amount of work.
        seconds: time since the operation began.

    >>> time_left(10, 40, 5.0), time_left(0, 40, 5.0)
    (15.0, None)
    """
    if total <= 0 or done <= 0 or done / total < _ENOUGH_TO_ESTIMATE:
        return None
    return seconds * (total - done) / done


def _json_lines(clock: Callable[[], float]) -> Progress:
    began: dict[str, float] = {}
    counts: dict[str, int] = {}

    def update(stage: str, done: int, total: int) -> None:
        if stage in COUNTS:
            counts[stage] = done
        now = clock()
        since = now - began.setdefault(stage, now)
        left = time_left(done, total, since)
        line: dict[str, Any] = {"stage": stage, "done": done, "total": total}
        line |= {"seconds": round(since, 3), "left": None if left is None else round(left, 1)}
        print_message(json.dumps(line | counts))

    return update


def _ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore a progress report.

    It replaces the function that draws progress bars if the user sets the option ``--quiet``.
    """


def _lines(stages: Mapping[str, str]) -> Progress:
    seen: set[str] = set()

    def update(stage: str, done: int, _total: int) -> None:
        if stage in COUNTS:
            print_message(f"  {done:,} {stage}")
        elif stage not in seen:
            seen.add(stage)
            print_message(f"{stages.get(stage, stage)} ...")

    return update


def _bars(console: Console) -> Bars:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"),
        BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), _left(),
        console=console,
    )  # fmt: skip


def _left() -> ProgressColumn:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        def render(self, task: Task) -> Text:
            left = None
            if not task.finished and task.total:
                left = time_left(int(task.completed), int(task.total), task.elapsed or 0.0)
            return Text("" if left is None else f"{left:.0f} s left", style="dim")

    return TimeLeft()


class _ProgressBars:
    def __init__(self, bars: Bars, stages: Mapping[str, str]) -> None:
        self._bars, self._stages = bars, stages
        self._tasks: dict[str, Any] = {}
        self._last = ""

    def update_stage(self, stage: str, done: int, total: int) -> None:
        """Update the progress bar of a stage.

        The stages "records" and "rebalances" have no bar: their number is shown beside the name of
        the stage before.

        Args:
            stage: name of the stage.
            done: work done.
            total: total work.
        """
        if stage in COUNTS:
            named = self._stages.get(self._last, self._last)
            known = f"{named} [dim]({done:,} {stage})[/dim]"
            self._bars.update(self._tasks[self._last], description=known)
            return
        self._last = stage
        if stage not in self._tasks:
            named = self._stages.get(stage, stage)
            self._tasks[stage] = self._bars.add_task(named, total=None)
        # (1, 1) is the end of a stage, whatever it counted before.
        if total:
            self._bars.update(self._tasks[stage], completed=done, total=total)


@contextmanager
def show_progress(
    stages: Mapping[str, str], *, quiet: bool = False
) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows the progress of a command on stderr, as bars or lines of text.

    Call it with the name of a stage, the work done, and the total. ``stages`` has the text of each
    stage. With ``quiet`` nothing is shown.

    >>> with show_progress({}, quiet=True) as progress:
    ...     progress("count", 1, 2)
    """
    with report_progress(stages, quiet=quiet) as update:
        yield update
