"""The least-majorised loads of the fractional relaxation: partitions may be split over members.

The relaxation is the problem of `loads` with weights for counts and shares for members, so the
same decomposition by cuts solves it. Its largest load is a lower bound of every plan's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partage.errors import ProblemTooLargeError
from partage.solve.assignment.bounding import Burden
from partage.solve.assignment.loads import loads_of
from partage.solve.assignment.weighed_plan import FloatArray

__all__ = ["fractional_loads"]

#: Total weight in units; sums of flows stay far below int64, single supplies below 2**30.
_UNITS = 1 << 29
#: Units of the slowest member's share, where shares differ.
_SLOWEST, _MOST_SHARES = 16, 1 << 16


def fractional_loads(burden: Burden) -> FloatArray | None:
    """Return float64[M], each member's load in the most even fractional plan, within rounding.

    Capacities do not count. None if the decomposition would take too long.
    """
    supply = burden.supply()
    total = float(supply.sum())
    able = (burden.bundles.member >= 0) & (burden.speed > 0)
    if total <= 0 or not able.any():
        return np.zeros(len(burden.speed))
    speeds = burden.speed[able]
    least, most = float(speeds.min()), float(speeds.max())
    unit = least if least == most else max(least / _SLOWEST, most / _MOST_SHARES)
    size = np.rint(burden.by_bundle(np.where(able, burden.speed, 0.0)) / unit).astype(np.int64)
    scale = _UNITS / total
    scaled = replace(
        burden.bundles,
        supply=np.rint(supply * scale).astype(np.int64),
        size=np.maximum(size, 1),
    )
    try:
        by_unit, _, _ = loads_of(scaled)
    except ProblemTooLargeError:
        return None
    share: FloatArray = by_unit / scale * (burden.speed / unit)
    return share
