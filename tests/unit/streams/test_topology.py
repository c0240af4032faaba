"""Repartition topics, joined topics, internal topics: counts, and errors that name the topics."""

from __future__ import annotations

import itertools

import pytest

from partage.errors import InvalidProblemError, InvalidTopologyError
from partage.streams import TaskId
from partage.streams.topology import Subtopology, Topology, TopologyLayout, repartition_counts


def layout(subtopologies, counts, copartitioned=()):
    return TopologyLayout.for_partition_counts(Topology(subtopologies, copartitioned), counts)


def test_repartition_topics_follow_the_largest_upstream() -> None:
    """A stream of 3 repartitioned and joined with a table of 4: all internal topics have 4."""
    made = layout(
        [
            Subtopology(0, ("topic1",), sinks=("r1",)),
            Subtopology(1, ("r1",), sinks=("r2",), repartition={"r1": None}, changelogs=("agg",)),
            Subtopology(2, ("r2", "topic3"), repartition={"r2": None}, changelogs=("join",)),
        ],
        {"topic1": 3, "topic3": 4},
        [["r2", "topic3"], ["r1", "r2"]],
    )
    assert made.internal == {"r1": 4, "r2": 4, "agg": 4, "join": 4}
    assert sum(len(partitions) for partitions in made.partitions_of.values()) == 15


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_diamond_resolves_in_any_order_of_its_parts(order) -> None:
    """Four levels of repartition topics from one partition: numbering does not matter."""
    parts = [
        (("input",), ("a", "b"), {}),
        (("a",), ("c",), {"a": None}),
        (("b",), ("c",), {"b": None}),
        (("c",), ("d",), {"c": None}),
    ]
    made = layout(
        [
            *(Subtopology(number, *parts[place]) for number, place in enumerate(order)),
            Subtopology(9, ("d",), repartition={"d": None}),
        ],
        {"input": 1},
    )
    assert made.internal == dict.fromkeys("abcd", 1)


def test_a_fixed_count_stays_and_rules_its_group() -> None:
    """Of joined repartition topics the one that the user fixed decides."""
    parts = [
        Subtopology(0, ("in",), sinks=("x", "y")),
        Subtopology(1, ("x", "y"), repartition={"x": 6, "y": None}),
    ]
    assert layout(parts, {"in": 2}, [["x", "y"]]).internal == {"x": 6, "y": 6}


@pytest.mark.parametrize(
    ("fixed", "counts", "group", "named"),
    [
        ({"x": 6, "y": 5}, {"in": 2}, ["x", "y"], ("x", "y")),
        ({"x": 6}, {"in": 2}, ["x", "in"], ("x",)),
        ({"x": None}, {"in": 2, "other": 3}, ["in", "other", "x"], ("in", "other")),
        ({"x": None}, {"in": 2}, ["x", "gone"], ("gone",)),
    ],
)
def test_joined_topics_that_differ_are_named(fixed, counts, group, named) -> None:
    """Co-partition violations come as an error with the topics concerned."""
    parts = [
        Subtopology(0, ("in",), sinks=tuple(fixed)),
        Subtopology(1, tuple(fixed), repartition=fixed),
    ]
    with pytest.raises(InvalidTopologyError) as caught:
        layout(parts, counts, [group])
    assert caught.value.topics == named
    assert all(topic in str(caught.value) for topic in named)
    assert caught.value.code is None


def test_a_topic_that_nobody_writes_cannot_be_counted() -> None:
    """A repartition topic without a writer is named, with Kafka's assignment error."""
    with pytest.raises(InvalidTopologyError, match="orphan") as caught:
        layout([Subtopology(0, ("orphan",), repartition={"orphan": None})], {})
    assert caught.value.code == 3


def test_internal_topics_are_created_once_and_must_fit() -> None:
    """What exists with the right count is not created; with another count it is an error."""
    parts = [Subtopology(0, ("in",), changelogs=("log", "in"))]
    made = layout(parts, {"in": 3})
    assert made.to_create == {"log": 3}
    assert made.source_changelogs == {"in"}
    assert made.changelogs_of[TaskId(0, 2)] == (("in", 2), ("log", 2))
    assert layout(parts, {"in": 3, "log": 3}).to_create == {}
    with pytest.raises(InvalidTopologyError, match="log has 2, not 3") as caught:
        layout(parts, {"in": 3, "log": 2})
    assert caught.value.topics == ("log",)


def test_stores_without_a_changelog_make_no_standbys() -> None:
    """An unlogged store makes tasks with stores, none that is stateful to the old assignors."""
    made = layout([Subtopology(0, ("in",), stores=("memory",))], {"in": 2})
    assert made.changelogs_of == {}
    assert set(made.with_stores) == {TaskId(0, 0), TaskId(0, 1)}


def test_malformed_topologies_are_refused() -> None:
    """Twice the same number, named beside unnamed, one source in two, a repartition that is none."""
    with pytest.raises(InvalidProblemError, match="twice"):
        Topology([Subtopology(0, ("a",)), Subtopology(0, ("b",))])
    with pytest.raises(InvalidProblemError, match="name"):
        Topology([Subtopology(0, ("a",)), Subtopology(1, ("b",), topology="x")])
    with pytest.raises(InvalidTopologyError, match="are one"):
        Topology([Subtopology(0, ("a",)), Subtopology(1, ("a",))])
    with pytest.raises(InvalidProblemError, match="sources"):
        Subtopology(0, ("a",), repartition={"b": None})
    with pytest.raises(InvalidProblemError, match="at least 1"):
        Subtopology(0, ("a",), repartition={"a": 0})
    with pytest.raises(InvalidTopologyError, match="no partitions"):
        layout([Subtopology(0, ("a",))], {"a": 0})


def test_topics_of_one_subtopology_are_resolved_in_javas_order() -> None:
    """Two unknown topics of one sub-topology, the one upstream of the other: Kafka meets them in
    the order of a hash map, found by its own class (`tests/parity/test_streams_topics.py`). Walked
    by name, re-2-0 had 2 partitions, since re-2-1, which its writer reads too, came after it.
    """
    found = repartition_counts(
        [
            Subtopology(
                0,
                ("in-0-0", "in-0-1", "re-0-0", "re-0-1"),
                ("re-1-0", "re-1-1"),
                {"re-0-0": None, "re-0-1": None},
            ),
            Subtopology(
                1,
                ("in-1-0", "re-1-0", "re-1-1"),
                ("re-0-0", "re-2-1"),
                {"re-1-0": None, "re-1-1": None},
            ),
            Subtopology(
                2,
                ("in-2-0", "re-2-0", "re-2-1"),
                ("re-0-1", "re-2-0"),
                {"re-2-0": None, "re-2-1": None},
            ),
        ],
        [frozenset({"re-0-1", "in-0-0"})],
        {"in-0-0": 5, "in-0-1": 2, "in-1-0": 3, "in-2-0": 2},
    )
    assert found == {
        "re-0-0": 3, "re-0-1": 5, "re-1-0": 5, "re-1-1": 5, "re-2-0": 5, "re-2-1": 5,
    }  # fmt: skip
