"""`partage replay kafka://...` by Spark's own Kafka source, against a real broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.support.brokers import connector_jars

from partage.errors import InvalidCaptureError
from partage.jobs.replay.tally import RecordTally
from partage.jobs.spark.tables import KafkaTable, open_kafka


def test_an_address_is_checked_before_anything_starts():
    """No port, no host, a topic behind it: said at once."""
    for wrong in ("kafka://", "kafka://host", "kafka://host:1/topic"):
        with pytest.raises(InvalidCaptureError, match="kafka://host:port"):
            open_kafka(wrong)


def test_secrets_are_not_in_the_repr():
    """A table is in errors and logs; the client's properties are not."""
    table = KafkaTable(
        "kafka://h:1", "kafka", bootstrap="h:1", properties={"sasl.jaas.config": "s3cret"}
    )
    assert "s3cret" not in repr(table)


def test_rows_beyond_the_ends_are_refused():
    """What was read is compared with the offsets that were asked for."""
    table = KafkaTable("kafka://h:1", "kafka", bootstrap="h:1", starts={0: 3}, ends={0: 9})
    tally = RecordTally()
    tally.ranges = {0: [[3, 8, 6]]}
    table.expect_all(tally)
    tally.ranges = {0: [[3, 9, 7]]}
    with pytest.raises(InvalidCaptureError, match="outside"):
        table.expect_all(tally)


def test_a_partition_that_came_back_empty_is_refused(monkeypatch):
    """Spark leaves internal topics out without an error: an empty answer is looked at again."""
    table = KafkaTable(
        "kafka://h:1", "kafka", bootstrap="h:1", starts={0: 0, 1: 0}, ends={0: 9, 1: 0}
    )
    monkeypatch.setattr(KafkaTable, "_has_records", lambda _table, partition: partition == 0)
    with pytest.raises(InvalidCaptureError, match="partition 0 came back empty"):
        table.expect_all(RecordTally())


@pytest.fixture(scope="module")
def jars(tmp_path_factory) -> str:
    """Spark's Kafka connector."""
    return connector_jars(tmp_path_factory.mktemp("jars"))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.jvm
def test_spark_reads_the_group_log_of_a_broker(broker, jars, tmp_path):
    """All records of the internal topic, aborted ones left out, and the run adds up."""
    from kafka import KafkaConsumer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    broker.create_topic("sparked", partitions=1)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="sparked")
    consumer.assign([TopicPartition("sparked", 0)])
    for at in range(20):
        consumer.commit({TopicPartition("sparked", 0): OffsetAndMetadata(at, "", -1)})
    consumer.close()
    done = subprocess.run(
        [sys.executable, "-m", "partage", "replay", f"kafka://{broker.bootstrap}", "--json",
         "--out", str(tmp_path / "run"), "--conf", f"spark.jars={jars}", "--policy", "eager/range"],
        capture_output=True, text=True, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["accounting"]["offset_commits"] >= 20
    assert summary["coverage"]["transactions"].startswith("unknown")
    assert summary["session_timeout_ms"] > 0  # the broker's own setting, as a stream uses it


#: It runs in an interpreter of its own: Spark takes jars only at its start.
_WATCH = """
import sys
import partage as pg
bootstrap, out, jars = sys.argv[1:]
try:
    pg.watch_groups(f"kafka://{bootstrap}", out, once=True)
except pg.InvalidCaptureError as e:
    assert "conf=" in str(e), e
else:
    raise AssertionError("there is no connector")
folder = pg.watch_groups(f"kafka://{bootstrap}", out, once=True, conf={"spark.jars": jars})
for table in ("groups", "commit_rates"):
    print(folder.table(table).select(["group"]).to_pylist())
"""


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.jvm
def test_python_follows_the_groups_of_a_broker(broker, jars, tmp_path):
    """Without the connector the error says how to get it; a second call continues the first."""
    from kafka import KafkaConsumer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    broker.create_topic("followed", partitions=1)
    for group in ("followed-1", "followed-2"):
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group)
        consumer.assign([TopicPartition("followed", 0)])
        consumer.commit({TopicPartition("followed", 0): OffsetAndMetadata(7, "", -1)})
        consumer.close()
        done = subprocess.run(
            [sys.executable, "-c", _WATCH, broker.bootstrap, str(tmp_path / "out"), jars],
            capture_output=True, text=True, check=False, env=dict(os.environ),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for line in done.stdout.splitlines():
            assert group in line
    assert "followed-1" in line
