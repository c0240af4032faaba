"""Warnings about a Faust group's topics and settings, the same for both strategies."""

from __future__ import annotations

from collections.abc import Sequence

from partage.groups.faust.bundles import Bundle
from partage.groups.faust.settings import FaustSettings
from partage.groups.subscriptions import missing_topics
from partage.model import Problem

__all__ = ["input_warnings"]

#: Suffixes by which Faust names its changelogs and its leader topic.
_CHANGELOG = "-changelog"
_LEADER = "__assignor-__leader"
_MOST_NAMES = 3


def input_warnings(
    problem: Problem, bundles: Sequence[Bundle], missing: Sequence[str], settings: FaustSettings
) -> tuple[str, ...]:
    """Return warnings about topics without partitions, changelogs apart and missing standbys."""
    return (
        *missing_topics(problem.group, problem.cluster),
        *(
            f"topic {name} is subscribed to and has no partitions"
            for name in missing
            if problem.cluster.topic(name) >= 0
        ),
        *_changelogs_apart(bundles, settings),
        *_missing_standbys(bundles, settings),
    )


def _changelogs_apart(bundles: Sequence[Bundle], settings: FaustSettings) -> list[str]:
    """Return a warning for each changelog that has no source topic of its partition count.

    Faust says of no table which topic feeds it. A changelog is apart for certain where no source
    topic of the same subscribers has as many partitions.
    """
    known, everywhere = settings.all_changelogs, set(settings.global_changelogs)
    warnings = []
    for one in bundles:
        changelogs = [t for t in one.topics if t in known or t.endswith(_CHANGELOG)]
        if any(t not in changelogs and not t.endswith(_LEADER) for t in one.topics):
            continue
        sources = {
            topic: other.partitions
            for other in bundles if set(one.members) & set(other.members)
            for topic in other.topics
            if topic not in known and not topic.endswith((_CHANGELOG, _LEADER))
        }  # fmt: skip
        if not sources:
            continue
        counts = _listed([f"{topic} has {count}" for topic, count in sorted(sources.items())])
        warnings += [
            f"changelog {topic} has {one.partitions} partitions and no source topic has as many "
            f"({counts}): its partitions are placed apart from their source's; give both topics "
            "the same number of partitions"
            for topic in changelogs if topic not in everywhere
        ]  # fmt: skip
    return warnings


def _missing_standbys(bundles: Sequence[Bundle], settings: FaustSettings) -> list[str]:
    """Return a warning for each number of members that is too small for the standbys configured."""
    if not settings.replicas_are_configured:
        return []
    topics: dict[int, list[str]] = {}
    for one in bundles:
        topics.setdefault(len(one.members), []).extend(one.topics)
    return [
        f"standbys of each partition: {settings.replicas} configured, {members - 1} possible with "
        f"{members} member{'s' if members > 1 else ''} ({_listed(sorted(names))})"
        for members, names in sorted(topics.items()) if settings.replicas > members - 1
    ]  # fmt: skip


def _listed(names: Sequence[str]) -> str:
    """Return the first names by comma, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
