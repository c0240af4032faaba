"""Estimated unread time of policies: the record's own stop lengths, in small histories."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.simulated_histories import (
    SimulatedHistory,
    cause,
    history,
    member,
    topics,
)

from partage.history.events import Generation
from partage.history.records import MemberState
from partage.history.stop_model import UnreadEstimate, UnreadInterval
from partage.simulation import stop_lengths
from partage.simulation.recorded_rebalances import recorded_rebalances


def unread(found: Generation, *lengths: tuple[int, str, int]) -> Generation:
    """Return a generation that ended unread times: (partition, last owner, length in ms)."""
    at = found.timestamp_ms
    intervals = tuple(
        UnreadInterval(
            "t", p, owner, "?", at - ms, at - ms - 100, at - ms + 100, at, ms, ms - 100, ms + 100, 0
        )
        for p, owner, ms in lengths
    )
    whole = sum(ms for _, _, ms in lengths) / 1_000
    return replace(found, unread=UnreadEstimate(whole, whole, whole), unread_intervals=intervals)


def joined() -> SimulatedHistory:
    """An eager group: b joins a; partition 1 moves, and both stop for 2 s."""
    alone, both = [member("a", (0, 1))], [member("a", (0,)), member("b", (1,))]
    first, second = history((1_000, alone, cause("first")), (9_000, both, cause("join", "b")))
    first, second = unread(first), unread(second, (0, "a", 2_000), (1, "a", 2_000))
    return SimulatedHistory([first, second], topics(t=2))


def test_own_has_the_estimate_of_the_record() -> None:
    """The same stops have the same lengths, and the record's interval."""
    made = joined()
    rows = made.cumulative("own")
    assert [row.unread.best for row in rows] == [0.0, pytest.approx(4.0)]
    assert (rows[1].unread.p10, rows[1].unread.p90) == (pytest.approx(3.8), pytest.approx(4.2))
    assert [row.unread.best for row in made.recorded()] == [0.0, 4.0]


def test_too_many_recorded_intervals_are_forgotten(monkeypatch) -> None:
    """The oldest ones go with the means of their rebalance; the newest keep their lengths."""
    monkeypatch.setattr(stop_lengths, "_MOST_INTERVALS", 2)
    monkeypatch.setattr(stop_lengths, "_LEAST_REBALANCES", 1)
    made = history(*((1_000 * i, [member("a", (0, 1))], cause("join", "a")) for i in range(1, 5)))
    found = recorded_rebalances(
        [unread(one, (0, "a", 100), (1, "a", 100)) for one in made], topics(t=2)
    )
    lengths = stop_lengths.RecordedLengths()
    for one in found:
        lengths.add_rebalance(one)
    assert lengths.first_number == 6
    assert [len(lengths.intervals["t", p].intervals) for p in (0, 1)] == [1, 1]
    known = [len(lengths.mean_lengths(one.generation_number).by_member) for one in made]
    assert known == [0, 0, 0, 1]


def test_a_policy_that_stops_fewer_partitions_has_less() -> None:
    """Cooperative members keep partition 0: only the other one is unread, as long as recorded."""
    rows = joined().cumulative("cooperative/cooperative-sticky")
    assert sum(row.unread.best for row in rows) == pytest.approx(2.0)


@pytest.mark.parametrize(("policy", "seconds"), [
    ("cooperative/cooperative-sticky", 3.1), ("consumer/uniform", 2.63), ("own", 1.0),
])  # fmt: skip
def test_a_hand_over_is_as_long_as_the_policys_protocol_makes_it(policy, seconds) -> None:
    """Eager members stopped for 0.5 s. Cooperative ones hand over after a heartbeat of 3 s, and a
    coordinator waits for the new owner's next heartbeat, half of 5 s.
    """
    alone, both = [slow("a", (0, 1))], [slow("a", (0,)), slow("b", (1,))]
    first, second = history((1_000, alone, cause("first")), (9_000, both, cause("join", "b")))
    first, second = unread(first), unread(second, (0, "a", 500), (1, "a", 500))
    rows = SimulatedHistory([first, second], topics(t=2)).cumulative(policy)
    assert sum(row.unread.best for row in rows) == pytest.approx(seconds)


@pytest.mark.parametrize(("session_ms", "seconds"), [(6_000, 1.6), (-1, 3.1)])
def test_a_migrated_group_keeps_the_session_timeout_of_its_classic_members(
    session_ms, seconds
) -> None:
    """Consumer members send none: a hand-over takes the heartbeat of 1.5 s of the time before."""
    before = replace(member("a", (0, 1)), session_timeout_ms=session_ms)
    alone = replace(before, session_timeout_ms=-1)
    both = [replace(member(name, (p,)), session_timeout_ms=-1) for name, p in (("a", 0), ("b", 1))]
    made = history(
        (1_000, [before], cause("first")),
        (5_000, [alone], cause("migration")),
        (9_000, both, cause("join", "b")),
    )
    found = [unread(made[0])]
    for one in made[1:]:
        state = replace(one.first, strategy="server:uniform")
        found.append(unread(replace(one, first=state, last=state, protocol="consumer")))
    rows = SimulatedHistory(found, topics(t=2)).cumulative("cooperative/cooperative-sticky")
    assert sum(row.unread.best for row in rows) == pytest.approx(seconds)


@pytest.mark.parametrize(("policy", "seconds"), [
    ("cooperative/cooperative-sticky", 0.5), ("consumer/uniform", 2.63), ("own", 1.0),
])  # fmt: skip
def test_partitions_of_a_member_that_left_wait_for_one_heartbeat(policy, seconds) -> None:
    """After a LeaveGroup classic members have to rejoin, as recorded; a coordinator assigns at once."""
    both, alone = [slow("a", (0,)), slow("b", (1,))], [slow("a", (0, 1))]
    first, second = history((1_000, both, cause("first")), (9_000, alone, cause("leave", "b")))
    first, second = unread(first), unread(second, (0, "a", 500), (1, "b", 500))
    rows = SimulatedHistory([first, second], topics(t=2)).cumulative(policy)
    assert sum(row.unread.best for row in rows) == pytest.approx(seconds)


def slow(name: str, partitions: tuple[int, ...]) -> MemberState:
    """A member with Kafka's default session timeout."""
    return replace(member(name, partitions), session_timeout_ms=45_000)


def dead(*, timeout_ms: int = 6_000) -> SimulatedHistory:
    """An eager group whose member b died: its partition was unread for 5.5 s, the other 1 s."""
    both, alone = [member("a", (0,)), member("b", (1,))], [member("a", (0, 1))]
    first, second = history(
        (1_000, both, cause("first")), (9_000 + timeout_ms, alone, cause("expiry", "b"))
    )
    first, second = unread(first), unread(second, (0, "a", 1_000), (1, "b", 5_500))
    return SimulatedHistory([first, second], topics(t=2))


@pytest.mark.parametrize(("policy", "seconds"), [
    ("own", 6.5),
    ("own+timeout=10s", 10.5),
    ("own+timeout=2s", 2.5),
    ("cooperative/cooperative-sticky", 5.5),
])  # fmt: skip
def test_another_session_timeout_moves_the_end_of_a_dead_members_stop(policy, seconds) -> None:
    """Its partition is unread for as much longer or shorter as the timeout is."""
    rows = dead().cumulative(policy)
    assert sum(row.unread.best for row in rows) == pytest.approx(seconds)


def test_a_static_member_that_rejoins_is_unread_while_it_is_away() -> None:
    """No rebalance happens; partition 1 is unread for the 3 s in which its owner was away."""
    a, b = member("a", (0,)), member("b", (1,), client="b")
    without, again = member("a", (0, 1)), member("b-2", (1,), client="b")
    made = history(
        (1_000, [a, b], cause("first")),
        (9_000, [without], cause("leave", "b")),
        (12_000, [a, again], cause("bounce", "b-2")),
    )
    made = [unread(made[0]), unread(made[1], (0, "a", 500), (1, "b", 600)), unread(made[2])]
    rows = SimulatedHistory(made, topics(t=2)).cumulative("own+static")
    assert sum(row.caused for row in rows) == 1
    assert sum(row.unread.best for row in rows) == pytest.approx(3.0)


def test_without_a_recorded_estimate_there_is_none() -> None:
    """The log lacks the generations before: unknown, not zero."""
    alone, both = [member("a", (0, 1))], [member("a", (0,)), member("b", (1,))]
    made = history((1_000, alone, cause("first")), (9_000, both, cause("join", "b")))
    rows = SimulatedHistory(made, topics(t=2)).cumulative("own")
    assert [row.unread for row in rows] == [None, None]


def test_a_stop_that_the_record_does_not_have_is_modelled() -> None:
    """A cooperative group that joins without a stop: an eager one stops for up to a heartbeat."""
    alone = [member("a", (0, 1))]
    both = [member("a", (0,), claims=(0, 1)), member("b")]
    then = [member("a", (0,), claims=(0,)), member("b", (1,))]
    made = history(
        (1_000, alone, cause("first")),
        (9_000, both, cause("join", "b")),
        (11_000, then, cause("follow-up")),
        strategy="cooperative-sticky",
    )
    made = [unread(made[0]), unread(made[1]), unread(made[2], (1, "a", 2_000))]
    simulated = SimulatedHistory(made, topics(t=2))
    assert sum(row.unread.best for row in simulated.cumulative("own")) == pytest.approx(2.0)
    eager = sum(row.unread.best for row in simulated.cumulative("eager/range"))
    assert 2.0 < eager <= 4.0
