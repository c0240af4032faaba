"""`optimal` against trying every plan, and its certificates before the judge."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from tests.support.small_problems import (
    Topics,
    brute_force,
    by_counts,
    eligible,
    feasible_plans,
    keepers,
    mismatches,
    moves,
    rows_of,
    small_problem,
)

import partage as pg
from partage import judge, solve
from partage.errors import CertificateError
from partage.groups.optimal.settings import PREFIX

PROBLEMS = int(os.environ.get("PARTAGE_OPTIMAL_N", "250"))
# Eight partitions and five members have 390,625 plans: `make parity` tries those of every problem.
_HEAVY = int(os.environ.get("PARTAGE_PARITY_N", "0")) >= 1_000
_ALL = 5**8
MOST_PLANS = _ALL if _HEAVY else 20_000
MOST_PLANS_BY_LOAD = _ALL if _HEAVY else 8_000


def _owners(topics: Topics, group: pg.Group, cluster: pg.Cluster, plan: pg.Plan) -> list[int]:
    """Owners of the rows in the end, as the slow answers want them."""
    owner = plan.settled().owner
    return [int(owner[cluster.index.locate(*tp)]) for tp in rows_of(topics, group)]


@pytest.mark.parity
def test_counts_are_those_of_trying_every_plan() -> None:
    """At most 5 members, 4 topics, 8 partitions: loads, rack mismatches and moves are the best there are."""
    chance = random.Random(20_261_121)
    for _ in range(PROBLEMS):
        topics, group = small_problem(chance)
        if feasible_plans(topics, group) > MOST_PLANS:
            continue
        cluster = pg.Cluster.from_topics(topics)
        plan = pg.assign("optimal", group, cluster)
        assert not pg.check(plan, group, cluster)
        got = by_counts(topics, group, _owners(topics, group, cluster, plan))
        assert got == brute_force(topics, group, by_counts), (topics, list(group))
        proven = judge.verify_certificate(plan, group, cluster)
        assert plan.certificate.optimal
        assert (proven["rack cost"], proven["moves"]) == got[1:]


def _weighed(chance: random.Random, topics: Topics, group: pg.Group, kind: str):
    """The same problem with weights, shares or limits; its settings; weights; the limit."""
    shared = kind in {"shares", "capacities", "shares and limit"}
    weights = kind in {"weights", "capacities", "weights and limit"}
    weight = {
        (t, p): float(chance.randint(0, 9)) if weights else 1.0
        for t, rows in topics.items()
        for p in range(len(rows))
    }
    settings: dict[str, object] = {}
    if weights:
        settings[PREFIX + "weights"] = {
            t: [weight[t, p] for p in range(len(rows))] for t, rows in topics.items()
        }
    limit = chance.randint(0, 3) if "limit" in kind else None
    if limit is not None:
        settings[PREFIX + "max.moves"] = limit
    members = [
        m.replaced(
            weight=float(chance.choice([0, 1, 1, 2, 3])) if shared else 1.0,
            capacity=float(chance.randint(0, 6)) if kind == "capacities" else None,
        )
        for m in group
    ]
    return pg.Group(members), settings, weight, limit


def _by_loads(weight, limit):
    """Beyond the limit; left to members of weight 0; overload; relative loads; mismatches; moves;
    squared counts by topic and member.
    """

    def key(topics: Topics, group: pg.Group, owners: list[int]) -> tuple:
        load = [0.0] * len(group)
        for tp, m in zip(rows_of(topics, group), owners, strict=True):
            load[m] += weight[tp]
        rooms = [0.0 if m.weight == 0 else inf if m.capacity is None else m.capacity for m in group]
        over = sum(max(0.0, x - room) for x, room in zip(load, rooms, strict=True))
        relative = [x / (m.weight or 1.0) for x, m in zip(load, group, strict=True)]
        moved = moves(topics, group, owners)
        beyond = limit is not None and moved > limit
        weighed = {t for m in group if m.weight for t in m.topics}
        left = sum(
            not group[m].weight and t in weighed
            for (t, _), m in zip(rows_of(topics, group), owners, strict=True)
        )
        pairs = Counter((t, m) for (t, _), m in zip(rows_of(topics, group), owners, strict=True))
        return (
            beyond, left, over, sorted(relative, reverse=True), mismatches(topics, group, owners),
            moved, sum(count**2 for count in pairs.values()),
        )  # fmt: skip

    return key


def _has_former_claims(topics: Topics, group: pg.Group) -> bool:
    """Whether a subscriber claims a partition that a newer generation gives to another member."""
    newest = keepers(topics, group)
    return any(
        tp in newest and tp[0] in m.topics and i not in newest[tp]
        for i, m in enumerate(group)
        for tp in m.owned
    )


def _forced(topics: Topics, group: pg.Group) -> int:
    may = eligible(topics, group)
    return sum(not who & set(may[t]) for (t, _), who in keepers(topics, group).items())


@pytest.mark.parity
@pytest.mark.parametrize(
    "kind",
    ["weights", "shares", "capacities", "limit", "weights and limit", "shares and limit"],
)
def test_loads_are_those_of_trying_every_plan(kind) -> None:
    """Small problems by weight are solved, and the certificate's bounds are below every plan.

    Topics are spread as evenly as in any plan that is as good, if claims do not contradict each
    other. By counts with a limit the spread is the best for each member's load only.
    """
    chance, spread = random.Random(f"loads {kind}"), 0
    for _ in range(PROBLEMS // 5):
        topics, plain = small_problem(chance)
        if feasible_plans(topics, plain) > MOST_PLANS_BY_LOAD:
            continue
        group, settings, weight, limit = _weighed(chance, topics, plain, kind)
        if limit is not None:
            limit = max(limit, _forced(topics, group))
        cluster = pg.Cluster.from_topics(topics)
        plan = pg.assign("optimal", group, cluster, config=settings)
        assert not pg.check(plan, group, cluster)
        judge.verify_certificate(plan, group, cluster)
        key = _by_loads(weight, limit)
        best = brute_force(topics, group, key)
        got = key(topics, group, _owners(topics, group, cluster, plan))
        assert got[:-1] == best[:-1], (topics, group)
        if kind != "limit" and not _has_former_claims(topics, group):
            assert got == best, (topics, group)
            spread += plan.certificate.balance == "loads"
        assert plan.certificate.bounds.get("overload", 0) <= best[2] + 1e-9
        assert plan.certificate.figures.get("on weight 0", 0) == best[1]
    assert spread > 10 or kind == "limit"


PRICES = {"r1": {"r2": 0.01, "r3": 0.02}, "r2": {"r1": 0.015, "r3": 0.0}, "r9": {"r9": 0.0}}


@pytest.mark.parity
def test_money_is_that_of_trying_every_plan() -> None:
    """With prices by pair of racks and traffic by partition, the least money comes before moves."""
    chance = random.Random(5)
    for _ in range(PROBLEMS // 3):
        topics, group = small_problem(chance)
        if feasible_plans(topics, group) > MOST_PLANS_BY_LOAD:
            continue
        traffic = {t: [chance.randint(0, 5) for _ in rows] for t, rows in topics.items()}

        def key(topics: Topics, group: pg.Group, owners: list[int], traffic=traffic) -> tuple:
            loads, _, moved = by_counts(topics, group, owners)
            money = 0
            for (t, p), m in zip(rows_of(topics, group), owners, strict=True):
                mine = group[m].rack
                of = [
                    PRICES.get(mine, {}).get(r, 0.0 if r == mine else 0.02)
                    for r in topics[t][p]
                    if r is not None
                ]
                # In thousandths, so that sums are exact.
                money += round(1000 * min(of, default=0.0)) * traffic[t][p] if mine else 0
            return loads, money, moved

        cluster = pg.Cluster.from_topics(topics)
        settings = {PREFIX + "rack.prices": PRICES, PREFIX + "traffic": traffic}
        plan = pg.assign("optimal", group, cluster, config=settings)
        judge.verify_certificate(plan, group, cluster)
        got = key(topics, group, _owners(topics, group, cluster, plan))
        assert got == brute_force(topics, group, key), (topics, list(group))


@pytest.mark.parity
def test_what_must_stay_together_does_at_the_best_loads() -> None:
    """Co-partitioned topics under "require": of all plans that keep them together, the best."""
    chance = random.Random(6)
    for _ in range(PROBLEMS // 3):
        topics, group = small_problem(chance)
        if feasible_plans(topics, group) > MOST_PLANS_BY_LOAD:
            continue
        may = eligible(topics, group)

        def key(topics: Topics, group: pg.Group, owners: list[int], may=may) -> tuple:
            owner = dict(zip(rows_of(topics, group), owners, strict=True))
            apart = sum(
                owner[t, p] != owner[u, p]
                for t, p in owner
                for u in topics
                if may[u] == may[t] and len(topics[u]) == len(topics[t])
            )
            loads, mismatched, moved = by_counts(topics, group, owners)
            return apart, loads, mismatched, moved

        cluster = pg.Cluster.from_topics(topics)
        plan = pg.assign("optimal", group, cluster, config={PREFIX + "together": "require"})
        judge.verify_certificate(plan, group, cluster)
        got = key(topics, group, _owners(topics, group, cluster, plan))
        assert got[0] == 0
        assert got == brute_force(topics, group, key), (topics, list(group))


def test_join_order_does_not_matter() -> None:
    """Members, topics and claims in any order: the same owners by name, by counts and by weights."""
    chance = random.Random(8)
    for i in range(PROBLEMS // 3):
        topics, group = small_problem(chance)
        settings = {PREFIX + "weights": {"a": 3, "b": [1, 2, 5]}} if i % 3 == 0 else {}
        settings |= {PREFIX + "together": chance.choice(["no", "prefer"])}
        found = set()
        for _ in range(3):
            members = [m.replaced(topics=chance.sample(m.topics, len(m.topics))) for m in group]
            members = [m.replaced(owned=chance.sample([*m.owned], len(m.owned))) for m in members]
            chance.shuffle(members)
            names = chance.sample([*topics], len(topics))
            shuffled = pg.Group(members), pg.Cluster.from_topics({t: topics[t] for t in names})
            plan = pg.assign("optimal", *shuffled, config=settings).settled()
            owned = {m: sorted(pairs) for m, pairs in plan.to_pairs().items()}
            found.add(str(sorted(owned.items())))
        assert len(found) == 1, (topics, list(group))


SETTINGS = [
    {},
    {PREFIX + "weights": {"a": [5, 1, 1, 2], "b": 2}},
    {PREFIX + "max.moves": 1},
    {PREFIX + "together": "require"},
    {PREFIX + "weights": {"a": [5, 1, 1, 2], "b": 2}, PREFIX + "max.moves": 1},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_two_phases_reach_the_plan_and_nothing_is_owned_twice(settings) -> None:
    """The first phase gives nobody what another has; the second reaches the settled plan or its equal.

    And with nothing changed after that, nothing moves.
    """
    chance = random.Random(9)
    for _ in range(PROBLEMS // 5):
        topics, group = small_problem(chance)
        group = _without_disputes(group)
        cluster = pg.Cluster.from_topics(topics)
        first = pg.assign("optimal", group, cluster, config=settings)
        before = {tp: m.id for m in group for tp in m.owned}
        for member, pairs in first.to_pairs().items():
            assert all(before.get(tp, member) == member for tp in pairs)
        group = _owning(group, first)
        second = pg.assign("optimal", group, cluster, config=settings, memory=first.memory)
        assert not len(second.withheld)
        assert second.certificate.figures["moves"] == 0
        if first.certificate.balance == "loads":
            assert np.array_equal(second.owner, first.settled().owner)
        third = pg.assign("optimal", _owning(group, second), cluster, config=settings)
        if PREFIX + "max.moves" not in settings:
            assert np.array_equal(third.owner, second.owner)


def _without_disputes(group: pg.Group) -> pg.Group:
    taken: set[tuple[str, int]] = set()
    members = []
    for m in group:
        members.append(m.replaced(owned=[tp for tp in m.owned if tp not in taken], generation=1))
        taken |= set(m.owned)
    return pg.Group(members)


def _owning(group: pg.Group, plan: pg.Plan) -> pg.Group:
    owned = plan.to_pairs()
    return pg.Group([m.replaced(owned=owned[m.id], generation=2) for m in group])


def test_when_a_member_leaves_only_its_partitions_move_if_balance_allows() -> None:
    """With equal subscriptions nobody else gives anything up, whatever the sizes."""
    chance = random.Random(10)
    for _ in range(PROBLEMS // 5):
        topics = {f"t{i}": chance.randint(1, 9) for i in range(chance.randint(1, 4))}
        cluster = pg.Cluster.from_topics(topics)
        group = pg.Group([pg.Member(f"m{i}", [*topics]) for i in range(chance.randint(2, 7))])
        plan = pg.assign("optimal", group, cluster)
        gone = chance.randrange(len(group))
        left = pg.Group([m for i, m in enumerate(_owning(group, plan)) if i != gone])
        after = pg.assign("optimal", left, cluster)
        assert after.certificate.figures["moves"] == 0
        assert not len(after.withheld)


def test_with_any_subscriptions_no_more_moves_than_the_best_loads_need() -> None:
    """A member leaves, or nothing happens: the moves are the fewest that the judge has a proof for."""
    chance = random.Random(12)
    for _ in range(PROBLEMS // 5):
        topics, group = small_problem(chance)
        cluster = pg.Cluster.from_topics(topics)
        bare = pg.Group([m.replaced(owned=(), rack=None) for m in group])
        group = _owning(bare, pg.assign("optimal", bare, cluster).settled())
        stays = pg.measure(pg.assign("optimal", group, cluster).settled(), group, cluster)
        assert (stays.moved, stays.avoidable) == (0, 0)
        if len(group) < 2:
            continue
        gone = chance.randrange(len(group))
        left = pg.Group([m for i, m in enumerate(group) if i != gone])
        plan = pg.assign("optimal", left, cluster)
        found = pg.measure(plan.settled(), left, cluster)
        assert found.moved == found.fewest_moves_to_best == plan.certificate.figures["moves"]


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "optimal"])
def test_at_no_moment_of_a_week_has_a_partition_two_owners(strategy) -> None:
    """Who is given a partition finds it with nobody, or with itself; every follow-up ends even."""
    chance = random.Random(f"week {strategy}")
    for _ in range(PROBLEMS // 5):
        topics, group = small_problem(chance)
        members = [m.replaced(owned=()) for m in group]
        if not members:
            continue
        gone = chance.choice(members).id
        week = [pg.Join(*members), pg.Leave(gone), pg.Join(pg.Member("late", [*topics])),
                pg.Subscribe("late", [*topics][:1])]  # fmt: skip
        rounds = pg.play(strategy, pg.Cluster.from_topics(topics), week)
        for before, one in pairwise(rounds):
            # What a member had, it reads until it hears this plan; who left, or reads it no more, does not.
            living = {m.id: set(m.topics) for m in one.group}
            for pair, member in one.owner.items():
                was = before.owner.get(pair)
                assert was in {None, member} or pair[0] not in living.get(was, ()), (pair, was)
        assert not len(rounds[-1].plan.withheld)


def test_compare_solves_a_problem_once(monkeypatch) -> None:
    """Whatever the number of strategies: one search for the best loads, and the figures of `measure`."""
    calls = []
    real = solve.find_most_even_assignment
    monkeypatch.setattr(solve, "find_most_even_assignment", lambda *a: calls.append(1) or real(*a))
    chance = random.Random(3)
    for _ in range(PROBLEMS // 25):
        topics, group = small_problem(chance)
        cluster = pg.Cluster.from_topics(topics)
        calls.clear()
        found = pg.compare(group, cluster)
        assert len(calls) == 1
        for row in found:
            if row.plan is not None:
                assert row.measures == pg.measure(row.plan.settled(), group, cluster), row.strategy


def test_no_damaged_certificate_is_believed() -> None:
    """A worse plan under the best one's proof, or a better figure than the plan has, is refused."""
    chance = random.Random(11)
    refused = 0
    for i in range(PROBLEMS // 2):
        topics, group = small_problem(chance)
        cluster = pg.Cluster.from_topics(topics)
        settings = SETTINGS[1] if i % 2 else {}
        plan = pg.assign("optimal", group, cluster, config=settings)
        proof, rows, may = plan.certificate, rows_of(topics, group), eligible(topics, group)
        for name, value in proof.figures.items():
            boast = replace(proof, figures={**proof.figures, name: value - 1})
            with pytest.raises(CertificateError):
                judge.verify_certificate(replace(plan, certificate=boast), group, cluster)
        for name, bound in proof.bounds.items():
            boast = replace(proof, bounds={**proof.bounds, name: bound + 0.5})
            with pytest.raises(CertificateError):
                judge.verify_certificate(replace(plan, certificate=boast), group, cluster)
        if not rows:
            continue
        owner = plan.settled().owner.copy()
        t, p = chance.choice(rows)
        owner[cluster.index.locate(t, p)] = chance.choice(may[t])
        other = pg.Plan.from_owner(cluster.index, group.ids, owner)
        other = replace(other, certificate=replace(proof, owner=owner))
        key = by_counts if not settings else None
        try:
            judge.verify_certificate(other, group, cluster)
        except CertificateError:
            refused += 1
        else:
            same = [_owners(topics, group, cluster, one) for one in (plan, other)]
            assert key is None or key(topics, group, same[0]) == key(topics, group, same[1])
    assert refused > PROBLEMS // 15
