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
    console.print(name(f"{'strategy':{widest}}{'exact to':32}protocols", "bold"))
    for row in rows:
        protocols = ", ".join(row.protocols).lower()
        line = f"{row.name:{widest}}{_class(row.exact_to):32}{protocols}"
        console.print(name(line), soft_wrap=True)
        what = f"cannot be used: {row.problem}" if row.problem else row.summary
        console.print(name(f"  {what}", "red" if row.problem else "dim"), soft_wrap=True)


def _class(exact_to: str | None) -> str:
    """The class without its package: `RangeAssignor 4.3.1`."""
    return "-" if exact_to is None else exact_to.rpartition(".clients.consumer.")[2]
