"""The two versions: a wheel of the base, the checkout, and an environment with the locked
requirements of each.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

__all__ = ["ROOT", "Version", "base_version", "current_version"]

ROOT = Path(__file__).resolve().parents[2]

_HOME = ROOT / ".tools" / "same"
_BIN = ROOT / ".venv" / "bin"
# As tools/setup.sh installs for a run, and the solver that proves `partage reassign`.
_EXTRAS = ("spark", "report", "capture", "plan")


class Version(NamedTuple):
    """A version that can be run.

    Attributes:
        name: for messages.
        python: interpreter with the locked requirements.
        path: folder that holds the package ``partage``.
    """

    name: str
    python: Path
    path: Path

    def environment(self) -> dict[str, str]:
        """Return the environment variables of a process that runs this version."""
        return os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.path), str(ROOT / "tools")]),
            "PYTHONHASHSEED": "0",
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
        }


def base_version(base: str) -> Version:
    """Build and unpack the wheel of a tag or commit, once for each commit."""
    commit = _output("git", "-C", str(ROOT), "rev-parse", f"{base}^{{commit}}")[:12]
    home = _HOME / "wheels" / commit
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit], check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", str(source)], check=True, input=archive.stdout)
        python = _environment(source)
        if not (home / "partage").exists():
            dist = Path(folder) / "dist"
            _run(_uv(), "build", "--quiet", "--wheel", "--out-dir", str(dist), str(source))
            (wheel,) = dist.glob("*.whl")
            # Unpacked beside its final place: an interrupted run must not leave half a package.
            unpacked = home.with_suffix(".new")
            shutil.rmtree(unpacked, ignore_errors=True)
            _install(python, "--no-deps", "--target", str(unpacked), str(wheel))
            unpacked.rename(home)
    return Version(f"{base} ({commit})", python, home)


def current_version() -> Version:
    """Return the checkout, with its own locked requirements."""
    return Version("this checkout", _environment(ROOT), ROOT / "src")


def _environment(source: Path) -> Path:
    """Return the interpreter of an environment with the requirements that ``source`` locks.

    Versions with one lock file share it; neither version of Partage is installed there.
    """
    home = _HOME / "environments" / hashlib.sha256(_requirements(source)).hexdigest()[:12]
    python = home / "bin" / "python"
    ready = home / ".ready"
    if not ready.exists():
        print(f"installing the locked requirements into {home.relative_to(ROOT)}", flush=True)
        _run(_uv(), "venv", "--quiet", "--clear", "--python", str(_BIN / "python"), str(home))
        listed = home / "requirements.txt"
        listed.write_bytes(_requirements(source))
        _install(python, "--require-hashes", "--no-deps", "--requirement", str(listed))
        ready.touch()
    return python


def _requirements(source: Path) -> bytes:
    extras = [word for extra in _EXTRAS for word in ("--extra", extra)]
    listed = _output(
        _uv(), "export", "--frozen", "--quiet", "--no-header", "--no-annotate",
        "--no-emit-project", "--format", "requirements-txt", "--project", str(source), *extras,
    )  # fmt: skip
    return listed.encode()


def _install(python: Path, *words: str) -> None:
    """Install with uv, or with pip where only pip knows the package index."""
    command = (_uv(), "pip", "install", "--quiet", "--python", str(python), *words)
    if subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode:
        pip = (str(_BIN / "python"), "-m", "pip", "--python", str(python))
        _run(*pip, "install", "--quiet", "--disable-pip-version-check", *words)


def _uv() -> str:
    return str(_BIN / "uv")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
