"""Reading a published run: sums, the newest rebalances, and what is missing or damaged."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")

from partage.errors import InvalidCaptureError
from partage.report import data
from partage.statuses import NOT_YET, RECORDED, REFUSED
from published import NASTY, group, published, rebalance, replayed, tables


def test_sums_are_by_group_and_over_all(tmp_path) -> None:
    """Each strategy's figures are summed in its group and over the run; groups stay apart."""
    run = data.read_run(published(tmp_path))
    assert run.strategies == ("range", "fair")
    assert run.recorded.moved == 12
    assert run.recorded.avoidable == 4
    orders = next(g for g in run.groups if g.name == "orders")
    assert orders.figures["fair"].moved == 6
    assert orders.figures["fair"].comparable
    assert {g.name for g in run.replayed} == {"orders", NASTY}
    assert [g.name for g in run.others] == ["streamy"]


def test_refusals_and_missing_figures_are_not_zeroes(tmp_path) -> None:
    """A refused plan has no figures, one that breaks a rule no avoidable moves: both are counted."""
    rows = tables()
    nothing = dict.fromkeys(("spread", "idle", "moved", "avoidable", "best_spread", "breaches"))
    rows["groups"].append(group("odd", rebalances=2))
    rows["rebalances"] += [rebalance("odd", 1), rebalance("odd", 2)]
    rows["replays"] += [
        replayed("odd", 1, RECORDED, avoidable=None, breaches=4),
        replayed("odd", 2, RECORDED),
        replayed("odd", 1, "fair", status=REFUSED, detail="unequal", **nothing),
        replayed("odd", 2, "fair", spread=2),
        replayed("odd", 1, "sticky", status=NOT_YET, claimed=True, **nothing),
    ]
    run = data.read_run(published(tmp_path, rows))
    odd = next(g for g in run.groups if g.name == "odd").figures
    assert (odd[RECORDED].proven, odd[RECORDED].incomplete, odd[RECORDED].moved) == (1, 1, 6)
    assert (odd["fair"].done, odd["fair"].refused, odd["fair"].comparable) == (1, 1, False)
    assert (odd["fair"].even, odd["fair"].judged) == (0, 1)
    assert not odd["sticky"].exists
    assert run.strategies == ("range", "fair", "sticky")


def test_agreement_counts_only_where_it_counts(tmp_path) -> None:
    """A plan compared with the record counts if all members are Java clients, and only then."""
    rows = tables()
    for i, (agrees, counts) in enumerate(
        ((True, True), (False, True), (True, False), (None, True))
    ):
        rows["replays"].append(replayed("orders", 10 + i, "range", agrees=agrees, counts=counts))
    figures = data.read_run(published(tmp_path, rows)).figures["range"]
    assert (figures.counted, figures.agreed) == (2, 1)


def test_rebalances_come_in_the_logs_order_with_their_cells(tmp_path) -> None:
    """Steps are sorted by place in the log, not by row or time, and each has its strategies."""
    rows = tables()
    rows["rebalances"].reverse()
    run = data.read_run(published(tmp_path, rows))
    steps = next(g for g in run.groups if g.name == "orders").steps
    assert [s.generation for s in steps] == [1, 2]
    assert set(steps[0].cells) == {RECORDED, "range", "fair"}
    assert steps[0].cells["fair"].moved == 3


def test_of_a_long_history_the_newest_rebalances_are_shown(tmp_path, monkeypatch) -> None:
    """A page has room for some rebalances: the newest; sums are over all of them."""
    monkeypatch.setattr(data, "MOST_STEPS", 3)
    rows = {
        "groups": [group("orders", rebalances=9)],
        "rebalances": [rebalance("orders", n) for n in range(1, 10)],
        "replays": [replayed("orders", n, RECORDED) for n in range(1, 10)],
    }
    run = data.read_run(published(tmp_path, rows))
    assert [s.generation for s in run.groups[0].steps] == [7, 8, 9]
    assert run.recorded.moved == 27


@pytest.mark.parametrize(
    ("more", "sort"),
    [
        ({"members": 0, "joined": 0, "left": 2}, "empty"),
        ({"follow_up": True, "joined": 0}, "again"),
        ({"joined": 2}, "join"),
        ({"joined": 0, "left": 1}, "leave"),
        ({"joined": 1, "left": 1}, "change"),
        ({"joined": 0, "resubscribed": 1}, "change"),
    ],
)
def test_causes_are_sorted_for_the_timeline(tmp_path, more, sort) -> None:
    """Each rebalance has one colour: joined, left, changed, nothing differs, everybody gone."""
    rows = {"groups": [group("g")], "rebalances": [rebalance("g", 1, **more)], "replays": []}
    run = data.read_run(published(tmp_path, rows))
    assert run.groups[0].steps[0].sort == sort


def test_no_run_is_said_with_the_place(tmp_path) -> None:
    """A folder without a published run: which file is missing, and what to do."""
    with pytest.raises(InvalidCaptureError, match=r"manifest\.json.*partage replay"):
        data.read_run(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 99}', "\x00"])
def test_a_damaged_manifest_is_said(tmp_path, text) -> None:
    """A manifest that is no JSON object of this format is an error of ours, not a traceback."""
    published(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InvalidCaptureError, match="partage replay"):
        data.read_run(tmp_path)


def test_a_missing_or_damaged_table_is_said_by_name(tmp_path) -> None:
    """A table's file that is gone or is no Parquet: the error names the table."""
    published(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (path,) = [f["path"] for f in manifest["tables"]["replays"]]
    (tmp_path / path).write_bytes(b"PAR1 no more")
    with pytest.raises(InvalidCaptureError, match="replays"):
        data.read_run(tmp_path)
    (tmp_path / path).unlink()
    with pytest.raises(InvalidCaptureError, match="replays"):
        data.read_run(tmp_path)
