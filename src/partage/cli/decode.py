"""`partage decode`: the records of ``__consumer_offsets`` as lines of JSON."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from partage.cli.console import print_message, write_json
from partage.cli.options import GroupPatterns, with_options
from partage.errors import InvalidConfigError

__all__ = ["decode"]


@with_options
def decode(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|CAPTURE",
            help="A Parquet file with a capture's columns, a folder of them, or a capture.",
        ),
    ],
    *,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE",
            help="Record type, by name or number; repeatable.", show_default=False,
        ),
    ] = None,
    group: GroupPatterns = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="Number of lines to print.",
                                 show_default=False)
    ] = None,
) -> None:  # fmt: skip
    """Decode a log of `__consumer_offsets` to JSON, one line per record.

    It decodes every record type that Kafka 4.3.1 can read. Fields: `partition`,
    `offset`, `timestamp_ms`, `type`, `key_version`, `key`, `value_version`, `value` (null for
    a tombstone), and for classic groups `members_decoded`. Bytes are base64.

        partage decode capture/ --limit 5

        partage decode consumer_offsets.parquet --type GROUP_METADATA

        partage decode capture/ --type 2 -g orders-service | jq .value.members

    For the key and value of one record, use `pg.decode(key, value)` in Python (docs/bytes.md).

    A record that cannot be decoded is a line too, with `partition`, `offset` and `error`. No
    filter hides it, stderr has their number at the end, and the exit code stays 0.
    """
    from partage.commands.logs import decode as decoded

    counts: Counter[str] = Counter()
    try:
        lines = decoded(source, types=kinds or None, groups=group or None)
    except InvalidConfigError as e:
        raise typer.BadParameter(f"{e.what}, got {e.value!r}", param_hint="--type") from None
    for line in islice(lines, limit):
        write_json(line)
        counts["bad" if "error" in line else "good"] += 1
    if not counts and (group or kinds) and limit != 0:
        print_message("no record of that group or type", "yellow")
    if counts["bad"]:
        print_message(f"{counts['bad']} of {counts.total()} records could not be decoded", "yellow")
