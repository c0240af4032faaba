"""12 partitions, 3 members, in a process that has planned nothing yet: no warm-up, no numba."""

from __future__ import annotations

import json
import sys
import time

import partage as pg


def main():
    """One plan by the strategy that is named, timed from names."""
    names, start = ["orders"], time.perf_counter_ns()
    group = pg.Group([pg.Member(f"c{i}", names) for i in range(3)])
    plan = pg.assign(sys.argv[1], group, pg.Cluster.from_topics({"orders": 12}))
    given = int((plan.owner >= 0).sum())
    nanos = time.perf_counter_ns() - start
    print(json.dumps({"nanos": [nanos], "given": given, "numba": "numba" in sys.modules}))


if __name__ == "__main__":
    main()
