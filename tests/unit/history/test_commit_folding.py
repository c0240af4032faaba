"""Runs folded by the column: what one run after the other gives, as a plain model does it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.support.commit_runs import CommitRun, joined, run_columns, stretch_of, with_wait

from partage import kernels
from partage.history.commit_kernels import MINUTE
from partage.history.commits import MINUTE_MS, CommitFolder
from partage.history.pauses import PauseTracker
from partage.history.records import LogPosition
from partage.simulation.commit_statistics import CommitRate

FORMS = ["interpreted", "compiled"]


class Minutes:
    """The model: runs of a partition by minute, of which two are open at a time."""

    def __init__(self) -> None:
        self.open: dict[tuple, dict[int, CommitRun]] = {}
        self.before: dict[tuple, CommitRun] = {}
        self.out: list[CommitRun] = []

    def feed(self, run: CommitRun) -> None:
        held = self.open.setdefault(run.key[:3], {})
        known = held.get(run.minute_ms)
        held[run.minute_ms] = run if known is None else joined(known, run)
        if len(held) > 2:
            self.close(held.pop(min(held)))

    def close(self, run: CommitRun) -> None:
        before = self.before.get(run.key[:3])
        self.before[run.key[:3]] = run
        self.out.append(with_wait(before, run))

    def finish(self) -> None:
        for held in self.open.values():
            for minute in sorted(held):
                self.close(held[minute])


def made_runs(rng: random.Random, count: int) -> list[CommitRun]:
    """Runs of a few partitions in log order: clocks go back, offsets too; tombstones alone."""
    out, at, now = [], 0, 0
    for _ in range(count):
        at += rng.randrange(1, 5)
        now += rng.choice([0, 900, 20_000, 61_000, 61_000, -61_000, -200_000])
        commits = rng.choice([0, 1, 1, 2, 7])
        first_ms = now + rng.choice([0, 0, 400])
        last_ms = first_ms + (rng.choice([-5, 0, 400, 3_000]) if commits != 1 else 0)
        first = rng.choice([0, 50, at * 10, (1 << 63) - 1, -(1 << 63)])
        last = first if commits < 2 else rng.choice([first, at * 10 + 3, 1 << 62])
        out.append(CommitRun(
            "g", rng.choice("tu"), rng.randrange(2), now // MINUTE_MS * MINUTE_MS, LogPosition(3, at),
            LogPosition(3, at), first_ms, last_ms, first if commits else None, last if commits else None,
            commits, rng.randrange(commits + 1), rng.choice([0, 1]) if commits else 1,
            rng.randrange(500) if commits > 1 else None,
        ))  # fmt: skip
    return out


def cells(run: CommitRun) -> tuple:
    """A minute as the columns have it."""
    gap = -1 if run.largest_gap_ms is None else run.largest_gap_ms
    ends = (run.first_offset, run.last_offset) if run.commits else (None, None)
    counts = (run.commits, run.transactional, run.tombstones, gap)
    return run.topic, run.partition, run.minute_ms, *ends, *counts


def folded_cells(found) -> list[tuple]:
    out = []
    for row in found.table.T.tolist():
        one = dict(zip(MINUTE, row, strict=True))
        ends = (one["first_offset"], one["last_offset"]) if one["commits"] else (None, None)
        counts = (one["commits"], one["transactional"], one["tombstones"], one["gap"])
        out.append((*found.series[one["series"]], one["minute_ms"], *ends, *counts))
    return out


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_minutes_are_those_of_the_model(form, step):
    """The same minutes in the same order, whatever pieces the runs come in."""
    for seed in range(12):
        runs = made_runs(random.Random(seed), 120)
        model, folding, got = Minutes(), CommitFolder(), []
        for run in runs:
            model.feed(run)
        with kernels.force_kernel_form(form):
            for at in range(0, len(runs), step):
                got += folded_cells(folding.add_runs(run_columns(runs[at : at + step]))[1])
            assert got == [cells(run) for run in model.out]
            model.finish()
            got += folded_cells(folding.finish_minutes())
        assert got == [cells(run) for run in model.out]
        assert len(got) > 20


def known(tracker: PauseTracker) -> dict:
    """The state of partitions with commits; damaged offsets compare otherwise once they are cut."""
    return {
        pair: replace(state, advanced_ms=None)
        for pair, state in tracker.partitions.items()
        if state.last_ms is not None
    }


@pytest.mark.parametrize("form", FORMS)
def test_a_stretch_has_the_figures_of_its_runs(form):
    """Pauses, usual waits and rates are those of one run after the other."""
    for seed in range(20):
        rng = random.Random(seed)
        runs = made_runs(rng, 60)
        pairs = [(t, p) for t in "tu" for p in range(2)]
        one, other = PauseTracker(), PauseTracker()
        rates, folded, folding = {}, {}, CommitFolder()
        for generation in range(4):
            for tracker in (one, other):
                tracker.begin_pauses(0, generation, pairs)
            some = runs[generation * 15 : generation * 15 + 15]
            wanted = [
                pause for run in some for pause in one.process_commit_stretch(stretch_of(run))
            ]
            for run in some:
                if run.first_offset is not None:
                    near = [max(-(1 << 61) + 1, min(o, (1 << 61) - 1))
                            for o in (run.first_offset, run.last_offset)]  # fmt: skip
                    traffic = rates.setdefault((run.topic, run.partition), CommitRate())
                    traffic.add_commits(run.first_ms, run.last_ms, *near)
            with kernels.force_kernel_form(form):
                stretches, _ = folding.add_runs(run_columns(some))
            got = []
            for _, stretch in stretches:
                got += other.process_commit_stretch(stretch)
                folded.setdefault((stretch.topic, stretch.partition), CommitRate()).add_stretch(
                    stretch
                )
            assert sorted(map(repr, got)) == sorted(map(repr, wanted))
            assert known(other) == known(one)
        sane = [k for k in rates if abs(rates[k].records) < 1 << 60]
        assert all(folded[k].first_ms == rates[k].first_ms for k in rates)
        assert all(folded[k].last_ms == rates[k].last_ms for k in rates)
        assert all(folded[k].records == rates[k].records for k in sane)


@pytest.mark.parametrize("form", FORMS)
def test_a_stretch_has_the_last_commit_that_advanced(form):
    """A client that repeats its offset in the background does not advance, in any run."""
    first = CommitRun.of("g", "t", 0, 1_000, 5)
    later = [
        first._replace(commits=3, last_offset=9, last_ms=9_000, advanced_ms=7_000),
        CommitRun.of("g", "t", 0, 60_000, 9),
        CommitRun.of("g", "t", 0, 120_000, 9),
    ]
    more = [*later, CommitRun.of("g", "t", 0, 180_000, 10)]
    with kernels.force_kernel_form(form):
        for runs, wanted in ((later, 7_000), (more, 180_000), (later[1:], None)):
            ((_, stretch),) = CommitFolder().add_runs(run_columns(runs))[0]
            assert stretch.advanced_ms == wanted
    tracker = PauseTracker()
    for run in more[:3]:
        tracker.process_commit_stretch(stretch_of(run))
    assert tracker.advanced_ms("t", 0) == 7_000
    tracker.process_commit_stretch(stretch_of(more[3]))
    assert tracker.advanced_ms("t", 0) == 180_000
