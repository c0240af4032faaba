"""Replicas on brokers: the first plan, which `relocating` makes better; its arrays are told there.

The pieces come from `relocating`. Numba's cache looks at the file of a kernel only: whoever changes
a piece there touches this file too.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN201, ANN202, ARG001, PLR0917 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from partage.kernels import kernel, piece
from partage.solve.replicas.penalties import STATE, has, paid, rack_change, rack_paid, shift

__all__ = ["construct"]


@piece
def _fill(x, high, b):
    """A number below one by which brokers in their bands still differ: the emptier the better."""
    total = 0.0
    for k in range(len(x)):
        if high[k, b] > 0:
            total += x[k, b] / high[k, b]
    return total


@kernel(f"int64({STATE}, int64[::1], int64[::1])")
def construct(
    start, broker, old_start, old, fate, locked, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, order, scratch,
):  # fmt: skip
    """The first plan: what may stay stays; answers -1, or the partition that has nowhere to go."""
    for i in range(len(order)):
        p = order[i]
        begin, factor = start[p], start[p + 1] - start[p]
        kept = 0
        for o in range(old_start[p], old_start[p + 1]):
            if fate[o] != 2:
                scratch[kept] = o
                kept += 1
        while kept > factor:
            kept = _drop(old_start[p], old, fate, x, low, high, weight, rate, rack, rack_high,
                         factor, p, scratch, kept)  # fmt: skip
        for j in range(factor):
            broker[begin + j] = -1
        for j in range(kept):
            b = old[scratch[j]]
            broker[begin + j] = b
            locked[begin + j] = fate[scratch[j]] == 1
            shift(x, weight, rack, p, b, 1)
    for i in range(len(order)):
        p = order[i]
        for s in range(start[p], start[p + 1]):
            if broker[s] < 0:
                b = _newcomer(start, broker, x, low, high, weight, rate, rack, rack_low,
                              rack_high, receives, p)  # fmt: skip
                if b < 0:
                    return p
                broker[s] = b
                shift(x, weight, rack, p, b, 1)
    return -1


@piece
def _drop(first, old, fate, x, low, high, weight, rate, rack, rack_high, factor, p, scratch, kept):
    """Leave out the replica that is missed least; one that must stay never."""
    best, at = 1e300, -1
    for j in range(kept):
        if fate[scratch[j]] == 1:
            continue
        b = old[scratch[j]]
        same = 0
        for other in range(kept):
            if rack[old[scratch[other]]] == rack[b]:
                same += 1
        price = paid(x, low, high, weight, rate, b, p, -1, 0) - 1e-6 * _fill(x, high, b)
        price += rack_paid(x, low, high, weight, rate, rack, rack[b], p, -1)
        price -= 1e-7 * j
        if scratch[j] == first:
            price += 1e-3  # who is preferred to lead goes if something is gained by it
        if same > rack_high[factor, rack[b]]:
            price -= rate[len(x)]
        price -= 1e-3 * rate[len(x)] * same
        if price < best:
            best, at = price, j
    if at < 0:
        at = kept - 1
    for j in range(at, kept - 1):
        scratch[j] = scratch[j + 1]
    return kept - 1


@piece
def _newcomer(start, broker, x, low, high, weight, rate, rack, rack_low, rack_high, receives, p):
    best, at = 1e300, -1
    for b in range(len(rack)):
        if receives[b] == 0 or has(start, broker, p, b):
            continue
        price = paid(x, low, high, weight, rate, b, p, 1, 0) + 1e-6 * _fill(x, high, b)
        price += rack_paid(x, low, high, weight, rate, rack, rack[b], p, 1)
        breach = rack_change(start, broker, rack, rack_low, rack_high, p, -1, rack[b])
        price += rate[len(x)] * breach
        if price < best:
            best, at = price, b
    return at
