"""The files of a stream: which rows count after repeated, merged and killed micro-batches."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from partage.errors import InvalidConfigError  # noqa: E402
from partage.jobs.watch import stream_output  # noqa: E402
from partage.jobs.watch.group_tables import TableRows, stream_schema  # noqa: E402
from partage.jobs.watch.stream_output import (  # noqa: E402
    StreamFolder,
    expect_stream_folder,
    write_changes,
)


def _rows(group: str, partition: int, *, final: bool) -> dict[str, Any]:
    """A change of table `unread` with one row."""
    schema = stream_schema("unread")
    row = {f.name: 0 if pa.types.is_integer(f.type) else group for f in schema}
    table = pa.Table.from_pylist([row | {"partition": partition}], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table)
    one = TableRows("unread", final, 1, sink.getvalue().to_pybytes())
    return {"group": group, **one._asdict()}


def _none(group: str) -> dict[str, Any]:
    return {"group": group, **TableRows("unread", False, 0, b"")._asdict()}


def _publish(folder: StreamFolder, batch: int, *changes: dict[str, Any]) -> dict[str, list[str]]:
    """Write and publish a micro-batch; return its files by table."""
    kinds = {"group": pa.string(), "table": pa.string(), "final": pa.bool_(),
             "length": pa.int64(), "data": pa.binary()}  # fmt: skip
    some = pa.RecordBatch.from_pylist(list(changes), schema=pa.schema(kinds))
    folder.merge_small_files(batch)
    (made,) = write_changes(str(folder.path), batch, [some])
    files = [tuple(json.loads(row["text"])) for row in made.to_pylist() if row["what"] == "file"]
    return folder.publish_batch(batch, files)


def _current(folder: StreamFolder) -> list[tuple[str, int]]:
    rows = folder.table("unread").to_pylist()
    return sorted((row["group"], row["partition"]) for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> StreamFolder:
    made = StreamFolder(tmp_path)
    made.create_folders()
    return made


def test_open_rows_count_until_the_group_has_newer_ones(folder: StreamFolder) -> None:
    """Final rows stay; open rows are replaced by group and table, also by none."""
    assert _current(folder) == []
    _publish(folder, 0, _rows("a", 1, final=True), _rows("a", 2, final=False),
             _rows("b", 3, final=False))  # fmt: skip
    assert _current(folder) == [("a", 1), ("a", 2), ("b", 3)]
    _publish(folder, 1, _rows("a", 4, final=False))
    assert _current(folder) == [("a", 1), ("a", 4), ("b", 3)]
    _publish(folder, 2, _none("b"))
    assert _current(folder) == [("a", 1), ("a", 4)]


def test_a_repeated_micro_batch_replaces_its_files(folder: StreamFolder) -> None:
    """A micro-batch that was written and not committed is written again, and counts once."""
    _publish(folder, 0, _rows("a", 1, final=True))
    _publish(folder, 0, _rows("a", 1, final=True))
    assert _current(folder) == [("a", 1)]
    assert len(list((folder.path / "tables" / "unread").iterdir())) == 1


def test_files_without_a_manifest_do_not_count(folder: StreamFolder) -> None:
    """A killed attempt leaves files; the next attempt of the micro-batch removes them."""
    changes = pa.RecordBatch.from_pylist([_rows("a", 9, final=True)])
    list(write_changes(str(folder.path), 3, [changes]))
    assert _current(folder) == []
    _publish(folder, 3, _rows("a", 1, final=True))
    assert _current(folder) == [("a", 1)]
    assert len(list((folder.path / "tables" / "unread").iterdir())) == 1


def test_merged_micro_batches_have_the_same_rows(
    folder: StreamFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merging changes no current row and leaves few files."""
    monkeypatch.setattr(stream_output, "_SPANS", (4, 16))
    for batch in range(23):
        _publish(folder, batch, _rows("a", batch, final=batch % 2 == 0), _rows("b", 7, final=False))
    expected = [("a", at) for at in (*range(0, 23, 2), 21)] + [("b", 7)]
    assert _current(folder) == sorted(expected)
    names = sorted(path.name for path in (folder.path / "batches").iterdir())
    assert names[:2] == ["00000000-00000015.json", "00000016-00000019.json"]
    assert len(names) == 5
    assert len(list((folder.path / "tables" / "unread").iterdir())) == 5


def test_a_crash_while_merging_counts_no_row_twice(
    folder: StreamFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest of the merged micro-batches counts if theirs are still there."""
    for batch in range(4):
        _publish(folder, batch, _rows("a", batch, final=True))
    monkeypatch.setattr(stream_output, "_SPANS", (4,))
    copies = {path: path.read_bytes() for path in (folder.path / "batches").iterdir()}
    folder.merge_small_files(4)
    for path, content in copies.items():
        path.write_bytes(content)
    assert _current(folder) == [("a", at) for at in range(4)]


def test_a_stream_of_another_layout_is_refused(tmp_path: Path) -> None:
    """States of another version cannot be read: the error names both layouts."""
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "source.json").write_text('{"source": "/a"}')
    with pytest.raises(InvalidConfigError, match=r"states of layout None, this version reads 2\."):
        expect_stream_folder(tmp_path, "/a")


def test_a_folder_belongs_to_one_source_and_one_process(folder: StreamFolder) -> None:
    """Another source or a second process is an error."""
    expect_stream_folder(folder.path.parent, "/a")
    expect_stream_folder(folder.path.parent, "/a")
    with pytest.raises(InvalidConfigError, match="stream of /a"):
        expect_stream_folder(folder.path.parent, "/b")
    with (
        folder.lock_folder(),
        pytest.raises(InvalidConfigError, match="another stream"),
        folder.lock_folder(),
    ):
        pass


def test_the_reason_of_the_jvm_is_in_the_error() -> None:
    """A runtime of another Spark version fails in the JVM: the error has the JVM's reason."""
    errors = pytest.importorskip("pyspark.errors")

    class Session:
        def sql(self, _: str) -> None:
            error = errors.PySparkException("An error occurred while calling o44.sql.")
            error.java_exception = SimpleNamespace(getMessage=lambda: "View is not an interface")
            raise error

    lake = stream_output.StreamLakeTables(Session(), "iceberg", "lake.k")
    with pytest.raises(InvalidConfigError, match=r"\(View is not an interface\); Spark needs"):
        lake.create_tables()
