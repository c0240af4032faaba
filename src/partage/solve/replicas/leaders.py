"""Preferred-leader balancing: choose each partition's first replica; sets of replicas stay.

Brokers are nodes; an arc from broker b to broker c is a partition that b leads and that has a
replica on c. A broker (or a rack) that leads too many partitions passes leadership along a
shortest path, found by breadth-first search. This is the augmenting-path method for semi-matchings
(N. J. A. Harvey, R. E. Ladner, L. Lovasz, T. Tamir, "Semi-matchings for Bipartite Graphs and Load
Balancing", Journal of Algorithms 59, 2006). Where no path is left, the brokers reached prove it:
they are the prices from which the judge computes its bound.

In the kernels ``sign`` is 1 where a rack leads too many and passes leadership on, -1 where it leads
too few and receives it; ``lead`` has the slot of each partition's leader.
"""

# ruff: noqa: ANN001, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel, piece
from partage.model import ReplicaTask
from partage.solve.replicas.problem import Floats, Ints, is_moved

__all__ = ["balance_leaders"]


def balance_leaders(
    task: ReplicaTask, replica: NDArray[np.int32]
) -> tuple[NDArray[np.int32], dict[str, Floats]]:
    """Return replicas with leaders first, and prices that prove how even leadership can be.

    Args:
        task: the reassignment.
        replica: int32[S], sets of brokers by ``task.start``.

    Returns:
        int32[S]: replicas that stay keep their positions, new ones take the vacant positions, and
        each partition's leader is moved to the front. Figure -> float64[B + Z], prices
        of leaders.
    """
    ordered = _keep_positions(task, replica)
    balancer = _LeaderBalancer(task, ordered)
    brokers, zones = len(task.alive), task.zones
    low, high = task.lead_low, task.lead_high
    own_racks = np.arange(brokers, dtype=np.int32)
    nothing, anything = np.zeros(brokers, np.int64), np.full(brokers, len(ordered) + 1, np.int64)
    prices = {"leaders": np.zeros(brokers + zones)}
    for sign in (1, -1):
        bands = low[:brokers], high[:brokers]
        reached, _ = balancer.balance((nothing - 1, anything), own_racks, bands, sign)
        prices["leaders"][:brokers] += sign * reached
    if zones:
        prices["rack leaders"] = np.zeros(brokers + zones)
        rack = task.cluster.rack
        # Brokers stay within their bands, or as far outside them as they are.
        count = balancer.count
        within = np.minimum(low[:brokers], count), np.maximum(high[:brokers], count)
        for sign in (1, -1):
            bands = low[brokers:], high[brokers:]
            reached, full = balancer.balance(within, rack, bands, sign)
            prices["rack leaders"][:brokers] += sign * (reached - full[rack])
            prices["rack leaders"][brokers:] += sign * full
    _move_leaders_first(task.start, ordered, balancer.slot, work=len(ordered))
    return ordered, prices


class _LeaderBalancer:
    """Leadership that is being balanced.

    Attributes:
        ordered: int32[S], the broker of each replica.
        slot: int64[P], the slot of each partition's leader.
        count: int64[B], how many partitions each broker leads.
        slots_of_broker, first: the slots of each broker (CSR).
        free: uint8[P], the partition's leadership may change.
    """

    def __init__(self, task: ReplicaTask, ordered: NDArray[np.int32]) -> None:
        self.task, self.ordered = task, ordered
        self.brokers = len(task.alive)
        self.slots_of_broker = np.argsort(ordered, kind="stable").astype(np.int64)
        numbers = np.arange(self.brokers + 1)
        self.first = np.searchsorted(ordered[self.slots_of_broker], numbers).astype(np.int64)
        self.slot = task.start[:-1].copy()
        counted = (task.factor > 0) & task.counted
        led = ordered[self.slot[counted]]
        self.count = np.bincount(led, minlength=self.brokers).astype(np.int64)
        # A closed partition that changes anyway may change its leader too.
        changed = task.factor != task.cluster.factor
        changed[task.owner[is_moved(task, ordered)]] = True
        free = (task.lead_free | (task.closed & changed)) & task.counted
        self.free = free.view(np.uint8)

    def balance(
        self, within: tuple[Ints, Ints], rack: NDArray[np.int32], bands: tuple[Ints, Ints],
        sign: int,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Bring racks into their bands; return the brokers and racks that prove what is left.

        Args:
            within: int64[B] twice, the fewest and the most that a broker may lead meanwhile.
            rack: int32[B], the rack of each broker.
            bands: int64[racks] twice, the fewest and the most that a rack is to lead.
            sign: see the module.

        Returns:
            float64[B] and float64[racks], 1 for those that a search without a path reached.
        """
        sums = np.zeros(len(bands[0]), np.int64)
        np.add.at(sums, rack, self.count)
        reached, full = np.zeros(self.brokers, np.uint8), np.zeros(len(sums), np.uint8)
        work_arrays = np.zeros(self.brokers, np.int64), np.zeros(self.brokers, np.int64)
        off = np.maximum(sums - bands[1] if sign > 0 else bands[0] - sums, 0)
        # Each search looks at every broker, and at some slots of the brokers on its way.
        work = len(self.ordered) + 4 * self.brokers * int(off.sum())
        _balance(
            self.task.start, self.ordered, self.task.owner, self.free, self.slot, self.count,
            within[0].copy(), within[1].copy(), rack, sums, bands[0].copy(), bands[1].copy(),
            self.slots_of_broker, self.first, *work_arrays, sign, reached, full, work=work,
        )  # fmt: skip
        return reached.astype(np.float64), full.astype(np.float64)


@kernel(
    "int64(int64[::1], int32[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64, uint8[::1], uint8[::1])"
)
def _balance(
    start, broker, owner, free, lead, count, low, high, rack, sums, least, most, slots, first,
    parent, queue, sign, reached, full,
):  # fmt: skip
    """Pass leadership along shortest paths until no rack gains; return how many paths.

    Brokers stay between ``low`` and ``high``; racks, which lead ``sums``, are to come between
    ``least`` and ``most``. ``slots`` and ``first``: replicas by broker. ``parent`` and ``queue``
    are work arrays of B. Where no path is left, ``reached`` marks the brokers that prove it and
    ``full`` their racks.
    """
    paths = 0
    for r in range(len(sums)):
        found = 0
        while found >= 0 and ((sums[r] > most[r]) if sign > 0 else (sums[r] < least[r])):
            found = _search(
                start, broker, owner, free, lead, count, low, high, rack, sums, least, most, slots,
                first, parent, queue, full, r, sign,
            )  # fmt: skip
            for q in range(len(full)):
                if full[q] == 2:
                    full[q] = 1 if found < 0 else 0
            if found >= 0:
                paths += 1
                _pass_leadership(owner, broker, lead, count, rack, sums, parent, found, sign)
        if found < 0:
            full[r] = 1
            for i in range(-1 - found):
                reached[queue[i]] = 1
    return paths


@piece
def _search(
    start, broker, owner, free, lead, count, low, high, rack, sums, least, most, slots, first,
    parent, queue, full, r, sign,
):  # fmt: skip
    """Return the last broker of a shortest path from rack r, or -1 less how many were reached.

    ``parent`` of a broker: the slot by which it was reached, -1 at the beginning of a path, -2 if
    it was not reached, -3 - c if broker c of its rack was reached.
    """
    head, tail = 0, _begin_paths(count, low, high, rack, parent, queue, r, sign)
    while head < tail:
        b = queue[head]
        head += 1
        for i in range(first[b], first[b + 1]):
            slot = slots[i]
            p = owner[slot]
            if free[p] == 0 or (sign > 0 and lead[p] != slot):
                continue
            begin, end = start[p], start[p + 1]
            if sign < 0:
                begin, end = lead[p], lead[p] + 1
            for s in range(begin, end):
                c = broker[s]
                if parent[c] != -2:
                    continue
                parent[c] = s if sign > 0 else slot
                queue[tail] = c
                tail += 1
                if not _may_give(count, low, high, c, -sign):
                    continue
                q = rack[c]
                if (sums[q] < most[q]) if sign > 0 else (sums[q] > least[q]):
                    return c
                full[q] = 2
                if len(sums) < len(count):  # else each broker is a rack of its own
                    tail = _pass_through_rack(count, low, high, rack, parent, queue, tail, c, sign)
    return -1 - tail


@piece
def _begin_paths(count, low, high, rack, parent, queue, r, sign):
    """Begin paths at the brokers of rack r that may give; return how many there are."""
    tail = 0
    for b in range(len(count)):
        parent[b] = -2
        if rack[b] == r and _may_give(count, low, high, b, sign):
            parent[b] = -1
            queue[tail] = b
            tail += 1
    return tail


@piece
def _may_give(count, low, high, b, sign):
    """Return whether a broker may pass on a leadership (with sign -1: take one)."""
    return (count[b] > low[b]) if sign > 0 else (count[b] < high[b])


@piece
def _pass_through_rack(count, low, high, rack, parent, queue, tail, c, sign):
    """Reach the brokers that may give in c's rack, which is full; return the queue's new end.

    Broker c may take a leadership if another broker of the rack gives one.
    """
    for b in range(len(count)):
        if rack[b] == rack[c] and parent[b] == -2 and _may_give(count, low, high, b, sign):
            parent[b] = -3 - c
            queue[tail] = b
            tail += 1
    return tail


@piece
def _pass_leadership(owner, broker, lead, count, rack, sums, parent, b, sign):
    """Pass leadership along the path that ends in b."""
    while parent[b] != -1:
        slot = parent[b]
        if slot < 0:  # another broker of the rack gives instead
            b = -3 - slot
            continue
        p = owner[slot]
        giver, taker = broker[lead[p]], broker[slot]
        count[giver] -= 1
        count[taker] += 1
        sums[rack[giver]] -= 1
        sums[rack[taker]] += 1
        lead[p] = slot
        b = giver if sign > 0 else taker


def _keep_positions(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the replicas with those that stay in their current positions."""
    out: NDArray[np.int32] = replica.copy()
    cluster = task.cluster
    _place(task.start, out, cluster.start, cluster.replica, replica.copy(), work=8 * len(out))
    return out


@kernel("void(int64[::1], int32[::1], int64[::1], int32[::1], int32[::1])")
def _place(start, out, old_start, old, chosen):
    """Set ``out`` to the chosen brokers, current ones in their positions; uses up ``chosen``."""
    for p in range(len(start) - 1):
        begin, end = start[p], start[p + 1]
        # With fewer replicas than before positions close up.
        fewer = old_start[p + 1] - old_start[p] > end - begin
        for s in range(begin, end):
            out[s] = -1
        at = begin
        for o in range(old_start[p], old_start[p + 1]):
            for s in range(begin, end):
                if chosen[s] == old[o]:
                    out[at if fewer else begin + o - old_start[p]] = old[o]
                    at += 1
                    chosen[s] = -1
        at = begin
        for s in range(begin, end):
            if chosen[s] >= 0:
                while out[at] >= 0:
                    at += 1
                out[at] = chosen[s]


@kernel("void(int64[::1], int32[::1], int64[::1])")
def _move_leaders_first(start, broker, lead):
    """Move each partition's leader to the front; the others keep their order."""
    for p in range(len(start) - 1):
        s = lead[p]
        if s > start[p] and s < start[p + 1]:
            b = broker[s]
            while s > start[p]:
                broker[s] = broker[s - 1]
                s -= 1
            broker[s] = b
