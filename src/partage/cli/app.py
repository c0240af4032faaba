"""All subcommands in one place."""

from __future__ import annotations

from typing import Annotated

import typer

from partage.cli.assign import assign
from partage.cli.audit import audit
from partage.cli.capture import capture
from partage.cli.check import check
from partage.cli.command_errors import guarded
from partage.cli.compare import compare
from partage.cli.decode import decode
from partage.cli.diff import diff
from partage.cli.groups import groups
from partage.cli.keys import keys
from partage.cli.owner import owner
from partage.cli.place import place
from partage.cli.reassign import reassign
from partage.cli.replay import demo, replay
from partage.cli.report import report
from partage.cli.strategies import strategies
from partage.cli.streams import streams

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
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

    Exit codes: 0 done, 1 error (one line on stderr), 2 wrong usage, 3 a plan failed the judge, the
    audit found broken joins, or a run exceeds a limit, 4 a replay was published without the groups
    that failed, 5 the log has too little for a decision.
    """


for _command in (
    demo,
    capture,
    groups,
    replay,
    report,
    diff,
    check,
    owner,
    assign,
    compare,
    decode,
    strategies,
    keys,
    audit,
    streams,
    place,
):
    app.command()(guarded(_command))
app.add_typer(reassign, name="reassign")
