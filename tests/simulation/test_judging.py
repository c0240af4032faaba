"""The judge of lives takes a short way where a plan is plainly right: it must not miss a breach."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from partage.judge import check, previous_owners
from partage.model import Assignment, Cluster, Group, Member, Problem
from partage.simulation.metrics import CachedJudge


def _drawn(rng: random.Random) -> tuple[Assignment, Group, Cluster]:
    """A plan that is right, or lacks, doubles or misplaces partitions, or has other roles."""
    cluster = Cluster.from_topics({f"t{i}": rng.randrange(4) for i in range(rng.randrange(1, 4))})
    index = cluster.index
    group = Group(
        Member(f"m{i}", [t for t in index.topics if rng.random() < 0.7])
        for i in range(rng.randrange(1, 4))
    )
    lists: list[list[int]] = [[] for _ in group]
    whole = rng.random() < 0.5
    for p, topic in enumerate(index.topic_of.tolist()):
        may = [i for i, m in enumerate(group) if index.topics[topic] in m.topics]
        if may and (whole or rng.random() < 0.9):
            lists[rng.choice(may)].append(p)
    if index.partitions and rng.random() < 0.3:
        lists[rng.randrange(len(group))].append(rng.randrange(index.partitions))
    plan = Assignment.from_lists(index, group.ids, [np.array(mine, np.int32) for mine in lists])
    if len(plan.role) and rng.random() < 0.2:
        role = plan.role.copy()
        role[rng.randrange(len(role))] = rng.randrange(5)
        plan = replace(plan, role=role)
    return plan, group, cluster


def test_every_breach_that_the_rules_find_is_counted() -> None:
    """Right and wrong plans alike have as many breaches as `check` finds, one rule after the other."""
    rng, wrong = random.Random(4), 0
    for _ in range(600):
        plan, group, cluster = _drawn(rng)
        breaches = len(check(plan, group, cluster))
        wrong += breaches > 0
        assert CachedJudge()(plan, group, cluster).breaches == breaches
        before = previous_owners(Problem(group, cluster))
        assert CachedJudge()(plan, group, cluster, None, before).breaches == breaches
    assert 100 < wrong < 500
