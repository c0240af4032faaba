"""Ours beside Kafka's Java classes, franz-go, kafka-python and aiokafka, on the same problems.

    make bench                                       # some minutes
    .venv/bin/python benchmarks/bench_peers.py --full [--only U1] [--grid]

Each contestant is a process of its own (`peers/README.md` says what is timed); the judge checks
every plan. ``--full`` takes all problems, ``--grid`` the whole of Kafka's JMH grid. Who is not
installed is skipped by name. Times are milliseconds, best and median of so many runs; goals
were set for a quiet machine, so look at the load, and at the ratio within one run.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import contestants
import problems

import partage as pg

WHO = ("Java", "franz-go", "kafka-python", "aiokafka", "ours")
COLD_GOAL = 0.005
#: Short plans need thousands of runs: another process slows a whole series of some milliseconds.
FEWEST, MOST = 10, 3000


def asked(who, row):
    """The strategy that a contestant is asked for, None if it has no such thing."""
    if who in ("Java", "franz-go"):
        chosen = row.java if who == "Java" else row.go
        return row.strategy if chosen == "" else chosen
    if who == "ours":
        return row.strategy
    return row.strategy if row.clients and row.strategy in contestants.CLASSIC else None


def limits(who, args):
    """Fewest and most runs, and the two spans of seconds; slow clients are not asked ten times."""
    if who in ("kafka-python", "aiokafka"):
        return 3 if args.full else 1, 10, 2.0, args.at_most
    return FEWEST, MOST, args.seconds, args.at_most


def judged(said, group, cluster, strategy):
    """Spread, moves and breaches of an owner array, by the judge."""
    more = {}
    if strategy == "cooperative-sticky":
        # First phase: a partition without owner must belong to a member that releases it.
        more["withheld"] = np.flatnonzero(said.owner < 0).astype(np.int32)
    plan = pg.Plan.from_owner(cluster.index, group.ids, said.owner, **more)
    breaches = [str(one) for one in pg.check(plan, group, cluster)]
    if int((said.owner >= 0).sum()) != said.line["given"]:
        breaches.append("partitions with two owners")
    figures = pg.measure(plan, group, cluster, optimum=False)
    return figures.spread, figures.moved + len(plan.withheld), breaches


def ms(nanos):
    """Best, and the median of the later half: by then Java's compiler is done."""
    return min(nanos) / 1e6, statistics.median(nanos[len(nanos) // 2 :]) / 1e6


def line_of(who, said, figures, same):
    """One contestant's line."""
    best, median = ms(said.line["nanos"])
    spread, moves, breaches = figures
    notes = [] if same is None else ["all as Java" if same == 1 else f"{same:.2%} as Java"]
    for key, label in (
        ("cpu_nanos", "CPU"),
        ("built_nanos", "from a Group"),
        ("built_cpu_nanos", "CPU"),
        ("reading_nanos", "reading"),
        ("plain_nanos", "without compiled kernels"),
        ("plain_cpu_nanos", "CPU"),
        ("first_nanos", "first"),
        ("separate_nanos", "separate lists"),
        ("dict_nanos", "to dicts"),
    ):
        if said.line.get(key):
            notes.append(f"{label} {min(said.line[key]) / 1e6:.3f}")
    notes += [f"INVALID: {len(breaches)} breaches, {breaches[0]}"] if breaches else []
    peak = f"{said.line['peak'] / 1024:8.0f}" if said.line.get("peak") else "       -"
    return (
        f"  {who:13}{best:11.3f}{median:11.3f}{len(said.line['nanos']):5}{spread!s:>7}{moves:9}"
        f"{peak}  {', '.join(notes)}"
    )


def race(row, args, folder):
    """All contestants on one problem: prints their lines, answers their best seconds."""
    spec = row.problem()
    group, cluster = problems.group_of(spec), problems.cluster_of(spec)
    load = f"load {os.getloadavg()[0]:.1f}"
    size = f"{len(group)} members, {cluster.index.partitions} partitions"
    print(f"\n{row.name} | {row.strategy} | {size} | {load}")
    best, java_owner = {}, None
    for who in args.who:
        strategy = asked(who, row)
        if strategy is None:
            continue
        problem = {**spec, "strategy": strategy}
        if who == "ours" and args.brief:
            said = contestants.ask_server({**problem, "brief": True}, folder, limits(who, args))
        else:
            said = contestants.ask(who, problem, folder, limits(who, args), args.patience)
        if said.line is None:
            print(f"  {who:13}{said.why}")
            continue
        same = None
        if who == "Java":
            java_owner = said.owner
        elif who == "ours" and java_owner is not None:
            same = float((java_owner == said.owner).mean())
        print(line_of(who, said, judged(said, group, cluster, strategy), same), flush=True)
        counts = row.counts if who == "ours" else "nanos"
        best[who] = min(said.line[counts]) / 1e9
        for key in ("cpu", "built", "built_cpu"):
            if said.line.get(f"{key}_nanos"):
                best[f"{who} {key}"] = min(said.line[f"{key}_nanos"]) / 1e9
    return best


def cold_rows(found):
    """12 partitions, 3 members, a process that has planned nothing."""
    print("\n12 partitions x 3 members, cold process, after import partage")
    for strategy in ("sticky", "cooperative-sticky", "range", "server:uniform", "optimal"):
        runs = [contestants.cold(strategy) for _ in range(5)]
        times = [one["nanos"][0] for one in runs]
        loaded = any(one["numba"] for one in runs)
        best, median = ms(times)
        print(
            f"  {strategy:20}{best:9.2f}{median:9.2f}  numba {'LOADED' if loaded else 'not loaded'}"
        )
        found.append(("12 x 3 cold", strategy, {"ours": best / 1e3}, None if loaded else COLD_GOAL))


def summary(found):
    """Problem by problem beside the goals, then the ratios over Kafka's grid."""
    columns = ("Java", "franz-go", "ours")
    heads = "".join(f"{one:>10}" for one in columns)
    print(f"\n{'problem, milliseconds':44}{'strategy':20}{heads}{'goal':>9}  reached")
    for name, strategy, best, goal in found:
        cells = "".join(f"{best[w] * 1e3:10.3f}" if w in best else f"{'-':>10}" for w in columns)
        aim = "-" if goal is None else f"{goal * 1e3:.2f}"
        print(f"{name:44}{strategy:20}{cells}{aim:>9}  {reached(best.get('ours'), goal)}")
    cells = [
        (f"{name} | {strategy}", best)
        for name, strategy, best, _ in found
        if name.startswith("JMH") and {"Java", "ours"} <= set(best)
    ]
    for java, mine, what in (
        ("Java", "ours", "from names"),
        ("Java cpu", "ours cpu", "from names, CPU time"),
        ("Java", "ours built", "from a Group"),
        ("Java cpu", "ours built_cpu", "from a Group, CPU time"),
    ):
        long = {name for name, best in cells if best["Java"] > 1e-3}
        ratios(what, [(name, best[java] / best[mine]) for name, best in cells], long)


def reached(seconds, goal):
    """In words."""
    if seconds is None or goal is None:
        return "-"
    return "yes" if seconds <= goal else f"no, {seconds / goal:.1f} times the goal"


def ratios(way, cells, long):
    """Print the geometric mean of Java's time by ours over the cells of Kafka's grid, and the cells
    in which Java is faster.

    Args:
        way: what is timed.
        cells: name and ratio of each cell.
        long: names of the cells in which Java takes more than a millisecond.
    """
    above = [x for x in cells if x[0] in long]
    for what, some in (
        ("in all", cells),
        ("above 1 ms", above),
        ("heterogeneous incremental", [x for x in above if "heterogeneous incremental" in x[0]]),
    ):
        if some:
            mean = float(np.exp(np.mean(np.log([ratio for _, ratio in some]))))
            slower = sorted((ratio, name) for name, ratio in some if ratio < 1)
            print(
                f"Kafka's grid, {len(some)} cells {what}, {way}: Java / ours: geometric mean "
                f"{mean:.1f}, least {min(some, key=lambda x: x[1])[1]:.2f}; "
                f"Java is faster in {len(slower)}"
            )
            for ratio, name in slower if what == "above 1 ms" else ():
                print(f"    {ratio:.2f}  {name}")


def rows_of(args):
    """The problems that were asked for."""
    rows = [row for row in problems.main_rows() if args.full or row.always]
    rows += [problems.jmh_row(one, always=True) for one in problems.NAMED_CELLS]
    rows += problems.jmh_rows(racks=False) if args.grid else []
    rows += problems.jmh_rows(racks=True) if args.racks else []
    if args.brief:
        rows = [row for row in rows if row.counts != "separate_nanos"]
    return [row for row in rows if args.fits(f"{row.name} / {row.strategy}")]


def main():
    """Print the lines of each problem, then all problems beside their goals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="all problems")
    parser.add_argument("--grid", action="store_true", help="the whole JMH grid too")
    parser.add_argument("--racks", action="store_true", help="its client half with racks")
    parser.add_argument(
        "--brief",
        action="store_true",
        help="ours in one process for all problems, without the times of separate lists and dicts",
    )
    parser.add_argument("--only", default="", help="a regular expression on 'name / strategy'")
    parser.add_argument("--who", default=",".join(WHO), help="who takes part")
    parser.add_argument("--seconds", type=float, default=1.0, help="of running, past ten runs")
    parser.add_argument("--at-most", type=float, default=40.0, help="seconds of running at all")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds till one is ended")
    args = parser.parse_args()
    args.who = args.who.split(",")
    args.fits = re.compile(args.only).search
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Kafka 4.3.1, franz-go 1.22.2, "
        "kafka-python 3.0.12, aiokafka 0.14.0"
    )
    print(
        f"  {'':13}{'best ms':>11}{'median':>11}{'runs':>5}{'spread':>7}{'moves':>9}{'peak MB':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        found = [
            (row.name, row.strategy, race(row, args, Path(folder)), row.goal)
            for row in rows_of(args)
        ]
    if args.fits("12 x 3 cold"):
        cold_rows(found)
    summary(found)


if __name__ == "__main__":
    main()
