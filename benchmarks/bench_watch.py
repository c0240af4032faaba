"""`partage watch` under load: records per second, latency, memory and the size of states.

    python benchmarks/bench_watch.py                                # about three minutes
    python benchmarks/bench_watch.py --rate 100000 --seconds 120 --commits-a-rebalance 1000
    python benchmarks/bench_watch.py --only profile                 # one process, without Spark

A synthetic capture grows by one file a second, while `partage watch` follows it on two cores. The
latency of a file is the time from its publication to that of the micro-batch with its last
records. It includes the 1.5 seconds that a file must be old.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread

import pyarrow as pa
from bench_pipeline import _cpu, _descendants, _memory
from pyarrow import parquet

from partage.capture.manifest import CaptureManifest, CapturePart
from partage.history.clusters import ClusterHistory
from partage.jobs.replay.capture import read_context
from partage.jobs.spark.shipping import load_kernels
from partage.jobs.watch.capture_log import CaptureLog, Position, read_piece
from partage.jobs.watch.group_tables import StoredGroup, update_commits, update_history
from partage.jobs.watch.stream_output import StreamFolder
from partage.testing.histories import Size, write_parts

#: Files that are there before the measurement begins, so that Spark is warm.
_WARM_UP = 20


class Feed(Thread):
    """Publishes one prepared file of a capture each second.

    Attributes:
        times: when each file was published (seconds since the epoch).
    """

    def __init__(self, prepared: Path, capture: Path, files: int) -> None:
        super().__init__(daemon=True)
        self._from, self._to, self._files = prepared, capture, files
        self.times: list[float] = []
        (capture / "consumer_offsets.parquet").mkdir(parents=True)
        (capture / "cluster.jsonl").write_bytes((prepared / "cluster.jsonl").read_bytes())
        self.stop = Event()

    def publish(self) -> None:
        name = CapturePart(len(self.times)).file_name
        path = self._to / "consumer_offsets.parquet" / name
        (self._from / "consumer_offsets.parquet" / name).rename(path)
        os.utime(path)
        self.times.append(time.time())
        CaptureManifest(parts=[CapturePart(n) for n in range(len(self.times))]).save_manifest(
            self._to
        )

    def run(self) -> None:
        begin, first = time.time(), len(self.times)
        for number in range(first, self._files):
            if self.stop.wait(max(0.0, begin + number - first + 1 - time.time())):
                return
            self.publish()


class Observer(Thread):
    """Observes a stream: when micro-batches are published, memory and processor time.

    Attributes:
        reached: number of records behind each published micro-batch, with the time.
        peaks: largest resident memory by kind of process (MB).
        cpu: seconds of processor time by process.
    """

    def __init__(self, process: int, out: Path) -> None:
        super().__init__(daemon=True)
        self._process, self._stream = process, out / "stream"
        self.reached: list[tuple[float, int]] = []
        self.peaks: dict[str, float] = {}
        self.cpu: dict[tuple[str, int], float] = {}
        self.stop = Event()
        self._seen: set[str] = set()

    def run(self) -> None:
        while not self.stop.wait(0.2):
            for path in sorted((self._stream / "batches").glob("[0-9]*.json")):
                if path.name not in self._seen and "-" not in path.stem:
                    self._seen.add(path.name)
                    self.reached.append((path.stat().st_mtime, self._position(int(path.stem))))
            self._measure()

    def _position(self, batch: int) -> int:
        text = (self._stream / "checkpoint" / "offsets" / str(batch)).read_text()
        return sum(json.loads(text.splitlines()[2])["offsets"].values())

    def _measure(self) -> None:
        sums: dict[str, float] = {}
        for pid in _descendants(self._process):
            kind, size = _memory(pid)
            kind = "driver" if pid == self._process else kind
            if kind != "gone":
                self.cpu[kind, pid] = max(self.cpu.get((kind, pid), 0.0), _cpu(pid))
                sums[kind] = sums.get(kind, 0.0) + size
        for kind, size in [*sums.items(), ("all", sum(sums.values()))]:
            self.peaks[kind] = max(self.peaks.get(kind, 0.0), size)

    def spent(self) -> dict[str, float]:
        out: dict[str, float] = {}
        for (kind, _), seconds in self.cpu.items():
            out[kind] = out.get(kind, 0.0) + seconds
        return out


@contextmanager
def following(capture: Path, out: Path, every: float, cores: int) -> Iterator[Observer]:
    """Run `partage watch` and an `Observer` during the ``with`` block."""
    command = [
        sys.executable, "-m", "partage", "watch", str(capture), "--out", str(out), "--json",
        "--every", str(every), "--master", f"local[{cores}]",
    ]  # fmt: skip
    with (out.parent / "watch.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    observer = Observer(process.pid, out)
    observer.start()
    try:
        yield observer
        if process.poll() is not None:
            raise SystemExit((out.parent / "watch.log").read_text()[-3000:])
    finally:
        observer.stop.set()
        observer.join()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)


def sustained(folder: Path, size: Size, asked: argparse.Namespace) -> None:
    """Feed a stream at a constant rate; print throughput, latency, memory and CPU."""
    files = _WARM_UP + asked.seconds
    counts = write_parts(size, folder / "prepared", parts=files)
    ends = list(accumulate(counts))
    rate = sum(counts[_WARM_UP:]) / asked.seconds
    feed = Feed(folder / "prepared", folder / "capture", files)
    for _ in range(_WARM_UP // 2):
        feed.publish()
    with following(folder / "capture", folder / "out", asked.every, asked.cores) as seen:
        while not seen.reached:
            time.sleep(0.2)
        feed.start()
        while len(feed.times) < _WARM_UP:
            time.sleep(0.1)
        before = seen.spent()
        feed.join()
        behind = ends[-1] - max(at for _, at in seen.reached)
        waited = time.time()
        while max(at for _, at in seen.reached) < ends[-1] and time.time() < waited + 120:
            time.sleep(0.2)
        after = seen.spent()
    delays = []
    for end, published in zip(ends[_WARM_UP:], feed.times[_WARM_UP:], strict=True):
        delays.append(min((t for t, at in seen.reached if at >= end), default=1e9) - published)
    cpu = {kind: after[kind] - before.get(kind, 0.0) for kind in after}
    total = sum(counts[_WARM_UP:])
    half = len(delays) // 2
    print(
        f"  fed {rate:,.0f} records/s for {asked.seconds} s, {len(seen.reached)} micro-batches, "
        f"{behind:,} records behind at the end, read {time.time() - waited:.1f} s later"
    )
    print(
        f"  latency: median {median(delays):.1f} s, 95 % {quantiles(delays, n=20)[-1]:.1f} s, "
        f"largest {max(delays):.1f} s (first half {max(delays[:half]):.1f} s, "
        f"second half {max(delays[half:]):.1f} s)"
    )
    print(f"  CPU {sum(cpu.values()):.1f} s ({', '.join(f'{k} {v:.1f}' for k, v in cpu.items())}), "
          f"{total / sum(cpu.values()):,.0f} records a second of CPU; peak MB: "
          f"{', '.join(f'{k} {v:.0f}' for k, v in seen.peaks.items())}")  # fmt: skip
    tables = StreamFolder(folder / "out")
    rows = {name: tables.table(name).num_rows for name in ("groups", "rebalances", "commit_rates")}
    print(f"  rows: {rows}; load {os.getloadavg()[0]:.1f}", flush=True)


def profile(folder: Path, size: Size, asked: argparse.Namespace) -> None:
    """Process three micro-batches in this process; profile the last one."""
    write_parts(size, folder / "whole", parts=3)
    path = folder / "whole"
    for file in (path / "consumer_offsets.parquet").iterdir():
        os.utime(file, (1, 1))
    log = CaptureLog(path)
    log.list_new_files()
    load_kernels()
    context, at = read_context(path), Position({}, 0)
    clusters = ClusterHistory([])
    for line in (path / "cluster.jsonl").read_text().splitlines():
        clusters.append_metadata(json.loads(line))
    stored: dict[str, StoredGroup] = {}
    for number in range(3):
        counts = [parquet.read_metadata(f).num_rows for f in sorted(
            (path / "consumer_offsets.parquet").iterdir())]  # fmt: skip
        end = log.batch_end(at, counts[number])
        began = time.process_time()
        found = [batch for piece in log.divide_records(at, end) for batch in read_piece(piece)]
        decoding = time.process_time() - began
        whole = pa.Table.from_batches(found)
        names = whole["group"].to_pylist()
        rows_of: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows_of.setdefault(name, []).append(row)
        parts = {name: whole.take(rows).combine_chunks().to_batches()
                 for name, rows in rows_of.items() if name is not None}  # fmt: skip
        profiler = cProfile.Profile()
        if asked.calls and number == 2:
            profiler.enable()
        began = time.process_time()
        changes = 0
        for name, batches in parts.items():
            before = stored.get(name)
            quick = None if before is None else update_commits(name, before, batches, context)
            made = quick or update_history(name, before, batches, clusters, context)
            stored[name] = made.stored
            changes += len(made.rows)
        updating = time.process_time() - began
        profiler.disable()
        count = sum(end.offsets.values()) - sum(at.offsets.values())
        sizes = sorted(len(one.history or b"") for one in stored.values())
        commits = sorted(len(one.commits) for one in stored.values())
        print(f"  {count:,} records, {len(parts)} groups, {whole.num_rows:,} rows: decode "
              f"{decoding:.2f} s, update {updating:.2f} s "
              f"({1e3 * updating / len(parts):.2f} ms a group), {changes:,} changes; state bytes "
              f"a group: history median {median(sizes):,.0f}, largest {sizes[-1]:,}, commits "
              f"median {median(commits):,.0f}, largest {commits[-1]:,}", flush=True)  # fmt: skip
        at = end
        if asked.calls and number == 2:
            pstats.Stats(profiler).sort_stats(asked.calls).print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=100_000, help="records a second")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--groups", type=int, nargs="*", default=[200])
    parser.add_argument("--partitions", type=int, default=12, help="partitions of a group's topic")
    parser.add_argument("--commits-a-rebalance", type=int, nargs="*", default=[1_000])
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--calls", nargs="?", const="tottime", help="print a profile, sorted by")
    parser.add_argument("--only", choices=["profile", "sustained"])
    asked = parser.parse_args()
    print(
        f"{platform.machine()} {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    for groups in asked.groups:
        for commits in asked.commits_a_rebalance:
            print(f"{groups} groups of {asked.partitions} partitions, {commits:,} commits a "
                  f"rebalance", flush=True)  # fmt: skip
            more = {"groups": groups, "partitions": asked.partitions,
                    "commits_a_rebalance": commits}  # fmt: skip
            if asked.only != "sustained":
                with tempfile.TemporaryDirectory(prefix="partage-bench-") as name:
                    profile(Path(name), Size(3 * 10 * asked.rate, **more), asked)
            if asked.only != "profile":
                with tempfile.TemporaryDirectory(prefix="partage-bench-") as name:
                    records = asked.rate * (asked.seconds + _WARM_UP)
                    sustained(Path(name), Size(records, **more), asked)


if __name__ == "__main__":
    main()
