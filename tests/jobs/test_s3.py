"""Captures and outputs in S3: `partage` as users type it, with a server of that protocol."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.captures import capture, records, rows_of
from tests.support.s3 import KEY, SECRET, S3Server, s3_class_path

from partage.jobs.replay.replay import replay
from partage.runs.published_run import PublishedRun
from partage.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.soak]
POLICIES = ["eager/range"]


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return s3_class_path(tmp_path_factory.mktemp("jars"))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, server: S3Server) -> Path:
    """The run of a capture in a local folder, beside the capture, which is in S3, too."""
    folder = tmp_path_factory.mktemp("local")
    capture(folder / "capture", records().slice(0, 10_000))
    server.upload(folder / "capture", "capture")
    replay(folder / "capture", folder / "run", policies=POLICIES, engine="local")
    return folder / "run"


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "partage", *words]


def partage(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("AWS_")}
    environment |= {"AWS_EC2_METADATA_DISABLED": "true"}
    return subprocess.run(
        command(*words), capture_output=True, text=True, check=False, timeout=600, env=environment
    )


def replayed(
    server: S3Server, class_path: str, *more: str, source: str = "s3a://lake/capture"
) -> list[str]:
    words = ["replay", source, "--out", "s3a://lake/run", "--policy", *POLICIES, "--quiet"]
    return [*words, *more, *server.conf(class_path)]


def expect_equal(server: S3Server, folder: Path, local: Path) -> str:
    """The newest run in S3 has the rows of the local run; return its id."""
    server.download("run", folder)
    for name in set(TABLES) - {"runs"}:
        assert rows_of(folder, name) == rows_of(local, name), name
    return PublishedRun(folder).summary["run_id"]


def test_a_run_in_s3_is_whole_or_invisible(
    server: S3Server, class_path: str, local: Path, tmp_path: Path
) -> None:
    """Tables equal the local ones; a run killed while it publishes changes nothing; the next run
    removes what it left.
    """
    done = partage(*replayed(server, class_path))
    assert done.returncode == 0, done.stderr
    first = expect_equal(server, tmp_path / "1", local)
    assert "run/report.html" in server.names("run")
    page = server.client.get_object(Bucket="lake", Key="run/report.html")["Body"].read()

    killed: list[str] = []
    uploaded: list[str] = []
    with subprocess.Popen(
        command(*replayed(server, class_path)), start_new_session=True
    ) as process:

        def kill(path: str) -> None:
            if "/tables/" in path:
                uploaded.append(path)
            if len(uploaded) == 5 and not killed:
                killed.append(path.split("/tables/")[1].split("/")[1])
                os.killpg(process.pid, signal.SIGKILL)

        server.on_put = kill
        process.wait(timeout=600)
        server.on_put = lambda _: None
    assert process.returncode == -signal.SIGKILL
    (dead,) = killed
    assert f"run/running/{dead}.json" in server.names("run")
    assert expect_equal(server, tmp_path / "2", local) == first

    # A run continues another one if its capture is local.
    words = replayed(server, class_path, "--append", source=str(local.parent / "capture"))
    for folder, new in (("3", 10_000), ("4", 0)):
        done = partage(*words)
        assert done.returncode == 0, done.stderr
        assert expect_equal(server, tmp_path / folder, local) != first
        assert PublishedRun(tmp_path / folder).summary["append"]["new_records"] == new
    assert not [name for name in server.names("run") if dead in name or "/running/" in name]
    assert server.client.get_object(Bucket="lake", Key="run/report.html")["Body"].read() != page

    done = partage("report", "s3a://lake/run", "--format", "terminal", *server.conf(class_path))
    assert done.returncode == 0, done.stderr
    assert "time unread" in done.stdout


@pytest.mark.parametrize(
    ("out", "credentials", "message"),
    [
        ("s3a://no-such-bucket/run", True, "there is no such bucket"),
        ("s3a://lake/other", False, "no credentials were found"),
    ],
)
def test_an_unusable_address_is_one_line(
    server: S3Server, class_path: str, local: Path, *, out: str, credentials: bool, message: str
) -> None:
    """It has the option, the address and what to do, without a traceback and without secrets."""
    done = partage(
        "replay", "s3a://lake/capture", "--out", out, "--quiet",
        *server.conf(class_path, credentials=credentials),
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("partage: --out: cannot be used (")
    assert message in line
    assert out in line
    assert KEY not in line
    assert SECRET not in line


def test_deltalake_writes_beside_a_run_in_s3(
    server: S3Server, class_path: str, local: Path
) -> None:
    """Without Delta's jars the library writes the tables, with the credentials of the settings."""
    from deltalake import DeltaTable

    done = partage(*replayed(server, class_path, "--format", "delta"))
    assert done.returncode == 0, done.stderr
    options = {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server.endpoint, "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    found = DeltaTable("s3://lake/run/delta/rebalances", storage_options=options)
    assert found.to_pyarrow_table().num_rows == len(rows_of(local, "rebalances"))
