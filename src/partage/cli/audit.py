"""`partage audit`: which partitioner wrote each topic, and which joins are broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.console import first_lines, print_message, print_tables, styled_name, write_json
from partage.cli.key_results import format_key
from partage.cli.options import (
    ClusterOptions,
    OutputOptions,
    SparkOptions,
    output_option,
    topic_option,
    with_options,
)
from partage.cli.progress import show_progress

if TYPE_CHECKING:
    from rich.table import Table

    from partage.jobs.audit.audit import Audit, BrokenJoin, TopicAudit
    from partage.keys.audit import JoinProblem

__all__ = [
    "audit",
    "broken_join_messages",
    "chance_text",
    "topic_messages",
    "unidentified_messages",
    "writer_label",
]

_PAGE = "audit.html"
#: Exit code: broken joins were found.
FOUND = 3
_LEGEND = (
    "by chance: how likely keys that anybody put anywhere would look so, all tries counted. "
    "Clients of one hash put each key into the same partition: no key tells them apart."
)
_STAGES = {
    "check": "looking at the input",
    "start Spark": "starting Spark in this process",
    "groups": "reading which topics groups read together",
    "topics": "reading and judging topics",
    "joins": "comparing topics",
}


@with_options
def audit(
    where: Annotated[
        str | None,
        typer.Argument(
            metavar="CAPTURE|TOPICS", show_default=False,
            help="A capture, Parquet with topic, partition, offset, timestamp_ms and key, or "
            "kafka://host:port/topic,topic.",
        ),
    ] = None,
    *,
    topic: Annotated[
        list[str] | None,
        topic_option("Repeatable. Without it, all topics of the input."),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option("--join", "-j", metavar="A,B", show_default=False,
                     help="Topics meant to be joined; repeatable."),
    ] = None,
    all_joins: Annotated[
        bool, typer.Option("--all-joins", help="Also topics that are only read together.")
    ] = False,
    to: Annotated[Path | None, output_option("Folder for audit.html and audit.json.")] = None,
    output: OutputOptions,
    cluster: ClusterOptions,
    spark: SparkOptions,
) -> None:  # fmt: skip
    """Find the partitioner that wrote each topic, and check the joins between topics.

    For each topic the audit prints the client libraries that may have written it, and when a second
    one started; keys with records in two partitions, whose order is broken; and how records without
    a key are spread. For each join that misses matches it prints the reason and example keys. The
    reason is a different partition count, partitioner or serializer.

        partage audit capture/

        partage audit capture/ --join orders,customers --json

        partage audit -b broker:9092 -t orders -t customers --join orders,customers --out audited

        partage audit -b broker:9093 --topic orders --command-config client.properties

    In a capture, topics that a group reads together are compared too. A join counts as intended if
    a streams group's topology joins the topics, or if they share keys and have equal partition
    counts.

    Exit code 3 if the writers of a topic disagree, or an intended join is broken; 0 if there is
    nothing to audit.
    """
    from partage.jobs.audit.audit import audit_topics

    if cluster.bootstrap_server is not None and not topic:
        raise typer.BadParameter("--bootstrap-server needs topics", param_hint="--topic")
    where = cluster.input_or_cluster(where, "CAPTURE|TOPICS", topic or ())
    joins = [[t.strip() for t in some.split(",") if t.strip()] for some in join or ()]
    for some in joins:
        if len(set(some)) < 2:
            raise typer.BadParameter("needs two topics or more: a,b", param_hint="--join")
    with show_progress(_STAGES, quiet=output.quiet or output.as_json) as progress:
        found = audit_topics(
            where, topics=topic, joins=joins, progress=progress, master=spark.master,
            conf=spark.spark_settings_by_name(), kafka=cluster.client_properties(),
        )  # fmt: skip
    if to is not None:
        _write_audit(found, to, where)
    if output.as_json:
        write_json(_as_json(found), indent=2)
    else:
        _print(found, all_joins=all_joins)
        if to is not None:
            print_tables(styled_name(f"page   {to / _PAGE}", "bold"))
    if not found.has_no_problem:
        raise typer.Exit(FOUND)


def _write_audit(result: Audit, folder: Path, source: str) -> None:
    """Write the result of an audit of topics' keys to a folder, as an HTML page and as JSON.

    The page lists the client libraries that wrote each topic, and the joins that miss records.

    Args:
        result: the result of the audit.
        folder: the folder, which is created if it does not exist.
        source: the audited input, which the page names.

    Raises:
        InvalidConfigError: the folder cannot be written.
    """
    import json

    from partage.errors import InvalidConfigError
    from partage.report.key_pages import TopicText, write_audit_page

    whole = _as_json(result)
    joins = []
    for join in result.joins:
        if join.meant:
            line, *examples = broken_join_messages(join.broken, join.groups)
            joins.append((line, [example.strip() for example in examples]))
    said = {
        t.topic: TopicText(writer_label(t), chance_text(t), topic_messages(t))
        for t in result.topics
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Both are written beside their places first, so that a kill leaves no half of either.
        ready = {folder / "audit.json": folder / ".audit.json.new",
                 folder / _PAGE: folder / f".{_PAGE}.new"}  # fmt: skip
        page, data = ready[folder / _PAGE], ready[folder / "audit.json"]
        data.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        write_audit_page(whole, page, title=source, texts=said, joins=joins)
        for place, new in ready.items():
            new.replace(place)
    except OSError as e:
        reason = e.strerror or str(e)
        raise InvalidConfigError("--out", f"cannot be written ({reason})", str(folder)) from None


def _as_json(found: Audit) -> dict[str, Any]:
    return {
        "clean": found.has_no_problem,
        "without_a_place": found.without_a_place,
        "topics": [asdict(t) | {"broken": t.needs_attention} for t in found.topics],
        "joins_looked_at": found.looked_at,
        "joins_not_looked_at": found.too_many,
        "joins": [_join_as_json(j) for j in found.joins],
    }


def _join_as_json(join: BrokenJoin) -> dict[str, Any]:
    b = join.broken
    examples = [
        {"key": k.hex(), "partitions": list(p), "other_key": o.hex(), "other_partitions": list(q)}
        for k, p, o, q in b.examples
    ]
    return {
        "kind": b.kind, "topics": list(b.topics), "words": b.words, "meant": join.meant,
        "groups": list(join.groups), "examples": examples,
    }  # fmt: skip


def _print(found: Audit, *, all_joins: bool) -> None:
    print_tables(_table(found))
    print_tables(styled_name(_LEGEND, "dim"))
    for topic in found.topics:
        print_tables(*(styled_name(line) for line in topic_messages(topic)))
    for join in found.joins:
        if join.meant or all_joins:
            print_tables(
                *(styled_name(line) for line in broken_join_messages(join.broken, join.groups))
            )
    if found.without_a_place:
        text = f"{found.without_a_place:,} records without a topic or a partition were left out"
        print_tables(styled_name(text, "bold"))
    for line in unidentified_messages(found.topics):
        print_tables(styled_name(line))
    if found.too_many:
        text = f"{found.too_many:,} pairs of topics were not compared: one group reads all of them"
        print_tables(styled_name(f"{text}; --join says which belong together"))
    mixed = sum(t.needs_attention for t in found.topics)
    meant = {j.broken.topics for j in found.joins if j.meant}
    others = {j.broken.topics for j in found.joins} - meant
    if others and not all_joins:
        text = f"{len(others)} more pairs of topics that groups read together would not join"
        print_tables(styled_name(f"{text}: --all-joins lists them"))
    words = (
        f"{_many(len(found.topics), 'topic')}, {mixed} with writers that disagree; "
        f"{_many(found.looked_at, 'pair')} of topics looked at, {_many(len(meant), 'broken join')}"
    )
    print_message(words, "bold" if found.has_no_problem else "bold red")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _table(found: Audit) -> Table:
    from rich.table import Table

    # Narrow on purpose: all eight columns stand in 80, and a cell of numbers is never cut.
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("topic", overflow="fold", min_width=min(17, _longest(found)))
    table.add_column("parti-\ntions", justify="right", no_wrap=True)
    table.add_column("records", justify="right", no_wrap=True)
    table.add_column("written by", overflow="fold", min_width=18)
    table.add_column("ex-\nplained", justify="right", no_wrap=True)
    table.add_column("by\nchance", justify="right", no_wrap=True)
    table.add_column("without\na key", min_width=10)
    table.add_column("keys\nsplit", justify="right", no_wrap=True)
    for t in found.topics:
        counts = " → ".join(str(n) for n in t.counts)
        nulls = f"{t.nulls['records']:,}: {t.nulls['behaviour']}" if t.nulls["records"] else "none"
        table.add_row(
            styled_name(t.topic), counts if t.counts_known else f"{counts}?", f"{t.records:,}",
            styled_name(writer_label(t), "bold red" if t.needs_attention else ""),
            f"{t.explained:.1%}" if t.writers else "", chance_text(t),
            nulls, f"{t.split['keys']:,}" if t.split["keys"] else "",
        )  # fmt: skip
    return table


def _longest(found: Audit) -> int:
    return max([len(t.topic) for t in found.topics], default=5)


#: Exponents below this are shown as this limit.
_LEAST = -99
#: Spans shorter than this are shown in milliseconds.
_SHORT_MS = 10_000
_CHANGELOG, _REPARTITION = "-changelog", "-repartition"
_JOIN_REMEDIES = {
    "partition counts": "copy one of them into a topic with as many partitions as the other has",
    "serializers": "have both write the key in one form: other bytes are another key",
    "keys apart": "see which of them has two writers, grew, or has a producer that names its "
    "partitions, and mend that first",
}


def writer_label(topic: TopicAudit) -> str:
    """Return a label for the client libraries that may have written a topic, with their hash.

    An example is "Java, kafka-python (murmur2)". If the writers are unknown, the label says why.
    """
    if topic.status == "one partition":
        return "anybody: 1 partition"
    if not topic.writers:
        return (
            topic.status
            if topic.status != "too few keys"
            else f"{topic.keys} keys: too few to tell"
        )
    lone = len({w["name"] for w in topic.writers}) == 1
    keyless = topic.nulls["behaviour"] if lone else ""
    return " and ".join(dict.fromkeys(_client(w, keyless) for w in topic.writers))


def _client(w: dict[str, Any], keyless: str = "") -> str:
    from partage.keys.audit.client_names import label_clients, select_by_null_keys

    return label_clients(select_by_null_keys(w["clients"], keyless), w["hash"], w["hashes"])


def chance_text(topic: TopicAudit) -> str:
    """Return the probability that a topic's keys fit the named client libraries by chance, as text.

    It is the p-value for keys that were placed at random, such as ``1e-12``. If several clients
    wrote to the topic, it is the largest one. The text is empty if no partitioner fits.
    """
    if not topic.writers:
        return ""
    least = max(w["log10_chance"] for w in topic.writers)
    return f"<1e{_LEAST}" if least < _LEAST else f"1e{int(least)}"


def topic_messages(topic: TopicAudit) -> list[str]:
    """Return messages for the user about problems with the keys of a topic.

    An example of a problem is a second client that places keys in other partitions. The messages
    have example keys and advice.
    """
    lines = []
    if topic.status == "mixed":
        came = [f"{_client(w)} {_format_span(w['first_ms'], w['last_ms'])}" for w in topic.writers]
        count = len({w["name"] for w in topic.writers})
        lines.append(f"{topic.topic}: {count} writers disagree: {'; '.join(came)} (UTC)")
    rivals = sorted({r for w in topic.writers for r in w["rivals"]})
    if rivals:
        lines.append(f"{topic.topic}: cannot be distinguished from {', '.join(rivals)}")
    if topic.split["writers"]:
        text = _examples(topic, "two writers", topic.split["writers"])
        lines.append(f"{topic.topic}: {topic.split['writers']:,} keys live in two partitions, "
                     f"their order is broken: {text}")  # fmt: skip
    if topic.status == "mixed":
        lines.append(f"{topic.topic}: {_what_to_do(topic)}")
    if topic.has_scattered_keys:
        text = _examples(topic, "unexplained", topic.split["unexplained"])
        lines.append(f"{topic.topic}: {topic.split['unexplained']:,} of {topic.keys:,} keys live "
                     "in several partitions, and no partitioner explains why: "
                     f"{text}. Does a producer name the partition, or go round robin "
                     "whatever the key?")  # fmt: skip
    if topic.sampled > 1:
        lines.append(f"{topic.topic}: a sample of its keys was audited, one in {topic.sampled:,}")
    return lines


def unidentified_messages(topics: Sequence[TopicAudit]) -> list[str]:
    """Return messages about topics whose writers the audit cannot identify.

    Such a topic has only one partition, or too few keys.
    """
    from partage.keys.audit.writers import FEWEST_KEYS

    one = [t.topic for t in topics if t.status == "one partition"]
    few = [t.topic for t in topics if t.status == "too few keys"]
    lines = []
    if one:
        lines.append(f"{', '.join(first_lines(one))}: of one partition, which every partitioner "
                     "fits: its writer is unknown, and no key can be in a wrong place")  # fmt: skip
    if few:
        lines.append(f"{', '.join(first_lines(few))}: fewer than {FEWEST_KEYS} keys, of which any "
                     "partitioner may fit some by chance: who wrote it, and whether a second one "
                     "did is unknown; keys in several partitions are")  # fmt: skip
    return lines


def _what_to_do(t: TopicAudit) -> str:
    if t.topic.endswith((_CHANGELOG, _REPARTITION)):
        return ("Kafka Streams writes this topic itself, each task its own partition: it follows "
                "from the topics that the task reads; mend those")  # fmt: skip
    from partage.keys.audit.client_names import advise_settings

    return advise_settings([w["partitioners"] for w in t.writers])


def _examples(t: TopicAudit, reason: str, count: int) -> str:
    mine = [e for e in t.split["examples"] if e["reason"] == reason]
    text = [f"{format_key(bytes.fromhex(e['key']))} in {' and '.join(str(s[0]) for s in e['seen'])}"
            for e in mine]  # fmt: skip
    return "; ".join(first_lines(text, total=count))


def broken_join_messages(join_problem: JoinProblem, groups: Sequence[str]) -> list[str]:
    """Return messages about a join of two topics that misses records with equal keys.

    They have the reason, example keys, and advice.

    Args:
        join_problem: the reason and examples.
        groups: the consumer groups that read both topics.
    """
    from partage.keys.audit.client_names import advise_settings

    one, other = join_problem.topics
    read = f" (read together by {', '.join(first_lines(groups))})" if groups else ""
    lines = [f"join of {one} and {other}{read}: {join_problem.words}"]
    for key, mine, theirs_key, theirs in join_problem.examples[:3]:
        again = "" if theirs_key == key else f"{format_key(theirs_key)} "
        lines.append(f"    {format_key(key)} in partition {_numbers(mine)} of {one}, {again}in "
                     f"{_numbers(theirs)} of {other}")  # fmt: skip
    text = _JOIN_REMEDIES.get(join_problem.kind) or advise_settings(join_problem.partitioners)
    return [*lines, f"    what to do: {text}"]


def _numbers(partitions: Sequence[int]) -> str:
    return " and ".join(str(p) for p in partitions)


def _format_span(first_ms: int, last_ms: int) -> str:
    """Format a time range as text: its first and last time in UTC.

    The arguments are Unix times in milliseconds. Short ranges are shown with milliseconds.

    >>> _format_span(0, 61_000), _format_span(5, 1_700)
    ('1970-01-01 00:00:00 to 00:01:01', '1970-01-01 00:00:00.005 to 00:00:01.700')
    """
    ends = [datetime.fromtimestamp(ms / 1000, timezone.utc) for ms in (first_ms, last_ms)]
    exactly = "milliseconds" if last_ms - first_ms < _SHORT_MS else "seconds"
    first, last = (end.replace(tzinfo=None).isoformat(" ", exactly) for end in ends)
    return f"{first} to {last[11:] if ends[0].date() == ends[1].date() else last}"
