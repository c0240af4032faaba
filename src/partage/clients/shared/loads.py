"""Weights that a group learns while it runs, from its members' or its leader's measurements."""

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
    """Partition weights (measured loads) that a group learns while it runs, as one of its consumers
    knows them.

    Each assignment carries the weights that the plan used, and the member's next subscription
    returns them. So a new leader continues from the last weights, which the hysteresis of
    `partage.weights` needs, and no leader has to remember them.

    Attributes:
        tolerance: see `TOLERANCE`; None if the strategy's own setting decides.
        held: weights of this member's partitions in the last plan.
        weights: weights of all partitions in the last plan that this consumer made.
    """

    tolerance: float | None = TOLERANCE
    held: dict[Partition, float] = field(default_factory=dict)
    weights: dict[Partition, float] = field(default_factory=dict)

    def received(self, held: Mapping[Partition, float]) -> None:
        """Store the partition weights that the leader sent with this consumer's assignment."""
        self.held = dict(held)

    def weighed(
        self,
        strategy: Strategy,
        reported: Iterable[Reported],
        looked: Mapping[Partition, float],
        view: ClusterView,
    ) -> Strategy:
        """Return a copy of the strategy that balances partitions by their measured loads.

        Members report the loads of their partitions. Reports count only for partitions that a
        member says it owns, so that no member can change the weights of another's partitions. Loads
        that the leader measured replace reports.

        Args:
            strategy: the strategy to configure.
            reported: each member with its measured loads and the weights of its last plan.
            looked: loads from the leader's load function.
            view: the leader's metadata.
        """
        measured: dict[Partition, float] = {}
        before: dict[Partition, float] = {}
        for member, loads, held in reported:
            mine = set(member.owned)
            measured |= {one: load for one, load in loads.items() if one in mine}
            before |= {one: load for one, load in held.items() if one in mine}
        # For partitions without an owner: the weights of this leader's last plan.
        before = {**self.weights, **before}
        now = {**measured, **looked}
        # Rounded to thousandths as on the wire, so that a replay of the log gives the same plan.
        self.weights = {
            one: max(round(load, 3), _SMALLEST)
            for one, load in hold(before, now).items() if _exists(view, *one)
        }  # fmt: skip
        counts = {topic: max(numbers) + 1 for topic, numbers in view.topics.items() if numbers}
        return configured_by_loads(strategy, self.weights, counts, self.tolerance)


def _exists(view: ClusterView, topic: str, number: int) -> bool:
    return topic in view.topics and number in view.topics[topic]
