"""`partage migrate`: whether groups are ready for another rebalance protocol, and the steps."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.console import name, short_name, show, write_json
from partage.cli.options import AsJson, GroupPatterns, RunId, named_options, with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from partage.forecasts.migration import Effect, Migration

__all__ = ["migrate"]

_STYLES = {"ready": "green", "ready after changes": "yellow", "not possible": "red", "done": "dim"}
_FINDINGS = {"blocker": "bold red", "change": "yellow", "check": "", "note": "dim"}


class Target(str, Enum):
    """Values of ``--protocol``: the protocol to migrate to."""

    consumer = "consumer"
    cooperative = "cooperative"


@with_options
def migrate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of partage replay.")],
    *,
    group: GroupPatterns = None,
    to: Annotated[
        Target,
        typer.Option("--protocol", help="Target: consumer (KIP-848) or cooperative."),
    ] = Target.consumer,
    as_json: AsJson = False,
    run: RunId = None,
) -> None:  # fmt: skip
    """Show which groups are ready for another rebalance protocol, and the steps of a migration.

        partage migrate run

        partage migrate run --group billing

        partage migrate run --protocol cooperative --json

    Clients are identified by the bytes that they sent. Effects are those of the run's simulation.
    With --group, all findings and steps are printed.
    """
    from partage.commands.runs import matching_names
    from partage.results import migrate as plan_migrations
    from partage.results import open_run

    opened = open_run(folder, run)
    names = [str(one) for one in opened.table("groups")["group"].to_pylist()]
    with named_options(groups="--group"):
        chosen = matching_names(group, sorted(names)) if group else names
    found = [one for each in chosen for one in plan_migrations(opened, each, to=to.value)]
    if as_json:
        head = {"format": "partage-migrate", "version": 1, "to": to.value}
        write_json({**head, "groups": [asdict(one) for one in found]})
    elif group:
        for one in found:
            _print(one)
    else:
        show(_table(found))
        show(name("partage migrate DIR --group GROUP prints findings and steps.", "dim"))


def _table(found: Sequence[Migration]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("group", "status", "clients", "first finding"):
        table.add_column(column, overflow="fold")
    order = list(_STYLES)
    for one in sorted(found, key=lambda one: (order.index(one.status), one.group)):
        first = one.findings[0].text if one.findings else ""
        table.add_row(
            name(short_name(one.group)), name(one.status, _STYLES[one.status]),
            name(_clients(one)), name(first),
        )  # fmt: skip
    return table


def _print(found: Migration) -> None:
    style = _STYLES[found.status]
    head = f"{short_name(found.group)}: {found.status} (to {found.target}); {_clients(found)}"
    show(name(head, f"bold {style}"))
    for finding in found.findings:
        show(name(f"  {finding.kind:8}{finding.text}", _FINDINGS[finding.kind]))
    if found.effect is not None:
        show(name(f"  effect  {_effect(found.effect)}"))
    for title, steps in (("steps", found.steps), ("to go back", found.back)):
        if steps:
            show(name(title, "bold"))
        for number, step in enumerate(steps, 1):
            show(name(f"  {number}. {step}"))


def _clients(found: Migration) -> str:
    return ", ".join(f"{count} {client}" for client, count in found.clients.items()) or "no members"


def _effect(effect: Effect) -> str:
    """Return the simulated effect as a sentence."""
    text = (
        f"simulated under {effect.policy}: {effect.rebalances} rebalances "
        f"({effect.rebalances_now} recorded)"
    )
    if effect.saved_low is None or effect.saved_high is None:
        return text
    change = f"{-effect.saved_high:+,.0f} to {-effect.saved_low:+,.0f} partition-seconds"
    if effect.saved_low <= 0 <= effect.saved_high:
        change += " (no measurable difference)"
    return f"{text}; change of unread time {change}"
