from __future__ import annotations

from collections import Counter
from importlib.metadata import EntryPoint

import pytest

from captured import clusters, generations, group_records
from partage.groups import registry
from partage.groups.base import PlainStrategy
from partage.history.classic import Generation
from partage.history.clusters import ClusterHistory
from partage.history.problems import why_not
from partage.history.records import ClassicState, MemberState, Place, Subscription
from partage.history.replaying import Measured, Replayer
from partage.judge import check, measure
from partage.model import Plan, Problem
from partage.statuses import DONE, FAILED, NOT_YET, RECORDED, REFUSED


def judged(plan, group, cluster) -> Measured:
    found = measure(plan, group, cluster)
    return Measured(
        found.spread, found.idle, found.moved, breaches=len(check(plan, group, cluster))
    )


def state(
    number: int, strategy: str, owned: dict[str, list[int]], leader: str = "a"
) -> ClassicState:
    sent = Subscription(3, ("t",))
    members = tuple(
        MemberState(
            m, None, "app", "", 0, 0, sent, (("t", tuple(ps)),) if ps else (), 3, None, None
        )
        for m, ps in owned.items()
    )
    return ClassicState("consumer", number, strategy, leader, None, members)


def generation(number: int, strategy: str, owned: dict[str, list[int]]) -> Generation:
    what = state(number, strategy, owned)
    return Generation(0, Place(0, number), 100 + number, what, what, 1, 0, None)


def one_topic(partitions: int) -> ClusterHistory:
    topic = {"id": "x", "partitions": [{"p": p, "replicas": [1]} for p in range(partitions)]}
    return ClusterHistory([{"ts_ms": 0, "brokers": [{"id": 1}], "topics": {"t": topic}}])


def strategies(*names: str):
    return [registry.find(name) for name in names]


def test_java_rebalances_agree_with_the_record() -> None:
    """Without Spark too: 120 of 122 agree, and the two others are explained by trying."""
    counts: Counter = Counter()
    told = {}
    for group in group_records():
        replayer = Replayer(clusters(), strategies("range", "roundrobin"), lambda *_: Measured())
        for found in generations(group):
            for row in replayer.feed(found):
                if row.counts:
                    counts[row.strategy, row.agrees] += 1
                    if not row.agrees:
                        told[group, found.number] = row.detail
    assert counts == {("range", True): 94, ("range", False): 1,
                      ("roundrobin", True): 26, ("roundrobin", False): 1}  # fmt: skip
    assert told == {
        ("inventory-sync", 9): "leader's metadata lacked the rack of broker 2: down, or not yet "
        "back",
        ("mailer.alerts", 5): "leader's metadata was 101637 ms behind: topic emails missing",
    }


def test_a_wrong_record_is_not_explained_away() -> None:
    """A plan that no cluster explains disagrees, without an invented reason."""
    replayer = Replayer(one_topic(4), strategies("range"), judged)
    rows = list(replayer.feed(generation(1, "range", {"a": [0, 3], "b": [1, 2]})))
    mine = next(r for r in rows if r.strategy == "range")
    assert (mine.agrees, mine.detail, mine.changed) == (False, None, 2)


def test_each_strategy_lives_with_its_own_past() -> None:
    """Moves are counted against the strategy's own plan before, not against the record's."""
    replayer = Replayer(one_topic(4), strategies("range", "roundrobin"), judged)
    history = [generation(1, "sticky", {"a": [0, 3], "b": [1, 2]}),
               generation(2, "sticky", {"a": [3, 0], "b": [2, 1]})]  # fmt: skip
    rows = [list(replayer.feed(g)) for g in history]
    assert {r.strategy: r.measured.moved for r in rows[1] if r.status == DONE} == {
        RECORDED: 0, "range": 0, "roundrobin": 0,
    }  # fmt: skip


def test_a_claimed_strategy_is_missing_only_if_partage_lacks_it() -> None:
    """A name that nobody knows has a row that says so; one that was not asked for has none."""
    claims = {}
    for name in ("of-another-library", "sticky"):
        rows = Replayer(one_topic(2), strategies("range"), judged).feed(
            generation(1, name, {"a": [0], "b": [1]})
        )
        claims[name] = [r.status for r in rows if r.claimed]
    assert claims == {"of-another-library": [NOT_YET], "sticky": []}


def test_a_partition_moves_when_the_second_step_gives_it() -> None:
    """In a cooperative rebalance a partition is with nobody in between, and has moved after it."""
    replayer = Replayer(one_topic(2), [], judged)
    steps = [{"a": [0, 1]}, {"a": [0], "b": []}, {"a": [0], "b": [1]}]
    moved = [
        next(iter(replayer.feed(generation(i, "cooperative-sticky", owned)))).measured.moved
        for i, owned in enumerate(steps, 1)
    ]
    assert moved == [0, 0, 1]


def test_members_that_cannot_be_replayed_are_named() -> None:
    """Damaged bytes, other protocols and Streams give a reason, and no rows."""
    damaged = MemberState("m", None, "c", "", 0, 0, None, (), -1, None, "topics at byte 2: cut")
    states = [
        (
            ClassicState("consumer", 1, "range", "m", None, (damaged,)),
            "member m: topics at byte 2: cut",
        ),
        (ClassicState("connect", 1, "sessioned", None, None, (damaged,)), "protocol type connect"),
        (ClassicState("", 1, None, None, None, (damaged,)), "protocol type not set"),
        (ClassicState("consumer", 1, None, None, None, ()), "no members"),
        (state(1, "stream", {"a": []}), "Kafka Streams assigns tasks"),
    ]
    for what, words in states:
        found = Generation(0, Place(0, 1), 1, what, what, 1, 0, None)
        assert words in str(why_not(what))
        assert list(Replayer(one_topic(1), strategies("range"), judged).feed(found)) == []


def test_a_strategy_that_refuses_is_told() -> None:
    """roundrobin:0.8 refuses unequal subscriptions: a row that says so, not an error."""
    both = state(1, "range", {"a": [0], "b": []})
    other = MemberState("b", None, "app", "", 0, 0, Subscription(3, ("t", "u")), (), 3, None, None)
    what = ClassicState("consumer", 1, "range", "a", None, (both.members[0], other))
    found = Generation(0, Place(0, 1), 1, what, what, 1, 0, None)
    rows = {
        r.strategy: r
        for r in Replayer(one_topic(1), strategies("roundrobin:0.8"), judged).feed(found)
    }
    assert rows["roundrobin:0.8"].status == REFUSED
    assert rows["roundrobin:0.8"].detail


class Breaks(PlainStrategy):
    """Somebody's plug-in: raises what it was made with, at the second call."""

    name = "acme:breaks"

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        self.calls += 1
        if self.calls == 2:
            raise self.error
        return registry.find("range").assign(problem)


class WordlessError(Exception):
    """An error that cannot even be told."""

    def __str__(self) -> str:
        raise ValueError


class NoPlan(PlainStrategy):
    """Its plan is no plan."""

    name = "acme:no-plan"

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        return "nothing"  # type: ignore[return-value]


@pytest.fixture
def plugged_in(monkeypatch):
    """Register strategies as plug-ins, by the entry points of the registry."""

    def register(*made: PlainStrategy) -> list:
        points = {one.name: EntryPoint(one.name, "acme:X", registry.ENTRY_POINTS) for one in made}
        by_value = {one.name: one for one in made}
        monkeypatch.setattr(registry, "_plugged_in", lambda: points)
        monkeypatch.setattr(EntryPoint, "load", lambda self: by_value[self.name])
        return strategies(*points)

    return register


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
        (
            WordlessError(),
            "WordlessError: no message: its __str__ raises",
        ),
        (RuntimeError("x" * 9_999), "RuntimeError: xxx"),
        (RecursionError("a\nb"), "RecursionError: a b"),
        (KeyError("\ud800x"), "KeyError: '\\ud800x'"),
        (OSError("\ud800x"), "OSError: \\ud800x"),
    ],
)
def test_a_plug_in_that_raises_fails_alone(plugged_in, error, told) -> None:
    """Its row says failed, type and message; the others and its next rebalance go on."""
    chosen = [*plugged_in(Breaks(error)), *strategies("range")]
    replayer = Replayer(one_topic(4), chosen, judged)
    rows = []
    for number in (1, 2, 3):
        found = generation(number, "range", {"a": [0, 1], "b": [2, 3]})
        rows.append({r.strategy: r for r in replayer.feed(found)})
    assert [r["acme:breaks"].status for r in rows] == [DONE, FAILED, DONE]
    assert [r["range"].status for r in rows] == [DONE, DONE, DONE]
    failed = rows[1]["acme:breaks"]
    assert failed.detail is not None
    assert failed.detail.startswith(told)
    assert len(failed.detail) <= 501
    assert (failed.plan, failed.measured) == (None, Measured())


def test_a_plug_in_without_a_plan_fails(plugged_in) -> None:
    """What is no plan is told with the strategy's name, not as a trace of ours."""
    replayer = Replayer(one_topic(2), plugged_in(NoPlan()), judged)
    rows = list(replayer.feed(generation(1, "range", {"a": [0], "b": [1]})))
    assert [r.status for r in rows] == [DONE, FAILED]
    assert "AttributeError" in str(rows[1].detail)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2), MemoryError()])
def test_what_ends_a_process_is_no_failure_of_a_strategy(plugged_in, error) -> None:
    """An interrupt ends the run, in whose code it may be."""
    replayer = Replayer(one_topic(2), plugged_in(Breaks(error)), judged)
    list(replayer.feed(generation(1, "range", {"a": [0], "b": [1]})))
    with pytest.raises(type(error)):
        list(replayer.feed(generation(2, "range", {"a": [0], "b": [1]})))


@pytest.mark.parametrize("when", [-5, 0, 50])
def test_before_the_first_state_there_is_no_topic(when: int) -> None:
    """A record from before the metadata is replayed on a cluster without topics."""
    history = one_topic(3)
    assert len(history.at(when).partitions_of("t")) == (3 if when >= 0 else 0)
