"""Which partitions the general algorithm takes for free, beside claims that do not exist.

``AbstractStickyAssignor.GeneralAssignmentBuilder`` sorts what is kept and goes through all
partitions, counted from 0, along that list: one that is not the next of the list is free. A kept
partition that the walk has passed already, or never meets, therefore stops the list: all that
come later are free, kept or not (Q26).

Its ``PartitionComparator`` subtracts partition numbers as ints. Where two of a topic lie more
than 2**31 - 1 apart (-1 and 2147483647), the difference overflows, and the larger one comes
first; with a third between them the comparator contradicts itself, and what comes first depends
on the order in which the list was filled, on the sort's steps, and may be an exception. The
constrained algorithm compares the numbers as ``Integer`` does, and has none of this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.decision import JavaRefusal
from partage.groups.sticky.problem import Scene
from partage.java.list_sort import ComparatorError, list_sort
from partage.model.index import Int32Array

__all__ = ["still_free"]

_HALF = 1 << 31


def still_free(
    scene: Scene,
    walk: Int32Array,
    claims: tuple[Int32Array, Int32Array],
    place: NDArray[np.int64],
) -> Int32Array:
    """The spots of ``walk`` that Kafka takes for nobody's.

    Args:
        scene: what members are visited in.
        walk: the spots met by counting, in order of place.
        claims: who keeps what (members, spots), lists as sent.
        place: int64[S], (topic, number) of all spots in the order compared: the topic above bit
            32, the number plus 2**31 below.

    Raises:
        JavaRefusal: Java's sort noticed that numbers overflow (``IllegalArgumentException``).
    """
    order = _in_javas_order(scene, *claims, place)
    met = np.full(len(place), -1, np.int64)
    met[walk] = np.arange(len(walk))
    at = met[order]
    # The list goes on as long as each is met, after the one before.
    stops = np.flatnonzero(at <= np.concatenate([[-1], at[:-1]]))
    matched = at[: stops[0]] if len(stops) else at
    free = np.ones(len(walk), bool)
    free[matched] = False
    out: Int32Array = walk[free]
    return out


def _in_javas_order(
    scene: Scene, member: Int32Array, kept: Int32Array, place: NDArray[np.int64]
) -> Int32Array:
    order: Int32Array = kept[np.argsort(place[kept], kind="stable")]
    key = place[order]
    ends = np.flatnonzero(np.diff(key >> 32)) + 1
    first, last = np.concatenate([[0], ends]), np.concatenate([ends - 1, [len(key) - 1]])
    if (key[last] - key[first]).max() < _HALF:
        return order
    visited = np.empty(scene.members, np.int32)
    visited[scene.owners] = np.arange(scene.members, dtype=np.int32)
    filled = kept[np.argsort(visited[member], kind="stable")]
    pairs = list(zip(place[filled].tolist(), filled.tolist(), strict=True))
    try:
        return np.array([s for _, s in list_sort(pairs, _compared)], np.int32)
    except ComparatorError as error:
        what = f"the difference of two claimed partition numbers overflows (Kafka's class: {error})"
        raise JavaRefusal(what, "IllegalArgumentException") from None


def _compared(one: tuple[int, int], other: tuple[int, int]) -> int:
    """By topic, then by the difference of the numbers as a Java int."""
    topics = (one[0] >> 32) - (other[0] >> 32)
    return topics or ((one[0] - other[0] + _HALF) & 0xFFFFFFFF) - _HALF
