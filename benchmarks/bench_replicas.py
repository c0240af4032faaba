"""Reassignments of random clusters: CPU seconds of plan, bound and check, what moves, the gap.

16,667 partitions x 3 on 40 brokers (50,001 replicas), and with `large` 200,000 x 3 on 300 brokers.
With `heavy` instead: Pareto(1.2) sizes on uneven brokers, 30 x 10,000 and 60 x 50,000, by dual
prices and repair (HiGHS) and by the local search alone, both beside the same verified bound.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from partage.api import reassignments
from partage.api.reassignments import reassign
from partage.kernels import force_kernel_form
from partage.model import Broker, ReplicaCluster
from partage.replicas import tasks


def made(brokers: int, partitions: int, racks: int, *, empty: int = 0, spread: bool = True):
    """Exponential sizes and loads; replicas over racks or anywhere, on all but the last brokers."""
    rng = np.random.default_rng(0)
    filled = brokers - empty
    if spread:
        of_rack = np.argsort(rng.random((partitions, racks)), axis=1)[:, :3]
        replica = of_rack + racks * rng.integers(0, filled // racks, (partitions, 3))
    else:
        replica = np.argsort(rng.random((partitions, filled)), axis=1)[:, :3]
    replica = replica.astype(np.int32)
    number = np.arange(partitions, dtype=np.int32)
    return ReplicaCluster(
        topics=tuple(f"t{i}" for i in range(partitions // 10 + 1)),
        topic=number // 10,
        number=number % 10,
        start=np.arange(partitions + 1, dtype=np.int64) * 3,
        replica=replica.ravel().copy(),
        leader=replica[:, 0].copy(),
        size=np.maximum(1, rng.exponential(1e9, partitions)).astype(np.int64),
        load=rng.exponential(1e5, partitions).astype(np.int64),
        brokers=tuple(Broker(i, f"r{i % racks}") for i in range(brokers)),
        capacity=np.full(brokers, -1, np.int64),
        directories=((),) * brokers,
        directory=np.full(3 * partitions, -1, np.int32),
    )


def heavy(brokers: int, partitions: int, racks: int, seed: int) -> ReplicaCluster:
    """Return Pareto(1.2) sizes from 1 GB, on brokers drawn with chances of 0.3 to 1.7."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.3, 1.7, brokers)
    drawn = rng.exponential(size=(partitions, brokers)) / chance
    replica = np.argsort(drawn, axis=1)[:, :3].astype(np.int32)
    number = np.arange(partitions, dtype=np.int32)
    return ReplicaCluster(
        topics=tuple(f"t{i}" for i in range(partitions // 10 + 1)),
        topic=number // 10,
        number=number % 10,
        start=np.arange(partitions + 1, dtype=np.int64) * 3,
        replica=replica.ravel().copy(),
        leader=replica[:, 0].copy(),
        size=(1e9 * (1 + rng.pareto(1.2, partitions))).astype(np.int64),
        load=None,
        brokers=tuple(Broker(i, f"r{i % racks}" if racks else None) for i in range(brokers)),
        capacity=np.full(brokers, -1, np.int64),
        directories=((),) * brokers,
        directory=np.full(3 * partitions, -1, np.int32),
    )


def beside_the_bound(brokers: int, partitions: int, racks: int, seed: int) -> None:
    """Print both plans of a heavy-tailed cluster beside the better of both bounds."""
    task = tasks.rebalance_task(heavy(brokers, partitions, racks, seed))
    most, lines, bounds = reassignments.MOST_DUAL_PAIRS, [], []
    for way, limit in (("dual prices and repair", most), ("local search", 0)):
        reassignments.MOST_DUAL_PAIRS = limit
        start, clock = time.process_time(), time.perf_counter()
        verdict = reassign(task).verdict
        seconds, clock = time.process_time() - start, time.perf_counter() - clock
        bounds.append(verdict.bounds["moved"])
        lines.append((way, seconds, clock, verdict.figures["moved"]))
    reassignments.MOST_DUAL_PAIRS = most
    for way, seconds, clock, moved in lines:
        print(
            f"{brokers} x {partitions:,}, {racks} racks, seed {seed}, {way}: {seconds:.1f} s CPU, "
            f"{clock:.0f} s, {moved / 1e9:,.0f} GB, {moved / max(bounds) - 1:.2%} above the bound",
            flush=True,
        )


def print_row(name: str, task) -> None:
    """One line."""
    start = time.process_time()
    found = reassign(task)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    figures = found.verdict.figures
    print(
        f"{name}: {seconds:.1f} s CPU, {len(found.moves.partition_of_copy):,} replicas, "
        f"{figures['moved'] / 1e9:,.1f} GB, gap {found.verdict.avoidable_fraction:.3%}, "
        f"{memory:,.0f} MB",
        flush=True,
    )


def main() -> None:
    """All of them; the first line is the kernels' compilation."""
    with force_kernel_form("compiled"):
        print_row("(first)", tasks.rebalance_task(made(6, 60, 3)))
        if "heavy" in sys.argv:
            for racks in (0, 3, 10):
                for seed in (1, 2):
                    beside_the_bound(30, 10_000, racks, seed)
            beside_the_bound(60, 50_000, 3, 0)
            return
        print_row("40 anywhere", tasks.rebalance_task(made(40, 16_667, 10, spread=False)))
        print_row("40 over racks", tasks.rebalance_task(made(40, 16_667, 10)))
        grown = made(42, 16_667, 3, empty=3)
        print_row("42, 3 empty", tasks.rebalance_task(grown))
        print_row("add 3", tasks.add_brokers(grown, [39, 40, 41]))
        print_row("drain", tasks.drain_brokers(grown, [3]))
        if "large" in sys.argv:
            print_row("300 over racks", tasks.rebalance_task(made(300, 200_000, 10)))
            print_row("303, 3 empty", tasks.rebalance_task(made(303, 200_000, 3, empty=3)))


if __name__ == "__main__":
    main()
