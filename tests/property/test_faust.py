"""What holds of Faust's strategies: the statements of its own tests, and those of its document."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import partage as pg
from partage.groups.faust.copartitioned import SplitMix64, assign_actives, place_standbys
from partage.groups.faust.inputs import PreviousCopies
from partage.groups.faust.plan import CopartitionedAssignment
from partage.groups.faust.settings import REPLICAS, SEED
from partage.groups.faust.stock import assign_partitions
from partage.groups.registry import find
from partage.model import Cluster, Group, Member, Problem
from partage.testing.strategies import problems

SEEDS = 1_000


def stock(before, members, partitions, replicas):
    """By member (active, standby) sets under the stock rule."""
    hands = [
        CopartitionedAssignment.from_partition_numbers(*before.get(m, ((), ()))) for m in members
    ]
    assign_partitions(hands, partitions, replicas)
    return {m: (one.actives, one.standbys) for m, one in zip(members, hands, strict=True)}


def ours(before, members, partitions, replicas, seed=0):
    """The same under the document's rule."""
    owner, copies = [-1] * partitions, [[] for _ in range(partitions)]
    for place, m in enumerate(members):
        for p in before.get(m, ((), ()))[0]:
            owner[p] = place
        for p in before.get(m, ((), ()))[1]:
            copies[p].append(place)
    was = PreviousCopies(owner, copies)
    active = assign_actives(was, len(members))
    held = place_standbys(
        was, active, len(members), min(replicas, len(members) - 1), SplitMix64(seed)
    )
    return {
        m: (
            {p for p, a in enumerate(active) if a == place},
            {p for p, mine in enumerate(held) if place in mine},
        )
        for place, m in enumerate(members)
    }


RULES = pytest.mark.parametrize("rule", [stock, ours])
GROUPS = st.tuples(st.integers(0, 64), st.integers(1, 24), st.integers(0, 6)).filter(
    lambda one: one[2] < one[1]
)


def expect_valid(plan, partitions, replicas):
    """Each number with one active member and its standbys, which are others."""
    actives = Counter(p for mine, _ in plan.values() for p in mine)
    copies = Counter(p for _, mine in plan.values() for p in mine)
    assert actives == Counter(range(partitions))
    assert copies == Counter({p: replicas for p in range(partitions) if replicas})
    assert all(mine.isdisjoint(copied) for mine, copied in plan.values())


@RULES
@given(sizes=GROUPS)
def test_a_fresh_group_is_served(rule, sizes) -> None:
    """Faust's first statement: one active member a partition, as many standbys as were asked for."""
    partitions, members, replicas = sizes
    expect_valid(rule({}, range(members), partitions, replicas), partitions, replicas)


@RULES
@given(sizes=GROUPS, more=st.integers(1, 8))
def test_who_is_there_gains_nothing_when_others_come(rule, sizes, more) -> None:
    """Faust's second: with standbys no old member gets an active one that it had not; and nobody
    is idle without standbys while there are enough partitions.
    """
    partitions, members, replicas = sizes
    before = rule({}, range(members), partitions, replicas)
    after = rule(before, range(members + more), partitions, replicas)
    expect_valid(after, partitions, replicas)
    if replicas or rule is ours:
        assert all(after[m][0] <= before[m][0] for m in range(members))
    if (not replicas or rule is ours) and partitions >= members + more:
        assert all(actives for actives, _ in after.values())


@RULES
@given(sizes=GROUPS, fewer=st.integers(1, 8))
def test_who_stays_gains_only_what_the_others_had_who_go(rule, sizes, fewer) -> None:
    """Faust's third: with standbys an active one was there before, or with a member that left;
    and nobody is idle without standbys while there are enough partitions.
    """
    partitions, members, replicas = sizes
    if members - fewer <= replicas:
        return
    before = rule({}, range(members), partitions, replicas)
    stay = range(members - fewer)
    after = rule(before, stay, partitions, replicas)
    expect_valid(after, partitions, replicas)
    left = set().union(*(before[m][0] for m in range(members - fewer, members)))
    if replicas or rule is ours:
        assert all(after[m][0] <= before[m][0] | left for m in stay)
    if (not replicas or rule is ours) and partitions >= len(stay):
        assert all(after[m][0] for m in stay)


@RULES
@given(
    partitions=st.integers(2, 256), members=st.integers(2, 40), replicas=st.integers(1, 8)
)  # fmt: skip
@settings(max_examples=40)
def test_standbys_find_an_end(rule, partitions, members, replicas) -> None:
    """Faust's fourth: placing standbys ends, and the plan is valid."""
    replicas = min(replicas, members - 1)
    expect_valid(rule({}, range(members), partitions, replicas), partitions, replicas)


# --- what the document asks for, of faust:copartitioned ------------------------------------


@st.composite
def lives(draw, most_members=8, most_partitions=20):
    """A group and what became of it: (partitions, replicas, seed, plans in turn with members)."""
    partitions = draw(st.integers(1, most_partitions))
    replicas = draw(st.integers(0, 3))
    seed = draw(st.integers(0, 5))
    members = list(range(draw(st.integers(1, most_members))))
    plan = ours({}, members, partitions, replicas, seed)
    turns = [(members, {}, plan)]
    for new in range(100, 100 + draw(st.integers(1, 4))):
        gone = draw(st.sets(st.sampled_from(members), max_size=len(members) - 1))
        joined = [new + 10 * i for i in range(draw(st.integers(0, 2)))]
        members = [m for m in members if m not in gone] + joined
        before, plan = plan, ours(plan, members, partitions, replicas, seed)
        turns.append((members, before, plan))
    return partitions, replicas, seed, turns


@given(life=lives())
def test_in_every_turn_of_a_life_the_aims_are_met(life) -> None:
    """Each plan is valid and leaves no member idle while there is enough. A lost partition goes to one
    of its standbys, or to a member that had nothing and then has no more than its share; in a quiet
    turn loads differ by one at most.
    """
    partitions, replicas, _, turns = life
    for members, before, plan in turns:
        expect_valid(plan, partitions, min(replicas, len(members) - 1))
        loads = [len(plan[m][0]) for m in members]
        enough = partitions >= len(members)
        assert not enough or min(loads) >= 1
        owner = {p: m for m in members for p in plan[m][0]}
        lost = set(range(partitions)) - set().union(*(before.get(m, ((),))[0] for m in members))
        able = {p: {m for m in members if p in before.get(m, ((), ()))[1]} for p in lost}
        passed_over = [p for p in lost if able[p] and owner[p] not in able[p]]
        for p in passed_over:
            assert not before.get(owner[p], ((), ()))[0]
            assert len(plan[owner[p]][0]) <= -(-partitions // len(members))
        if not any(able.values()):
            assert max(loads) - min(loads) <= 1
        else:
            for m in members:
                had_nothing = not before.get(m, ((), ()))[0]
                assert had_nothing or plan[m][0] - before[m][0] <= lost


@given(life=lives())
def test_copies_are_spread_evenly_whatever_happened(life) -> None:
    """Of each member's partitions any two others have as many copies, give or take one."""
    _, replicas, _, turns = life
    for members, _, plan in turns:
        for owner in members:
            row = [len(plan[owner][0] & plan[m][1]) for m in members if m != owner]
            assert not row or max(row) - min(row) <= 1
        assert replicas or not any(copies for _, copies in plan.values())


@given(life=lives())
def test_without_a_change_nothing_moves(life) -> None:
    """A quiet group, once even, stays as it is: actives and standbys."""
    partitions, replicas, seed, turns = life
    members, _, plan = turns[-1]
    even = ours(plan, members, partitions, replicas, seed)
    assert ours(even, members, partitions, replicas, seed) == even


def test_after_any_death_the_others_take_over_equal_shares() -> None:
    """Over 1,000 seeds: each survivor's average inheritance is its share, and with any one seed it
    is that share give or take one.
    """
    partitions, members = 18, 6
    beyond = Counter()
    for seed in range(SEEDS):
        dies = seed % members
        before = ours({}, range(members), partitions, 1, seed)
        survivors = [m for m in range(members) if m != dies]
        after = ours(before, survivors, partitions, 1, seed)
        share = len(before[dies][0]) / len(survivors)
        for m in survivors:
            inherits = len(after[m][0] & before[dies][0])
            assert abs(inherits - share) <= 1
            beyond[m] += inherits - share
    assert all(abs(beyond[m]) / SEEDS <= 0.1 for m in range(members)), beyond


def test_the_seed_decides_and_nothing_else() -> None:
    """One seed, one plan; a hundred seeds, many."""
    plans = {str(ours({}, range(5), 15, 1, seed)) for seed in range(100)}
    assert len(plans) > 90
    assert len({str(ours({}, range(5), 15, 1, 7)) for _ in range(5)}) == 1


def score(owner, before, members):
    """Return the figures to minimise, aim by aim, counted from the definitions."""
    loads = Counter(owner)
    lost = [p for p, was in enumerate(before.owner) if was < 0 and before.standbys[p]]
    working = {m for m in before.owner if m >= 0}
    moved = [p for p, was in enumerate(before.owner) if was not in {-1, owner[p]}]
    return (
        sum(loads[m] == 0 for m in range(members)) if len(owner) >= members else 0,
        sum(owner[p] not in before.standbys[p] and owner[p] in working for p in lost),
        sum(owner[p] in working for p in moved) if lost else 0,
        sum(n * n for n in loads.values()),
        sum(owner[p] not in before.standbys[p] for p in (*moved, *lost)),
        len(moved),
    )


@given(data=st.data(), members=st.integers(1, 4), partitions=st.integers(1, 6))
@settings(max_examples=60)
def test_no_other_placement_of_actives_is_better(data, members, partitions) -> None:
    """Every one of the members ** partitions placements, compared aim by aim."""
    if members**partitions > 1100:
        partitions = 5
    place = st.integers(-1, members - 1)
    owner = data.draw(st.lists(place, min_size=partitions, max_size=partitions))
    able = st.sets(st.integers(0, members - 1), max_size=2)
    copies = [sorted(data.draw(able) - {was}) for was in owner]
    before = PreviousCopies(owner, copies)
    best = min(
        score(one, before, members) for one in itertools.product(range(members), repeat=partitions)
    )
    assert score(assign_actives(before, members), before, members) == best


@pytest.mark.parametrize("name", ["faust", "faust:copartitioned"])
@given(problem=problems(min_members=1))
def test_every_plan_keeps_the_judges_rules_and_topics_together(name, problem) -> None:
    """Valid for any group; one number of topics with one size and one subscriber set has one owner."""
    plan = find(name).assign(problem)
    assert pg.check(plan, problem.group, problem.cluster) == []
    together = {}
    for topic in problem.subscribed_topics.tolist():
        partitions = problem.cluster.partitions_of(topic)
        key = (len(partitions), tuple(problem.members_of(topic).tolist()))
        owners = plan.owner[partitions].tolist()
        assert together.setdefault(key, owners) == owners


@given(st.permutations(["a", "b", "c"]), st.integers(0, 3))
def test_what_stock_workers_had_is_taken_over(order, replicas) -> None:
    """A group goes from one rule to the other and back: each takes the other's plan for its own."""
    cluster = Cluster.from_topics({"s": 6, "t": 6})
    names = ["faust", "faust:copartitioned", "faust"]
    metadata = SimpleNamespace(get=lambda _: None)
    owner = None
    for name in names:
        strategy = find(name).configure({REPLICAS: replicas, SEED: 1})
        members = [
            Member(m, ["s", "t"], user_data=strategy.subscription_user_data([], metadata.get(m)))
            for m in order
        ]
        plan = strategy.assign(Problem(Group(members), cluster))
        assert owner is None or plan.to_dict() == owner
        owner, metadata = plan.to_dict(), plan.metadata


@RULES
def test_a_newcomer_gets_the_partitions_of_the_killed_member(rule) -> None:
    """One of two workers is killed and a new one joins in the same rebalance: only the killed worker's
    partitions change their owner, under Faust's rule and under ours.
    """
    before = {"a": ({0, 1}, {2, 3}), "b": ({2, 3}, {0, 1})}
    after = rule(before, ["a", "c"], 4, 1)
    assert after == {"a": ({0, 1}, {2, 3}), "c": ({2, 3}, {0, 1})}


def moved(before, after):
    """Return the pairs (member, partition) of actives that another member had, or no member."""
    return {
        (m, p) for m, (actives, _) in after.items() for p in actives
        if p not in before.get(m, ((), ()))[0]
    }  # fmt: skip


@given(
    partitions=st.integers(1, 24), members=st.integers(2, 8), replicas=st.integers(0, 3),
    killed=st.integers(1, 3), joined=st.integers(0, 3),
)  # fmt: skip
def test_a_kill_with_newcomers_moves_no_more_than_faust_does(
    partitions, members, replicas, killed, joined
) -> None:
    """Of an even group some workers are killed while others join. Where Faust's rule leaves loads as
    even as ours, ours moves no more actives, or fewer of them start cold. Without standbys it moves
    only what the loads need.
    """
    killed = min(killed, members - 1)
    before = ours({}, range(members), partitions, min(replicas, members - 1))
    now = [*range(killed, members), *range(100, 100 + joined)]
    wanted = min(replicas, len(now) - 1)
    after, theirs = ours(before, now, partitions, wanted), stock(before, now, partitions, wanted)

    def moves_and_cold(plan):
        pairs = moved(before, plan)
        return len(pairs), sum(p not in before.get(m, ((), ()))[1] for m, p in pairs)

    moves, cold = moves_and_cold(after)
    if evenness(theirs) == evenness(after):
        faust_moves, faust_cold = moves_and_cold(theirs)
        assert moves <= faust_moves or cold < faust_cold
    if not replicas:
        had = {m: len(before.get(m, ((), ()))[0]) for m in now}
        assert moves == sum(max(len(after[m][0]) - had[m], 0) for m in now)


def evenness(plan):
    """Return the loads of a plan, sorted."""
    return sorted(len(actives) for actives, _ in plan.values())
