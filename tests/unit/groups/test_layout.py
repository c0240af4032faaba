"""Partitions grouped by owner, and values that are kept with a cluster."""

from __future__ import annotations

import numpy as np
import pytest

import partage as pg
from partage.groups.layout import group_by_owner, of_subscriptions, plan_in_order, topics_by_name
from partage.kernels import form
from partage.model import Problem


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
        with form(how):
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
    made = of_subscriptions(first, topics_by_name)
    assert of_subscriptions(again, topics_by_name) is made
    assert of_subscriptions(other, topics_by_name).tolist() == [1]
    assert of_subscriptions(first, topics_by_name).tolist() == [0]
    assert "of_subscriptions" not in cluster.__getstate__()


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
