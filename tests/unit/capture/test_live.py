"""What a live capture does when brokers answer badly: it ends, tells, and keeps what it has."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from partage.capture.connection import Fetched
from partage.capture.live import LiveCapture, Pace
from partage.capture.manifest import Manifest
from partage.capture.writing import CaptureWriter
from partage.errors import ClusterUnreachableError
from wire_samples import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT = (ROOT / "tests" / "data" / "segments" / "compressed.log").read_bytes()
OUT_OF_RANGE, STORAGE_ERROR = 1, 56


def log_of(count: int, *, damaged: int = -1) -> list[bytes]:
    """Batches of ten records each, from offset 0 on; one of them with a wrong CRC."""
    found, at = [], 0
    while at < len(SEGMENT):
        size = 12 + int.from_bytes(SEGMENT[at + 8 : at + 12], "big")
        found.append(SEGMENT[at : at + size])
        at += size
    made = [(n * 10).to_bytes(8, "big") + found[n % len(found)][8:] for n in range(count)]
    return [b[:-1] + bytes([b[-1] ^ 1]) if n == damaged else b for n, b in enumerate(made)]


class Cluster:
    """A connection that answers from logs in memory."""

    def __init__(self, *logs: list[bytes]) -> None:
        self.logs = list(logs)
        self.leaders = [1] * len(logs)
        self.errors = [0] * len(logs)

    def metadata(self, _topics=None):
        parts = [
            SimpleNamespace(partition_index=p, leader_id=leader, replica_nodes=[1], isr_nodes=[1],
                            error_code=0) for p, leader in enumerate(self.leaders)
        ]  # fmt: skip
        topic = SimpleNamespace(
            name="__consumer_offsets", topic_id=None, error_code=0, partitions=parts
        )
        broker = SimpleNamespace(node_id=1, rack=None, host="h", port=1)
        return SimpleNamespace(cluster_id="c", brokers=[broker], topics=[topic])

    def quorum_leader(self):
        return None

    def broker_config(self, _node):
        return {}

    def bounds(self, _topic, partitions):
        return dict.fromkeys(partitions, 0), {p: 10 * len(self.logs[p]) for p in partitions}

    def fetch(self, node, _topic, **_how):
        asked = [one for wanted in node.values() for one in wanted]
        return [self._answer(p, offset) for p, offset in asked], {}

    def _answer(self, p: int, offset: int) -> Fetched:
        end = 10 * len(self.logs[p])
        error = self.errors[p] or (OUT_OF_RANGE if offset > end else 0)
        return Fetched(p, error, end, 0, b"" if error else b"".join(self.logs[p][offset // 10 :]))


def read(cluster: Cluster, out: Path, *, patience: float = 5.0) -> list[str]:
    """One capture to the end; what it told."""
    said: list[str] = []
    stop = threading.Event()
    limit = threading.Timer(20, stop.set)
    limit.start()
    try:
        with CaptureWriter(out) as writer:
            pace = Pace(0.05, 60, patience)
            LiveCapture(cluster, writer, pace=pace, stop=stop, trouble=said.append).run(
                follow=False
            )
    finally:
        limit.cancel()
    assert not stop.is_set(), "it had to be stopped"
    return said


def offsets(out: Path, partition: int) -> list[int]:
    rows = pq.read_table(out / "consumer_offsets.parquet").to_pylist()
    return sorted(row["offset"] for row in rows if row["partition"] == partition)


@pytest.mark.parametrize("how", ["no leader", "an error that stays"])
def test_a_partition_that_cannot_be_read_ends_it(tmp_path, how) -> None:
    """After the patience: an error that names it, the others in the capture, the manifest knows;
    run again when it is back, it goes on.
    """
    cluster = Cluster(log_of(3), log_of(2))
    if how == "no leader":
        cluster.leaders[1] = -1
    else:
        cluster.errors[1] = STORAGE_ERROR
    with pytest.raises(ClusterUnreachableError, match="partitions 1 of"):
        read(cluster, tmp_path / "out", patience=0.3)
    assert offsets(tmp_path / "out", 0) == list(range(30))
    assert any("1 could not be read" in one for one in Manifest.of(tmp_path / "out").troubles)
    cluster.leaders[1], cluster.errors[1] = 1, 0
    read(cluster, tmp_path / "out")
    assert offsets(tmp_path / "out", 1) == list(range(20))


def test_a_damaged_batch_costs_itself_only(tmp_path) -> None:
    """What stands before and behind it is read, and the capture says what is missing."""
    said = read(Cluster(log_of(5, damaged=2), log_of(1)), tmp_path / "out")
    assert offsets(tmp_path / "out", 0) == [*range(20), *range(30, 50)]
    assert offsets(tmp_path / "out", 1) == list(range(10))
    assert [one for one in said if "offsets 20 to 29 cannot be read" in one]


def test_a_log_that_was_cut_back_is_there_once(tmp_path) -> None:
    """An unclean leader: what the log no longer has goes, what came in its place is there once."""
    out = tmp_path / "out"
    read(Cluster(log_of(5), log_of(2)), out)
    shorter = Cluster(log_of(3), log_of(2))
    said = read(shorter, out)
    assert any("cut back from 50 to 30" in one for one in said)
    assert offsets(out, 0) == list(range(30))
    shorter.logs[0] = log_of(6)
    read(shorter, out)
    assert offsets(out, 0) == list(range(60))
    assert offsets(out, 1) == list(range(20))
    assert Manifest.of(out).records == 80


def test_killed_while_it_cuts_the_next_one_does_it(tmp_path, monkeypatch) -> None:
    """The manifest says what is to be cut before anything is; parts are never half a part."""
    from partage.capture import writing

    out = tmp_path / "out"
    read(Cluster(log_of(5), log_of(2)), out)

    def killed(*_):
        raise KeyboardInterrupt

    with CaptureWriter(out) as writer, monkeypatch.context() as patched:
        patched.setattr(writing, "_kept_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.cut(0, 30, "an unclean leader")
    with CaptureWriter(out) as writer:
        assert writer.position(0) == 30
        assert writer.manifest.cut == {}
    assert offsets(out, 0) == list(range(30))


def test_a_broker_that_is_just_restarting_is_waited_for(tmp_path) -> None:
    """The first look goes to it and is refused: the capture asks again, and tells."""
    from kafka.errors import KafkaConnectionError

    cluster = Cluster(log_of(2))
    whole, left = cluster.metadata, [3]

    def metadata(topics=None):
        left[0] -= 1
        if left[0] > 0:
            raise KafkaConnectionError("111 ECONNREFUSED")
        return whole(topics)

    cluster.metadata = metadata
    said = read(cluster, tmp_path / "out", patience=5)
    assert offsets(tmp_path / "out", 0) == list(range(20))
    assert said[0] == "metadata cannot be had: KafkaConnectionError: 111 ECONNREFUSED"
    assert len(said) == 2
    assert re.fullmatch(r"reading again, after \d+ s", said[1])


def test_a_broker_that_is_gone_from_the_metadata_is_no_end(tmp_path) -> None:
    """The client does not know the leader any more, in the middle of it: it is asked again later."""
    from kafka.errors import UnknownBrokerIdError

    cluster = Cluster(log_of(2))
    whole, left = cluster.fetch, [3]

    def fetch(*asked, **how):
        left[0] -= 1
        if left[0] > 0:
            raise UnknownBrokerIdError(3)
        return whole(*asked, **how)

    cluster.fetch = fetch
    said = read(cluster, tmp_path / "out", patience=5)
    assert offsets(tmp_path / "out", 0) == list(range(20))
    assert len(said) == 2
    assert said[1].startswith("reading again")


def test_trouble_is_told_once_a_minute_and_its_end(monkeypatch) -> None:
    """A broker that is away for ten minutes: a dozen lines, not six thousand; and the capture keeps
    from when to when.
    """
    from partage.capture import telling

    now = [1_000_000.0]
    monkeypatch.setattr(telling.time, "time", lambda: now[0])
    said: list[str] = []
    kept: list[str] = []
    one = telling.Telling(said.append, kept.append)
    for _ in range(6000):
        one.say("broker 1 does not answer: NodeNotReadyError")
        one.say("metadata cannot be had: refused")
        now[0] += 0.1
    one.well()
    one.well()
    assert len(said) == 2 * 10 + 1
    assert "still so, since" in said[2]
    assert said[-1] == "reading again, after 600 s"
    assert len(kept) == 1
