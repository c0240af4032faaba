"""`partage reassign`: plan replica moves with a proven bound, as JSON for Kafka's own tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.command_errors import FAILED_JUDGE, exit_on_error
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
    """Command-line options for replica sizes and write loads that a cluster description lacks."""

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

    def read(
        self,
        source: str | None,
        cluster: ClusterOptions,
        *,
        gone: tuple[int, ...] = (),
        excluded: list[str] | None = None,
    ) -> ReplicaCluster:
        """Read brokers, topics and replicas of a Kafka cluster, with sizes from the options.

        Args:
            source: file or capture that describes the cluster.
            cluster: the running cluster, if there is no file.
            gone: ids of brokers that may be down.
            excluded: topics to leave out.
        """
        # See `commands.reassignments.read_cluster`.
        return read_replica_cluster(
            source, cluster, log_dirs=self.log_dirs, gone=gone, excluded=tuple(excluded or ()),
            write_load=self.write_load, log_dirs_before=self.log_dirs_before,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LimitOptions(OptionGroup):
    """Command-line options of a reassignment: excluded topics, and tolerances for uneven loads."""

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

    def limits(self, pin: list[str] | None = None) -> PlanLimits:
        """Return the limits of a replica reassignment that the command line gives.

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
    """Command-line options that limit a reassignment, including topics that must not move."""

    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", metavar="TOPIC", show_default=False,
                     help="Topic that does not move and counts for balance; repeatable."),
    ] = None  # fmt: skip

    def pinned_limits(self) -> PlanLimits:
        """Return the limits of a replica reassignment, including topics that must not move."""
        return self.limits(self.pin)


@dataclass(frozen=True, kw_only=True)
class ResultOptions(OptionGroup):
    """Command-line options for a reassignment's output: batch size, folder, page and format."""

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
    """Command-line options for reassignments that copy data: the throttle and lower bounds."""

    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES/S", show_default=False,
                     help="Rate limit of each broker, as in Kafka's own tool; the plan then "
                     "estimates its duration."),
    ] = None  # fmt: skip
    no_proof: Annotated[bool, typer.Option("--no-proof", help="Skip the lower bounds.")] = False


def _compiling() -> Callable[[str], None]:
    from partage.cli.console import tell

    said: list[str] = []

    def warn_of_compilation(kernel: str) -> None:
        if not said:
            tell("compiling kernels, once for this installation: 5 to 30 s ...")
        said.append(kernel)

    return warn_of_compilation


def _plan_and_print(task: ReplicaTask, command: str, options: ResultOptions) -> None:
    """Plan a replica reassignment, write its files, and print the result.

    Args:
        task: cluster, brokers and limits.
        command: name of the subcommand, such as "rebalance".
        options: the output options.

    Raises:
        Exit: with code 3 if the plan breaks a rule.
    """
    from partage.cli.reassign_output import print_plan
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
    """Balance replicas, leaders, bytes and load, with the fewest bytes moved.

    partage reassign rebalance capture --out plan

    partage reassign rebalance -b broker:9092 --throttle 50000000 --max-moves 100 --out plan
    """
    from partage.replicas import tasks

    read = sizes.read(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.rebalance(read, limits.pinned_limits()), "rebalance", result)


def _add_broker(
    source: Source = None, *, broker: Ids, cluster: ClusterOptions, sizes: SizeOptions,
    limits: PinnedLimitOptions, result: CopyOptions,
) -> None:  # fmt: skip
    """Fill new brokers: replicas move to them only."""
    from partage.replicas import tasks

    read = sizes.read(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.add_brokers(read, broker, limits.pinned_limits()), "add-broker", result)


def _drain_broker(
    source: Source = None, *, broker: Ids, cluster: ClusterOptions, sizes: SizeOptions,
    limits: LimitOptions, result: CopyOptions,
) -> None:  # fmt: skip
    """Move all replicas off brokers; no other replica moves. The brokers may be down."""
    from partage.replicas import tasks

    read = sizes.read(source, cluster, gone=tuple(broker), excluded=limits.exclude)
    _plan_and_print(tasks.drain_brokers(read, broker, limits.limits()), "drain-broker", result)


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
    """Replace a broker: the new one takes over each replica of the old one."""
    from partage.replicas import tasks

    read = sizes.read(source, cluster, gone=(old,))
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
    """Change the replication factor: replicas are added or removed, none moves."""
    from partage.replicas import tasks

    read = sizes.read(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.change_factor(read, factor, topic, limits.limits()), "change-rf", result)


def _fix_racks(
    source: Source = None, *, cluster: ClusterOptions, sizes: SizeOptions,
    limits: PinnedLimitOptions, result: CopyOptions,
) -> None:  # fmt: skip
    """Move only replicas that share a rack although their partition could use another rack."""
    from partage.replicas import tasks

    read = sizes.read(source, cluster, excluded=limits.exclude)
    _plan_and_print(tasks.fix_racks(read, limits.pinned_limits()), "fix-racks", result)


def _elect_leaders(
    source: Source = None, *, cluster: ClusterOptions, limits: PinnedLimitOptions,
    result: ResultOptions,
) -> None:  # fmt: skip
    """Balance preferred leaders by reordering replica lists; no data is moved.

    Execute the reassignment, then elect: `kafka-leader-election --election-type preferred
    --path-to-json-file FOLDER/election.json`.
    """
    from partage.replicas import tasks

    read = SizeOptions().read(source, cluster, excluded=limits.exclude)
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
