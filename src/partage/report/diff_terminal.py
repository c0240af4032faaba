"""The comparison of two runs for a terminal: a sentence, a table of groups, causes and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from partage.report.messages import cause_label, digits, plural, share_text, short_name
from partage.report.rates import MOVED, REBALANCES, UNREAD, Rate
from partage.report.run_diff import BETTER, NOISE, UNKNOWN, WORSE, GroupDiff, RateChange, RunDiff
from partage.report.terminal import escape_for_terminal

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["change_text", "diff_summary"]

_HARD = "\N{NO-BREAK SPACE}"
#: Larger relative differences are shown as larger than this.
_LARGEST = 10
_STYLES = {BETTER: "green", WORSE: "bold red", NOISE: "", UNKNOWN: "dim"}
_LEGEND = (
    "unread: time without consumption by a rebalance, as a share of the time in which partitions "
    "were assigned, with the 80 % interval of the stop model. change: with the interval of the "
    "noise (95 % over all groups)."
)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(escape_for_terminal(text), style)


def diff_summary(diff: RunDiff) -> Iterator[RenderableType]:
    """Yield the terminal output of a comparison of two runs, such as before and after a deployment.

    Each item is a text or table of the Rich library, in the order of printing.
    """
    for when, run in (("before", diff.before), ("after", diff.after)):
        yield _text(
            f"{when:7}{run.folder}: {digits(run.hours)} h, {plural(len(run.groups), 'group')}"
        )
    for note in diff.notes:
        yield _text(f"note   {note}", "yellow")
    yield _text("")
    yield _text(_headline(diff), f"bold {_STYLES[diff.whole.verdict]}".strip())
    yield _text(_counts(diff))
    if diff.groups:
        yield _text("")
        yield _unread(diff)
        yield _text(_LEGEND, "dim")
        for one in diff.groups:
            if one.why_unknown:
                yield _text(f"{short_name(one.name)}: unknown; {one.why_unknown}", "dim")
        yield _text("")
        yield _counts_by_hour(diff)
    if diff.whole.causes:
        yield _text("")
        yield _causes(diff.whole)
    if any(one.settings for one in diff.groups):
        yield _text("")
        yield _text("changed settings, as far as the log has them", "bold")
    for one in diff.groups:
        for setting in one.settings:
            text = f"{short_name(one.name)}: {setting.name} {setting.before} → {setting.after}"
            yield _text(text, "" if one.verdict in {NOISE, UNKNOWN} else "bold")
    for what, names in (("before", diff.only_before), ("after", diff.only_after)):
        if names:
            yield _text(f"only {what}: {', '.join(short_name(one) for one in names)}", "dim")


def _headline(diff: RunDiff) -> str:
    change = diff.whole.changes[UNREAD]
    if change.verdict == UNKNOWN or change.before is None or change.after is None:
        return "Unread time: unknown, because no group is known in both runs."
    shares = [share_text(rate.per_hour / 3_600) for rate in (change.before, change.after)]
    text = f"Unread time: {shares[0]} of the consuming time before, {shares[1]} after"
    noise = (
        "within the noise" if change.verdict == NOISE else f"{change.verdict}, outside the noise"
    )
    return f"{text}: {change_text(change)}{_HARD}%, {noise}."


def _counts(diff: RunDiff) -> str:
    each = ", ".join(f"{diff.count(one)} {one}" for one in (BETTER, WORSE, NOISE, UNKNOWN))
    return f"{plural(len(diff.groups), 'group')} in both runs: {each}"


def _table(columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column(columns[0], overflow="fold", min_width=12, max_width=38)
    for column in columns[1:-1]:
        side: Literal["left", "right"] = "left" if column == "verdict" else "right"
        table.add_column(column, justify=side, no_wrap=True)
    table.add_column(columns[-1], no_wrap=True)
    return table


def _build_rows(diff: RunDiff) -> Iterator[tuple[Text, GroupDiff]]:
    """Yield the rows of a table that compares two runs: a row for all groups, then one for each
    group.

    A row is a pair of its label and the changes. The row for all groups is left out if there is
    only one group.
    """
    if len(diff.groups) > 1:
        yield _text("all groups", "bold"), diff.whole
    for one in diff.groups:
        yield _text(short_name(one.name)), one


def _unread(diff: RunDiff) -> Table:
    table = _table(("group", "unread %\nbefore", "unread %\nafter", "change %", "verdict"))
    for label, one in _build_rows(diff):
        change = one.changes[UNREAD]
        verdict = _text(one.verdict, _STYLES[one.verdict])
        ends = _unread_percent(change.before), _unread_percent(change.after)
        table.add_row(label, *ends, change_text(change), verdict)
    return table


def _counts_by_hour(diff: RunDiff) -> Table:
    table = _table(("group", "rebalances/h\nbefore → after", "verdict", "moved/h\nbefore → after",
                    "verdict"))  # fmt: skip
    for label, one in _build_rows(diff):
        cells = []
        for figure in (REBALANCES, MOVED):
            change = one.changes[figure]
            cells.append(_text(f"{_rate(change.before)} → {_rate(change.after)}"))
            cells.append(_text(change.verdict, _STYLES[change.verdict]))
        table.add_row(label, *cells)
    return table


def _causes(whole: GroupDiff) -> Table:
    table = _table(("cause of rebalances", "before/h", "after/h", "change %", "verdict"))
    for kind, change in whole.causes.items():
        rates = [_rate(rate) for rate in (change.before, change.after)]
        table.add_row(_text(cause_label(kind)), *rates, change_text(change),
                      _text(change.verdict, _STYLES[change.verdict]))  # fmt: skip
    return table


def _unread_percent(rate: Rate | None) -> str:
    """Format the share of time in which partitions had no consumer, such as ``0.8 (0.6–1.1)``.

    The numbers are percent: the best estimate and its interval. The result is ``unknown`` for None.
    """
    if rate is None:
        return UNKNOWN
    best = digits(rate.per_hour / 36)
    if rate.interval is None or not rate.total or not rate.hours:
        return best
    ends = (digits(end / rate.hours / 36) for end in (rate.interval.low, rate.interval.high))
    return f"{best} ({'–'.join(ends)})"


def _rate(rate: Rate | None) -> str:
    return UNKNOWN if rate is None else digits(rate.per_hour)


def change_text(change: RateChange) -> str:
    """Format the relative change of a rate between two runs in percent, with its uncertainty.

    For example, ``−50 (−70 to −20)`` is a rate that has halved, with an interval.

    >>> change_text(RateChange(Rate(4, hours=2), Rate(1, hours=1), None, NOISE))
    '−50'
    """
    if change.before is None or change.after is None:
        return UNKNOWN
    if change.relative is None:
        return "from 0" if change.after.total else "0"
    best = _signed(change.relative)
    if change.ratio is None:
        return best
    return f"{best} ({_signed(change.ratio.low - 1)} to {_signed(change.ratio.high - 1)})"


def _signed(relative: float) -> str:
    if relative >= _LARGEST:
        return f">+{100 * _LARGEST:,.0f}"
    return f"{100 * relative:+,.0f}".replace("-", "\N{MINUS SIGN}")
