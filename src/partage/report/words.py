"""What a run says, in sentences: each made of the run's own figures, and true of them."""

from __future__ import annotations

from partage.report.run import Figures, Run
from partage.statuses import RECORDED

__all__ = [
    "advice",
    "alternatives",
    "best_alternative",
    "count",
    "duration",
    "headline",
    "percent",
    "plural",
]


def count(value: int) -> str:
    """A whole number for people.

    >>> count(94434)
    '94,434'
    """
    return f"{value:,}"


def plural(value: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "group"), plural(2, "group")
    ('1 group', '2 groups')
    """
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def percent(part: int, whole: int) -> str:
    r"""A share; never 100 % unless it is all, never 0 % unless it is none.

    >>> percent(477, 479), percent(9999, 10000), percent(0, 7), percent(1, 0)
    ('99.6\xa0%', '99.9\xa0%', '0\xa0%', '-')
    """
    if not whole:
        return "-"
    if part in {0, whole}:
        return "0\N{NO-BREAK SPACE}%" if part == 0 else "100\N{NO-BREAK SPACE}%"
    return f"{min(max(100 * part / whole, 0.1), 99.9):.1f}\N{NO-BREAK SPACE}%"


def duration(ms: int) -> str:
    r"""A time span in the two units that matter.

    Numbers stay with their units: the blanks are hard ones.

    >>> duration(501_000), duration(90_000_000), duration(800)
    ('8\xa0min 21\xa0s', '1\xa0d 1\xa0h', '1\xa0s')
    """
    left = max(1, round(ms / 1000))
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        value, left = divmod(left, size)
        if value or parts:
            parts.append(f"{value}\N{NO-BREAK SPACE}{unit}")
    kept = parts[:2]
    return " ".join(p for p in kept if not p.startswith("0\N{NO-BREAK SPACE}")) or kept[0]


def headline(run: Run) -> str:
    """In a breath: what happened, what it cost, how much of that was avoidable."""
    groups = [g for g in run.groups if g.rebalances]
    if not groups:
        return "No group of the classic protocol rebalanced in this log."
    cover = run.summary["coverage"]
    happened = sum(g.rebalances for g in groups)
    begin = f"{plural(happened, 'rebalance')} in {plural(len(groups), 'classic group')}"
    if cover.get("first_ms") is not None:
        begin += f" within {duration(cover['last_ms'] - cover['first_ms'])}"
    moved = run.recorded
    if not moved.done:
        return f"{begin}; none of them could be replayed."
    which = "They" if moved.done == happened else f"The {count(moved.done)} that were replayed"
    if not moved.moved:
        return f"{begin}. {which} moved no partition."
    cost = f"{begin}. {which} moved {plural(moved.moved, 'partition')}"
    if not moved.avoidable:
        return f"{cost}, none of them provably in vain."
    least = "" if moved.proven == moved.done else "at least "
    return f"{cost}, {least}{count(moved.avoidable)} of them in vain."


def advice(run: Run) -> str:
    """One sentence: what another strategy would have changed; empty if nothing was replayed."""
    moved = run.recorded
    if not moved.done:
        return ""
    best = best_alternative(run)
    over = f"the same {plural(moved.done, 'rebalance')}"
    if best is None:
        return f"No strategy that Partage has today could answer all of {over} as fully."
    would = f"{count(best.moved)} ({count(best.avoidable)} avoidable)"
    if best.moved < moved.moved:
        less = percent(moved.moved - best.moved, moved.moved)
        said = f"With {best.strategy}, {over} would have moved {would}: {less} fewer"
        farther = best.rack_mismatches - moved.rack_mismatches
        if farther > 0:
            said += f", but owned {plural(farther, 'more partition')} outside their racks"
        return f"{said}."
    more = best.moved - moved.moved
    than = f"{count(more)} more than recorded" if more else "as many as recorded"
    return (
        f"No strategy replayed would have moved fewer in {over}: the nearest is {best.strategy} "
        f"with {would}, {than}."
    )


def best_alternative(run: Run) -> Figures | None:
    """The strategy with the fewest moves among `alternatives`; None if there is none."""
    return next(iter(alternatives(run)), None)


def alternatives(run: Run) -> list[Figures]:
    """Strategies that do the work as fully as the record does, those with fewest moves first.

    They answered every rebalance, broke no rule, and left no more members idle: one that
    gives everything to one member, or refuses the hard cases, moves little too.
    """
    idle = run.recorded.idle
    fit = [
        one
        for name, one in run.figures.items()
        if name != RECORDED and one.comparable and one.idle <= idle
    ]
    return sorted(fit, key=lambda one: (one.moved, one.strategy))
