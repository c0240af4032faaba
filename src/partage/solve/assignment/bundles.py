"""Bundling: topics with the same subscribers are one, and so are members alike.

Which member of a bundle gets a partition does not matter for loads, only how many the
bundle gets; a group in which all subscribe to the same is one topic and one member.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.eligibility import Eligibility
from partage.solve.assignment.flow import IntArray

__all__ = ["Bundles", "bundle"]


@dataclass(frozen=True, slots=True, eq=False)
class Bundles:
    """Bundles of topics and of members, and the arcs between them.

    Attributes:
        partitions: int64[T], partitions of each topic.
        topic: int64[T], bundle of each topic, -1 if it has no partition or no subscriber.
        member: int64[M], bundle of each member, -1 if no such topic is open to it.
        supply: int64[B], partitions of each topic bundle.
        size: int64[G], members of each member bundle.
        arc_topic, arc_member: int64[A], the eligible pairs of bundles.
    """

    partitions: IntArray
    topic: IntArray
    member: IntArray
    supply: IntArray
    size: IntArray
    arc_topic: IntArray
    arc_member: IntArray


def bundle(eligibility: Eligibility) -> Bundles:
    """Bundle equal members, then the topics that are open to the same member bundles."""
    partitions = np.asarray(eligibility.partitions, np.int64)
    member, rows = _alike(
        np.asarray(eligibility.start, np.int64),
        np.asarray(eligibility.topic, np.int64),
        partitions > 0,
    )
    if eligibility.subscription is not None:
        member = member[eligibility.subscription]
    pairs_member = np.repeat(np.arange(len(rows)), [len(r) for r in rows]).astype(np.int64)
    pairs_topic = np.concatenate([*rows, np.zeros(0, np.int64)])
    order = np.lexsort((pairs_member, pairs_topic))
    start = np.searchsorted(pairs_topic[order], np.arange(len(partitions) + 1))
    everyone = np.ones(len(rows), bool)
    topic, subscribers = _alike(start.astype(np.int64), pairs_member[order], everyone)
    open_topics = topic >= 0
    return Bundles(
        partitions=partitions,
        topic=topic,
        member=member,
        supply=np.bincount(
            topic[open_topics], partitions[open_topics], minlength=len(subscribers)
        ).astype(np.int64),
        size=np.bincount(member[member >= 0], minlength=len(rows)).astype(np.int64),
        arc_topic=np.repeat(np.arange(len(subscribers)), [len(r) for r in subscribers]).astype(
            np.int64
        ),
        arc_member=np.concatenate([*subscribers, np.zeros(0, np.int64)]),
    )


def _alike(
    start: IntArray, column: IntArray, counts: NDArray[np.bool_]
) -> tuple[IntArray, list[IntArray]]:
    """Class of each CSR row, -1 for an empty one; and the columns of each class.

    Rows of one class are equal as sets of the columns that count.
    """
    kept = counts[column] if len(column) else np.zeros(0, bool)
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))[kept]
    column = column[kept]
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    ends = np.searchsorted(row, np.arange(len(start)))
    seen: dict[bytes, int] = {}
    classes: list[IntArray] = []
    of = np.full(len(start) - 1, -1, np.int64)
    for i, (a, b) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        if a == b:
            continue
        mine = column[a:b]
        known = seen.setdefault(mine.tobytes(), len(classes))
        if known == len(classes):
            classes.append(mine)
        of[i] = known
    return of, classes
