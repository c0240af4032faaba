"""The best loads and the fewest moves against trying every plan; proofs against damage."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tiny_problems import (
    as_plan,
    loads_of,
    majorised,
    moved,
    tiny_plans,
    tiny_problems,
)

import partage as pg
from partage import judge, solve
from partage.api.measures import _SolverProblem, measure
from partage.errors import CertificateError
from partage.judge.measures import count_by_member
from partage.model import Problem


def _asked(tiny):
    facts = judge.Facts(Problem(tiny.group, tiny.cluster))
    was = judge.previous_owners(facts.problem)
    return facts, was, _SolverProblem.of(facts, was)


@given(tiny_problems())
def test_best_loads_are_best_by_all_three_criteria(tiny):
    """No plan has a smaller largest, a larger smallest, a smaller sum of squares, or is not
    majorising ours.
    """
    facts, _, question = _asked(tiny)
    best = solve.find_most_even_assignment(question.eligibility)
    mine = sorted(best.load[facts.takes_part].tolist(), reverse=True)
    others = {tuple(loads_of(plan, tiny.taking_part)) for plan in tiny.plans()}
    assert tuple(mine) in others
    for other in others:
        assert majorised(mine, other)
        assert max(mine, default=0) <= max(other, default=0)
        assert min(mine, default=0) >= min(other, default=0)
        assert sum(x * x for x in mine) <= sum(x * x for x in other)
    claim = judge.ClaimedBest(question.expand_owners(best.owner), best.topic_level)
    assert sorted(judge.verify_load_certificate(facts, claim)) == sorted(best.load)


@given(tiny_plans())
def test_fewest_moves_are_those_of_trying_every_plan(found):
    """To the best loads, and to loads as good as those of any plan; the plan shown has them."""
    tiny, plan = found
    facts, was, question = _asked(tiny)
    everybody, keepers = [m.id for m in tiny.group], tiny.keepers()
    best = solve.find_most_even_assignment(question.eligibility).load
    for loads in (sorted(best.tolist(), reverse=True), loads_of(plan, everybody)):
        as_good = [p for p in tiny.plans() if majorised(loads_of(p, everybody), loads)]
        fewest = min(moved(p, keepers) for p in as_good)
        answer = solve.find_fewest_moves(question.eligibility, question.ownership, np.array(loads))
        claim = judge.ClaimedFewest(question.expand_owners(answer.owner), answer.price)
        assert answer.moves == fewest
        assert judge.verify_moves_certificate(facts, was, np.array(loads), claim) == fewest


@given(tiny_plans())
def test_measures_of_a_valid_plan_are_those_of_counting(found):
    """Every figure against its definition, written out on names."""
    tiny, plan = found
    m = measure(as_plan(tiny, plan), tiny.group, tiny.cluster)
    keepers, everybody = tiny.keepers(), [x.id for x in tiny.group]
    loads = loads_of(plan, tiny.taking_part)
    as_good = [
        moved(p, keepers)
        for p in tiny.plans()
        if majorised(loads_of(p, everybody), loads_of(plan, everybody))
    ]
    assert m.refused is None
    assert (m.partitions, m.unowned) == (len(plan), 0)
    assert m.spread == (loads[0] - loads[-1] if loads else None)
    assert m.idle == loads.count(0)
    assert m.moved == moved(plan, keepers)
    assert m.avoidable == m.moved - min(as_good)
    assert m.rack_mismatches == _mismatches(tiny, plan)
    assert m.colocation == _colocation(tiny, plan)


def _mismatches(tiny, plan):
    rack = {m.id: m.rack for m in tiny.group}
    replicas = {tp: set(tiny.topics[tp[0]][tp[1]]) - {None} for tp in plan}
    return sum(
        1 for tp, m in plan.items() if rack[m] and replicas[tp] and rack[m] not in replicas[tp]
    )


def _colocation(tiny, plan):
    alike = {}
    for topic, racks in tiny.topics.items():
        if racks and tiny.eligible(topic):
            alike.setdefault((len(racks), tuple(tiny.eligible(topic))), []).append(topic)
    rows = [
        {plan[t, p] for t in topics}
        for (count, _), topics in alike.items()
        if len(topics) > 1
        for p in range(count)
    ]
    return sum(len(owners) == 1 for owners in rows) / len(rows) if rows else None


@given(st.integers(0, 2**32 - 1))
def test_larger_problems_prove_themselves(seed):
    """Where trying every plan is out of reach the proofs are not: the judge accepts them all."""
    rng = np.random.default_rng(seed)
    topics = {f"t{i}": int(n) for i, n in enumerate(rng.integers(0, rng.choice([3, 40]), 12))}
    wanted = rng.random((15, 12)) < rng.choice([0.1, 0.3, 0.9])
    cluster = pg.Cluster.from_topics(topics)
    known = [(t, p) for t, n in topics.items() for p in range(n)]
    group = pg.Group([
        pg.Member(
            f"m{i}",
            [f"t{t}" for t in np.flatnonzero(row)],
            owned=[tp for tp in known if rng.random() < 0.1],
            generation=int(rng.integers(3, 5)),
        )
        for i, row in enumerate(wanted)
    ])  # fmt: skip
    owner = [rng.choice(np.flatnonzero(wanted[:, int(t[1:])])) if wanted[:, int(t[1:])].any() else -1
             for t, _ in known]  # fmt: skip
    plan = pg.Plan.from_owner(cluster.index, group.ids, np.array(owner, np.int32))
    m = measure(plan, group, cluster)
    assert m.refused is None
    assert 0 <= m.avoidable <= m.moved
    assert m.fewest_moves_to_best >= m.moved - m.avoidable
    assert m.best_spread is None or m.best_spread <= m.spread


@given(tiny_plans(), st.data())
def test_no_certificate_proves_what_is_not_so(found, data):
    """Whatever levels and prices come with a plan: the judge refuses them, or the claim is true."""
    tiny, plan = found
    facts, was, question = _asked(tiny)
    small = st.integers(-2, 4)
    owner = count_by_member(as_plan(tiny, plan), facts).owner
    level = np.array(data.draw(st.tuples(*[small] * len(facts.partition_counts))), np.int64)
    price = np.array(data.draw(st.tuples(*[small] * facts.member_count)), np.int64)
    loads = np.bincount(owner[owner >= 0], minlength=facts.member_count)
    best = solve.find_most_even_assignment(question.eligibility).load
    try:
        judge.verify_load_certificate(facts, judge.ClaimedBest(owner, level))
    except CertificateError:
        pass
    else:
        assert sorted(loads) == sorted(best)
    fewest = solve.find_fewest_moves(question.eligibility, question.ownership, loads).moves
    try:
        claimed = judge.verify_moves_certificate(
            facts, was, loads, judge.ClaimedFewest(owner, price)
        )
    except CertificateError:
        pass
    else:
        assert claimed == fewest


@settings(max_examples=settings.default.max_examples // 4)
@given(tiny_problems())
def test_a_plan_that_is_not_best_is_never_proven(tiny):
    """With the solver's own true certificates, every worse plan is refused."""
    facts, was, question = _asked(tiny)
    best = solve.find_most_even_assignment(question.eligibility)
    fewest = solve.find_fewest_moves(question.eligibility, question.ownership, best.load)
    for plan in islice(tiny.plans(), 500):
        owner = count_by_member(as_plan(tiny, plan), facts).owner
        loads = np.bincount(owner[owner >= 0], minlength=facts.member_count)
        if sorted(loads) != sorted(best.load):
            with pytest.raises(CertificateError):
                judge.verify_load_certificate(facts, judge.ClaimedBest(owner, best.topic_level))
        if sorted(loads) != sorted(best.load) or moved(plan, tiny.keepers()) > fewest.moves:
            with pytest.raises(CertificateError):
                judge.verify_moves_certificate(
                    facts, was, best.load, judge.ClaimedFewest(owner, fewest.price)
                )
