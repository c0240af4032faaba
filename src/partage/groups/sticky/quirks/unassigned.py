"""Unassigned slots of the general algorithm if members claim partitions that do not exist.

``AbstractStickyAssignor.GeneralAssignmentBuilder`` sorts the kept partitions and iterates all
partitions, counted from 0, in parallel: a partition that is not the next of the list is unassigned.
A kept partition that the iteration has passed or never meets stops the list: all later partitions
are unassigned, kept or not (Q26).

Its ``PartitionComparator`` subtracts partition numbers as ints. If two numbers of a topic are more
than 2**31 - 1 apart (-1 and 2147483647), the difference overflows, and the larger one comes first.
With a third number between them the comparator contradicts itself: the order then depends on the
steps of Java's sort, which may throw. The constrained algorithm compares numbers as ``Integer``
does and is not affected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.decision import StickyAssignorError
from partage.groups.sticky.problem import StickyProblem
from partage.java.list_sort import ComparatorError, list_sort
from partage.model.index import Int32Array

__all__ = ["unassigned_along_walk"]

_HALF = 1 << 31


def unassigned_along_walk(
    sticky: StickyProblem,
    walk: Int32Array,
    claims: tuple[Int32Array, Int32Array],
    sort_key: NDArray[np.int64],
) -> Int32Array:
    """Return the partitions that Kafka's sticky assignor treats as unassigned, if reports are
    invalid.

    A member may report a partition as owned that does not exist. Kafka's class then treats some
    other, owned partitions as unassigned, too (Q26 in docs/quirks.md).

    Args:
        sticky: the problem, which has the iteration order of members.
        walk: the partitions in the order in which Kafka numbers them, from 0 for each topic.
        claims: members and slots of the valid reports, in the order sent.
        sort_key: int64[S], sort key of all slots: the topic's rank above bit 32, the number plus
            2**31 below.

    Raises:
        StickyAssignorError: Java's sort detects the overflow (``IllegalArgumentException``).
    """
    order = _sort_as_java(sticky, *claims, sort_key)
    position = np.full(len(sort_key), -1, np.int64)
    position[walk] = np.arange(len(walk))
    at = position[order]
    # The comparison continues as long as each kept slot is met after the one before.
    stops = np.flatnonzero(at <= np.concatenate([[-1], at[:-1]]))
    matched = at[: stops[0]] if len(stops) else at
    free = np.ones(len(walk), bool)
    free[matched] = False
    out: Int32Array = walk[free]
    return out


def _sort_as_java(
    sticky: StickyProblem, member: Int32Array, kept: Int32Array, place: NDArray[np.int64]
) -> Int32Array:
    order: Int32Array = kept[np.argsort(place[kept], kind="stable")]
    key = place[order]
    ends = np.flatnonzero(np.diff(key >> 32)) + 1
    first, last = np.concatenate([[0], ends]), np.concatenate([ends - 1, [len(key) - 1]])
    if (key[last] - key[first]).max() < _HALF:
        return order
    visited = np.empty(sticky.members, np.int32)
    visited[sticky.members_in_assignment_order] = np.arange(sticky.members, dtype=np.int32)
    filled = kept[np.argsort(visited[member], kind="stable")]
    pairs = list(zip(place[filled].tolist(), filled.tolist(), strict=True))
    try:
        return np.array([s for _, s in list_sort(pairs, _compare)], np.int32)
    except ComparatorError as error:
        what = f"the difference of two claimed partition numbers overflows (Kafka's class: {error})"
        raise StickyAssignorError(what, "IllegalArgumentException") from None


def _compare(first: tuple[int, int], second: tuple[int, int]) -> int:
    # The numbers' difference is a Java int, which may overflow.
    topics = (first[0] >> 32) - (second[0] >> 32)
    return topics or ((first[0] - second[0] + _HALF) & 0xFFFFFFFF) - _HALF
