"""How long `optimal` takes from names to the int32 plan, and what its certificate says.

Each problem fresh, then with nothing changed, one member gone, one member new. The judge
verifies every certificate (not timed). Arguments choose problems by the start of their names;
the largest, named "linear", are run only when asked for.

``bench_optimal.py owned``: weights, skewed claims and different subscriptions up to 10,000 x 200;
CPU seconds, the largest load by its bound, moves. ``bench_optimal.py moves --seeds 5``: `max.moves`
on 200 x 20 by weights and by counts, 24 problems for each of 5 seeds; the largest load by what
HiGHS finds in 4 seconds (``--seconds``, wall time) on one thread. A plan within 1 % of its
certificate's bound is compared with the bound, which no plan beats, and HiGHS does not run.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import time

import numpy as np

import partage as pg
from partage import judge
from partage.model import Claims

RUNS = 5
WEIGHTS = "assignment.optimal.weights"
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
    gap = max(gap for name, gap in proof.gaps.items() if name != "topic excess")
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


def owned_problem(size: tuple[int, int, int], kind: str, owned: str, seed: int):
    """Return a group, cluster and weights; the first subscribers own most if ``owned`` is skew."""
    partitions, members, topics = size
    rng = np.random.default_rng(seed)
    names, each = [f"t{t:04}" for t in range(topics)], partitions // topics
    chance = {"all": 1.0, "half": 0.5, "few": min(1.0, 6 / topics)}.get(kind)
    odds = rng.choice([0.02, 0.1, 0.5, 1.0], (members, 1)) if chance is None else chance
    wants = rng.random((members, topics)) < odds
    wants[rng.integers(members, size=topics), np.arange(topics)] = True
    mine: list[list[tuple[str, int]]] = [[] for _ in range(members)]
    for t, name in enumerate(names):
        who = np.flatnonzero(wants[:, t])
        for p in range(each):
            at = {"skew": rng.random() ** 3, "random": rng.random(), "one": 0.0}[owned]
            mine[who[int(len(who) * at)]].append((name, p))
    group = pg.Group(
        pg.Member(f"m{m:04}", [names[t] for t in np.flatnonzero(wants[m])], owned=mine[m])
        for m in range(members)
    )
    weights = {name: rng.lognormal(0, 1, each) for name in names}
    return group, pg.Cluster.from_topics(dict.fromkeys(names, each)), weights


def owned_rows() -> None:
    """Print CPU seconds and the largest load by its bound, for owned partitions with weights."""
    for size in ((1000, 20, 50), (2000, 50, 100), (10_000, 200, 100), (10_000, 200, 1000)):
        for kind in ("all", "half", "few", "mixed"):
            for owned in ("random", "skew", "one"):
                group, cluster, weights = owned_problem(size, kind, owned, SEED)
                start = time.process_time()
                plan = pg.assign("optimal", group, cluster, config={WEIGHTS: weights})
                took = time.process_time() - start
                judge.verify_certificate(plan, group, cluster)
                proof = plan.certificate
                ratio = proof.figures["largest"] / proof.bounds["largest"]
                row = f"{took:6.2f} s CPU   largest / bound {ratio:.4f}"
                moves = f"moves {proof.figures['moves']}"
                print(f"{size} {kind:6} {owned:7}{row}   {moves}  {plan.warnings}", flush=True)


def highs_largest(group, cluster, weights, limit: int, seconds: float) -> float:
    """Return the least largest load that HiGHS finds in this time."""
    import highspy

    home = {pair: m for m, member in enumerate(group) for pair in member.owned}
    model = highspy.Highs()
    for option, value in (("output_flag", False), ("time_limit", seconds), ("threads", 1)):
        model.setOptionValue(option, value)
    largest, load, moved = model.addVariable(lb=0.0, obj=1.0), [0.0] * len(group), 0.0
    for topic, count in zip(cluster.index.topics, cluster.index.counts.tolist(), strict=True):
        may = [m for m, member in enumerate(group) if topic in member.topics]
        for p in range(count):
            given = {m: model.addBinary() for m in may}
            model.addConstr(sum(given.values()) == 1)
            for m, x in given.items():
                load[m] += (1.0 if weights is None else float(weights[topic][p])) * x
                moved += 1.0 * x if home.get((topic, p), m) != m else 0.0
    for one in load:
        model.addConstr(one - largest <= 0)
    model.addConstr(moved <= limit)
    model.run()
    return float(model.getInfo().objective_function_value)


def move_rows(by: str, seed: int, seconds: float) -> None:
    """Print the largest load within limits of moves by what HiGHS finds, for 24 problems."""
    ratios = []
    for kind in ("all", "half", "mixed"):
        for limit in (3, 8, 20, 60):
            for owned in ("random", "skew"):
                group, cluster, weights = owned_problem((200, 20, 10), kind, owned, seed)
                config: dict[str, object] = {"assignment.optimal.max.moves": limit}
                config |= {WEIGHTS: weights} if by == "weights" else {}
                start = time.process_time()
                plan = pg.assign("optimal", group, cluster, config=config)
                took = time.process_time() - start
                judge.verify_certificate(plan, group, cluster)
                owner = plan.settled().owner
                each = [1.0] * 200 if by == "counts" else np.concatenate([*weights.values()])
                mine = float(np.bincount(owner, each, len(group)).max())
                proof = plan.certificate
                other, rival = mine if proof.optimal else proof.bounds["largest"], "bound"
                if mine > 1.01 * other:
                    loads = None if by == "counts" else weights
                    other, rival = highs_largest(group, cluster, loads, limit, seconds), "HiGHS"
                ratios.append(mine / other)
                row = f"{took:5.2f} s CPU   largest / {rival} {ratios[-1]:.4f}"
                print(f"{by} {kind:6}{owned:7} limit {limit:3}  {row}", flush=True)
    most = f"mean {np.mean(ratios):.4f}, most {max(ratios):.4f}, {len(ratios)} problems"
    print(f"{by}: seed {seed}, {most}", flush=True)


def main() -> None:
    """Print four rows a problem, and the most memory that was used."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help="owned, moves, or starts of problems' names")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds for moves")
    parser.add_argument("--first-seed", type=int, default=SEED, help="the first of them")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for HiGHS")
    options = parser.parse_args()
    asked = options.problems
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, seed {SEED}; ms, best and median of {RUNS}"
    )
    if asked == ["owned"]:
        owned_rows()
        return
    if asked == ["moves"]:
        for by in ("weights", "counts"):
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                move_rows(by, seed, options.seconds)
        return
    for name in PROBLEMS:
        if any(name.startswith(one) for one in asked) or not (asked or name.startswith("linear")):
            row(name)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
