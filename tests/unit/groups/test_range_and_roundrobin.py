"""Scenarios with their numbers: those that Kafka's classes printed, and those of the documents."""

from __future__ import annotations

import pytest

import partage as pg
from partage.testing import assignment, cluster, group, written

TWO, THREE = "topic1×3 topic2×3", "t1×6 t2×7 t3×2"


def laid(topics, copies, racks):
    """Topics whose replica j of partition i sits on rack (earlier partitions + i + j) mod racks."""
    racks, base, out = racks.split(), 0, {}
    for topic in topics.split():
        name, count = topic.split("×")
        out[name] = [
            [racks[(base + p + j) % len(racks)] for j in range(copies)] for p in range(int(count))
        ]
        base += int(count)
    return pg.Cluster.from_topics(out)


def plan(strategy, members, topics):
    where = cluster(topics) if isinstance(topics, str) else topics
    return pg.assign(strategy, group(members), where)


def mismatches(found, members, where):
    return pg.measure(found, group(members), where, optimum=False).rack_mismatches


RANGE = {
    "R1": ("c1:", "", "c1: –"),
    "R2": ("c1: topic1", "topic1×3 other×3", "c1: topic1-0 topic1-1 topic1-2"),
    "R3": (
        "consumer1: topic1 topic2 | consumer2: topic1 topic2", TWO,
        "consumer1: topic1-0 topic1-1 topic2-0 topic2-1 | consumer2: topic1-2 topic2-2",
    ),
    "R4": (
        "consumer1: topic1 | consumer2: topic1 topic2 | consumer3: topic1", "topic1×3 topic2×2",
        "consumer1: topic1-0 | consumer2: topic1-1 topic2-0 topic2-1 | consumer3: topic1-2",
    ),
    "R5": (
        "consumer-b#instance1: topic1 topic2 | consumer-a#instance2: topic1 topic2", TWO,
        "consumer-b: topic1-0 topic1-1 topic2-0 topic2-1 | consumer-a: topic1-2 topic2-2",
    ),
    "R6": (
        "consumer-b#instance1: topic1 topic2 | consumer-a: topic1 topic2", TWO,
        "consumer-b: topic1-0 topic1-1 topic2-0 topic2-1 | consumer-a: topic1-2 topic2-2",
    ),
    "R7": (
        "consumer1#instance1: topic1 topic2 | consumer2#instance2: topic1 topic2 | "
        "consumer3#instance3: topic1 topic2 | consumer4: topic1 topic2", "topic1×5 topic2×4",
        "consumer1: topic1-0 topic1-1 topic2-0 | consumer2: topic1-2 topic2-1 | "
        "consumer3: topic1-3 topic2-2 | consumer4: topic1-4 topic2-3",
    ),
    "R7, consumer5 in place of consumer4": (
        "consumer1#instance1: topic1 topic2 | consumer2#instance2: topic1 topic2 | "
        "consumer3#instance3: topic1 topic2 | consumer5: topic1 topic2", "topic1×5 topic2×4",
        "consumer1: topic1-0 topic1-1 topic2-0 | consumer2: topic1-2 topic2-1 | "
        "consumer3: topic1-3 topic2-2 | consumer5: topic1-4 topic2-3",
    ),
    "R8": (
        "consumer1#instance1: topic1 topic2 | consumer4#instance3: topic1 topic2 | "
        "consumer5#instance2: topic1 topic2", "topic1×5 topic2×5",
        "consumer1: topic1-0 topic1-1 topic2-0 topic2-1 | consumer4: topic1-4 topic2-4 | "
        "consumer5: topic1-2 topic1-3 topic2-2 topic2-3",
    ),
    "R9, hash order of topics": (
        "a: foo bar baz topic10 topic9", "foo×1 bar×1 baz×1 topic10×1 topic9×1",
        "a: bar-0 topic10-0 foo-0 topic9-0 baz-0",
    ),
    "R19, one instance id for two": ("zz#i: t | aa#i: t", "t×2", "zz: t-0 | aa: t-1"),
    "R20, a topic named twice": ("a: t1 t1 | b: t1", "t1×3", "a: t1-0 t1-1 | b: t1-2"),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGE)
def test_range_without_racks(name) -> None:
    """Scenarios R1 to R9, R19 and R20: lists in order, as the class prints them."""
    members, topics, expected = RANGE[name]
    assert written(plan("range", members, topics)) == expected


ALL, BUT_C2 = "c0@a: {0} | c1@b: {0} | c2@c: {0}", "c0@a: {0} | c1@b: {0} | c2@c: {1}"
RANGE_RACKS = {
    "R10": (
        ALL.format("t1 t2 t3"), laid(THREE, 1, "a b c"), 0,
        "c0: t1-0 t1-3 t2-0 t2-3 t2-6 | c1: t1-1 t1-4 t2-1 t2-4 t3-0 | c2: t1-2 t1-5 t2-2 t2-5 t3-1",
    ),
    "R11": (
        ALL.format("t1 t2 t3"), laid(THREE, 2, "a b c"), 1,
        "c0: t1-0 t1-2 t2-0 t2-2 t2-3 t3-1 | c1: t1-1 t1-3 t2-1 t2-4 t3-0 | c2: t1-4 t1-5 t2-5 t2-6",
    ),
    "R12": (
        ALL.format("t1 t2 t3"), laid(THREE, 3, "a b"), 4,
        "c0: t1-0 t1-1 t2-0 t2-1 t2-2 t3-0 | c1: t1-2 t1-3 t2-3 t2-4 t3-1 | c2: t1-4 t1-5 t2-5 t2-6",
    ),
    "R13": (
        BUT_C2.format("t1 t2 t3", "t1 t3"), laid(THREE, 1, "a b c"), None,
        "c0: t1-0 t1-3 t2-0 t2-2 t2-3 t2-6 | c1: t1-1 t1-4 t2-1 t2-4 t2-5 t3-0 | c2: t1-2 t1-5 t3-1",
    ),
    "R14": (
        BUT_C2.format("t1 t2 t3", "t1 t3"), laid(THREE, 2, "a b c"), None,
        "c0: t1-0 t1-2 t2-0 t2-2 t2-3 t2-5 t3-1 | c1: t1-1 t1-3 t2-1 t2-4 t2-6 t3-0 | c2: t1-4 t1-5",
    ),
    "R15": (
        ALL.format("t1 t2 t3"), laid("t1×5 t2×5 t3×5", 1, "a b c"), 10,
        "c0: t1-0 t1-1 t2-0 t2-1 t3-0 t3-1 | c1: t1-2 t1-3 t2-2 t2-3 t3-2 t3-3 | c2: t1-4 t2-4 t3-4",
    ),
    "R16": (
        BUT_C2.format("t1 t2 t3", "t1 t3"), laid("t1×5 t2×5 t3×5", 2, "a b c"), None,
        "c0: t1-2 t2-0 t2-1 t2-3 t3-2 | c1: t1-0 t1-3 t2-2 t2-4 t3-0 t3-3 | c2: t1-1 t1-4 t3-1 t3-4",
    ),
    "R17": (
        "c0@a: t1 t2 | c1@b: t1 t2 | c2@b: t3 t4 | c3@a: t3 t4",
        laid("t1×6 t2×6 t3×2 t4×2", 1, "a b"), 0,
        "c0: t1-0 t1-2 t1-4 t2-0 t2-2 t2-4 | c1: t1-1 t1-3 t1-5 t2-1 t2-3 t2-5 | "
        "c2: t3-1 t4-1 | c3: t3-0 t4-0",
    ),
    "R18": (
        "c0@a: t1 t2 t3 t4 | c1@b: t1 t2 t3 t4 | c2@b: t1 t2 t3 t4 | c3@a: t1 t2 t3 t4",
        laid("t1×6 t2×6 t3×2 t4×2", 1, "a b c"), 6,
        "c0: t1-0 t1-3 t2-0 t2-3 t3-0 t4-0 | c1: t1-1 t1-4 t2-1 t2-4 t3-1 t4-1 | "
        "c2: t1-2 t2-2 | c3: t1-5 t2-5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGE_RACKS)
def test_range_with_racks(name) -> None:
    """Scenarios R10 to R18 (KIP-881): the lists, and how many partitions miss their rack."""
    members, where, missing, expected = RANGE_RACKS[name]
    found = plan("range", members, where)
    assert written(found) == expected
    if missing is not None:  # the specification gives no figure for those
        assert mismatches(found, members, where) == missing


def test_a_brokers_empty_rack_is_a_rack_and_a_members_is_none() -> None:
    """Found by the parity test: a replica on rack "" makes the racks of partitions differ."""
    members = group("a@zz: t | b@c: t")
    without = pg.Cluster.from_topics({"t": [["c", None], ["c"]]})
    assert written(pg.assign("range", members, without)) == "a: t-0 | b: t-1"
    empty = pg.Cluster.from_topics({"t": [["c", ""], ["c"]]})
    assert written(pg.assign("range", members, empty)) == "a: t-1 | b: t-0"
    nowhere = pg.Group([pg.Member("a", ["t"], rack=""), pg.Member("b", ["t"], rack="c")])
    assert written(pg.assign("range", nowhere, empty)) == "a: t-0 | b: t-1"


ROUND_ROBIN = {
    "RR1": (
        "c1: topic1 topic2 | c2: topic1 topic2", TWO,
        "c1: topic1-0 topic1-2 topic2-1 | c2: topic1-1 topic2-0 topic2-2",
    ),
    "RR2": (
        "C0: t0 | C1: t0 t1 | C2: t0 t1 t2", "t0×1 t1×2 t2×3",
        "C0: t0-0 | C1: t1-0 | C2: t1-1 t2-0 t2-1 t2-2",
    ),
    "RR3": (
        "c1: topic1 | c2: topic1 topic2 | c3: topic1", "topic1×3 topic2×2",
        "c1: topic1-0 | c2: topic1-1 topic2-0 topic2-1 | c3: topic1-2",
    ),
    "RR4": (
        "c1#i1: topic1 topic2 | c2#i2: topic1 topic2 | c3#i3: topic1 topic2 | c4: topic1 topic2", TWO,
        "c1: topic1-0 topic2-1 | c2: topic1-1 topic2-2 | c3: topic1-2 | c4: topic2-0",
    ),
    "RR5": (
        "c1#i1: topic1 topic2 | c5#i2: topic1 topic2 | c4#i3: topic1 topic2", "topic1×5 topic2×5",
        "c1: topic1-0 topic1-3 topic2-1 topic2-4 | c5: topic1-1 topic1-4 topic2-2 | "
        "c4: topic1-2 topic2-0 topic2-3",
    ),
    "RR6": (
        "c1: topic1 topic2 topic3 topic4 topic5 | c2: topic1 topic3 topic5 | "
        "c3: topic1 topic3 topic5 | c4: topic1 topic2 topic3 topic4 topic5",
        "topic1×2 topic2×1 topic3×2 topic4×1 topic5×2",
        "c1: topic1-0 topic3-0 topic5-0 | c2: topic1-1 topic3-1 topic5-1 | c3: – | "
        "c4: topic2-0 topic4-0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUND_ROBIN)
def test_roundrobin(name) -> None:
    """Scenarios RR1 to RR6: lists in order, as the class prints them."""
    members, topics, expected = ROUND_ROBIN[name]
    assert written(plan("roundrobin", members, topics)) == expected


def test_an_empty_group() -> None:
    """RR7 and Q8: round robin refuses it as its class does, range has an empty plan."""
    with pytest.raises(pg.UnsupportedProblemError, match="at least one member"):
        pg.assign("roundrobin", pg.Group([]), cluster("t×1"))
    with pytest.raises(pg.UnsupportedProblemError, match="at least one member"):
        pg.assign("roundrobin:0.8", pg.Group([]), cluster("t×1"))
    for strategy in ("range", "fair", "failover"):
        assert pg.assign(strategy, pg.Group([]), cluster("t×1")).to_dict() == {}


def test_range_leaves_the_third_member_idle() -> None:
    """Two topics of two partitions: co-located on two members, nothing for the third."""
    members = "C1: A B | C2: A B | C3: A B"
    found = plan("range", members, "A×2 B×2")
    assert written(found) == "C1: A-0 B-0 | C2: A-1 B-1 | C3: –"
    measured = pg.measure(found, group(members), cluster("A×2 B×2"))
    assert (measured.idle, measured.colocation) == (1, 1.0)


def test_roundrobin_moves_two_partitions_more_than_it_must() -> None:
    """C2 leaves: A-1 has to move, B-0 and B-1 change hands as well; the judge says 2 avoidable."""
    where = cluster("A×2 B×2")
    before = plan("roundrobin", "C1: A B | C2: A B | C3: A B", where)
    assert written(before) == "C1: A-0 B-1 | C2: A-1 | C3: B-0"
    left = group("C1: A B {A-0 B-1 @1} | C3: A B {B-0 @1}")
    after = pg.assign("roundrobin", left, where)
    assert written(after) == "C1: A-0 B-0 | C3: A-1 B-1"
    measured = pg.measure(after, left, where, previous=before)
    assert (measured.moved, measured.avoidable) == (3, 2)
    best = assignment("C1: A-0 B-1 | C3: B-0 A-1", where)
    measured = pg.measure(best, left, where, previous=before)
    assert (measured.moved, measured.avoidable) == (1, 0)


def test_the_examples_of_kafka_0_10() -> None:
    """The comments of RangeAssignor and RoundRobinAssignor 0.10.2.1, both examples of the latter."""
    both = "C0: t0 t1 | C1: t0 t1"
    assert plan("range", both, "t0×3 t1×3").to_dict() == {
        "C0": {"t0": [0, 1], "t1": [0, 1]},
        "C1": {"t0": [2], "t1": [2]},
    }
    assert written(plan("roundrobin", both, "t0×3 t1×3")) == (
        "C0: t0-0 t0-2 t1-1 | C1: t0-1 t1-0 t1-2"
    )
    skipping = "C0: t0 | C1: t0 t1 | C2: t0 t1 t2"
    assert written(plan("roundrobin", skipping, "t0×1 t1×2 t2×3")) == (
        "C0: t0-0 | C1: t1-0 | C2: t1-1 t2-0 t2-1 t2-2"
    )


def test_roundrobin_of_0_8_refuses_unequal_subscriptions() -> None:
    """KIP-49 tells why this was too strict: one member's new topic would stop the whole group."""
    with pytest.raises(pg.UnsupportedProblemError, match="needs equal subscriptions"):
        plan("roundrobin:0.8", "a: t1 | b: t1 t2", "t1×1 t2×1")
    with pytest.raises(pg.UnsupportedProblemError, match="needs equal subscriptions"):
        plan("roundrobin:0.8", "a: t1 | b:", "t1×1")
    assert pg.assign("roundrobin", group("a: t1 | b: t1 t2"), cluster("t1×1 t2×1"))


def test_roundrobin_of_0_8_deals_partitions_by_the_hash_of_their_text() -> None:
    """The order is that of ``"[topic,number]".hashCode()``, whatever order topics were sent in."""
    found = plan("roundrobin:0.8", "b: t2 t1 | a: t1 t2", "t1×3 t2×3")
    assert written(found) == "b: t1-1 t2-0 t2-2 | a: t1-0 t1-2 t2-1"
    many = plan("roundrobin:0.8", "a: t | b: t", "t×12").to_dict()
    assert sorted([*many["a"]["t"], *many["b"]["t"]]) == list(range(12))
    assert many["a"]["t"] != list(range(0, 12, 2)), "a hash is no number: t-10 is not the eleventh"


def test_roundrobin_counts_where_numbers_have_holes() -> None:
    """The class sees a count only: of partitions 0 and 2 it makes 0 and 1, and 1 does not exist."""
    whole = cluster("t×3")
    there = whole.partition_exists.copy()
    there[1] = False
    holed = pg.Cluster(
        whole.index, whole.topic_exists, there, whole.leader, whole.replica_start, whole.replica,
        whole.brokers,
    )  # fmt: skip
    found = pg.assign("roundrobin", group("a: t | b: t"), holed)
    assert written(found) == "a: t-0 | b: t-1"
    assert {breach.kind.value for breach in pg.check(found, group("a: t | b: t"), holed)} == {
        "unknown partition",
        "no owner",
    }
    found = pg.assign("range", group("a: t | b: t"), holed)
    assert written(found) == "a: t-0 | b: t-2"
    assert pg.check(found, group("a: t | b: t"), holed) == []
