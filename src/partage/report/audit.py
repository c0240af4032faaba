"""The page of `partage audit`: what to look at, who wrote which topic, and when. Plain data in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from partage.report.html import environment

__all__ = ["Said", "write_audit_page"]


class Said(NamedTuple):
    """What is said of a topic in words: its writers, how sure that is, and what to look at."""

    writers: str
    by_chance: str
    findings: Sequence[str]


def write_audit_page(
    found: Mapping[str, Any],
    path: Path,
    *,
    title: str,
    said: Mapping[str, Said],
    joins: Sequence[tuple[str, Sequence[str]]],
) -> Path:
    """The page, as one offline file.

    Args:
        found: what ``partage audit --json`` prints.
        path: of the page.
        title: what was read.
        said: topic -> what is said of it.
        joins: of those that are meant and broken, the sentence and its examples.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: it cannot be written.
    """
    topics = [_topic(topic) | {"said": said[topic["topic"]]} for topic in found["topics"]]
    text = environment().get_template("audit.html.j2").render(
        found=found,
        title=title,
        headline=_headline(found),
        topics=topics,
        looked_at=[(t, t["said"].findings) for t in topics if t["broken"]],
        notes=[line for t in topics if not t["broken"] for line in t["said"].findings],
        joins=joins,
        others=sum(not join["meant"] for join in found["joins"]),
    )  # fmt: skip
    path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    return path


def _headline(found: Mapping[str, Any]) -> str:
    mixed = sum(topic["broken"] for topic in found["topics"])
    meant = len({tuple(join["topics"]) for join in found["joins"] if join["meant"]})
    if found["clean"]:
        return f"{_many(len(found['topics']), 'topic')}: nothing to look at"
    parts = []
    if mixed:
        parts.append(f"{mixed} of {_many(len(found['topics']), 'topic')} "
                     f"{'has' if mixed == 1 else 'have'} writers that disagree")  # fmt: skip
    if meant:
        parts.append(f"{_many(meant, 'join')} {'is' if meant == 1 else 'are'} broken")
    return "; ".join(parts)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _topic(topic: Mapping[str, Any]) -> dict[str, Any]:
    """With its writers' times as parts of the time from the first to the last."""
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
    return dict(topic) | {"writers": writers, "names": list(dict.fromkeys(
        w["name"] for w in writers))}  # fmt: skip
