"""Expected gain of a policy: unread time that a group would have saved, with its uncertainty.

Record and simulation share their unknowns, so that a difference is one of policies (common random
numbers). Two methods give an interval, and the gain has the wider one of both:

* the estimates of unread time, made with the stop lengths of the record;
* the bounds by commits, between which the estimate of the recorded downtime fixes one length.

The error of the simulation is added at both ends. A gain counts only if this interval excludes
zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from partage.report.run import GroupFigures, PolicyFigures
from partage.tables.metrics import OWN
from partage.tables.statuses import RECORDED
from partage.tables.sums import Estimate, FigureRange

__all__ = [
    "gain_of",
    "gains_by_policy",
    "own_figures",
    "relative_downtime",
    "simulation_error",
    "sum_gains",
]


#: The stops that a policy avoids may be shorter or longer than the group's average by this factor.
_FACTOR = 2.0


class RelativeDowntime(NamedTuple):
    """Position of a group's estimated downtime between its lower bound (0) and its upper bound (1).

    Downtime is the time in which partitions have no consumer. For example, a ``best`` of 0.2 means
    that the estimate is a fifth of the way from the lower to the upper bound.

    Attributes:
        low, best, high: 10th percentile, best estimate and 90th percentile.
    """

    low: float
    best: float
    high: float


def relative_downtime(bounds: FigureRange | None, estimate: Estimate | None) -> RelativeDowntime:
    """Return where a group's estimated downtime lies between its lower bound (0) and upper bound
    (1).

    ``bounds`` and ``estimate`` are the group's downtime in partition-seconds. Without an estimate,
    the result is the middle (0.5) with an interval from 0 to 1.

    >>> relative_downtime(FigureRange(10, 110), Estimate(30, 20, 50))
    RelativeDowntime(low=0.05, best=0.2, high=0.8)
    """
    if estimate is None or bounds is None:
        return RelativeDowntime(0.0, 0.5, 1.0)
    width = bounds.high - bounds.low
    if width <= 0:
        return RelativeDowntime(0.0, 0.0, 0.0)
    low, best, high = (
        (one - bounds.low) / width for one in (estimate.low, estimate.best, estimate.high)
    )
    ends = (low / _FACTOR, best, high * _FACTOR)
    return RelativeDowntime(*(min(max(one, 0.0), 1.0) for one in ends))


def own_figures(
    group: GroupFigures, figures_by_policy: Mapping[str, PolicyFigures] | None = None
) -> PolicyFigures | None:
    """Return the metrics of a consumer group that were simulated with its present settings.

    They are what other settings are compared with. The result is None if a rebalance has no valid
    simulated assignment, or if no downtime is known.

    Args:
        group: the group.
        figures_by_policy: its metrics by policy; None for those of the simulation of the whole
            history.
    """
    own = (group.figures if figures_by_policy is None else figures_by_policy).get(OWN)
    return own if own is not None and own.is_comparable and own.saved is not None else None


def simulation_error(
    group: GroupFigures, figures_by_policy: Mapping[str, PolicyFigures] | None = None
) -> float | None:
    """Return how far a group's simulated downtime is from its recorded downtime
    (partition-seconds).

    The simulation uses the group's present settings, so that the difference measures its error. The
    result is None if a downtime is unknown. ``figures_by_policy`` are the metrics by policy; None
    takes the simulation of the whole history.
    """
    # The simulation uses the present settings. If there are no estimates, the error is computed
    # from the bounds of both, at the relative position of the estimated downtime. None means
    # unknown.
    own = own_figures(group, figures_by_policy)
    if own is None:
        return None
    if group.downtime_estimate is not None and own.stopped_estimate is not None:
        return abs(float(group.downtime_estimate.best - own.stopped_estimate.best))
    largest = max(abs(own.saved.low), abs(own.saved.high))
    bounds, recorded = own.stopped, group.recorded_figures.stopped
    if group.downtime_estimate is None or bounds is None or recorded is None:
        return float(largest)
    length = relative_downtime(group.downtime_bounds, group.downtime_estimate).best
    shortest = abs(bounds.low - recorded.low)
    return float(shortest + length * (largest - shortest))


def gain_of(
    group: GroupFigures, policy: str, figures_by_policy: Mapping[str, PolicyFigures] | None = None
) -> Estimate | None:
    """Return the downtime that other client settings would save a consumer group, or None if
    unknown.

    The result is an estimate in partition-seconds, whose interval includes the simulation's error.
    It never exceeds the group's downtime.

    Args:
        group: the consumer group.
        policy: name of the settings.
        figures_by_policy: metrics by policy; None for those of the simulation of the whole history.
    """
    known = group.figures if figures_by_policy is None else figures_by_policy
    found, error = known.get(policy), simulation_error(group, figures_by_policy)
    if found is None or not found.is_comparable or error is None:
        return None
    saved: FigureRange | None = found.saved_against_own
    if saved is None:
        return None
    lengths = relative_downtime(group.downtime_bounds, group.downtime_estimate)
    low, best, high = (saved.low + one * (saved.high - saved.low) for one in lengths)
    estimated = _estimate_gain(group, known[OWN], found)
    if estimated is not None:  # both methods have to agree
        best = estimated.best
        low, high = min(low, estimated.low), max(high, estimated.high)
    low, high = low - error, high + error
    for limit in (group.downtime_estimate, group.downtime_bounds):
        if limit is not None:
            most = limit.best if isinstance(limit, Estimate) else limit.high
            low, best, high = min(low, most), min(best, most), min(high, most)
    return Estimate(best, low, high)


def _estimate_gain(
    group: GroupFigures, own: PolicyFigures, policy_figures: PolicyFigures
) -> Estimate | None:
    """Estimate the downtime that other client settings would save a group, from its estimated
    downtimes.

    The result is None if one of them is unknown.

    Args:
        group: the consumer group, with its recorded downtime.
        own: metrics simulated with the group's present settings.
        policy_figures: metrics simulated with the other settings.
    """
    # The relative uncertainty is that of the recorded downtime, widened by a factor.
    whole, before, after = (
        group.downtime_estimate,
        own.stopped_estimate,
        policy_figures.stopped_estimate,
    )
    if whole is None or not whole.best or before is None or after is None:
        return None
    gain = before.best - after.best
    ends = (gain * whole.low / whole.best / _FACTOR, gain * whole.high / whole.best * _FACTOR)
    return Estimate(gain, min(ends), max(ends))


def gains_by_policy(
    groups: Iterable[GroupFigures], *, per_rebalance: bool = False
) -> dict[str, Estimate]:
    """Return the downtime that each policy (protocol and strategy) saves in all given groups
    together.

    The result is a dict from policy to an estimate in partition-seconds. Policies with unknown gain
    are left out.

    Args:
        groups: the groups.
        per_rebalance: whether to use the simulation of each rebalance by itself, not that of the
            whole history.
    """
    gains: dict[str, list[Estimate]] = {}
    for group in groups:
        figures = group.per_rebalance if per_rebalance else group.figures
        for policy in figures.keys() - {OWN, RECORDED}:
            gain = gain_of(group, policy, figures)
            if gain is not None:
                gains.setdefault(policy, []).append(gain)
    return {policy: Estimate.from_differences(some) for policy, some in gains.items()}


def sum_gains(gains: Iterable[Estimate]) -> Estimate | None:
    """Add up the downtime savings of several groups, with the uncertainty of the sum.

    The result is None if there are no savings.

    >>> sum_gains([Estimate(10, 6, 14)]), sum_gains([])
    (Estimate(best=10, low=6.0, high=14.0), None)
    """
    known = list(gains)
    if not known:
        return None
    below, above = [g.best - g.low for g in known], [g.high - g.best for g in known]
    return Estimate.from_sums(
        sum(g.best for g in known),
        *((sum(of), sum(d * d for d in of)) for of in (below, above)),
    )
