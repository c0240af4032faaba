"""The judge's answers as columns of table ``replays``."""

from __future__ import annotations

from partage.history.replaying import Measured
from partage.judge import check
from partage.measuring import measure
from partage.model import Assignment, Cluster, Group

__all__ = ["judged"]


def judged(plan: Assignment, group: Group, cluster: Cluster) -> Measured:
    """The figures of a plan, or of a record that may be wrong.

    Args:
        plan: whom to judge.
        group: the members, whose claims say what they owned before.
        cluster: the cluster at that time.
    """
    m = measure(plan, group, cluster)
    return Measured(
        spread=m.spread,
        idle=m.idle,
        moved=m.moved,
        avoidable=m.avoidable,
        best_spread=m.best_spread,
        rack_mismatches=m.rack_mismatches,
        colocation=m.colocation,
        breaches=len(check(plan, group, cluster)),
    )
