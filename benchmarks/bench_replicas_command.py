"""`partage reassign` as a user's command on large uneven clusters: seconds, memory, figures, gap.

A cluster of a shape is drawn from a seed and written as JSON; a process of its own reads it, plans,
proves, checks and writes batches. Printed are seconds by the clock and of CPU (reading and writing
included), the largest resident size, what moves, and every figure that is not at its bound.

    python benchmarks/bench_replicas_command.py                  # the four shapes, rebalance
    python benchmarks/bench_replicas_command.py mixed "no racks, heavy" --seed 3 --command drain
    python benchmarks/bench_replicas_command.py --cold           # 50,001 replicas on 40 brokers, in
                                                                 # an installation's first process
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Shape:
    """A cluster of ``brokers`` and ``partitions`` x 3.

    ``uneven``: a broker is as likely as 0.3 to 1.7 times another; ``racks``: how many, 0 for none;
    ``without``: one broker in so many has none; ``disks``: one in so many has two; ``sizes``:
    exponential, or heavy (Pareto, 1.2); ``topics``: how many partitions a topic has; ``spread``:
    replicas are placed over racks; ``empty``: the last brokers have nothing yet.
    """

    brokers: int = 300
    partitions: int = 200_000
    uneven: bool = True
    racks: int = 10
    without: int = 0
    disks: int = 3
    sizes: str = "exponential"
    topic: int = 100
    spread: bool = False
    empty: int = 0


SHAPES = {
    "mixed": Shape(without=5),
    "racks": Shape(),
    "no racks": Shape(racks=0),
    "uniform": Shape(uneven=False, disks=0, spread=True),
    "mixed, heavy": Shape(without=5, sizes="heavy"),
    "no racks, heavy": Shape(racks=0, sizes="heavy"),
    "no racks, plain": Shape(racks=0, disks=0),
    "no racks, uniform": Shape(racks=0, uneven=False, disks=0),
    "3 racks": Shape(racks=3),
    "60 racks": Shape(racks=60),
    "one topic": Shape(topic=200_000),
    "grown": Shape(brokers=320, uneven=False, empty=20, spread=True),
    "grown, no racks": Shape(brokers=320, racks=0, empty=20),
    "alike": Shape(sizes="alike"),
    "40": Shape(40, 16_667, uneven=False, disks=0, spread=False),
    "40, mixed": Shape(40, 16_667, without=5),
    "40, no racks": Shape(40, 16_667, racks=0),
}


def described(shape: Shape, seed: int) -> dict:
    """The cluster as a line of ``cluster.jsonl``."""
    rng = np.random.default_rng(seed)
    filled = shape.brokers - shape.empty
    if shape.spread:
        of_rack = np.argsort(rng.random((shape.partitions, shape.racks)), axis=1)[:, :3]
        replica = of_rack + shape.racks * rng.integers(
            0, filled // shape.racks, (shape.partitions, 3)
        )
    else:
        chance = rng.uniform(0.3, 1.7, filled) if shape.uneven else np.ones(filled)
        # Without putting back, with such chances: the three smallest of exponential times.
        times = rng.exponential(1.0, (shape.partitions, filled)).astype(np.float32)
        replica = np.argpartition(times / chance, 3, axis=1)[:, :3]
    size = {
        "exponential": lambda n: rng.exponential(1e9, n),
        "heavy": lambda n: 2e8 * (1 + rng.pareto(1.2, n)),
        "alike": lambda n: np.full(n, 1e9),
    }[shape.sizes](shape.partitions)
    size = np.clip(size, 1, 1e13).astype(np.int64)
    load = rng.exponential(1e5, shape.partitions).astype(np.int64)
    disk = rng.random(replica.shape) < 0.35
    brokers = []
    for b in range(shape.brokers):
        rack = f"r{b % shape.racks}" if shape.racks else None
        if shape.without and b % shape.without == shape.without - 1:
            rack = None
        two = bool(shape.disks) and b % shape.disks == 0
        paths = ["/d1", "/d2"] if two else ["/d1"]
        brokers.append({"id": b, "rack": rack, "directories": paths})
    path = np.where(disk & bool(shape.disks) & (replica % max(shape.disks, 1) == 0), "/d2", "/d1")
    topics: dict[str, dict] = {}
    rows = zip(replica.tolist(), path.tolist(), size.tolist(), load.tolist(), strict=True)
    for i, (row, paths, bytes_, written) in enumerate(rows):
        one = {"p": i % shape.topic, "leader": row[0], "replicas": row, "isr": row,
               "size": bytes_, "load": written, "directories": paths}  # fmt: skip
        topics.setdefault(f"t{i // shape.topic}", {"partitions": []})["partitions"].append(one)
    return {"brokers": brokers, "topics": topics}


def words(command: str, shape: Shape, cluster: Path) -> list[str]:
    """The command line of what is asked."""
    new = [str(b) for b in range(shape.brokers - shape.empty, shape.brokers)]
    line = {
        "rebalance": ["rebalance"],
        "add-broker": ["add-broker", *(x for b in new for x in ("--broker", b))],
        "drain": ["drain-broker", "--broker", "7"],
        "replace": ["replace-broker", "--broker", "7", "--by", str(shape.brokers - 1)],
        "rf-up": ["change-rf", "-r", "4"],
        "rf-down": ["change-rf", "-r", "2"],
        "fix-racks": ["fix-racks"],
        "elect": ["elect-leaders"],
    }[command]
    return [line[0], str(cluster), *line[1:], "--max-moves", "5000"]


def run(name: str, command: str, seed: int, folder: Path, *, cold: bool = False) -> bool:
    """One command in a process of its own; its result as a line."""
    shape = SHAPES[name]
    cluster, out = folder / f"{name}-{seed}.json", folder / f"out-{time.time_ns()}"
    if not cluster.exists():
        cluster.write_text(json.dumps(described(shape, seed)), encoding="utf-8")
    environment = dict(os.environ)
    if cold:
        environment["NUMBA_CACHE_DIR"] = str(folder / f"cache-{time.time_ns()}")
    said = folder / "said"
    with said.open("wb") as to:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "partage", "reassign", *words(command, shape, cluster),
             "--out", str(out)],
            stdout=to, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    line = f"{name}, seed {seed}, {command}{', cold' * cold}: {wall:.1f} s, "
    line += f"{seconds:.1f} s CPU, {used.ru_maxrss / 1e3:,.0f} MB"
    if process.returncode:
        print(f"{line}; FAILED with {process.returncode}: {said.read_text()[-500:]}", flush=True)
        return False
    plan = json.loads((out / "plan.json").read_text(encoding="utf-8"))
    figures, bounds = plan["figures"], plan["bounds"]
    off = {k: (v, bounds[k]) for k, v in figures.items() if v != bounds[k] and k != "moved"}
    print(
        f"{line}; {plan['replicas_moved']:,} replicas, {figures['moved'] / 1e12:,.3f} TB moved, "
        f"gap {plan['gap']:.2%}; not at their bounds: {off}; outside: "
        f"{ {k: v for k, v in figures.items() if v and k not in {'moved', 'between brokers'}} }",
        flush=True,
    )
    return True


def main() -> None:
    """The shapes that are named; the load of the machine, since the clock depends on it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []], default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", default="rebalance")
    parser.add_argument("--cold", action="store_true", help="an empty cache of kernels")
    given = parser.parse_args()
    shapes = given.shapes or (["40"] if given.cold else ["mixed", "racks", "no racks", "uniform"])
    if not given.cold:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        good = [run(name, given.command, given.seed, Path(folder), cold=given.cold)
                for name in shapes]  # fmt: skip
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
