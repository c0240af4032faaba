"""`partage watch kafka://...` on three brokers: its tables beside those of batch replays.

Members join, leave, freeze and are killed, topics grow and a broker is stopped, as in
`test_watched`. The stream's driver is killed alone once, and once with all processes that it
started. A capture records the same log. Afterwards the tables of the stream are compared with a
replay of the stream's folder, of the capture, and of the topic.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest
from pyarrow import parquet
from tests.support.brokers import Brokers, brokers, connector_jars
from tests.support.processes import Closes, built

from chaos.record import BROKER, TOPICS, Capture, MemberProcess, Recording

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf", reason="PySpark's state client needs protobuf")

from partage.capture.connection import ClusterConnection
from partage.capture.security import ClientProperties, connection_settings
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.watch.group_tables import DECODED, OPENED, STREAM_TABLES, stream_schema
from partage.jobs.watch.stream_output import StreamFolder
from partage.runs.published_run import PublishedRun
from partage.runs.stream_manifests import current_manifests
from partage.tables.schemas import SIMULATED_COLUMNS

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.soak]

MINUTES = float(os.environ.get("PARTAGE_WATCH_MINUTES", "30"))
#: Shares of the time at which the driver is killed: alone, then with all that it started.
_KILL_AT = (0.35, 0.7)
#: Groups whose libraries and protocols others have.
_LEFT_OUT = ("billing", "ledger", "exports", "index")
_TOPIC = "__consumer_offsets"
_KEYS = {
    "groups": ("group",),
    "events": ("group", "incarnation", "log_partition", "log_offset", "position"),
    "rebalances": ("group", "incarnation", "log_partition", "log_offset"),
    "members": ("group", "incarnation", "generation", "member"),
    "ownership": ("group", "incarnation", "topic", "partition", "member", "role", "from_ms"),
    "commit_rates": ("group", "topic", "partition", "minute_ms"),
    "pauses": ("group", "incarnation", "generation", "topic", "partition"),
    "unread": ("group", "incarnation", "generation", "topic", "partition", "assigned_ms"),
    "bad_records": ("log_partition", "log_offset"),
}
#: Attributes of `WatchedStream` that are written down, should a later step fail.
_MEASURED = ("published", "planned", "done", "peaks", "checkpoint_mb", "kills", "ends")
Row = dict[str, Any]


class WatchedStream(Closes):
    """``partage watch SOURCE`` as a process, which can be killed and started again.

    Attributes:
        published: dict from micro-batch to the time of its first publication (s).
        planned, done: the same for the beginning and the end of a micro-batch, by Spark.
        peaks: largest resident memory by kind of process, and of all (MB).
        kills: list of the time of each kill (s), what was killed, and the newest micro-batch.
        ends: exit codes of processes that ended by themselves.
    """

    def __init__(self, source: str, out: Path, *conf: str) -> None:
        self._command = [sys.executable, "-m", "partage", "watch", source, "--out", str(out)]
        self._command += ["--json", *(word for one in conf for word in ("--conf", one))]
        self._stream = out / "stream"
        self._log = out.parent / "watch.log"
        self.published: dict[int, float] = {}
        self.planned: dict[int, float] = {}
        self.done: dict[int, float] = {}
        self.peaks: dict[str, float] = {}
        self.cpu: dict[tuple[str, int], float] = {}
        self.checkpoint_mb = 0.0
        self.kills: list[tuple[float, str, int]] = []
        self.ends: list[int] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._start()
        self._thread = threading.Thread(target=self._observe, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, *, alone: bool) -> None:
        """End the driver with SIGKILL, alone or with all that it started, and start it again."""
        with self._lock:
            what = "driver" if alone else "driver, JVM and workers"
            self.kills.append((time.time(), what, max(self.published, default=-1)))
            (os.kill if alone else os.killpg)(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._start()

    def _observe(self) -> None:
        turn = 0
        while not self._stop.wait(0.1):
            _note_times(self._stream / "batches", "[0-9]*.json", self.published)
            _note_times(self._stream / "checkpoint" / "offsets", "[0-9]*", self.planned)
            _note_times(self._stream / "checkpoint" / "commits", "[0-9]*", self.done)
            with self._lock:
                if self._process.poll() is not None:
                    self.ends.append(self._process.returncode)
                    self._start()
                if turn % 50 == 0:
                    self._measure()
            turn += 1

    def _measure(self) -> None:
        sums: Counter[str] = Counter()
        for pid in _descendants(self._process.pid):
            kind, size, cpu = _usage(pid)
            sums["driver" if pid == self._process.pid else kind] += size
            self.cpu[kind, pid] = cpu
        for kind, size in [*sums.items(), ("all", sum(sums.values()))]:
            self.peaks[kind] = max(self.peaks.get(kind, 0.0), size)
        self.checkpoint_mb = max(self.checkpoint_mb, folder_mb(self._stream / "checkpoint"))

    def has_read(self, ends: dict[int, int]) -> bool:
        """Return whether a finished micro-batch ends at these offsets of log partitions."""
        if not self.done:
            return False
        path = self._stream / "checkpoint" / "offsets" / str(max(self.done))
        found = json.loads(path.read_text().splitlines()[-1])[_TOPIC]
        return {int(p): at for p, at in found.items()} == ends

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        measured = {name: getattr(self, name) for name in _MEASURED}
        (self._stream.parent.parent / "measured.json").write_text(json.dumps(measured))
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=120) == 0, self._log.read_text()[-3000:]

    @property
    def log(self) -> str:
        """The output of all processes."""
        return self._log.read_text()


def _note_times(folder: Path, pattern: str, into: dict[int, float]) -> None:
    for path in folder.glob(pattern):
        if path.stem.isdigit() and int(path.stem) not in into:
            try:
                into[int(path.stem)] = path.stat().st_mtime
            except FileNotFoundError:
                continue  # it was merged


def _descendants(root: int) -> list[int]:
    lines = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    children: dict[int, list[int]] = defaultdict(list)
    for pid, parent in (map(int, line.split()) for line in lines):
        children[parent].append(pid)
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def _usage(pid: int) -> tuple[str, float, float]:
    """Return a process's kind, resident memory (MB; shared pages by share), processor seconds."""
    folder = Path(f"/proc/{pid}")
    try:
        program = (folder / "cmdline").read_bytes().split(b"\0")[0]
        lines = (folder / "smaps_rollup").read_text().splitlines()
        cells = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "workers", 0.0, 0.0
    size = next((float(line.split()[1]) for line in lines if line.startswith("Pss:")), 0.0)
    cpu = (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")
    return "JVM" if b"java" in program else "workers", size / 1024, cpu


def folder_mb(folder: Path) -> float:
    """Return the size of all files in a folder that changes (MB)."""
    done = subprocess.run(
        ["du", "-sk", str(folder)], capture_output=True, text=True, check=False
    ).stdout
    return int(done.split()[0]) / 1024 if done else 0.0


class _SparingRecording(Recording):
    """A recording whose clients leave processor time for Spark on two cores."""

    own_share = 0.15
    seconds_between = (10.0, 20.0)

    def __init__(self, cluster: Brokers, rng: random.Random, seconds: float) -> None:
        super().__init__(cluster, rng, seconds)
        self.groups = [one for one in self.groups if one.plan.name not in _LEFT_OUT]

    def _process(self, node: str, lang: str) -> MemberProcess:
        made = super()._process(node, lang)
        os.setpriority(os.PRIO_PROCESS, made.process.pid, 10)
        return made


@pytest.fixture
def cluster() -> Iterator[Brokers]:
    """Three brokers with topics and one offset commit; a stream of an empty log is an error."""
    built("peers.sh")
    with brokers(3, racks=("a", "b", "c"), properties=BROKER) as started:
        for topic, partitions in TOPICS.items():
            started.create_topic(topic, partitions, 3)
        _commit_once(started.bootstrap)
        yield started


def test_half_an_hour_of_tables(
    cluster: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed stream of a live cluster has the rows of batch replays, apart from known columns."""
    jars = connector_jars(tmp_path / "jars")
    out, captured = tmp_path / "run", tmp_path / "capture"
    with (
        Capture(cluster.bootstrap, captured),
        WatchedStream(f"kafka://{cluster.bootstrap}", out, f"spark.jars={jars}") as stream,
    ):
        actions = _record(cluster, stream, MINUTES)
        waited_s = _await_end(cluster.bootstrap, stream)
    load = os.getloadavg()[0]
    _replay(f"kafka://{cluster.bootstrap}", tmp_path / "of_topic", f"spark.jars={jars}")
    _replay(str(out), tmp_path / "of_stream")
    _replay(str(captured), tmp_path / "of_capture")
    for name, is_own, has_epochs in _VARIANTS:
        _vary(captured, out, tmp_path / name, is_own=is_own, has_epochs=has_epochs)
        _replay(str(tmp_path / name), tmp_path / f"of_{name}")
    found = _stream_rows(out)
    names = ("stream", "topic", "capture", *(name for name, *_ in _VARIANTS))
    differences = {n: _compare_tables(found, _replayed_rows(tmp_path / f"of_{n}")) for n in names}
    (tmp_path / "differences.json").write_text(json.dumps(differences, indent=1))
    with capsys.disabled():
        print("", f"{actions} actions, load {load:.1f} at the end, read after {waited_s:.1f} s",
              *_figures(stream, out, found), *_summaries(differences), sep="\n")  # fmt: skip
    assert not stream.ends, stream.log[-3000:]
    for name in ("stream", "records"):
        assert not _without_early_metadata(differences[name], out / "stream")


def test_minutes_of_tables_of_a_growing_capture(
    cluster: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed stream of a capture that is being recorded has the rows of a replay."""
    out, captured = tmp_path / "run", tmp_path / "capture"
    with Capture(cluster.bootstrap, captured) as capture:
        while not all((captured / name).exists() for name in ("capture.json", "cluster.jsonl")):
            time.sleep(0.1)
        with WatchedStream(str(captured), out) as stream:
            actions = _record(cluster, stream, min(MINUTES, 5.0))
            capture.close()
            _await_quiet(stream)
    _replay(str(out), tmp_path / "of_capture")
    found = _stream_rows(out)
    differences = {"capture": _compare_tables(found, _replayed_rows(tmp_path / "of_capture"))}
    (tmp_path / "differences.json").write_text(json.dumps(differences, indent=1))
    with capsys.disabled():
        print("", f"{actions} actions, load {os.getloadavg()[0]:.1f} at the end",
              *_figures(stream, out, found), *_summaries(differences), sep="\n")  # fmt: skip
    assert not stream.ends, stream.log[-3000:]
    assert not _without_early_metadata(differences["capture"], captured)


def _record(cluster: Brokers, stream: WatchedStream, minutes: float) -> int:
    """Run clients under faults, and kill the stream twice; return the number of actions."""
    with _SparingRecording(cluster, random.Random(23), 60 * minutes) as recording:
        killing = threading.Thread(target=_kill_twice, args=(stream, minutes))
        killing.start()
        recording.run()
        killing.join()
    return len(recording.events)


#: Captures of the records: name, whether with the capture's own metadata, whether with the leader
#: epochs of batches, from which moves of coordinators follow.
_VARIANTS = (("records", False, False), ("metadata", True, False), ("epochs", False, True))


def _vary(captured: Path, out: Path, to: Path, *, is_own: bool, has_epochs: bool) -> None:
    """Copy a capture, with the metadata of the stream or its own, and with or without batches."""
    shutil.copytree(captured, to)
    if not is_own:
        for name in ("cluster.jsonl", "cluster-config.json"):
            shutil.copy(out / "stream" / name, to / name)
    if not has_epochs:
        shutil.rmtree(to / "batches.parquet")


def _without_early_metadata(differences: dict[str, list[Row]], to: Path) -> dict[str, list[Row]]:
    """Leave out differences of ``cluster_ms`` before metadata was recorded in a folder.

    A replay infers the metadata of that time from records.
    """
    lines = (to / "cluster.jsonl").read_text().splitlines()
    first_ms = next(one["ts_ms"] for one in map(json.loads, lines) if not one.get("assumed"))
    left = {
        table: [
            one for one in some
            if one["columns"] != "cluster_ms" or one["stream"][0]["time_ms"] >= first_ms
        ]
        for table, some in differences.items()
    }  # fmt: skip
    return {table: some for table, some in left.items() if some}


def _compare_opened(found: dict[str, list[Row]]) -> dict[str, int]:
    """Return how many rows of ``opened`` differ from those of ``rebalances``, by columns."""
    opened, rebalances = (
        {json.dumps([row[name] for name in _KEYS["rebalances"]]): row for row in found[table]}
        for table in (OPENED, "rebalances")
    )
    assert opened.keys() == rebalances.keys()
    return dict(Counter(
        ", ".join(n for n in row if n in rebalances[key] and row[n] != rebalances[key][n])
        for key, row in opened.items()
    ))  # fmt: skip


def _kill_twice(stream: WatchedStream, minutes: float) -> None:
    """Kill the stream's driver alone, later with all that it started, at any moment of its work."""
    began = time.monotonic()
    for share, alone in zip(_KILL_AT, (True, False), strict=True):
        time.sleep(max(0.0, began + 60 * minutes * share - time.monotonic()))
        before = len(stream.published)
        while len(stream.published) < before + 2:
            time.sleep(0.1)
        time.sleep(random.Random(23).uniform(0, 4))
        stream.kill(alone=alone)


def _commit_once(bootstrap: str) -> None:
    from kafka import KafkaConsumer
    from kafka.structs import OffsetAndMetadata, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id="first")
    partition = TopicPartition("orders", 0)
    consumer.assign([partition])
    consumer.commit({partition: OffsetAndMetadata(0, "", -1)})
    consumer.close()


def _await_end(bootstrap: str, stream: WatchedStream) -> float:
    """Wait until the log grows no more and the stream has read it; return the seconds it took."""
    began, last = time.monotonic(), {}
    while time.monotonic() < began + 600:
        with ClusterConnection(bootstrap, connection_settings(ClientProperties({}))) as connection:
            numbers = [
                p.partition_index for p in connection.fetch_metadata([_TOPIC]).topics[0].partitions
            ]
            _, ends = connection.partition_bounds(_TOPIC, numbers)
        if ends != last:
            last, changed = ends, time.monotonic()
        elif time.monotonic() > changed + 20 and stream.has_read(ends):  # evictions are over
            return time.monotonic() - changed
        time.sleep(0.5)
    raise AssertionError(f"the stream did not reach {last}: {stream.log[-3000:]}")


def _await_quiet(stream: WatchedStream) -> None:
    """Wait until the stream has processed no micro-batch for 20 seconds."""
    until = time.time() + 600
    while time.time() < until:
        time.sleep(1)
        newest = max([*stream.planned.values(), *stream.done.values()], default=time.time())
        if stream.planned.keys() <= stream.done.keys() and time.time() > newest + 20:
            return
    raise AssertionError(f"the stream did not end: {stream.log[-3000:]}")


def _replay(source: str, out: Path, *conf: str) -> None:
    command = [sys.executable, "-m", "partage", "replay", source, "--out", str(out), "--json"]
    command += ["--policy", "eager/range", *(word for one in conf for word in ("--conf", one))]
    command += [] if source.startswith("kafka://") else ["--engine", "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def _stream_rows(out: Path) -> dict[str, list[Row]]:
    folder = StreamFolder(out)
    return {table: _plain(folder.table(table).to_pylist(), table) for table in STREAM_TABLES}


def _replayed_rows(out: Path) -> dict[str, list[Row]]:
    run = PublishedRun(out)
    return {
        table: _plain(run.table(table).to_pylist(), table)
        for table in STREAM_TABLES if table != OPENED
    }  # fmt: skip


def _plain(rows: list[Row], table: str) -> list[Row]:
    """Return rows with the columns that a stream fills in, as values that can be compared."""
    names = [n for n in stream_schema(table).names if n not in SIMULATED_COLUMNS.get(table, ())]
    return [json.loads(json.dumps({n: row[n] for n in names}, default=repr)) for row in rows]


def _compare_tables(
    found: dict[str, list[Row]], expected: dict[str, list[Row]]
) -> dict[str, list[Row]]:
    """Return the differences by table: rows that only one side has, and columns that differ."""
    out = {}
    for table, rows in expected.items():
        ours, theirs = (_by_key(table, some) for some in (found[table], rows))
        different = [
            {"key": key, "columns": _columns(ours.get(key, []), theirs.get(key, [])),
             "stream": ours.get(key, []), "replay": theirs.get(key, [])}
            for key in sorted(ours.keys() | theirs.keys()) if ours.get(key) != theirs.get(key)
        ]  # fmt: skip
        if different:
            out[table] = different
    return out


def _by_key(table: str, rows: list[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in sorted(rows, key=json.dumps):
        out.setdefault(json.dumps([row[name] for name in _KEYS[table]]), []).append(row)
    return out


def _columns(ours: list[Row], theirs: list[Row]) -> str:
    if not ours or not theirs:
        return "only in the replay" if theirs else "only in the stream"
    names = {n for a, b in zip(ours, theirs, strict=False) for n in a if a[n] != b[n]}
    more = [] if len(ours) == len(theirs) else ["number of rows"]
    return ", ".join([*sorted(names), *more])


def _summaries(differences: dict[str, dict[str, list[Row]]]) -> list[str]:
    """Return a line for each replay, with the number of differing rows by table and columns."""
    return [
        f"{name}: { ({t: dict(Counter(o['columns'] for o in some)) for t, some in by_table.items()}) }"
        for name, by_table in differences.items()
    ]


def _figures(stream: WatchedStream, out: Path, found: dict[str, list[Row]]) -> list[str]:
    """Return lines with latency, duration of micro-batches, memory, size and recovery."""
    seconds = [stream.done[n] - stream.planned[n] for n in stream.done if n in stream.planned]
    cpu: Counter[str] = Counter()
    for (kind, _), spent in stream.cpu.items():
        cpu[kind] += spent
    lines = [
        f"latency of {what}: {_spread(_delays(stream, out, table))}"
        for what, table in (("generations", OPENED), ("group records", DECODED))
    ]
    for at, what, before in stream.kills:
        after = min(t for n, t in stream.published.items() if n > before and t > at)
        lines.append(f"{what} killed after micro-batch {before}: next one after {after - at:.1f} s")
    return [
        f"rows { {table: len(rows) for table, rows in found.items()} }",
        f"opened: {_compare_opened(found)}",
        *lines, f"{len(stream.done)} micro-batches: {_spread(seconds)}",
        f"peak MB { {k: round(v) for k, v in stream.peaks.items()} }, "
        f"CPU s { {k: round(v) for k, v in cpu.items()} }",
        f"checkpoint {stream.checkpoint_mb:.1f} MB at most, "
        f"{folder_mb(out / 'stream' / 'checkpoint'):.1f} MB at the end, "
        f"tables {folder_mb(out / 'stream' / 'tables'):.1f} MB",
    ]  # fmt: skip


def _delays(stream: WatchedStream, out: Path, table: str) -> list[float]:
    """Return the time from each record to the publication of its micro-batch (s)."""
    column = "time_ms" if table == OPENED else "timestamp_ms"
    delays = []
    for one in current_manifests(out / "stream"):
        for name in one.files.get(table, ()):
            rows = parquet.read_table(out / "stream" / "tables" / table / name).to_pylist()
            delays += [
                stream.published[row["batch"]] - row[column] / 1_000
                for row in rows
                if table == OPENED or row["kind"] == DecodedKind.GROUP_RECORD
            ]
    return delays


def _spread(values: list[float]) -> str:
    if len(values) < 2:
        return str(values)
    return (
        f"{median(values):.2f} s (median), {quantiles(values, n=20)[-1]:.2f} s (95 %), "
        f"{max(values):.2f} s (largest) of {len(values):,}"
    )
