"""Hysteresis: weights that stay what they were until a load really changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

__all__ = ["BAND", "hold", "known"]

#: By how much of its weight (or of the mean, if that is more) a partition's share must change.
BAND = 0.25

#: A partition that is silent now weighs this part of the mean: it may wake up.
_LEAST = 0.01

Partition = tuple[str, int]


def hold(
    before: Mapping[Partition, float],
    measured: Mapping[Partition, float],
    *,
    band: float = BAND,
) -> dict[Partition, float]:
    """The weights to plan with: ``before``, where what is measured now does not contradict it.

    Only shares count: all of ``measured`` is first scaled so that partitions of which both
    are known have the sum that they had before. A group whose traffic doubles at noon
    therefore moves nothing. A partition gets its new weight when that differs by more than
    ``band`` of the old one, or of the mean where that is larger; all others keep exactly
    what they had, so that a plan by these weights is the plan of before.

    Loads that are no finite number, or negative, are not believed.

    >>> hold({("t", 0): 9.0, ("t", 1): 1.0}, {("t", 0): 20.0, ("t", 1): 2.4})
    {('t', 0): 9.0, ('t', 1): 1.0}
    >>> hold({("t", 0): 5.0, ("t", 1): 5.0}, {("t", 0): 9.0, ("t", 1): 1.0})
    {('t', 0): 9.0, ('t', 1): 1.0}
    """
    old, new = known(before), known(measured)
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


def known(loads: Mapping[Partition, float]) -> dict[Partition, float]:
    """Loads that can be true, by topic and partition.

    >>> known({("t", 0): 2.0, ("t", 1): float("nan"), ("t", 2): -1.0})
    {('t', 0): 2.0}
    """
    return {p: float(x) for p, x in sorted(loads.items()) if math.isfinite(x) and x >= 0}


def _floored(loads: dict[Partition, float]) -> dict[Partition, float]:
    least = _LEAST * _mean(loads.values())
    return {one: max(load, least) for one, load in loads.items()}


def _mean(loads: Iterable[float]) -> float:
    some = list(loads)
    return sum(some) / len(some) if some else 0.0
