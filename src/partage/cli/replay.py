"""`partage replay`: a recorded cluster's history, simulated under other policies; the demo."""

from __future__ import annotations

import logging
import os
import webbrowser
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED_GROUP, FAILED_JUDGE
from partage.cli.console import (
    has_display,
    is_terminal,
    print_message,
    print_tables,
    short_name,
    stdout_console,
    styled_name,
    write_json,
)
from partage.cli.options import (
    ClusterOptions,
    Engine,
    GroupPatterns,
    OpenPage,
    OutputOptions,
    Processes,
    SparkOptions,
    named_options,
    output_option,
    strategy_option,
    with_options,
)
from partage.cli.progress import report_progress
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from partage.jobs.replay.lake_tables import LakeTables
    from partage.report.run import RunFigures

__all__ = ["DEMO_POLICIES", "ReplayOptions", "demo", "replay", "replay_and_report"]

REPORT = "report.html"
#: Policies that the demo simulates: the present settings, and those that its report recommends. A
#: test compares the recommendations with those from all policies, which take three times as long.
DEMO_POLICIES = (
    "own", "cooperative/cooperative-sticky", "consumer/uniform", "consumer/range",
)  # fmt: skip
#: Failed groups that are named on stderr.
_MOST_FAILED = 5


@with_options
def replay(
    capture: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="A capture's folder, Parquet files, a table that Spark reads, or "
            "kafka://HOST:PORT; or use --bootstrap-server.",
        ),
    ] = None,
    *,
    out: Annotated[
        str, output_option("Folder for tables and report; or an address, such as s3a://bucket/run.")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", metavar="POLICY", show_default=False,
            help="Policy: protocol/strategy with options. Only these are simulated; repeatable.",
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        strategy_option("Its policy uses the protocol that it prefers; repeatable."),
    ] = None,
    group: GroupPatterns = None,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", show_default=False,
                     help="ISO time (UTC) or epoch milliseconds."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", show_default=False, help="The same; itself excluded."),
    ] = None,
    commits: Annotated[
        bool, typer.Option("--commits", help="Write each commit too: table commits.")
    ] = False,
    append: Annotated[
        bool,
        typer.Option("--append", help="Continue the last run of the folder: read what is new."),
    ] = False,
    table_format: Annotated[
        str,
        typer.Option("--format", metavar="parquet|delta|iceberg",
                     help="Output format. delta and iceberg: tables that grow by each run, besides "
                     "the Parquet files."),
    ] = "parquet",
    catalog: Annotated[
        str | None,
        typer.Option("--catalog", metavar="NAME", show_default=False,
                     help="Catalog and namespace of these tables, for example lake.kafka. Default: "
                     "folders in the output folder."),
    ] = None,
    work_dir: Annotated[
        Path | None,
        typer.Option("--work-dir", metavar="FOLDER", show_default=False,
                     help="Folder for files before their upload to an address, with the same path "
                     "on all machines. Default: a temporary one."),
    ] = None,
    cluster: ClusterOptions,
    engine: Engine = "spark",
    processes: Processes = None,
    spark: SparkOptions,
    output: OutputOptions,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write the page.")
    ] = True,
    open_it: OpenPage = False,
) -> None:  # fmt: skip
    """Replay a recorded cluster: the causes of rebalances, their costs, and how to avoid them.

    Reads a capture of `__consumer_offsets` and the cluster's metadata, rebuilds the history of
    each group, simulates each rebalance under other policies, and writes tables (Parquet),
    `summary.json` and one HTML page that can be read offline and passed on.

        partage replay capture/ --out run

        partage replay capture/ --out run --policy eager/range --policy consumer/uniform --open

        partage replay capture/ --out run --group 'orders-*' --from 2026-11-21T08:00

        partage replay -b broker:9092 --out run --conf spark.jars.packages=...

        partage replay capture/ --out run --append

        partage replay s3a://lake/capture --out s3a://lake/run --conf spark.jars.packages=...

    Spark runs in this process unless `--master` says otherwise; Java 17 must be there. With
    `--engine local` it runs without Spark and Java, in `--processes` processes. With `--json`,
    progress goes to stderr as JSON lines, and stdout has the summary. Earlier runs in the same
    folder stay; a folder that is not Partage's is left alone.

    With `--append` the run continues the last one of the folder: it reads the records that are
    new, and its tables equal those of a full run. The first run reads everything, and so does one
    whose options or old records differ from those of the last run; it says why.

    Every plan is checked by the judge. Where a strategy's plan breaks a rule, tables and report
    are written all the same, the strategy goes to stderr, and the exit code is 3. What the log
    recorded may break rules: that is the log's, and does not count. A plug-in that raises an
    error is shown as failed; the others go on.

    An unforeseen exception in one group makes the group `failed`, with reason and traceback in
    table `groups`. The others are published, and the exit code is 4.
    """
    from partage.jobs.replay.selection import Selection, parse_time
    from partage.jobs.spark.tables import is_address

    bounds = [
        None if text is None else parse_time(text, option)
        for text, option in ((since, "--from"), (until, "--to"))
    ]
    source = cluster.input_or_cluster(capture, "CAPTURE")
    options = ReplayOptions(
        policies=policy, strategies=strategy, raw_commits=commits, append=append,
        table_format=table_format, catalog=catalog, work_dir=work_dir,
        engine=engine, processes=processes, master=spark.master,
        conf=spark.spark_settings_by_name(), kafka=cluster.client_properties(),
        selection=Selection(tuple(group or ()), *bounds),
        quiet=output.quiet, as_json=output.as_json, report=report,
    )  # fmt: skip
    if open_it and is_address(out):
        raise InvalidConfigError("--open", "only a local page can be opened", out)
    replay_and_report(source, out, options, open_it=open_it)


@dataclass(frozen=True)
class ReplayOptions:
    """Command-line options of ``partage replay``: policies, strategies, groups, times and engine.

    The engine is Spark or local processes. ``partage demo`` uses the same class.
    """

    policies: list[str] | None = None
    strategies: list[str] | None = None
    selection: Any = None
    raw_commits: bool = False
    append: bool = False
    table_format: str = "parquet"
    catalog: str | None = None
    work_dir: Path | None = None
    engine: str = "spark"
    processes: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    quiet: bool = False
    as_json: bool = False
    report: bool = True

    def replay_arguments(self) -> dict[str, Any]:
        """Return the options as keyword arguments of the function that replays a recording.

        Options for the command's output, such as ``quiet``, are left out.
        """
        names = (
            "policies", "strategies", "raw_commits", "append", "engine", "processes", "master",
            "conf", "kafka",
        )  # fmt: skip
        found = {name: getattr(self, name) for name in names}
        return found if self.selection is None else {**found, "selection": self.selection}

    def output_arguments(self) -> dict[str, Any]:
        """Return the options for the output folder as keyword arguments of `open_output`.

        They include those of the Spark session, which may open the folder.
        """
        names = ("append", "table_format", "catalog", "work_dir", "engine", "master", "conf")
        return {name: getattr(self, name) for name in names}


def replay_and_report(
    capture: str | Path, out: str | Path, options: ReplayOptions, *, open_it: bool | None
) -> None:
    """Replay the recorded history of a cluster, write the report, and print a summary.

    The commands ``partage replay`` and ``partage demo`` call it.

    Args:
        capture: folder of the recording.
        out: folder for tables and report, or an address.
        options: policies, groups, time range, engine, and how to publish tables.
        open_it: whether to open the report in a browser.

    Raises:
        PartageError: the capture, the folder or the environment cannot be used.
        Exit: 4 if a group failed, else 3 if a plan breaks a rule. All results are written before.
    """
    from partage.jobs.replay.remote_output import open_output
    from partage.jobs.replay.replay import replay as run
    from partage.jobs.spark.tables import is_address
    from partage.report.data import read_run
    from partage.report.html import create_jinja_environment

    is_remote = is_address(str(out))
    if not is_remote:
        _expect_partage_folder(Path(out))
    _quiet_logging()
    if options.report:
        create_jinja_environment()  # a missing jinja2 is reported before the work, not after it
    with ExitStack() as opened:
        shown = report_progress(quiet=options.quiet, as_json=options.as_json)
        progress = opened.enter_context(shown)
        output = opened.enter_context(
            open_output(str(out), capture, progress=progress, **options.output_arguments())
        )
        with named_options(out="--out"):
            summary = run(
                capture, output.folder, **options.replay_arguments(), spark=output.spark,
                progress=progress,
            )  # fmt: skip
        page = output.folder / REPORT if options.report else None
        if page is not None:
            progress("report", 0, 0)
            found = _written(output.folder, page, summary["run_id"])
            progress("report", 1, 1)
        else:
            found = read_run(output.folder, summary["run_id"])
        output.publish(summary["run_id"], page, progress)
    if options.as_json:
        write_json(summary)
    elif not options.quiet:
        _shown(found, out, has_page=page is not None, lake=output.lake)
    else:
        for group, near in summary.get("unmatched_groups", {}).items():
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            print_message(
                f"--group {group!r}: no group of the capture has this name{hint}", "yellow"
            )
    wants_it = open_it or (open_it is None and is_terminal() and has_display())
    if page is not None and wants_it and not is_remote:
        webbrowser.open(page.absolute().as_uri())
    _judged(found)


def _shown(found: RunFigures, out: str | Path, *, has_page: bool, lake: LakeTables | None) -> None:
    from partage.report.terminal import terminal_summary

    print_tables(*terminal_summary(found))
    console = stdout_console()
    console.print(styled_name(f"tables   {out}", "dim"), soft_wrap=True)
    if lake is not None:
        console.print(styled_name(f"{lake.form:9}{lake.where}", "dim"), soft_wrap=True)
    if has_page:
        where = f"{str(out).rstrip('/')}/{REPORT}"
        console.print(styled_name(f"report   {where}", "bold"), soft_wrap=True)


def _judged(found: RunFigures) -> None:
    from partage.tables.statuses import RECORDED

    broken = {n: f for n, f in found.figures.items() if n != RECORDED and f.incomplete}
    for strategy, figures in broken.items():
        print_message(f"judge: {strategy} breaks the rules in "
                      f"{figures.incomplete} of {figures.done} plans",
             "bold red")  # fmt: skip
    for group in found.failed_groups[:_MOST_FAILED]:
        print_message(f"group {short_name(group.name)} failed: {group.why}", "bold red")
    if len(found.failed_groups) > _MOST_FAILED:
        print_message(
            f"and {len(found.failed_groups) - _MOST_FAILED} more groups failed", "bold red"
        )
    if found.failed_groups:
        print_message(
            "this is a mistake in Partage: report column traceback of table groups", "bold red"
        )
        raise typer.Exit(FAILED_GROUP)
    if broken:
        raise typer.Exit(FAILED_JUDGE)


def _quiet_logging() -> None:
    # The command prints the error in one line; Py4J would log the interrupted call as well.
    if os.environ.get("PARTAGE_DEBUG") != "1":
        logging.getLogger().addHandler(logging.NullHandler())


def _written(to: Path, page: Path, run_id: str) -> RunFigures:
    from partage.report.html import publish_page

    try:
        return publish_page(to, page, run_id)
    except OSError as e:
        raise InvalidConfigError(
            "--out", f"the report cannot be written ({e.strerror or e})", str(page)
        ) from None


def _expect_partage_folder(to: Path) -> None:
    """Check that the output folder is new or empty, or has an earlier output of Partage.

    Otherwise the output would be mixed with other files.

    Raises:
        InvalidConfigError: the folder has other files, or is a file.
    """
    if to.exists() and not to.is_dir():
        raise InvalidConfigError("--out", "must be a folder, and this is a file", str(to))
    if not to.is_dir() or not any(to.iterdir()):
        return
    from partage.runs.published_run import MANIFEST

    known = (to / "tables", to / "running")
    if not (to / MANIFEST).is_file() and not any(folder.is_dir() for folder in known):
        what = "must be empty or an earlier output of Partage; nothing was written"
        raise InvalidConfigError("--out", what, str(to))


def demo(
    *,
    to: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER",
                           help="Output path. Folder for tables and report.")
    ] = Path("partage-demo"),
    all_policies: Annotated[
        bool, typer.Option("--all-policies", help="Simulate all policies of partage replay.")
    ] = False,
    engine: Engine = "auto",
    processes: Processes = None,
    open_it: Annotated[
        bool | None,
        typer.Option("--open/--no-open", show_default=False,
                     help="Open the page in a browser. Default: if there is a display."),
    ] = None,
) -> None:  # fmt: skip
    """Replay the recorded history of a real Kafka cluster, and open the report.

    The recording ships with Partage: 94,434 records of `__consumer_offsets` that Kafka 4.3.1
    wrote in eight minutes, while about 35 groups joined, left, crashed and froze. The replay uses
    all cores and takes less than half a minute on two cores. It needs neither Spark nor Java.
    Four policies are simulated: the present settings, and those that the report recommends. With
    `--engine spark` Spark replays it, which needs Java 17.

        partage demo

        partage demo --out /tmp/demo --no-open

        partage demo --all-policies
    """
    console = stdout_console()
    what = (
        "the recorded history of a real Kafka cluster, described in "
        f"{sample_folder() / 'README.md'}"
    )
    console.print(styled_name(what, "dim"), soft_wrap=True)
    policies = None if all_policies else [*DEMO_POLICIES]
    if policies is not None:
        note = f"{len(policies)} policies are simulated; all of them with --all-policies"
        console.print(styled_name(note, "dim"), soft_wrap=True)
    options = ReplayOptions(policies=policies, engine=engine, processes=processes)
    replay_and_report(sample_folder(), to, options, open_it=open_it)


def sample_folder() -> Path:
    """Return the folder of the recorded cluster history that ships with Partage.

    ``partage demo`` replays it.
    """
    from partage.sample import folder

    return folder()
