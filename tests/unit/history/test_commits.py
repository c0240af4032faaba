from __future__ import annotations

import random
from itertools import pairwise

from partage.history.commits import Commit, merged, runs
from partage.history.records import Place


def commit(offset: int, time_ms: int, committed: int | None, partition: int = 0) -> Commit:
    return Commit("g", "t", partition, Place(0, offset), time_ms, committed, transactional=False)


def test_slices_do_not_show() -> None:
    """However the log is cut into slices, the merged runs are those of the uncut log."""
    rng = random.Random(7)
    now, log = 0, []
    for offset in range(400):
        now += rng.choice([1, 500, 20_000])
        committed = None if rng.random() < 0.05 else offset
        log.append(commit(offset, now, committed, rng.randrange(3)))

    def reduced(*cuts: int) -> list:
        edges = [0, *cuts, len(log)]
        parts = [r for a, b in pairwise(edges) for r in runs(log[a:b])]
        return list(merged(sorted(parts, key=lambda r: (r.key, r.first_place))))

    whole = reduced()
    assert sum(r.commits + r.tombstones for r in whole) == 400
    for _ in range(20):
        assert reduced(*sorted(rng.sample(range(1, 400), 5))) == whole


def test_the_longest_wait_is_that_of_plain_counting() -> None:
    """The largest gap of a minute is the longest wait for a commit that ended in it."""
    times = [1_000, 2_000, 50_000, 61_000, 119_000, 300_000]
    got = merged(runs([commit(i, t, i) for i, t in enumerate(times)]))
    assert [(r.minute_ms, r.commits, r.largest_gap_ms) for r in got] == [
        (0, 3, 48_000),
        (60_000, 2, 58_000),
        (300_000, 1, 181_000),
    ]


def test_a_tombstone_is_no_commit() -> None:
    """A forgotten offset is counted apart, and nobody waits for it."""
    (run,) = merged(runs([commit(1, 5, 10), commit(2, 500, None), commit(3, 900, 12)]))
    assert (run.commits, run.tombstones) == (2, 1)
    assert (run.first_offset, run.last_offset, run.largest_gap_ms) == (10, 12, 895)
    (only,) = merged(runs([commit(2, 500, None)]))
    assert (only.commits, only.tombstones, only.first_offset, only.largest_gap_ms) == (
        0,
        1,
        None,
        None,
    )
