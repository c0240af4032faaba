"""Accuracy of the estimated downtime: estimates of a recording beside its clients' own log.

Figures are those of `docs/estimates.md`. Share, Streams and manual groups are apart: their clients
report no callbacks.

Times in which the group has no member are apart as well. `READINGS` has three ways to read that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tests.support.recordings import Recording
from tests.support.unread_truth import UnreadInterval, loss_by_rebalance, unread_intervals

from partage.history.events import Generation
from partage.history.stop_model import UnreadEstimate
from partage.tables.sums import Estimate

#: Name -> what no pause includes. A frozen client is a running client; an evicted one is no member.
#: The estimate sets times without a running client or a subscriber apart (`SUBSCRIBER`).
SUBSCRIBER, CLIENT, MEMBER = "no subscriber", "no client", "no member"
READINGS = (SUBSCRIBER, CLIENT, MEMBER)


class Compared(NamedTuple):
    """One rebalance: true loss and estimate in partition-seconds, and partitions that stopped."""

    group: str
    number: int
    true: float
    estimate: UnreadEstimate
    partitions: int

    @property
    def is_inside(self) -> bool:
        """Whether the true value lies within the 80 % interval."""
        return self.estimate.p10 - 1e-6 <= self.true <= self.estimate.p90 + 1e-6

    @property
    def error_s(self) -> float:
        """Absolute error in seconds for each partition that stopped."""
        return abs(self.true - self.estimate.best) / max(1, self.partitions)


class Accuracy(NamedTuple):
    """Figures of one recording; partition-seconds unless stated.

    Attributes:
        rebalances, positive: compared rebalances, and those with a true loss.
        true, estimate: totals.
        covered, covered_positive: shares of them with the true value inside the interval.
        error_s: median absolute error in seconds per partition and rebalance with a true loss.
        spearman: rank correlation of groups.
        top: number of the five groups with the most loss among the first five by estimate.
        groups_inside: share of the groups whose true loss lies inside the interval of their sum.
    """

    rebalances: int
    positive: int
    true: float
    estimate: Estimate
    covered: float
    covered_positive: float
    error_s: float
    spearman: float
    top: int
    groups_inside: float

    def __str__(self) -> str:
        best, low, high = self.estimate.best, self.estimate.low, self.estimate.high
        return (
            f"{self.rebalances} rebalances, {self.positive} with loss; total {best:,.0f} "
            f"({low:,.0f} to {high:,.0f}), true {self.true:,.0f}, ratio {best / self.true:.2f}; "
            f"inside the interval {self.covered:.0%}, with loss {self.covered_positive:.0%}; "
            f"median error {self.error_s:.2f} s; Spearman {self.spearman:.2f}, top five {self.top}, "
            f"groups inside {self.groups_inside:.0%}"
        )


def _is_apart(rebalances: list[Generation]) -> bool:
    return not rebalances or any(
        g.protocol in ("share", "streams") or g.first.strategy == "stream" for g in rebalances
    )


def _lengths(
    intervals: list[UnreadInterval], groups: dict[str, list[Generation]], reading: str
) -> list[UnreadInterval]:
    """Return intervals that exclude the times that a reading sets apart."""
    if reading == SUBSCRIBER:
        return intervals
    if reading == CLIENT:
        return [one._replace(no_subscriber_ms=one.no_client_ms) for one in intervals]
    empty = {name: _empty_times(one) for name, one in groups.items()}
    out = []
    for one in intervals:
        spans = [(max(a, one.from_ms), min(b, one.to_ms)) for a, b in empty.get(one.group, ())]
        out.append(one._replace(no_subscriber_ms=sum(b - a for a, b in spans if b > a)))
    return out


def _empty_times(rebalances: list[Generation]) -> list[tuple[int, int]]:
    """Return the times in which a group had no member by the coordinator's records."""
    pairs = pairwise(rebalances)
    return [(a.timestamp_ms, b.timestamp_ms) for a, b in pairs if not a.last.members]


def compare(recording: Recording, reading: str = SUBSCRIBER) -> list[Compared]:
    """Return all rebalances of a recording that have an estimate.

    Args:
        recording: the recording.
        reading: one of `READINGS`.
    """
    groups = {name: one for name, one in recording.rebalances.items() if not _is_apart(one)}
    known = {
        name: [(g.timestamp_ms, (g.incarnation, g.generation_number)) for g in one]
        for name, one in groups.items()
    }
    found = _lengths(unread_intervals(recording.observed, recording.events), groups, reading)
    lost = loss_by_rebalance(found, known)
    out = []
    for name, one in groups.items():
        for g in one:
            parts = lost.get((name, g.incarnation, g.generation_number), {})
            if g.unread is not None:
                true = sum(parts.values()) / 1_000
                out.append(Compared(name, g.generation_number, true, g.unread, len(parts)))
    return out


def measure(compared: list[Compared]) -> Accuracy:
    """Return the figures of some rebalances."""
    positive = [one for one in compared if one.true > 0]
    true, estimated = (_by_group(compared, value) for value in (_true, _best))
    first = [set(sorted(of, key=of.__getitem__)[-5:]) for of in (true, estimated)]
    return Accuracy(
        len(compared),
        len(positive),
        sum(one.true for one in compared),
        _total(compared),
        sum(one.is_inside for one in compared) / len(compared),
        sum(one.is_inside for one in positive) / len(positive),
        median(one.error_s for one in positive),
        spearman(true, estimated),
        len(first[0] & first[1]),
        _share_of_groups_inside(compared),
    )


def _total(compared: list[Compared]) -> Estimate:
    """Return the sum of the estimates with its 80 % interval, as the report adds them up."""
    below = [one.estimate.best - one.estimate.p10 for one in compared]
    above = [one.estimate.p90 - one.estimate.best for one in compared]
    squares = [(sum(d), sum(x * x for x in d)) for d in (below, above)]
    return Estimate.from_sums(sum(one.estimate.best for one in compared), *squares)


def _share_of_groups_inside(compared: list[Compared]) -> float:
    groups: dict[str, list[Compared]] = defaultdict(list)
    for one in compared:
        groups[one.group].append(one)
    totals = [(_total(of), sum(one.true for one in of)) for of in groups.values()]
    return sum(total.low <= true <= total.high for total, true in totals) / len(totals)


def _true(one: Compared) -> float:
    return one.true


def _best(one: Compared) -> float:
    return one.estimate.best


def _by_group(compared: list[Compared], value: Callable[[Compared], float]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for one in compared:
        sums[one.group] += value(one)
    return dict(sums)


def spearman(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return Spearman's rank correlation of two rankings without ties.

    >>> spearman({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 2})
    0.5
    """
    ranks = [
        {name: i for i, name in enumerate(sorted(of, key=of.__getitem__))} for of in (one, other)
    ]
    count = len(one)
    squares = sum((ranks[0][name] - ranks[1][name]) ** 2 for name in one)
    return 1 - 6 * squares / (count * (count * count - 1)) if count > 1 else 1.0
