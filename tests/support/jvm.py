"""Kafka's own Java classes as an oracle: the class path, and a process that answers JSON lines.

    with JvmOracle("RangeOracle") as oracle:
        answer = oracle.ask({"topics": {"orders": 6}, "members": [...]})
        answers = oracle.ask_all(problems)

A program of ours in ``jvm/src/main/java/io/partage/parity`` reads one JSON value a line on
stdin and prints one a line on stdout, in the same order, nothing else.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.processes import ROOT, Closes, built, skip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ROOT", "JvmOracle", "java", "jvm_classpath", "skip"]

TARGET = ROOT / "jvm" / "target"
PACKAGE = "io.partage.parity"
_AT_ONCE = 500
_SECONDS_FOR_A_CHUNK = 300.0
#: A sample ends before code from Java's second compiler is worth the compilation.
_FIRST_COMPILER = [] if "PARTAGE_PARITY_N" in os.environ else ["-XX:TieredStopAtLevel=1"]
_JVM_OPTIONS = ["-XX:+UseSerialGC", *_FIRST_COMPILER]


def jvm_classpath() -> str:
    """The class path with Kafka 4.3.1 and our parity programs; builds it on the first call.

    Skips the test when Java, Maven or the network is missing, and fails when the build does.
    """
    built("jvm.sh")
    # `make drift`: the classes of another release before those of 4.3.1.
    other = os.environ.get("PARTAGE_KAFKA_JARS")
    first = [] if other is None else [str(Path(other) / "*")]
    return os.pathsep.join([str(TARGET / "classes"), *first, str(TARGET / "lib" / "*")])


def java() -> str:
    """The java command: JAVA_HOME's before the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


class JvmOracle(Closes):
    """A Java program that stays up and answers one JSON line with one JSON line."""

    def __init__(self, main_class: str, *args: str, heap: str = "768m") -> None:
        name = main_class if "." in main_class else f"{PACKAGE}.{main_class}"
        class_path = jvm_classpath()
        self.name = name
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            [java(), f"-Xmx{heap}", *_JVM_OPTIONS, "-cp", class_path, name, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )

    def ask(self, request: object) -> Any:
        """The answer to one request."""
        return next(self.ask_all([request]))

    def ask_all(self, requests: Iterable[object]) -> Iterator[Any]:
        """One answer for each request, in order; any number of requests."""
        waiting = iter(requests)
        while chunk := list(itertools.islice(waiting, _AT_ONCE)):
            yield from self._exchange(chunk)

    def _exchange(self, chunk: list[object]) -> list[Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        lines = b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in chunk)

        def write() -> None:
            # When the program died, the reader sees the end of its answers and tells why.
            with contextlib.suppress(BrokenPipeError):
                stdin.write(lines)
                stdin.flush()

        # A pipe holds 64 KiB: were one thread to write all and then read, both sides would
        # wait for each other. The timer turns a program that hangs into one that died.
        writer = threading.Thread(target=write, daemon=True)
        timer = threading.Timer(_SECONDS_FOR_A_CHUNK, self._process.kill)
        timer.start()
        writer.start()
        try:
            return [self._read(stdout.readline()) for _ in chunk]
        finally:
            timer.cancel()
            writer.join()

    def _read(self, line: bytes) -> Any:
        if line:
            return json.loads(line)
        code = self._process.wait()
        self._stderr.seek(0)
        said = self._stderr.read()[-4000:].decode(errors="replace")
        pytest.fail(f"{self.name} ended with {code} before it answered:\n{said}", pytrace=False)

    def kill(self) -> None:
        """End a program that never answers; a request under way fails its test."""
        self._process.kill()

    def close(self) -> None:
        """End the program; called by the with statement."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()
