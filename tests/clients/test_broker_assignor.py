"""Groups of Java and confluent-kafka members whose broker assigns with Partage's jar."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.clients.members import Host
from tests.support.brokers import brokers
from tests.support.processes import ROOT, Closes, built

import partage as pg
from partage.capture.connection import ClusterConnection
from partage.capture.live import LiveCapture
from partage.capture.writing import CaptureWriter
from partage.history.agreement import UNEXPLAINED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Brokers

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

#: Joins, departures, kills and growth; `make soak` can do more.
ACTIONS = int(os.environ.get("PARTAGE_JAR_ACTIONS", "60"))
RACKS = ("a", "b", "c")
BROKER = {
    "group.consumer.assignors": "uniform,range,io.partage.assignors.broker.OptimalAssignor",
    "group.consumer.session.timeout.ms": "8000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "log.cleaner.enable": "false",
}
#: Prints what the consumer owns after each poll in which that has changed.
CONSUMER = """
import json, sys
from confluent_kafka import Consumer
one = Consumer(json.loads(sys.argv[1]))
one.subscribe(json.loads(sys.argv[2]))
last = None
while True:
    one.poll(0.2)
    now = sorted([p.topic, p.partition] for p in one.assignment())
    if now != last:
        last = now
        print(json.dumps(now), flush=True)
"""


class Confluent(Closes):
    """A consumer of confluent-kafka in a process of its own."""

    def __init__(self, folder: Path, properties: dict[str, Any], topics: list[str]) -> None:
        python = ROOT / ".tools" / "peers" / "bin" / "python"
        self.topics = topics
        self._log = folder / f"confluent-{random.getrandbits(48):012x}.jsonl"
        command = [python, "-c", CONSUMER, json.dumps(properties), json.dumps(topics)]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)

    @property
    def owns(self) -> set[tuple[str, int]]:
        lines = self._log.read_text().splitlines()
        return {(t, p) for t, p in json.loads(lines[-1])} if lines else set()

    def close(self) -> None:
        """Kill it: the broker evicts it after the session timeout."""
        self._process.kill()
        self._process.wait()


class Party(Closes):
    """One group with members of two libraries, and what happens to it."""

    def __init__(self, cluster: Brokers, folder: Path, seed: int) -> None:
        self.cluster, self.folder, self.rng = cluster, folder, random.Random(seed)
        self.topics = {"orders": 12, "clicks": 7}
        for name, count in self.topics.items():
            cluster.create_topic(name, count, min(2, len(cluster.brokers)))
        self.javas = [Host("java"), Host("java")]
        self.java: list[Any] = []
        self.confluent: list[Confluent] = []
        self.done: dict[str, int] = {}

    def properties(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.cluster.bootstrap, "group.id": "party",
            "group.protocol": "consumer", "group.remote.assignor": "partage-optimal",
            "auto.offset.reset": "earliest", "client.rack": self.rng.choice(RACKS),
        }  # fmt: skip

    def act(self) -> None:
        """One change of the group or of its topics; later the group must settle."""
        few = len(self.java) + len(self.confluent) < 3
        what = self.rng.choice(["join"] * 3 + ["leave"] * (0 if few else 3) + ["grow"] * 1)
        if what == "join" and len(self.java) + len(self.confluent) >= 8:
            what = "leave"
        self.done[what] = self.done.get(what, 0) + 1
        getattr(self, f"_{what}")()

    def _join(self) -> None:
        topics = self.rng.choice([["orders", "clicks"], ["orders", "clicks"], ["orders"]])
        options = self.properties()
        if self.rng.random() < 0.5:
            self.confluent.append(Confluent(self.folder, options, topics))
            return
        settings = {k.replace(".", "_"): v for k, v in options.items()}
        group, bootstrap = settings.pop("group_id"), settings.pop("bootstrap_servers")
        host = self.rng.choice(self.javas)
        made = host.start(bootstrap=bootstrap, group=group, topics=topics, **settings)
        made.topics = topics  # type: ignore[attr-defined]
        self.java.append(made)

    def _leave(self) -> None:
        if self.confluent and (not self.java or self.rng.random() < 0.4):
            self.confluent.pop(self.rng.randrange(len(self.confluent))).close()
        else:
            self.java.pop(self.rng.randrange(len(self.java))).close()

    def _grow(self) -> None:
        name = self.rng.choice(list(self.topics))
        self.topics[name] += self.rng.choice([1, 2])
        self.cluster.ask("grow-topic", name=name, partitions=self.topics[name])

    def settle(self, seconds: float = 120.0) -> None:
        """Wait until the members own every partition of their topics once."""
        until = time.monotonic() + seconds
        while True:
            members = [*self.java, *self.confluent]
            subscribed = {topic for one in members for topic in one.topics}
            wanted = sorted((t, p) for t in subscribed for p in range(self.topics[t]))
            have = sorted(pair for one in members for pair in one.owns)
            if have == wanted:
                return
            assert time.monotonic() < until, f"not settled: {have} is not {wanted}"
            time.sleep(0.1)

    def close(self) -> None:
        for one in self.confluent:
            one.close()
        for host in self.javas:
            host.kill()


def test_the_broker_assigns_as_the_jar_says(tmp_path) -> None:
    """Through joins, departures, kills, growth and a broker's death every target is our plan.

    The log is replayed: each recorded target is that of `server:partage-optimal`, and none has a
    partition twice or forgets one.
    """
    built("jar.sh")
    built("peers.sh")
    jar = next((ROOT / "jvm/partage-assignors/target").glob("partage-assignors-*.jar"))
    count = int(os.environ.get("PARTAGE_JAR_BROKERS", "3"))
    with brokers(count, racks=RACKS, properties=BROKER, more_jars=[str(jar)]) as cluster:
        with contextlib.closing(Party(cluster, tmp_path, seed=23)) as party:
            for nth in range(ACTIONS):
                party.act()
                if nth == ACTIONS // 2 and count > 1:
                    cluster.brokers[0].kill()
                    party.settle()
                    cluster.brokers[0].start()
                party.settle()
            done = party.done
        out = tmp_path / "capture"
        with ClusterConnection(cluster.bootstrap, {}) as connection, CaptureWriter(out) as writer:
            LiveCapture(connection, writer).run(follow=False)
    run = pg.replay(out, groups="party", policies=["own", "consumer/uniform"], engine="local")
    targets = [row for row in run.table("rebalances").to_pylist() if row["protocol"] == "consumer"]
    judged = [row for row in targets if row["agrees"] is not None]
    print(json.dumps({"actions": done, "targets": len(targets), "judged": len(judged)}))
    assert {row["judged_by"] for row in judged} == {"server:partage-optimal"}
    # The log writes new metadata down some milliseconds after the coordinator has used them.
    wrong = [row for row in judged if row["disagreement"] == UNEXPLAINED]
    assert not wrong, wrong[:3]
    assert sum(row["agrees"] for row in judged) >= len(judged) * 0.8
    assert len(judged) >= ACTIONS // 2
