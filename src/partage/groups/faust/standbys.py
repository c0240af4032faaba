"""Greedy placement of standbys with exchanges, so that any member's failure spreads evenly.

Copies stay where they were as far as that leaves them even; a seeded draw decides among equals.
Two things are even in the end: for each member, how many of its partitions each other member
has a copy of (they differ by one at most); and then, as far as exchanges within that allow, the
total of each member, active partitions and copies: the member with less takes over more.
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
    """Return by partition the positions of the members that have a copy of it.

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
    """Copies as they are placed: ``pairs[a, b]`` of the partitions of a have a copy with b.

    One choice after the other, the member with the fewest copies of the owner's partitions is
    taken, then the one with the smallest total, then the first in a drawn order. A choice changes
    only the scores of the member chosen, so all copies of a partition are chosen by one sort.
    """

    def __init__(self, owner: Sequence[int], members: int, draw: Draw) -> None:
        self._owner = owner
        self._members = members
        self._pairs = np.zeros((members, members), np.int64)
        # Active partitions and copies by member.
        self._total = np.bincount(np.array(owner, np.int64), minlength=members)
        self._order = draw.shuffled(range(len(owner)))
        # By owner a number for each member: the lower one comes first among equals.
        self._drawn = draw.numbers(members * members).reshape(members, members)
        self._of_owner: list[list[int]] = [[] for _ in range(members)]
        for p in self._order:
            self._of_owner[owner[p]].append(p)
        self.copies: list[set[int]] = [set() for _ in owner]
        self._kept: list[set[int]] = [set() for _ in owner]

    def keep(self, before: Remembered, wanted: int) -> None:
        """Keep copies that exist; of more than ``wanted`` those that leave the rows even."""
        for p in self._order:
            there = {*before.copies[p], before.owner[p]} - {-1, self._owner[p]}
            self._put(p, self._best(p, np.array(sorted(there), np.intp), wanted))
            self._kept[p] = set(self.copies[p])

    def fill(self, wanted: int) -> None:
        """Place missing copies where the owner has fewest, then where the total is smallest."""
        is_able = np.ones(self._members, np.bool_)
        for p in self._order:
            missing = wanted - len(self.copies[p])
            if missing > 0:
                excluded = [self._owner[p], *self.copies[p]]
                is_able[excluded] = False
                self._put(p, self._best(p, np.flatnonzero(is_able), missing))
                is_able[excluded] = True

    def even_by_owner(self) -> None:
        """Move copies of each owner's partitions from the member with most to that with fewest."""
        for owner in range(self._members):
            row = self._pairs[owner]
            others = np.delete(np.arange(self._members), owner)
            while np.ptp(row[others]) > 1:
                # By copies of this owner, then by total; the first member among equals.
                score = row[others] * (int(self._total.max()) + 1) + self._total[others]
                self._move(owner, int(others[score.argmax()]), int(others[score.argmin()]))

    def even_in_all(self) -> None:
        """Move copies from the largest total to the smallest where owners' rows stay even."""
        while (found := self._exchange()) is not None:
            self._move(*found)

    def _exchange(self) -> tuple[int, int, int] | None:
        """Return (owner, from, to) that narrows a gap of two or more; None if there is none.

        The largest totals come first, and for each of them the smallest.
        """
        total = self._total
        order = np.argsort(total, kind="stable")
        for most in order[::-1].tolist():
            smaller = order[: np.searchsorted(total[order], total[most] - 1)]
            if not smaller.size:
                return None
            more = self._pairs[:, most][:, None] > self._pairs[:, smaller]
            more[most] = False
            more[smaller, np.arange(smaller.size)] = False
            found = more.any(axis=0)
            if found.any():
                place = int(found.argmax())
                return int(more[:, place].argmax()), most, int(smaller[place])
        return None

    def _best(self, p: int, able: NDArray[np.intp], count: int) -> list[int]:
        """Return the best members of ``able`` for copies of a partition, at most ``count``."""
        owner = self._owner[p]
        keys = (self._drawn[owner, able], self._total[able], self._pairs[owner, able])
        best: list[int] = able[np.lexsort(keys)[:count]].tolist()
        return best

    def _put(self, p: int, members: list[int]) -> None:
        self.copies[p].update(members)
        self._pairs[self._owner[p], members] += 1
        self._total[members] += 1

    def _move(self, owner: int, most: int, least: int) -> None:
        """Move a copy of one of an owner's partitions; prefer one that is not kept."""
        able = [
            p for p in self._of_owner[owner]
            if most in self.copies[p] and least not in self.copies[p]
        ]  # fmt: skip
        p = min(able, key=lambda p: most in self._kept[p])
        self.copies[p].remove(most)
        self._pairs[owner, most] -= 1
        self._total[most] -= 1
        self._put(p, [least])
