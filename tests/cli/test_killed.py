"""A replay that is interrupted or loses a process: one line, nothing published, nobody left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.captures import capture, records

from partage.errors import InvalidCaptureError, InvalidConfigError, SparkFailedError
from partage.jobs.spark.failures import job_errors, jvm_errors

PROC = Path("/proc")
needs_proc = pytest.mark.skipif(not PROC.is_dir(), reason="no /proc to find processes in")


def _children(pid: int) -> list[int]:
    """All processes below one, in /proc."""
    parents = {}
    for found in PROC.glob("[0-9]*/stat"):
        try:
            fields = found.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(found.parent.name)] = int(fields[1])
    below, more = [], [pid]
    while more:
        parent = more.pop()
        more += [child for child, its in parents.items() if its == parent]
        below += [child for child, its in parents.items() if its == parent]
    return below


def _java(pid: int) -> list[int]:
    """The JVM among a process's descendants: not the launcher, which is gone in a moment."""
    found = []
    for p in _children(pid):
        with suppress(OSError):  # gone meanwhile
            if b"SparkSubmit" in (PROC / str(p) / "cmdline").read_bytes():
                found.append(p)
    return found


def _ended_by(tmp_path: Path, when: str, act) -> tuple[int, list[str], Path]:
    """Start a replay, do something to it once it says ``when``; its exit code and stderr."""
    folder, out = capture(tmp_path / "c", records().slice(0, 20_000)), tmp_path / "out"
    command = [sys.executable, "-m", "partage", "replay", str(folder), "--out", str(out)]
    # A background job of a shell ignores SIGINT, and its children inherit that.
    with subprocess.Popen(
        [*command, "-s", "range"], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no other threads hold locks here
    ) as process:  # fmt: skip
        assert process.stderr is not None
        while when not in process.stderr.readline():
            assert process.poll() is None
        deadline = time.monotonic() + 60
        while not _java(process.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        everybody = _children(process.pid)
        act(process.pid)
        said = process.stderr.read().splitlines()
        code = process.wait(timeout=60)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any((PROC / str(p)).exists() for p in everybody):
        time.sleep(0.1)
    assert not [p for p in everybody if (PROC / str(p)).exists()]
    assert not [p for p in out.rglob("*") if p.is_file()]
    return code, [s for s in said if not (s.endswith("...") or s.startswith("  "))], out


@needs_proc
def test_ctrl_c_while_spark_starts(tmp_path) -> None:
    """Exit code 130 and one word; the JVM that was starting does not outlive us."""
    code, said, _ = _ended_by(tmp_path, "starting Spark", lambda pid: os.kill(pid, signal.SIGINT))
    assert (code, said) == (130, ["interrupted"])


@needs_proc
def test_ctrl_c_in_a_job(tmp_path) -> None:
    """The same while Spark works: no traceback of Py4J, no file of a run that is not published."""
    code, said, _ = _ended_by(tmp_path, "decoding", lambda pid: os.kill(pid, signal.SIGINT))
    assert (code, said) == (130, ["interrupted"])


@needs_proc
def test_a_killed_jvm_is_one_line(tmp_path) -> None:
    """Where the system kills Java (out of memory), the command says so, and that is all."""

    def kill(pid: int) -> None:
        os.kill(_java(pid)[0], signal.SIGKILL)

    code, said, _ = _ended_by(tmp_path, "decoding", kill)
    assert code == 1
    assert len(said) == 1, said
    assert said[0].startswith("partage: Spark's Java process ended in the middle of the run")


def test_what_workers_say_in_our_words(tmp_path) -> None:
    """A damaged page, a full disk, a dead worker; and what is not known goes through."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PythonException

    class JavaSaysError(Py4JJavaError):
        def __init__(self, text: str) -> None:
            self.text = text

        def __str__(self) -> str:
            return self.text

    full = "Traceback:\n  x\nOSError: [Errno 28] No space left on device\n"
    page = "Traceback:\npartage.errors.InvalidCaptureError: f: row group 0 cannot be read\n"
    cases = [
        (PythonException(full), InvalidConfigError, "cannot be written .No space left"),
        (PythonException(page), InvalidCaptureError, "^f: row group 0 cannot be read$"),
        (PythonException("ValueError: x"), PythonException, "ValueError: x"),
        (
            JavaSaysError("Python worker exited unexpectedly"),
            SparkFailedError,
            "a Python worker ended",
        ),
        (
            JavaSaysError("reading from pyspark.daemon's stdout"),
            SparkFailedError,
            "a Python worker ended",
        ),
        (JavaSaysError("something else"), JavaSaysError, "something else"),
        (OSError(28, "No space left on device"), InvalidConfigError, "No space left"),
        (ConnectionRefusedError(111, "refused"), SparkFailedError, "Java process ended"),
    ]
    for raised, expected, said in cases:
        with pytest.raises(expected, match=said), jvm_errors(), job_errors(tmp_path):
            raise raised
