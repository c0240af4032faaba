"""Records read twice: whoever takes a partition over begins at the last commit, not at the last
record read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partage.model.index import Index, Int32Array
from partage.simulation.evidence import Evidence
from partage.simulation.lived import Bounds
from partage.simulation.loads import FloatArray, by_partition

__all__ = ["most_reread", "reread", "reread_recorded"]


def most_reread(evidence: Evidence, index: Index) -> FloatArray:
    """float64[P]: what comes in within a usual commit interval; NaN where nobody knows.

    >>> most_reread(Evidence(rates={("t", 0): 2.5}, intervals={("t", 0): 3_000}),
    ...             Index.of({"t": 2})).tolist()
    [8.0, nan]
    """
    rates = by_partition(evidence.rates, index)
    intervals = by_partition(evidence.intervals, index)
    most: FloatArray = np.ceil(rates * intervals / 1_000)
    return most


def reread(stops: Int32Array, known: Mapping[int, int], most: FloatArray) -> Bounds | None:
    """Of a policy's rebalance: what the partitions that stop in it may have read again.

    Args:
        stops: int32, dense numbers of these partitions.
        known: of those that stopped in the record too, what they read again there. Any other
            one may have read again between nothing (its owner committed when it let go) and
            what comes in within a usual commit interval.
        most: see `most_reread`.

    Returns:
        None if of no stopping partition anything is known. Where something is known of some of
        them only, the others count nothing: the upper bound is that of those which are known.

    >>> reread(np.array([0, 1], np.int32), {0: 7}, np.array([99.0, 10.0]))
    Bounds(low=7, high=17.0)
    """
    if not len(stops):
        return Bounds(0, 0)
    told = [known[p] for p in stops.tolist() if p in known]
    others = most[[p for p in stops.tolist() if p not in known]] if known else most[stops]
    if not told and bool(np.isnan(others).all()):
        return None
    low = sum(told)
    return Bounds(low, low + float(np.nansum(others)))


def reread_recorded(rewinds: Mapping[int, int]) -> Bounds | None:
    """As recorded: the sum of what went back; None if no partition tells.

    >>> reread_recorded({0: 7, 1: 0})
    Bounds(low=7, high=7)
    """
    if not rewinds:
        return None
    total = sum(rewinds.values())
    return Bounds(total, total)
