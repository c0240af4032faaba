"""`partage audit` on the recorded cluster: who wrote its topics, by the recording's answer sheet."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from captured import SAMPLE
from partage.keys.audit import KeyPairs, who_wrote
from partage.pipeline.audit import audit_topics
from partage.pipeline.topic_judging import known_families, place

pytest.importorskip("pyarrow")

#: ``producers.json`` of the recording: the hash of each client that wrote keys into a topic.
JAVA, CONFLUENT = "murmur2", "librdkafka:consistent"
WRITERS = {
    "keyed.java": [JAVA],
    "keyed.kafka-python": [JAVA],
    "keyed.aiokafka": [JAVA],
    "keyed.confluent": [CONFLUENT],
    "keyed.confluent-murmur2": [JAVA],
    "keyed.two-writers": [JAVA, CONFLUENT],
    "shop-views": [JAVA],
    "shop-prices": [JAVA],
    "ledger.in": [JAVA],
}


def test_the_writers_of_real_topics_are_named(spark: object, tmp_path: Path) -> None:
    """Each topic that the recording's four clients wrote alone is given their hashes, in the
    order in which they came, and no rival is left.
    """
    for name in ("topics.parquet", "cluster.jsonl"):
        (tmp_path / name).symlink_to(Path(SAMPLE) / name)
    found = audit_topics(str(tmp_path), topics=list(WRITERS), spark=spark)
    told = {t.topic: list(dict.fromkeys(w["name"] for w in t.writers)) for t in found.topics}
    assert told == WRITERS
    for topic in found.topics:
        assert topic.counts_known
        assert topic.broken == (len(WRITERS[topic.topic]) > 1)
        assert all(not w["rivals"] for w in topic.writers), topic.topic


def test_false_alarms_of_all_families_are_rare() -> None:
    """Of 1,000 topics with keys in random partitions none gets a name, by all the families that
    there are, at one count and at two: the bound is one in ten thousand.
    """
    rng = random.Random(20)
    families = known_families()
    assert len(families) > 5
    for number in range(1_000):
        before, size = rng.choice([2, 3, 6, 48]), rng.choice([30, 60, 200])
        counts = [before, 2 * before][: 1 + number % 2]
        keys = [b"user-%d" % rng.randrange(10**6) for _ in range(size)]
        # Skewed partitions are no partitioner's either.
        skew = np.array([rng.random() ** 2 for _ in keys]) * counts[-1]
        seen = KeyPairs.of(list(zip(keys, skew.astype(int).tolist(), strict=True)))
        assert who_wrote(seen, counts, families, place).writers == (), number
