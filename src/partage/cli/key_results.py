"""Output of `partage keys INPUT`: on the terminal, as JSON, and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.console import print_tables, styled_name, write_json
from partage.cli.options import OptionGroup, OutputOptions, SparkOptions, partitions_option
from partage.cli.progress import show_progress
from partage.errors import InvalidConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from partage.jobs.keys.analysis import KeySpread

__all__ = ["KeyOptions", "analyse_and_print", "format_key", "key_advice"]

_MOST_HOURS = 5
#: Moved keys that are named for each change of the partition count.
_MOST_MOVED = 10
_PAGE = "keys.html"
_STAGES = {
    "check": "looking at the input",
    "start Spark": "starting Spark in this process",
    "count": "reading, hashing and counting keys",
    "keys": "adding up each key",
}


@dataclass(frozen=True, kw_only=True)
class KeyOptions(OptionGroup):
    """Options of ``partage keys``: the key, the partition counts, and the statistics to compute.

    They become arguments of `partage.jobs.keys.analysis.analyse_keys`.
    """

    key: Annotated[
        str | None,
        typer.Option("--key", "-k", show_default=False,
                     help="Column that becomes the key, or a path to it: meta.tenant. Without "
                     "INPUT the key itself."),
    ] = None  # fmt: skip
    partitions: Annotated[str, partitions_option("Several with commas.", "N,N,...")] = "6,12,24,48"
    partitioner: Annotated[
        str,
        typer.Option("--partitioner", metavar="NAME",
                     help="Partitioner: see --list; or package.module:Class."),
    ] = "murmur2"  # fmt: skip
    serializer: Annotated[
        str | None,
        typer.Option("--serializer", metavar="TYPE", show_default=False,
                     help="How numbers become bytes: string, short, int, long, float, double."),
    ] = None  # fmt: skip
    value: Annotated[
        str | None,
        typer.Option("--value", metavar="COLUMN", help="Column whose bytes count too.",
                     show_default=False),
    ] = None  # fmt: skip
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="COLUMN", help="Column of times: load by hour.",
                     show_default=False),
    ] = None  # fmt: skip
    top: Annotated[int, typer.Option("--top", min=1, max=10_000, help="Hottest keys shown.")] = 10
    max_share: Annotated[
        float | None,
        typer.Option("--max-share", min=0.0, max=1.0, show_default=False,
                     help="Find the fewest partitions that keep the hottest within this share."),
    ] = None  # fmt: skip
    max_rate: Annotated[
        float | None,
        typer.Option("--max-rate", min=0.0, show_default=False,
                     help="The same in records per second of the hottest; needs --time."),
    ] = None  # fmt: skip
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Drop rare keys early: faster, counts may be low.")
    ] = False

    def partition_counts(self) -> list[int]:
        """Parse the value of the option ``--partitions``, such as "6,12", to a list of ints.

        Each number is a partition count.

        Raises:
            BadParameter: a count is not a whole number.

        >>> KeyOptions(partitions="6, 12").partition_counts()
        [6, 12]
        """
        try:
            return [int(part) for part in self.partitions.split(",") if part.strip()]
        except ValueError:
            raise typer.BadParameter("whole numbers with commas between: 6,12",
                                     param_hint="--partitions") from None  # fmt: skip


def analyse_and_print(
    where: str,
    options: KeyOptions,
    *,
    spark: SparkOptions,
    kafka: Mapping[str, str],
    to: Path | None,
    output: OutputOptions,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Analyse how a topic's keys spread over partitions, and print the result.

    The result is also written to a folder if one is given.

    Args:
        where: the input: file, folder, or ``kafka://host:port/topic``.
        options: the key and the statistics to compute.
        spark: Spark's master and settings.
        kafka: properties of the Kafka client.
        to: folder for tables and the HTML page; None writes none.
        output: whether to print tables or JSON.
        more: further entries of the JSON document.

    Raises:
        PartageError: the input or a setting cannot be used.
    """
    from partage.jobs.keys.analysis import analyse_keys
    from partage.jobs.keys.columns import InputColumns

    columns = InputColumns(options.key or "key", options.value, options.time)
    with show_progress(_STAGES, quiet=output.quiet or output.as_json) as progress:
        found = analyse_keys(
            where, columns, options.partition_counts(),
            partitioner=options.partitioner, serializer=options.serializer, top=options.top,
            max_share=options.max_share, max_rate=options.max_rate,
            approximate=options.approximate, progress=progress, master=spark.master,
            conf=spark.spark_settings_by_name(), kafka=kafka,
        )  # fmt: skip
    if to is not None:
        write_tables(found, to)
        title = f"{where}, column {columns.key}"
        _write_page(found, to / _PAGE, title=title, partitioner=options.partitioner)
    if output.as_json:
        write_json({**(more or {}), **_analysis_to_json(found)}, indent=1)
        return
    print_analysis(found)
    if to is not None:
        print_tables(styled_name(f"tables and page   {to / _PAGE}", "bold"))


def _write_page(found: KeySpread, path: Path, *, title: str, partitioner: str) -> None:
    from partage.report.key_pages import write_keys_page

    loads = {
        n: list(zip(partition.tolist(), records.tolist(), strict=True))
        for n, (partition, records, _) in found.by_partition.items()
    }
    write_keys_page(
        _analysis_to_json(found), loads, path, title=title,
        partitioner=partitioner, advice=key_advice(found) if found.hottest else [_NO_KEY],
        keys=[format_key(hot.key) for hot in found.hottest],
    )  # fmt: skip


_NO_KEY = "No record has a key: the producer's partitioner spreads them as it likes."


def print_analysis(analysis: KeySpread) -> None:
    """Print the analysis of a topic's keys: partition loads, hot keys, moved keys, and advice.

    A hot key has many records. A moved key goes to another partition when the partition count
    changes.
    """
    keyed = analysis.records - analysis.nulls
    print_tables(styled_name(_head(analysis), "bold"))
    if not keyed:
        print_tables(styled_name(_NO_KEY))
        return
    print_tables(_loads(analysis))
    print_tables(_hot(analysis))
    if analysis.low_by:
        print_tables(
            styled_name(f"approximate: a count may be low by up to {analysis.low_by:,} records")
        )
    if analysis.moves:
        print_tables(_moves(analysis))
        print_tables(*map(styled_name, _moved_keys(analysis)))
    if analysis.hours:
        print_tables(_hours(analysis))
    for line in key_advice(analysis):
        print_tables(styled_name(line))


def _head(found: KeySpread) -> str:
    keys = "" if found.distinct is None else f"{found.distinct:,} keys, "
    without = f", {found.nulls:,} records without a key" if found.nulls else ""
    if found.timeless:
        without += f", {found.timeless:,} without a time from 1970 on (they are in no hour)"
    return f"{keys}{found.records:,} records{without}"


def _table(title: str, *columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left",
                  title_style="bold")  # fmt: skip
    for i, column in enumerate(columns):
        table.add_column(
            column, justify="left" if not i else "right", overflow="fold", min_width=len(column)
        )
    return table


def _loads(found: KeySpread) -> Table:
    table = _table("spread", "partitions", "hottest", "share", "even", "most / mean",
                   "most bytes", "empty")  # fmt: skip
    for n, load in found.loads.items():
        table.add_row(
            f"{n:,}", f"{load.hottest}", f"{load.share:.1%}", f"{load.even:.1%}",
            f"{load.spread:.2f}", f"{found.bytes[n][0]:,}",
            f"{load.empty:,}" if load.empty else "",
        )  # fmt: skip
    return table


def _hot(found: KeySpread) -> Table:
    table = _table("hottest keys", "key", "records", "bytes", "share")
    for hot in found.hottest:
        table.add_row(styled_name(format_key(hot.key)), f"{hot.records:,}", f"{hot.bytes:,}",
                      f"{hot.share:.2%}")  # fmt: skip
    return table


def _moves(found: KeySpread) -> Table:
    table = _table("changing the count", "from → to", "keys that move", "records of these")
    for m in found.moves:
        keys = f"{m.moved_keys:,} ({m.moved_keys / m.keys:.1%})" if m.keys > 0 else "not counted"
        share = m.moved_records / m.records if m.records else 0.0
        table.add_row(f"{m.before:,} → {m.after:,}", keys, f"{share:.1%}")
    return table


def _moved_keys(found: KeySpread) -> list[str]:
    """Return a line for each change of the partition count, with the hottest keys that it moves.

    The hottest keys have the most records. A key moves if it belongs to another partition after the
    change.
    """
    lines = []
    for change in found.moves:
        moved = [
            (hot.key, places[change.before], places[change.after])
            for hot in found.hottest
            if (places := found.hot_at.get(hot.key, {})).get(change.before)
            != places.get(change.after)
        ]
        named = [f"{format_key(key)} ({old} → {new})" for key, old, new in moved[:_MOST_MOVED]]
        rest = len(moved) - len(named)
        named += [f"and {rest:,} more"] if rest > 0 else []
        lines.append(
            f"{change.before:,} → {change.after:,}: of the hottest keys {len(moved):,} move"
            + (f": {', '.join(named)}" if named else "")
        )
    return lines


def _hours(found: KeySpread) -> Table:
    table = _table("busiest hours", "hour (UTC)", "partitions", "hottest", "its records", "of all")
    for n in found.loads:
        mine = [h for h in found.hours if h[0] == n]
        for _, hour, partition, most, total in sorted(mine, key=lambda h: h[3], reverse=True)[
            :_MOST_HOURS
        ]:
            when = datetime.fromtimestamp(hour / 1000, timezone.utc)
            table.add_row(f"{when:%Y-%m-%d %H:%M}", f"{n:,}", f"{partition}", f"{most:,}",
                          f"{most / total:.1%}")  # fmt: skip
    return table


def _analysis_to_json(analysis: KeySpread) -> dict[str, Any]:
    """Return the analysis of a topic's keys as a JSON object for ``partage keys --json``.

    Keys are in hex, shares from 0 to 1, times in ms UTC.
    """
    return {
        "records": analysis.records, "without_key": analysis.nulls,
        "without_time": analysis.timeless, "keys": analysis.distinct,
        "spread": [
            asdict(load) | {"most_bytes": analysis.bytes[n][0], "mean_bytes": analysis.bytes[n][1]}
            for n, load in analysis.loads.items()
        ],
        "hottest": [
            asdict(h)
            | {
                "key": h.key.hex(),
                "partition": {str(n): p for n, p in analysis.hot_at.get(h.key, {}).items()},
            }
            for h in analysis.hottest
        ],
        "low_by": analysis.low_by, "floor": analysis.floor,
        "changes": [asdict(m) for m in analysis.moves],
        "hours": [
            {"partitions": n, "hour_ms": hour, "hottest": p, "most": most, "records": total}
            for n, hour, p, most, total in analysis.hours
        ],
        "max_share": analysis.max_share, "max_rate": analysis.max_rate,
        "rate_hour_ms": analysis.rate_hour, "rate_seconds": analysis.rate_seconds,
        "smallest": analysis.smallest, "tried": analysis.tried,
    }  # fmt: skip


def write_tables(analysis: KeySpread, folder: Path) -> None:
    """Write the analysis of a topic's keys to a folder, as Parquet files and ``keys.json``.

    The Parquet files are ``spread``, ``hottest``, ``changes`` and ``hours``.

    Raises:
        InvalidConfigError: the folder cannot be written.
    """
    import json

    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, list[Any]] = {"partitions": [], "partition": [], "records": [], "bytes": []}
    for n, (partition, records, size) in analysis.by_partition.items():
        columns["partitions"].append(np.full(len(partition), n, np.int64))
        for column, values in zip(("partition", "records", "bytes"), (partition, records, size),
                                  strict=True):  # fmt: skip
            columns[column].append(values)
    spread = {name_: np.concatenate(parts) for name_, parts in columns.items()}
    whole = _analysis_to_json(analysis)
    tables = {
        "spread": pa.table(spread),
        "hottest": pa.table({
            "key": pa.array([h.key for h in analysis.hottest], pa.binary()),
            "records": pa.array([h.records for h in analysis.hottest], pa.int64()),
            "bytes": pa.array([h.bytes for h in analysis.hottest], pa.int64()),
        }),
        "changes": pa.Table.from_pylist(whole["changes"]) if whole["changes"] else None,
        "hours": pa.Table.from_pylist(whole["hours"]) if whole["hours"] else None,
    }  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ready = {}
        for title, table in tables.items():  # all beside their places first: a kill leaves no half
            if table is not None:
                ready[f"{title}.parquet"] = folder / f".{title}.parquet.new"
                parquet.write_table(table, ready[f"{title}.parquet"])
        ready["keys.json"] = folder / ".keys.json.new"
        ready["keys.json"].write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        for title in tables:  # what an earlier run had and this one has not
            if f"{title}.parquet" not in ready:
                (folder / f"{title}.parquet").unlink(missing_ok=True)
        for place, new in ready.items():
            new.replace(folder / place)
    except OSError as e:
        reason = e.strerror or str(e)
        raise InvalidConfigError("--out", f"cannot be written ({reason})", str(folder)) from None


#: Keys named that share a partition.
_NAMED = 3


def format_key(key: bytes) -> str:
    """Format a record key as text if it is printable, else as hexadecimal digits.

    An empty key becomes two quotes.

    >>> format_key(b"veh-1"), format_key(bytes(4)), format_key(b"")
    ('veh-1', '0x00000000', "''")
    """
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    if not text:
        return "''"
    return text if text.isprintable() else f"0x{key.hex()}"


def key_advice(analysis: KeySpread) -> list[str]:
    """Return advice on the keys and the partition count of a topic, the most important first.

    It says, for example, which keys are too frequent for any partition count. ``analysis`` must
    have at least one hot key.
    """
    hot = analysis.hottest[0]
    lines = [
        f"No partition count can bring the hottest partition below {analysis.floor:.2%}: key "
        f"{format_key(hot.key)} alone is that much."
    ]
    lines += _shared(analysis)
    lines += _salted(analysis)
    if analysis.moves:
        lines.append(
            "A key that moves has its older records in one partition and its newer ones in "
            "another: their order is broken, and so is every join."
        )
    limit = _describe_limit(analysis)
    if limit:
        if analysis.smallest is not None:
            lines.append(f"{analysis.smallest:,} partitions are the fewest that keep the hottest "
                         f"one within {limit}.")  # fmt: skip
        elif analysis.tried == 0:
            lines.append(f"No partition count keeps the hottest one within {limit}: one key alone "
                         "is more.")  # fmt: skip
        elif analysis.tried is None:
            lines.append(f"Which count keeps within {limit} needs an exact run.")
        else:
            lines.append(f"No partition count up to {analysis.tried:,} keeps within {limit}.")
    return lines


def _describe_limit(analysis: KeySpread) -> str:
    """Describe the user's limit for the load of a partition as text.

    It is a share of all records, or a number of records per second.
    """
    # For a rate, the text also has the hour in which a partition got the most records.
    words = [] if analysis.max_share is None else [f"{analysis.max_share:.1%} of all records"]
    if analysis.max_rate is not None:
        text = f"{analysis.max_rate:,g} records a second"
        if analysis.rate_hour is not None:
            when = datetime.fromtimestamp(analysis.rate_hour / 1000, timezone.utc)
            text += (
                f" in the hour from {when:%Y-%m-%d %H:%M} UTC, in which one partition got most "
                f"(the input has {analysis.rate_seconds:,.0f} s of it)"
            )
        words.append(text)
    return " and ".join(words)


def _shared(found: KeySpread) -> list[str]:
    lines = []
    for n, load in found.loads.items():
        mine = [h for h in found.hottest if found.hot_at.get(h.key, {}).get(n) == load.hottest]
        if not mine or n == 1:
            continue
        text = [f"{format_key(h.key)} ({h.share:.1%})" for h in mine[:_NAMED]]
        rest = load.share - sum(h.share for h in mine[:_NAMED])
        others = f" and others ({rest:.1%})" if rest >= 0.0005 else " alone"
        lines.append(f"With {n:,} partitions the hottest one has {', '.join(text)}{others}.")
    return lines


def _salted(found: KeySpread) -> list[str]:
    most = max(found.loads)
    allowed = found.max_share if found.max_share is not None else 1 / most
    hot = [h for h in found.hottest if h.share > allowed and h.records > 2 * h.share / allowed]
    if not hot:
        return []
    parts = [ceil(h.share / allowed - 1e-9) for h in hot]
    text = [f"{format_key(h.key)} into {n:,}" for h, n in zip(hot, parts, strict=True)]
    more = len(text) - _NAMED
    text = [*text[:_NAMED], *([f"and {more:,} more that are listed above"] if more > 0 else [])]
    if len(hot) == len(found.hottest) and found.distinct != len(hot):
        text.append("and maybe keys below --top")
    of = (f"{allowed:.2%}, the limit" if found.max_share is not None
          else f"{allowed:.2%}, an even share of {most:,} partitions")  # fmt: skip
    first = format_key(hot[0].key)
    return [
        f"To get below that, split (salt) each key that has more than {of}: {', '.join(text)} "
        f"({first}-0 to {first}-{parts[0] - 1}, in turn). The hash places the parts, perhaps "
        "several in one partition: use more parts than that. The key's records then have no common "
        "order."
    ]
