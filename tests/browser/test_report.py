"""The report in a real browser: at a desk and on a phone, light and dark, with and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from browser import chromium
from partage.report.data import read_run
from partage.report.html import write_page
from published import NASTY, group, published, rebalance, replayed, tables

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="no playwright: pip install playwright"
)

pytestmark = pytest.mark.browser

DESK, PHONE = (1400, 1000), (400, 860)
SIZES = pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    """A page with many groups, one with a very long name, and many strategies."""
    folder = tmp_path_factory.mktemp("page")
    rows = tables()
    for i in range(30):
        name = f"group-{i:02}" if i else "x" * 249
        rows["groups"].append(group(name, rebalances=8, claimed=["range", "roundrobin"]))
        for generation in range(1, 9):
            rows["rebalances"].append(rebalance(name, generation, cause="1 joined, topics changed"))
            for at, strategy in enumerate(
                ("recorded", "range", "fair", "cooperative-sticky", "new")
            ):
                moved = generation * (at + i)
                rows["replays"].append(replayed(name, generation, strategy, moved=moved))
    return write_page(read_run(published(folder / "out", rows)), folder / "report.html")


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
    contexts, told, asked = [], [], []

    def open_page(size=DESK, scheme="light", scripts=True, hash=""):  # noqa: A002
        context = engine.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            java_script_enabled=scripts,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on(
            "dialog", lambda dialog: (told.append(f"dialog {dialog.message}"), dialog.dismiss())
        )
        page.on("request", lambda asking: asked.append(asking.url))
        page.goto(page_file.as_uri() + hash)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert told == []
    assert {url.split("#")[0] for url in asked if not url.startswith(("data:", "blob:"))} <= {
        page_file.as_uri()
    }


@SIZES
@SCHEMES
def test_the_page_never_scrolls_sideways(opened, size, scheme) -> None:
    """With all groups unfolded, wide tables scroll in their own boxes, never the page."""
    page = opened(size, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= size[0]
    inner = page.evaluate(
        "[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth + 1)"
    )
    assert inner or size == DESK


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


@SCHEMES
def test_every_text_can_be_read(opened, scheme) -> None:
    """Contrast of all text against what is behind it is at least 4.5 to 1 (WCAG AA)."""
    found = opened(DESK, scheme).evaluate(CONTRAST)
    assert len(found) > 15
    assert {key: ratio for key, ratio in found.items() if ratio < 4.5} == {}


def test_light_and_dark_differ(opened) -> None:
    """The page follows the reader's scheme."""
    ask = "getComputedStyle(document.body).backgroundColor"
    assert opened(scheme="light").evaluate(ask) != opened(scheme="dark").evaluate(ask)


def test_tables_sort_by_number_and_by_name(opened) -> None:
    """A head's button sorts: numbers downwards first, names upwards; again turns it round."""
    page = opened()
    column = (
        "[...document.querySelectorAll('#groups table.wide tbody tr')].map(r => r.cells[{}].{})"
    )
    moved = column.format(5, "dataset.v")
    button = page.locator("#groups table.wide thead th").nth(5).locator("button")
    button.click()
    numbers = [int(v) for v in page.evaluate(moved)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) > 5
    button.press("Enter")
    assert [int(v) for v in page.evaluate(moved)] == sorted(numbers)
    page.locator("#groups table.wide thead th").first.locator("button").click()
    assert page.evaluate(column.format(0, "textContent.trim()"))[-1] == "x" * 249
    assert page.locator("th[aria-sort]").count() == 1


def test_the_filter_leaves_what_matches(opened) -> None:
    """Rows and details of groups that do not match are hidden, and how many match is told."""
    page = opened()
    page.fill("#filter", "GROUP-07")
    assert page.locator("#groups table.wide tbody tr:visible").count() == 1
    assert page.locator("details.group:visible").count() == 1
    assert "1 groups match" in page.locator("#filtered").inner_text()
    page.fill("#filter", "")
    assert page.locator("details.group:visible").count() == 32


def test_a_link_to_a_group_opens_it(opened) -> None:
    """From the table, and from an address that ends in the group's place."""
    page = opened()
    page.locator("#groups table.wide tbody a").nth(2).click()
    assert page.locator("details.group[open]").count() == 1
    assert opened(hash="#g1").locator("details#g1[open]").count() == 1


def test_the_choice_of_figures_changes_what_is_shown(opened) -> None:
    """Moved, avoidable or spread: one of the three at a time, without a script."""
    page = opened(scripts=False)
    page.locator("details#g0 summary").click()
    row = page.locator("details#g0 .rebs tbody tr").first
    assert row.locator("td.fig").first.inner_text().strip() != ""
    assert row.locator("td.fig .a:visible").count() == 0
    page.locator("details#g0 .p-a").check()
    assert row.locator("td.fig .m:visible").count() == 0
    assert row.locator("td.fig .a:visible").count() == 5


def test_without_scripts_the_page_is_complete(opened) -> None:
    """No script: everything is there, and no control that would do nothing."""
    page = opened(scripts=False)
    assert page.locator("#groups table.wide tbody tr").count() == 32
    assert page.locator("th button").count() == 0
    assert page.locator(".tools:visible").count() == 0


def test_the_figures_can_be_taken_along(opened) -> None:
    """The button gives a JSON file with the figures of the page, nasty names and all."""
    import json

    page = opened()
    with page.expect_download() as waiting:
        page.click("#save")
    found = json.loads(waiting.value.path().read_text(encoding="utf-8"))
    assert NASTY in [g["name"] for g in found["groups"]]
    assert found["strategies"]["fair"]["moved"] > 0


def test_the_keyboard_reaches_everything(opened) -> None:
    """Tab goes through links, filter, heads, scrolled regions and groups; focus can be seen."""
    page = opened()
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className")
        )
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style != "none"
    assert {"A.", "INPUT.", "BUTTON.", "DIV.card scroll"} <= seen


def test_print_unfolds_all_groups(opened) -> None:
    """On paper there is nothing to click: all groups are open, tools are gone."""
    page = opened()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.group[open]").count() == 32
    assert page.locator(".tools:visible").count() == 0
