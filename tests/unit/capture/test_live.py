"""What a live capture does when brokers answer badly: it ends, tells, and keeps what it has."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.support.wire_samples import ROOT

from partage.capture.connection import FetchedPartition, PartitionRequest
from partage.capture.live import CaptureIntervals, LiveCapture
from partage.capture.manifest import CaptureManifest
from partage.capture.writing import CaptureWriter
from partage.errors import ClusterUnreachableError
from partage.wire.batches import batches_of

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT = (ROOT / "tests" / "data" / "segments" / "compressed.log").read_bytes()
OUT_OF_RANGE, STORAGE_ERROR = 1, 56


def log_of(count: int, *, damaged: int = -1, epochs: tuple[int, ...] = ()) -> list[bytes]:
    """Batches of ten records each, from offset 0 on; one of them with a wrong CRC; of these leaders'
    epochs, else of 0.
    """
    found, at = [], 0
    while at < len(SEGMENT):
        size = 12 + int.from_bytes(SEGMENT[at + 8 : at + 12], "big")
        found.append(SEGMENT[at : at + size])
        at += size
    of = [*epochs, *[0] * count]
    made = [
        (n * 10).to_bytes(8, "big") + b[8:12] + of[n].to_bytes(4, "big") + b[16:]
        for n in range(count) if (b := found[n % len(found)])
    ]  # fmt: skip
    return [b[:-1] + bytes([b[-1] ^ 1]) if n == damaged else b for n, b in enumerate(made)]


class Cluster:
    """A connection that answers from logs in memory."""

    def __init__(self, *logs: list[bytes]) -> None:
        self.logs = list(logs)
        self.leaders = [1] * len(logs)
        self.errors = [0] * len(logs)

    def fetch_metadata(self, _topics=None):
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

    def partition_bounds(self, _topic, partitions):
        return dict.fromkeys(partitions, 0), {p: 10 * len(self.logs[p]) for p in partitions}

    def fetch_records(self, node, _topic, **_how):
        return [self._answer(*one) for wanted in node.values() for one in wanted], {}

    def _answer(self, p: int, offset: int, epoch: int) -> FetchedPartition:
        end = 10 * len(self.logs[p])
        error = self.errors[p] or (OUT_OF_RANGE if offset > end else 0)
        if not error and epoch >= 0:
            error, parting = self._compared(p, offset, epoch)
            if parting is not None:
                return FetchedPartition(p, 0, end, 0, b"", parting)
        return FetchedPartition(
            p, error, end, 0, b"" if error else b"".join(self.logs[p][offset // 10 :])
        )

    def _compared(self, p: int, offset: int, epoch: int) -> tuple[int, tuple[int, int] | None]:
        """As Kafka's Partition.readRecords compares the epoch that was fetched last with its own."""
        has = [int.from_bytes(batch[12:16], "big") for batch in self.logs[p]]
        below = [of for of in has if of <= epoch]
        if epoch > max(has, default=-1):
            return OUT_OF_RANGE, None  # it knows no such epoch
        end = 10 * len(below)
        parts = bool(below) and (below[-1] < epoch or end < offset)
        return 0, (below[-1], end) if parts else None


def read(cluster: Cluster, out: Path, *, patience: float = 5.0) -> list[str]:
    """Run one capture to its end; return its messages."""
    said: list[str] = []
    stop = threading.Event()
    limit = threading.Timer(20, stop.set)
    limit.start()
    try:
        with CaptureWriter(out) as writer:
            pace = CaptureIntervals(0.05, 60, patience)
            LiveCapture(cluster, writer, pace=pace, stop=stop, trouble=said.append).run_capture(
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
    assert any(
        "1 could not be read" in one
        for one in CaptureManifest.load_manifest(tmp_path / "out").troubles
    )
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
    assert CaptureManifest.load_manifest(out).records == 80


@pytest.mark.parametrize(
    ("ours", "theirs", "parts_at"),
    [
        ((1, 1, 1, 2, 2), (1, 1, 1, 3, 3, 3, 3, 3), 30),  # ours of epoch 2 were never there
        ((1, 1, 1, 2, 2), (1, 1, 1, 2, 3, 3, 3), 40),  # one of them was
        ((1, 1, 3, 3, 3), (1, 1, 1, 1, 4, 4, 4), 20),  # the others' epoch 1 went on without us
        ((2, 2, 4, 4), (2, 3, 3, 5, 5, 5), 10),  # they part before an epoch of theirs
    ],
)
def test_a_log_that_was_written_anew_and_has_grown_since_is_there_once(
    tmp_path, ours, theirs, parts_at
) -> None:
    """An unclean leader, looked at only when its log had grown past what was read: reported, and the
    records that were lost are replaced by those that came to their places.
    """
    out = tmp_path / "out"
    read(Cluster(log_of(len(ours), epochs=ours), log_of(2)), out)
    said = read(Cluster(log_of(len(theirs), epochs=theirs), log_of(2)), out)
    assert [one for one in said if f"written anew from {parts_at} on" in one]
    assert offsets(out, 0) == list(range(10 * len(theirs)))
    assert offsets(out, 1) == list(range(20))
    batches = pq.read_table(out / "batches.parquet").to_pylist()
    found = sorted(
        (one["base_offset"], one["leader_epoch"]) for one in batches if not one["partition"]
    )
    assert found == [(10 * n, epoch) for n, epoch in enumerate(theirs)]
    assert read(Cluster(log_of(len(theirs), epochs=theirs), log_of(2)), out) == []


def compact(cluster: Cluster, *removed: int) -> None:
    """Remove whole batches from the first log, as the log cleaner does."""
    for number in removed:
        cluster.logs[0][number] = b""


def test_offsets_compacted_during_a_pause_are_counted_and_reported(tmp_path) -> None:
    """A capture that resumes behind compacted records counts them, names them in `troubles` and
    reports them; the capture that goes on after that reports nothing new.
    """
    cluster = Cluster(log_of(3))
    assert read(cluster, tmp_path) == []
    cluster.logs = [log_of(12)]
    compact(cluster, 3, 4, 5, 9)
    (said,) = read(cluster, tmp_path)
    assert said.startswith("partition 0: 40 offsets between 30 and 99 are missing: the log cleaner")
    manifest = CaptureManifest.load_manifest(tmp_path)
    assert manifest is not None
    assert (manifest.cleaned, manifest.troubles) == ({0: 40}, [said])
    cluster.logs = [log_of(13)]
    assert read(cluster, tmp_path) == []
    again = CaptureManifest.load_manifest(tmp_path)
    assert again is not None
    assert (again.cleaned, again.troubles) == ({0: 40}, [said])


def test_offsets_compacted_before_the_first_capture_are_counted_only(tmp_path) -> None:
    """Compaction before the first fetch is the normal state of the topic: a count, no trouble,
    even if the first read is interrupted and resumed.
    """
    cluster = Cluster(log_of(6))
    compact(cluster, 0, 1, 3)
    with CaptureWriter(tmp_path) as writer:
        writer.set_first_end(0, 60)
        writer.add_batch(0, next(batches_of(cluster.logs[0][2])))
    assert read(cluster, tmp_path) == []
    manifest = CaptureManifest.load_manifest(tmp_path)
    assert manifest is not None
    assert (manifest.cleaned, manifest.troubles) == ({0: 30}, [])


def test_a_capture_behind_the_cleaner_reports_it_while_it_follows(tmp_path) -> None:
    """Compaction that overtakes a following capture is reported before the capture ends."""
    cluster, said, stop = Cluster(log_of(3)), [], threading.Event()
    limit = threading.Timer(20, stop.set)
    limit.start()

    def grow(records: int, _behind: int) -> None:
        if records == 30 and len(cluster.logs[0]) == 3:
            cluster.logs = [log_of(6)]
            compact(cluster, 3)

    def heard(what: str) -> None:
        said.append(what)
        stop.set()

    with CaptureWriter(tmp_path) as writer:
        capture = LiveCapture(
            cluster,
            writer,
            pace=CaptureIntervals(0.05, 0.1, 5),
            stop=stop,
            trouble=heard,
            progress=grow,
        )
        capture.run_capture(follow=True)
    limit.cancel()
    assert said
    assert "partition 0: 10 offsets (30 to 39) are missing" in said[0]


def test_a_leader_that_knows_nothing_of_the_epoch_is_asked_without(tmp_path) -> None:
    """Its epochs are lower than the one that was read: nothing to compare, the capture goes on."""
    out = tmp_path / "out"
    read(Cluster(log_of(2, epochs=(5, 5)), log_of(1)), out)
    read(Cluster(log_of(4, epochs=(1, 1, 1, 1)), log_of(1)), out)
    assert offsets(out, 0) == list(range(40))


def test_a_log_that_was_written_anew_from_before_the_first_known_epoch(tmp_path) -> None:
    """A capture that knows nothing of older epochs goes back to where those that it knows began."""
    out = tmp_path / "out"
    ours = (1, 1, 1, 6, 6)
    with CaptureWriter(out) as writer:
        pace = CaptureIntervals(0.05, 60, 5.0)
        LiveCapture(Cluster(log_of(3, epochs=ours[:3])), writer, pace=pace).run_capture(
            follow=False
        )
        writer.epochs.remove_partition(0)
    read(Cluster(log_of(5, epochs=ours)), out)
    theirs = (1, 1, 1, 5, 7, 7, 7)
    said = read(Cluster(log_of(7, epochs=theirs)), out)
    assert [one for one in said if "written anew from 30 on" in one]
    assert offsets(out, 0) == list(range(70))


def test_where_something_was_skipped_nothing_is_compared(tmp_path) -> None:
    """The record before the position was not read: no epoch is asked for."""
    with CaptureWriter(tmp_path / "out") as writer:
        writer.epochs.record_batch(0, 3, 90, 100)
        assert writer.epochs.last_epoch(0, 100) == 3
        assert writer.epochs.last_epoch(0, 120) == -1
    assert PartitionRequest(0, 120).epoch == -1


def test_killed_while_it_cuts_the_next_one_does_it(tmp_path, monkeypatch) -> None:
    """The manifest says what is to be cut before anything is; parts are never half a part."""
    from partage.capture import writing

    out = tmp_path / "out"
    read(Cluster(log_of(5), log_of(2)), out)

    def killed(*_):
        raise KeyboardInterrupt

    with CaptureWriter(out) as writer, monkeypatch.context() as patched:
        patched.setattr(writing, "drop_lost_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            writer.remove_lost_rows(0, 30, "an unclean leader")
    with CaptureWriter(out) as writer:
        assert writer.next_offset(0) == 30
        assert writer.manifest.cut == {}
    assert offsets(out, 0) == list(range(30))


def test_a_broker_that_is_just_restarting_is_waited_for(tmp_path) -> None:
    """The first look goes to it and is refused: the capture asks again, and tells."""
    from kafka.errors import KafkaConnectionError

    cluster = Cluster(log_of(2))
    whole, left = cluster.fetch_metadata, [3]

    def metadata(topics=None):
        left[0] -= 1
        if left[0] > 0:
            raise KafkaConnectionError("111 ECONNREFUSED")
        return whole(topics)

    cluster.fetch_metadata = metadata
    said = read(cluster, tmp_path / "out", patience=5)
    assert offsets(tmp_path / "out", 0) == list(range(20))
    assert said[0] == "metadata cannot be had: KafkaConnectionError: 111 ECONNREFUSED"
    assert len(said) == 2
    assert re.fullmatch(r"reading again, after \d+ s", said[1])


def test_a_broker_that_is_gone_from_the_metadata_is_no_end(tmp_path) -> None:
    """The client does not know the leader any more, in the middle of it: it is asked again later."""
    from kafka.errors import UnknownBrokerIdError

    cluster = Cluster(log_of(2))
    whole, left = cluster.fetch_records, [3]

    def fetch(*asked, **how):
        left[0] -= 1
        if left[0] > 0:
            raise UnknownBrokerIdError(3)
        return whole(*asked, **how)

    cluster.fetch_records = fetch
    said = read(cluster, tmp_path / "out", patience=5)
    assert offsets(tmp_path / "out", 0) == list(range(20))
    assert len(said) == 2
    assert said[1].startswith("reading again")


def test_trouble_is_reported_once_a_minute_and_at_its_end(monkeypatch) -> None:
    """A broker that is away for ten minutes: a dozen lines, not six thousand; and the capture keeps
    from when to when.
    """
    from partage.capture import live

    now = [1_000_000.0]
    monkeypatch.setattr(live.time, "time", lambda: now[0])
    said: list[str] = []
    kept: list[str] = []
    one = live.ProblemReporter(said.append, kept.append)
    for _ in range(6000):
        one.report_problem("broker 1 does not answer: NodeNotReadyError")
        one.report_problem("metadata cannot be had: refused")
        now[0] += 0.1
    one.report_recovery()
    one.report_recovery()
    assert len(said) == 2 * 10 + 1
    assert "still so, since" in said[2]
    assert said[-1] == "reading again, after 600 s"
    assert len(kept) == 1


def test_an_observer_learns_of_all_that_is_written(tmp_path) -> None:
    """Batches in the order of their log partition, the metadata, the first ends, and a cut."""
    seen: dict[str, list] = {"batch": [], "state": [], "end": [], "config": [], "cut": []}
    observer = SimpleNamespace(
        on_batch=seen["batch"].append,
        on_state=seen["state"].append,
        on_fetch=lambda *where: seen["end"].append(where),
        on_config=seen["config"].append,
        on_truncation=seen["cut"].append,
    )

    def run(cluster: Cluster) -> None:
        with CaptureWriter(tmp_path / "out", observer=observer) as writer:
            LiveCapture(cluster, writer, pace=CaptureIntervals(0.05, 60, 5.0)).run_capture(
                follow=False
            )

    run(Cluster(log_of(3), log_of(2)))
    found = {p: [b.base_offset for b in seen["batch"] if b.partition == p] for p in (0, 1)}
    assert found == {0: [0, 10, 20], 1: [0, 10]}
    assert set(seen["end"]) == {(0, 30), (1, 20)}
    assert (len(seen["state"]), seen["config"], seen["cut"]) == (1, [{}], [])
    run(Cluster(log_of(2), log_of(2)))
    assert seen["cut"] == [0]
