"""`partage watch`: the history of a cluster's groups while it happens, on Spark."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.console import print_message, short_name, stdout_console, styled_name
from partage.cli.options import (
    ClusterOptions,
    OutputOptions,
    SparkOptions,
    output_option,
    with_options,
)
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from types import FrameType

    from partage.jobs.watch.watch import BatchReport

__all__ = ["watch"]


@with_options
def watch(
    capture: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="The folder of a capture that grows, or kafka://HOST:PORT; or use "
            "--bootstrap-server.",
        ),
    ] = None,
    *,
    to: Annotated[Path, output_option("Folder for the tables and Spark's checkpoint.")],
    once: Annotated[
        bool, typer.Option("--once", help="Stop when the present input is processed.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="Interval between updates.")
    ] = 2.0,
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            metavar="FORMAT:WHERE",
            show_default=False,
            help="Keep the tables in Delta or Iceberg too: delta:FOLDER, "
            "delta:NAMESPACE or iceberg:NAMESPACE.",
        ),
    ] = None,
    cluster: ClusterOptions,
    spark: SparkOptions,
    output: OutputOptions,
) -> None:
    """Follow the groups of a cluster, and write the tables of `partage replay` while it runs.

    Spark Structured Streaming reads a capture that `partage capture --follow` writes, or the
    cluster itself. After each micro-batch the tables have the same rows as a replay of the records
    so far, and a line is printed for each new generation of a group.

        partage watch capture/ --out run

        partage watch -b broker:9092 --out run --conf spark.jars.packages=...

        partage watch capture/ --out run --tables delta:/lake/kafka --conf ...

    The state of the groups and the position in the log are in Spark's checkpoint. After a stop or
    a crash the same command continues, and repeats the micro-batch that was interrupted. Java 17
    must be there.
    """
    from partage.capture.manifest import expect_streamable_capture

    if not 0.1 <= every <= 3600:
        raise InvalidConfigError("--every", "must be between 0.1 and 3600 seconds", every)
    source = cluster.input_or_cluster(capture, "CAPTURE")
    if not source.startswith("kafka://"):
        expect_streamable_capture(Path(source))  # before Spark is imported

    from partage.jobs.watch.watch import StreamSettings
    from partage.jobs.watch.watch import watch_groups as run

    settings = StreamSettings(
        once=once, every=every, tables=tables, kafka=cluster.client_properties()
    )
    if not output.quiet:
        print_message(f"starting Spark; the tables are written to {to / 'stream'}", "dim")
    with _stop_event() as stop:
        folder = run(
            source, to, settings, master=spark.master, conf=spark.spark_settings_by_name(),
            stop=stop,
            report=lambda batch: _print_batch(batch, as_json=output.as_json, quiet=output.quiet),
        )  # fmt: skip
    if not output.quiet:
        rows = {table: folder.table(table).num_rows for table in ("groups", "rebalances", "events")}
        print_message(", ".join(f"{count} {table}" for table, count in rows.items()), "dim")


def _print_batch(batch: BatchReport, *, as_json: bool, quiet: bool) -> None:
    """Print one line for each new generation of a group in a micro-batch of records.

    The command ``partage watch`` calls it after each micro-batch.

    Args:
        batch: result of the micro-batch.
        as_json: whether to print the lines as JSON.
        quiet: whether to leave out the summary of the micro-batch on stderr.
    """
    for row in batch.opened:
        if as_json:
            typer.echo(json.dumps(row))
        else:
            stdout_console().print(styled_name(_format_generation(row)), soft_wrap=True)
    if not quiet:
        print_message(f"micro-batch {batch.number}: {len(batch.opened)} generations opened", "dim")


def _format_generation(row: dict[str, Any]) -> str:
    """Format a new generation of a consumer group as one line of text.

    ``row`` is a table row with members, moved partitions and the cause of the rebalance.

    >>> _format_generation({"time_ms": 0, "group": "a", "generation": 7, "members_before": 3,
    ...     "members": 2, "partitions": 30, "moved": 14, "cause_kind": "poll", "cause": "1 left"})
    '1970-01-01T00:00:00Z a generation 7: 3 to 2 members, 14 of 30 partitions moved, poll timeout'
    """
    import time

    from partage.report.messages import cause_label

    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["time_ms"] / 1_000))
    before = row["members_before"]
    members = (
        f"{row['members']} members" if before is None else f"{before} to {row['members']} members"
    )
    moved = f"{row['moved']} of {row['partitions']} partitions moved"
    named = f"{when} {short_name(row['group'])} generation {row['generation']}"
    return f"{named}: {members}, {moved}, {cause_label(row['cause_kind'])}"


@contextmanager
def _stop_event() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C (SIGINT) or SIGTERM sets, so that the stream ends in order.

    A micro-batch that was interrupted is repeated by the next run.
    """
    stop = threading.Event()

    def stopped(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    before = {number: signal.signal(number, stopped) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
