"""Groups on which Kafka's sticky class, or a client's, never returns: a plan and a warning all the same."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from tests.support.simulated_histories import topics
from tests.support.skewed_problems import near_loop, skewed_group
from tests.support.wire_samples import ROOT

import partage as pg
from partage.clients.assignor_class_state import AssignorState
from partage.clients.shared import Consumer, Joined, configure_strategy
from partage.groups.registry import find
from partage.groups.sticky import general as general_module
from partage.groups.sticky.quirks.member_lists import ListBalancer
from partage.history.agreement import check_agreement
from partage.history.events import Generation
from partage.history.records import ClassicState, LogPosition, MemberState, Subscription
from partage.kernels import force_kernel_form
from partage.model import Problem
from partage.model.repeated_state import RepeatedState
from partage.wire.consumer_protocol import encode_sticky_user_data, encode_subscription
from unit.clients.groups_of_ours import view

BOTH = ["sticky", "cooperative-sticky"]


def looping() -> tuple[pg.Group, pg.Cluster]:
    """Return a group on which ``performReassignments`` of Kafka 4.3.1 never returns."""
    owned = {
        "c1": [("t1", p) for p in (0, 3, 4, 5, 8)],
        "c2": [("t0", p) for p in range(1, 8)] + [("t2", p) for p in (0, 1, 3, 4)],
    }
    wanted = {"c0": ["t2", "t0", "t1"], "c1": ["t0", "t1", "t2"], "c2": ["t0", "t2"]}
    members = [
        pg.Member(
            name,
            wanted.get(name, ["t0"]),
            owned=owned.get(name, []),
            generation=1,
            user_data=encode_sticky_user_data(owned.get(name, []), 1),
        )
        for name in ("c0", "c1", "c2", "c3", "c4", "c5")
    ]
    return pg.Group(members), pg.Cluster.from_topics({"t0": 8, "t1": 9, "t2": 5})


def spread(plan: pg.Plan) -> int:
    """Return Kafka's balance score: the sum of differences over all pairs of members."""
    loads = np.sort(np.diff(plan.start))
    return int(((2 * np.arange(len(loads)) - len(loads) + 1) * loads).sum())


@pytest.mark.parametrize("kernels", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", BOTH)
def test_a_sticky_strategy_ends_where_its_class_never_returns(name, kernels) -> None:
    """The plan is valid, more even than the one that the class starts from, and warns of the loop."""
    if kernels == "compiled":
        pytest.importorskip("numba")
    group, cluster = looping()
    with force_kernel_form(kernels):
        plan = pg.assign(name, group, cluster)
    assert not pg.check(plan, group, cluster)
    assert plan.loop is not None
    assert plan.loop.moving == ("t2-2",)
    assert len(plan.warnings) == 1
    assert "never returns on this problem: it moves t2-2 in a loop of 1 pass" in plan.warnings[0]
    # The score is 74 at first, then alternates between 24 and 26 within each pass.
    assert spread(plan.settled()) == 24


def test_both_forms_of_the_general_algorithm_find_the_same_loop(monkeypatch) -> None:
    """The arrays, and the plain lists that follow Kafka line by line: one loop, one plan."""
    group, cluster = looping()
    arrays = find("sticky").assign(Problem(group, cluster))
    monkeypatch.setattr(
        general_module,
        "_assign_and_balance",
        lambda table: ListBalancer(table, watch=True).assign_and_balance(),
    )
    lists = find("sticky").assign(Problem(group, cluster))
    assert lists.loop == arrays.loop
    assert lists.to_pairs() == arrays.to_pairs()


@pytest.mark.parametrize("name", BOTH)
def test_problems_without_a_loop_keep_their_plan_in_both_forms(name, monkeypatch) -> None:
    """Detection changes no plan of a class that returns: both forms agree on 300 skewed groups."""
    rng = random.Random(18)
    problems = []
    for _ in range(300):
        counts, group = skewed_group(rng)
        problems.append(Problem(group, pg.Cluster.from_topics(counts)))
    arrays = [find(name).assign(one) for one in problems]
    monkeypatch.setattr(
        general_module,
        "_assign_and_balance",
        lambda table: ListBalancer(table, watch=True).assign_and_balance(),
    )
    for problem, plan in zip(problems, arrays, strict=True):
        assert find(name).assign(problem).to_pairs() == plan.to_pairs()


def test_many_loops_end_with_one_valid_plan_in_both_forms(monkeypatch) -> None:
    """400 variations of the group: loops among them, each with a valid plan, alike in both forms."""
    rng = random.Random(19)
    problems = []
    for _ in range(400):
        counts, group = near_loop(rng)
        problems.append((group, pg.Cluster.from_topics(counts)))
    arrays = [find("sticky").assign(Problem(*one)) for one in problems]
    monkeypatch.setattr(
        general_module,
        "_assign_and_balance",
        lambda table: ListBalancer(table, watch=True).assign_and_balance(),
    )
    found = 0
    for (group, cluster), plan in zip(problems, arrays, strict=True):
        lists = find("sticky").assign(Problem(group, cluster))
        assert lists.loop == plan.loop
        assert lists.to_dict() == plan.to_dict()
        if plan.loop is not None:
            found += 1
            assert not pg.check(plan, group, cluster)
    assert found >= 3


@pytest.mark.parametrize(
    "name", ["aiokafka:sticky", "kafka-python:sticky", "librdkafka:cooperative-sticky"]
)
def test_the_dialects_return_on_the_same_variations(name: str) -> None:
    """Each has a plan or a refusal; only aiokafka loops, kafka-python and librdkafka do not."""
    rng, found = random.Random(19), 0
    for _ in range(400):
        counts, group = near_loop(rng, version_first=name == "kafka-python:sticky")
        cluster = pg.Cluster.from_topics(counts)
        try:
            plan = find(name).assign(Problem(group, cluster))
        except pg.UnsupportedProblemError:
            continue
        if plan.loop is not None:
            found += 1
            assert not pg.check(plan.settled(), group, cluster)
    assert (found > 0) == (name == "aiokafka:sticky")


def test_a_repeated_state_is_found_exactly_when_there_is_one() -> None:
    """Random maps on few states, against a search that remembers all: no loop missed, none invented."""
    rng = random.Random(441)
    for _ in range(2000):
        size = rng.randint(1, 40)
        after = [rng.choice([None, *range(size)]) for _ in range(size)]
        seen, state = {}, 0
        while state is not None and state not in seen:
            seen[state] = len(seen)
            state = after[state]
        length = None if state is None else len(seen) - seen[state]
        begin = 0 if state is None else seen[state]
        repeated, now, found = RepeatedState(), 0, None
        while now is not None:
            if repeated.is_repeated(now):
                found = repeated.length
                break
            now = after[now]
        assert found == length
        if found is not None:
            assert repeated.passes <= 3 * max(begin, found) + 2


def test_a_long_run_that_ends_is_never_stopped() -> None:
    """There is no limit of steps: a million different states pass."""
    repeated = RepeatedState()
    assert not any(repeated.is_repeated(n) for n in range(1_000_000))


def test_the_dialect_of_aiokafka_ends_where_its_class_never_returns() -> None:
    """A valid plan, and a warning that names the class and the loop, in place of a refusal."""
    problem = json.loads((ROOT / "tests" / "peers" / "hangs.json").read_text())
    group, cluster = pg.Group.from_json(problem), pg.Cluster.from_json(problem)
    plan = find("aiokafka:sticky").assign(Problem(group, cluster))
    assert plan.loop is not None
    assert plan.loop.moving == ("t0-12",)
    assert "aiokafka.coordinator" in plan.warnings[0]
    assert not pg.check(plan, group, cluster)


def test_a_live_leader_gets_the_plan_and_logs_the_warning(caplog) -> None:
    """A consumer of ours that leads such a group answers it, and its log names the loop."""
    group, _ = looping()
    leader = AssignorState(Consumer(configure_strategy("cooperative-sticky", {})))
    joined = [
        Joined(m.id, encode_subscription(m.topics, owned=list(m.owned), generation=m.generation))
        for m in group
    ]
    answer = leader.assign_as_leader(
        joined, view({"t0": 8, "t1": 9, "t2": 5}), group="g", generation=2
    )
    assert answer.plan.loop is not None
    assert "never returns on this problem: it moves t2-2" in caplog.text


def test_a_replay_cannot_compare_a_record_with_a_strategy_that_never_returns() -> None:
    """The verdict is no disagreement: it says that the strategy does not terminate on the input."""
    group, cluster = looping()
    plan = find("cooperative-sticky").assign(Problem(group, cluster)).to_dict()
    members = tuple(
        MemberState(
            m.id, None, m.id, "/host", 60_000, 6_000,
            Subscription(
                3, tuple(m.topics), b"\0\0\0\1",
                tuple((t, tuple(p for u, p in m.owned if u == t)) for t in m.owned.topics), 1, None,
            ),
            tuple((t, tuple(ps)) for t, ps in plan[m.id].items()),
            3, None, None,
        )
        for m in group
    )  # fmt: skip
    state = ClassicState("consumer", 2, "cooperative-sticky", "c0", 1_000, members)
    found = Generation(0, LogPosition(0, 1), 1_000, state, state, 1, 0, None, (), "classic", ())
    said = check_agreement(found, topics(t0=8, t1=9, t2=5))
    assert (said.agrees, said.terminates) == (None, False)
    assert "cooperative-sticky does not terminate on the recorded input" in (said.why or "")


def test_play_ends_where_librdkafka_rebalances_without_end() -> None:
    """Two members on rack y revoke a partition of rack x in turn: one repetition, then a warning.

    The next change follows as usual. `tests/parity/test_dialects.py` asks the library itself.
    """
    cluster = pg.Cluster.from_topics({"t": [["x"], ["x"], ["y"]]})
    a, b = (pg.Member(name, ["t"], rack="y") for name in "ab")
    rounds = pg.play(
        "librdkafka:cooperative-sticky", cluster, [pg.Join(a), pg.Join(b), pg.Leave("b")]
    )
    plans = [one.plan.to_dict() for one in rounds]
    assert plans[1:5] == [
        {"a": {"t": [2, 1]}, "b": {}},
        {"a": {"t": [2, 0]}, "b": {}},
        {"a": {"t": [2, 1]}, "b": {}},
        {"a": {"t": [2, 0]}, "b": {}},
    ]
    assert [bool(one.plan.warnings) for one in rounds] == [False] * 4 + [True, False]
    assert rounds[4].plan.warnings == (
        "the group does not settle: each follow-up rebalance revokes partitions and causes another;"
        " t-0, t-1 change owner in a cycle that repeats every 2 rebalances",
    )
    assert repr(rounds[5].change) == "Leave(b)"


class NeverSettles:
    """A plug-in that revokes a partition each time, and counts the rebalances in its memory."""

    def __init__(self, inner: pg.groups.api.Strategy) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def assign(self, problem: Problem, memory: object = None) -> pg.Plan:
        owned = [p for member in problem.group for p in member.owned]
        given = {member.id: [] for member in problem.group}
        given[problem.group[0].id] = [("t", 1 if ("t", 0) in owned else 0)]
        return pg.Plan.of(problem.index, given)

    def on_assignment(self, assignment, user_data, generation, memory=None) -> int:
        return generation

    def subscription_user_data(self, topics, memory=None) -> None:
        return None


def test_play_ends_where_a_memory_changes_and_the_group_never_settles() -> None:
    """A state that never repeats ends after 100 follow-ups, with a warning."""
    strategy = NeverSettles(find("cooperative-sticky"))
    cluster = pg.Cluster.from_topics({"t": 2})
    member = pg.Member("a", ["t"], owned={"t": [0]}, generation=1)
    rounds = pg.play(strategy, cluster, [pg.Join(member)])
    assert len(rounds) == 101
    assert rounds[-1].plan.warnings == (
        "the group does not settle: it still revokes partitions after 100 follow-up rebalances",
    )
