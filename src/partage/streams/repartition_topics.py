"""Partition counts of repartition topics (Kafka: ``RepartitionTopics``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from partage.errors import InvalidTopologyError
from partage.java.hash_order import hash_order
from partage.java.strings import string_hash, string_ranks

if TYPE_CHECKING:
    from partage.streams.topology import Subtopology

__all__ = ["repartition_counts"]


def repartition_counts(
    subtopologies: Iterable[Subtopology],
    copartitioned: Iterable[frozenset[str]],
    counts: Mapping[str, int],
) -> dict[str, int]:
    """Return the partition count of each repartition topic.

    A topic gets the largest partition count among the source topics of the sub-topologies that
    write it. A source that is a repartition topic without a count is skipped if another source
    has a count. Afterwards the topics of each co-partitioned set get equal counts. A count that
    the user fixed does not change.

    Kafka walks sub-topologies in the order of a hash over their topics' settings. This function
    walks them in the order given. The counts can differ where a topic gets its count while
    another source of the same writer has none (4 % of the random topologies of
    ``tests/parity/test_streams_topics.py`` give another result in some order).

    Args:
        subtopologies: sub-topologies whose source topics all exist.
        copartitioned: sets of topics that must have equal counts.
        counts: partition counts of the cluster's topics.

    Raises:
        InvalidTopologyError: a count cannot be derived (a cycle of repartition topics, or a
            topic that no sub-topology writes), or joined topics have different counts. The
            error names the topics.

    Source: ``RepartitionTopics`` and ``CopartitionedTopicsEnforcer`` 4.3.1.

    >>> from partage.streams import Subtopology
    >>> subtopologies = [Subtopology(0, ("lines",), sinks=("again",)),
    ...                  Subtopology(1, ("again",), repartition={"again": None})]
    >>> repartition_counts(subtopologies, [], {"lines": 3})
    {'again': 3}
    """
    every = list(subtopologies)
    known = {topic: count for one in every for topic, count in one.repartition.items()}
    fixed = {topic for topic, count in known.items() if count is not None}
    order = [topic for one in every for topic in _in_map_order(list(one.repartition))]
    while unknown := [topic for topic in order if known[topic] is None]:
        has_progress = False
        for topic in unknown:
            count = _largest_upstream(topic, every, known, counts)
            if count is not None:
                known[topic], has_progress = count, True
        if not has_progress:
            raise _underivable(unknown, every)
    derived = {topic: count for topic, count in known.items() if count is not None}
    for topics in copartitioned:
        _enforce_copartitioning(topics, derived, fixed, counts)
    return derived


def _underivable(unknown: list[str], subtopologies: Iterable[Subtopology]) -> InvalidTopologyError:
    """Return the error for repartition topics whose counts cannot be derived."""
    written = {topic for one in subtopologies for topic in one.sinks}
    unwritten = [topic for topic in unknown if topic not in written]
    why = (
        f"nothing writes {', '.join(unwritten)} (no sub-topology has it as a sink)"
        if unwritten
        else "they depend on each other in a circle"
    )
    return InvalidTopologyError(
        f"partition counts cannot be derived: {why}; repartition one with a fixed count",
        topics=unknown,
        code=3,
    )


def _in_map_order(topics: list[str]) -> list[str]:
    """Return a sub-topology's repartition topics in the iteration order of a Java ``HashMap``.

    The order matters where two of them have no count and one is upstream of the other.
    """
    order = hash_order([string_hash(topic) for topic in topics], rank=lambda: string_ranks(topics))
    return [topics[place] for place in order]


def _largest_upstream(
    topic: str,
    subtopologies: Iterable[Subtopology],
    known: Mapping[str, int | None],
    counts: Mapping[str, int],
) -> int | None:
    """Return the largest known count among the sources of the topic's writers, None without one."""
    largest: int | None = None
    for writer in subtopologies:
        if topic not in writer.sinks:
            continue
        for source in writer.sources:
            count = known[source] if source in known else _external_count(source, counts)
            if count is not None and (largest is None or count > largest):
                largest = count
    return largest


def _external_count(topic: str, counts: Mapping[str, int]) -> int:
    if topic not in counts:
        raise InvalidTopologyError("has no known partition count", topics=[topic], code=3)
    return counts[topic]


def _enforce_copartitioning(
    topics: frozenset[str], derived: dict[str, int], fixed: set[str], counts: Mapping[str, int]
) -> None:
    """Give the repartition topics of a co-partitioned set one count.

    External topics decide the count, then counts that the user fixed, then the largest count.
    """
    internal = sorted(topic for topic in topics if topic in derived)
    external = sorted(topic for topic in topics if topic not in derived)
    absent = [topic for topic in external if topic not in counts]
    if absent:
        raise InvalidTopologyError(
            "must be joined, but do not exist",
            topics=absent,
            java_exception="IllegalStateException",
        )
    if external:
        _check_equal(external, counts, "are joined, but have {}")
        target = counts[external[0]]
    elif given := [topic for topic in internal if topic in fixed]:
        _check_equal(given, derived, "are joined, but fixed at {}")
        target = derived[given[0]]
    else:
        target = max((derived[topic] for topic in internal), default=0)
    for topic in internal:
        if topic not in fixed:
            derived[topic] = target
        elif derived[topic] != target:
            raise InvalidTopologyError(
                f"is fixed at {derived[topic]} partitions, and joined with topics of {target}",
                topics=[topic],
                java_exception="TopologyException",
            )


def _check_equal(topics: list[str], counts: Mapping[str, int], message: str) -> None:
    if len({counts[topic] for topic in topics}) > 1:
        listed = ", ".join(f"{topic}={counts[topic]}" for topic in topics)
        raise InvalidTopologyError(
            message.format(f"unequal partition counts: {listed}"),
            topics=topics,
            java_exception="TopologyException",
        )
