"""The report on a terminal: reliability, downtime, causes, advice, policies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from partage.report import messages
from partage.report.advice import Advice, Merged, coverage_advice, merged, savable
from partage.report.messages import count, plural
from partage.report.run import Run
from partage.report.view_model import cause_rows, group_row, policy_rows
from partage.tables.metrics import SHOWN, Shown
from partage.tables.statuses import FAILED

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    from partage.report.view_model import PolicyRow

__all__ = ["MAX_GROUPS", "summary"]

#: Groups in the table; the page has all.
MAX_GROUPS = 15
MAX_ADVICE = 5
#: Listed assignments that are not reproduced.
MAX_DISAGREEMENTS = 5
#: Characters of a text with names of the log in it; JSON has all.
_LONGEST = 2_000
_SETTINGS, _CAUSE = "best\nsettings", "main\ncause"
_LEGEND = (
    "downtime: time without consumption, added up over partitions, lower to upper bound (p·min: "
    "partition-minute); moved: from one live member to another; avoidable: beyond the minimum"
)


def summary(run: Run) -> Iterator[RenderableType]:
    """Yield the parts of the report in the order in which they are printed."""
    from rich.text import Text

    policies = list(policy_rows(run.policies, run.figures, Shown.TERMINAL))
    yield Text("")
    yield _facts(run)
    yield Text("")
    yield Text(_clean(messages.headline(run)), "bold" if run.covered else "bold yellow")
    yield Text(_clean(messages.lead(run, *savable(run))))
    if run.rebalancing:
        yield Text("")
        yield _groups(run)
        yield Text(_unlisted(run), "dim")
    if run.causes:
        yield Text("")
        yield _causes(run)
    yield from _changes(run)
    if run.recorded.done:
        yield Text("")
        yield _policies(policies)
        yield Text(messages.simulated_note(run), "dim")
        yield Text(_LEGEND, "dim")
        if any(not row.comparable and not row.note for row in policies):
            what = "no plan for some rebalances, or partitions without an owner"
            yield Text(f"* not comparable: {what}", "dim")
    yield Text("")


def _table(title: str, columns: Sequence[str], *, right: bool = True) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column(title, overflow="fold", min_width=12, max_width=38)
    for column in columns:
        # Names wrap in a narrow terminal; a wrapped figure would be misread.
        folds = column in {_SETTINGS, _CAUSE}
        table.add_column(column, justify="right" if right else "left", overflow="fold",
                         no_wrap=not folds, min_width=9 if folds else None)  # fmt: skip
    return table


class _Name:
    """Name of a policy that wraps after ``/ + -`` in a narrow terminal."""

    def __init__(self, name: str, style: str = "") -> None:
        self._name, self._style = _clean(name), style
        self._parts = re.findall(r"[^/+-]*[/+-]|[^/+-]+", self._name)

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


def _facts(run: Run) -> Table:
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
    table.add_row("reproduced", _agreement(agreement))
    for one in agreement["disagreements"][:MAX_DISAGREEMENTS]:
        why = one["why"] or "unexplained"
        group = messages.short_name(one["group"])
        where = f"{group} generation {one['generation']} ({one['strategy']})"
        table.add_row("", Text(f"{_clean(where)}: {_clean(why)}", "dim"))
    for one in messages.notes(run):
        table.add_row("note", Text(_clean(one), "yellow"))
    for policy, f in run.figures.items():
        if f.failed:
            where = f"{policy} in {f.failed} of {plural(f.rows, 'rebalance')}"
            names = (policy, policy.partition("/")[2].partition("+")[0])  # protocol/strategy+static
            why = next((x["why"] for x in run.failures if x["strategy"] in names), "")
            table.add_row(Text(FAILED, "red"), Text(_clean(f"{where}: {why}"), "red"))
    return table


def _agreement(agreement: Mapping[str, Any]) -> str:
    """Return how many recorded assignments are reproduced, by strategy.

    Range and roundrobin have a sum of their own: they depend on the subscriptions only, whereas
    sticky strategies depend on a past that the log may lack.
    """
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


def _groups(run: Run) -> Table:
    from rich.text import Text

    columns = ["down-\ntime", "rebal-\nances", _CAUSE, _SETTINGS, "possible\nsaving"]
    table = _table("group", columns)
    for group in run.rebalancing[:MAX_GROUPS]:
        row = group_row(group)
        table.add_row(
            Text(_clean(messages.short_name(group.name))), row.downtime.text,
            count(group.rebalances), row.cause,
            _Name(row.best) if row.best else "", Text(row.saves.text, "green"),
        )  # fmt: skip
    return table


def _unlisted(run: Run) -> str:
    others = f"{plural(len(run.others), 'group')} not replayed; the page has the reasons"
    more = len(run.rebalancing) - MAX_GROUPS
    return f"{plural(more, 'more group')}; {others}" if more > 0 else others


def _causes(run: Run) -> Table:
    table = _table("cause", ["rebalances", "downtime"])
    for row in cause_rows(run.causes):
        downtime = messages.format_range(row.downtime, short=True) if row.downtime else "?"
        table.add_row(row.label, count(row.rebalances), downtime)
    return table


def _changes(run: Run) -> Iterator[Text]:
    found = merged(run.groups)
    record = coverage_advice(run)
    for one in found[:MAX_ADVICE]:
        yield from _change(one.advice, one)
    if len(found) > MAX_ADVICE:
        from rich.text import Text

        yield Text(f"{len(found) - MAX_ADVICE} more on the page", "dim")
    if record is not None:
        yield from _change(record, None)


def _change(advice: Advice, of: Merged | None) -> Iterator[Text]:
    from rich.text import Text

    yield Text("")
    yield Text(f"→ {advice.title}", "bold")
    why = advice.why
    if of is not None:
        names = ", ".join(messages.short_name(g.name) for g, _ in of.groups[:3])
        more = f" and {len(of.groups) - 3} more" if len(of.groups) > 3 else ""
        yield Text(_clean(f"  {names}{more}"))
        saves = f"would have saved {messages.format_saving(of.saves)}" if of.saves else ""
        if saves:
            yield Text(f"  {saves}", "green")
        why = f"{messages.short_name(of.groups[0][0].name)}: {why}" if len(of.groups) > 1 else why
    yield Text(_clean(f"  {why}"), "dim")
    for line in advice.lines:
        yield Text(f"    {line}", "cyan")


def _policies(rows: Sequence[PolicyRow]) -> Table:
    from rich.text import Text

    # A column breaks where its label has a soft hyphen or a blank.
    labels = [m.label.replace("\N{SOFT HYPHEN}", "-\n") for m in SHOWN[Shown.TERMINAL]]
    table = _table("policy", [label.replace(" ", "\n").lower() for label in labels])
    for row in rows:
        name = _Name(row.label, "bold" if row.is_recorded else "")
        if row.note:
            table.add_row(name, Text(row.note, "dim"), *("",) * (len(labels) - 1))
        else:
            table.add_row(name, *(cell.text for cell in row.cells))
    return table


def _clean(name: str) -> str:
    """Return text without control characters, which a terminal would obey, cut to 2,000."""
    # Hard blanks are our own: they keep numbers with their units.
    name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return "".join(
        c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else c.encode("unicode_escape").decode()
        for c in name
    )
