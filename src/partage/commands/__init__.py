"""One function for each command of the command line, for programs and notebooks.

* `runs`: `diff`, `check_run` and `owner` read finished replays;
* `logs`: `decode`, `audit` and `count_keys` read records;
* `clusters`: `check_access`, `capture_cluster` and `watch_groups` read a running cluster;
* `live_groups`: `live_groups` measures the groups of a running cluster;
* `reassignments`: `reassign` plans replica moves;
* `applications`: `simulate_streams` and `decide_streams` simulate a Kafka Streams application.

docs/python.md lists each command with its function. Errors name the wrong argument.
"""

from __future__ import annotations

__all__: list[str] = []
