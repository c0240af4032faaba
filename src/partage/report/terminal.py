"""The report on a terminal: what it cost, why, what to change, how far to trust it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from partage.report import words
from partage.report.advice import Advice, Merged, best_policy, coverage_advice, merged
from partage.report.document import counts, lead, notes
from partage.report.run import FigureRange, Figures, Run
from partage.tables.statuses import FAILED, NOT_YET, RECORDED, REFUSED

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

__all__ = ["MOST_GROUPS", "summary"]

#: Groups told of on a terminal; the page has all of them.
MOST_GROUPS = 15
MOST_ADVICE = 5
#: Plans that differ from the record, likewise.
MOST_TOLD = 5
#: Characters of a sentence with names in it; JSON has all of them.
_LONGEST = 2_000
_SETTINGS = "best\nsettings"
_LEGEND = (
    "time lost: partition-time in which nobody read, at least to at most (p·min: one partition, "
    "one minute); moved: from one living member to another; avoidable: no plan as even needs it"
)


def summary(run: Run) -> Iterator[RenderableType]:
    """What to print when a run is over, part by part."""
    from rich.text import Text

    yield Text("")
    yield _facts(run)
    yield Text("")
    yield Text(_clean(words.headline(run)), "bold" if run.covered else "bold yellow")
    yield Text(_clean(lead(run)))
    if any(g.rebalances for g in run.groups):
        yield Text("")
        yield _groups(run)
        yield Text(_hidden(run), "dim")
    if run.causes:
        yield Text("")
        yield _causes(run)
    yield from _changes(run)
    if run.recorded.done:
        yield Text("")
        yield _policies(run)
        yield Text(counts(run), "dim")
        yield Text(_LEGEND, "dim")
        if any(f.exists and not f.comparable for n, f in run.figures.items() if n != RECORDED):
            yield Text(
                "* refused or failed some, or left partitions without owner: not comparable", "dim"
            )
    yield Text("")


def _plain(title: str, columns: list[str], *, right: bool = True) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column(title, overflow="fold", min_width=12, max_width=38)
    for column in columns:
        # Names fold where the terminal is narrow; a figure is whole or it is wrong.
        folds = column in {_SETTINGS, "main\ncause"}
        table.add_column(column, justify="right" if right else "left", overflow="fold",
                         no_wrap=not folds, min_width=9 if folds else None)  # fmt: skip
    return table


class _Name:
    """A policy's name, which folds behind ``/ + -`` where the terminal is narrow."""

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
        f"{words.percent(cover['rebalances'], known)} of {words.plural(known, 'known generation')} "
        f"still in the log ({words.count(missing)} missing)",
    )
    bad = f"{words.count(accounting['bad'])} damaged (kept in bad_records)"
    table.add_row(
        "records",
        Text(
            f"{words.count(accounting['records'])} read = {words.count(accounting['decoded'])} "
            f"decoded + {bad}",
            "yellow" if accounting["bad"] else "",
        ),
    )
    table.add_row("agreement", _agreement(agreement))
    for one in agreement["disagreements"][:MOST_TOLD]:
        why = one["why"] or "not explained"
        where = (
            f"{words.short_name(one['group'])} generation {one['generation']} ({one['strategy']})"
        )
        table.add_row("", Text(f"{_clean(where)}: {_clean(why)}", "dim"))
    for one in notes(run):
        table.add_row("note", Text(_clean(one), "yellow"))
    for policy, f in run.figures.items():
        if f.failed:
            told = f"{policy} in {f.failed} of {words.plural(f.rows, 'rebalance')}"
            names = (policy, policy.partition("/")[2].partition("+")[0])  # protocol/strategy+static
            why = next((x["why"] for x in run.failures if x["strategy"] in names), "")
            table.add_row(Text(FAILED, "red"), Text(_clean(f"{told}: {why}"), "red"))
    return table


def _agreement(agreement: Mapping[str, Any]) -> str:
    """Plans that come out again; of range and roundrobin apart, for they remember nothing.

    What the sticky family decides depends on a past that the log may not have any more.
    """
    peers = agreement.get("by_dialect", {})
    others = ", ".join(f"{n} {a['agreed']} of {a['counted']}" for n, a in peers.items())
    led = f"plans that other clients made: {others}" if others else ""
    if not agreement["counted"]:
        return led or "nothing to compare"
    by_strategy = agreement["by_strategy"]
    each = ", ".join(f"{n} {a['agreed']} of {a['counted']}" for n, a in by_strategy.items())
    plain = [by_strategy[n] for n in ("range", "roundrobin") if n in by_strategy]
    told = f"{agreement['agreed']} of {agreement['counted']} plans come out as recorded: {each}"
    if len(plain) > 1:
        agreed, counted = (sum(a[k] for a in plain) for k in ("agreed", "counted"))
        told += f" (range and roundrobin {agreed} of {counted})"
    return f"{told}; {led}" if led else told


def _groups(run: Run) -> Table:
    from rich.text import Text

    table = _plain(
        "group", ["time\nlost", "rebal-\nances", "main\ncause", _SETTINGS, "would have\nsaved"]
    )
    for group in [g for g in run.groups if g.rebalances][:MOST_GROUPS]:
        best = best_policy(group)
        cause = next((c.kind for c in group.causes if c.kind != "first"), "")
        table.add_row(
            Text(_clean(words.short_name(group.name))), _short(group.lost),
            words.count(group.rebalances), cause,
            _Name(best.policy) if best else "", Text(_short(best.saved) if best else "", "green"),
        )  # fmt: skip
    return table


def _short(stopped: FigureRange | None) -> str:
    return "?" if stopped is None else words.stopped_words(stopped, short=True)


def _hidden(run: Run) -> str:
    with_some = sum(g.rebalances > 0 for g in run.groups)
    told = f"{words.plural(len(run.others), 'group')} not replayed; the page says why"
    more = with_some - MOST_GROUPS
    return f"{words.plural(more, 'more group')}; {told}" if more > 0 else told


def _causes(run: Run) -> Table:
    table = _plain("why", ["rebalances", "time lost"])
    for one in run.causes:
        known = FigureRange(one.low, one.high) if one.timed else None
        table.add_row(
            words.CAUSES.get(one.kind, (one.kind,))[0], words.count(one.rebalances),
            _short(known),
        )  # fmt: skip
    return table


def _changes(run: Run) -> Iterator[Text]:
    found = merged(run.groups)
    record = coverage_advice(run)
    for one in found[:MOST_ADVICE]:
        yield from _change(one.advice, one)
    if len(found) > MOST_ADVICE:
        from rich.text import Text

        yield Text(f"{len(found) - MOST_ADVICE} more on the page", "dim")
    if record is not None:
        yield from _change(record, None)


def _change(advice: Advice, of: Merged | None) -> Iterator[Text]:
    from rich.text import Text

    yield Text("")
    yield Text(f"→ {advice.title}", "bold")
    why = advice.why
    if of is not None:
        names = ", ".join(words.short_name(g.name) for g, _ in of.groups[:3])
        more = f" and {len(of.groups) - 3} more" if len(of.groups) > 3 else ""
        yield Text(_clean(f"  {names}{more}"))
        saves = f"would have saved {words.saved_words(of.saves)}" if of.saves else ""
        if saves:
            yield Text(f"  {saves}", "green")
        why = f"{words.short_name(of.groups[0][0].name)}: {why}" if len(of.groups) > 1 else why
    yield Text(_clean(f"  {why}"), "dim")
    for line in advice.lines:
        yield Text(f"    {line}", "cyan")


def _policies(run: Run) -> Table:
    from rich.text import Text

    columns = ["time\nlost", "would have\nsaved", "rebal-\nances", "moved", "avoid-\nable",
               "most\neven", "idle"]  # fmt: skip
    table = _plain("policy", columns)
    for name in (RECORDED, *run.policies):
        f = run.figures[name]
        label = _Name(name, "bold" if name == RECORDED else "")
        if not f.exists or not f.done:
            what = NOT_YET if not f.exists else FAILED if f.failed else REFUSED
            table.add_row(label, Text(what, "dim"), *("",) * (len(columns) - 1))
            continue
        table.add_row(label, *_figures(f))
    return table


def _figures(f: Figures) -> tuple[str, ...]:
    mark = "" if f.comparable or f.policy == RECORDED else "*"
    saved = "" if f.policy == RECORDED else _short(f.saved)
    return (
        _short(f.stopped), saved, words.count(f.happened), f"{words.count(f.moved)}{mark}",
        words.count(f.avoidable), words.percent(f.even, f.judged), words.count(f.idle),
    )  # fmt: skip


def _clean(name: str) -> str:
    """Return text without control characters, which a terminal would obey, cut to 2,000."""
    # Hard blanks are our own: they keep numbers with their units.
    name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return "".join(
        c if c.isprintable() or c == "\N{NO-BREAK SPACE}" else c.encode("unicode_escape").decode()
        for c in name
    )
