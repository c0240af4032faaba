"""`partage compare` and `partage groups`: every strategy on one problem or on running groups."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.command_errors import FAILED_JUDGE
from partage.cli.console import (
    first_lines,
    is_terminal,
    print_message,
    print_tables,
    print_warnings,
    short_name,
    short_names,
    shorten_message,
    stdout_console,
    styled_name,
    write_json,
)
from partage.cli.options import (
    AsJson,
    ClusterOptions,
    GroupPatterns,
    StrategyConfig,
    named_options,
    strategy_option,
    with_options,
)
from partage.cli.problems import parse_problem, parse_settings, read_problem
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from partage.api.decisions import Comparison, ComparisonRow
    from partage.capture.groups import LiveGroup, LiveMember
    from partage.commands.live_groups import GroupMeasurement
    from partage.judge import Measures

__all__ = ["compare", "describe_changes", "groups"]

Partition = tuple[str, int]

#: With more groups than this each is one line, unless --group names some.
_MOST_SHOWN_WHOLE = 5

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
def groups(
    *,
    cluster: ClusterOptions,
    group: GroupPatterns = None,
    strategy: Annotated[
        list[str] | None, strategy_option("Compare with this one; repeatable.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with every strategy.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look repeatedly.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="Interval between updates.")
    ] = 2.0,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show the owners of each partition, their lag, and what each strategy would do.

        partage groups --bootstrap-server broker:9092

        partage groups -b broker:9092 --group billing --watch

    **lag**: records between the committed offset and the end of the partition, with the age of the
    oldest record and the time until all are consumed at the measured rates. **load**: records that
    arrive per second, measured between two reads of the offsets. **optimum**: the most even plan
    possible, and the fewest moves to it, proven. The plans of other strategies are shown below a
    group that could be more even, and with `--compare` or `-s`; `*` marks the best figure of a
    column.

    Share groups are not compared: several members share a partition, and no offsets are committed.
    Streams groups are not compared: they share tasks, and a member owns what its active tasks read.
    `--json` prints one line for each measurement.

    Nothing is changed, no group is joined; the account needs DESCRIBE on groups and topics.
    """
    from partage.capture.connection import ClusterConnection, client_error, error_reason
    from partage.capture.groups import expect_visible_groups

    if not 0.1 <= every <= 3_600:
        raise InvalidConfigError("--every", "must be between 0.1 and 3600 seconds", every)
    from partage.commands.live_groups import (
        PreviousMeasurements,
        measure_groups,
        unknown_group_error,
    )
    from partage.groups import registry

    for one in strategy or ():
        registry.load(one)  # a name that is wrong is said before a cluster is asked
    with ClusterConnection(cluster.broker_addresses(), cluster.connection_settings()) as connection:
        earlier = PreviousMeasurements()
        last: list[GroupMeasurement] | None = None
        while True:
            try:
                looks = measure_groups(
                    connection, group, strategy, earlier, every, compare_all=compare or as_json
                )
            except client_error() as e:
                if not watch:
                    raise
                # A broker restarts, a coordinator moves: the next look may see it.
                print_message(f"groups: {error_reason(e)}", "yellow")
                time.sleep(every)
                continue
            if not looks and not watch:
                expect_visible_groups(connection)
                if group:
                    with named_options(groups="--group"):
                        raise unknown_group_error(connection, group)
            if as_json:
                write_json({"ts_ms": time.time_ns() // 1_000_000,
                            "groups": [one.to_dict() for one in looks]})  # fmt: skip
            else:
                if watch:
                    _stamped(looks, last)
                _shown(looks, whole=bool(group) or len(looks) <= _MOST_SHOWN_WHOLE)
            if not watch:
                return
            last = looks
            time.sleep(every)


def _stamped(looks: list[GroupMeasurement], last: list[GroupMeasurement] | None) -> None:
    if is_terminal():
        stdout_console().clear()
    print_tables(styled_name(time.strftime("%H:%M:%S"), "dim"))
    for said in (
        describe_changes([one.group for one in last], [one.group for one in looks]) if last else ()
    ):
        print_tables(styled_name(f"  {said}", "cyan"))


def _shown(looks: list[GroupMeasurement], *, whole: bool) -> None:
    if not looks:
        print_tables(styled_name("no group of consumers", "yellow"))
    for number, look in enumerate(looks):
        if whole and number:
            print_tables(styled_name(""))
        _head(look)
        if whole:
            _whole(look)
    if not whole:
        print_tables(styled_name("details of one group: --group NAME", "dim"))


def _head(look: GroupMeasurement) -> None:
    group = look.group
    count = len(group.members)
    strategy = [] if group.type == "streams" else [group.strategy or "no strategy"]
    said = [group.state or "?", group.type, *strategy, f"coordinator {group.coordinator}",
            f"{count} member{'s' if count != 1 else ''}"]  # fmt: skip
    if group.type != "share":
        said.append(f"lag {_format_lag(look)}")
    line = styled_name(short_name(group.id), "bold")
    line.append_text(styled_name(f"  {', '.join(said)}"))
    print_tables(line)
    if group.trouble:
        print_tables(styled_name(f"  {group.trouble}", "yellow"))


def _format_lag(measurement: GroupMeasurement) -> str:
    """Format the measured lag of a consumer group as text, in records.

    The lag of partitions without an owner is shown separately.
    """
    owned = {p for m in measurement.group.members for p in m.owned}
    mine = sum(lag for p, lag in measurement.lag.items() if p in owned)
    others = sum(measurement.lag.values()) - mine
    age = _format_lag_age(measurement)
    if not owned:
        return f"{others:,}{age}"
    return f"{mine:,}{age}" + (
        f" (and {others:,} in partitions without an owner)" if others else ""
    )


def _format_lag_age(measurement: GroupMeasurement) -> str:
    """Format the age of a consumer group's lag and the time until it has caught up, in brackets.

    The text is empty if the group has no lag.

    >>> from partage.capture.groups import LiveGroup
    >>> from partage.commands.live_groups import GroupMeasurement
    >>> from partage.watch.lag import GroupLag
    >>> group = LiveGroup("g", "classic", "Stable", "range", 1)
    >>> lag = GroupLag(5, 30.0, 0, 5)
    >>> _format_lag_age(GroupMeasurement(group, {}, {}, behind=lag, drain_seconds=float("inf")))
    ' (30 s old, does not shrink)'
    """
    lag = measurement.behind
    if lag is None or not lag.records or lag.seconds is None:
        return ""
    drain = measurement.drain_seconds
    ends = "" if drain is None else ", does not shrink"
    if drain is not None and isfinite(drain):
        ends = f", gone in {drain:,.0f} s"
    return f" ({lag.seconds:,.0f} s old{ends})"


def _whole(look: GroupMeasurement) -> None:
    from rich.table import Table

    if not look.group.members:
        return
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for title, side in (("member", "left"), ("host", "left"), ("rack", "left"),
                        ("partitions", "right"), ("lag", "right"), ("load/s", "right"),
                        ("owns", "left")):  # fmt: skip
        table.add_column(title, justify=side, overflow="fold")  # type: ignore[arg-type]  # a literal
    for m in sorted(look.group.members, key=lambda m: (m.client_id, m.id)):
        lag, load = look.load_of(m)
        table.add_row(
            styled_name(short_name(m.instance_id or m.client_id or m.id)),
            styled_name(m.host.lstrip("/")),
            styled_name(short_name(m.rack or "-")), str(len(m.owned)),
            "-" if lag is None else f"{lag:,}",
            f"{load:,.1f}",
            styled_name(_format_partitions(m.owned)),
        )  # fmt: skip
    print_tables(table)
    if look.now is not None:
        print_tables(styled_name(_distance(look.now)))
    if look.compared is not None:
        print_comparison(look.compared)


def _format_partitions(owned: tuple[Partition, ...]) -> str:
    """Format the partitions of a member as text by topic, with ranges such as ``orders 0-2``.

    The text is a hyphen if the member has no partitions.

    >>> _format_partitions((("t", 0), ("t", 1), ("t", 2), ("u", 4)))
    't 0-2; u 4'
    """
    numbers: dict[str, list[int]] = {}
    for topic, p in owned:
        numbers.setdefault(topic, []).append(p)
    return "; ".join(f"{topic} {_runs(sorted(ps))}" for topic, ps in sorted(numbers.items())) or "-"


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for p in numbers:
        if runs and p == runs[-1][1] + 1:
            runs[-1][1] = p
        else:
            runs.append([p, p])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _distance(now: Measures) -> str:
    text = f"now: spread {now.spread}, {now.idle} idle, {now.rack_mismatches} rack mismatches"
    if now.best_spread is None:
        return f"{text}; optimum not computed: {now.refused or 'no partitions to assign'}"
    if now.spread == now.best_spread:
        return f"{text}; no plan has a smaller spread"
    moves = now.fewest_moves_to_best
    return f"{text}; optimum: spread {now.best_spread}, {moves} moves away (proven)"


def describe_changes(old_groups: Iterable[LiveGroup], new_groups: Iterable[LiveGroup]) -> list[str]:
    """Describe how consumer groups changed between two measurements, in a sentence for each group.

    It says, for example, which members joined or left, and how many partitions moved.

    Args:
        old_groups: the groups at the first measurement.
        new_groups: the groups at the second measurement.

    Returns:
        a sentence for each changed group.

    >>> describe_changes([], [])
    []
    """
    was = {one.id: one for one in old_groups}
    said = [_change(was.get(one.id), one) for one in new_groups]
    gone = was.keys() - {one.id for one in new_groups}
    return [one for one in said if one] + [f"{one}: no longer listed" for one in sorted(gone)]


def _change(before: LiveGroup | None, now: LiveGroup) -> str:
    if before is None:
        return f"{now.id}: new"
    old, new = ({m.id: m for m in one.members} for one in (before, now))
    parts = [f"{_name(new[one])} came" for one in sorted(new.keys() - old.keys())]
    parts += [f"{_name(old[one])} left" for one in sorted(old.keys() - new.keys())]
    had, has = _owners(before), _owners(now)
    moved = sum(1 for one, owner in has.items() if one in had and had[one] != owner)
    lost = sum(1 for one in had if one not in has)
    parts += [f"{moved} partitions moved"] * bool(moved) + [f"{lost} without owner"] * bool(lost)
    if before.state != now.state:
        parts.append(f"{before.state} -> {now.state}")
    return f"{now.id}: {', '.join(parts)}" if parts else ""


def _name(member: LiveMember) -> str:
    return member.instance_id or member.client_id or member.id


def _owners(group: LiveGroup) -> Mapping[Partition, str]:
    return {one: m.id for m in group.members for one in m.owned}


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

    The warnings name rules that an assignment breaks, and say why a strategy is not applicable.

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
