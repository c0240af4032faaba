"""Weights that a group learns while it runs: by what members measure, or by the leader's look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from partage.clients.shared.cluster import ClusterView
from partage.groups.api import Strategy
from partage.groups.optimal.settings import LEARNT_TOLERANCE as TOLERANCE
from partage.groups.optimal.settings import configured_by_loads
from partage.model import Member
from partage.weights import hold

__all__ = ["TOLERANCE", "Loads"]

_SMALLEST = 0.001

Partition = tuple[str, int]
Reported = tuple[Member, Mapping[Partition, float], Mapping[Partition, float]]


@dataclass(slots=True)
class Loads:
    """Where the weights of a plan come from, and what they were in the last one.

    The weights that a plan used go with each member's assignment and come back with its next
    subscription. No leader has to remember them, and a new one goes on where the last one
    ended: that is what the hysteresis of `partage.weights` needs.

    Attributes:
        tolerance: see `TOLERANCE`; None where the strategy's own setting decides.
        held: the weights of this member's partitions in the last plan.
        weights: those of all partitions in the last plan that this consumer made.
    """

    tolerance: float | None = TOLERANCE
    held: dict[Partition, float] = field(default_factory=dict)
    weights: dict[Partition, float] = field(default_factory=dict)

    def received(self, held: Mapping[Partition, float]) -> None:
        """This member's assignment came with these weights."""
        self.held = dict(held)

    def weighed(
        self,
        strategy: Strategy,
        reported: Iterable[Reported],
        looked: Mapping[Partition, float],
        view: ClusterView,
    ) -> Strategy:
        """The strategy with the weights of now; ``looked`` counts more than reports.

        A member's reports count for partitions that it claims only: nobody can make
        another's partitions heavy.
        """
        measured: dict[Partition, float] = {}
        before: dict[Partition, float] = {}
        for member, loads, held in reported:
            mine = set(member.owned)
            measured |= {one: load for one, load in loads.items() if one in mine}
            before |= {one: load for one, load in held.items() if one in mine}
        # A partition that nobody had meanwhile: what this leader counted with, if it knows.
        before = {**self.weights, **before}
        now = {**measured, **looked}
        # As they travel, in thousandths: whoever reads the log comes to the same plan.
        self.weights = {
            one: max(round(load, 3), _SMALLEST)
            for one, load in hold(before, now).items() if _there(view, *one)
        }  # fmt: skip
        counts = {topic: max(numbers) + 1 for topic, numbers in view.topics.items() if numbers}
        return configured_by_loads(strategy, self.weights, counts, self.tolerance)


def _there(view: ClusterView, topic: str, number: int) -> bool:
    return topic in view.topics and number in view.topics[topic]
