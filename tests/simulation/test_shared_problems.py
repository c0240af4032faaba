"""Policies that share problems, plans and proofs have the rows of policies that share nothing."""

from __future__ import annotations

import random

import pytest
from tests.support.simulated_histories import cause, history, member, topics

from partage.api.measures import measure
from partage.judge import check
from partage.model import Group, Problem
from partage.simulation import metrics, rounds
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.context import SimulationContext
from partage.simulation.cumulative import simulate_cumulative, simulate_policies
from partage.simulation.members import build_joined_group
from partage.simulation.metrics import PlanMetrics
from partage.simulation.per_rebalance import simulate_rebalance
from partage.simulation.policies import DEFAULT_POLICIES, Policy
from partage.simulation.recorded_rebalances import recorded_rebalances
from partage.simulation.rounds import JoinedProblem, SharedProblems

#: The default policies, and one that lets members go earlier and one that is not in the default.
POLICIES = [
    Policy.parse(name)
    for name in (*DEFAULT_POLICIES, "eager/sticky+timeout=2s", "consumer/uniform+static")
]


class PlainProblems(SharedProblems):
    """Builds each problem anew from validated members, and asks the strategy each time."""

    def build_joined_problem(
        self, members, policy, strategy, cluster, *, members_as_sent=None
    ) -> JoinedProblem:
        group = members_as_sent or build_joined_group(members, policy, strategy, cluster)
        silent = self.problem_without_owned_partitions(members, cluster, static=policy.static)
        return JoinedProblem(Problem(group, cluster), silent)


def plain_judge(plan, group, cluster, weights=None, old_owners=None) -> PlanMetrics:
    """Measure one plan by the public functions, with the solver's proofs for this plan alone."""
    if old_owners is not None:
        start, partition = old_owners.rows_by_member(len(group))
        names = [cluster.index.name(p) for p in partition.tolist()]
        claims = [names[a:b] for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)]
        group = Group(m.replaced(owned=own) for m, own in zip(group, claims, strict=True))
    found = measure(plan, group, cluster, partition_weight=weights)
    return PlanMetrics(
        spread=found.spread,
        idle=found.idle,
        moved=found.moved,
        avoidable=found.avoidable if found.moved else 0,
        best_spread=found.best_spread,
        rack_mismatches=found.rack_mismatches,
        colocation=found.colocation,
        breaches=len(check(plan, group, cluster)),
        load_spread=found.load_spread,
    )


def random_history(seed: int):
    """Return generations in which members join, die and return, and metadata of three topics."""
    rng = random.Random(seed)
    alike = rng.random() < 0.5
    wants = {name: _wants(rng, alike=alike) for name in "abcde"}
    instances = {name: name if rng.random() < 0.3 else None for name in wants}
    there: dict[str, str] = {}
    time_ms, births, rows = 1_000, 0, []
    for _ in range(6):
        time_ms += rng.choice((1_000, 9_000, 40_000))
        causes = []
        for name in wants:
            if name in there and rng.random() < 0.3:
                causes.append(cause(rng.choice(("expiry", "leave")), there.pop(name)))
            elif name not in there and rng.random() < 0.5:
                births += 1
                there[name] = f"{name}{births}"
                causes.append(cause("join", there[name]))
        subscribed = [i for n, i in there.items() if "t" in wants[n]]
        members = [
            member(
                i,
                range(subscribed.index(i), 7, len(subscribed)) if i in subscribed else (),
                wants=wants[name],
                instance=instances[name],
                client=name,
            )
            for name, i in there.items()
        ]
        rows.append((time_ms, members, *(causes or [cause("unknown")])))
    strategy = rng.choice(("range", "sticky", "cooperative-sticky"))
    return history(*rows, strategy=strategy), topics(t=7, u=7, v=3)


def _wants(rng: random.Random, *, alike: bool) -> tuple[str, ...]:
    return ("t", "u") if alike else tuple(t for t in "tuv" if rng.random() < 0.7) or ("v",)


@pytest.mark.parametrize("seed", range(5))
def test_sharing_changes_no_row(seed: int) -> None:
    """Both simulations of random histories, under all policies, equal those that share nothing."""
    generations, clusters = random_history(seed)
    rebalances = tuple(recorded_rebalances(generations, clusters))
    shared = SimulationContext.of(clusters, rebalances, CommitStatistics())
    plain = SimulationContext(clusters, plain_judge, problems=PlainProblems())

    found = list(simulate_policies(rebalances, POLICIES, shared))
    for policy in POLICIES:
        alone = list(simulate_cumulative(rebalances, policy, plain))
        assert [row for row in found if row.policy == policy.name] == alone
    for one in rebalances:
        rows = list(simulate_rebalance(one, POLICIES, shared))
        assert rows == list(simulate_rebalance(one, POLICIES, plain))


def test_nearly_empty_caches_change_no_row(monkeypatch) -> None:
    """Rows are equal if every cache is emptied at each second entry, as for very large groups."""
    generations, clusters = random_history(2)
    rebalances = tuple(recorded_rebalances(generations, clusters))

    def rows() -> list[object]:
        context = SimulationContext.of(clusters, rebalances, CommitStatistics())
        single = [row for one in rebalances for row in simulate_rebalance(one, POLICIES, context)]
        return single + list(simulate_policies(rebalances, POLICIES, context))

    found = rows()
    monkeypatch.setattr(rounds, "_LEAST_CACHED", 1)
    monkeypatch.setattr(rounds, "_MOST_CACHED_MEMBERS", 1)
    monkeypatch.setattr(metrics, "_MOST_TEXTS", 1)
    assert rounds.max_cache_entries(2, 512) == 1
    assert rows() == found


def test_a_plan_is_computed_once_for_policies_with_equal_problems() -> None:
    """A second policy that has the problems of the first asks its strategy for no plan."""
    generations, clusters = random_history(1)
    generations = [one for one in generations if one.first.members]
    rebalances = tuple(recorded_rebalances(generations, clusters))
    context = SimulationContext.of(clusters, rebalances, CommitStatistics())
    chosen = Policy.parse("eager/range")
    asked = []
    assign = type(chosen.strategy).assign
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(chosen.strategy),
            "assign",
            lambda self, problem, memory=None: (
                asked.append(problem.group.ids) or assign(self, problem, memory)
            ),
        )
        list(simulate_cumulative(rebalances, chosen, context))
        first = len(asked)
        list(simulate_cumulative(rebalances, chosen, context))
        list(simulate_policies(rebalances, [Policy.parse("own"), chosen], context))
    assert len(asked) == first > 0
