"""What has moved from whom to whom in one run of a peer's sticky algorithm."""

from __future__ import annotations

from bisect import bisect_left, insort

__all__ = ["Movements"]


class Movements:
    """By partition where it came from and where it is; by topic and pair what went that way.

    The clients keep a pair's partitions in a hash set and take any of them, in an order that
    changes with the hash seed of the process; here it is the first by topic and number.
    """

    def __init__(self) -> None:
        self._pair: dict[int, tuple[int, int]] = {}
        self._went: dict[tuple[int, int, int], list[int]] = {}

    def instead(self, spot: int, topic: int, source: int, target: int) -> int:
        """What to move for ``spot``: something that went the opposite way, if anything did."""
        if spot in self._pair:
            source = self._pair[spot][0]
        back = self._went.get((topic, target, source))
        return back[0] if back else spot

    def moved(self, spot: int, topic: int, source: int, target: int) -> None:
        """A partition went from its holder to another; only where it came from first counts."""
        if spot in self._pair:
            source, before = self._pair.pop(spot)
            went = self._went[topic, source, before]
            del went[bisect_left(went, spot)]
            if not went:
                del self._went[topic, source, before]
            if source == target:
                return
        self._pair[spot] = (source, target)
        insort(self._went.setdefault((topic, source, target), []), spot)

    def state(self) -> frozenset[tuple[int, tuple[int, int]]]:
        """Everything there is to know: two equal states go on alike."""
        return frozenset(self._pair.items())
