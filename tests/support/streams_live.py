"""A real Kafka Streams application on a real broker, run and recorded.

    python -m tests.support.streams_live tests/data/streams/another.json.xz --seed 7

Three instances with one standby; one is killed, one with an empty disk is added and restores so
slowly that it is looked at more than once, the killed one comes back, and the leader is killed.
The seed decides who has how many threads, who is killed, heartbeats, time-outs and how long
everything takes. What the leaders saw and decided is written down by Kafka's own classes with a
listener in them (jvm/.../live/LeaderLog.java). ``tests/simulation/test_streams_recorded.py`` plays it
again: a file in tests/data/streams is a test.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.support.brokers import brokers
from tests.support.jvm import TARGET, java, jvm_classpath
from tests.support.streams_recording import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.brokers import Brokers

NAME = "counts"
BROKER = {"group.initial.rebalance.delay.ms": 3_000}
TOPICS = {"lines": 4, "ticks": 2, "moves": 2, "out": 2}
INTERNAL = {"words-changelog": 4, "places-changelog": 2, "places-repartition": 2}
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
_MOST_SECONDS = 900.0


@dataclass(frozen=True)
class Script:
    """What the seed decides.

    Attributes:
        settings: of the application.
        threads: of each instance, in the order in which three of them start and one is added.
        rest: milliseconds that the added instance rests after every 50 restored records.
        killed: who dies first.
        records: in every partition before it does.
        calm: seconds of calm before the next thing happens.
    """

    settings: dict[str, int | str]
    threads: dict[str, int]
    rest: int
    killed: str
    records: int
    calm: float

    @classmethod
    def of(cls, seed: int) -> Script:
        """The same script for the same seed."""
        draw = random.Random(seed)
        settings: dict[str, int | str] = {
            "num.standby.replicas": 1,
            "max.warmup.replicas": draw.choice([1, 2]),
            "acceptable.recovery.lag": draw.choice([50, 100, 400]),
            "probing.rebalance.interval.ms": 60_000,
            "session.timeout.ms": draw.choice([15_000, 20_000, 30_000]),
            "heartbeat.interval.ms": draw.choice([1_300, 1_700, 2_000, 2_700]),
        }
        threads = dict.fromkeys("abcd", 1)
        threads[draw.choice("abcd")] = 2
        killed = draw.choice("bc")
        return cls(
            settings,
            threads,
            draw.randrange(200, 1_500),
            killed,
            draw.randrange(1_000, 3_000),
            draw.uniform(5, 15),
        )


class Stage:
    """The application with its instances, and the clock of the recording."""

    def __init__(self, cluster: Brokers, folder: Path, script: Script) -> None:
        self.cluster, self.folder, self.script = cluster, folder, script
        jars = jvm_classpath().partition(os.pathsep)[2]
        self._classpath = os.pathsep.join([str(folder / "classes"), jars, cluster.classpath])
        self.up: dict[str, subprocess.Popen[bytes]] = {}
        self.events: list[dict[str, Any]] = []
        self._ready: dict[str, list[tuple[subprocess.Popen[bytes], Path]]] = {}
        self._began = 0.0
        self._logs: dict[Path, str] = {}
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
            self._logs[self.folder / f"leader-{number}"] = client
            said = self.folder / f"said-{number}"
            parsed = {
                "bootstrap.servers": self.cluster.bootstrap,
                "application.id": NAME,
                "client.id": client,
                "state.dir": str(self.folder / f"state-{client}"),
                "num.stream.threads": self.script.threads[client],
                "auto.offset.reset": "earliest",
                "commit.interval.ms": 1000,
                "restore.consumer.max.poll.records": 50,
                **self.script.settings,
            }
            with said.open("wb") as out:
                process = self.java(
                    "io.partage.live.StreamsInstance",
                    str(self.folder / f"leader-{number}"),
                    str(self.script.rest if client == "d" else 0),
                    *(f"{key}={value}" for key, value in parsed.items()),
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
        """Wait until nobody is to rebalance again, and nobody has for a while."""
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
        return heard and not missing and self.now > last["at"] + self.script.calm

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
            {**json.loads(line), "leader": client}
            for file, client in self._logs.items()
            if file.exists()
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
    """A process says a word; what it has said besides is shown if it does not."""
    try:
        _wait(lambda: word in said.read_bytes(), f"{word.decode()}")
    except AssertionError as error:
        raise AssertionError(f"{error}; it said: {said.read_text()[-2000:]}") from None


def _first_said(said: Path, words: bytes) -> float:
    """When a process said that first, in seconds since 1970."""
    line = next(one for one in said.read_bytes().splitlines() if words in one)
    parsed = line.split(b" ", 1)[0].decode()
    return datetime.strptime(parsed, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


@contextlib.contextmanager
def stage(script: Script) -> Iterator[Stage]:
    """A broker with the topics of the application, and nobody up yet."""
    broker = {key: str(value) for key, value in BROKER.items()}
    with (
        tempfile.TemporaryDirectory(prefix="partage-streams-") as folder,
        brokers(properties=broker) as cluster,
    ):
        for topic, count in TOPICS.items():
            cluster.create_topic(topic, count)
        # There from the beginning: who makes them rebalances once more, for new metadata.
        for topic, count in INTERNAL.items():
            compact = {"cleanup.policy": "compact"} if "changelog" in topic else {}
            cluster.create_topic(f"{NAME}-{topic}", count, configs=compact)
        made = Stage(cluster, Path(folder), script)
        try:
            yield made
        finally:
            made.end()


def live(seed: int) -> dict[str, Any]:
    """Live through all of it; ten to twenty minutes."""
    script = Script.of(seed)
    with stage(script) as on:
        on.prepare("a", "b", "c", "d", script.killed)
        on.start("a", "b", "c")
        on.settle()
        with (on.folder / "fed").open("wb") as out:
            feed = on.java(
                "io.partage.live.Feed",
                on.cluster.bootstrap,
                *(f"{one}:{TOPICS[one]}:{script.records}:1" for one in ("lines", "moves", "ticks")),
                out=out,
            )
        on.up["feed"] = feed
        _until(on.folder / "fed", b"filled")
        time.sleep(3 * script.calm)
        on.kill(script.killed)
        on.settle()
        on.start("d")
        on.settle()
        on.start(script.killed)
        on.settle()
        on.kill(on.rebalances()[-1]["leader"])
        on.settle()
        return {
            "kafka": "4.3.1",
            "seed": seed,
            "name": NAME,
            "settings": script.settings | BROKER,
            "threads": script.threads,
            "seconds": round(on.now, 3),
            "events": on.events,
            "rebalances": on.rebalances(),
        }


if __name__ == "__main__":
    write(live, __doc__)
