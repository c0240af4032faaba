"""Replicas on brokers: steps that make a plan better. Kernels over arrays.

A plan's price is the bytes that it moves, plus what each broker is outside its band in each kind,
times a rate a kind. Steps are taken as long as they lower that price. The rates begin low, when
only small replicas are worth moving, and rise until being outside costs more than any move: so
the cheapest replicas move first, and only as many as it takes.

The arrays, by name (P partitions, B brokers, S replicas of the new plan):
``start[P + 1]``, ``broker[S]``: the plan; ``old_start``, ``old``, ``fate``: what was, and what may
become of it; ``locked[S]``: replicas that stay; ``x[K, B]``: what brokers hold, ``low``, ``high``:
the bands; ``weight[K, P]``, ``cost[P]``; ``rate[K + 1]``, the last for a breach of the rack rule.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917, SIM110 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = ["STATE", "exchange", "has", "paid", "rack_change", "shift", "swap", "sweep"]

STATE = (
    "int64[::1], int32[::1], int64[::1], int32[::1], int8[::1], uint8[::1], int64[:, ::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], float64[::1], int32[::1],"
    " int64[:, ::1], int64[:, ::1], uint8[::1], uint8[::1]"
)


@piece
def _outside(x, low, high, k, b, change):
    """How far a broker is outside its band when it has so much more."""
    now = x[k, b] + change
    if now > high[k, b]:
        return now - high[k, b]
    if now < low[k, b]:
        return low[k, b] - now
    return 0


@piece
def paid(x, low, high, weight, rate, b, p, sign):
    """By how much a broker's price rises when it gets (1) or loses (-1) a replica of p."""
    total = 0.0
    for k in range(len(x)):
        w = weight[k, p]
        if w != 0:
            after = _outside(x, low, high, k, b, sign * w)
            total += rate[k] * (after - _outside(x, low, high, k, b, 0))
    return total


@piece
def _old_fate(old_start, old, fate, p, b):
    """-1 where p had no replica on b, else what may become of it."""
    for i in range(old_start[p], old_start[p + 1]):
        if old[i] == b:
            return fate[i]
    return -1


@piece
def has(start, broker, p, b):
    """Whether p has a replica on b."""
    for s in range(start[p], start[p + 1]):
        if broker[s] == b:
            return True
    return False


@piece
def _breach(count, low, high):
    if count > high:
        return count - high
    if count < low:
        return low - count
    return 0


@piece
def rack_change(start, broker, rack, rack_low, rack_high, p, out, into):
    """By how much the breach of the rack rule changes when a replica of p changes racks."""
    if out == into:
        return 0
    factor = start[p + 1] - start[p]
    from_count = 0
    into_count = 0
    for s in range(start[p], start[p + 1]):
        if broker[s] >= 0:
            if rack[broker[s]] == out:
                from_count += 1
            elif rack[broker[s]] == into:
                into_count += 1
    change = 0
    if out >= 0:
        low, high = rack_low[factor, out], rack_high[factor, out]
        change += _breach(from_count - 1, low, high) - _breach(from_count, low, high)
    if into >= 0:
        low, high = rack_low[factor, into], rack_high[factor, into]
        change += _breach(into_count + 1, low, high) - _breach(into_count, low, high)
    return change


@piece
def shift(x, weight, p, b, sign):
    """A broker gets (1) or loses (-1) a replica of p."""
    for k in range(len(x)):
        x[k, b] += sign * weight[k, p]


@piece
def _lack(x, low, k):
    """The most that a broker lacks of a kind."""
    most = 0
    for b in range(x.shape[1]):
        most = max(most, low[k, b] - x[k, b])
    return most


@kernel(f"int64({STATE})")
def sweep(
    start, broker, old_start, old, fate, locked, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed,
):  # fmt: skip
    """Each replica in turn goes to where the price is lowest; answers how many went."""
    moved = 0
    # No broker gains more by a replica than it lacks; looked at once, since lacks only shrink.
    lack0, lack1 = _lack(x, low, 0), _lack(x, low, 1)
    lack2, lack3 = _lack(x, low, 2), _lack(x, low, 3)
    for p in range(len(cost)):
        hunger = (
            rate[0] * min(weight[0, p], lack0)
            + rate[1] * min(weight[1, p], lack1)
            + rate[2] * min(weight[2, p], lack2)
            + rate[3] * min(weight[3, p], lack3)
        )
        for s in range(start[p], start[p + 1]):
            if locked[s]:
                continue
            b = broker[s]
            back = 0
            if _old_fate(old_start, old, fate, p, b) < 0:
                back = cost[p]
            gain = -paid(x, low, high, weight, rate, b, p, -1)
            # What cannot pay anywhere is not looked for; a breach of the rack rule always pays.
            if (
                back == 0
                and gain + hunger <= cost[p]
                and not _crowded(start, broker, rack, rack_high, p, rack[b])
            ):
                continue
            at = _better(start, broker, old_start, old, fate, x, low, high, weight, cost, rate,
                         rack, rack_low, rack_high, receives, closed, p, b, back, gain)  # fmt: skip
            if at >= 0:
                broker[s] = at
                shift(x, weight, p, b, -1)
                shift(x, weight, p, at, 1)
                moved += 1
    return moved


@piece
def _crowded(start, broker, rack, rack_high, p, of):
    count = 0
    for s in range(start[p], start[p + 1]):
        if rack[broker[s]] == of:
            count += 1
    return count > rack_high[start[p + 1] - start[p], of]


@piece
def _better(
    start, broker, old_start, old, fate, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, p, b, back, gain,
):  # fmt: skip
    """Where the replica of p on b is best off, -1 where it is."""
    # Less than this is rounding: a step must pay.
    best, at = -1e-6 * (1.0 + cost[p]), -1
    for c in range(len(rack)):
        if c == b:
            continue
        was = _old_fate(old_start, old, fate, p, c)
        if was == 2 or (was < 0 and receives[c] == 0):
            continue
        price = -gain - back
        if was < 0:
            price += cost[p]
        if rack[c] != rack[b]:
            breach = rack_change(start, broker, rack, rack_low, rack_high, p, rack[b], rack[c])
            if closed[p] and back == 0 and was < 0 and breach >= 0:
                continue
            price += rate[len(x)] * breach
        elif closed[p] and back == 0 and was < 0:
            continue
        price += paid(x, low, high, weight, rate, c, p, 1)
        if price < best and not has(start, broker, p, c):
            best, at = price, c
    return at


@piece
def _swap_price(
    start, broker, old_start, old, fate, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, s, p, t, q,
):  # fmt: skip
    """What it costs that replica s of p and t of q change brokers; 1e300 where they must not."""
    b, c = broker[s], broker[t]
    p_old = _old_fate(old_start, old, fate, p, c)
    q_old = _old_fate(old_start, old, fate, q, b)
    if p_old == 2 or q_old == 2 or (p_old < 0 and receives[c] == 0):
        return 1e300
    if q_old < 0 and receives[b] == 0:
        return 1e300
    p_back = _old_fate(old_start, old, fate, p, b) < 0
    q_back = _old_fate(old_start, old, fate, q, c) < 0
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
            after = _outside(x, low, high, k, b, change) + _outside(x, low, high, k, c, -change)
            now = _outside(x, low, high, k, b, 0) + _outside(x, low, high, k, c, 0)
            price += rate[k] * (after - now)
    if price >= 0.0 or has(start, broker, p, c) or has(start, broker, q, b):
        return 1e300
    if rack[b] != rack[c]:
        breach = rack_change(start, broker, rack, rack_low, rack_high, p, rack[b], rack[c])
        breach += rack_change(start, broker, rack, rack_low, rack_high, q, rack[c], rack[b])
        price += rate[len(x)] * breach
    return price


@piece
def _exchanged(broker, x, weight, s, p, t, q):
    b, c = broker[s], broker[t]
    broker[s], broker[t] = c, b
    shift(x, weight, p, b, -1)
    shift(x, weight, q, b, 1)
    shift(x, weight, q, c, -1)
    shift(x, weight, p, c, 1)


@piece
def _first_above(weight, k, owner, listed, begin, end, wanted):
    """Place of the first of ``listed[begin:end]``, sorted by weight, that weighs so much."""
    while begin < end:
        middle = (begin + end) // 2
        if weight[k, owner[listed[middle]]] < wanted:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel(f"int64({STATE}, int64[::1], int64[::1], int64[::1], int64, int64)")
def swap(
    start, broker, old_start, old, fate, locked, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, owner, listed, list_start, k, most,
):  # fmt: skip
    """Pairs change brokers where one is outside its band of kind k; answers how many pairs.

    ``listed`` has the replicas of each broker (``list_start``) by weight of kind k, as it was in
    the beginning; ``owner[S]`` is each replica's partition.
    """
    done = 0
    steps = 0
    for b in range(len(rack)):
        tries = 0
        while _outside(x, low, high, k, b, 0) > 0 and tries < 64 and steps < most:
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
                        weight, k, owner, listed, list_start[c], list_start[c + 1],
                        weight[k, p] - over,
                    )  # fmt: skip
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
            _exchanged(broker, x, weight, best_s, owner[best_s], best_t, owner[best_t])
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
        if locked[s] or _old_fate(old_start, old, fate, p, broker[s]) >= 0:
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
            _exchanged(broker, x, weight, s, p, best_t, owner[best_t])
            done += 1
    return done
