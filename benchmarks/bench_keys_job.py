"""`partage keys` on Parquet: keys a second from files to answer, on this machine's cores.

By the command as one types it (threads of its process), and by Spark in a running session. Kinds
of keys: few, a million with a heavy head, all distinct (the worst for an exact count of
the hottest), long, of mixed lengths; plain pages and dictionary pages. Beside each, in the same
run: its parts in one process (what pyarrow takes to read the column, what reading and counting
take, what meeting takes), and peers that count the same keys and place none of them: Spark's own
groupBy, pyarrow's, and DuckDB's where it is installed (it is no dependency of ours). The first run
of each warms up and is not printed. Beside the wall's time stands what the run took of the
processors, all processes together, and how much of them others took meanwhile: where that is not
next to nothing, the wall's time says little.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import dataset, parquet

from partage.jobs.keys.analysis import analyse_keys
from partage.jobs.keys.columns import InputColumns
from partage.jobs.keys.loads import KeyJob, merge_bucket
from partage.jobs.keys.sources import open_source, read_part
from partage.jobs.keys.workers import read_and_count
from partage.jobs.spark.session import spark_session
from partage.kernels import force_kernel_form

COUNTS = [6, 12, 24, 48]
COLUMNS = InputColumns("key")
FILES = 4
ROW_GROUP = 1 << 20
#: `to_table` holds all of them.
MOST_FOR_ARROW = 50_000_000


class Shape(NamedTuple):
    """Keys of an input.

    Attributes:
        distinct: how many, about; negative with a heavy head (Zipf 1.2), 0 all of them.
        width: bytes of each; 0 is 8 to 24.
        dictionary: whether the writer tries dictionary pages.
        codec: of the pages.
    """

    distinct: int
    width: int = 16
    dictionary: bool = False
    codec: str = "snappy"


SHAPES = {
    "1,000 keys, dictionary": Shape(1_000, dictionary=True),
    "1,000 keys, plain": Shape(1_000),
    "100 thousand keys": Shape(100_000),
    "a million, heavy head": Shape(-1_000_000),
    "a million, heavy head, no codec": Shape(-1_000_000, codec="none"),
    "a million, heavy head, zstd": Shape(-1_000_000, codec="zstd"),
    "a million, heavy head, dictionary tried": Shape(-1_000_000, dictionary=True),
    "a million, evenly": Shape(1_000_000),
    "a million of 36 bytes": Shape(-1_000_000, 36),
    "a million of 100 bytes": Shape(-1_000_000, 100),
    "a million of 8 to 24": Shape(-1_000_000, 0),
    "all distinct": Shape(0),
}


def _ids(distinct: int, count: int, first: int, rng: np.random.Generator) -> np.ndarray:
    if distinct > 0:
        return rng.integers(0, distinct, count).astype(np.uint64)
    if distinct < 0:
        return (rng.zipf(1.2, count) % -distinct).astype(np.uint64)
    return np.arange(first, first + count, dtype=np.uint64)


def _column(ids: np.ndarray, width: int) -> pa.Array:
    """Keys of one width, or of 8 to 24 bytes (the same for the same id)."""
    raw = np.zeros((len(ids), -(-(width or 24) // 8)), np.uint64)
    raw[:, 0] = ids * np.uint64(0x9E3779B97F4A7C15)
    raw[:, 1:] = ids[:, None]
    bytes_ = raw.view(np.uint8)
    lengths = np.full(len(ids), width) if width else 8 + (ids % np.uint64(17)).astype(np.int64)
    starts = np.zeros(len(ids) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    data = np.ascontiguousarray(bytes_[np.arange(bytes_.shape[1]) < lengths[:, None]])
    return pa.Array.from_buffers(
        pa.binary(), len(ids), [None, pa.py_buffer(starts), pa.py_buffer(data)]
    )


def _write(folder: Path, shape: Shape, count: int) -> None:
    rng = np.random.default_rng(1)
    schema = pa.schema({"key": pa.binary()})
    for number in range(FILES):
        path, first, end = folder / f"{number}.parquet", *(
            count * n // FILES for n in (number, number + 1))  # fmt: skip
        with parquet.ParquetWriter(path, schema, compression=shape.codec,
                                   use_dictionary=shape.dictionary) as file:  # fmt: skip
            for at in range(first, end, ROW_GROUP):
                ids = _ids(shape.distinct, min(ROW_GROUP, end - at), at, rng)
                file.write_table(pa.table({"key": _column(ids, shape.width)}), ROW_GROUP)


class Spent(NamedTuple):
    """Seconds: of the wall, of the processors by us, of the processors by others."""

    wall: float
    ours: float
    others: float


def _processors() -> tuple[dict[int, float], float]:
    """Seconds that this process and each below it took, and that the machine took, so far."""
    tick = os.sysconf("SC_CLK_TCK")
    below: dict[int, list[int]] = {}
    took: dict[int, float] = {}
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                fields = (one / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended
            below.setdefault(int(fields[1]), []).append(int(one.name))
            took[int(one.name)] = sum(map(int, fields[11:13])) / tick
    ours, todo = {}, [os.getpid()]
    while todo:
        at = todo.pop()
        ours[at] = took.get(at, 0.0)
        todo += below.get(at, [])
    return ours, _machine()


def _timed(work: Callable[[], object], runs: int) -> list[Spent]:
    """What each run took; the first is not counted."""
    found = []
    for _ in range(runs + 1):
        before, all_before = _processors()
        began = time.perf_counter()
        work()
        wall = time.perf_counter() - began
        after, all_after = _processors()
        ours = sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())
        found.append(Spent(wall, ours, max(0.0, all_after - all_before - ours)))
    return found[1:]


def _print_row(name: str, keys: int, runs: list[Spent]) -> None:
    best, median = min(runs), sorted(runs)[len(runs) // 2]
    print(f"  {name:36} best {best.wall:6.2f} s {keys / best.wall / 1e6:6.1f} M keys/s "
          f"(median {median.wall:6.2f} s); processors {best.ours / keys * 1e9:4.0f} ns a key, "
          f"others {best.others / best.wall:3.1f} of {os.cpu_count()}", flush=True)  # fmt: skip


def _parts(folder: Path, keys: int, runs: int) -> None:
    """One process and one thread: CPU nanoseconds a key."""
    source = open_source(str(folder), COLUMNS)
    cores = os.cpu_count() or 1
    job = KeyJob(COLUMNS, "murmur2", tuple(COUNTS), buckets=cores, rows=keys)
    pa.set_cpu_count(1)

    def read() -> object:
        return [rows.num_rows for part in source.parts for rows in read_part(part, COLUMNS)]

    def counted() -> list[pa.RecordBatch]:
        ids = pa.RecordBatch.from_pydict({"id": [0]})
        return list(read_and_count(job, source.parts, 1, [ids]))

    blocks = counted()
    meet = partial(merge_bucket, job, 10, blocks, keep_keys=False)
    work = {"read": read, "read and count": counted, "meet": lambda: list(meet())}
    times = []
    for name, part in work.items():
        best = float("inf")
        for _ in range(runs):
            began = time.process_time()
            part()
            best = min(best, time.process_time() - began)
        times.append(f"{name} {best / keys * 1e9:.0f}")
    print(f"  one process, CPU ns a key: {', '.join(times)}", flush=True)


def _machine() -> float:
    """Seconds that the processors were busy so far, with whatever."""
    user, nice, system, _, _, irq, soft, *_ = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    )
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def _command(folder: Path, keys: int, runs: int) -> None:
    """The command as one types it: Python's start, imports, threads of that process, the answer."""
    asked = [sys.executable, "-m", "partage", "keys", str(folder), "--key", "key", "--json", "-q",
             "--partitions", ",".join(map(str, COUNTS))]  # fmt: skip
    found = []
    for _ in range(runs + 1):
        before, all_before = resource.getrusage(resource.RUSAGE_CHILDREN), _machine()
        began = time.perf_counter()
        output = subprocess.run(asked, check=True, capture_output=True).stdout
        wall = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append(Spent(wall, ours, max(0.0, _machine() - all_before - ours)))
        if json.loads(output)["records"] != keys:
            raise SystemExit(f"the command counted other than {keys} records")
    _print_row("the command, its start and threads", keys, found[1:])


def _whole(folder: Path, keys: int, runs: int, spark: object) -> None:
    _command(folder, keys, runs)
    for approximate in (False, True):
        name = "by Spark, approximate" if approximate else "by Spark, exact, 4 partition counts"
        run = partial(_counted, folder, keys, spark, approximate=approximate)
        _print_row(name, keys, _timed(run, runs))


def _counted(folder: Path, keys: int, spark: object, *, approximate: bool) -> None:
    found = analyse_keys(str(folder), COLUMNS, COUNTS, approximate=approximate, spark=spark)
    if found.records != keys:
        raise SystemExit(f"{found.records} records counted of {keys}")


def _peers(folder: Path, keys: int, runs: int) -> None:
    """In a process of their own: Java as Spark starts it, which compiles more than for our job."""
    with spark_session() as spark:
        _peers_by(folder, keys, runs, spark)


def _peers_by(folder: Path, keys: int, runs: int, spark: object) -> None:
    def by_spark() -> None:
        frame = spark.read.parquet(str(folder)).groupBy("key").count()
        frame.orderBy("count", ascending=False).limit(10).toArrow()

    def by_arrow() -> None:
        table = dataset.dataset(folder).to_table().group_by("key").aggregate([([], "count_all")])
        np.partition(table["count_all"].to_numpy(), -10)

    def by_duckdb() -> None:
        import duckdb

        duckdb.sql(
            "SELECT key, count(*) AS n FROM read_parquet(?) GROUP BY key "
            "ORDER BY n DESC, key LIMIT 10",
            params=[f"{folder}/*.parquet"],
        ).fetchall()

    pa.set_cpu_count(os.cpu_count() or 1)
    _print_row("Spark's groupBy, counts alone", keys, _timed(by_spark, runs))
    if keys <= MOST_FOR_ARROW:
        _print_row("pyarrow's group_by, counts alone", keys, _timed(by_arrow, runs))
    if importlib.util.find_spec("duckdb") is None:
        print("  DuckDB is not installed: left out")
    else:
        _print_row("DuckDB's GROUP BY, counts alone", keys, _timed(by_duckdb, runs))


def main() -> None:
    """Print some lines a shape."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shape", action="append", choices=list(SHAPES), default=None)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-parts", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the files go (they are removed)")
    parser.add_argument("--peers-of", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peers_of:
        _peers(asked.peers_of, asked.keys, asked.runs)
        return
    versions = f"pyspark {version('pyspark')}, pyarrow {version('pyarrow')}"
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
          f"{versions}; {asked.keys:,} keys, counts {COUNTS}")  # fmt: skip
    with (
        spark_session(is_short=True) as spark,
        tempfile.TemporaryDirectory(dir=asked.folder) as temporary,
    ):
        for name in asked.shape or SHAPES:
            folder = Path(temporary) / "keys"
            folder.mkdir()
            _write(folder, SHAPES[name], asked.keys)
            print(f"{name}; load of the machine {os.getloadavg()[0]:.1f}")
            _whole(folder, asked.keys, asked.runs, spark)
            if not asked.no_parts:
                with force_kernel_form("compiled"):
                    _parts(folder, asked.keys, asked.runs)
            if not asked.no_peers:
                subprocess.run(
                    [sys.executable, __file__, "--peers-of", folder,
                     "--keys", str(asked.keys), "--runs", str(asked.runs)], check=True,
                )  # fmt: skip
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
