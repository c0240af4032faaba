"""`partage reassign`: plan replica moves with a proven bound, as JSON for Kafka's own tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED_JUDGE, exit_on_error
from partage.cli.console import format_bytes, print_message, print_tables, styled_name, write_json
from partage.cli.options import (
    AsJson,
    ClusterOptions,
    OptionGroup,
    named_options,
    output_option,
    read_replica_cluster,
    replication_option,
    topic_option,
    with_options,
)

if TYPE_CHECKING:
    from rich.table import Table

    from partage.model import ReplicaCluster, ReplicaTask
    from partage.replicas.bands import PlanLimits

__all__ = ["reassign"]

reassign = typer.Typer(
    no_args_is_help=True,
    help="Move replicas: balance, add, drain or replace brokers; change factor, racks or leaders.",
)

Source = Annotated[
    str | None,
    typer.Argument(
        metavar="CLUSTER", show_default=False,
        help="A capture's folder, a cluster.jsonl or .json file, or host:port; or use "
        "--bootstrap-server.",
    ),
]  # fmt: skip
_BROKER = typer.Option("--broker", metavar="ID", help="Broker id; repeatable.")
Ids = Annotated[list[int], _BROKER]


@dataclass(frozen=True, kw_only=True)
class SizeOptions(OptionGroup):
    """Command-line options for replica sizes and write loads of a Kafka cluster.

    The description of the cluster may lack them. Subcommands of ``partage reassign`` that copy
    replicas share these options.
    """

    log_dirs: Annotated[
        Path | None,
        typer.Option("--log-dirs", metavar="FILE", show_default=False,
                     help="Sizes and directories: what kafka-log-dirs.sh --describe prints."),
    ] = None  # fmt: skip
    write_load: Annotated[
        float | None,
        typer.Option("--write-load", metavar="SECONDS", show_default=False,
                     help="Seconds in which to measure the write load of a running cluster."),
    ] = None  # fmt: skip
    log_dirs_before: Annotated[
        Path | None,
        typer.Option("--log-dirs-before", metavar="FILE", show_default=False,
                     help="Output of --log-dirs, --write-load SECONDS earlier; the growth is "
                     "the load."),
    ] = None  # fmt: skip

    def read_cluster(
        self,
        source: str | None,
        cluster: ClusterOptions,
        *,
        removed_brokers: tuple[int, ...] = (),
        excluded: list[str] | None = None,
    ) -> ReplicaCluster:
        """Read the brokers, topics and replicas of a cluster, and add the replica sizes.

        Sizes come from the output of ``kafka-log-dirs`` if the user names such a file.

        Args:
            source: file or capture that describes the cluster.
            cluster: the running cluster, if there is no file.
            removed_brokers: ids of brokers that may be down.
            excluded: topics to leave out.
        """
        # See `commands.reassignments.read_cluster`.
        return read_replica_cluster(
            source, cluster, log_dirs=self.log_dirs, gone=removed_brokers,
            excluded=tuple(excluded or ()),
            write_load=self.write_load, log_dirs_before=self.log_dirs_before,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LimitOptions(OptionGroup):
    """Command-line options that limit a reassignment of replicas.

    They exclude topics, and set by which fraction the loads of brokers may differ.
    """

    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="TOPIC", show_default=False,
                     help="Topic to leave out altogether; repeatable."),
    ] = None  # fmt: skip
    tolerance: Annotated[
        list[str] | None,
        typer.Option("--tolerance", metavar="KIND=FRACTION", show_default=False,
                     help="Allowed distance from the even share; repeatable. KIND is replicas, "
                     "leaders, bytes or load of a broker (default 0, 0, 0.1, 0.1), the same with "
                     "rack- of a rack (0, 0, 0.05, 0.05), or disk-bytes (0.1)."),
    ] = None  # fmt: skip

    def plan_limits(self, pin: list[str] | None = None) -> PlanLimits:
        """Return the limits of a replica reassignment that the command line sets.

        They are topics that do not move or are excluded, and tolerances for uneven loads of
        brokers.

        Args:
            pin: names of topics that must not move.

        Raises:
            BadParameter: a tolerance is not KIND=FRACTION.
        """
        from partage.replicas.bands import TOLERANCE, PlanLimits

        given: dict[str, float] = {}
        for one in self.tolerance or ():
            kind, equals, value = one.partition("=")
            known = equals and kind in TOLERANCE
            try:
                given[kind] = float(value if known else "")
            except ValueError:
                what = f"{one!r}: KIND=FRACTION, of {', '.join(TOLERANCE)}"
                raise typer.BadParameter(what, param_hint="--tolerance") from None
        return PlanLimits(tuple(pin or ()), tuple(self.exclude or ()), given)


@dataclass(frozen=True, kw_only=True)
class PinnedLimitOptions(LimitOptions):
    """Command-line options that limit a replica reassignment, including ``--pin TOPIC``.

    The replicas of a pinned topic must not move.
    """

    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", metavar="TOPIC", show_default=False,
                     help="Topic that does not move and counts for balance; repeatable."),
    ] = None  # fmt: skip

    def pinned_limits(self) -> PlanLimits:
        """Return the limits of a replica reassignment that the command line sets.

        They include the topics that ``--pin`` names, whose replicas must not move.
        """
        return self.plan_limits(self.pin)


@dataclass(frozen=True, kw_only=True)
class ResultOptions(OptionGroup):
    """Command-line options for the output of a replica reassignment.

    They are the batch size, the folder, the HTML page and JSON. All subcommands of ``partage
    reassign`` have them.
    """

    to: Annotated[
        Path | None,
        output_option("Folder for the JSON of each batch, its roll-back, and plan.json."),
    ] = None
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="PAGE.html", show_default=False, help="Write a page."),
    ] = None
    max_moves: Annotated[
        int | None,
        typer.Option("--max-moves", metavar="N", show_default=False,
                     help="Replicas copied in one batch, at most."),
    ] = None  # fmt: skip
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class CopyOptions(ResultOptions):
    """Command-line options for the output of a reassignment that copies data between brokers.

    Besides the options of all subcommands, they set the throttle and switch off lower bounds.
    """

    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES/S", show_default=False,
                     help="Rate limit of each broker, as in Kafka's own tool; the plan then "
                     "estimates its duration."),
    ] = None  # fmt: skip
    no_proof: Annotated[bool, typer.Option("--no-proof", help="Skip the lower bounds.")] = False


def _compiling() -> Callable[[str], None]:
    from partage.cli.console import print_message

    said: list[str] = []

    def warn_of_compilation(kernel: str) -> None:
        if not said:
            print_message("compiling kernels, once for this installation: 5 to 30 s ...")
        said.append(kernel)

    return warn_of_compilation


def _plan_and_print(task: ReplicaTask, command: str, options: ResultOptions) -> None:
    """Compute the plan of a replica reassignment, write its files, and print the result.

    All subcommands of ``partage reassign`` end with this step.

    Args:
        task: the cluster and the constraints of the reassignment.
        command: name of the subcommand, such as "rebalance".
        options: the output options.

    Raises:
        Exit: with code 3 if the plan breaks a rule.
    """
    from partage.commands.reassignments import plan_task
    from partage.kernels import report_compilation

    throttle, proof = None, True
    if isinstance(options, CopyOptions):
        throttle, proof = options.throttle, not options.no_proof
    with report_compilation(_compiling()), named_options(throttle="--throttle", folder="--out"):
        data = plan_task(
            task, command, max_moves=options.max_moves, throttle=throttle, proof=proof
        )  # fmt: skip
        if options.to is not None:
            data.write(options.to)
    if options.page is not None:
        from partage.report.replicas import write_replicas_page

        write_replicas_page(data.summary, options.page)
    print_plan(data.summary, as_json=options.as_json, to=options.to, page=options.page)
    if data.result.verdict.breaches:
        raise typer.Exit(FAILED_JUDGE)


def _rebalance(
    source: Source = None, *, cluster: ClusterOptions, sizes: SizeOptions,
    limits: PinnedLimitOptions, result: CopyOptions,
) -> None:  # fmt: skip
    """Plan moves that balance replicas, leaders, bytes and load, with the fewest bytes moved.

    partage reassign rebalance capture --out plan

    partage reassign rebalance -b broker:9092 --throttle 50000000 --max-moves 100 --out plan
    """
    from partage.replicas import tasks

    read = sizes.read_cluster(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.rebalance_task(read, limits.pinned_limits()), "rebalance", result)


def _add_broker(
    source: Source = None, *, broker: Ids, cluster: ClusterOptions, sizes: SizeOptions,
    limits: PinnedLimitOptions, result: CopyOptions,
) -> None:  # fmt: skip
    """Plan moves of replicas to new brokers only, to fill them."""
    from partage.replicas import tasks

    read = sizes.read_cluster(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.add_brokers(read, broker, limits.pinned_limits()), "add-broker", result)


def _drain_broker(
    source: Source = None, *, broker: Ids, cluster: ClusterOptions, sizes: SizeOptions,
    limits: LimitOptions, result: CopyOptions,
) -> None:  # fmt: skip
    """Plan moves of all replicas off some brokers, which may be down; no other replica moves."""
    from partage.replicas import tasks

    read = sizes.read_cluster(
        source, cluster, removed_brokers=tuple(broker), excluded=limits.exclude
    )
    _plan_and_print(tasks.drain_brokers(read, broker, limits.plan_limits()), "drain-broker", result)


def _replace_broker(
    source: Source = None,
    *,
    old: Annotated[
        int, typer.Option("--broker", metavar="ID", help="Broker id; the one to replace.")
    ],
    new: Annotated[int, typer.Option("--by", metavar="ID", help="Broker that takes over.")],
    cluster: ClusterOptions,
    sizes: SizeOptions,
    result: CopyOptions,
) -> None:
    """Plan the replacement of a broker: the new one takes over each replica of the old one."""
    from partage.replicas import tasks

    read = sizes.read_cluster(source, cluster, removed_brokers=(old,))
    _plan_and_print(tasks.replace_broker(read, old, new), "replace-broker", result)


def _change_rf(
    source: Source = None,
    *,
    factor: Annotated[int, replication_option()],
    topic: Annotated[list[str] | None, topic_option("Repeatable; without it, all.")] = None,
    cluster: ClusterOptions,
    sizes: SizeOptions,
    limits: LimitOptions,
    result: CopyOptions,
) -> None:
    """Plan a change of the replication factor: replicas are added or removed, none moves."""
    from partage.replicas import tasks

    read = sizes.read_cluster(source, cluster, excluded=limits.exclude)
    _plan_and_print(
        tasks.change_factor(read, factor, topic, limits.plan_limits()), "change-rf", result
    )


def _fix_racks(
    source: Source = None, *, cluster: ClusterOptions, sizes: SizeOptions,
    limits: PinnedLimitOptions, result: CopyOptions,
) -> None:  # fmt: skip
    """Plan moves of replicas that share a rack although their partition could use another rack."""
    from partage.replicas import tasks

    read = sizes.read_cluster(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.fix_racks(read, limits.pinned_limits()), "fix-racks", result)


def _elect_leaders(
    source: Source = None, *, cluster: ClusterOptions, limits: PinnedLimitOptions,
    result: ResultOptions,
) -> None:  # fmt: skip
    """Plan reordered replica lists that balance preferred leaders; no data is moved.

    Execute the reassignment, then elect: `kafka-leader-election --election-type preferred
    --path-to-json-file FOLDER/election.json`.
    """
    from partage.replicas import tasks

    read = SizeOptions().read_cluster(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.elect_leaders(read, limits.pinned_limits()), "elect-leaders", result)


for _name, _command in (
    ("rebalance", _rebalance),
    ("add-broker", _add_broker),
    ("drain-broker", _drain_broker),
    ("replace-broker", _replace_broker),
    ("change-rf", _change_rf),
    ("fix-racks", _fix_racks),
    ("elect-leaders", _elect_leaders),
):
    reassign.command(_name)(exit_on_error(with_options(_command)))


_MOST_BROKERS = 40


def print_plan(
    summary: dict[str, Any], *, as_json: bool, to: Path | None, page: Path | None
) -> None:
    """Print a replica reassignment as tables or as JSON, then the paths of its files.

    If no files were written, a hint names the option that writes files for Kafka's tools.

    Args:
        summary: the reassignment as a JSON object.
        as_json: whether to print JSON.
        to: folder with the written files; None if none were written.
        page: path of the HTML page; None for none.
    """
    if as_json:
        write_json(summary, indent=1)
    else:
        print_tables(_brokers(summary), "", _figures(summary), "", *_sentences(summary))
    if to is not None:
        count = len(summary["batches"])
        print_message(
            f"{count} {'batch' if count == 1 else 'batches'}, roll-backs and plan.json: {to}"
        )
        print_message(
            f"to execute: BOOTSTRAP=HOST:9092 sh {to}/execute.sh; to take it back: rollback.sh"
        )
    elif summary["partitions_changed"]:
        print_message("nothing is written: --out FOLDER writes what Kafka's tools execute")
    if page is not None:
        print_message(f"page: {page}")


def _cell(name_: str, value: int) -> str:
    if name_ == "bytes":
        return format_bytes(value)
    return f"{format_bytes(value)}/s" if name_ == "load" else f"{value:,}"


def _brokers(summary: dict[str, Any]) -> Table:
    from rich.table import Table

    rows, many = summary["brokers"], len(summary["brokers"]) > _MOST_BROKERS
    kinds = list(rows[0]["before"])
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column("rack" if many else "broker", overflow="fold")
    table.add_column("brokers" if many else "rack", overflow="fold")
    for kind in kinds:
        table.add_column(kind, justify="right", no_wrap=True)
        table.add_column("after", justify="right", no_wrap=True)
    for row in summary["racks"] if many else rows:
        first = row["rack"] or "-" if many else row["id"]
        second = row["brokers"] if many else row["rack"] or "-"
        cells = [_cell(kind, row[when][kind]) for kind in kinds for when in ("before", "after")]
        table.add_row(styled_name(str(first)), styled_name(str(second)), *map(styled_name, cells))
    return table


_FIRST = {
    "racks": "against the rack rule", "capacity": "over capacity",
    "between brokers": "moved between brokers", "moved": "moved",
}  # fmt: skip


def _is_known(summary: dict[str, Any], figure: str) -> bool:
    kind = figure.rpartition(" ")[2]
    if kind == "capacity":
        return bool(summary["figures"][figure])
    return kind not in {"bytes", "load"} or kind in summary["brokers"][0]["before"]


def _words(figure: str) -> str:
    return _FIRST.get(figure, f"{figure} outside bands")


def _figures(summary: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for title in ("", "before", "after", "no plan below"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for key in summary["figures"]:
        if not _is_known(summary, key):
            continue
        moves = key in {"moved", "between brokers"}
        kind = (
            summary["unit"] if moves else "bytes" if key == "capacity" else key.rpartition(" ")[2]
        )
        before = None if moves else summary["before"].get(key)
        table.add_row(
            styled_name(_words(key)),
            styled_name("" if before is None else _cell(kind, before)),
            styled_name(_cell(kind, summary["figures"][key])),
            styled_name(_cell(kind, summary["bounds"][key])),
        )
    return table


def _format_duration(seconds: float) -> str:
    """Format a duration in seconds, such as ``90 s`` or ``3,600 s (1:00 h)``.

    From two minutes on, hours and minutes are added.
    """
    if seconds < 120:
        return f"{seconds:,.0f} s"
    minutes = round(seconds / 60)
    return f"{seconds:,.0f} s ({minutes // 60}:{minutes % 60:02} h)"


def _gap(summary: dict[str, Any]) -> str:
    moved, bound = summary["figures"]["moved"], summary["bounds"]["moved"]
    unit = "" if summary["unit"] == "bytes" else " replicas"
    least, all_ = (f"{_cell(summary['unit'], one)}{unit}" for one in (bound, moved))
    line = f"verified lower bound: {least} of the {all_} must move; gap {summary['gap']:.2%}"
    if moved == bound:
        line = "nothing is moved" if not moved else "no plan moves less (proven)"
    held = sum(row["after"]["bytes" if summary["unit"] == "bytes" else "replicas"]
               for row in summary["brokers"])  # fmt: skip
    if moved > bound and held:
        line += f", {(moved - bound) / held:.3%} of all that brokers hold"
        between = summary["figures"].get("between brokers")
        if between:
            gap = (between - summary["bounds"]["between brokers"]) / between
            line += f"; between brokers {gap:.2%}"
    loose = [
        _words(name) for name, value in summary["figures"].items()
        if name not in {"moved", "between brokers"} and value > summary["bounds"][name]
    ]  # fmt: skip
    if loose:
        line += f"; another plan may have fewer {', '.join(loose)}"
    return line


def _solver_sentence(summary: dict[str, Any]) -> str:
    """Return a sentence about the lower bound of the moved bytes that the solver HiGHS reports.

    Partage verifies its own lower bound, but not that of the solver.

    Args:
        summary: the reassignment as a JSON object.
    """
    # Partage verifies its own lower bound only.
    # A programme knows brokers only: what goes from disk to disk is not in it.
    which = "between brokers" if "between brokers" in summary["figures"] else "moved"
    own, moved, bound = summary["solver_bound"], summary["figures"][which], summary["bounds"][which]
    unit = "" if summary["unit"] == "bytes" else " replicas"
    by = "HiGHS found this plan" if summary["solver"] == "HiGHS" else "HiGHS found no better plan"
    if own >= moved * (1 - 1e-9):
        reported = "reports that no plan moves less"
    else:
        least = _cell(summary["unit"], round(own))
        reported = f"reports that every plan moves at least {least}{unit}"
    if bound >= moved:
        return f"{by} and {reported}: verified"
    return f"{by} and {reported}; Partage verified only the lower bound above"


def _missing(summary: dict[str, Any]) -> str:
    moved, bound = summary["figures"]["moved"], summary["bounds"]["moved"]
    unit = "" if summary["unit"] == "bytes" else " replicas"
    gain = f"up to {_cell(summary['unit'], moved - bound)}{unit} ({summary['gap']:.1%}) less"
    return (
        "HiGHS is not installed, so the local search alone made this plan. With HiGHS "
        f"(pip install 'partage[plan]') a plan may move {gain}, or have a better bound"
    )


def _too_large(summary: dict[str, Any]) -> str:
    size = summary["too_large_for_solver"]
    return (
        f"the local search alone made this plan, and may move more than necessary: the cluster has "
        f"{size['pairs']:,} pairs of partition and broker, and HiGHS plans at most {size['most']:,}"
    )


def _joint(summary: dict[str, Any]) -> str:
    unit = summary["unit"]
    parts = [
        f"{_cell(unit, value)}{'' if unit == 'bytes' else ' replicas'} moved"
        if figure == "moved"
        else f"{_cell(figure.rpartition(' ')[2], value)} of {_words(figure)}"
        for figure, value in summary["sequential_loss"].items()
        if figure != "between brokers"
    ]
    return (
        "leaders and disks are chosen after the sets of replicas: a joint choice would gain at "
        f"most {', '.join(parts)}"
    )


def _notes(summary: dict[str, Any]) -> list[str]:
    lines = []
    if summary["command"] == "fix-racks" and not any(row["rack"] for row in summary["brokers"]):
        lines.append("no broker has a rack: there is nothing to fix")
    if summary["emptied"]:
        gone = ", ".join(map(str, summary["emptied"]))
        lines.append(f"nothing is left on {gone} once all batches are through")
    if summary["leaderless"]:
        few = ", ".join(summary["leaderless"][:3]) + (
            ", ..." if len(summary["leaderless"]) > 3 else ""
        )
        lines.append(f"to be copied, and without a leader: {len(summary['leaderless']):,} ({few}); "
                     "until they have one Kafka copies nothing, and the batch waits")  # fmt: skip
    if summary["gone"]:
        gone = ", ".join(map(str, summary["gone"]))
        lines.append(f"roll-backs put replicas back on {gone}, which is in no metadata: "
                     "they cannot be executed while it is away")  # fmt: skip
    return lines


def _sentences(summary: dict[str, Any]) -> list[Any]:
    lines = []
    copied = f"{summary['replicas_moved']:,} replicas copied"
    if summary["bytes_moved"] is not None:
        copied += f", {format_bytes(summary['bytes_moved'])}"
    count = len(summary["batches"])
    batches = f"{count:,} {'batch' if count == 1 else 'batches'}"
    lines.append(f"{copied}; {summary['partitions_changed']:,} partitions changed, {batches}")
    if summary["replicas_between_disks"]:
        inner = (
            f"{summary['replicas_between_disks']:,} replicas copied between disks of their brokers"
        )
        if summary["bytes_between_disks"] is not None:
            inner += f", {format_bytes(summary['bytes_between_disks'])}"
        lines.append(f"{inner}: no network bytes, but part of what is moved")
    if summary["optimal"]:
        lines.append("proven: no plan is better")
    else:
        lines.append(_gap(summary))
    if summary["solver_bound"] is not None:
        lines.append(_solver_sentence(summary))
    if summary["sequential_loss"]:
        lines.append(_joint(summary))
    if summary["lacks_solver"]:
        lines.append(_missing(summary))
    if summary["too_large_for_solver"]:
        lines.append(_too_large(summary))
    if summary["seconds"] is not None:
        lines.append(
            f"at {format_bytes(summary['throttle'])}/s a broker: at least "
            f"{_format_duration(summary['seconds'])}"
        )
    if summary["led_by_others"]:
        lines.append(f"{summary['led_by_others']:,} more partitions are led by another replica "
                     "than their first: election.json has them")  # fmt: skip
    lines += _notes(summary)
    for row in summary["disks"][:_MOST_BROKERS]:
        was, now = (
            format_bytes(row[when])
            if summary["bytes_moved"] is not None
            else f"{row[when]:,} replicas"
            for when in ("before", "after")
        )
        lines.append(f"broker {row['broker']}, {row['path']}: {was} before, {now} after")
    pairs = [
        f"{pair['from'] or '-'} to {pair['to'] or '-'} "
        + (
            format_bytes(pair["bytes"])
            if summary["bytes_moved"] is not None
            else f"{pair['replicas']:,}"
        )
        for pair in summary["network"]
    ]
    if pairs and len(pairs) <= 16:
        lines.append("copied from rack to rack: " + ", ".join(pairs))
    return [styled_name(line) for line in lines]
