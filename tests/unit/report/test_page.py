"""The page as text: everything is escaped, nothing is fetched, what is missing is said."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from tests.support.published import NASTY, published, summary
from tests.support.synthetic_runs import published_run, synthetic

from partage.report.data import load_run, read_run
from partage.report.group_details import generate_group_details
from partage.report.html import render_run_page, write_page
from partage.runs.published_run import PublishedRun
from partage.tables.statuses import FAILED, NOT_YET

VOID = {"wbr", "meta", "link", "input", "br", "img", "hr"}


class Reader(HTMLParser):
    """Tags with their attributes, the text of scripts, and whether tags are nested."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [v for k, v in attrs if k == "id"]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


def rendered(out) -> str:
    folder = PublishedRun(out)
    run = load_run(folder)
    return render_run_page(run, generate_group_details(folder, run))


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    return rendered(published(tmp_path_factory.mktemp("page")))


def test_a_name_cannot_leave_its_place(page) -> None:
    """A group called </script><script>alert(1)</script> is text everywhere: only our scripts run."""
    found = read(page)
    assert [a.get("type") for t, a in found.tags if t == "script"].count(None) == 1
    assert "<script>alert" not in page
    assert "alert" not in found.scripts[-1]
    figures = json.loads(found.scripts[0])
    assert NASTY in [g["name"] for g in figures["groups"]]
    groups = [json.loads(s) for s in found.scripts[4:-2]]
    assert NASTY in [one["name"] for one in groups]


def test_tags_are_nested_and_ids_are_unique(page) -> None:
    """Every tag is closed where it should be, and no id occurs twice."""
    found = read(page)
    assert not found.wrong
    assert not found.open
    assert len(found.ids) == len(set(found.ids))


def test_every_link_leads_to_a_place_on_the_page(page) -> None:
    """Links lead to sections, glossary entries and groups with details on this page only."""
    found = read(page)
    links = [attributes["href"] for tag, attributes in found.tags if tag == "a"]
    assert links
    for link in links:
        assert link.startswith("#")
        assert link[1:] in found.ids or f"d-{link[1:]}" in found.ids, link


def test_nothing_is_fetched(page) -> None:
    """No import, no source, no address outside the library's comments; the page forbids fetching."""
    found = read(page)
    ours = page.replace(found.scripts[-2], "")
    assert "://" not in ours
    assert "@import" not in ours
    assert not [a for _, a in found.tags if "src" in a or "srcset" in a]
    assert [a["href"] for t, a in found.tags if t == "link"] == ["data:,"]
    (policy,) = [a["content"] for t, a in found.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy


def test_every_table_head_and_control_is_named(page) -> None:
    """Cells of a head have a scope, scrolled regions and controls a label: for a screen reader."""
    found = read(page)
    assert all("scope" in a for t, a in found.tags if t == "th")
    scrolled = [a for t, a in found.tags if "scroll" in (a.get("class") or "").split()]
    assert scrolled
    assert all(a.get("aria-label") and a.get("tabindex") == "0" for a in scrolled)
    assert all("aria-label" in a for t, a in found.tags if t == "input" and a["type"] == "search")


def test_the_head_answers_the_first_questions(tmp_path) -> None:
    """The head shows downtime, groups, causes, expected gains and reliability."""
    page = rendered(published_run(tmp_path, synthetic(12)))
    head = re.sub(r"[ \n]+", " ", page[page.index("<header>") : page.index("</header>")])
    for words in ("Rebalances caused", "partition-", "Groups with the most downtime",
                  "Why they rebalanced", "Expected gain", "Partage reproduces 1 of 2", "Main cause",
                  "The log has 100 % of"):  # fmt: skip
        assert words in head.replace("\xa0", " "), words
    assert "What to change" in page
    assert "group.protocol=consumer" in page


def test_groups_not_replayed_and_damaged_records_are_listed(page) -> None:
    """The page lists groups that were not replayed and bad records, each with a reason."""
    assert "histories of streams groups are not yet in Partage" in page
    assert "2 bytes needed, 1 left" in page
    assert "the leader had not yet seen topic" in page


def test_costs_that_are_not_known_are_called_so(page) -> None:
    """Without commit times, downtime is unknown in the head and in a note, not zero."""
    head = page[page.index("<header>") : page.index("</header>")]
    assert "unknown" in head
    assert "p·s" not in head
    assert "Downtime is unknown" in page


def test_a_strategy_that_is_not_there_yet_is_named(tmp_path) -> None:
    """A strategy that a group chose and Partage lacks has its row, without figures."""
    from tests.support.published import replayed, tables

    rows = tables()
    none = dict.fromkeys(("moved", "avoidable", "spread", "idle", "best_spread", "breaches"))
    rows["replays"].append(replayed("orders", 2, "newest", status=NOT_YET, claimed=True, **none))
    text = rendered(published(tmp_path, rows))
    assert "not in Partage in 1 rebalance" in text


def test_a_failed_strategy_has_its_row_and_error(tmp_path) -> None:
    """A plug-in that raised an error has a row with its error as text."""
    from tests.support.published import replayed, tables

    rows = tables()
    none = dict.fromkeys(("moved", "avoidable", "spread", "idle", "best_spread", "breaches"))
    for generation in (1, 2):
        rows["replays"].append(replayed("orders", generation, "acme", status=FAILED, **none))
    failures = [
        {"group": "orders", "generation": 1, "strategy": "acme",
         "why": f"ValueError: {NASTY}"}
    ]  # fmt: skip
    text = rendered(published(tmp_path, rows, failures=failures))
    assert "ValueError: &lt;/script&gt;" in text
    assert NASTY not in text
    assert "failed in 2 rebalances" in text
    assert json.loads(read(text).scripts[0])["policies"]["acme"]["failed"] == 2


def test_a_page_has_its_limits_and_says_so(tmp_path, monkeypatch) -> None:
    """A page with too many groups says where the others are."""
    from partage.report import html, view_model

    monkeypatch.setattr(view_model, "MAX_LISTED", 5)
    monkeypatch.setattr(html, "_MAX_PLAIN", 0)
    monkeypatch.setattr(html, "_MAX_CHARACTERS", 9_000)
    text = rendered(published_run(tmp_path, synthetic(12)))
    found = read(text)
    assert "The first 5 of 12 groups" in text
    detailed = [one for one in found.ids if one.startswith("d-g")]
    assert 0 < len(detailed) < 5
    assert f"{len(detailed)} groups have details" in text
    links = [a["href"] for t, a in found.tags if t == "a" and a["href"].startswith("#g")]
    assert {f"d-{one[1:]}" for one in links if one[2:].isdigit()} <= set(detailed)
    document = gzip.decompress(base64.b64decode(found.scripts[0]))
    assert json.loads(document)["groups_not_listed"] == 7


def test_a_run_without_anything_has_a_page(tmp_path) -> None:
    """A run without groups has a valid page that says so."""
    empty = {
        "coverage": {**summary()["coverage"], "rebalances": 0, "missing_before": 0,
                     "first_ms": None, "last_ms": None},
        "agreement": {"counted": 0, "agreed": 0, "by_strategy": {}, "disagreements": []},
        "accounting": {**summary()["accounting"], "bad": 0},
    }  # fmt: skip
    text = rendered(published(tmp_path, {}, **empty))
    assert "No group rebalanced in this log." in text
    assert not read(text).wrong


def test_a_time_beyond_the_calendar_is_no_error(tmp_path) -> None:
    """A timestamp of any 64 bits does not break the page."""
    from tests.support.published import rebalance, tables

    rows = tables()
    rows["rebalances"] += [
        rebalance("orders", 3, time_ms=2**62),
        rebalance("orders", 4, time_ms=-(2**62)),
    ]
    assert not read(rendered(published(tmp_path, rows))).wrong


def test_the_page_is_written_whole(tmp_path) -> None:
    """The page replaces an older one in one step and leaves nothing else behind."""
    run = read_run(published(tmp_path / "out"))
    target = tmp_path / "page" / "report.html"
    target.parent.mkdir()
    target.write_text("older")
    assert write_page(run, target) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_half_a_surrogate_pair_in_a_name_is_no_error(tmp_path) -> None:
    """A lone surrogate in the summary does not prevent a UTF-8 page."""
    out = published(tmp_path / "out")
    path = out / "runs" / "run-1" / "summary.json"
    text = path.read_text(encoding="utf-8").replace("the leader had not yet", "\\ud800")
    path.write_text(text, encoding="utf-8")
    write_page(read_run(out), tmp_path / "report.html")
    assert "seen topic" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_page_has_no_control_and_no_bidirectional_characters(tmp_path) -> None:
    """Such a name is shown with escape sequences, and unchanged in the data for download."""
    out = published(tmp_path / "out")
    path = out / "runs" / "run-1" / "summary.json"
    name = "a\x1b[2J\x9b\u202e"
    text = path.read_text(encoding="utf-8").replace(json.dumps(NASTY)[1:-1], json.dumps(name)[1:-1])
    path.write_text(text, encoding="utf-8")
    page = render_run_page(read_run(out))
    assert not set("\x1b\x9b\u202e") & set(page)
    assert r"<bdi>a\x1b[2J\x9b\u202e</bdi>" in page
    assert json.dumps(name) in json.dumps(json.loads(read(page).scripts[0]))


def test_only_simulated_gains_are_marked_as_certain(tmp_path) -> None:
    """The page's script colours them; other gains, and no measurable difference, are plain."""
    text = rendered(published_run(tmp_path, synthetic(4)))
    groups = [json.loads(one) for one in read(text).scripts[4:-2]]
    advice = [one for group in groups for one in group["advice"]]
    assert {one["simulated"] for one in advice} == {True, False}
    for one in advice:
        unknown = one["gain"].startswith(("unknown", "no measurable", "about"))
        assert one["simulated"] is not unknown, one["gain"]
