"""The report in a real browser: at a desk and on a phone, light and dark, with and without scripts."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.browser import chromium
from tests.support.processes import ROOT
from tests.support.published import NASTY, group, rebalance
from tests.support.synthetic_runs import BEGIN, POLICIES, published_run, synthetic

from partage.report import group_details, html
from partage.report.html import publish_page

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="no playwright: pip install playwright"
)

pytestmark = pytest.mark.browser

DESK, PHONE = (1400, 1000), (400, 860)
SIZES = pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])
CHART = ".chart[data-drawn] svg"


def renamed(rows, old: str, new: str) -> None:
    for table in rows.values():
        for row in table:
            if row.get("group") == old:
                row["group"] = new


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    """Thirty groups: one named to break pages, one with a very long name, nasty topics, a large one."""
    folder = tmp_path_factory.mktemp("page")
    rows = synthetic(28)
    renamed(rows, "team-00.service-0000", NASTY)
    renamed(rows, "team-01.service-0001", "x" * 249)
    for interval in rows["ownership"]:
        if interval["group"] == NASTY:
            interval["topic"] = NASTY
    large = synthetic(1, partitions=5_000, members=40, rebalances=6, seed=3)
    renamed(large, "team-00.service-0000", "large")
    for name, of in large.items():
        rows[name] += of
    rows["groups"].append(group("quiet", rebalances=0, status="not replayed", claimed=[],
                                why="nobody ever joined"))  # fmt: skip
    rows["groups"].append(group("bare", rebalances=1))
    rows["rebalances"].append(rebalance("bare", 1, time_ms=BEGIN, cause_kind="unknown"))
    out = published_run(folder / "out", rows)
    publish_page(out, folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def engine() -> Iterator[object]:
    path = chromium()
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


@pytest.fixture
def opened(engine, page_file, request) -> Iterator[SimpleNamespace]:
    """Opens the page; whatever it logs or asks the network for is kept, and must be nothing."""
    contexts, logged, asked = [], [], []

    def open_page(size=DESK, scheme="light", scripts=True, hash="", file=page_file):  # noqa: A002 - the word of addresses
        context = engine.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            java_script_enabled=scripts,
        )
        contexts.append(context)
        page = context.new_page()
        # Playwright's 30 seconds are too short for a browser beside three busy processes.
        page.set_default_timeout(120_000)
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on(
            "dialog", lambda dialog: (logged.append(f"dialog {dialog.message}"), dialog.dismiss())
        )
        page.on("request", lambda asking: asked.append(asking.url))
        page.goto(file.as_uri() + hash)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert logged == []
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


def show(page, name: str) -> None:
    """Open a group by its link in the table, and wait for its drawing."""
    page.locator("#group-table tbody a").filter(has_text=name).first.press("Enter")
    page.wait_for_selector(CHART)


@SIZES
def test_the_page_never_scrolls_sideways(opened, size) -> None:
    """With everything unfolded, wide tables scroll in their own boxes, never the page; in the dark, too."""
    page = opened(size)
    for name in (NASTY, "x" * 200, "large"):
        show(page, name)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_selector(f".chart[data-drawn={scheme}]")
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@SIZES
@SCHEMES
def test_axe_finds_nothing_above_minor(opened, size, scheme) -> None:
    """With a group open and everything unfolded, at both sizes, light and dark."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    )
    page = opened(size, scheme)
    show(page, "team-05")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["impact"]) for one in found if one["impact"] != "minor"] == []


def test_each_landmark_has_its_own_name(opened) -> None:
    """A screen reader lists regions by their names; the group's tables are among them."""
    page = opened()
    show(page, "team-05")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    names = page.evaluate(
        "[...document.querySelectorAll('[role=region], section[aria-label]')]"
        ".filter(e => e.checkVisibility()).map(e => e.getAttribute('aria-label'))"
    )
    assert len(names) > 5
    assert [name for name in names if names.count(name) > 1] == []


@SIZES
def test_the_tables_of_groups_and_policies_fit_a_desk(opened, size) -> None:
    """At 1400 pixels the two main tables need no scrolling; on a phone they scroll in their box."""
    page = opened(size)
    for where in ("#policies .scroll", "#groups > .scroll"):
        wide = page.locator(where).first.evaluate("e => e.scrollWidth > e.clientWidth + 1")
        assert wide is (size == PHONE)


def test_names_of_policies_break_only_where_they_may(opened) -> None:
    """On a phone a policy's name breaks behind slash, colon or hyphen and before plus: words stay."""
    page = opened(PHONE)
    found = page.evaluate(
        """[...document.querySelectorAll('#policies tbody th')].map((cell) => {
          const range = document.createRange(), lines = [];
          const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
          while (walk.nextNode()) for (let i = 0; i < walk.currentNode.length; i += 1) {
            range.setStart(walk.currentNode, i); range.setEnd(walk.currentNode, i + 1);
            const top = Math.round(range.getBoundingClientRect().top);
            if (!lines.length || lines[lines.length - 1][0] !== top) lines.push([top, ""]);
            lines[lines.length - 1][1] += range.toString();
          }
          return lines.map((l) => l[1].trim()).filter(Boolean);
        })"""
    )
    assert ["".join(lines) for lines in found][1:4] == list(POLICIES[:3])
    for lines in found:
        for a, b in pairwise(lines):
            assert a[-1] in "/:-+" or b[0] == "+" or lines == ["as", "recorded"], lines


CONTRAST = """
() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const worst = {};
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || node.closest("script, style, svg") || !node.getClientRects().length) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const key = `${node.tagName}.${node.className}`;
    worst[key] = Math.min(worst[key] ?? 99, ratio);
  }
  return worst;
}
"""

LABELS = """
() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const hex = (c) => c.startsWith("#") ? [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)) : rgb(c);
  const paths = [...document.querySelectorAll(".chart svg path")];
  const texts = [...document.querySelectorAll(".chart svg text")].filter((t) => /^M\\d+$/.test(t.textContent));
  const fills = new Set(paths.filter((p) => p.getAttribute("stroke-width") === "0.6").map((p) => p.getAttribute("fill")).filter((f) => f && f.length === 7));
  const ink = light(hex(texts[0].getAttribute("fill")));
  return { labels: texts.length, colours: fills.size, worst: Math.min(...[...fills].map((f) => {
    const b = light(hex(f)); return (Math.max(ink, b) + 0.05) / (Math.min(ink, b) + 0.05); })) };
}
"""


@SCHEMES
def test_every_text_can_be_read(opened, scheme) -> None:
    """Contrast of all text against what is behind it is at least 4.5 to 1 (WCAG AA)."""
    page = opened(DESK, scheme)
    show(page, "team-05")
    found = page.evaluate(CONTRAST)
    assert len(found) > 25
    assert {key: ratio for key, ratio in found.items() if ratio < 4.5} == {}


@SCHEMES
def test_the_timeline_can_be_read_without_colour(opened, scheme) -> None:
    """Members are written into their boxes, dark on light or light on dark; causes are letters."""
    page = opened(DESK, scheme)
    show(page, "team-05")
    found = page.evaluate(LABELS)
    assert found["labels"] > 20
    assert found["colours"] > 3
    assert found["worst"] >= 4.5
    assert page.locator("#group .letter").count() > 3


def test_light_and_dark_differ_and_the_drawing_follows(opened) -> None:
    """The page follows the reader's scheme, at once and when it changes."""
    ask = "getComputedStyle(document.body).backgroundColor"
    page = opened(scheme="light")
    light = page.evaluate(ask)
    show(page, "team-05")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ask) != light
    page.wait_for_selector(".chart[data-drawn=dark]")


def test_tables_sort_by_number_and_by_name(opened) -> None:
    """A head's button sorts: numbers downwards first, names upwards; again turns it round."""
    page = opened()
    column = "[...document.querySelectorAll('#group-table tbody tr')].map(r => r.cells[{}].{})"
    lost = column.format(1, "dataset.v")
    button = page.locator("#group-table thead th").nth(1).locator("button")
    button.click()
    numbers = [float(v or "-inf") for v in page.evaluate(lost)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) > 20
    button.press("Enter")
    assert [float(v or "-inf") for v in page.evaluate(lost)] == sorted(numbers)
    page.locator("#group-table thead th").first.locator("button").click()
    assert page.evaluate(column.format(0, "textContent.trim()"))[-1] == "x" * 249
    assert page.locator("#group-table th[aria-sort]").count() == 1


def test_the_filter_leaves_what_matches(opened) -> None:
    """Rows of groups that do not match are hidden, and the page says how many match."""
    page = opened()
    page.fill("#filter", "SERVICE-0007 range")
    assert page.locator("#group-table tbody tr:visible").count() == 1
    assert page.locator("#filtered").inner_text() == "1 group matches"
    page.fill("#filter", "")
    assert page.locator("#group-table tbody tr:visible").count() == 30


def test_the_group_that_lost_most_is_open_and_others_are_a_click_away(opened) -> None:
    """A group is opened from the table, from the head, from advice, and from an address."""
    page = opened()
    first = page.locator("#group-table tbody a").first.inner_text()
    assert page.locator("#group h2").inner_text() == first
    page.locator(".verdict a").nth(2).click()
    assert page.locator("#group h2").inner_text() != first
    assert page.locator("#group-table tr[aria-current]").count() == 1
    assert page.evaluate("document.activeElement.id") == "group"
    assert opened(hash="#g5").locator("#group #g5").count() == 1


def test_a_large_group_is_drawn_in_bins(opened) -> None:
    """Five thousand partitions and forty members: few rows, a note, and no endless drawing."""
    page = opened()
    show(page, "large")
    assert "5,000 partitions in bins" in page.locator("#group").inner_text()
    assert 200 < page.locator(".chart svg path").count() < 4_000
    assert page.locator(".chart").bounding_box()["height"] < 900


def test_a_rebalance_opens_below_the_timeline(opened) -> None:
    """A mark, the list and the buttons open it: cause, downtime, members before and after."""
    page = opened()
    show(page, "team-05")
    place = page.locator("#group .picked")
    shown = place.inner_text()
    assert "Downtime" in shown
    assert page.locator("#group .picked table tbody tr").count() > 1
    options = page.locator("#picked-step option").count()
    assert options == 8
    page.select_option("#picked-step", "0")
    assert "first" in place.inner_text()
    page.get_by_label("Next rebalance").click()
    assert page.locator("#picked-step").input_value() == "1"
    mark = page.locator(".chart svg text", has_text=re.compile("^[1-9]$|^[A-Z]$")).last
    mark.click(force=True)
    page.wait_for_function("document.getElementById('picked-step').value !== '1'")


def test_unread_time_is_drawn_over_the_owners(opened) -> None:
    """Certain time is solid, possible time is hatched, and the share has a line of its own."""
    page = opened()
    show(page, "team-05")
    fills = page.evaluate(
        "[...document.querySelectorAll('.chart svg path')].map((p) => p.getAttribute('fill'))"
    )
    assert fills.count("#c8102e") > 3
    assert sum(fill is not None and fill.startswith("url(#") for fill in fills) > 3
    assert "unread (probability at least 90 %)" in page.locator("#group .key").inner_text()
    assert any("unread" in one for one in page.locator(".chart svg text").all_text_contents())


def test_rows_are_sorted_by_partition_or_by_member(opened) -> None:
    """By member, the rows of one member stand together."""
    page = opened()
    show(page, "team-05")
    rows = "[...document.querySelectorAll('.chart svg text')].map((t) => t.textContent).filter((t) => t.startsWith('orders '))"
    before = page.evaluate(rows)
    page.get_by_role("button", name="member", exact=True).click()
    after = page.evaluate(rows)
    assert sorted(before) == sorted(after)
    assert before != after or page.locator("#group .members li").count() == 1


def test_names_stay_text_in_the_drawing_and_its_tips(opened) -> None:
    """A topic called </script><script>alert(1)</script> is written, not run: no dialog opens."""
    page = opened()
    show(page, NASTY)
    box = page.locator(".chart").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 120)
    page.wait_for_function("document.querySelector('.chart').innerText.includes('alert(1)')")
    assert page.locator("#group h2").inner_text() == NASTY
    assert page.locator(".chart script").count() == 0


def test_every_part_of_a_group_is_there(opened) -> None:
    """Timeline, advice, policies, worst rebalances before and after, storms, one by one."""
    page = opened()
    show(page, "team-05")
    heads = page.locator("#group h3").all_inner_texts()
    assert heads == ["Owners over time", "What to change here", "Policies compared",
                     "Worst rebalances, before and after", "Rebalance storms", "All rebalances"]  # fmt: skip
    text = page.locator("#group").inner_text()
    assert "as recorded" in text
    assert "cooperative/" in text
    assert page.locator("#group .change table").count() == 5
    page.locator("#group > article > details summary").last.click()
    assert page.locator("#group details[open] table tbody tr").count() >= 8


def test_a_group_without_anything_known_says_so(opened) -> None:
    """No ownership, no replay, no costs: no drawing, no error."""
    page = opened()
    page.locator("#group-table tbody a").filter(has_text="bare").first.click()
    page.locator("#group h2").get_by_text("bare", exact=True).wait_for()
    assert page.locator("#group .chart").count() == 0
    assert "unknown" in page.locator("#group").inner_text()


def test_lines_are_copied_by_a_button(opened, engine) -> None:
    """The clipboard has the lines exactly as the page shows them."""
    page = opened()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    box = page.locator("#advice .lines").first
    box.locator("button").click()
    box.locator("button", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == box.locator("code").text_content()


def test_words_explain_themselves_on_hover_and_focus(opened) -> None:
    """A word of the glossary shows its meaning over the page when it is pointed at or reached."""
    page = opened(PHONE)
    shown = "getComputedStyle(document.querySelector('.panel .key .term'), '::before').content"
    assert page.evaluate(shown) == "none"
    page.locator(".panel .key .term").first.hover()
    assert "partition-minute" in page.evaluate(shown)
    page.mouse.move(0, 0)
    page.locator(".panel .key .term").first.focus()
    assert "partition-minute" in page.evaluate(shown)


def test_without_scripts_the_head_is_complete(opened) -> None:
    """No script: head, advice and tables are there, no control that would do nothing, and a note."""
    page = opened(scripts=False)
    assert page.locator("#group-table tbody tr").count() == 30
    changes = page.locator(".change h3").all_inner_texts()
    assert len(changes) == 12
    assert all(one.endswith(": Move to the consumer protocol (KIP-848)") for one in changes)
    folded = page.locator(".change details summary").first.inner_text()
    assert folded == "1 other recommendation"
    assert page.locator("th button").count() == 0
    assert page.locator(".tools:visible, [data-copy]:visible").count() == 0
    assert page.locator("noscript").first.is_visible()


def test_the_figures_can_be_taken_along(opened) -> None:
    """The button gives a JSON file with the figures of the page, nasty names and all."""
    page = opened()
    with page.expect_download() as waiting:
        page.click("#save")
    found = json.loads(waiting.value.path().read_text(encoding="utf-8"))
    assert (found["format"], found["version"]) == ("partage-report", 2)
    assert NASTY in [g["name"] for g in found["groups"]]
    assert found["policies"]["consumer/uniform"]["stopped_partition_seconds"]["high"] > 0


def test_compressed_details_are_unpacked(opened, tmp_path, monkeypatch) -> None:
    """A large page shows the same details and gives the same file; a reduced list says so."""
    monkeypatch.setattr(html, "_MAX_PLAIN", 0)
    monkeypatch.setattr(group_details, "MAX_STEPS", 12)
    file = tmp_path / "report.html"
    publish_page(published_run(tmp_path / "out", synthetic(3, rebalances=60)), file)
    page = opened(file=file)
    page.wait_for_selector("#group h2")
    assert page.locator('script[type="application/gzip"]').count() == 4
    show(page, "service-0002")
    page.locator("#group h2").get_by_text("service-0002").wait_for()
    page.wait_for_selector(CHART)
    text = page.locator("#group").inner_text()
    listed = page.locator("#picked-step option").count()
    assert 12 <= listed < 20
    assert f"Reduced: {listed} of 60 rebalances are listed" in text
    assert "The red line is the largest share" in text
    counts = page.evaluate(
        "[...document.querySelectorAll('.chart svg text')].map((t) => t.textContent)"
    )
    assert sum(int(one) for one in counts if re.fullmatch("[1-9][0-9]?", one)) >= 50
    with page.expect_download() as waiting:
        page.click("#save")
    assert len(json.loads(waiting.value.path().read_text(encoding="utf-8"))["groups"]) == 3


def test_the_keyboard_reaches_everything(opened) -> None:
    """Tab stops at links, terms, filter, table heads and scrolled regions, and each shows its focus."""
    page, seen = opened(), set()
    for _ in range(500):
        page.keyboard.press("Tab")
        element, style = page.evaluate(
            "[document.activeElement.tagName + '.' + document.activeElement.className,"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        if element == "BODY.":
            break  # past the last stop: the focus has left the page
        seen.add(element)
        assert style != "none", element
    else:
        pytest.fail("500 tab stops did not reach the end of the page")
    assert {"A.skip", "A.term", "A.", "INPUT.", "BUTTON.term", "PRE.", "DIV.card scroll",
            "DIV.card scroll tall"} <= seen  # fmt: skip


def test_print_cuts_nothing(opened) -> None:
    """On paper tables are whole and within the sheet, tools are gone, the drawing is light."""
    page = opened(scheme="dark")
    show(page, "team-05")
    page.set_viewport_size({"width": 720, "height": 1000})  # A4 without margins
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_selector(".chart[data-drawn=light]")
    assert page.locator(".tools:visible").count() == 0
    cut = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e => e.offsetParent "
        "&& e.scrollWidth > 722).map(e => e.getAttribute('aria-label'))"
    )
    assert cut == []


def busy_seconds(session) -> float:
    """Return the CPU time of the page's main thread, which does not count other processes' work."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in metrics if one["name"] == "TaskDuration")


@pytest.mark.slow
@pytest.mark.parametrize("groups", [250, pytest.param(1_000, marks=pytest.mark.soak)])
def test_many_groups_open_in_time(opened, tmp_path, groups) -> None:
    """Below 20 KB a group and 3 s of CPU; filter, sort and opening a group stay quick."""
    out = published_run(tmp_path / "out", synthetic(groups, rebalances=4, partitions=12))
    file = tmp_path / "report.html"
    publish_page(out, file)
    assert file.stat().st_size < min(20_000 * groups, 15_000_000)
    page = opened(file=file)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.reload()
    loaded = busy_seconds(session)
    print(f"{groups} groups: {file.stat().st_size / 1e6:.1f} MB, loaded in {loaded:.2f} s of CPU")
    assert 0 < loaded < 3
    assert page.locator("#group-table tbody tr").count() == groups
    last = f"service-{groups - 1:04}"
    page.fill("#filter", last)
    assert page.locator("#filtered").inner_text() == "1 group matches"
    show(page, last)
    assert busy_seconds(session) - loaded < 3


@pytest.mark.soak
def test_a_year_of_a_large_cluster_opens_in_time(opened, tmp_path) -> None:
    """1,000 groups and 500,000 rebalances: below 15 MB, 3 s of CPU, and 1 s for the largest group.

    The limits of a quiet machine are 2 s and 1 s of elapsed time; CPU time depends less on others.
    """
    bench_report = runpy.run_path(str(ROOT / "benchmarks" / "bench_report.py"))
    folder = bench_report["make"](tmp_path / "out", 1_000, 500_000, 365.0)
    built = bench_report["build"](folder)
    print(built)
    assert built["page_mb"] < 15
    page = opened(file=folder / "report.html")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.reload()
    page.wait_for_selector("#group h2")
    loaded = busy_seconds(session)
    assert 0 < loaded < 3
    assert page.locator("#group-table tbody a").count() == 1_000
    show(page, "service-0000")
    page.locator("#group h2").get_by_text("service-0000").wait_for()
    page.wait_for_selector(CHART)
    print(f"loaded in {loaded:.2f} s of CPU, opened in {busy_seconds(session) - loaded:.2f} s")
    assert busy_seconds(session) - loaded < 2
