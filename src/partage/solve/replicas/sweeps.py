"""Replicas on brokers: each in turn goes where the price is lowest; see `relocating` for arrays.

What a partition costs each broker and rack is computed for all of them at once, in plain loops
that the machine does several steps of at a time, and holds for all its replicas. Which partitions
are asked at all is `restless`'s affair.

The pieces come from `relocating`: see `partage.kernels` on what the cache knows of them.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np

from partage.kernels import kernel, piece
from partage.solve.replicas.penalties import STATE, old_fate, shift

__all__ = ["scratch", "sweep"]

#: No broker pays that.
_NEVER = 1e300


def scratch(kinds: int, brokers: int, both: int, racks: int) -> tuple[Any, ...]:
    """What `sweep` works on, beside the state.

    ``edge[3, K, B + Z]``: how far above the band, below it, and outside; ``ask[B + Z]``: what a
    replica of the partition at hand would cost each; ``door[B]``: 0, `_NEVER` where it must not
    go, less the move where it was before; ``into[racks]``: what a replica more costs in a rack;
    ``count[racks]``: how many are there.
    """
    return (
        np.zeros((3, kinds, both), np.int64), np.zeros(both), np.zeros(brokers),
        np.zeros(racks), np.zeros(racks, np.int64),
    )  # fmt: skip


@piece
def _note(x, low, high, edge, b):
    """Where a broker or a rack stands to its bands."""
    for k in range(len(x)):
        over, under = x[k, b] - high[k, b], low[k, b] - x[k, b]
        edge[0, k, b] = over
        edge[1, k, b] = under
        edge[2, k, b] = max(over, under, 0)


@piece
def _price(edge, weight, rate, p, b, sign, first):
    """By how much a price rises when a broker or a rack gets (1) or loses (-1) a replica of p.

    Rates begin at ``first``: 0 for brokers, K + 1 for racks.
    """
    total = 0.0
    for k in range(len(weight)):
        w = sign * weight[k, p]
        if w != 0:
            total += rate[first + k] * (
                max(edge[0, k, b] + w, edge[1, k, b] - w, 0) - edge[2, k, b]
            )
    return total


@piece
def _ask(edge, weight, rate, p, n, ask):
    """What a replica of p would cost each broker, and after them each rack, for itself."""
    for b in range(len(ask)):
        ask[b] = 0.0
    for k in range(len(weight)):
        w, begin, end, first = weight[k, p], 0, n, k
        while w > 0 and begin < end:
            for b in range(begin, end):
                ask[b] += rate[first] * (
                    max(edge[0, k, b] + w, edge[1, k, b] - w, 0) - edge[2, k, b]
                )
            begin, end, first = n, len(ask) if begin == 0 else n, len(weight) + 1 + k


@piece
def _doors(start, broker, old_start, old, fate, receives, cost, rack, count, door, p, sign):
    """Where replicas of p are and must not go, and where they were (1); or forget it (-1)."""
    for o in range(old_start[p], old_start[p + 1]):
        b = old[o]
        door[b] = 0.0 if receives[b] else _NEVER
        if sign > 0:
            door[b] = _NEVER if fate[o] == 2 else -1.0 * cost[p]
    for s in range(start[p], start[p + 1]):
        b = broker[s]
        count[rack[b]] += sign
        if sign > 0:
            door[b] = _NEVER
        elif old_fate(old_start, old, fate, p, b) < 0:
            door[b] = 0.0 if receives[b] else _NEVER


@piece
def _more(rack_low, rack_high, rate, kinds, ask, n, count, factor, r):
    """What one replica more would cost in a rack: the rack rule, and the rack's own bands."""
    price = rate[kinds] * (
        (count[r] >= rack_high[factor, r]) - 1.0 * (count[r] < rack_low[factor, r])
    )
    if n < len(ask):
        price += ask[n + r]
    return price


@piece
def _best(ask, door, into, rack, rack_low, rack_high, count, factor, own, shut, limit):
    """The cheapest broker that costs less than the limit, -1 where none does.

    Shut: it is to be one that had it, or in a rack where that mends the rule.
    """
    best, at = limit, -1
    fall = 1 * (count[own] <= rack_low[factor, own]) - (count[own] > rack_high[factor, own])
    for c in range(len(rack)):
        price = ask[c] + door[c] + into[rack[c]]
        if price < best:
            r = rack[c]
            if shut and door[c] >= 0.0:
                rise = 1 * (count[r] >= rack_high[factor, r]) - (count[r] < rack_low[factor, r])
                if r == own or fall + rise >= 0:
                    continue
            best, at = price, c
    return at


@piece
def _shifted(x, low, high, weight, rate, rack, edge, ask, p, b, sign):
    """A broker gets (1) or loses (-1) a replica of p, and what it would cost now."""
    n, kinds = len(rack), len(x)
    shift(x, weight, rack, p, b, sign)
    _note(x, low, high, edge, b)
    ask[b] = _price(edge, weight, rate, p, b, 1, 0)
    if n < len(ask):
        r = n + rack[b]
        _note(x, low, high, edge, r)
        ask[r] = _price(edge, weight, rate, p, r, 1, kinds + 1)


@piece
def _step(
    broker, old_start, old, fate, x, low, high, weight, cost, rate, rack, rack_low, rack_high,
    receives, closed, edge, ask, door, into, count, factor, p, s,
):  # fmt: skip
    """The replica to the cheapest broker, if that pays; answers whether it went."""
    n, kinds, b = len(rack), len(x), broker[s]
    own, move = rack[b], 1.0 * cost[p]
    # From where it was it goes at the price of a move; elsewhere that is paid already.
    home = old_fate(old_start, old, fate, p, b) >= 0
    leave = rate[kinds] * (
        (count[own] <= rack_low[factor, own]) - 1.0 * (count[own] > rack_high[factor, own])
    )
    if n < len(ask):
        leave += _price(edge, weight, rate, p, n + own, -1, kinds + 1)
    limit = -_price(edge, weight, rate, p, b, -1, 0) - leave - 1e-6 * (1.0 + move)
    if home:
        limit -= move
    stays, into[own] = into[own], -leave
    shut = closed[p] != 0 and home
    at = _best(ask, door, into, rack, rack_low, rack_high, count, factor, own, shut, limit)
    into[own] = stays
    if at < 0:
        return 0
    broker[s] = at
    door[at] = _NEVER
    door[b] = 0.0 if receives[b] else _NEVER
    if home:
        door[b] = -move
    count[own] -= 1
    count[rack[at]] += 1
    _shifted(x, low, high, weight, rate, rack, edge, ask, p, b, -1)
    _shifted(x, low, high, weight, rate, rack, edge, ask, p, at, 1)
    for r in (own, rack[at]):
        into[r] = _more(rack_low, rack_high, rate, kinds, ask, n, count, factor, r)
    return 1


@kernel(
    f"int64({STATE}, int64[::1], int64[:, :, ::1], float64[::1], float64[::1], float64[::1],"
    " int64[::1])"
)
def sweep(
    start, broker, old_start, old, fate, locked, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, those, edge, ask, door, into, count,
):  # fmt: skip
    """Replicas of those partitions go where the price is lowest; answers how many went.

    ``those``: partitions of which some replica may gain; the rest: see `scratch`.
    """
    n, kinds, moved = len(rack), len(x), 0
    for b in range(len(ask)):
        _note(x, low, high, edge, b)
    for b in range(n):
        door[b] = 0.0 if receives[b] else _NEVER
    for i in range(len(those)):
        p = those[i]
        factor = start[p + 1] - start[p]
        _ask(edge, weight, rate, p, n, ask)
        _doors(start, broker, old_start, old, fate, receives, cost, rack, count, door, p, 1)
        for r in range(len(into)):
            into[r] = _more(rack_low, rack_high, rate, kinds, ask, n, count, factor, r)
        # Who is preferred to lead, the first, is moved only if no other would do.
        for s in range(start[p + 1] - 1, start[p] - 1, -1):
            if locked[s] == 0:
                moved += _step(
                    broker, old_start, old, fate, x, low, high, weight, cost, rate, rack, rack_low,
                    rack_high, receives, closed, edge, ask, door, into, count, factor, p, s,
                )  # fmt: skip
        _doors(start, broker, old_start, old, fate, receives, cost, rack, count, door, p, -1)
    return moved
