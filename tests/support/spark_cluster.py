"""A Spark standalone cluster on the loopback interface: a master, workers, faults in executors."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.processes import Closes

_EXECUTOR = b"CoarseGrainedExecutorBackend"
_SECONDS = 300.0


@dataclass(frozen=True)
class Process:
    """A process by its id and start time, so that a reused id is never signalled."""

    pid: int
    began: str

    @classmethod
    def running(cls, pid: int) -> Process | None:
        stat = _stat(pid)
        return None if stat is None else cls(pid, stat[19])

    def is_running(self) -> bool:
        stat = _stat(self.pid)
        return stat is not None and stat[19] == self.began and stat[0] != "Z"

    def send(self, number: signal.Signals) -> None:
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def command(self) -> bytes:
        try:
            return Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return b""

    def descendants(self) -> list[Process]:
        """Every process below this one; empty if it has ended."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            stat = _stat(int(entry.name)) if entry.name.isdigit() else None
            if stat is not None:
                children.setdefault(int(stat[1]), []).append(int(entry.name))
        found, todo = [], [self.pid] if self.is_running() else []
        while todo:
            for pid in children.get(todo.pop(), ()):
                todo.append(pid)
                found.append(Process.running(pid))
        return [one for one in found if one is not None]


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name: state, parent, and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def wait_until(what: str, found: Callable[[], Any], seconds: float = _SECONDS) -> Any:
    """Return the first true result of a function; fail after some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = found()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


class StandaloneCluster(Closes):
    """A master and two workers, each with an address of its own, as processes of the wheel's `spark-class`.

    Everything that they start ends with the ``with`` block, and nothing else does.
    """

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1) -> None:
        self._folder, self._cores, self._memory = folder, cores, "1500m"
        self._started = set[Process]()
        self._daemons: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", "127.0.0.1", "master.Master", "--port", "0")
            self.url = wait_until("the master's address", self._address)
            self.workers = [self._start_worker(i) for i in range(workers)]
            wait_until(
                "registered workers", lambda: self._log().count("Registering worker") >= workers
            )
        except BaseException:
            self.close()
            raise

    def _log(self) -> str:
        return (self._folder / "master.log").read_text()

    def _address(self) -> str | None:
        match = re.search(r"Starting Spark master at (spark://[\d.:]+)", self._log())
        return match[1] if match and "New state: ALIVE" in self._log() else None

    def _start(self, name: str, host: str, what: str, *words: str) -> Process:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "SPARK_HOME": str(home), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._folder / name),
        }  # fmt: skip
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}",
                   "--host", host, "--webui-port", "0", *words]  # fmt: skip
        with (self._folder / f"{name}.log").open("wb") as log:
            daemon = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._daemons.append(daemon)
        process = Process.running(daemon.pid)
        assert process is not None, f"{name} has ended: {self._folder / name}.log"
        self._started.add(process)
        return process

    def _start_worker(self, number: int) -> Process:
        # Spark starts no speculative copy on the host of the first attempt: each has its own.
        name, host = f"worker-{number}", f"127.0.0.{number + 2}"
        return self._start(
            name, host, "worker.Worker", "--cores", str(self._cores), "--memory", self._memory,
            "--work-dir", str(self._folder / name), self.url,
        )  # fmt: skip

    def processes(self) -> set[Process]:
        """Every process that belongs to the cluster: daemons, executors, Python workers."""
        for one in tuple(self._started):
            self._started.update(one.descendants())
        return self._started

    def executors(self, worker: Process | None = None) -> list[Process]:
        """The running executors' JVMs, of one worker or of all."""
        found = chain_descendants([worker] if worker else self.workers)
        self._started.update(found)
        return [one for one in found if _EXECUTOR in one.command()]

    def close(self) -> None:
        """End all processes of the cluster, stopped ones too."""
        for _ in range(2):  # what was started meanwhile
            for one in self.processes():
                one.send(signal.SIGKILL)
        for daemon in self._daemons:
            daemon.wait()
        wait_until("the end of the cluster", lambda: not self._alive(), 30)

    def _alive(self) -> list[Process]:
        return [one for one in self._started if one.is_running()]


def chain_descendants(processes: Iterable[Process]) -> list[Process]:
    return [one for process in processes for one in process.descendants()]


@dataclass
class TaskEvents:
    """What Spark's event log says about the tasks of each stage of a replay.

    Attributes:
        started: stage of the replay -> tasks started, copies and repetitions included.
        speculative: stage of the replay -> speculative copies started.
        ended: stage of the replay -> reason of a task's end -> tasks.
        executors: executors that registered.
        removed: reasons for removed executors.
    """

    started: Counter[str] = field(default_factory=Counter)
    speculative: Counter[str] = field(default_factory=Counter)
    ended: dict[str, Counter[str]] = field(default_factory=dict)
    executors: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> TaskEvents:
        """Read the only event log below a folder."""
        found, stages = cls(), dict[int, str]()
        for event in _events(folder):
            kind = event["Event"]
            if kind == "SparkListenerJobStart":
                group = event["Properties"].get("spark.jobGroup.id", "").removeprefix("partage ")
                stages |= dict.fromkeys(event["Stage IDs"], group)
            elif kind == "SparkListenerExecutorAdded":
                found.executors.append(event["Executor ID"])
            elif kind == "SparkListenerExecutorRemoved":
                found.removed.append(event["Removed Reason"])
            elif kind in ("SparkListenerTaskStart", "SparkListenerTaskEnd"):
                found._add(stages[event["Stage ID"]], event)
        return found

    def _add(self, stage: str, event: dict[str, Any]) -> None:
        if event["Event"] == "SparkListenerTaskStart":
            self.started[stage] += 1
            self.speculative[stage] += event["Task Info"]["Speculative"]
            return
        reason = event["Task End Reason"]["Reason"]
        self.ended.setdefault(stage, Counter())[reason] += 1

    def lost(self, stage: str) -> int:
        """Tasks of a stage that ended with their executor."""
        return self.ended.get(stage, Counter())["ExecutorLostFailure"]


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    files = [path for path in folder.rglob("*") if path.is_file() and "appstatus" not in path.name]
    for path in sorted(files):
        if not path.name.startswith("."):
            for line in path.read_text().splitlines():
                yield json.loads(line)
