"""`partage replay --append` continues stored histories; each table is that of a full run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cuts import cut, cuts, difference, part_of, tables_of

from partage.jobs.replay import append, group_rows, histories, simulations, spill_files
from partage.jobs.replay.group_rows import GroupRows
from partage.jobs.replay.output import has_complete_rows
from partage.jobs.replay.replay import replay
from partage.runs.published_run import PublishedRun

POLICY = ["eager/range"]
#: Tables whose rows of a group are in log order.
IN_LOG_ORDER = ("events", "members", "ownership", "pauses", "rebalances", "unread")


def run(folder: Path, out: Path, *, is_appended: bool = True) -> dict:
    return replay(folder, out, append=is_appended, engine="local", policies=POLICY, processes=1)


def grow(folder: Path, count: int | None = None) -> Path:
    """A small capture after so many of its records."""
    table = part_of()
    return cut(folder, table, table.num_rows if count is None else count, every=8)


def rows_by_group(out: Path, table: str) -> dict[str, list[str]]:
    """The rows of each group in the order of the table, without the run's id."""
    found: dict[str, list[str]] = {}
    for row in PublishedRun(out).table(table).to_pylist():
        row.pop("run_id")
        found.setdefault(row["group"], []).append(json.dumps(row, default=repr))
    return found


@pytest.fixture
def read_records(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the group records that histories have processed."""
    offsets: list[int] = []
    real = GroupRows.process_record

    def process_record(rows: GroupRows, record) -> None:
        offsets.append(record.position.offset)
        real(rows, record)

    monkeypatch.setattr(GroupRows, "process_record", process_record)
    return offsets


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a full run over the small capture."""
    folder = tmp_path_factory.mktemp("whole")
    run(grow(folder / "c"), folder / "out", is_appended=False)
    return folder / "out"


def test_only_new_group_records_are_processed(
    tmp_path: Path, whole: Path, read_records: list[int]
) -> None:
    """No old record is processed again, and rows of a group stay in log order."""
    count = 3 * part_of().num_rows // 4
    run(grow(tmp_path / "c", count), tmp_path / "out")
    old = len(read_records)
    assert old > 20
    run(grow(tmp_path / "c"), tmp_path / "out")
    new = len(read_records) - old
    assert 0 < new < old
    run(tmp_path / "c", tmp_path / "full", is_appended=False)
    assert len(read_records) - old - new == old + new
    assert difference(tmp_path / "out", tables_of(whole)) == ""
    for table in IN_LOG_ORDER:
        assert rows_by_group(tmp_path / "out", table) == rows_by_group(whole, table), table


def test_files_and_chunks_of_many_runs_are_merged(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merging keeps all rows, and their order in a group."""
    monkeypatch.setattr(append, "_MOST_COMPLETE_FILES", 2)
    monkeypatch.setattr(spill_files, "_MOST_CHUNKS", 1)
    monkeypatch.setattr(spill_files, "_BEHIND", 2)
    monkeypatch.setattr(group_rows, "_MOST_PENDING", 2)
    rows = part_of().num_rows
    for count in [*cuts(6, rows, seed=3), rows]:
        run(grow(tmp_path / "c", count), tmp_path / "out")
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
        for files in manifest["tables"].values():
            names = [Path(one["path"]).name for one in files]
            assert sum(map(has_complete_rows, names)) <= 4
    run(tmp_path / "c", tmp_path / "full", is_appended=False)
    assert difference(tmp_path / "out", tables_of(tmp_path / "full")) == ""
    for table in IN_LOG_ORDER:
        expected = rows_by_group(tmp_path / "full", table)
        assert rows_by_group(tmp_path / "out", table) == expected, table


def test_a_damaged_history_is_rebuilt(tmp_path: Path, whole: Path, read_records: list[int]) -> None:
    """A flipped byte in the stored history costs time, and changes no table."""
    run(grow(tmp_path / "c", 3 * part_of().num_rows // 4), tmp_path / "out")
    old = len(read_records)
    (path,) = (tmp_path / "out" / "state").rglob("history-*.spill")
    blob = bytearray(path.read_bytes())
    for i in range(0, len(blob), 100):
        blob[i] ^= 1
    path.write_bytes(blob)
    found = run(grow(tmp_path / "c"), tmp_path / "out")
    assert "reason" not in found["append"]
    assert len(read_records) - old > old
    assert difference(tmp_path / "out", tables_of(whole)) == ""


def test_a_history_that_is_too_large_is_not_stored(
    tmp_path: Path, whole: Path, read_records: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run rebuilds it, so memory is bounded."""
    monkeypatch.setattr(histories, "_MOST_STORED_ENTRIES", 10)
    run(grow(tmp_path / "c", 3 * part_of().num_rows // 4), tmp_path / "out")
    old = len(read_records)
    run(grow(tmp_path / "c"), tmp_path / "out")
    assert len(read_records) - old > old
    assert difference(tmp_path / "out", tables_of(whole)) == ""


def test_metadata_of_the_past_rebuilds_a_history(
    tmp_path: Path, whole: Path, read_records: list[int]
) -> None:
    """A metadata state that is older than the newest record is used for old rebalances, too."""
    folder = grow(tmp_path / "c", 3 * part_of().num_rows // 4)
    states = (folder / "cluster.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "cluster.jsonl").write_text(states[0], encoding="utf-8")
    run(folder, tmp_path / "out")
    old = len(read_records)
    run(grow(tmp_path / "c"), tmp_path / "out")
    assert len(read_records) - old > old
    assert difference(tmp_path / "out", tables_of(whole)) == ""


def test_groups_without_new_records_are_continued(tmp_path: Path, read_records: list[int]) -> None:
    """A new topic concerns every group; their histories are continued without any record."""
    folder = grow(tmp_path / "c")
    run(folder, tmp_path / "out")
    old = len(read_records)
    states = (folder / "cluster.jsonl").read_text(encoding="utf-8").splitlines()
    newest = json.loads(states[-1])
    newest["ts_ms"] = 3_000 + max(
        row["timestamp_ms"] for row in part_of().select(["timestamp_ms"]).to_pylist()
    )
    newest["topics"]["new"] = {"id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": [{"p": 0}]}
    text = "".join(f"{line}\n" for line in [*states, json.dumps(newest)])
    (folder / "cluster.jsonl").write_text(text, encoding="utf-8")
    found = run(folder, tmp_path / "out")["append"]
    assert (found["new_records"], found["groups_kept"]) == (0, 0)
    assert len(read_records) == old
    run(folder, tmp_path / "full", is_appended=False)
    assert difference(tmp_path / "out", tables_of(tmp_path / "full")) == ""
    for table in IN_LOG_ORDER:
        expected = rows_by_group(tmp_path / "full", table)
        assert rows_by_group(tmp_path / "out", table) == expected, table


def test_a_topic_id_that_becomes_known_rebuilds_a_history(
    tmp_path: Path, read_records: list[int]
) -> None:
    """Records of a consumer group name topics by id; the name is used for the past, too."""
    table = part_of(("clicks-v2",))
    folder = cut(tmp_path / "c", table, table.num_rows, every=8)
    states = [json.loads(line) for line in (folder / "cluster.jsonl").read_bytes().splitlines()]
    newest_ms = max(table["timestamp_ms"].to_pylist()) + 10_000
    states = [state for state in states if state["ts_ms"] < newest_ms]
    known = {name: topic for state in states for name, topic in state["topics"].items()}
    unnamed = [{**state, "topics": {}} for state in states]
    _write_states(folder, unnamed)
    run(folder, tmp_path / "out")
    old = len(read_records)
    assert old
    _write_states(folder, [*unnamed, {**states[-1], "ts_ms": newest_ms, "topics": known}])
    run(folder, tmp_path / "out")
    assert len(read_records) == 2 * old
    run(folder, tmp_path / "full", is_appended=False)
    assert difference(tmp_path / "out", tables_of(tmp_path / "full")) == ""


def _write_states(folder: Path, states: list[dict]) -> None:
    text = "".join(f"{json.dumps(state)}\n" for state in states)
    (folder / "cluster.jsonl").write_text(text, encoding="utf-8")


def test_rows_of_a_streams_application_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are simulated again after a new rebalance, and only then."""
    simulated: list[str] = []
    real = simulations.streams_settings_rows

    def streams_settings_rows(group: str, *more) -> Iterator[dict]:
        simulated.append(group)
        return real(group, *more)

    monkeypatch.setattr(simulations, "streams_settings_rows", streams_settings_rows)
    table = part_of(("ship-join",))
    for count, expected in ((table.num_rows // 2, 1), (table.num_rows - 1, 2), (table.num_rows, 2)):
        folder = cut(tmp_path / "c", table, count, every=8)
        run(folder, tmp_path / "out")
        assert len(simulated) == expected
    run(folder, tmp_path / "full", is_appended=False)
    assert difference(tmp_path / "out", tables_of(tmp_path / "full")) == ""
