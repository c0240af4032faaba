"""Replicas on brokers: steps that make a plan better. Kernels over arrays.

A plan's price is the bytes that it moves, plus what each broker is outside its band in each kind,
times a rate a kind. Steps are taken as long as they lower that price. The rates begin low, when
only small replicas are worth moving, and rise until being outside costs more than any move: so
the cheapest replicas move first, and only as many as it takes.

The arrays, by name (P partitions, B brokers, S replicas of the new plan):
``start[P + 1]``, ``broker[S]``: the plan; ``old_start``, ``old``, ``fate``: what was, and what may
become of it; ``locked[S]``: replicas that stay; ``x[K, B + Z]``: what brokers hold, and after them
what racks hold (Z is 0 where these have no bands), ``low``, ``high``: the bands; ``weight[K, P]``,
``cost[P]``; ``rate[2 K + 1]``: of brokers, of a breach of the rack rule, of racks.
"""

# Types stand in the kernels' signatures; each gets the whole state.
# ruff: noqa: ANN001, ANN201, ANN202, PLR0917, SIM110 - see above
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from partage.kernels import kernel, piece

__all__ = [
    "STATE", "has", "old_fate", "outside", "paid", "rack_change", "rack_paid", "shift", "sweep",
]  # fmt: skip

STATE = (
    "int64[::1], int32[::1], int64[::1], int32[::1], int8[::1], uint8[::1], int64[:, ::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], float64[::1], int32[::1],"
    " int64[:, ::1], int64[:, ::1], uint8[::1], uint8[::1]"
)


@piece
def outside(x, low, high, k, b, change):
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
            after = outside(x, low, high, k, b, sign * w)
            total += rate[k] * (after - outside(x, low, high, k, b, 0))
    return total


@piece
def rack_paid(x, low, high, weight, rate, rack, r, p, sign):
    """The same of a rack; 0 where racks have no bands."""
    total = 0.0
    at = len(rack) + r
    if at < x.shape[1]:
        for k in range(1, len(x)):
            w = weight[k, p]
            if w != 0:
                after = outside(x, low, high, k, at, sign * w)
                total += rate[len(x) + 1 + k] * (after - outside(x, low, high, k, at, 0))
    return total


@piece
def old_fate(old_start, old, fate, p, b):
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
def shift(x, weight, rack, p, b, sign):
    """A broker, and its rack, gets (1) or loses (-1) a replica of p."""
    at = len(rack) + rack[b]
    for k in range(len(x)):
        x[k, b] += sign * weight[k, p]
        if at < x.shape[1]:
            x[k, at] += sign * weight[k, p]


@piece
def _lack(x, low, k, begin, end):
    """The most that a broker, or a rack, lacks of a kind."""
    most = 0
    for b in range(begin, end):
        most = max(most, low[k, b] - x[k, b])
    return most


@piece
def _note(x, low, short, b):
    """Whether a broker, or a rack, lacks anything, into ``short``."""
    short[b] = 0
    for k in range(len(x)):
        if x[k, b] < low[k, b]:
            short[b] = 1


@piece
def _moved(x, low, weight, rack, short, p, b, sign):
    """`shift`, and who lacks anything then."""
    shift(x, weight, rack, p, b, sign)
    _note(x, low, short, b)
    if len(rack) < x.shape[1]:
        _note(x, low, short, len(rack) + rack[b])


@piece
def _wanted(rack_low, factor):
    """How many replicas of a partition the rack rule puts somewhere."""
    total = 0
    for r in range(rack_low.shape[1]):
        total += rack_low[factor, r]
    return total


@piece
def _hunger(rate, weight, p, lack0, lack1, lack2, lack3, rack1, rack2, rack3):
    """What a replica of p is worth, at most, to a broker and a rack that lack so much."""
    return (
        rate[0] * min(weight[0, p], lack0)
        + rate[1] * min(weight[1, p], lack1)
        + rate[2] * min(weight[2, p], lack2)
        + rate[3] * min(weight[3, p], lack3)
        + rate[6] * min(weight[1, p], rack1)
        + rate[7] * min(weight[2, p], rack2)
        + rate[8] * min(weight[3, p], rack3)
    )


@kernel(f"int64({STATE}, uint8[::1])")
def sweep(
    start, broker, old_start, old, fate, locked, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, short,
):  # fmt: skip
    """Each replica in turn goes to where the price is lowest; answers how many went.

    ``short[B + Z]``: scratch, which brokers and racks lack anything.
    """
    moved = 0
    wanted, wanted_of = 0, -1
    for b in range(x.shape[1]):
        _note(x, low, short, b)
    # No broker gains more by a replica than it lacks; looked at once, since lacks only shrink.
    n, both = len(rack), x.shape[1]
    lack0, lack1 = _lack(x, low, 0, 0, n), _lack(x, low, 1, 0, n)
    lack2, lack3 = _lack(x, low, 2, 0, n), _lack(x, low, 3, 0, n)
    rack1, rack2 = _lack(x, low, 1, n, both), _lack(x, low, 2, n, both)
    rack3 = _lack(x, low, 3, n, both)
    most0, most1, most2, most3 = lack0, lack1, lack2, lack3
    zone1, zone2, zone3 = rack1, rack2, rack3
    for p in range(len(cost)):
        hunger = _hunger(rate, weight, p, lack0, lack1, lack2, lack3, rack1, rack2, rack3)
        hungriest = _hunger(rate, weight, p, most0, most1, most2, most3, zone1, zone2, zone3)
        # Who is preferred to lead, the first, is moved only if no other would do.
        for s in range(start[p + 1] - 1, start[p] - 1, -1):
            if locked[s]:
                continue
            b = broker[s]
            back = 0
            if old_fate(old_start, old, fate, p, b) < 0:
                back = cost[p]
            gain = -paid(x, low, high, weight, rate, b, p, -1)
            apart = -rack_paid(x, low, high, weight, rate, rack, rack[b], p, -1)
            # What cannot pay anywhere is not looked for; a breach of the rack rule always pays.
            off = gain + max(apart, 0.0)
            lean = off + back <= cost[p]
            lean = lean and not _crowded(start, broker, rack, rack_high, p, rack[b])
            if lean and back == 0 and off + hunger <= cost[p]:
                continue
            tired = lean and off + back + hungriest <= cost[p]
            if start[p + 1] - start[p] != wanted_of:
                wanted_of = start[p + 1] - start[p]
                wanted = _wanted(rack_low, wanted_of)
            # What pays only where something is lacking is looked for only there.
            lean = lean and not _lacking(start, broker, rack, rack_low, p, wanted)
            at = _better(
                start, broker, old_start, old, fate, x, low, high, weight, cost, rate, rack,
                rack_low, rack_high, receives, closed, p, b, back, gain, apart, short, lean, tired,
            )  # fmt: skip
            if at >= 0:
                broker[s] = at
                _moved(x, low, weight, rack, short, p, b, -1)
                _moved(x, low, weight, rack, short, p, at, 1)
                # Who gave may lack more now than anybody did.
                most0, most1 = max(most0, low[0, b] - x[0, b]), max(most1, low[1, b] - x[1, b])
                most2, most3 = max(most2, low[2, b] - x[2, b]), max(most3, low[3, b] - x[3, b])
                if n < both:
                    r = n + rack[b]
                    zone1, zone2 = max(zone1, low[1, r] - x[1, r]), max(zone2, low[2, r] - x[2, r])
                    zone3 = max(zone3, low[3, r] - x[3, r])
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
def _lacking(start, broker, rack, rack_low, p, wanted):
    """Whether p has fewer replicas on some rack than the rack is to hold; ``wanted`` in all."""
    filled = 0
    for s in range(start[p], start[p + 1] if wanted > 0 else start[p]):
        before = 0
        for t in range(start[p], s):
            if rack[broker[t]] == rack[broker[s]]:
                before += 1
        if before < rack_low[start[p + 1] - start[p], rack[broker[s]]]:
            filled += 1
    return filled < wanted


@piece
def _better(
    start, broker, old_start, old, fate, x, low, high, weight, cost, rate, rack,
    rack_low, rack_high, receives, closed, p, b, back, gain, apart, short, lean, tired,
):  # fmt: skip
    """Where the replica of p on b is best off, -1 where it is.

    Lean: only those are asked that lack something, and those that had a replica of p; tired: only
    the latter.
    """
    # Less than this is rounding: a step must pay.
    best, at = -1e-6 * (1.0 + cost[p]), -1
    n, zones = len(rack), x.shape[1] > len(rack)
    off = gain + back - cost[p] + max(apart, 0.0)
    for o in range(old_start[p], old_start[p + 1] if lean else old_start[p]):
        short[old[o]] += 2
    for c in range(n):
        if c == b:
            continue
        if lean and short[c] < 2:
            zone = zones and short[n + rack[c]] == 1
            if tired or (short[c] == 0 and not zone):
                continue
            # The rack rule and racks in their bands can only make it dearer.
            if not zone and paid(x, low, high, weight, rate, c, p, 1) - off >= best:
                continue
        was = old_fate(old_start, old, fate, p, c)
        if was == 2 or (was < 0 and receives[c] == 0):
            continue
        price = -gain - back
        if was < 0:
            price += cost[p]
        if rack[c] != rack[b]:
            breach = rack_change(start, broker, rack, rack_low, rack_high, p, rack[b], rack[c])
            if closed[p] and back == 0 and was < 0 and breach >= 0:
                continue
            price += rate[len(x)] * breach - apart
            price += rack_paid(x, low, high, weight, rate, rack, rack[c], p, 1)
        elif closed[p] and back == 0 and was < 0:
            continue
        price += paid(x, low, high, weight, rate, c, p, 1)
        if price < best and not has(start, broker, p, c):
            best, at = price, c
    for o in range(old_start[p], old_start[p + 1] if lean else old_start[p]):
        short[old[o]] -= 2
    return at
