"""The judge's answers as columns of table ``replays``."""

from __future__ import annotations

from partage.history.replaying import Measured
from partage.judge import Measures, check
from partage.measuring import measure
from partage.model import Assignment, Cluster, Group

__all__ = ["Judge"]


class Judge:
    """Measures the plans of one group's history, one generation after the other.

    The best plan does not depend on the strategy, and a plan without moves has none to avoid:
    the solver is asked only where its answer is not known already.
    """

    def __init__(self) -> None:
        self._members: tuple[object, ...] = ()
        self._cluster: Cluster | None = None
        self._best_spread: int | None = None

    def __call__(self, plan: Assignment, group: Group, cluster: Cluster) -> Measured:
        """The figures of a plan, or of a record that may be wrong.

        Args:
            plan: whom to judge.
            group: the members, whose claims say what they owned before.
            cluster: the cluster at that time.
        """
        breaches = len(check(plan, group, cluster))
        members = tuple((m.id, m.topics) for m in group)
        known = cluster is self._cluster and members == self._members
        found = measure(plan, group, cluster, optimum=False)
        avoidable: int | None = 0
        if found.moved or breaches or not known:
            found = measure(plan, group, cluster)
            avoidable = found.avoidable
            self._members, self._cluster = members, cluster
            self._best_spread = found.best_spread
        return _columns(found, avoidable, self._best_spread, breaches)


def _columns(m: Measures, avoidable: int | None, best: int | None, breaches: int) -> Measured:
    return Measured(
        spread=m.spread,
        idle=m.idle,
        moved=m.moved,
        avoidable=avoidable,
        best_spread=best,
        rack_mismatches=m.rack_mismatches,
        colocation=m.colocation,
        breaches=breaches,
    )
