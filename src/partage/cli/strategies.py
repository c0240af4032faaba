"""`partage strategies`: what can be asked for, and how exact it is."""

from __future__ import annotations

from typing import Annotated

import typer

from partage.cli.consoles import name, out, write_json

__all__ = ["strategies"]


def strategies(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """All strategies, with the Kafka class that each one equals.

    "Exact to" means: the same owner for every partition, in the same order, as that class on
    every input. Strategies of installed plug-ins are listed too.

        partage strategies

        partage strategies --json
    """
    from partage.groups import registry

    rows = registry.describe()
    if as_json:
        write_json([row._asdict() for row in rows], indent=1)
        return
    console = out()
    widest = max(len(row.name) for row in rows) + 2
    twins = [_class(row.exact_to) for row in rows]
    wide = max(len(twin) for twin in twins) + 2
    console.print(name(f"{'strategy':{widest}}{'exact to':{wide}}protocols", "bold"))
    for row, twin in zip(rows, twins, strict=True):
        protocols = ", ".join(row.protocols).lower()
        line = f"{row.name:{widest}}{twin:{wide}}{protocols}"
        console.print(name(line), soft_wrap=True)
        what = f"cannot be used: {row.problem}" if row.problem else row.summary
        console.print(name(f"  {what}", "red" if row.problem else "dim"), soft_wrap=True)


def _class(exact_to: str | None) -> str:
    """The class without the package of Kafka's clients, and without `org.apache.kafka` elsewhere.

    >>> _class("org.apache.kafka.clients.consumer.RangeAssignor 4.3.1")
    'RangeAssignor 4.3.1'
    >>> _class("org.apache.kafka.coordinator.group.assignor.RangeAssignor 4.3.1")
    'coordinator.group.assignor.RangeAssignor 4.3.1'
    """
    if exact_to is None:
        return "-"
    return exact_to.removeprefix("org.apache.kafka.").removeprefix("clients.consumer.")
