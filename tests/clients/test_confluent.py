"""confluent-kafka (librdkafka) and members of ours in one group on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.clients.members import AIOKAFKA, KAFKA_PYTHON, every, wait
from tests.clients.records import written
from tests.support.processes import ROOT, Closes, built

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

NEWEST = (KAFKA_PYTHON[-1], AIOKAFKA[-1])
#: Prints what the consumer owns after each poll in which that has changed.
CONSUMER = """
import json, sys
from confluent_kafka import Consumer
bootstrap, group, topic, strategy = sys.argv[1:]
one = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "partition.assignment.strategy": strategy, "session.timeout.ms": 30000,
                "heartbeat.interval.ms": 1000})
one.subscribe([topic])
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

    def __init__(self, *arguments: str) -> None:
        built("peers.sh")
        python = ROOT / ".tools" / "peers" / "bin" / "python"
        self._log = ROOT / ".tools" / f"confluent-{arguments[1]}.log"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen([python, "-c", CONSUMER, *arguments], stdout=out)

    @property
    def owns(self) -> set[tuple[str, int]]:
        """Its partitions now."""
        lines = self._log.read_text().splitlines()
        return {(t, p) for t, p in json.loads(lines[-1])} if lines else set()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="the peers' environment is Linux's")
@pytest.mark.parametrize("leads", ["confluent", "ours"])
@pytest.mark.parametrize(
    ("strategy", "client"),
    [("range", NEWEST[0]), ("roundrobin", NEWEST[1]), ("cooperative-sticky", NEWEST[0])],
)
def test_confluent_kafka_and_ours_share_a_group(broker, hosts, strategy, client, leads) -> None:
    """Under each built-in name of librdkafka a member of ours and one of confluent-kafka share the
    topic evenly, under either leader, without an error.
    """
    topic = f"confluent-{strategy}-{leads}"
    broker.create_topic(topic, 6)
    all_of_it = set(every({topic: 6}))

    def ours():
        return hosts(client).start(
            bootstrap=broker.bootstrap, group=topic, topics=[topic], strategies=[strategy]
        )

    mine = ours() if leads == "ours" else None
    if mine:
        wait(lambda: mine.owns == all_of_it, "ours is alone")
    with Confluent(broker.bootstrap, topic, topic, strategy) as theirs:
        if not mine:
            wait(lambda: theirs.owns == all_of_it, "confluent-kafka is alone")
            mine = ours()
        wait(
            lambda: (
                len(mine.owns) == len(theirs.owns) == 3 and mine.owns | theirs.owns == all_of_it
            ),
            "both share",
        )
        assert not mine.errors
        leader = written(broker.bootstrap, topic)[-1].leader
        assert (leader == mine.member) is (leads == "ours")
        mine.close()
