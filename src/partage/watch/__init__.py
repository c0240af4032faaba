"""Rebalances of a running cluster, reported while a capture follows it.

`watcher` feeds what a live capture reads to the histories of `partage.history.live_groups`, in a
thread of its own, and writes events. `prometheus_metrics` keeps the metrics, `lag` computes lag in
seconds and time to drain, `background` asks brokers and the judge, `exporter` serves all by HTTP.
"""

from __future__ import annotations
