"""How long `optimal` takes from names to the int32 plan, and what its certificate says.

Each problem fresh, then with nothing changed, one member gone, one member new. The judge
verifies every certificate (not timed). Arguments choose problems by the start of their names;
the largest, named "linear", are run only when asked for.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time

import numpy as np

import partage as pg
from partage import judge
from partage.model import Claims

RUNS = 5
SEED = 11
# name: kind of subscriptions, members, topics, partitions a topic, racks
PROBLEMS = {
    "12 x 3": ("equal", 3, 1, 12, 0),
    "10,000 x 100": ("equal", 100, 100, 100, 0),
    "U1 equal": ("equal", 2000, 2000, 500, 0),
    "U1 odd": ("odd", 2000, 2000, 500, 0),
    "U1 racks": ("equal", 2000, 2000, 500, 3),
    "JMH 1000-10-1000 equal": ("equal", 1000, 1000, 10, 0),
    "JMH 1000-10-100 ten kinds": ("kinds", 100, 1000, 10, 0),
    "JMH 1000-10-1000 ten kinds": ("kinds", 1000, 1000, 10, 0),
    "100 x 10,000 half": ("half", 100, 100, 100, 0),
    "1,000 x 10,000 half": ("half", 1000, 100, 100, 0),
    "1,000 x 100,000 half": ("half", 1000, 1000, 100, 0),
    "weights 10,000 x 100": ("weights", 100, 100, 100, 0),
    "weights 100,000 x 1,000": ("weights", 1000, 1000, 100, 0),
    "linear 1,000,000": ("equal", 1000, 1000, 1000, 0),
    "linear 4,000,000": ("equal", 4000, 4000, 1000, 0),
}


def subscriptions(kind: str, members: int, names: list[str]) -> list[list[str]]:
    """All alike; one odd subscriber; ten kinds; or a random half each."""
    rng = np.random.default_rng(SEED)
    if kind == "odd":
        return [names] * (members - 1) + [names[:1]]
    if kind == "kinds":
        rows = [names[i::10] + names[(3 * i + 1) % 10 :: 10] for i in range(10)]
        return [rows[i % 10] for i in range(members)]
    if kind == "half":
        return [
            [names[t] for t in np.flatnonzero(rng.random(len(names)) < 0.5)] for _ in range(members)
        ]
    return [names] * members


def clusters(topics: int, each: int, racks: int) -> pg.Cluster:
    """Without racks, or three replicas a partition on brokers of as many racks and one more."""
    names = [f"topic-{t:05}" for t in range(topics)]
    if not racks:
        return pg.Cluster.from_topics(dict.fromkeys(names, each))
    rows = [[f"rack-{(p + i) % (racks + 1)}" for i in range(2)] for p in range(racks + 1)]
    return pg.Cluster.from_topics({n: [rows[p % len(rows)] for p in range(each)] for n in names})


def owning(group: pg.Group, plan: pg.Plan) -> pg.Group:
    """The members with what they have in the end."""
    plan = plan.settled()
    index = plan.index
    members = []
    for i, member in enumerate(group):
        mine = plan.partitions_of(i)
        claims = Claims(index.topics, index.topic_of[mine], index.number_of[mine])
        members.append(member.replaced(owned=claims, generation=1))
    return pg.Group(members)


def timed(group: pg.Group, cluster: pg.Cluster, config: dict[str, object]) -> tuple[str, pg.Plan]:
    """Best and median in milliseconds, the plan's figures and gaps."""
    took = []
    for _ in range(RUNS):
        start = time.perf_counter()
        plan = pg.assign("optimal", group, cluster, config=config)
        took.append((time.perf_counter() - start) * 1000)
    judge.verify_certificate(plan, group, cluster)
    proof = plan.certificate
    gap = max(proof.gaps.values())
    figures = ", ".join(f"{name} {value:.6g}" for name, value in proof.figures.items())
    return f"{min(took):9.2f} {statistics.median(took):9.2f}   gap {gap:.3g}   {figures}", plan


def row(name: str) -> None:
    """Print the four rows of one problem."""
    kind, members, topics, each, racks = PROBLEMS[name]
    cluster = clusters(topics, each, racks)
    names = list(cluster.index.topics)
    config: dict[str, object] = {}
    if kind == "weights":
        rng = np.random.default_rng(SEED)
        config["assignment.optimal.weights"] = {n: rng.lognormal(0, 1, each) for n in names}
    group = pg.Group([
        pg.Member(f"member-{i:05}", mine, rack=f"rack-{i % racks}" if racks else None)
        for i, mine in enumerate(subscriptions(kind, members, names))
    ])  # fmt: skip
    text, plan = timed(group, cluster, config)
    print(f"{name:28} fresh   {text}", flush=True)
    had = owning(group, plan)
    new = pg.Member("member-new", names, rack="rack-0" if racks else None)
    for change, after in (
        ("nothing", had),
        ("one left", pg.Group(list(had)[1:])),
        ("one new", pg.Group([*had, new])),
    ):
        text, _ = timed(after, cluster, config)
        print(f"{'':28} {change:8}{text}", flush=True)


def main() -> None:
    """Print four rows a problem, and the most memory that was used."""
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, seed {SEED}; ms, best and median of {RUNS}"
    )
    asked = sys.argv[1:]
    for name in PROBLEMS:
        if any(name.startswith(one) for one in asked) or not (asked or name.startswith("linear")):
            row(name)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
