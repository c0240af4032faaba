"""Table of all subcommands; a command's module is imported when the command runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["COMMANDS", "app"]

#: By command: the module in `partage.cli` that has a function of this name, and the summary in
#: ``partage --help``. To print that help, no command is imported: this saves a quarter of its time.
COMMANDS = {
    "demo": ("replay", "Replay the recorded history of a real Kafka cluster, and open the report."),
    "capture": ("capture", "Record the history of a cluster's groups, for `partage replay`."),
    "groups": (
        "groups",
        "Show the owners of each partition, their lag, and what each strategy would do.",
    ),
    "replay": (
        "replay",
        "Replay a recorded cluster: the causes of rebalances, their costs, and how to avoid them.",
    ),
    "watch": (
        "watch",
        "Follow the groups of a cluster, and write the tables of `partage replay` while it runs.",
    ),
    "report": (
        "report",
        "Show the report of a replay: the costs of rebalances, their causes, and what to change.",
    ),
    "diff": (
        "diff",
        "Compare two replays: time without a reader, rebalances and moves per hour.",
    ),
    "check": ("check", "Check each group of a replayed run against limits."),
    "forecast": (
        "forecast",
        "Show what a rolling deployment will cost, and under which settings it costs less.",
    ),
    "migrate": (
        "migrate",
        "Show which groups are ready for another rebalance protocol, and the steps of a migration.",
    ),
    "size": (
        "size",
        "Show how many consumers a group needs, their load and lag, and autoscaler settings.",
    ),
    "owner": ("owner", "Show the owners of partitions at an instant, from table `ownership`."),
    "assign": ("assign", "Assign partitions to members: the plan of a strategy."),
    "compare": ("groups", "Compare strategies on the same problem, side by side."),
    "decode": ("decode", "Decode a log of `__consumer_offsets` to JSON, one line per record."),
    "strategies": (
        "strategies",
        "List the strategies, the Kafka class that each reproduces exactly, and their settings.",
    ),
    "keys": (
        "keys",
        "Show how keys spread over partitions, and which keys a new partition count moves.",
    ),
    "audit": (
        "audit",
        "Find the partitioner that wrote each topic, and check the joins between topics.",
    ),
    "streams": (
        "streams",
        "Simulate a Streams application over time: the gain from standbys, warm-ups and settings.",
    ),
    "place": (
        "place",
        "Print the brokers on which Kafka places the replicas of a new topic or new partitions.",
    ),
    "reassign": (
        "reassign",
        "Move replicas: balance, add, drain or replace brokers; change factor, racks or leaders.",
    ),
}
#: Settings of the command line and of each command.
_SETTINGS: dict[str, Any] = {"rich_markup_mode": "markdown", "pretty_exceptions_enable": False}


class _ImportedCommands(Mapping[str, Any]):
    """Mapping from the name of a subcommand to its Typer command, imported at its first use.

    This makes ``partage`` start faster.
    """

    def __init__(self) -> None:
        self._imported: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._imported:
            self._imported[name] = _import_command(name)
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _LazyCommandGroup(TyperGroup):
    """Typer group of the command ``partage``, which imports a subcommand only when it runs.

    This makes the program start and print its help faster.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _ImportedCommands()
        self._prints_help = False

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the subcommand of ``partage`` with this name.

        While help is printed, the result is a stub that has only the summary.
        """
        # While help is printed, a stub with only the summary is returned.
        if self._prints_help:
            return TyperCommand(name=cmd_name, help=COMMANDS[cmd_name][1])
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._prints_help = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._prints_help = False


def _import_command(name: str) -> Any:
    """Import the module of a subcommand, and return the subcommand as a Typer command.

    Only the module of the command that runs is imported, so that ``partage`` starts fast.

    Raises:
        KeyError: no command has this name.
    """
    from partage.cli.command_errors import exit_on_error

    found = getattr(import_module(f"partage.cli.{COMMANDS[name][0]}"), name)
    group = typer.Typer(add_completion=False, **_SETTINGS)
    # With a callback even a single command is one of a group, under its name.
    group.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        group.add_typer(found, name=name)
    else:
        group.command(name)(exit_on_error(found))
    return typer.main.get_command(group).commands[name]  # type: ignore[attr-defined]  # a group


app = typer.Typer(
    cls=_LazyCommandGroup,
    no_args_is_help=True,
    **_SETTINGS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        import partage

        typer.echo(f"partage {partage.__version__}")
        raise typer.Exit


@app.callback()
def _partage(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decides, replays, explains and proves **who owns which Kafka partition**.

    Begin with the recorded history of a real cluster:

        partage demo

    Exit codes: 0 success. 1 error, with one line on stderr. 2 wrong usage. 3 a plan breaks a rule
    of Kafka, the audit found a join that misses matches, or a run exceeds a limit. 4 a replay
    succeeded except for groups that failed. 5 the recorded log is too incomplete for a decision.
    """
