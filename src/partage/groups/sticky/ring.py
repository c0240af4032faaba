"""Members by (size, id), for each cell of members with one subscription and one rack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.distinct import numbered
from partage.groups.sticky.table import Table
from partage.model.index import Int32Array

__all__ = ["Ring"]


class Ring:
    """A tournament tree a cell: its root is the member that comes first in Kafka's tree set.

    A member's key is ``size * members + rank of its id``. Cell ``c`` has the tree from
    ``base[c]`` on, root at offset 1, children of ``i`` at ``2i`` and ``2i + 1``.

    Attributes:
        cell_of: int32[M]; leaf: int32[M], offset of a member's leaf in its tree.
        base: int64[C]; tree: int64, all trees.
        cell_start, cell: the cells that subscribe to each topic (CSR by topic).
        cell_rack: int32[C], -1 for members without rack.
        rank, by_rank: int32[M], Java's order of ids and its inverse.
        stamp: int32[C], scratch: the topic for which a cell was last seen.
        depth: steps that one change costs, about.
    """

    def __init__(self, table: Table, size: NDArray[np.int64]) -> None:
        audience, members = table.audience, table.scene.members
        self.rank: Int32Array = table.scene.problem.group.member_rank
        self.by_rank = np.argsort(self.rank).astype(np.int32)
        racks = table.racks.of_member if table.racks.active else np.full(members, -1, np.int32)
        pair = audience.of_member.astype(np.int64) << 32 | (racks.astype(np.int64) + 2)
        kinds, cell_of = numbered(pair)
        self.cell_of: Int32Array = cell_of
        self.cell_rack = ((kinds & 0xFFFFFFFF) - 2).astype(np.int32)
        self._trees(size, members)
        self._cells_of_topics(table, (kinds >> 32).astype(np.int32))
        self.stamp = np.full(len(kinds), -1, np.int32)
        self.depth = 10 + int(members).bit_length()

    def _trees(self, size: NDArray[np.int64], members: int) -> None:
        count = np.bincount(self.cell_of)
        width = np.array([1 << max(int(n) - 1, 0).bit_length() for n in count], np.int64)
        ends = np.cumsum(2 * width)
        self.base = ends - 2 * width
        order = np.lexsort((self.rank, self.cell_of))
        nth = np.arange(members) - np.repeat(np.cumsum(count) - count, count)
        self.leaf = np.empty(members, np.int32)
        self.leaf[order] = (np.repeat(width, count) + nth).astype(np.int32)
        self.tree = np.full(int(ends[-1]), np.iinfo(np.int64).max, np.int64)
        self.tree[self.base[self.cell_of] + self.leaf] = size * members + self.rank
        for base, wide in zip(self.base.tolist(), width.tolist(), strict=True):
            level = wide
            while level > 1:
                row = self.tree[base + level : base + 2 * level]
                level //= 2
                self.tree[base + level : base + 2 * level] = np.minimum(row[::2], row[1::2])

    def _cells_of_topics(self, table: Table, subscription: Int32Array) -> None:
        audience = table.audience
        sizes = np.diff(audience.start)[subscription]
        ends = np.cumsum(sizes)
        at = np.arange(ends[-1]) + np.repeat(audience.start[subscription] - (ends - sizes), sizes)
        topic = audience.topic[at]
        cell = np.repeat(np.arange(len(subscription), dtype=np.int32), sizes)
        order = np.argsort(topic, kind="stable")
        topics = len(table.scene.topics)
        self.cell_start = np.searchsorted(topic[order], np.arange(topics + 1)).astype(np.int32)
        self.cell: Int32Array = cell[order]
