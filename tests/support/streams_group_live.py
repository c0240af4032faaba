"""A real Kafka Streams application under the streams protocol (KIP-1071), run and recorded.

    python -m tests.support.streams_group_live tests/data/streams/groups/another.json.xz --seed 7

Three instances with one standby; one is killed, one is added, the killed one comes back with its
disk, another is killed. What is recorded is what the coordinator wrote down: its records of the
group. ``tests/simulation/test_streams_group_recorded.py`` plays it again. It takes three minutes.
"""

from __future__ import annotations

import base64
import contextlib
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from tests.support.brokers import brokers
from tests.support.streams_live import INTERNAL, NAME, TOPICS, Script, Stage, _until
from tests.support.streams_recording import write

from partage.wire.group_log import decode_key

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = "__consumer_offsets"
#: Record types of streams groups.
_RECORDS = {17, 19, 20, 21, 22, 23}


class GroupStage(Stage):
    """Instances of a streams group; when they have joined, their coordinator knows."""

    def start(self, *clients: str) -> None:
        """Start instances at once, and wait until all of them run."""
        self._began = self._began or time.time()
        started = []
        for client in clients:
            self.up[client], said = self._ready[client].pop(0)
            pipe = self.up[client].stdin
            assert pipe is not None
            pipe.write(b"go\n")
            pipe.flush()
            started.append(said)
        for said in started:
            _until(said, b"RUNNING")

    def records(self) -> list[list[Any]]:
        """What the coordinator wrote of the group: milliseconds, key and value in base64."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.cluster.bootstrap, exclude_internal_topics=False
        )
        found = []
        try:
            parts = [TopicPartition(LOG, p) for p in consumer.partitions_for_topic(LOG) or ()]
            consumer.assign(parts)
            consumer.seek_to_beginning(*parts)
            ends = consumer.end_offsets(parts)
            while any(consumer.position(one) < ends[one] for one in parts):
                for batch in consumer.poll(timeout_ms=500).values():
                    for record in batch:
                        number, names = decode_key(record.key)
                        if number in _RECORDS and names["groupId"] == NAME:
                            value = record.value
                            key = base64.b64encode(record.key).decode()
                            text = None if value is None else base64.b64encode(value).decode()
                            found.append([record.timestamp, key, text])
        finally:
            consumer.close()
        return found


def script(seed: int) -> tuple[Script, dict[str, int]]:
    """Who has how many threads and who is killed, and the settings of the broker."""
    draw = random.Random(seed)
    threads = dict.fromkeys("abcd", 1)
    threads[draw.choice("abcd")] = 2
    of_group = {
        "session.timeout.ms": draw.choice([8_000, 10_000, 15_000]),
        "heartbeat.interval.ms": draw.choice([1_000, 2_000, 3_000]),
        "assignment.interval.ms": 1_000,
        "initial.rebalance.delay.ms": 3_000,
        "num.standby.replicas": 1,
    }
    made = Script(
        {"group.protocol": "streams"}, threads, 0, draw.choice("bc"), 500, draw.uniform(8, 20)
    )
    return made, of_group


@contextlib.contextmanager
def stage(made: Script, of_group: dict[str, int]) -> Iterator[GroupStage]:
    """A broker with the topics of the application, and nobody up yet."""
    broker = {f"group.streams.{key}": str(value) for key, value in of_group.items()}
    least = {
        "group.streams.min.session.timeout.ms": "1000",
        "group.streams.min.heartbeat.interval.ms": "500",
    }
    with (
        tempfile.TemporaryDirectory(prefix="partage-streams-") as folder,
        brokers(properties=broker | least) as cluster,
    ):
        for topic, count in TOPICS.items():
            cluster.create_topic(topic, count)
        for topic, count in INTERNAL.items():
            compact = {"cleanup.policy": "compact"} if "changelog" in topic else {}
            cluster.create_topic(f"{NAME}-{topic}", count, configs=compact)
        on = GroupStage(cluster, Path(folder), made)
        try:
            yield on
        finally:
            on.end()


def live(seed: int) -> dict[str, Any]:
    """Live through all of it."""
    made, of_group = script(seed)
    missed = of_group["session.timeout.ms"] / 1000 + of_group["heartbeat.interval.ms"] / 1000
    with stage(made, of_group) as on:
        on.prepare("a", "b", "c", "d", made.killed)
        on.start("a", "b", "c")
        time.sleep(made.calm)
        on.kill(made.killed)
        time.sleep(missed + made.calm)
        on.start("d")
        time.sleep(made.calm)
        on.start(made.killed)
        time.sleep(made.calm)
        on.kill("a")
        time.sleep(missed + made.calm)
        return {
            "kafka": "4.3.1",
            "seed": seed,
            "name": NAME,
            "settings": of_group,
            "threads": made.threads,
            "began": round(on._began * 1000),
            "seconds": round(on.now, 3),
            "killed": on.events,
            "records": on.records(),
        }


if __name__ == "__main__":
    write(live, __doc__)
