"""Heartbeats of simulated groups: when members learn of a rebalance, and what that costs."""

from __future__ import annotations

import pytest

from partage.forecasts.group_protocols import (
    GroupSettings,
    KnownAssignments,
    RandomDraws,
    SimulatedClassicGroup,
    SimulatedConsumerGroup,
)
from partage.forecasts.loads import constant_load
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
    group = kind(settings, clock, draws, KnownAssignments())
    group.create_members("abcd")
    clock.schedule_at(10_000, lambda: group.stop("d"))
    clock.schedule_at(40_000, lambda: group.start("e"))
    clock.run(before_ms=40_000)
    left = group.costs.unread_ms / 1_000
    clock.run()
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
