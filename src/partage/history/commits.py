"""Offset commits, reduced: they are 97 % of the records, and ride in no group's history.

A `CommitRun` stands for commits of one group and partition within one minute, in log order.
Workers make runs from slices of the log; runs of the same key are merged in log order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from partage.history.records import Place

__all__ = ["MINUTE_MS", "Commit", "CommitRun", "merged", "runs"]

MINUTE_MS = 60_000


class Commit(NamedTuple):
    """One commit that took effect; ``offset`` None is a tombstone (the offset is forgotten)."""

    group: str
    topic: str
    partition: int
    place: Place
    time_ms: int
    offset: int | None
    transactional: bool


class CommitRun(NamedTuple):
    """Commits of one group and partition within one minute; see table ``commit_rates``."""

    group: str
    topic: str
    partition: int
    minute_ms: int
    first_place: Place
    last_place: Place
    first_ms: int
    last_ms: int
    first_offset: int | None
    last_offset: int | None
    commits: int
    transactional: int
    tombstones: int
    largest_gap_ms: int | None

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Group, topic, partition, minute."""
        return self[:4]


def runs(commits: Iterable[Commit]) -> list[CommitRun]:
    """Commits in log order, reduced to one run for each group, partition and minute.

    >>> a = Commit("g", "t", 0, Place(0, 1), 1_000, 5, False)
    >>> b = a._replace(place=Place(0, 2), time_ms=4_000, offset=9)
    >>> run, = runs([a, b])
    >>> run.commits, run.first_offset, run.last_offset, run.largest_gap_ms
    (2, 5, 9, 3000)
    """
    out: dict[tuple[str, str, int, int], CommitRun] = {}
    for c in commits:
        key = (c.group, c.topic, c.partition, c.time_ms - c.time_ms % MINUTE_MS)
        mine = _of_one(key, c)
        before = out.get(key)
        out[key] = mine if before is None else _joined(before, mine)
    return list(out.values())


def _of_one(key: tuple[str, str, int, int], c: Commit) -> CommitRun:
    real = c.offset is not None
    return CommitRun(
        *key, c.place, c.place, c.time_ms, c.time_ms, c.offset, c.offset,
        int(real), int(real and c.transactional), int(not real), None,
    )  # fmt: skip


def _joined(a: CommitRun, b: CommitRun) -> CommitRun:
    """Two runs of one key, the second one later in the log; tombstones wait for nobody."""
    gap = max(0, b.first_ms - a.last_ms) if a.commits and b.commits else None
    gaps = [g for g in (a.largest_gap_ms, b.largest_gap_ms, gap) if g is not None]
    late, early = (b if b.commits else a), (a if a.commits else b)
    return CommitRun(
        *a.key,
        a.first_place,
        max(a.last_place, b.last_place),
        early.first_ms,
        late.last_ms,
        early.first_offset,
        late.last_offset,
        a.commits + b.commits,
        a.transactional + b.transactional,
        a.tombstones + b.tombstones,
        max(gaps, default=None),
    )


def merged(ordered: Iterable[CommitRun]) -> Iterator[CommitRun]:
    """Runs ordered by (group, topic, partition, minute, first place): one for each minute.

    The wait since the minute before belongs to the minute in which it ends.

    >>> a = CommitRun("g", "t", 0, 0, Place(0, 1), Place(0, 1), 5, 5, 1, 1, 1, 0, 0, None)
    >>> b = a._replace(minute_ms=60_000, first_ms=60_005, last_ms=60_005)
    >>> [r.largest_gap_ms for r in merged([a, a._replace(first_ms=9, last_ms=9), b])]
    [4, 59996]
    """
    held: CommitRun | None = None
    before: CommitRun | None = None
    for run in ordered:
        if held is not None and run.key == held.key:
            held = _joined(held, run)
            continue
        if held is not None:
            yield _waited(before, held)
        before, held = held, run
    if held is not None:
        yield _waited(before, held)


def _waited(before: CommitRun | None, run: CommitRun) -> CommitRun:
    """A whole minute, with the wait since the minute before."""
    if before is None or before.key[:3] != run.key[:3] or not (before.commits and run.commits):
        return run
    wait = max(0, run.first_ms - before.last_ms)
    return run._replace(largest_gap_ms=max(wait, run.largest_gap_ms or 0))
