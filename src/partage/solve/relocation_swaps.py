"""Replicas on brokers: pairs that change places; the arrays are told in `relocating`.

The pieces come from there. Numba's cache looks at the file of a kernel only: whoever changes a
piece there touches this file too.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from partage.kernels import kernel, piece
from partage.solve.relocating import STATE, has, old_fate, outside, rack_change, shift

__all__ = ["exchange", "swap"]


@piece
def _swap_price(
    start, broker, old_start, old, fate, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, s, p, t, q,
):  # fmt: skip
    """What it costs that replica s of p and t of q change brokers; 1e300 where they must not."""
    b, c = broker[s], broker[t]
    p_old = old_fate(old_start, old, fate, p, c)
    q_old = old_fate(old_start, old, fate, q, b)
    if p_old == 2 or q_old == 2 or (p_old < 0 and receives[c] == 0):
        return 1e300
    if q_old < 0 and receives[b] == 0:
        return 1e300
    p_back = old_fate(old_start, old, fate, p, b) < 0
    q_back = old_fate(old_start, old, fate, q, c) < 0
    if (closed[p] and p_old < 0 and not p_back) or (closed[q] and q_old < 0 and not q_back):
        return 1e300
    price = 0.0
    if p_old < 0:
        price += cost[p]
    if p_back:
        price -= cost[p]
    if q_old < 0:
        price += cost[q]
    if q_back:
        price -= cost[q]
    for k in range(len(x)):
        change = weight[k, q] - weight[k, p]
        if change != 0:
            after = outside(x, low, high, k, b, change) + outside(x, low, high, k, c, -change)
            now = outside(x, low, high, k, b, 0) + outside(x, low, high, k, c, 0)
            price += rate[k] * (after - now)
    n = len(rack)
    if price >= 0.0 and n == x.shape[1]:
        return 1e300
    if has(start, broker, p, c) or has(start, broker, q, b):
        return 1e300
    if rack[b] != rack[c]:
        for k in range(1, len(x) if n < x.shape[1] else 1):
            change = weight[k, q] - weight[k, p]
            if change != 0:
                r, o = n + rack[b], n + rack[c]
                after = outside(x, low, high, k, r, change) + outside(x, low, high, k, o, -change)
                now = outside(x, low, high, k, r, 0) + outside(x, low, high, k, o, 0)
                price += rate[len(x) + 1 + k] * (after - now)
        breach = rack_change(start, broker, rack, rack_low, rack_high, p, rack[b], rack[c])
        breach += rack_change(start, broker, rack, rack_low, rack_high, q, rack[c], rack[b])
        price += rate[len(x)] * breach
    return price


@piece
def _exchanged(broker, x, weight, rack, s, p, t, q):
    b, c = broker[s], broker[t]
    broker[s], broker[t] = c, b
    shift(x, weight, rack, p, b, -1)
    shift(x, weight, rack, q, b, 1)
    shift(x, weight, rack, q, c, -1)
    shift(x, weight, rack, p, c, 1)


@piece
def _first_above(heavy, begin, end, wanted):
    """Place of the first of ``heavy[begin:end]``, which is sorted, that weighs so much."""
    while begin < end:
        middle = (begin + end) // 2
        if heavy[middle] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel(f"int64({STATE}, int64[::1], int64[::1], int64[::1], int64[::1], int64, int64)")
def swap(
    start, broker, old_start, old, fate, locked, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, owner, listed, heavy, list_start, k, most,
):  # fmt: skip
    """Pairs change brokers where one is outside its band of kind k; answers how many pairs.

    ``listed`` has the replicas of each broker (``list_start``) by weight of kind k, as it was in
    the beginning, and ``heavy`` their weights; ``owner[S]`` is each replica's partition.
    """
    done = 0
    steps = 0
    for b in range(len(rack)):
        tries = 0
        while outside(x, low, high, k, b, 0) > 0 and tries < 64 and steps < most:
            tries += 1
            over = x[k, b] - high[k, b] if x[k, b] > high[k, b] else x[k, b] - low[k, b]
            best, best_s, best_t = -1e-6, -1, -1
            for i in range(list_start[b], list_start[b + 1]):
                s = listed[i]
                if broker[s] != b or locked[s]:
                    continue
                p = owner[s]
                for c in range(len(rack)):
                    if c == b or list_start[c] == list_start[c + 1]:
                        continue
                    near = _first_above(
                        heavy, list_start[c], list_start[c + 1], weight[k, p] - over
                    )
                    for j in range(near - 2, near + 2):
                        steps += 1
                        if j < list_start[c] or j >= list_start[c + 1]:
                            continue
                        t = listed[j]
                        if broker[t] != c or locked[t] or owner[t] == p:
                            continue
                        price = _swap_price(
                            start, broker, old_start, old, fate, x, low, high, weight, cost,
                            rate, rack, rack_low, rack_high, receives, closed, s, p, t, owner[t],
                        )  # fmt: skip
                        if price < best:
                            best, best_s, best_t = price, s, t
            if best_s < 0:
                break
            _exchanged(broker, x, weight, rack, best_s, owner[best_s], best_t, owner[best_t])
            done += 1
    return done


@kernel(f"int64({STATE}, int64[::1], int64[::1], int64[::1], int64)")
def exchange(
    start, broker, old_start, old, fate, locked, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, owner, listed, list_start, few,
):  # fmt: skip
    """A moved replica goes home and a cheaper one goes instead; answers how many did.

    ``listed`` has the replicas of each broker by cost. Of each broker, the cheapest few and the
    few that cost just less than what they stand in for are looked at.
    """
    done = 0
    for s in range(len(broker)):
        p = owner[s]
        if locked[s] or old_fate(old_start, old, fate, p, broker[s]) >= 0:
            continue
        best, best_t = -1e-6 * (1.0 + cost[p]), -1
        for o in range(old_start[p], old_start[p + 1]):
            b = old[o]
            if fate[o] == 2 or has(start, broker, p, b):
                continue
            begin = list_start[b]
            end = list_start[b + 1]
            first, last = begin, end
            while first < last:
                middle = (first + last) // 2
                if cost[owner[listed[middle]]] < cost[p]:
                    first = middle + 1
                else:
                    last = middle
            for n in range(2 * few):
                j = begin + n if n < few else first - 1 - (n - few)
                if j < begin or j >= first:
                    continue
                t = listed[j]
                if broker[t] != b or locked[t]:
                    continue
                price = _swap_price(
                    start, broker, old_start, old, fate, x, low, high, weight, cost, rate, rack,
                    rack_low, rack_high, receives, closed, s, p, t, owner[t],
                )  # fmt: skip
                if price < best:
                    best, best_t = price, t
        if best_t >= 0:
            _exchanged(broker, x, weight, rack, s, p, best_t, owner[best_t])
            done += 1
    return done
