"""Weights that a group learns while it runs, from its members' or its leader's measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from partage.clients.shared.cluster import ClusterView
from partage.groups.api import Strategy
from partage.groups.optimal.settings import LEARNT_TOLERANCE as TOLERANCE
from partage.groups.optimal.settings import configured_by_loads
from partage.model import Member
from partage.weights import update_weights

__all__ = ["TOLERANCE", "Loads"]

_SMALLEST = 0.001

Partition = tuple[str, int]
Reported = tuple[Member, Mapping[Partition, float], Mapping[Partition, float]]


@dataclass(slots=True)
class Loads:
    """Loads of partitions ("weights") that the members of a consumer group keep between rebalances.

    The leader sends them with each assignment, and members send them back when they join again. A
    new leader therefore knows them too.

    Attributes:
        tolerance: least improvement that is worth a move, as a fraction of a mean member's load;
            None if the strategy's own setting decides.
        held: weights of this consumer's own partitions in the last assignment.
        weights: weights of all partitions, if this consumer made the last assignment as the leader.
    """

    # The leader sends the weights of its plan with each assignment, and members send them back when
    # they join again. A new leader therefore continues with the last weights, and small changes of
    # the load move nothing.
    tolerance: float | None = TOLERANCE
    held: dict[Partition, float] = field(default_factory=dict)
    weights: dict[Partition, float] = field(default_factory=dict)

    def store_weights(self, weights: Mapping[Partition, float]) -> None:
        """Store the loads of this consumer's partitions, which the leader sent with the assignment.

        The consumer sends them back when it joins again.
        """
        self.held = dict(weights)

    def with_weights(
        self,
        strategy: Strategy,
        reported: Iterable[Reported],
        leader_loads: Mapping[Partition, float],
        view: ClusterView,
    ) -> Strategy:
        """Return a copy of the assignment strategy that balances partitions by their current loads.

        Each member reports the loads of its own partitions. Loads that the leader measured itself
        take precedence.

        Args:
            strategy: the strategy to copy.
            reported: for each member, its id, its measured loads, and its weights in the last
                assignment.
            leader_loads: loads that the leader measured itself.
            view: the cluster metadata that the leader has.
        """
        # Loads come from the members, each for partitions that it owns, and from the leader's own
        # measurement, which has precedence.
        measured: dict[Partition, float] = {}
        before: dict[Partition, float] = {}
        for member, loads, held in reported:
            mine = set(member.owned)
            measured |= {one: load for one, load in loads.items() if one in mine}
            before |= {one: load for one, load in held.items() if one in mine}
        # For partitions without an owner: the weights of this leader's last plan.
        before = {**self.weights, **before}
        now = {**measured, **leader_loads}
        # Rounded to thousandths as on the wire, so that a replay of the log gives the same plan.
        self.weights = {
            one: max(round(load, 3), _SMALLEST)
            for one, load in update_weights(before, now).items() if _exists(view, *one)
        }  # fmt: skip
        counts = {topic: max(numbers) + 1 for topic, numbers in view.topics.items() if numbers}
        return configured_by_loads(strategy, self.weights, counts, self.tolerance)


def _exists(view: ClusterView, topic: str, number: int) -> bool:
    return topic in view.topics and number in view.topics[topic]
