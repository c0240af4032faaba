"""The initial placement: a greedy construction that the local search improves.

Replicas that may stay keep their brokers. Partitions that lose replicas drop those whose removal
costs least. Partitions that gain replicas get the cheapest broker at the final penalties, the
largest partitions first.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN202 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from partage.errors import NoFeasiblePlanError
from partage.kernels import kernel, piece
from partage.model import ReplicaTask
from partage.model.replicas import LEAVE, STAY
from partage.solve.replicas.penalties import (
    add_replica,
    has_replica,
    penalty_change,
    rack_penalty_change,
    rack_rule_change,
)
from partage.solve.replicas.problem import SearchArrays, SearchState, held_by_places

__all__ = ["place_initially"]


def place_initially(state: SearchState) -> None:
    """Choose a broker for each replica greedily, as the placement from which the local search
    starts.

    Raises:
        NoFeasiblePlanError: a partition has fewer brokers than it is to have replicas.
    """
    task, cluster = state.task, state.task.cluster
    # Partitions that keep all their replicas are copied; the kernel is for the others.
    same = task.factor == cluster.factor
    same[task.old_owner[task.fate == LEAVE]] = False
    old, new = same[task.old_owner], same[task.owner]
    state.broker[new], state.fixed[new] = cluster.replica[old], task.fate[old] == STAY
    state.held += held_by_places(task, task.old_owner[old], cluster.replica[old])
    order = np.argsort(-task.cost, kind="stable").astype(np.int64)
    order = order[~same[order]]
    if not len(order):
        return
    largest = int(max(task.factor.max(initial=0), cluster.factor.max(initial=0)))
    kept, work = np.zeros(largest + 1, np.int64), 20 * len(order) * len(cluster.brokers)
    stuck = _construct(state.arrays(), order, kept, work=work * largest)
    if stuck >= 0:
        raise NoFeasiblePlanError(*_reason(task, int(stuck)))


def _reason(task: ReplicaTask, p: int) -> tuple[str, str]:
    cluster = task.cluster
    current = slice(int(cluster.start[p]), int(cluster.start[p + 1]))
    kept = cluster.replica[current][task.fate[current] != LEAVE]
    wanted = int(task.factor[p])
    alive = int(task.alive.sum())
    name = cluster.name(p)
    if wanted > alive:
        return "replication factor", f"{name} is to have {wanted} replicas on {alive} brokers"
    receivers = [cluster.brokers[b].id for b in np.flatnonzero(task.receives)]
    return "distinct brokers", (
        f"{name} is to have {wanted} replicas, keeps those on {cluster.ids(kept)}, "
        f"and may be moved to {receivers} only"
    )


@kernel("int64(SearchArrays, int64[::1], int64[::1])", SearchArrays)
def _construct(arrays, order, kept):
    """Place the given partitions greedily.

    Return the first partition that finds no broker, else -1. ``kept`` is a work array with one
    element more than the largest replication factor.
    """
    start, broker, old_start, old = arrays.start, arrays.broker, arrays.old_start, arrays.old
    held, weight, rack, fate = arrays.held, arrays.weight, arrays.rack, arrays.fate
    for i in range(len(order)):
        p = order[i]
        begin, factor = start[p], start[p + 1] - start[p]
        count = 0
        for o in range(old_start[p], old_start[p + 1]):
            if fate[o] != 2:
                kept[count] = o
                count += 1
        while count > factor:
            count = _drop_replica(arrays, p, kept, count)
        for j in range(factor):
            broker[begin + j] = -1
        for j in range(count):
            b = old[kept[j]]
            broker[begin + j] = b
            arrays.fixed[begin + j] = fate[kept[j]] == 1
            add_replica(held, weight, rack, p, b, 1)
    for i in range(len(order)):
        p = order[i]
        for s in range(start[p], start[p + 1]):
            if broker[s] < 0:
                b = _cheapest_broker(arrays, p)
                if b < 0:
                    return p
                broker[s] = b
                add_replica(held, weight, rack, p, b, 1)
    return -1


@piece
def _fullness(held, high, b):
    """Return how full a broker is, to break ties: its amounts divided by their upper limits,
    summed.
    """
    total = 0.0
    for k in range(len(held)):
        if high[k, b] > 0:
            total += held[k, b] / high[k, b]
    return total


@piece
def _drop_replica(arrays, p, kept, count):
    """Remove from ``kept`` the replica of p that costs least to lose; return how many remain.

    Replicas that must stay are never removed. Candidates are in ``kept``.

    The preferred leader goes only if that lowers the cost.
    """
    old, rack, first = arrays.old, arrays.rack, arrays.old_start[p]
    factor, rack_rule = arrays.start[p + 1] - arrays.start[p], arrays.penalty[len(arrays.held)]
    best, at = 1e300, -1
    for j in range(count):
        if arrays.fate[kept[j]] == 1:
            continue
        b = old[kept[j]]
        same = 0
        for other in range(count):
            if rack[old[kept[other]]] == rack[b]:
                same += 1
        price = penalty_change(arrays, b, p, -1, 0)
        price -= 1e-6 * _fullness(arrays.held, arrays.high, b)
        price += rack_penalty_change(arrays, rack[b], p, -1)
        price -= 1e-7 * j
        if kept[j] == first:
            price += 1e-3
        if same > arrays.rack_high[factor, rack[b]]:
            price -= rack_rule
        price -= 1e-3 * rack_rule * same
        if price < best:
            best, at = price, j
    if at < 0:
        at = count - 1
    for j in range(at, count - 1):
        kept[j] = kept[j + 1]
    return count - 1


@piece
def _cheapest_broker(arrays, p):
    rack, rack_rule = arrays.rack, arrays.penalty[len(arrays.held)]
    best, at = 1e300, -1
    for b in range(len(rack)):
        if arrays.receives[b] == 0 or has_replica(arrays.start, arrays.broker, p, b):
            continue
        price = penalty_change(arrays, b, p, 1, 0)
        price += 1e-6 * _fullness(arrays.held, arrays.high, b)
        price += rack_penalty_change(arrays, rack[b], p, 1)
        price += rack_rule * rack_rule_change(arrays, p, -1, rack[b])
        if price < best:
            best, at = price, b
    return at
