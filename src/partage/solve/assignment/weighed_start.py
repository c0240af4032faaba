"""First plans for the local search by weight: keep, shed and fill (longest processing time first).

`keep` leaves items with their claimants. `shed` takes items from members above their fractional
share. `fill` gives items without owner, heaviest first, to the least loaded member (Graham's LPT
rule). `regain` brings items of a fresh plan back to their claimants by exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heapreplace

import numpy as np

from partage.solve.assignment.flow import IntArray
from partage.solve.assignment.weighed_plan import FloatArray, WeighedPlan

__all__ = ["fill", "keep", "regain", "shed"]


def keep(plan: WeighedPlan, hints: Mapping[int, int]) -> None:
    """Leave each item with the claimant of most of its partitions; take hints for the others.

    Members of weight 0 keep what others may bear only where the limit of moves requires it.
    """
    items = plan.items
    found: dict[int, int] = {}
    waiting: list[int] = []
    for i, homes in items.homes.items():
        may = [m for m in homes if plan.open[items.kind[i], m]]
        if may:
            found[i] = min(may, key=lambda m: (-homes[m], m))
        else:
            waiting.append(i)
    owned = int(items.owned.sum())
    plan.moves = owned - sum(items.homes[i][m] for i, m in found.items())
    # What a member of weight 0 owns leaves it, the heaviest first, as far as moves are left.
    excess = plan.moves - plan.most_moves
    for i in sorted(waiting, key=lambda i: (items.weight[i], -i)):
        homes = items.homes[i]
        if excess <= 0:
            break
        found[i] = min(homes, key=lambda m: (-homes[m], m))
        excess -= homes[found[i]]
        plan.moves -= homes[found[i]]
    plan.most_moves = max(plan.most_moves, plan.moves)
    for i, m in hints.items():
        if i not in found and plan.open[items.kind[i], m]:
            found[i] = m
    for i in sorted(found):
        plan.put(i, found[i])


def fill(plan: WeighedPlan) -> None:
    """Give every item without owner, heaviest first, to the least loaded member."""
    items = plan.items
    waiting = np.flatnonzero(plan.owner < 0)
    waiting = waiting[np.argsort(-items.weight[waiting], kind="stable")]
    if not len(waiting):
        return
    kinds = np.unique(items.kind[waiting])
    who = np.flatnonzero(plan.open[kinds[0]])
    alike = len(kinds) == 1 and len(np.unique(plan.bearers.group[who])) == 1
    if alike and not np.isfinite(plan.bearers.capacity[who]).any():
        _fill_alike(plan, waiting, who)
        return
    among = {k: np.flatnonzero(plan.open[k]) for k in kinds.tolist()}
    speed, capacity = plan.bearers.speed, plan.bearers.capacity
    limited = bool(np.isfinite(capacity).any())
    for i, k in zip(waiting.tolist(), items.kind[waiting].tolist(), strict=True):
        to = among[k]
        load, w = plan.load[to], items.weight[i]
        keys: list[FloatArray | IntArray] = []
        if limited:
            room = capacity[to]
            keys.append(np.maximum(load + w - room, 0.0) - np.maximum(load - room, 0.0))
        keys.append((load + w) / speed[to])
        if plan.costly:
            keys.append(plan.cost(np.array(i), to))
        at = np.arange(len(to))
        for key in keys:
            at = at[key[at] == key[at].min()]
        plan.put(i, int(to[at[0]]))


def _fill_alike(plan: WeighedPlan, waiting: IntArray, who: IntArray) -> None:
    """Fill by a heap where members differ in nothing but their loads."""
    heap = [(load, m) for load, m in zip(plan.load[who].tolist(), who.tolist(), strict=True)]
    heapify(heap)
    weight = plan.items.weight[waiting].tolist()
    for i, w in zip(waiting.tolist(), weight, strict=True):
        load, m = heap[0]
        plan.put(i, m)
        heapreplace(heap, (load + w, m))


def shed(plan: WeighedPlan, share: FloatArray) -> None:
    """Take items, heaviest first, from members above their share while they stay above it.

    Args:
        plan: its kept items.
        share: float64[M], the load that each member has in the best fractional plan.
    """
    weight, kind = plan.items.weight, plan.items.kind
    leaves = plan.open.sum(axis=1) > 1
    for m in np.flatnonzero(plan.load > share + plan.tolerance * plan.bearers.speed).tolist():
        mine = np.array(plan.content[m], np.int64)
        mine = mine[leaves[kind[mine]] & (weight[mine] > 0)]
        excess = float(plan.load[m] - share[m])
        for i in mine[np.argsort(-weight[mine], kind="stable")].tolist():
            if weight[i] <= excess:
                plan.take(i)
                excess -= float(weight[i])


def regain(plan: WeighedPlan) -> None:
    """Exchange items so that more are with a claimant, and no load exceeds today's largest."""
    weight, kind, speed = plan.items.weight, plan.items.kind, plan.bearers.speed
    ceiling = float(plan.relative.max(initial=0.0)) * (1 + 1e-12)
    all_items = np.arange(len(weight))
    away = np.flatnonzero(plan.stray(all_items, plan.owner) > 0)
    for i in away[np.argsort(-weight[away], kind="stable")].tolist():
        b = int(plan.owner[i])
        for a in plan.items.homes.get(i, {}):
            if a == b or not plan.open[kind[i], a]:
                continue
            theirs = np.array(plan.content[a], np.int64)
            theirs = theirs[plan.open[kind[theirs], b]]
            change = weight[i] - weight[theirs]
            fits = (plan.load[a] + change <= ceiling * speed[a]) & (
                plan.load[b] - change <= ceiling * speed[b]
            )
            here, there = np.full(len(theirs), a), np.full(len(theirs), b)
            saved = plan.stray(theirs, here) - plan.stray(theirs, there)
            good = np.flatnonzero(fits & (saved >= 0))
            if len(good):
                best = good[np.lexsort((np.abs(change[good]), -saved[good]))[0]]
                plan.swap(i, int(theirs[best]))
                break
