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

from partage.kernels import piece

__all__ = [
    "STATE", "has", "old_fate", "outside", "paid", "rack_change", "rack_paid", "shift",
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
def paid(x, low, high, weight, rate, b, p, sign, first):
    """By how much a price rises when a broker or a rack gets (1) or loses (-1) a replica of p.

    Rates begin at ``first``: 0 for brokers, K + 1 for racks.
    """
    total = 0.0
    for k in range(len(x)):
        w = weight[k, p]
        if w != 0:
            after = outside(x, low, high, k, b, sign * w)
            total += rate[first + k] * (after - outside(x, low, high, k, b, 0))
    return total


@piece
def rack_paid(x, low, high, weight, rate, rack, r, p, sign):
    """The same of a rack; 0 where racks have no bands."""
    at = len(rack) + r
    if at < x.shape[1]:
        return paid(x, low, high, weight, rate, at, p, sign, len(x) + 1)
    return 0.0


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
