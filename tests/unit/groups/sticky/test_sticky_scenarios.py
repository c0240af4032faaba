"""Scenarios whose outcome Kafka 4.3.1's own sticky classes printed."""

from __future__ import annotations

import pytest
from tests.support.sticky_transfers import transfer_rows

import partage as pg
from partage.groups.registry import find
from partage.groups.sticky.problem import StickyProblem
from partage.groups.subscriptions import add_user_data
from partage.model import Problem
from partage.testing import cluster, group
from partage.wire.consumer_protocol import encode_sticky_user_data

T3, T33 = "topic×3", "topic×3 topic2×3"
T12, T23 = "topic1×2 topic2×2", "topic1×2 topic2×3"
T34 = "topic1×3 topic2×4"
FOUR = "topic×3 topic1×3 topic2×3 topic3×3"
SIX = "topic1×1 topic2×1 topic3×1 topic4×1 topic5×1 topic6×1"
EIGHT = "t0×2 t1×2 t2×2 t3×2"
NINE = "topic×3 topic2×3 topic3×3"
S12 = "topic-0 topic-2 topic2-1"

# name: topics; members with claims; what both classes plan; what changes hands (after "tr")
BOTH = {
    "S1": ("topic×1", "c1: topic | c2: topic", "c1: topic-0 | c2: –"),
    "S2": (
        "topic1×3 topic2×2", "c1: topic1 | c2: topic1 topic2 | c3: topic1",
        "c1: topic1-0 topic1-2 | c2: topic2-0 topic2-1 | c3: topic1-1",
    ),
    "S3": (
        "topic1×3 topic2×3", "c1: topic1 topic2 | c2: topic1 topic2",
        "c1: topic1-0 topic1-2 topic2-1 | c2: topic1-1 topic2-0 topic2-2",
    ),
    "S5": (
        T23, "c1: topic1 topic2 {topic1-0 topic2-1 @1} | c2: topic1 topic2 {topic1-1 topic2-2 @1}",
        "c1: topic1-0 topic2-1 topic2-0 | c2: topic1-1 topic2-2",
    ),
    "S7": (
        T23, "consumer1: topic1 topic2 {topic1-0 @1} | consumer2: topic1 topic2 {topic1-1 @1} | "
        "consumer3: topic1 topic2 {@1}",
        "consumer1: topic1-0 topic2-1 | consumer2: topic1-1 topic2-2 | consumer3: topic2-0",
    ),
    "S10": (
        T34, "consumer3: topic1 topic2 {topic1-2 topic2-3 @1} | "
        "consumer4: topic1 topic2 {topic2-2 @1}",
        "consumer3: topic1-2 topic2-3 topic1-0 topic2-1 | consumer4: topic2-2 topic1-1 topic2-0",
    ),
    "S11": (
        "topic×4", "consumer1: topic {topic-0 topic-1 @1} | consumer2: topic {topic-2 @1} | "
        "consumer3: topic {@1}",
        "consumer1: topic-0 topic-1 | consumer2: topic-2 | consumer3: topic-3",
    ),
    "S12": (
        T33, f"c1: topic topic2 {{{S12} @10}} | c2: topic topic2 {{{S12} @9}}",
        "c1: topic-0 topic2-1 topic-2 | c2: topic-1 topic2-0 topic2-2",
    ),
    "S15": (
        NINE, "consumer1: topic topic2 topic3 {topic-0 topic2-0 topic3-0 @10} | "
        "consumer2: topic topic2 topic3 {topic-1 topic2-1 topic3-1 @9} | "
        "consumer3: topic topic2 topic3 {topic2-1 topic3-0 topic3-2 @8}",
        "consumer1: topic-0 topic2-0 topic3-0 | consumer2: topic-1 topic2-1 topic3-1 | "
        "consumer3: topic3-2 topic-2 topic2-2",
    ),
    "S17": (
        T33, "c1: topic topic2 {topic-0 topic2-1 topic-1 @10} | "
        "c2: topic topic2 {topic-0 topic2-1 topic2-2 @8}",
        "c1: topic-0 topic-1 topic2-1 | c2: topic2-2 topic-2 topic2-0",
    ),
    "S20": (
        "t0×1 t1×2 t2×3", "C0: t0 | C1: t0 t1 | C2: t0 t1 t2",
        "C0: t0-0 | C1: t1-0 t1-1 | C2: t2-0 t2-1 t2-2",
    ),
    "S21": (
        "t0×1 t1×2 t2×3", "C1: t0 t1 {t1-0 t1-1 @1} | C2: t0 t1 t2 {t2-0 t2-1 t2-2 @1}",
        "C1: t1-0 t1-1 t0-0 | C2: t2-0 t2-1 t2-2",
    ),
    "S22": (
        EIGHT, "C0: t0 t1 t2 t3 | C1: t0 t1 t2 t3 | C2: t0 t1 t2 t3",
        "C0: t0-0 t1-1 t3-0 | C1: t0-1 t2-0 t3-1 | C2: t1-0 t2-1",
    ),
    "S23": (
        EIGHT, "C0: t0 t1 t2 t3 {t0-0 t1-1 t3-0 @1} | C2: t0 t1 t2 t3 {t1-0 t2-1 @1}",
        "C0: t0-0 t3-0 t1-1 t0-1 | C2: t1-0 t2-1 t2-0 t3-1",
    ),
}  # fmt: skip

# name: topics; members; sticky's plan; cooperative-sticky's plan; what changes hands
APART = {
    "S6": (
        T12, "consumer1: topic1 topic2 {topic1-0 topic2-0 @1} | "
        "consumer2: topic1 topic2 {topic1-1 topic2-1 @1} | consumer3: topic1 topic2 {@1}",
        "consumer1: topic1-0 | consumer2: topic1-1 topic2-1 | consumer3: topic2-0",
        "consumer1: topic1-0 | consumer2: topic1-1 topic2-1 | consumer3: –",
        "topic2-0→consumer3",
    ),
    "S8": (
        T3, "c1: topic {topic-0 topic-1 topic-2 @1} | c2: topic {@1}",
        "c1: topic-0 topic-1 | c2: topic-2", "c1: topic-0 topic-1 | c2: –", "topic-2→c2",
    ),
    "S9": (
        T34, "consumer1: topic1 topic2 {topic1-0 topic1-2 topic2-1 topic2-3 @1} | "
        "consumer2: topic1 topic2 {topic1-1 topic2-0 topic2-2 @1} | "
        "consumer3: topic1 topic2 {@1} | consumer4: topic1 topic2 {@1}",
        "consumer1: topic1-0 topic2-1 | consumer2: topic2-0 topic1-1 | "
        "consumer3: topic1-2 topic2-3 | consumer4: topic2-2",
        "consumer1: topic1-0 topic2-1 | consumer2: topic2-0 topic1-1 | consumer3: – | consumer4: –",
        "topic1-2→consumer3 topic2-2→consumer4 topic2-3→consumer3",
    ),
    "S13": (
        T3, "consumer1: topic {topic-0 topic-1 @1} | consumer2: topic {topic-0 topic-2 @1} | "
        "consumer3: topic {@1}",
        "consumer1: topic-1 | consumer2: topic-2 | consumer3: topic-0",
        "consumer1: topic-1 | consumer2: topic-2 | consumer3: –", "topic-0→consumer3",
    ),
    "S14": (
        "topic×4", "consumer1: topic {topic-0 topic-1 @1} | consumer2: topic {topic-0 topic-2 @1} | "
        "consumer3: topic {@1}",
        "consumer1: topic-1 topic-3 | consumer2: topic-2 | consumer3: topic-0",
        "consumer1: topic-1 topic-3 | consumer2: topic-2 | consumer3: –", "topic-0→consumer3",
    ),
    "S18": (
        SIX, "c1: topic1 topic2 {topic1-0 @1} | "
        "c2: topic1 topic2 topic3 topic4 {topic2-0 topic3-0 @1} | "
        "c3: topic2 topic3 topic4 topic5 topic6 {topic4-0 topic5-0 topic6-0 @1}",
        "c1: topic1-0 | c2: topic2-0 topic3-0 | c3: topic5-0 topic6-0 topic4-0",
        "c1: topic1-0 | c2: topic2-0 topic3-0 | c3: topic4-0 topic5-0 topic6-0", None,
    ),
    "S26": (
        "t1×2 t2×6", "c0: t1 t2 {@2} | c1: t1 t2 {t1-0 t1-1 t2-1 t2-3 t2-4 t2-5 @2} | c2: t1 {@2}",
        "c0: t2-0 t2-2 t2-1 | c1: t2-4 t2-5 t2-3 | c2: t1-0 t1-1",
        "c0: t2-0 t2-2 | c1: t2-4 t2-5 t2-3 | c2: –", None,
    ),
    "S27": (
        "t1×6 t2×2", "c0: t2 {@2} | c1: t1 t2 {t1-1 t1-3 @2} | "
        "c2: t1 t2 {t1-0 t1-2 t1-4 t1-5 t2-0 t2-1 @1}",
        "c0: t2-0 t2-1 | c1: t1-1 t1-3 t1-2 | c2: t1-4 t1-5 t1-0",
        "c0: – | c1: t1-1 t1-3 | c2: t1-4 t1-5 t1-0", None,
    ),
    "H1": (
        "t×4", "consumer10: t {t-0 t-1 @1} | consumer9: t {t-2 t-3 @1} | consumer8: t {@1}",
        "consumer10: t-0 t-1 | consumer9: t-2 | consumer8: t-3",
        "consumer10: t-0 t-1 | consumer9: t-2 | consumer8: –", "t-3→consumer8",
    ),
    "H2": (
        "t×4", "a: t {t-0 t-1 @1} | Aa: t {t-2 t-3 @1} | b: t {@1}",
        "a: t-0 | Aa: t-2 t-3 | b: t-1", "a: t-0 | Aa: t-2 t-3 | b: –", "t-1→b",
    ),
    "C1": (
        "topic1×4(a|b|a|b)",
        "c0@a: topic1 {topic1-0 topic1-1 @1} | c1@b: topic1 {topic1-2 topic1-3 @1}",
        "c0: topic1-0 topic1-2 | c1: topic1-3 topic1-1",
        "c0: topic1-0 | c1: topic1-3", "topic1-1→c1 topic1-2→c0",
    ),
}  # fmt: skip


def decided(strategy, topics, members):
    """(plan in the notation, what changes hands) of members that claim by both ways."""
    where = cluster(topics) if isinstance(topics, str) else topics
    one = find(strategy)
    sent = group(members) if isinstance(members, str) else members
    sticky = StickyProblem(Problem(add_user_data(one, with_data(sent), where).group, where))
    found, _ = one.decide_owners(sticky, -1)
    moving = transfer_rows(found, sticky)
    lists = " | ".join(
        f"{m}: {' '.join(f'{t}-{p}' for t, p in pairs) or '–'}"
        for m, pairs in found.to_pairs(sticky).items()
    )
    return lists, None if moving is None else " ".join(f"{t}-{p}→{m}" for t, p, m in moving)


def with_data(members):
    """Sticky's user data, also for those that own nothing but were in an earlier generation."""
    return pg.Group(
        m.replaced(user_data=encode_sticky_user_data(list(m.owned), m.generation))
        if m.generation >= 0
        else m
        for m in members
    )


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_both_classes_plan_alike(strategy, name) -> None:
    """Nothing changes hands, so the cooperative class has nothing to withhold."""
    topics, members, expected = BOTH[name]
    lists, moving = decided(strategy, topics, members)
    assert lists == expected
    assert not moving


@pytest.mark.parametrize("name", APART)
def test_what_changes_hands_is_withheld_by_the_cooperative_class(name) -> None:
    """The plans differ by just the partitions that have to be given up first."""
    topics, members, eager, cooperative, moving = APART[name]
    assert decided("sticky", topics, members) == (eager, moving)
    assert decided("cooperative-sticky", topics, members) == (cooperative, moving)


T = "t1×6 t2×7 t3×2"
ALL = "consumer{}{}: t1 t2 t3"
OWNED = ["t1-0 t1-1 t1-2 t1-3 t1-4", "t1-5 t2-0 t2-1 t2-2 t2-3", "t2-4 t2-5 t2-6 t3-0 t3-1"]
C7 = ["t1-3", "t2-1", "t3-1"]
C9 = ["t1-2 t1-3 t1-4", "t2-0 t2-1 t2-2 t2-3", "t3-0 t3-1"]
# name: copies of each partition (0: no racks), does consumer2 subscribe to all, owned, plan
RACKS = {
    "C2": (1, True, OWNED, ["t1-0 t1-3", "t2-1", "t3-1 t2-5"]),
    "C3": (1, True, None, [
        "t1-0 t1-3 t2-0 t2-3 t2-6", "t1-1 t1-4 t2-1 t2-4 t3-0", "t1-2 t1-5 t2-2 t2-5 t3-1",
    ]),
    "C4": (0, False, None, [
        "t2-0 t2-2 t2-4 t2-6 t1-5", "t2-1 t2-3 t2-5 t1-3 t3-0", "t1-0 t1-1 t1-2 t1-4 t3-1",
    ]),
    "C5": (1, False, None, [
        "t2-0 t2-3 t2-6 t1-3 t2-2", "t2-1 t2-4 t1-4 t3-0 t2-5", "t1-2 t1-5 t3-1 t1-0 t1-1",
    ]),
    "C6": (2, False, None, [
        "t2-0 t2-2 t2-5 t2-6 t1-3", "t2-1 t2-3 t2-4 t1-0 t3-0", "t1-1 t1-2 t1-4 t1-5 t3-1",
    ]),
    "C7": (1, False, OWNED, ["t1-3", "t2-1", "t3-1"]),
    "C8": (1, False, C7, [
        "t1-3 t2-0 t2-3 t2-6 t2-2", "t2-1 t2-4 t1-4 t3-0 t2-5", "t3-1 t1-2 t1-5 t1-0 t1-1",
    ]),
    "C9": (3, False, OWNED, C9),
    "C10": (3, False, C9, [
        "t1-2 t1-3 t1-4 t2-4 t2-5", "t2-0 t2-1 t2-2 t2-3 t2-6", "t3-0 t3-1 t1-0 t1-1 t1-5",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", RACKS)
def test_racks(name) -> None:
    """KIP-881 in the cooperative class, for equal subscriptions and for others."""
    copies, equal, owned, expected = RACKS[name]
    topics, base = {}, 0
    for topic, count in (("t1", 6), ("t2", 7), ("t3", 2)):
        rows = [["abc"[(base + p + j) % 3] for j in range(copies)] for p in range(count)]
        topics[topic] = rows if copies else count
        base += count
    members = pg.Group(
        pg.Member(
            f"consumer{i}",
            ["t1", "t2", "t3"] if equal or i < 2 else ["t1", "t3"],
            rack="abc"[i] if copies else None,
            owned=[(p[:2], int(p[3:])) for p in owned[i].split()] if owned else (),
        )
        for i in range(3)
    )
    plan = pg.assign("cooperative-sticky", members, pg.Cluster.from_topics(topics))
    got = [" ".join(f"{t}-{p}" for t, p in pairs) for pairs in plan.to_pairs().values()]
    assert got == expected


def test_user_data_of_every_age_and_none() -> None:
    """S24, S25: version 1, version 0, nothing and garbage in one group."""
    where = cluster("topic×3")
    claims = [
        encode_sticky_user_data([("topic", 0), ("topic", 2)], 1),
        encode_sticky_user_data([("topic", 1)], version=0),
        None,
    ]
    three = pg.Group(pg.Member(f"c{i + 1}", ["topic"], user_data=d) for i, d in enumerate(claims))
    assert pg.assign("sticky", three, where).to_pairs() == {
        "c1": [("topic", 0)], "c2": [("topic", 1)], "c3": [("topic", 2)],
    }  # fmt: skip
    claims = [b"\xff\xff", encode_sticky_user_data([("topic", 1)], 4)]
    two = pg.Group(pg.Member(f"c{i + 1}", ["topic"], user_data=d) for i, d in enumerate(claims))
    plan = pg.assign("sticky", two, cluster("topic×2"))
    assert plan.to_pairs() == {"c1": [("topic", 0)], "c2": [("topic", 1)]}


def test_a_topic_that_vanished_is_no_error() -> None:
    """S28: its owner gets an empty list."""
    member = pg.Member("c1", ["topic"], owned={"topic": [0, 1, 2]}, generation=1)
    plan = pg.assign("cooperative-sticky", pg.Group([member]), pg.Cluster.from_topics({}))
    assert plan.to_dict() == {"c1": {}}


def test_generations_in_all_orders() -> None:
    """S16: three claimants of different generations and a newcomer; each keeps what is its own."""
    claims = {
        "consumer2": ([("topic", 0), ("topic2", 0), ("topic1", 0)], 9),
        "consumer3": ([("topic3", 2), ("topic2", 2), ("topic1", 1)], 8),
        "consumer4": ([("topic3", 1), ("topic", 1), ("topic", 2)], 7),
    }
    names = ["topic", "topic1", "topic2", "topic3"]
    members = [pg.Member("consumer1", names)]
    for one, (owned, generation) in claims.items():
        data = encode_sticky_user_data(owned, generation)
        members.append(pg.Member(one, names, user_data=data, generation=generation))
    plan = pg.assign("sticky", pg.Group(members), cluster(FOUR))
    got = {m: " ".join(f"{t}-{p}" for t, p in pairs) for m, pairs in plan.to_pairs().items()}
    assert got == {
        "consumer1": "topic1-2 topic2-1 topic3-0",
        "consumer2": "topic-0 topic1-0 topic2-0",
        "consumer3": "topic1-1 topic2-2 topic3-2",
        "consumer4": "topic-1 topic3-1 topic-2",
    }
