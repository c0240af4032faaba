"""Accuracy of the estimated downtime on the recordings with a clients' log.

    python benchmarks/bench_estimates.py [FOLDER ...] [--groups]

Compares the estimates with what the clients of each recording logged, in this process, without
Spark. Recordings are those that are checked in, or the folders given. Each has one line for each
way to read "times in which the group has no member". docs/estimates.md explains the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.estimate_accuracy import READINGS, Compared, compare, measure
from tests.support.recordings import Recording, names, recording


def main() -> None:
    """Print the figures of each recording."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--groups", action="store_true", help="list the groups, the worst first")
    given, _ = parser.parse_known_args()
    found = {str(folder): Recording(folder) for folder in given.folders}
    for name, one in (found or {name: recording(name) for name in names(overloaded=True)}).items():
        start = time.perf_counter()
        compared = {reading: compare(one, reading) for reading in READINGS}
        print(f"\n{name} ({time.perf_counter() - start:.1f} s)")
        for reading, rebalances in compared.items():
            print(f"  {reading}: {measure(rebalances)}")
        for line in _groups(compared[READINGS[0]]) if given.groups else ():
            print(f"  {line}")


def _groups(compared: list[Compared]) -> list[str]:
    """Return a line for each group: true loss, estimate, their ratio, rebalances inside."""
    found: dict[str, list[Compared]] = defaultdict(list)
    for one in compared:
        found[one.group].append(one)
    rows = []
    for name, of in found.items():
        true, best = sum(c.true for c in of), sum(c.estimate.best for c in of)
        ratio = f"{best / true:.2f}" if true else "-"
        inside = f"{sum(c.is_inside for c in of)} of {len(of)}"
        rows.append((true, f"{name:20} {true:9,.1f} {best:9,.1f} {ratio:>6} {inside:>12}"))
    return [line for _, line in sorted(rows, reverse=True)]


if __name__ == "__main__":
    main()
