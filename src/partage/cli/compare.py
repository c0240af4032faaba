"""`partage compare`: every strategy on one problem, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED_JUDGE
from partage.cli.console import (
    first_lines,
    print_tables,
    print_warnings,
    short_names,
    shorten_message,
    styled_name,
    write_json,
)
from partage.cli.options import AsJson, StrategyConfig, strategy_option, with_options
from partage.cli.problems import parse_problem, parse_settings, read_problem

if TYPE_CHECKING:
    from rich.table import Table

    from partage.api.decisions import Comparison, ComparisonRow

__all__ = ["compare", "print_comparison"]

# field of Measures, title, whether more is better
_COLUMNS = (
    ("spread", "spread", False),
    ("idle", "idle", False),
    ("moved", "moved", False),
    ("avoidable", "avoidable", False),
    ("rack_mismatches", "rack\nmismatches", False),
    ("colocation", "co-\nlocation", True),
)


@with_options
def compare(
    problem: Annotated[
        Path, typer.Argument(metavar="PROBLEM.json", help="Problem as JSON; - reads stdin.")
    ],
    *,
    strategy: Annotated[
        list[str] | None, strategy_option("Repeatable; without it, all strategies.")
    ] = None,
    as_json: AsJson = False,
    config: StrategyConfig = None,
) -> None:
    """Compare strategies on the same problem, side by side.

    A star marks the best value of a column. A strategy that is not applicable is listed with the
    reason. If a plan breaks a rule, the exit code is 3. Each strategy gets the user data that its
    own client would send. `userData` is only used by the strategy that the problem's `strategy`
    names, if given. Cooperative plans are measured after their second step.

        partage compare problem.json

        partage compare problem.json -s range -s fair --json

    **spread**: most minus fewest partitions of a member. **idle**: members without any.
    **moved**: partitions that a member owns (`owned`) and loses. **avoidable**: moves that no
    equally even plan needs, proven. **rack mismatches**: partitions without a
    replica on their owner's rack. **co-location**: share of equal partition numbers of topics
    with equal subscribers and counts that one member owns. **standbys**: copies that Faust's
    strategies place; `--json` lists them by member.
    """
    from partage.api import decisions
    from partage.groups.subscriptions import missing_topics

    read = read_problem(problem)
    group, cluster = parse_problem(read)
    sender = read.get("strategy")
    found = decisions.compare(
        group, cluster, strategies=strategy, config=parse_settings(config) or None,
        sender=sender if isinstance(sender, str) else None,
    )  # fmt: skip
    missing = missing_topics(group, cluster)
    print_warnings(list(missing))
    if as_json:
        write_json([_plain(row) for row in found], indent=1)
    else:
        print_comparison(found, missing)
    if any(row.breaches for row in found):
        raise typer.Exit(FAILED_JUDGE)


def _plain(row: ComparisonRow) -> dict[str, Any]:
    return {
        "strategy": row.strategy,
        "valid": row.valid,
        "refused": row.refused,
        "breaches": [str(breach) for breach in row.breaches],
        "warnings": list(row.warnings),
        "measures": row.measures.to_dict() if row.measures else None,
        "assignment": row.plan.to_json() if row.plan else None,
        **({} if row.standbys is None else {"standbys": row.standbys}),
    }


def print_comparison(comparison: Comparison, known_warnings: Sequence[str] = ()) -> None:
    """Print a comparison of strategies as a table, with the optimum and warnings below it.

    The warnings include rules that a plan breaks, and the reasons why strategies are not
    applicable.

    Args:
        comparison: the comparison, with a row for each strategy.
        known_warnings: warnings that are shown elsewhere and left out here.
    """
    shown = {*known_warnings}
    print_tables(_table(comparison))
    plans = [row.warnings for row in comparison if row.plan is not None]
    for warning in plans[0] if len(plans) > 1 else ():
        if warning not in shown and all(warning in other for other in plans):
            shown.add(warning)
            print_tables(styled_name(short_names(warning), "yellow"))
    best = comparison.best
    if best is not None and best.best_spread is not None:
        text = (
            f"optimum: spread {best.best_spread}, reachable with {best.fewest_moves_to_best} moves"
        )
        print_tables(styled_name(f"{text} (proven)", "dim"))
    if best is not None and best.refused:
        print_tables(styled_name(f"optimum not computed: {best.refused}", "yellow"))
    for row in comparison:
        if row.refused:
            why = _without_name(row, row.refused)
            print_tables(
                styled_name(
                    shorten_message(short_names(f"{row.strategy} is not applicable: {why}")),
                    "yellow",
                )
            )
        for warning in first_lines([one for one in row.warnings if one not in shown]):
            text = f"{row.strategy}: {_without_name(row, warning)}"
            print_tables(styled_name(short_names(text), "yellow"))
        for breach in first_lines([str(one) for one in row.breaches]):
            print_tables(
                styled_name(short_names(f"{row.strategy} breaks the rules: {breach}"), "red")
            )


def _without_name(row: ComparisonRow, message: str) -> str:
    # Some messages begin with the strategy's name, which the line has already.
    for end in (": ", " "):
        if message.startswith(row.strategy + end):
            return message.removeprefix(row.strategy + end)
    return message


def _table(found: Comparison) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column("strategy", no_wrap=True)
    table.add_column("valid", no_wrap=True)
    for _, title, _ in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    with_standbys = any(row.standbys is not None for row in found)
    if with_standbys:
        table.add_column("standbys", justify="right", no_wrap=True)
    for row in found:
        if row.measures is None:
            table.add_row(
                styled_name(row.strategy),
                Text("not applicable", "yellow"),
                *(Text("- ", "dim"),) * 6,
            )
            continue
        valid = Text("yes", "green") if row.valid else Text("no", "red")
        cells = [_format_cell(found, row, *column) for column in _COLUMNS]
        if with_standbys:
            many = row.count_standbys()
            cells.append(Text(f"{'-' if many is None else many} "))
        table.add_row(styled_name(row.strategy), valid, *cells)
    return table


def _format_cell(
    comparison: Comparison, row: ComparisonRow, field: str, _title: str, more_is_better: bool
) -> Any:
    """Format one value in the table that compares strategies.

    A star marks the best value of a column.

    Args:
        comparison: the comparison, with a row for each strategy.
        row: the strategy's row.
        field: name of the value.
        more_is_better: whether the largest value of the column is the best.
    """
    # The best value is also bold and green.
    from rich.text import Text

    value = getattr(row.measures, field)
    if value is None:
        return Text("- ", "dim")
    all_of_them = [getattr(one.measures, field) for one in comparison if one.valid]
    known = [one for one in all_of_them if one is not None]
    best = (max if more_is_better else min)(known, default=None)
    marked = row.valid and value == best and len(set(known)) > 1
    text = f"{value:.0%}" if field == "colocation" else str(value)
    return Text(f"{text}*" if marked else f"{text} ", "bold green" if marked else "")
