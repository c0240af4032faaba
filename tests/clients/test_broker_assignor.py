"""Groups of Java, confluent-kafka and franz-go members whose broker assigns with Partage's jar."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.clients.members import Host
from tests.support.brokers import brokers
from tests.support.go_programs import built_go
from tests.support.processes import ROOT, Closes, built
from tests.support.recordings import Recording, json_lines
from tests.support.target_proofs import grown_clusters, shortfall

import partage as pg
from partage.capture.connection import ClusterConnection
from partage.capture.live import LiveCapture
from partage.capture.writing import CaptureWriter
from partage.history.agreement import UNEXPLAINED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.brokers import Brokers

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

#: Changes of the group, each of which makes the coordinator rebalance; more make a longer soak.
REBALANCES = int(os.environ.get("PARTAGE_JAR_REBALANCES", "60"))
SEED = int(os.environ.get("PARTAGE_SOAK_SEED", "23"))
RACKS = ("a", "b", "c")
MOST_MEMBERS = 9
#: The coordinator has evicted a killed member after this time: its session timeout and a second.
EVICTION_S = 6.0
BROKER = {
    "group.consumer.assignors": "uniform,range,io.partage.assignors.broker.OptimalAssignor",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "log.cleaner.enable": "false",
}
#: Prints what the consumer owns after each poll in which that has changed.
CONFLUENT = """
import json, sys
from confluent_kafka import Consumer
wanted = json.loads(sys.argv[1])
one = Consumer({
    "bootstrap.servers": wanted["bootstrap"], "group.id": wanted["group"],
    "group.protocol": "consumer", "group.remote.assignor": "partage-optimal",
    "auto.offset.reset": "earliest", "client.rack": wanted["rack"],
})
one.subscribe(wanted["topics"])
last = None
while True:
    one.poll(0.2)
    now = sorted([p.topic, p.partition] for p in one.assignment())
    if now != last:
        last = now
        print(json.dumps(now), flush=True)
"""


class Process(Closes):
    """A consumer in a process of its own, which prints what it owns after each change."""

    def __init__(self, folder: Path, command: list[str | Path], options: dict[str, Any]) -> None:
        self._log = folder / f"consumer-{random.getrandbits(48):012x}.jsonl"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, json.dumps(options)], stdout=out, stderr=subprocess.DEVNULL
            )

    @property
    def owns(self) -> set[tuple[str, int]]:
        lines = self._log.read_text().splitlines()
        return {(t, p) for t, p in json.loads(lines[-1])} if lines else set()

    def close(self) -> None:
        """Kill it: the broker evicts it after the session timeout."""
        self._process.kill()
        self._process.wait()


class Party(Closes):
    """One group with members of three libraries, and what happens to it."""

    def __init__(self, cluster: Brokers, folder: Path) -> None:
        self.cluster, self.folder, self.rng = cluster, folder, random.Random(SEED)
        self.topics = {"orders": 12, "clicks": 7}
        for name, count in self.topics.items():
            cluster.create_topic(name, count, min(2, len(cluster.brokers)))
        self.javas = [Host("java"), Host("java")]
        peers = ROOT / ".tools" / "peers" / "bin" / "python"
        go = built_go(ROOT / "tests" / "clients" / "franz-go", "franz-go-member")
        self.commands = {"confluent": [peers, "-c", CONFLUENT], "franz-go": [go]}
        #: Members: the library, the consumer, its topics and its rack.
        self.members: list[tuple[str, Any, list[str], str]] = []
        self.done: Counter[str] = Counter()
        #: Until then the coordinator may count the vote of a killed member for an assignor.
        self.evicted_at = 0.0
        #: Partitions of the topics over time: (ms, partitions from then on).
        self.growth = [(0, dict(self.topics))]

    def act(self) -> None:
        """Change the group or its topics, and wait until it has settled."""
        few, many = len(self.members) < 3, len(self.members) >= MOST_MEMBERS
        what = self.rng.choice(
            ["join"] * (0 if many else 4) + ["leave"] * (0 if few else 4) + ["grow"]
        )
        {"join": self._join, "leave": self._leave, "grow": self._grow}[what]()
        self.settle()

    def _join(self) -> None:
        topics = self.rng.choice([["orders", "clicks"], ["orders", "clicks"], ["orders"]])
        library = self.rng.choice(["java", "confluent", "franz-go"])
        if library == "franz-go" and not self._is_outvoted(+1, 0):
            library = "java"
        rack = self.rng.choice(RACKS)
        options = {
            "bootstrap": self.cluster.bootstrap, "group": "party", "rack": rack, "topics": topics,
        }  # fmt: skip
        if library == "java":
            made: Any = self.rng.choice(self.javas).start(
                bootstrap=self.cluster.bootstrap, group="party", topics=topics,
                group_protocol="consumer", group_remote_assignor="partage-optimal",
                auto_offset_reset="earliest", client_rack=rack,
            )  # fmt: skip
        else:
            made = Process(self.folder, self.commands[library], options)
        self.members.append((library, made, topics, rack))
        self.done[f"{library} joins"] += 1

    def _leave(self) -> None:
        leaving = self.rng.choice(self.members)
        if leaving[0] != "franz-go" and not self._is_outvoted(0, -1):
            leaving = next(one for one in self.members if one[0] == "franz-go")
        self.members.remove(leaving)
        leaving[1].close()
        if leaving[0] != "java":
            self.evicted_at = time.monotonic() + EVICTION_S
        self.done[f"{leaving[0]} {'leaves' if leaving[0] == 'java' else 'is killed'}"] += 1

    def _is_outvoted(self, more_go: int, more_others: int) -> bool:
        """Return whether most members ask for Partage's assignor: franz-go can only ask for
        `uniform`.
        """
        go = sum(one[0] == "franz-go" for one in self.members)
        return len(self.members) - go + more_others > go + more_go

    def _grow(self) -> None:
        name = self.rng.choice(list(self.topics))
        self.topics[name] += self.rng.choice([1, 2])
        self.growth.append((int(time.time() * 1000), dict(self.topics)))
        self.cluster.ask("grow-topic", name=name, partitions=self.topics[name])
        self.done["topic grows"] += 1

    def best_loads(self) -> list[int]:
        """Return the most even loads that there are, the smallest first."""
        group = pg.Group([pg.Member(f"{i}", one[2]) for i, one in enumerate(self.members)])
        plan = pg.assign("optimal", group, pg.Cluster.from_topics(self.topics))
        return sorted(np.diff(plan.start).tolist())

    def settle(self, seconds: float = 120.0) -> None:
        """Wait until the members own every partition of their topics once, as evenly as possible."""
        wanted = sorted(
            (t, p)
            for t in {topic for one in self.members for topic in one[2]}
            for p in range(self.topics[t])
        )
        loads = self.best_loads()
        until = time.monotonic() + seconds
        while True:
            owned = [one[1].owns for one in self.members]
            have = sorted(pair for pairs in owned for pair in pairs)
            is_complete = have == wanted and sorted(map(len, owned)) == loads
            if is_complete and time.monotonic() >= self.evicted_at:
                return
            assert time.monotonic() < until, self._unsettled(owned, wanted, loads)
            time.sleep(0.1)

    def _unsettled(
        self, owned: list[set[tuple[str, int]]], wanted: list[tuple[str, int]], loads: list[int]
    ) -> str:
        """Return what differs from the wanted assignment, with the loads of each member."""
        have = Counter(pair for pairs in owned for pair in pairs)
        lost, twice = set(wanted) - set(have), [pair for pair, n in have.items() if n > 1]
        members = [
            (one[0], one[2], len(pairs)) for one, pairs in zip(self.members, owned, strict=True)
        ]
        recorded(self.cluster, self.folder / "unsettled")
        return (
            f"not settled: lost {lost}, twice {twice}, loads {members} instead of {loads}; "
            f"done {self.done}; the log is in {self.folder / 'unsettled'}"
        )

    def close(self) -> None:
        for library, one, _, _ in self.members:
            if library != "java":
                one.close()
        for host in self.javas:
            host.kill()


def recorded(cluster: Brokers, out: Path) -> Recording:
    """Write a capture of the cluster's log; return it as a recording."""
    with ClusterConnection(cluster.bootstrap, {}) as connection, CaptureWriter(out) as writer:
        LiveCapture(connection, writer).run_capture(follow=False)
    return Recording(out)


def test_the_broker_assigns_as_the_jar_says(tmp_path) -> None:
    """Through joins, departures, kills, growth and a broker's death every target is our plan.

    The log is judged: no recorded target has a partition twice or forgets one, each has the most
    even loads, the fewest rack mismatches and the fewest moves by a certificate, and each is that of
    `server:partage-optimal`.
    """
    built("jar.sh")
    built("peers.sh")
    jar = next((ROOT / "jvm/partage-assignors/target").glob("partage-assignors-*.jar"))
    count = int(os.environ.get("PARTAGE_JAR_BROKERS", "3"))
    with brokers(count, racks=RACKS, properties=BROKER, more_jars=[str(jar)]) as cluster:
        with contextlib.closing(Party(cluster, tmp_path)) as party:
            for nth in range(REBALANCES):
                party.act()
                if nth == REBALANCES // 2 and count > 1:
                    cluster.brokers[0].kill()
                    party.done["broker dies"] += 1
                    try:
                        party.act()
                    except AssertionError as e:
                        # confluent-kafka may go on with its heartbeats and not acknowledge that it
                        # has to revoke partitions, until the dead broker is back. The coordinator's
                        # target is the best plan meanwhile (judged below).
                        party.done["a client waits for the dead broker"] += 1
                        print(e)
                    cluster.brokers[0].start()
                    party.settle()
        record = recorded(cluster, tmp_path / "capture")
    clusters = grown_clusters(json_lines(record.capture, "cluster.jsonl")[-1], party.growth)
    targets = [one for one in record.rebalances["party"] if one.target is not None]
    faults = {one.generation_number: shortfall(one, clusters) for one in targets}
    run = pg.replay(tmp_path / "capture", groups="party", policies=["own"], engine="local")
    rows = [row for row in run.table("rebalances").to_pylist() if row["protocol"] == "consumer"]
    judged = [row for row in rows if row["agrees"] is not None]
    agree = sum(row["agrees"] for row in judged)
    found = {"targets": len(targets), "judged": len(judged), "agree": agree}
    print(json.dumps({"actions": party.done, **found}))
    assert not any(faults.values()), {k: v for k, v in faults.items() if v}
    assert {row["judged_by"] for row in judged} == {"server:partage-optimal"}
    # The log writes new metadata down some milliseconds after the coordinator has used them.
    wrong = [row for row in judged if row["disagreement"] == UNEXPLAINED]
    assert not wrong, wrong[:3]
    assert agree >= len(judged) * 0.8
    # Two changes between two heartbeats share one target.
    assert len(judged) >= REBALANCES * 0.9
