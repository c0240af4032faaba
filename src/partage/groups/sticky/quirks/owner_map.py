"""The order of the general algorithm's map of owners, which loses members and gets them back.

``GeneralAssignmentBuilder.balance`` takes the members that can neither give nor take out of
``currentAssignment``, and puts them back in the end. The order of the map decides only where a
partition has two owners (Q26): the last one met counts. Members that leave and come back do not
change the order of the others, but for buckets that are trees, or were: a tree's root is brought
to the front whenever one leaves or comes, and a small tree becomes a chain again.
"""

from __future__ import annotations

from collections.abc import Collection

from partage.groups.sticky.problem import Scene
from partage.java.hash_order import DEFAULT_TABLE, table_for_capacity
from partage.java.tree_bins import HashTable

__all__ = ["WalkedOwners"]


class WalkedOwners:
    """The keys of ``currentAssignment`` from the scan of subscriptions to the end.

    Attributes:
        order: the members that are there, as the map is walked now.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._table = self._filled(scene.visit, DEFAULT_TABLE)
        self._copy: list[int] = []
        self._aside: list[int] = []
        self.order = self._table.order()

    def set_aside(self, fixed: Collection[int]) -> None:
        """Take members out, as Kafka meets them: along a map that is made for all members."""
        if fixed:
            visit = self._scene.visit
            met = self._filled(visit, table_for_capacity(len(visit))).order()
            leaving = [m for m in met if m in fixed]
            for m in leaving:
                self._table.remove(m)
            self._aside = self._filled(leaving, DEFAULT_TABLE).order()
            self.order = self._table.order()
        self._copy = self.order

    def undo(self) -> None:
        """All is put in anew from the copy that was made when members had been set aside."""
        self._table.clear()
        for m in self._filled(self._copy, DEFAULT_TABLE).order():
            self._table.put(m)

    def put_back(self) -> None:
        """Put in again who was set aside."""
        for m in self._aside:
            self._table.put(m)
        self.order = self._table.order()

    def _filled(self, members: list[int], slots: int) -> HashTable:
        rank = self._scene.problem.group.member_rank
        table = HashTable(self._scene.hashes, slots, rank.tolist())
        for m in members:
            table.put(m)
        return table
