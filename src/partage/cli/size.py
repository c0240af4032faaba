"""`partage size`: how many consumers a group needs, from a run, a cluster or numbers alone."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED
from partage.cli.console import print_tables, short_name, styled_name, write_json
from partage.cli.forecast_options import ForecastOptions, RunFolder
from partage.cli.options import (
    ClusterOptions,
    parse_seconds,
    strategy_option,
    with_options,
    write_picture,
)

if TYPE_CHECKING:
    from rich.table import Table

    from partage.forecasts.sizing import SizeRow, Sizing

__all__ = ["size"]

#: Characters of a full bar, which stands for 100 % of a consumer's capacity.
_BAR = 10
#: The option of each argument that an error of `pg.size` may name.
_OPTIONS = {
    "capacity": "--capacity", "group": "--group", "max_lag": "--max-lag",
    "partitions": "--partitions", "rate": "--rate", "strategy": "--strategy",
}  # fmt: skip
_STAGES = {"size": "simulating numbers of consumers"}


@with_options
def size(
    folder: RunFolder = None,
    *,
    capacity: Annotated[
        float | None,
        typer.Option("--capacity", metavar="RATE", show_default=False,
                     help="Records per second that one consumer can process. Without it, learnt "
                     "from the catch-up phases of the run."),
    ] = None,
    max_lag: Annotated[
        str, typer.Option("--max-lag", metavar="TIME", help="Longest lag that is accepted.")
    ] = "30s",
    strategy: Annotated[
        str | None, strategy_option("Without it the group's own; range without a run.")
    ] = None,
    all_sizes: Annotated[
        bool,
        typer.Option("--all-sizes", help="Show each number of consumers; otherwise a selection of "
                     "them for more than 32 partitions."),
    ] = False,
    options: ForecastOptions,
    cluster: ClusterOptions,
) -> None:  # fmt: skip
    """Show how many consumers a group needs, their load and lag, and autoscaler settings.

        partage size run --group billing --max-lag 30s

        partage size run --group billing --capacity 800 --json

        partage size -b broker:9092 --group billing --for 5m --capacity 800

        partage size --partitions 12 --rate 600 --capacity 200

    For each number of consumers, the group's own strategy assigns the partitions: with all
    consumers, and while the busiest one is down. A number fits if the lag stays within the limit
    in both cases, without the time until a dead consumer is detected. **spread**: highest minus
    lowest load of a consumer. Rates are those of the run's commits, minute by minute.
    """
    from partage.cli.progress import show_progress
    from partage.results.forecasts import size as forecast_size

    needed = (options.partitions, options.rate, capacity)
    options.expect_one_source(folder, cluster, "--partitions, --rate and --capacity", *needed)
    if cluster.bootstrap_server is not None and capacity is None:
        what = "is needed: a measurement shows no catch-up phase"
        raise typer.BadParameter(what, param_hint="--capacity")
    settings: dict[str, Any] = {
        **options.settings(), "capacity": capacity, "strategy": strategy,
        "all_sizes": all_sizes, "max_lag": parse_seconds(max_lag, "max-lag"),
    }  # fmt: skip
    with show_progress(_STAGES, quiet=options.as_json) as progress:
        found, failed = options.forecast_each(
            folder, cluster, partial(forecast_size, **settings, progress=progress), _OPTIONS
        )
    if options.picture is not None:
        from partage.forecasts.pictures import sizing_picture

        one, sizing = next(iter(found.items()))
        write_picture(options.picture, sizing_picture(sizing, short_name(one)))
    if options.as_json:
        write_json([_to_json(one, sizing) for one, sizing in found.items()])
    else:
        for one, sizing in found.items():
            _print(one, sizing, is_learnt=capacity is None)
    if failed:
        raise typer.Exit(FAILED)


def _to_json(group: str, sizing: Sizing) -> dict[str, Any]:
    """Return the forecast for each number of consumers of a group as a JSON object.

    A forecast has load and lag; an infinite lag is null.
    """
    from partage.forecasts.sizing import scaler_lines

    document: dict[str, Any] = {"group": group, **asdict(sizing)}
    for row in (*document["rows"], document["hottest"]):
        row.update({
            key: None for key, value in row.items()
            if isinstance(value, float) and not isfinite(value)
        })  # fmt: skip
    lines = scaler_lines(sizing, group)
    return {"format": "partage-size", "version": 1, **document, "scaler_lines": list(lines)}


def _print(group: str, found: Sizing, *, is_learnt: bool) -> None:
    from partage.forecasts.sizing import scaler_lines

    processes = f"{_rate(found.capacity)} records/s ({'learnt' if is_learnt else 'given'})"
    least = "at least " if is_learnt else ""
    hottest = found.hottest
    partitions = f"{found.partitions} partition{'' if found.partitions == 1 else 's'}"
    print_tables(
        styled_name(f"{short_name(group)}: {_verdict(found)}", "bold"),
        styled_name(
            f"{_rate(found.rate)} records/s on {partitions}; one consumer "
            f"processes {least}{processes}; strategy {found.strategy}"
        ),
        styled_name(
            f"hottest partition {short_name(hottest.topic)}-{hottest.partition}: "
            f"{_rate(hottest.rate)} records/s, {hottest.share:.0%} of the load, "
            f"{hottest.rate / found.capacity:.0%} of one consumer"
        ),
        _table(found),
    )
    for line in _table_notes(found):
        print_tables(styled_name(line, "yellow"))
    lines = scaler_lines(found, group)
    if lines:
        print_tables(styled_name(""))
        for line in lines:
            print_tables(styled_name(line, "dim" if line.startswith("#") else ""))


def _verdict(found: Sizing) -> str:
    from partage.forecasts.sizing import HOT_PARTITION, PARTITIONS

    limit = f"{found.max_lag_s:g} s"
    if found.needed is not None:  # at least two: one is down
        spare = found.needed - found.partitions
        idle = f" ({spare} has no partition and takes over)" if spare > 0 else ""
        return (
            f"{found.needed} consumers keep the lag within {limit}, also after one has left "
            f"cleanly{idle}"
        )
    reasons = {
        PARTITIONS: "there are too few partitions",
        HOT_PARTITION: "one partition is too hot",
    }
    why = reasons.get(str(found.limit), f"{found.strategy} assigns too much to one consumer")
    return f"no number of consumers keeps the lag within {limit}: {why}"


def _table_notes(sizing: Sizing) -> list[str]:
    """Return remarks below the table of group sizes: the group's limits, and what is not counted.

    ``sizing`` is the forecast for each number of consumers.
    """
    from partage.forecasts.sizing import HOT_PARTITION, PARTITIONS, STRATEGY

    notes = []
    if sizing.is_selection:
        notes.append(
            f"numbers of consumers are a selection of 1 to {sizing.partitions + 1}; --all-sizes "
            "shows each"
        )
    if sizing.limit == HOT_PARTITION:
        notes.append(
            "limit: a partition has one consumer only. Spread its keys (partage keys shows the "
            "hottest ones), or make a consumer faster."
        )
    if sizing.limit == PARTITIONS:
        notes.append(
            "limit: a partition has one consumer only, and one cannot keep up with its share of "
            "the load. Add partitions (partage keys --grow shows the safe order of steps), or make "
            "a consumer faster."
        )
    if sizing.limit == STRATEGY:
        notes.append(
            "limit: one consumer for each partition would be enough. Try another strategy "
            "(--strategy), or make a consumer faster."
        )
    if sizing.outage_s > sizing.max_lag_s:
        notes.append(
            f"a dead consumer is detected after {sizing.outage_s:g} s: its partitions lag at least "
            "that long, with any number of consumers. Lower session.timeout.ms to detect it "
            "earlier."
        )
    return notes


def _table(found: Sizing) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("consumers", "busiest/s", "spread/s", "use"):
        table.add_column(column, justify="right")
    table.add_column(f"{'0':<{_BAR - 4}}100%", no_wrap=True)
    for column in ("idle", "lag", "one down", "its lag"):
        table.add_column(column, justify="right")
    table.add_column("fits")
    for row in _useful_rows(found):
        style = "bold green" if row.consumers == found.needed else "" if row.fits else "dim"
        table.add_row(
            str(row.consumers), _rate(row.busiest), _rate(row.spread), f"{row.use:.0%}",
            _draw_bar(row), str(row.idle), _lag(row.lag_s),
            "-" if row.use_down is None else f"{row.use_down:.0%}",
            "-" if row.lag_down_s is None else _lag(row.lag_down_s), "yes" if row.fits else "no",
            style=style,
        )  # fmt: skip
    return table


def _useful_rows(sizing: Sizing) -> list[SizeRow]:
    """Return the rows of the table of group sizes that are worth showing.

    The last row is one consumer above the useful or needed number. From the useful number on, more
    consumers no longer lower the highest load.
    """
    last = max(sizing.useful, sizing.needed or 0)
    return [row for row in sizing.rows if row.consumers <= last + 1]


def _draw_bar(row: SizeRow) -> str:
    """Draw the load of the busiest consumer as a text bar.

    A ``+`` marks a load above the consumer's capacity. The lighter part is the load while a
    consumer is down.

    Args:
        row: the forecast for one number of consumers.
    """
    used = min(row.use, 1.0)
    down = min(row.use if row.use_down is None else row.use_down, 1.0)
    full = round(used * _BAR)
    bar = "█" * full + "░" * max(0, round(down * _BAR) - full)
    return f"{bar:<{_BAR}}{'+' if row.use > 1 else ''}"


def _lag(seconds: float) -> str:
    return f"{seconds:,.1f} s" if isfinite(seconds) else "grows"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
