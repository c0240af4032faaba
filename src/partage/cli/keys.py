"""`partage keys`: which partition a key goes to, in every client; and which clients agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.console import print_tables, short_name, stdout_console, styled_name, write_json
from partage.cli.key_results import KeyOptions, analyse_and_print
from partage.cli.options import (
    ClusterOptions,
    OutputOptions,
    SparkOptions,
    named_options,
    output_option,
    topic_option,
    with_options,
    write_picture,
)
from partage.errors import InvalidConfigError, InvalidKeysError

if TYPE_CHECKING:
    from partage.forecasts.growth import DrainTime
    from partage.keys.agreement import Agreement

__all__ = ["keys", "serialize_key", "show_growth", "show_one_key"]

_KEYS = 2000
#: Old partitions whose successors `--grow` prints.
_MOST_SHOWN = 4


@with_options
def keys(
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="INPUT", show_default=False,
            help="Parquet, CSV or JSON (file or folder), a Delta table, or kafka://host:port/topic.",
        ),
    ] = None,
    *,
    options: KeyOptions,
    to: Annotated[Path | None, output_option("Folder for tables and a page.")] = None,
    who_agrees: Annotated[
        bool, typer.Option("--who-agrees", help="Run all partitioners on the same keys.")
    ] = False,
    partitioners: Annotated[
        bool, typer.Option("--list", help="List the partitioners and what each equals.")
    ] = False,
    grow: Annotated[
        tuple[int, int] | None,
        typer.Option("--grow", metavar="N M", show_default=False,
                     help="Show which keys move from N to M partitions, and the safe sequence."),
    ] = None,
    lag: Annotated[
        list[str] | None,
        typer.Option("--lag", metavar="GROUP=RECORDS", show_default=False,
                     help="Lag of a consumer group on the topic, for --grow; repeatable. With "
                     "--topic, that of all groups by default."),
    ] = None,
    drain_rate: Annotated[
        list[str] | None,
        typer.Option("--drain-rate", metavar="[GROUP=]RATE", show_default=False,
                     help="Records per second that each group reads when it catches up, or one "
                     "group; repeatable."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", show_default=False,
                     help="Write a picture of the result as SVG. Needs --grow."),
    ] = None,
    cluster: ClusterOptions,
    topic: Annotated[str | None, topic_option("Of --bootstrap-server.")] = None,
    spark: SparkOptions,
    output: OutputOptions,
) -> None:  # fmt: skip
    """Show how keys spread over partitions, and which keys a new partition count moves.

    For each partition count: records and bytes by partition, the hottest keys, and the
    lower bound of the hottest partition's share at any count. For each change: the keys that move.

        partage keys flights.parquet --key tailnum --partitions 6,12,24

        partage keys orders/ --key id --serializer long --time created --max-share 0.1 --out spread

        partage keys events/ --key meta.tenant --partitions 24

    Without an input, the partition of one key in every client:

        partage keys --key user-1 --partitions 12

    The keys of a topic:

        partage keys -b broker:9093 --topic orders --command-config client.properties

    Threads of this process count files of up to 2 GiB (these columns, uncompressed). Spark reads
    larger files, Delta tables and topics, and all inputs with --master or --conf.

    Two clients that put one key into two partitions break every join between their topics. To
    see which clients agree, run them all on the same keys, at several counts:

        partage keys --who-agrees

        partage keys --list

    Before a topic gets more partitions: which keys move, and the safe order of steps:

        partage keys --grow 12 24 --lag billing=40000 --drain-rate 800

        partage keys orders/ --key id --grow 12 24
    """
    is_alone = options.partitions == KeyOptions.partitions and (grow, where, options.key) == (
        None, None, None,
    )  # fmt: skip
    for option, is_given in (("--who-agrees", who_agrees), ("--list", partitioners)):
        if is_given and not is_alone:
            what = "runs alone, without INPUT, --key, --partitions and --grow"
            raise typer.BadParameter(what, param_hint=option)
    if who_agrees:
        _who_agrees(output.as_json)
        return
    if partitioners:
        _list(options.partitioner, as_json=output.as_json)
        return
    if (cluster.bootstrap_server is None) != (topic is None):
        raise typer.BadParameter("--bootstrap-server and --topic go together")
    _check_growth_options(
        grow, options, has_input=where is not None or topic is not None,
        growth_options={"--lag": lag, "--drain-rate": drain_rate, "--picture": picture},
    )  # fmt: skip
    unused = {
        "--value": options.value, "--time": options.time, "--max-share": options.max_share,
        "--max-rate": options.max_rate, "--approximate": options.approximate or None,
        "--out": to, "--command-config": cluster.command_config,
        "--property": cluster.properties, "--master": spark.master, "--conf": spark.conf,
    }  # fmt: skip
    growth: dict[str, Any] = {}
    if grow is not None:
        if where is None and topic is None:
            what = "needs an INPUT; without one --grow shows the shares of any hash"
            _reject_input_options({"--serializer": options.serializer, **unused}, what)
        if drain_rate and not lag and topic is None:
            raise typer.BadParameter("needs --lag, or --topic", param_hint="--drain-rate")
        options = replace(options, partitions=f"{grow[0]},{grow[1]}")
        if not lag and topic is not None and cluster.bootstrap_server is not None:
            lag = _read_lags(cluster, topic)
        growth = show_growth(grow, lag or [], drain_rate or [], output, picture)
        if where is None and topic is None:
            if output.as_json:
                write_json(growth)
            return
    if where is not None or topic is not None:
        where = cluster.input_or_cluster(where, "INPUT", [topic or ""])
        if options.key is None and not where.startswith("kafka://"):
            raise typer.BadParameter("which column is the key?", param_hint="--key")
        kafka = cluster.client_properties()
        analyse_and_print(
            where, options, spark=spark, kafka=kafka, to=to, output=output, more=growth
        )
    elif options.key is not None:
        what = "needs an INPUT; without one the partition of a single key is printed"
        _reject_input_options(unused, what)
        show_one_key(options.key, options.partition_counts(), options.partitioner,
                     options.serializer, as_json=output.as_json)  # fmt: skip
    else:
        raise typer.BadParameter("give an INPUT, a --key, or say --who-agrees or --list")


def show_growth(
    counts: tuple[int, int],
    lags: Sequence[str],
    drain_rates: Sequence[str],
    output: OutputOptions,
    picture: Path | None = None,
) -> dict[str, Any]:
    """Print the safe order of steps to add partitions to a topic, and which keys move.

    The result is the same information as a JSON object. With ``--json`` nothing is printed here.

    Args:
        counts: the old and the new number of partitions.
        lags: ``GROUP=RECORDS`` texts; the time that each group needs to read these records is
            printed.
        drain_rates: ``RATE`` or ``GROUP=RATE`` texts, in records per second.
        output: whether to print tables or JSON.
        picture: path of an SVG picture; None for none.

    Raises:
        InvalidConfigError: the counts do not grow, a lag is not GROUP=RECORDS, a rate is not
            positive or names an unknown group, or the picture cannot be written.
    """
    from partage.forecasts.growth import plan_growth

    with named_options(lag="--lag", drain_rate="--drain-rate", grow="--grow"):
        drains = _parse_drains(lags, drain_rates)
        found = plan_growth(*counts, drains)
    if picture is not None:
        from partage.forecasts.pictures import growth_picture

        write_picture(picture, growth_picture(found, drains))
    document = {
        "format": "partage-growth", "version": 1, "growth": asdict(found),
        "drain_times": [asdict(one) for one in drains],
    }  # fmt: skip
    if output.as_json:
        return document
    text = (
        f"{found.before} to {found.after} partitions: {found.moved:.0%} of the keys move (by hash)"
    )
    print_tables(styled_name(text, "bold"))
    for p, successors in enumerate(found.successors[:_MOST_SHOWN]):
        print_tables(styled_name(f"  partition {p}: keys go to {', '.join(map(str, successors))}"))
    if len(found.successors) > _MOST_SHOWN:
        print_tables(
            styled_name(f"  and so on for {len(found.successors) - _MOST_SHOWN} more", "dim")
        )
    for one in drains:
        known = "give --drain-rate for the time" if one.seconds is None else (
            f"read after {one.seconds:,.0f} s"
        )  # fmt: skip
        print_tables(styled_name(f"{one.group}: {one.lag:,} old records, {known}"))
    print_tables(styled_name("Before", "bold"))
    for condition in found.conditions:
        print_tables(styled_name(f"  - {condition}"))
    print_tables(styled_name("Safe sequence", "bold"))
    for number, step in enumerate(found.steps, 1):
        print_tables(styled_name(f"  {number}. {step}"))
    print_tables(styled_name(f"  or, without a stop: {found.alternative}"))
    return document


def _check_growth_options(
    grow: tuple[int, int] | None,
    options: KeyOptions,
    *,
    has_input: bool,
    growth_options: Mapping[str, object],
) -> None:
    """Check that each option of ``partage keys`` that the user has set has an effect.

    Some options need ``--grow``, others have no effect with it. The user would not notice that such
    an option was ignored.

    Args:
        grow: value of ``--grow``.
        options: the key and the partition counts.
        has_input: whether the command reads keys from an input.
        growth_options: values of the options that need ``--grow``, by name.

    Raises:
        typer.BadParameter: such an option is given.
    """
    if grow is None:
        for option, value in growth_options.items():
            if value is not None:
                raise typer.BadParameter("needs --grow", param_hint=option)
    elif options.partitions != KeyOptions.partitions:
        raise typer.BadParameter("--grow has the partition counts", param_hint="--partitions")
    elif options.partitioner != KeyOptions.partitioner and not has_input:
        what = "needs an INPUT beside --grow; the shares are those of any hash"
        raise typer.BadParameter(what, param_hint="--partitioner")
    elif options.key is not None and not has_input:
        what = "needs an INPUT beside --grow, of which it is a column"
        raise typer.BadParameter(what, param_hint="--key")


def _read_lags(cluster: ClusterOptions, topic: str) -> list[str]:
    """Read the lags of a running cluster's consumer groups on a topic, as values of ``--lag``.

    Each value is a text such as ``billing=40000``.

    Args:
        cluster: the running cluster.
        topic: name of the topic.
    """
    from partage.commands.live_groups import topic_lags

    found = topic_lags(cluster.broker_addresses(), topic, properties=cluster.client_properties())
    return [f"{group}={records}" for group, records in found.items()]


def _parse_drains(lags: Sequence[str], drain_rates: Sequence[str]) -> list[DrainTime]:
    """Parse the options ``--lag`` and ``--drain-rate`` of ``partage keys``.

    The result says how long each consumer group needs to read its old records.

    Args:
        lags: values of the option ``--lag``.
        drain_rates: values of the option ``--drain-rate``.

    Raises:
        InvalidConfigError: a text has another form, or a rate names a group without a lag.
    """
    from partage.forecasts.growth import drain_time

    records: dict[str, int] = {}
    for text in lags:
        group, _, number = text.rpartition("=")
        if not group or not number.isdecimal():
            raise InvalidConfigError("lag", "must be GROUP=RECORDS, such as billing=40000", text)
        if group in records:
            raise InvalidConfigError("lag", "names a group twice", text)
        records[group] = int(number)
    rates: dict[str, float] = {}
    for text in drain_rates:
        group, _, number = text.rpartition("=")
        if group in rates:
            raise InvalidConfigError("drain_rate", "is given twice for the same group", text)
        try:
            rates[group] = float(number)
        except ValueError:
            what = "must be RATE or GROUP=RATE, such as billing=800"
            raise InvalidConfigError("drain_rate", what, text) from None
        if not 0 < rates[group] < inf:
            raise InvalidConfigError("drain_rate", "must be a positive number", text)
        if group and group not in records:
            raise InvalidConfigError("drain_rate", "names a group without --lag", text)
    common = rates.get("")
    return [
        drain_time(group, number, drain_rate=rates.get(group, common))
        for group, number in records.items()
    ]


def _reject_input_options(options: Mapping[str, object], message: str) -> None:
    """Raise an error if an option of ``partage keys`` is set that needs the argument INPUT.

    Such an option would have no effect. The error names the first one.

    Args:
        options: the values of all such options, by name.
        message: the error message.

    Raises:
        typer.BadParameter: such an option is given.
    """
    given = [name for name, value in options.items() if value is not None and value != []]
    if given:
        raise typer.BadParameter(message, param_hint=given[0])


def _list(partitioner: str, *, as_json: bool) -> None:
    from partage.keys import describe_partitioners

    rows = describe_partitioners(partitioner)
    if as_json:
        write_json([row._asdict() for row in rows], indent=1)
        return
    console = stdout_console()
    for row in rows:
        console.print(styled_name(f"{row.name:30}{row.exact_to or '-'}"), soft_wrap=True)
        console.print(styled_name(f"  {row.summary}", "dim"), soft_wrap=True)


def _who_agrees(as_json: bool) -> None:
    from partage.keys.agreement import who_agrees

    found = who_agrees(keys=_KEYS)
    if as_json:
        write_json(_as_json(found), indent=1)
        return
    console = stdout_console()
    counts = ", ".join(map(str, found.counts))
    console.print(
        styled_name(
            f"{found.keys:,} keys, each at {counts} partitions; a group agrees on every one", "bold"
        ),
        soft_wrap=True,
    )
    place = {one: i for i, one in enumerate(found.names)}
    for group in found.groups:
        console.print()
        console.print(styled_name(group[0], "bold green"), soft_wrap=True)
        for one in group:
            special = f"null {found.null[place[one]]}; empty {found.empty[place[one]]}"
            console.print(styled_name(f"  {one:30}{special}"), soft_wrap=True)
    console.print()
    console.print(
        styled_name("of keys in the same partition, between groups", "bold"), soft_wrap=True
    )
    _shares(found)


def _shares(found: Agreement) -> None:
    console = stdout_console()
    heads = [group[0] for group in found.groups]
    place = [found.names.index(one) for one in heads]
    wide = max(map(len, heads)) + 4
    numbers = "".join(f"{i + 1:>6}" for i in range(len(heads)))
    console.print(styled_name(" " * (wide + 2) + numbers, "dim"), soft_wrap=True)
    for i, one in enumerate(heads):
        shares = "".join(f"{found.share[place[i], j]:>6.0%}" for j in place)
        console.print(styled_name(f"{i + 1:>2} {one:{wide - 1}}{shares}"), soft_wrap=True)


def _as_json(found: Agreement) -> dict[str, object]:
    return {
        "keys": found.keys,
        "partitions": list(found.counts),
        "groups": [list(group) for group in found.groups],
        "partitioners": [
            {"name": one, "null": null, "empty": empty}
            for one, null, empty in zip(found.names, found.null, found.empty, strict=True)
        ],
        "share": {
            one: {other: round(float(found.share[i, j]), 4) for j, other in enumerate(found.names)}
            for i, one in enumerate(found.names)
        },
    }


#: A time window behind the key, as Kafka Streams writes it: `streams:windowed` leaves it out.
_WINDOW = bytes(8)


def show_one_key(
    key: str, counts: Sequence[int], partitioner: str, serializer: str | None, *, as_json: bool
) -> None:
    """Print to which partition each Kafka client sends one key.

    There is a column for each partition count.

    Args:
        key: the key as text.
        counts: the partition counts.
        partitioner: name of a partitioner to show besides those of the client libraries.
        serializer: name of the serializer that turns the key into bytes; None for text.
        as_json: whether to print JSON.

    Raises:
        InvalidConfigError: a count or the serializer cannot be used.
        InvalidKeysError: the number does not fit the serializer.
        UnknownPartitionerError: no partitioner has the name.
    """
    from partage.keys import by_key, partition_for
    from partage.keys.registry import find_partitioner

    data = serialize_key(key, serializer)
    chosen = find_partitioner(partitioner).name
    names = [*by_key(), *([chosen] if chosen not in by_key() else [])]
    if not counts:
        raise InvalidConfigError("--partitions", "needs at least one count", "")
    rows: list[tuple[str, list[int | None]]] = []
    refused: dict[str, str] = {}
    for one in names:
        given = data + _WINDOW if one == "streams:windowed" else data
        try:
            placed = [int(partition_for(given, partitions=n, partitioner=one)[0]) for n in counts]
        except InvalidKeysError as e:
            # Some clients hash text only: the others have an answer for these bytes.
            refused[one] = e.what
            placed = [-1] * len(counts)
        rows.append((one, [at if at >= 0 else None for at in placed]))
    if as_json:
        document = {"key": key, "bytes": data.hex(), "serializer": serializer or "string"}
        write_json({**document, "partitioners": _rows_to_json(counts, rows, refused)}, indent=1)
        return
    console = stdout_console()
    form = serializer or "string"
    title = f"key {short_name(repr(key))}, {len(data)} bytes by {form}: partition"
    console.print(styled_name(title, "bold"))
    wide = max(len(one) for one, _ in rows) + 2
    head = "".join(f"{f'of {n}':>10}" for n in counts)
    console.print(styled_name(" " * wide + head, "dim"), soft_wrap=True)
    for one, found in rows:
        missing = "x" if one in refused else "-"
        cells = "".join(f"{missing if at is None else at:>10}" for at in found)
        console.print(styled_name(f"{one:{wide}}{cells}"), soft_wrap=True)
    if any(None in found for one, found in rows if one not in refused):
        console.print(styled_name("-: left to turns or chance", "dim"))
    for what in dict.fromkeys(refused.values()):
        console.print(styled_name(f"x: no partition, the key {what}", "dim"))


def serialize_key(key: str, serializer: str | None) -> bytes:
    """Serialize a key from the command line to bytes with a named serializer.

    The name is "string", "short", "int", "long", "float" or "double"; None stands for "string".

    Raises:
        InvalidConfigError: no serializer has the name, or the key is not a number.
        InvalidKeysError: the number does not fit the serializer.

    >>> serialize_key("42", None), serialize_key("42", "short").hex()
    (b'42', '002a')
    """
    from partage.keys import serializers

    if serializer in {None, "string"}:
        return serializers.string(key)
    whole = {"short": serializers.short, "int": serializers.int_, "long": serializers.long_}
    real = {"float": serializers.float_, "double": serializers.double}
    try:
        if serializer in whole:
            return whole[serializer](int(key))
        if serializer in real:
            return real[serializer](float(key))
    except ValueError:
        raise InvalidConfigError("--key", f"is no number for {serializer}", key) from None
    known = ", ".join(["string", *whole, *real])
    raise InvalidConfigError("--serializer", f"is unknown; known: {known}", serializer)


def _rows_to_json(
    counts: Sequence[int],
    rows: Sequence[tuple[str, list[int | None]]],
    refused: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return the partitions to which each Kafka client sends one key, as JSON objects.

    The object of a client that does not accept the key has the reason.

    Args:
        counts: the partition counts.
        rows: pairs of a client and its partition at each count.
        refused: the reason for each client that does not accept the key.
    """
    return [
        {
            "name": one,
            "partitions": {str(n): at for n, at in zip(counts, found, strict=True)},
            **({"refused": refused[one]} if one in refused else {}),
        }
        for one, found in rows
    ]
