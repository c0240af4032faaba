"""Runs of commits as objects: the plain form of what `partage.history.commits` does by column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from partage.history.commit_kernels import NEVER, RUN
from partage.history.commits import MINUTE_MS, CommitStretch, RunColumns
from partage.history.records import LogPosition
from partage.simulation.commit_statistics import CommitRate

#: Between two damaged times there may be more than a column of int64 holds.
LONGEST_WAIT = (1 << 63) - 1


class CommitRun(NamedTuple):
    """Commits of one group and partition within one minute; a row of table ``commit_rates``."""

    group: str
    topic: str
    partition: int
    minute_ms: int
    first_place: LogPosition
    last_place: LogPosition
    first_ms: int
    last_ms: int
    first_offset: int | None
    last_offset: int | None
    commits: int
    transactional: int
    tombstones: int
    largest_gap_ms: int | None
    advanced_ms: int | None = None

    @classmethod
    def of(cls, group: str, topic: str, partition: int, time_ms: int, offset: int) -> CommitRun:
        """One commit as a run of its own, at no particular position."""
        minute_ms, nowhere = time_ms // MINUTE_MS * MINUTE_MS, LogPosition(0, 0)
        return cls(
            group, topic, partition, minute_ms, nowhere, nowhere,
            time_ms, time_ms, offset, offset, 1, 0, 0, None,
        )  # fmt: skip

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Group, topic, partition, minute."""
        return self[:4]


def stretch_of(run: CommitRun) -> CommitStretch:
    """One run as a stretch of its own."""
    if run.first_offset is None or run.last_offset is None or not run.commits:
        return CommitStretch(run.topic, run.partition)
    return CommitStretch(
        run.topic, run.partition, run.commits, run.first_ms, run.last_ms, run.first_offset,
        run.last_offset, max(0, run.last_ms - run.first_ms), run.commits - 1, False, False,
        run.last_ms, max(0, run.last_offset - run.first_offset), run.advanced_ms,
    )  # fmt: skip


def run_columns(runs: Sequence[CommitRun]) -> RunColumns:
    """The columns of runs; no group record stands between them."""
    names = list(dict.fromkeys(run.topic for run in runs))
    rows = [
        (
            0, 0, r.minute_ms, r.first_ms, r.last_ms, r.first_offset or 0, r.last_offset or 0,
            r.commits, r.transactional, r.tombstones,
            -1 if r.largest_gap_ms is None else r.largest_gap_ms,
            NEVER if r.advanced_ms is None else r.advanced_ms,
        )
        for r in runs
    ]  # fmt: skip
    positions = [(r.first_place.partition, r.first_place.offset) for r in runs]
    return RunColumns(
        names,
        np.array([names.index(run.topic) for run in runs], np.int64),
        np.array([run.partition for run in runs], np.int64),
        np.array(positions, np.int64).reshape(-1, 2).T,
        np.array(rows, np.int64).reshape(-1, len(RUN)).T,
    )


def fed(history, run: CommitRun) -> list:
    """What a group's history yields for one run."""
    return [*history.moves_until(run.first_place), *history.process_commit_stretch(stretch_of(run))]


def joined(a: CommitRun, b: CommitRun) -> CommitRun:
    """Two runs of one key, the second one later in the log; no wait ends at a tombstone."""
    gap = max(0, b.first_ms - a.last_ms) if a.commits and b.commits else None
    gaps = [g for g in (a.largest_gap_ms, b.largest_gap_ms, gap) if g is not None]
    early = a if a.commits or not b.commits else b
    late = b if b.commits or not a.commits else a
    advanced = a.advanced_ms if b.advanced_ms is None else b.advanced_ms
    if a.commits and b.commits and b.first_offset > a.last_offset and b.advanced_ms is None:
        advanced = b.first_ms
    return CommitRun(
        *a.key, a.first_place, max(a.last_place, b.last_place), early.first_ms, late.last_ms,
        early.first_offset, late.last_offset, a.commits + b.commits,
        a.transactional + b.transactional, a.tombstones + b.tombstones, max(gaps, default=None),
        advanced,
    )  # fmt: skip


def merged(ordered: Iterable[CommitRun]) -> Iterator[CommitRun]:
    """Runs ordered by (group, topic, partition, minute, first position), one for each minute.

    >>> a = CommitRun.of("g", "t", 0, 5, 1)
    >>> b = a._replace(minute_ms=60_000, first_ms=60_005, last_ms=60_005)
    >>> [r.largest_gap_ms for r in merged([a, a._replace(first_ms=9, last_ms=9), b])]
    [4, 59996]
    """
    held: CommitRun | None = None
    before: CommitRun | None = None
    for run in ordered:
        if held is not None and run.key == held.key:
            held = joined(held, run)
            continue
        if held is not None:
            yield with_wait(before, held)
        before, held = held, run
    if held is not None:
        yield with_wait(before, held)


def with_wait(before: CommitRun | None, run: CommitRun) -> CommitRun:
    """A whole minute, including the wait since the minute before."""
    if before is None or before[:3] != run[:3] or not (before.commits and run.commits):
        return run
    wait = min(max(0, run.first_ms - before.last_ms), LONGEST_WAIT)
    known = run.largest_gap_ms
    return run if known is not None and known >= wait else run._replace(largest_gap_ms=wait)


def commit_rates(runs: Iterable[CommitRun]) -> dict[tuple[str, int], float]:
    """The records per second of each partition of one group with at least two commits."""
    by_partition: dict[tuple[str, int], CommitRate] = {}
    for run in runs:
        if run.first_offset is not None and run.last_offset is not None:
            rate = by_partition.setdefault((run.topic, run.partition), CommitRate())
            rate.add_commits(run.first_ms, run.last_ms, run.first_offset, run.last_offset)
    rates = {key: rate.records_per_second for key, rate in by_partition.items()}
    return {key: rate for key, rate in rates.items() if rate is not None}
