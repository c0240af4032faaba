"""A capture stays whole: killed anywhere it goes on, nothing lost, nothing twice."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.support.wire_samples import ROOT

from partage.capture import durable, writing
from partage.capture.log_dir import batches_in
from partage.capture.manifest import CaptureManifest
from partage.capture.unpacking import crc32c_function
from partage.capture.writing import CaptureWriter
from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.jobs.replay.capture import open_capture
from partage.jobs.replay.records import read_slice

SEGMENT = ROOT / "tests" / "data" / "segments" / "compressed.log"


class Killed(BaseException):
    """The process is gone: no handler of ours runs behind it."""


@pytest.fixture(scope="module")
def batches():
    """Four real batches of ten records, of four partitions of a log."""
    found = list(batches_in(SEGMENT, crc32c=crc32c_function(), report=pytest.fail))
    assert len(found) == 4
    return found


def capture_once(out, batches, together=60):
    """A capture of the batches, each into a part of its own; so many parts are merged."""
    with CaptureWriter(out, part_rows=1, together=together) as writer:
        for p, one in enumerate(batches):
            writer.add_state({"ts_ms": p, "brokers": [], "topics": {str(p): {"partitions": []}}})
            if writer.next_offset(p) <= one.last_offset:
                writer.add_batch(p, one)


def records_of(folder):
    """What a reader finds: places, by the files that `partage replay` reads."""
    files = dict.fromkeys(one.path for one in open_capture(folder).slices)
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)


@pytest.mark.parametrize("together", [60, 2])
def test_killed_before_any_step_it_goes_on(batches, tmp_path, monkeypatch, together):
    """At fsyncs, renames, removals and appends of a capture, all of them in `make soak`: the next run
    has all once, parts that are merged among them.
    """
    # The machine goes on, so that a file need not reach the disk.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    capture_once(tmp_path / "whole", batches)
    expected = records_of(tmp_path / "whole")
    steps = 0
    while True:
        out = tmp_path / str(steps)
        with monkeypatch.context() as patched:
            _dies_at(patched, steps)
            try:
                capture_once(out, batches, together)
                died = False
            except Killed:
                died = True
        _forget_locks()
        if not died:
            break
        known = CaptureManifest.load_manifest(out)
        found = records_of(out) if known and known.parts else []
        assert found == [one for one in expected if one in set(found)], f"killed at step {steps}"
        capture_once(out, batches, together)
        assert records_of(out) == expected, f"killed at step {steps}"
        assert pq.read_table(out / "consumer_offsets.parquet").num_rows == len(expected)
        assert len((out / "cluster.jsonl").read_text().splitlines()) >= 4
        steps += 1 if os.environ.get("PARTAGE_SOAK") else 5
    assert steps > 40


def _dies_at(patched, step):
    """The process ends before its ``step``-th touch of the disk, and touches it no more."""
    count = [0]

    def counted(real):
        def call(*arguments, **named):
            count[0] += 1
            if count[0] > step:
                raise Killed
            return real(*arguments, **named)

        return call

    patched.setattr(durable.os, "fsync", counted(os.fsync))
    patched.setattr(Path, "replace", counted(Path.replace))
    patched.setattr(Path, "unlink", counted(Path.unlink))
    patched.setattr(writing, "append_line", counted(durable.append_line))
    # What runs in a process that is gone: nothing.
    real_exit = CaptureWriter.__exit__

    def gone(self, kind, error, at):
        if kind is Killed:
            self._lock.close()
            return None
        return real_exit(self, kind, error, at)

    patched.setattr(CaptureWriter, "__exit__", gone)


def test_a_full_disk_names_the_output_folder(batches, tmp_path, monkeypatch):
    """A write that fails names --out and the system's reason; the capture goes on afterwards."""
    real = durable.os.fsync

    def full(_number):
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    with CaptureWriter(tmp_path) as writer:
        writer.add_batch(0, batches[0])
        monkeypatch.setattr(durable.os, "fsync", full)
        with pytest.raises(InvalidConfigError) as caught:
            writer.write_part()
    assert str(caught.value).startswith("--out: cannot be written (No space left on device)")
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(InvalidConfigError, match="--out: cannot be written"):
        capture_once(tmp_path / "another", batches)
    monkeypatch.setattr(durable.os, "fsync", real)
    capture_once(tmp_path, batches)
    assert len(records_of(tmp_path)) == 40


def small_parts(batches, out, count, together):
    """A capture of so many parts of ten records each."""
    with CaptureWriter(out, part_rows=1, together=together) as writer:
        for number in range(count):
            one = dataclasses.replace(
                batches[0], base_offset=10 * number, last_offset=10 * number + 9
            )
            writer.add_batch(0, one)


def test_small_parts_become_larger_ones(batches, tmp_path):
    """Forty parts by threes: one file a level, every record once, in the log's order."""
    small_parts(batches, tmp_path / "out", 40, together=3)
    manifest = CaptureManifest.load_manifest(tmp_path / "out")
    assert [one.level for one in manifest.parts] == [3, 2, 1, 0]  # 40 by threes is 1111
    files = [
        tmp_path / "out" / "consumer_offsets.parquet" / one.file_name for one in manifest.parts
    ]
    assert [o for file in files for o in pq.read_table(file)["offset"].to_pylist()] == list(
        range(400)
    )
    assert manifest.records == 400
    read = pq.read_table(
        [tmp_path / "out" / "batches.parquet" / one.file_name for one in manifest.parts]
    )
    assert read.num_rows == manifest.batches == 40


def test_who_reads_while_parts_are_merged_finds_them(batches, tmp_path):
    """What it began to read is there until the next merge, out of sight, and gone after it."""
    out = tmp_path / "out"
    small_parts(batches, out, 2, together=3)
    before = open_capture(out).slices
    small_parts(batches, out, 3, together=3)
    assert len(open_capture(out).slices) == 1
    assert sum(len(one["key"]) for piece in before for one in read_slice(piece)) == 20
    assert pq.read_table(out / "consumer_offsets.parquet").num_rows == 30
    small_parts(batches, out, 6, together=3)
    with pytest.raises(InvalidCaptureError):
        list(read_slice(before[0]))
    assert [row[1] for row in records_of(out)] == list(range(60))


def test_a_part_that_is_damaged_is_not_merged_and_ends_nothing(batches, tmp_path):
    """The capture goes on beside it, and says so; the other parts are as they were."""
    small_parts(batches, tmp_path, 2, together=3)
    damaged = (
        tmp_path
        / "consumer_offsets.parquet"
        / CaptureManifest.load_manifest(tmp_path).parts[0].file_name
    )
    damaged.write_bytes(damaged.read_bytes()[:200])
    small_parts(batches, tmp_path, 7, together=3)
    manifest = CaptureManifest.load_manifest(tmp_path)
    assert any("cannot be merged" in one for one in manifest.troubles)
    assert manifest.records == 70
    files = [tmp_path / "consumer_offsets.parquet" / one.file_name for one in manifest.parts]
    found = [
        o for file in files if file != damaged for o in pq.read_table(file)["offset"].to_pylist()
    ]
    assert sorted(found) == list(range(10, 70))


def test_parts_that_are_large_stay_alone(batches, tmp_path, monkeypatch):
    """A merged part has at most as many rows as one that is written full."""
    monkeypatch.setattr(writing, "PART_ROWS", 25)
    small_parts(batches, tmp_path, 12, together=4)
    files = [
        tmp_path / "consumer_offsets.parquet" / one.file_name
        for one in CaptureManifest.load_manifest(tmp_path).parts
    ]
    assert max(pq.read_metadata(file).num_rows for file in files) <= 25
    assert [row[1] for row in records_of(tmp_path)] == list(range(120))


def test_a_capture_of_before_goes_on(batches, tmp_path):
    """Format 1 counted its parts from 0 and had no epochs."""
    capture_once(tmp_path, batches[:2])
    path = tmp_path / "capture.json"
    old = json.loads(path.read_text())
    for name in ("epochs", "next_part", "replaced"):
        del old[name]
    path.write_text(json.dumps({**old, "format": 1, "parts": len(old["parts"])}))
    assert len(records_of(tmp_path)) == 20
    capture_once(tmp_path, batches)
    assert len(records_of(tmp_path)) == 40


def _forget_locks():
    """A killed process holds no lock; this one lives on, so its objects have to go."""
    import gc

    gc.collect()


def test_killed_by_sigkill_it_goes_on(tmp_path):
    """The command itself, killed at random moments: the last run ends with every record once."""
    rng = random.Random(9)
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    # Three hundred times the same batches, each at its own offset.
    real = SEGMENT.read_bytes()
    with (folder / "00000000000000000000.log").open("wb") as file:
        at = 0
        for _ in range(300):
            for one in _batches(real):
                file.write(at.to_bytes(8, "big") + one[8:])
                at += 10
    program = (
        "import sys; from pathlib import Path\n"
        "from partage.capture.writing import CaptureWriter\n"
        "from partage.capture.log_dir import capture_log_dirs\n"
        "with CaptureWriter(Path(sys.argv[2]), part_rows=200) as writer:\n"
        "    print('begun', flush=True)\n"
        "    capture_log_dirs([Path(sys.argv[1])], writer)\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, "-c", program, str(folder.parent), str(out)]
    killed = 0
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
            running.stdout.readline()
            time.sleep(rng.random())
            running.send_signal(signal.SIGKILL)
            killed += running.wait() == -signal.SIGKILL
    subprocess.run(command, check=True, stdout=subprocess.PIPE)
    offsets = [row[1] for row in records_of(out)]
    assert offsets == list(range(at))
    assert killed


def _batches(data):
    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        yield data[at : at + size]
        at += size


def test_a_part_that_no_manifest_counts_is_not_read(batches, tmp_path):
    """It is being written, or its writer was killed: replay does not see it."""
    capture_once(tmp_path, batches)
    stray = tmp_path / "consumer_offsets.parquet" / "part-00000004.parquet"
    stray.write_bytes(b"torn")
    assert len(records_of(tmp_path)) == 40


def test_one_writer_at_a_time(tmp_path):
    """The second is refused; when the first is gone, it may."""
    with (
        CaptureWriter(tmp_path / "out"),
        pytest.raises(InvalidConfigError, match="another capture"),
    ):
        CaptureWriter(tmp_path / "out")
    with CaptureWriter(tmp_path / "out"):
        pass


def test_a_foreign_folder_is_left_alone(tmp_path):
    """A capture that was recorded otherwise is not written into, and nothing of it is removed."""
    theirs = tmp_path / "consumer_offsets.parquet"
    theirs.mkdir()
    (theirs / "part-00000000.parquet").write_bytes(b"theirs")
    with pytest.raises(InvalidConfigError, match="must be empty"):
        CaptureWriter(tmp_path)
    assert (theirs / "part-00000000.parquet").read_bytes() == b"theirs"


def test_another_cluster_is_refused(tmp_path):
    """Two clusters' records in one capture would be one history of nobody."""
    with CaptureWriter(tmp_path) as writer:
        writer.set_ids(cluster_id="a")
    with (
        CaptureWriter(tmp_path) as writer,
        pytest.raises(InvalidCaptureError, match="another folder"),
    ):
        writer.set_ids(cluster_id="b")
    assert CaptureManifest.load_manifest(tmp_path).cluster_id == "a"


def test_a_damaged_manifest_is_named(tmp_path):
    """Not JSON, or of a format from the future."""
    (tmp_path / "capture.json").write_text('{"format": 3}')
    with pytest.raises(InvalidCaptureError, match="format 3"):
        CaptureWriter(tmp_path)
    (tmp_path / "capture.json").write_text("{")
    with pytest.raises(InvalidCaptureError, match="cannot be read"):
        CaptureWriter(tmp_path)
