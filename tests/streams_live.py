"""A real Kafka Streams application on a real broker, lived through and recorded.

    python -m tests.streams_live tests/data/streams/lived.json.xz

Three instances with one standby; one is killed, one with an empty disk is added and restores so
slowly that it is looked at more than once, the killed one comes back, and the leader is killed.
What the leaders saw and decided is written down by Kafka's own classes with a listener in them
(jvm/.../live/LeaderLog.java). ``tests/simulation/test_streams_lived.py`` plays it again.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.brokers import brokers
from tests.jvm import TARGET, java, jvm_classpath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.brokers import Brokers

NAME = "counts"
SETTINGS = {
    "num.standby.replicas": 1,
    "max.warmup.replicas": 1,
    "acceptable.recovery.lag": 100,
    "probing.rebalance.interval.ms": 60_000,
    "session.timeout.ms": 30_000,
    "heartbeat.interval.ms": 2_000,
}
THREADS = {"a": 1, "b": 2, "c": 1, "d": 1}
#: Milliseconds that an instance rests after every 50 restored records.
REST = {"d": 1_500}
TOPICS = {"lines": 4, "ticks": 2, "moves": 2, "out": 2}
INTERNAL = {"words-changelog": 4, "places-changelog": 2, "places-repartition": 2}
_RECORDS = 2_500
_LOGGER = "-Dorg.slf4j.simpleLogger."
#: Consumers tell, with the time, why they join; everybody else tells of trouble only.
_LOGS = (
    f"{_LOGGER}defaultLogLevel=warn",
    f"{_LOGGER}log.org.apache.kafka.clients.consumer.internals.ConsumerCoordinator=info",
    f"{_LOGGER}showDateTime=true",
    f"{_LOGGER}dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)
#: What a consumer says when it joins a group for the first time.
_JOINS = b"need to re-join with the given member-id"
_CALM_SECONDS = 10.0
_MOST_SECONDS = 900.0


class Stage:
    """The application with its instances, and the clock of the recording."""

    def __init__(self, cluster: Brokers, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        jars = jvm_classpath().partition(os.pathsep)[2]
        self._classpath = os.pathsep.join([str(folder / "classes"), jars, cluster.classpath])
        self.up: dict[str, subprocess.Popen[bytes]] = {}
        self.events: list[dict[str, Any]] = []
        self._ready: dict[str, list[tuple[subprocess.Popen[bytes], Path]]] = {}
        self._began = 0.0
        # Another test may build the classes anew while these instances load theirs.
        shutil.copytree(TARGET / "classes", folder / "classes")

    @property
    def now(self) -> float:
        """Seconds since the first instance began to ask for its group."""
        return time.time() - self._began if self._began else 0.0

    def java(self, main: str, *arguments: str, out: IO[bytes]) -> subprocess.Popen[bytes]:
        """A program that ends with its stdin, hence with this process."""
        return subprocess.Popen(
            [
                java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                *_LOGS,
                "-cp", self._classpath, main, *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def prepare(self, *clients: str) -> None:
        """Have processes ready: a JVM takes its time, which is none of the group's."""
        for client in clients:
            number = len(list(self.folder.glob("said-*")))
            said = self.folder / f"said-{number}"
            told = {
                "bootstrap.servers": self.cluster.bootstrap,
                "application.id": NAME,
                "client.id": client,
                "state.dir": str(self.folder / f"state-{client}"),
                "num.stream.threads": THREADS[client],
                "auto.offset.reset": "earliest",
                "commit.interval.ms": 1000,
                "restore.consumer.max.poll.records": 50,
                **SETTINGS,
            }
            with said.open("wb") as out:
                process = self.java(
                    "io.partage.live.StreamsInstance",
                    str(self.folder / f"leader-{number}"),
                    str(REST.get(client, 0)),
                    *(f"{key}={value}" for key, value in told.items()),
                    out=out,
                )
            self._ready.setdefault(client, []).append((process, said))
        for client in clients:
            for _, said in self._ready[client]:
                _until(said, b"ready")

    def start(self, *clients: str) -> None:
        """Start instances at once; one has come when its first thread joins the group."""
        started = []
        for client in clients:
            self.up[client], said = self._ready[client].pop(0)
            pipe = self.up[client].stdin
            assert pipe is not None
            pipe.write(b"go\n")
            pipe.flush()
            started.append((client, said))
        for _, said in started:
            _until(said, _JOINS)
        times = [(_first_said(said, _JOINS), client) for client, said in started]
        self._began = self._began or min(times)[0]
        for at, client in sorted(times):
            self._note("join", client, at - self._began)

    def kill(self, client: str) -> None:
        """Kill an instance; its disk survives."""
        self._note("crash", client, self.now)
        killed = self.up.pop(client)
        killed.kill()
        killed.wait()

    def _note(self, what: str, client: str, at: float) -> None:
        self.events.append({"at": round(at, 3), "do": what, "client": client})

    def settle(self) -> None:
        """Wait until nobody is to rebalance again, and nobody has for ten seconds."""
        _wait(self._is_settled, "the group to settle")

    def _is_settled(self) -> bool:
        lines = self.rebalances()
        if not lines or lines[-1]["probing"]:
            return False
        last = lines[-1]
        given = sum(len(member["partitions"]) for member in last["members"].values())
        missing = given < 4 + 2 + 2 + 2
        there = {name.split("-StreamThread")[0] for name in last["members"]}
        heard = last["at"] > self.events[-1]["at"] and there == set(self.up) - {"feed"}
        return heard and not missing and self.now > last["at"] + _CALM_SECONDS

    def end(self) -> None:
        """Kill everybody who is left."""
        waiting = [process for ready in self._ready.values() for process, _ in ready]
        for one in (*self.up.values(), *waiting):
            one.kill()
            one.wait()
            assert one.stdin is not None
            one.stdin.close()

    def rebalances(self) -> list[dict[str, Any]]:
        """What the leaders have written so far, times in seconds."""
        lines = [
            json.loads(line)
            for file in sorted(self.folder.glob("leader-*"))
            for line in file.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]
        lines.sort(key=lambda line: line["at"])
        for line in lines:
            for key in ("began", "at"):
                line[key] = round(line[key] / 1000 - self._began, 3)
        return lines


def _wait(until: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _MOST_SECONDS
    while not until():
        assert time.monotonic() < end, f"{_MOST_SECONDS:g} seconds were not enough for {what}"
        time.sleep(0.2)


def _until(said: Path, word: bytes) -> None:
    """A process says a word; what it has said besides is told if it does not."""
    try:
        _wait(lambda: word in said.read_bytes(), f"{word.decode()}")
    except AssertionError as error:
        raise AssertionError(f"{error}; it said: {said.read_text()[-2000:]}") from None


def _first_said(said: Path, words: bytes) -> float:
    """When a process said that first, in seconds since 1970."""
    line = next(one for one in said.read_bytes().splitlines() if words in one)
    told = line.split(b" ", 1)[0].decode()
    return datetime.strptime(told, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A broker with the topics of the application, and nobody up yet."""
    with (
        tempfile.TemporaryDirectory(prefix="partage-streams-") as folder,
        brokers() as cluster,
    ):
        for topic, count in TOPICS.items():
            cluster.create_topic(topic, count)
        # There from the beginning: who makes them rebalances once more, for new metadata.
        for topic, count in INTERNAL.items():
            compact = {"cleanup.policy": "compact"} if "changelog" in topic else {}
            cluster.create_topic(f"{NAME}-{topic}", count, configs=compact)
        made = Stage(cluster, Path(folder))
        try:
            yield made
        finally:
            made.end()


def live() -> dict[str, Any]:
    """Live through all of it; some six minutes."""
    with stage() as on:
        on.prepare("a", "b", "c", "d", "c")
        on.start("a", "b", "c")
        on.settle()
        with (on.folder / "fed").open("wb") as out:
            feed = on.java(
                "io.partage.live.Feed",
                on.cluster.bootstrap,
                *(f"{one}:{TOPICS[one]}:{_RECORDS}:1" for one in ("lines", "moves", "ticks")),
                out=out,
            )
        on.up["feed"] = feed
        _until(on.folder / "fed", b"filled")
        time.sleep(30)
        on.kill("c")
        on.settle()
        on.start("d")
        on.settle()
        on.start("c")
        on.settle()
        on.kill("a")
        on.settle()
        return {
            "kafka": "4.3.1",
            "name": NAME,
            "settings": SETTINGS,
            "threads": THREADS,
            "seconds": round(on.now, 3),
            "events": on.events,
            "rebalances": on.rebalances(),
        }


def main(path: str) -> None:
    """Write a recording."""
    text = json.dumps(live(), separators=(",", ":"))
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{path}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
