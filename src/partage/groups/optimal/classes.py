"""Classes of partitions and of members that nothing tells apart, claims aside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.groups.optimal.question import Int64Array, Question
from partage.model import RackTable
from partage.solve import Bundles

__all__ = ["Classes", "compacted"]


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Partitions and members that nothing tells apart, claims aside.

    Attributes:
        of_row: int64[n], class of each row.
        topic_bundle, profile: int64[C], of each class.
        group: int64[M], group of each place, -1 for one who may own nothing.
        groups: how many; bundle, column: int64[G], of each group.
        cost: int64[K, R], rack cost by profile and column.
    """

    of_row: Int64Array
    topic_bundle: Int64Array
    profile: Int64Array
    group: Int64Array
    groups: int
    bundle: Int64Array
    column: Int64Array
    cost: Int64Array

    @classmethod
    def of(cls, question: Question, bundles: Bundles, racks: RackTable | None) -> Classes:
        """Sort rows and places into classes."""
        if racks is None:
            of_row, topic_bundle = bundles.topic[question.topic], np.arange(len(bundles.supply))
            nothing = np.zeros(len(topic_bundle), np.int64)
            return cls(
                of_row, topic_bundle, nothing, bundles.member, len(bundles.size),
                np.arange(len(bundles.size)), np.zeros(len(bundles.size), np.int64),
                np.zeros((1, 1), np.int64),
            )  # fmt: skip
        profile, column, cost = _narrowed(
            racks.profile[question.rows.partition], racks.row[question.order], racks.cost
        )
        of_row, pairs = compacted(bundles.topic[question.topic] * len(cost) + profile)
        wide = cost.shape[1]
        key = np.where(bundles.member >= 0, bundles.member * wide + column, -1)
        group, both = compacted(key)
        if len(both) and both[0] < 0:
            group, both = group - 1, both[1:]
        return cls(
            of_row, pairs // len(cost), pairs % len(cost), group, len(both), both // wide,
            both % wide, cost,
        )  # fmt: skip


def _narrowed(
    profile: Int64Array, row: Int64Array, cost: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Profiles and racks that occur, equal ones made one."""
    if not len(profile) or not len(row):
        return np.zeros_like(profile), np.zeros_like(row), np.zeros((1, 1), np.int64)
    columns, row = _distinct_rows(cost.T, row)
    rows, profile = _distinct_rows(columns.T, profile)
    return profile, row, rows


def _distinct_rows(table: Int64Array, used: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The distinct rows of a table that are used, as first used, and positions in these."""
    there = np.zeros(len(table), bool)
    there[used] = True
    seen: dict[bytes, int] = {}
    number = np.zeros(len(table), np.int64)
    for i in np.flatnonzero(there).tolist():
        number[i] = seen.setdefault(np.ascontiguousarray(table[i]).tobytes(), len(seen))
    kept = [np.frombuffer(one, np.int64) for one in seen]
    return np.stack(kept), number[used]


def compacted(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the position of each value among the distinct ones, and these, ascending."""
    if not len(values):
        return values, values
    low = int(values.min())
    if int(values.max()) - low < 1 << 24:
        there = np.zeros(int(values.max()) - low + 1, bool)
        there[values - low] = True
        return (np.cumsum(there) - 1)[values - low], np.flatnonzero(there) + low
    ordered = np.sort(values)
    ordered = ordered[np.diff(ordered, prepend=ordered[0] - 1) > 0]
    return np.searchsorted(ordered, values), ordered
