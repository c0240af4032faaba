"""`partage strategies`: list the strategies, the Kafka class each one equals, and its settings."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.console import is_terminal, print_tables, stdout_console, styled_name, write_json
from partage.cli.options import AsJson, with_options

if TYPE_CHECKING:
    from partage.groups.registry import StrategyRow
    from partage.streams.registry import TaskRow

__all__ = ["strategies"]


@with_options
def strategies(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            show_default=False,
            help="Only these, each with all that there is to say about it.",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the strategies, the Kafka class that each reproduces exactly, and their settings.

    "Exact to" means: for every input, the same owner of every partition, in the same order, as
    that class. Protocols are those of classic groups. Strategies that run in the broker have the
    prefix `server:` (KIP-848). Strategies of plug-ins are listed, too.

        partage strategies

        partage strategies optimal failover

        partage strategies --json

    Assignors of Kafka Streams (`streams:`) assign tasks to clients, not partitions to members.
    They are listed separately at the end, and `--json` has only those that are named.

    Settings of the leader are given as `--config KEY=VALUE` to `partage assign` and
    `partage compare`, a member's own in the problem, as `config` of the member.
    """
    places_tasks = [one for one in named or [] if one.startswith("streams:")]
    asked = [one for one in named or [] if one not in places_tasks]
    rows = _strategy_rows(asked) if asked or not places_tasks else []
    if as_json:
        tasks = [row._asdict() for row in _task_rows(places_tasks)] if places_tasks else []
        write_json([*(_plain(row) for row in rows), *tasks], indent=1)
    elif named:
        for row in rows:
            _in_full(row)
        for task_row in _task_rows(places_tasks) if places_tasks else []:
            _tasks_in_full(task_row)
    else:
        _listed(rows, _task_rows([]))


def _strategy_rows(names: list[str]) -> list[StrategyRow]:
    """Return the rows of the table of strategies that ``partage strategies`` prints.

    Without names, all strategies have a row.

    Args:
        names: strategy names or Java class names.

    Raises:
        UnknownStrategyError: no strategy has the name.
    """
    from partage.groups import registry

    rows = {row.name: row for row in registry.describe()}
    if not names:
        return list(rows.values())
    return [rows.get(one) or _row(one, rows) for one in names]


def _row(named: str, rows: dict[str, StrategyRow]) -> StrategyRow:
    from partage.groups import registry

    found = registry.load(named)
    return rows.get(found.name) or registry.describe_strategy(found, found.name, named)


def _task_rows(names: list[str]) -> list[TaskRow]:
    """Return the rows of Kafka Streams task assignors that ``partage strategies`` prints.

    Without names, all assignors have a row.

    Raises:
        UnknownStrategyError: no assignor has the name.
    """
    from partage.streams import registry

    rows = {row.name: row for row in registry.describe_task_assignors()}
    if not names:
        return list(rows.values())
    return [rows[one if one in rows else registry.find_assignor(one).name] for one in names]


def _tasks_in_full(row: TaskRow) -> None:
    print_tables(styled_name(row.name, "bold"))
    _indented(f"exact to   {row.exact_to or '-'}")
    print_tables("")
    _said(row.doc)
    print_tables("")


def _said(doc: str) -> None:
    for line in doc.partition("\n>>> ")[0].replace("``", "`").rstrip().splitlines():
        stdout_console().print(styled_name(f"  {line}".rstrip()), soft_wrap=True)


def _plain(row: StrategyRow) -> dict[str, Any]:
    return row._asdict() | {"settings": [one._asdict() for one in row.settings]}


def _listed(rows: list[StrategyRow], task_rows: list[TaskRow]) -> None:
    every: list[StrategyRow | TaskRow] = [*rows, *task_rows]
    widest = max(len(row.name) for row in every) + 2
    twins = [_short_class_name(row.exact_to) for row in every]
    wide = max(len(twin) for twin in twins) + 2
    console = stdout_console()
    console.print(
        styled_name(f"{'strategy':{widest}}{'exact to':{wide}}protocols", "bold"), soft_wrap=True
    )
    for row, twin in zip(every, twins, strict=True):
        line = f"{row.name:{widest}}{twin:{wide}}{_protocols(row)}"
        console.print(styled_name(line), soft_wrap=True)
        problem = getattr(row, "problem", None)
        what = f"cannot be used: {problem}" if problem else row.summary
        _indented(what, "red" if problem else "dim")
        for one in getattr(row, "settings", ()):
            _indented(f"{one.key} ({one.default}): {one.meaning} [{one.scope}]", "dim", 4)


def _in_full(row: StrategyRow) -> None:
    from partage.groups import registry

    print_tables(styled_name(row.name, "bold"))
    if row.problem:
        _indented(f"cannot be used: {row.problem}", "red")
        return
    _indented(f"exact to   {row.exact_to or '-'}")
    _indented(f"protocols  {_protocols(row)}")
    print_tables("")
    known = row.name in registry.strategies()
    _said(inspect.getdoc(type(registry.load(row.name if known else row.source))) or "")
    print_tables("")
    _indented("settings, as --config KEY=VALUE" if row.settings else "no settings", "bold")
    for one in row.settings:
        _indented(f"{one.key}  (default: {one.default})", "", 4)
        _indented(one.meaning, "dim", 6)
        own = "each member's own (config of the member in a problem, not --config)"
        _indented(own if one.scope == "member" else "set at the leader", "dim", 6)
    print_tables("")


def _protocols(row: StrategyRow | TaskRow) -> str:
    from partage.streams.registry import TaskRow

    if isinstance(row, TaskRow):
        return "tasks of Kafka Streams"
    in_broker = row.source.startswith("partage.groups.server.")
    return "in the broker" if in_broker else ", ".join(row.protocols).lower()


def _indented(text: str, style: str = "", by: int = 2) -> None:
    from rich.padding import Padding

    if is_terminal():
        stdout_console().print(Padding.indent(styled_name(text, style), by))
    else:  # a program may search: one line
        print_tables(styled_name(" " * by + text, style))


def _short_class_name(exact_to: str | None) -> str:
    """Shorten the Java class name and release that a strategy equals, for the table of strategies.

    Classes that run in the broker are marked ``(coordinator)``.

    >>> _short_class_name("org.apache.kafka.clients.consumer.RangeAssignor 4.3.1")
    'RangeAssignor 4.3.1'
    >>> _short_class_name("org.apache.kafka.coordinator.group.assignor.RangeAssignor 4.3.1")
    'RangeAssignor 4.3.1 (coordinator)'
    >>> _short_class_name("aiokafka.assignors.range.RangePartitionAssignor aiokafka 0.14.0")
    'aiokafka 0.14.0'
    """
    if exact_to is None:
        return "-"
    made_by, _, release = exact_to.partition(" ")
    if not made_by.startswith("org.apache.kafka."):
        return release  # a dialect's name says the rest
    broker = "org.apache.kafka.coordinator.group.assignor."
    if exact_to.startswith(broker):
        return f"{exact_to.removeprefix(broker)} (coordinator)"
    if made_by.startswith(("org.apache.kafka.streams.", "org.apache.kafka.coordinator.")):
        return f"{made_by.rpartition('.')[2]} {release.partition(' (')[0]}"
    return exact_to.removeprefix("org.apache.kafka.").removeprefix("clients.consumer.")
