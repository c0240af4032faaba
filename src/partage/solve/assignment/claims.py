"""Claims sorted by what they mean for the flow: one claimant, several, or none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.bundles import Bundles
from partage.solve.assignment.eligibility import Ownership
from partage.solve.assignment.flow import IntArray

__all__ = ["SortedClaims", "sort_claims"]


@dataclass(frozen=True, slots=True, eq=False)
class SortedClaims:
    """Claims of members who may still own the partition, bundled.

    Attributes:
        topic: int64[P], topic bundle of each partition, -1 where nobody may own it.
        owned: bool[P], owned before, and somebody may own it now.
        arc_topic, arc_member, arc_supply: int64[A], topic bundle, its only claimant, and
            for how many partitions.
        arc_of: int64[P], position of a partition in these, -1 if it has none.
        class_topic, class_supply: int64[C], partitions of one topic bundle with the same
            claimants, two or more.
        class_start: int64[C + 1]; class_claimant: int64[n], those claimants (CSR).
        class_of: int64[P], position of a partition in these, -1 if it has none.
    """

    topic: IntArray
    owned: NDArray[np.bool_]
    arc_topic: IntArray
    arc_member: IntArray
    arc_supply: IntArray
    arc_of: IntArray
    class_topic: IntArray
    class_supply: IntArray
    class_start: IntArray
    class_claimant: IntArray
    class_of: IntArray


def sort_claims(bundles: Bundles, ownership: Ownership) -> SortedClaims:
    """Drop claims of members who may no longer own the partition, and bundle the others."""
    topic = bundles.topic[np.asarray(ownership.topic_of, np.int64)]
    partition, member = _eligible(bundles, ownership, topic)
    claimants = np.bincount(partition, minlength=len(topic))
    single = claimants[partition] == 1
    members = max(len(bundles.member), 1)
    key = topic[partition[single]] * members + member[single]
    arcs, which, supply = np.unique(key, return_inverse=True, return_counts=True)
    arc_of = np.full(len(topic), -1, np.int64)
    arc_of[partition[single]] = which
    classes, class_of = _contested(partition[~single], member[~single], topic)
    return SortedClaims(
        topic=topic,
        owned=ownership.owned & (topic >= 0),
        arc_topic=arcs // members,
        arc_member=arcs % members,
        arc_supply=supply.astype(np.int64),
        arc_of=arc_of,
        class_topic=np.array([t for t, _ in classes], np.int64),
        class_supply=np.bincount(class_of[class_of >= 0], minlength=len(classes)).astype(np.int64),
        class_start=np.cumsum([0, *(len(who) for _, who in classes)], dtype=np.int64),
        class_claimant=np.array([m for _, who in classes for m in who], np.int64),
        class_of=class_of,
    )


def _eligible(bundles: Bundles, ownership: Ownership, topic: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct pairs (partition, claimant who may own it) of owned partitions, sorted."""
    partition = np.repeat(np.arange(len(topic)), np.diff(ownership.start)).astype(np.int64)
    member = np.asarray(ownership.claimant, np.int64)
    good = (topic[partition] >= 0) & ownership.owned[partition]
    partition, member = partition[good], member[good]
    width = max(len(bundles.size), 1)
    open_pairs = bundles.arc_topic * width + bundles.arc_member
    pairs = topic[partition] * width + bundles.member[member]
    good = (bundles.member[member] >= 0) & np.isin(pairs, open_pairs)
    members = max(len(bundles.member), 1)
    keys = np.unique(partition[good] * members + member[good])
    return keys // members, keys % members


def _contested(
    partition: IntArray, member: IntArray, topic: IntArray
) -> tuple[list[tuple[int, tuple[int, ...]]], IntArray]:
    """Partitions with the same topic bundle and the same claimants are one class."""
    class_of = np.full(len(topic), -1, np.int64)
    seen: dict[tuple[int, tuple[int, ...]], int] = {}
    which, start = np.unique(partition, return_index=True)
    ends = np.append(start, len(partition))[1:].tolist()
    who = member.tolist()
    for p, a, b in zip(which.tolist(), start.tolist(), ends, strict=True):
        class_of[p] = seen.setdefault((int(topic[p]), tuple(who[a:b])), len(seen))
    return list(seen), class_of
