"""`partage reassign`: replicas moved with a proof, as JSON that Kafka's own tool executes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.command_errors import FAILED_JUDGE, guarded

if TYPE_CHECKING:
    from partage.model import ReplicaCluster, ReplicaTask
    from partage.replicas.bands import PlanLimits

__all__ = ["reassign"]

reassign = typer.Typer(
    no_args_is_help=True,
    help="Move replicas: balance, add, drain or replace brokers, another factor, racks, leaders.",
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="CLUSTER",
        help="A capture's folder, a cluster.jsonl or .json file, or a running cluster's host:port.",
    ),
]
To = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FOLDER", show_default=False,
                 help="Write the JSON of each batch, its roll-back, and plan.json."),
]  # fmt: skip
Page = Annotated[
    Path | None,
    typer.Option("--page", metavar="PAGE.html", show_default=False, help="Write a page."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LogDirs = Annotated[
    Path | None,
    typer.Option("--log-dirs", metavar="FILE", show_default=False,
                 help="Sizes and directories: what kafka-log-dirs.sh --describe prints."),
]  # fmt: skip
Pin = Annotated[
    list[str] | None,
    typer.Option("--pin", metavar="TOPIC", show_default=False,
                 help="Does not move, counts for balance; repeatable."),
]  # fmt: skip
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="TOPIC", show_default=False,
                 help="Is left out altogether; repeatable."),
]  # fmt: skip
Tolerance = Annotated[
    list[str] | None,
    typer.Option("--tolerance", "-t", metavar="KIND=FRACTION", show_default=False,
                 help="replicas, leaders, bytes or load: how far off its share a broker may be; "
                 "rack-bytes, disk-bytes, ...: a rack, a disk. Without it 0, 0, 0.1, 0.1; of racks "
                 "0, 0, 0.05, 0.05; of disks 0.1."),
]  # fmt: skip
MaxMoves = Annotated[
    int | None,
    typer.Option("--max-moves", "-k", metavar="K", show_default=False,
                 help="Replicas copied in one batch, at most."),
]  # fmt: skip
Throttle = Annotated[
    int | None,
    typer.Option("--throttle", metavar="BYTES/S", show_default=False,
                 help="Of each broker, as Kafka's own option: estimates the time."),
]  # fmt: skip
NoProof = Annotated[bool, typer.Option("--no-proof", help="Do not look for lower bounds.")]
Config = Annotated[
    Path | None,
    typer.Option("--command-config", show_default=False,
                 help="A client.properties file, for a running cluster."),
]  # fmt: skip
WriteLoad = Annotated[
    float | None,
    typer.Option("--write-load", metavar="SECONDS", show_default=False,
                 help="Measure it: what partitions of a running cluster grow by in so long."),
]  # fmt: skip
Before = Annotated[
    Path | None,
    typer.Option("--log-dirs-before", metavar="FILE", show_default=False,
                 help="As --log-dirs, printed --write-load SECONDS earlier: what grew is load."),
]  # fmt: skip
Ids = Annotated[list[int], typer.Option("--broker", "-b", metavar="ID", help="Repeatable.")]


def _limits(
    pin: list[str] | None, exclude: list[str] | None, tolerance: list[str] | None
) -> PlanLimits:
    from partage.replicas.bands import TOLERANCE, PlanLimits

    given: dict[str, float] = {}
    for one in tolerance or ():
        kind, equals, value = one.partition("=")
        known = equals and kind in TOLERANCE
        try:
            given[kind] = float(value if known else "")
        except ValueError:
            what = f"{one!r}: KIND=FRACTION, of {', '.join(TOLERANCE)}"
            raise typer.BadParameter(what, param_hint="--tolerance") from None
    return PlanLimits(tuple(pin or ()), tuple(exclude or ()), given)


def _cluster(
    source: str, log_dirs: Path | None, config: Path | None,
    load: tuple[float | None, Path | None], *, gone: tuple[int, ...] = (),
    excluded: list[str] | None = None,
) -> ReplicaCluster:  # fmt: skip
    from partage.cli.options import read_cluster

    return read_cluster(source, log_dirs=log_dirs, gone=gone, excluded=tuple(excluded or ()),
                        command_config=config, seconds=load[0], earlier=load[1])  # fmt: skip


def _compiling() -> Callable[[str], None]:
    """One line before the first kernel is compiled, whichever it is."""
    from partage.cli.console import tell

    said: list[str] = []

    def warn_of_compilation(kernel: str) -> None:
        if not said:
            tell("compiling kernels, once for this installation: 5 to 30 s ...")
        said.append(kernel)

    return warn_of_compilation


def _finish(
    task: ReplicaTask, what: str, *, to: Path | None, page: Path | None, as_json: bool,
    most: int | None, throttle: int | None, proof: bool,
) -> None:  # fmt: skip
    from partage.api.reassignments import reassign as planned
    from partage.cli.reassign_output import answer, show_answer, write_answer
    from partage.errors import InvalidConfigError
    from partage.kernels import report_compilation

    if throttle is not None and throttle < 1:
        raise InvalidConfigError("--throttle", "must be at least 1 byte a second", throttle)
    with report_compilation(_compiling()):
        found = planned(task, proof=proof)
    data = answer(found, what, most=most, throttle=throttle)
    if to is not None:
        write_answer(found, data, to)
    if page is not None:
        from partage.report.replicas import write_replicas_page

        write_replicas_page(data.summary, page)
    show_answer(data.summary, as_json=as_json, to=to, page=page)
    if found.verdict.breaches:
        raise typer.Exit(FAILED_JUDGE)


def _rebalance(  # noqa: PLR0917 - options have names
    cluster: Source, to: To = None, page: Page = None, log_dirs: LogDirs = None, pin: Pin = None,
    exclude: Exclude = None, tolerance: Tolerance = None, max_moves: MaxMoves = None,
    throttle: Throttle = None, command_config: Config = None, write_load: WriteLoad = None,
    log_dirs_before: Before = None, no_proof: NoProof = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Balance replicas, leaders, bytes and load, with the fewest bytes moved.

    partage reassign rebalance capture --out plan

    partage reassign rebalance broker:9092 --throttle 50000000 --max-moves 100 --out plan
    """
    from partage.replicas import tasks

    task = tasks.rebalance(
        _cluster(
            cluster, log_dirs, command_config, (write_load, log_dirs_before), excluded=exclude
        ),
        _limits(pin, exclude, tolerance),
    )
    _finish(task, "rebalance", to=to, page=page, as_json=as_json, most=max_moves,
            throttle=throttle, proof=not no_proof)  # fmt: skip


def _add_broker(  # noqa: PLR0917 - options have names
    cluster: Source, broker: Ids, to: To = None, page: Page = None, log_dirs: LogDirs = None,
    pin: Pin = None, exclude: Exclude = None, tolerance: Tolerance = None,
    max_moves: MaxMoves = None, throttle: Throttle = None, command_config: Config = None,
    write_load: WriteLoad = None, log_dirs_before: Before = None, no_proof: NoProof = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Fill new brokers: replicas move to them, and between others not at all."""
    from partage.replicas import tasks

    task = tasks.add_brokers(
        _cluster(
            cluster, log_dirs, command_config, (write_load, log_dirs_before), excluded=exclude
        ),
        broker,
        _limits(pin, exclude, tolerance),
    )
    _finish(task, "add-broker", to=to, page=page, as_json=as_json, most=max_moves,
            throttle=throttle, proof=not no_proof)  # fmt: skip


def _drain_broker(  # noqa: PLR0917 - options have names
    cluster: Source, broker: Ids, to: To = None, page: Page = None, log_dirs: LogDirs = None,
    exclude: Exclude = None, tolerance: Tolerance = None, max_moves: MaxMoves = None,
    throttle: Throttle = None, command_config: Config = None, write_load: WriteLoad = None,
    log_dirs_before: Before = None, no_proof: NoProof = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Empty brokers: all that they hold moves, nothing else does. They may be down already."""
    from partage.replicas import tasks

    task = tasks.drain_brokers(
        _cluster(cluster, log_dirs, command_config, (write_load, log_dirs_before),
                 gone=tuple(broker), excluded=exclude), broker,
        _limits(None, exclude, tolerance),
    )  # fmt: skip
    _finish(task, "drain-broker", to=to, page=page, as_json=as_json, most=max_moves,
            throttle=throttle, proof=not no_proof)  # fmt: skip


def _replace_broker(  # noqa: PLR0917 - options have names
    cluster: Source,
    old: Annotated[int, typer.Option("--broker", "-b", metavar="ID", help="Who goes.")],
    new: Annotated[int, typer.Option("--by", metavar="ID", help="Who takes over.")],
    to: To = None, page: Page = None, log_dirs: LogDirs = None, max_moves: MaxMoves = None,
    throttle: Throttle = None, command_config: Config = None, write_load: WriteLoad = None,
    log_dirs_before: Before = None, no_proof: NoProof = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """One broker takes over each replica of another, in its place."""
    from partage.replicas import tasks

    task = tasks.replace_broker(
        _cluster(cluster, log_dirs, command_config, (write_load, log_dirs_before), gone=(old,)),
        old,
        new,
    )
    _finish(task, "replace-broker", to=to, page=page, as_json=as_json, most=max_moves,
            throttle=throttle, proof=not no_proof)  # fmt: skip


def _change_rf(  # noqa: PLR0917 - options have names
    cluster: Source,
    factor: Annotated[int, typer.Option("--replication-factor", "-r", metavar="N")],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", show_default=False, help="Without it, all."),
    ] = None,
    to: To = None, page: Page = None, log_dirs: LogDirs = None, exclude: Exclude = None,
    tolerance: Tolerance = None, max_moves: MaxMoves = None, throttle: Throttle = None,
    command_config: Config = None, write_load: WriteLoad = None,
    log_dirs_before: Before = None, no_proof: NoProof = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Another replication factor: replicas are added or left out, none moves."""
    from partage.replicas import tasks

    task = tasks.change_factor(
        _cluster(cluster, log_dirs, command_config, (write_load, log_dirs_before),
                 excluded=exclude),
        factor, topic,
        _limits(None, exclude, tolerance),
    )  # fmt: skip
    _finish(task, "change-rf", to=to, page=page, as_json=as_json, most=max_moves,
            throttle=throttle, proof=not no_proof)  # fmt: skip


def _fix_racks(  # noqa: PLR0917 - options have names
    cluster: Source, to: To = None, page: Page = None, log_dirs: LogDirs = None, pin: Pin = None,
    exclude: Exclude = None, tolerance: Tolerance = None, max_moves: MaxMoves = None,
    throttle: Throttle = None, command_config: Config = None, write_load: WriteLoad = None,
    log_dirs_before: Before = None, no_proof: NoProof = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Move what breaks the rack rule, and nothing else."""
    from partage.replicas import tasks

    task = tasks.fix_racks(
        _cluster(
            cluster, log_dirs, command_config, (write_load, log_dirs_before), excluded=exclude
        ),
        _limits(pin, exclude, tolerance),
    )
    _finish(task, "fix-racks", to=to, page=page, as_json=as_json, most=max_moves,
            throttle=throttle, proof=not no_proof)  # fmt: skip


def _elect_leaders(  # noqa: PLR0917 - options have names
    cluster: Source, to: To = None, page: Page = None, pin: Pin = None, exclude: Exclude = None,
    tolerance: Tolerance = None, max_moves: MaxMoves = None, command_config: Config = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Balance preferred leaders by the order of replicas: no data moves.

    Execute the reassignment, then elect: `kafka-leader-election --election-type preferred
    --path-to-json-file FOLDER/election.json`.
    """
    from partage.replicas import tasks

    task = tasks.elect_leaders(
        _cluster(cluster, None, command_config, (None, None), excluded=exclude),
        _limits(pin, exclude, tolerance),
    )
    _finish(task, "elect-leaders", to=to, page=page, as_json=as_json, most=max_moves,
            throttle=None, proof=True)  # fmt: skip


for _name, _command in (
    ("rebalance", _rebalance),
    ("add-broker", _add_broker),
    ("drain-broker", _drain_broker),
    ("replace-broker", _replace_broker),
    ("change-rf", _change_rf),
    ("fix-racks", _fix_racks),
    ("elect-leaders", _elect_leaders),
):
    reassign.command(_name)(guarded(_command))
