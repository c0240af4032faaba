"""The pipeline for hours: the same run repeated, and a history many times as large."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections import Counter
from pathlib import Path

import pytest

import partage
from soak.multiplied import multiply

pytestmark = [pytest.mark.soak, pytest.mark.spark]

SAMPLE = Path(partage.__file__).parent / "sample"
COPIES = int(os.environ.get("PARTAGE_SOAK_COPIES", "20"))
RUNS = int(os.environ.get("PARTAGE_SOAK_RUNS", "10"))
# A run may keep caches; a run that leaks 20 MB a time does not live through a night.
MOST_GROWTH_MB = 20.0


def _replay(capture: Path, out: Path) -> dict:
    from partage.jobs.replay.replay import replay

    return replay(capture, out)


def _tables(out: Path, run_id: str) -> dict[str, Counter]:
    """Rows of each table without the run's own id: as bags, because files come in any order."""
    import pyarrow.parquet as pq

    bags = {}
    for folder in sorted((out / "tables").iterdir()):
        if folder.name == "runs" or not (folder / run_id).exists():
            continue
        rows = pq.read_table(folder / run_id).drop_columns(["run_id"]).to_pylist()
        bags[folder.name] = Counter(map(repr, rows))
    return bags


def _resident_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_runs_repeat_themselves_and_leak_nothing(tmp_path) -> None:
    """The same input gives the same rows in every run, and the driver does not grow."""
    first = _replay(SAMPLE, tmp_path / "out")
    expected = _tables(tmp_path / "out", first["run_id"])
    assert expected["rebalances"]
    second = _replay(SAMPLE, tmp_path / "out")
    assert _tables(tmp_path / "out", second["run_id"]) == expected
    before = _resident_mb()
    for number in range(RUNS):
        again = _replay(SAMPLE, tmp_path / "out")
        found = _tables(tmp_path / "out", again["run_id"])
        assert found == expected, f"run {number} differs"
        assert again["agreement"] == first["agreement"]
    growth = (_resident_mb() - before) / RUNS
    print(f"{RUNS} runs, {growth:.1f} MB more a run")
    assert growth < MOST_GROWTH_MB


def test_a_history_many_times_as_large_gives_every_count_times_as_many(tmp_path) -> None:
    """Copies of all groups under other names: each count of the run is multiplied, none is lost."""
    multiply(SAMPLE, tmp_path / "large", COPIES)
    one = _replay(SAMPLE, tmp_path / "one")
    start = time.perf_counter()
    many = _replay(tmp_path / "large", tmp_path / "many")
    took = time.perf_counter() - start
    records = many["accounting"]["records"]
    print(f"{COPIES} copies, {records} records in {took:.1f} s")
    for name in ("records", "decoded", "bad", "offset_commits", "group_records"):
        assert many["accounting"][name] == COPIES * one["accounting"][name], name
    for name in ("by_type", "commits_by_outcome"):
        expected = {kind: COPIES * count for kind, count in one["accounting"][name].items()}
        assert many["accounting"][name] == expected
    for name in ("counted", "agreed"):
        assert many["agreement"][name] == COPIES * one["agreement"][name], name
    for table, rows in one["tables"].items():
        if table != "runs":
            assert many["tables"][table] == COPIES * rows, table
