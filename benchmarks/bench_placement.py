"""Placement beside Kafka's own classes in the same run: best of thirty, milliseconds.

StripedReplicaPlacer of 4.3.1 and AdminUtils of 3.9.1, warmed up by their earlier runs, and
`pg.place` on the same brokers, which compiles nothing. Needs jvm/target (tools/jvm.sh).
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import partage as pg

TARGET = Path(__file__).resolve().parents[1] / "jvm" / "target"
RUNS = 30


def java(brokers: int, partitions: int) -> tuple[float, float]:
    """Milliseconds: striped, AdminUtils."""
    path = f"{TARGET / 'classes'}:{TARGET / 'lib' / '*'}"
    sizes = map(str, (brokers, partitions, 3))
    done = subprocess.run(
        ["java", "-Xmx1500m", "-cp", path, "io.partage.parity.Placements", TARGET / "old", *sizes],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    striped, admin, placed = map(int, done.stdout.split())
    assert placed == 2 * RUNS * partitions
    return striped / 1e6, admin / 1e6


def best_of(brokers: int, partitions: int, strategy: str) -> float:
    """Milliseconds."""
    listed = [pg.Broker(i, rack=f"r{i % 10}") for i in range(brokers)]
    best = float("inf")
    for run in range(RUNS):
        given = {"seed": run} if strategy == "striped" else {"start_index": 0}
        start = time.perf_counter()
        placed = pg.place(
            listed, partitions=partitions, replication_factor=3, strategy=strategy, **given
        )
        best = min(best, time.perf_counter() - start)
        assert placed.shape == (partitions, 3)
    return best * 1e3


def main() -> None:
    """Both sizes of issue 9."""
    print("| | Partage | Kafka's class |\n|---|---|---|")
    for brokers, partitions in ((40, 16_667), (300, 200_000)):
        striped, admin = java(brokers, partitions)
        for strategy, theirs in (("striped", striped), ("rack-aware", admin)):
            mine = best_of(brokers, partitions, strategy)
            print(f"| {partitions:,} x 3 on {brokers} brokers, {strategy} "
                  f"| {mine:.1f} ms | {theirs:.1f} ms |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
