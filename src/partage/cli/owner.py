"""`partage owner`: the owners of partitions at any instant of a replayed history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partage.cli.console import print_message, print_tables, short_name, styled_name, write_json
from partage.cli.options import (
    AsJson,
    GroupPatterns,
    RunId,
    named_options,
    topic_option,
    with_options,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from partage.commands.runs import OwnersAt
    from partage.report.owners import HistoryGap, Owner

__all__ = ["owner"]

#: Groups with a gap that are listed one by one.
_MOST_GAPS = 20


@with_options
def owner(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of partage replay.")],
    *,
    at: Annotated[
        str,
        typer.Option("--at", metavar="TIME",
                     help="2026-11-20T21:07:30, with Z or +02:00 (else UTC), or milliseconds."),
    ],
    topic: Annotated[str | None, topic_option()] = None,
    group: GroupPatterns = None,
    as_json: AsJson = False,
    run: RunId = None,
) -> None:  # fmt: skip
    """Show the owners of partitions at an instant, from table `ownership`.

        partage owner demo-out --at 2026-11-20T21:07:30

        partage owner demo-out --at 1795208850000 --topic orders --json

    At the exact time of a rebalance, the new owner is shown. Times are those of the log's records:
    a member may have stopped a little earlier, and its successor started a little later.
    """
    from partage.commands.runs import owner as owners_of

    with named_options(at="--at", topic="--topic", groups="--group"):
        result = owners_of(folder, at, topic=topic, groups=group, run_id=run)
    time_ms, found = result.at_ms, list(result.owners)
    _warn_of_uncertainty(result)
    _gaps(result.unknown)
    if as_json:
        write_json(result.to_dict())
        return
    if found:
        print_tables(_table(found, time_ms), styled_name(_sum(found, time_ms), "dim"))
    else:
        asked = [("topic", one) for one in (topic,) if one is not None]
        asked += [("group", one) for one in group or ()]
        only = "".join(f" of {what} {one!r}" for what, one in asked)
        print_tables(styled_name(f"no member owned a partition{only} at {_utc(time_ms)}", "bold"))


def _warn_of_uncertainty(owners: OwnersAt) -> None:
    """Print a warning if the instant for which owners are requested is outside the recording.

    Owners before the recording are unknown; those after it are the last known ones.
    """
    # Owners before it are unknown; those after it are the last known ones.
    first, last, time_ms = owners.first_ms, owners.last_ms, owners.at_ms
    if first is not None and time_ms < first:
        print_message(
            f"warning: the record begins at {_utc(first)}; earlier owners are unknown", "yellow"
        )
    if last is not None and time_ms > last:
        print_message(
            f"warning: the record ends at {_utc(last)}; these are the last known owners", "yellow"
        )


def _gaps(gaps: Sequence[HistoryGap]) -> None:
    for one in gaps[:_MOST_GAPS]:
        many = f"{one.generations} generation{'' if one.generations == 1 else 's'}"
        if one.from_ms is None:
            words = f"its history begins at {_utc(one.to_ms)}, {many} before are not in the log"
        else:
            words = (
                f"{many} between {one.from_generation} and {one.to_generation} are not in the log; "
                f"owners until {_utc(one.to_ms)} are unknown, these are of generation "
                f"{one.from_generation}"
            )
        print_message(f"warning: {short_name(one.group)}: {words}", "yellow")
    if len(gaps) > _MOST_GAPS:
        print_message(f"warning: {len(gaps) - _MOST_GAPS} more groups have such gaps", "yellow")


def _utc(ms: int) -> str:
    try:
        found = datetime.fromtimestamp(ms / 1_000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return f"{found:%Y-%m-%d %H:%M:%S}.{ms % 1_000:03} UTC"


def _table(found: list[Owner], time_ms: int) -> Table:
    from rich.table import Table

    from partage.report.owners import format_number_ranges, group_by_member

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("group", "topic", "member"):
        table.add_column(column, overflow="fold")
    table.add_column("partitions", overflow="fold")
    # One day, as a rule: the line below the table has it, and members' names need the room.
    held = list(group_by_member(found))
    days = {_utc(one.since_ms)[:10] for one in held} | {_utc(time_ms)[:10]}
    cut = 11 if len(days) == 1 else 0
    table.add_column("since (UTC)", no_wrap=True)
    table.add_column("gener-\nation", justify="right")
    roles = {one.role for one in found} != {"owner"}
    if roles:
        table.add_column("role")
    for one in held:
        cells: list[Text | str] = [
            styled_name(short_name(text)) for text in (one.group, one.topic, one.member_label)
        ]
        cells += [format_number_ranges(one.partitions),
                 _utc(one.since_ms)[cut:].removesuffix(" UTC"), str(one.generation)]  # fmt: skip
        table.add_row(*cells, *([one.role] if roles else []))
    return table


def _sum(found: list[Owner], time_ms: int) -> str:
    partitions = len({(o.group, o.topic, o.partition) for o in found})
    groups = len({o.group for o in found})
    members = len({(o.group, o.stable_identity) for o in found})
    counts = ", ".join(
        f"{count} {what}{'' if count == 1 else 's'}"
        for count, what in ((partitions, "partition"), (members, "member"), (groups, "group"))
    )
    return f"{counts}, at {_utc(time_ms)}"
