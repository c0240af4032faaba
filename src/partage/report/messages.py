"""Texts of the report: labels, the glossary, and sentences with a run's numbers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import NamedTuple

from partage.report.run import Estimate, FigureRange, GroupFigures, PolicyFigures, RunFigures
from partage.tables.metrics import OWN, SHOWN, OutputLevel

__all__ = [
    "CAUSES", "GLOSSARY", "RECORD_MORE", "CauseText", "Term", "TimeUnit", "cause_clause",
    "cause_label", "common_unit", "count", "digits", "downtime_size", "downtime_text", "duration",
    "format_estimate", "format_range", "format_time", "groups_unit", "opening_sentences",
    "percent", "plural", "reliability_sentences", "run_headline", "share", "share_text",
    "short_name", "simulated_note",
]  # fmt: skip

_HARD = "\N{NO-BREAK SPACE}"


class CauseText(NamedTuple):
    """Texts for one kind of rebalance cause: a label, and a clause that can follow "because".

    For example, ``leave`` has the label "leave" and the clause "a member left".
    """

    label: str
    clause: str


#: Texts by kind of cause.
CAUSES: dict[str, CauseText] = {
    "first": CauseText("first", "it is the first rebalance of the group in the log"),
    "migration": CauseText("migration", "the group moved to another protocol"),
    "broker": CauseText("broker", "a broker or the group coordinator failed or moved"),
    "bounce": CauseText("quick rejoin", "a member left and rejoined within its session timeout"),
    "expiry": CauseText("session timeout", "a member was evicted by session timeout"),
    "poll": CauseText("poll timeout", "a member exceeded max.poll.interval.ms"),
    "leave": CauseText("leave", "a member left"),
    "departure": CauseText("left or died", "a member left or died, and no commit shows which"),
    "join": CauseText("join", "a member joined"),
    "resubscription": CauseText("subscription", "a member changed its subscription"),
    "topics": CauseText("topics", "a topic was created, expanded or deleted"),
    "strategy": CauseText("strategy", "the group chose another strategy"),
    "follow-up": CauseText(
        "second step",
        "a cooperative rebalance needed a second step; its downtime counts for the cause "
        "of the first step",
    ),
    "request": CauseText("requested by a client", "a client requested it"),
    "unknown": CauseText("unknown", "of something that the log does not show"),
}


class Term(NamedTuple):
    """A term of the report's glossary with its definition."""

    term: str
    meaning: str


#: Identifier on the page -> entry; metrics that tables show come first.
GLOSSARY: dict[str, Term] = {
    **{metric.name: Term(metric.plain_label, metric.help) for metric in SHOWN[OutputLevel.GROUP]},
    "unread_share": Term(
        "Unread",
        "Estimated downtime as a share of the group's partition-time: the time in which its "
        "partitions were assigned to a member, added up over partitions. Availability is the rest.",
    ),
    "policy": Term(
        "Policy",
        "A rebalance protocol and an assignment strategy. eager: all members stop before each "
        "rebalance. cooperative (KIP-429): only partitions that move stop, in two steps. consumer "
        "(KIP-848): the broker assigns. +static: every member has a group.instance.id. own: the "
        "group's present settings, simulated; its difference from the record shows the error of "
        "the simulation.",
    ),
    "simulation": Term(
        "Cumulative, per rebalance",
        "Two ways to simulate a policy. Cumulative: the rebalances follow each other, and each "
        "starts from the policy's previous assignment. Per rebalance: each rebalance is simulated "
        "by itself and starts from the recorded owners.",
    ),
    "cause": Term(
        "Cause",
        "Reason for a rebalance. Some records state it; otherwise it is inferred from the "
        "difference between two records and from missing commits.",
    ),
    "storm": Term(
        "Rebalance storm",
        "Three or more rebalances of a group with separate causes, within the longest session "
        "timeout of its members. The cause of the first rebalance is the trigger.",
    ),
    "coverage": Term(
        "Coverage",
        "Share of a group's generations that is still in the log. A compacted log keeps only the "
        "newest one; generation numbers show how many there were.",
    ),
    "agreement": Term(
        "Reproduced",
        "Recorded assignments that Partage computes exactly, from the subscriptions in the log. "
        "Counted where all members are Java clients, or the coordinator assigned. They show that "
        "Partage reads the log correctly.",
    ),
    "comparable": Term(
        "Not comparable (*)",
        "The policy has no plan for some rebalances, or left partitions without an owner. Its sums "
        "are too small for a comparison.",
    ),
}


def cause_label(kind: str) -> str:
    """Return the short name of a kind of rebalance cause, as the report shows it.

    >>> cause_label("expiry"), cause_label("leave")
    ('session timeout', 'leave')
    """
    return CAUSES[kind].label if kind in CAUSES else kind


def cause_clause(kind: str) -> str:
    """Return the clause that explains a kind of rebalance cause after the word "because".

    >>> cause_clause("leave")
    'a member left'
    """
    return CAUSES[kind].clause if kind in CAUSES else f"of {kind}"


def count(value: int) -> str:
    """Format a whole number (``value``) with thousands separators.

    >>> count(94434)
    '94,434'
    """
    return f"{value:,}"


def plural(value: int, singular: str, plural_form: str | None = None) -> str:
    """Return a value with a noun in the singular or plural, such as ``2 groups``.

    ``singular`` is the singular, ``plural_form`` the plural if it is irregular.

    >>> plural(1, "group"), plural(2, "group")
    ('1 group', '2 groups')
    """
    return f"{count(value)} {singular if value == 1 else plural_form or singular + 's'}"


def percent(part: float, total: float) -> str:
    r"""Format ``part`` as a percentage of ``total``, such as ``99.6 %``.

    The text is 100 % or 0 % only if it is exactly all or none. It is ``-`` if the total is 0.

    >>> percent(477, 479), percent(9999, 10000), percent(0, 7), percent(1, 0)
    ('99.6\xa0%', '99.9\xa0%', '0\xa0%', '-')
    """
    if not total:
        return "-"
    if part in {0, total}:
        return f"0{_HARD}%" if part == 0 else f"100{_HARD}%"
    return f"{min(max(100 * part / total, 0.1), 99.9):.1f}{_HARD}%"


def digits(value: float) -> str:
    """Format a number with one decimal place, or with two significant digits if it is below 1.

    >>> digits(1234.56), digits(0.0423), digits(0)
    ('1,234.6', '0.042', '0')
    """
    if not value:
        return "0"
    return f"{value:,.1f}".removesuffix(".0") if abs(value) >= 1 else f"{value:.2g}"


def share_text(value: float) -> str:
    r"""Format a fraction from 0 to 1 in percent, with two significant digits if it is below 1 %.

    >>> share_text(0.00042), share_text(0.1234), share_text(0)
    ('0.042\xa0%', '12.3\xa0%', '0\xa0%')
    """
    return f"{digits(100 * value)}{_HARD}%"


def share(low: tuple[float, float], high: tuple[float, float]) -> str:
    r"""Format an uncertain percentage as a range, such as ``10 % to 30 %``.

    The part and the whole of the percentage are both uncertain.

    Args:
        low: lower bounds of the part and the whole.
        high: upper bounds of the part and the whole.

    >>> share((1, 10), (30, 100)), share((3, 10), (30, 100)), share((0, 0), (30, 100))
    ('10\xa0% to 30\xa0%', '30\xa0%', '0 to 30\xa0%')
    """
    a = 100 * low[0] / low[1] if low[1] else 0.0
    b = 100 * high[0] / high[1] if high[1] else 0.0
    first, last = (f"{_format_number(v)}{_HARD}%" for v in sorted((a, b)))
    if first == last:
        return first
    return f"{'0' if min(a, b) == 0 else first} to {last}"


def duration(ms: int) -> str:
    r"""Return a duration as text with its two largest units, such as ``2 h 5 min``.

    >>> duration(501_000), duration(90_000_000), duration(800)
    ('8\xa0min 21\xa0s', '1\xa0d 1\xa0h', '1\xa0s')
    """
    left = max(1, round(ms / 1000))
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        value, left = divmod(left, size)
        if value or parts:
            parts.append(f"{value}{_HARD}{unit}")
    kept = parts[:2]
    return " ".join(p for p in kept if not p.startswith(f"0{_HARD}")) or kept[0]


def format_time(ms: int) -> str:
    """Format a time (ms since the epoch) in UTC, such as ``2026-11-26 16:12:05``.

    >>> format_time(0)
    '1970-01-01 00:00:00'
    """
    # A damaged record may have any 64 bits as its time: such a time is shown as the limit.
    seconds = min(max(ms / 1000, -62_135_596_800), 253_402_300_799)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S}"


#: Characters shown of a name; Kafka's topic names have up to 249, group ids up to 32,767.
_LONGEST_NAME = 256


def short_name(value: str) -> str:
    """Cut a name (``value``) for display to 256 characters; the JSON document has the full name.

    >>> short_name("orders"), len(short_name("x" * 32_767))
    ('orders', 257)
    """
    return value if len(value) <= _LONGEST_NAME else f"{value[:_LONGEST_NAME]}…"


class TimeUnit(NamedTuple):
    """Unit of downtime, such as partition-minutes: one partition without a consumer for a minute.

    Attributes:
        seconds: partition-seconds per unit.
        long, brief: names of the unit of time, such as minutes and min.
    """

    seconds: int
    long: str
    brief: str

    @property
    def unit_name(self) -> str:
        """Name of the unit of time in the singular, such as minute."""
        return self.long.removesuffix("s")


def common_unit(times: Iterable[float | None]) -> TimeUnit:
    """Choose one unit of time for several downtimes, so that a table column is easy to compare.

    It suits the largest of ``times``, which are partition-seconds, or None where they are unknown.

    >>> common_unit([3, 600, None]).brief, common_unit([]).brief
    ('min', 's')
    """
    return _choose_unit(max((abs(one) for one in times if one is not None), default=0.0))


#: A sum is shown in a larger unit rather than with so many digits.
_LARGEST_NUMBER = 10_000


def groups_unit(groups: Iterable[GroupFigures]) -> TimeUnit:
    """Choose the unit of time for all downtimes and gains in a report of consumer groups.

    It suits the largest downtime of a group, so that the sum and its parts can be compared.
    """
    sizes = [size for size in map(downtime_size, groups) if size is not None]
    largest = common_unit(sizes)
    units = [one for one in _UNITS if one.seconds >= largest.seconds]
    fit = (one for one in units if sum(sizes) < _LARGEST_NUMBER * one.seconds)
    return next(fit, units[-1])


def downtime_size(group: GroupFigures) -> float | None:
    """Return the downtime of a group in partition-seconds: its estimate, or else its upper bound.

    The result is None if neither is known.
    """
    if group.downtime_estimate is not None:
        return group.downtime_estimate.best
    return None if group.downtime_bounds is None else group.downtime_bounds.high


def format_range(
    bounds: FigureRange | None, *, short: bool = False, unit: TimeUnit | None = None
) -> str:
    r"""Format the lower and upper bound of a downtime, such as ``20 to 90 partition-seconds``.

    ``short`` abbreviates the unit. ``unit`` is the unit of the table column; None chooses one that
    suits the upper bound.

    >>> format_range(FigureRange(20, 90)), format_range(FigureRange(0, 0)), format_range(None)
    ('20 to 90\xa0partition-seconds', 'none', 'unknown')
    >>> format_range(FigureRange(600, 1_300), short=True)
    '10–21.7\xa0p·min'
    """
    if bounds is None:
        return "unknown"
    low, high = bounds.low, bounds.high
    if low == high == 0:
        return "0" if short else "none"
    chosen = unit or _choose_unit(max(abs(low), abs(high)))
    a, b = (
        _format_number(v / chosen.seconds, has_small_decimals=unit is not None) for v in (low, high)
    )
    name = f"p·{chosen.brief}" if short else f"partition-{chosen.long}"
    if a == b:
        return f"{a}{_HARD}{name.removesuffix('s') if a == '1' and not short else name}"
    dash = "–" if short and low >= 0 else " to "
    return f"{a}{dash}{b}{_HARD}{name}"


def format_estimate(
    estimate: Estimate | None,
    *,
    short: bool = False,
    single: float | None = None,
    unit: TimeUnit | None = None,
) -> str:
    r"""Format an estimated downtime with its interval, such as ``2.4 partition-hours (1.9 to 3)``.

    The interval contains 80 % of cases. ``short`` abbreviates the unit. ``single`` is a value
    without an interval, used if there is no estimate. ``unit`` is the unit of the table column;
    None chooses one that suits the estimate.

    >>> format_estimate(Estimate(8_640, 6_840, 10_800))
    '2.4\xa0partition-hours (1.9 to 3)'
    >>> format_estimate(Estimate(20, 12, 31), short=True), format_estimate(None)
    ('20\xa0p·s (12–31)', 'unknown')
    >>> format_estimate(Estimate(-7_200, -10_800, -3_600), short=True)
    '−2\xa0p·h (−3 to −1)'
    >>> format_estimate(Estimate(20, 1, 31), short=True, unit=common_unit([600]))
    '0.33\xa0p·min (0.02–0.52)'
    """
    if estimate is None and single is None:
        return "unknown"
    best = estimate.best if estimate is not None else single or 0.0
    chosen = unit or _choose_unit(abs(best))
    value, *ends = (
        _format_number(one / chosen.seconds, has_small_decimals=unit is not None)
        for one in (best, *((estimate.low, estimate.high) if estimate is not None else ()))
    )
    name = f"p·{chosen.brief}" if short else f"partition-{chosen.long}"
    text = f"{value}{_HARD}{name.removesuffix('s') if value == '1' and not short else name}"
    if estimate is None:
        return text
    dash = "–" if short and estimate.low >= 0 else " to "
    return f"{text} ({ends[0]}{dash}{ends[1]})"


def downtime_text(
    bounds: FigureRange | None,
    estimate: Estimate | None,
    *,
    short: bool = False,
    unit: TimeUnit | None = None,
) -> str:
    """Format a downtime as text: its estimate, or its bounds if there is no estimate.

    ``short`` abbreviates the unit. ``unit`` is the unit of the table column; None chooses one that
    suits the downtime.
    """
    if estimate is not None:
        return format_estimate(estimate, short=short, unit=unit)
    return format_range(bounds, short=short, unit=unit)


#: Units of downtime, the smallest first.
_UNITS = (
    TimeUnit(1, "seconds", "s"),
    TimeUnit(60, "minutes", "min"),
    TimeUnit(3_600, "hours", "h"),
)


def _choose_unit(partition_seconds: float) -> TimeUnit:
    """Return the unit that suits a downtime: partition-seconds, -minutes or -hours."""
    seconds, minutes, hours = _UNITS
    if partition_seconds < 2 * minutes.seconds:
        return seconds
    return minutes if partition_seconds < 2 * hours.seconds else hours


def _format_number(value: float, *, has_small_decimals: bool = False) -> str:
    """Format a number with one decimal place, or as an integer if it is 100 or more.

    With ``has_small_decimals``, a number below 1 gets two decimal places.
    """
    if has_small_decimals and 0 < abs(value) < 0.995:
        if abs(value) < 0.005:
            return "<0.01" if value > 0 else ">\N{MINUS SIGN}0.01"
        return f"{value:.2f}".rstrip("0").replace("-", "\N{MINUS SIGN}")
    text = f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text.replace("-", "\N{MINUS SIGN}")


#: How to record rebalances before compaction removes them.
RECORD_MORE = (
    "Record from now on with partage capture --follow, or set min.compaction.lag.ms on "
    "__consumer_offsets and capture later."
)


def run_headline(run: RunFigures) -> str:
    """Return the headline of a run's report: how long rebalances left partitions unread."""
    if not run.groups_with_rebalances:
        return "No group rebalanced in this log."
    known = run.rebalance_count
    if not run.has_reliable_downtime:
        return (
            "The cost of rebalances is unknown: the log contains only "
            f"{percent(run.in_log, known)} of {plural(known, 'known rebalance')}."
        )
    cover = run.summary["coverage"]
    span = ""
    if cover.get("first_ms") is not None:
        span = f" in {duration(cover['last_ms'] - cover['first_ms'])}"
    lost = run.downtime_bounds
    if lost is None:
        happened = sum(g.rebalances for g in run.groups_with_rebalances)
        groups = plural(len(run.groups_with_rebalances), "group")
        begin = f"{plural(happened, 'rebalance')} of {groups}{span}"
        if not run.recorded_figures.done:
            return f"{begin}; none could be replayed."
        moved = run.recorded_figures.moved
        return f"{begin} moved {plural(moved, 'partition') if moved else 'no partition'}."
    if lost.high == 0:
        return f"Rebalances caused no downtime{span}."
    if run.downtime_estimate is not None:
        return _unread_sentence(run, run.downtime_estimate)
    unit = groups_unit(run.groups)
    return f"Rebalances caused {format_range(lost, unit=unit)} of downtime{span}."


def _unread_sentence(run: RunFigures, estimate: Estimate) -> str:
    """Return a sentence that says how long rebalances kept partitions from being consumed."""
    unit = groups_unit(run.groups)
    text = f"Rebalances kept partitions unread for {format_estimate(estimate, unit=unit)}"
    if not run.assigned_ps:
        return f"{text}."
    part = percent(min(estimate.best, run.assigned_ps), run.assigned_ps)
    return f"{text}: {part} of all consuming time."


def reliability_sentences(run: RunFigures) -> str:
    """Return sentences that tell the reader how reliable a run's numbers are.

    They state how complete the log is, how many recorded assignments Partage reproduces, and what
    the intervals mean.
    """
    known = run.rebalance_count
    parts = [f"The log has {percent(run.in_log, known)} of {plural(known, 'known rebalance')}."]
    agreement = run.summary.get("agreement") or {}
    if agreement.get("counted"):
        parts.append(
            f"Partage reproduces {count(agreement['agreed'])} of {count(agreement['counted'])} "
            "recorded assignments exactly."
        )
    if run.downtime_estimate is not None:
        parts.append(
            f"A range should contain the true value in 80{_HARD}% of cases. In recordings with "
            "known downtime it did so for 8 of 10 rebalances, but only for 6 of 10 groups."
        )
    if run.back_tests:
        agreed = sum(one.agrees_with_recording for one in run.back_tests)
        parts.append(
            f"Back-test: the simulation predicts the downtime correctly for {count(agreed)} of "
            f"{plural(len(run.back_tests), 'recorded change')} of settings."
        )
    return " ".join(parts)


def opening_sentences(
    run: RunFigures,
    saved: Estimate | None,
    helped: int,
    changed: int = 0,
    estimated_ps: float = 0.0,
) -> str:
    """Return the report's opening sentences: which groups had downtime, why, and what can be saved.

    Args:
        run: the run.
        saved: downtime that the best settings save, in all groups together; None if unknown.
        helped: number of groups with such settings.
        changed: number of groups with any recommended change.
        estimated_ps: downtime saved by recommended changes that were not simulated, in
            partition-seconds; 0 if unknown.
    """
    parts = [_location_sentence(run), _main_cause_sentence(run)]
    if not run.has_reliable_downtime:
        parts = [RECORD_MORE, "In the log:", *parts]
    if changed > helped:
        parts.append(_changes_sentence(run, saved, helped, changed, estimated_ps))
    elif saved is not None:
        parts.append(
            f"Other settings in {plural(helped, 'group')} would have saved "
            f"{format_estimate(saved, unit=groups_unit(run.groups))}."
        )
    elif run.downtime_bounds is None and run.recorded_figures.done:
        best = _policy_with_fewest_moves(run)
        if best is not None and best.moved < run.recorded_figures.moved:
            parts.append(f"With {best.policy}, {count(best.moved)} partitions would have moved.")
    if run.policies and OWN not in run.policies:
        parts.append("Replay with --policy own too: savings are measured against it.")
    return " ".join(p for p in parts if p)


def _changes_sentence(
    run: RunFigures, saved: Estimate | None, helped: int, changed: int, estimated_ps: float
) -> str:
    """Return a sentence on how many groups have a recommended change, and how much it would save.

    Args:
        run: the run.
        saved: downtime that simulated changes save, in all groups together; None if unknown.
        helped: number of groups with a simulated change.
        changed: number of groups with any recommended change.
        estimated_ps: downtime that the other changes save, in partition-seconds; 0 if unknown.
    """
    unit = groups_unit(run.groups)
    begin = f"{plural(changed, 'group has', 'groups have')} a recommended change"
    estimated = "is unknown"
    if estimated_ps > 0:
        about = format_estimate(None, single=estimated_ps, unit=unit)
        estimated = f"is about {about}, estimated from the number of rebalances that they avoid"
    if saved is None:
        return f"{begin}, whose effect was not simulated; the gain {estimated}."
    saving = format_estimate(saved, unit=unit)
    return (
        f"{begin}. In {count(helped)} of them its effect was simulated and would have saved "
        f"{saving}; the gain of the other {count(changed - helped)} {estimated}."
    )


#: Groups that the lead names.
_MOST_NAMED = 3


def _distribution_sentence(run: RunFigures, begin: str) -> str:
    """Return a sentence that names the few consumer groups with half of all downtime.

    ``begin`` is the sentence that precedes it.
    """
    found = [
        (g.name, g.downtime_estimate.best)
        for g in run.groups
        if g.downtime_estimate and g.downtime_estimate.best > 0
    ]
    found.sort(key=lambda pair: -pair[1])
    whole = sum(best for _, best in found)
    some, reached = 0, 0.0
    while reached < whole / 2:
        reached += found[some][1]
        some += 1
    shown = found[: min(some, _MOST_NAMED)]
    named = ", ".join(f"{short_name(name)} {percent(best, whole)}" for name, best in shown)
    where = "1 group" if some == 1 else f"{count(some)} groups"
    first = "" if some <= _MOST_NAMED else "; first "
    joined = f"{first}{named}" if first else f": {named}"
    return f"{begin} {percent(reached, whole)} of the downtime is in {where}{joined}."


def _location_sentence(run: RunFigures) -> str:
    """Return a sentence with a run's number of rebalances and the groups with the most downtime."""
    lost = [
        (g, g.downtime_bounds)
        for g in run.groups
        if g.downtime_bounds is not None and g.downtime_bounds.high > 0
    ]
    whole = sum(r.high for _, r in lost)
    happened = sum(g.rebalances for g in run.groups)
    begin = (
        f"{plural(happened, 'rebalance')} in {plural(len(run.groups_with_rebalances), 'group')}."
    )
    if not whole:
        return begin
    if run.downtime_estimate is not None and run.downtime_estimate.best > 0:
        return _distribution_sentence(run, begin)
    some, reached = 0, 0.0
    for _, r in lost:
        some, reached = some + 1, reached + r.high
        if reached >= whole / 2:
            break
    lows = sum(r.low for _, r in lost[:some]), sum(r.low for _, r in lost)
    part = share(lows, (reached, whole))
    names = f"group {short_name(lost[0][0].name)}" if some == 1 else f"{count(some)} groups"
    return f"{begin} {part} of the downtime is in {names}."


def _main_cause_sentence(run: RunFigures) -> str:
    known = [c for c in run.causes if c.kind not in {"unknown", "first"}]
    if not known:
        return ""
    estimated = sum(c.best for c in run.causes)
    if estimated:
        most = max(known, key=lambda c: c.best)
        part = percent(most.best, estimated)
        return f"Main cause: {cause_clause(most.kind)} ({part} of the downtime)."
    whole = sum(c.high for c in run.causes)
    if not whole:
        most = max(known, key=lambda c: c.rebalances)
        part = percent(most.rebalances, sum(c.rebalances for c in run.causes))
        return f"Most frequent cause: {cause_clause(most.kind)} ({part} of the rebalances)."
    lows = sum(c.low for c in run.causes)
    most, least = max(known, key=lambda c: c.high), max(known, key=lambda c: c.low)
    part = share((most.low, lows), (most.high, whole))
    if least.kind == most.kind or not lows:
        return f"Main cause: {cause_clause(most.kind)} ({part} of the downtime)."
    other = share((least.low, lows), (least.high, whole))
    return (
        f"Main cause by the upper bounds: {cause_clause(most.kind)} ({part} of the downtime); by "
        f"the lower bounds: {cause_clause(least.kind)} ({other})."
    )


def _policy_with_fewest_moves(run: RunFigures) -> PolicyFigures | None:
    """Return the simulated policy (protocol and strategy) that moves the fewest partitions.

    A policy that leaves more members idle than recorded is not considered.
    """
    fit = [
        f
        for f in run.figures.values()
        if f is not run.recorded_figures and f.is_comparable and f.idle <= run.recorded_figures.idle
    ]
    return min(fit, key=lambda f: (f.moved, f.policy), default=None)


def simulated_note(run: RunFigures) -> str:
    """Return a sentence on how many recorded rebalances were simulated, and why not all.

    It is empty if none was simulated.
    """
    simulated = run.recorded_figures.happened
    if not simulated:
        return ""
    text = f"{count(simulated)} of {plural(run.in_log, 'recorded rebalance')} are simulated."
    if run.in_log > simulated:
        text += (
            " The others have no members, belong to share groups, Kafka Streams or Kafka Connect, "
            "or only convert the group in a migration."
        )
    return (
        f"{text} own: the present settings, simulated. A policy has its own number: cooperative "
        "policies add second steps, and a policy may avoid a rebalance."
    )
