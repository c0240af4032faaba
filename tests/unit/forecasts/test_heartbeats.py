"""Heartbeats of simulated groups: when members learn of a rebalance, and what that costs."""

from __future__ import annotations

import pytest

from partage.forecasts.group_protocols import (
    AssignmentCache,
    GroupSettings,
    SimulatedClassicGroup,
    SimulatedConsumerGroup,
)
from partage.forecasts.loads import constant_load
from partage.forecasts.random_draws import RandomDraws
from partage.simulation.clock import Clock
from partage.simulation.policies import Policy

_CLUSTER = constant_load({"orders": 12}, 0.0).cluster


def costs_of_restart(policy: str, seed: int) -> tuple[float, float]:
    """Return the partition-seconds without a reader after one of four members left, and after
    another one joined half a minute later.
    """
    settings = GroupSettings(_CLUSTER, Policy.parse(policy), (0.0,) * 12, 45_000, True, 5_000, True)
    clock, draws = Clock(), RandomDraws(seed)
    kind = SimulatedConsumerGroup if policy.startswith("consumer") else SimulatedClassicGroup
    group = kind(settings, clock, draws, AssignmentCache())
    group.create_members("abcd")
    clock.schedule_at(10_000, lambda: group.stop("d"))
    clock.schedule_at(40_000, lambda: group.start("e"))
    clock.run_scheduled(before_ms=40_000)
    left = group.costs.unread_ms / 1_000
    clock.run_scheduled()
    return left, group.costs.unread_ms / 1_000 - left


@pytest.mark.parametrize("seed", range(4))
def test_all_members_learn_of_a_rebalance_together(seed: int) -> None:
    """A rebalance starts all timers: in the next one each member waits for a poll, not longer."""
    left, joined = costs_of_restart("eager/range", seed)
    assert 0 < joined < 12 * 0.25 < left


@pytest.mark.parametrize("seed", range(4))
def test_a_cooperative_follow_up_waits_for_a_whole_heartbeat_interval(seed: int) -> None:
    """Three partitions move; members that lose none rejoin 3 s after the first of two rebalances."""
    _, joined = costs_of_restart("cooperative/cooperative-sticky", seed)
    assert 3 * 3.0 < joined < 3 * 3.3


@pytest.mark.parametrize("seed", range(4))
def test_a_new_member_of_a_consumer_group_takes_partitions_with_its_heartbeats(seed: int) -> None:
    """It learns of its target with its join: then every 5 s, when others have revoked by then."""
    _, joined = costs_of_restart("consumer/uniform", seed)
    assert joined < 3 * 5.2


def unread_after_kills(policy: str, second: str) -> float:
    """Return the partition-seconds without a reader of a group of three whose members are killed.

    The members are a, which is the leader, b and c. c is killed after 10 s and has a successor d
    after 30 s, whose rebalance waits for c's session timeout (45 s after its last heartbeat, 3 s
    between two). ``second`` is killed after 40 s, when it has rejoined. It has no successor.
    """
    settings = GroupSettings(
        _CLUSTER, Policy.parse(policy), (0.0,) * 12, 45_000, leaves=False, commit_ms=5_000,
        commits_on_stop=True,
    )  # fmt: skip
    clock = Clock()
    group = SimulatedClassicGroup(settings, clock, RandomDraws(1), AssignmentCache())
    group.create_members("abc")
    for at_ms, action, key in (
        (10_000, group.stop, "c"), (30_000, group.start, "d"), (40_000, group.stop, second),
    ):  # fmt: skip
        clock.schedule_at(at_ms, lambda action=action, key=key: action(key))
    clock.run_scheduled()
    assert sorted(map(len, group.consumed.values())) == [6, 6]
    return group.costs.unread_ms / 1_000


def test_a_member_killed_after_it_rejoined_does_not_read() -> None:
    """Its partitions wait for a second session timeout, which begins with the new assignment."""
    # 4 partitions of c from 10 s and 8 others from 31 s wait for the eviction of c at 53 s. Then 4
    # wait until 98 s for the eviction of b, and all 12 for the heartbeats of the next rebalance.
    expected = 4 * 43 + 8 * 22 + 4 * 45
    assert expected < unread_after_kills("eager/range", "b") < expected + 12 * 3.5


def test_a_leader_killed_after_it_rejoined_sends_no_assignment() -> None:
    """All partitions wait for the leader's second session timeout."""
    expected = 4 * 43 + 8 * 22 + 12 * 45
    assert unread_after_kills("eager/range", "a") == pytest.approx(expected, rel=0.04)


def test_cooperative_members_read_while_a_killed_leader_is_evicted() -> None:
    """Only the partitions of killed members wait: 4 from 10 s and 4 from 40 s, until 98 s."""
    found = unread_after_kills("cooperative/cooperative-sticky", "a")
    assert found == pytest.approx(4 * 88 + 4 * 58, rel=0.04)


def test_a_static_member_that_returns_during_a_rebalance_owns_nothing() -> None:
    """Its new process reports no partitions, so that d can read one of them at once."""
    settings = GroupSettings(
        _CLUSTER, Policy.parse("cooperative-sticky+static"), (0.0,) * 12, 45_000, leaves=True,
        commit_ms=5_000, commits_on_stop=True,
    )  # fmt: skip
    clock = Clock()
    group = SimulatedClassicGroup(settings, clock, RandomDraws(1), AssignmentCache())
    group.create_members("abc")
    before = group.members["c"].target
    clock.schedule_at(10_000, lambda: group.stop("c"))
    clock.schedule_at(20_000, lambda: group.start("d"))
    clock.schedule_at(30_000, lambda: group.start("c"))
    clock.run_scheduled(before_ms=30_500)
    assert group.rebalances == 1
    assert group.consumed["d"] == before - group.consumed["c"] != set()
    clock.run_scheduled()
    assert sorted(map(len, group.consumed.values())) == [3, 3, 3, 3]
