"""Damage that looks like data: times that are none, pages whose checksum is wrong, odd topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

from tests.support.captures import capture, records  # noqa: E402

import partage as pg  # noqa: E402
from partage.errors import InvalidCaptureError, SparkFailedError  # noqa: E402
from partage.history.transactions import Transactions  # noqa: E402
from partage.jobs.audit import topics as key_pairs  # noqa: E402
from partage.jobs.audit.topics import PairCounter, judge_topics  # noqa: E402
from partage.jobs.replay.capture import open_capture, read_slice  # noqa: E402
from partage.jobs.replay.decode import decode_table  # noqa: E402
from partage.jobs.replay.decoded_rows import DecodedKind  # noqa: E402
from partage.jobs.replay.engines import LocalRows  # noqa: E402
from partage.jobs.replay.inferred_metadata import inferred_states  # noqa: E402
from partage.jobs.replay.tally import RecordTally  # noqa: E402
from partage.jobs.spark.failures import job_errors, worker_errors  # noqa: E402
from partage.wire.group_log import encode_record  # noqa: E402


def test_a_time_that_is_none_is_a_bad_record() -> None:
    """A record at the end of int64 is reported as bad; differences with it would end the whole run."""
    rows = records().slice(0, 4).to_pylist()
    rows[1]["timestamp_ms"], rows[2]["timestamp_ms"] = -(2**63), 2**63 - 1
    table = pa.Table.from_pylist(rows, records().schema)
    out = [r for b in decode_table(table, Transactions()) for r in b.to_pylist()]
    bad = [r for r in out if r["kind"] == DecodedKind.BAD_RECORD]
    assert len(bad) == 2
    assert all("timestamp_ms is no time" in str(r) for r in bad)


def test_a_wrong_checksum_is_no_data(tmp_path: Path) -> None:
    """Where the file has checksums of its pages, changed bytes are damage, not other records."""
    table = records().slice(0, 5_000)
    how = {"compression": "none", "write_page_checksum": True, "use_dictionary": False}
    folder = capture(tmp_path / "c", table, **how)
    file = folder / "consumer_offsets.parquet"
    whole = bytearray(file.read_bytes())
    at = whole.index(table["value"][40].as_py())
    whole[at + 5] ^= 0x55
    file.write_bytes(whole)
    (one,) = open_capture(folder).slices
    with pytest.raises(InvalidCaptureError, match="row group 0 cannot be read"):
        list(read_slice(one))


def _table(topic: str, keys: list, partitions: list[int]):
    count = len(keys)
    return pa.table({
        "topic": [topic] * count, "partition": pa.array(partitions, pa.int32()),
        "offset": range(count), "timestamp_ms": range(count), "key": pa.array(keys, pa.binary()),
    })  # fmt: skip


def _found(tables: list) -> dict:
    pairing = PairCounter()
    for table in tables:
        pairing.count_records(table)
    ((one,),) = (b.to_pylist() for b in judge_topics({}, frozenset(), pairing.count_batches()))
    return json.loads(one["found"])


def test_records_of_a_sampled_topic_are_all_counted(monkeypatch) -> None:
    """Keys are sampled and keyless records cut off, but how many records there are is exact."""
    monkeypatch.setattr(key_pairs, "MOST_PAIRS", 300)
    monkeypatch.setattr(key_pairs, "MOST_NULLS", 50)
    keys = [b"key-%d" % i for i in range(2_000)]
    where = pg.partition_for(keys, partitions=5).tolist()
    found = _found([_table("t", keys, where), _table("t", [None] * 400, [0, 1, 2, 3] * 100)])
    assert found["sampled"] > 1
    assert found["records"] == 2_400
    assert found["nulls"].pop("log10_chance") < -10  # 100 whole turns are no accident
    assert found["nulls"] == {"behaviour": "round robin", "records": 400}
    assert found["writers"][0]["name"] == "murmur2"


def test_a_key_longer_than_producers_default_is_judged_too() -> None:
    """A key of more than 1 MiB is in the topic, so it was sent: the audit goes on."""
    keys = [b"x" * (1_048_576 + 1), *(b"key-%d" % i for i in range(10))]
    assert _found([_table("t", keys, [0] * 11)])["status"] == "one partition"


@pytest.mark.parametrize("number", [-1, 2**31 - 1])
def test_a_partition_that_no_topic_has_is_named(number: int) -> None:
    """A damaged partition number is an error with the topic's name, with keys and without."""
    for key in (b"k", None):
        with pytest.raises(InvalidCaptureError, match=f"topic t: .* partition {number},"):
            PairCounter().count_records(_table("t", [key] * 3, [0, number, 1]))


def test_a_workers_error_in_javas_wrapping_is_ours(tmp_path: Path) -> None:
    """Where rows come one by one Spark raises Java's exception: the sentence inside is found."""
    from py4j.protocol import Py4JJavaError

    class WrappedError(Py4JJavaError):
        def __init__(self, said: str) -> None:
            Exception.__init__(self, said)
            self.said = said

        def __str__(self) -> str:
            return f"An error occurred while calling o1.getResult.\n{self.said}\n SQLSTATE: 38000"

    ours = "partage.errors.InvalidCaptureError: x.parquet: row group 0 cannot be read"
    for watched in (job_errors(tmp_path), worker_errors()):
        with pytest.raises(InvalidCaptureError, match="row group 0"), watched:
            raise WrappedError(ours)
    for watched in (job_errors(tmp_path), worker_errors()):
        with pytest.raises(SparkFailedError), watched:
            raise WrappedError("Python worker exited unexpectedly")


def test_a_committed_partition_that_no_topic_has_infers_no_partitions() -> None:
    """Without metadata one commit on partition 2**31 - 1 is damage, not two billion partitions."""
    rows = []
    for offset, number in enumerate((1, 2**31 - 1)):
        key, value = encode_record(
            1, {"group": "g", "topic": "t", "partition": number}, version=3,
            value={"offset": 7, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 5},
        )  # fmt: skip
        rows.append(
            {"partition": 0, "offset": offset, "timestamp_ms": 5, "key": key, "value": value}
        )
    out = list(decode_table(pa.Table.from_pylist(rows, records().schema), Transactions()))
    (tally,) = (
        RecordTally.of_json(r["text"])
        for b in out
        for r in b.to_pylist()
        if r["kind"] == DecodedKind.TALLY
    )
    (state,) = inferred_states(LocalRows(list), tally)
    assert len(state["topics"]["t"]["partitions"]) == 2
