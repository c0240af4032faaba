"""Partitions grouped by owner, and values that are kept with a cluster."""

from __future__ import annotations

import numpy as np
import pytest

import partage as pg
from partage.groups.layout import (
    cached_by_subscriptions,
    group_by_owner,
    plan_in_order,
    rows_in_map_order,
    topics_by_name,
)
from partage.groups.registry import find
from partage.kernels import force_kernel_form
from partage.model import Problem

STRATEGIES = [
    "sticky", "cooperative-sticky", "range", "roundrobin", "failover", "fair", "optimal",
    "server:uniform", "server:range", "server:simple",
]  # fmt: skip


def _case(seed):
    rng = np.random.default_rng(seed)
    members, partitions = int(rng.integers(1, 9)), int(rng.integers(0, 60))
    group = pg.Group([pg.Member(f"c{i}", ["t"]) for i in range(members)])
    problem = Problem(group, pg.Cluster.from_topics({"t": partitions}))
    order = rng.permutation(partitions).astype(np.int32)
    return problem, order, rng.integers(0, members, partitions).astype(np.int32)


@pytest.mark.parametrize("how", ["compiled", "interpreted"])
def test_the_kernel_groups_as_sorting_does(how):
    """Each member's row keeps the order of the sequence in both forms."""
    pytest.importorskip("numba")
    group_by_owner.compile()
    for seed in range(50):
        problem, order, owner = _case(seed)
        with force_kernel_form(how):
            plan = plan_in_order(problem, order, owner)
        wanted = [order[owner == m].tolist() for m in range(len(problem.group))]
        assert [plan.partitions_of(m).tolist() for m in range(len(wanted))] == wanted


def test_a_layout_is_made_again_for_other_subscriptions_only():
    """It is kept with the cluster, for the last subscriptions, and is not pickled with it."""
    cluster = pg.Cluster.from_topics({"a": 2, "b": 1})
    first, again, other = (
        Problem(pg.Group([pg.Member(name, topics)]), cluster)
        for name, topics in (("m", ["a"]), ("n", ["a"]), ("m", ["b"]))
    )
    made = cached_by_subscriptions(first, topics_by_name)
    assert cached_by_subscriptions(again, topics_by_name) is made
    assert cached_by_subscriptions(other, topics_by_name).tolist() == [1]
    assert cached_by_subscriptions(first, topics_by_name).tolist() == [0]
    assert "of_subscriptions" not in cluster.__getstate__()


def test_rows_follow_the_members_map_if_subscriptions_differ():
    """The same subscriptions in the same order, but another member comes first in the map."""
    cluster = pg.Cluster.from_topics({"Aa": 1, "BB": 1})
    for ids, first in (("ab", "BB"), ("ba", "Aa")):
        members = [pg.Member(ids[0], ["BB"]), pg.Member(ids[1], ["Aa"])]
        rows = rows_in_map_order(Problem(pg.Group(members), cluster))
        assert cluster.index.topics[rows.topics[0]] == first


@pytest.mark.parametrize("name", STRATEGIES)
def test_groups_that_share_a_cluster_get_the_plans_of_a_new_one(name):
    """Values that are kept with the cluster change no plan, whatever group was planned before."""
    rng = np.random.default_rng(5)
    counts = {topic: int(rng.integers(0, 9)) for topic in "abcdef"}
    shared, strategy = pg.Cluster.from_topics(counts), find(name)
    for _ in range(40):
        lists = [[t for t in counts if rng.random() < 0.6] for _ in range(2)]
        alike = rng.random() < 0.5
        members = []
        for i in rng.permutation(9)[: rng.integers(1, 6)].tolist():
            topics = lists[0 if alike else rng.integers(2)]
            owned = {"a": [i]} if "a" in topics and i < counts["a"] else ()
            members.append(pg.Member(f"m{i}", topics, owned=owned))
        group = pg.Group(members)
        plans = [
            strategy.assign(Problem(group, cluster))
            for cluster in (shared, pg.Cluster.from_topics(counts))
        ]
        assert plans[0].start.tolist() == plans[1].start.tolist()
        assert plans[0].partition.tolist() == plans[1].partition.tolist()


def test_without_the_kernel_the_plan_is_the_same(monkeypatch):
    """A process in which nothing is compiled sorts."""
    monkeypatch.setattr(group_by_owner, "_compiled", None)
    problem, order, owner = _case(3)
    plan = plan_in_order(problem, order, owner)
    wanted = [order[owner == m].tolist() for m in range(len(problem.group))]
    assert [plan.partitions_of(m).tolist() for m in range(len(wanted))] == wanted


def test_dicts_join_a_topic_that_comes_up_again():
    """Runs of one topic are lists; a topic that was there before goes on where it was."""
    cluster = pg.Cluster.from_topics({"a": 3, "b": 2})
    pairs = [("a", 1), ("b", 0), ("a", 0)]
    plan = pg.Plan.of(cluster.index, {"x": pairs, "y": {}, "z": [("a", 2)]})
    assert plan.to_dict() == {"x": {"a": [1, 0], "b": [0]}, "y": {}, "z": {"a": [2]}}
    assert list(plan.to_dict()["x"]) == ["a", "b"]
    assert pg.Plan.of(pg.Cluster.from_topics({}).index, {"x": {}}).to_dict() == {"x": {}}
