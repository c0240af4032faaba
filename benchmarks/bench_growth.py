"""How time and memory grow with partitions: up to 10,000,000 for 10,000 members.

    .venv/bin/python benchmarks/bench_growth.py             # up to 1,250,000
    .venv/bin/python benchmarks/bench_growth.py --full      # up to 10,000,000
    .venv/bin/python benchmarks/bench_growth.py --full --only sticky

1,000 topics; partitions and members grow together, 1,000 partitions a member. Each point is a
process of its own, so peak memory is its own; the best of five plans from names counts, kernels
warmed up, and the judge checks the last. "leaves": one member has gone, the others say as arrays
what they own. A line is linear where nanoseconds a partition stay what they are; those are CPU
time, which other programs on the machine change less than the time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from problems import claims_of

import partage as pg
from partage.groups.registry import find
from partage.kernels import warm_up
from partage.model import Problem

TOPICS, A_MEMBER, RUNS = 1_000, 1_000, 5
SIZES = (78_000, 312_000, 1_250_000, 2_500_000, 5_000_000, 10_000_000)
FRESH = ("sticky", "cooperative-sticky", "range", "roundrobin", "server:uniform", "server:range",
         "optimal")  # fmt: skip
LEAVES = ("cooperative-sticky", "server:uniform", "optimal")


def peak():
    """MB of memory at most resident so far; 0 where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def owned_after(strategy, ids, names, cluster):
    """What each of the members would claim after a first plan."""
    group = pg.Group([pg.Member(one, names) for one in ids])
    plan = find(strategy).assign(Problem(group, cluster))
    topic, number = cluster.index.topic_of, cluster.index.number_of
    known = tuple(cluster.index.topics)
    parts = (plan.partitions_of(m) for m in range(len(ids)))
    return [{"owned": claims_of(known, topic[p], number[p]), "generation": 4} for p in parts]


def point(strategy, kind, partitions):
    """One process: seconds, peak memory, and whether the judge found the plan valid."""
    ids = [f"member-{i}" for i in range(partitions // A_MEMBER)]
    names = [f"topic-{i}" for i in range(TOPICS)]
    cluster = pg.Cluster.from_topics(dict.fromkeys(names, partitions // TOPICS))
    sent = [{}] * len(ids)
    if kind == "leaves":
        sent = owned_after(strategy, ids, names, cluster)
        gone = len(ids) // 2
        del ids[gone], sent[gone]

    def planned():
        rows = zip(ids, sent, strict=True)
        group = pg.Group([pg.Member(one, names, **more) for one, more in rows])
        plan = find(strategy).assign(Problem(group, cluster))
        plan.owner  # noqa: B018 - an array made when first asked for
        return plan, group

    planned()
    warm_up().join()
    times, cpu = [], []
    for _ in range(RUNS):
        made = None
        start, before = time.perf_counter(), time.thread_time()
        made = planned()
        times.append(time.perf_counter() - start)
        cpu.append(time.thread_time() - before)
    memory = peak()
    plan, group = made
    breaches = pg.check(plan, group, cluster)
    said = {
        "seconds": min(times),
        "cpu": min(cpu),
        "peak": memory,
        "breaches": [str(one) for one in breaches[:3]],
    }
    print(json.dumps(said))


def asked(strategy, kind, partitions):
    """A point in a process of its own."""
    command = [sys.executable, __file__, "--point", strategy, kind, str(partitions)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no word"])[-1][:90]}
    return json.loads(done.stdout.splitlines()[-1])


def line_of(strategy, kind, sizes):
    """One strategy, all sizes."""
    print(f"\n{strategy}, {kind}")
    for partitions in sizes:
        said = asked(strategy, kind, partitions)
        where = f"  {partitions:>12,} x {partitions // A_MEMBER:>6,}"
        if "failed" in said:
            print(f"{where}  failed: {said['failed']}", flush=True)
            continue
        each = said["cpu"] / partitions
        bad = f"  INVALID: {said['breaches'][0]}" if said["breaches"] else ""
        print(
            f"{where}{said['seconds'] * 1e3:>10.1f} ms{each * 1e9:>6.0f} ns of CPU a partition"
            f"{said['peak']:>8.0f} MB{said['peak'] * 2**20 / partitions:>7.0f} bytes{bad}",
            flush=True,
        )


def main():
    """A line for each strategy."""
    if sys.argv[1:2] == ["--point"]:
        point(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="up to 10,000,000 partitions")
    parser.add_argument("--only", default="", help="lines whose 'strategy kind' contains this")
    args = parser.parse_args()
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    for kind, strategies in (("fresh", FRESH), ("leaves", LEAVES)):
        for strategy in strategies:
            if args.only in f"{strategy} {kind}":
                line_of(strategy, kind, SIZES if args.full else SIZES[:3])


if __name__ == "__main__":
    main()
