"""`partage audit` on the recorded cluster: who wrote its topics, by the recording's answer sheet."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from tests.support.captured import SAMPLE

from partage.jobs.audit.audit import audit_topics
from partage.jobs.audit.topics import known_families, partitions_of
from partage.keys.audit import KeyPairs, infer_writers, writers

pytest.importorskip("pyarrow")

CAPTURE = Path(__file__).parents[1] / "data" / "capture"

JAVA, CONFLUENT = "murmur2", "librdkafka:consistent"
#: Of Streams' changelogs a task writes its own partition, so that they lie as their sources do:
#: what two clients wrote into ship-views and ship-prices stays two clients' work.
MIRRORS = {
    "ship-join-counts-changelog": {JAVA, CONFLUENT},
    "ship-join-right-store-changelog": {JAVA, CONFLUENT},
}
#: Nothing can be said of these, and that is what is said.
UNDECIDED = {
    "audit-log": "one partition",
    "connect-cluster-a-config": "one partition",
    "ship-join-bucket-repartition": "too few keys",
    "views-join-bucket-repartition": "too few keys",
}


def _answers() -> dict[str, set[str]]:
    """The answer sheet of the recording: topic -> hashes of the clients that wrote its keys."""
    out: dict[str, set[str]] = {}
    for row in json.loads((CAPTURE / "producers.json").read_text()):
        family = CONFLUENT if "crc32" in row["partitioner"] else JAVA
        out.setdefault(row["topic"], set()).add(family)
    return out


def test_the_writers_of_all_real_topics_are_named(spark: object, tmp_path: Path) -> None:
    """Each of the recording's topics is given the hashes of the clients that wrote it, no other,
    and no rival is left; where that cannot be known the reason is given.
    """
    for name in ("topics.parquet", "cluster.jsonl"):
        (tmp_path / name).symlink_to(Path(SAMPLE) / name)
    found = {t.topic: t for t in audit_topics(str(tmp_path), spark=spark).topics}
    answers = _answers()
    assert set(answers) - set(found) == {"tmp.doomed"}  # deleted before it was recorded
    assert len(found) == 36
    for topic, audited in found.items():
        names = {w["name"] for w in audited.writers}
        if topic in UNDECIDED:
            assert (audited.status, names) == (UNDECIDED[topic], set()), topic
            continue
        assert names == MIRRORS.get(topic, answers[topic]), topic
        assert audited.counts_known
        assert audited.needs_attention == (len(names) > 1)
        assert all(not w["rivals"] for w in audited.writers), topic
    came = [w["name"] for w in found["keyed.two-writers"].writers]
    assert came == [JAVA, CONFLUENT]


def test_false_alarms_of_all_families_are_rare() -> None:
    """Of 1,000 topics with keys in random partitions none gets a name, by all the families that
    there are, at one count and at two: the bound is one in ten thousand.
    """
    assert _alarms(1_000) == 0


def test_the_bound_of_false_alarms_holds_where_it_can_be_seen(monkeypatch) -> None:
    """None among 1,000 proves no rate below 1 in 300. The bound is one formula at every level: at
    one in five, where alarms are common enough to be counted, 200 topics have no more than 40.
    """
    monkeypatch.setattr(writers, "FALSE_ALARM", 0.2)
    assert _alarms(200) <= 40


def _alarms(topics: int) -> int:
    """How many of so many topics with keys in random partitions get a name."""
    rng = random.Random(20)
    families = known_families()
    assert len(families) > 5
    alarms = 0
    for number in range(topics):
        before, size = rng.choice([2, 3, 6, 48]), rng.choice([30, 60, 200])
        counts = [before, 2 * before][: 1 + number % 2]
        keys = [b"user-%d" % rng.randrange(10**6) for _ in range(size)]
        # Skewed partitions are no partitioner's either.
        skew = np.array([rng.random() ** 2 for _ in keys]) * counts[-1]
        seen = KeyPairs.from_rows(list(zip(keys, skew.astype(int).tolist(), strict=True)))
        alarms += bool(infer_writers(seen, counts, families, partitions_of).writers)
    return alarms
