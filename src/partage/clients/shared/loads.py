"""Weights that a group learns while it runs: by what members measure, or by the leader's look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.clients.shared.cluster import ClusterView
from partage.groups.api import Strategy
from partage.groups.optimal.settings import PREFIX
from partage.model import Member
from partage.weights import hold

__all__ = ["TOLERANCE", "Loads"]

#: Of a mean member's load: what an evener plan must gain to be worth a move, if nobody says.
TOLERANCE = 0.05

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
        self.weights = {one: load for one, load in hold(before, now).items() if _there(view, *one)}
        if not self.weights:
            return strategy
        config: dict[str, object] = {f"{PREFIX}weights": _by_topic(self.weights, view)}
        if self.tolerance is not None:
            config[f"{PREFIX}tolerance"] = self.tolerance
        return strategy.configure(config)


def _there(view: ClusterView, topic: str, number: int) -> bool:
    return topic in view.topics and number in view.topics[topic]


def _by_topic(weights: Mapping[Partition, float], view: ClusterView) -> dict[str, Sequence[float]]:
    """Lists by partition number; who is not known weighs the mean of all."""
    mean = sum(weights.values()) / len(weights)
    return {
        topic: [weights.get((topic, p), mean) for p in range(max(partitions) + 1)]
        for topic, partitions in view.topics.items()
        if partitions
    }
