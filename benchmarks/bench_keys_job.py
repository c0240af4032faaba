"""`partage keys` on Parquet: keys a second from files to answer, on this machine's cores.

Three shapes of keys of 16 bytes: few distinct ones, a million with a heavy head, and all of
them distinct (the worst case for an exact count of the hottest). Exact and approximate; the
first run of a session warms Spark up and is not told of.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from partage.pipeline.key_sources import Columns
from partage.pipeline.keys import analyse_keys
from partage.pipeline.session import session

COUNTS = [6, 12, 24, 48]


def _ids(shape: str, count: int, rng: np.random.Generator) -> np.ndarray:
    if shape == "100 thousand keys":
        return rng.integers(0, 100_000, count).astype(np.uint64)
    if shape == "a million keys, heavy head":
        return (rng.zipf(1.2, count) % 1_000_000).astype(np.uint64)
    return rng.permutation(count).astype(np.uint64)


def _write(folder: Path, shape: str, count: int) -> None:
    rng = np.random.default_rng(1)
    for number in range(4):
        ids = _ids(shape, count // 4, rng) + np.uint64(number * (shape == "all distinct") * count)
        raw = np.empty((len(ids), 2), np.uint64)
        raw[:, 0], raw[:, 1] = ids * np.uint64(0x9E3779B97F4A7C15), ids
        starts = np.arange(len(ids) + 1, dtype=np.int32) * 16
        keys = pa.Array.from_buffers(
            pa.binary(), len(ids), [None, pa.py_buffer(starts), pa.py_buffer(raw)]
        )
        parquet.write_table(
            pa.table({"key": keys}), folder / f"{number}.parquet", row_group_size=1 << 20
        )


def main() -> None:
    """Print one line a shape."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    versions = f"pyspark {version('pyspark')}, pyarrow {version('pyarrow')}"
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
          f"{versions}; {asked.keys:,} keys of 16 bytes, counts {COUNTS}")  # fmt: skip
    with session() as spark, tempfile.TemporaryDirectory() as folder:
        for shape in ("100 thousand keys", "a million keys, heavy head", "all distinct"):
            at = Path(folder) / shape.replace(" ", "-").replace(",", "")
            at.mkdir()
            _write(at, shape, asked.keys)
            for approximate in (False, True):
                times = []
                for _ in range(asked.runs + 1):
                    began = time.perf_counter()
                    found = analyse_keys(
                        str(at), Columns("key"), COUNTS, approximate=approximate, spark=spark
                    )
                    times.append(time.perf_counter() - began)
                if found.records != asked.keys:
                    raise SystemExit(f"{found.records} records counted of {asked.keys}")
                best, median = min(times[1:]), sorted(times[1:])[len(times[1:]) // 2]
                how = "approximate" if approximate else "exact"
                print(f"{shape:28} {how:12} best {best:6.2f} s  median {median:6.2f} s  "
                      f"{asked.keys / best / 1e6:6.1f} M keys/s")  # fmt: skip


if __name__ == "__main__":
    main()
