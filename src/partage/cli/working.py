"""Progress of a long command on stderr: bars on a terminal, a line a stage elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from partage.cli.consoles import tell

__all__ = ["working"]


@contextmanager
def working(
    stages: Mapping[str, str], *, quiet: bool = False
) -> Iterator[Callable[[str, int, int], None]]:
    """A function that is told (stage, done, total); ``stages`` has what each is called.

    >>> with working({}, quiet=True) as progress:
    ...     progress("count", 1, 2)
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if quiet:
        yield _silent
    elif console.is_terminal:
        with _bars(stages, console) as moved:
            yield moved
    else:
        yield _lines(stages)


@contextmanager
def _bars(stages: Mapping[str, str], console: object) -> Iterator[Callable[[str, int, int], None]]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"),
        BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bars:  # type: ignore[arg-type]  # rich at the edge
        tasks: dict[str, object] = {}

        def moved(stage: str, done: int, total: int) -> None:
            task = tasks.get(stage)
            if task is None:
                task = tasks[stage] = bars.add_task(stages.get(stage, stage), total=None)
            if total:
                bars.update(task, completed=done, total=total)  # type: ignore[arg-type]  # a TaskID

        yield moved


def _lines(stages: Mapping[str, str]) -> Callable[[str, int, int], None]:
    begun: set[str] = set()

    def moved(stage: str, _done: int, _total: int) -> None:
        if stage not in begun:
            begun.add(stage)
            tell(stages.get(stage, stage), "dim")

    return moved


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Nobody wants to know."""
