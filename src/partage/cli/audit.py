"""`partage audit`: which partitioner wrote each topic, and which joins are broken."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partage.cli.consoles import first_of, name, show, tell, write_json
from partage.cli.key_spread import shown
from partage.cli.working import working

if TYPE_CHECKING:
    from rich.table import Table

    from partage.keys.audit import Broken
    from partage.pipeline.audit import Audit, BrokenJoin, TopicFound

__all__ = ["audit"]

_PAGE = "audit.html"
#: Something was found that somebody should look at.
FOUND = 3
_STAGES = {
    "check": "looking at the input",
    "start Spark": "starting Spark in this process",
    "groups": "reading which topics groups read together",
    "topics": "reading and judging topics",
    "joins": "comparing topics",
}


def audit(
    where: Annotated[
        str,
        typer.Argument(
            metavar="CAPTURE|TOPICS",
            help="A capture, Parquet with topic, partition, offset, timestamp_ms and key, or "
            "kafka://host:port/topic,topic.",
        ),
    ],
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Only this topic; repeatable.", show_default=False),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option("--join", "-j", metavar="A,B", show_default=False,
                     help="Topics meant to be joined; repeatable."),
    ] = None,
    all_joins: Annotated[
        bool, typer.Option("--all-joins", help="Also topics that are only read together.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for audit.html and audit.json.",
                                  show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:  # fmt: skip
    """Which partitioner wrote each topic, and do topics that are meant to be joined join?

    From the keys and where they lie: the client that wrote them, and when a second one came;
    keys that live in two partitions, so that their order is broken; what became of records
    without a key; and topics whose join is broken by another partition count, another
    partitioner or another serializer of the same key, with example keys.

        partage audit capture/

        partage audit capture/ --join orders,customers --json

        partage audit kafka://broker:9092/orders,customers --join orders,customers --out audited

    In a capture, topics that a group reads together are compared too. They count as meant to be
    joined where a streams group's topology joins them, or where they share keys and have as
    many partitions.

    Exit code 3 if a topic has writers that disagree, or a join that is meant is broken; 0 if
    there is nothing to look at.
    """
    from partage.pipeline.audit import audit_topics

    joins = [[t.strip() for t in some.split(",") if t.strip()] for some in join or ()]
    for some in joins:
        if len(set(some)) < 2:
            raise typer.BadParameter("needs two topics or more: a,b", param_hint="--join")
    with working(_STAGES, quiet=quiet or as_json) as progress:
        found = audit_topics(where, topics=topic, joins=joins, progress=progress)
    if to is not None:
        _write(found, to, where)
    if as_json:
        write_json(_as_json(found), indent=2)
    else:
        _print(found, all_joins=all_joins)
        if to is not None:
            show(name(f"page   {to / _PAGE}", "bold"))
    if not found.clean:
        raise typer.Exit(FOUND)


def _write(found: Audit, folder: Path, where: str) -> None:
    """The page, and the same for programs.

    Raises:
        InvalidConfigError: the folder cannot be written.
    """
    import json

    from partage.errors import InvalidConfigError
    from partage.report.audit import write_audit_page

    whole = _as_json(found)
    joins = []
    for join in found.joins:
        if join.meant:
            line, *examples = _join(join.broken, join.groups)
            joins.append((line, [example.strip() for example in examples]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "audit.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        findings = {t.topic: _findings(t) for t in found.topics}
        write_audit_page(whole, folder / _PAGE, title=where, findings=findings, joins=joins)
    except OSError as e:
        reason = e.strerror or str(e)
        raise InvalidConfigError("--out", f"cannot be written ({reason})", str(folder)) from None


def _as_json(found: Audit) -> dict[str, Any]:
    return {
        "clean": found.clean,
        "without_a_place": found.without_a_place,
        "topics": [asdict(t) | {"broken": t.broken} for t in found.topics],
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
    show(_table(found))
    for topic in found.topics:
        show(*(name(line) for line in _findings(topic)))
    for join in found.joins:
        if join.meant or all_joins:
            show(*(name(line) for line in _join(join.broken, join.groups)))
    if found.without_a_place:
        told = f"{found.without_a_place:,} records without a topic or a partition were left out"
        show(name(told, "bold"))
    if found.too_many:
        told = f"{found.too_many:,} pairs of topics were not compared: one group reads all of them"
        show(name(f"{told}; --join says which belong together"))
    mixed = sum(t.broken for t in found.topics)
    meant = {j.broken.topics for j in found.joins if j.meant}
    others = {j.broken.topics for j in found.joins} - meant
    if others and not all_joins:
        told = f"{len(others)} more pairs of topics that groups read together would not join"
        show(name(f"{told}: --all-joins tells of them"))
    words = (
        f"{len(found.topics)} topics, {mixed} with writers that disagree; {found.looked_at} pairs "
        f"of topics looked at, {len(meant)} broken {'join' if len(meant) == 1 else 'joins'}"
    )
    tell(words, "bold" if found.clean else "bold red")


def _table(found: Audit) -> Table:
    from rich.table import Table

    # Narrow on purpose: all seven columns stand in 80, and a cell of numbers is never cut.
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("topic", overflow="fold", min_width=min(17, _longest(found)))
    table.add_column("parti-\ntions", justify="right", no_wrap=True)
    table.add_column("records", justify="right", no_wrap=True)
    table.add_column("written by", overflow="fold", min_width=21)
    table.add_column("ex-\nplained", justify="right", no_wrap=True)
    table.add_column("without\na key", min_width=10)
    table.add_column("keys\nsplit", justify="right", no_wrap=True)
    for t in found.topics:
        counts = " → ".join(str(n) for n in t.counts)
        nulls = f"{t.nulls['records']:,}: {t.nulls['behaviour']}" if t.nulls["records"] else "none"
        table.add_row(
            name(t.topic), counts if t.counts_known else f"{counts}?", f"{t.records:,}",
            name(_writers(t), "bold red" if t.broken else ""),
            f"{t.explained:.1%}" if t.writers else "",
            nulls, f"{t.split['keys']:,}" if t.split["keys"] else "",
        )  # fmt: skip
    return table


def _longest(found: Audit) -> int:
    return max([len(t.topic) for t in found.topics], default=5)


def _writers(t: TopicFound) -> str:
    """The family by its first name; how many share it is told below the table."""
    if t.status == "one partition":
        return "anybody: 1 partition"
    if not t.writers:
        return t.status if t.status != "too few keys" else f"{t.keys} keys: too few to tell"
    names = dict.fromkeys(w["name"] for w in t.writers)
    return " and ".join(names)


def _findings(t: TopicFound) -> list[str]:
    lines = []
    names = list(dict.fromkeys(w["name"] for w in t.writers))
    if t.status == "mixed":
        came = [f"{w['name']} from {_time(w['first_ms'])}" for w in t.writers]
        lines.append(f"{t.topic}: {len(names)} writers disagree: {', '.join(came)}")
    rivals = sorted({r for w in t.writers for r in w["rivals"]})
    if rivals:
        lines.append(f"{t.topic}: cannot be told from {', '.join(rivals)}")
    if t.split["writers"]:
        lines.append(f"{t.topic}: {t.split['writers']:,} keys live in two partitions, their order "
                     f"is broken: {'; '.join(first_of(_examples(t)))}")  # fmt: skip
    if t.scattered:
        lines.append(f"{t.topic}: {t.split['unexplained']:,} of {t.keys:,} keys live in several "
                     "partitions, and no partitioner explains why: "
                     f"{'; '.join(first_of(_examples(t, 'unexplained')))}")  # fmt: skip
    if t.sampled > 1:
        lines.append(f"{t.topic}: so many keys that one in {t.sampled:,} was looked at")
    return lines


def _examples(t: TopicFound, reason: str = "two writers") -> list[str]:
    mine = [e for e in t.split["examples"] if e["reason"] == reason]
    return [f"{shown(bytes.fromhex(e['key']))} in {' and '.join(str(s[0]) for s in e['seen'])}"
            for e in mine]  # fmt: skip


def _join(broken: Broken, groups: tuple[str, ...]) -> list[str]:
    read = f" (read together by {', '.join(first_of(groups))})" if groups else ""
    lines = [f"join of {' and '.join(broken.topics)}{read}: {broken.words}"]
    lines += [
        f"    {shown(key)} in {_numbers(mine)}, {shown(other)} in {_numbers(theirs)}"
        for key, mine, other, theirs in broken.examples[:3]
    ]
    return lines


def _numbers(partitions: tuple[int, ...]) -> str:
    return "partition " + " and ".join(str(p) for p in partitions)


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
