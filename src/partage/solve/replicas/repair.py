"""Small neighbourhoods of a plan: fix-and-optimise, and enumeration on tiny clusters.

Fix-and-optimise: the dual's prices show how much more each partition costs than its cheapest
choice. `select_free_partitions` frees the partitions with the largest excess, and some large and
small ones so that bands can be kept. `restrict_to_partitions` makes a task of them in which all
others stay. `exact` solves that task, and a plan that moves fewer bytes replaces the one before.

Source: Y. Pochet, L. A. Wolsey, "Production Planning by Mixed Integer Programming", Springer 2006
(relax-and-fix and fix-and-optimise heuristics).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partage.model import ReplicaTask
from partage.model.replicas import LEAVE, STAY
from partage.solve.replicas.bounds import prices_of_brokers
from partage.solve.replicas.problem import (
    UNBOUNDED,
    Bools,
    Floats,
    Ints,
    is_moved,
    sum_by_broker_and_rack,
)

__all__ = ["restrict_to_partitions", "select_free_partitions", "yield_neighbour_plans"]

#: Pairs of partition and broker in one programme: a second or two of HiGHS.
_PAIRS = 1_800


def select_free_partitions(
    task: ReplicaTask,
    prices: Floats,
    plan: NDArray[np.int32],
    cheapest: NDArray[np.int32],
    step: int,
) -> Ints:
    """Choose the partitions that the next repair step may change; all others keep their brokers.

    About half are partitions whose brokers in the plan cost much more than their cheapest brokers.
    The others are some of the largest and some of the smallest partitions. Each step frees another
    selection. The result is int64[n], ascending.

    Args:
        task: cluster, brokers to use and balance limits.
        prices: float64[4, brokers + racks], the dual price of each resource on each broker and
            rack.
        plan: int32[replicas], the brokers of the plan to improve.
        cheapest: int32[replicas], each partition's cheapest brokers at these prices.
        step: number of the repair step, from 0.
    """
    many = max(_PAIRS // max(int(task.receives.sum()), 1), 8)
    excess = _partition_costs(task, prices, plan) - _partition_costs(task, prices, cheapest)
    excess[task.closed] = -np.inf
    order = np.argsort(-excess, kind="stable")
    # Each turn frees other partitions beside the first few: repeating a choice gains nothing.
    first = order[: 2 * many]
    chosen = [first[: many // 4], first[many // 4 :][step % 4 :: 4][: many // 4]]
    movable = np.flatnonzero(~task.closed & (task.factor > 0))
    by_size = movable[np.argsort(-task.cost[movable], kind="stable")]
    quarter = max(many // 4, 1)
    chosen.append(by_size[: 8 * quarter][step % 8 :: 8])
    chosen.append(by_size[::-1][quarter * step : quarter * (step + 1)])
    return np.unique(np.concatenate(chosen))


def _partition_costs(task: ReplicaTask, prices: Floats, plan: NDArray[np.int32]) -> Floats:
    """Return each partition's cost in a plan: bytes to move plus dual prices of its brokers.

    ``prices`` (float64[4, brokers + racks]) are costs per unit of a resource. ``task`` is the
    replica reassignment. The result is float64[partitions].
    """
    owner, whole = task.partition_of_replica, prices_of_brokers(task, prices)
    paid = np.zeros(len(plan))
    for k, row in enumerate(task.weight):
        paid += row[owner] * whole[k, plan]
    paid += np.where(is_moved(task, plan), task.cost[owner], 0)
    out = np.zeros(len(task.factor))
    np.add.at(out, owner, paid)
    return out


def restrict_to_partitions(
    task: ReplicaTask, partitions: Ints, plan: NDArray[np.int32]
) -> tuple[ReplicaTask, Bools]:
    """Reduce a reassignment to some partitions; all others keep the brokers of a plan.

    The smaller problem can be solved exactly.

    Args:
        task: the reassignment of all partitions.
        partitions: int64[n], the partitions that may change, ascending.
        plan: int32[replicas], the broker of each replica; what the other partitions use is
            subtracted from the balance limits.

    Returns:
        The smaller task, and a mask of its replicas in the whole plan (bool[replicas]).
    """
    cluster = task.cluster
    is_free = np.zeros(len(task.factor), bool)
    is_free[partitions] = True
    slot, old = is_free[task.partition_of_replica], is_free[task.current_partition]
    held = sum_by_broker_and_rack(task, task.partition_of_replica[~slot], plan[~slot])
    start = np.concatenate([[0], np.cumsum(cluster.replication_factors[partitions])]).astype(
        np.int64
    )
    part = replace(
        cluster, topic=cluster.topic[partitions], number=cluster.number[partitions], start=start,
        replica=cluster.replica[old], leader=cluster.leader[partitions],
        size=None if cluster.size is None else cluster.size[partitions],
        load=None if cluster.load is None else cluster.load[partitions],
        directory=cluster.directory[old],
    )  # fmt: skip
    small = replace(
        task, cluster=part, factor=task.factor[partitions], fate=task.fate[old],
        closed=task.closed[partitions], cost=task.cost[partitions],
        weight=np.ascontiguousarray(task.weight[:, partitions]), low=task.low - held,
        high=np.where(task.high >= UNBOUNDED, task.high, task.high - held),
        lead_free=task.lead_free[partitions], counted=task.counted[partitions], disks=None,
    )  # fmt: skip
    return small, slot


def yield_neighbour_plans(
    task: ReplicaTask, plan: NDArray[np.int32], *, max_plans: int
) -> Iterator[NDArray[np.int32]]:
    """Yield the plans that differ from ``plan`` in the broker of one replica, then of two replicas.

    Each replica only goes where it may move. The caller checks whether a plan is valid.

    Args:
        task: cluster, brokers to use and balance limits.
        plan: int32[replicas], the broker of each replica.
        max_plans: maximum number of plans of each kind; a kind with more is left out.
    """
    moves = list(_single_moves(task, plan))
    if len(moves) <= max_plans:
        for s, b in moves:
            yield _with_moves(plan, (s, b))
    if len(moves) * (len(moves) - 1) // 2 <= max_plans:
        for i, (s, b) in enumerate(moves):
            for t, c in moves[i + 1 :]:
                if s != t and (
                    task.partition_of_replica[s] != task.partition_of_replica[t] or b != c
                ):
                    yield _with_moves(plan, (s, b), (t, c))


def _single_moves(task: ReplicaTask, plan: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    cluster = task.cluster
    for s, p in enumerate(task.partition_of_replica.tolist()):
        old = slice(int(cluster.start[p]), int(cluster.start[p + 1]))
        fates = dict(zip(cluster.replica[old].tolist(), task.fate[old].tolist(), strict=True))
        if fates.get(int(plan[s])) == STAY:
            continue
        taken = set(plan[task.first_replica[p] : task.first_replica[p + 1]].tolist())
        for b in range(len(task.alive)):
            may = fates[b] != LEAVE if b in fates else bool(task.receives[b])
            if may and b not in taken:
                yield s, b


def _with_moves(plan: NDArray[np.int32], *moves: tuple[int, int]) -> NDArray[np.int32]:
    out: NDArray[np.int32] = plan.copy()
    for s, b in moves:
        out[s] = b
    return out
