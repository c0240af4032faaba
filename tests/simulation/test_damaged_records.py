"""Records that are damaged, or of a wrong clock: what they spoil is only what they touch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.support.simulated_histories import cause, history, member, topics

from partage.history.classic_groups import ClassicGroup, ClassicRecord
from partage.history.events import Generation
from partage.history.ownership import OwnershipIntervals
from partage.history.pauses import Pause
from partage.history.records import ClassicState, LogPosition
from partage.jobs.replay.capture import LogContext
from partage.jobs.replay.group_rows import GroupRows
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.context import SimulationContext
from partage.simulation.cumulative import simulate_cumulative
from partage.simulation.per_rebalance import simulate_rebalance
from partage.simulation.policies import Policy
from partage.simulation.recorded_rebalances import recorded_rebalances

POLICIES = [Policy.parse(p) for p in ("eager/range", "cooperative/cooperative-sticky+static")]


def _rows(found, clusters) -> list:
    recorded = list(recorded_rebalances(found, clusters))
    world = SimulationContext.of(clusters, recorded, CommitStatistics())
    rows = [row for one in recorded for row in simulate_rebalance(one, POLICIES, world)]
    return rows + [
        row for policy in POLICIES for row in simulate_cumulative(recorded, policy, world)
    ]


@pytest.mark.parametrize("two", [
    [member("a", (0,), instance="i"), member("b", (1,), instance="i")],
    [member("a", (0,)), member("a", (1,))],
    [member("", (0,)), member("", (1,))],
])  # fmt: skip
def test_two_members_of_one_name(two) -> None:
    """Of one instance id or one member id: a later state of a generation may have them so."""
    found = history(
        (1_000, [member("a", (0, 1))], cause("first")),
        (2_000, [member("a", (0,)), member("b", (1,))], cause("join", "b")),
        (3_000, [member("a", (0, 1))], cause("leave", "b")),
    )
    spoilt = replace(found[1].last, members=tuple(two))
    for first in (found[1].first, spoilt):
        middle = replace(found[1], first=first, last=spoilt)
        after = replace(found[2], previous=replace(middle, previous=None))
        assert _rows([found[0], middle, after], topics(t=2))


def _generations(*given: tuple[int, int]) -> list[Generation]:
    group, out = ClassicGroup(), []
    for offset, (number, time_ms) in enumerate(given):
        state = ClassicState(
            "consumer", number, "range", "a", time_ms, (member("a", (number % 3,)),)
        )
        out += list(group.process_record(ClassicRecord(LogPosition(0, offset), time_ms, state)))
    return [one for one in [*out, *group.finish_generations()] if isinstance(one, Generation)]


def test_a_leap_that_no_time_can_hold_is_a_broken_number() -> None:
    """Two billion generations within a second were never there; some hundred may have been."""
    found = _generations((7, 1_000), (2**31 - 1, 2_000), (8, 3_000), (400, 4_000))
    assert [one.gap_before for one in found] == [6, 1, 0, 391]


@pytest.mark.parametrize("times", [
    (1_000, 9_000, 5_000, 12_000),
    (10**12, 250 * 10**12, 10**12 + 1, 10**12 + 2),
])  # fmt: skip
def test_nobody_owns_a_partition_twice_where_clocks_go_back(times) -> None:
    """Intervals of a partition follow each other, whatever the times of the records are."""
    ownership = OwnershipIntervals(lambda *_: None, (1_000, 2 * 10**12))
    found = _generations(*((n + 1, ms) for n, ms in enumerate(times)))
    intervals = [i for one in found for i in ownership.process_item(one)] + list(
        ownership.finish_intervals()
    )
    ends = [(i.from_ms, i.to_ms) for i in sorted(intervals, key=lambda i: i.from_generation)]
    assert all(to is None or to >= begin for begin, to in ends)
    assert all(a[1] <= b[0] for a, b in pairwise(ends))


def test_times_outside_the_record_tell_no_length() -> None:
    """A commit of the year 10000 makes no pause of eight thousand years."""
    rows = GroupRows("g", topics(t=1), None, LogContext(span=(1_000, 9_000)))
    pause = Pause(0, 1, "t", 0, 2_000, 253_402_300_800_000, 5, 100, 0)
    assert rows._without_wrong_times(pause).pause_ms is None
    assert rows._without_wrong_times(pause._replace(first_ms=5_000)).pause_ms == 3_000


def test_what_the_metadata_lacks_breaks_no_rule() -> None:
    """A topic that cluster.jsonl does not know was assigned: no strategy is blamed for it."""
    found = history((1_000, [member("a", (0, 1))], cause("first")))
    rows = _rows(found, topics(other=2))
    assert rows
    assert {row.measured.breaches for row in rows} == {None}
