"""Pictures of forecasts as SVG text, for light and dark pages.

A picture has its values as text beside each bar, so that it can be read without colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from partage.forecasts.growth import DrainTime, Growth
from partage.forecasts.migration import DONE, READY, Migration
from partage.forecasts.rolling import RolloutForecast
from partage.forecasts.sizing import SizeRow, Sizing
from partage.simulation.streams import StandbyGain
from partage.tables.escaping import escape_document_text

__all__ = [
    "drift_picture", "growth_picture", "migration_picture", "rollout_picture", "sizing_picture",
    "standby_picture",
]  # fmt: skip

#: Widths and heights in pixels.
_WIDTH, _ROW, _TOP = 720, 24, 58
#: Where bars begin, and the width of a bar of 100 %, or of the largest value.
_BARS, _FULL = 120, 330
_NARROW_BARS, _NARROW_FULL = 20, 420
#: Where the status of a group begins.
_LABELS = 300
#: Bars of more than this share of the capacity are cut.
_MOST = 1.25
#: Numbers of consumers in a picture.
_MOST_ROWS = 32
_STYLE = """<style>
  .ground { fill: #ffffff; stroke: #dfe3ea } .ink { fill: #171c26 } .soft { fill: #566072 }
  .bar { fill: #5b7fc7 } .down { fill: #b9c9ea } .good { fill: #12703a } .limit { stroke: #c8102e }
  .span { stroke: #171c26; stroke-width: 2 }
  text { font: 13px system-ui, sans-serif } .title { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #161b24; stroke: #2a3240 } .ink { fill: #e7ebf2 } .soft { fill: #a0abbc }
    .bar { fill: #6f95de } .down { fill: #34476e } .good { fill: #5fd38d }
    .limit { stroke: #ff5a5f } .span { stroke: #e7ebf2 }
  }
</style>"""


def sizing_picture(sizing: Sizing, group: str) -> str:
    """Draw the load of the busiest consumer for each number of consumers, as SVG bars.

    ``sizing`` has one load for each possible number of consumers. ``group`` is the name of the
    consumer group and appears in the title.

    >>> from partage.forecasts.loads import constant_load
    >>> from partage.forecasts.sizing import size_group
    >>> made = size_group(constant_load({"t": 4}, 40.0), strategy="range", capacity=25.0,
    ...                   max_lag_s=30)
    >>> sizing_picture(made, "g").count('class="bar"')
    4
    """
    last = max(sizing.useful, sizing.needed or 0)
    rows = [row for row in sizing.rows if row.consumers <= last][:_MOST_ROWS]
    head = f"{group}: load of the busiest consumer, by number of consumers"
    parts = [_text(20, 46, "soft", "strong: all are up; faint: one is down; line: 100% of one")]
    parts += [_size_bar(row, _TOP + _ROW * i, is_needed=row.consumers == sizing.needed)
              for i, row in enumerate(rows)]  # fmt: skip
    bottom = _TOP + _ROW * len(rows)
    x = _BARS + _FULL
    parts.append(f'<line class="limit" x1="{x}" x2="{x}" y1="{_TOP - 4}" y2="{bottom}"/>')
    return _picture(head, bottom + 14, parts)


def _size_bar(row: SizeRow, y: int, *, is_needed: bool) -> str:
    use, down = row.use, row.use if row.use_down is None else row.use_down
    beside = f"{use:.0%}" + ("" if row.use_down is None else f", one down {row.use_down:.0%}")
    style = "good title" if is_needed else "ink"
    x = _BARS + _FULL * _MOST + 8
    return "".join([
        _text(20, y + 15, style, f"{row.consumers} consumer{'' if row.consumers == 1 else 's'}"),
        _bar("down", _BARS, y, down), _bar("bar", _BARS, y, use), _text(x, y + 15, style, beside),
    ])  # fmt: skip


def _bar(style: str, x: float, y: float, share: float) -> str:
    width = _FULL * min(share, _MOST)
    return f'<rect class="{style}" x="{x}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 8}"/>'


def _bar_with_interval(
    y: int, bar: tuple[float, float], interval: tuple[float, float]
) -> tuple[str, str]:
    """Draw a bar of an SVG picture, and a line that shows its interval of uncertainty.

    Args:
        y: top of the bar's row, in pixels.
        bar: left and right end of the bar, in pixels.
        interval: left and right end of the line, in pixels.
    """
    (left, right), (low, high), middle = bar, interval, y + _ROW + (_ROW - 2) // 2
    return (
        f'<rect class="bar" x="{left:.1f}" y="{y + _ROW}" height="{_ROW - 4}" '
        f'width="{right - left:.1f}"/>',
        f'<line class="span" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>',
    )


def rollout_picture(forecasts: Sequence[RolloutForecast], group: str) -> str:
    """Draw the time without a consumer in each forecast rolling deployment, as SVG bars.

    A line at each bar shows the 80 % interval. ``group`` is the group's name for the title.
    """
    head = f"{group}: unread partition-seconds of a rolling deployment"
    most = max((one.unread.high for one in forecasts), default=0.0) or 1.0
    parts = [_text(20, 46, "soft", "bar: best estimate; line: 80% interval; first: present")]
    for i, one in enumerate(forecasts):
        y, unread = _TOP + 2 * _ROW * i, one.unread
        low, best, high = (
            _NARROW_BARS + _NARROW_FULL * value / most
            for value in (unread.low, unread.best, unread.high)
        )
        values = f"{unread.best:,.0f} ({unread.low:,.0f} to {unread.high:,.0f})"
        parts += [
            _text(20, y + 17, "ink", one.deployment.text_beside(forecasts[0].deployment)),
            *_bar_with_interval(y, (_NARROW_BARS, best), (low, high)),
            _text(_NARROW_BARS + _NARROW_FULL + 12, y + _ROW + 15, "ink title", values),
        ]
    return _picture(head, _TOP + 2 * _ROW * len(forecasts) + 14, parts)


def migration_picture(migrations: Sequence[Migration]) -> str:
    """Draw the status and the expected gain of each group's protocol migration, as SVG bars.

    The gain is the saved time without a consumer, with a line for its interval. Bars to the left of
    the zero line are losses.
    """
    target = f" to {migrations[0].protocol}" if migrations else ""
    rows = list(migrations)[:_MOST_ROWS]
    gains = [one.effect.saves if one.effect is not None else None for one in rows]
    ends = [end for gain in gains if gain is not None for end in (gain.low, gain.high)]
    least, most = min(0.0, *ends, 0.0), max(1.0, *ends, 0.0)
    scale = _NARROW_FULL / (most - least)
    zero = _NARROW_BARS - least * scale
    parts = [_text(20, 46, "soft", "bar: expected gain in partition-seconds; line: its interval")]
    for i, (one, gain) in enumerate(zip(rows, gains, strict=True)):
        y = _TOP + 2 * _ROW * i
        style = "good title" if one.status in (READY, DONE) else "ink title"
        parts += [_text(20, y + 17, "ink", one.group), _text(_LABELS, y + 17, style, one.status)]
        if gain is None:
            parts.append(_text(_NARROW_BARS + 8, y + _ROW + 15, "soft", "gain unknown"))
            continue
        low, best, high = (zero + scale * value for value in (gain.low, gain.best, gain.high))
        values = f"{round(gain.best):,} ({round(gain.low):,} to {round(gain.high):,})"
        parts += [
            f'<line class="limit" x1="{zero:.1f}" x2="{zero:.1f}" y1="{y + _ROW - 2}" '
            f'y2="{y + 2 * _ROW - 2}"/>',
            *_bar_with_interval(y, (min(zero, best), max(zero, best)), (low, high)),
            _text(_NARROW_BARS + _NARROW_FULL + 12, y + _ROW + 15, "ink title", values),
        ]
    bottom = _TOP + 2 * _ROW * len(rows)
    return _picture(f"Migration{target}: status and expected gain", bottom + 14, parts)


def growth_picture(growth: Growth, drains: Sequence[DrainTime] = ()) -> str:
    """Draw the share of keys that stays in each partition when partitions are added, as SVG.

    ``growth`` has these shares. Below the bars are the times that consumer groups need to read
    their old records (``drains``).

    >>> from partage.forecasts.growth import plan_growth
    >>> growth_picture(plan_growth(4, 6)).count('class="bar"')
    4
    """
    head = f"{growth.before} to {growth.after} partitions: {growth.moved:.0%} of the keys move"
    parts = [_text(20, 46, "soft", "strong: keys that stay; faint: keys that move")]
    rows = growth.successors[:_MOST_ROWS]
    for p, successors in enumerate(rows):
        y = _TOP + _ROW * p
        moved = [one for one in successors if one != p]
        to = f"to {', '.join(map(str, moved[:6]))}{' ...' if len(moved) > 6 else ''}"
        parts += [
            _text(20, y + 15, "ink", f"partition {p}"), _bar("down", _BARS, y, 1.0),
            _bar("bar", _BARS, y, 1 - growth.moved),
            _text(_BARS + _FULL + 12, y + 15, "ink", f"{growth.moved:.0%} {to}"),
        ]  # fmt: skip
    y = _TOP + _ROW * len(rows)
    for one in drains:
        time = "an unknown time" if one.seconds is None else f"{one.seconds:,.0f} s"
        text = f"{one.group}: {one.lag:,} old records, read after {time}"
        parts.append(_text(20, y + 19, "ink title", text))
        y += _ROW
    return _picture(head, y + 14, parts)


def standby_picture(gain: StandbyGain, application: str, cost: str) -> str:
    """Draw the outages of a Kafka Streams application with and without a standby, as SVG bars.

    Args:
        gain: outages in seconds, without and with the standby.
        application: ``application.id``.
        cost: disk and changelog reads of the standby, as text.

    >>> gain = StandbyGain(1, False, 90.0, 30.0, 180.0, 60.0, 1_000, 0.0, 0.0)
    >>> standby_picture(gain, "shop", "costs 1 kB of disk").count('class="bar"')
    4
    """
    bars = (
        ("worst task", gain.standbys - 1, gain.worst_s),
        ("worst task", gain.standbys, gain.worst_with_s),
        ("all tasks", gain.standbys - 1, gain.total_s),
        ("all tasks", gain.standbys, gain.total_with_s),
    )
    largest = {"worst task": max(gain.worst_s, gain.worst_with_s),
               "all tasks": max(gain.total_s, gain.total_with_s)}  # fmt: skip
    parts = [_text(20, 46, "soft", f"bar: mean outage; the standby {cost}")]
    for i, (what, standbys, seconds) in enumerate(bars):
        y = _TOP + 2 * _ROW * i
        width = _NARROW_FULL * seconds / (largest[what] or 1.0)
        label = f"{what}, {standbys} standby{'' if standbys == 1 else 's'}"
        parts += [
            _text(20, y + 17, "ink", label),
            f'<rect class="bar" x="{_NARROW_BARS}" y="{y + _ROW}" height="{_ROW - 4}" '
            f'width="{width:.1f}"/>',
            _text(
                _NARROW_BARS + _NARROW_FULL + 12, y + _ROW + 15, "ink title", f"{seconds:,.0f} s"
            ),
        ]
    head = f"{application}: outage when a client crashes and loses its disk"
    return _picture(head, _TOP + 2 * _ROW * len(bars) + 14, parts)


def drift_picture(title: str, counts: Mapping[str, tuple[int, int, int]]) -> str:
    """Draw the differences between two Kafka releases as SVG bars, one for each category.

    Args:
        title: title of the picture.
        counts: numbers of (changed, new, removed) items by category, such as "Messages".

    >>> drift_picture("4.4.0", {"Messages": (2, 1, 0), "Classes": (0, 0, 0)}).count('class="bar"')
    2
    """
    most = max(map(sum, counts.values()), default=0) or 1
    parts = [_text(20, 46, "soft", "strong: changed; faint: new or removed")]
    for i, (what, (changed, new, removed)) in enumerate(counts.items()):
        y = _TOP + 2 * _ROW * i
        full, dark = (
            _NARROW_FULL * n / most for n in (changed + new + removed, changed)
        )  # fmt: skip
        values = f"{changed} changed, {new} new, {removed} removed"
        parts.append(_text(20, y + 17, "ink", what))
        parts += [
            f'<rect class="{style}" x="{_NARROW_BARS}" y="{y + _ROW}" height="{_ROW - 4}" '
            f'width="{width:.1f}"/>'
            for style, width in (("down", full), ("bar", dark))
        ]
        parts.append(_text(_NARROW_BARS + _NARROW_FULL + 12, y + _ROW + 15, "ink title", values))
    return _picture(title, _TOP + 2 * _ROW * len(counts) + 14, parts)


def _text(x: float, y: float, style: str, text: str) -> str:
    return f'<text class="{style}" x="{x:g}" y="{y:g}">{_escaped(text)}</text>'


def _picture(title: str, height: int, parts: Sequence[str]) -> str:
    """Combine SVG elements to a complete SVG document with a title.

    Args:
        title: title of the picture.
        height: height in pixels.
        parts: the SVG elements.
    """
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'style="max-width: {_WIDTH}px" width="100%" role="img">',
        f"<title>{_escaped(title)}</title>", _STYLE,
        f'<rect class="ground" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="6"/>',
        _text(20, 26, "ink title", title), *parts, "</svg>", "",
    ])  # fmt: skip


def _escaped(text: str) -> str:
    return escape(escape_document_text(text))
