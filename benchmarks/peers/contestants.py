"""Who takes part: how each is built, what it can plan, and a process that does it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CLASSIC = ("range", "roundrobin", "sticky")


@dataclass(frozen=True)
class Said:
    """A contestant's answer: the JSON line and the plan, or why there is none."""

    line: dict[str, Any] | None = None
    owner: Any = None
    why: str = ""


class MissingError(Exception):
    """A contestant that cannot be built here; says what it lacks."""


def built(command: list[str], *, cwd: Path = ROOT, lacks: str) -> None:
    """Run a build; what goes wrong is a reason to skip the contestant by name."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as e:
        raise MissingError(f"{lacks} ({e.strerror})") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no word"]
        raise MissingError(f"{lacks}: {said[-1]}")


@functools.cache
def java() -> list[str]:
    """Kafka's classes in a JVM with its own defaults, and room enough."""
    built([str(ROOT / "tools" / "jvm.sh")], lacks="tools/jvm.sh")
    home = os.environ.get("JAVA_HOME")
    target = ROOT / "jvm" / "target"
    path = os.pathsep.join([str(target / "classes"), str(target / "lib" / "*")])
    command = str(Path(home) / "bin" / "java") if home else "java"
    return [command, "-Xmx8g", "-cp", path, "io.partage.parity.Timings"]


@functools.cache
def franz_go() -> list[str]:
    """Our Go program on franz-go's published module."""
    program = HERE / ".bin" / "franz-go"
    built(["go", "build", "-o", str(program), "."], cwd=HERE / "franz-go", lacks="no Go")
    return [str(program)]


def client(name: str) -> list[str]:
    """A Python client in the environment of peers."""
    return [*_peers(), str(HERE / "python_clients.py"), name]


@functools.cache
def _peers() -> list[str]:
    built([str(ROOT / "tools" / "peers.sh")], lacks="tools/peers.sh")
    return [str(ROOT / ".tools" / "peers" / "bin" / "python")]


def ours() -> list[str]:
    """This very checkout."""
    return [sys.executable, str(HERE / "ours.py")]


COMMANDS = {
    "Java": java,
    "franz-go": franz_go,
    "kafka-python": lambda: client("kafka-python"),
    "aiokafka": lambda: client("aiokafka"),
    "ours": ours,
}


def ask(
    who: str,
    spec: dict[str, Any],
    folder: Path,
    limits: tuple[int, int, float, float],
    patience: float,
) -> Said:
    """One process on one problem; it is ended after ``patience`` seconds."""
    problem, plan = folder / "problem.json", folder / "plan.bin"
    problem.write_text(json.dumps(spec, separators=(",", ":")))
    try:
        command = COMMANDS[who]()
    except MissingError as e:
        return Said(why=f"skipped: {e}")
    try:
        done = subprocess.run(
            [*command, str(problem), str(plan), *map(str, limits)],
            capture_output=True, text=True, check=False, timeout=patience, cwd=HERE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Said(why=f"not done after {patience:.0f} s")
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no word"]
        return Said(why=f"failed: {said[-1][:100]}")
    line = json.loads(done.stdout.splitlines()[-1])
    return Said(line, np.fromfile(plan, "<i4").astype(np.int32))


@functools.cache
def server() -> subprocess.Popen[str]:
    """Return our one process that answers problem after problem."""
    return subprocess.Popen(
        [*ours(), "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
    )


def ask_server(spec: dict[str, Any], folder: Path, limits: tuple[int, int, float, float]) -> Said:
    """Ask ours in a process that has compiled its kernels and keeps running."""
    problem, plan = folder / "problem.json", folder / "plan.bin"
    problem.write_text(json.dumps(spec, separators=(",", ":")))
    running = server()
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(json.dumps([str(problem), str(plan), *limits]) + "\n")
    running.stdin.flush()
    answer = running.stdout.readline()
    if not answer:
        server.cache_clear()
        return Said(why="failed: the process ended")
    return Said(json.loads(answer), np.fromfile(plan, "<i4").astype(np.int32))


def cold(strategy: str) -> dict[str, Any]:
    """Ours on 12 partitions in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE / "cold.py"), strategy],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
