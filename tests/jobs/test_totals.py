"""Totals that workers send to the driver: sums of what they wrote, merged in any order."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from tests.support.published import replayed

from partage.jobs.replay import summary
from partage.jobs.replay.output import TableWriters
from partage.jobs.replay.summary import SimulationTotals
from partage.tables.statuses import CUMULATIVE, FAILED, NOT_YET, PER_REBALANCE, RECORDED


def totals_of(folder: Path, *rows: dict) -> SimulationTotals:
    """Return the totals of a task that writes these rows."""
    totals = SimulationTotals()
    with closing(TableWriters(str(folder), "run", "0", {"replays": totals.add_rows})) as writers:
        for row in rows:
            writers.write_row("replays", row)
        writers.close_with_receipts()
    return totals


def test_totals_of_tasks_are_merged_by_policy(tmp_path) -> None:
    """The driver has one sum per policy and simulation, the number of groups, and the strategies."""
    first = totals_of(
        tmp_path, replayed("a", 1, RECORDED), replayed("a", 1, "range", moved=2, spread=5)
    )
    second = totals_of(
        tmp_path, replayed("b", 1, "range", moved=1), replayed("b", 2, "range", spread=None)
    )
    merged = SimulationTotals()
    for one in (second, first):
        merged.merge_totals(one.to_json())
    rows = {(row["policy"], row["reading"]): row for row in summary.summarise_policies(merged)}
    found = rows["range", CUMULATIVE]
    assert (found["groups"], found["rebalances"], found["moved"]) == (2, 3, 6)
    assert (found["largest_spread"], found["strategies"]) == (5, ["range"])
    assert rows[RECORDED, RECORDED]["groups"] == 1
    assert set(summary.summarise_strategies(merged)["run"]) == {RECORDED, "range"}


def test_failures_and_missing_strategies_are_listed(tmp_path) -> None:
    """Each failure has group, generation and reason; a missing strategy counts once per rebalance."""
    totals = totals_of(
        tmp_path,
        replayed("a", 1, "acme", status=FAILED, detail="ValueError: no"),
        replayed("a", 1, "newest", status=NOT_YET, reading=PER_REBALANCE),
        replayed("a", 1, "newest", status=NOT_YET, reading=CUMULATIVE),
    )
    assert totals.failures == {
        "a": [{"group": "a", "generation": 1, "strategy": "acme", "why": "ValueError: no"}]
    }
    assert totals.not_yet == {"newest": 1}
