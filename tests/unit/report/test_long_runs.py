"""Reports of long runs: tables in parts, reduced timelines and lists, compressed details."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("jinja2")

from tests.support.published import published, replayed
from tests.support.synthetic_runs import published_run, synthetic

from partage.report import data, group_details, html
from partage.report.data import load_run
from partage.report.group_details import generate_group_details
from partage.report.json_document import json_document
from partage.report.timeline import OwnedIntervals, UnreadTimes, draw_timeline
from partage.runs.published_run import PublishedRun
from partage.runs.row_groups import Part, cut_generations


def details_of(out) -> list[dict]:
    folder = PublishedRun(out)
    return [found for _, found in generate_group_details(folder, load_run(folder))]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Seven groups with 30 rebalances each."""
    rows = synthetic(7, rebalances=30, partitions=12)
    return published_run(tmp_path_factory.mktemp("long") / "out", rows)


def rounded(value):
    """Return a document whose floats have nine digits: sums of parts differ in the last ones."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_figures_of_parts_are_those_of_the_whole(run_folder, monkeypatch) -> None:
    """Read in batches of groups, and in ranges of generations, a run has the same figures."""
    whole = json_document(load_run(PublishedRun(run_folder)))
    monkeypatch.setattr(data, "_MAX_ROWS", 700)
    monkeypatch.setattr(data, "_MAX_REPLAYS", 100)
    folder = PublishedRun(run_folder)
    assert len(list(data._batches(folder))) > 2
    assert rounded(json_document(load_run(folder))) == rounded(whole)


def test_details_of_parts_are_those_of_the_whole(run_folder, monkeypatch) -> None:
    """Read in batches of groups, timelines and lists are the same."""
    whole = details_of(run_folder)
    monkeypatch.setattr(group_details, "_MAX_TABLE_ROWS", 700)
    assert rounded(details_of(run_folder)) == rounded(whole)
    assert len(whole) == 7


def test_generations_are_cut_into_complete_parts(tmp_path) -> None:
    """Each row of a group is in exactly one part, and no generation is in two."""
    rows = [replayed("g", n, policy) for n in range(1, 41) for policy in ("recorded", "fair")]
    names = ("groups", "rebalances", "bad_records")
    out = published(tmp_path, {"replays": rows, **{name: [] for name in names}})
    folder = PublishedRun(out)
    parts = list(cut_generations(folder.row_groups("replays"), ["g"], 10))
    found = Counter(
        generation
        for part in parts
        for table in folder.read_part("replays", ["generation"], part)
        for generation in table["generation"].to_pylist()
    )
    assert found == dict.fromkeys(range(1, 41), 2)
    assert folder.rows_by_group("replays") == {"g": 80}
    assert not list(folder.read_part("replays", ["generation"], Part(["other"])))


def test_a_reduced_list_keeps_the_worst_and_covers_all_time(run_folder, monkeypatch) -> None:
    """The list has the worst rebalance, that of each period, and the newest; marks count all."""
    monkeypatch.setattr(group_details, "MAX_STEPS", 12)
    (whole, *_) = details_of(run_folder)
    monkeypatch.undo()
    (every, *_) = details_of(run_folder)
    assert len(every["steps"]["time_ms"]) == every["rebalances"] == whole["rebalances"] == 30
    assert every["marks"] == {}
    assert not every["unread_peaks"]
    listed = whole["steps"]["time_ms"]
    assert len(listed) < 20
    assert sorted(listed) == listed
    largest = max(range(30), key=lambda i: every["steps"]["downtime_sort"][i])
    assert every["steps"]["time_ms"][largest] in listed
    assert every["steps"]["time_ms"][-1] in listed
    assert sum(whole["marks"]["rebalances"]) == 30
    assert [listed[i] for i in whole["marks"]["step"]] == whole["marks"]["time_ms"]


def test_a_reduced_timeline_merges_restarted_members(run_folder, monkeypatch) -> None:
    """Members of one client id and host are one owner; the number of member ids is kept."""
    monkeypatch.setattr(group_details, "MAX_STEPS", 12)
    (found, *_) = details_of(run_folder)
    assert found["member_ids"] == 6
    assert found["owners"]["label"] == ["c /10.0.0.1"]
    assert set(found["boxes"]["owner"]) == {0}


def test_the_line_of_a_long_timeline_has_the_worst_moments() -> None:
    """Two of four partitions without a reader for a second are 50 %, not 0.0 % of a month."""
    month = 30 * 86_400_000
    rows = np.arange(4)
    owned = OwnedIntervals(
        rows, np.zeros(4, np.int64), np.zeros(4, np.int64), np.full(4, month),
        [("t", i) for i in range(4)], ["m"],
    )  # fmt: skip
    until, long = np.array([month // 2] * 2), np.array([1_000] * 2)
    unread = UnreadTimes(rows[:2], until, long, long, long, until, until)
    mean = draw_timeline(owned, 0, month, 100, unread)
    peak = draw_timeline(owned, 0, month, 100, unread, peaks=True)
    assert max(mean["unread_share"]["percent"]) == 0.0
    assert max(peak["unread_share"]["percent"]) == 50.0
    assert sum(value > 0 for value in peak["unread_share"]["percent"]) == 1


def test_only_large_pages_have_compressed_details(run_folder, monkeypatch) -> None:
    """Compressed details have the same content; a small page has them as JSON."""
    folder = PublishedRun(run_folder)
    run = load_run(folder)
    plain = html._details_text(run, generate_group_details(folder, run))
    monkeypatch.setattr(html, "_MAX_PLAIN", 0)
    packed = html._details_text(run, generate_group_details(folder, run))
    assert (plain.kind, packed.kind) == ("application/json", "application/gzip")
    assert plain.texts.keys() == packed.texts.keys()
    for anchor, text in packed.texts.items():
        unpacked = gzip.decompress(base64.b64decode(text))
        assert json.loads(unpacked) == json.loads(plain.texts[anchor])
