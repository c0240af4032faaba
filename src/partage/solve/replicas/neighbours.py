"""Plans one or two steps beside a plan, of clusters so small that all of them can be tried."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import LEAVE, STAY

__all__ = ["neighbours"]


def neighbours(
    task: ReplicaTask, replica: NDArray[np.int32], *, most: int
) -> Iterator[NDArray[np.int32]]:
    """int32 each: sets of brokers with one replica elsewhere, then with two elsewhere.

    What a replica may not do for itself is left out; whether a plan is valid is the judge's affair.

    Args:
        task: what is asked.
        replica: int32[sum of factors], sets of brokers by ``task.start``.
        most: where a kind has more than so many plans, none of the kind.
    """
    steps = list(_steps(task, replica))
    if len(steps) <= most:
        for s, b in steps:
            yield _taken(replica, (s, b))
    if len(steps) * (len(steps) - 1) // 2 <= most:
        for i, (s, b) in enumerate(steps):
            for t, c in steps[i + 1 :]:
                if s != t and (task.owner[s] != task.owner[t] or b != c):
                    yield _taken(replica, (s, b), (t, c))


def _steps(task: ReplicaTask, replica: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """A replica's slot and a broker that it may go to."""
    cluster = task.cluster
    for s, p in enumerate(task.owner.tolist()):
        old = slice(int(cluster.start[p]), int(cluster.start[p + 1]))
        fates = dict(zip(cluster.replica[old].tolist(), task.fate[old].tolist(), strict=True))
        if fates.get(int(replica[s])) == STAY:
            continue
        there = set(replica[task.start[p] : task.start[p + 1]].tolist())
        for b in range(len(task.alive)):
            may = fates[b] != LEAVE if b in fates else bool(task.receives[b])
            if may and b not in there:
                yield s, b


def _taken(replica: NDArray[np.int32], *steps: tuple[int, int]) -> NDArray[np.int32]:
    out: NDArray[np.int32] = replica.copy()
    for s, b in steps:
        out[s] = b
    return out
