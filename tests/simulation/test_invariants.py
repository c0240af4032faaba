"""What holds of every history: found by letting members come and go at random."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.simulated_histories import (
    SimulatedHistory,
    cause,
    history,
    member,
    pickled,
    topics,
)

from partage.history.pauses import Pause
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.cumulative import simulate_cumulative
from partage.simulation.metrics import Bounds
from partage.simulation.per_rebalance import simulate_rebalance
from partage.simulation.policies import DEFAULT_POLICIES, Policy

PARTITIONS = 7
#: Commits so often that a pause of 2 s is a stop of exactly 2 s.
EXACT = Bounds(2_000, 2_000)

#: Who is there after each rebalance; the time between two, in seconds; whether one that left
#: had died. Nobody there is possible too.
steps = st.lists(
    st.tuples(st.sets(st.sampled_from("abcd")), st.integers(1, 20), st.booleans()),
    min_size=1,
    max_size=7,
)
policies = st.sampled_from(
    [*DEFAULT_POLICIES, "eager/sticky+timeout=2s", "consumer/uniform+static"]
)


def simulated_history(made, *, static: bool = False) -> SimulatedHistory:
    """A history in which round robin by hand gave the partitions out; all rebalances take 2 s."""
    rows, time_ms, before, births = [], 1_000, {}, Counter()
    seen = []
    for number, (names, wait, died) in enumerate(made, 1):
        time_ms += wait * 1_000
        for name in names - set(before):
            births[name] += 1
        there = {n: before.get(n, f"{n}{births[n]}") for n in sorted(names)}
        causes = [cause("join", i) for n, i in there.items() if n not in before]
        gone = [i for n, i in before.items() if n not in there]
        causes += [cause("expiry" if died else "leave", i) for i in gone]
        members = [
            member(i, range(k, PARTITIONS, len(there)), client=n, instance=n if static else None)
            for k, (n, i) in enumerate(there.items())
        ]
        rows.append((time_ms, members, *(causes or [cause("unknown")])))
        # A dead member's partitions pause longer by the time that it was not missed.
        held = {p for m in (rows[-2][1] if number > 1 else ()) for p in _of(m, gone, died)}
        for p in range(PARTITIONS):
            first = time_ms + 1_000
            last = first - 2_000 - (6_000 if p in held else 0)
            seen.append(Pause(0, number, "t", p, last, first, p, 0))
        before = there
    commits = CommitStatistics.of(seen, {("t", p): 3.0 for p in range(PARTITIONS)})
    return SimulatedHistory(history(*rows), topics(t=PARTITIONS), commits)


def _of(who, gone, died):
    return who.assigned[0][1] if died and who.id in gone and who.assigned else ()


@settings(max_examples=25, deadline=None)
@given(steps, policies, st.booleans())
def test_no_partition_is_read_twice_at_any_moment(made, policy, static) -> None:
    """Whatever the protocol, and under any death in between: one reader a partition at most."""
    moments = []

    def watch(time_ms, reads):
        moments.append(time_ms)
        counted = Counter(p for mine in reads.values() for p in mine.tolist())
        assert not counted or max(counted.values()) == 1

    rows = simulated_history(made, static=static).cumulative(policy, watch)
    assert moments == sorted(moments)
    assert len(moments) >= sum(r.caused for r in rows)


@settings(max_examples=25, deadline=None)
@given(steps, st.sampled_from(["eager/range", "eager/sticky", "eager/optimal"]))
def test_eager_stops_everything_that_was_read(made, policy) -> None:
    """Every rebalance stops what was assigned before it, for its length and no partition else."""
    simulated = simulated_history(_alive(made))
    rows = {r.generation: r for r in simulated.cumulative(policy)}
    read = 0
    for recorded in simulated.rebalances:
        row = rows.get(recorded.generation.generation_number)  # none without a member
        if row is not None:
            assert row.caused
            assert row.stopped == Bounds(read * 2, read * 2)
        read = 0 if row is None else row.partitions


def _alive(made):
    """The same, and nobody goes without a word."""
    return [(names, wait, False) for names, wait, _ in made]


@settings(max_examples=25, deadline=None)
@given(steps, st.sampled_from(["cooperative/cooperative-sticky", "consumer/uniform"]))
def test_what_stops_is_what_moves(made, policy) -> None:
    """Of a group that nobody leaves without a word, exactly what changes hands stops."""
    simulated = simulated_history(_alive(made))
    rows = simulated.cumulative(policy)
    before: dict[int, str] = {}
    empty = {s.generation.generation_number for s in simulated.rebalances if not s.replayable}
    for row in rows:
        if row.step == 0 and row.generation - 1 in empty:
            before = {}  # nobody was left: nothing was read any more
        if not row.caused:
            assert row.stopped == Bounds(0, 0)
            continue
        owner = _owners(row)
        freed = [p for p, was in before.items() if was not in set(_members(row)) and p in owner]
        moved = row.measured.moved + len(freed)
        assert row.stopped == Bounds(moved * 2, moved * 2), (row.generation, row.step)
        # Until the second phase a partition stays with its last owner.
        before = before | owner if row.measured.spread is None else owner


def _key(row):
    return row.generation, row.policy, row.reading, row.step


def _members(row):
    return json.loads(row.plan)


def _owners(row):
    return {p: m for m, mine in _members(row).items() for p in mine.get("t", ())}


@settings(max_examples=25, deadline=None)
@given(steps)
def test_the_recorded_rows_are_the_record(made) -> None:
    """Moves, stops and rewinds of the recorded rows are those counted from the history itself."""
    simulated = simulated_history(_alive(made))
    rows = simulated.recorded()
    last: dict[int, str] = {}
    recorded_rebalances = [s for s in simulated.rebalances if s.replayable]
    assert len(rows) == len(recorded_rebalances)
    for recorded in simulated.rebalances:
        if not recorded.replayable:
            last = {}
            continue
        row = rows.pop(0)
        members = recorded.generation.first.members
        now = {p: m.id for m in members for _, ps in m.assigned for p in ps}
        living = {m.id for m in members}
        moves = sum(1 for p, m in now.items() if last.get(p) in living - {m})
        assert row.measured.moved == moves
        assert row.stopped == Bounds(2 * len(last), 2 * len(last))
        assert row.reread == Bounds(*(sum(range(PARTITIONS)),) * 2)
        assert row.changed == 0
        last = now


@settings(max_examples=12, deadline=None)
@given(steps, st.lists(policies, min_size=1, max_size=3, unique=True))
def test_jobs_may_be_spread(made, names) -> None:
    """Rebalances, policies and commits travel as pickles; same rows, in any order, from any worker."""
    simulated = simulated_history(made)
    chosen = [Policy.parse(name) for name in names]
    here = [
        r for s in simulated.rebalances for r in simulate_rebalance(s, chosen, simulated.context)
    ]
    moved = pickled((simulated.rebalances, chosen, simulated.context.commits))
    again = SimulatedHistory([], simulated.context.clusters)
    again.world = type(simulated.context).of(simulated.context.clusters, moved[0], moved[2])
    there = [r for s in reversed(moved[0]) for r in simulate_rebalance(s, moved[1], again.world)]
    assert sorted(there, key=_key) == sorted(here, key=_key)
    for policy in chosen:
        mine = list(simulate_cumulative(simulated.rebalances, policy, simulated.context))
        assert list(simulate_cumulative(moved[0], Policy.parse(policy.name), again.world)) == mine
        assert pickled(mine) == mine


@settings(max_examples=25, deadline=None)
@given(steps, policies)
def test_every_rebalance_has_its_row(made, policy) -> None:
    """Steps count from 0 without a gap, times never go back, what does not happen moves nothing."""
    simulated = simulated_history(made)
    rows = simulated.cumulative(policy)
    numbers = {s.generation.generation_number for s in simulated.rebalances if s.replayable}
    assert {r.generation for r in rows} == numbers
    for number in numbers:
        mine = [r for r in rows if r.generation == number]
        assert [r.step for r in mine] == list(range(len(mine)))
    for row in rows:
        if not row.caused:
            assert (row.measured.moved, row.plan) == (0, None)
            assert row.detail
        if row.stopped is not None:
            assert 0 <= row.stopped.low <= row.stopped.high
        if row.reread is not None:
            assert 0 <= row.reread.low <= row.reread.high
        if row.measured.avoidable is not None:
            assert 0 <= row.measured.avoidable <= row.measured.moved
