"""What starts or talks to other processes has in common: it closes, and its tools may be missing."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SOMETHING_IS_MISSING = 3


class Closes(contextlib.AbstractContextManager):
    """Closed at the end of a ``with`` block, whatever happened in it."""

    def close(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.close()


def skip(reason: str) -> NoReturn:
    """Skip the test by name; where nothing may be missing (.ci/run), fail instead."""
    if os.environ.get("PARTAGE_SKIP_NOTHING"):
        pytest.fail(f"may not be skipped here: {reason}", pytrace=False)
    pytest.skip(reason)


@functools.cache
def _done(tool: str, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "tools" / tool, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def built(tool: str, *arguments: str) -> None:
    """What a script of ``tools`` makes is there: it runs once. A test is skipped where something is
    missing, and fails where the script does.
    """
    done = _done(tool, arguments)
    said = done.stderr.strip()
    if done.returncode == _SOMETHING_IS_MISSING:
        skip(said.splitlines()[-1])
    assert done.returncode == 0, f"tools/{tool} failed:\n{said}"


def client_python(name: str) -> str:
    """The Python of a client's environment (tools/clients); made on the first call."""
    built("clients.sh", name)
    return str(ROOT / ".tools" / "clients" / name / "bin" / "python")


class JsonLines(Closes):
    """A Python program that answers a JSON line with a JSON line; ended by its id."""

    def __init__(self, command: list[str | Path], hash_seed: str) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
        )

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()

    def _write(self, text: str) -> None:
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def _read(self) -> Any:
        return json.loads(self._process.stdout.readline())
