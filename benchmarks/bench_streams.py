"""Task assignors at size, beside the Java classes on the same input.

    python benchmarks/bench_streams.py [--full] [--no-java]

High availability: stateful tasks on clients with one standby. A third of the clients are new
(every lag is large), so that tasks have to move. Java: the released class in one process,
its input built outside the clock; best of two. Ours: problem numbered outside the clock as Java's
maps are, lags included; best of three. By the clock, and by the processor time of the thread that
decides, which other programs on the machine do not lengthen; the ratio is that of processor times.
Java's class takes minutes where ours takes seconds: the largest sizes are ours alone.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import pytest
from tests.support import jvm, stream_problems
from tests.support.jvm import JvmOracle

from partage.streams import AssignmentConfigs, ClientState, ProcessId, TaskId, TaskProblem


def problem(tasks, clients, *, seed=1, strategy="none", standbys=1):
    """As tests/data/vectors/streams: ten sub-topologies, two threads a client, three racks."""
    rng = random.Random(seed)
    names = [f"{group}_{number}" for group in range(10) for number in range(tasks // 10)]
    racks = ["r0", "r1", "r2"]
    owner = {task: rng.randrange(2 * clients // 3 + 1) for task in names}
    made = [
        {
            "msb": rng.getrandbits(64) - 2**63,
            "lsb": rng.getrandbits(64) - 2**63,
            "cap": 2,
            "pa": [task for task in names if owner[task] == number],
            "ps": [],
            "lag": {task: -2 if owner[task] == number else 150_000 for task in names},
            "tags": {},
            "rack": racks[number % 3],
        }
        for number in range(clients)
    ]
    cfg = {
        "arl": 10_000,
        "mw": 2,
        "nst": standbys,
        "tags": [],
        "strat": strategy,
        "tc": -1,
        "noc": -1,
    }
    return {
        "all": names,
        "stateful": names,
        "clients": made,
        "cfg": cfg,
        "pr": {task: [[rng.sample(racks, 2)], [rng.sample(racks, 2)]] for task in names},
    }


def columns(one):
    """The same problem with its lags as one matrix, as a leader makes them."""
    tasks = stream_problems.tasks(one["all"])
    clients = [
        ClientState(ProcessId(its["msb"], its["lsb"]), its["cap"], rack=its["rack"])
        for its in one["clients"]
    ]
    lags = np.array([list(its["lag"].values()) for its in one["clients"]], np.int64)
    return TaskProblem(clients, tasks, tasks, stream_problems.settings(one["cfg"]), lags=lags)


def large(tasks, clients, *, seed=1):
    """As `problem`, without ever holding a dict of all lags."""
    rng = np.random.default_rng(seed)
    names = [TaskId(group, number) for group in range(10) for number in range(tasks // 10)]
    owner = rng.integers(0, 2 * clients // 3 + 1, tasks)
    lags = np.full((clients, tasks), 150_000, np.int64)
    lags[owner, np.arange(tasks)] = -2
    halves = rng.integers(-(2**63), 2**63 - 1, (clients, 2)).tolist()
    made = [ClientState(ProcessId(*half), 2) for half in halves]
    return TaskProblem(made, names, names, AssignmentConfigs(num_standby_replicas=1), lags=lags)


def ours(read, kind, times):
    read.lags  # noqa: B018 - numbered once, as Java's maps are there before
    wall, cpu = [], []
    for _ in range(times):
        start, busy = time.perf_counter(), time.thread_time()
        plan = stream_problems.ANSWERS[kind](read)
        cpu.append(time.thread_time() - busy)
        wall.append(time.perf_counter() - start)
    assert sum(map(len, plan.active)) == len(read.tasks)
    return min(wall), min(cpu)


def java(one, kind, times, most=None):
    """Seconds by the clock and of processor; without the first if it was stopped after ``most``."""
    began = time.perf_counter()
    with JvmOracle("StreamsAssignors", heap="3g") as oracle:
        process = oracle._process  # noqa: SLF001 - our own tests'
        stopped = threading.Event()

        def watch():
            # It starts and reads its input with it too: a second or two.
            while not stopped.wait(0.5):
                if most is not None and _processor_seconds(process.pid) > most:
                    process.kill()
                    return

        threading.Thread(target=watch, daemon=True).start()
        try:
            said = oracle.ask({**one, "kind": kind, "times": times})
        except pytest.fail.Exception:
            if most is None or time.perf_counter() - began < most / 2:
                raise
            return None, most
        finally:
            stopped.set()
    return min(said["nanos"]) / 1e9, min(said["cpu"]) / 1e9


def _processor_seconds(pid):
    """Of a process, all its threads, on Linux."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    """Print one line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to 100,000 tasks")
    parser.add_argument("--no-java", action="store_true")
    parser.add_argument("--java-up-to", type=int, default=10_000, help="tasks; more is ours alone")
    parser.add_argument("--only", type=int, help="one size, by its tasks; Java once")
    parser.add_argument("--java-cpu", type=float, help="seconds of processor that Java gets")
    parser.add_argument("--rack", action="store_true", help="rack-aware, by least traffic")
    asked = parser.parse_args()
    sizes = [(1_000, 100, "ha"), (10_000, 200, "ha")]
    if asked.full:
        sizes += [(30_000, 200, "ha"), (100_000, 200, "ha")]
    if asked.rack:
        sizes = [(100, 10, "harack"), (200, 20, "harack"), (300, 30, "harack"), (500, 50, "harack")]
        sizes += [(1_000, 100, "harack")] if asked.full else []
    if asked.only:
        sizes = [one for one in sizes if one[0] == asked.only]
    # An answer may take Java an hour: nobody waits for it here but who asked for it.
    jvm._SECONDS_FOR_A_CHUNK = 7200  # noqa: SLF001 - our own tests'
    heads = ("ours s", "of CPU", "Java s", "of CPU", "ratio")
    print(f"{'assignor':10} {'tasks':>8} {'clients':>8}", *(f"{head:>9}" for head in heads))
    for tasks, clients, kind in sizes:
        if tasks > 10_000:
            one, read = None, large(tasks, clients)
        else:
            strategy = "min_traffic" if kind == "harack" else "none"
            one = problem(tasks, clients, strategy=strategy, standbys=0 if asked.rack else 1)
            read = stream_problems.read(one) if asked.rack else columns(one)
        mine = ours(read, kind, 1 if asked.only else 3)
        line = f"{kind:10} {tasks:>8,} {clients:>8,} {mine[0]:>9.3f} {mine[1]:>9.3f}"
        if one and not asked.no_java and (tasks <= asked.java_up_to):
            wall, cpu = java(one, kind, 1 if asked.only else 2, asked.java_cpu)
            seconds = "-" if wall is None else f"{wall:.3f}"
            more = ">" if wall is None else ""
            line += f" {seconds:>9} {more + f'{cpu:.3f}':>9} {more + f'{cpu / mine[1]:.1f}x':>9}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
