from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from partage.errors import InvalidConfigError, MissingJavaError
from partage.jobs.spark.session import SQL_SETTINGS, _expect_java, spark_session


def java(folder: Path, version: str) -> str:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)


def test_no_java_is_one_sentence(monkeypatch, tmp_path: Path) -> None:
    """Without Java on the PATH, or behind JAVA_HOME, the error says what to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingJavaError, match="no java on the PATH: install Java 17"):
        _expect_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingJavaError, match="without bin/java: install Java 17"):
        _expect_java()


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11)])
def test_an_old_java_is_named(monkeypatch, tmp_path: Path, version: str, major: int) -> None:
    """A Java that Spark 4 does not run on is refused with its version."""
    monkeypatch.setenv("JAVA_HOME", java(tmp_path / "jdk", version))
    with pytest.raises(MissingJavaError, match=f"is Java {major}: install Java 17"):
        _expect_java()


@pytest.mark.parametrize("version", ["17.0.15", "21", "something else"])
def test_a_new_java_is_welcome(monkeypatch, tmp_path: Path, version: str) -> None:
    """17 and later pass, and a version that we cannot read is left to Spark."""
    monkeypatch.setenv("JAVA_HOME", java(tmp_path / "jdk", version))
    _expect_java()


def test_spark_connect_is_refused() -> None:
    """A session without SparkContext is refused by name, not in the middle of a run."""

    class Remote:
        @property
        def sparkContext(self):
            raise AttributeError("JVM_ATTRIBUTE_NOT_SUPPORTED")

    with pytest.raises(InvalidConfigError, match="classic session"), spark_session(Remote()):
        pass


@pytest.mark.spark
def test_settings_go_back(spark) -> None:
    """A user's session has our settings during a run only."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "77")
    try:
        with spark_session(spark) as running:
            assert running is spark
            assert {n: spark.conf.get(n) for n in SQL_SETTINGS} == SQL_SETTINGS
        assert spark.conf.get(name) == "77"
    finally:
        spark.conf.set(name, SQL_SETTINGS[name])


@pytest.mark.spark
def test_workers_are_this_python(spark) -> None:
    """Workers run in the interpreter that has Partage installed."""
    import sys

    def where(batches):
        import sys as there

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([there.executable])], names=["python"])

    found = spark.range(1).mapInArrow(where, "python string").collect()
    assert os.path.realpath(found[0].python) == os.path.realpath(sys.executable)


@pytest.mark.spark
def test_a_master_that_spark_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    """`--master 'local[oops]'` is one line with Java's reason and without the secrets of --conf."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "partage", "replay", "-q", "src/partage/sample",
         "--out", str(tmp_path / "out"), "--master", "local[oops]",
         "--conf", "spark.hadoop.fs.s3a.secret.key=hunter2-and-more"],
        capture_output=True, text=True, check=False, timeout=240, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("partage: --master: Spark cannot be started with this master")
    assert "Could not parse Master URL" in line
    assert "spark.hadoop.fs.s3a.secret.key=[hidden]" in line
    assert "hunter2" not in line
