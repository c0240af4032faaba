"""The pages of `partage keys` and `partage audit` in a real browser: phone and desk, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.browser import chromium
from tests.support.published import NASTY

from partage.report.key_pages import TopicText, write_audit_page, write_keys_page

pytest.importorskip("jinja2")
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="no playwright: pip install playwright"
)

pytestmark = pytest.mark.browser
LONG = "payments." + "x" * 240


def _writer(name: str, first: int, last: int) -> dict[str, object]:
    return {"name": name, "hash": name, "clients": ["Java", NASTY], "partitioners": [name],
            "hashes": "the key", "partitions": 6, "pairs": 300,
            "share": 0.6, "only": 280, "log10_chance": -200.0, "first_ms": first, "last_ms": last,
            "rivals": []}  # fmt: skip


def _topic(name: str, *writers: dict[str, object], **more: object) -> dict[str, object]:
    broken = len(writers) > 1
    split = {"keys": 200 * broken, "grew": 0, "writers": 200 * broken, "unexplained": 0,
             "examples": []}  # fmt: skip
    return {"topic": name, "counts": [6, 12], "counts_known": True, "records": 12_345, "keys": 500,
            "sampled": 1, "status": "mixed" if broken else "named", "explained": 1.0,
            "writers": list(writers), "nulls": {"behaviour": "sticky", "records": 17},
            "split": split, "broken": broken} | more  # fmt: skip


@pytest.fixture(scope="module")
def audit_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three topics, one named to break pages and written by two clients; a join with nasty keys."""
    day = 1_760_000_000_000
    java, c = "murmur2", "librdkafka:consistent"
    topics = [
        _topic(NASTY, _writer(java, day, day + 9 * 3_600_000), _writer(c, day + 3_600_000, day + 9 * 3_600_000)),
        _topic(LONG, _writer(java, day, day + 1)),
        _topic("few", status="too few keys", counts_known=False),
    ]  # fmt: skip
    joins = [{"kind": "counts", "topics": [NASTY, LONG], "words": "other counts", "meant": True,
              "groups": [], "examples": []},
             {"kind": "counts", "topics": ["few", LONG], "words": "other counts", "meant": False,
              "groups": ["g"], "examples": []}]  # fmt: skip
    found = {"clean": False, "without_a_place": 12, "topics": topics, "joins_looked_at": 3,
             "joins": joins}  # fmt: skip
    path = tmp_path_factory.mktemp("audit") / "audit.html"
    said = {
        NASTY: TopicText("Java (murmur2) and confluent-kafka (CRC32)", "<1e-99",
                    [f"{NASTY}: 2 writers disagree"]),
        LONG: TopicText("Java (murmur2)", "1e-86", ["cannot be distinguished from x"]),
        "few": TopicText("9 keys: too few", "", []),
    }  # fmt: skip
    joins = [
        (f"join of {NASTY} and {LONG}: other counts", [f"{NASTY} in partition 1", "0x00 in 2"])
    ]
    return write_audit_page(found, path, title=f"capture {NASTY}", texts=said, joins=joins)


@pytest.fixture(scope="module")
def keys_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two counts, a nasty hottest key, changes and hours."""
    load = {"partitions": 6, "records": 100, "hottest": 2, "most": 60, "least": 0, "share": 0.6,
            "even": 1 / 6, "spread": 3.6, "empty": 1, "most_bytes": 600,
            "mean_bytes": 100.0}  # fmt: skip
    found = {
        "records": 100, "without_key": 4, "keys": 9, "spread": [load, load | {"partitions": 1_000}],
        "hottest": [{"key": "00", "records": 50, "bytes": 500, "share": 0.5}], "low_by": 0,
        "floor": 0.5, "hours": [{"partitions": 6, "hour_ms": 0, "hottest": 2, "most": 6, "records": 9}],
        "changes": [{"before": 6, "after": 1_000, "keys": 9, "moved_keys": 4, "records": 100,
                     "moved_records": 40}],
        "max_share": 0.1, "smallest": None, "tried": 0,
    }  # fmt: skip
    path = tmp_path_factory.mktemp("keys") / "keys.html"
    return write_keys_page(found, {6: [(2, 60), (0, 40)], 1_000: [(7, 60)]}, path, title=LONG,
                           partitioner="murmur2", advice=["Do this."], keys=[NASTY])  # fmt: skip


@pytest.mark.parametrize("which", ["audit_page", "keys_page"])
def test_the_page_fits_and_asks_for_nothing(which: str, request) -> None:
    """At 400 and 1400 pixels, light and dark: nothing scrolls sideways, names stay text, the
    browser logs nothing and asks the network for nothing.
    """
    file = request.getfixturevalue(which)
    logged, asked, colours = [], [], set()
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for width in (400, 1400):
            for scheme in ("light", "dark"):
                page = running.new_page(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                page.on("console", lambda message: logged.append(message.text))
                page.on("pageerror", lambda error: logged.append(str(error)))
                page.on("request", lambda asking: asked.append(asking.url))
                page.goto(file.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert page.evaluate("document.scripts.length") == 0
                assert NASTY in page.evaluate("document.body.innerText")
                colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                page.close()
        running.close()
    assert logged == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len(colours) == 2
