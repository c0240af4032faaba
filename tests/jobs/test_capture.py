from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.support.captured import SAMPLE

from partage.capture.manifest import CaptureManifest, CapturePart
from partage.errors import InvalidCaptureError
from partage.jobs.replay.capture import Slice, open_capture, read_slice

COLUMNS = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp_ms": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
}


def capture(folder: Path, columns: dict, rows: list[dict] = ({},)) -> Path:
    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pylist([dict.fromkeys(columns) | r for r in rows], pa.schema(columns))
    parquet.write_table(table, folder / "consumer_offsets.parquet")
    shutil.copy(SAMPLE / "cluster.jsonl", folder)
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(InvalidCaptureError) as caught:
        open_capture(folder)
    return str(caught.value)


def test_the_sample_is_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded cluster opens: its 94,434 records in slices, its metadata and batches."""
    monkeypatch.setattr("partage.jobs.replay.records.MOST_ROWS", 40_000)
    found = open_capture(SAMPLE)
    assert [s.rows for s in found.slices] == [40_000, 40_000, 14_434]
    assert (found.records, len(found.states)) == (94_434, 22)
    assert [t.num_rows for t in read_slice(found.slices[1], batch_rows=30_000)] == [20_000, 20_000]
    whole = parquet.read_table(SAMPLE / "consumer_offsets.parquet", columns=["offset"])
    parts = [t["offset"].to_pylist() for s in found.slices for t in read_slice(s, batch_rows=7_777)]
    assert [o for part in parts for o in part] == whole["offset"].to_pylist()
    assert found.batches is not None
    assert all(b["transactional"] for b in found.batches)


def test_a_large_row_group_is_cut_into_few_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice reads its row group from the start, so there are at most four of one."""
    monkeypatch.setattr("partage.jobs.replay.records.MOST_ROWS", 1_000)
    assert len(open_capture(SAMPLE).slices) == 4


def test_no_such_folder(tmp_path: Path) -> None:
    """A folder that is not there is named, and so is a file that is no Parquet file."""
    assert "no such folder" in refused(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    assert "consumer_offsets.parquet: no such file" in refused(tmp_path / "file")


def test_no_records_file(tmp_path: Path) -> None:
    """A folder without consumer_offsets.parquet says which file it lacks."""
    assert "consumer_offsets.parquet: no such file" in refused(tmp_path)
    (tmp_path / "consumer_offsets.parquet").mkdir()
    assert "no Parquet files" in refused(tmp_path)


def test_an_empty_capture(tmp_path: Path) -> None:
    """Zero records are an error with a hint: internal topics come back empty to many readers."""
    assert "empty (0 records)" in refused(capture(tmp_path / "c", COLUMNS, []))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column(tmp_path: Path, column: str) -> None:
    """Each column that is missing is named, beside those that are there."""
    rest = {name: kind for name, kind in COLUMNS.items() if name != column}
    assert f"column {column} is missing (found: " in refused(capture(tmp_path / "c", rest))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_wrong_type(tmp_path: Path, column: str) -> None:
    """Each column of a wrong type is named, with the type it has and the one it should have."""
    message = refused(capture(tmp_path / "c", COLUMNS | {column: pa.float64()}))
    assert f"column {column} must be " in message
    assert "is double" in message


def test_other_widths_are_welcome(tmp_path: Path) -> None:
    """Any integer width and large binary are read; workers see one form."""
    wide = {"partition": pa.int64(), "offset": pa.uint32(), "timestamp_ms": pa.int64(),
            "key": pa.large_binary(), "value": pa.large_binary()}  # fmt: skip
    row = {"partition": 1, "offset": 2, "timestamp_ms": 3, "key": b"k", "value": b"v"}
    found = open_capture(capture(tmp_path / "c", wide, [row]))
    (table,) = read_slice(found.slices[0])
    assert table.to_pylist() == [row]
    assert table.schema.field("key").type == pa.binary()
    assert found.batches is None


@pytest.mark.parametrize("partition", [2**31, -(2**31) - 1, 2**63 - 1])
def test_a_partition_is_an_int32(tmp_path: Path, partition: int) -> None:
    """No table could hold another: our error with the file, not a worker's stack trace later."""
    row = {"partition": partition, "offset": 2, "timestamp_ms": 3, "key": b"k", "value": b"v"}
    found = open_capture(capture(tmp_path / "c", COLUMNS | {"partition": pa.int64()}, [row]))
    with pytest.raises(InvalidCaptureError, match=f"cannot be read.*{partition}"):
        list(read_slice(found.slices[0]))


def test_not_parquet(tmp_path: Path) -> None:
    """A file that is no Parquet file is named; so is one that ends in the middle."""
    folder = capture(tmp_path / "c", COLUMNS)
    file = folder / "consumer_offsets.parquet"
    whole = file.read_bytes()
    file.write_bytes(b"not parquet at all")
    assert "not a readable Parquet file" in refused(folder)
    file.write_bytes(whole[: len(whole) // 2])
    assert "not a readable Parquet file" in refused(folder)


def test_a_column_name_that_is_no_text(tmp_path: Path) -> None:
    """A flipped bit in the footer can spoil a name's UTF-8, which pyarrow tells in its own way."""
    folder = capture(tmp_path / "c", COLUMNS)
    file = folder / "consumer_offsets.parquet"
    file.write_bytes(file.read_bytes().replace(b"timestamp_ms", b"timestamp_m\xee"))
    assert "not a readable Parquet file" in refused(folder)


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    """Damage that only reading finds is our error with file and row group, not a stack trace."""
    folder = tmp_path / "c"
    folder.mkdir()
    file = folder / "consumer_offsets.parquet"
    damaged = bytearray((SAMPLE / "consumer_offsets.parquet").read_bytes())
    damaged[1000:60_000] = bytes(59_000)
    file.write_bytes(damaged)
    with pytest.raises(InvalidCaptureError, match="row group 0 cannot be read"):
        list(read_slice(Slice(str(file), 0, 0, 94_434)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no lines"),
        ("{", "line 1: not JSON"),
        ("[]", "line 1: must be an object"),
        ('{"ts_ms": "x"}', "line 1: ts_ms must be"),
        ('{"ts_ms": 1, "brokers": 5}', "line 1: brokers must be"),
        ('{"ts_ms": 1, "brokers": [], "topics": []}', "line 1: topics must be"),
        (
            '{"ts_ms": 1, "brokers": [], "topics": {"t": {"partitions": [{}]}}}',
            "topics.t.partitions",
        ),
        (
            '{"ts_ms": 1, "brokers": [], "topics": {"t": {"id": [], "partitions": []}}}',
            "line 1: topics.t.id must be text or null",
        ),
        ('{"ts_ms": 1, "brokers": [{"id": "x"}], "topics": {}}', "brokers[0].id"),
        ('{"ts_ms": 1, "brokers": [{"id": true}], "topics": {}}', "brokers[0].id"),
        ('{"ts_ms": 1, "brokers": [{}], "topics": {}}', "brokers[0].id"),
        ('{"ts_ms": true, "brokers": [], "topics": {}}', "line 1: ts_ms must be"),
        (
            '{"ts_ms": 1, "brokers": [], "topics": {"t": {"partitions": [{"p": 0}, {"p": true}]}}}',
            "line 1: topics.t.partitions[1] must be an object with an int p",
        ),
        ('{"ts_ms": 1, "brokers": [], "topics": {"t": 5}}', "line 1: topics.t must be an object"),
    ],
)
def test_bad_metadata(tmp_path: Path, text: str, message: str) -> None:
    """Each way in which cluster.jsonl can be wrong is named with its line."""
    folder = capture(tmp_path / "c", COLUMNS, [{"partition": 0}])
    (folder / "cluster.jsonl").write_text(text)
    assert message in refused(folder)


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    """Who was killed while it wrote leaves a line without an end: it is left out and reported."""
    folder = tmp_path / "c"
    folder.mkdir()
    for name in ("consumer_offsets.parquet", "cluster.jsonl"):
        shutil.copy(SAMPLE / name, folder / name)
    whole = len(open_capture(folder).states)
    text = (folder / "cluster.jsonl").read_bytes()
    (folder / "cluster.jsonl").write_bytes(text.rstrip()[:-20])
    found = open_capture(folder)
    assert len(found.states) == whole - 1
    assert found.notes == ("The last line of cluster.jsonl is half written, and was left out.",)


def test_a_replay_repeats_the_warnings_of_its_capture(tmp_path: Path) -> None:
    """Records that a capture has lost are notes of the replay, the first five one by one."""
    folder = capture(tmp_path / "c", COLUMNS, [{"partition": 0}])
    records = folder / "consumer_offsets.parquet"
    part = CapturePart(0)
    records.rename(tmp_path / part.file_name)
    records.mkdir()
    (tmp_path / part.file_name).rename(records / part.file_name)
    manifest = CaptureManifest(parts=[part], next_part=1, records=1)
    manifest.save_manifest(folder)
    assert open_capture(folder).notes == ()
    for partition in range(7):
        manifest.add_warning(f"partition {partition}: 9 offsets (1 to 9) are missing")
    manifest.save_manifest(folder)
    notes = [
        f"The capture has a warning: partition {p}: 9 offsets (1 to 9) are missing."
        for p in range(5)
    ]
    notes.append("The capture has 2 more warnings: see capture.json.")
    assert list(open_capture(folder).notes) == notes
    assert list(open_capture(records).notes) == notes


def test_no_metadata(tmp_path: Path) -> None:
    """Without cluster.jsonl and batches.parquet there are no states and no batches: reported later."""
    folder = capture(tmp_path / "c", COLUMNS, [{"partition": 0}])
    (folder / "cluster.jsonl").unlink()
    found = open_capture(folder)
    assert (found.states, found.batches, found.records) == ((), None, 1)


def test_two_clusters(tmp_path: Path) -> None:
    """Metadata of two clusters means that their captures are mixed: both ids are named."""
    folder = capture(tmp_path / "c", COLUMNS, [{"partition": 0}])
    states = [{"ts_ms": i, "brokers": [], "topics": {}, "cluster_id": f"c-{i}"} for i in (1, 2)]
    (folder / "cluster.jsonl").write_text("\n".join(json.dumps(s) for s in states))
    assert "lines of several clusters (c-1, c-2)" in refused(folder)


def test_parquet_files_of_a_table(tmp_path: Path) -> None:
    """A file, a folder of files, and a partitioned folder are captures too."""
    row = {"partition": 3, "offset": 2, "timestamp_ms": 3, "key": b"k", "value": b"v"}
    file = capture(tmp_path / "one", COLUMNS, [row]) / "consumer_offsets.parquet"
    assert [s.rows for s in open_capture(file).slices] == [1]
    assert len(open_capture(file).states) == 22
    table = tmp_path / "table"
    for p in (3, 11):
        (table / f"partition={p}").mkdir(parents=True)
        cells = {n: [row[n]] for n in COLUMNS if n != "partition"}
        parquet.write_table(pa.table(cells), table / f"partition={p}" / "part-0.parquet")
    (table / "_temporary").mkdir()
    (table / "_temporary" / "half.parquet").write_bytes(b"")
    found = open_capture(table)
    tables = [t for s in found.slices for t in read_slice(s)]
    assert [t["partition"].to_pylist() for t in tables] == [[11], [3]]
    assert [t["offset"].to_pylist() for t in tables] == [[2], [2]]


def test_bad_batches(tmp_path: Path) -> None:
    """batches.parquet may be missing, but not malformed."""
    folder = capture(tmp_path / "c", COLUMNS, [{"partition": 0}])
    parquet.write_table(pa.table({"partition": [1]}), folder / "batches.parquet")
    assert "column base_offset is missing" in refused(folder)
    good = parquet.read_table(SAMPLE / "batches.parquet").slice(0, 200).to_pylist()
    schema = parquet.read_schema(SAMPLE / "batches.parquet")
    for row in good:
        row["producer_id"] = None
        row["transactional"] = True
    parquet.write_table(pa.Table.from_pylist(good, schema), folder / "batches.parquet")
    assert "column producer_id has nulls" in refused(folder)


def test_lines_of_metadata_may_come_in_any_order(tmp_path: Path) -> None:
    """States are ordered by their time, not by their line."""
    folder = capture(tmp_path / "c", COLUMNS, [{"partition": 0}])
    lines = (SAMPLE / "cluster.jsonl").read_text().splitlines()
    (folder / "cluster.jsonl").write_text("\n\n".join(reversed(lines)))
    from partage.history.clusters import ClusterHistory

    found = ClusterHistory(open_capture(folder).states)
    assert found.times == sorted(json.loads(line)["ts_ms"] for line in lines)
