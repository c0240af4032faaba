"""The pipeline's speed and memory: bytes to columns, captures to tables, lives; judges nothing.

    python benchmarks/bench_pipeline.py                     # about two minutes
    python benchmarks/bench_pipeline.py --sizes 1 10 100    # millions of records; minutes
    python benchmarks/bench_pipeline.py --only driver --driver 1000 10000    # rebalances

Each run of Spark is a process of its own, as a user starts it; its workers' memory is read from
the system while it works. Stages are timed by the command itself (`summary.json`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow.parquet
from pyarrow import compute

from partage import kernels
from partage.history.clusters import ClusterHistory
from partage.history.records import ClassicStates
from partage.history.transactions import Transactions
from partage.jobs.replay.decode import decode_table
from partage.jobs.replay.decoded_rows import DecodedKind
from partage.jobs.replay.group_rows import GroupRows, read_group_inputs
from partage.jobs.replay.output import TableWriters
from partage.jobs.replay.records import cut_slices, read_slice
from partage.jobs.spark.shipping import freeze_imports
from partage.testing.histories import Size, write_capture
from partage.wire.columns import BinaryColumn
from partage.wire.columns.classic_groups import classic_columns
from partage.wire.columns.commits import decode_offset_commits
from partage.wire.group_log import decode_record, encode_record

ROUNDS = 7
MANY = 10_000_000  # commits for a rebalance: none but the first


def best(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """CPU seconds of the fastest round."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def print_row(what: str, count: float, seconds: float, unit: str) -> None:
    print(f"{what:52} {count / seconds:14,.0f} {unit}/s   ({seconds:.2f} s)", flush=True)


def one_core(capture: Path) -> None:
    """Without Spark, one thread: from Arrow's buffers to columns, and from Parquet to runs."""
    every = cut_slices(sorted((capture / "consumer_offsets.parquet").iterdir()))
    slices = [piece for piece in every if piece.path == every[0].path]
    table = pyarrow.concat_tables([t for s in slices for t in read_slice(s)]).combine_chunks()
    columns = []
    for name in ("key", "value"):
        cells = table[name].combine_chunks()
        columns.append(
            BinaryColumn.from_buffers(cells.buffers(), length=len(cells), offset=cells.offset)
        )
    with kernels.force_kernel_form("compiled"):
        decode_offset_commits(*columns)
        seconds = best(lambda: decode_offset_commits(*columns))
        print_row("commits, Arrow buffers to columns", table.num_rows, seconds, "records")
        none = Transactions()
        seconds = best(lambda: list(decode_table(table, none)))
        print_row("records, Arrow table to runs", table.num_rows, seconds, "records")

        def all_of_it() -> None:
            for piece in slices:
                for part in read_slice(piece, coded=True):  # as a large job does
                    list(decode_table(part, none))

        print_row("records, Parquet to runs", table.num_rows, best(all_of_it, 3), "records")
        runs = pyarrow.Table.from_batches([b for s in every for t in read_slice(s, coded=True)
                                           for b in decode_table(t, none)])  # fmt: skip
        count = sum(piece.rows for piece in every)
        seconds = best(lambda: histories(runs, capture), 3)
        print_row("records, runs to tables, in a group's order", count, seconds, "records")


def histories(found: pyarrow.Table, capture: Path) -> None:
    """What a task of the second job does with what Spark brings it: tables of each group."""
    wanted = found.filter(compute.less_equal(found["kind"], int(DecodedKind.COMMIT_RUNS)))
    ordered = wanted.sort_by([(name, "ascending") for name in ("group", *_LOG_ORDER)])
    clusters = ClusterHistory([
        json.loads(line) for line in (capture / "cluster.jsonl").read_text().splitlines()
    ])  # fmt: skip
    with tempfile.TemporaryDirectory() as out, closing(TableWriters(out, "run", "0")) as writers:
        rows: GroupRows | None = None
        for some in read_group_inputs(ordered.to_batches(max_chunksize=100_000)):
            if rows is None or rows.name != some.group:
                if rows is not None:
                    rows.finish_group()
                rows = GroupRows(some.group, clusters, writers)
            rows.process_input(some)
        if rows is not None:
            rows.finish_group()
        writers.close_with_receipts()


_LOG_ORDER = ("log_partition", "log_offset", "kind", "topic", "topic_partition", "minute_ms")


#: What a bench of groups writes: generation by generation, in three shapes.
SHAPES = {
    "members stay": "nothing changes but the generation",
    "payloads change": "cooperative: claims and generation of each subscription are new",
    "all new": "nobody was there in the generation before",
}


def group_records(count: int = 2_000, members: int = 20) -> None:
    """Group records: Kafka's serde, our engine, ours by the column, and states made of these."""
    for shape, words in SHAPES.items():
        rows = [_generation(members, g, shape) for g in range(count)]
        print(f"group records of {members} members, {shape} ({words}), "
              f"{sum(len(v) for _, v in rows) // count:,} bytes")  # fmt: skip
        _serde(rows)
        few = rows[:300]
        seconds = best(lambda few=few: [decode_record(*row) for row in few], 3)
        print_row("  engine, to values", len(few), seconds, "records")
        values = BinaryColumn.from_rows([value for _, value in rows])
        with kernels.force_kernel_form("compiled"):
            seconds = best(lambda values=values: _columns(values), 9)
            print_row("  ours, Arrow buffers to columns", count, seconds, "records")
            seconds = best(lambda values=values: _states(values), 5)
            print_row("  ours, to states of Python", count, seconds, "records")


def _columns(values: BinaryColumn) -> int:
    every = np.arange(len(values))
    found = sum(len(some) for some in classic_columns(values, every))
    if found != len(values):
        raise SystemExit(f"{found} of {len(values)} records were read by the column")
    return found


def _states(values: BinaryColumn) -> None:
    states = ClassicStates()
    for some in classic_columns(values, np.arange(len(values))):
        for _ in states.yield_states(some):
            pass


def _serde(rows: list[tuple[bytes, bytes]]) -> None:
    """Kafka's own, on the same bytes."""
    target = Path(__file__).resolve().parents[1] / "jvm" / "target"
    if not (target / "classes" / "io" / "partage" / "parity" / "GroupTimings.class").exists():
        print("  Java: skipped, run tools/jvm.sh first")
        return
    with tempfile.NamedTemporaryFile() as file:
        for row in rows:
            for part in row:
                file.write(len(part).to_bytes(4, "big") + part)
        file.flush()
        path = os.pathsep.join([str(target / "classes"), str(target / "lib" / "*")])
        command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-cp", path,
                   "io.partage.parity.GroupTimings", file.name, "25"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    print_row("  Java's serde 4.3.1, to objects", said["records"], said["serde"] / 1e9, "records")
    print_row("  the same, payloads too", said["records"], said["payloads"] / 1e9, "records")


def _generation(members: int, number: int, shape: str) -> tuple[bytes, bytes]:
    from partage.wire.consumer_protocol import encode_assignment, encode_subscription

    changes = shape == "payloads change"
    mark = number if shape == "all new" else 0
    rows = [
        {
            "memberId": f"consumer-orders-{i}-{mark:08x}-89ab-4cde-8123-456789abcdef",
            "groupInstanceId": None, "clientId": f"consumer-orders-{i}",
            "clientHost": f"/10.0.{mark % 256}.{i}", "rebalanceTimeout": 300_000,
            "sessionTimeout": 45_000,
            "subscription": encode_subscription(
                ["orders", "payments"], owned=[("orders", i), ("payments", i)] * changes,
                generation=number if changes else None,
            ),
            "assignment": encode_assignment([("orders", i), ("payments", i)]),
        }
        for i in range(members)
    ]  # fmt: skip
    value = {
        "protocolType": "consumer", "generation": number, "protocol": "range",
        "leader": rows[0]["memberId"], "currentStateTimestamp": number, "members": rows,
    }  # fmt: skip
    key, made = encode_record(2, {"group": "orders"}, version=3, value=value)
    return key, made or b""


def replayed(
    capture: Path, out: Path, *options: str, cores: int = 2, master: str | None = None
) -> tuple[dict[str, Any], float, dict[str, float]]:
    """`partage replay` as a process: its summary, its seconds, and peaks of memory in MB."""
    command = [
        sys.executable, "-m", "partage", "replay", str(capture), "--out", str(out), "--json",
        "--no-report", "--master", master or f"local[{cores}]", *options,
    ]  # fmt: skip
    began = time.monotonic()
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        over = Event()
        peaks = {"worker": 0.0, "workers": 0.0, "java": 0.0, "driver": 0.0, "cpu": 0.0}
        watch = Thread(target=_watch, args=(process.pid, over, peaks, log.fileno()))
        watch.start()
        text = process.communicate()[0]
        over.set()
        watch.join()
    if process.returncode:
        raise SystemExit(f"{command}: exit code {process.returncode}")
    return json.loads(text), time.monotonic() - began, peaks


def _started(log: int) -> bool:
    """Whether the progress says that Spark's Java is up."""
    said = os.pread(log, 1 << 20, 0)
    return b'"stage": "start Spark", "done": 1' in said


def _watch(root: int, over: Event, peaks: dict[str, float], log: int) -> None:
    """Resident memory of a process and what it started, by what it is; and processor time.

    ``cpu at start`` is what had been spent when Spark's Java was up.
    """
    busy: dict[tuple[str, int], float] = {}
    while not over.wait(0.1):
        now = {"workers": 0.0}
        for pid in _descendants(root):
            kind, size = _memory(pid)
            key = "driver" if pid == root else kind
            if kind == "worker":
                now["workers"] += size
            if kind != "gone":
                busy[key, pid] = max(busy.get((key, pid), 0.0), _cpu(pid))
            peaks[key] = max(peaks.get(key, 0.0), size)
        peaks["workers"] = max(peaks["workers"], now["workers"])
        for kind in ("java", "worker", "driver"):
            peaks[f"cpu {kind}"] = sum(s for (k, _), s in busy.items() if k == kind)
        peaks["cpu"] = sum(busy.values())
        if "cpu at start" not in peaks and _started(log):
            peaks["cpu at start"] = peaks["cpu"]


def _cpu(pid: int) -> float:
    """Processor seconds of a process so far; zero for an ended process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def _descendants(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(stat[1]), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += parents.get(one, [])
    return found


def _memory(pid: int) -> tuple[str, float]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        # Forked workers share pages: what each has for itself counts, and the shared part by share.
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return "gone", 0.0
    size = next((float(line.split()[1]) for line in lines if line.startswith("Pss:")), 0.0)
    return ("java" if b"java" in words.split(b"\0")[0] else "worker"), size / 1024


def sizes(folder: Path, millions: list[float], cores: list[int]) -> None:
    """Commits almost alone, from Parquet to tables: is it linear, is memory flat?"""
    for million in millions:
        capture = folder / f"{million}m"
        records = int(million * 1e6)
        count = write_capture(Size(records, commits_a_rebalance=MANY, groups=200), capture)
        for n in cores:
            out = folder / f"out-{million}-{n}"
            found, whole, peaks = replayed(capture, out, "--policy", "eager/range", cores=n)
            seconds = found["seconds"]
            work = seconds["decode"] + seconds["histories"]
            print_row(f"{count:,} records, Parquet to tables, {n} cores", count, work, "records")
            spent = peaks["cpu"] - peaks["cpu at start"]
            print_row("    a second of CPU, all but the start of Java", count, spent, "records")
            print(f"    whole {whole:.1f} s, CPU of all processes {peaks['cpu']:.1f} s "
                  f"(java {peaks['cpu java']:.1f}, workers {peaks['cpu worker']:.1f}), "
                  f"start {seconds['start Spark']:.1f} s, decode "
                  f"{seconds['decode']:.1f} s, histories {seconds['histories']:.1f} s; peak MB: "
                  f"worker {peaks['worker']:.0f}, workers {peaks['workers']:.0f}, "
                  f"java {peaks['java']:.0f}, driver {peaks['driver']:.0f}",
                  flush=True)  # fmt: skip


def lives(folder: Path, records: int, cores: list[int]) -> None:
    """Rebalances simulated under all default policies; and one group with half of them."""
    for huge in (False, True):
        capture = folder / f"lives-{huge}"
        write_capture(Size(records, groups=24, commits_a_rebalance=1_000, huge=huge), capture)
        for n in cores:
            found, _, peaks = replayed(capture, folder / f"out-lives-{huge}-{n}", cores=n)
            rebalances = found["coverage"]["rebalances"]
            largest = found["groups"][0]["rebalances"]
            what = f"{rebalances} rebalances, largest group {largest}, {n} cores"
            print_row(what, rebalances, found["seconds"]["replay"], "rebalances")
            print(f"    CPU of all processes {peaks['cpu']:.1f} s, peak MB: worker "
                  f"{peaks['worker']:.0f}, workers {peaks['workers']:.0f}", flush=True)  # fmt: skip


def driver(folder: Path, counts: list[int], policies: list[str]) -> None:
    """The driver's memory for more and more groups and rebalances; executors have their own JVMs.

    The heap is what Java's collector leaves, at most, in any of its pauses.
    """
    for count in counts:
        capture, log = folder / f"driver-{count}", folder / f"gc-{count}.log"
        groups = max(8, count // 50)
        size = Size(count * 60, groups=groups, commits_a_rebalance=60)
        write_capture(size, capture)
        found, whole, peaks = replayed(
            capture, folder / f"out-driver-{count}",
            *(word for name in policies for word in ("--policy", name)),
            "--conf", f"spark.driver.extraJavaOptions=-Xlog:gc:file={log}",
            "--conf", "spark.executor.memory=1g", master="local-cluster[2,1,1024]",
        )  # fmt: skip
        heap = max(map(int, re.findall(r"->(\d+)M", log.read_text())), default=0)
        seconds = found["seconds"]
        print(f"{found['coverage']['rebalances']:,} rebalances of {groups:,} groups, "
              f"{len(policies)} policies: driver's Python {peaks['driver']:.0f} MB, Java's heap "
              f"{heap} MB, worker {peaks['worker']:.0f} MB; {whole:.0f} s "
              f"({', '.join(f'{n} {s:.0f}' for n, s in seconds.items())}), "
              f"load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip


def main() -> None:
    """Print machine, versions and figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=float, nargs="*", default=[1.0, 10.0])
    parser.add_argument("--cores", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--lives", type=int, default=300_000, help="records of the lives' history")
    parser.add_argument("--driver", type=int, nargs="*", default=[], help="numbers of rebalances")
    parser.add_argument("--policy", nargs="*", default=["eager/range"], help="for --driver")
    parts = ["groups", "core", "sizes", "lives", "driver"]
    parser.add_argument("--only", choices=parts, help="one part")
    asked = parser.parse_args()
    import numba
    import pyspark

    print(f"{platform.machine()} {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"pyspark {pyspark.__version__}, pyarrow {pyarrow.__version__}, "
          f"numba {numba.__version__}, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    freeze_imports()  # as workers do
    parts = [asked.only] if asked.only else parts
    with tempfile.TemporaryDirectory(prefix="partage-bench-") as name:
        folder = Path(name)
        if "groups" in parts:
            group_records()
        if "core" in parts:
            write_capture(Size(4_000_000, commits_a_rebalance=MANY, groups=200), folder / "one")
            one_core(folder / "one")
        if "sizes" in parts:
            sizes(folder, asked.sizes, asked.cores)
        if "lives" in parts and asked.lives:
            lives(folder, asked.lives, asked.cores)
        if "driver" in parts:
            driver(folder, asked.driver, asked.policy)


if __name__ == "__main__":
    main()
