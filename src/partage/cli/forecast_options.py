"""Options of `partage forecast` and `partage size`: a run, a running cluster, or numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from partage.cli.options import (
    AsJson,
    ClusterOptions,
    GroupPatterns,
    OptionGroup,
    RunId,
    named_options,
    parse_seconds,
    partitions_option,
)
from partage.errors import PartageError

if TYPE_CHECKING:
    from partage.forecasts.measured import MeasuredGroup
    from partage.results import Run

__all__ = ["ForecastOptions", "RunFolder"]

Result = TypeVar("Result")

#: Name of the group in the result of numbers alone, and of its topic.
_NO_NAME, _NO_TOPIC = "group", "topic"
#: Groups that an error names.
_MOST_NAMED = 10

RunFolder = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", show_default=False,
                   help="Output folder of partage replay. Without it: --bootstrap-server, or "
                   "numbers alone."),
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ForecastOptions(OptionGroup):
    """Options that ``partage forecast`` and ``partage size`` share: groups, rates and timeouts.

    They replace the values that were measured in a run, or are used without a run.
    """

    group: GroupPatterns = None
    partitions: Annotated[
        int | None, partitions_option("Needed without a run; replaces the topics of the run.")
    ] = None
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="RATE", show_default=False,
                     help="Records per second of the group, evenly spread; replaces the rates of "
                     "the run."),
    ] = None  # fmt: skip
    session_timeout: Annotated[
        str | None,
        typer.Option("--session-timeout", metavar="TIME", show_default=False,
                     help="Session timeout of the members, such as 45s."),
    ] = None  # fmt: skip
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", show_default=False,
                     help="Write a picture of the result as SVG; of several groups, the first."),
    ] = None  # fmt: skip
    duration: Annotated[
        str,
        typer.Option("--for", metavar="TIME", help="How long a running cluster is measured."),
    ] = "60s"  # fmt: skip
    as_json: AsJson = False
    run: RunId = None

    def settings(self) -> dict[str, Any]:
        """Return the options as keyword arguments of `pg.forecast` and `pg.size`.

        Options that the user did not set are None.

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

    def expect_one_source(
        self, folder: Path | None, cluster: ClusterOptions, options: str, *values: Any
    ) -> None:
        """Check that the command line names exactly one source of data.

        The source is the folder of a stored run, a running cluster, or options that set every
        value. Options may also replace single values of a run or a cluster.

        Args:
            folder: the folder of a run; None if it is not given.
            cluster: the running cluster, if one is given.
            options: names of the options that replace a run, for the message.
            values: the values of these options.

        Raises:
            BadParameter: no source is given, a run and a cluster are, or an option has no effect:
                ``--for`` and properties without a cluster, ``--run`` without a folder, and several
                groups without either.
        """
        if folder is not None and cluster.bootstrap_server is not None:
            raise typer.BadParameter("give either DIR or --bootstrap-server, not both")
        is_given = {
            "--for": self.duration != ForecastOptions.duration,
            "--command-config": cluster.command_config is not None,
            "--property": bool(cluster.properties),
        }
        for option in (one for one, given in is_given.items() if given):
            if cluster.bootstrap_server is None:
                raise typer.BadParameter("needs --bootstrap-server", param_hint=option)
        if folder is None and self.run is not None:
            raise typer.BadParameter("needs DIR, the folder of a run", param_hint="--run")
        if folder is None and cluster.bootstrap_server is None and None in values:
            raise typer.BadParameter(f"give DIR, --bootstrap-server, or {options}")
        if folder is None and cluster.bootstrap_server is None and len(self.group or ()) > 1:
            what = "needs DIR or --bootstrap-server for several groups: numbers are those of one"
            raise typer.BadParameter(what, param_hint="--group")

    def forecast_each(
        self,
        folder: Path | None,
        cluster: ClusterOptions,
        forecast: Callable[..., Result],
        named: Mapping[str, str],
    ) -> tuple[dict[str, Result], list[str]]:
        """Forecast each of the requested consumer groups.

        The result has a forecast for each group, and the names of the groups that failed. With
        several groups, the error of one is printed and the next group follows.

        Args:
            folder: the folder of a run; None if it is not given.
            cluster: the running cluster, if one is given.
            forecast: `pg.forecast` or `pg.size` with its other arguments.
            named: the option of each argument that an error may name.

        Raises:
            PartageError: the forecast of the only group failed.
        """
        from partage.cli.console import print_message

        found: dict[str, Result] = {}
        errors: dict[str, PartageError] = {}
        for one, source in self.forecast_sources(folder, cluster):
            try:
                with named_options(**named):
                    found[one] = forecast(*source)
            except PartageError as e:
                errors[one] = e
        if not found and len(errors) == 1:
            raise next(iter(errors.values()))
        for one, error in errors.items():
            print_message(f"{one}: {error}", "yellow")
        return found, list(errors)

    def forecast_sources(
        self, folder: Path | None, cluster: ClusterOptions
    ) -> Iterator[tuple[str, tuple[Run | MeasuredGroup, str] | tuple[()]]]:
        """Yield the name of each requested consumer group, with the data from which to forecast it.

        The data are positional arguments of `pg.forecast` and `pg.size`: the run in ``folder``, or
        a measurement of the group on ``cluster``. They are empty if only options set the values.

        Raises:
            BadParameter: no group is named, and the run has several or a cluster is measured.
            InvalidCaptureError: the folder has no such run.
            InvalidConfigError: no group matches a pattern.
        """
        if cluster.bootstrap_server is not None:
            yield from self._measured(cluster)
        elif folder is not None:
            yield from self._recorded(folder)
        else:
            yield self.group[0] if self.group else _NO_NAME, ()

    def _measured(self, cluster: ClusterOptions) -> Iterator[tuple[str, tuple[MeasuredGroup, str]]]:
        from partage.cli.console import print_message
        from partage.commands.live_groups import matching_live_groups, measure_group

        seconds = parse_seconds(self.duration, "for")
        if not self.group:
            raise typer.BadParameter("name the group to measure", param_hint="--group")
        names = self.group
        if any(set(one) & set("*?[") for one in names):
            with named_options(groups="--group"):
                names = matching_live_groups(
                    cluster.broker_addresses(), names, properties=cluster.client_properties()
                )
        for one in names:
            print_message(f"measuring {one} for {seconds:g} s", "dim")
            with named_options(group="--group", groups="--group", seconds="--for"):
                yield one, (measure_group(
                    cluster.broker_addresses(), one, seconds=seconds,
                    properties=cluster.client_properties()
                ), one)  # fmt: skip

    def _recorded(self, folder: Path) -> Iterator[tuple[str, tuple[Run, str]]]:
        from partage.results import open_run

        opened = open_run(folder, self.run)
        known = [str(one) for one in opened.table("groups")["group"].to_pylist()]
        if not self.group and len(known) != 1:
            names = ", ".join(sorted(known)[:_MOST_NAMED]) + (
                ", ..." if len(known) > _MOST_NAMED else ""
            )
            what = f"name one of the {len(known)} groups: {names}"
            raise typer.BadParameter(what, param_hint="--group")
        if self.group:
            from partage.commands.runs import matching_names

            with named_options(groups="--group"):
                known = matching_names(self.group, sorted(known))
        for one in known:
            yield one, (opened, one)
