"""Small histories with every number worked out beside it.

Topic t has four partitions; commits come every second, so that a pause of 4 s is a stop of
2 to 4 s (one commit interval less at either end).
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.simulated_histories import (
    SimulatedHistory,
    cause,
    history,
    member,
    metadata,
    pauses,
    topics,
)

from partage.history.clusters import ClusterHistory
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.metrics import Bounds
from partage.simulation.recorded_rebalances import recorded_rebalances
from partage.tables.statuses import NOT_YET

JOIN = cause("join", "b")
LEAVE = cause("leave", "b")


def _departures(generations, session_timeout_ms=None):
    found = recorded_rebalances(generations, topics(t=4), session_timeout_ms)
    return [absence for one in found for absence in one.departures]


def joined_and_left():
    """A has t-0 to t-3; b joins at 10 s and leaves at 20 s."""
    return history(
        (1_000, [member("a", range(4))], cause("first")),
        (10_000, [member("a", (0, 1)), member("b", (2, 3))], JOIN),
        (20_000, [member("a", range(4))], LEAVE),
    )


def simulated():
    # Nothing is known of the third rebalance: it takes as long as is usual, 2 to 4 s.
    seen = pauses(2, 8_000, 12_000, {0: 0, 1: 0, 2: 0, 3: 5})
    rates = {("t", p): 10.0 for p in range(4)}
    return SimulatedHistory(joined_and_left(), topics(t=4), CommitStatistics.of(seen, rates))


def figures(rows):
    return [(r.generation, r.step, r.caused, r.measured.moved, r.stopped, r.reread) for r in rows]


def test_the_record_is_measured_like_everybody_else() -> None:
    """The second rebalance moves 2 partitions and stops all 4 for 2 to 4 s; 5 are read again."""
    rows = simulated().recorded()
    # Third: b is gone, so nothing moves from one living member to another; all 4 stop.
    assert figures(rows) == [
        (1, 0, True, 0, Bounds(0, 0), None),
        (2, 0, True, 2, Bounds(8, 16), Bounds(5, 5)),
        (3, 0, True, 0, Bounds(8, 16), None),
    ]
    assert [(r.measured.spread, r.measured.best_spread) for r in rows] == [(0, 0)] * 3
    # 4 partitions of 10 records a second: a alone has 40, then both have 20.
    assert [r.measured.load_spread for r in rows] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("reading", ["per_rebalance", "cumulative"])
def test_eager_stops_everything_that_was_read(reading) -> None:
    """range: as recorded; of the third no rewind is known, so at most a second's records each."""
    rows = getattr(simulated(), reading)("eager/range")
    assert figures(rows) == [
        (1, 0, True, 0, Bounds(0, 0), Bounds(0, 0)),
        (2, 0, True, 2, Bounds(8, 16), Bounds(5, 5)),
        (3, 0, True, 0, Bounds(8, 16), Bounds(0, 40)),
    ]
    assert [r.changed for r in rows] == [0, 0, 0]


@pytest.mark.parametrize("reading", ["per_rebalance", "cumulative"])
def test_cooperative_stops_what_moves_in_a_second_phase(reading) -> None:
    """B gets nothing at first; the follow-up hands 2 partitions over, and only those stop."""
    rows = getattr(simulated(), reading)("cooperative/cooperative-sticky")
    assert [(r.generation, r.step, r.measured.moved) for r in rows] == [
        (1, 0, 0), (2, 0, 0), (2, 1, 2), (3, 0, 0),
    ]  # fmt: skip
    # What b left behind in the third is assigned at once: 2 partitions for 2 to 4 s.
    assert [r.stopped for r in rows] == [Bounds(0, 0), Bounds(0, 0), Bounds(4, 8), Bounds(4, 8)]
    assert [r.measured.spread for r in rows] == [0, None, 0, 0]
    assert [r.measured.avoidable for r in rows] == [0, 0, 0, 0]
    assert json.loads(rows[1].plan)["b"] == {}


@pytest.mark.parametrize("reading", ["per_rebalance", "cumulative"])
def test_consumer_moves_the_same_without_a_second_phase(reading) -> None:
    """The coordinator's target is one step; only the 2 partitions that move stop."""
    rows = getattr(simulated(), reading)("consumer/uniform")
    assert [(r.generation, r.step, r.measured.moved) for r in rows] == [
        (1, 0, 0), (2, 0, 2), (3, 0, 0),
    ]  # fmt: skip
    assert [r.stopped for r in rows] == [Bounds(0, 0), Bounds(4, 8), Bounds(4, 8)]


def bounced():
    """B leaves at 10 s and is back at 14 s, under another member id."""
    return history(
        (1_000, [member("a", (0, 1)), member("b", (2, 3))], cause("first")),
        (10_000, [member("a", range(4))], LEAVE),
        (14_000, [member("a", (0, 1)), member("b2", (2, 3), client="b")], cause("bounce", "b2")),
    )


def test_a_static_member_that_is_back_in_time_causes_nothing() -> None:
    """Both rebalances fall away; b's 2 partitions stand still for the 4 s of its absence."""
    simulated = SimulatedHistory(bounced(), topics(t=4))
    rows = simulated.cumulative("eager/range+static")
    assert [(r.generation, r.caused, r.measured.moved) for r in rows] == [
        (1, True, 0), (2, False, 0), (3, False, 0),
    ]  # fmt: skip
    assert [r.stopped for r in rows] == [Bounds(0, 0), Bounds(0, 0), Bounds(8, 8)]
    assert "back in time" in rows[2].detail
    assert [r.caused for r in simulated.per_rebalance("eager/range+static")] == [True, False, False]
    assert [r.caused for r in simulated.cumulative("eager/range")] == [True, True, True]


def test_a_static_member_that_is_back_too_late_was_missed() -> None:
    """With 3 s b expires at 13 s, where nobody recorded anything, and joins anew at 14 s."""
    rows = SimulatedHistory(bounced(), topics(t=4)).cumulative("eager/range+static+timeout=3s")
    assert [(r.generation, r.step, r.caused, r.time_ms) for r in rows] == [
        (1, 0, True, 1_000), (2, 0, False, 10_000), (2, 1, True, 13_000), (3, 0, True, 14_000),
    ]  # fmt: skip
    # How long an eager rebalance takes is unknown here, so that it is not given; but in a
    # protocol that stops only what moves, the second has nothing but b's 2 partitions.
    assert rows[2].stopped is None
    assert [json.loads(r.plan) for r in rows[2:]] == [
        {"a": {"t": [0, 1, 2, 3]}}, {"a": {"t": [0, 1]}, "b2": {"t": [2, 3]}},
    ]  # fmt: skip


def expired():
    """B dies at 14 s, and is missed at 20 s; at 30 s c joins."""
    return history(
        (1_000, [member("a", (0, 1)), member("b", (2, 3))], cause("first")),
        (20_000, [member("a", range(4))], cause("expiry", "b")),
        (30_000, [member("a", (0, 1)), member("c", (2, 3))], cause("join", "c")),
    )


@pytest.mark.parametrize(
    ("policy", "times", "dead"),
    [
        # Dead between its last heartbeat and the next, of which there are three in a timeout.
        ("eager/range", [1_000, 20_000, 30_000], Bounds(8, 12)),
        ("eager/range+timeout=3s", [1_000, 17_000, 20_000, 30_000], Bounds(4, 6)),
        ("eager/range+timeout=12s", [1_000, 20_000, 26_000, 30_000], Bounds(16, 24)),
    ],
)
def test_an_expiry_happens_a_session_timeout_after_its_cause(policy, times, dead) -> None:
    """A shorter timeout misses b sooner, a longer one later; so long its 2 partitions stand."""
    # b's pause of 7 s is its death of 4 to 6 s, and the rebalance: 0 to 3 s. a's says 0 to 2 s.
    dying = pauses(2, 14_000, 21_000, {2: 0, 3: 0})
    seen = CommitStatistics.of(pauses(2, 19_000, 21_000, {0: 0, 1: 0}) + dying)
    rows = SimulatedHistory(expired(), topics(t=4), seen).cumulative(policy)
    assert [r.time_ms for r in rows] == times
    caused = [r for r in rows if r.caused]
    assert len(caused) == 3
    assert [r.generation for r in caused] == [1, 2, 3]
    # The rebalance itself: 4 partitions for 0 to 2 s.
    assert caused[1].stopped == dead + Bounds(0, 4 * 2)


def test_a_rebalance_waits_for_who_does_not_answer() -> None:
    """With 20 s b is missed at 34 s: the rebalance of c's joining at 30 s waits for that."""
    seen = CommitStatistics.of(pauses(2, 19_000, 21_000, {0: 0, 1: 0}))
    simulated = SimulatedHistory(expired(), topics(t=4), seen)
    rows = simulated.cumulative("eager/range+timeout=20s")
    # The expiry comes while the rebalance waits and is part of it.
    assert [(r.generation, r.caused, r.time_ms) for r in rows] == [
        (1, True, 1_000), (2, False, 20_000), (2, False, 34_000), (3, True, 34_000),
    ]  # fmt: skip
    # 4 partitions for the 4 s that it waits, and for 0 to 2 s as recorded.
    assert rows[3].stopped == Bounds(4 * 4, 4 * 6)
    assert json.loads(rows[3].plan) == {"a": {"t": [0, 1]}, "c": {"t": [2, 3]}}
    # A coordinator of the consumer protocol waits for nobody.
    mine = simulated.cumulative("consumer/uniform+timeout=20s")
    assert [(r.generation, r.caused, r.time_ms) for r in mine] == [
        (1, True, 1_000), (2, False, 20_000), (2, True, 34_000), (3, True, 30_000),
    ]  # fmt: skip


def test_recorded_follow_ups_are_dropped_and_own_ones_made() -> None:
    """The record's second phase is nobody's cause; each policy makes the phases that it needs."""
    made = history(
        (1_000, [member("a", range(4))], cause("first")),
        (10_000, [member("a", (0, 1), claims=range(4)), member("b", ())], JOIN),
        (12_000, [member("a", (0, 1), claims=(0, 1)), member("b", (2, 3))], cause("follow-up")),
        strategy="cooperative-sticky",
    )
    simulated = SimulatedHistory(made, topics(t=4))
    assert [r.measured.moved for r in simulated.recorded()] == [0, 0, 2]
    for policy in ("own", "cooperative/cooperative-sticky"):
        for rows in (simulated.cumulative(policy), simulated.per_rebalance(policy)):
            assert [(r.generation, r.step, r.caused) for r in rows] == [
                (1, 0, True), (2, 0, True), (2, 1, True), (3, 0, False),
            ]  # fmt: skip
    eager = [(r.generation, r.step, r.caused) for r in simulated.cumulative("eager/range")]
    assert eager == [(1, 0, True), (2, 0, True), (3, 0, False)]


def test_nobody_knows_why_only_in_classic_groups() -> None:
    """Members that join again for a reason of their own rebalance; a coordinator does not mind."""
    both = [member("a", (0, 1)), member("b", (2, 3))]
    simulated = SimulatedHistory(
        history((1_000, both, cause("first")), (5_000, both, cause("unknown"))), topics(t=4)
    )
    assert [r.caused for r in simulated.cumulative("eager/range")] == [True, True]
    assert [r.caused for r in simulated.cumulative("consumer/range")] == [True, False]


def test_a_topic_that_grows_is_a_cause_for_all() -> None:
    """Two more partitions: every policy hands them out, and an eager one stops all four for it."""
    clusters = ClusterHistory([metadata(0, t=4), metadata(9_000, t=6)])
    both = [member("a", (0, 1)), member("b", (2, 3))]
    grown = [member("a", (0, 1, 2)), member("b", (3, 4, 5))]
    seen = CommitStatistics.of(pauses(2, 9_000, 11_000, {0: 0, 1: 0, 2: 0, 3: 0}))
    simulated = SimulatedHistory(
        history((1_000, both, cause("first")), (10_000, grown, cause("topics"))), clusters, seen
    )
    stopped = {
        p: simulated.cumulative(p)[1].stopped
        for p in ("eager/range", "eager/sticky", "cooperative/cooperative-sticky")
    }
    assert stopped == {
        "eager/range": Bounds(0, 8), "eager/sticky": Bounds(0, 8),
        "cooperative/cooperative-sticky": Bounds(0, 0),
    }  # fmt: skip
    # range moves t-2 to a: of the consumer protocol only that stops.
    assert [r.stopped for r in simulated.cumulative("consumer/range")][1] == Bounds(0, 2)


def test_an_unknown_strategy_is_reported_and_the_others_go_on() -> None:
    """A group with another library's strategy has no life of its own here, but others'."""
    made = history((1_000, [member("a", range(4))], cause("first")), strategy="their-own")
    simulated = SimulatedHistory(made, topics(t=4))
    assert [r.status for r in simulated.cumulative("own")] == [NOT_YET]
    assert [r.status for r in simulated.per_rebalance("own")] == [NOT_YET]
    assert [r.changed for r in simulated.cumulative("eager/range")] == [0]


def test_a_group_that_emptied_begins_with_nothing() -> None:
    """All members leave, and later one joins: nothing moves, nothing stops."""
    made = history(
        (1_000, [member("a", range(4))], cause("first")),
        (5_000, [], cause("leave", "a")),
        (9_000, [member("c", range(4))], cause("join", "c")),
    )
    rows = SimulatedHistory(made, topics(t=4)).cumulative("eager/range")
    assert [(r.generation, r.caused, r.measured.moved) for r in rows] == [
        (1, True, 0),
        (3, True, 0),
    ]
    assert rows[1].stopped in (Bounds(0, 0), None)


def test_without_commits_costs_are_not_known() -> None:
    """No pause, no length: nothing is made up; where nothing stops the length is zero."""
    simulated = SimulatedHistory(joined_and_left(), topics(t=4))
    assert [r.stopped for r in simulated.cumulative("eager/range")] == [Bounds(0, 0), None, None]
    coop = simulated.cumulative("cooperative/cooperative-sticky")
    assert [r.stopped for r in coop] == [Bounds(0, 0), Bounds(0, 0), None, None]
    assert [r.reread for r in coop] == [Bounds(0, 0), Bounds(0, 0), None, None]


def test_the_brokers_session_timeout_counts_for_members_that_send_none() -> None:
    """Of the consumer protocol's members only the broker knows how long a dead one is waited for."""
    silent = replace(member("b", range(2)), session_timeout_ms=-1)
    made = history(
        (1_000, [member("a", range(2, 4)), silent], cause("first")),
        (20_000, [member("a", range(4))], cause("expiry", "b")),
    )
    for known, gone_ms in ((6_000, 14_000), (None, 20_000 - 45_000)):
        (away,) = _departures(made, known)
        assert (away.gone_ms, away.expired) == (gone_ms, True)
    (own,) = _departures(expired(), 9_000)
    assert own.gone_ms == 14_000  # what a member sends goes before
