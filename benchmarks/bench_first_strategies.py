"""range and roundrobin on a large group, beside Kafka's own classes in a warm JVM.

1000 members, 1000 topics, 100,000 partitions. Ours from a fresh `Problem` (names included);
Java's from its subscription map, first call and best of eight.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tests.support.jvm import JvmOracle

from partage.groups.registry import find
from partage.model import Cluster, Group, Problem

NAMES = [f"topic-{i}" for i in range(1000)]
TIMES = 5


def members(rng, *, some=None, racks=False):
    return [
        {
            "id": f"consumer-{i}",
            "topics": NAMES if some is None else rng.sample(NAMES, some),
            **({"rack": "abc"[i % 3]} if racks else {}),
        }
        for i in range(1000)
    ]


def laid(count):
    return {name: [["abc"[(i + j) % 3]] for j in range(count(i))] for i, name in enumerate(NAMES)}


def shapes():
    rng = random.Random(1)
    plain = dict.fromkeys(NAMES, 100)
    yield "equal subscriptions", plain, members(rng)
    yield "100 of 1000 topics each", plain, members(rng, some=100)
    yield "racks, equal sizes", laid(lambda _: 100), members(rng, racks=True)
    yield "racks, sizes 50 to 150", laid(lambda i: 50 + i % 101), members(rng, racks=True)
    yield "racks, 100 topics each", laid(lambda _: 100), members(rng, some=100, racks=True)


def ours(strategy, problem):
    best = float("inf")
    for _ in range(TIMES):
        fresh = Problem(Group.from_json(problem), Cluster.from_json(problem))
        start = time.perf_counter()
        find(strategy).assign(fresh)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main():
    print(f"{'strategy':11} {'shape':25} {'Java first':>11} {'Java best':>10} {'Partage':>9}  ms")
    with JvmOracle("Assignors", heap="2g") as java:
        for shape, topics, group in shapes():
            for strategy in ("range", "roundrobin"):
                problem = {"topics": topics, "members": group}
                nanos = java.ask({"strategy": strategy, "repeat": 8, **problem})["nanos"]
                first, best = nanos[0] / 1e6, min(nanos) / 1e6
                mine = ours(strategy, problem)
                print(f"{strategy:11} {shape:25} {first:11.1f} {best:10.1f} {mine:9.1f}")


if __name__ == "__main__":
    main()
