"""`partage keys kafka://...` by Spark's own Kafka source, against a real broker."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest
from tests.support.brokers import Brokers, connector_jars

from partage import partition_for

pytest.importorskip("kafka")
parquet = pytest.importorskip("pyarrow.parquet")
from kafka import KafkaConsumer, TopicPartition  # noqa: E402 - only where it is
from kafka.consumer.fetcher import ConsumerRecord  # noqa: E402 - the same

HOUR_MS = 3_600_000


@pytest.fixture
def connector(tmp_path: Path) -> str:
    """Spark's Kafka connector, as one gives it to a session that Partage starts."""
    jars = connector_jars(tmp_path / "jars")
    return f"--jars {jars} pyspark-shell"


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.jvm
def test_a_topic_of_a_broker(broker: Brokers, connector: str, tmp_path: Path) -> None:
    """Records, keys and loads of a topic are what was sent; at the topic's own count a partition has
    just the keyed records that Kafka's producer put there, and the hours are the broker's.
    """
    rng = random.Random(8)
    keys = [None if rng.random() < 0.1 else f"k{int(rng.paretovariate(0.9)) % 200}"
            for _ in range(3_000)]  # fmt: skip
    broker.create_topic("keyed", partitions=6)
    broker.produce("keyed", [(None, key, "x" * rng.randrange(9)) for key in keys])
    done = subprocess.run(
        [sys.executable, "-m", "partage", "keys", f"kafka://{broker.bootstrap}/keyed",
         "--partitions", "6,9", "--json", "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": connector},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    counts = Counter(key for key in keys if key is not None)
    assert (found["records"], found["without_key"]) == (3_000, 3_000 - counts.total())
    assert found["keys"] == len(counts)
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))[:10]
    hottest = [(bytes.fromhex(hot["key"]).decode(), hot["records"]) for hot in found["hottest"]]
    assert hottest == best
    spread = parquet.read_table(tmp_path / "out" / "spread.parquet").to_pylist()
    at_six = {row["partition"]: row["records"] for row in spread if row["partitions"] == 6}
    there = _records(broker, "keyed")
    assert at_six == Counter(record.partition for record in there if record.key is not None)
    hours = Counter(record.timestamp // HOUR_MS * HOUR_MS for record in there if record.key)
    assert {h["hour_ms"]: h["records"] for h in found["hours"] if h["partitions"] == 6} == hours


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.jvm
def test_an_audit_asks_the_broker_for_counts(broker: Brokers, connector: str) -> None:
    """The last partition has no record, and the topic's count is known all the same: the broker has
    it. The producer is named, at that count.
    """
    keys = [f"order-{i}" for i in range(400)]
    where = partition_for(keys, partitions=12).tolist()
    some = [key for key, partition in zip(keys, where, strict=True) if partition < 11]
    broker.create_topic("audited", partitions=12)
    broker.produce("audited", [(None, key, "x") for key in some])
    done = subprocess.run(
        [sys.executable, "-m", "partage", "audit", f"kafka://{broker.bootstrap}/audited", "--json"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": connector},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (topic,) = json.loads(done.stdout)["topics"]
    assert (topic["counts"], topic["counts_known"], topic["records"]) == ([12], True, len(some))
    assert [(w["name"], w["partitions"]) for w in topic["writers"]] == [("murmur2", 12)]
    assert topic["explained"] == 1.0


def _records(broker: Brokers, topic: str) -> list[ConsumerRecord]:
    """All that the topic has, by kafka-python: of the broker, not of Spark."""
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap)) as consumer:
        parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        left = sum(consumer.end_offsets(parts).values())
        found: list[ConsumerRecord] = []
        while len(found) < left:
            found += chain.from_iterable(consumer.poll(1_000).values())
    return found
