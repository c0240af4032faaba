"""Members by load, then by rank: who comes first, who last."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence

__all__ = ["Ring"]


class Ring:
    """Members of a run that can get or give, sorted by (load, rank).

    >>> ring = Ring([2, 0], rank=[0, 1])
    >>> ring.put(1, 3)
    >>> list(ring), ring.lowest, ring.highest
    ([0, 1], 2, 3)
    """

    def __init__(self, load: Sequence[int], rank: Sequence[int]) -> None:
        self.load = list(load)
        self._rank = rank
        self._member = sorted(range(len(rank)), key=rank.__getitem__)
        self._keys = sorted((n, rank[m]) for m, n in enumerate(load))

    def __iter__(self) -> Iterator[int]:
        return (self._member[rank] for _, rank in self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def lowest(self) -> int:
        """The least load."""
        return self._keys[0][0]

    @property
    def highest(self) -> int:
        """The largest load."""
        return self._keys[-1][0]

    def remove(self, member: int) -> None:
        """Take a member out for good; its load stays known."""
        del self._keys[bisect_left(self._keys, (self.load[member], self._rank[member]))]

    def put(self, member: int, load: int) -> None:
        """A member's load changed."""
        self.remove(member)
        self.load[member] = load
        insort(self._keys, (load, self._rank[member]))

    def first(self, fits: Callable[[int], bool]) -> int:
        """The first member that fits, -1 if nobody does."""
        return next((m for m in self if fits(m)), -1)
