"""The judge for a history lived again: the same problems under many policies."""

from __future__ import annotations

from partage.judge import Measures, check
from partage.measuring import Shared
from partage.model import Assignment, Cluster, Group
from partage.simulation.lived import Measured
from partage.simulation.loads import Weights

__all__ = ["Judge"]


class Judge:
    """Measures plans and records; what the solver has to find is shared between policies.

    One for all policies of a group, or of a worker: it keeps proven answers, never opinions.

    >>> from partage.model import Member, Plan
    >>> cluster = Cluster.from_topics({"t": 2})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1]}), Member("b", ["t"])])
    >>> found = Judge()(Plan.of(cluster.index, {"a": {"t": [0]}, "b": {"t": [1]}}), group, cluster)
    >>> found.moved, found.avoidable, found.best_spread, found.breaches
    (1, 0, 0, 0)
    """

    def __init__(self) -> None:
        self._shared = Shared()

    def __call__(
        self, plan: Assignment, group: Group, cluster: Cluster, weights: Weights = None
    ) -> Measured:
        """The figures of a plan, or of a record that may be wrong.

        Args:
            plan: whom to judge.
            group: the members, whose claims say what they owned before.
            cluster: the cluster at that time.
            weights: float64[P], records a second of each partition.
        """
        found = self._shared.measure(plan, group, cluster, partition_weight=weights)
        return Measured(
            spread=found.spread,
            idle=found.idle,
            moved=found.moved,
            # Where nothing moved nothing was moved in vain, whatever else is wrong with a plan.
            avoidable=found.avoidable if found.moved else 0,
            best_spread=found.best_spread,
            rack_mismatches=found.rack_mismatches,
            colocation=found.colocation,
            breaches=_breaches(plan, group, cluster, found),
            load_spread=found.load_spread,
        )


def _breaches(plan: Assignment, group: Group, cluster: Cluster, found: Measures) -> int:
    """How many; a plan is gone through rule by rule only where it can have broken one."""
    sound = (
        found.avoidable is not None  # every open partition has one owner, who subscribes
        and plan.members == group.ids
        and not plan.unresolved
        and len(plan.partition) == found.partitions
    )
    return 0 if sound else len(check(plan, group, cluster))
