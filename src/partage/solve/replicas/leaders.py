"""Who of a partition's replicas is to lead, so that brokers lead about as many. Sets stay.

A broker that leads too many hands one on, perhaps over others that hand one on in turn: the
shortest such way is looked for, and where there is none, the brokers that were reached prove it.
"""

# ruff: noqa: ANN001, ANN202, PLR0917 - a kernel's types stand in its signature
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.kernels import kernel, piece
from partage.model import ReplicaTask
from partage.model.replicas import among

__all__ = ["lead"]


@piece
def _hand_on(owner, broker, lead, count, rack, sums, parent, b, sign):
    """The way that ends in b: each broker on it hands a partition to its neighbour."""
    while parent[b] != -1:
        slot = parent[b]
        if slot < 0:  # another broker of the rack gives instead
            b = -3 - slot
            continue
        p = owner[slot]
        giver, getter = broker[lead[p]], broker[slot]
        count[giver] -= 1
        count[getter] += 1
        sums[rack[giver]] -= 1
        sums[rack[getter]] += 1
        lead[p] = slot
        b = giver if sign > 0 else getter


@piece
def _through(count, low, high, rack, parent, queue, tail, c, sign):
    """In a rack that can take none, c can if another of its brokers gives: those are reached."""
    for b in range(len(count)):
        gives = (count[b] > low[b]) if sign > 0 else (count[b] < high[b])
        if gives and rack[b] == rack[c] and parent[b] == -2:
            parent[b] = -3 - c
            queue[tail] = b
            tail += 1
    return tail


@piece
def _may(count, low, high, b, sign):
    """Whether a broker may give a partition (or, with sign -1, get one)."""
    return (count[b] > low[b]) if sign > 0 else (count[b] < high[b])


@piece
def _begin(count, low, high, rack, parent, queue, r, sign):
    """Ways begin at the brokers of rack r that may; answers how many there are."""
    tail = 0
    for b in range(len(count)):
        parent[b] = -2
        if rack[b] == r and _may(count, low, high, b, sign):
            parent[b] = -1
            queue[tail] = b
            tail += 1
    return tail


@piece
def _search(
    start, broker, owner, free, lead, count, low, high, rack, sums, least, most, listed,
    list_start, parent, queue, full, r, sign,
):  # fmt: skip
    """The shortest way from rack r: the broker at its end, or -1 less how many were reached."""
    head, tail = 0, _begin(count, low, high, rack, parent, queue, r, sign)
    while head < tail:
        b = queue[head]
        head += 1
        for i in range(list_start[b], list_start[b + 1]):
            slot = listed[i]
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
                if not _may(count, low, high, c, -sign):
                    continue
                q = rack[c]
                if (sums[q] < most[q]) if sign > 0 else (sums[q] > least[q]):
                    return c
                full[q] = 2
                if len(sums) < len(count):  # else each on one of its own: no others
                    tail = _through(count, low, high, rack, parent, queue, tail, c, sign)
    return -1 - tail


@kernel(
    "int64(int64[::1], int32[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64, uint8[::1], uint8[::1])"
)
def _even(
    start, broker, owner, free, lead, count, low, high, rack, sums, least, most, listed,
    list_start, parent, queue, sign, reached, full,
):  # fmt: skip
    """Sign 1: a rack that leads too many hands on; -1: one that leads too few is handed.

    Brokers stay between ``low`` and ``high``, racks (``sums``) are to come between ``least`` and
    ``most``. ``listed``: replicas by broker; ``parent``, ``queue``: scratch, by broker. Where no
    way is left, ``reached`` are the brokers that prove it, ``full`` their racks. Answers how many
    were handed on.
    """
    handed = 0
    for r in range(len(sums)):
        found = 0
        while found >= 0 and ((sums[r] > most[r]) if sign > 0 else (sums[r] < least[r])):
            found = _search(
                start, broker, owner, free, lead, count, low, high, rack, sums, least, most,
                listed, list_start, parent, queue, full, r, sign,
            )  # fmt: skip
            for q in range(len(full)):
                if full[q] == 2:
                    full[q] = 1 if found < 0 else 0
            if found >= 0:
                handed += 1
                _hand_on(owner, broker, lead, count, rack, sums, parent, found, sign)
        if found < 0:
            full[r] = 1
            for i in range(-1 - found):
                reached[queue[i]] = 1
    return handed


def lead(
    task: ReplicaTask, replica: NDArray[np.int32]
) -> tuple[NDArray[np.int32], dict[str, NDArray[np.float64]]]:
    """Replicas in order, leaders first, and prices that prove how even leadership can be.

    Args:
        task: what is asked.
        replica: int32[sum of factors], sets of brokers by ``task.start``.

    Returns:
        The same with those that were there in their places, newcomers in the places of those
        that left, and each partition's leader first; figure -> float64[B + Z].
    """
    ordered = _in_places(task, replica)
    leading = _Leading(task, ordered)
    brokers, zones = len(task.alive), task.zones
    low, high = task.lead_low, task.lead_high
    alone = np.arange(brokers, dtype=np.int32)
    nothing, anything = np.zeros(brokers, np.int64), np.full(brokers, len(ordered) + 1, np.int64)
    prices = {"leaders": np.zeros(brokers + zones)}
    for sign in (1, -1):
        found = leading.even((nothing - 1, anything), alone, (low[:brokers], high[:brokers]), sign)
        prices["leaders"][:brokers] += sign * found[0]
    if zones:
        prices["rack leaders"] = np.zeros(brokers + zones)
        rack = task.cluster.rack
        # Brokers stay as even as they are, wherever that is.
        within = np.minimum(low[:brokers], leading.count), np.maximum(high[:brokers], leading.count)
        for sign in (1, -1):
            reached, full = leading.even(within, rack, (low[brokers:], high[brokers:]), sign)
            prices["rack leaders"][:brokers] += sign * (reached - full[rack])
            prices["rack leaders"][brokers:] += sign * full
    _to_the_front(task.start, ordered, leading.slot, work=len(ordered))
    return ordered, prices


class _Leading:
    """Who leads what, under way."""

    def __init__(self, task: ReplicaTask, ordered: NDArray[np.int32]) -> None:
        self.task, self.ordered = task, ordered
        self.brokers = len(task.alive)
        self.listed = np.argsort(ordered, kind="stable").astype(np.int64)
        places = np.arange(self.brokers + 1)
        self.list_start = np.searchsorted(ordered[self.listed], places).astype(np.int64)
        self.slot = task.start[:-1].copy()
        there = (task.factor > 0) & task.counted
        self.count = np.bincount(ordered[self.slot[there]], minlength=self.brokers).astype(np.int64)
        # A closed partition that changes anyway may as well change its leader.
        brokers = len(task.alive)
        new = ~among(
            task.owner * brokers + ordered, task.old_owner * brokers + task.cluster.replica
        )
        changed = task.factor != task.cluster.factor
        changed[task.owner[new]] = True
        free = (task.lead_free | (task.closed & changed)) & task.counted
        self.free = free.view(np.uint8)

    def even(
        self, within: tuple[NDArray[np.int64], NDArray[np.int64]], rack: NDArray[np.int32],
        bands: tuple[NDArray[np.int64], NDArray[np.int64]], sign: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
        """See `_even`: brokers reached, and their racks, where no way was left."""
        sums = np.zeros(len(bands[0]), np.int64)
        np.add.at(sums, rack, self.count)
        reached, full = np.zeros(self.brokers, np.uint8), np.zeros(len(sums), np.uint8)
        scratch = np.zeros(self.brokers, np.int64), np.zeros(self.brokers, np.int64)
        off = np.maximum(sums - bands[1] if sign > 0 else bands[0] - sums, 0)
        # Each that is handed on looks at every broker, and at some that its giver has.
        work = len(self.ordered) + 4 * self.brokers * int(off.sum())
        _even(
            self.task.start, self.ordered, self.task.owner, self.free, self.slot, self.count,
            within[0].copy(), within[1].copy(), rack, sums, bands[0].copy(), bands[1].copy(),
            self.listed, self.list_start, *scratch, sign, reached, full, work=work,
        )  # fmt: skip
        return reached.astype(np.float64), full.astype(np.float64)


def _in_places(task: ReplicaTask, replica: NDArray[np.int32]) -> NDArray[np.int32]:
    out: NDArray[np.int32] = replica.copy()
    _place(
        task.start, out, task.cluster.start, task.cluster.replica, replica.copy(), work=8 * len(out)
    )
    return out


@kernel("void(int64[::1], int32[::1], int64[::1], int32[::1], int32[::1])")
def _place(start, out, old_start, old, chosen):
    for p in range(len(start) - 1):
        begin, end = start[p], start[p + 1]
        # With fewer replicas than before there are no places to keep: who stays closes up.
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
def _to_the_front(start, broker, leading):
    for p in range(len(start) - 1):
        s = leading[p]
        if s > start[p] and s < start[p + 1]:
            b = broker[s]
            while s > start[p]:
                broker[s] = broker[s - 1]
                s -= 1
            broker[s] = b
