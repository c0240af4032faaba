"""Histories simulated rebalance by rebalance: the same as all at once."""

from __future__ import annotations

import pytest
from tests.support.captured import clusters
from tests.support.rebuilt import rebalances, rebuilt

from partage.history.pauses import Pause
from partage.jobs.replay.spill_files import RebalanceCollector
from partage.simulation import cumulative as module
from partage.simulation import recorded_rebalances as reading
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.context import SimulationContext
from partage.simulation.costs import recorded_costs
from partage.simulation.cumulative import simulate_cumulative
from partage.simulation.policies import Policy
from partage.simulation.recorded_rebalances import (
    RecordedRebalanceBuilder,
    count_entries,
    recorded_rebalances,
)

#: Bounces, kills and second phases; a migrated group; static members.
GROUPS = ["c-notify", "checkout-workers", "fulfilment-static"]
POLICIES = [
    "eager/range",
    "cooperative/cooperative-sticky+static+timeout=30s",
    "eager/sticky+timeout=2s",
]


def _world(group, found):
    pauses = [one for one in rebuilt(group)[1] if isinstance(one, Pause)]
    return SimulationContext.of(clusters(), found, CommitStatistics.of(pauses))


@pytest.mark.parametrize("group", GROUPS)
def test_a_life_that_is_forgotten_as_it_goes_is_the_same(group, monkeypatch) -> None:
    """Rows held for a few rebalances only, rebalances from an iterator: each row is equal."""
    found = tuple(recorded_rebalances(rebalances(group), clusters()))
    world = _world(group, found)
    for name in POLICIES:
        whole = list(simulate_cumulative(found, Policy.parse(name), world))
        with monkeypatch.context() as patched:
            patched.setattr(module, "_MOST_KEPT", 12)
            some = list(simulate_cumulative(iter(found), Policy.parse(name), world))
        assert some == whole


@pytest.mark.parametrize("group", GROUPS)
def test_recorded_rebalances_follow_their_generations(group) -> None:
    """A few rebalances later each is what it is when all is known, late returns aside."""
    whole = list(recorded_rebalances(rebalances(group), clusters()))
    maker = RecordedRebalanceBuilder(clusters(), lookahead=12)
    some = [
        one_rebalance
        for found in rebalances(group)
        for one_rebalance in maker.add_generation(found)
    ]
    assert len(some) == max(0, len(whole) - 12)
    some += maker.finish_rebalances()
    assert [s.generation for s in some] == [s.generation for s in whole]
    assert [s.ids_before for s in some] == [s.ids_before for s in whole]
    assert [[a.member for a in s.departures] for s in some] == [
        [a.member for a in s.departures] for s in whole
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_large_rebalances_are_read_a_few_at_a_time(group, monkeypatch) -> None:
    """Half an hour is not read ahead if its members and partitions exceed the limit."""
    found = tuple(recorded_rebalances(rebalances(group), clusters()))
    limit = 3 * max(count_entries(one.generation) for one in found)
    monkeypatch.setattr(reading, "MOST_ENTRIES", limit)
    read, ahead = [], []

    def reader():
        for one in found:
            read.append(one.generation)
            yield one

    def listen(time_ms, consumed) -> None:
        ahead.append(sum(count_entries(one) for one in read if one.timestamp_ms > time_ms))

    rows = list(simulate_cumulative(reader(), Policy.parse("eager/range"), _world(group, found),
                                    listen))  # fmt: skip
    assert {row.generation for row in rows} == {
        one.generation.generation_number for one in found if one.replayable
    }
    assert 0 < max(ahead) <= 2 * limit


@pytest.mark.parametrize("group", GROUPS)
def test_few_large_rebalances_wait_for_later_ones(group) -> None:
    """A rebalance is complete earlier if those after it have many members and partitions."""
    generations = list(rebalances(group))
    limit = 3 * max(map(count_entries, generations))
    maker = RecordedRebalanceBuilder(clusters(), lookahead=256, most_entries=limit)
    for one in generations:
        list(maker.add_generation(one))
        assert sum(map(count_entries, maker.pending)) <= limit


class _Kept:
    """In place of a spill file's writer: what it was given."""

    def __init__(self) -> None:
        self.rows, self.world = [], None

    def write_rebalance(self, row) -> None:
        self.rows.append(row)

    def finish_group(self, group, commits, usual_ms, timeout_ms):
        assert timeout_ms is None or timeout_ms > 0
        self.world = commits, usual_ms
        return self


@pytest.mark.parametrize("group", GROUPS)
def test_telling_holds_what_it_needs(group, monkeypatch) -> None:
    """Rebalances with their own costs and rows, in order, and the group's usual length."""
    found = list(rebalances(group))
    pauses = [one for one in rebuilt(group)[1] if isinstance(one, Pause)]
    whole = list(recorded_rebalances(found, clusters()))
    kept = _Kept()
    telling = RebalanceCollector(clusters(), None, kept)
    for one in found:
        telling.add_generation(one)
    for one in pauses:
        telling.add_pause(one)
    for number in range(len(found)):
        telling.add_row({"number": number})
    telling.finish_group(group, {})
    assert [row["number"] for _, row in kept.rows] == list(range(len(found)))
    commits = CommitStatistics.of(pauses)
    for (one_rebalance, _), wanted in zip(kept.rows, whole, strict=True):
        at = wanted.generation
        assert one_rebalance.generation == at
        if wanted.replayable:
            known = commits.pauses_of_rebalance(at.incarnation, at.generation_number)
            expected = recorded_costs(wanted, clusters(), known)
            assert one_rebalance.costs.stopped.tolist() == expected.stopped.tolist()
            assert one_rebalance.costs.length_ms == expected.length_ms
            assert one_rebalance.costs.rewinds == expected.rewinds
    assert kept.world[1] == SimulationContext.of(clusters(), whole, commits).usual_ms
    assert dict(kept.world[0].intervals) == dict(commits.intervals)
