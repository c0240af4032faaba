"""Advice for a recorded cluster: what was done to its members is known."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import TYPE_CHECKING

import pytest
from tests.support.captured import lines

import partage as pg
from partage.cli.replay import DEMO_POLICIES
from partage.report.advice import advice_for, merge_advice, total_savings
from partage.report.client_settings import base_policy
from partage.report.data import read_run
from partage.report.gains import gain_of, simulation_error
from partage.runs.published_run import read_table
from partage.tables.statuses import RECORDED

if TYPE_CHECKING:
    from partage.tables.sums import Estimate


def test_poll_timeouts_are_those_of_stalled_members(replayed) -> None:
    """Of the groups with silent members, only those whose members stalled get advice to poll."""
    stalled = {e["group"] for e in lines("events.jsonl") if e["what"] == "stall"}
    run = read_run(replayed.out)
    advised = {g.name for g in run.groups for a in advice_for(g) if a.rule == "late-polls"}
    silent = {r["group"] for r in read_table(replayed.out, "events").to_pylist()
              if r["event"] == "poll"}  # fmt: skip
    assert advised
    assert advised <= stalled & silent


def test_advice_can_be_followed_and_is_larger_than_the_error(replayed) -> None:
    """No group gets advice to do what it does, what its clients lack, or what may be the error."""
    run = read_run(replayed.out)
    advised = [(g, a) for g in run.groups for a in advice_for(g) if a.policy is not None]
    assert len(advised) >= 5
    for group, advice in advised:
        assert advice.lines
        assert advice.policy != base_policy(group.last_strategy)
        assert not any("aiokafka" in client for client in group.clients)
        if advice.saves is not None:
            assert 0 < advice.saves.low <= advice.saves.best <= group.downtime_estimate.best
            assert advice.saves.high > simulation_error(group)
    assert len({g.name for g, _ in advised}) == len(advised)
    whole, groups = total_savings(run)
    assert groups
    for one in merge_advice(run.groups):
        assert one.saves is None or one.saves.high <= whole.high


def test_the_policies_of_the_demo_give_all_recommendations(replayed) -> None:
    """Each group gets the recommendations, with settings and gains, that all policies give.

    Only their texts differ, which have the number of simulated policies.
    """
    for group in read_run(replayed.out).groups:
        few = {n: f for n, f in group.figures.items() if n in (*DEMO_POLICIES, RECORDED)}
        found, every = (
            [replace(advice, why="") for advice in advice_for(one)]
            for one in (replace(group, figures=few), group)
        )
        assert found == every, group.name


def is_equal(one: Estimate | None, other: Estimate | None) -> bool:
    """Whether two estimates are equal but for the order in which their parts were added."""
    if one is None or other is None:
        return one is other
    return astuple(one) == pytest.approx(astuple(other), rel=1e-9)


def test_migrate_expects_the_gain_of_the_report(replayed) -> None:
    """A recommended policy of the new protocol has one gain, in the report and in `pg.migrate`."""
    opened = pg.open_run(replayed.out)
    figures = {group.name: group for group in read_run(replayed.out).groups}
    compared = 0
    for protocol in ("consumer", "cooperative"):
        for one in pg.migrate(opened, protocol=protocol, deployments=False):
            group = figures[one.group]
            advised = [a for a in advice_for(group) if (a.policy or "").startswith(f"{protocol}/")]
            if one.status == "done":
                continue
            if one.effect is None:
                assert not [a for a in advised if a.saves is not None]
                continue
            assert is_equal(one.effect.saves, gain_of(group, one.effect.policy))
            for advice in advised:
                if advice.saves is not None and "+" not in str(advice.policy):
                    assert one.effect.policy == advice.policy
                    assert is_equal(one.effect.saves, advice.saves)
                    compared += 1
    assert compared >= 3
