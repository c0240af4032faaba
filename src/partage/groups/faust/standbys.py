"""Where the standbys are: so that whoever fails, the others inherit alike.

Kept where they were as far as that leaves them even; drawn by a seed where there is a choice.
Two things are even in the end: for each member, how many of its partitions each other member
has a copy of (they differ by one at most); and then, as far as exchanges within that allow, how
much each member has in all, active partitions and copies: so that who has less inherits more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partage.groups.faust.drawing import Draw
from partage.groups.faust.remembered import Remembered

__all__ = ["standbys"]


def standbys(
    before: Remembered, owner: Sequence[int], members: int, replicas: int, draw: Draw
) -> list[set[int]]:
    """By partition the positions of the members that have a copy of it.

    Args:
        before: who had what: a copy, or the partition itself, need not be made anew.
        owner: by partition its active member.
        members: how many there are.
        replicas: copies wanted of each; no more than there are other members.
        draw: of a choice that nothing else decides.

    >>> standbys(Remembered([0, 1], [[2], []]), [0, 1], 3, 1, Draw(0))
    [{2}, {0}]
    """
    made = _Copies(owner, members, draw)
    wanted = min(replicas, members - 1)
    if wanted > 0:
        made.keep(before, wanted)
        made.fill(wanted)
        made.even_by_owner()
        made.even_in_all()
    return made.copies


class _Copies:
    """Copies as they are placed: ``pairs[a, b]`` of the partitions of a have a copy with b."""

    def __init__(self, owner: Sequence[int], members: int, draw: Draw) -> None:
        self._owner = owner
        self._members = members
        self._pairs = np.zeros((members, members), np.int64)
        self._load = np.bincount(np.array(owner, np.int64), minlength=members)
        self._order = draw.shuffled(range(len(owner)))
        # A table of ranks, drawn once for each owner: who comes first among equals.
        self._rank = [
            dict(zip(draw.shuffled(range(members)), range(members), strict=True))
            for _ in range(members)
        ]
        self._of_owner: list[list[int]] = [[] for _ in range(members)]
        for p in self._order:
            self._of_owner[owner[p]].append(p)
        self.copies: list[set[int]] = [set() for _ in owner]
        self._kept: list[set[int]] = [set() for _ in owner]

    def keep(self, before: Remembered, wanted: int) -> None:
        """What is there already; of more than are wanted those that leave it even."""
        for p in self._order:
            there = {*before.copies[p], before.owner[p]} - {-1, self._owner[p]}
            for _ in range(min(wanted, len(there))):
                self._put(p, self._best(p, there - self.copies[p]))
            self._kept[p] = set(self.copies[p])

    def fill(self, wanted: int) -> None:
        """What is missing goes where least of this owner's is, then where least is at all."""
        everybody = set(range(self._members))
        for p in self._order:
            while len(self.copies[p]) < wanted:
                self._put(p, self._best(p, everybody - self.copies[p] - {self._owner[p]}))

    def even_by_owner(self) -> None:
        """Copies of each owner's partitions, from who has most of them to who has least."""
        for owner in range(self._members):
            others = [m for m in range(self._members) if m != owner]
            while True:
                row = self._pairs[owner]
                total = self._total
                most = max(others, key=lambda m: (row[m], total[m]))
                least = min(others, key=lambda m: (row[m], total[m]))
                if row[most] - row[least] <= 1:
                    break
                self._move(owner, most, least)

    def even_in_all(self) -> None:
        """Copies from who has most in all to who has least, where that leaves owners' rows even."""
        while True:
            found = self._exchange(self._total)
            if found is None:
                return
            self._move(*found)

    def _exchange(self, total: NDArray[np.int64]) -> tuple[int, int, int] | None:
        """(owner, from, to) that narrows a gap of two or more, the widest first; None for none."""
        order = sorted(range(self._members), key=lambda m: (int(total[m]), m))
        for most in reversed(order):
            for least in order:
                if total[most] - total[least] <= 1:
                    break
                more = self._pairs[:, most] > self._pairs[:, least]
                more[[most, least]] = False
                if more.any():
                    return int(more.argmax()), most, least
        return None

    def _best(self, p: int, able: set[int]) -> int:
        owner = self._owner[p]
        row, rank = self._pairs[owner], self._rank[owner]
        total = self._total
        return min(able, key=lambda m: (row[m], total[m], rank[m]))

    @property
    def _total(self) -> NDArray[np.int64]:
        total: NDArray[np.int64] = self._load + self._pairs.sum(axis=0)
        return total

    def _put(self, p: int, member: int) -> None:
        self.copies[p].add(member)
        self._pairs[self._owner[p], member] += 1

    def _move(self, owner: int, most: int, least: int) -> None:
        """A copy of one of an owner's partitions; rather one that has to be made anew anyway."""
        able = [
            p for p in self._of_owner[owner]
            if most in self.copies[p] and least not in self.copies[p]
        ]  # fmt: skip
        p = min(able, key=lambda p: most in self._kept[p])
        self.copies[p].remove(most)
        self._pairs[owner, most] -= 1
        self._put(p, least)
