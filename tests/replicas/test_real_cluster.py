"""The whole story on real brokers: placed, filled, drained by Kafka's own tool, stopped, all still there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from tests.support.brokers import brokers

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
    """Topic -> partition -> replicas, when all brokers have the same."""
    from partage.capture.replicas import read_replicas

    cluster.wait_until_same_metadata("orders")
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
            "--broker",
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
        asked = {}
        for file in sorted((tmp_path / "1").glob("batch-*.json")):
            for row in json.loads(file.read_text())["partitions"]:
                asked[row["partition"]] = row["replicas"]
        assert moved == {**dict(enumerate(placed)), **asked}  # order, so leaders, included

        done = cluster.run_tool(
            ELECTION, "--bootstrap-server", cluster.bootstrap, "--election-type", "preferred",
            "--path-to-json-file", str(tmp_path / "1" / "election.json"),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        cluster.brokers[0].stop()
        left = ",".join(cluster.bootstrap.split(",")[1:])
        found = values(left, "orders", 12)
        assert sorted(found) == sorted(f"v{i}" for i in range(RECORDS))


def shims(cluster, folder):
    """Kafka's tools under the names that its distribution gives them."""
    folder.mkdir()
    for name, main in (("reassign-partitions", TOOL), ("leader-election", ELECTION)):
        script = folder / f"kafka-{name}.sh"
        script.write_text(f'#!/bin/sh\nexec java -Xmx192m -cp "{cluster.classpath}" {main} "$@"\n')
        script.chmod(0o755)
    return folder


def scripted(cluster, tools, folder, name="execute.sh"):
    """A plan's own script, run as a person runs it: what the tools said."""
    done = subprocess.run(
        ["sh", folder / name], capture_output=True, text=True, check=False, timeout=400,
        env={**os.environ, "BOOTSTRAP": cluster.bootstrap, "KAFKA": str(tools), "PAUSE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stdout, done.stdout
    return done.stdout


def disks(cluster):
    """(topic, partition, broker) -> the directory that holds the replica."""
    from partage.capture.replicas import read_replicas

    _, sizes = read_replicas(cluster.bootstrap, {})
    return {
        (*partition, broker): path
        for partition, held in sizes.items()
        for broker, (_, path) in held.items()
        if partition[0] == "orders"
    }


def as_asked(folder, name="batch"):
    """What the files of a plan ask for: replicas in order, and directories where they are stated."""
    replicas_, folders = {}, {}
    for file in folder.glob(f"{name}-*.json"):
        for row in json.loads(file.read_text())["partitions"]:
            if row["topic"] != "orders":
                continue
            replicas_[row["partition"]] = row["replicas"]
            for broker, path in zip(row["replicas"], row.get("log_dirs", ()), strict=False):
                if path != "any":
                    folders["orders", row["partition"], broker] = path
    return replicas_, folders


@pytest.mark.soak
def test_every_command_on_six_brokers_with_two_disks_each(tmp_path) -> None:
    """Each plan executed by its script as metadata and disks then show, taken back, nothing lost."""
    two = {"log.dirs": "{home}/data,{home}/more", "log.retention.check.interval.ms": "1000000"}
    with brokers(6, racks=("a", "b", "c"), properties=two) as cluster:
        tools = shims(cluster, tmp_path / "tools")
        members = [pg.Broker(i, "abc"[(i - 1) % 3]) for i in range(1, 7)]
        placed = pg.place(
            members, partitions=24, replication_factor=3, strategy="striped", seed=1
        ).tolist()
        cluster.create_topic("orders", assignment=dict(enumerate(placed)))
        letters = "x" * 2_000
        records = [(i % 24 if i % 3 else i % 5, None, f"v{i} {letters}") for i in range(RECORDS)]
        cluster.produce("orders", records)
        for number, words in enumerate([
            ("rebalance", "--tolerance", "disk-bytes=0.02", "--tolerance", "disk-replicas=0.6"),
            ("drain-broker", "--broker", 1),
            ("add-broker", "--broker", 1),
            ("change-rf", "-r", 2, "--topic", "orders"),
            ("change-rf", "-r", 3, "--topic", "orders"),
            ("replace-broker", "--broker", 2, "--by", 5, "--throttle", 30_000_000),
            ("fix-racks",),
            ("elect-leaders",),
        ]):  # fmt: skip
            was, out = replicas(cluster)["orders"], tmp_path / str(number)
            plan = partage(words[0], cluster.bootstrap, *words[1:], "--out", out)
            print(words, plan["replicas_moved"], plan["replicas_between_disks"],
                  plan["figures"], plan["bounds"])  # fmt: skip
            said = scripted(cluster, tools, out)
            if "--throttle" in words:
                # Kafka's own words: set for the batch, and lifted once it is verified.
                assert "inter-broker throttle limit was set to 30000000 B/s" in said
                assert "Clearing broker-level throttles on" in said
                assert "Clearing topic-level throttles on" in said
            else:
                assert "throttle limit was set" not in said
            asked, folders = as_asked(out)
            assert replicas(cluster)["orders"] == {**was, **asked}, words
            now = disks(cluster)
            assert {key: now[key] for key in folders} == folders, words
            if number == 0:
                assert plan["replicas_between_disks"]
                scripted(cluster, tools, out, "rollback.sh")
                assert replicas(cluster)["orders"] == was
                back = as_asked(out, "rollback")[1]
                now = disks(cluster)
                assert {key: now[key] for key in back} == back
        partage("drain-broker", cluster.bootstrap, "--broker", 1, "--out", tmp_path / "last")
        scripted(cluster, tools, tmp_path / "last")
        assert not any(1 in row for topic in replicas(cluster).values() for row in topic.values())
        cluster.brokers[0].stop()
        found = values(cluster.bootstrap.partition(",")[2], "orders", 24)
        assert sorted(found) == sorted(value for _, _, value in records)
