"""One verdict in three outputs: the page, the terminal and the JSON document say the same."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from tests.support.synthetic_runs import published_run, synthetic

from partage.report.data import read_run
from partage.report.html import render_run_page
from partage.report.json_document import json_document
from partage.report.run import RunFigures
from partage.report.terminal import MAX_GROUPS, terminal_summary


class _Verdicts(HTMLParser):
    """Reads the head of the page: its sentences, and the cells of the table of worst groups."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.rows: list[dict[str, str]] = []
        self._table = False
        self._into: tuple[dict[str, str], str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = (dict(attrs).get("class") or "").split()
        if tag == "table":
            self._table = "verdict" in names
        if tag == "h1" or (tag == "p" and names and names[0] in {"lead", "trust"}):
            self._into = (self.texts, names[0] if tag == "p" else "headline")
        elif self._table and tag == "tr":
            self.rows.append({})
        elif self._table and tag in {"td", "th"} and self.rows:
            self._into = (self.rows[-1], dict(attrs).get("data-label") or "Group")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"h1", "p", "td", "th"}:
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            into, name = self._into
            into[name] = into.get(name, "") + data


def plain(text: str) -> str:
    """Return text with simple blanks and hyphens, which differ by output."""
    return re.sub(r"\s+", " ", text.replace("\N{NON-BREAKING HYPHEN}", "-")).strip()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFigures:
    """A run of nine groups with estimates of their downtime."""
    rows = synthetic(9)
    for row in rows["replays"]:
        best = 0.3 * row["stopped_at_most_ps"]
        if row["reading"] != "per_rebalance":
            row |= {"stopped_ps": best, "stopped_p10_ps": 0.8 * best, "stopped_p90_ps": 1.3 * best}
    return read_run(published_run(Path(tmp_path_factory.mktemp("verdict")) / "out", rows))


@pytest.fixture(scope="module")
def page(run: RunFigures) -> _Verdicts:
    found = _Verdicts()
    found.feed(render_run_page(run))
    found.rows = [row for row in found.rows if len(row) > 1 and "Downtime" in row]
    return found


@pytest.fixture(scope="module")
def terminal(run: RunFigures) -> str:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=200, color_system=None)
    for part in terminal_summary(run):
        console.print(part)
    return plain(console.file.getvalue())


def test_the_sentences_are_equal(run: RunFigures, page: _Verdicts, terminal: str) -> None:
    """Headline, lead and the line of trust have the same words everywhere."""
    document = json_document(run)
    assert "unread for" in document["headline"]
    for name, field in (("headline", "headline"), ("lead", "lead"), ("trust", "trust_line")):
        words = plain(document[field])
        assert len(words) > 30
        assert words in plain(page.texts[name])
        assert words in terminal


def test_groups_have_one_order(run: RunFigures, page: _Verdicts, terminal: str) -> None:
    """The group with the most downtime is the first one everywhere."""
    names = [g["name"] for g in json_document(run)["groups"] if g["rebalances"]]
    assert [row["Group"] for row in page.rows] == names[: len(page.rows)]
    assert len(page.rows) == 8
    places = [terminal.index(f" {name} ") for name in names[:MAX_GROUPS]]
    assert places == sorted(places)


def test_a_group_has_one_verdict(run: RunFigures, page: _Verdicts, terminal: str) -> None:
    """Downtime, share, cause, change, gain and confidence of a group are the same everywhere."""
    groups = {g["name"]: g for g in json_document(run)["groups"]}
    compared = 0
    for number, row in enumerate(page.rows):
        found = groups[row["Group"]]["verdict"]
        cause = plain(f"{found['main_cause']} {found['main_cause_share']}")
        line = (
            f"{row['Group']} {found['downtime']} {found['unread']} {found['rebalances_per_hour']}"
        )
        assert plain(row["Downtime"]) == plain(found["downtime"])
        assert plain(row["Unread"]) == plain(found["unread"])
        assert plain(row["Main cause"]) == cause
        assert plain(f"{line} {cause}") in terminal
        assert plain(row["Change"]).startswith(plain(found["change"]))
        gain = plain(f"{found['expected_gain']} ({found['confidence']} confidence)")
        begin, end = found["expected_gain"], f"{found['confidence']} confidence"
        if found["expected_gain_share"]:
            begin, end = f"{begin}{found['expected_gain_share']}, {end}", ""
            gain = plain(f"{found['expected_gain']}, {found['expected_gain_share']} "
                         f"({found['confidence']} confidence)")  # fmt: skip
        assert plain(row["Expected gain"]) == plain(begin + end)
        if found["change"] and number < 5:
            text = f"→ {row['Group']}: {found['change']} expected gain: {gain}"
            assert plain(text) in terminal
            together = found["expected_gain_of_all_changes"]
            assert not together or f"all changes together: {plain(together)}" in terminal
            compared += 1
    assert compared >= 3
