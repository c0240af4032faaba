"""Partition loads from offsets, with hysteresis: small changes leave the weights unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from numbers import Real

__all__ = [
    "BAND",
    "LARGEST_LOAD",
    "compute_lags",
    "is_load",
    "record_rates",
    "update_weights",
    "valid_loads",
]

#: By how much of its weight (or of the mean, if that is more) a partition's share must change.
BAND = 0.25

#: The largest load that a member's message carries (int64, in thousandths).
LARGEST_LOAD = (2**63 - 1) / 1000

#: A partition that is silent now weighs this part of the mean: it may wake up.
_LEAST = 0.01

Partition = tuple[str, int]


def update_weights(
    old_weights: Mapping[Partition, float],
    measured: Mapping[Partition, float],
    *,
    band: float = BAND,
) -> dict[Partition, float]:
    """Update partition weights with newly measured loads, but keep weights that changed little.

    This hysteresis avoids needless moves of partitions. The measured loads are first scaled to the
    sum of the old weights, so that equal growth of all partitions changes nothing. A partition that
    was not measured keeps its weight. Values that are not loads (`is_load`) are dropped.

    Args:
        old_weights: dict from partition to its weight so far.
        measured: dict from partition to its measured load.
        band: fraction of the old weight, or of the mean weight if that is larger, by which a load
            must differ to replace the weight.

    >>> update_weights({("t", 0): 9.0, ("t", 1): 1.0}, {("t", 0): 20.0, ("t", 1): 2.4})
    {('t', 0): 9.0, ('t', 1): 1.0}
    >>> update_weights({("t", 0): 5.0, ("t", 1): 5.0}, {("t", 0): 9.0, ("t", 1): 1.0})
    {('t', 0): 9.0, ('t', 1): 1.0}
    """
    old, new = valid_loads(old_weights), valid_loads(measured)
    if not new:
        return old
    common = [one for one in old if one in new]
    was, now = sum(old[one] for one in common), sum(new[one] for one in common)
    scale = was / now if was > 0 and now > 0 else 1.0
    mean = was / len(common) if common else 0.0
    out = dict(old)
    for one, reading in sorted(new.items()):
        load = reading * scale
        weight = old.get(one)
        if weight is None or abs(load - weight) > band * max(weight, mean):
            out[one] = load
    return _floored(out)


def valid_loads(loads: Mapping[Partition, float]) -> dict[Partition, float]:
    """Return the partition loads that are valid numbers, sorted by topic and partition.

    A valid load is a finite number from 0 to `LARGEST_LOAD`. Other values, such as NaN, are left
    out.

    >>> valid_loads({("t", 0): 2.0, ("t", 1): float("nan"), ("t", 2): -1.0})
    {('t', 0): 2.0}
    """
    return {p: float(loads[p]) for p in sorted(loads) if is_load(loads[p])}


def is_load(value: object) -> bool:
    """Return whether a value is a valid partition load: a finite number from 0 to `LARGEST_LOAD`.

    Booleans and texts are no loads.

    >>> [is_load(x) for x in (0, 2.5, -1.0, float("nan"), 1e300, "3", None, True)]
    [True, True, False, False, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return False
    try:
        number = float(value)
    except (ArithmeticError, TypeError, ValueError):  # 400 digits; a foreign class without float
        return False
    return math.isfinite(number) and 0 <= number <= LARGEST_LOAD


def _floored(loads: dict[Partition, float]) -> dict[Partition, float]:
    least = _LEAST * _mean(loads.values())
    return {one: max(load, least) for one, load in loads.items()}


def _mean(loads: Iterable[float]) -> float:
    some = list(loads)
    return sum(some) / len(some) if some else 0.0


def record_rates(
    old_offsets: Mapping[Partition, int], new_offsets: Mapping[Partition, int], seconds: float
) -> dict[Partition, float]:
    """Compute the records per second of each partition from two readings of its offset.

    The offsets may be end offsets (records written) or positions of a consumer (records read). A
    partition is left out if its offset decreases, because the topic was recreated or the consumer
    was reset.

    Args:
        old_offsets: offset of each partition at the first reading.
        new_offsets: offset of each partition at the second reading.
        seconds: time between the readings; if 0, the result is empty.

    >>> record_rates({("t", 0): 10, ("t", 1): 5}, {("t", 0): 30, ("t", 1): 4}, 2.0)
    {('t', 0): 10.0}
    """
    if not seconds > 0:
        return {}
    both = (
        (one, new_offsets[one] - offset)
        for one, offset in old_offsets.items()
        if one in new_offsets
    )
    return {one: grown / seconds for one, grown in both if grown >= 0}


def compute_lags(
    positions: Mapping[Partition, int], end_offsets: Mapping[Partition, int]
) -> dict[Partition, float]:
    """Return the lag of each partition in records: its end offset minus the consumer's position.

    A lag is at least 0. A partition is left out if it is missing in one of the two dicts.

    >>> compute_lags({("t", 0): 10, ("t", 1): 7}, {("t", 0): 30, ("t", 1): 5})
    {('t', 0): 20.0, ('t', 1): 0.0}
    """
    both = (
        (one, end_offsets[one] - offset) for one, offset in positions.items() if one in end_offsets
    )
    return {one: float(max(behind, 0)) for one, behind in both}
