"""Partition counts of repartition topics: from upstream, then by what is joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from partage.errors import InvalidTopologyError
from partage.java.hash_order import hash_order
from partage.java.strings import string_hash, string_ranks
from partage.streams.topology import Subtopology, Topology

__all__ = ["missing_sources", "repartition_counts"]


def missing_sources(
    topology: Topology, counts: Mapping[str, int]
) -> list[tuple[Subtopology, tuple[str, ...]]]:
    """Sub-topologies with sources that the user has not made yet, and which.

    Args:
        topology: of the application.
        counts: partition counts of the cluster's topics.

    >>> missing_sources(Topology([Subtopology(0, ("lines", "more"))]), {"lines": 2})[0][1]
    ('more',)
    """
    absent = [
        (one, tuple(topic for topic in one.external if topic not in counts))
        for one in topology.subtopologies
    ]
    return [(one, topics) for one, topics in absent if topics]


def repartition_counts(
    subtopologies: Iterable[Subtopology],
    copartitioned: Iterable[frozenset[str]],
    counts: Mapping[str, int],
) -> dict[str, int]:
    """Partitions of each repartition topic.

    A topic gets as many as the largest source of any sub-topology that writes it; sources
    that are repartition topics without a count yet are left out as long as another one is
    known. Then every co-partitioned group is made equal. A count that the user fixed stays.

    Kafka walks sub-topologies in the order of a hash that their topics' settings go into.
    Here they are walked in the order given: where a count is taken while another source of the same
    writer is still unknown, Kafka's order may give another count (4 % of the random topologies of
    ``tests/parity/test_streams_topics.py`` have another answer in some order).

    Args:
        subtopologies: those whose sources all exist.
        copartitioned: sets of topics of equal counts.
        counts: partition counts of the cluster's topics.

    Raises:
        InvalidTopologyError: counts that cannot be known (a cycle of repartition topics, a
            topic that nobody writes), or joined topics of different counts; names them.

    Source: ``RepartitionTopics`` and ``CopartitionedTopicsEnforcer`` 4.3.1.

    >>> groups = [Subtopology(0, ("lines",), sinks=("again",)),
    ...           Subtopology(1, ("again",), repartition={"again": None})]
    >>> repartition_counts(groups, [], {"lines": 3})
    {'again': 3}
    """
    groups = list(subtopologies)
    known = {topic: count for one in groups for topic, count in one.repartition.items()}
    fixed = {topic for topic, count in known.items() if count is not None}
    walked = [topic for one in groups for topic in _in_map_order(list(one.repartition))]
    while unknown := [topic for topic in walked if known[topic] is None]:
        progress = False
        for topic in unknown:
            count = _largest_upstream(topic, groups, known, counts)
            if count is not None:
                known[topic], progress = count, True
        if not progress:
            written = {topic for one in groups for topic in one.sinks}
            unwritten = [topic for topic in unknown if topic not in written]
            why = (
                f"nothing writes {', '.join(unwritten)} (no sub-topology has it as a sink)"
                if unwritten
                else "they depend on each other in a circle"
            )
            raise InvalidTopologyError(
                f"partition counts cannot be told: {why}; repartition one with a fixed count",
                topics=unknown,
                code=3,
            )
    found = {topic: count for topic, count in known.items() if count is not None}
    for group in copartitioned:
        _make_equal(group, found, fixed, counts)
    return found


def _in_map_order(topics: list[str]) -> list[str]:
    """A sub-topology's repartition topics as the keys of its hash map are walked.

    It matters where two of them are still unknown and one is upstream of the other.
    """
    order = hash_order([string_hash(topic) for topic in topics], rank=lambda: string_ranks(topics))
    return [topics[place] for place in order]


def _largest_upstream(
    topic: str,
    groups: Iterable[Subtopology],
    known: Mapping[str, int | None],
    counts: Mapping[str, int],
) -> int | None:
    largest: int | None = None
    for writer in groups:
        if topic not in writer.sinks:
            continue
        for source in writer.sources:
            count = known[source] if source in known else _external(source, counts)
            if count is not None and (largest is None or count > largest):
                largest = count
    return largest


def _external(topic: str, counts: Mapping[str, int]) -> int:
    if topic not in counts:
        raise InvalidTopologyError("has no known partition count", topics=[topic], code=3)
    return counts[topic]


def _make_equal(
    group: frozenset[str], found: dict[str, int], fixed: set[str], counts: Mapping[str, int]
) -> None:
    inside = sorted(topic for topic in group if topic in found)
    outside = sorted(topic for topic in group if topic not in found)
    absent = [topic for topic in outside if topic not in counts]
    if absent:
        raise InvalidTopologyError(
            "must be joined, but do not exist",
            topics=absent,
            java_exception="IllegalStateException",
        )
    if outside:
        _all_equal(outside, counts, "are joined, but have {}")
        target = counts[outside[0]]
    elif held := [topic for topic in inside if topic in fixed]:
        _all_equal(held, found, "are joined, but fixed at {}")
        target = found[held[0]]
    else:
        target = max((found[topic] for topic in inside), default=0)
    for topic in inside:
        if topic not in fixed:
            found[topic] = target
        elif found[topic] != target:
            raise InvalidTopologyError(
                f"is fixed at {found[topic]} partitions, and joined with topics of {target}",
                topics=[topic],
                java_exception="TopologyException",
            )


def _all_equal(topics: list[str], counts: Mapping[str, int], what: str) -> None:
    if len({counts[topic] for topic in topics}) > 1:
        said = ", ".join(f"{topic}={counts[topic]}" for topic in topics)
        raise InvalidTopologyError(
            what.format(f"unequal partition counts: {said}"),
            topics=topics,
            java_exception="TopologyException",
        )
