"""The HTML pages of `partage keys` and `partage audit`, made of their JSON documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from partage.report.html import write_template
from partage.report.messages import plural

__all__ = ["TopicText", "write_audit_page", "write_keys_page"]

#: Bars per partition count; with more partitions, several share a bar, which shows the fullest.
_MAX_BARS = 200
#: Hours listed per partition count.
_HOURS = 5


def write_keys_page(
    document: Mapping[str, Any],
    loads: Mapping[int, Sequence[tuple[int, int]]],
    path: Path,
    *,
    title: str,
    partitioner: str,
    advice: Sequence[str],
    keys: Sequence[str],
) -> Path:
    """Write the HTML page of `partage keys`, one file that works offline.

    The page shows how the keys of a topic spread over its partitions, also for other partition
    counts.

    Args:
        document: JSON document of ``partage keys``.
        loads: dict from partition count to (partition, records) of partitions with records.
        path: path of the page.
        title: name of the input.
        partitioner: partitioner that placed the keys.
        advice: recommendations, one sentence each.
        keys: the hottest keys as text.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    most = max((h["records"] for h in document["hottest"]), default=1)
    hottest = [
        h | {"key": text, "width": round(100 * h["records"] / most, 2)}
        for h, text in zip(document["hottest"], keys, strict=True)
    ]
    return write_template(
        "keys.html.j2", path,
        found=document,
        title=title,
        partitioner=partitioner,
        headline=_keys_headline(document),
        lead=_keys_lead(document),
        counts=[
            {"load": load, "bars": _build_bars(load, loads.get(load["partitions"], ()))}
            for load in document["spread"]
        ],
        hottest=hottest,
        hours=_find_worst_hours(document["hours"]),
        advice=advice,
    )  # fmt: skip


def _keys_headline(found: Mapping[str, Any]) -> str:
    if not found["hottest"]:
        return "No record has a key"
    best = min(found["spread"], key=lambda load: load["spread"])
    return (
        f"With {best['partitions']:,} partitions the fullest has {best['spread']:.2f} times "
        f"the mean; one key alone is {found['floor']:.1%}"
    )


def _keys_lead(found: Mapping[str, Any]) -> str:
    keys = "" if found["keys"] is None else f"{found['keys']:,} keys in "
    without = f", {found['without_key']:,} of them without a key" if found["without_key"] else ""
    return f"{keys}{found['records']:,} records{without}."


def _build_bars(
    load: Mapping[str, Any], records: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """Return the bars of a chart with the number of records in each partition of a topic.

    A bar is a dict with its height in percent of the fullest partition, and a label. If there are
    too many partitions, each bar shows the fullest of several.

    Args:
        load: the topic's partition count and its largest number of records in a partition.
        records: pairs (partition, number of records).
    """
    # Heights are percentages of the fullest partition. If a topic has more partitions than the
    # chart has bars, each bar shows the fullest of several partitions.
    partitions = load["partitions"]
    bars = min(partitions, _MAX_BARS)
    fullest = [(0, 0)] * bars
    for partition, count in records:
        at = partition * bars // partitions
        fullest[at] = max(fullest[at], (count, partition))
    return [
        {
            "height": round(100 * count / max(1, load["most"]), 1),
            "most": bool(count) and count == load["most"],
            "label": f"partition {partition}: {count:,} records",
        }
        for count, partition in fullest
    ]


def _find_worst_hours(hours: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the hours in which one partition got the most records, a few for each partition count.

    ``hours`` has one dict for each hour and simulated partition count of the topic.
    """
    found: list[Mapping[str, Any]] = []
    for count in dict.fromkeys(h["partitions"] for h in hours):
        of_count = [h for h in hours if h["partitions"] == count]
        found += sorted(of_count, key=lambda h: h["most"], reverse=True)[:_HOURS]
    return found


class TopicText(NamedTuple):
    """Texts about one topic, shown on the page of `partage audit`.

    Attributes:
        writers: the partitioners that wrote its records.
        by_chance: how likely this result is by chance.
        findings: problems and hints, one sentence each.
    """

    writers: str
    by_chance: str
    findings: Sequence[str]


def write_audit_page(
    document: Mapping[str, Any],
    path: Path,
    *,
    title: str,
    texts: Mapping[str, TopicText],
    joins: Sequence[tuple[str, Sequence[str]]],
) -> Path:
    """Write the HTML page of `partage audit`, one file that works offline.

    The page shows which partitioners wrote each topic, and which joins of topics are broken.

    Args:
        document: JSON document of ``partage audit``.
        path: path of the page.
        title: name of the input.
        texts: dict from topic to texts about it.
        joins: sentence and examples for each pair of topics that a group joins and whose equal keys
            are in different partitions.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    topics = [_topic_data(topic) | {"text": texts[topic["topic"]]} for topic in document["topics"]]
    return write_template(
        "audit.html.j2", path,
        found=document,
        title=title,
        headline=_audit_headline(document),
        topics=topics,
        broken=[(t, t["text"].findings) for t in topics if t["broken"]],
        notes=[line for t in topics if not t["broken"] for line in t["text"].findings],
        joins=joins,
        others=sum(not join["meant"] for join in document["joins"]),
    )  # fmt: skip


def _audit_headline(found: Mapping[str, Any]) -> str:
    mixed = sum(topic["broken"] for topic in found["topics"])
    needed = len({tuple(join["topics"]) for join in found["joins"] if join["meant"]})
    topics = plural(len(found["topics"]), "topic")
    if found["clean"]:
        return f"{topics}: no problem found"
    parts = []
    if mixed:
        parts.append(f"{mixed} of {topics} {'has' if mixed == 1 else 'have'} writers that disagree")
    if needed:
        parts.append(f"{plural(needed, 'join')} {'is' if needed == 1 else 'are'} broken")
    return "; ".join(parts)


def _topic_data(topic: Mapping[str, Any]) -> dict[str, Any]:
    """Return a topic's data for the audit page, with a time bar for each client that wrote to it.

    The bar's ``left`` and ``width`` are percentages of the time from the topic's first to its last
    record.
    """
    times = [t for w in topic["writers"] for t in (w["first_ms"], w["last_ms"])]
    first, last = min(times, default=0), max(times, default=0)
    whole = max(1, last - first)
    writers = [
        dict(w)
        | {
            "left": round(100 * (w["first_ms"] - first) / whole, 2),
            "width": max(1.0, round(100 * (w["last_ms"] - w["first_ms"]) / whole, 2)),
        }
        for w in topic["writers"]
    ]
    names = list(dict.fromkeys(w["name"] for w in writers))
    return dict(topic) | {"writers": writers, "names": names}
