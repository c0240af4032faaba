"""Print what a plan of each strategy costs: the figures on its page of the documentation.

Best of some runs, from a `Group` and a `Cluster` to the plan; the group is made anew each time,
so that nothing is remembered from one run to the next.
"""

from __future__ import annotations

import os
import platform
import sys
import time

import numpy as np

import partage as pg
from partage import kernels
from partage.groups import registry

RUNS = 7
# members, topics, partitions a topic
SIZES = ((3, 2, 6), (100, 100, 100))


def problem(members: int, topics: int, partitions: int) -> tuple[pg.Group, pg.Cluster]:
    """Everybody subscribes to everything, nobody owns anything."""
    names = [f"topic-{number:04}" for number in range(topics)]
    group = pg.Group([pg.Member(f"member-{number:04}", names) for number in range(members)])
    return group, pg.Cluster.from_topics(dict.fromkeys(names, partitions))


def best(strategy: str, size: tuple[int, int, int]) -> float:
    """Milliseconds of the quickest run."""
    times = []
    for _ in range(RUNS):
        group, cluster = problem(*size)
        start = time.perf_counter()
        pg.assign(strategy, group, cluster)
        times.append((time.perf_counter() - start) * 1000)
    return min(times)


def main() -> None:
    """One row a strategy."""
    kernels.warm_up().join()
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, best of {RUNS}"
    )
    print(f"{'strategy':<20}" + "".join(f"{m:>7} x{t * p:>7,}" for m, t, p in SIZES))
    for name in sys.argv[1:] or registry.strategies_to_compare():
        figures = "".join(f"{best(name, size):>13.2f} ms" for size in SIZES)
        print(f"{name:<20}{figures}", flush=True)


if __name__ == "__main__":
    main()
