"""Policy `own` against the record, on the recordings that are checked in, or on the folders given.

    python benchmarks/bench_own.py [FOLDER ...] [--groups]

Prints how the simulated present settings differ from the log: rebalances, follow-ups, moves, plans
and stopped time. The differences are the simulator's error (docs/policy_model.md).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.own_accuracy import GroupComparison, compare_own, total
from tests.support.recordings import Recording, names, recording


def main() -> None:
    """Print the figures of each recording: those of the record, then those of `own`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--groups", action="store_true", help="list the groups that differ")
    given, _ = parser.parse_known_args()
    found = {str(folder): Recording(folder) for folder in given.folders}
    for name, one in (found or {name: recording(name) for name in names(overloaded=True)}).items():
        start = time.perf_counter()
        groups = compare_own(one)
        seconds = time.perf_counter() - start
        whole = total(groups)
        apart = sum(abs(group.own.best - group.recorded.best) for group in groups)
        print(f"\n{name} ({seconds:.1f} s): {_line(whole)}")
        print(
            f"  stopped time of single groups: {apart / whole.recorded.best:.1%} apart on average"
        )
        for group in groups if given.groups else ():
            if group.differences or group.recorded != group.own:
                print(f"  {group.name}: {_line(group)}")
                print(f"    assignments that differ: {group.differences[:12]}")


def _line(found: GroupComparison) -> str:
    kinds = sorted({kind for kind, _ in found.plans})
    plans = ", ".join(
        f"{kind} {found.plans[kind, True]} of {found.plans[kind, True] + found.plans[kind, False]}"
        for kind in kinds
    )
    counts = "; ".join(
        f"{what} {getattr(found.recorded, what):,} / {getattr(found.own, what):,}"
        for what in ("rebalances", "follow_ups", "moved")
    )
    stopped = " / ".join(
        f"{s.best:,.0f} ({s.low:,.0f} to {s.high:,.0f})" for s in (found.recorded, found.own)
    )
    error = found.own.best / found.recorded.best - 1 if found.recorded.best else 0.0
    return f"assignments {plans}; {counts}; stopped {stopped}, {error:+.1%}"


if __name__ == "__main__":
    main()
