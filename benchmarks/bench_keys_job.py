"""`partage keys` on Parquet: keys a second from files to answer, on this machine's cores.

Kinds of keys: few, a million with a heavy head, all distinct (the worst for an exact count of
the hottest), long, of mixed lengths; plain pages and dictionary pages. Beside each, in the same
run: its parts in one process (what pyarrow takes to read the column, what reading and counting
take, what meeting takes), and peers that count the same keys and place none of them: Spark's own
groupBy, and pyarrow's. The first run of each warms up and is not told of.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import dataset, parquet

from partage.kernels import form
from partage.pipeline.key_counts import Spec
from partage.pipeline.key_sources import Columns, open_source, read_piece
from partage.pipeline.key_workers import met, read_and_count
from partage.pipeline.keys import analyse_keys
from partage.pipeline.session import session

COUNTS = [6, 12, 24, 48]
COLUMNS = Columns("key")
FILES = 4
SHAPES = {
    "1,000 keys, dictionary": (1_000, 16, True),
    "1,000 keys, plain": (1_000, 16, False),
    "100 thousand keys": (100_000, 16, False),
    "a million, heavy head": (-1_000_000, 16, False),
    "a million of 100 bytes": (-1_000_000, 100, False),
    "a million of 8 to 24": (-1_000_000, 0, False),
    "all distinct": (0, 16, False),
}


def _ids(distinct: int, count: int, number: int, rng: np.random.Generator) -> np.ndarray:
    if distinct > 0:
        return rng.integers(0, distinct, count).astype(np.uint64)
    if distinct < 0:
        return (rng.zipf(1.2, count) % -distinct).astype(np.uint64)
    return (rng.permutation(count) + number * count).astype(np.uint64)


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


def _write(folder: Path, shape: tuple[int, int, bool], count: int) -> None:
    rng = np.random.default_rng(1)
    distinct, width, dictionary = shape
    for number in range(FILES):
        keys = _column(_ids(distinct, count // FILES, number, rng), width)
        parquet.write_table(pa.table({"key": keys}), folder / f"{number}.parquet",
                            row_group_size=1 << 20, use_dictionary=dictionary)  # fmt: skip


def _timed(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Best and median seconds."""
    times = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times[1:]), sorted(times[1:])[runs // 2]


def _told(name: str, keys: int, best: float, median: float) -> None:
    rate = f"{keys / best / 1e6:7.1f} M keys/s"
    print(f"  {name:38} best {best:7.2f} s  median {median:7.2f} s  {rate}", flush=True)


def _parts(folder: Path, keys: int, runs: int) -> None:
    """One process and one thread: CPU nanoseconds a key."""
    source = open_source(str(folder), COLUMNS)
    cores = os.cpu_count() or 1
    spec = Spec(COLUMNS, "murmur2", tuple(COUNTS), buckets=cores, rows=keys)
    pa.set_cpu_count(1)

    def read() -> object:
        return [rows.num_rows for piece in source.pieces for rows in read_piece(piece, COLUMNS)]

    def counted() -> list[pa.RecordBatch]:
        ids = pa.RecordBatch.from_pydict({"id": [0]})
        return list(read_and_count(spec, source.pieces, 1, [ids]))

    blocks = counted()
    meet = partial(met, spec, 10, blocks, keep=False)
    work = {"read": read, "read and count": counted, "meet": lambda: list(meet())}
    told = []
    for name, part in work.items():
        best = float("inf")
        for _ in range(runs):
            began = time.process_time()
            part()
            best = min(best, time.process_time() - began)
        told.append(f"{name} {best / keys * 1e9:.0f}")
    print(f"  one process, CPU ns a key: {', '.join(told)}", flush=True)


def _whole(folder: Path, keys: int, runs: int, spark: object) -> None:
    for approximate in (False, True):
        name = "partage, approximate" if approximate else "partage, exact, 4 partition counts"
        run = partial(_counted, folder, keys, spark, approximate=approximate)
        _told(name, keys, *_timed(run, runs))


def _counted(folder: Path, keys: int, spark: object, *, approximate: bool) -> None:
    found = analyse_keys(str(folder), COLUMNS, COUNTS, approximate=approximate, spark=spark)
    if found.records != keys:
        raise SystemExit(f"{found.records} records counted of {keys}")


def _peers(folder: Path, keys: int, runs: int, spark: object) -> None:
    def by_spark() -> None:
        frame = spark.read.parquet(str(folder)).groupBy("key").count()
        frame.orderBy("count", ascending=False).limit(10).toArrow()

    def by_arrow() -> None:
        table = dataset.dataset(folder).to_table().group_by("key").aggregate([([], "count_all")])
        np.partition(table["count_all"].to_numpy(), -10)

    pa.set_cpu_count(os.cpu_count() or 1)
    _told("Spark's groupBy, counts alone", keys, *_timed(by_spark, runs))
    _told("pyarrow's group_by, counts alone", keys, *_timed(by_arrow, runs))


def main() -> None:
    """Print some lines a shape."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shape", action="append", choices=list(SHAPES), default=None)
    parser.add_argument("--no-peers", action="store_true")
    asked = parser.parse_args()
    versions = f"pyspark {version('pyspark')}, pyarrow {version('pyarrow')}"
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
          f"{versions}; {asked.keys:,} keys, counts {COUNTS}")  # fmt: skip
    with session() as spark, tempfile.TemporaryDirectory() as temporary:
        for name in asked.shape or SHAPES:
            folder = Path(temporary) / "keys"
            folder.mkdir()
            _write(folder, SHAPES[name], asked.keys)
            print(f"{name}; load of the machine {os.getloadavg()[0]:.1f}")
            _whole(folder, asked.keys, asked.runs, spark)
            with form("compiled"):
                _parts(folder, asked.keys, asked.runs)
            if not asked.no_peers:
                _peers(folder, asked.keys, asked.runs, spark)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
