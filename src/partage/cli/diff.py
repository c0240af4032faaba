"""`partage diff`: two finished replays, for example before and after a change of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partage.cli.command_errors import FAILED_CHECK, UNDECIDED
from partage.cli.console import print_message, print_tables, write_json
from partage.cli.options import AsJson, GroupPatterns, named_options, with_options

__all__ = ["diff"]


@with_options
def diff(
    before: Annotated[
        Path,
        typer.Argument(metavar="RUN_A", help="Output folder of partage replay, or runs/ID in it."),
    ],
    after: Annotated[Path, typer.Argument(metavar="RUN_B", help="The same, after the change.")],
    *,
    group: GroupPatterns = None,
    as_json: AsJson = False,
    fail_if_worse: Annotated[
        bool,
        typer.Option("--fail-if-worse",
                     help="Exit with 3 if the unread time of all groups or of one group got worse, "
                     "and with 5 if it is unknown for all."),
    ] = False,
) -> None:  # fmt: skip
    """Compare two replays: time without a reader, rebalances and moves per hour.

        partage diff run-before run-after

        partage diff run-before run-after --group 'billing*' --fail-if-worse

        partage diff run-before run-after --json | jq .verdict

    Rates compare recordings of different length. A difference counts if it is outside the noise
    of both recordings.
    """
    from partage.commands.runs import diff as compare_runs
    from partage.report.diff_terminal import diff_summary
    from partage.report.run_diff import UNKNOWN, WORSE, diff_document

    with named_options(groups="--group"):
        found = compare_runs(before, after, groups=group)
    if as_json:
        write_json(diff_document(found))
    else:
        print_tables(*diff_summary(found))
    if not fail_if_worse:
        return
    if found.whole.verdict == WORSE or found.count(WORSE):
        raise typer.Exit(FAILED_CHECK)
    if found.whole.verdict == UNKNOWN:
        print_message("partage: no group has a known unread time in both runs", "bold red")
        raise typer.Exit(UNDECIDED)
