"""`partage replay --append`: a run that continues the last one gives the tables of a full run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.support.captured import SAMPLE
from tests.support.cuts import cut, cuts, difference, part_of, summary_of, tables_of

import partage as pg
from partage.errors import InvalidConfigError
from partage.jobs.replay import decode, output, simulations, state_files
from partage.jobs.replay.output import has_complete_rows
from partage.jobs.replay.replay import replay
from partage.runs.published_run import PublishedRun
from partage.simulation import cumulative

POLICY = ["eager/range"]
#: Of the sample's metadata, so that a small run is short.
EVERY = 8


def run(folder: Path, out: Path, *, append: bool = True, **more) -> dict:
    more = {"engine": "local", "policies": POLICY} | more
    return replay(folder, out, append=append, **more)


def grow(folder: Path, count: int | None = None) -> Path:
    """A small capture after so many of its records."""
    table = part_of()
    return cut(folder, table, table.num_rows if count is None else count, every=EVERY)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a full run over the small capture."""
    folder = tmp_path_factory.mktemp("whole")
    run(grow(folder / "c"), folder / "out", append=False)
    return folder / "out"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture cut off inside a transaction (``c``), and a run that can be continued (``out``)."""
    folder = tmp_path_factory.mktemp("started")
    run(grow(folder / "c", _in_a_transaction()), folder / "out")
    state = _state(folder / "out")
    assert json.loads(state["tally"])["commits"]["open"] == 1
    assert state["open_commits"] is not None
    return folder


def _in_a_transaction() -> int:
    """The number of records up to one whose transaction ends later, near two thirds of them."""
    batches = parquet.read_table(SAMPLE / "batches.parquet").to_pylist()
    data = {
        (row["partition"], row["base_offset"])
        for row in batches if row["transactional"] and not row["control"]
    }  # fmt: skip
    rows = part_of().select(["partition", "offset"]).to_pylist()
    start = 2 * len(rows) // 3
    return next(
        i + 1 for i, row in enumerate(rows)
        if i > start and (row["partition"], row["offset"]) in data
    )  # fmt: skip


def _state(out: Path) -> dict:
    path = out / "runs" / str(PublishedRun(out).summary["run_id"]) / output.STATE
    return json.loads(path.read_text(encoding="utf-8"))


def _copy(started: Path, folder: Path) -> tuple[Path, Path]:
    shutil.copytree(started, folder, dirs_exist_ok=True)
    return folder / "c", folder / "out"


def test_ten_random_cuts_in_a_row(tmp_path: Path, whole: Path) -> None:
    """After ten appending runs and a last one, tables and summary are those of one full run."""
    rows = part_of().num_rows
    out = tmp_path / "out"
    for i, count in enumerate([*cuts(10, rows, seed=7), rows]):
        found = run(grow(tmp_path / "c", count), out)
        assert (found["append"]["from"] is None) == (i == 0)
        assert "reason" not in found["append"]
    assert difference(out, tables_of(whole)) == ""
    assert summary_of(out) == summary_of(whole)
    assert len(_state(out)["decoded"]) < 8, "stored rows are merged from time to time"
    state = _state(out)
    stored = {p.relative_to(out).as_posix() for p in (out / "state").rglob("*") if p.is_file()}
    memo = {block[0] for group in state["groups"].values() for block in group["memo"]}
    for group in state["groups"].values():
        for one in group["simulations"].values():
            memo.update(state_files.StoredSimulation.from_json_fields(one).file_paths())
        memo.update(state_files.StoredHistory.from_json_fields(group["history"]).file_paths())
    assert stored == {*state["decoded"], *memo, *filter(None, [state["open_commits"]])}


def test_a_transaction_that_ends_later_counts_then(
    tmp_path: Path, started: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit is stored undecoded, and takes effect at its marker; the run is made in Python."""
    folder, out = _copy(started, tmp_path)
    simulated: list[int] = []
    applied: list[int] = []
    real, real_apply = (
        simulations.simulate_rebalance,
        cumulative._Simulation._apply_membership_changes,
    )

    def simulate(rebalance, *more, **how):
        simulated.append(rebalance.generation.generation_number)
        return real(rebalance, *more, **how)

    def apply(simulation, rebalance):
        applied.append(rebalance.generation.generation_number)
        real_apply(simulation, rebalance)

    monkeypatch.setattr(simulations, "simulate_rebalance", simulate)
    monkeypatch.setattr(cumulative._Simulation, "_apply_membership_changes", apply)
    with pytest.raises(InvalidConfigError, match="append: needs out"):
        pg.replay(folder, append=True)
    found = pg.replay(grow(folder), policies=POLICY, out=out, append=True, engine="local").summary
    assert found["append"]["new_records"] == part_of().num_rows - _in_a_transaction()
    before = len(_state(started / "out")["groups"]["ledger-copy"]["memo"][0][3])
    assert before > 5
    assert len(simulated) <= found["coverage"]["rebalances"] - before + 2, "results are stored"
    assert len(applied) <= found["coverage"]["rebalances"] - before + 2, "states are stored"
    assert difference(out, tables_of(whole)) == ""
    assert summary_of(out) == summary_of(whole)


def test_only_new_files_are_read_and_only_their_groups_replayed(
    tmp_path: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of other groups stay where they are, and so do their tables' rows."""
    folder, out = _copy(started, tmp_path)
    rows = part_of().slice(0, _in_a_transaction())
    new = rows.slice(rows.num_rows - 1)
    old = folder / "consumer_offsets.parquet"
    old.rename(folder / "old.parquet")
    old.mkdir()
    (folder / "old.parquet").rename(old / "part-0.parquet")
    first = run(folder, out)["append"]
    assert (first["new_records"], first["groups_replayed"]) == (0, 0), "the file has another name"
    again = new.set_column(1, "offset", pa.array([10**6], pa.int64()))
    parquet.write_table(again, old / "part-1.parquet")
    read: list[str] = []
    real = decode.read_slice
    monkeypatch.setattr(
        decode, "read_slice", lambda one, **how: read.append(one.path) or real(one, **how)
    )
    before = {one["path"]: one["rows"] for one in _state(out)["receipts"]}
    second = run(folder, out)["append"]
    assert [Path(path).name for path in read] == ["part-1.parquet"]
    assert (second["new_records"], second["groups_replayed"], second["groups_kept"]) == (1, 1, 2)
    third = run(folder, out)["append"]
    assert (third["new_records"], third["groups_replayed"], third["groups_kept"]) == (0, 0, 3)
    kept = {one["path"] for one in _state(out)["receipts"]}
    again_used = {Path(path).name for path in kept & before.keys()}
    assert again_used, "rows that no later record changes stay where they are"
    assert all(map(has_complete_rows, again_used)), "other rows of unchanged groups are copied"
    fourth = {one["path"] for one in _state(out)["receipts"]}
    assert fourth == kept, "a run without new records copies nothing"


def _lose(folder: Path) -> None:
    table = part_of().slice(0, _in_a_transaction())
    parquet.write_table(table.slice(1), folder / "consumer_offsets.parquet")


def _change(folder: Path) -> None:
    table = part_of().slice(0, _in_a_transaction()).to_pylist()
    table[3]["value"] = table[3]["value"][:-1] + b"\x07"
    schema = part_of().schema
    parquet.write_table(
        pa.Table.from_pylist(table, schema=schema), folder / "consumer_offsets.parquet"
    )


def _end_a_transaction(folder: Path) -> None:
    table = parquet.read_table(folder / "batches.parquet").to_pylist()
    for row in table:
        if row["control_type"] == "COMMIT":
            row["control_type"] = "ABORT"
    parquet.write_table(pa.Table.from_pylist(table), folder / "batches.parquet")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_lose, "1 records of log partition . that were read before are not in the capture"),
        (_change, "old records of log partition . differ from those read before"),
        (_end_a_transaction, "batches.parquet differs for records that were read before"),
    ],
)
def test_a_capture_whose_old_part_differs_is_read_again(
    tmp_path: Path, started: Path, spoil, reason: str
) -> None:
    """The summary says why, and the tables are those of a full run."""
    folder, out = _copy(started, tmp_path)
    spoil(folder)
    found = run(folder, out)
    assert found["append"]["new_records"] == found["accounting"]["records"]
    assert re.search(reason, found["append"]["reason"])
    assert re.search(
        f"could not be continued: .*{reason}.*All records were read", found["notes"][0]
    )
    if spoil is _lose:
        run(folder, tmp_path / "full", append=False)
        assert difference(out, tables_of(tmp_path / "full")) == ""


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"policies": ["eager/roundrobin"]}, "--policy differs: it was ['eager/range'], now"),
    ],
)
def test_other_options_start_again(tmp_path: Path, started: Path, more: dict, reason: str) -> None:
    """The tables of the last run answer another question."""
    folder, out = _copy(started, tmp_path)
    assert reason in run(folder, out, **more)["append"]["reason"]


def test_worker_processes_continue_a_run(tmp_path: Path, started: Path, whole: Path) -> None:
    """Two processes read the new records and continue stored simulations, with equal tables."""
    folder, out = _copy(started, tmp_path)
    found = run(grow(folder), out, processes=2)
    assert "reason" not in found["append"]
    assert difference(out, tables_of(whole)) == ""


def test_a_state_of_an_older_version_is_rebuilt(
    tmp_path: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has both versions; a missing state, row file or table file is named too."""
    folder, out = _copy(started, tmp_path)
    stored = state_files.VERSION
    monkeypatch.setattr(state_files, "VERSION", 99)
    assert (
        f"state has version {stored}, this Partage has 99" in run(folder, out)["append"]["reason"]
    )
    for path in (out / "state").rglob("decoded-*"):
        path.unlink()
    assert "decoded-0" in run(folder, out)["append"]["reason"]
    run(folder, out, append=False)
    assert run(folder, out)["append"]["reason"] == "it was made without --append"


def test_a_kill_at_any_step_of_publishing_leaves_the_old_run(
    tmp_path: Path, started: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next appending run starts from what is published, whatever the killed one has written."""
    folder, out = _copy(started, tmp_path)
    grow(folder)
    before, expected = tables_of(out), tables_of(whole)
    write = output._write_atomically

    class Killed(BaseException):
        pass

    for step in (0, 2, 4):  # state, summary, manifest; then the folder's summary and manifest
        done: list[Path] = []

        def killed(
            path: Path, value: object, done: list = done, step: int = step, **how: int | None
        ) -> None:
            if len(done) == step:
                raise Killed
            done.append(path)
            write(path, value, **how)

        with monkeypatch.context() as patch:
            patch.setattr(output, "_write_atomically", killed)
            # A killed process cleans nothing up.
            patch.setattr("partage.jobs.replay.replay._remove_run_files", lambda *_: None)
            with pytest.raises(Killed):
                run(folder, out)
        assert difference(out, before) == "", f"after step {step}"
    found = run(folder, out)
    assert "reason" not in found["append"]
    assert difference(out, expected) == ""


_SCRIPT = """
import sys
from partage.jobs.replay.replay import replay
replay(sys.argv[1], sys.argv[2], append=True, engine="local", policies=["eager/range"],
       progress=lambda stage, done, total: print(stage, done, flush=True))
"""


def _process(folder: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SCRIPT, str(folder), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _seconds_of_publishing(folder: Path, out: Path) -> float:
    """Run to the end; return how long it took from the beginning of publishing."""
    with _process(folder, out) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "publish 0\n":
            assert process.poll() is None
        began = time.monotonic()
        assert process.wait(timeout=60) == 0
        return time.monotonic() - began


@pytest.mark.soak
def test_kills_at_random_moments_of_publishing(tmp_path: Path, started: Path, whole: Path) -> None:
    """After SIGKILL at any moment the old run or the new one is published, and the next appending
    run gives the tables of a full run.
    """
    expected, random = tables_of(whole), Random(3)
    grow(_copy(started, tmp_path / "measured")[0])
    seconds = _seconds_of_publishing(tmp_path / "measured" / "c", tmp_path / "measured" / "out")
    before = tables_of(started / "out")
    published: list[bool] = []
    for number in range(20):
        folder, out = _copy(started, tmp_path / str(number))
        grow(folder)
        for _ in range(random.randint(1, 2)):
            with _process(folder, out) as process:
                assert process.stdout is not None
                while process.stdout.readline() != "publish 0\n":
                    assert process.poll() is None
                time.sleep(random.uniform(0, seconds))
                process.kill()
                process.wait(timeout=30)
            published.append(difference(out, before) != "")
            assert not published[-1] or difference(out, expected) == ""
        found = run(folder, out)
        assert "reason" not in found["append"], found["append"]
        assert difference(out, expected) == ""
        assert summary_of(out) == summary_of(whole)
        assert not [*(out / "running").glob("*")]
    assert False in published


def test_metadata_that_is_inferred_grows_with_the_log(tmp_path: Path, started: Path) -> None:
    """Without cluster.jsonl a new record may change what is known of the past."""
    folder = tmp_path / "c"
    for count in (600, None):
        grow(folder, count)
        (folder / "cluster.jsonl").unlink()
        found = run(folder, tmp_path / "out")
    assert found["coverage"]["cluster"] != "recorded"
    run(folder, tmp_path / "full", append=False)
    assert difference(tmp_path / "out", tables_of(tmp_path / "full")) == ""


@pytest.mark.soak
def test_ten_cuts_of_the_whole_sample(tmp_path: Path) -> None:
    """Each cut is continued to the end; tables and summary are those of one full run."""
    table = part_of(None)
    full = cut(tmp_path / "full", table, table.num_rows)
    replay(full, tmp_path / "expected", engine="local")
    expected = tables_of(tmp_path / "expected")
    for count in cuts(10, table.num_rows, seed=11):
        folder, out = tmp_path / f"c{count}", tmp_path / f"out{count}"
        replay(cut(folder, table, count), out, engine="local", append=True)
        replay(cut(folder, table, table.num_rows), out, engine="local", append=True)
        assert difference(out, expected) == "", count
        assert summary_of(out) == summary_of(tmp_path / "expected"), count


@pytest.mark.spark
@pytest.mark.soak
def test_spark_continues_what_one_process_has_begun(
    spark, tmp_path: Path, started: Path, whole: Path
) -> None:
    """Both engines write the same state and the same tables."""
    folder, out = _copy(started, tmp_path)
    found = run(grow(folder), out, engine="spark", spark=spark)
    assert found["append"]["from"] is not None
    assert difference(out, tables_of(whole)) == ""
    for engine in ({"engine": "spark", "spark": spark}, {"engine": "local"}):
        found = run(folder, out, **engine)
        assert found["append"]["groups_kept"] == 3
        assert difference(out, tables_of(whole)) == ""
