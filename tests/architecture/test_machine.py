"""What a person without Java, with an old one, or without Python 3.10 is shown, and when."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from architecture.source_tree import ROOT

TOOLS = ("bash", "make", "awk", "sed", "head", "dirname", "env", "grep", "find")


@pytest.fixture
def bare(tmp_path) -> Path:
    """A clone's verbs, and a PATH that has neither Java nor Python."""
    if not all(shutil.which(tool) for tool in TOOLS):
        pytest.skip(f"needs {', '.join(TOOLS)}")
    shutil.copytree(ROOT / "tools", tmp_path / "clone" / "tools")
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path / "clone")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    return tmp_path


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def _says(version: str) -> str:
    return f"echo '{version}' >&2"


def _make(bare: Path, verb: str, **more: str) -> subprocess.CompletedProcess:
    env = {"PATH": str(bare / "bin"), "HOME": str(bare), **more}
    return subprocess.run(
        ["make", "--silent", verb],
        cwd=bare / "clone",
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def _output(done: subprocess.CompletedProcess) -> str:
    """The one line that is not make's own."""
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    return line


def test_without_java_one_sentence_and_nothing_is_fetched(bare) -> None:
    """No Java: one sentence that says what to install; no environment has been begun."""
    output = _output(_make(bare, "test"))
    assert output.startswith("No Java")
    assert "install Java 17" in output
    assert not (bare / "clone" / ".venv").exists()


@pytest.mark.parametrize(
    "version",
    ['openjdk version "11.0.2" 2019-01-15', 'java version "1.8.0_402"', 'openjdk version "16-ea"'],
)
def test_an_old_java_is_named_with_its_version(bare, version) -> None:
    """Java 8 (which calls itself 1.8), 11 and 16 are too old, and the sentence says which it is."""
    _program(bare / "bin" / "java", _says(version))
    output = _output(_make(bare, "test"))
    assert version.split('"')[1] in output
    assert "too old" in output
    assert "install Java 17" in output
    assert not (bare / "clone" / ".venv").exists()


def test_java_home_goes_before_the_path(bare) -> None:
    """JAVA_HOME decides, as in Spark: an old one there is refused though the PATH has a new one."""
    _program(bare / "bin" / "java", _says('openjdk version "21.0.1"'))
    _program(bare / "old" / "bin" / "java", _says('openjdk version "11.0.2"'))
    output = _output(_make(bare, "test", JAVA_HOME=str(bare / "old")))
    assert "JAVA_HOME" in output
    assert "11.0.2" in output


def test_the_demo_needs_no_java(bare) -> None:
    """Without Java, `make demo` goes on to look for Python."""
    assert "Python 3.10" in _output(_make(bare, "demo"))


@pytest.mark.parametrize("version", ['"17.0.15" 2025-04-15', '"21" 2023-09-19', '"25-ea"'])
def test_a_new_java_passes_and_python_is_next(bare, version) -> None:
    """Java 17 and later pass; then a machine without Python 3.10 gets its sentence."""
    _program(bare / "bin" / "java", _says(f"openjdk version {version}"))
    _program(bare / "bin" / "python3", "exit 1")
    output = _output(_make(bare, "test"))
    assert "Python 3.10" in output
    assert not (bare / "clone" / ".venv").exists()


def test_make_alone_lists_every_verb(bare) -> None:
    """`make` prints each verb that the documentation names, with what it does."""
    done = _make(bare, "help")
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    assert listed >= {"demo", "test", "lint", "types", "bench", "docs", "parity", "fuzz", "soak"}
    assert done.returncode == 0
