"""Pauses around rebalances, against every single commit of the recording."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
from pyarrow import parquet
from tests.support.captured import SAMPLE, group_records
from tests.support.commit_runs import CommitRun, stretch_of
from tests.support.rebuilt import rebalances, rebuilt

from partage.history.pauses import Pause, PauseTracker
from partage.history.records import assigned_partitions
from partage.history.transactions import TransactionOutcome, Transactions
from partage.simulation.costs import rebalance_duration, stop_time_bounds
from partage.simulation.metrics import NOTHING, Bounds
from partage.wire.group_log import decode_record


@cache
def commits() -> dict[tuple[str, str, int], list[tuple[int, int, int]]]:
    """(group, topic, partition) -> (place, time, offset) of commits, one by one, in order."""
    table = parquet.read_table(SAMPLE / "consumer_offsets.parquet").to_pylist()
    transactions = Transactions(parquet.read_table(SAMPLE / "batches.parquet").to_pylist())
    out = defaultdict(list)
    wanted = {"clicks-v2", "billing", "ledger-copy"}
    for row in table:
        if int.from_bytes(row["key"][:2], "big") != 1:
            continue
        record = decode_record(row["key"], row["value"])
        group = record.key["group"]
        if group not in wanted or record.value is None:
            continue
        place, time = (np.array([row[n]], np.int64) for n in ("offset", "timestamp_ms"))
        effect = transactions.find_outcomes(row["partition"], place, time)
        if effect.outcome[0] in (TransactionOutcome.PLAIN, TransactionOutcome.COMMITTED):
            key = group, record.key["topic"], record.key["partition"]
            at = (int(effect.offset[0]), int(effect.time_ms[0]), record.value["offset"])
            out[key].append(at)
    return {key: sorted(rows, key=lambda r: r[0]) for key, rows in out.items()}


def test_pauses_are_those_of_the_single_commits() -> None:
    """For a consumer, an eager and a transactional group: last before, first after, rewind."""
    checked = 0
    for group in ("clicks-v2", "billing", "ledger-copy"):
        gens = {(f.incarnation, f.generation_number): f for f in rebalances(group)}
        for pause in (f for f in rebuilt(group)[1] if isinstance(f, Pause)):
            at = gens[pause.incarnation, pause.generation].position.offset
            rows = commits().get((group, pause.topic, pause.partition), [])
            before = [r for r in rows if r[0] < at]
            after = [r for r in rows if r[0] > at]
            assert pause.last_ms == (before[-1][1] if before else None)
            assert pause.first_ms == (after[0][1] if after else None)
            if before and after:
                assert pause.rewind == max(0, before[-1][2] - after[0][2])
                checked += 1
    assert checked > 3_000


def test_each_assigned_partition_has_one_pause_a_rebalance() -> None:
    """Partitions assigned in a rebalance or the one before have exactly one row each."""
    for group in group_records():
        before: set = set()
        life = 0
        wanted: dict = defaultdict(int)
        for f in rebalances(group):
            before, life = (before if f.incarnation == life else set()), f.incarnation
            now = {pair for m in f.first.members for pair in assigned_partitions(m)}
            for pair in now | before:
                wanted[(f.incarnation, f.generation_number, *pair)] += 1
            before = {pair for m in f.last.members for pair in assigned_partitions(m)}
        found: dict = defaultdict(int)
        for p in (f for f in rebuilt(group)[1] if isinstance(f, Pause)):
            found[p.incarnation, p.generation, p.topic, p.partition] += 1
        assert found == wanted


def test_a_partition_that_never_commits_again_does_not_pile_up() -> None:
    """Pauses that wait for a commit are given up one by one once there are many."""
    tracker = PauseTracker()
    given_up = [p for n in range(100) for p in tracker.begin_pauses(0, n, [("t", 0)])]
    assert [p.generation for p in given_up] == list(range(36))
    assert len(list(tracker.finish_pauses())) == 64
    assert not list(tracker.finish_pauses())


def test_clocks_that_go_backwards_make_no_negative_pause() -> None:
    """A commit with an earlier time than the one before it is a pause of nothing."""
    tracker = PauseTracker()
    tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 0, 9_000, 5)))
    tracker.begin_pauses(0, 1, [("t", 0)])
    (pause,) = tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 0, 4_000, 5)))
    assert (pause.pause_ms, pause.rewind) == (0, 0)


def test_a_tombstone_makes_the_offset_unknown() -> None:
    """After an offset was deleted, the number of records read twice is unknown."""
    tracker = PauseTracker()
    tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 0, 1_000, 50)))
    gone = CommitRun.of("g", "t", 0, 2_000, 0)._replace(
        commits=0, tombstones=1, first_offset=None, last_offset=None
    )
    tracker.process_commit_stretch(stretch_of(gone))
    tracker.begin_pauses(0, 1, [("t", 0)])
    (pause,) = tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 0, 5_000, 3)))
    assert pause.rewind is None


def test_a_rewind_that_no_partition_can_have_is_none() -> None:
    """Brokers store any number as an offset: an implausible one is left out, and no table overflows."""
    tracker = PauseTracker()
    tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 0, 1_000, 2**63 - 1)))
    tracker.begin_pauses(0, 1, [("t", 0)])
    (pause,) = tracker.process_commit_stretch(
        stretch_of(CommitRun.of("g", "t", 0, 5_000, -(2**63)))
    )
    assert pause.rewind is None


def test_a_partition_that_had_nothing_to_read_tells_nothing_of_a_rebalances_length() -> None:
    """Commits of the same offset long after a rebalance: nobody was kept from reading anything."""
    tracker = PauseTracker()
    for p in (0, 1):
        tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", p, 1_000, 7)))
        tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", p, 1_500, 7)))
    tracker.begin_pauses(0, 4, [("t", 0), ("t", 1)])
    (idle,) = tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 0, 163_000, 7)))
    (busy,) = tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 1, 4_000, 9)))
    assert (idle.advance, idle.rewind, busy.advance) == (0, 0, 2)
    shown = {one: stop_time_bounds(one, NOTHING) for one in (idle, busy)}
    assert shown[busy] == Bounds(1_500, 2_500)
    # At least nothing, then; at most what it shows, as ever.
    assert shown[idle] == Bounds(0, 161_500)
    assert rebalance_duration([shown[idle], shown[busy]]) == Bounds(0, 2_500)
    tracker.begin_pauses(0, 5, [("t", 1)])
    (back,) = tracker.process_commit_stretch(stretch_of(CommitRun.of("g", "t", 1, 6_000, 3)))
    assert (back.advance, back.rewind) == (0, 6)
    assert stop_time_bounds(back, NOTHING).low > 0
