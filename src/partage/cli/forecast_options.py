"""Options that `partage forecast` and `partage size` share: input is a run, or numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.options import (
    AsJson,
    GroupPatterns,
    OptionGroup,
    RunId,
    named_options,
    parse_seconds,
    partitions_option,
)

if TYPE_CHECKING:
    from partage.results import Run

__all__ = ["ForecastOptions", "RunFolder"]

#: Name of the group in the result of numbers alone, and of its topic.
_NO_NAME, _NO_TOPIC = "group", "topic"

RunFolder = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", show_default=False,
                   help="Output folder of partage replay; without it, numbers alone."),
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ForecastOptions(OptionGroup):
    """Options of a forecast: the groups of a run, and numbers that replace those of the run."""

    group: GroupPatterns = None
    partitions: Annotated[
        int | None, partitions_option("Without a run, or other than in the run.")
    ] = None
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="RATE", show_default=False,
                     help="Records per second of the group, evenly spread. Without a run, or "
                     "other than in the run."),
    ] = None  # fmt: skip
    session_timeout: Annotated[
        str | None,
        typer.Option("--session-timeout", metavar="TIME", show_default=False,
                     help="Session timeout of the members, such as 45s."),
    ] = None  # fmt: skip
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", show_default=False,
                     help="Write a picture of one group's result as SVG."),
    ] = None  # fmt: skip
    as_json: AsJson = False
    run: RunId = None

    def settings(self) -> dict[str, Any]:
        """Return the numbers as arguments of `pg.forecast` and `pg.size`.

        Raises:
            BadParameter: the session timeout is not a duration.
        """
        timeout = self.session_timeout
        return {
            "rate": self.rate,
            "topics": None if self.partitions is None else {_NO_TOPIC: self.partitions},
            "session_timeout": None if timeout is None
            else parse_seconds(timeout, "session-timeout"),
        }  # fmt: skip

    def inputs(self, folder: Path | None) -> Iterator[tuple[str, tuple[Run, str] | tuple[()]]]:
        """Yield the name and the first arguments of `pg.forecast` and `pg.size` for each group.

        Without a folder that is one group without a run.

        Raises:
            BadParameter: no pattern is given and the run has several groups.
            InvalidCaptureError: the folder has no such run.
            InvalidConfigError: no group matches a pattern.
        """
        if folder is None:
            yield _NO_NAME, ()
            return
        from partage.results import open_run

        opened = open_run(folder, self.run)
        known = [str(one) for one in opened.table("groups")["group"].to_pylist()]
        if not self.group and len(known) != 1:
            raise typer.BadParameter(f"name one of the {len(known)} groups", param_hint="--group")
        if self.group:
            from partage.commands.runs import matching_names

            with named_options(groups="--group"):
                known = matching_names(self.group, sorted(known))
        for one in known:
            yield one, (opened, one)

    def write_picture(self, text: str) -> None:
        """Write an SVG picture to the path of ``--picture``.

        Raises:
            InvalidConfigError: the file cannot be written.
        """
        from partage.errors import InvalidConfigError

        if self.picture is None:
            return
        try:
            self.picture.write_text(text, encoding="utf-8")
        except OSError as e:
            what = f"the picture cannot be written ({e.strerror or e})"
            raise InvalidConfigError("--picture", what, str(self.picture)) from None
