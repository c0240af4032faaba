"""Tables of policies, groups and causes for display, as texts with values to sort by.

The page and the terminal show the same cells. Columns of policies come from the metrics table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from partage.report.advice import best_policy
from partage.report.gains import gains_by_policy
from partage.report.messages import (
    TimeUnit,
    cause_clause,
    cause_label,
    common_unit,
    count,
    downtime_size,
    downtime_text,
    format_estimate,
    format_range,
    format_time,
    groups_unit,
    percent,
    plural,
)
from partage.report.recommendations import (
    Recommendation,
    combined_gain,
    present_settings,
    recommendations_for,
    with_command,
)
from partage.report.run import (
    CauseShare,
    Estimate,
    FigureRange,
    GroupFigures,
    PolicyFigures,
    RunFigures,
    StreamsOutcome,
)
from partage.report.timeline import columns_of
from partage.tables.metrics import OWN, SHOWN, Aggregation, Metric, OutputLevel
from partage.tables.statuses import FAILED, NOT_YET, RECORDED, REFUSED

__all__ = [
    "MAX_LISTED", "NOT_MEASURABLE", "STATUS_LABELS", "STREAMS_HEADINGS", "CauseList", "CauseRow",
    "Cell", "GroupRow", "PolicyRow", "StreamsCard", "cause_list", "group_data", "group_row",
    "metric_headings", "policy_rows", "streams_card",
]  # fmt: skip

#: Rows of a table on the page; the run's own tables have all.
MAX_LISTED = 2_000
#: Text for statuses of policies without a plan.
STATUS_LABELS = {NOT_YET: "not in Partage", FAILED: "failed", REFUSED: "not applicable"}
#: Text for a saving whose interval, the error of the simulation included, contains zero.
NOT_MEASURABLE = "within error"


class Cell(NamedTuple):
    """One cell of a report table: the displayed text, and a value to sort by.

    The HTML page and the terminal show the same cells.

    Attributes:
        text: the displayed text.
        sort: value to sort by; None sorts as the smallest.
        range: lower and upper end of the bar that the cell shows; None for no bar.
    """

    text: str
    sort: float | None
    range: FigureRange | None = None


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One row of the report's table that compares policies (protocol and assignment strategy).

    It shows how one policy would have changed downtime, moves and other metrics.

    Attributes:
        policy: name of the policy; `RECORDED` for the recorded assignments.
        label: the displayed name.
        comparable: whether its sums can be compared with the recorded ones.
        note: text in place of the cells, for a policy that has no assignments.
        affected: number of rebalances that the note concerns.
        cells: one cell per metric of the table.
    """

    policy: str
    label: str
    comparable: bool
    note: str
    affected: int
    cells: tuple[Cell, ...]

    @property
    def is_recorded(self) -> bool:
        """Return whether this row shows the recorded assignments, not a simulated policy."""
        return self.policy == RECORDED


def policy_rows(
    names: Iterable[str],
    metrics: Mapping[str, PolicyFigures],
    output: OutputLevel,
    gains: Mapping[str, Estimate],
    unit: TimeUnit | None = None,
) -> Iterator[PolicyRow]:
    """Yield the rows of the report's table that compares policies, recorded assignments first.

    Args:
        names: policies in display order, without `RECORDED`.
        metrics: dict from policy to metrics.
        output: the terminal or the page, which decides the columns.
        gains: dict from policy to expected gain; without policies whose gain is unknown.
        unit: time unit of the report; None for the unit that suits the table.
    """
    listed = [name for name in dict.fromkeys((RECORDED, *names)) if name in metrics]
    unit = unit or common_unit(
        [_downtime_size(metrics[name]) for name in listed]
        + [gains[name].best for name in listed if name in gains]
    )
    for name in listed:
        f = metrics[name]
        label = "as recorded" if name == RECORDED else name
        comparable = f.is_comparable or name == RECORDED
        cells = [_metric_cell(metric, f, gains.get(name), unit) for metric in SHOWN[output]]
        if not comparable:
            cells[0] = cells[0]._replace(text=f"{cells[0].text} *")
        affected = f.rows if f.can_be_simulated else f.claimed
        yield PolicyRow(name, label, comparable, _note(f), affected, tuple(cells))


def _note(metrics: PolicyFigures) -> str:
    if metrics.done:
        return ""
    status = FAILED if metrics.failed else REFUSED if metrics.can_be_simulated else NOT_YET
    return STATUS_LABELS[status]


def _downtime_size(metrics: PolicyFigures) -> float | None:
    """Return the downtime of a policy as a sort key: its estimate, or else its upper bound.

    The result is None if neither is known.
    """
    if metrics.stopped_estimate is not None:
        return float(metrics.stopped_estimate.best)
    return None if metrics.stopped is None else float(metrics.stopped.high)


def _metric_cell(
    metric: Metric, metrics: PolicyFigures, gain: Estimate | None, unit: TimeUnit
) -> Cell:
    """Return the cell of one metric in the table that compares policies: a text, and a sort value.

    A policy is a protocol with an assignment strategy.

    Args:
        metric: the metric of the column, such as moved partitions.
        metrics: all metrics of the policy.
        gain: downtime that the policy saves; None if unknown.
        unit: unit of all downtimes in the table.
    """
    # The saving of a policy is its gain against the simulated present settings, shown only if its
    # interval excludes zero. The present settings and the recorded assignments have no saving.
    value, how = getattr(metrics, metric.name), metric.aggregation
    if how is Aggregation.DIFFERENCE:
        return Cell("", None) if metrics.policy in {RECORDED, OWN} else _saving(gain, unit)
    if how is Aggregation.ESTIMATE:
        return _downtime_cell(metrics, unit)
    if value is None:
        return Cell("?", None)
    if isinstance(value, FigureRange):
        is_count = metric.unit == "records"
        text = _records(value) if is_count else format_range(value, short=True, unit=unit)
        return Cell(text, value.high, value)
    if how is Aggregation.RATIO:
        part, whole = (getattr(metrics, source) for source in metric.input_columns)
        return Cell(percent(part, whole), value)
    if how is Aggregation.MEAN:
        return Cell(f"{value:,.1f}", value)
    # The minimum of moves is not known for each rebalance: then the sum is a lower bound.
    least = "≥ " if metric.name == "avoidable" and metrics.proven < metrics.done else ""
    return Cell(f"{least}{count(value)}", value)


def _saving(gain: Estimate | None, unit: TimeUnit) -> Cell:
    if gain is None:
        return Cell("?", None)
    if not gain.excludes_zero:
        return Cell(NOT_MEASURABLE, 0.0)
    ends = FigureRange(gain.low, gain.high)
    return Cell(format_estimate(gain, short=True, unit=unit), gain.best, ends)


def _downtime_cell(metrics: PolicyFigures, unit: TimeUnit) -> Cell:
    """Return a table cell with the estimated downtime of a policy, or with its bounds.

    The text is ``?`` if both are unknown.
    """
    bounds, estimate = metrics.stopped, metrics.stopped_estimate
    if estimate is not None:
        ends = FigureRange(estimate.low, estimate.high)
        return Cell(format_estimate(estimate, short=True, unit=unit), estimate.best, ends)
    if bounds is None:
        return Cell("?", None)
    return Cell(format_range(bounds, short=True, unit=unit), bounds.high, bounds)


def _records(found: FigureRange) -> str:
    low, high = count(int(found.low)), count(int(found.high))
    return low if low == high else f"{low}–{high}"


class CauseRow(NamedTuple):
    """One row of the report's list of rebalance causes, such as ``leave`` with its downtime.

    Attributes:
        label: short name.
        sentence: why the groups rebalanced.
        rebalances: number of rebalances with this cause.
        figure: the list's measure as text: downtime, or the share of rebalances.
        size: the list's measure as a number; None if unknown.
    """

    label: str
    sentence: str
    rebalances: int
    figure: str
    size: float | None


class CauseList(NamedTuple):
    """The report's list of rebalance causes, sorted by one measure such as downtime.

    The measure is the same for all causes, and each cause has a bar of its size.

    Attributes:
        measure: name of the measure, for the heading.
        rows: the causes.
        largest: value of the cause with the longest bar.
        rest: sentence about the causes without a row; empty if there are none.
    """

    measure: str
    rows: tuple[CauseRow, ...]
    largest: float
    rest: str = ""


def cause_list(
    causes: Iterable[CauseShare], unit: TimeUnit | None = None, max_rows: int | None = None
) -> CauseList:
    """Build the report's list of rebalance causes, sorted by downtime.

    If no downtime is known, it is sorted by the number of rebalances.

    Args:
        causes: the causes.
        unit: time unit of the report; None for the unit that suits the list.
        max_rows: number of causes with a row of their own; None for all.
    """
    # The measure is the estimated downtime, or its upper bound in runs without estimates, or the
    # number of rebalances if no downtime is known.
    found = list(causes)
    number = sum(c.rebalances for c in found)
    if any(c.best for c in found):
        measure, size = "downtime", {c.kind: c.best for c in found}
    elif any(c.high for c in found):
        measure, size = "downtime, upper bound", {c.kind: c.high for c in found}
    else:
        measure, size = "share of rebalances", {c.kind: float(c.rebalances) for c in found}
    counted = not measure.startswith("downtime")
    unit = unit or common_unit(size.values())
    rows = []
    for one in sorted(found, key=lambda c: (-size[c.kind], -c.rebalances, c.kind)):
        known = counted or one.timed > 0
        value = size[one.kind]
        figure = (
            percent(value, number)
            if counted
            else format_estimate(None, short=True, single=value, unit=unit)
        )
        rows.append(
            CauseRow(
                cause_label(one.kind),
                _cause_sentence(one.kind),
                one.rebalances,
                figure if known else "?",
                value if known else None,
            )
        )
    largest = max(size.values(), default=0.0)
    return CauseList(measure, tuple(rows[:max_rows]), largest, _rest_of_causes(rows, max_rows))


def _rest_of_causes(rows: Sequence[CauseRow], max_rows: int | None) -> str:
    """Return a sentence about the less important rebalance causes, which have no row of their own.

    It also has the number of all rebalances. It is empty if each cause has a row. ``max_rows`` is
    the number of causes with a row.
    """
    rest = rows[len(rows) if max_rows is None else max_rows :]
    if not rest:
        return ""
    named = ", ".join(f"{one.label} {count(one.rebalances)}" for one in rest)
    whole = sum(one.rebalances for one in rows)
    return f"Rebalances with other causes: {named}. All together: {plural(whole, 'rebalance')}."


def _cause_sentence(kind: str) -> str:
    if kind == "unknown":
        return "The log does not show the cause"
    clause = cause_clause(kind)
    return clause[0].upper() + clause[1:]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One row of the report's table of consumer groups.

    It has the texts and sort values of the group's cells, and its first recommendation.

    Attributes:
        group: the group's metrics.
        search: text that the filter searches.
        downtime: recorded downtime.
        share: share of the time in which its partitions had no consumer.
        per_hour: rebalances per hour.
        cause: label of the main cause.
        cause_share: share of the downtime that the main cause has; empty if unknown.
        best: policy of the best settings; empty if there are none.
        saves: downtime that the best settings save.
        coverage: share of its generations in the log.
        reproduced: number of recorded assignments that Partage reproduces, of those compared.
        first: its first recommendation; None if there is none.
        gain: expected gain of the first recommendation.
        now: present settings that the first recommendation changes, or the group's main ones.
        together: expected gain of all its recommendations; empty if fewer than two are known.
        worst: when its main cause led to the most downtime; empty if unknown.
    """

    group: GroupFigures
    search: str
    downtime: Cell
    share: Cell
    per_hour: Cell
    cause: str
    cause_share: str
    best: str
    saves: Cell
    coverage: Cell
    reproduced: Cell
    first: Recommendation | None
    gain: Cell
    now: str
    together: str
    worst: str

    @property
    def action(self) -> str:
        """The change that the group's first recommendation advises, in a few words.

        It is empty without a recommendation, unless the group's brokers should be checked.
        """
        if self.first is not None:
            return self.first.advice.title
        main = self.group.main_cause
        return (
            "Nothing for its clients: check the brokers" if main and main.kind == "broker" else ""
        )


def group_row(group: GroupFigures, unit: TimeUnit | None = None) -> GroupRow:
    """Build one consumer group's row of the report's table of groups.

    The row shows the group's downtime, its main cause of rebalances and its first recommendation.

    Args:
        group: the group.
        unit: time unit of the table (`groups_unit`); None for the unit that suits each value.
    """
    best, lost, unread = best_policy(group), group.downtime_bounds, group.downtime_estimate
    cause = group.main_cause
    policies = [f for name, f in group.figures.items() if name != RECORDED and f.counted]
    counted = group.traits.judged or sum(f.counted for f in policies)
    agreed = group.traits.agreed if group.traits.judged else sum(f.agreed for f in policies)
    known = group.rebalances + group.missing_generations
    label = cause_label(cause.kind) if cause is not None else ""
    searched = [group.name, group.kind, *group.claimed, *group.clients]
    searched += [cause.kind, label] if cause is not None else []
    found = recommendations_for(group)
    first = found[0] if found else None
    per_hour = group.rebalances_per_hour
    return GroupRow(
        group, " ".join(searched),
        Cell(
            downtime_text(lost, unread, short=True, unit=unit) if lost else "?",
            downtime_size(group),
        ),
        Cell(percent(group.unread_share, 1), group.unread_share)
        if group.unread_share is not None else Cell("?", None),
        Cell(f"{per_hour:,.0f}", per_hour) if per_hour is not None else Cell("?", None),
        label, _cause_share(group, cause), best.policy if best else "",
        Cell(format_estimate(best.saved, short=True, unit=unit), best.saved.best)
        if best else Cell("", None),
        Cell(percent(group.rebalances, known), group.coverage),
        Cell(f"{agreed} of {counted}", agreed / counted) if counted else Cell("", None),
        first, Cell(first.gain_in(unit), first.gain_ps) if first else Cell("", None),
        _present_values(group, first), _combined_gain_text(group, found, unit),
        _worst_times(cause, unit),
    )  # fmt: skip


def _worst_times(cause: CauseShare | None, unit: TimeUnit | None) -> str:
    """Return a sentence with the times of the rebalances by which a cause led to the most downtime.

    The sentence is empty if they are unknown.
    """
    if cause is None or not cause.worst:
        return ""
    times, day = [], ""
    for at, size in cause.worst:
        text = format_time(at)
        long = format_estimate(None, short=True, single=size, unit=unit)
        times.append(f"{text.removeprefix(day)} ({long})")
        day = f"{text.partition(' ')[0]} "
    return f"Most downtime by {cause_label(cause.kind)}: rebalances of {', '.join(times)}, UTC."


def _combined_gain_text(
    group: GroupFigures, recommendations: Sequence[Recommendation], unit: TimeUnit | None
) -> str:
    """Return the expected gain of all recommended changes of a group together, as text.

    The text is empty unless at least two changes have a known gain. ``unit`` is the time unit of
    the table.
    """
    gain = combined_gain(group) if sum(one.gain_ps > 0 for one in recommendations) > 1 else None
    if gain is None:
        return ""
    return f"about {format_estimate(None, short=True, single=gain, unit=unit)}"


def _cause_share(group: GroupFigures, cause: CauseShare | None) -> str:
    whole = sum(c.best for c in group.causes)
    return percent(cause.best, whole) if cause is not None and whole else ""


def _present_values(group: GroupFigures, first: Recommendation | None) -> str:
    """Return a text with present and new values of the settings that a recommendation changes.

    An example is ``session.timeout.ms: 6000 → 20000 (consumer properties)``. ``first`` is the
    group's first recommendation; if it is None, the group's main settings are shown.
    """
    some = first.now if first is not None and first.now else present_settings(group)[1:3]
    changed = [one for one in some if one.new and one.new != one.now]
    is_choice = first is not None and first.advice.rule == "late-polls"
    separator = " or " if changed and is_choice else "; "
    text = separator.join(one.change_text for one in changed or some)
    label = first.lines_label if changed and first is not None else ""
    return f"{text} ({label})" if label else text


#: Headings of a table of Streams settings.
STREAMS_HEADINGS = (
    "Settings", "Worst outage (s)", "Mean outage (s)", "All outages (s)", "Rebalances",
    "Moved tasks", "Restored", "Extra disk",
)  # fmt: skip
#: Smallest share of the total outage time that is reported as a gain of other settings.
_LEAST_GAIN = 0.05


@dataclass(frozen=True, slots=True)
class StreamsCard:
    """Display data of one simulated Kafka Streams application, for the HTML page and the terminal.

    It has a table of settings with their outages (times in which a task has no owner with all its
    state), and a sentence about the best settings.

    Attributes:
        group: the group's metrics.
        facts: a sentence about the recorded trace.
        best: a sentence about the settings with the shortest outages.
        rows: rows of its table: the label, and one cell for each other heading.
    """

    group: GroupFigures
    facts: str
    best: str
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def streams_card(group: GroupFigures) -> StreamsCard:
    """Build the display data of a simulated Kafka Streams application: a table of settings and
    outages.

    An outage is a time in which a task has no owner with all its state. A sentence names the
    settings with the shortest outages.
    """
    first = group.streams[0]
    seconds = ((first.to_ms or 0) - (first.from_ms or 0)) / 1_000
    facts = (
        f"{plural(first.clients or 0, 'client')}, {plural(first.tasks or 0, 'task')}, "
        f"{plural(first.standbys or 0, 'standby', 'standbys')} per task; simulated: "
        f"{plural(first.events or 0, 'recorded start or stop', 'recorded starts and stops')} of "
        f"clients in {seconds:,.0f} s"
    )
    rows = tuple((_streams_label(group, one), _streams_cells(one)) for one in group.streams)
    return StreamsCard(group, facts, _best_settings_sentence(group), rows)


def _streams_label(group: GroupFigures, outcome: StreamsOutcome) -> str:
    """Return the row label for one simulated combination of Kafka Streams settings.

    Examples are ``present settings`` and ``group.protocol=streams``: the label names what differs
    from the present settings. ``outcome`` is the simulation's result.
    """
    if not outcome.simulated:
        return "as recorded (without restoring)"
    if outcome.settings:
        return outcome.settings
    now = next(each for each in group.streams if each.simulated)
    if outcome is now:
        return "present settings"
    if outcome.protocol != now.protocol:
        return f"group.protocol={outcome.protocol}"
    return f"assignor {outcome.assignor.removeprefix('streams:')}"


def _streams_cells(one: StreamsOutcome) -> tuple[Cell, ...]:
    if one.simulated and one.outages is None:
        return (Cell("not applicable", None), *(Cell("", None) for _ in STREAMS_HEADINGS[2:]))
    times = (one.worst_outage_s, one.mean_outage_s, one.outage_s, one.rebalances, one.moved)
    texts = [(each, None if each is None else f"{each:,.1f}") for each in times]
    texts += [(each, None if each is None else _format_state_size(each, one.unit))
              for each in (one.restored, one.disk)]  # fmt: skip
    return tuple(Cell("?" if text is None else text, each) for each, text in texts)


def _format_state_size(size: int, unit: str | None) -> str:
    """Format the size of a Kafka Streams state store, such as ``1.5 MB`` or ``20,000 records``.

    ``unit`` is ``records`` if ``size`` counts records, otherwise the size is in bytes.
    """
    if unit == "records":
        return plural(size, "record")
    power = min(4, max(0, len(str(size)) - 1) // 3)
    names = ("B", "kB", "MB", "GB", "TB")
    return f"{size / 1_000**power:,.{1 if power else 0}f} {names[power]}"


def _best_settings_sentence(group: GroupFigures) -> str:
    """Return a sentence that names the settings with which a Streams application has the least
    outages.

    It also states the additional disk space. If no settings shorten the outages measurably, the
    sentence says so.
    """
    # A gain counts if it is larger than the error of the simulation: the difference between the
    # recorded outages and those that are simulated under the present settings.
    recorded = group.streams[0]
    simulated = [one for one in group.streams if one.outage_s is not None and one.simulated]
    if not simulated or not recorded.events:
        return "No client started or stopped: the recording does not tell settings apart."
    now = simulated[0]
    best = min(simulated, key=lambda one: (one.outage_s or 0.0, one.disk or 0))
    before, after = now.outage_s or 0.0, best.outage_s or 0.0
    error = abs((recorded.outage_s or 0.0) - before)
    if before - after <= max(error, _LEAST_GAIN * before):
        return (
            f"No other settings shorten the outages measurably: {before:,.0f} s in all, and "
            f"{error:,.0f} s is the error of the simulation."
        )
    text = (
        f"Shortest outages: {_streams_label(group, best)}, {after:,.0f} s in all (now "
        f"{before:,.0f} s), the worst {best.worst_outage_s or 0:,.0f} s (now "
        f"{now.worst_outage_s or 0:,.0f} s)"
    )
    if best.disk is None or now.disk is None:
        return f"{text}. Costs of disk are unknown: the capture has no state sizes."
    more = best.disk - now.disk
    return f"{text}; {'+' if more >= 0 else '-'}{_format_state_size(abs(more), best.unit)} of disk."


def metric_headings() -> list[dict[str, str]]:
    """Return the column headings of the policy table on the page.

    Each heading is a dict with the name, the label and the help text of a metric.
    """
    return [
        {"name": metric.name, "label": metric.label, "help": metric.help}
        for metric in SHOWN[OutputLevel.GROUP]
    ]


def group_data(run: RunFigures, group: GroupFigures, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return one consumer group's data for the page's script, which shows it when the group is
    opened.

    The data are the timeline, the rebalances, the recommendations and the compared policies.

    Args:
        run: the published run.
        group: the group's metrics.
        details: the group's timeline and rebalances, from `partage.report.group_details`.
    """
    bad = [b for b in run.bad if b.group == group.name]
    found, unit = recommendations_for(group), groups_unit(run.groups)
    return {
        **details,
        "name": group.name,
        "downtime": downtime_text(group.downtime_bounds, group.downtime_estimate, unit=unit),
        "share": percent(group.unread_share, 1) if group.unread_share is not None else None,
        "advice": [_recommendation_data(run, group, one) for one in found],
        "together": _combined_gain_text(group, found, unit),
        "policies": _policy_columns(run, group.figures, gains_by_policy([group]), unit),
        "per_rebalance": _policy_columns(
            run, group.per_rebalance, gains_by_policy([group], per_rebalance=True), unit
        ),
        "bad": columns_of(
            {"partition": b.partition, "offset": b.offset, "part": b.part, "why": b.why}
            for b in bad
        ),
        "storms_known": group.traits.storms is not None,
    }  # fmt: skip


def _recommendation_data(
    run: RunFigures, group: GroupFigures, recommendation: Recommendation
) -> dict[str, Any]:
    """Convert a recommended change of a group to a dict of texts, which the page's script
    displays.
    """
    advice = recommendation.advice
    return {
        "title": advice.title,
        "why": advice.why,
        "blocks": [{"where": label, "lines": lines} for label, lines in recommendation.blocks],
        "gain": recommendation.gain_in(groups_unit(run.groups)),
        "share": recommendation.share_text,
        "simulated": advice.saves is not None,
        "confidence": recommendation.confidence,
        "now": [setting.setting_text for setting in recommendation.now],
        "risk": recommendation.risk,
        "rollout": recommendation.rollout,
        "verify": with_command(recommendation.verify, run, group),
    }


def _policy_columns(
    run: RunFigures,
    metrics: Mapping[str, PolicyFigures],
    gains: Mapping[str, Estimate],
    unit: TimeUnit,
) -> dict[str, list[Any]]:
    """Return the table that compares policies (protocol and strategy) as a dict of columns.

    The page's script displays it. Column ``NAME_sort`` has the sort keys of column ``NAME``.
    """
    records = []
    for row in policy_rows(run.policies, metrics, OutputLevel.GROUP, gains, unit):
        record: dict[str, Any] = {
            "label": row.label, "recorded": row.is_recorded, "comparable": row.comparable,
            "note": f"{row.note} in {plural(row.affected, 'rebalance')}" if row.note else "",
        }  # fmt: skip
        for metric, cell in zip(SHOWN[OutputLevel.GROUP], row.cells, strict=True):
            record[metric.name] = cell.text
            sort = cell.sort
            record[f"{metric.name}_sort"] = round(sort, 2) if isinstance(sort, float) else sort
        records.append(record)
    return columns_of(records)
