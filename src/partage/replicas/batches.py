"""Batches of a reassignment: limited in size, and by the free space of every broker and disk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, NoFeasiblePlanError
from partage.model import ReplicaTask
from partage.replicas.moves import ReplicaMoves

__all__ = ["changed_partitions", "split_into_batches"]


def changed_partitions(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the partitions whose list of replicas a reassignment plan changes.

    A new order of the same replicas counts as a change, because the first replica is the preferred
    leader.

    Args:
        task: the cluster with its current replicas, and the constraints of the reassignment.
        replica: int32, the plan: the broker of each new replica, by index in the cluster.

    Returns:
        int64[n], indices of the partitions.
    """
    cluster = task.cluster
    same = task.factor == cluster.replication_factors
    out = ~same
    rows = np.flatnonzero(same & (task.factor > 0))
    for factor in np.unique(task.factor[rows]).tolist():
        mine = rows[task.factor[rows] == factor]
        at = np.arange(factor)
        new = replica[task.first_replica[mine][:, None] + at]
        old = cluster.replica[cluster.start[mine][:, None] + at]
        out[mine] = (new != old).any(axis=1)
    return np.flatnonzero(out)


def split_into_batches(moves: ReplicaMoves, *, max_copies: int | None = None) -> list[list[int]]:
    """Divide the partitions that a reassignment plan changes into batches.

    The batches are executed one after the other. While a batch runs, brokers hold both old and new
    replicas, so the disks must have room for both.

    Args:
        moves: the replica copies of the plan.
        max_copies: the maximum number of replicas copied in a batch, between brokers or disks; None
            if only free space limits it.

    Raises:
        InvalidConfigError: a partition needs more moves than a batch may have.
        NoFeasiblePlanError: every remaining move waits for space that another one would free
            ("capacity").
    """
    if max_copies is not None and max_copies < 1:
        raise InvalidConfigError("max-moves", "must be at least 1", max_copies)
    task, cluster = moves.task, moves.task.cluster
    to_do = np.union1d(changed_partitions(task, moves.replica), moves.disk_moves.partition).tolist()
    copied = np.concatenate([moves.partition_of_copy, moves.disk_moves.partition])
    count = np.bincount(copied, minlength=cluster.partitions)
    if max_copies is not None and to_do and int(count[to_do].max()) > max_copies:
        p = max(to_do, key=lambda one: int(count[one]))
        what = f"{cluster.partition_name(p)} alone needs {count[p]}"
        raise InvalidConfigError("max-moves", what, max_copies)
    free = _room(moves)
    into, out = _space_by_partition(moves)
    if all(room is None for room in free):
        return list(_counted(to_do, count, max_copies))
    done: list[list[int]] = []
    while to_do:
        batch, waiting = _choose_batch(to_do, count, max_copies, free, into)
        if not batch:
            p = waiting[0]
            raise NoFeasiblePlanError(
                "capacity",
                f"{len(waiting)} partitions wait for each other's room, "
                f"{cluster.partition_name(p)} first: "
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
    # Free space does not matter here.
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


def _choose_batch(
    to_do: list[int],
    copy_counts: NDArray[np.int64],
    max_copies: int | None,
    free: list[int | None],
    needs_of: dict[int, list[tuple[int, int]]],
) -> tuple[list[int], list[int]]:
    """Choose the partitions of the next batch, so that their new replicas fit on the disks.

    A partition that does not fit waits for a later batch.

    Args:
        to_do: the partitions to choose from.
        copy_counts: number of copied replicas of each partition.
        max_copies: maximum number of copied replicas; None for no limit.
        free: free bytes of each broker, then of each disk, None if unknown; reduced in place.
        needs_of: for each partition, pairs of an index into ``free`` and the bytes needed there.

    Returns:
        the chosen partitions, and the remaining ones.
    """
    batch: list[int] = []
    waiting: list[int] = []
    moved = 0
    for p in to_do:
        full = max_copies is not None and moved + int(copy_counts[p]) > max_copies
        needs = needs_of.get(p, [])
        if full or any((room := free[b]) is not None and room < size for b, size in needs):
            waiting.append(p)
            continue
        for b, size in needs:
            room = free[b]
            if room is not None:
                free[b] = room - size
        batch.append(p)
        moved += int(copy_counts[p])
    return batch, waiting


def _room(moves: ReplicaMoves) -> list[int | None]:
    # None if the capacity is unknown; brokers first, then disks.
    cluster, disks = moves.task.cluster, moves.task.disks
    rooms, places = cluster.capacity, cluster.replica
    used = np.zeros(len(rooms), np.int64)
    if cluster.size is not None:
        np.add.at(used, places, cluster.size[moves.task.current_partition])
        if disks is not None:
            on = disks.old >= 0
            held = np.zeros(len(disks.part), np.int64)
            np.add.at(held, disks.old[on], cluster.size[moves.task.current_partition[on]])
            rooms, used = np.concatenate([rooms, disks.room]), np.concatenate([used, held])
    return [
        None if room < 0 or cluster.size is None else room - held
        for room, held in zip(rooms.tolist(), used.tolist(), strict=True)
    ]


def _space_by_partition(
    moves: ReplicaMoves,
) -> tuple[dict[int, list[tuple[int, int]]], dict[int, list[tuple[int, int]]]]:
    """Return the disk space that each partition's new replicas take, and that is freed later.

    Space is freed when the old replicas are deleted. Both results are dicts from partition to a
    list of pairs: index of the broker or disk, and bytes. The indices of disks follow those of the
    brokers.

    Args:
        moves: the replica copies of the reassignment plan.
    """
    # The index is a broker's position, or, for a disk, the number of brokers plus the disk's
    # position.
    into: dict[int, list[tuple[int, int]]] = {}
    out: dict[int, list[tuple[int, int]]] = {}
    brokers = len(moves.task.cluster.brokers)
    for p, target, source, size in zip(
        moves.partition_of_copy.tolist(), moves.target_broker.tolist(),
        moves.source_broker.tolist(),
        moves.copy_bytes.tolist(), strict=True,
    ):  # fmt: skip
        into.setdefault(p, []).append((target, size))
        if source >= 0:
            out.setdefault(p, []).append((source, size))
    for p, source, target, size in zip(*(side.tolist() for side in moves.on_disks), strict=True):
        if target >= 0:
            into.setdefault(p, []).append((brokers + target, size))
        if source >= 0:
            out.setdefault(p, []).append((brokers + source, size))
    return into, out
