"""Keys a second on one core: our kernels on an Arrow column, side by side with other clients.

    python benchmarks/bench_keys.py [--keys 4000000]

Every contestant places the same number of keys of one length; where an answer comes back, it is
compared with ours. Ours is `partition_for` as users call it: Arrow in, Arrow out. A contestant that
is not on this machine is skipped by name. Times are the best of several runs: CPU time for what
runs in this process (what a core does in a second, beside other processes), else the clock's.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import partage as pg
from partage import kernels

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILT = HERE / "peers" / ".bin"
PEERS = ROOT / ".tools" / "peers" / "bin" / "python"
PARTITIONS = 12
FEWEST_RUNS, MOST_RUNS, SECONDS = 5, 60, 2.0

_IN_PEERS = """
import sys, time, os
def best(run, keys):
    times = []
    for _ in range(3):
        start = time.perf_counter(); run(); times.append(time.perf_counter() - start)
    return keys / min(times)
n, length = int(sys.argv[1]), int(sys.argv[2])
keys = [os.urandom(length) for _ in range(n)]
from kafka.partitioner import murmur2
print("kafka-python", best(lambda: [(murmur2(k) & 0x7fffffff) % 12 for k in keys], n))
import ctypes, pathlib, confluent_kafka
beside = pathlib.Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
(found,) = beside.glob("librdkafka*")
f = ctypes.CDLL(str(found)).rd_kafka_msg_partitioner_murmur2
pointer = ctypes.c_void_p
f.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, pointer, pointer]
print("librdkafka by ctypes", best(lambda: [f(None, k, length, 12, None, None) for k in keys], n))
"""


def print_row(what: str, per_second: float, length: float) -> None:
    gib = per_second * length / 2**30
    print(f"  {what:44}{per_second / 1e6:10,.2f} M keys/s {gib:8.2f} GiB/s", flush=True)


def best(run, keys: int) -> float:
    times = []
    while len(times) < FEWEST_RUNS or (sum(times) < SECONDS and len(times) < MOST_RUNS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return keys / min(times)


def column(rng, lengths) -> pa.Array:
    starts = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    data = rng.integers(0, 256, int(starts[-1]), np.uint8)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def ours(keys: pa.Array, mean: float) -> None:
    for name in ("murmur2", "librdkafka:consistent", "sarama:hash"):
        with kernels.force_kernel_form("compiled"):
            pg.partition_for(keys[:1000], partitions=PARTITIONS, partitioner=name)
            speed = best(
                lambda name=name: pg.partition_for(keys, partitions=PARTITIONS, partitioner=name),
                len(keys),
            )
        print_row(f"partage {name}", speed, mean)
    some = keys[: max(10_000, len(keys) // 8)]
    with kernels.force_kernel_form("interpreted"):
        speed = best(lambda: pg.partition_for(some, partitions=PARTITIONS), len(some))
    print_row("partage murmur2, without numba (NumPy)", speed, mean)


def scalar_c(keys: pa.Array, mean: float) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        print("  C: skipped, no gcc")
        return
    BUILT.mkdir(exist_ok=True)
    library = BUILT / "murmur2.so"
    source = HERE / "peers" / "murmur2.c"
    subprocess.run(
        [gcc, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source], check=True
    )
    place = ctypes.CDLL(str(library)).place
    pointer = ctypes.c_void_p
    place.argtypes = [pointer, pointer, ctypes.c_int64, ctypes.c_int32, pointer]
    _, offsets, data = keys.buffers()
    out = np.empty(len(keys), np.int32)
    speed = best(
        lambda: place(data.address, offsets.address, len(keys), PARTITIONS, out.ctypes.data),
        len(keys),
    )
    print_row("scalar C (gcc -O3)", speed, mean)
    assert (out == pg.partition_for(keys, partitions=PARTITIONS).to_numpy()).all(), "C differs"


def java(count: int, length: int) -> None:
    target = ROOT / "jvm" / "target"
    if not (target / "classes" / "io" / "partage" / "parity" / "KeyTimings.class").exists():
        print("  Java: skipped, run tools/jvm.sh first")
        return
    class_path = os.pathsep.join([str(target / "classes"), str(target / "lib" / "*")])
    done = subprocess.run(
        ["java", "-Xmx3g", "-XX:+UseSerialGC", "-cp", class_path, "io.partage.parity.KeyTimings",
         str(length), str(count), str(PARTITIONS), "15"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    print_row("Java partitionForKey 4.3.1", float(done.stdout.split()[0]), length)


def python_clients(length: int) -> None:
    if not PEERS.exists():
        print("  kafka-python, librdkafka: skipped, run tools/peers.sh first")
        return
    count = 100_000 if length < 100 else 3_000
    done = subprocess.run(
        [str(PEERS), "-c", _IN_PEERS, str(count), str(length)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        what, _, speed = line.rpartition(" ")
        print_row(what, float(speed), length)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--keys", type=int, default=4_000_000, help="of 16 bytes")
    count = arguments.parse_args().keys
    rng = np.random.default_rng(7)
    python = sys.version.split()[0]
    print(f"Python {python}, NumPy {np.__version__}, one core, {PARTITIONS} partitions")
    for length in (16, 1024):
        many = count if length == 16 else max(1000, count // 20)
        print(f"{many:,} keys of {length} bytes")
        keys = column(rng, np.full(many, length))
        ours(keys, length)
        scalar_c(keys, length)
        java(min(many, 1_000_000), length)
        python_clients(length)
    print(f"{count:,} keys of 8 to 24 bytes")
    lengths = rng.integers(8, 25, count)
    keys = column(rng, lengths)
    ours(keys, float(lengths.mean()))
    scalar_c(keys, float(lengths.mean()))


if __name__ == "__main__":
    main()
