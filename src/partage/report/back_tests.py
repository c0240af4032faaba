"""Back-tests of the simulation, on consumer groups that changed their settings within a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from partage.report.client_settings import base_policy
from partage.report.run import BackTest, Estimate
from partage.tables.statuses import PER_REBALANCE, RECORDED

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["back_tests", "settings_by_group"]

_REBALANCE = ["group", "incarnation", "generation"]
#: Rebalances that a back-test needs before and after a change of settings.
_LEAST_TESTED = 3


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
    """Return the rows of rebalances by group and period, for groups that changed their strategy.

    A period has successive rebalances with one strategy. ``rebalances`` are the rows of the table
    ``rebalances``.
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
    """Return the estimated downtime of each rebalance under each simulated policy (protocol,
    strategy).

    The result is a dict from (policy, group, incarnation, generation) to a list of estimates. An
    incarnation is one lifetime of a group id between two deletions. ``replays`` are the rows of the
    table ``replays``.
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

    A third figure simulates the rebalances after the change with the old settings. The result is
    None if a period has too few rebalances or was not simulated.

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
