"""The judge's rules against the same rules written out on names."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.tiny_problems import tiny_plans, tiny_problems

import partage as pg
from partage.judge import BreachKind


@st.composite
def assignments(draw):
    """Any relation at all, as a damaged or foreign record could have it."""
    tiny = draw(tiny_problems())
    some = st.lists(
        st.sampled_from([*tiny.partitions, ("a", 9), ("gone", 1), ("a", -1)]), max_size=5
    )
    members = draw(st.lists(st.sampled_from(["m0", "m1", "m2", "m3", "x"]), unique=True))
    return tiny, {m: draw(some) for m in members}


def _expected(tiny, owned):
    subscribed = {m.id: set(m.topics) for m in tiny.group}
    exists = set(tiny.partitions)
    yield from (("unknown member", m, None, None) for m in owned if m not in subscribed)
    yield from (("missing member", m, None, None) for m in subscribed if m not in owned)
    owners = {}
    for m, pairs in owned.items():
        for tp, times in Counter(pairs).items():
            if tp[0] not in tiny.topics:
                yield from [("unknown topic", m, *tp)] * times
            elif tp not in exists:
                yield from [("unknown partition", m, *tp)] * times
            else:
                yield from [("listed twice", m, *tp)] * (times - 1)
                if m in subscribed and tp[0] not in subscribed[m]:
                    yield from [("unsubscribed owner", m, *tp)] * times
                owners.setdefault(tp, []).append(m)
    for tp, who in owners.items():
        yield from (("two owners", m, *tp) for m in who[1:])
    yield from (("no owner", None, *tp) for tp in tiny.open if tp not in owners)


@given(assignments())
def test_breaches_are_those_of_the_rules_written_out(found):
    """Same kinds, same members, same partitions, as many times."""
    tiny, owned = found
    breaches = pg.check(pg.Assignment.of(tiny.cluster.index, owned), tiny.group, tiny.cluster)
    got = Counter((b.kind.value, b.member, b.topic, b.partition) for b in breaches)
    assert got == Counter(_expected(tiny, owned))
    assert all(str(b) for b in breaches)


@given(assignments())
def test_several_owners_may_be_allowed(found):
    """As for share groups: the same breaches, without those of two owners."""
    tiny, owned = found
    assignment = pg.Assignment.of(tiny.cluster.index, owned)
    strict = pg.check(assignment, tiny.group, tiny.cluster)
    shared = pg.check(assignment, tiny.group, tiny.cluster, several_owners=True)
    assert shared == [b for b in strict if b.kind is not BreachKind.TWO_OWNERS]


@given(tiny_plans())
def test_a_valid_plan_has_no_breach(found):
    """Every open partition with one of its subscribers, an entry for every member."""
    tiny, plan = found
    pairs = {m.id: [tp for tp, owner in plan.items() if owner == m.id] for m in tiny.group}
    assert pg.check(pg.Plan.of(tiny.cluster.index, pairs), tiny.group, tiny.cluster) == []


@given(assignments())
def test_anything_can_be_measured(found):
    """A record that breaks rules still has its figures; what has no meaning is None."""
    tiny, owned = found
    assignment = pg.Assignment.of(tiny.cluster.index, owned)
    m = pg.measure(assignment, tiny.group, tiny.cluster)
    assert m.refused is None
    kinds = {b.kind for b in pg.check(assignment, tiny.group, tiny.cluster)}
    wrong = {BreachKind.TWO_OWNERS, BreachKind.NO_OWNER, BreachKind.UNSUBSCRIBED}
    if wrong & kinds:
        assert m.avoidable is None
    elif not kinds:
        assert m.avoidable is not None
        assert 0 <= m.avoidable <= m.moved
