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

__all__ = ["lead"]


@piece
def _hand_on(owner, broker, lead, count, parent, b, sign):
    """The way that ends in b: each broker on it hands a partition to its neighbour."""
    while parent[b] >= 0:
        slot = parent[b]
        p = owner[slot]
        giver, getter = broker[lead[p]], broker[slot]
        count[giver] -= 1
        count[getter] += 1
        lead[p] = slot
        b = giver if sign > 0 else getter


@kernel(
    "int64(int64[::1], int32[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, float64[::1])"
)
def _even(
    start, broker, owner, free, lead, count, low, high, listed, list_start, parent, queue, sign,
    prices,
):  # fmt: skip
    """Sign 1: who leads too many hands on; -1: who leads too few is handed. Answers hand-overs.

    ``listed``: replicas by broker; ``parent``, ``queue``: scratch, by broker.
    """
    handed = 0
    for root in range(len(count)):
        while (count[root] > high[root]) if sign > 0 else (count[root] < low[root]):
            for b in range(len(count)):
                parent[b] = -2
            parent[root] = -1
            queue[0] = root
            head, tail, found = 0, 1, -1
            while head < tail and found < 0:
                b = queue[head]
                head += 1
                for i in range(list_start[b], list_start[b + 1]):
                    slot = listed[i]
                    p = owner[slot]
                    if free[p] == 0:
                        continue
                    if sign > 0:
                        if lead[p] != slot:
                            continue
                        for s in range(start[p], start[p + 1]):
                            c = broker[s]
                            if parent[c] == -2:
                                parent[c] = s
                                queue[tail] = c
                                tail += 1
                                if count[c] < high[c]:
                                    found = c
                                    break
                        if found >= 0:
                            break
                    else:
                        c = broker[lead[p]]
                        if parent[c] == -2:
                            parent[c] = slot
                            queue[tail] = c
                            tail += 1
                            if count[c] > low[c]:
                                found = c
                                break
            if found < 0:
                for i in range(tail):
                    prices[queue[i]] = sign
                break
            handed += 1
            _hand_on(owner, broker, lead, count, parent, found, sign)
    return handed


def lead(
    task: ReplicaTask, replica: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Replicas in order, leaders first, and prices that prove how even leadership can be.

    Args:
        task: what is asked.
        replica: int32[sum of factors], sets of brokers by ``task.start``.

    Returns:
        The same with those that were there in their places, newcomers in the places of those
        that left, and each partition's leader first; float64[B].
    """
    cluster = task.cluster
    ordered = _in_places(task, replica)
    owner = np.repeat(np.arange(cluster.partitions, dtype=np.int64), task.factor)
    brokers = len(cluster.brokers)
    listed = np.argsort(ordered, kind="stable").astype(np.int64)
    list_start = np.searchsorted(ordered[listed], np.arange(brokers + 1)).astype(np.int64)
    leading = task.start[:-1].copy()
    there = (task.factor > 0) & task.counted
    count = np.bincount(ordered[leading[there]], minlength=brokers).astype(np.int64)
    free = (task.lead_free & task.counted).view(np.uint8)
    prices = np.zeros((2, brokers))
    scratch = np.zeros(brokers, np.int64), np.zeros(brokers, np.int64)
    for which, sign in enumerate((1, -1)):
        _even(
            task.start, ordered, owner, free, leading, count, task.lead_low, task.lead_high,
            listed, list_start, *scratch, sign, prices[which], work=len(ordered),
        )  # fmt: skip
    _to_the_front(task.start, ordered, leading, work=len(ordered))
    both: NDArray[np.float64] = prices.sum(axis=0)
    return ordered, both


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
        at = begin
        for s in range(begin, end):
            out[s] = -1
        # Old ones in their places; one that stood beyond the new factor closes up.
        for o in range(old_start[p], old_start[p + 1]):
            for s in range(begin, end):
                if chosen[s] == old[o]:
                    place = begin + o - old_start[p]
                    if place >= end:
                        place = end - 1
                        while out[place] >= 0:
                            place -= 1
                    out[place] = old[o]
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
