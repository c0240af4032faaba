from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from tests.support.commit_runs import CommitRun, merged

from partage import kernels
from partage.history.commit_kernels import NEVER, reduce_commits, reduce_stretches
from partage.history.commits import (
    MINUTE_MS,
    Commits,
    RecordPositions,
    number_stretches,
    reduce_to_runs,
)
from partage.history.records import LogPosition

# (log offset, time, committed offset or None, topic partition)
Row = tuple[int, int, "int | None", int]


@pytest.fixture(autouse=True, params=["by cost", "compiled", "interpreted"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test by sorting, as few commits are counted, and with both forms of the kernel."""
    if request.param == "interpreted":
        for one in (reduce_commits, reduce_stretches):
            monkeypatch.setattr(one, "is_worth_compiling", lambda **_: True)
    with kernels.force_kernel_form(request.param):
        yield


def reduced(rows: list[Row]) -> list[CommitRun]:
    """The runs of some rows, as values."""
    offset, time_ms, committed, partition = (list(c) for c in zip(*rows, strict=True))
    real = np.array([c is not None for c in committed])
    log_partition = np.zeros(len(rows), np.int64)
    made = reduce_to_runs(Commits(
        np.zeros(len(rows), np.int32), np.array(partition, np.int32), log_partition,
        np.array(offset), np.array(time_ms), np.array([c or 0 for c in committed]),
        real, np.array([o % 3 == 0 for o in offset]), None, np.array(partition, np.int32),
    ))  # fmt: skip
    columns = {name: getattr(made, name).tolist() for name in made.__dataclass_fields__}
    return [
        CommitRun(
            "g", "t", r["partition"], r["minute_ms"],
            LogPosition(r["log_partition"], r["log_offset"]),
            LogPosition(r["last_partition"], r["last_log_offset"]),
            r["first_ms"], r["last_ms"],
            r["first_offset"] if r["commits"] else None,
            r["last_offset"] if r["commits"] else None,
            r["commits"], r["transactional"], r["tombstones"],
            r["largest_gap_ms"] if r["commits"] > 1 else None,
            None if r["advanced_ms"] == NEVER else r["advanced_ms"],
        )
        for r in (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    ]  # fmt: skip


def counted(rows: list[Row]) -> list[CommitRun]:
    """The same one commit after the other, without arrays: the oracle."""
    by_key: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        by_key.setdefault((row[3], row[1] // MINUTE_MS * MINUTE_MS), []).append(row)
    out = []
    for (partition, minute), mine in by_key.items():
        real = [r for r in mine if r[2] is not None]
        ends = real or mine
        out.append(CommitRun(
            "g", "t", partition, minute, LogPosition(0, mine[0][0]), LogPosition(0, mine[-1][0]),
            ends[0][1], ends[-1][1], ends[0][2], ends[-1][2], len(real),
            sum(r[0] % 3 == 0 for r in real), len(mine) - len(real),
            max((max(0, b[1] - a[1]) for a, b in pairwise(real)), default=None),
            next((b[1] for a, b in reversed([*pairwise(real)]) if b[2] > a[2]), None),
        ))  # fmt: skip
    return out


def a_log(seed: int) -> list[Row]:
    """400 commits of three partitions; clocks go back at times, offsets repeat, some are forgotten."""
    rng = random.Random(seed)
    now, log = 0, []
    for offset in range(400):
        now += rng.choice([1, 500, 20_000, -700])
        log.append((offset, now, None if rng.random() < 0.2 else offset // 9, rng.randrange(3)))
    return log


def test_columns_count_as_one_by_one() -> None:
    """Runs made by the column are those that counting one commit after the other gives."""
    for seed in range(20):
        log = a_log(seed)
        assert sorted(reduced(log)) == sorted(counted(log))


def test_slices_do_not_show() -> None:
    """However the log is cut into slices, the merged runs are those of the uncut log."""
    rng, log = random.Random(7), a_log(7)

    def whole(*cuts: int) -> list:
        edges = [0, *cuts, len(log)]
        parts = [r for a, b in pairwise(edges) for r in reduced(log[a:b])]
        return list(merged(sorted(parts, key=lambda r: (r.key, r.first_place))))

    uncut = whole()
    assert sum(r.commits + r.tombstones for r in uncut) == 400
    for _ in range(20):
        assert whole(*sorted(rng.sample(range(1, 400), 5))) == uncut


def test_the_longest_wait_is_that_of_plain_counting() -> None:
    """The largest gap of a minute is the longest wait for a commit that ended in it."""
    times = [1_000, 2_000, 50_000, 61_000, 119_000, 300_000]
    got = merged(reduced([(i, t, i, 0) for i, t in enumerate(times)]))
    assert [(r.minute_ms, r.commits, r.largest_gap_ms) for r in got] == [
        (0, 3, 48_000),
        (60_000, 2, 58_000),
        (300_000, 1, 181_000),
    ]


def test_a_tombstone_is_no_commit() -> None:
    """A forgotten offset is counted apart, and nobody waits for it."""
    (run,) = merged(reduced([(1, 5, 10, 0), (2, 500, None, 0), (3, 900, 12, 0)]))
    assert (run.commits, run.tombstones) == (2, 1)
    assert (run.first_offset, run.last_offset, run.largest_gap_ms) == (10, 12, 895)
    (only,) = merged(reduced([(2, 500, None, 0)]))
    assert (only.commits, only.tombstones, only.first_offset, only.largest_gap_ms) == (
        0,
        1,
        None,
        None,
    )


def test_any_64_bits_are_a_time() -> None:
    """Times at both ends of int64 stay in order and within int64."""
    least, most = -(1 << 63), (1 << 63) - 1
    got = list(merged(reduced([(0, least, 1, 0), (1, most, 2, 0)])))
    assert [(r.first_ms, r.commits) for r in got] == [(least, 1), (most, 1)]
    assert least <= got[0].minute_ms < got[1].minute_ms <= most
    assert got[1].largest_gap_ms == most


def test_nothing_is_no_run() -> None:
    """No commits, no runs."""
    none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
    made = reduce_to_runs(
        Commits(few, few, none, none, none, none, none.astype(bool), none.astype(bool))
    )
    assert {len(getattr(made, name)) for name in made.__dataclass_fields__} == {0}


def test_minutes_that_go_to_and_fro_are_counted_all_the_same() -> None:
    """A hundred minutes, each met twice in wild order: one run each, in every form."""
    rng = random.Random(5)
    minutes = [*range(100), *range(100)]
    rng.shuffle(minutes)
    log: list[Row] = [(i, m * MINUTE_MS + i, i, 0) for i, m in enumerate(minutes)]
    assert sorted(reduced(log)) == sorted(counted(log))
    assert len(reduced(log)) == 100


def test_stretches_change_behind_each_record_of_the_group() -> None:
    """Two commits of a group share a stretch exactly where no record of it stands between."""
    rng = random.Random(3)
    for _ in range(20):
        places = [(rng.randrange(2), at) for at in rng.sample(range(1_000), 120)]
        groups = [rng.randrange(3) for _ in places]
        commits = sorted((*place, g) for place, g in zip(places[:90], groups, strict=False))
        records = [(*place, g) for place, g in zip(places[90:], groups[90:], strict=True)]
        rng.shuffle(records)
        standing = [
            RecordPositions(*(np.array([row[i] for row in rows], np.int64) for i in (2, 0, 1)))
            for rows in (commits, records)
        ]
        got = number_stretches(*standing).tolist()
        for (p, at, g), (q, to, h), a, b in zip(commits, commits[1:], got, got[1:], strict=False):
            if g == h:
                between = any(k == g and (p, at) < (r, x) < (q, to) for r, x, k in records)
                assert (a != b) == between
