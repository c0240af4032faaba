"""What holds for every plan of every first strategy, whatever the group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import partage as pg
from partage.groups.failover import Failover
from partage.groups.registry import find
from partage.model import Cluster, Group, Problem
from partage.testing.strategies import problems

FIRST = ["range", "roundrobin", "fair", "failover"]


def permuted(problem, draw):
    """The same members, topics and subscriptions, everything in another order."""
    index, cluster = problem.index, problem.cluster
    topics = {
        name: [list(cluster.racks_of(int(p))) or [None] for p in cluster.partitions_of(name)]
        for name in draw(st.permutations(index.topics))
    }
    members = [
        m.replaced(topics=draw(st.permutations(m.topics)))
        for m in draw(st.permutations(problem.group.members))
    ]
    return Problem(Group(members), Cluster.from_topics(topics))


def owners(plan):
    return {(t, p): member for member, pairs in plan.to_pairs().items() for t, p in pairs}


@pytest.mark.parametrize("strategy", FIRST)
@given(problem=problems(min_members=1, racks=True))
def test_every_subscribed_partition_has_exactly_one_owner_who_subscribes(strategy, problem) -> None:
    """The judge finds no breach, and every member has an entry in join order."""
    plan = find(strategy).assign(problem)
    assert pg.check(plan, problem.group, problem.cluster) == []
    assert list(plan.to_dict()) == list(problem.group.ids)
    assert plan.owner.dtype == np.int32


@pytest.mark.parametrize("strategy", FIRST)
@given(data=st.data())
def test_no_order_of_the_input_changes_an_owner(strategy, data) -> None:
    """Join order, topic order and the order inside a subscription: without effect on owners."""
    problem = data.draw(problems(min_members=1, racks=True))
    other = permuted(problem, data.draw)
    assert owners(find(strategy).assign(problem)) == owners(find(strategy).assign(other))


@given(problem=problems(min_members=1))
def test_range_is_even_within_each_topic(problem) -> None:
    """Per topic, loads of its subscribers differ by at most one."""
    plan = find("range").assign(problem)
    for topic in problem.subscribed_topics.tolist():
        owner = plan.owner[problem.cluster.partitions_of(topic)]
        loads = [int((owner == m).sum()) for m in problem.members_of(topic).tolist()]
        assert max(loads) - min(loads) <= 1


@given(problem=problems(min_members=1, racks=True))
def test_range_co_locates_topics_of_one_size_and_one_subscriber_set(problem) -> None:
    """Equal partition numbers of such topics have one owner, racks or not."""
    plan = find("range").assign(problem)
    seen = {}
    for topic in problem.subscribed_topics.tolist():
        partitions = problem.cluster.partitions_of(topic)
        key = (len(partitions), tuple(problem.members_of(topic).tolist()))
        mine = plan.owner[partitions].tolist()
        assert seen.setdefault(key, mine) == mine


@pytest.mark.parametrize("strategy", ["roundrobin", "fair"])
@given(data=st.data())
def test_equal_subscriptions_are_dealt_evenly(strategy, data) -> None:
    """Loads differ by at most one when all members subscribe to the same."""
    problem = data.draw(problems(min_members=1))
    same = Group(m.replaced(topics=problem.index.topics) for m in problem.group)
    plan = find(strategy).assign(Problem(same, problem.cluster))
    loads = np.diff(plan.start)
    assert loads.max() - loads.min() <= 1


@given(problem=problems(min_members=1, claims=True))
def test_failover_gives_each_topic_to_one_member(problem) -> None:
    """With preemption; without it what a living subscriber claims stays with a claimant."""
    plan = find("failover").assign(problem)
    for topic in problem.subscribed_topics.tolist():
        assert len(set(plan.owner[problem.cluster.partitions_of(topic)].tolist())) <= 1
    kept = Failover(preemption=False).assign(problem)
    assert pg.check(kept, problem.group, problem.cluster) == []
    start, claimed = problem.claims
    topic_of = problem.index.topic_of
    claimants = {}
    for m in range(len(problem.group)):
        for p in claimed[start[m] : start[m + 1]].tolist():
            if p >= 0 and m in problem.members_of(int(topic_of[p])):
                claimants.setdefault(p, set()).add(m)
    for p, members in claimants.items():
        assert int(kept.owner[p]) in members


SCRIPT = """
    import json, random, sys
    from parity.problems import nasty_problem
    import partage as pg
    rng = random.Random(11)
    plans = []
    for _ in range(40):
        one = nasty_problem(rng)
        if one["members"]:
            group, cluster = pg.Group.from_json(one), pg.Cluster.from_json(one)
            for name in ("range", "roundrobin", "fair", "failover"):
                plans.append(pg.assign(name, group, cluster).to_json())
    from parity.stream_random import nasty_stream_problem
    from tests.support.stream_problems import ANSWERS, answer
    for _ in range(5):
        one = nasty_stream_problem(rng)
        plans += [answer(kind, one) for kind in sorted(ANSWERS)]
    print(json.dumps(plans))
"""


def test_the_hash_seed_changes_nothing() -> None:
    """Three interpreters with other hash seeds print the same plans, order included."""
    tests = str(Path(__file__).resolve().parents[1])
    printed = set()
    for seed in ("0", "1", "4242"):
        path = os.pathsep.join([tests, *(p for p in sys.path if p)])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(SCRIPT)],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(json.loads(printed.pop())) > 100
