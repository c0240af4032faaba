"""What a run says, in sentences: each made of the run's own figures, and true of them."""

from __future__ import annotations

from partage.report.run import FigureRange, Run

__all__ = [
    "CAUSES",
    "RECORD_MORE",
    "cause_words",
    "causes_sentence",
    "count",
    "duration",
    "headline",
    "lost_groups",
    "percent",
    "plural",
    "saved_words",
    "share",
    "short_name",
    "stopped_words",
]

_HARD = "\N{NO-BREAK SPACE}"

#: Kind of cause -> its short name, and what it says after "because".
CAUSES: dict[str, tuple[str, str]] = {
    "first": ("first seen", "nobody was there before, or the log does not go back further"),
    "migration": ("migration", "the group went to another protocol"),
    "bounce": ("bounce", "a member went away and came back within its session timeout"),
    "expiry": ("expiry", "a member was silent for its session timeout"),
    "poll": ("late poll", "a member did not poll for max.poll.interval.ms"),
    "leave": ("leave", "a member left"),
    "join": ("join", "a member joined"),
    "resubscription": ("resubscription", "a member wanted other topics"),
    "topics": ("topics", "a topic appeared, grew or was deleted"),
    "strategy": ("strategy", "the group chose another strategy"),
    "follow-up": (
        "follow-up",
        "it was the second step of the rebalance before, whose cause has its time",
    ),
    "unknown": ("unknown", "of something that the log does not tell"),
}


def cause_words(kind: str) -> str:
    """What a kind of cause says after "because"; a kind that is not known as it is.

    >>> cause_words("leave")
    'a member left'
    """
    return CAUSES[kind][1] if kind in CAUSES else f"of {kind}"


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


def percent(part: float, whole: float) -> str:
    r"""A share; never 100 % unless it is all, never 0 % unless it is none.

    >>> percent(477, 479), percent(9999, 10000), percent(0, 7), percent(1, 0)
    ('99.6\xa0%', '99.9\xa0%', '0\xa0%', '-')
    """
    if not whole:
        return "-"
    if part in {0, whole}:
        return f"0{_HARD}%" if part == 0 else f"100{_HARD}%"
    return f"{min(max(100 * part / whole, 0.1), 99.9):.1f}{_HARD}%"


def share(low: tuple[float, float], high: tuple[float, float]) -> str:
    r"""A share of a range, by its lower and by its upper ends: part and whole of each.

    >>> share((1, 10), (30, 100)), share((3, 10), (30, 100)), share((0, 0), (30, 100))
    ('10\xa0% to 30\xa0%', '30\xa0%', '0 to 30\xa0%')
    """
    a = 100 * low[0] / low[1] if low[1] else 0.0
    b = 100 * high[0] / high[1] if high[1] else 0.0
    first, last = (f"{_number(v)}{_HARD}%" for v in sorted((a, b)))
    if first == last:
        return first
    return f"{'0' if min(a, b) == 0 else first} to {last}"


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
            parts.append(f"{value}{_HARD}{unit}")
    kept = parts[:2]
    return " ".join(p for p in kept if not p.startswith(f"0{_HARD}")) or kept[0]


#: Characters shown of a name; Kafka's topic names have up to 249, group ids up to 32,767.
_LONGEST_NAME = 256


def short_name(value: str) -> str:
    """Return a foreign name cut to 256 characters; the JSON document has it whole.

    >>> short_name("orders"), len(short_name("x" * 32_767))
    ('orders', 257)
    """
    return value if len(value) <= _LONGEST_NAME else f"{value[:_LONGEST_NAME]}…"


def stopped_words(stopped: FigureRange | None, *, short: bool = False) -> str:
    r"""Partition-seconds as a range in a unit that fits its upper end.

    >>> stopped_words(Range(20, 90)), stopped_words(Range(0, 0)), stopped_words(None)
    ('20 to 90\xa0partition-seconds', 'no time', 'not known')
    >>> stopped_words(Range(600, 1_300), short=True)
    '10–21.7\xa0p·min'
    """
    if stopped is None:
        return "not known"
    low, high = stopped.low, stopped.high
    if low == high == 0:
        return "0" if short else "no time"
    size = max(abs(low), abs(high))
    if size < 120:
        factor, long, brief = 1, "seconds", "s"
    else:
        factor, long, brief = (60, "minutes", "min") if size < 7_200 else (3_600, "hours", "h")
    a, b = (_number(v / factor).replace("-", "\N{MINUS SIGN}") for v in (low, high))
    unit = f"p·{brief}" if short else f"partition-{long}"
    if a == b:
        return f"{a}{_HARD}{unit.removesuffix('s') if a == '1' and not short else unit}"
    dash = "–" if short and low >= 0 else " to "
    return f"{a}{dash}{b}{_HARD}{unit}"


def saved_words(saved: FigureRange) -> str:
    r"""A saving as a range; where it may be a loss, both are said.

    >>> saved_words(Range(-60, 300))
    'between 60\xa0partition-seconds more lost and 5\xa0partition-minutes saved'
    """
    if saved.low >= 0:
        return stopped_words(saved)
    worst, best = (stopped_words(FigureRange(v, v)) for v in (-saved.low, saved.high))
    return f"between {worst} more lost and {best} saved"


def _number(value: float) -> str:
    """Three digits are as many as these bounds bear."""
    if abs(value) >= 99.5:
        return f"{value:,.0f}"
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


#: How to record rebalances that compaction does not remove.
RECORD_MORE = (
    "Record from now on with partage capture --follow, or set min.compaction.lag.ms on "
    "__consumer_offsets and capture later."
)


def headline(run: Run) -> str:
    """Return the first sentence: what rebalances cost, or that the log cannot tell it."""
    groups = [g for g in run.groups if g.rebalances]
    if not groups:
        return "No group rebalanced in this log."
    if not run.covered:
        return (
            f"The log cannot tell what rebalances cost: it has {percent(run.in_log, run.known)} "
            f"of {plural(run.known, 'known rebalance')}."
        )
    cover = run.summary["coverage"]
    within = ""
    if cover.get("first_ms") is not None:
        within = f" within {duration(cover['last_ms'] - cover['first_ms'])}"
    lost = run.lost
    if lost is None:
        happened = sum(g.rebalances for g in groups)
        begin = f"{plural(happened, 'rebalance')} in {plural(len(groups), 'group')}{within}"
        if not run.recorded.done:
            return f"{begin}; none of them could be replayed."
        moved = run.recorded.moved
        return f"{begin} moved {plural(moved, 'partition') if moved else 'no partition'}."
    if lost.high == 0:
        return f"Rebalances stopped no partition{within}."
    return f"Rebalances stopped reading for {stopped_words(lost)}{within}."


def lost_groups(run: Run) -> str:
    """Return how many rebalances there are, and which groups have most of the lost time."""
    lost = [(g, g.lost) for g in run.groups if g.lost is not None and g.lost.high > 0]
    whole = sum(r.high for _, r in lost)
    happened = sum(g.rebalances for g in run.groups)
    where = sum(g.rebalances > 0 for g in run.groups)
    begin = f"{plural(happened, 'rebalance')} in {plural(where, 'group')}."
    if not whole:
        return begin
    some, reached = 0, 0.0
    for _, r in lost:
        some, reached = some + 1, reached + r.high
        if reached >= whole / 2:
            break
    lows = sum(r.low for _, r in lost[:some]), sum(r.low for _, r in lost)
    part = share(lows, (reached, whole))
    names = f"group {short_name(lost[0][0].name)}" if some == 1 else f"{count(some)} groups"
    return f"{begin} {part} of all lost time is in {names}."


def causes_sentence(run: Run) -> str:
    """Return which cause has most of the lost time; empty where none is known."""
    known = [c for c in run.causes if c.kind not in {"unknown", "first"}]
    if not known:
        return ""
    whole = sum(c.high for c in run.causes)
    if whole:
        lows = sum(c.low for c in run.causes)
        most, least = max(known, key=lambda c: c.high), max(known, key=lambda c: c.low)
        part = share((most.low, lows), (most.high, whole))
        if least.kind == most.kind or not lows:
            return f"Most time was lost because {cause_words(most.kind)}: {part} of all lost time."
        other = share((least.low, lows), (least.high, whole))
        return (
            f"Most time was lost because {cause_words(most.kind)} ({part} of all lost time, by the "
            f"ends of the ranges) or because {cause_words(least.kind)} ({other})."
        )
    most = max(known, key=lambda c: c.rebalances)
    all_of = sum(c.rebalances for c in run.causes)
    return f"Most often, {percent(most.rebalances, all_of)}, because {cause_words(most.kind)}."
