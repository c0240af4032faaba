"""What `partage audit` says of a topic and of a join, on the terminal and on its page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from partage.cli.consoles import first_of
from partage.cli.key_advice import shown
from partage.keys.audit.client_names import called, narrowed, remedy
from partage.keys.audit.writers import FEWEST_KEYS

if TYPE_CHECKING:
    from partage.jobs.audit.audit import TopicFound
    from partage.keys.audit import Broken

__all__ = ["by_chance", "findings", "join_words", "untold", "writers"]

#: Exponents beyond this are only told to be beyond.
_LEAST = -99
#: Spans shorter than this are told by the millisecond.
_SHORT_MS = 10_000
_CHANGELOG, _REPARTITION = "-changelog", "-repartition"
_JOIN_REMEDIES = {
    "partition counts": "copy one of them into a topic with as many partitions as the other has",
    "serializers": "have both write the key in one form: other bytes are another key",
    "keys apart": "see which of them has two writers, grew, or has a producer that names its "
    "partitions, and mend that first",
}


def writers(t: TopicFound) -> str:
    """Who wrote it: clients, and the hash that they share."""
    if t.status == "one partition":
        return "anybody: 1 partition"
    if not t.writers:
        return t.status if t.status != "too few keys" else f"{t.keys} keys: too few to tell"
    lone = len({w["name"] for w in t.writers}) == 1
    keyless = t.nulls["behaviour"] if lone else ""
    return " and ".join(dict.fromkeys(_client(w, keyless) for w in t.writers))


def _client(w: dict[str, Any], keyless: str = "") -> str:
    return called(narrowed(w["clients"], keyless), w["hash"], w["hashes"])


def by_chance(t: TopicFound) -> str:
    """How likely it is that the least sure of its writers only looks like one.

    Empty where there is none.
    """
    if not t.writers:
        return ""
    least = max(w["log10_chance"] for w in t.writers)
    return f"<1e{_LEAST}" if least < _LEAST else f"1e{int(least)}"


def findings(t: TopicFound) -> list[str]:
    """Sentences about a topic: what is wrong, by which keys that shows, and what to do."""
    lines = []
    if t.status == "mixed":
        came = [f"{_client(w)} {_span(w['first_ms'], w['last_ms'])}" for w in t.writers]
        count = len({w["name"] for w in t.writers})
        lines.append(f"{t.topic}: {count} writers disagree: {'; '.join(came)} (UTC)")
    rivals = sorted({r for w in t.writers for r in w["rivals"]})
    if rivals:
        lines.append(f"{t.topic}: cannot be told from {', '.join(rivals)}")
    if t.split["writers"]:
        told = _examples(t, "two writers", t.split["writers"])
        lines.append(f"{t.topic}: {t.split['writers']:,} keys live in two partitions, their order "
                     f"is broken: {told}")  # fmt: skip
    if t.status == "mixed":
        lines.append(f"{t.topic}: {_what_to_do(t)}")
    if t.scattered:
        told = _examples(t, "unexplained", t.split["unexplained"])
        lines.append(f"{t.topic}: {t.split['unexplained']:,} of {t.keys:,} keys live in several "
                     f"partitions, and no partitioner explains why: {told}. Does a producer name "
                     "the partition, or go round robin whatever the key?")  # fmt: skip
    if t.sampled > 1:
        lines.append(f"{t.topic}: so many keys that one in {t.sampled:,} was looked at")
    return lines


def untold(topics: Sequence[TopicFound]) -> list[str]:
    """What cannot be told, and of which topics."""
    one = [t.topic for t in topics if t.status == "one partition"]
    few = [t.topic for t in topics if t.status == "too few keys"]
    lines = []
    if one:
        lines.append(f"{', '.join(first_of(one))}: of one partition, which every partitioner fits: "
                     "who wrote it cannot be told, and no key can be in a wrong place")  # fmt: skip
    if few:
        lines.append(f"{', '.join(first_of(few))}: fewer than {FEWEST_KEYS} keys, of which any "
                     "partitioner may fit some by chance: who wrote it, and whether a second one "
                     "did, cannot be told; keys in several partitions are")  # fmt: skip
    return lines


def _what_to_do(t: TopicFound) -> str:
    if t.topic.endswith((_CHANGELOG, _REPARTITION)):
        return ("Kafka Streams writes this topic itself, each task its own partition: it follows "
                "from the topics that the task reads; mend those")  # fmt: skip
    return remedy([w["partitioners"] for w in t.writers])


def _examples(t: TopicFound, reason: str, count: int) -> str:
    mine = [e for e in t.split["examples"] if e["reason"] == reason]
    told = [f"{shown(bytes.fromhex(e['key']))} in {' and '.join(str(s[0]) for s in e['seen'])}"
            for e in mine]  # fmt: skip
    return "; ".join(first_of(told, of=count))


def join_words(broken: Broken, groups: Sequence[str]) -> list[str]:
    """What breaks a join, the keys that show it, each with its topic, and what to do."""
    one, other = broken.topics
    read = f" (read together by {', '.join(first_of(groups))})" if groups else ""
    lines = [f"join of {one} and {other}{read}: {broken.words}"]
    for key, mine, theirs_key, theirs in broken.examples[:3]:
        again = "" if theirs_key == key else f"{shown(theirs_key)} "
        lines.append(f"    {shown(key)} in partition {_numbers(mine)} of {one}, {again}in "
                     f"{_numbers(theirs)} of {other}")  # fmt: skip
    told = _JOIN_REMEDIES.get(broken.kind) or remedy(broken.partitioners)
    return [*lines, f"    what to do: {told}"]


def _numbers(partitions: Sequence[int]) -> str:
    return " and ".join(str(p) for p in partitions)


def _span(first_ms: int, last_ms: int) -> str:
    """From when to when, by the millisecond where it is short.

    >>> _span(0, 61_000), _span(5, 1_700)
    ('1970-01-01 00:00:00 to 00:01:01', '1970-01-01 00:00:00.005 to 00:00:01.700')
    """
    ends = [datetime.fromtimestamp(ms / 1000, timezone.utc) for ms in (first_ms, last_ms)]
    exactly = "milliseconds" if last_ms - first_ms < _SHORT_MS else "seconds"
    first, last = (end.replace(tzinfo=None).isoformat(" ", exactly) for end in ends)
    return f"{first} to {last[11:] if ends[0].date() == ends[1].date() else last}"
