"""A leader that was not in sync takes over: a capture that looks later tells it, and has each place once."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from tests.support.brokers import brokers

from partage.capture.connection import ClusterConnection
from partage.capture.manifest import CaptureManifest
from partage.errors import ClusterUnreachableError

pytestmark = [pytest.mark.jvm, pytest.mark.soak]

LOG, GROUP = "__consumer_offsets", "lost-and-found"


def _capture(cluster, out) -> str:
    """The command itself; what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "partage", "capture", "-b", cluster.bootstrap, "-o", str(out)],
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def _commit(cluster, first: int, count: int) -> None:
    """A group's offsets, one after the other."""
    from kafka import KafkaConsumer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), group_id=GROUP)
    where = TopicPartition("words", 0)
    consumer.assign([where])
    for at in range(first, first + count):
        consumer.commit({where: OffsetAndMetadata(at, "", -1)})
    consumer.close()


def _partition(cluster, partition: int):
    with ClusterConnection(cluster.bootstrap, {}) as connection:
        metadata = connection.fetch_metadata([LOG]).topics[0]
    return next(p for p in metadata.partitions if p.partition_index == partition)


def _until(holds, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while True:
        # The broker that is asked may be the one that has just died.
        with contextlib.suppress(ClusterUnreachableError):
            if holds():
                return
        assert time.monotonic() < end
        time.sleep(0.3)


def _rows(out) -> list[tuple]:
    files = [
        out / "consumer_offsets.parquet" / one.file_name
        for one in CaptureManifest.load_manifest(out).parts
    ]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted((r["partition"], r["offset"], r["key"], r["value"] or b"") for r in rows)


def test_records_that_an_unclean_leader_lost_are_replaced_and_reported(tmp_path) -> None:
    """Fifty commits that only the leader has, captured; it dies, the other one leads and takes eighty
    more: the log has grown past the capture's position, and all the same nothing of what was lost
    stays, nothing is there twice, and the capture says so.
    """
    properties = {
        "unclean.leader.election.enable": "true",
        "replica.lag.time.max.ms": "2000",
        "min.insync.replicas": "1",
    }
    out = tmp_path / "out"
    with brokers(2, properties=properties) as cluster:
        cluster.create_topic("words", 1, 2)
        _commit(cluster, 0, 20)
        _capture(cluster, out)
        partition = max(
            CaptureManifest.load_manifest(out).positions,
            key=CaptureManifest.load_manifest(out).positions.get,
        )
        was = _partition(cluster, partition)
        leader = next(b for b in cluster.brokers if b.node == was.leader_id)
        other = next(b for b in cluster.brokers if b is not leader)
        other.stop()
        _until(lambda: list(_partition(cluster, partition).isr_nodes) == [leader.node])
        _commit(cluster, 1000, 50)
        _capture(cluster, out)
        position = CaptureManifest.load_manifest(out).positions[partition]
        leader.kill()
        other.start()
        _until(lambda: _partition(cluster, partition).leader_id == other.node)
        _commit(cluster, 2000, 80)
        said = _capture(cluster, out)
        assert f"partition {partition}: the log was written anew from" in said
        assert any("written anew" in one for one in CaptureManifest.load_manifest(out).troubles)
        assert CaptureManifest.load_manifest(out).positions[partition] > position
        _capture(cluster, tmp_path / "whole")
    assert _rows(out) == _rows(tmp_path / "whole")
    places = [row[:2] for row in _rows(out)]
    assert len(places) == len(set(places))
