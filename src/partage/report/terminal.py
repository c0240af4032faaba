"""A run's closing words on a terminal: coverage first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from partage.report import words
from partage.report.run import Figures, Run
from partage.statuses import FAILED, NOT_YET, RECORDED, REFUSED

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["MOST_GROUPS", "summary"]

#: Groups told of on a terminal; the page has all of them.
MOST_GROUPS = 15
#: Strategies beside the record in the table of groups: those with the fewest moves.
MOST_COLUMNS = 3
#: Plans that differ from the record, likewise.
MOST_TOLD = 10
_LEGEND = (
    "moved: from one living member to another; avoidable: no plan as even needs it;\n"
    "most even: share of rebalances; idle: members left without a partition, summed"
)


def summary(run: Run) -> Iterator[RenderableType]:
    """What to print when a run is over, part by part."""
    from rich.text import Text

    yield Text("")
    yield _facts(run)
    if run.recorded.done:
        yield Text("")
        yield _strategies(run)
        yield Text(_LEGEND, "dim")
        if any(f.exists and not f.comparable for n, f in run.figures.items() if n != RECORDED):
            yield Text(
                "* refused or failed some, or left partitions without owner: not comparable", "dim"
            )
    if run.replayed:
        yield Text("")
        yield Text("partitions moved, as recorded and under each strategy", "dim")
        yield _groups(run)
        hidden = len(run.groups) - len(run.replayed)
        more = len(run.replayed) - MOST_GROUPS
        told = f"{words.plural(hidden, 'group')} not replayed; the report says why"
        yield Text(f"{words.plural(more, 'more group')}; {told}" if more > 0 else told, "dim")
    yield Text("")
    yield Text(f"{words.headline(run)} {words.advice(run)}", "bold")
    yield Text("")


def _plain(title: str, columns: list[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column(title, overflow="fold", min_width=18, max_width=28)
    for column in columns:
        table.add_column(column, justify="right")
    return table


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
        where = f"{one['group']} generation {one['generation']} ({one['strategy']})"
        table.add_row("", Text(f"{_clean(where)}: {_clean(why)}", "dim"))
    for strategy, f in run.figures.items():
        if f.failed:
            told = f"{strategy} in {f.failed} of {words.plural(f.rebalances, 'rebalance')}"
            why = next((x["why"] for x in run.failures if x["strategy"] == strategy), "")
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
    told = (
        f"{agreement['agreed']} of {agreement['counted']} plans of Java clients as recorded: {each}"
    )
    if len(plain) > 1:
        agreed, counted = (sum(a[k] for a in plain) for k in ("agreed", "counted"))
        told += f" (range and roundrobin {agreed} of {counted})"
    return f"{told}; {led}" if led else told


def _strategies(run: Run) -> Table:
    from rich.text import Text

    columns = ["moved", "avoidable", "most even", "idle", REFUSED]
    broken = any(f.failed for f in run.figures.values())
    columns += [FAILED] if broken else []
    table = _plain("strategy", columns)
    for strategy in (RECORDED, *run.strategies):
        f = run.figures[strategy]
        label = Text(strategy, "bold" if strategy == RECORDED else "")
        if not f.exists:
            table.add_row(label, Text(NOT_YET, "dim"), *("",) * (len(columns) - 1))
            continue
        mark = "" if f.comparable or strategy == RECORDED else "*"
        figures = (
            f"{words.count(f.moved)}{mark}", words.count(f.avoidable),
            words.percent(f.even, f.judged), words.count(f.idle), words.count(f.refused),
        )  # fmt: skip
        failed = [Text(words.count(f.failed), "red" if f.failed else "")] if broken else []
        table.add_row(label, *figures, *failed)
    return table


def _groups(run: Run) -> Table:
    from rich.text import Text

    fit = [one.strategy for one in words.alternatives(run)][:MOST_COLUMNS]
    table = _plain("group", ["rebalances", "recorded", *fit])
    for group in run.replayed[:MOST_GROUPS]:
        recorded = group.figures[RECORDED]
        cells = [_against(group.figures.get(name), recorded) for name in fit]
        table.add_row(Text(_clean(group.name)), str(group.rebalances), str(recorded.moved), *cells)
    return table


def _against(figures: Figures | None, recorded: Figures) -> Text:
    from rich.text import Text

    if figures is None or not figures.done:
        return Text("-", "dim")
    less, more = figures.moved < recorded.moved, figures.moved > recorded.moved
    return Text(str(figures.moved), "green" if less else "red" if more else "")


def _clean(name: str) -> str:
    """A foreign name without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
