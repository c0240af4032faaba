"""Preferred-leader balancing: choose each partition's first replica; sets of replicas stay.

Brokers are nodes; an arc from broker b to broker c is a partition that b leads and that has a
replica on c. A broker (or a rack) that leads too many partitions passes leadership along a shortest
path, found by breadth-first search. This is the augmenting-path method for semi-matchings (N. J. A.
Harvey, R. E. Ladner, L. Lovasz, T. Tamir, "Semi-matchings for Bipartite Graphs and Load Balancing",
Journal of Algorithms 59, 2006). If no path is left, the brokers that the search reached prove it:
they are the dual prices from which the judge computes its bound.

In the kernels ``sign`` is 1 for a rack that leads too many partitions and passes leadership on, and
-1 for a rack that leads too few and receives it. A *slot* is a replica's index in the array of all
replicas.
"""

# ruff: noqa: ANN001, ANN202 - a kernel's types stand in its signature
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.kernels import Bytes, Int32s, Int64s, kernel, kernel_helper
from partage.model import ReplicaTask
from partage.solve.replicas.problem import Floats, Ints, is_moved

__all__ = ["balance_leaders"]


def balance_leaders(
    task: ReplicaTask, replica: NDArray[np.int32]
) -> tuple[NDArray[np.int32], dict[str, Floats]]:
    """Choose preferred leaders so that brokers, and racks, lead about equally many partitions.

    The preferred leader is the first replica of a partition. The brokers of a partition stay; only
    their order changes.

    Args:
        task: cluster, brokers to use and balance limits.
        replica: int32[replicas], the brokers of each partition's replicas, in any order.

    Returns:
        The brokers with each partition's leader first (int32[replicas]), and dual prices for each
            measure of leader balance (float64[brokers + racks]), from which the judge proves how
            even leadership can be. Replicas that stay keep their positions; new ones take the
            vacant positions.
    """
    ordered = _keep_positions(task, replica)
    balancer = _LeaderBalancer(task, ordered)
    brokers, zones = len(task.alive), task.balanced_rack_count
    low, high = task.lead_low, task.lead_high
    own_racks = np.arange(brokers, dtype=np.int32)
    nothing, anything = np.zeros(brokers, np.int64), np.full(brokers, len(ordered) + 1, np.int64)
    prices = {"leaders": np.zeros(brokers + zones)}
    for sign in (1, -1):
        bands = low[:brokers], high[:brokers]
        reached, _ = balancer.balance_leaders((nothing - 1, anything), own_racks, bands, sign)
        prices["leaders"][:brokers] += sign * reached
    if zones:
        prices["rack leaders"] = np.zeros(brokers + zones)
        rack = task.cluster.rack_of_broker
        # Brokers stay within their bands, or as far outside them as they are.
        count = balancer.count
        within = np.minimum(low[:brokers], count), np.maximum(high[:brokers], count)
        for sign in (1, -1):
            bands = low[brokers:], high[brokers:]
            reached, full = balancer.balance_leaders(within, rack, bands, sign)
            prices["rack leaders"][:brokers] += sign * (reached - full[rack])
            prices["rack leaders"][brokers:] += sign * full
    _move_leaders_first(task.first_replica, ordered, balancer.slot, work=len(ordered))
    return ordered, prices


class _LeaderBalancer:
    """Algorithm that chooses preferred leaders so that brokers lead about equally many partitions.

    The preferred leader is the first replica of a partition, so only the order of replicas changes.

    Attributes:
        ordered: int32[replicas], the broker of each replica.
        slot: int64[partitions], the index of each partition's leader in ``ordered``.
        count: int64[brokers], how many partitions each broker leads.
        slots_of_broker, first: the indices of each broker's replicas and their offsets (CSR).
        free: uint8[partitions], 1 if the partition's leadership may change.
    """

    def __init__(self, task: ReplicaTask, ordered: NDArray[np.int32]) -> None:
        self.task, self.ordered = task, ordered
        self.brokers = len(task.alive)
        self.slots_of_broker = np.argsort(ordered, kind="stable").astype(np.int64)
        numbers = np.arange(self.brokers + 1)
        self.first = np.searchsorted(ordered[self.slots_of_broker], numbers).astype(np.int64)
        self.slot = task.first_replica[:-1].copy()
        counted = (task.factor > 0) & task.counted
        led = ordered[self.slot[counted]]
        self.count = np.bincount(led, minlength=self.brokers).astype(np.int64)
        # A closed partition that changes anyway may change its leader too.
        changed = task.factor != task.cluster.replication_factors
        changed[task.partition_of_replica[is_moved(task, ordered)]] = True
        free = (task.lead_free | (task.closed & changed)) & task.counted
        self.free = free.view(np.uint8)

    def balance_leaders(
        self, limits: tuple[Ints, Ints], rack: NDArray[np.int32], bands: tuple[Ints, Ints],
        sign: int,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Pass leadership between brokers until each rack leads an allowed number of partitions.

        A broker can pass the leadership of a partition to another broker with a replica of it.

        Args:
            limits: two int64[brokers], the fewest and the most that each broker may lead.
            rack: int32[brokers], the rack of each broker.
            bands: two int64[racks], the fewest and the most that each rack should lead.
            sign: 1 to unload racks above their maximum, -1 to load racks below their minimum.

        Returns:
            Masks (float64) of the brokers and racks that a search without a path has reached; they
                prove how even leadership can be.
        """
        sums = np.zeros(len(bands[0]), np.int64)
        np.add.at(sums, rack, self.count)
        parent, queue = np.zeros(self.brokers, np.int64), np.zeros(self.brokers, np.int64)
        reached, full = np.zeros(self.brokers, np.uint8), np.zeros(len(sums), np.uint8)
        off = np.maximum(sums - bands[1] if sign > 0 else bands[0] - sums, 0)
        # Each search looks at every broker, and at some slots of the brokers on its way.
        work = len(self.ordered) + 4 * self.brokers * int(off.sum())
        arrays = LeaderArrays(
            self.task.first_replica, self.ordered, self.task.partition_of_replica, self.free,
            self.slot, self.count,
            limits[0].copy(), limits[1].copy(), rack, sums, bands[0].copy(), bands[1].copy(),
            self.slots_of_broker, self.first, parent, queue, reached, full,
        )  # fmt: skip
        _pass_leadership_along_paths(arrays, sign, work=work)
        return reached.astype(np.float64), full.astype(np.float64)


class LeaderArrays(NamedTuple):
    """Replicas, leaders and limits as arrays for compiled code that evens out leadership.

    The code searches for paths of brokers along which the leadership of partitions can be passed
    on. A *slot* is a replica's index in ``broker``.

    Attributes:
        start: int64[partitions + 1], offsets of each partition's replicas (compressed rows, CSR).
        broker: int32[replicas], the broker of each replica.
        owner: int64[replicas], the partition of each replica.
        free: uint8[partitions], 1 if the partition's leadership may change.
        lead: int64[partitions], the slot of each partition's leader; changes.
        led: int64[brokers], how many partitions each broker leads; changes.
        low, high: int64[brokers], the fewest and the most that a broker may lead meanwhile.
        rack: int32[brokers], the rack of each broker.
        sums: int64[racks], how many partitions each rack leads; changes.
        least, most: int64[racks], the fewest and the most that a rack should lead.
        slots, first: int64[replicas] and int64[brokers + 1], the slots of each broker (CSR).
        parent: int64[brokers], the slot by which a broker was reached, -1 at the beginning of a
            path, -2 if it was not reached, -3 - c if broker c of its rack was reached; changes.
        queue: int64[brokers], brokers in the order in which they were reached; changes.
        reached, full: uint8[brokers] and uint8[racks], 1 for those that prove that no path is left.
    """

    start: Int64s
    broker: Int32s
    owner: Int64s
    free: Bytes
    lead: Int64s
    led: Int64s
    low: Int64s
    high: Int64s
    rack: Int32s
    sums: Int64s
    least: Int64s
    most: Int64s
    slots: Int64s
    first: Int64s
    parent: Int64s
    queue: Int64s
    reached: Bytes
    full: Bytes


@kernel("int64(LeaderArrays, int64)", LeaderArrays)
def _pass_leadership_along_paths(arrays, sign):
    """Even out the partitions that racks lead, by passing leadership along shortest paths of
    brokers.

    A path leads from a rack that leads too many partitions to one that may lead more. Return the
    number of paths. ``arrays`` is changed in place. ``sign`` is 1 to unload racks above their
    maximum, -1 to load racks below their minimum.
    """
    sums, full, paths = arrays.sums, arrays.full, 0
    for r in range(len(sums)):
        found = 0
        while found >= 0 and (
            (sums[r] > arrays.most[r]) if sign > 0 else (sums[r] < arrays.least[r])
        ):
            found = _search(arrays, r, sign)
            for q in range(len(full)):
                if full[q] == 2:
                    full[q] = 1 if found < 0 else 0
            if found >= 0:
                paths += 1
                _pass_leadership(arrays, found, sign)
        if found < 0:
            full[r] = 1
            for i in range(-1 - found):
                arrays.reached[arrays.queue[i]] = 1
    return paths


@kernel_helper
def _search(arrays, r, sign):
    # Without a path the result is -1 - n, where n is the number of brokers reached, which are at
    # the front of ``queue``.
    owner, free, lead, broker = arrays.owner, arrays.free, arrays.lead, arrays.broker
    rack, sums, first, slots = arrays.rack, arrays.sums, arrays.first, arrays.slots
    parent, queue = arrays.parent, arrays.queue
    head, tail = 0, _begin_paths(arrays, r, sign)
    while head < tail:
        b = queue[head]
        head += 1
        for i in range(first[b], first[b + 1]):
            slot = slots[i]
            p = owner[slot]
            if free[p] == 0 or (sign > 0 and lead[p] != slot):
                continue
            begin, end = arrays.start[p], arrays.start[p + 1]
            if sign < 0:
                begin, end = lead[p], lead[p] + 1
            for s in range(begin, end):
                c = broker[s]
                if parent[c] != -2:
                    continue
                parent[c] = s if sign > 0 else slot
                queue[tail] = c
                tail += 1
                if not _may_give(arrays, c, -sign):
                    continue
                q = rack[c]
                if (sums[q] < arrays.most[q]) if sign > 0 else (sums[q] > arrays.least[q]):
                    return c
                arrays.full[q] = 2
                if len(sums) < len(arrays.led):  # else each broker is a rack of its own
                    tail = _pass_through_rack(arrays, tail, c, sign)
    return -1 - tail


@kernel_helper
def _begin_paths(arrays, r, sign):
    tail = 0
    for b in range(len(arrays.led)):
        arrays.parent[b] = -2
        if arrays.rack[b] == r and _may_give(arrays, b, sign):
            arrays.parent[b] = -1
            arrays.queue[tail] = b
            tail += 1
    return tail


@kernel_helper
def _may_give(arrays, b, sign):
    # With ``sign`` -1: whether it may lead one more.
    if sign > 0:
        return arrays.led[b] > arrays.low[b]
    return arrays.led[b] < arrays.high[b]


@kernel_helper
def _pass_through_rack(arrays, queue_end, reached, sign):
    """Continue the search for a path of leadership at the other brokers of a rack.

    The search has found the broker ``reached``, but its rack already leads as many partitions as it
    may. So another broker of this rack must pass the leadership of a partition on. These brokers
    are appended to the search's queue, whose new end is returned.
    """
    rack, parent = arrays.rack, arrays.parent
    for b in range(len(rack)):
        if rack[b] == rack[reached] and parent[b] == -2 and _may_give(arrays, b, sign):
            parent[b] = -3 - reached
            arrays.queue[queue_end] = b
            queue_end += 1
    return queue_end


@kernel_helper
def _pass_leadership(arrays, b, sign):
    broker, lead, led, rack = arrays.broker, arrays.lead, arrays.led, arrays.rack
    sums, parent = arrays.sums, arrays.parent
    while parent[b] != -1:
        slot = parent[b]
        if slot < 0:  # another broker of the rack gives instead
            b = -3 - slot
            continue
        p = arrays.owner[slot]
        giver, taker = broker[lead[p]], broker[slot]
        led[giver] -= 1
        led[taker] += 1
        sums[rack[giver]] -= 1
        sums[rack[taker]] += 1
        lead[p] = slot
        b = giver if sign > 0 else taker


def _keep_positions(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int32]:
    out: NDArray[np.int32] = replica.copy()
    cluster = task.cluster
    _write_chosen_brokers(
        task.first_replica, out, cluster.start, cluster.replica, replica.copy(), work=8 * len(out)
    )
    return out


@kernel("void(int64[::1], int32[::1], int64[::1], int32[::1], int32[::1])")
def _write_chosen_brokers(start, out, old_start, old, chosen):
    """Write each partition's chosen brokers to ``out``; replicas that stay keep their positions.

    The first replica of a partition is its preferred leader, so positions matter. ``start`` and
    ``old_start`` are the offsets of each partition's chosen and current replicas, ``old`` are the
    current brokers. ``chosen`` is overwritten.
    """
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
    for p in range(len(start) - 1):
        s = lead[p]
        if s > start[p] and s < start[p + 1]:
            b = broker[s]
            while s > start[p]:
                broker[s] = broker[s - 1]
                s -= 1
            broker[s] = b
