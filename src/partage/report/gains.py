"""Expected gain of a policy: unread time that a group would have saved, with its uncertainty.

Record and simulation share their unknowns, so that a difference is one of policies (common random
numbers). Two methods give an interval, and the gain has the wider one of both:

* the estimates of unread time, made with the stop lengths of the record;
* the bounds by commits, between which the estimate of the recorded downtime fixes one length.

The error of the simulation is added at both ends. A gain counts only if this interval excludes
zero.

A back-test shows whether such simulations can be trusted: a group that changed its settings within
the log is simulated with its old settings after the change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from partage.report.client_settings import base_policy
from partage.report.run import BackTest, GroupFigures, PolicyFigures
from partage.tables.metrics import OWN
from partage.tables.statuses import PER_REBALANCE, RECORDED
from partage.tables.sums import Estimate, FigureRange

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "back_tests",
    "gain_of",
    "gains_by_policy",
    "own_metrics",
    "relative_downtime",
    "settings_by_group",
    "simulation_error",
    "sum_gains",
]


#: The stops that a policy avoids may be shorter or longer than the group's average by this factor.
_FACTOR = 2.0
_REBALANCE = ["group", "incarnation", "generation"]
#: Rebalances that a back-test needs before and after a change of settings.
_LEAST_TESTED = 3


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

    ``bounds`` and ``estimate`` are in partition-seconds. Without an estimate, the result is the
    middle (0.5) with an interval from 0 to 1.

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


def own_metrics(
    group: GroupFigures, metrics_by_policy: Mapping[str, PolicyFigures] | None = None
) -> PolicyFigures | None:
    """Return the metrics of a consumer group that was simulated with its present settings.

    Other settings are compared with them. The result is None if a rebalance has no valid simulated
    assignment, or if no downtime is known.

    Args:
        group: the consumer group.
        metrics_by_policy: its metrics by policy; None for those of the simulation of the whole
            history.
    """
    own = (group.figures if metrics_by_policy is None else metrics_by_policy).get(OWN)
    return own if own is not None and own.is_comparable and own.saved is not None else None


def simulation_error(
    group: GroupFigures, metrics_by_policy: Mapping[str, PolicyFigures] | None = None
) -> float | None:
    """Return the difference between a group's simulated and recorded downtime (partition-seconds).

    The simulation uses the group's present settings, so the difference is its error. The result is
    None if a downtime is unknown. ``metrics_by_policy`` are the metrics by policy; None takes the
    simulation of the whole history.
    """
    # The simulation uses the present settings. If there are no estimates, the error is computed
    # from the bounds of both, at the relative position of the estimated downtime. None means
    # unknown.
    own = own_metrics(group, metrics_by_policy)
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
    group: GroupFigures, policy: str, metrics_by_policy: Mapping[str, PolicyFigures] | None = None
) -> Estimate | None:
    """Estimate the downtime that other client settings would save a consumer group.

    The result is in partition-seconds, and its interval includes the simulation's error. It never
    exceeds the group's downtime. It is None if the saving is unknown.

    Args:
        group: the consumer group.
        policy: name of the settings.
        metrics_by_policy: metrics by policy; None for those of the simulation of the whole history.
    """
    known = group.figures if metrics_by_policy is None else metrics_by_policy
    found, error = known.get(policy), simulation_error(group, metrics_by_policy)
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
    group: GroupFigures, own: PolicyFigures, policy_metrics: PolicyFigures
) -> Estimate | None:
    """Estimate a group's saved downtime as the difference of two simulated downtimes.

    They are simulated with the present and with the other settings. The result is None if one of
    them is unknown.

    Args:
        group: the consumer group, with its recorded downtime.
        own: metrics simulated with the group's present settings.
        policy_metrics: metrics simulated with the other settings.
    """
    # The relative uncertainty is that of the recorded downtime, widened by a factor.
    whole, before, after = (
        group.downtime_estimate,
        own.stopped_estimate,
        policy_metrics.stopped_estimate,
    )
    if whole is None or not whole.best or before is None or after is None:
        return None
    gain = before.best - after.best
    ends = (gain * whole.low / whole.best / _FACTOR, gain * whole.high / whole.best * _FACTOR)
    return Estimate(gain, min(ends), max(ends))


def gains_by_policy(
    groups: Iterable[GroupFigures], *, per_rebalance: bool = False
) -> dict[str, Estimate]:
    """Add up the downtime that each policy (protocol and strategy) saves in several consumer
    groups.

    The result is a dict from policy to an estimate in partition-seconds. Policies with unknown gain
    are left out.

    Args:
        groups: the consumer groups.
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


# -- back-tests ------------------------------------------------------------------------------------


def back_tests(rebalances: pa.Table, replays: pa.Table) -> Iterator[BackTest]:
    """Test the simulation on groups that changed their protocol or strategy during the recording.

    The rebalances after the change are simulated with the old settings. A good simulation gives
    about the downtime per rebalance that was recorded before the change. Periods with fewer than
    three rebalances are left out.

    Args:
        rebalances: rows of table ``rebalances``.
        replays: rows of table ``replays`` with policy and kind of simulation.
    """
    changed = settings_by_group(rebalances)
    if changed:
        costs = _costs_by_rebalance(replays, changed)
        for of in changed.values():
            for old, new in pairwise(of):
                found = _test_change(old, new, costs)
                if found is not None:
                    yield found


def settings_by_group(rebalances: pa.Table) -> dict[str, list[list[dict[str, Any]]]]:
    """Divide the rebalances of each consumer group where its assignment strategy changed.

    For example, a group that changed from range to sticky has two lists: its rebalances with range,
    then those with sticky. Groups that never changed are left out. The result is a dict from group
    to these lists of rows.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    table = rebalances.filter(pc.is_valid(rebalances["strategy"]))  # others have no members
    kinds = table.group_by(["group", "strategy"]).aggregate([])
    changed = [name for name, count in Counter(kinds["group"].to_pylist()).items() if count > 1]
    order = [(name, "ascending") for name in ("group", "log_partition", "log_offset")]
    columns = [*_REBALANCE, "time_ms", "strategy", "follow_up"]
    periods: dict[str, list[list[dict[str, Any]]]] = {}
    table = table.filter(pc.is_in(table["group"], pa.array(changed, pa.string())))
    for row in table.sort_by(order).select(columns).to_pylist():
        known = periods.setdefault(row["group"], [])
        if not known or known[-1][-1]["strategy"] != row["strategy"]:
            known.append([])
        known[-1].append(row)
    return periods


def _costs_by_rebalance(
    replays: pa.Table, groups: Iterable[str]
) -> dict[tuple[Any, ...], list[Estimate]]:
    """Return the estimated downtime of each rebalance under each simulated policy.

    A policy is a protocol with a strategy. The result is a dict from (policy, group, incarnation,
    generation) to a list of estimates. An incarnation is one lifetime of a group id between two
    deletions. ``replays`` are the rows of the table ``replays``.
    """
    import pyarrow as pa
    from pyarrow import compute as pc

    names = ("stopped_ps", "stopped_p10_ps", "stopped_p90_ps")
    chosen = pc.and_(
        pc.is_in(replays["group"], pa.array(list(groups))),
        pc.and_(pc.not_equal(replays["reading"], PER_REBALANCE), pc.is_valid(replays[names[0]])),
    )
    rows = replays.filter(chosen).select(["policy", *_REBALANCE, *names]).to_pylist()
    found: dict[tuple[Any, ...], list[Estimate]] = {}
    for row in rows:
        key = (row["policy"], *(row[name] for name in _REBALANCE))
        found.setdefault(key, []).append(Estimate(*(row[name] for name in names)))
    return found


def _test_change(
    old: Sequence[Mapping[str, Any]],
    new: Sequence[Mapping[str, Any]],
    costs: Mapping[tuple[Any, ...], list[Estimate]],
) -> BackTest | None:
    """Compare a group's downtime per rebalance before and after a change of its settings.

    The rebalances after the change are also simulated with the old settings. The result is None if
    a period has too few rebalances or was not simulated.

    Args:
        old: rows of the rebalances before the change.
        new: rows of the rebalances after it.
        costs: estimated downtimes by (policy, group, incarnation, generation).
    """
    before, after = base_policy(old[0]["strategy"]), base_policy(new[0]["strategy"])
    found = [
        _mean_downtime(policy, rows, costs)
        for policy, rows in ((RECORDED, old), (RECORDED, new), (before, new))
    ]
    if any(one is None for one in found):
        return None
    had, has, simulated = (one for one in found if one is not None)
    group, time_ms = new[0]["group"], new[0]["time_ms"]
    return BackTest(group, time_ms, before, after, had, has, simulated)


def _mean_downtime(
    policy: str,
    rows: Sequence[Mapping[str, Any]],
    costs: Mapping[tuple[Any, ...], list[Estimate]],
) -> Estimate | None:
    """Return the mean downtime of a group per rebalance under one policy, in partition-seconds.

    The result is None if there are too few rebalances.

    Args:
        policy: protocol with strategy, or the name for the recorded assignments.
        rows: rows of the rebalances to average.
        costs: estimated downtimes by (policy, group, incarnation, generation).
    """
    # A follow-up rebalance (which completes another one) adds downtime but does not count.
    parts = [
        one for row in rows for one in costs.get((policy, *(row[name] for name in _REBALANCE)), ())
    ]
    count = sum(not row["follow_up"] for row in rows)
    if count < _LEAST_TESTED or not parts:
        return None
    below, above = [o.best - o.low for o in parts], [o.high - o.best for o in parts]
    total = Estimate.from_sums(
        sum(one.best for one in parts),
        *((sum(of), sum(d * d for d in of)) for of in (below, above)),
    )
    return Estimate(total.best / count, total.low / count, total.high / count)
