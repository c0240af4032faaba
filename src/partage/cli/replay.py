"""`partage replay`: a recorded cluster's history, lived again under every strategy."""

from __future__ import annotations

import logging
import os
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.consoles import has_display, interactive, name, out, tell
from partage.cli.failing import FAILED_JUDGE
from partage.errors import InvalidConfigError
from partage.published import MANIFEST
from partage.statuses import RECORDED

if TYPE_CHECKING:
    from partage.pipeline.progress import Progress
    from partage.report.run import Run

__all__ = ["replay", "replay_and_report"]

REPORT = "report.html"
_STAGES = {
    "check": "checking the capture",
    "start Spark": "starting Spark in this process",
    "decode": "decoding records",
    "replay": "rebuilding histories, replaying rebalances",
    "bad records": "keeping what could not be decoded",
    "publish": "publishing tables",
    "report": "writing the report",
}


def replay(
    capture: Annotated[Path, typer.Argument(help="Folder of a capture.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder for tables and report.")],
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy", "-s", help="Only these; repeatable. Without it, all of them.",
            show_default=False,
        ),
    ] = None,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the report in a browser.")
    ] = False,
) -> None:  # fmt: skip
    """Replay a recorded cluster: why did groups rebalance, what did it cost, what would save it?

    Reads a capture of `__consumer_offsets` and the cluster's metadata, rebuilds the history of
    each classic group, lets every strategy decide each rebalance anew, and writes tables
    (Parquet), `summary.json` and one HTML page that can be read offline and passed on.

        partage replay capture/ --out run

        partage replay capture/ --out run --strategy range --strategy fair --open

    Spark runs in this process; nothing else is started, but Java 17 must be there. Earlier runs
    in the same folder stay; a folder that is not Partage's is left alone.

    Every plan is checked by the judge. Where a strategy's plan breaks a rule, tables and report
    are written all the same, the strategy goes to stderr, and the exit code is 3. What the log
    recorded may break rules: that is the log's, and does not count. A plug-in that raises an
    error is shown as failed; the others go on.
    """
    replay_and_report(capture, to, strategies=strategy, open_it=open_it)


def replay_and_report(
    capture: Path, to: Path, *, strategies: list[str] | None, open_it: bool | None
) -> None:
    """The run, its report, and what to say about it.

    Raises:
        PartageError: the capture, the folder or the environment cannot be used.
        Exit: 3 if a plan of a strategy failed the judge; everything has been written then.
    """
    from partage.pipeline.replay import replay as run
    from partage.report.html import environment
    from partage.report.terminal import summary

    _expect_ours(to)
    _quiet_logging()
    environment()  # is jinja2 there? better asked before a minute of work than after it
    with _told() as progress:
        run(capture, to, strategies=strategies, progress=progress)
        progress("report", 0, 0)
        page = to / REPORT
        found = _written(to, page)
        progress("report", 1, 1)
    console = out()
    for part in summary(found):
        console.print(part)
    console.print(name(f"tables   {to}", "dim"), soft_wrap=True)
    console.print(name(f"report   {page}", "bold"), soft_wrap=True)
    if open_it or (open_it is None and interactive() and has_display()):
        webbrowser.open(page.absolute().as_uri())
    _judged(found)


def _judged(found: Run) -> None:
    """What the record breaks is history; what a strategy breaks is for whoever wrote it."""
    broken = {n: f for n, f in found.figures.items() if n != RECORDED and f.incomplete}
    for strategy, figures in broken.items():
        tell(f"judge: {strategy} breaks the rules in {figures.incomplete} of {figures.done} plans",
             "bold red")  # fmt: skip
    if broken:
        raise typer.Exit(FAILED_JUDGE)


def _quiet_logging() -> None:
    """Py4J logs an interrupted or broken call with its traceback; the command says it in a line."""
    if os.environ.get("PARTAGE_DEBUG") != "1":
        logging.getLogger().addHandler(logging.NullHandler())


def _written(to: Path, page: Path) -> Run:
    from partage.report.pages import publish_page

    try:
        return publish_page(to, page)
    except OSError as e:
        raise InvalidConfigError(
            "--out", f"the report cannot be written ({e.strerror or e})", str(page)
        ) from None


def _expect_ours(to: Path) -> None:
    """A folder with something in it must be one of ours.

    Raises:
        InvalidConfigError: it is not.
    """
    if to.exists() and not to.is_dir():
        raise InvalidConfigError("--out", "must be a folder, and this is a file", str(to))
    if not to.is_dir() or not any(to.iterdir()):
        return
    if not (to / MANIFEST).is_file() and not (to / "tables").is_dir():
        what = "must be empty or an earlier output of Partage; nothing was written"
        raise InvalidConfigError("--out", what, str(to))


@contextmanager
def _told() -> Iterator[Progress]:
    """Live bars on a terminal, a line a stage elsewhere; both on stderr."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines()
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"),
        BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Bars(*columns, console=console) as bars:
        tasks: dict[str, Any] = {}

        def moved(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(_STAGES.get(stage, stage), total=None)
            # (1, 1) is the end of a stage, whatever it counted before.
            if total:
                bars.update(tasks[stage], completed=done, total=total)

        yield moved


def _lines() -> Progress:
    seen: set[str] = set()

    def moved(stage: str, _done: int, _total: int) -> None:
        if stage not in seen:
            seen.add(stage)
            tell(f"{_STAGES.get(stage, stage)} ...")

    return moved
