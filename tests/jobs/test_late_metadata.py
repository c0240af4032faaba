"""Captures whose metadata was recorded after the log: what the log shows counts before it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.captures import capture, records

from partage.jobs.replay.replay import replay
from partage.runs.published_run import read_table


def test_a_state_after_the_log_is_no_worse_than_none(tmp_path: Path) -> None:
    """As many plans agree as with no metadata at all, and no breach is counted."""
    table = records().slice(0, 40_000)
    agreed, runs = {}, {}
    for name in ("none", "late"):
        folder = capture(tmp_path / name, table)
        path = folder / "cluster.jsonl"
        last = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
        path.unlink()
        if name == "late":
            path.write_text(json.dumps({**last, "ts_ms": 1_795_300_000_000}) + "\n")
        out = tmp_path / f"{name}-out"
        runs[name] = replay(folder, out, engine="local", policies=["range"])
        agreed[name] = runs[name]["agreement"]["agreed"]
        breaches = read_table(out, "replays")["breaches"].to_pylist()
        assert not any(breaches), name
    assert runs["late"]["agreement"]["counted"] == runs["none"]["agreement"]["counted"] > 100
    assert agreed["late"] >= agreed["none"] > 0
    assert runs["late"]["coverage"]["cluster_from_ms"] == 1_795_300_000_000
    assert runs["none"]["coverage"]["cluster_from_ms"] is None
