"""`partage capture` and `partage groups` against a real broker."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.live.old_broker import old_broker
from tests.support.brokers import brokers, free_ports

import partage as pg
from partage.capture.connection import ClusterConnection
from partage.capture.live import LiveCapture
from partage.capture.writing import CaptureWriter
from partage.errors import ClusterUnreachableError
from partage.history.transactions import TransactionOutcome, Transactions
from partage.wire.group_log import decode_record

COMMAND = [sys.executable, "-m", "partage"]


def captured(bootstrap, out):
    """One capture to the log's end, in this process."""
    with ClusterConnection(bootstrap, {}) as connection, CaptureWriter(out) as writer:
        LiveCapture(connection, writer).run_capture(follow=False)
    return out


def topic(broker, name, partitions):
    """A topic, by the client that is here anyway: no JVM has to start."""
    from kafka.admin import NewTopic

    with ClusterConnection(broker.bootstrap, {}) as connection:
        connection.admin.create_topics([NewTopic(name, partitions, 1)])


def rows(folder, table):
    return pq.read_table(folder / f"{table}.parquet").to_pylist()


def committed_by(folder, group):
    """The offsets that a group has at the end, by the capture's records and markers."""
    transactions = Transactions(rows(folder, "batches"))
    found = {}
    for row in rows(folder, "consumer_offsets"):
        said = decode_record(row["key"], row["value"])
        if said.type != "OFFSET_COMMIT" or said.key["group"] != group:
            continue
        place = np.array([row["offset"]]), np.array([row["timestamp_ms"]])
        effect = transactions.find_outcomes(row["partition"], *place)
        if TransactionOutcome(int(effect.outcome[0])) in {
            TransactionOutcome.PLAIN,
            TransactionOutcome.COMMITTED,
        }:
            key = (said.key["topic"], said.key["partition"])
            found.setdefault(key, []).append((int(effect.offset[0]), said.value["offset"]))
    return {key: max(all_of_them)[1] for key, all_of_them in found.items()}


@pytest.fixture(scope="module")
def transactional(broker):
    """A group whose offsets were committed in transactions, some of them aborted."""
    from kafka import KafkaProducer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    topic(broker, "captured-in", 3)
    topic(broker, "captured-out", 1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="captured-tx")
    producer.init_transactions()
    for offset, commits in ((5, True), (99, False), (7, True), (1_000, False)):
        producer.begin_transaction()
        producer.send("captured-out", b"x")
        wanted = {
            TopicPartition("captured-in", p): OffsetAndMetadata(offset + p, "", -1)
            for p in range(3)
        }
        producer.send_offsets_to_transaction(wanted, "captured-group")
        (producer.commit_transaction if commits else producer.abort_transaction)()
    producer.close()
    return "captured-group"


def broker_says(broker, group):
    """What the broker itself has as committed."""
    with ClusterConnection(broker.bootstrap, {}) as connection:
        offsets = connection.admin.list_group_offsets(group)[group]
    return {(tp.topic, tp.partition): one.offset for tp, one in offsets.items()}


@pytest.mark.jvm
def test_aborted_commits_never_count(broker, transactional, tmp_path):
    """The capture's commits, by its markers, end with the broker's own committed offsets."""
    out = captured(broker.bootstrap, tmp_path / "out")
    says = broker_says(broker, transactional)
    assert says == {("captured-in", p): 7 + p for p in range(3)}
    assert committed_by(out, transactional) == says
    markers = [row["control_type"] for row in rows(out, "batches") if row["control"]]
    assert markers.count("ABORT") >= 2
    assert markers.count("COMMIT") >= 2


@pytest.mark.jvm
def test_the_metadata_stands_for_what_was_before(broker, transactional, tmp_path):
    """A first state, marked as assumed, older than every record; topics with their ids."""
    out = captured(broker.bootstrap, tmp_path / "out")
    states = [json.loads(line) for line in (out / "cluster.jsonl").read_text().splitlines()]
    assert states[0]["assumed"]
    assert states[0]["ts_ms"] < min(row["timestamp_ms"] for row in rows(out, "consumer_offsets"))
    assert len(states[-1]["topics"]["captured-in"]["partitions"]) == 3
    assert len(states[-1]["topics"]["captured-in"]["id"]) == 22
    config = json.loads((out / "cluster-config.json").read_text())["configs"]
    assert int(config["group.consumer.session.timeout.ms"]) > 0


@pytest.mark.jvm
@pytest.mark.slow
def test_following_and_killed_it_loses_nothing(broker, tmp_path):
    """SIGKILL at random moments while groups commit; the last run has every record once."""
    from kafka import KafkaConsumer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    topic(broker, "followed", 2)
    done = threading.Event()

    def commits():
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="follower")
        where = [TopicPartition("followed", p) for p in range(2)]
        consumer.assign(where)
        at = 0
        while not done.is_set():
            at += 1
            consumer.commit({one: OffsetAndMetadata(at, "", -1) for one in where})
            time.sleep(0.01)
        consumer.close()

    busy = threading.Thread(target=commits)
    busy.start()
    out, rng = tmp_path / "out", random.Random(8)
    follow = [*COMMAND, "capture", "-b", broker.bootstrap, "-o", str(out), "--follow",
              "--roll-every", "0.1", "--metadata-every", "0.2"]  # fmt: skip
    try:
        for how in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
            with subprocess.Popen(follow, stderr=subprocess.PIPE, text=True) as running:
                assert "following" in running.stderr.readline()
                time.sleep(0.5 + rng.random())
                running.send_signal(how)
                said = running.communicate(timeout=60)[1]
            assert running.returncode == (0 if how == signal.SIGTERM else -signal.SIGKILL), said
    finally:
        done.set()
        busy.join()
    captured(broker.bootstrap, out)
    whole = captured(broker.bootstrap, tmp_path / "whole")
    for table, key in (("consumer_offsets", "offset"), ("batches", "base_offset")):

        def place(row, key=key):
            return row["partition"], row[key]

        ours, theirs = (sorted(rows(one, table), key=place) for one in (out, whole))
        assert ours == theirs[: len(ours)]
        assert len(ours) >= len(theirs) - 5  # other tests' groups may have gone on meanwhile


@pytest.mark.jvm
def test_groups_tells_what_nobody_has_read(broker, transactional):
    """Lag of a group without members: the offsets that were committed, against the ends."""
    from typer.testing import CliRunner

    from partage.cli.app import app

    asked = ["groups", "-b", broker.bootstrap, "-g", transactional, "--every", "0.1", "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    (group,) = json.loads(done.stdout)["groups"]
    assert (group["group"], group["type"], group["members"]) == (transactional, "classic", [])
    assert group["lag"] == 0  # it committed beyond the end: nothing waits


@pytest.mark.jvm
def test_functions_read_a_cluster_as_the_commands_do(broker, transactional, tmp_path):
    """The check finds no gap in a log that was never compacted, and ends that the capture reaches;
    a group is measured, and compared with a strategy.
    """
    found = pg.check_access(broker.bootstrap)
    manifest = pg.capture_cluster(tmp_path / "out", broker.bootstrap)
    assert not found.missing_permissions
    assert (found.can_capture, found.complete_share, found.warnings) == (True, 1.0, ())
    assert found.settings["cleanup.policy"] == "compact"
    ends = {one.partition: one.end for one in found.partitions if one.end}
    assert ends
    assert all(manifest.positions[p] >= end for p, end in ends.items())
    batches = rows(tmp_path / "out", "batches")
    assert found.complete_since_ms == min(
        one["max_timestamp_ms"] for one in batches if not one["base_offset"]
    )
    (look,) = pg.live_groups(broker.bootstrap, "captured-gr*", strategies=["range"], every=0.1)
    assert (look.group.id, look.group.state, look.to_dict()["lag"]) == (transactional, "Empty", 0)
    with pytest.raises(pg.InvalidConfigError, match="setting groups: matches none of"):
        pg.live_groups(broker.bootstrap, "no-such-group", every=0.1)


def ended_badly(*arguments):
    """A command that fails: its exit code and what it says."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PARTAGE_DEBUG": ""},
    )  # fmt: skip
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.returncode, done.stderr


def test_an_unreachable_broker_is_reported_with_what_to_check():
    """A port that nobody listens on: the address, the reason, and what to look at."""
    port = free_ports(1)[0]
    with pytest.raises(ClusterUnreachableError) as raised:
        ClusterConnection(f"127.0.0.1:{port}", {}, connect_ms=1_500)
    assert f"127.0.0.1:{port}" in str(raised.value)
    assert "host and port" in str(raised.value)


READER = "reader-secret-123"


@pytest.fixture(scope="module")
def guarded_broker():
    """A broker that lets in by SASL/PLAIN and asks an authorizer; plain text is its administrator."""
    controller, plain, sasl = free_ports(3)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},"
        f"GUARDED://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "GUARDED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.guarded.plain.sasl.jaas.config":
            f'{login} user_reader="{READER}" user_nobody="nobody";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }  # fmt: skip
    with brokers(properties=properties) as cluster:
        cluster.guarded = f"127.0.0.1:{sasl}"
        yield cluster


def login_file(folder, user, password):
    path = folder / f"{user}-{len(password)}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";\n'
    )
    return str(path)


@pytest.mark.soak
@pytest.mark.jvm
def test_an_account_that_may_only_read(guarded_broker, tmp_path):
    """READ and DESCRIBE on the topic are enough; without them, with a wrong password or without
    SASL it is one line, and no secret is in it.
    """
    from kafka import KafkaConsumer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    topic(guarded_broker, "guarded", 1)
    consumer = KafkaConsumer(bootstrap_servers=guarded_broker.bootstrap, group_id="guarded")
    consumer.assign([TopicPartition("guarded", 0)])
    consumer.commit({TopicPartition("guarded", 0): OffsetAndMetadata(3, "", -1)})
    consumer.close()
    capture = ["capture", "-b", guarded_broker.guarded, "-o", str(tmp_path / "out")]
    reader = ["--command-config", login_file(tmp_path, "reader", READER)]
    code, said = ended_badly(*capture, *reader)
    assert (code, "not authorized" in said, READER in said) == (1, True, False)
    code, said = ended_badly(*capture, "--command-config", login_file(tmp_path, "reader", "wrong!"))
    assert (code, "sasl.jaas.config" in said, "wrong!" in said) == (1, True, False)
    code, said = ended_badly(*capture)
    assert (code, "security.protocol" in said) == (1, True)
    allowed = guarded_broker.run_tool(
        "org.apache.kafka.tools.AclCommand", "--bootstrap-server", guarded_broker.bootstrap,
        "--add", "--allow-principal", "User:reader", "--operation", "Read",
        "--topic", "__consumer_offsets",
    )  # fmt: skip
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    done = subprocess.run(
        [*COMMAND, *capture, *reader], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert READER not in done.stdout + done.stderr + (tmp_path / "out" / "capture.json").read_text()
    assert committed_by(tmp_path / "out", "guarded") == {("guarded", 0): 3}


@pytest.mark.parametrize("command", ["capture", pytest.param("groups", marks=pytest.mark.soak)])
def test_an_old_broker_is_one_line(tmp_path, command):
    """A broker before 0.11 has no record batches: said so, by the version that is needed."""
    to = ["-o", str(tmp_path / "out")] if command == "capture" else []
    with old_broker() as address:
        code, said = ended_badly(command, "-b", address, *to)
    assert code == 1
    assert f"no cluster at {address}" in said
    assert "too old: Partage needs 0.11" in said
