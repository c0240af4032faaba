"""Accuracy of the estimated downtime on the recordings with a clients' log.

    python benchmarks/bench_estimates.py

Compares the estimates with what the clients of each recording logged, in this process, without
Spark. docs/estimates.md explains the figures.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.estimate_accuracy import compare, measure
from tests.support.recordings import names, recording


def main() -> None:
    """Print one line for each recording."""
    for name in names(overloaded=True):
        start = time.perf_counter()
        compared = compare(recording(name))
        seconds = time.perf_counter() - start
        print(f"{name} ({seconds:.1f} s): {measure(compared)}")


if __name__ == "__main__":
    main()
