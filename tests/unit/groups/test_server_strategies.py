"""The coordinator's strategies on groups that never saw a coordinator: always an answer."""

from __future__ import annotations

import random

import numpy as np
import pytest

import partage as pg
from partage.errors import InvalidProblemError
from partage.groups.registry import find
from partage.groups.server.spec import GroupSpec, TopicIds, derive_topic_id
from partage.java.tree_bins import iteration_order
from partage.kernels import force_kernel_form
from partage.model import Index, Problem
from partage.testing import cluster, group
from partage.testing.server_problems import spec_from_json

# What HashMap on JDK 17 printed, in units of 64.
JAVA_PUT = [5, 1, 0, 9, 11, 10, 3, 7, 2, 8, 4, 6]
JAVA_COMPUTE = [4, 8, 2, 7, 3, 9, 11, 10, 1, 0, 5, 6]

SERVER = ["server:range", "server:uniform", "server:simple"]


def odd_group(rng):
    """Members with claims of any kind on topics that exist, and on some that do not."""
    topics = {f"t{i}": rng.choice([0, 1, 2, 5, 9]) for i in range(rng.randint(0, 4))}
    names = [*topics, "gone", "Aa"]
    members = []
    for i in range(rng.randint(0, 6)):
        claims = [(rng.choice(names), rng.randint(-2, 11)) for _ in range(rng.randint(0, 12))]
        mine = rng.sample(names, rng.randint(0, len(names)))
        members.append(pg.Member(f"m{i}", mine, owned=claims, generation=rng.randint(-1, 2)))
    return pg.Group(members), pg.Cluster.from_topics(topics)


@pytest.mark.parametrize("strategy", SERVER)
def test_any_claims_give_a_valid_answer(strategy) -> None:
    """Disputed, repeated, foreign and negative claims: no error, and the judge is content."""
    rng = random.Random(strategy)
    several = strategy == "server:simple"
    for _ in range(400):
        members, topics = odd_group(rng)
        got = pg.assign(strategy, members, topics)
        breaches = pg.check(got, members, topics, several_owners=several)
        if several:
            # Kafka's own oversight: topics that nobody subscribes to stay with who had them.
            breaches = [b for b in breaches if b.kind.value != "unsubscribed owner"]
        assert breaches == []


def test_the_newest_generation_has_what_two_members_claim() -> None:
    """Coordinators have no disputes; of members' claims the newest counts, then the last."""
    topics = cluster("t×2")
    claims = group("a: t {t-0 @2} | b: t {t-0 @1}")
    assert pg.assign("server:uniform", claims, topics).to_dict() == {
        "a": {"t": [0]},
        "b": {"t": [1]},
    }
    claims = group("a: t {t-0 @1} | b: t {t-0 @1}")
    assert pg.assign("server:uniform", claims, topics).to_dict() == {
        "a": {"t": [1]},
        "b": {"t": [0]},
    }


def test_claims_that_jump_between_topics_are_the_same_target() -> None:
    """Order within a topic counts, the mixing of topics does not."""
    topics = cluster("t×4 u×4")
    mixed = group("a: t u {t-3 u-1 t-0 u-2 t-1} | b: t u")
    sorted_out = group("a: t u {t-3 t-0 t-1 u-1 u-2} | b: t u")
    plans = [pg.assign("server:uniform", g, topics).to_pairs() for g in (mixed, sorted_out)]
    assert plans[0] == plans[1]


def test_a_topic_id_decides_where_a_name_does_not() -> None:
    """With ids the order is that of ids; without, an id comes from the name, the same each time."""
    rows = [("t", "AAAAAAAAAAAAAAAAAAAAAQ", 1), ("u", None, 1), ("v", "no id of Kafka's", 1)]
    index = Index.of(rows)
    ids = TopicIds.from_names(index.topics, index.ids)
    assert int(ids.low[0]) == 1
    assert ids.base64_texts[0] == "AAAAAAAAAAAAAAAAAAAAAQ"
    raw = [
        high.to_bytes(8, "big") + low.to_bytes(8, "big")
        for high, low in zip(ids.high.tolist(), ids.low.tolist(), strict=True)
    ]
    assert raw[1:] == [derive_topic_id("u"), derive_topic_id("v")]


def test_a_grown_topic_is_dealt_out_whole() -> None:
    """Partitions of a later extent belong to the topic like the first ones."""
    index = Index.of({"t": 2, "u": 1}).extended([("t", None, 5)])
    grown = pg.Cluster(
        index, np.ones(2, bool), np.ones(6, bool), np.full(6, -1, np.int32),
        np.zeros(7, np.int32), np.zeros(0, np.int32), (),
    )  # fmt: skip
    members = group("a: t u {t-4 t-0} | b: t u")
    for strategy in SERVER:
        plan = pg.assign(strategy, members, grown)
        assert pg.check(plan, members, grown, several_owners=strategy == "server:simple") == []
    kept = pg.assign("server:uniform", members, grown).to_dict()["a"]["t"]
    assert {4, 0} <= set(kept)


@pytest.mark.parametrize("chosen", ["compiled", "interpreted"])
def test_both_forms_of_the_kernels_agree(chosen) -> None:
    """The heterogeneous builder gives the same plan compiled, plain, and by cost."""
    rng = random.Random(8)
    for _ in range(30):
        topics = {f"t{i}": rng.randint(0, 40) for i in range(6)}
        members = [
            pg.Member(
                f"m{i}",
                rng.sample(list(topics), rng.randint(0, 6)),
                owned=[(t, p) for t, n in topics.items() for p in range(n) if p % 9 == i],
            )
            for i in range(9)
        ]
        problem = pg.Group(members), pg.Cluster.from_topics(topics)
        by_cost = pg.assign("server:uniform", *problem).to_pairs()
        with force_kernel_form(chosen):
            assert pg.assign("server:uniform", *problem).to_pairs() == by_cost


def test_a_large_group_of_unlike_members_ends_balanced() -> None:
    """Within each topic's subscribers loads differ by at most one, and what could stay stayed."""
    topics = {f"t{i}": 30 for i in range(20)}
    names = list(topics)
    members = pg.Group(pg.Member(f"m{i}", names if i else names[:-1]) for i in range(50))
    on = pg.Cluster.from_topics(topics)
    plan = pg.assign("server:uniform", members, on)
    assert np.ptp(np.diff(plan.start)) <= 1
    again = pg.Group(m.replaced(owned=plan.to_pairs()[m.id]) for m in members)
    assert (pg.assign("server:uniform", again, on).owner == plan.owner).all()


def test_crowded_buckets_are_walked_as_java_walks_trees() -> None:
    """Printed by HashMap on JDK 17: every 64th number, put in this order."""
    keys = [64 * i for i in (5, 1, 9, 3, 7, 2, 8, 4, 6, 0, 11, 10)]
    assert [keys[i] // 64 for i in iteration_order(keys, 64)] == JAVA_PUT
    got = iteration_order(keys, 64, compute_if_absent=True, looked_up_after=True)
    assert [keys[i] // 64 for i in got] == JAVA_COMPUTE


def test_share_groups_get_an_assignment() -> None:
    """Several members share a partition: the result is no `Plan`, and the judge reports it."""
    members = group("a: t | b: t | c: t")
    strategy = find("server:simple")
    got = strategy.assign(Problem(members, cluster("t×2")))
    assert strategy.several_owners
    assert not isinstance(got, pg.Plan)
    assert [b.kind.value for b in pg.check(got, members, cluster("t×2"))] == ["two owners"] * 2


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"topics": {}}, "topics"),
        ({"topics": [{"name": "t", "id": "short", "n": 1}]}, "topics[0].id"),
        ({"topics": [{"name": "t", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "n": -2}]}, "topics[0].n"),
        ({"topics": [{"name": "t", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "n": 10**12}]}, "topics[0].n"),
        ({"members": [{"topics": []}]}, "members[0].id"),
        (
            {"members": [{"id": "a", "target": [["AAAAAAAAAAAAAAAAAAAAAQ"]]}]},
            "members[0].target[0]",
        ),
        (
            {"members": [{"id": "a", "target": [["AAAAAAAAAAAAAAAAAAAAAQ", [2**31]]]}]},
            "members[0].target[0][1][0]",
        ),
        ({"assignable": "all"}, "assignable"),
    ],
)
def test_malformed_problems_are_named_with_their_path(change, path) -> None:
    """A count, an id or a target that is none is refused before memory is taken."""
    good = {"topics": [], "members": []}
    with pytest.raises(InvalidProblemError) as caught:
        spec_from_json(good | change)
    assert caught.value.path == path


def test_subscription_types_count_names_that_no_topic_has() -> None:
    """Kafka compares names: an unknown one makes subscriptions differ as well."""
    topics = cluster("t×2")
    assert GroupSpec(Problem(group("a: t u | b: u t"), topics)).has_equal_subscriptions
    assert not GroupSpec(Problem(group("a: t u | b: t"), topics)).has_equal_subscriptions
