"""`partage capture`: record a cluster's `__consumer_offsets` log and metadata."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED_CHECK
from partage.cli.console import (
    print_message,
    print_tables,
    print_warnings,
    stdout_console,
    styled_name,
    write_json,
)
from partage.cli.options import ClusterOptions, OutputOptions, output_option, with_options
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from partage.capture.connection import ClusterConnection
    from partage.capture.manifest import CaptureManifest
    from partage.capture.preflight import AccessReport
    from partage.watch.watcher import Watcher

__all__ = ["capture"]


@with_options
def capture(
    *,
    to: Annotated[
        Path | None, output_option("Folder of the capture; an existing capture is continued.")
    ] = None,
    cluster: ClusterOptions,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only print what the account may read, and how much of the "
                     "past the log still has."),
    ] = False,
    log_dir: Annotated[
        list[Path] | None,
        typer.Option("--log-dir", metavar="FOLDER", show_default=False,
                     help="Copied files instead: folder of __consumer_offsets-*; repeatable."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until interrupted.")
    ] = False,
    metadata_every: Annotated[
        float,
        typer.Option("--metadata-every", metavar="SECONDS", help="Interval to read the metadata."),
    ] = 1.0,
    roll_every: Annotated[
        float,
        typer.Option("--roll-every", metavar="SECONDS", help="Longest time between two files."),
    ] = 60.0,
    events: Annotated[
        str | None,
        typer.Option("--events", metavar="FILE", show_default=False,
                     help="With --follow: write rebalances as JSON lines; - is stdout."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", show_default=False,
                     help="With --follow: serve OpenMetrics, for example at 127.0.0.1:9464."),
    ] = None,
    max_groups: Annotated[
        int,
        typer.Option("--max-groups", metavar="N", min=1, max=10_000,
                     help="Groups that have metrics of their own."),
    ] = 100,
    output: OutputOptions,
) -> None:  # fmt: skip
    """Record the history of a cluster's groups, for `partage replay`.

    Reads `__consumer_offsets` as the brokers store it, transaction markers included, and the
    cluster's metadata beside it. An account with the rights to read and describe is
    sufficient. Nothing is written to the cluster, and no group is joined.

        partage capture --bootstrap-server broker:9092 --check

        partage capture --bootstrap-server broker:9092 --out capture

        partage capture -b broker:9093 --command-config client.properties -o capture --follow

        partage capture --log-dir /copies/broker-1 --log-dir /copies/broker-2 --out capture

        partage capture -b broker:9092 -o capture --follow --events -

        partage capture -b broker:9092 -o capture --follow --metrics 127.0.0.1:9464

    Run again with the same folder, it continues where it stopped, also after `kill -9`: no
    record is lost or duplicated. With `--follow` it keeps reading: the log is compacted, and
    records that the cleaner has removed can no longer be read.

    `--check` records nothing. Exit code 3 if a permission is missing that a capture requires.
    """
    from partage.capture.writing import CaptureWriter

    bootstrap = cluster.bootstrap_server
    if check:
        refused = {"--out": to, "--log-dir": log_dir, "--follow": follow, "--events": events,
                   "--metrics": metrics}  # fmt: skip
        for option in (one for one, value in refused.items() if value):
            raise typer.BadParameter(f"give either --check or {option}")
        _print_permissions(cluster, as_json=output.as_json)
        return
    if to is None:
        raise typer.BadParameter("give a folder, or --check", param_hint="--out")
    if (bootstrap is None) == (not log_dir):
        what = "give either --bootstrap-server or --log-dir"
        raise typer.BadParameter(what)
    if log_dir and follow:
        raise InvalidConfigError("--follow", "needs a running cluster, not --log-dir", follow)
    watch = WatchOptions(events, metrics, max_groups)
    watch.check_options(follow=follow, as_json=output.as_json)
    for option, value in (("--metadata-every", metadata_every), ("--roll-every", roll_every)):
        if not 0.01 <= value <= 86_400:
            raise InvalidConfigError(option, "must be between 0.01 and 86400 seconds", value)
    if bootstrap is not None:
        manifest = _live(
            bootstrap, cluster.connection_settings(), to, follow=follow, quiet=output.quiet,
            pace=(metadata_every, roll_every), watch=watch,
        )  # fmt: skip
    else:
        from partage.capture.log_dir import capture_log_dirs

        with CaptureWriter(to) as writer:
            capture_log_dirs(log_dir or [], writer)
        manifest = writer.manifest
    _shown(manifest, to, as_json=output.as_json, quiet=output.quiet or events == "-")


def _live(
    bootstrap: str, settings: dict[str, Any], to: Path, *,
    follow: bool, quiet: bool, pace: tuple[float, float], watch: WatchOptions,
) -> CaptureManifest:  # fmt: skip
    from partage.capture.connection import ClusterConnection
    from partage.capture.live import CaptureIntervals, LiveCapture
    from partage.capture.unpacking import crc32c_function
    from partage.capture.writing import CaptureWriter

    crc32c_function()  # what is not installed is said before anything is opened
    trouble = _CaptureTrouble()
    with (
        ClusterConnection(bootstrap, settings) as connection,
        _until_stopped(follow=follow) as stop,
        watch.create_watcher(
            stop, trouble, lambda: ClusterConnection(bootstrap, settings)
        ) as watcher,
        CaptureWriter(to, observer=watcher) as writer,
        _show_progress(quiet=quiet, follow=follow) as progress,
    ):
        if watcher is not None:
            watcher.start_watching(writer)

        def moved(records: int, behind: int) -> None:
            progress(records, behind)
            if watcher is not None:
                watcher.send_queued_records(behind, trouble.count)

        LiveCapture(
            connection,
            writer,
            pace=CaptureIntervals(*pace),
            stop=stop,
            progress=moved,
            trouble=trouble,
        ).run_capture(follow=follow)
    return writer.manifest


class _CaptureTrouble:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, what: str) -> None:
        self.count += 1
        print_message(f"capture: {what}", "yellow")


@dataclass(frozen=True)
class WatchOptions:
    """Options of ``partage capture --follow`` for rebalance events and metrics.

    While the cluster is recorded, the command can print each rebalance or serve metrics for
    Prometheus.
    """

    events: str | None
    metrics: str | None
    max_groups: int

    def check_options(self, *, follow: bool, as_json: bool) -> None:
        """Check that the options for rebalance events and metrics can be combined.

        Both need ``--follow``, and only one output may go to stdout.

        Raises:
            InvalidConfigError: an option needs ``--follow``.
            BadParameter: two options both write to stdout.
        """
        for option, value in (("--events", self.events), ("--metrics", self.metrics)):
            if value is not None and not follow:
                raise InvalidConfigError(option, "needs --follow", value)
        if self.events == "-" and as_json:
            what = "give either --events - or --json: both write to standard output"
            raise typer.BadParameter(what)

    @contextmanager
    def create_watcher(
        self,
        stop: Event,
        trouble: Callable[[str], None],
        connect: Callable[[], ClusterConnection],
    ) -> Iterator[Watcher | None]:
        """Create the observer that reports rebalances during a recording, for a ``with`` block.

        It prints events or serves metrics, as the options request. The value is None if they
        request neither.

        Args:
            stop: event that is set if the reporting fails.
            trouble: function that shows a warning.
            connect: function that opens a Kafka connection to measure the lag.
        """
        if self.events is None and self.metrics is None:
            yield None
            return
        from partage.watch.watcher import EventSink, Watcher

        sink = None if self.events is None else EventSink(self.events)
        if self.metrics is None:
            with Watcher(sink, stop, trouble=trouble) as watcher:
                yield watcher
            return
        from partage.watch.background import BackgroundMetrics
        from partage.watch.exporter import Exporter, is_loopback, parse_address
        from partage.watch.prometheus_metrics import WatchMetrics

        address, metrics = parse_address(self.metrics), WatchMetrics(self.max_groups)
        background = BackgroundMetrics(connect, metrics, trouble)
        watcher = Watcher(sink, stop, trouble=trouble, listeners=(metrics, background))
        with (
            watcher,
            background,
            Exporter(address, metrics.metric_families, watcher.health_problem) as exporter,
        ):
            print_message(
                f"metrics: http://{self.metrics.rpartition(':')[0]}:{exporter.port}/metrics", "dim"
            )
            if not is_loopback(address[0]):
                trouble(f"--metrics {self.metrics}: other machines can read it without a password")
            yield watcher


@contextmanager
def _until_stopped(*, follow: bool) -> Iterator[Event]:
    """Yield an event that Ctrl-C or SIGTERM sets, to end a capture with ``--follow``.

    Without ``follow``, both signals interrupt the program as usual.
    """
    # Without ``follow`` nothing sets it, and both signals interrupt the program as usual.
    stop = Event()
    before = {}
    if follow:
        for one in (signal.SIGINT, signal.SIGTERM):
            before[one] = signal.signal(one, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _show_progress(*, quiet: bool, follow: bool) -> Iterator[Any]:
    """Yield a function that shows on the terminal how many records a capture has read.

    The function gets two numbers: the records read, and the offsets still to read.

    Args:
        quiet: whether to show nothing.
        follow: whether the capture goes on until it is interrupted.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if quiet or not console.is_terminal:
        if follow and not quiet:
            print_message("following; Ctrl-C ends it", "dim")
        yield lambda _records, _behind: None
        return
    with console.status("reading") as status:

        def moved(records: int, behind: int) -> None:
            left = f"{behind:,} behind" if behind else "at the end; Ctrl-C ends it" * follow
            status.update(f"{records:,} records {left}")

        yield moved


def _shown(manifest: CaptureManifest, to: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        write_json({
            "out": str(to), "records": manifest.records, "batches": manifest.batches,
            "partitions": len(manifest.positions), "parts": len(manifest.parts),
            "cluster_id": manifest.cluster_id, "cleaned_offsets": sum(manifest.cleaned.values()),
            "troubles": manifest.troubles,
        })  # fmt: skip
        return
    for one in manifest.troubles[:10]:
        print_message(f"capture: {one}", "yellow")
    if len(manifest.troubles) > 10:
        print_message(f"capture: and {len(manifest.troubles) - 10} more (capture.json)", "yellow")
    if quiet:
        return
    console = stdout_console()
    console.print(f"{manifest.records:,} records in {manifest.batches:,} batches of "
                  f"{len(manifest.positions)} log partitions")  # fmt: skip
    cleaned = sum(manifest.cleaned.values())
    if cleaned:
        console.print(f"{cleaned:,} offsets before the end were compacted before they were read")
    console.print(styled_name(f"capture  {to}", "bold"), soft_wrap=True)
    console.print(styled_name(f"next     partage replay {to} --out run", "dim"), soft_wrap=True)


# --- the check ---------------------------------------------------------------------------------


def _print_permissions(cluster: ClusterOptions, *, as_json: bool) -> None:
    """Print which data of the Kafka cluster the account may read (option ``--check``).

    Nothing is recorded. The command exits with code 3 if a required permission is missing.
    """
    from partage.commands.clusters import check_access

    properties = cluster.client_properties()
    found = check_access(cluster.broker_addresses(), properties=properties)
    if as_json:
        write_json(found.to_dict())
    else:
        print_warnings(list(found.warnings))
        _access_shown(found, cluster.broker_addresses())
    if not found.can_capture:
        raise typer.Exit(FAILED_CHECK)


def _access_shown(found: AccessReport, bootstrap: str) -> None:
    from partage.capture.preflight import REFUSED

    groups = "groups unknown" if found.groups is None else _count(found.groups, "group")
    counts = [_count(found.brokers, "broker"), _count(found.topics, "topic"), groups]
    print_tables(
        styled_name(f"cluster {found.cluster_id or 'without an id'}: {', '.join(counts)}", "bold")
    )
    print_tables("", _permission_table(found))
    if found.missing_permissions:
        print_tables("", styled_name("Grant the missing permissions:"))
        for one in found.missing_permissions:
            command = "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal User:NAME"
            print_tables(styled_name(f"  {command} {one.acl_options}"))
    if found.partitions:
        print_tables("", _extent_table(found))
    print_tables("")
    if not found.can_capture:
        print_tables(styled_name(REFUSED, "bold red"))
        return
    for line in found.report_messages():
        print_tables(styled_name(line))
    if found.follow_seconds > 0:
        print_tables(
            styled_name(f"next     partage capture -b {bootstrap} --out capture --follow", "dim")
        )
    else:
        print_tables(styled_name(f"next     partage capture -b {bootstrap} --out capture", "dim"))


def _permission_table(found: AccessReport) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "permission", "for", "details"):
        table.add_column(column, overflow="fold")
    states = {True: ("allowed", "green"), False: ("missing", "yellow"), None: ("unknown", "dim")}
    for one in found.permissions:
        state, style = states[one.allowed]
        if one.allowed is False and one.required:
            style = "bold red"
        need = f"{one.purpose} (required)" if one.required else one.purpose
        table.add_row(
            styled_name(state, style),
            f"{one.operation} on {one.resource}",
            need,
            styled_name(one.detail),
        )
    return table


def _extent_table(found: AccessReport) -> Table:
    from rich.table import Table

    from partage.capture.preflight import format_utc

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("log\npartition", "first\noffset", "of (UTC)", "complete\nfrom", "since (UTC)",
                   "end", "complete"):  # fmt: skip
        side = "left" if "UTC" in column else "right"
        table.add_column(column, justify=side)  # type: ignore[arg-type]  # a literal
    for one in found.partitions:
        if one.end:
            first = "-" if one.first_offset is None else str(one.first_offset)
            table.add_row(
                str(one.partition), first, format_utc(one.first_ms), str(one.complete_from),
                format_utc(one.complete_ms), str(one.end), f"{one.complete_share:.1%}",
            )  # fmt: skip
    empty = sum(not one.end for one in found.partitions)
    if empty:
        table.caption = f"{empty} of {len(found.partitions)} partitions have no record"
        table.caption_justify = "left"
    return table


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
