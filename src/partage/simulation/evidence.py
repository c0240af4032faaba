"""What a group's commits tell about its rebalances; everything else is simulated without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from partage.history.pauses import Pause
from partage.simulation.loads import Rates

__all__ = ["Evidence"]

#: (incarnation, generation).
_Key = tuple[int, int]
_Partition = tuple[str, int]


@dataclass(frozen=True)
class Evidence:
    """Pauses by rebalance, and rates.

    Attributes:
        pauses: (incarnation, generation) -> its pauses.
        rates: (topic, partition) -> records a second.
        intervals: (topic, partition) -> usual time between two commits in ms.
    """

    pauses: Mapping[_Key, tuple[Pause, ...]] = field(default_factory=dict)
    rates: Rates = field(default_factory=dict)
    intervals: Mapping[_Partition, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pauses: Iterable[Pause] = (), rates: Rates | None = None) -> Evidence:
        """From the pauses of one group, in any order.

        >>> found = Evidence.of([Pause(0, 4, "t", 1, 1_000, 4_000, 0, 500)])
        >>> list(found.pauses), dict(found.intervals)
        ([(0, 4)], {('t', 1): 500})
        """
        by_key: dict[_Key, list[Pause]] = {}
        intervals: dict[_Partition, int] = {}
        for one in pauses:
            by_key.setdefault((one.incarnation, one.generation), []).append(one)
            if one.resolution_ms is not None:
                intervals[one.topic, one.partition] = one.resolution_ms
        kept = {key: tuple(found) for key, found in by_key.items()}
        return cls(kept, rates or {}, intervals)

    def of_rebalance(self, incarnation: int, generation: int) -> tuple[Pause, ...]:
        """The pauses of one rebalance; empty where no commit was seen around it."""
        return self.pauses.get((incarnation, generation), ())
