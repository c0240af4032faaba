"""Captures from copied segments: exact to what consumers and polls of the recorded cluster saw."""

from __future__ import annotations

import json
import tarfile

import pyarrow.parquet as pq
import pytest
from tests.support.wire_samples import CAPTURE, SAMPLE

from partage.capture.log_dir import capture_log_dirs
from partage.capture.writing import CaptureWriter
from partage.errors import InvalidCaptureError


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory):
    """The recorded cluster's segments and metadata log, unpacked."""
    folder = tmp_path_factory.mktemp("log-dir")
    with tarfile.open(CAPTURE / "segments.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def captured(log_dir, tmp_path_factory):
    """A capture of them."""
    out = tmp_path_factory.mktemp("captured") / "capture"
    with CaptureWriter(out) as writer:
        capture_log_dirs([log_dir], writer)
    return out


def rows_of(table, key):
    """Rows by place; a place that is there twice fails."""
    rows = pq.read_table(table).to_pylist()
    found = {tuple(row[name] for name in key): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_records_in_segments_are_the_records_that_a_consumer_read(captured):
    """All 94,434 of them, byte by byte; the segments go on a little after the consumer's cut."""
    ours = rows_of(captured / "consumer_offsets.parquet", ("partition", "offset"))
    theirs = rows_of(SAMPLE / "consumer_offsets.parquet", ("partition", "offset"))
    assert len(theirs) == 94_434
    assert {place: ours[place] for place in theirs} == theirs


def test_batches_and_markers_are_those_that_were_polled(captured):
    """Sixteen columns of 9,163 batches, 372 markers among them."""
    ours = rows_of(captured / "batches.parquet", ("partition", "base_offset"))
    theirs = rows_of(SAMPLE / "batches.parquet", ("partition", "base_offset"))
    assert ours == theirs
    assert sum(row["control"] for row in ours.values()) == 372


def test_the_metadata_log_has_every_state_that_was_polled(captured):
    """Each polled state is in the log, in this order, never later than it was polled, at most
    the poll's half second and its own length before.
    """
    ours = [json.loads(line) for line in (captured / "cluster.jsonl").read_text().splitlines()]
    theirs = [json.loads(line) for line in (SAMPLE / "cluster.jsonl").read_text().splitlines()]
    names = ("controller", "brokers", "topics")
    at = 0
    for polled in theirs:
        expected = [polled[name] for name in names]
        at = next(i for i in range(at, len(ours)) if [ours[i][name] for name in names] == expected)
        assert 0 <= polled["ts_ms"] - ours[at]["ts_ms"] < 1_000
    assert len(ours) > len(theirs)


def test_a_snapshot_says_what_the_log_said_up_to_it(log_dir, captured, tmp_path):
    """Where the log's beginning is gone its snapshot stands in: states after it are the same."""
    copy = tmp_path / "__cluster_metadata-0"
    copy.mkdir()
    source = log_dir / "__cluster_metadata-0"
    snapshot = next(source.glob("*.checkpoint"))
    (copy / snapshot.name).write_bytes(snapshot.read_bytes())
    with CaptureWriter(tmp_path / "out") as writer:
        capture_log_dirs([tmp_path], writer)
    (line,) = (tmp_path / "out" / "cluster.jsonl").read_text().splitlines()
    expected = json.loads(line)
    states = [json.loads(one) for one in (captured / "cluster.jsonl").read_text().splitlines()]
    # The snapshot does not say who led the quorum.
    assert any(
        all(one[name] == expected[name] for name in ("brokers", "topics"))
        and one["ts_ms"] <= expected["ts_ms"] for one in states
    )  # fmt: skip


def test_a_copy_of_a_living_log_ends_within_a_batch(log_dir, tmp_path):
    """The torn end is reported; what is whole is taken, and the next copy brings the rest."""
    source = log_dir / "__consumer_offsets-0"
    whole = next(source.glob("*.log")).read_bytes()
    copy = tmp_path / "copy" / "__consumer_offsets-0"
    copy.mkdir(parents=True)
    segment = copy / "00000000000000000000.log"
    segment.write_bytes(whole[: len(whole) * 2 // 3])
    out = tmp_path / "out"
    with CaptureWriter(out) as writer:
        capture_log_dirs([copy.parent], writer)
    assert "not complete" in writer.manifest.troubles[0]
    segment.write_bytes(whole)
    with CaptureWriter(out) as writer:
        capture_log_dirs([copy.parent], writer)
    ours = rows_of(out / "consumer_offsets.parquet", ("partition", "offset"))
    assert len(ours) == writer.manifest.positions[0] == writer.manifest.records


def test_a_damaged_batch_is_skipped_and_reported(log_dir, tmp_path):
    """Its CRC does not fit: its records are left out, the others are there, the place is named."""
    whole = bytearray(next((log_dir / "__consumer_offsets-0").glob("*.log")).read_bytes())
    whole[90] ^= 1
    copy = tmp_path / "__consumer_offsets-0"
    copy.mkdir()
    (copy / "00000000000000000000.log").write_bytes(whole)
    with CaptureWriter(tmp_path / "out") as writer:
        capture_log_dirs([tmp_path], writer)
    assert "CRC-32C of the batch of offset 0" in writer.manifest.troubles[0]
    assert writer.manifest.records == writer.manifest.positions[0] - 1


def batches_of_segment(log_dir):
    """The batches of a recorded segment, as bytes."""
    whole, found, at = next((log_dir / "__consumer_offsets-0").glob("*.log")).read_bytes(), [], 0
    while len(found) < 40:
        size = 12 + int.from_bytes(whole[at + 8 : at + 12], "big")
        found.append(whole[at : at + size])
        at += size
    return found


def test_what_any_copy_has_counts(log_dir, tmp_path):
    """One broker rolled its segments late and goes furthest, one was cleaned, one is damaged: each
    record that some copy has is there, once.
    """
    batches = batches_of_segment(log_dir)
    first = int.from_bytes(batches[30][:8], "big")
    damaged = batches[5][:-1] + bytes([batches[5][-1] ^ 1])
    copies = {
        "ends early, in two segments": {0: batches[:30], first: batches[30:32]},
        "goes furthest, and was cleaned": {0: [*batches[:10:3], *batches[10:]]},
        "damaged": {0: [*batches[:5], damaged, *batches[6:20]]},
    }
    for name, segments in copies.items():
        folder = tmp_path / name / "__consumer_offsets-0"
        folder.mkdir(parents=True)
        for start, data in segments.items():
            (folder / f"{start:020d}.log").write_bytes(b"".join(data))
    alone = tmp_path / "alone" / "__consumer_offsets-0"
    alone.mkdir(parents=True)
    (alone / f"{0:020d}.log").write_bytes(b"".join(batches))
    for name, folders in {"all": [tmp_path / one for one in copies], "one": [alone.parent]}.items():
        with CaptureWriter(tmp_path / f"out-{name}") as writer:
            capture_log_dirs(folders, writer)
    ours, theirs = (
        rows_of(tmp_path / f"out-{one}" / "consumer_offsets.parquet", ("partition", "offset"))
        for one in ("all", "one")
    )
    assert ours == theirs


def test_the_metadata_log_twice_is_written_once(log_dir, tmp_path):
    """A capture that goes on writes no state again."""
    source = tmp_path / "log" / "__cluster_metadata-0"
    source.mkdir(parents=True)
    for path in (log_dir / "__cluster_metadata-0").iterdir():
        if path.is_file():
            (source / path.name).write_bytes(path.read_bytes())
    lines = []
    for _ in range(2):
        with CaptureWriter(tmp_path / "out") as writer:
            capture_log_dirs([source.parent], writer)
        lines.append((tmp_path / "out" / "cluster.jsonl").read_text())
    assert lines[0].count("\n") > 10
    assert lines[1] == lines[0]


def test_no_segments_is_an_error_that_says_what_belongs_there(tmp_path):
    """An empty folder, and one that is not there."""
    with CaptureWriter(tmp_path / "out") as writer:
        with pytest.raises(InvalidCaptureError, match="__consumer_offsets-N"):
            capture_log_dirs([tmp_path], writer)
        with pytest.raises(InvalidCaptureError, match="no such folder"):
            capture_log_dirs([tmp_path / "nowhere"], writer)
