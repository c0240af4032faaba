"""What Kafka 4.3.1's sticky classes printed: 150 lines each, and digests of larger runs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.support.sticky_transfers import transfer_rows

import partage as pg
from partage.groups.registry import find
from partage.groups.sticky import StickyAssignorError
from partage.groups.sticky.problem import StickyProblem
from partage.kernels import force_kernel_form
from partage.model import Cluster, Group, Problem
from partage.wire.consumer_protocol import encode_sticky_user_data

VECTORS = Path(__file__).resolve().parents[3] / "data" / "vectors" / "consumer"
BOTH = ["sticky", "cooperative-sticky"]


def lines(strategy):
    text = (VECTORS / f"{strategy}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def answered(strategy, rounds):
    """As the vectors write it: one assignor object makes all rounds, an error ends them."""
    out, generation = [], -1
    for one in rounds:
        sticky = StickyProblem(Problem(Group.from_json(one), Cluster.from_json(one)))
        try:
            decision, generation = find(strategy).decide_owners(sticky, generation)
        except StickyAssignorError as refusal:
            return [*out, {"error": refusal.java_exception}]
        given = {m: [list(p) for p in pairs] for m, pairs in decision.to_pairs(sticky).items()}
        moving = transfer_rows(decision, sticky)
        moving = None if moving is None else [list(row) for row in moving]
        out.append({"assignment": given, "transferring": moving})
    return out


@pytest.mark.parametrize("strategy", BOTH)
def test_every_line_comes_out_as_printed(strategy) -> None:
    """Owners, order, the transfer map, the errors, and what an object remembers."""
    some = lines(strategy)
    assert len(some) == 150
    for number, line in enumerate(some, 1):
        assert answered(strategy, line["rounds"]) == line["out"], f"line {number}"


@pytest.mark.parametrize("strategy", BOTH)
def test_compiled_kernels_print_the_same(strategy) -> None:
    """The same lines with every kernel compiled."""
    pytest.importorskip("numba")
    with force_kernel_form("compiled"):
        for line in lines(strategy):
            assert answered(strategy, line["rounds"]) == line["out"]


@pytest.mark.parametrize("strategy", BOTH)
def test_the_public_verb_gives_these_plans_and_the_judge_agrees(strategy) -> None:
    """`assign` with memory from round to round; claims beyond a topic's end stand apart."""
    for line in lines(strategy):
        memory = None
        for one, out in zip(line["rounds"], line["out"], strict=True):
            group, cluster = pg.Group.from_json(one), pg.Cluster.from_json(one)
            try:
                plan = pg.assign(strategy, group, cluster, memory=memory)
            except StickyAssignorError as error:
                refused(error, out)
                break
            memory = plan.memory
            lost = {(u.member, u.topic, u.partition) for u in plan.unresolved}
            expected = {
                m: [[t, p] for t, p in pairs if (m, t, p) not in lost]
                for m, pairs in out["assignment"].items()
            }
            assert plan.to_json() == expected


def refused(error, printed):
    """Kafka's exception; or it has some partition twice, which we carry, but not as a plan."""
    if error.java_exception is not None:
        assert printed == {"error": error.java_exception}
        return
    ours = [p for mine in error.assignment.to_pairs().values() for p in mine]
    theirs = [(t, p) for mine in printed["assignment"].values() for t, p in mine]
    there = [p for p in theirs if p in set(ours)]
    assert len(set(there)) < len(there)
    assert sorted(there) == sorted(ours)


def topics_of(i, topics, members, *, het):
    if not het:
        return [f"topic{k}" for k in range(topics)]
    per, mates = -(-topics // min(5, members)), -(-members // min(5, members))
    return [f"topic{k}" for k in range(topics) if k // per == i // mates]


def jmh(members, topics, each, *, het=False, copies=0):
    """The workload of Kafka's own benchmark: (cluster, members)."""
    rows = [[f"rack{(i + j) % 3}" for j in range(copies)] for i in range(each)]
    cluster = Cluster.from_topics({f"topic{k}": rows if copies else each for k in range(topics)})
    made = [
        pg.Member(
            f"member{i}",
            topics_of(i, topics, members, het=het),
            rack=f"rack{i % 3}" if copies else None,
        )
        for i in range(members)
    ]
    return cluster, made


def digest(plan):
    hashed = hashlib.sha256()
    for member, pairs in sorted(plan.to_pairs().items()):
        hashed.update(f"{member}={','.join(f'{t}-{p}' for t, p in pairs)}\n".encode())
    return hashed.hexdigest()


FRESH = [
    ((100, 10, 50), {}, "9321569d1554a1ff56762fe97d3b4cb4adaa5789e3c8184a1010789837c8ca42"),
    ((100, 10, 50), {"copies": 3}, "9321569d1554a1ff56762fe97d3b4cb4adaa5789e3c8184a1010789837c8ca42"),
    ((100, 10, 50), {"copies": 1}, "ec9c3c2ff1d378087047055ed280cc9bd05753ccac8bdc62523443260cedbf76"),
    ((100, 10, 50), {"het": True}, "2b3576f7e8007994a42d6584f524745aa18b524665342a991ada176e538cd5ff"),
    (
        (100, 10, 50), {"het": True, "copies": 3},
        "2b3576f7e8007994a42d6584f524745aa18b524665342a991ada176e538cd5ff",
    ),
    (
        (100, 10, 50), {"het": True, "copies": 1},
        "8bc5f45da42cd901d42cd6196812991efa6afd6f6ad7bfccda70235bad04068b",
    ),
    ((500, 100, 50), {}, "9bc1adc44f56acfd109e8360e9055d7c076fc4205b482d9ef40afea0ca2027a0"),
]  # fmt: skip


@pytest.mark.parametrize(("size", "shape", "expected"), FRESH)
def test_larger_runs_have_kafkas_digest(size, shape, expected) -> None:
    """Kafka's benchmark problems, nothing owned: cooperative-sticky, all lists hashed."""
    cluster, members = jmh(*size, **shape)
    assert digest(pg.assign("cooperative-sticky", pg.Group(members), cluster)) == expected


@pytest.mark.parametrize(
    ("het", "first", "withheld", "eager", "second"),
    [
        (
            False,
            "ad0a4b8ca230175c562668bf9509b2dc1875e20fa3efa22b5624e758c8168e7e",
            "d3be5218b0a00768b1fe5305e89ff4bffca48a78c987c8c065591257857b8941",
            "4031aa39db70c4ecd976a60ccf5ca5b442cc2848b71e7bf6428faa5fae377556",
            "4031aa39db70c4ecd976a60ccf5ca5b442cc2848b71e7bf6428faa5fae377556",
        ),
        (
            True,
            "373cf5d12f08cd68b29da611e616becdd304c466dcbe45efd0ad051e02b6506e",
            "d35e238e35169a8205b8d7fddd67b8318a89d0ce53c1841803a83ca2cb247861",
            "52098f2b78757a53ecf3d2ef0ae89b61b51e9077013e4683b3a036648d082068",
            "440d7b9e979303014dc5b2567cc5e46a645ee9b54733d22aa69e00a72f50d53a",
        ),
    ],
)
def test_one_joins_and_the_follow_up_have_kafkas_digests(
    het, first, withheld, eager, second
) -> None:
    """99 members and a new one: the first phase, the second, and sticky at once."""
    cluster, members = jmh(99, 10, 50, het=het)
    plan = pg.assign("cooperative-sticky", pg.Group(members), cluster)
    assert digest(plan) == first
    newcomer = pg.Member("newMember", members[98].topics)
    pairs = plan.to_pairs()
    owning = [m.replaced(owned=pairs[m.id], generation=1) for m in members]
    then = pg.assign("cooperative-sticky", pg.Group([*owning, newcomer]), cluster)
    assert digest(then) == withheld
    data = [
        m.replaced(user_data=encode_sticky_user_data(pairs[m.id], 1), generation=1) for m in members
    ]
    assert digest(pg.assign("sticky", pg.Group([*data, newcomer]), cluster)) == eager
    pairs = then.to_pairs()
    again = [m.replaced(owned=pairs[m.id], generation=2) for m in [*members, newcomer]]
    assert digest(pg.assign("cooperative-sticky", pg.Group(again), cluster)) == second


def test_a_staircase_of_subscriptions_and_one_that_leaves() -> None:
    """19 members that subscribe to 1, 2, ... 19 topics; the tenth leaves."""
    cluster = Cluster.from_topics({f"t{n:02d}": n for n in range(1, 20)})
    members = [pg.Member(f"c{n:02d}", [f"t{k:02d}" for k in range(1, n + 1)]) for n in range(1, 20)]
    plan = pg.assign("sticky", pg.Group(members), cluster)
    assert digest(plan) == "6f9d6faee95994554f43b0cb78c8e00573555f3af9afef8a9d6fb0c6de371dc2"
    pairs = plan.to_pairs()
    left = [
        m.replaced(
            owned=pairs[m.id], user_data=encode_sticky_user_data(pairs[m.id], 1), generation=1
        )
        for m in members
        if m.id != "c10"
    ]
    for strategy in BOTH:
        after = pg.assign(strategy, pg.Group(left), cluster)
        assert digest(after) == "af5cbc993934cd1ccd9869ba3f60556850caf618fce4579fc2c0383a1d0a9d78"
