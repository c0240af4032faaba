"""`partage decode`: the records of ``__consumer_offsets`` as lines of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from partage.cli.console import tell, write_json
from partage.cli.options import GroupPatterns, with_options

__all__ = ["decode", "decoded"]


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
    """Decode a log of `__consumer_offsets`: one JSON line a record.

    Every record type that Kafka 4.3.1 can read, at every version. Fields: `partition`,
    `offset`, `timestamp_ms`, `type`, `key_version`, `key`, `value_version`, `value` (null for
    a tombstone), and for classic groups `members_decoded`. Bytes are base64.

        partage decode capture/ --limit 5

        partage decode consumer_offsets.parquet --type GROUP_METADATA

        partage decode capture/ --type 2 -g orders-service | jq .value.members

    A record that cannot be decoded is a line too, with `partition`, `offset` and `error`. No
    filter hides it, stderr has their number at the end, and the exit code stays 0.
    """
    numbers = _types(kinds)
    wanted = group or ()
    counts: Counter[str] = Counter()
    if limit == 0:
        return
    for line in decoded(source):
        bad = "error" in line
        if numbers is not None and not bad and line["key_version"] not in numbers:
            continue
        if wanted and not bad and not _is_of(line["key"], wanted):
            continue
        write_json(line)
        counts["bad" if bad else "good"] += 1
        if counts.total() == limit:
            break
    if not counts and (wanted or numbers is not None):
        tell("no record of that group or type", "yellow")
    if counts["bad"]:
        tell(f"{counts['bad']} of {counts.total()} records could not be decoded", "yellow")


def decoded(source: Path) -> Iterator[dict[str, Any]]:
    """Yield a JSON object for each record of ``__consumer_offsets``.

    A damaged record has ``error`` instead of its fields.

    Raises:
        InvalidCaptureError: the source cannot be read.
    """
    from partage.jobs.replay.capture import open_records, read_slice

    for piece in open_records(source):
        for table in read_slice(piece, batch_rows=_AT_ONCE):
            columns = table.to_pydict()
            for row in zip(*(columns[name] for name in _COLUMNS), strict=True):
                yield _line(*row)


_AT_ONCE = 2_000
_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")


def _line(
    partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None
) -> dict[str, Any]:
    from partage.errors import WireFormatError
    from partage.wire.group_log import decode_record
    from partage.wire.record_json import to_json

    place = {"partition": partition, "offset": offset, "timestamp_ms": timestamp_ms}
    try:
        return to_json(decode_record(key, value), **place)
    except WireFormatError as e:
        return {"partition": partition, "offset": offset, "error": str(e)}


def _is_of(key: Mapping[str, Any], patterns: Sequence[str]) -> bool:
    group = key.get("group", key.get("groupId"))
    return isinstance(group, str) and any(
        group == pattern or fnmatchcase(group, pattern) for pattern in patterns
    )


def _types(kinds: list[str] | None) -> set[int] | None:
    """Convert names or numbers of record types to numbers; None for no filter.

    Raises:
        BadParameter: Kafka has no such record type; the error lists the types.
    """
    if not kinds:
        return None
    from partage.wire.group_log import RECORD_TYPES

    by_name = {name: number for number, name in RECORD_TYPES.items()}
    by_name |= {str(number): number for number in RECORD_TYPES}
    unknown = [kind for kind in kinds if kind.upper() not in by_name]
    if unknown:
        known = ", ".join(f"{number} {name}" for number, name in RECORD_TYPES.items())
        what = f"no record type {unknown[0]!r}; there are: {known}"
        raise typer.BadParameter(what, param_hint="--type")
    return {by_name[kind.upper()] for kind in kinds}
