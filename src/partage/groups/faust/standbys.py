"""Greedy placement of standbys with exchanges, so that any member's failure spreads evenly.

Standbys stay where they are as far as the placement stays even; a seeded generator decides among
equal placements. Two figures are even at the end:

* for each member, how many standbys of its partitions each other member has (the counts differ
  by at most one);
* each member's total of active and standby partitions, as far as exchanges that keep the first
  figure even allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.groups.faust.inputs import PreviousCopies

__all__ = ["SplitMix64", "place_standbys"]

_MASK = 2**64 - 1
#: SplitMix64's increment, 2**64 divided by the golden ratio.
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_Item = TypeVar("_Item")


class SplitMix64:
    """A seeded generator with the same output on every machine and Python version.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).

    >>> generator = SplitMix64(7)
    >>> sorted(generator.permute([1, 2, 3])), generator.next_number() == SplitMix64(7).next_number()
    ([1, 2, 3], False)
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next_number(self) -> int:
        """Return the next 64-bit number."""
        return int(self.next_numbers(1)[0])

    def next_numbers(self, count: int) -> NDArray[np.uint64]:
        """Return the next numbers, computed at once: the state is a counter.

        >>> SplitMix64(7).next_numbers(1).tolist() == [SplitMix64(7).next_number()]
        True
        """
        steps = np.arange(1, count + 1, dtype=np.uint64)
        z = steps * np.uint64(_GOLDEN_GAMMA) + np.uint64(self._state)
        self._state = (self._state + count * _GOLDEN_GAMMA) & _MASK
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        numbers: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return numbers

    def permute(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items in random order."""
        order = np.argsort(self.next_numbers(len(items)), kind="stable")
        return [items[i] for i in order.tolist()]


def place_standbys(
    previous: PreviousCopies,
    owner: Sequence[int],
    members: int,
    replicas: int,
    generator: SplitMix64,
) -> list[set[int]]:
    """Return by partition the members that get a standby of it.

    Args:
        previous: previous owners and standbys, whose copies exist already.
        owner: by partition its active member.
        members: number of members.
        replicas: standbys of each partition; at most one on each other member.
        generator: decides among equal placements.

    >>> previous = PreviousCopies([0, 1], [[2], []])
    >>> place_standbys(previous, [0, 1], 3, 1, SplitMix64(0))
    [{2}, {0}]
    """
    placement = _Placement(owner, members, generator)
    wanted = min(replicas, members - 1)
    if wanted > 0:
        placement.keep_existing(previous, wanted)
        placement.add_missing(wanted)
        placement.balance_by_owner()
        placement.balance_totals()
    return placement.standbys


class _Placement:
    """Standbys during their placement.

    A choice prefers the member with the fewest standbys of the owner's partitions, then the
    smallest total, then the lowest random number. It only changes the figures of the chosen member,
    so one sort chooses all standbys of a partition.

    Attributes:
        standbys: by partition the members with a standby.
        _count: int64[M, M], the number of standbys of one member's (row) partitions on another
            member (column).
        _total: int64[M], the active and standby partitions of each member.
        _order: partitions in random order.
        _random: uint64[M, M], a random number for each owner (row) and member (column).
        _existing: by partition the members whose copy was kept.
    """

    def __init__(self, owner: Sequence[int], members: int, generator: SplitMix64) -> None:
        self._owner = owner
        self._members = members
        self._count = np.zeros((members, members), np.int64)
        self._total = np.bincount(np.array(owner, np.int64), minlength=members)
        self._order = generator.permute(range(len(owner)))
        self._random = generator.next_numbers(members * members).reshape(members, members)
        self._owned: list[list[int]] = [[] for _ in range(members)]
        for p in self._order:
            self._owned[owner[p]].append(p)
        self.standbys: list[set[int]] = [set() for _ in owner]
        self._existing: list[set[int]] = [set() for _ in owner]

    def keep_existing(self, previous: PreviousCopies, wanted: int) -> None:
        """Keep existing copies; if there are more than ``wanted``, keep the most even ones."""
        for p in self._order:
            copies = {*previous.standbys[p], previous.owner[p]} - {-1, self._owner[p]}
            self._add(p, self._best_members(p, np.array(sorted(copies), np.intp), wanted))
            self._existing[p] = set(self.standbys[p])

    def add_missing(self, wanted: int) -> None:
        """Add standbys until each partition has ``wanted``."""
        is_candidate = np.ones(self._members, np.bool_)
        for p in self._order:
            missing = wanted - len(self.standbys[p])
            if missing > 0:
                excluded = [self._owner[p], *self.standbys[p]]
                is_candidate[excluded] = False
                self._add(p, self._best_members(p, np.flatnonzero(is_candidate), missing))
                is_candidate[excluded] = True

    def balance_by_owner(self) -> None:
        """Move standbys until the counts for each owner differ by at most one."""
        for owner in range(self._members):
            count = self._count[owner]
            others = np.delete(np.arange(self._members), owner)
            while np.ptp(count[others]) > 1:
                # By standbys of this owner's partitions, then by total; the first of equals.
                score = count[others] * (int(self._total.max()) + 1) + self._total[others]
                self._move(owner, int(others[score.argmax()]), int(others[score.argmin()]))

    def balance_totals(self) -> None:
        """Move standbys from larger to smaller totals while the counts by owner stay even."""
        while (exchange := self._find_exchange()) is not None:
            self._move(*exchange)

    def _find_exchange(self) -> tuple[int, int, int] | None:
        """Return (owner, source, target) of a move between totals that differ by two or more.

        The largest totals come first, and for each of them the smallest. None if no move exists.
        """
        total = self._total
        order = np.argsort(total, kind="stable")
        for source in order[::-1].tolist():
            smaller = order[: np.searchsorted(total[order], total[source] - 1)]
            if not smaller.size:
                return None
            has_more = self._count[:, source][:, None] > self._count[:, smaller]
            has_more[source] = False
            has_more[smaller, np.arange(smaller.size)] = False
            is_possible = has_more.any(axis=0)
            if is_possible.any():
                column = int(is_possible.argmax())
                return int(has_more[:, column].argmax()), source, int(smaller[column])
        return None

    def _best_members(self, p: int, candidates: NDArray[np.intp], limit: int) -> list[int]:
        """Return the best candidates for standbys of a partition, at most ``limit``."""
        owner = self._owner[p]
        keys = (
            self._random[owner, candidates],
            self._total[candidates],
            self._count[owner, candidates],
        )
        best: list[int] = candidates[np.lexsort(keys)[:limit]].tolist()
        return best

    def _add(self, p: int, members: list[int]) -> None:
        self.standbys[p].update(members)
        self._count[self._owner[p], members] += 1
        self._total[members] += 1

    def _move(self, owner: int, source: int, target: int) -> None:
        """Move a standby of one of an owner's partitions; prefer one whose copy is new."""
        movable = [
            p for p in self._owned[owner]
            if source in self.standbys[p] and target not in self.standbys[p]
        ]  # fmt: skip
        p = min(movable, key=lambda p: source in self._existing[p])
        self.standbys[p].remove(source)
        self._count[owner, source] -= 1
        self._total[source] -= 1
        self._add(p, [target])
