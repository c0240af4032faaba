"""The HTML page of a run: one file that works offline.

The answer to the first question is text in the page. Details of a group are JSON that the page's
script shows when the group is opened. The charting library (vendor/) is text in the page that runs
when the first chart comes into view.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from partage.errors import MissingExtraError
from partage.report import messages, view_model
from partage.report.advice import coverage_advice, total_savings
from partage.report.data import load_run
from partage.report.gains import gains_by_policy
from partage.report.group_details import generate_group_details
from partage.report.json_document import json_document
from partage.report.limit_notes import limit_notes
from partage.report.recommendations import (
    count_changed_groups,
    recommendations_for,
    sum_estimated_gains,
    verification_lines,
    with_command,
)
from partage.report.run import GroupFigures, RunFigures
from partage.runs.published_run import PublishedRun
from partage.tables.escaping import escape_document_text
from partage.tables.metrics import SHOWN, OutputLevel

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = [
    "create_jinja_environment",
    "publish_page",
    "render_run_page",
    "write_page",
    "write_template",
]

#: Rows of the two lists at the head of the page.
_FIRST = 8
#: Characters for data of single groups; with 1,000 groups, a page stays below 15 MB.
_MAX_CHARACTERS = 11_000_000
#: Characters of these data from which they are compressed. Smaller pages need no decompression, and
#: older browsers show them.
_MAX_PLAIN = 3_000_000
#: With more groups than this, the download leaves out the figures of each group's policies.
_FEW = 100
#: Groups whose recommendations the page's section on changes has; the others have their own.
_ADVISED = 12

#: Media types of script elements with data.
_PLAIN, _PACKED = "application/json", "application/gzip"

Details = Iterable[tuple[GroupFigures, dict[str, Any]]]


def publish_page(out: str | Path, page: Path, run: str | None = None) -> RunFigures:
    """Read a published run and write its report as one HTML page, with the details of each group.

    Args:
        out: the output folder of `partage replay`.
        page: path of the page to write.
        run: id of an earlier run; None for the newest.

    Returns:
        The run that was read.

    Raises:
        InvalidCaptureError: the folder has no such run, or one of its files cannot be read.
        MissingExtraError: jinja2 or pyarrow is not installed.
        OSError: the page cannot be written.
    """
    folder = PublishedRun(out, run)
    found = load_run(folder)
    write_page(found, page, generate_group_details(folder, found))
    return found


def write_page(run: RunFigures, path: Path, details: Details = ()) -> Path:
    """Write the HTML page of a run, and return its path.

    The page is written to a temporary file first, so that a failure leaves no partial page.

    Args:
        run: the run to show.
        path: path of the page.
        details: details of single groups, from `partage.report.group_details`.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    text = render_run_page(run, details)
    temporary = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        temporary.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def render_run_page(run: RunFigures, details: Details = ()) -> str:
    """Return the report of a run as the text of an HTML page.

    ``details`` are the timelines and rebalances of single groups, from
    `partage.report.group_details`; without them the page has only tables.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    texts = _details_text(run, details)
    saved, helped = total_savings(run)
    rebalancing = run.groups_with_rebalances
    unit = messages.groups_unit(run.groups)
    rows = [view_model.group_row(g, unit) for g in rebalancing[: view_model.MAX_LISTED]]
    policies = list(
        view_model.policy_rows(
            run.policies, run.figures, OutputLevel.PAGE, gains_by_policy(run.groups), unit
        )
    )
    return create_jinja_environment().get_template("page.html.j2").render(
        run=run,
        summary=run.summary,
        cover=run.summary["coverage"],
        headline=messages.run_headline(run),
        lead=messages.opening_sentences(
            run, saved, helped, count_changed_groups(rebalancing), sum_estimated_gains(rebalancing)
        ),
        unit=unit,
        simulated_note=messages.simulated_note(run),
        trust=messages.reliability_sentences(run),
        notes=limit_notes(run),
        advised=[row for row in rows if row.first is not None][:_ADVISED],
        recommendations=recommendations_for,
        with_command=with_command,
        verification=verification_lines(run),
        record=coverage_advice(run),
        cause_list=view_model.cause_list(run.causes, unit, _FIRST),
        first_rows=rows[:_FIRST],
        rows=rows,
        policies=policies,
        not_comparable=any(not row.comparable for row in policies),
        per_rebalance=list(
            view_model.policy_rows(
                run.policies, run.per_rebalance, OutputLevel.PAGE,
                gains_by_policy(run.groups, per_rebalance=True), unit,
            )
        ),
        metrics=SHOWN[OutputLevel.PAGE],
        headings=view_model.metric_headings(),
        applications=[
            view_model.streams_card(group)
            for group in run.simulated_applications[: view_model.MAX_LISTED]
        ],
        streams_headings=view_model.STREAMS_HEADINGS,
        rebalancing=len(rebalancing),
        details=texts.texts,
        details_type=texts.kind,
        most_listed=view_model.MAX_LISTED,
        data=texts.write(_to_script_json(_short_document(run))),
        library=_vendor("echarts.min.js"),
    )  # fmt: skip


def write_template(name: str, path: Path, **values: Any) -> Path:
    """Render a Jinja template of the report and write the result to a file.

    ``name`` is the file name of the template; the keyword arguments are its variables.

    Raises:
        MissingExtraError: jinja2 is not installed.
        OSError: the page cannot be written.
    """
    text = create_jinja_environment().get_template(name).render(**values)
    path.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    return path


class _DetailsText(NamedTuple):
    """The data of consumer groups as text for script elements of the HTML page.

    Attributes:
        kind: media type of the elements: JSON, or JSON compressed with gzip, as base64.
        texts: text by anchor of the group.
    """

    kind: str
    texts: dict[str, Markup]

    def write(self, text: Markup) -> Markup:
        """Convert a JSON text to the content of a script element: unchanged, or compressed as
        base64.
        """
        return text if self.kind == _PLAIN else _compress(text)


def _details_text(run: RunFigures, details: Details) -> _DetailsText:
    """Convert the timelines and rebalances of consumer groups to text in the HTML report.

    A page has a maximum size: if all groups together exceed it, those with the least downtime are
    left out. Large data are compressed.
    """
    plain: dict[str, Markup] = {}
    packed: dict[str, Markup] = {}
    plain_size = packed_size = 0
    for group, values in details:
        text = _to_script_json(view_model.group_data(run, group, values))
        plain_size += len(text)
        if plain_size <= _MAX_PLAIN:
            plain[group.anchor] = text
        packed_text = _compress(text)
        packed_size += len(packed_text)
        if packed_size > _MAX_CHARACTERS:
            break
        packed[group.anchor] = packed_text
    if plain_size <= _MAX_PLAIN:
        return _DetailsText(_PLAIN, plain)
    return _DetailsText(_PACKED, packed)


def _compress(text: str) -> Markup:
    """Compress a text with gzip, and return it as base64; equal texts have equal results."""
    packed = gzip.compress(text.encode("utf-8", "replace"), compresslevel=6, mtime=0)
    return _as_markup(base64.b64encode(packed).decode("ascii"))


def _short_document(run: RunFigures) -> dict[str, Any]:
    """Return a short form of the report's JSON document, which the HTML page offers for download.

    It has only the first groups, and leaves out data that would make the page too large.
    """
    # It has only the first groups, without the parts that the page shows anyway.
    out = {"advice", "policies_per_rebalance"}
    if len(run.groups) > _FEW:
        out.add("policies")
    document = json_document(run, out)
    listed = document["groups"][: view_model.MAX_LISTED]
    return {
        **document,
        "groups": listed,
        "groups_not_listed": len(document["groups"]) - len(listed),
        "left_out_of_groups": sorted(out),
    }


def _vendor(name: str) -> str:
    return (resources.files("partage.report") / "vendor" / name).read_text(encoding="utf-8")


@cache
def create_jinja_environment() -> Environment:
    """Create the Jinja environment for the HTML pages, with the report's own filters.

    Values are escaped, and unknown variables raise an error. The environment is cached.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError("jinja2", extra="report") from None
    made = Environment(
        loader=PackageLoader("partage.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        count=messages.count,
        plural=messages.plural,
        short=messages.short_name,
        downtime=messages.format_range,
        estimate=partial(messages.format_estimate, short=True),
        when=_when,
        data=_to_script_json,
        raw_script=_raw_script,
    )
    made.globals.update(
        percent=messages.percent,
        bar=_bar_percent,
        causes={kind: text._asdict() for kind, text in messages.CAUSES.items()},
        glossary={key: term._asdict() for key, term in messages.GLOSSARY.items()},
    )
    return made


def _finalized(value: Any) -> Any:
    # Names may have control characters, and bidirectional ones that reorder the text behind them.
    return escape_document_text(value) if type(value) is str else value


def _to_script_json(value: Any) -> Markup:
    """Return a value as JSON that is safe to embed in an HTML script element.

    The characters ``<``, ``>`` and ``&`` are escaped, so that no text can end the element. Control
    characters are escaped too. The script reads the same value as without escapes.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = escape_document_text(text, in_json=True)
    for one in "<>&\u2028\u2029":
        text = text.replace(one, f"\\u{ord(one):04x}")
    return _as_markup(text)


def _raw_script(text: str) -> Markup:
    """Mark a script that is part of Partage as safe, so that Jinja inserts it without escaping.

    Raises:
        MissingExtraError: jinja2 is not installed.
        ValueError: the script contains text that would end its script element early.
    """
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError("a script that is put into the page would end its element")
    return _as_markup(text)


def _as_markup(text: str) -> Markup:
    """Mark text as safe HTML, so that Jinja does not escape it again.

    The caller must have made it safe.

    Raises:
        MissingExtraError: jinja2, which brings markupsafe along, is not installed.
    """
    # The caller must have made the text safe.
    try:
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("jinja2", extra="report") from None
    return Markup(text)  # noqa: S704 - made safe by both callers


def _when(ms: int | None) -> str:
    return "-" if ms is None else f"{messages.format_time(ms)} UTC"


def _bar_percent(part: float, whole: float) -> float:
    """Return the length of a bar in a chart as a percentage of the longest bar (0 to 100).

    ``part`` is the bar's value, ``whole`` the value of the longest bar.
    """
    return round(min(max(100 * part / whole, 0), 100), 2) if whole else 0
