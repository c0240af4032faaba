"""`partage strategies`: what can be asked for, and how exact it is."""

from __future__ import annotations

from typing import Annotated

import typer

from partage.cli.consoles import interactive, name, out, write_json

__all__ = ["strategies"]


def strategies(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """All strategies, with the Kafka class that each one equals.

    "Exact to" means: the same owner for every partition, in the same order, as that class on
    every input. Protocols are those of classic groups; where a broker decides (`server:`),
    members hand over one by one as KIP-848 has it. Strategies of plug-ins are listed too.

        partage strategies

        partage strategies --json
    """
    from rich.padding import Padding

    from partage.groups import registry

    rows = registry.describe()
    if as_json:
        write_json([row._asdict() for row in rows], indent=1)
        return
    console = out()
    widest = max(len(row.name) for row in rows) + 2
    twins = [_class(row.exact_to) for row in rows]
    wide = max(len(twin) for twin in twins) + 2
    head = f"{'strategy':{widest}}{'exact to':{wide}}protocols"
    console.print(name(head, "bold"), soft_wrap=True)
    for row, twin in zip(rows, twins, strict=True):
        in_broker = row.source.startswith("partage.groups.server.")
        protocols = "in the broker" if in_broker else ", ".join(row.protocols).lower()
        line = f"{row.name:{widest}}{twin:{wide}}{protocols}"
        console.print(name(line), soft_wrap=True)
        what = f"cannot be used: {row.problem}" if row.problem else row.summary
        style = "red" if row.problem else "dim"
        if interactive():
            console.print(Padding.indent(name(what, style), 2))
        else:  # a program may search: one line
            console.print(name(f"  {what}", style), soft_wrap=True)


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
