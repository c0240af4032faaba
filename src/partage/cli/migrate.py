"""`partage migrate`: whether groups are ready for another rebalance protocol, and the steps."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.console import print_tables, short_name, styled_name, write_json
from partage.cli.options import (
    AsJson,
    GroupPatterns,
    RunId,
    named_options,
    with_options,
    write_picture,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from partage.forecasts.migration import Effect, Migration

__all__ = ["migrate"]

_STYLES = {"ready": "green", "ready after changes": "yellow", "not possible": "red", "done": "dim"}
_FINDINGS = {"blocker": "bold red", "change": "yellow", "check": "", "note": "dim"}
#: Kind of findings that the table lists for each status.
_LISTED = {"ready after changes": "change", "not possible": "blocker"}


class TargetProtocol(str, Enum):
    """Values of the option ``--protocol``: the rebalance protocol to migrate a consumer group to.

    The value "consumer" is the protocol of KIP-848; "cooperative" is incremental rebalancing with
    the classic protocol.
    """

    consumer = "consumer"
    cooperative = "cooperative"


@with_options
def migrate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of partage replay.")],
    *,
    group: GroupPatterns = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", show_default=False,
                     help="Write a picture of the result as SVG."),
    ] = None,
    protocol: Annotated[
        TargetProtocol,
        typer.Option("--protocol",
                     help="Protocol to migrate to: consumer (KIP-848) or cooperative."),
    ] = TargetProtocol.consumer,
    as_json: AsJson = False,
    run: RunId = None,
) -> None:  # fmt: skip
    """Show which groups are ready for another rebalance protocol, and the steps of a migration.

        partage migrate run

        partage migrate run --group billing

        partage migrate run --protocol cooperative --json

    Client libraries are identified by the subscriptions that they sent. The gain is the time
    without a reader that the migration saves according to the run's simulation. With --group, all
    findings and steps are printed.
    """
    from partage.commands.runs import matching_names
    from partage.results import migrate as plan_migrations
    from partage.results import open_run

    opened = open_run(folder, run)
    names = [str(one) for one in opened.table("groups")["group"].to_pylist()]
    with named_options(groups="--group"):
        chosen = matching_names(group, sorted(names)) if group else names
    found = [
        one
        for each in chosen
        for one in plan_migrations(opened, each, protocol=protocol.value, deployments=bool(group))
    ]
    if picture is not None:
        from partage.forecasts.pictures import migration_picture

        write_picture(picture, migration_picture(found))
    if as_json:
        head = {"format": "partage-migrate", "version": 1, "protocol": protocol.value}
        write_json({**head, "groups": [asdict(one) for one in found]})
    elif group:
        for one in found:
            _print(one)
    else:
        for status, style in _STYLES.items():
            of_status = sorted(
                (one for one in found if one.status == status), key=lambda one: one.group
            )
            if of_status:
                count = f"{len(of_status)} group{'' if len(of_status) == 1 else 's'}"
                print_tables(
                    styled_name(f"{status} (to {protocol.value}): {count}", f"bold {style}")
                )
                print_tables(_migration_table(of_status), styled_name(""))
        print_tables(
            styled_name("partage migrate DIR --group GROUP prints findings and steps.", "dim")
        )


def _migration_table(migrations: Sequence[Migration]) -> Table:
    """Return a table of consumer groups that are equally ready to migrate to another protocol.

    A row has the group's clients, the necessary changes or obstacles, and the expected gain.

    Args:
        migrations: the groups, each with the steps of its migration.
    """
    from rich.table import Table

    listed = _LISTED.get(migrations[0].status)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("group", overflow="fold", min_width=16, max_width=40)
    table.add_column("clients", overflow="fold", max_width=24)
    if listed is not None:
        table.add_column({"change": "to change", "blocker": "blocked by"}[listed], overflow="fold")
    table.add_column("expected gain", no_wrap=True)
    for one in migrations:
        titles = dict.fromkeys(each.title for each in one.findings if each.kind == listed)
        cells = [short_name(one.group), _clients(one)]
        cells += [] if listed is None else [", ".join(titles)]
        table.add_row(*map(styled_name, cells), styled_name(_format_gain(one.effect, short=True)))
    return table


def _print(found: Migration) -> None:
    style = _STYLES[found.status]
    head = f"{short_name(found.group)}: {found.status} (to {found.protocol}); {_clients(found)}"
    print_tables(styled_name(head, f"bold {style}"))
    for finding in found.findings:
        print_tables(styled_name(f"  {finding.kind:8}{finding.text}", _FINDINGS[finding.kind]))
    if found.effect is not None:
        print_tables(styled_name(f"  effect  {_describe_effect(found.effect)}"))
        if found.effect.deployment is not None and found.effect.deployment_now is not None:
            print_tables(styled_name(f"  effect  {_describe_deployment(found.effect)}"))
    elif found.policy:
        text = (
            f"unknown: the run does not simulate {found.policy} for this group; replay with "
            f"--policy own --policy {found.policy}"
        )
        print_tables(styled_name(f"  effect  {text}"))
    for title, steps in (("steps", found.steps), ("rollback", found.back)):
        if steps:
            print_tables(styled_name(title, "bold"))
        for number, step in enumerate(steps, 1):
            print_tables(styled_name(f"  {number}. {step}"))


def _clients(found: Migration) -> str:
    return ", ".join(f"{count} {client}" for client, count in found.clients.items()) or "no members"


def _describe_effect(effect: Effect) -> str:
    """Describe in a sentence how a migration changes the rebalances and the unread time of a group.

    It has the simulated values before and after. Unread time is time without a reader.
    """
    text = (
        f"simulated under {effect.policy}: {effect.rebalances} rebalances "
        f"({effect.rebalances_now} recorded)"
    )
    return text if effect.saves is None else f"{text}; expected gain {_format_gain(effect)}"


def _describe_deployment(effect: Effect) -> str:
    """Describe what a rolling deployment costs before and after a migration.

    The cost is simulated unread time, which is time without a reader. ``effect`` has the values.
    """
    from partage.report.messages import format_estimate

    then, now = (
        format_estimate(one).replace("\N{NO-BREAK SPACE}", " ")
        for one in (effect.deployment, effect.deployment_now)
        if one is not None
    )
    return f"a rolling deployment costs {then} without a reader; now {now}"


def _format_gain(effect: Effect | None, *, short: bool = False) -> str:
    """Format the unread time that a migration saves a consumer group, with its interval.

    Unread time is time in which partitions have no reader. A negative gain is additional unread
    time.

    Args:
        effect: the simulated effect of the migration; None if it is unknown.
        short: whether to leave out words, for use in a table.
    """
    from partage.report.messages import format_estimate

    if effect is None or effect.saves is None:
        return "-"
    text = format_estimate(effect.saves, short=short).replace("\N{NO-BREAK SPACE}", " ")
    if effect.saves.excludes_zero:
        return text
    return "none measurable" if short else f"{text}: no measurable difference"
