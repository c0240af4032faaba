"""How long each strategy takes: members x partitions, equal and mixed subscriptions, fresh.

Best of some runs, with the machine, versions and seed beside the figures; spread is printed
too, because a fast uneven plan is no bargain.
"""

from __future__ import annotations

import os
import platform
import random
import sys
import time

import numpy as np

import partage as pg

SEED = 20260401
RUNS = 3
# members, topics, partitions a topic
GRID = [(3, 2, 6), (10, 10, 12), (100, 100, 10), (500, 100, 50)]


def problem(members: int, topics: int, partitions: int, *, mixed: bool) -> tuple:
    """A fresh group: everybody subscribes to all topics, or each to a random half."""
    chance = random.Random(SEED)
    names = [f"topic-{number:04}" for number in range(topics)]
    cluster = pg.Cluster.from_topics(dict.fromkeys(names, partitions))
    chosen = [
        sorted(chance.sample(names, (topics + 1) // 2)) if mixed else names for _ in range(members)
    ]
    group = pg.Group(
        [pg.Member(f"member-{number:04}", topics=chosen[number]) for number in range(members)]
    )
    return group, cluster


def best_of(name: str, group: pg.Group, cluster: pg.Cluster) -> tuple[float, pg.Plan]:
    """The quickest of some runs, in milliseconds, and the plan."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        plan = pg.assign(name, group, cluster)
        times.append((time.perf_counter() - start) * 1000)
    return min(times), plan


def spread(plan: pg.Plan, members: int) -> int:
    """Largest less smallest load."""
    loads = np.bincount(plan.owner[plan.owner >= 0], minlength=members)
    return int(loads.max() - loads.min())


def main() -> None:
    """Print one row a problem and strategy."""
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, seed {SEED}, best of {RUNS}"
    )
    print(f"{'strategy':<22}{'members':>8}{'partitions':>11}{'topics':>14}{'ms':>10}{'spread':>8}")
    for members, topics, partitions in GRID:
        for mixed in (False, True):
            group, cluster = problem(members, topics, partitions, mixed=mixed)
            kind = "a half each" if mixed else "all"
            for name in pg.strategies():
                try:
                    took, plan = best_of(name, group, cluster)
                except pg.PartageError as refused:
                    print(f"{name:<22}{members:>8}{topics * partitions:>11}{kind:>14}  {refused}")
                    continue
                print(
                    f"{name:<22}{members:>8}{topics * partitions:>11}{kind:>14}"
                    f"{took:>10.2f}{spread(plan, members):>8}"
                )


if __name__ == "__main__":
    sys.exit(main())
