"""Tables of values: text for terminals, HTML with small pictures for notebooks.

Text is escaped, nothing is loaded and no script runs. Colours follow JupyterLab's variables and
its theme where there is one, otherwise ``prefers-color-scheme``; text has the page's own colour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from partage.model.validation import escape_control_characters

__all__ = [
    "MOST_ROWS", "Picture", "draw_bar", "draw_histogram", "draw_strip", "html_table",
    "pretty_print", "text_table",
]  # fmt: skip

#: Rows that a table shows; the others are counted.
MOST_ROWS = 40
#: Cells of a strip and columns of a histogram; a picture of more shows the first ones.
_MOST_CELLS = 120
#: Characters of a text in a cell.
_LONGEST = 300
#: Colours that differ in hue and lightness, also for colour-blind people (Okabe and Ito).
_LIGHT = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7b68ae", "#8a8a00",
)  # fmt: skip
_DARK = (
    "#4aa3df", "#f0b93a", "#2fc79a", "#e29cc4", "#8fd0f5", "#f0803c", "#a898dc", "#bdbd3a",
)  # fmt: skip


def _colours(selector: str, colours: Sequence[str]) -> str:
    names = ";".join(f"--p{i}:{colour}" for i, colour in enumerate(colours))
    return f"{selector}{{{names}}}"


_STYLE = "".join(
    [
        _colours(".partage", _LIGHT),
        "@media (prefers-color-scheme:dark){", _colours(".partage", _DARK), "}",
        _colours('[data-jp-theme-light="true"] .partage', _LIGHT),
        _colours('[data-jp-theme-light="false"] .partage,.vscode-dark .partage', _DARK),
        ".partage{color:var(--jp-content-font-color1,inherit);max-width:100%;overflow-x:auto}",
        # Twice the class: JupyterLab's rules for cells have the specificity of one class.
        ".partage.partage table{border-collapse:collapse;margin:.3em 0}",
        ".partage.partage :is(th,td){padding:.15em .7em .15em 0;text-align:left;vertical-align:top;"
        "border:0;border-bottom:1px solid rgba(128,128,128,.35);background:none;color:inherit}",
        ".partage.partage th{font-weight:600}",
        ".partage.partage .n{text-align:right;white-space:nowrap}",
        ".partage.partage td.t{overflow-wrap:anywhere;min-width:7em;white-space:normal}",
        ".partage.partage svg{display:block;height:1.1em;max-width:none}",
        ".partage .none{fill:rgba(128,128,128,.35)}",
        *(f".partage .c{i}{{fill:var(--p{i})}}" for i in range(len(_LIGHT))),
    ]
)  # fmt: skip


def pretty_print(value: object, printer: Any, cycle: bool) -> None:  # noqa: FBT001 - IPython's call
    """Print a value as text in IPython and Jupyter.

    Classes assign this function to ``_repr_pretty_``, the method that IPython calls.

    Args:
        value: the object to print.
        printer: IPython's pretty printer.
        cycle: whether the object contains itself.
    """
    printer.text("..." if cycle else str(value))


def text_table(rows: Sequence[Sequence[str]], *, left_columns: int = 1) -> str:
    """Format rows of cells as a text table with aligned columns.

    The first row has the headings. The first columns are aligned left, numbers right.

    Args:
        rows: cells as text.
        left_columns: number of columns that are aligned left.

    >>> print(text_table([("name", "n"), ("a", "10")]))
    name   n
    a     10
    """
    wide = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        "  ".join(
            text.ljust(width) if i < left_columns else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, wide, strict=True))
        )
        for row in rows
    )
    return "\n".join(escape_control_characters(line.rstrip()) for line in lines)


#: Text that is aligned as a number: a dash, or digits with separators and a percent sign.
_FIGURE = re.compile(r"-|-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?%?")
#: Class of a heading above numbers.
_NUMBER = ' class="n"'


class Picture(NamedTuple):
    """SVG drawing that fills one cell of an HTML table in a notebook.

    `draw_bar`, `draw_strip` and `draw_histogram` create pictures for `html_table`.
    """

    svg: str


def draw_bar(segments: Iterable[tuple[int, int]], longest_bar: int) -> Picture:
    """Draw a horizontal bar of coloured segments, as SVG for a cell of an HTML table.

    For example, the bar of a group member has one segment for each topic, as long as its number of
    partitions.

    Args:
        segments: (palette index of the colour, length) of each segment.
        longest_bar: length of the longest bar of the table, which fills the cell.

    >>> draw_bar([(0, 1), (9, 1)], 4).svg.count("<rect")
    2
    """
    wide, at, drawn = 120, 0.0, []
    for colour, size in segments:
        width = wide * size / max(longest_bar, 1)
        drawn.append(_rect(at, max(width - 1, 0.5), 0, 10, colour))
        at += width
    return _svg(wide, drawn)


def draw_strip(colours: Sequence[int]) -> Picture:
    """Draw a row of small coloured squares, as SVG for a cell of an HTML table.

    For example, there is one square for each partition, in the colour of its owner.

    Args:
        colours: palette index of each square; -1 draws a square for no owner.

    >>> draw_strip([0, 1, -1]).svg.count("<rect")
    3
    """
    some = colours[:_MOST_CELLS]
    return _svg(6 * len(some), [_rect(6 * i, 5, 0, 10, one) for i, one in enumerate(some)])


def draw_histogram(values: Sequence[int]) -> Picture:
    """Draw one vertical column for each value, as SVG for a cell of an HTML table.

    The columns are in the order of the values, and the highest one fills the cell.

    >>> draw_histogram([2, 0]).svg.count("<rect")
    2
    """
    some = values[:_MOST_CELLS]
    most = max([*some, 1])
    heights = [10 * value / most for value in some]
    drawn = [_rect(4 * i, 3, 10 - high, high, 0) for i, high in enumerate(heights)]
    return _svg(4 * len(some), drawn)


def _rect(x: float, width: float, y: float, height: float, colour: int) -> str:
    name = "none" if colour < 0 else f"c{colour % len(_LIGHT)}"
    places = f'x="{x:.4g}" y="{y:.3g}" width="{width:.4g}" height="{height:.3g}"'
    return f'<rect class="{name}" {places}/>'


def _svg(width: int, drawn: Iterable[str]) -> Picture:
    size = f'viewBox="0 0 {max(width, 1)} 10" width="{max(width, 1)}"'
    return Picture(f'<svg aria-hidden="true" {size}>{"".join(drawn)}</svg>')


def html_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | int | Picture]],
    notes: Iterable[str] = (),
) -> str:
    """Format rows as an HTML table with a title, for notebooks.

    Classes use it in ``_repr_html_``. Text is escaped, and colours follow the notebook's theme.

    Args:
        title: line above the table.
        columns: heading of each column.
        rows: cells of each row: text, numbers (aligned right) or pictures.
        notes: lines below the table.

    >>> "&lt;b&gt;" in html_table("t", ["member"], [["<b>"]])
    True
    """
    cells = [[_format_cell(value) for value in row] for row in rows]
    sides = [
        "n" in kinds and kinds <= {"n", "e"}
        for kinds in ({row[i][0] for row in cells} for i in range(len(columns)))
    ]
    head = "".join(
        f'<th scope="col"{_NUMBER if right else ""}>{_text(column)}</th>'
        for column, right in zip(columns, sides, strict=True)
    )
    lines = ("".join(f'<td class="{kind}">{inner}</td>' for kind, inner in row) for row in cells)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    below = "".join(f"<div>{_text(note)}</div>" for note in notes)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return (
        f'<div class="partage"><style>{_STYLE}</style><div>{_text(title)}</div>{table}{below}</div>'
    )


def _format_cell(value: str | int | Picture) -> tuple[str, str]:
    """Return the CSS class and the HTML content for the value of one table cell.

    The classes are n (number), t (text), p (picture) and e (empty).
    """
    if isinstance(value, Picture):
        return "p", value.svg
    if isinstance(value, int):
        return "n", f"{value:,}"
    if not value:
        return "e", ""
    return "n" if _FIGURE.fullmatch(value) else "t", _text(value)


def _text(value: str) -> str:
    short = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    # `escape_control_characters` would escape the no-break spaces between numbers and units.
    return escape(escape_control_characters(short.replace("\N{NO-BREAK SPACE}", " ")))
