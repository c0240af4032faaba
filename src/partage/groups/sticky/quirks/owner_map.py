"""Iteration order of ``currentAssignment``, from which Kafka removes members and re-adds them.

``GeneralAssignmentBuilder.balance`` removes members that can neither lose nor get a slot from
``currentAssignment`` and re-adds them at the end. The order of the map only matters where a
partition has two owners (Q26): the last one counts. Removals do not change the order of the other
members, except in buckets that are or were trees: a tree's root moves to the front with each
removal or insertion, and a small tree becomes a chain again.
"""

from __future__ import annotations

from collections.abc import Collection

from partage.groups.sticky.problem import StickyProblem
from partage.java.hash_order import DEFAULT_TABLE, table_for_capacity
from partage.java.tree_bins import HashTable

__all__ = ["OwnerMap"]


class OwnerMap:
    """The keys of ``currentAssignment`` from the scan of subscriptions to the end.

    Attributes:
        order: the members that are there, as the map is owner_order now.
    """

    def __init__(self, sticky: StickyProblem) -> None:
        self._sticky = sticky
        self._table = self._filled(sticky.visit, DEFAULT_TABLE)
        self._copy: list[int] = []
        self._aside: list[int] = []
        self.order = self._table.order()

    def remove_fixed(self, fixed: Collection[int]) -> None:
        """Remove members in Kafka's order: that of a map created for all members."""
        if fixed:
            visit = self._sticky.visit
            iterated = self._filled(visit, table_for_capacity(len(visit))).order()
            leaving = [m for m in iterated if m in fixed]
            for m in leaving:
                self._table.remove(m)
            self._aside = self._filled(leaving, DEFAULT_TABLE).order()
            self.order = self._table.order()
        self._copy = self.order

    def restore(self) -> None:
        """Refill the map from the copy made after the removal, as Kafka does."""
        self._table.clear()
        for m in self._filled(self._copy, DEFAULT_TABLE).order():
            self._table.put(m)

    def add_fixed(self) -> None:
        """Re-add the removed members."""
        for m in self._aside:
            self._table.put(m)
        self.order = self._table.order()

    def _filled(self, members: list[int], slots: int) -> HashTable:
        rank = self._sticky.problem.group.member_rank
        table = HashTable(self._sticky.hashes, slots, rank.tolist())
        for m in members:
            table.put(m)
        return table
