"""Captures that lack something or have too much of it: each by the user's own commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import compute, parquet
from tests.support.captured import SAMPLE
from tests.support.captures import capture, records
from tests.support.rebuilt import rebalances
from typer.testing import CliRunner

from partage.cli.app import app
from partage.runs.published_run import PublishedRun, read_table
from partage.wire.group_log import decode_record

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

#: A classic group and one of KIP-848 tell as much as all of them.
GROUPS = ("billing", "clicks-v2")


def of(*groups: str) -> pa.Table:
    """The sample's records of some groups, by their keys."""
    table = records()
    keys = table["key"].to_pylist()
    wanted = [key is not None and _group(key) in groups for key in keys]
    return table.filter(pa.array(wanted))


def _group(key: bytes) -> str | None:
    size = int.from_bytes(key[2:4], "big")
    return key[4 : 4 + size].decode("utf-8", "replace")


def partage(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def replayed(folder: Path, out: Path) -> tuple[dict, str, dict]:
    """Summary, page and JSON of a replay by the command; it has no traceback, and ends well."""
    done = partage("replay", folder, "--out", out, "--policy", "eager/range", "--quiet")
    assert done.exit_code == 0, done.output
    page = (out / "report.html").read_text()
    report = partage("report", out, "--format", "json")
    assert report.exit_code == 0, report.output
    terminal = partage("report", out, "--format", "terminal")
    assert terminal.exit_code == 0, terminal.output
    assert "Traceback" not in done.output + report.output + terminal.output
    return PublishedRun(out).summary, page, json.loads(report.stdout)


def notes(report: dict) -> str:
    return " ".join(report["trust"]["notes"])


def page_groups(page: str) -> list[dict]:
    """What the page holds of single groups."""
    found = re.findall(
        r'<script type="application/json" id="d-g\d+">(.*?)</script>', page, re.DOTALL
    )
    return [json.loads(one) for one in found]


def test_a_replay_leaves_tables_and_a_page(tmp_path: Path) -> None:
    """A cut-down capture with a damaged record: page, tables, summary, and words that say so."""
    table = records().slice(0, 3_000)
    keys = table["key"].to_pylist()
    keys[5] = b"\x7f\xff"
    table = table.set_column(
        table.schema.get_field_index("key"), "key", pa.array(keys, pa.binary())
    )
    out = tmp_path / "out"
    source = capture(tmp_path / "capture", table)
    done = partage("replay", source, "--out", out, "-s", "range", "-s", "fair")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.index("coverage") < done.stdout.index("records")
    assert "3,000 read = 2,999 decoded + 1 damaged" in done.stdout
    assert "report.html" in done.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "fair" in page
    assert "could not be decoded" in page
    assert json.loads((out / "summary.json").read_text())["asked"] == ["eager/range", "eager/fair"]
    assert "decoding records" in done.stderr


def test_without_metadata_and_without_batches(tmp_path: Path) -> None:
    """Partition counts are inferred, transactions are not distinguished: the page says both."""
    folder = capture(tmp_path / "c", of(*GROUPS))
    for name in ("cluster.jsonl", "batches.parquet"):
        (folder / name).unlink()
    summary, page, report = replayed(folder, tmp_path / "out")
    assert summary["coverage"]["rebalances"] > 30
    for said in ("The capture has no cluster metadata: partition counts are inferred",
                 "The capture has no batches.parquet"):  # fmt: skip
        assert said in page
        assert said in notes(report)


def test_from_the_middle_of_its_life(tmp_path: Path) -> None:
    """Generations before the log's beginning are counted, hatched, and reported as missing."""
    table = of("billing")
    kinds = [decode_record(k, v).type if k else "" for k, v in zip(
        table["key"].to_pylist(), table["value"].to_pylist(), strict=True)]  # fmt: skip
    own = np.flatnonzero(np.array(kinds) == "GROUP_METADATA")
    later = table.slice(int(own[len(own) // 2]))
    summary, page, report = replayed(capture(tmp_path / "c", later), tmp_path / "out")
    cover = summary["coverage"]
    assert cover["missing_before"] > 0
    assert "happened that the log no longer has" in notes(report)
    (group,) = page_groups(page)
    assert group["gaps"]["generations"][0] == cover["missing_before"]
    row = read_table(tmp_path / "out", "rebalances").sort_by("time_ms").to_pylist()[0]
    before = partage("owner", tmp_path / "out", "--at", row["time_ms"] - 1)
    assert "its history begins at" in before.output


@pytest.mark.soak
def test_clocks_that_go_backwards(tmp_path: Path) -> None:
    """Order is the log's, not the clocks': as many rebalances, and no picture of fifty years."""
    table = of("billing").sort_by([("partition", "ascending"), ("offset", "ascending")])
    times = table["timestamp_ms"].to_numpy().copy()
    times[::7] -= 30_000
    times[5] = 0
    wrong = table.set_column(2, "timestamp_ms", pa.array(times))
    assert table.schema.names[2] == "timestamp_ms"
    found, page, report = replayed(capture(tmp_path / "d", wrong), tmp_path / "wrong")
    assert found["coverage"]["rebalances"] == len(rebalances("billing"))
    assert found["coverage"]["misdated"] == 1
    assert found["coverage"]["first_ms"] > 1_700_000_000_000
    assert "1 record with a timestamp that contradicts the neighbouring records" in notes(report)
    assert "1970" not in page.partition("</header>")[0]
    for group in page_groups(page):
        assert group["last"] - group["first"] < 3_600_000


@pytest.mark.soak
def test_a_topic_made_anew_with_fewer_partitions(tmp_path: Path) -> None:
    """Both lives of tmp.doomed have owners of their own; what was not there twice is not moved."""
    folder = capture(tmp_path / "c", of("regex-watch"))
    _, page, _ = replayed(folder, tmp_path / "out")
    rows = read_table(tmp_path / "out", "ownership").to_pylist()
    lives = {r["topic_id"] for r in rows if r["topic"] == "tmp.doomed"}
    assert len(lives - {None}) == 2
    assert "tmp.doomed" in page


def test_two_clusters_mixed(tmp_path: Path) -> None:
    """Metadata of two clusters is refused with both ids; without it, places that are twice are."""
    table = of("billing")
    folder = capture(tmp_path / "c", table)
    state = json.loads((folder / "cluster.jsonl").read_text().splitlines()[0])
    with (folder / "cluster.jsonl").open("a") as file:
        file.write(json.dumps(state | {"cluster_id": "another"}) + "\n")
    done = partage("replay", folder, "--out", tmp_path / "out", "--quiet")
    assert done.exit_code == 1
    assert "another" in done.output
    assert state["cluster_id"] in done.output
    other = table.set_column(2, "timestamp_ms", compute.add(table["timestamp_ms"], 12_345))
    _twice(tmp_path / "mixed", [table, other])
    done = partage("replay", tmp_path / "mixed", "--out", tmp_path / "out", "--quiet")
    assert done.exit_code == 1
    assert "two clusters" in done.output or "given twice" in done.output
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_the_same_capture_twice(tmp_path: Path) -> None:
    """Records that are there twice are reported with their number, and nothing is published."""
    table = of("billing")
    _twice(tmp_path / "c", [table, table])
    done = partage("replay", tmp_path / "c", "--out", tmp_path / "out", "--quiet")
    assert done.exit_code == 1
    assert f"{table.num_rows} places" in done.output
    assert not (tmp_path / "out" / "manifest.json").exists()


def _twice(folder: Path, tables: list[pa.Table]) -> None:
    capture(folder, tables[0])
    (folder / "consumer_offsets.parquet").unlink()
    (folder / "consumer_offsets.parquet").mkdir()
    for i, table in enumerate(tables):
        parquet.write_table(table, folder / "consumer_offsets.parquet" / f"{i}.parquet")
    (folder / "cluster.jsonl").write_bytes((SAMPLE / "cluster.jsonl").read_bytes())
