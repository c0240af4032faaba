"""Replicas on brokers: fix-and-optimise, a small integer programme a round.

Prices say of each partition how much more it pays than its cheapest choice. The partitions with
the largest excess are freed, with some large and some small ones beside them so that bands can be
kept; all others stay where the plan has them. HiGHS solves what is left exactly or to a number of
nodes; a plan that moves fewer bytes replaces the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import LEAVE

__all__ = ["free_sets", "restricted"]

#: Pairs of partition and broker in one programme: a second or two of HiGHS.
_PAIRS = 1_800
_UNBOUNDED = np.iinfo(np.int64).max // 4

_Ints = NDArray[np.int64]


def restricted(
    task: ReplicaTask, those: _Ints, plan: NDArray[np.int32]
) -> tuple[ReplicaTask, NDArray[np.bool_]]:
    """Return the task of some partitions while all others stay as planned, and bool[S], theirs.

    Args:
        task: the whole task.
        those: int64[n], partitions, ascending.
        plan: int32[S], of which the other partitions' replicas are taken off the bands.
    """
    cluster = task.cluster
    mine = np.zeros(len(task.factor), bool)
    mine[those] = True
    slot, old = mine[task.owner], mine[task.old_owner]
    held = np.zeros(task.low.shape, np.int64)
    owner, at = task.owner[~slot], plan[~slot]
    for k, row in enumerate(task.weight):
        np.add.at(held[k], at, row[owner])
        if task.zones:
            np.add.at(held[k], len(task.alive) + cluster.rack[at], row[owner])
    start = np.concatenate([[0], np.cumsum(cluster.factor[those])]).astype(np.int64)
    part = replace(
        cluster, topic=cluster.topic[those], number=cluster.number[those], start=start,
        replica=cluster.replica[old], leader=cluster.leader[those],
        size=None if cluster.size is None else cluster.size[those],
        load=None if cluster.load is None else cluster.load[those],
        directory=cluster.directory[old],
    )  # fmt: skip
    small = replace(
        task, cluster=part, factor=task.factor[those], fate=task.fate[old],
        closed=task.closed[those], cost=task.cost[those], weight=task.weight[:, those],
        low=task.low - held,
        high=np.where(task.high >= _UNBOUNDED, task.high, task.high - held),
        lead_free=task.lead_free[those], counted=task.counted[those], disks=None,
    )  # fmt: skip
    return small, slot


def free_sets(
    task: ReplicaTask,
    prices: NDArray[np.float64],
    plan: NDArray[np.int32],
    choice: NDArray[np.int32],
    turn: int,
) -> _Ints:
    """Return int64[n], the partitions to free in a turn, ascending.

    Half have the largest excess; a quarter are large and a quarter small, others each turn.
    """
    many = max(_PAIRS // max(int(task.receives.sum()), 1), 8)
    excess = _priced(task, prices, plan) - _priced(task, prices, choice)
    excess[task.closed] = -np.inf
    order = np.argsort(-excess, kind="stable")
    # Where a programme gained nothing, the next one frees others beside the first few.
    first = order[: 2 * many]
    chosen = [first[: many // 4], first[many // 4 :][turn % 4 :: 4][: many // 4]]
    movable = np.flatnonzero(~task.closed & (task.factor > 0))
    by_size = movable[np.argsort(-task.cost[movable], kind="stable")]
    quarter = max(many // 4, 1)
    chosen.append(by_size[: 8 * quarter][turn % 8 :: 8])
    chosen.append(by_size[::-1][quarter * turn : quarter * (turn + 1)])
    return np.unique(np.concatenate(chosen))


def _priced(
    task: ReplicaTask, prices: NDArray[np.float64], plan: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return float64[P]: what each partition pays for moves and bands in a plan."""
    cluster, owner, brokers = task.cluster, task.owner, len(task.alive)
    whole = prices[:, :brokers].copy()
    if task.zones:
        whole += prices[:, brokers:][:, cluster.rack]
    paid = np.zeros(len(plan))
    for k, row in enumerate(task.weight):
        paid += row[owner] * whole[k, plan]
    kept = np.zeros(len(plan), bool)
    for place in _places(task):
        kept |= place == plan
    paid += np.where(kept, 0, task.cost[owner])
    out = np.zeros(len(task.factor))
    np.add.at(out, owner, paid)
    return out


def _places(task: ReplicaTask) -> Iterator[NDArray[np.int64]]:
    """Yield int64[S], the old brokers of each slot's partition one after another; -1 for none."""
    cluster = task.cluster
    for place in range(int(cluster.factor.max(initial=0))):
        there = (place < cluster.factor)[task.owner]
        at = np.where(there, cluster.start[:-1][task.owner] + place, 0)
        yield np.where(there & (task.fate[at] != LEAVE), cluster.replica[at], -1)
