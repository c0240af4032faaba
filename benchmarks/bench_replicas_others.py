"""Clusters of ours, of Kafka's own `--generate` and of two greedy ways: what moves, how even.

Kafka's tool (4.3.1) draws at random: 20 runs, of which the median and the best in bytes moved are
printed. The greedy ways are what people write: every replica anew to the broker with fewest bytes
among those that the rack rule allows; or only from the fullest broker to the emptiest until all
are within 10 %. Needs jvm/target and the broker's jars (tools/jvm.sh, tools/broker.sh 4.3.1).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from bench_replicas import made

from partage.api.reassignments import reassign
from partage.judge.replicas import judge_replicas
from partage.kernels import force_kernel_form
from partage.model import NewReplicas
from partage.replicas import tasks

JVM = Path(__file__).resolve().parents[1] / "jvm"
RUNS = 20


def generated(cluster, *, without=()):
    """What Kafka's tool proposes in each of its runs: positions of brokers; some are left out."""
    rows = cluster.replica.reshape(-1, 3).tolist()
    request = {
        "brokers": [{"id": b.id, "rack": b.rack} for b in cluster.brokers if b.id not in without],
        "topics": [rows[i : i + 10] for i in range(0, len(rows), 10)],
        "runs": RUNS,
    }
    jars = JVM / "broker" / "target" / "4.3.1" / "lib" / "*"
    done = subprocess.run(
        ["java", "-Xmx1g", "-XX:+UseSerialGC", "-cp", f"{JVM / 'target' / 'classes'}:{jars}",
         "io.partage.parity.Generated"],
        input=json.dumps(request) + "\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [np.array(run, np.int32) for run in json.loads(done.stdout)]


def anew(task):
    """Every replica, the largest partitions first, to the emptiest broker that may have it."""
    cluster, weight = task.cluster, task.weight[2]
    used = np.where(task.alive, 0, 2**62)
    out = np.empty((cluster.partitions, 3), np.int32)
    for p in np.argsort(-weight, kind="stable").tolist():
        hidden = used.copy()
        for i in range(3):
            b = int(hidden.argmin())
            out[p, i] = b
            used[b] += weight[p]
            # With three racks or more no rack has two.
            hidden[cluster.rack_of_broker == cluster.rack_of_broker[b]] = 2**62
    return out.ravel()


def stepping(task):
    """From the fullest broker its largest replica that fits to the emptiest broker, and again."""
    cluster, weight = task.cluster, task.weight[2]
    out = cluster.replica.reshape(-1, 3).copy()
    used = np.bincount(out.ravel(), weights=np.repeat(weight, 3), minlength=len(cluster.brokers))
    for b in np.flatnonzero(~task.alive).tolist():
        for p, i in zip(*np.nonzero(out == b), strict=True):
            _give(cluster, used, out, p, i, weight[p], task.alive)
    if not task.alive.all():
        return out.ravel()  # a drain moves nothing else
    share = used[task.alive].mean()
    for _ in range(cluster.partitions):
        b = int(np.where(task.alive, used, -1).argmax())
        if used[b] <= 1.1 * share and used[task.alive].min() >= 0.9 * share:
            break
        spare = used[b] - max(share, used[task.alive].min())
        p, i = np.nonzero(out == b)
        order = np.argsort(-weight[p], kind="stable")
        fits = order[weight[p[order]] <= spare]
        if not any(_give(cluster, used, out, p[j], i[j], weight[p[j]], task.alive) for j in fits):
            break
    return out.ravel()


def _give(cluster, used, out, p, i, size, alive):  # noqa: PLR0917 - a step of `stepping`
    """The replica to the emptiest broker that the rack rule allows, if that is emptier."""
    others = np.delete(out[p], i)
    open_to = alive & ~np.isin(cluster.rack, cluster.rack[others])
    open_to[others] = False
    b, old = int(np.where(open_to, used, np.inf).argmin()), out[p, i]
    if not open_to[b] or (alive[old] and used[b] + size > used[old]):
        return False
    used[b] += size
    used[old] -= size
    out[p, i] = b
    return True


def figures(task, replica):
    """Replicas and bytes moved, what is outside bands, and the fullest broker against the mean."""
    plan = NewReplicas(replica.astype(np.int32))
    figures = judge_replicas(task, plan).figures
    cluster = task.cluster
    old, new = cluster.replica.reshape(-1, 3), replica.reshape(-1, 3)
    moved = 3 * len(old) - int((old[:, :, None] == new[:, None, :]).sum())
    held = np.bincount(replica, weights=np.repeat(cluster.size, 3), minlength=len(cluster.brokers))
    written = np.bincount(replica, weights=np.repeat(cluster.load, 3), minlength=len(held))
    alive = task.alive
    return {
        "moved": moved, "bytes": figures["moved"], "racks": figures["racks"],
        "replicas": figures["replicas"], "leaders": figures["leaders"],
        "fullest": held[alive].max() / held[alive].mean() - 1,
        "busiest": written[alive].max() / written[alive].mean() - 1,
    }  # fmt: skip


def line(cluster, who, one):
    """A row of the table in the documentation."""
    print(
        f"| {cluster} | {who} | {one['moved']:,} | {one['bytes'] / 1e12:.3f} TB | {one['racks']:,} "
        f"| {one['replicas']:,} | {one['leaders']:,} | {one['fullest']:+.1%} "
        f"| {one['busiest']:+.1%} |",
        flush=True,
    )


def compared(name, task, *, without=()):
    """One cluster: as it is, ours, Kafka's, greedy."""
    line(name, "as it is", figures(task, task.cluster.replica))
    line(name, "`partage reassign`", figures(task, reassign(task, proof=False).plan.replica))
    runs = [figures(task, one) for one in generated(task.cluster, without=without)]
    runs.sort(key=lambda one: one["bytes"])
    median = {key: np.median([one[key] for one in runs]) for key in runs[0]}
    line(name, "`--generate`, median", {**median, **{k: int(median[k]) for k in list(median)[:5]}})
    line(name, "`--generate`, best", runs[0])
    line(name, "greedy, all anew", figures(task, anew(task)))
    line(name, "greedy, by steps", figures(task, stepping(task)))


def main() -> None:
    """All clusters; `small` looks whether it works."""
    print("| cluster | by | replicas moved | bytes moved | against racks | replicas off "
          "| leaders off | fullest | busiest |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    partitions = 300 if "small" in sys.argv else 16_667
    with force_kernel_form("compiled"):
        anywhere = made(40, partitions, 10, spread=False)
        compared("40, placed without racks", tasks.rebalance_task(anywhere))
        compared("40, over racks", tasks.rebalance_task(made(40, partitions, 10)))
        grown = made(42, partitions, 3, empty=3)
        compared("42, 3 empty", tasks.rebalance_task(grown))
        compared("42, add-broker 3", tasks.add_brokers(grown, [39, 40, 41]))
        compared("42, drain 3", tasks.drain_brokers(grown, [3]), without=(3,))


if __name__ == "__main__":
    main()
