from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.support.captured import DATA, SAMPLE, lines, parsed
from tests.support.captures import capture, records, rows_of

import partage as pg
from partage.errors import (
    AccountingError,
    InvalidCaptureError,
    InvalidConfigError,
    UnknownStrategyError,
)
from partage.jobs.replay import replay as replay_module
from partage.jobs.replay.replay import replay
from partage.jobs.replay.selection import Selection
from partage.jobs.spark.progress import COUNTS
from partage.runs.published_run import PublishedRun, read_table
from partage.simulation.policies import DEFAULT_POLICIES
from partage.tables.schemas import COLUMNS, TABLES, table_schema
from partage.tables.statuses import CUMULATIVE, DONE, NOT_YET, PER_REBALANCE, RECORDED, REFUSED
from partage.wire.group_log import decode_record, encode_record

pytestmark = pytest.mark.spark


def test_agreement_with_the_record(replayed) -> None:
    """120 of 122 Java rebalances with range or round robin come out; the two others are explained."""
    found = replayed.summary["agreement"]
    assert found["by_strategy"]["range"] == {"counted": 95, "agreed": 94}
    assert found["by_strategy"]["roundrobin"] == {"counted": 27, "agreed": 26}
    found_by_key = {(d["group"], d["generation"]): d["why"] for d in found["disagreements"]
            if d["strategy"] in ("range", "roundrobin")}  # fmt: skip
    assert set(found_by_key) == {("inventory-sync", 9), ("mailer.alerts", 5)}
    assert "lacked the rack of broker 2" in found_by_key["inventory-sync", 9]
    assert found["by_protocol"]["classic"] == {"counted": 317, "agreed": 311}
    assert found["by_strategy"]["streams:high-availability"] == {"counted": 17, "agreed": 17}
    assert found["by_protocol"]["consumer"]["agreed"] >= 144
    assert found["by_protocol"]["share"] == {"counted": 40, "agreed": 39}
    assert all(d["why"] for d in found["disagreements"])
    assert "101637 ms behind: topic emails missing" in found_by_key["mailer.alerts", 5]


def test_plans_of_other_clients_are_judged_by_their_dialect(replayed) -> None:
    """The summary counts them apart, and the tables say which library led."""
    found = replayed.summary["agreement"]["by_dialect"]
    assert found["librdkafka:range"] == {"counted": 11, "agreed": 11}
    assert found["librdkafka:cooperative-sticky"] == {"counted": 30, "agreed": 30}
    assert sum(led["agreed"] for led in found.values()) == 124
    assert sum(led["counted"] for led in found.values()) == 124


def test_every_record_is_accounted_for(replayed) -> None:
    """Each record type and version is counted as Kafka's decoder counted them; nothing is bad."""
    found = replayed.summary["accounting"]
    wanted = {f"{v} {t} {w}": n for v, t, w, n in parsed("summary.json")["types"]}
    assert found["by_type"] == wanted
    assert (found["records"], found["decoded"], found["bad"]) == (94_434, 94_434, 0)
    assert found["commits_by_outcome"]["aborted"] == 163


def test_rebalances_are_those_of_the_recording(replayed) -> None:
    """Table rebalances has the generations and target assignments that were recorded."""
    rows = read_table(replayed.out, "rebalances").to_pylist()
    seen = {(r["group"], r["generation"]) for r in rows if r["protocol"] == "classic"}
    wanted = {k.removeprefix("classic "): n for k, n in parsed("summary.json")["rebalances"].items()
              if k.startswith("classic ")}  # fmt: skip
    assert Counter(group for group, _ in seen) == wanted
    # One group was deleted, and began again at generation 1.
    protocols = Counter(r["protocol"] for r in rows)
    assert protocols == {"classic": 479, "consumer": 155, "share": 40, "streams": 14}
    assert sum(r["stopped_high_ms"] is not None for r in rows) > 200
    assert all(r["disagreement"] for r in rows if r["agrees"] is False)
    assumed = {r["group"]: r["assumed"] for r in rows if r["assumed"]}
    assert set(assumed) == {"views-join"}
    assert "lags (not in the log)" in assumed["views-join"]


def test_no_group_is_lost(replayed) -> None:
    """Each group is there: replayed, or with the reason why strategies cannot be run on it."""
    groups = {r["group"]: r for r in read_table(replayed.out, "groups").to_pylist()}
    assert len(groups) == 36
    assert groups["work-queue"]["status"] == "not replayed"
    assert "several owners" in groups["work-queue"]["why"]
    assert "tasks, not partitions" in groups["ship-join"]["why"]
    assert groups["checkout-workers"]["kind"] == "classic+consumer"
    assert groups["checkout-workers"]["status"] == "replayed"
    assert groups["Fraud.Scoring"]["status"] == "replayed"
    assert groups["offset-only-job"]["status"] == "offsets only"
    assert "Kafka Streams" in groups["views-join"]["why"]
    assert "connect" in groups["connect-cluster-a"]["why"]


def test_every_policy_lives_every_rebalance(replayed) -> None:
    """A row for each rebalance, default policy and reading; the record has one of its own."""
    columns = ["policy", "reading", "step", "claimed", "strategy", "status"]
    rows = read_table(replayed.out, "replays").select(columns).to_pylist()
    seen = Counter((r["policy"], r["reading"]) for r in rows if r["step"] == 0)
    assert set(seen.values()) == {580}
    wanted = {
        (name, reading) for name in DEFAULT_POLICIES for reading in (PER_REBALANCE, CUMULATIVE)
    }
    assert set(seen) == wanted | {(RECORDED, RECORDED)}
    assert {r["status"] for r in rows} <= {DONE, REFUSED}
    assert replayed.summary["strategies"]["not_yet"] == {}
    assert replayed.summary["failures"] == []
    found_by_key = {(r["policy"], r["reading"]): r for r in replayed.summary["policies"]}
    assert set(found_by_key) == set(seen)
    assert found_by_key[RECORDED, RECORDED]["rebalances"] == 580


def renamed(table, old: str, new: str):
    """Return the records of the classic groups with a strategy, under another name."""
    rows, groups = [], set()
    for row in table.to_pylist():
        if row["key"][:2] != b"\0\2":
            continue
        record = decode_record(row["key"], row["value"])
        if record.value is not None and record.value["protocol"] == old:
            groups.add(record.key["group"])
            row["key"], row["value"] = encode_record(
                record.key_version, record.key, version=record.value_version,
                value={**record.value, "protocol": new},
            )  # fmt: skip
        rows.append((record.key["group"], row))
    chosen = [row for group, row in rows if group in groups]
    return type(table).from_pylist(chosen, table.schema)


def test_unknown_strategies_are_reported(tmp_path: Path) -> None:
    """A strategy that groups chose and Partage lacks has a row for each such rebalance."""
    folder = capture(tmp_path / "c", renamed(records(), "sticky", "acme-assignor"))
    summary = replay(folder, tmp_path / "out", engine="local", policies=["own", "range"])
    columns = ["policy", "reading", "strategy", "status", "claimed", "plan"]
    rows = read_table(tmp_path / "out", "replays").select(columns).to_pylist()
    missing = [r for r in rows if r["status"] == NOT_YET and r["reading"] == PER_REBALANCE]
    assert {(r["policy"], r["strategy"], r["claimed"], r["plan"]) for r in missing} == {
        ("own", "acme-assignor", True, None)
    }
    assert (
        summary["strategies"]["not_yet"] == {"acme-assignor": 63} == {"acme-assignor": len(missing)}
    )
    assert set(summary["strategies"]["run"]) == {RECORDED, "own", "eager/range"}


def test_the_judge_finds_no_breach_in_plans(replayed) -> None:
    """Every plan of ours is valid, and none moves less than the fewest moves there are."""
    for row in read_table(replayed.out, "replays").drop_columns(["plan"]).to_pylist():
        if row["status"] == DONE and row["reading"] != RECORDED:
            assert not row["breaches"], row
            assert 0 <= (row["avoidable"] or 0) <= row["moved"], row


def test_open_ownership_is_what_was_described(replayed) -> None:
    """Intervals that last are the assignments that the Admin API described at the end."""
    owned: dict[str, set] = {}
    for row in read_table(replayed.out, "ownership").to_pylist():
        if row["to_ms"] is None:
            owned.setdefault(row["group"], set()).add((row["topic"], row["partition"]))
    for described in lines("describe.jsonl"):
        if described.get("type") == "Classic" and "error" not in described:
            wanted = {
                (t, p)
                for m in described["members"]
                for t, ps in m["assignment"].items()
                for p in ps
            }
            assert owned.get(described["group"], set()) == wanted, described["group"]


def test_commits_of_aborted_transactions_do_not_count(replayed) -> None:
    """Commits by group, topic and partition equal a plain count of Kafka's decoded records."""
    import lzma

    from pyarrow import parquet

    aborted = set()
    ends: dict[tuple[int, int], str] = {}
    batches = parquet.read_table(SAMPLE / "batches.parquet").to_pylist()
    for b in sorted(batches, key=lambda b: -b["base_offset"]):
        who = (b["partition"], b["producer_id"])
        if b["control"]:
            ends[who] = b["control_type"]
        elif b["transactional"] and ends[who] == "ABORT":
            aborted |= {(b["partition"], o) for o in range(b["base_offset"], b["last_offset"] + 1)}
    wanted: Counter = Counter()
    with lzma.open(DATA / "decoded.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in file:
            r = json.loads(line)
            if (
                r["type"] == "OFFSET_COMMIT"
                and r["value"]
                and (r["partition"], r["offset"]) not in aborted
            ):
                wanted[r["key"]["group"], r["key"]["topic"], r["key"]["partition"]] += 1
    found: Counter = Counter()
    for r in read_table(replayed.out, "commit_rates").to_pylist():
        found[r["group"], r["topic"], r["partition"]] += r["commits"]
    assert +found == wanted


def test_tables_have_their_schemas_and_their_run(replayed) -> None:
    """Every table of the design is there, with the columns written down and the run's id."""
    manifest = json.loads((replayed.out / "manifest.json").read_text())
    assert set(manifest["tables"]) == set(TABLES) == set(COLUMNS)
    for name in TABLES:
        table = read_table(replayed.out, name)
        assert table.schema.equals(table_schema(name)), name
        assert set(table["run_id"].to_pylist()) <= {manifest["run_id"]}
        assert table.num_rows == sum(f["rows"] for f in manifest["tables"][name])
        assert table.num_rows == replayed.summary["tables"][name]
    assert read_table(replayed.out, "runs").num_rows == 1
    assert PublishedRun(replayed.out).summary == json.loads(json.dumps(replayed.summary))


def in_parts(tmp_path: Path, parts: list[tuple[int, int]]) -> Path:
    """The sample, or stretches of it, as a capture of several files."""
    folder = capture(tmp_path / "cut", records().slice(0, 0))
    (folder / "consumer_offsets.parquet").unlink()
    inside = folder / "consumer_offsets.parquet"
    inside.mkdir()
    for i, (first, rows) in enumerate(parts):
        capture(tmp_path / "part", records().slice(first, rows), row_group_size=17_000)
        (tmp_path / "part" / "consumer_offsets.parquet").rename(inside / f"{i}.parquet")
    return folder


def test_a_capture_given_twice_is_reported(spark, tmp_path: Path) -> None:
    """Records that are there twice end the run with their place; nothing is published."""
    folder = in_parts(tmp_path, [(0, 3_000), (2_000, 1_500)])
    with pytest.raises(InvalidCaptureError, match=r"1000 places .* was a capture given twice"):
        replay(folder, tmp_path / "out", spark=spark, policies=["range"])
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_without_metadata_it_is_inferred(tmp_path: Path) -> None:
    """No cluster.jsonl, no batches: partition counts come from assignments, and a note says so."""
    folder = capture(tmp_path / "c", records().slice(0, 20_000))
    (folder / "cluster.jsonl").unlink()
    (folder / "batches.parquet").unlink(missing_ok=True)
    found = replay(folder, tmp_path / "out", engine="local", policies=["range"])["coverage"]
    assert found["cluster"].startswith("inferred: partition counts from assignments")
    assert found["transactions"].startswith("unknown")
    assert found["groups_by_status"]["replayed"] > 5


def test_some_groups_and_some_time(replayed, tmp_path: Path) -> None:
    """Patterns and times leave rows out of the tables, and no record out of the accounting."""
    rows = read_table(replayed.out, "rebalances").to_pylist()
    times = sorted(r["time_ms"] for r in rows if r["group"].startswith("c"))
    chosen = Selection(("c*",), times[len(times) // 3], times[2 * len(times) // 3])
    out = tmp_path / "out"
    summary = replay(SAMPLE, out, engine="local", policies=["range"], selection=chosen)
    assert summary["accounting"]["decoded"] == 94_434
    assert summary["selection"]["groups"] == ["c*"]
    part = read_table(out, "rebalances").to_pylist()
    wanted = {(r["group"], r["incarnation"], r["generation"]) for r in rows
              if r["group"].startswith("c") and chosen.from_ms <= r["time_ms"] < chosen.to_ms}  # fmt: skip
    assert {(r["group"], r["incarnation"], r["generation"]) for r in part} == wanted
    simulated = read_table(out, "replays").to_pylist()
    assert simulated
    assert {(r["group"], r["incarnation"], r["generation"]) for r in simulated} <= wanted


def test_a_pattern_without_a_group_is_reported(tmp_path: Path) -> None:
    """A misspelt pattern is an error, and nothing is published."""
    folder = capture(tmp_path / "c", records().slice(0, 2_000))
    with pytest.raises(InvalidConfigError, match="no group of the capture has this name"):
        replay(folder, tmp_path / "out", engine="local", selection=Selection(("nobody-*",)))
    with pytest.raises(InvalidConfigError, match="groups: no group of the capture has this name"):
        pg.replay(folder, engine="local", groups="nobody-*")
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_misspelt_group_beside_a_valid_one_gives_a_warning(tmp_path: Path) -> None:
    """The run is published; its notes and the warning have the nearest name."""
    folder = capture(tmp_path / "c", records().slice(0, 2_000))
    with pytest.warns(UserWarning, match="group of the capture is 'py-nxt'; did you mean py-next"):
        run = pg.replay(folder, engine="local", groups=["c-*", "py-nxt"], policies=["range"])
    assert run.summary["unmatched_groups"]["py-nxt"][0] == "py-next"
    assert any("did you mean py-next?" in note for note in run.summary["notes"])
    page = run.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "did you mean py-next?" in page
    with pytest.raises(InvalidConfigError, match="has this name; did you mean py-next"):
        pg.replay(folder, engine="local", groups="py-nxt")


def test_raw_commits(tmp_path: Path) -> None:
    """Table commits has each commit that took effect, as many as table commit_rates counts."""
    folder = capture(tmp_path / "c", records().slice(0, 9_000))
    out = tmp_path / "out"
    replay(folder, out, engine="local", policies=["range"], raw_commits=True)
    rows = read_table(out, "commits").to_pylist()
    counted = sum(r["commits"] for r in read_table(out, "commit_rates").to_pylist())
    assert sum(r["offset"] is not None for r in rows) == counted > 5_000
    assert any(r["topic_id"] for r in rows)


def test_however_the_capture_is_cut_the_tables_are_the_same(spark, tmp_path: Path) -> None:
    """Other runs, over the same records in other files, in any order there, give equal tables."""
    some = records().slice(0, 12_000)
    whole = capture(tmp_path / "c", some)
    cut = in_parts(tmp_path, [(0, 5_000), (5_000, 1), (5_001, 6_999)])
    mixed = capture(tmp_path / "mixed", some)
    (mixed / "consumer_offsets.parquet").unlink()
    (mixed / "consumer_offsets.parquet").mkdir()
    order = np.random.default_rng(7).permutation(some.num_rows)
    for i in range(3):
        capture(tmp_path / "part", some.take(order[i::3]))
        part = tmp_path / "part" / "consumer_offsets.parquet"
        part.rename(mixed / "consumer_offsets.parquet" / f"{i}.parquet")
    for folder, out in ((whole, "whole"), (cut, "parts"), (mixed, "any order")):
        replay(folder, tmp_path / out, spark=spark, policies=["consumer/uniform+static"])
    for other in ("parts", "any order"):
        for name in set(TABLES) - {"runs"}:
            assert rows_of(tmp_path / "whole", name) == rows_of(tmp_path / other, name), name


def test_damaged_records_are_kept_apart(spark, tmp_path: Path) -> None:
    """Flipped bytes, null keys and lost places become bad records; the others are still replayed."""
    import random

    rng = random.Random(3)
    rows = records().slice(0, 4_000).to_pylist()
    for i in rng.sample(range(4_000), 600):
        name = rng.choice(["key", "value"])
        damaged = bytearray(rows[i][name] or b"\0")
        for _ in range(rng.choice([1, 1, 1, 4])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        rows[i][name] = bytes(
            damaged[: rng.choice([len(damaged), rng.randrange(len(damaged) + 1)])]
        )
    for i in rng.sample(range(4_000), 30):
        rows[i][rng.choice(["key", "partition", "offset", "timestamp_ms"])] = None
    table = records().slice(0, 0)
    damaged_table = type(table).from_pylist(rows, table.schema)
    summary = replay(
        capture(tmp_path / "c", damaged_table, row_group_size=900), tmp_path / "out", spark=spark,
        policies=["eager/range"],
    )  # fmt: skip
    found = summary["accounting"]
    assert found["records"] == 4_000 == found["decoded"] + found["bad"]
    assert found["bad"] > 100
    given = {(r["key"], r["value"]) for r in rows}
    kept = read_table(tmp_path / "out", "bad_records").to_pylist()
    assert len(kept) == found["bad"]
    assert all((r["key"], r["value"]) in given for r in kept)
    assert {r["part"] for r in kept} == {"key", "value", "row"}
    assert any("the key is null" in r["why"] for r in kept)
    assert any("column offset is null" in r["why"] for r in kept)


def test_offsets_only(tmp_path: Path) -> None:
    """A capture with nothing but commits has groups, and no rebalances."""
    rows = [r for r in records().slice(0, 2_000).to_pylist() if r["key"][:2] == b"\0\1"]
    table = type(records()).from_pylist(rows, records().schema)
    summary = replay(capture(tmp_path / "c", table), tmp_path / "out", engine="local")
    assert summary["coverage"]["rebalances"] == 0
    assert summary["coverage"]["share"] is None
    assert set(summary["coverage"]["groups_by_status"]) == {"offsets only"}
    assert read_table(tmp_path / "out", "rebalances").num_rows == 0


def test_progress_is_reported(replayed) -> None:
    """Each stage is reported when it begins and ends, with tasks in between, in order."""
    stages = list(dict.fromkeys(stage for stage, _, _ in replayed.progress))
    assert stages == [
        "check", "start Spark", "decode", "records", "histories", "rebalances", "replay", "publish"
    ]  # fmt: skip
    assert list(replayed.summary["seconds"]) == [s for s in stages[:-1] if s not in COUNTS]
    assert {("records", 94_434, 94_434), ("rebalances", 688, 688)} <= set(replayed.progress)
    assert all(0 <= done <= total for _, done, total in replayed.progress)


def test_a_run_that_does_not_add_up_is_not_published(tmp_path: Path, monkeypatch) -> None:
    """When the accounting fails there is no manifest, and no file of the run is left."""

    def wrong(*_):
        raise AccountingError("one record too many")

    monkeypatch.setattr(replay_module, "build_summary", wrong)
    folder = capture(tmp_path / "c", records().slice(0, 500))
    with pytest.raises(AccountingError):
        replay(folder, tmp_path / "out", engine="local")
    assert not list((tmp_path / "out").rglob("*.parquet"))
    with pytest.raises(InvalidCaptureError, match="no published run"):
        read_table(tmp_path / "out", "groups")


def test_a_damaged_page_is_our_error(spark, tmp_path: Path) -> None:
    """Damage that only a worker's reading finds ends the run with file and row group."""
    folder = capture(tmp_path / "c", records().slice(0, 20_000), compression="zstd")
    file = folder / "consumer_offsets.parquet"
    damaged = bytearray(file.read_bytes())
    damaged[500:20_000] = bytes(19_500)
    file.write_bytes(damaged)
    with pytest.raises(InvalidCaptureError, match="row group 0 cannot be read"):
        replay(folder, tmp_path / "out", spark=spark)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_output_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the way of the output folder is named before Spark works."""
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(InvalidConfigError, match="setting out: cannot be made"):
        replay(SAMPLE, tmp_path / "out", engine="local")


def test_chosen_strategies_only(tmp_path: Path) -> None:
    """Strategies are taken by name; an unknown one is an error before anything is written."""
    folder = capture(tmp_path / "c", records().slice(0, 500))
    with pytest.raises(UnknownStrategyError):
        replay(folder, tmp_path / "out", engine="local", strategies=["rnage"])
    assert not (tmp_path / "out").exists()
    replay(folder, tmp_path / "out", engine="local", strategies=["range"])
    rows = read_table(tmp_path / "out", "replays").to_pylist()
    assert {r["strategy"] for r in rows if r["status"] == DONE} == {RECORDED, "range"}


def test_a_run_in_python_uses_the_session_of_the_user(spark, tmp_path: Path) -> None:
    """`pg.replay(spark=...)` runs in it and leaves it open."""
    run = pg.replay(capture(tmp_path / "c", records().slice(0, 500)), spark=spark, policies="range")
    assert run.summary["engine"] == {"name": "spark", "reason": "a Spark session is given"}
    assert spark.range(3).count() == 3


def test_a_session_of_the_user_stays_as_it_was(spark, replayed) -> None:
    """The user's session is still open after a run, and has its settings back."""
    assert spark.range(3).count() == 3
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert replayed.summary["versions"]["spark"] == spark.version


def test_one_process_gives_the_tables_of_spark(spark, tmp_path: Path) -> None:
    """Engine local writes equal rows into every table, and an equal summary."""
    folder = capture(tmp_path / "c", records().slice(0, 6_000))
    chosen = ["cooperative-sticky", "consumer/uniform+static"]
    summaries = [
        replay(folder, tmp_path / name, policies=chosen, raw_commits=True, **engine)
        for name, engine in (("spark", {"spark": spark}), ("local", {"engine": "local"}))
    ]
    for name in TABLES:
        if name != "runs":
            assert rows_of(tmp_path / "local", name) == rows_of(tmp_path / "spark", name), name
    own = ("run_id", "started_ms", "seconds", "engine", "versions")
    with_spark, local = (
        {key: value for key, value in one.items() if key not in own} for one in summaries
    )
    assert local == with_spark
    assert [one["engine"]["name"] for one in summaries] == ["spark", "local"]
    assert ["spark" in one["versions"] for one in summaries] == [True, False]
