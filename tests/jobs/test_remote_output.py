"""Outputs at an address, through Hadoop: `file://` stands for a store with an atomic rename."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.captures import capture, records, rows_of

from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.jobs.replay.output import describe_process
from partage.jobs.replay.remote_output import OutputFolder, downloaded_run, open_output
from partage.jobs.replay.replay import replay
from partage.jobs.spark.remote_files import RemoteFiles
from partage.runs.published_run import PublishedRun
from partage.tables.schemas import TABLES

pytestmark = pytest.mark.spark
POLICIES = ["eager/range"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return capture(tmp_path / "c", records().slice(0, 5_000))


@contextmanager
def opened(out: Path, work: Path, **more):
    steps: list[tuple[str, int, int]] = []
    with open_output(
        out.as_uri(), "c", progress=lambda *step: steps.append(step), work_dir=work, **more
    ) as output:
        yield output
    assert not list(work.iterdir()), "the work folder is removed"


def run(folder: Path, output: OutputFolder, page: str = "", **more) -> str:
    """Replay a capture in this process, and publish the run with a page."""
    summary = replay(folder, output.folder, policies=POLICIES, engine="local", **more)
    path = output.folder / "report.html"
    path.write_text(page)
    output.publish(summary["run_id"], path if page else None, lambda *_: None)
    return summary["run_id"]


def files_in(out: Path) -> set[str]:
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}


def test_a_run_at_an_address_equals_a_local_one(spark, folder: Path, tmp_path: Path) -> None:
    """It has the same files and rows, earlier runs stay, and no temporary file is left."""
    out, work, local = tmp_path / "out", tmp_path / "work", tmp_path / "local"
    with opened(out, work) as output:
        first = run(folder, output, page="1")
    with opened(out, work) as output:
        second = run(folder, output, page="2")
    replay(folder, local, policies=POLICIES, engine="local")
    assert PublishedRun(out).summary["run_id"] == second
    assert PublishedRun(out, first).summary["run_id"] == first
    assert (out / "report.html").read_text() == "2"
    for name in set(TABLES) - {"runs"}:
        assert rows_of(out, name) == rows_of(local, name), name
    assert not (out / "running").exists()
    assert not [name for name in files_in(out) if "/." in f"/{name}"]


def test_a_run_at_an_address_is_continued(spark, tmp_path: Path) -> None:
    """With --append it reads new records only, and replaces the state at the address."""
    out, work, every = tmp_path / "out", tmp_path / "work", records().slice(0, 5_000)
    for count in (3_000, 5_000):
        folder = capture(tmp_path / "c", every.slice(0, count))
        with opened(out, work, append=True) as output:
            run_id = run(folder, output, append=True)
    summary = PublishedRun(out).summary
    assert summary["append"]["new_records"] == 2_000
    state = json.loads((out / "runs" / run_id / "state.json").read_bytes())
    assert set(state["decoded"]) <= files_in(out)
    replay(folder, tmp_path / "local", policies=POLICIES, engine="local")
    for name in set(TABLES) - {"runs"}:
        assert rows_of(out, name) == rows_of(tmp_path / "local", name), name
    with opened(out, work) as output:
        run(folder, output)
    assert not (out / "state").exists(), "a run without --append keeps no state"


def test_a_failed_upload_leaves_the_earlier_run(
    spark, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    """Readers see no part of a run whose manifest was not written, and its files are removed."""
    out, work = tmp_path / "out", tmp_path / "work"
    with opened(out, work) as output:
        first = run(folder, output)
    before = files_in(out)
    write = RemoteFiles.publish

    def fail(self, local: Path, address: str) -> None:
        assert PublishedRun(out).summary["run_id"] == first
        if local.name == "manifest.json":
            raise self._files.getFileStatus(self._path(f"{address}/nothing"))
        write(self, local, address)

    monkeypatch.setattr(RemoteFiles, "publish", fail)
    with (
        pytest.raises(
            InvalidConfigError, match=r"--out: cannot be used \(.*nothing does not exist"
        ),
        opened(out, work) as output,
    ):
        run(folder, output)
    assert files_in(out) == before
    assert PublishedRun(out).summary["run_id"] == first


def test_the_files_of_a_killed_upload_are_removed(spark, folder: Path, tmp_path: Path) -> None:
    """The next run removes them if their process ran on this host; those of others may be alive."""
    out, work = tmp_path / "out", tmp_path / "work"
    hosts = {"killed": {}, "elsewhere": {"host": "another"}}
    for name, more in hosts.items():
        marker = describe_process() | {"began": "earlier", "locked": False} | more
        for file in (f"running/{name}.json", f"tables/events/{name}/part-1.parquet"):
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            (out / file).write_text(json.dumps(marker))
    killed = work / "partage-work-dead"
    (killed / "running").mkdir(parents=True)
    (killed / "running" / "work.json").write_text(json.dumps(describe_process() | {"began": "-"}))
    with opened(out, work) as output:
        run(folder, output)
    assert not (out / "tables" / "events" / "killed").exists()
    assert (out / "tables" / "events" / "elsewhere").exists()
    assert [path.name for path in (out / "running").iterdir()] == ["elsewhere.json"]


def test_readers_download_a_run(spark, folder: Path, tmp_path: Path) -> None:
    """`partage report` takes an address; a missing run and a path out of the folder are errors."""
    out = tmp_path / "out"
    with opened(out, tmp_path / "work") as output:
        run_id = run(folder, output)
    for wanted in (None, run_id):
        with downloaded_run(out.as_uri(), wanted) as found:
            rows = PublishedRun(found.folder, wanted).table("events")
            assert rows == PublishedRun(out).table("events")
            (found.folder / "report.html").write_text("new")
            found.publish_page(found.folder / "report.html")
    with (
        pytest.raises(InvalidCaptureError, match="no run 'x' here"),
        downloaded_run(out.as_uri(), "x"),
    ):
        pass
    manifest = json.loads((out / "manifest.json").read_bytes())
    (out / "manifest.json").write_text(json.dumps(manifest | {"summary": "../../x"}))
    with pytest.raises(InvalidConfigError, match="leads out of it"), downloaded_run(out.as_uri()):
        pass


@pytest.mark.parametrize(
    ("out", "more", "message"),
    [
        ("nosuch://bucket/run", {}, "--out: cannot be used .*no connector for nosuch://"),
        ("abfss://a@b.invalid/run", {}, r"spark.jars.packages=org.apache.hadoop:hadoop-azure:3\."),
        (
            "s3a://KEY:SECRET@bucket",
            {},
            r"must have no password.*got 's3a://KEY:\[hidden\]@bucket'",
        ),
        ("file:///tmp/x", {"engine": "local"}, "--engine: must be spark or auto"),
        ("here", {"work_dir": Path("w")}, "--work-dir: is for an --out at an address"),
        ("file:///tmp/x", {"table_format": "iceberg"}, "--catalog: is needed for Iceberg"),
    ],
)
def test_what_is_wrong_with_an_output_is_named(spark, out: str, more: dict, message: str) -> None:
    """The error names the option, the reason and what to give, without secrets."""
    with (
        pytest.raises(InvalidConfigError, match=message) as caught,
        open_output(out, "c", progress=lambda *_: None, **more),
    ):
        pass
    assert "SECRET" not in str(caught.value)


def test_other_files_at_the_address_are_left_alone(spark, tmp_path: Path) -> None:
    """A folder that is not Partage's is an error, and nothing is written."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("x")
    with (
        pytest.raises(InvalidConfigError, match="must be empty or an earlier output"),
        opened(tmp_path / "out", tmp_path / "work"),
    ):
        pass
    assert files_in(tmp_path / "out") == {"thesis.tex"}
