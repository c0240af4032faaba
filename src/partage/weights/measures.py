"""Loads of partitions from offsets: rates of records, and lags of consumers."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["lags", "rates"]

Partition = tuple[str, int]


def rates(
    before: Mapping[Partition, int], after: Mapping[Partition, int], seconds: float
) -> dict[Partition, float]:
    """Return records per second between two measurements, for partitions in both.

    Partitions whose offset decreases (a recreated topic, a reset consumer) are left out. Without
    time between the measurements the result is empty.

    >>> rates({("t", 0): 10, ("t", 1): 5}, {("t", 0): 30, ("t", 1): 4}, 2.0)
    {('t', 0): 10.0}
    """
    if not seconds > 0:
        return {}
    both = ((one, after[one] - offset) for one, offset in before.items() if one in after)
    return {one: grown / seconds for one, grown in both if grown >= 0}


def lags(position: Mapping[Partition, int], end: Mapping[Partition, int]) -> dict[Partition, float]:
    """Return the lag in records of partitions with both offsets.

    >>> lags({("t", 0): 10, ("t", 1): 7}, {("t", 0): 30, ("t", 1): 5})
    {('t', 0): 20.0, ('t', 1): 0.0}
    """
    both = ((one, end[one] - offset) for one, offset in position.items() if one in end)
    return {one: float(max(behind, 0)) for one, behind in both}
