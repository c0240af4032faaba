"""What Kafka's sticky classes do where one would not expect it (the quirk register's numbers)."""

from __future__ import annotations

import random

import numpy as np
import pytest

import partage as pg
from partage.errors import InvalidConfigError
from partage.groups.registry import find
from partage.groups.sticky import StickyAssignorError, StickyMemory
from partage.groups.sticky.claims import (
    claims_of_owned,
    claims_of_user_data,
    read_group_user_data,
    resolve_claims,
)
from partage.groups.sticky.general import _assign_and_balance
from partage.groups.sticky.general_problem import build_general_problem
from partage.groups.sticky.problem import Racks, StickyProblem
from partage.groups.sticky.quirks.member_lists import ListBalancer
from partage.kernels import force_kernel_form
from partage.model import Assignment, Claims, Problem
from partage.testing import cluster, group
from partage.wire.consumer_protocol import encode_sticky_user_data


def sticky(members, topics, memory=None):
    return pg.assign("sticky", members, cluster(topics), memory=memory)


def coop(members, topics):
    return pg.assign("cooperative-sticky", group(members), cluster(topics))


def member(name, topics, claims, generation, field=-1):
    data = encode_sticky_user_data(claims, generation)
    return pg.Member(name, topics, user_data=data, generation=field)


def test_q1_who_subscribes_to_nothing_may_get_something() -> None:
    """An empty subscription that is visited first counts as equal to what follows."""
    assert sticky(group("a: | b: t1"), "t1×4").to_dict() == {
        "a": {"t1": [0, 2]},
        "b": {"t1": [1, 3]},
    }
    assert sticky(group("b: | a: t1"), "t1×4").to_dict() == {"b": {}, "a": {"t1": [0, 1, 2, 3]}}


def test_q2_a_null_pointer_is_a_refusal_in_words() -> None:
    """A previous owner that can take part no more: Kafka fails, we say on which partition."""
    members = "C0: t2 {t1-0 @1} | C1: t1 {t1-1 t1-2 t1-3 t1-4 t1-5 @2} | C2: t1 {@2}"
    with pytest.raises(StickyAssignorError, match="older generation") as refused:
        coop(members, "t1×6 t2×1")
    assert refused.value.java_exception == "NullPointerException"
    assert isinstance(refused.value, pg.UnsupportedProblemError)


def test_q3_a_previous_owner_gets_what_it_does_not_subscribe_to() -> None:
    """The plan is Kafka's, and the judge names the breach."""
    members = "C0: t2 {t1-0 @1} | C1: t1 {t1-1 t1-2 t1-3 t1-4 t1-5 @2} | C2: t1 t2 {t2-0 t2-1 @2}"
    plan = coop(members, "t1×6 t2×2")
    assert plan.to_dict() == {"C0": {"t1": [0]}, "C1": {"t1": [3, 4, 5]}, "C2": {"t2": [1]}}
    assert "unsubscribed owner" in {
        b.kind.value for b in pg.check(plan, group(members), cluster("t1×6 t2×2"))
    }


def test_q4_a_partition_claimed_twice_by_one_member_changes_hands_with_itself() -> None:
    """It is withheld from the member that has it."""
    twice = pg.Member("a", ["t1"], owned=[("t1", 0), ("t1", 0)], generation=3)
    b = pg.Member("b", ["t1"], owned=[("t1", 1)], generation=3)
    plan = pg.assign("cooperative-sticky", pg.Group([twice, b]), cluster("t1×2"))
    assert plan.to_dict() == {"a": {}, "b": {"t1": [1]}}


@pytest.mark.parametrize(
    ("a", "b", "fields", "expected"),
    [
        (5, 4, False, {"a": {"t1": [1]}, "b": {"t1": [0]}}),
        (4, 5, False, {"a": {"t1": [1]}, "b": {"t1": [0]}}),
        (5, 4, True, {"a": {"t1": [0]}, "b": {"t1": [1]}}),
        (4, 5, True, {"a": {"t1": [1]}, "b": {"t1": [0]}}),
    ],
)
def test_q5_generations_are_compared_across_two_fields(a, b, fields, expected) -> None:
    """The earlier claimant's from the subscription, the later one's from the user data."""
    both = [("t1", 0), ("t1", 1)]
    members = [member(n, ["t1"], both, g, g if fields else -1) for n, g in (("a", a), ("b", b))]
    assert sticky(pg.Group(members), "t1×2").to_dict() == expected


def test_q6_the_highest_generation_is_remembered() -> None:
    """After an older group's generation 9, claims of generation 1 count as a previous owner's."""
    high = sticky(pg.Group([member("x", ["t"], [("t", 0)], 9, 9)]), "t×1")
    assert high.memory == StickyMemory(max_generation=9)
    claims = [[("a", 0), ("a", 1), ("a", 2), ("a", 3)], [], []]
    members = pg.Group(
        member(n, topics, mine, 1, 1)
        for n, topics, mine in zip("pqr", (["a", "b"], ["a", "b"], ["a"]), claims, strict=True)
    )
    plan = sticky(members, "a×4 b×2", high.memory)
    assert plan.memory.max_generation == 9
    assert sticky(members, "a×4 b×2").memory.max_generation == 1


def test_q13_an_eager_group_has_nothing_to_stick_to() -> None:
    """Cooperative-sticky reads owned partitions only, and user data has none."""
    data = encode_sticky_user_data([("t", 1)], 1)
    members = pg.Group([pg.Member("a", ["t"]), pg.Member("b", ["t"], user_data=data)])
    plan = pg.assign("cooperative-sticky", members, cluster("t×2"))
    assert plan.to_dict() == {"a": {"t": [0]}, "b": {"t": [1]}}
    members = pg.Group([pg.Member("a", ["t"], user_data=data), pg.Member("b", ["t"])])
    plan = pg.assign("cooperative-sticky", members, cluster("t×2"))
    assert plan.to_dict() == {"a": {"t": [0]}, "b": {"t": [1]}}


def test_q18_which_partitions_exceed_the_quota_goes_by_number() -> None:
    """High numbers are given up first, whatever their topic."""
    plan = coop("a: t u {t-0 t-1 u-0 u-1 @1} | b: t u {@1}", "t×2 u×2")
    assert plan.to_pairs() == {"a": [("t", 0), ("u", 0)], "b": []}


def test_q26_partitions_that_do_not_exist_are_kept_and_stand_apart() -> None:
    """They count, so another member gets more; or nobody is left for a real one."""
    members = "a: t {t-0 t-5 @1} | b: t {@1}"
    plan = coop(members, "t×3")
    assert [(u.member, u.topic, u.partition) for u in plan.unresolved] == [("a", "t", 5)]
    assert plan.to_dict()["a"] == {"t": [0]}
    with pytest.raises(StickyAssignorError, match="do not exist") as refused:
        coop("a: t {t-5 @1}", "t×1")
    assert refused.value.java_exception == "IllegalStateException"


def test_what_kafka_gives_twice_is_no_plan_but_is_shown() -> None:
    """The comparison of kept and existing partitions loses its place at a foreign one."""
    members = "a: t u {t-7 u-0 @1} | b: t {t-0 @1} | c: u"
    with pytest.raises(StickyAssignorError, match="two members") as refused:
        coop(members, "t×2 u×2")
    assert refused.value.java_exception is None
    given = [p for mine in refused.value.assignment.to_pairs().values() for p in mine]
    assert len(set(given)) < len(given)


def test_who_lost_a_partition_to_a_dispute_cannot_win_it_back_from_itself() -> None:
    """Found by parity: Kafka adds it to the list, then removes it from the same list."""
    twice = [("ｚ", 0), ("ｚ", 0)]
    members = [
        member("consumer-008", ["ｚ", "é"], twice, 1),
        member("consumer-001", ["gone"], twice, -1, 1),
    ]
    plan = sticky(pg.Group(members), "ｚ×1 é×1")
    assert plan.to_pairs() == {"consumer-008": [("é", 0), ("ｚ", 0)], "consumer-001": []}
    members[0] = member("consumer-008", ["ｚ", "é"], twice[:1], 1)
    assert sticky(pg.Group(members), "ｚ×1 é×1").to_pairs() == plan.to_pairs()


def test_a_foreign_claim_that_was_dropped_does_not_blur_the_balance() -> None:
    """Found by parity: d9 may not get its old partition back, since nobody could get more."""
    members = [
        pg.Member("0d8ae52fa765", ["de0778cf2cce"]),
        pg.Member(
            "d9f18464f693", ["de0778cf2cce"], owned=[("967658236d1b", -1), ("967658236d1b", 4)]
        ),
        pg.Member("b55aa2bb99a3", ["967658236d1b"], user_data=b"\0\0\0\5"),
        pg.Member("094fe27539e8", ["967658236d1b"]),
    ]
    plan = pg.assign(
        "cooperative-sticky", pg.Group(members), cluster("de0778cf2cce×1 967658236d1b×5")
    )
    assert plan.to_pairs() == {
        "0d8ae52fa765": [("de0778cf2cce", 0)],
        "d9f18464f693": [],
        "b55aa2bb99a3": [("967658236d1b", 1), ("967658236d1b", 3)],
        "094fe27539e8": [("967658236d1b", 0), ("967658236d1b", 2)],
    }


def test_no_members_is_an_arithmetic_error() -> None:
    """Kafka's class divides by their number."""
    for strategy in ("sticky", "cooperative-sticky"):
        with pytest.raises(StickyAssignorError) as refused:
            pg.assign(strategy, pg.Group([]), cluster("t×1"))
        assert refused.value.java_exception == "ArithmeticException"


def test_what_a_member_remembers_and_sends() -> None:
    """Sticky: nothing, then version 1. Cooperative: four bytes always."""
    one, two = find("sticky"), find("cooperative-sticky")
    assert one.subscription_user_data(["t"]) is None
    assert two.subscription_user_data(["t"]) == b"\xff\xff\xff\xff"
    mine = Assignment.of(cluster("foo×2 bar×1").index, {"a": [("foo", 1), ("bar", 0)]})
    kept = one.on_assignment(mine, None, 5, StickyMemory(max_generation=7))
    assert kept == StickyMemory(7, (("foo", 1), ("bar", 0)), 5)
    assert one.subscription_user_data(["t"], kept) == encode_sticky_user_data(kept.partitions, 5)
    assert two.subscription_user_data(["t"], two.on_assignment(mine, None, 5)) == b"\0\0\0\5"
    with pytest.raises(InvalidConfigError, match="memory"):
        one.subscription_user_data(["t"], {"generation": 5})


def test_partition_numbers_with_holes() -> None:
    """Nothing kept: the partitions there are; otherwise numbers are counted from 0, as in Kafka."""
    full = cluster("t×4")
    exists = np.array([True, False, True, True])
    holes = pg.Cluster(
        full.index, full.topic_exists, exists, full.leader, full.replica_start, full.replica,
        full.brokers,
    )  # fmt: skip
    fresh = pg.assign("cooperative-sticky", group("a: t"), holes)
    assert fresh.to_dict() == {"a": {"t": [0, 2, 3]}}
    kept = pg.assign("cooperative-sticky", group("a: t {t-0 @1}"), holes)
    assert kept.to_dict() == {"a": {"t": [0, 2]}}
    assert [(u.topic, u.partition) for u in kept.unresolved] == [("t", 1)]


def random_group(rng):
    names = [f"t{i}" for i in range(rng.randint(1, 5))] + ["ｚ", "𐀀"]
    where = pg.Cluster.from_topics(
        {n: [[rng.choice("ab")] for _ in range(rng.randint(1, 6))] for n in names}
    )
    there = [where.index.name(p) for p in range(where.index.partitions)]
    members = []
    for i in range(rng.randint(2, 9)):
        mine = [rng.choice(there) for _ in range(rng.choice([0, 3, 9]))]
        wanted = rng.sample(names, rng.randint(1, len(names)))
        generation = rng.choice([-1, 2, 3, 3])
        rack = rng.choice(["a", "b", None])
        members.append(pg.Member(f"m{i}", wanted, owned=mine, generation=generation, rack=rack))
    return Problem(pg.Group(members), where)


def outcome(decide):
    try:
        return decide()
    except StickyAssignorError as refusal:
        return refusal.java_exception


def test_lists_and_arrays_decide_alike() -> None:
    """The general algorithm in both forms, on 300 groups whose claims exist."""
    rng = random.Random(17)
    moved = 0
    for _ in range(300):
        sticky = StickyProblem(random_group(rng))
        claimed = claims_of_owned(sticky)
        owned, racks = resolve_claims(sticky, claimed), Racks(sticky, claimed.slots)
        table = build_general_problem(sticky, claimed, owned, racks, max_generation=3)
        expected, got = (
            outcome(ListBalancer(table).assign_and_balance),
            outcome(lambda t=table: _assign_and_balance(t)),
        )
        if isinstance(expected, str):
            assert got == expected
            continue
        assert got.start.tolist() == expected.start.tolist()
        assert got.slot.tolist() == expected.slot.tolist()
        moved += len(claimed.slot) > 0
    assert moved > 100


def test_user_data_read_together_and_one_by_one() -> None:
    """2,000 damaged claims: the kernel over all bytes reads what the codec reads."""
    rng = random.Random(3)
    names = ["orders", "zürich", "𐀀", "t"]
    where = pg.Cluster.from_topics(dict.fromkeys(names, 3))
    for _ in range(200):
        members = []
        for i in range(10):
            pairs = [(rng.choice([*names, "gone", "orderz"]), rng.randint(-1, 4)) for _ in range(5)]
            data = bytearray(encode_sticky_user_data(pairs, i, version=rng.choice([0, 1, 1])))
            for _ in range(rng.choice([0, 0, 1, 3])):
                data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 127, 128, 255])
            del data[rng.choice([len(data), len(data), rng.randint(0, len(data))]) :]
            members.append(pg.Member(f"m{i}", names, user_data=bytes(data)))
        sticky = StickyProblem(Problem(pg.Group(members), where))
        with force_kernel_form("interpreted"):
            slow = claims_of_user_data(sticky)
        claims, (generation, dated) = read_group_user_data(sticky)
        slot, slots = sticky.find_slots(*claims[1:])
        assert claims[0].tolist() == slow.member.tolist()
        assert slots.sort_keys[slot].tolist() == slow.slots.sort_keys[slow.slot].tolist()
        assert generation.tolist() == slow.generation.tolist()
        assert dated.tolist() == slow.dated.tolist()


def test_claims_that_share_their_names_are_resolved_once() -> None:
    """Claims cut from one plan, and equal ones built one by one, give one plan."""
    where = cluster("a×3 b×3 c×2")
    names = ("c", "nothing", "b", "a")
    shared = [
        Claims(names, np.array([0, 1, 3], np.int32), np.array([1, 0, 2], np.int32)),
        Claims(names, np.array([2], np.int32), np.array([0], np.int32)),
    ]
    members = [pg.Member(f"m{i}", ["a", "b", "c"], owned=c) for i, c in enumerate(shared)]
    apart = [m.replaced(owned=list(m.owned)) for m in members]
    plans = [
        pg.assign("cooperative-sticky", pg.Group(x), where).to_pairs() for x in (members, apart)
    ]
    assert plans[0] == plans[1]
    assert ("c", 1) in plans[0]["m0"]
    assert ("a", 2) in plans[0]["m0"]
