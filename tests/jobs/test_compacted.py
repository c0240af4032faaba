"""A compacted log: the newest record of each key is left, and the report says what that means."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from rich.text import Text
from tests.support.captures import capture, records

from partage.jobs.replay.replay import replay
from partage.report.data import read_run
from partage.report.html import render_run_page
from partage.report.json_document import json_document
from partage.report.terminal import terminal_summary


def compacted(table: pa.Table) -> pa.Table:
    """Return the records that a log cleaner leaves: the newest of each key of a partition."""
    places = zip(table["partition"].to_pylist(), table["key"].to_pylist(), strict=True)
    newest = {place: row for row, place in enumerate(places)}
    return table.take(sorted(newest.values()))


def test_a_compacted_log_cannot_tell_what_rebalances_cost(tmp_path: Path) -> None:
    """Page, terminal and JSON begin with that, with the share, and with what to do."""
    folder = capture(tmp_path / "c", compacted(records()))
    out = tmp_path / "out"
    replay(folder, out, engine="local", policies=["own", "eager/range"])
    run = read_run(out)
    assert 0 < run.in_log < 0.2 * run.rebalance_count
    page = render_run_page(run)
    head = page[page.index("<header>") : page.index('<section class="panel"')]
    terminal = "\n".join(str(part) for part in terminal_summary(run) if isinstance(part, Text))
    found = json.loads(json.dumps(json_document(run)))
    for text in (head, terminal, f"{found['headline']} {found['lead']}"):
        assert "The cost of rebalances is unknown" in text
        assert f"of {run.rebalance_count} known rebalances" in text
        assert "capture --follow" in text
        assert "min.compaction.lag.ms" in text
        assert "caused no downtime" not in text
    assert found["coverage"]["enough"] is False
    covered = [g for g in found["groups"] if g["coverage"] is not None and g["coverage"] < 0.9]
    assert covered
    losses = [g["lost_partition_seconds"] for g in covered]
    assert not any(one == {"low": 0, "high": 0} for one in losses)
    assert not any(
        one["lost_partition_seconds"] == {"low": 0, "high": 0} for one in found["causes"]
    )
    assert "as-it-is" not in {a["rule"] for a in found["advice"]}
