"""Captures at an address: all their files count, read through Hadoop's file systems."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.wire_samples import ROOT

from partage.capture.manifest import CaptureManifest, CapturePart
from partage.errors import InvalidCaptureError
from partage.jobs.replay.capture import open_capture, read_context, with_remote_files
from partage.jobs.streams_capture import topic_sizes

pytestmark = pytest.mark.spark

SAMPLE = ROOT / "src" / "partage" / "sample"


def test_a_remote_capture_has_its_metadata_and_markers(spark, tmp_path: Path) -> None:
    """States, transaction markers, coordinator moves, settings and records equal those of the same
    folder read locally.
    """
    folder = tmp_path / "capture"
    shutil.copytree(SAMPLE, folder)
    here = open_capture(folder)
    with with_remote_files(spark, open_capture(folder.as_uri())) as there:
        assert here.states
        assert here.batches
        assert there.states == here.states
        assert there.batches == here.batches
        assert there.beside is not None
        assert read_context(there.beside) == read_context(folder)
        assert there.table is not None
        assert there.table.read_data_frame(spark).count() == here.records


def test_a_remote_capture_has_the_sizes_of_changelogs(spark, tmp_path: Path, monkeypatch) -> None:
    """Sizes of stores come from ``topics.parquet``, as in a local capture; a larger file is a note."""
    folder = tmp_path / "capture"
    shutil.copytree(SAMPLE, folder)
    sizes = topic_sizes(folder, suffix="-changelog")
    assert sizes
    with with_remote_files(spark, open_capture(folder.as_uri())) as there:
        assert there.beside is not None
        assert topic_sizes(there.beside, suffix="-changelog") == sizes
        assert there.notes == ()
    monkeypatch.setattr("partage.jobs.replay.capture._LARGEST_TOPICS", 1_000)
    with with_remote_files(spark, open_capture(folder.as_uri())) as there:
        assert there.beside is not None
        assert topic_sizes(there.beside) == {}
        (note,) = there.notes
        assert note.startswith(f"{folder.as_uri()}/topics.parquet has ")


def test_files_beside_a_remote_table_count(spark, tmp_path: Path) -> None:
    """The address of the records finds the files one folder above, as a local path does."""
    shutil.copytree(SAMPLE, tmp_path / "capture")
    records = tmp_path / "capture" / "consumer_offsets.parquet"
    here = open_capture(records)
    with with_remote_files(spark, open_capture(records.as_uri())) as there:
        assert there.states == here.states
        assert there.batches == here.batches


def test_parts_that_no_manifest_counts_are_not_read(spark, tmp_path: Path) -> None:
    """A capture of `partage capture` is what its manifest says, at an address too."""
    for name in ("consumer_offsets.parquet", "batches.parquet"):
        (tmp_path / name).mkdir()
        file = SAMPLE / name
        one = file if file.is_file() else next(file.glob("*.parquet"))
        for number in (0, 1):
            shutil.copy(one, tmp_path / name / f"part-{number:08d}.parquet")
    CaptureManifest(parts=[CapturePart(0)], next_part=1).save_manifest(tmp_path)
    here = open_capture(tmp_path)
    with with_remote_files(spark, open_capture(tmp_path.as_uri())) as there:
        assert there.table is not None
        assert there.table.read_data_frame(spark).count() == here.records
        assert there.batches == here.batches


def test_what_is_wrong_at_an_address_is_named(spark, tmp_path: Path) -> None:
    """No folder, damaged metadata, an unknown host: the message has the address."""
    nowhere = (tmp_path / "nothing").as_uri()
    with (
        pytest.raises(InvalidCaptureError, match="no such folder"),
        with_remote_files(spark, open_capture(nowhere)),
    ):
        pass
    (tmp_path / "cluster.jsonl").write_text("{\nnot json\n")
    with (
        pytest.raises(InvalidCaptureError, match="line 1: not JSON") as caught,
        with_remote_files(spark, open_capture(tmp_path.as_uri())),
    ):
        pass
    assert str(caught.value).startswith(f"{tmp_path.as_uri()}/cluster.jsonl")
    with (
        pytest.raises(InvalidCaptureError, match="no-such-host"),
        with_remote_files(spark, open_capture("hdfs://no-such-host.invalid:8020/capture")),
    ):
        pass
