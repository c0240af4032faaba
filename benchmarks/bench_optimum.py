"""How long the judge and the solver take: members x partitions x kind of subscription.

Each group of round robin loses a tenth of its members; range decides anew, and is checked,
counted, and held against the optimum. A last row shows what is refused as too large.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import partage as pg

SEED = 7
# members, topics, partitions a topic
GRID = [(10, 10, 10), (100, 100, 10), (100, 1000, 100), (1000, 100, 100), (1000, 1000, 100)]
LARGER = (1000, 10_000, 10)


def subscriptions(kind: str, members: int, names: list[str]) -> list[list[str]]:
    """All alike, ten kinds, a random half each, or from nearly nothing to nearly all."""
    rng = np.random.default_rng(SEED)
    topics = len(names)
    if kind == "equal":
        return [names] * members
    if kind == "ten kinds":
        return [names[i % 10 :: 10] + names[3 * i % 10 :: 10] for i in range(members)]
    shares = np.full(members, 0.5) if kind == "half" else rng.random(members) ** 3
    return [[names[t] for t in np.flatnonzero(rng.random(topics) < share)] for share in shares]


def problem(kind: str, members: int, topics: int, each: int) -> tuple[pg.Group, pg.Cluster]:
    """The group that is left, claiming what round robin had given it."""
    names = [f"topic-{t:05}" for t in range(topics)]
    cluster = pg.Cluster.from_topics(dict.fromkeys(names, each))
    rows = subscriptions(kind, members, names)
    everybody = pg.Group([pg.Member(f"member-{i:04}", row) for i, row in enumerate(rows)])
    had = pg.assign("roundrobin", everybody, cluster).to_dict()
    left = [m.replaced(owned=had[m.id], generation=1) for i, m in enumerate(everybody) if i % 10]
    return pg.Group(left), cluster


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long once, and the answer."""
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


def row(kind: str, members: int, topics: int, each: int) -> str:
    """One line of figures."""
    group, cluster = problem(kind, members, topics, each)
    plan = pg.assign("range", group, cluster)
    check, breaches = seconds(lambda: pg.check(plan, group, cluster))
    count, _ = seconds(lambda: pg.measure(plan, group, cluster, optimum=False))
    whole, m = seconds(lambda: pg.measure(plan, group, cluster))
    return (
        f"{members:5} {topics * each:7} {kind:10} {check:7.3f} {count:7.3f} {whole:7.3f} "
        f"{m.spread:6} {m.best_spread!s:>5} {m.moved:6} {m.avoidable!s:>9} "
        f"{m.fewest_moves_to_best!s:>8} {len(breaches)} {m.refused or ''}"
    )


def main() -> None:
    """Print one row a problem."""
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, seed {SEED}, seconds of one run"
    )
    print(
        "members   parts kind         check   count    best spread  best  moved avoidable  to best"
    )
    for size in GRID:
        for kind in ("equal", "ten kinds", "half", "skewed"):
            print(row(kind, *size), flush=True)
    for kind in ("equal", "half"):
        print(row(kind, *LARGER), flush=True)


if __name__ == "__main__":
    main()
