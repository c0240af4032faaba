"""Comparison of two published runs, for example of recordings before and after a change.

Rates are compared, so that recordings of different length compare. A recording is a sample: the
next hour of the same group has other rebalances. A rate is modelled as a gamma distribution, as
for weighted sums of Poisson counts (Fay and Feuer, Statistics in Medicine 16, 1997), with half an
episode added to each run (Jeffreys' prior). The stop model's error widens it. Then
the ratio of two rates follows from a beta distribution. A difference is outside the noise if the
ratio's interval excludes 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from partage.report.rates import (
    CAUSE,
    MOVED,
    REBALANCES,
    UNREAD,
    GroupRates,
    Rate,
    Recording,
)
from partage.report.recommendations import NOT_IN_LOG, present_settings
from partage.report.run import GroupFigures, total_metrics
from partage.tables.escaping import escape_document_line
from partage.tables.metrics import BY_NAME
from partage.tables.sums import Estimate, FigureRange

__all__ = [
    "BETTER",
    "FORMAT",
    "NOISE",
    "UNKNOWN",
    "VERSION",
    "WORSE",
    "GroupDiff",
    "RateChange",
    "RunDiff",
    "SettingChange",
    "compare_rates",
    "diff_document",
    "diff_runs",
]  # fmt: skip

FORMAT, VERSION = "partage-diff", 1
#: Verdicts on a difference.
BETTER, WORSE, NOISE, UNKNOWN = "better", "worse", "within noise", "unknown"
#: Share of cases in which equal rates are called different, over all groups together.
_ALPHA = 0.05
#: Steps of a bisection; the bracket of ±60 shrinks below 1e-8.
_BISECTIONS = 34
_BRACKET = 60.0
#: Terms of a continued fraction; it needs about the square root of the largest parameter.
_MOST_TERMS = 10_000
#: Figure -> metric whose declaration says which direction is better.
_METRICS = {UNREAD: "stopped_estimate", REBALANCES: "happened", MOVED: "moved"}
MOST_SHOWN = 10  # groups in a repr, as many as the rows of a table


@dataclass(frozen=True, slots=True)
class RateChange:
    """Change of one metric's rate per hour between two runs: better, worse or within the noise.

    A change is within the noise if chance may explain it.

    Attributes:
        before, after: the rates; None if unknown.
        ratio: interval of the rate after divided by the rate before; None if unknown, or if both
            are zero.
        verdict: `BETTER`, `WORSE`, `NOISE` or `UNKNOWN`.
    """

    before: Rate | None
    after: Rate | None
    ratio: FigureRange | None
    verdict: str

    @property
    def relative(self) -> float | None:
        """Relative change of the rate: 0.5 if it grew by half, -0.5 if it halved.

        None if one of the rates is unknown, or if the first one is 0.
        """
        if self.before is None or self.after is None or not self.before.per_hour:
            return None
        return self.after.per_hour / self.before.per_hour - 1


class SettingChange(NamedTuple):
    """A client setting of a consumer group, such as its strategy, whose value differs between two
    runs.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class GroupDiff:
    """The changes between two runs of one group, or of all compared groups together.

    For example, a group may have fewer rebalances per hour after a change of its settings.

    Attributes:
        name: group id; empty for all groups.
        changes: dict from metric to its change; metrics as in `GroupRates`.
        settings: changed settings among those that the log contains.
        why_unknown: reason for an unknown difference of unread time; empty if unread time is known.
    """

    name: str
    changes: Mapping[str, RateChange]
    settings: tuple[SettingChange, ...] = ()
    why_unknown: str = ""

    def __repr__(self) -> str:
        """Return a summary such as ``orders: -50% unread time, better``.

        Unread time is the time in which partitions had no consumer.
        """
        name = escape_document_line(self.name) or "all groups"
        relative = self.changes[UNREAD].relative
        change = "" if relative is None else f"{relative:+.0%} unread time, "
        return f"{name}: {change}{self.verdict}"

    @property
    def verdict(self) -> str:
        """Verdict on the change of the group: better, worse, within noise or unknown.

        The criterion is the time in which the group's partitions had no consumer.
        """
        return self.changes[UNREAD].verdict

    @property
    def causes(self) -> dict[str, RateChange]:
        """Change of the rebalances per hour for each kind of cause, the largest change first.

        The result is a dict such as ``{"leave": RateChange(...)}``.
        """
        found = {f.removeprefix(CAUSE): c for f, c in self.changes.items() if f.startswith(CAUSE)}
        return dict(sorted(found.items(), key=lambda one: (-_rate_difference(one[1]), one[0])))


@dataclass(frozen=True, slots=True)
class RunDiff:
    """Comparison of two published runs, for example before and after a change of settings.

    It says for each group whether its rates changed by more than chance explains.

    Attributes:
        before, after: the first and the second run.
        whole: total change of all groups whose metrics are known in both runs.
        groups: changes of the groups in both runs, the largest change of unread time (without a
            consumer) first.
        only_before, only_after: names of groups that only one run has.
        notes: reasons to distrust the comparison.
    """

    before: Recording
    after: Recording
    whole: GroupDiff
    groups: tuple[GroupDiff, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """Summarize the comparison: the overall change, and the groups that became better
        or worse.
        """
        first, second = (one.run.summary.get("run_id") for one in (self.before, self.after))
        found = ", ".join(f"{self.count(one)} {one}" for one in (BETTER, WORSE, NOISE, UNKNOWN))
        shown = [one for one in self.groups if one.verdict in {BETTER, WORSE}][:MOST_SHOWN]
        return "\n".join([
            f"RunDiff of runs {first} and {second}: {len(self.groups):,} groups: {found}",
            *map(repr, [self.whole, *shown]),
        ])  # fmt: skip

    def count(self, verdict: str) -> int:
        """Return the number of groups that became, for example, better: their verdict is `BETTER`.

        The criterion is the time in which a group's partitions had no consumer. Other verdicts are
        `WORSE`, `NOISE` and `UNKNOWN`.
        """
        return sum(one.verdict == verdict for one in self.groups)


_Pair = tuple[GroupRates, GroupRates]


def diff_runs(before: Recording, after: Recording, names: Iterable[str] | None = None) -> RunDiff:
    """Compare two runs: the rates of each group, such as rebalances per hour, and its settings.

    Groups that only one run has are listed but not compared.

    Args:
        before: the first run.
        after: the second run.
        names: names of groups to compare; None for all.
    """
    wanted = {*before.groups, *after.groups} if names is None else set(names)
    first, second = (
        {name: one for name, one in run.groups.items() if name in wanted} for run in (before, after)
    )
    pairs = [(one, second[name]) for name, one in first.items() if name in second]
    groups = [_group_diff(pair, len(pairs)) for pair in pairs]
    return RunDiff(
        before, after, _compare_totals(pairs, (before.hours, after.hours)),
        tuple(sorted(groups, key=_sort_key)), tuple(sorted(first.keys() - second.keys())),
        tuple(sorted(second.keys() - first.keys())), tuple(_notes(before, after)),
    )  # fmt: skip


def _rate_difference(change: RateChange) -> float:
    """Return the absolute difference of a rate per hour between two runs.

    The result is 0 if one of the rates is unknown.
    """
    if change.before is None or change.after is None:
        return 0.0
    return abs(change.after.per_hour - change.before.per_hour)


def _sort_key(diff: GroupDiff) -> tuple[int, float, str]:
    """Return a sort key that puts the groups with a significant change of downtime first.

    Larger changes come before smaller ones, and unknown changes come last. Downtime is the time in
    which partitions have no consumer.
    """
    rank = {WORSE: 0, BETTER: 0, NOISE: 1, UNKNOWN: 2}[diff.verdict]
    return rank, -_rate_difference(diff.changes[UNREAD]), diff.name


def _notes(before: Recording, after: Recording) -> Iterator[str]:
    one, other = before.run.summary, after.run.summary
    if one.get("run_id") == other.get("run_id"):
        yield "both are the same run"
    versions = [run.get("versions", {}).get("partage") for run in (one, other)]
    if versions[0] != versions[1]:
        yield (
            f"replayed by Partage {versions[0]} and {versions[1]}: replay both captures with one "
            "version, so that one model estimates both"
        )


def _figures(pairs: Sequence[_Pair]) -> list[str]:
    kinds = {figure for pair in pairs for one in pair for figure in one.rates}
    return [UNREAD, REBALANCES, MOVED, *sorted(f for f in kinds if f.startswith(CAUSE))]


def _count_comparisons(metric: str, metrics: Sequence[str], groups: int) -> int:
    """Return the number of statistical comparisons for a metric, for the Bonferroni correction.

    There is one comparison for each group; for the rebalances by cause, one for each group and
    cause.

    Args:
        metric: name of the metric.
        metrics: names of all metrics that are compared.
        groups: number of groups.
    """
    return groups * (len(metrics) - 3 if metric.startswith(CAUSE) else 1)


def _group_diff(pair: _Pair, groups: int) -> GroupDiff:
    figures = _figures([pair])
    covered = all(one.has_enough_generations for one in pair)
    changes = {}
    for figure in figures:
        before, after = (one.hourly_rate(figure) for one in pair)
        many = _count_comparisons(figure, figures, groups)
        changes[figure] = _compare_metric(figure, before, after, many if covered else 0)
    why = _why_unknown(pair) if changes[UNREAD].verdict == UNKNOWN else ""
    return GroupDiff(pair[0].name, changes, _find_changed_settings(*pair), why)


def _why_unknown(group_rates: _Pair) -> str:
    """Return the reason why the change of a group's downtime between two runs is unknown.

    The text names the run that lacks the downtime. ``group_rates`` are the group's rates in both
    runs.
    """
    before, after = (one.why_unknown for one in group_rates)
    if before and before == after:
        return f"before and after: {before}"
    return "; ".join(f"{run}: {why}" for run, why in (("before", before), ("after", after)) if why)


def _compare_totals(pairs: Sequence[_Pair], hours: tuple[float, float]) -> GroupDiff:
    """Compare the total rates of two runs, over the groups whose metrics are known in both.

    A total rate is, for example, the number of rebalances per hour of all these groups.

    Args:
        pairs: for each group, its rates in the first and in the second run.
        hours: hours that the two recordings cover.
    """
    known = [pair for pair in pairs if all(one.has_enough_generations for one in pair)]
    figures = _figures(known)
    changes = {}
    for figure in figures:
        some = [pair for pair in known if all(one.hourly_rate(figure) is not None for one in pair)]
        before, after = (
            _pool_rates([pair[i] for pair in some], figure, hours[i]) if some else None
            for i in (0, 1)
        )
        changes[figure] = _compare_metric(
            figure, before, after, _count_comparisons(figure, figures, 1)
        )
    return GroupDiff("", changes, why_unknown="" if known else "no group is known in both runs")


def _pool_rates(groups: Sequence[GroupRates], metric: str, hours: float) -> Rate:
    """Combine the hourly rates of several consumer groups into one total rate.

    Args:
        groups: the groups with their rates.
        metric: name of the metric, such as `REBALANCES`.
        hours: hours that the recording covers.
    """
    rates = [rate for one in groups if (rate := one.hourly_rate(metric)) is not None]
    interval = None
    if metric == UNREAD:
        hours = sum(rate.hours for rate in rates)
        found = total_metrics(one.group.recorded_figures for one in groups).stopped_estimate
        interval = found if found is not None else Estimate(0.0, 0.0, 0.0)
    return Rate(
        sum(rate.total for rate in rates), sum(rate.squares for rate in rates),
        sum(rate.episodes for rate in rates), hours, interval,
    )  # fmt: skip


def _compare_metric(
    metric: str, first_rates: Rate | None, second_rates: Rate | None, comparisons: int
) -> RateChange:
    """Compare the rate of a metric in two runs, such as the number of rebalances per hour.

    The verdict is `UNKNOWN` if one rate is unknown. ``comparisons`` is the number of all
    comparisons, for the Bonferroni correction; 0 also makes the verdict unknown.
    """
    if first_rates is None or second_rates is None or not comparisons:
        return RateChange(first_rates, second_rates, None, UNKNOWN)
    name = _METRICS[REBALANCES if metric.startswith(CAUSE) else metric]
    return compare_rates(
        first_rates, second_rates, better=BY_NAME[name].better, comparisons=comparisons
    )


def compare_rates(
    first_rate: Rate, second_rate: Rate, *, better: str = "lower", comparisons: int = 1
) -> RateChange:
    """Compare a metric's rates in two runs, and decide whether they differ by more than chance.

    The verdict is within noise if the interval of their ratio contains 1.

    Args:
        first_rate: the rate in the first run.
        second_rate: the rate in the second run.
        better: direction of improvement, as in the metrics table.
        comparisons: number of comparisons of this kind; more of them widen the interval
            (Bonferroni).

    >>> calm, busy = Rate(3, 3, 3, hours=10), Rate(30, 30, 30, hours=10)
    >>> compare_rates(calm, busy).verdict, compare_rates(calm, calm).verdict
    ('worse', 'within noise')
    """
    if not first_rate.total and not second_rate.total:
        return RateChange(first_rate, second_rate, None, NOISE)
    if not first_rate.hours or not second_rate.hours:
        return RateChange(first_rate, second_rate, None, UNKNOWN)
    size = math.sqrt(
        (first_rate.squares + second_rate.squares)
        / max(1, first_rate.episodes + second_rate.episodes)
    )
    (shape, scale), (other_shape, other_scale) = (
        _fit_gamma(one, size) for one in (first_rate, second_rate)
    )
    tail = _ALPHA / 2 / comparisons
    low, high = (
        math.exp(_beta_quantile_logit(chance, other_shape, shape)) * other_scale / scale
        for chance in (tail, 1 - tail)
    )
    verdict = NOISE
    if low > 1 or high < 1:
        verdict = BETTER if (high < 1) == (better == "lower") else WORSE
    return RateChange(first_rate, second_rate, FigureRange(low, high), verdict)


def _fit_gamma(rate: Rate, typical_sum: float) -> tuple[float, float]:
    """Fit a gamma distribution to a rate per hour, and return its shape and scale.

    The rate is a sum over independent episodes (a rebalance with its follow-ups, or a series of
    rebalances in quick succession) divided by hours. To avoid a mean of zero, half a typical
    episode is added. ``typical_sum`` is the sum of a typical episode: the root mean square over the
    episodes of both runs.
    """
    mean = rate.total + typical_sum / 2
    variance = rate.squares + typical_sum * typical_sum / 2 + rate.standard_deviation**2
    return mean * mean / variance, variance / mean / rate.hours


def _beta_quantile_logit(chance: float, a: float, b: float) -> float:
    """Return a quantile of the beta distribution on the logit scale, found by bisection.

    ``chance`` is the probability of the quantile; ``a`` and ``b`` are the parameters of the
    distribution. On the logit scale, a value x is ``log(x / (1 - x))``.
    """
    low, high = -_BRACKET, _BRACKET
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _beta_cdf(middle, a, b) < chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_cdf(logit: float, a: float, b: float) -> float:
    """Return the cumulative distribution function of the beta distribution at one point.

    The point is given on the logit scale: it is ``1 / (1 + exp(-logit))``. ``a`` and ``b`` are the
    parameters of the distribution.
    """
    # It is the regularised incomplete beta function, computed by continued fraction 8.17.22 of the
    # NIST Digital Library of Mathematical Functions with Lentz's method.
    log_x, log_y = -math.log1p(math.exp(-logit)), -math.log1p(math.exp(logit))
    x = math.exp(log_x)
    swapped = x > (a + 1) / (a + b + 2)
    if swapped:
        x, a, b, log_x, log_y = math.exp(log_y), b, a, log_y, log_x
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * log_x + b * log_y
    found = math.exp(front) / a / _continued_fraction(x, a, b)
    return 1 - found if swapped else found


def _continued_fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    value, above, below = 1.0, 1.0, 0.0
    for i in range(1, _MOST_TERMS):
        m = i // 2
        if i % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / (1 + term * below or tiny)
        above = 1 + term / above or tiny
        value *= above * below
        if abs(above * below - 1) < 1e-12:
            break
    return value


def _find_changed_settings(
    before_rates: GroupRates, after_rates: GroupRates
) -> tuple[SettingChange, ...]:
    """Return the client settings, members and partitions of a group that differ between two runs.

    The arguments are the group's rates in the first and in the second run, which include its
    settings. Values that a log does not contain are left out.
    """
    before, after = (_settings_of_group(rates.group) for rates in (before_rates, after_rates))
    names = dict.fromkeys((*before, *after))
    found = [SettingChange(name, before.get(name, "-"), after.get(name, "-")) for name in names]
    return tuple(
        change
        for change in found
        if change.before != change.after and NOT_IN_LOG not in {change.before, change.after}
    )


def _settings_of_group(group: GroupFigures) -> dict[str, str]:
    """Return the settings, client libraries and size of a group as a dict from name to text.

    Such dicts are compared to find what changed between two runs.
    """
    found = {setting.name: setting.now for setting in present_settings(group)}
    static, members = group.traits.static_members, group.traits.newest_members
    for name in ("group.instance.id", "group_instance_id"):
        if name in found:
            found[name] = (
                f"set in {'no' if not static else 'every' if static == members else 'some'} member"
            )
    return found | {
        "client libraries": ", ".join(sorted(group.clients)),
        "members": str(group.members_max),
        "partitions": "0" if group.partitions_max is None else str(group.partitions_max),
    }


def diff_document(diff: RunDiff) -> dict[str, Any]:
    """Return the comparison of two runs as a dict that can be written as JSON.

    It has the overall verdict, the number of groups by verdict, and the changes of each group.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "before": _run_document(diff.before),
        "after": _run_document(diff.after),
        "verdict": diff.whole.verdict,
        "groups_by_verdict": {one: diff.count(one) for one in (BETTER, WORSE, NOISE, UNKNOWN)},
        "whole": _group_document(diff.whole),
        "groups": [_group_document(one) for one in diff.groups],
        "only_before": list(diff.only_before),
        "only_after": list(diff.only_after),
        "notes": list(diff.notes),
    }


def _run_document(recording: Recording) -> dict[str, Any]:
    summary = recording.run.summary
    return {
        "folder": str(recording.folder), "run_id": summary.get("run_id"),
        "capture": summary.get("capture"), "hours": round(recording.hours, 6),
    }  # fmt: skip


def _group_document(diff: GroupDiff) -> dict[str, Any]:
    return {
        "name": diff.name or None,
        "verdict": diff.verdict,
        "why_unknown": diff.why_unknown or None,
        **{
            figure: _change_document(diff.changes[figure]) for figure in (UNREAD, REBALANCES, MOVED)
        },
        "causes": {kind: _change_document(change) for kind, change in diff.causes.items()},
        "settings": [setting._asdict() for setting in diff.settings],
    }


def _change_document(change: RateChange) -> dict[str, Any]:
    return {
        "before": _rate_document(change.before),
        "after": _rate_document(change.after),
        "relative_change": change.relative,
        "ratio": None if change.ratio is None else asdict(change.ratio),
        "verdict": change.verdict,
    }


def _rate_document(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    found = {
        "total": round(rate.total, 3),
        "hours": round(rate.hours, 6),
        "per_hour": rate.per_hour,
    }
    if rate.interval is None:
        return found
    interval = {name: round(value, 3) for name, value in asdict(rate.interval).items()}
    return found | {"partition_seconds": interval, "share": rate.per_hour / 3_600}
