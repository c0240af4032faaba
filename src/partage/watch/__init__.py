"""Rebalances of a running cluster, reported while a capture follows it.

watcher              feeds a live capture to `partage.history.live_groups`, in its own thread
prometheus_metrics   the values of all metrics
lag                  lag in seconds, time to drain
background           metrics that need brokers or the judge, in a thread
exporter             serves the metrics by HTTP
"""

from __future__ import annotations
