"""The whole story on real brokers: placed, filled, drained by Kafka's own tool, stopped, all still there."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from tests.brokers import brokers

import partage as pg

pytestmark = pytest.mark.jvm

TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
RECORDS = 600


def partage(*words):
    """`partage reassign ... --json`, as a person calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "partage", "reassign", *map(str, words), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def executed(cluster, folder):
    """Every batch executed by Kafka's own tool, each verified before the next begins."""
    files = sorted(folder.glob("batch-*.json"))
    assert files
    for file in files:
        common = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file)]
        done = cluster.run_tool(TOOL, *common, "--execute")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Successfully started" in done.stdout, done.stdout + done.stderr
        until = time.monotonic() + 120
        while True:
            said = cluster.run_tool(TOOL, *common, "--verify").stdout
            if "still in progress" not in said:
                break
            assert time.monotonic() < until, said
            time.sleep(1)
        assert "is complete" in said or "is completed" in said, said


def replicas(cluster):
    """Topic -> partition -> replicas, as the brokers' metadata has them now."""
    from partage.capture.replicas import read_replicas

    given, _ = read_replicas(cluster.bootstrap, {})
    return {
        name: {row["p"]: row["replicas"] for row in topic["partitions"]}
        for name, topic in given["topics"].items()
    }


def values(bootstrap, topic, partitions):
    """Every record's value, read from the beginning."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=20_000,
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
    found = []
    for record in consumer:
        found.append(record.value.decode())
        if len(found) == RECORDS:
            break
    consumer.close()
    return found


@pytest.mark.parametrize(("count", "factor"), [(3, 2), pytest.param(6, 3, marks=pytest.mark.soak)])
def test_a_broker_is_drained_and_stopped(count, factor, tmp_path) -> None:
    """Placed as we say, moved as we say, broker 1 empty and stopped, every record still readable."""
    with brokers(count, racks=("a", "b", "c")) as cluster:
        members = [pg.Broker(i + 1, "abc"[i % 3]) for i in range(count)]
        placed = pg.place(
            members, partitions=12, replication_factor=factor, strategy="striped", seed=7
        ).tolist()
        cluster.create_topic("orders", assignment=dict(enumerate(placed)))
        assert replicas(cluster)["orders"] == dict(enumerate(placed))
        cluster.produce("orders", [(i % 12, None, f"v{i}") for i in range(RECORDS)])

        plan = partage(
            "drain-broker",
            cluster.bootstrap,
            "-b",
            1,
            "--max-moves",
            3 * factor,
            "--out",
            tmp_path / "1",
        )
        on_it = sum(1 in row for row in placed)
        assert plan["replicas_moved"] == on_it
        assert plan["bounds"]["moved"] == plan["figures"]["moved"] == plan["bytes_moved"] > 0
        assert len(plan["batches"]) == -(-on_it // (3 * factor))
        executed(cluster, tmp_path / "1")

        moved = replicas(cluster)["orders"]
        assert not any(1 in row for row in moved.values())
        racks = {b.id: b.rack for b in members}
        if count == 6:
            assert all(len({racks[b] for b in row}) == 3 for row in moved.values())
        assert all(
            set(placed[p]) - {1} <= set(row) and len(set(row)) == factor for p, row in moved.items()
        )

        done = cluster.run_tool(
            ELECTION, "--bootstrap-server", cluster.bootstrap, "--election-type", "preferred",
            "--path-to-json-file", str(tmp_path / "1" / "election.json"),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        cluster.brokers[0].stop()
        left = ",".join(cluster.bootstrap.split(",")[1:])
        found = values(left, "orders", 12)
        assert sorted(found) == sorted(f"v{i}" for i in range(RECORDS))
