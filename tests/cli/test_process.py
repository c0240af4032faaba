"""The command as a process: pipes that close, a full disk, a terminal, a foreign locale."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.captured import SAMPLE

PARTAGE = [sys.executable, "-m", "partage"]
PROBLEM = '{"topics": {"t-é": 3}, "members": [{"id": "c1", "topics": ["t-é"]}]}'


def run(*arguments: str, **how) -> subprocess.CompletedProcess:
    how = {"input": b"", "capture_output": True, "timeout": 120} | how
    return subprocess.run([*PARTAGE, *arguments], check=False, **how)


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    """`partage decode ... | head -1`: no traceback, no message, exit code 0."""
    process = subprocess.Popen(
        [*PARTAGE, "decode", str(SAMPLE)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["partition"] == 0
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert said == b""


@pytest.mark.parametrize("command", [["strategies"], ["assign", "-"], ["decode", str(SAMPLE)]])
def test_a_closed_stdout_is_one_line(command) -> None:
    """`partage ... >&-`: one line on stderr, exit code 1."""
    line = " ".join([*PARTAGE, *command])
    done = subprocess.run(
        ["sh", "-c", f"{line} >&-"], input=PROBLEM.encode(), capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert "standard output is closed" in done.stderr.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("command", [["strategies"], ["assign", "-"], ["decode", str(SAMPLE)]])
def test_a_full_disk_is_one_line(command) -> None:
    """A device without space: one line that says so, exit code 1."""
    with Path("/dev/full").open("wb") as full:
        done = run(*command, input=PROBLEM.encode(), stdout=full, stderr=subprocess.PIPE,
                   capture_output=False)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.decode().count("\n") == 1
    assert "No space left" in done.stderr.decode()


def test_any_locale_and_any_width() -> None:
    """Names that a terminal's locale lacks: JSON stays UTF-8, tables spell them out."""
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "20", "LC_ALL": "C"}
    done = run("assign", "-", input=PROBLEM.encode(), env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("utf-8"))["assignment"] == {
        "c1": [["t-é", 0], ["t-é", 1], ["t-é", 2]]
    }
    done = run("compare", "-", input=PROBLEM.encode(), env=env)
    assert done.returncode == 0, done.stderr


def test_a_person_gets_a_table() -> None:
    """On a terminal the plan is a table, and nothing in a name commands the terminal."""
    problem = {"topics": {"\x1b[2Jt": 4}, "members": [{"id": "c1", "topics": ["\x1b[2Jt"]}]}
    here, there = pty.openpty()
    process = subprocess.Popen(
        [*PARTAGE, "assign", "-"], stdin=subprocess.PIPE, stdout=there, stderr=there,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"},
    )  # fmt: skip
    process.communicate(json.dumps(problem).encode(), timeout=60)
    os.close(there)
    shown = os.read(here, 65_536).decode()
    os.close(here)
    assert process.returncode == 0
    assert r"\x1b[2Jt 0-3" in shown
    assert "\x1b[2J" not in shown
    assert "spread 0" in shown


def test_answers_come_as_problems_come() -> None:
    """`--jsonl` answers a line before the next one is written: it can be talked to."""
    process = subprocess.Popen(
        [*PARTAGE, "assign", "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(3):
        process.stdin.write(PROBLEM.encode() + b"\n")
        process.stdin.flush()
        assert "assignment" in json.loads(process.stdout.readline())
    process.stdin.close()
    assert process.stdout.read() == b""
    process.stdout.close()
    assert process.wait(timeout=60) == 0


def test_help_is_quick() -> None:
    """A help text loads neither Spark nor pyarrow, numba or jinja2."""
    script = (
        "import sys; sys.argv = ['partage', 'demo', '--help']\n"
        "from partage.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'pyarrow', 'pyspark', 'jinja2', 'pandas'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
