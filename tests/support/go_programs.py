"""Go programs of the tests: they are built once, into `.tools`."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.support.processes import ROOT, skip

if TYPE_CHECKING:
    from pathlib import Path

_LACKING = ("dial tcp", "no such host", "toolchain not available", "connection refused")


def built_go(folder: Path, name: str, package: str = ".") -> Path:
    """Return the program of a Go module; skip the test where Go or its modules cannot be had.

    Args:
        folder: the module, with ``go.mod``.
        name: file name of the built program.
        package: folder of the program's ``main.go`` within the module.
    """
    program = ROOT / ".tools" / name
    program.parent.mkdir(exist_ok=True)
    # Of two test runs that start at once the second waits for the first.
    with program.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = [folder / one for one in (f"{package}/main.go", "go.mod", "go.sum")]
        newest = max(one.stat().st_mtime for one in sources)
        if program.exists() and program.stat().st_mtime > newest:
            return program
        go = shutil.which("go")
        if go is None:
            skip("no go: install Go to run its clients")
        done = subprocess.run(
            [go, "build", "-mod=readonly", "-o", program, f"./{package}"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode and any(word in done.stderr for word in _LACKING):
        skip(f"Go's modules cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return program
