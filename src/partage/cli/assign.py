"""`partage assign`: the plan of a strategy for a problem, or for a stream of problems."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED, FAILED_JUDGE
from partage.cli.console import (
    first_lines,
    is_terminal,
    print_message,
    print_tables,
    print_warnings,
    short_names,
    stdout_console,
    styled_name,
    write_json,
)
from partage.cli.options import AsJson, StrategyConfig, strategy_option, with_options
from partage.cli.problems import (
    DEFAULT,
    STDIN,
    parse_json_object,
    parse_problem,
    parse_settings,
    preferred_strategies,
    read_problem,
)  # fmt: skip

if TYPE_CHECKING:
    from rich.console import RenderableType

    from partage.groups.api import Strategy
    from partage.groups.negotiation import Negotiated
    from partage.judge import Breach
    from partage.model import Assignment, Cluster, Group

__all__ = ["CheckedPlan", "assign", "compute_plan"]


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """Assignment that a strategy has computed, with the rules of Kafka that it breaks.

    ``partage assign`` prints it. A broken rule is, for example, a partition with two owners.
    """

    strategy: Strategy
    group: Group
    cluster: Cluster
    plan: Assignment
    breaches: list[Breach]
    warnings: tuple[str, ...] = ()
    negotiated: Negotiated | None = None

    @property
    def standbys(self) -> dict[str, dict[str, list[int]]] | None:
        """Standby partitions of a Faust assignment, by member and topic.

        Only Faust's strategies assign standbys; for all others the result is None.
        """
        return getattr(self.plan, "standbys", None)

    def to_json(self) -> dict[str, Any]:
        """Return the assignment as a JSON object, with the partitions of each member.

        Optional fields are ``negotiation`` (the members' vote on a strategy), ``standbys`` and
        ``userData`` (base64 by member). A member with empty user data has an entry; a member
        without user data has none.
        """
        given: dict[str, Any] = {"assignment": self.plan.to_json()}
        if self.negotiated is not None:
            chosen = self.negotiated
            given["negotiation"] = {
                "protocol": chosen.strategy, "leader": chosen.leader,
                "candidates": list(chosen.candidates), "votes": chosen.votes,
                "reason": chosen.reason,
            }  # fmt: skip
        if self.standbys is not None:
            given["standbys"] = self.standbys
        sent: Mapping[str, bytes] = getattr(self.plan, "user_data", {})
        if sent:
            given["userData"] = {m: base64.b64encode(data).decode() for m, data in sent.items()}
        return given


def compute_plan(
    problem: Mapping[str, Any], requested: list[str] | None, config: Mapping[str, object]
) -> CheckedPlan:
    """Assign partitions by the requested strategy, and check the assignment against Kafka's rules.

    The command ``partage assign`` prints the result.

    Args:
        problem: JSON object with topics and members.
        requested: strategy names from the command line, preferred first; without them the problem
            or its members choose the strategy.
        config: settings of the strategy by name.

    Raises:
        PartageError: the problem is malformed, no strategy can be chosen, the strategy is not
            applicable, or a setting has no effect.
    """
    from partage.api.decisions import allows_several_owners, decide
    from partage.judge import check

    group, cluster = parse_problem(problem)
    strategy, negotiated = _choose_strategy(group, problem, requested)
    made = decide(strategy, group, cluster, config=config or None)
    breaches = check(made.plan, group, cluster, several_owners=allows_several_owners(strategy))
    return CheckedPlan(strategy, group, cluster, made.plan, breaches, made.warnings, negotiated)


def _choose_strategy(
    group: Group, problem: Mapping[str, Any], requested: list[str] | None
) -> tuple[Strategy, Negotiated | None]:
    """Choose the strategy to run: from the command line, the problem, or the members' votes.

    The first one that exists is chosen. Members vote as in Kafka's group coordinator.

    Args:
        group: the members, which may vote.
        problem: JSON object of the problem.
        requested: strategy names from the command line, preferred first.

    Returns:
        The strategy, and a description of the vote; None if the members did not vote.
    """
    from partage.groups import registry
    from partage.groups.negotiation import negotiate

    if requested:
        return registry.load(requested if len(requested) > 1 else requested[0]), None
    names = preferred_strategies(None, problem)
    if names is None and any(member.strategies for member in group):
        negotiated = negotiate(group)
        return registry.find(negotiated.decided_by), negotiated
    return registry.find(names or [DEFAULT]), None


@with_options
def assign(
    problem: Annotated[
        Path | None,
        typer.Argument(
            metavar="PROBLEM.json", help="Problem as JSON; - reads stdin.", show_default=False
        ),
    ] = None,
    *,
    strategy: Annotated[
        list[str] | None,
        strategy_option(
            "Also a Java class name, or package.module:Class. A list with commas as in Kafka's "
            "configuration; repeated, the first that exists decides. "
            "Without it the problem's `strategy` decides, else what its members' `strategies` "
            "agree on, else range."
        ),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="One problem a line in, one result a line out.")
    ] = False,
    as_json: AsJson = False,
    config: StrategyConfig = None,
    as_documented: Annotated[
        bool,
        typer.Option(
            "--as-documented",
            help="failover only: the member with the highest priority gets all partitions, also "
            "of topics that it does not subscribe to, as in its document. The judge rejects that.",
        ),
    ] = False,
) -> None:
    """Assign partitions to members: the plan of a strategy.

    A problem is a JSON object with `topics` and `members`.

        echo '{"topics": {"orders": 3},
               "members": [{"id": "c1", "topics": ["orders"]}]}' | partage assign -

    A topic is a partition count, or a list with the racks of each partition's replicas. A
    member has `id` and `topics`, and if wanted `owned` (as `{"orders": [0, 2]}`), `generation`,
    `rack`, `instance` (group.instance.id), `userData` (base64), `config` (its own settings),
    `strategies` (names that it supports: the coordinator's choice decides, and is explained).

        partage assign problem.json --strategy roundrobin --json

        partage assign --jsonl --strategy range < problems.jsonl

    On a terminal the plan is a table, else JSON: with `standbys` where the strategy places some
    (Faust's), with `userData` (base64 by member) where it
    sends bytes along with the assignment, and with `settled`, the plan after the second
    step, where a cooperative strategy withholds some partitions at first. The judge checks
    every plan: one that breaks a rule is printed too, the breaches go to stderr, and the exit
    code is 3.
    With `--jsonl` each line gives `{"assignment": ...}`, with `standbys`, `userData`, `warnings`
    and `breaches` if there are any, or `{"error": ..., "line": n}`; the exit code is 1 if any line
    had an error.
    """
    chosen = parse_settings(config)
    if as_documented:
        chosen["assignment.failover.as_documented"] = True
    if jsonl:
        _assign_lines(problem, strategy, chosen)
        return
    if problem is None:
        raise typer.BadParameter(
            "give PROBLEM.json, - for stdin, or --jsonl", param_hint="PROBLEM.json"
        )
    found = compute_plan(read_problem(problem), strategy, chosen)
    print_warnings(list(found.warnings))
    if as_json or not is_terminal():
        write_json({"strategy": found.strategy.name, **found.to_json(), **_settled_plan(found)})
    else:
        _show(found)
    _exit_if_invalid(found)


def _assign_lines(
    problems: Path | None, strategy: list[str] | None, config: Mapping[str, object]
) -> None:
    """Print the assignment for each problem in a JSON Lines file (option ``--jsonl``).

    After a malformed line, the next lines are still processed. ``strategy`` and ``config`` are
    command-line options.

    Raises:
        OSError: the file cannot be read.
        Exit: with code 1 if a line had an error, else 3 if a plan breaks a rule.
    """
    if problems is None or str(problems) == STDIN:
        counted = _print_assignments(sys.stdin.buffer, strategy, config)
    else:
        with problems.open("rb") as file:
            counted = _print_assignments(file, strategy, config)
    lines, errors, failed = counted
    sys.stdout.flush()
    if errors:
        print_message(f"partage: {errors} of {lines} lines had an error", "bold red")
        raise typer.Exit(FAILED)
    if failed:
        print_message(f"partage: {failed} of {lines} plans failed the judge", "bold red")
        raise typer.Exit(FAILED_JUDGE)


def _print_assignments(
    lines: Iterable[bytes], strategy: list[str] | None, config: Mapping[str, object]
) -> tuple[int, int, int]:
    """Print the assignment for each line of a JSON Lines file.

    For a line that is not a valid problem, a JSON object with the error is printed.

    Args:
        lines: the lines, each with a problem.
        strategy: value of the option ``--strategy``.
        config: settings of the strategy by name.

    Returns:
        The numbers of lines, of errors, and of assignments that break a rule.
    """
    count = errors = failed = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        count += 1
        given = _result_of_line(line, number, strategy, config)
        errors += "error" in given
        failed += "breaches" in given
        write_json(given)
        sys.stdout.flush()  # the reader of a pipe may wait for this result
    return count, errors, failed


def _result_of_line(
    line: bytes, number: int, strategy: list[str] | None, config: Mapping[str, object]
) -> dict[str, Any]:
    from partage.errors import PartageError

    try:
        found = compute_plan(parse_json_object(line, f"line {number}"), strategy, config)
    except PartageError as e:
        return {"error": str(e), "line": number}
    except Exception as e:  # noqa: BLE001 - the other lines go on
        return {"error": f"it failed ({type(e).__name__}: {e})", "line": number}
    given = found.to_json()
    if found.warnings:
        given["warnings"] = list(found.warnings)
    if found.breaches:
        given["breaches"] = [str(breach) for breach in found.breaches]
    return given


def _exit_if_invalid(found: CheckedPlan) -> None:
    if not found.breaches:
        return
    sys.stdout.flush()
    for breach in first_lines([str(one) for one in found.breaches]):
        print_message(f"judge: {short_names(breach)}", "red")
    print_message("judge: this plan breaks the rules", "bold red")
    raise typer.Exit(FAILED_JUDGE)


def _show(found: CheckedPlan) -> None:
    from rich.table import Table

    from partage.api.decisions import allows_several_owners
    from partage.api.measures import measure

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("member", no_wrap=True)
    table.add_column("partitions", justify="right")
    table.add_column("which", overflow="fold")
    standbys = found.standbys
    if standbys is not None:
        table.add_column("standbys", overflow="fold")
    for member, topics in found.plan.to_dict().items():
        count = sum(len(numbers) for numbers in topics.values())
        which = _format_by_topic(topics)
        shown = styled_name(_omit_middle(member, stdout_console().width // 3))
        cells: list[RenderableType] = [
            shown,
            str(count),
            styled_name(short_names(which) or "(idle)", "" if which else "yellow"),
        ]
        if standbys is not None:
            cells.append(styled_name(short_names(_format_by_topic(standbys[member])) or "-"))
        table.add_row(*cells)
    print_tables(table)
    # What would be best for a share group is another question.
    one_owner = not allows_several_owners(found.strategy)
    figures = measure(found.plan, found.group, found.cluster, optimum=one_owner)
    if found.negotiated is not None:
        print_tables(styled_name(f"negotiated {found.negotiated}", "dim"))
    summary = [f"strategy {found.strategy.name}", f"spread {_or_dash(figures.spread)}"]
    summary += [f"idle {figures.idle}", f"moved {figures.moved}"]
    if figures.avoidable is not None:
        summary.append(f"avoidable {figures.avoidable}")
    print_tables(styled_name("  ".join(summary), "dim"))
    _show_withheld(found)


def _format_by_topic(topics: Mapping[str, list[int]]) -> str:
    """Format the partitions of a member as short text by topic, such as ``orders 0-2``.

    Consecutive partition numbers are joined to a range.

    >>> _format_by_topic({"s": [0, 1], "t": [3]})
    's 0-1  t 3'
    """
    from partage.model.assignment import format_runs

    return "  ".join(f"{topic} {format_runs(numbers)}" for topic, numbers in topics.items())


def _omit_middle(text: str, max_length: int) -> str:
    """Shorten a long member id by leaving out its middle, such as ``consume…8f2c4d1e``.

    The ends are kept because the ids of one deployment mostly differ there. ``max_length`` is the
    greatest number of characters.

    >>> _omit_middle("consumer-orders-service-1-8f2c4d1e", 15)
    'consume…8f2c4d1e'
    """
    # The ids of one deployment differ at the end.
    if len(text) <= max_length:
        return text
    return f"{text[: max_length // 2]}…{text[len(text) - max_length // 2 - 1 :]}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _settled_plan(checked_plan: CheckedPlan) -> dict[str, Any]:
    """Return a cooperative group's assignment after the second rebalance, as output fields.

    A cooperative strategy assigns some partitions only in the second rebalance, after their
    previous owners have revoked them. The dict is empty if no second rebalance follows.
    """
    # A cooperative strategy withholds a partition until its previous owner has revoked it.
    if not len(getattr(checked_plan.plan, "withheld", ())):
        return {}
    return {"settled": checked_plan.plan.settled().to_json()}  # type: ignore[attr-defined]  # a Plan


def _show_withheld(checked_plan: CheckedPlan) -> None:
    """Print how many partitions each consumer gets only in the second rebalance.

    A cooperative strategy withholds a partition until its previous owner has revoked it.
    """
    # Such a partition is withheld until its previous owner has revoked it.
    withheld = getattr(checked_plan.plan, "withheld", ())
    if not len(withheld):
        return
    settled = checked_plan.plan.settled()  # type: ignore[attr-defined]  # it withholds: a Plan
    now = {pair for pairs in checked_plan.plan.to_pairs().values() for pair in pairs}
    to_come = {
        member: sum(pair not in now for pair in pairs)
        for member, pairs in settled.to_pairs().items()
    }
    who = ", ".join(f"{count} to {member}" for member, count in to_come.items() if count)
    if who:
        line = f"first of two steps: the next rebalance assigns the released partitions ({who})"
        print_tables(styled_name(short_names(line), "dim"))
