"""The report on a terminal: reliability, downtime, causes, advice, policies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partage.report import messages
from partage.report.advice import coverage_advice, total_savings
from partage.report.gains import gains_by_policy
from partage.report.limit_notes import limit_notes
from partage.report.messages import count, groups_unit, plural
from partage.report.recommendations import count_changed_groups, sum_estimated_gains, with_command
from partage.report.run import RunFigures
from partage.report.view_model import (
    STREAMS_HEADINGS,
    cause_list,
    group_row,
    policy_rows,
    streams_card,
)
from partage.tables.metrics import SHOWN, OutputLevel
from partage.tables.statuses import FAILED

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    from partage.report.view_model import GroupRow, PolicyRow, StreamsCard

__all__ = ["MAX_GROUPS", "escape_for_terminal", "terminal_summary"]

#: Groups in the table; the page has all.
MAX_GROUPS = 15
MAX_ADVICE = 5
#: Listed assignments that are not reproduced.
MAX_DISAGREEMENTS = 5
#: Kafka Streams applications whose settings are listed; the page has all.
MAX_APPLICATIONS = 5
#: Characters of a text with names of the log in it; JSON has all.
_LONGEST = 2_000
_CAUSE = "main\ncause"
#: Characters of the narrowest first column of a table; longer names wrap.
_NAME_WIDTH = 12
_LEGEND = (
    "downtime: time without consumption, added up over partitions (p·s, p·min, p·h: "
    "partition-seconds, -minutes, -hours), best estimate (80 % interval); saved: against own, the "
    "interval includes the error of the simulation; within error: no measurable difference; moved: "
    "from one live member to another; avoidable: beyond the minimum"
)


def terminal_summary(run: RunFigures) -> Iterator[RenderableType]:
    """Yield the report of a run for the terminal, as Rich objects in the order of printing.

    It has the downtime, the worst groups, the causes, the recommendations and the compared
    policies.
    """
    from rich.text import Text

    gains, unit = gains_by_policy(run.groups), groups_unit(run.groups)
    policies = list(policy_rows(run.policies, run.figures, OutputLevel.TERMINAL, gains, unit))
    yield Text("")
    yield _facts(run)
    yield Text("")
    yield Text(
        escape_for_terminal(messages.run_headline(run)),
        "bold" if run.has_reliable_downtime else "bold yellow",
    )
    groups = run.groups_with_rebalances
    changed = count_changed_groups(groups), sum_estimated_gains(groups)
    yield Text(escape_for_terminal(messages.opening_sentences(run, *total_savings(run), *changed)))
    yield Text(escape_for_terminal(messages.reliability_sentences(run)), "dim")
    rows = [group_row(group, unit) for group in run.groups_with_rebalances[:MAX_GROUPS]]
    if rows:
        yield Text("")
        yield _groups(rows)
        if unlisted := _unlisted(run):
            yield Text(unlisted, "dim")
    if run.causes:
        yield Text("")
        yield _causes(run)
    yield from _recommendation_lines(run, rows)
    if run.recorded_figures.done:
        yield Text("")
        yield _PolicyTable(policies)
        yield Text(messages.simulated_note(run), "dim")
        yield Text(_LEGEND, "dim")
        if any(not row.comparable and not row.note for row in policies):
            what = "no plan for some rebalances, or partitions without an owner"
            yield Text(f"* not comparable: {what}", "dim")
    for group in run.simulated_applications[:MAX_APPLICATIONS]:
        yield from _format_application(streams_card(group))
    if len(run.simulated_applications) > MAX_APPLICATIONS:
        more = len(run.simulated_applications) - MAX_APPLICATIONS
        yield Text(f"{plural(more, 'more Streams application')} on the page", "dim")
    yield Text("")


def _table(title: str, columns: Sequence[str], *, right: bool = True) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column(title, overflow="fold", min_width=_NAME_WIDTH, max_width=38)
    for column in columns:
        # Names wrap in a narrow terminal; a wrapped figure would be misread.
        folds = column == _CAUSE
        table.add_column(column, justify="right" if right else "left", overflow="fold",
                         no_wrap=not folds, min_width=9 if folds else None)  # fmt: skip
    return table


class _WrappingName:
    """Rich text of a name that wraps after punctuation in a narrow terminal column.

    For example, the strategy ``cooperative/cooperative-sticky`` may wrap after the slash or hyphen.
    """

    def __init__(self, name: str, style: str = "") -> None:
        self._name, self._style = escape_for_terminal(name), style
        self._parts = re.findall(r"[^/+.=-]*[/+.=-]|[^/+.=-]+", self._name)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        lines = [""]
        for part in self._parts:
            fits = len(lines[-1]) + len(part) <= options.max_width
            lines = [*lines[:-1], lines[-1] + part] if fits else [*lines, part]
        yield Text("\n".join(lines).lstrip("\n"), self._style, overflow="fold")

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(max(map(len, self._parts), default=0), len(self._name))


def _facts(run: RunFigures) -> Table:
    from rich.table import Table
    from rich.text import Text

    cover, accounting, agreement = (
        run.summary[name] for name in ("coverage", "accounting", "agreement")
    )
    missing = cover["missing_before"] + cover["missing_within"]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    known = cover["rebalances"] + missing
    table.add_row(
        "coverage",
        f"{messages.percent(cover['rebalances'], known)} of {plural(known, 'known generation')} "
        f"in the log ({count(missing)} missing)",
    )
    bad = f"{count(accounting['bad'])} damaged (in table bad_records)"
    table.add_row(
        "records",
        Text(
            f"{count(accounting['records'])} read = {count(accounting['decoded'])} decoded + {bad}",
            "yellow" if accounting["bad"] else "",
        ),
    )
    table.add_row("reproduced", _agreement_text(agreement))
    for one in agreement["disagreements"][:MAX_DISAGREEMENTS]:
        why = one["why"] or "unexplained"
        group = messages.short_name(one["group"])
        where = f"{group} generation {one['generation']} ({one['strategy']})"
        table.add_row("", Text(f"{escape_for_terminal(where)}: {escape_for_terminal(why)}", "dim"))
    for one in limit_notes(run):
        table.add_row("note", Text(escape_for_terminal(one), "yellow"))
    for policy, f in run.figures.items():
        if f.failed:
            where = f"{policy} in {f.failed} of {plural(f.rows, 'rebalance')}"
            names = (policy, policy.partition("/")[2].partition("+")[0])  # protocol/strategy+static
            why = next((x["why"] for x in run.strategy_failures if x["strategy"] in names), "")
            table.add_row(Text(FAILED, "red"), Text(escape_for_terminal(f"{where}: {why}"), "red"))
    return table


def _agreement_text(agreement: Mapping[str, Any]) -> str:
    """Return a text on how many recorded assignments Partage's strategies reproduce exactly.

    ``agreement`` is this part of the run's summary, with counts by strategy and by client library.
    """
    # Range and roundrobin are also counted together, because they depend only on subscriptions.
    # Sticky strategies depend on earlier assignments, which the log may lack.
    peers = agreement.get("by_dialect", {})
    others = ", ".join(f"{n} {a['agreed']} of {a['counted']}" for n, a in peers.items())
    led = f"by leaders of other clients: {others}" if others else ""
    if not agreement["counted"]:
        return led or "nothing to compare"
    by_strategy = agreement["by_strategy"]
    each = ", ".join(f"{n} {a['agreed']} of {a['counted']}" for n, a in by_strategy.items())
    plain = [by_strategy[n] for n in ("range", "roundrobin") if n in by_strategy]
    text = f"{agreement['agreed']} of {agreement['counted']} recorded assignments exactly: {each}"
    if len(plain) > 1:
        agreed, counted = (sum(a[k] for a in plain) for k in ("agreed", "counted"))
        text += f" (range and roundrobin {agreed} of {counted})"
    return f"{text}; {led}" if led else text


def _groups(rows: Sequence[GroupRow]) -> Table:
    from rich.text import Text

    table = _table("group", ["down-\ntime", "unread", "rebal-\nances/h", _CAUSE])
    for row in rows:
        cause = f"{row.cause} {row.cause_share}".strip()
        table.add_row(
            Text(escape_for_terminal(messages.short_name(row.group.name))), row.downtime.text,
            row.share.text,
            row.per_hour.text, cause,
        )  # fmt: skip
    return table


def _unlisted(run: RunFigures) -> str:
    more, others = len(run.groups_with_rebalances) - MAX_GROUPS, len(run.other_groups)
    parts = [plural(more, "more group")] if more > 0 else []
    if others:
        parts.append(f"{plural(others, 'group')} not replayed; the page has the reasons")
    return "; ".join(parts)


def _causes(run: RunFigures) -> Table:
    found = cause_list(run.causes, groups_unit(run.groups))
    table = _table("cause", [found.measure.replace(", ", "\n"), "rebalances"])
    for row in found.rows:
        table.add_row(row.label, row.figure, count(row.rebalances))
    return table


def _recommendation_lines(run: RunFigures, rows: Sequence[GroupRow]) -> Iterator[Text]:
    """Yield the terminal lines with the best recommendation of each consumer group.

    The first recommendation is shown in full, the next ones in short, and the others are counted.
    """
    # Only the first of them is shown in full, with evidence, configuration, risk and rollout.
    from rich.text import Text

    some = [row for row in rows if row.first is not None]
    for number, row in enumerate(some[:MAX_ADVICE]):
        yield from _format_recommendation(run, row, in_full=not number)
    if len(some) > MAX_ADVICE:
        yield Text(f"{plural(len(some) - MAX_ADVICE, 'more recommendation')} on the page", "dim")
    record = coverage_advice(run)
    if record is not None:
        yield Text("")
        yield Text(f"→ {record.title}", "bold")
        yield Text(escape_for_terminal(f"  {record.why}"), "dim")
        for line in record.lines:
            yield Text(f"    {line}", "cyan")


def _format_recommendation(run: RunFigures, row: GroupRow, *, in_full: bool) -> Iterator[Text]:
    """Yield the terminal lines with the best recommendation of one consumer group.

    ``row`` is the group's row in the table of groups of ``run``. With ``in_full``, the evidence,
    the configuration lines, the risk and the rollout are shown too.
    """
    from rich.text import Text

    first = row.first
    if first is None:
        return
    yield Text("")
    yield Text(
        escape_for_terminal(f"→ {messages.short_name(row.group.name)}: {first.advice.title}"),
        "bold",
    )
    confidence = f" ({first.confidence} confidence)" if first.confidence else ""
    share = f", {first.share_text}" if first.share_text else ""
    style = "green" if first.advice.saves is not None else ""
    yield Text(escape_for_terminal(f"  expected gain: {row.gain.text}{share}{confidence}"), style)
    if row.together:
        yield Text(escape_for_terminal(f"  all changes together: {row.together}"))
    if row.now:
        label = "settings" if "→" in row.now else "now"
        yield Text(escape_for_terminal(f"  {label}: {row.now}"))
    if not in_full:
        return
    yield Text(escape_for_terminal(f"  {first.advice.why}"), "dim")
    if row.worst:
        yield Text(escape_for_terminal(f"  {row.worst}"), "dim")
    for line in first.advice.lines:
        yield Text(f"    {line}", "cyan")
    verify = with_command(first.verify, run, row.group)
    deployment = {"risk": first.risk, "rollout": first.rollout, "verify": verify}
    for label, text in deployment.items():
        if text:
            yield Text(escape_for_terminal(f"  {label}: {text}"))


def _format_application(card: StreamsCard) -> Iterator[RenderableType]:
    """Yield the terminal output for one Kafka Streams application: a table of simulated settings.

    The table shows the outages (times in which a task has no owner with all its state) under each
    combination of settings. ``card`` has the texts and the table rows to show.
    """
    from rich.text import Text

    yield Text("")
    title = f"Kafka Streams, {messages.short_name(card.group.name)}: {card.best}"
    yield Text(escape_for_terminal(title), "bold")
    yield Text(escape_for_terminal(card.facts), "dim")
    heads = [head.replace(" (s)", "\ns").replace(" ", "\n").lower() for head in STREAMS_HEADINGS]
    table = _table(heads[0], heads[1:])
    for label, cells in card.rows:
        table.add_row(_WrappingName(label), *(cell.text for cell in cells))
    yield table


class _PolicyTable:
    """Rich table that compares policies; on a narrow terminal it leaves out its last columns.

    Rich would cut numbers, or hide the policies' names. A line below the table names the columns
    that are left out.
    """

    def __init__(self, rows: Sequence[PolicyRow]) -> None:
        self._rows = rows
        # A column breaks where its label has a soft hyphen or a blank.
        labels = [m.label.replace("\N{SOFT HYPHEN}", "-\n") for m in SHOWN[OutputLevel.TERMINAL]]
        self._heads = [label.replace(" ", "\n").lower() for label in labels]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.text import Text

        shown = self._count_fitting_columns(options.max_width)
        yield self._table(shown)
        if shown < len(self._heads):
            names = [head.replace("-\n", "").replace("\n", " ") for head in self._heads[shown:]]
            yield Text(f"{', '.join(names)}: in a wider terminal, or with | less -S", "dim")

    def _count_fitting_columns(self, max_width: int) -> int:
        """Return how many columns beside the name fit the width, at least one."""
        from rich.cells import cell_len

        cells = [row.cells for row in self._rows if not row.note]
        left = max_width - _NAME_WIDTH
        for number, head in enumerate(self._heads):
            texts = [*head.split("\n"), *(row[number].text for row in cells)]
            left -= 1 + max(map(cell_len, texts))
            if left < 0:
                return max(number, 1)
        return len(self._heads)

    def _table(self, shown: int) -> Table:
        from rich.text import Text

        table = _table("policy", self._heads[:shown])
        for row in self._rows:
            name = _WrappingName(row.label, "bold" if row.is_recorded else "")
            if row.note:
                table.add_row(name, Text(row.note, "dim"), *("",) * (shown - 1))
            else:
                table.add_row(name, *(cell.text for cell in row.cells[:shown]))
        return table


def escape_for_terminal(text: str) -> str:
    """Make a text safe for a terminal: escape control characters, and cut it to 2,000 characters.

    Names in a log may contain escape sequences, which a terminal would otherwise execute.
    """
    # Hard blanks are our own: they keep numbers with their units.
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "".join(
        c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else c.encode("unicode_escape").decode()
        for c in text
    )
