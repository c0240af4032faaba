"""Tasks of a streams group (KIP-1071) as the partitions that they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partage.history.held import ACTIVE
from partage.history.server_records import ById
from partage.history.topic_book import TopicBook
from partage.model import Cluster

__all__ = ["source_counts", "source_topics", "task_partitions"]


def source_topics(topology: Mapping[str, Any] | None) -> tuple[str, ...]:
    """All topics that the subtopologies of a topology read, sorted.

    >>> source_topics({"subtopologies": [{"subtopologyId": "0", "sourceTopics": ["b", "a"],
    ...                                   "repartitionSourceTopics": []}]})
    ('a', 'b')
    """
    rows = topology["subtopologies"] if topology else ()
    return tuple(sorted({topic for row in rows for topic in _sources(row)}))


def task_partitions(
    topology: Mapping[str, Any] | None, tasks: ById, role: str, book: TopicBook, time_ms: int
) -> tuple[tuple[str, int], ...]:
    """What the tasks of one role read: source topics where active, changelogs otherwise.

    A task ``0_3`` reads partition 3 of each topic of subtopology 0 that has one. A standby
    or a warm-up task reads the changelogs only; a subtopology without state has none.

    Args:
        topology: the group's STREAMS_GROUP_TOPOLOGY value; None if the log lacks it.
        tasks: (subtopology, numbers).
        role: active, standby or warmup.
        book: knows how many partitions topics had.
        time_ms: when.
    """
    rows = {row["subtopologyId"]: row for row in (topology["subtopologies"] if topology else ())}
    out: list[tuple[str, int]] = []
    for subtopology, numbers in tasks:
        row = rows.get(subtopology)
        if row is None:  # nothing tells what it reads: the task itself is shown
            out.extend((f"task {subtopology}", p) for p in numbers)
            continue
        topics = _sources(row) if role == ACTIVE else _changelogs(row)
        out.extend((t, p) for t in topics for p in numbers if book.has(t, p, time_ms))
    return tuple(out)


def source_counts(row: Mapping[str, Any], cluster: Cluster) -> list[int]:
    """How many partitions each topic that a subtopology reads has."""
    return [len(cluster.partitions_of(topic)) for topic in _sources(row)]


def _sources(row: Mapping[str, Any]) -> list[str]:
    repartitioned = [topic["name"] for topic in row.get("repartitionSourceTopics") or ()]
    return [*row["sourceTopics"], *repartitioned]


def _changelogs(row: Mapping[str, Any]) -> list[str]:
    return [topic["name"] for topic in row.get("stateChangelogTopics") or ()]
