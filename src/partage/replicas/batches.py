"""Moves in batches: at most so many at once, and never more on a broker than it has room for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, NoFeasiblePlanError
from partage.model import ReplicaTask

__all__ = ["Moves", "batches", "changed", "directories"]


@dataclass(frozen=True, eq=False)
class Moves:
    """What a plan moves, one row a new replica.

    Attributes:
        task: what was asked; replica: int32, the plan.
        partition: int64[n]; target: int32[n], the broker that gets it; source: int32[n], the
            one it leaves, -1 where a replica is added; bytes: int64[n].
    """

    task: ReplicaTask
    replica: NDArray[np.int32]

    @cached_property
    def _old_owner(self) -> NDArray[np.int64]:
        cluster = self.task.cluster
        return np.repeat(np.arange(cluster.partitions, dtype=np.int64), cluster.factor)

    @cached_property
    def _rows(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        task, brokers = self.task, len(self.task.cluster.brokers)
        owner = np.repeat(np.arange(task.cluster.partitions, dtype=np.int64), task.factor)
        key, old = owner * brokers + self.replica, self._old_owner * brokers + task.cluster.replica
        new = np.flatnonzero(~np.isin(key, old))
        left = np.sort(old[~np.isin(old, key)])
        source = np.full(len(new), -1, np.int32)
        # The i-th newcomer of a partition takes the place of the i-th that left.
        first = np.searchsorted(owner[new], owner[new])
        nth = np.arange(len(new)) - first
        begin = np.searchsorted(left, owner[new] * brokers)
        end = np.searchsorted(left, (owner[new] + 1) * brokers)
        has = begin + nth < end
        source[has] = left[(begin + nth)[has]] % brokers
        return owner[new], self.replica[new], source

    @property
    def partition(self) -> NDArray[np.int64]:
        """See the class."""
        return self._rows[0]

    @property
    def target(self) -> NDArray[np.int32]:
        """See the class."""
        return self._rows[1]

    @property
    def source(self) -> NDArray[np.int32]:
        """See the class."""
        return self._rows[2]

    @cached_property
    def bytes(self) -> NDArray[np.int64]:
        """See the class; 0 where sizes are unknown."""
        size = self.task.cluster.size
        return np.zeros(len(self.partition), np.int64) if size is None else size[self.partition]


def changed(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64: partitions whose list of replicas is another one, the order included."""
    cluster = task.cluster
    same = task.factor == cluster.factor
    out = ~same
    rows = np.flatnonzero(same & (task.factor > 0))
    for factor in np.unique(task.factor[rows]).tolist():
        mine = rows[task.factor[rows] == factor]
        at = np.arange(factor)
        new = replica[task.start[mine][:, None] + at]
        old = cluster.replica[cluster.start[mine][:, None] + at]
        out[mine] = (new != old).any(axis=1)
    return np.flatnonzero(out)


def batches(moves: Moves, *, most: int | None = None) -> list[list[int]]:
    """Partitions to change, in batches that are executed one after another.

    While a batch runs, a broker holds what comes and still what goes; a batch is made so that
    there is room for both.

    Args:
        moves: of the plan.
        most: replicas moved in a batch, at most; None for all at once as far as there is room.

    Raises:
        InvalidConfigError: a partition needs more moves than a batch may have.
        NoFeasiblePlanError: there is no room to begin: every move waits for another ("capacity").
    """
    if most is not None and most < 1:
        raise InvalidConfigError("max-moves", "must be at least 1", most)
    task, cluster = moves.task, moves.task.cluster
    to_do = changed(task, moves.replica).tolist()
    count = np.bincount(moves.partition, minlength=cluster.partitions)
    if most is not None and to_do and int(count[to_do].max()) > most:
        p = max(to_do, key=lambda one: int(count[one]))
        what = f"{cluster.name(p)} alone needs {count[p]}"
        raise InvalidConfigError("max-moves", what, most)
    free = _room(moves)
    into, out = _by_partition(moves)
    if all(room is None for room in free):
        return list(_counted(to_do, count, most))
    done: list[list[int]] = []
    while to_do:
        batch, waiting = _one_batch(to_do, count, most, free, into)
        if not batch:
            p = waiting[0]
            raise NoFeasiblePlanError(
                "capacity",
                f"{len(waiting)} partitions wait for each other's room, {cluster.name(p)} first: "
                "while replicas are copied, brokers hold old and new ones",
            )
        for p in batch:
            for b, size in out.get(p, ()):
                room = free[b]
                if room is not None:
                    free[b] = room + size
        done.append(batch)
        to_do = waiting
    return done


def _counted(to_do: list[int], count: NDArray[np.int64], most: int | None) -> Iterator[list[int]]:
    batch: list[int] = []
    moved = 0
    for p in to_do:
        if most is not None and batch and moved + int(count[p]) > most:
            yield batch
            batch, moved = [], 0
        batch.append(p)
        moved += int(count[p])
    if batch:
        yield batch


def _one_batch(
    to_do: list[int],
    count: NDArray[np.int64],
    most: int | None,
    free: list[int | None],
    into: dict[int, list[tuple[int, int]]],
) -> tuple[list[int], list[int]]:
    batch: list[int] = []
    waiting: list[int] = []
    moved = 0
    for p in to_do:
        full = most is not None and moved + int(count[p]) > most
        needs = into.get(p, [])
        if full or any((room := free[b]) is not None and room < size for b, size in needs):
            waiting.append(p)
            continue
        for b, size in needs:
            room = free[b]
            if room is not None:
                free[b] = room - size
        batch.append(p)
        moved += int(count[p])
    return batch, waiting


def _room(moves: Moves) -> list[int | None]:
    cluster = moves.task.cluster
    if cluster.size is None:
        return [None] * len(cluster.brokers)
    used = np.zeros(len(cluster.brokers), np.int64)
    owner = np.repeat(np.arange(cluster.partitions), cluster.factor)
    np.add.at(used, cluster.replica, cluster.size[owner])
    return [
        None if room < 0 else room - held
        for room, held in zip(cluster.capacity.tolist(), used.tolist(), strict=True)
    ]


def _by_partition(
    moves: Moves,
) -> tuple[dict[int, list[tuple[int, int]]], dict[int, list[tuple[int, int]]]]:
    into: dict[int, list[tuple[int, int]]] = {}
    out: dict[int, list[tuple[int, int]]] = {}
    for p, target, source, size in zip(
        moves.partition.tolist(), moves.target.tolist(), moves.source.tolist(),
        moves.bytes.tolist(), strict=True,
    ):  # fmt: skip
        into.setdefault(p, []).append((target, size))
        if source >= 0:
            out.setdefault(p, []).append((source, size))
    return into, out


def directories(moves: Moves) -> NDArray[np.int32] | None:
    """int32: a directory for each replica of the plan (place on its broker), -1 for any.

    Those that stay keep theirs; newcomers go, largest first, to the directory that is fullest
    last: relative to its room where all rooms of the broker are known, else by bytes. None
    where no broker has told several directories.
    """
    task, cluster = moves.task, moves.task.cluster
    if not any(len(mine) > 1 for mine in cluster.directories):
        return None
    brokers = len(cluster.brokers)
    old_owner = np.repeat(np.arange(cluster.partitions, dtype=np.int64), cluster.factor)
    was = dict(
        zip(
            (old_owner * brokers + cluster.replica).tolist(),
            cluster.directory.tolist(),
            strict=True,
        )
    )
    owner = np.repeat(np.arange(cluster.partitions, dtype=np.int64), task.factor)
    size = cluster.size if cluster.size is not None else np.ones(cluster.partitions, np.int64)
    out = np.full(len(moves.replica), -1, np.int32)
    used = [[0] * len(mine) for mine in cluster.directories]
    arriving = []
    for i, key in enumerate((owner * brokers + moves.replica).tolist()):
        b, p = key % brokers, key // brokers
        if key in was:
            out[i] = was[key]
            if was[key] >= 0:
                used[b][was[key]] += int(size[p])
        elif len(cluster.directories[b]) > 1:
            arriving.append((-int(size[p]), i, b))
    for bytes_, i, b in sorted(arriving):
        rooms = [room for _, room in cluster.directories[b]]
        relative = all(room > 0 for room in rooms)
        scores = [
            (held - bytes_) / (room if relative else 1)
            for held, room in zip(used[b], rooms, strict=True)
        ]
        d = scores.index(min(scores))
        used[b][d] -= bytes_
        out[i] = d
    return out
