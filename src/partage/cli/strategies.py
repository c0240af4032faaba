"""`partage strategies`: what can be asked for, how exact it is, and what can be set."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.consoles import interactive, name, out, show, write_json

if TYPE_CHECKING:
    from partage.groups.registry import Row

__all__ = ["strategies"]


def strategies(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", show_default=False,
            help="Only these, each with all that there is to say about it.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:  # fmt: skip
    """All strategies, with the Kafka class that each one equals and the settings it has.

    "Exact to" means: the same owner for every partition, in the same order, as that class on
    every input. Protocols are those of classic groups; where a broker decides (`server:`),
    members hand over one by one as KIP-848 has it. Strategies of plug-ins are listed too.

        partage strategies

        partage strategies optimal failover

        partage strategies --json

    Settings are given as `--config KEY=VALUE` to `partage assign` and `partage compare`.
    """
    rows = _asked(named or [])
    if as_json:
        write_json([_plain(row) for row in rows], indent=1)
    elif named:
        for row in rows:
            _in_full(row)
    else:
        _listed(rows)


def _asked(named: list[str]) -> list[Row]:
    """The rows of these names (or Java class names), of all where there are none.

    Raises:
        UnknownStrategyError: there is no such strategy.
    """
    from partage.groups import registry

    rows = {row.name: row for row in registry.describe()}
    if not named:
        return list(rows.values())
    return [rows[one if one in rows else registry.find(one).name] for one in named]


def _plain(row: Row) -> dict[str, Any]:
    return row._asdict() | {"settings": [one._asdict() for one in row.settings]}


def _listed(rows: list[Row]) -> None:
    widest = max(len(row.name) for row in rows) + 2
    twins = [_class(row.exact_to) for row in rows]
    wide = max(len(twin) for twin in twins) + 2
    console = out()
    console.print(
        name(f"{'strategy':{widest}}{'exact to':{wide}}protocols", "bold"), soft_wrap=True
    )
    for row, twin in zip(rows, twins, strict=True):
        line = f"{row.name:{widest}}{twin:{wide}}{_protocols(row)}"
        console.print(name(line), soft_wrap=True)
        what = f"cannot be used: {row.problem}" if row.problem else row.summary
        _indented(what, "red" if row.problem else "dim")
        for one in row.settings:
            _indented(f"{one.key} ({one.default}): {one.meaning}", "dim", 4)


def _in_full(row: Row) -> None:
    """One strategy: what its class says of itself, then its settings."""
    from partage.groups import registry

    show(name(row.name, "bold"))
    if row.problem:
        _indented(f"cannot be used: {row.problem}", "red")
        return
    _indented(f"exact to   {row.exact_to or '-'}")
    _indented(f"protocols  {_protocols(row)}")
    show("")
    said = inspect.getdoc(type(registry.find(row.name))) or ""
    for line in said.partition("\n>>> ")[0].replace("``", "`").rstrip().splitlines():
        out().print(name(f"  {line}".rstrip()), soft_wrap=True)
    show("")
    _indented("settings, as --config KEY=VALUE" if row.settings else "no settings", "bold")
    for one in row.settings:
        _indented(f"{one.key}  (default: {one.default})", "", 4)
        _indented(one.meaning, "dim", 6)
    show("")


def _protocols(row: Row) -> str:
    in_broker = row.source.startswith("partage.groups.server.")
    return "in the broker" if in_broker else ", ".join(row.protocols).lower()


def _indented(text: str, style: str = "", by: int = 2) -> None:
    from rich.padding import Padding

    if interactive():
        out().print(Padding.indent(name(text, style), by))
    else:  # a program may search: one line
        show(name(" " * by + text, style))


def _class(exact_to: str | None) -> str:
    """The class without its package; the broker's say that they are the coordinator's.

    >>> _class("org.apache.kafka.clients.consumer.RangeAssignor 4.3.1")
    'RangeAssignor 4.3.1'
    >>> _class("org.apache.kafka.coordinator.group.assignor.RangeAssignor 4.3.1")
    'RangeAssignor 4.3.1 (coordinator)'
    >>> _class("aiokafka.coordinator.assignors.range.RangePartitionAssignor aiokafka 0.14.0")
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
    return exact_to.removeprefix("org.apache.kafka.").removeprefix("clients.consumer.")
