"""The decode job's work without Spark: by the column, and equal to record after record."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from tests.support.captures import engine_records, expanded, records, sent_records

from partage import kernels
from partage.errors import WireFormatError
from partage.history.transactions import Transactions
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.tally import RecordTally
from partage.wire.group_log import decode_record, encode_record

CLASSIC = b"\0\2"


def damaged(rows: list[dict], seed: int) -> list[dict]:
    """A fifth of the rows cut or with bytes flipped; nulls in every column."""
    rng = random.Random(seed)
    for row in rng.sample(rows, len(rows) // 5):
        name = rng.choice(["key", "value"])
        raw = bytearray(row[name] or b"\0")
        raw[rng.randrange(len(raw))] = rng.randrange(256)
        row[name] = bytes(raw[: rng.choice([len(raw), rng.randrange(len(raw) + 1)])])
    for row in rng.sample(rows, 60):
        row[rng.choice(["key", "value", "partition", "offset", "timestamp_ms"])] = None
    return rows


def one_by_one(rows: list[dict]) -> tuple[Counter, list[tuple], list[tuple], Counter]:
    """Types, bad records, group records, and commits by partition: the engine asked each time."""
    types: Counter = Counter()
    bad, groups, commits = [], [], Counter()
    for row in rows:
        place = row["partition"], row["offset"]
        if None in (*place, row["timestamp_ms"]):
            bad.append((*place, row["key"], row["value"]))
            continue
        try:
            record = decode_record(row["key"], row["value"])
        except WireFormatError as e:
            bad.append((*place, row["key"], row["value"], str(e)))
            continue
        version = "tombstone" if record.value is None else f"v{record.value_version}"
        types[f"{record.key_version} {record.type} {version}"] += 1
        if record.key_version > 1:
            groups.append((*place, row["key"], row["value"]))
        elif record.value is not None:
            key = record.key
            minute = row["timestamp_ms"] // 60_000 * 60_000
            commits[key["group"], key["topic"], key["partition"], minute] += 1
    return types, bad, groups, commits


@pytest.mark.parametrize(("chunks", "form"), [(1, "compiled"), (7, "by cost")])
def test_columns_give_what_record_after_record_gives(chunks: int, form: kernels.Form) -> None:
    """Counts, bad records with their reasons, group records and commits are the engine's own."""
    rng = random.Random(chunks)
    rows = damaged(records().slice(0, 5_000).to_pylist(), chunks)
    rng.shuffle(rows)
    parts = [pa.Table.from_pylist(rows[i::chunks], records().schema) for i in range(chunks)]
    with kernels.force_kernel_form(form):
        sent = list(decode_table(pa.concat_tables(parts), Transactions()))
    out = expanded([row for batch in sent for row in batch.to_pylist()])
    (tally,) = (RecordTally.of_json(r["text"]) for r in out if r["kind"] == DecodedKind.TALLY)
    types, bad, groups, commits = one_by_one(rows)
    assert tally.types == types
    assert (tally.rows, tally.decoded_records + tally.bad, tally.bad) == (5_000, 5_000, len(bad))
    found = [r for r in out if r["kind"] == DecodedKind.BAD_RECORD]
    assert Counter(
        (r["log_partition"], r["log_offset"], r["key"], r["value"])
        + ((r["text"],) if r["part"] != "row" else ())
        for r in found
    ) == Counter(bad)
    keys = {(partition, offset): raw for partition, offset, *raw in groups}
    assert sum(r["kind"] == DecodedKind.GROUP_RECORD for r in out) == len(groups) == len(keys)
    assert sent_records(sent) == engine_records(keys)
    counted: Counter = Counter()
    for r in out:
        if r["kind"] == DecodedKind.COMMIT_RUNS and r["commits"]:
            key = r["group"], r["topic"], r["topic_partition"], r["minute_ms"]
            counted[key] += r["commits"]
    assert counted == commits


def test_no_run_stands_on_both_sides_of_a_record_of_its_group() -> None:
    """Rows of runs are cut at their group's records: in log order nothing is between."""
    out = [r for b in decode_table(records(), Transactions()) for r in b.to_pylist()]
    places: dict[tuple, list[int]] = {}
    for r in out:
        if r["kind"] == DecodedKind.GROUP_RECORD:
            places.setdefault((r["group"], r["log_partition"]), []).append(r["log_offset"])
    packed = [r for r in out if r["kind"] == DecodedKind.COMMIT_RUNS]
    assert len(packed) > 300
    for row in packed:
        mine = [r["log_offset"] for r in expanded([row])]
        assert mine == sorted(mine)
        assert mine[0] == row["log_offset"]
        at = places.get((row["group"], row["log_partition"]), [])
        assert not any(mine[0] < one < mine[-1] for one in at)


@pytest.mark.parametrize("form", ["compiled", "interpreted"])
def test_no_commit_becomes_an_object(monkeypatch: pytest.MonkeyPatch, form: kernels.Form) -> None:
    """No commit is read by the engine, and no plain record of a classic group; others are."""
    asked = []

    def seen(key, value):
        asked.append(key)
        return decode_record(key, value)

    monkeypatch.setattr("partage.jobs.replay.decode.decode_record", seen)
    monkeypatch.setattr("partage.wire.columns.commits.decode_record", seen)
    table = records().slice(0, 5_000)
    with kernels.force_kernel_form(form):
        out = [r for b in decode_table(table, Transactions()) for r in b.to_pylist()]
    places = {
        (r["log_partition"], r["log_offset"]) for r in out if r["kind"] == DecodedKind.GROUP_RECORD
    }
    sent = [r for r in table.to_pylist() if (r["partition"], r["offset"]) in places]
    of_groups = [r["key"] for r in sent if r["value"]]
    read = [key for key in asked if key[:2] != CLASSIC]
    assert read
    assert not [key for key in asked if key[:2] in {b"\0\0", b"\0\1"}]
    classic = sum(key[:2] == CLASSIC for key in of_groups)
    assert classic > 20
    tombstones = len(sent) - len(of_groups)
    by_column = classic if form == "compiled" else 0
    assert len(asked) == len(of_groups) - by_column + tombstones


def test_nothing_but_rows_without_a_place() -> None:
    """Rows whose place is null leave nothing to sort and nothing to decode."""
    rows = [r | {"offset": None} for r in records().slice(0, 3).to_pylist()]
    table = pa.Table.from_pylist(rows, records().schema)
    out = [r for b in decode_table(table, Transactions()) for r in b.to_pylist()]
    assert [r["kind"] for r in out] == [DecodedKind.BAD_RECORD] * 3 + [DecodedKind.TALLY]


@pytest.mark.parametrize("record", [False, True])
def test_commits_whose_marker_is_in_a_later_table_make_a_run_for_each_marker(record: bool) -> None:
    """Between two markers that these rows do not have may stand a rebalance that they do not have."""
    rows = []
    for offset in range(6):
        key, value = encode_record(
            1, {"group": "g", "topic": "t", "partition": 0}, version=3,
            value={"offset": offset, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 5},
        )  # fmt: skip
        rows.append(
            {"partition": 0, "offset": offset, "timestamp_ms": 5, "key": key, "value": value}
        )
    if record:
        key, _ = encode_record(2, {"group": "g"})
        rows.append({"partition": 0, "offset": 6, "timestamp_ms": 5, "key": key, "value": None})
    batches = [
        {"partition": 0, "base_offset": 0, "last_offset": 1, "producer_id": 7, "transactional": True,
         "control": False, "control_type": None, "max_timestamp_ms": 5},
        {"partition": 0, "base_offset": 2, "last_offset": 3, "producer_id": 8, "transactional": True,
         "control": False, "control_type": None, "max_timestamp_ms": 5},
        {"partition": 0, "base_offset": 10, "last_offset": 10, "producer_id": 7, "transactional": True,
         "control": True, "control_type": "COMMIT", "max_timestamp_ms": 5},
        {"partition": 0, "base_offset": 20, "last_offset": 20, "producer_id": 8, "transactional": True,
         "control": True, "control_type": "COMMIT", "max_timestamp_ms": 5},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, records().schema)
    out = [r for b in decode_table(table, Transactions(batches)) for r in b.to_pylist()]
    packed = [r for r in out if r["kind"] == DecodedKind.COMMIT_RUNS]
    assert [(r["log_offset"], [run["commits"] for run in expanded([r])]) for r in packed] == [
        (4, [2]), (10, [2]), (20, [2])
    ]  # fmt: skip
