"""Loads of partitions from offsets: how fast they fill, and how far their readers are behind."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["lags", "rates"]

Partition = tuple[str, int]


def rates(
    before: Mapping[Partition, int], after: Mapping[Partition, int], seconds: float
) -> dict[Partition, float]:
    """Records per second between two looks, of partitions that both have.

    Offsets that go back (a topic made anew, a reader that was reset) say nothing; no time
    between the looks says nothing about anyone.

    >>> rates({("t", 0): 10, ("t", 1): 5}, {("t", 0): 30, ("t", 1): 4}, 2.0)
    {('t', 0): 10.0}
    """
    if not seconds > 0:
        return {}
    both = ((one, after[one] - offset) for one, offset in before.items() if one in after)
    return {one: grown / seconds for one, grown in both if grown >= 0}


def lags(position: Mapping[Partition, int], end: Mapping[Partition, int]) -> dict[Partition, float]:
    """Records that are there and not read, of partitions of which both offsets are known.

    >>> lags({("t", 0): 10, ("t", 1): 7}, {("t", 0): 30, ("t", 1): 5})
    {('t', 0): 20.0, ('t', 1): 0.0}
    """
    both = ((one, end[one] - offset) for one, offset in position.items() if one in end)
    return {one: float(max(behind, 0)) for one, behind in both}
