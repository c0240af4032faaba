"""12 partitions, 3 members, in a process that has planned nothing yet: no warm-up, no numba."""

from __future__ import annotations

import json
import sys
import time

import partage as pg
from partage.groups.registry import find
from partage.model import Problem


def main():
    """One plan by the strategy that is named, timed from names; its imports apart."""
    start = time.perf_counter_ns()
    strategy = find(sys.argv[1])
    loaded, before = time.perf_counter_ns(), time.process_time_ns()
    names = ["orders"]
    group = pg.Group([pg.Member(f"c{i}", names) for i in range(3)])
    plan = strategy.assign(Problem(group, pg.Cluster.from_topics({"orders": 12})))
    given = int((plan.owner >= 0).sum())
    nanos = time.perf_counter_ns() - loaded
    cpu = time.process_time_ns() - before
    said = {"nanos": [nanos], "cpu_nanos": [cpu], "import_nanos": loaded - start, "given": given}
    print(json.dumps({**said, "numba": "numba" in sys.modules}))


if __name__ == "__main__":
    main()
