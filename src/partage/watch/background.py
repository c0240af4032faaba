"""Slow metrics, computed in a thread: lag, which needs broker requests, and balance of assignments.

Both run in one thread, away from the capture and from the events. The lag has a connection of its
own. Only the newest assignment of each group is queued, so a rebalance storm costs at most one
measurement per group and pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, NamedTuple

from partage.api.measures import measure
from partage.capture.connection import ClusterConnection, error_reason
from partage.capture.groups import end_offsets
from partage.errors import ClusterUnreachableError
from partage.history.events import Generation
from partage.history.live_groups import LiveGroups, RebalanceOpened, WatchEvent
from partage.history.problems import recorded_assignment, recorded_group, unsupported_reason
from partage.judge import Measures
from partage.model import Cluster
from partage.watch.lag import EndOffsets, GroupLag, drain_seconds, group_lag
from partage.watch.prometheus_metrics import WatchMetrics
from partage.watch.watcher import CaptureProgress

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BackgroundMetrics", "measure_balance"]

#: Seconds between two reads of end offsets.
LAG_SECONDS = 15.0
#: Looks back at which the rates of a group are measured: one minute.
_LOOKS = 4
_Pair = tuple[str, int]


class _PendingAssignment(NamedTuple):
    """New assignment of a consumer group that waits in a queue until its balance is measured.

    Attributes:
        generation: the group generation with its members and their partitions.
        cluster: the cluster metadata at that time.
        fresh: whether it was recorded after the capture started to follow the log.
    """

    generation: Generation
    cluster: Cluster
    fresh: bool


def measure_balance(generation: Generation, cluster: Cluster) -> Measures | None:
    """Measure how many partitions each member has, and how many moved, in a group's new assignment.

    Partitions that changed owner since the previous assignment count as moved. Return None for a
    Kafka Streams group, and if the assignment cannot be measured.

    Args:
        generation: the group generation whose assignment is measured.
        cluster: the cluster metadata at that time (topics and partitions).

    Raises:
        PartageError: a member's recorded data is invalid.
    """
    if generation.protocol == "streams" or unsupported_reason(generation.first) is not None:
        return None
    before = generation.previous
    previous = None if before is None else recorded_assignment(before.last, cluster)
    plan = recorded_assignment(generation.first, cluster)
    group = recorded_group(generation.first)
    made = measure(plan, group, cluster, previous=previous)
    away = measure(plan, group, cluster, previous=plan).fewest_moves_to_best
    return replace(made, fewest_moves_to_best=away)


class BackgroundMetrics:
    """Thread that measures consumer lag and the balance of assignments while a capture runs.

    These metrics are slow to compute, so they have a thread of their own. It runs while the
    ``with`` block of this object lasts.

    Args:
        connect: function that opens a connection to the cluster; called again after an error.
        metrics: the Prometheus metrics that receive the results.
        trouble: function that shows a warning to the user.
    """

    def __init__(
        self,
        connect: Callable[[], ClusterConnection],
        metrics: WatchMetrics,
        trouble: Callable[[str], None],
    ) -> None:
        self._connect, self._metrics, self._trouble = connect, metrics, trouble
        self._plans: dict[str, _PendingAssignment] = {}
        self._lock = Lock()
        self._end = Event()
        self._committed: dict[str, dict[_Pair, int]] = {}
        self._passed_ms = 0
        self._ends = EndOffsets()
        self._lags: dict[str, list[tuple[float, GroupLag]]] = {}
        self._failing = False
        self._thread = Thread(target=self._run, name="partage-background", daemon=True)

    def on_event(self, event: WatchEvent, live: LiveGroups) -> None:
        """Queue a consumer group's new assignment, so that this thread measures its balance.

        It is called with each rebalance event; events without a new assignment are ignored. A new
        assignment replaces a queued one of the same group.

        Args:
            event: the rebalance event.
            live: the histories of all groups, with the cluster metadata over time.
        """
        if isinstance(event, RebalanceOpened):
            cluster = live.clusters.cluster_at(event.generation.timestamp_ms)
            with self._lock:
                self._plans[event.group] = _PendingAssignment(
                    event.generation, cluster, event.fresh
                )

    def on_tick(self, now_ms: int, live: LiveGroups, progress: CaptureProgress) -> None:
        """Copy the groups' committed offsets, from which this thread computes the consumer lag.

        The watcher calls it several times per second. The offsets are copied at most twice per
        `LAG_SECONDS`.

        Args:
            now_ms: current time in milliseconds.
            live: the histories of all groups, with their committed offsets.
            progress: not used.
        """
        del progress
        if 0 <= now_ms - self._passed_ms < LAG_SECONDS * 500:
            return
        self._passed_ms = now_ms
        self._committed = {
            name: {pair: offset for pair, (offset, _) in group.history.committed_offsets().items()}
            for name, group in live.groups.items()
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(5.0)

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        connection: ClusterConnection | None = None
        next_read = time.monotonic() + 1.0
        while not self._end.wait(0.2):
            self._measure_pending()
            if time.monotonic() < next_read:
                continue
            next_read = time.monotonic() + LAG_SECONDS
            try:
                connection = connection or self._connect()
                self._read_lag(connection, self._committed)
                self._failing = False
            except Exception as e:  # noqa: BLE001 - the events go on without lag
                self._report(error_reason(e))
                _close(connection)
                connection = None
        _close(connection)

    def _report(self, why: str) -> None:
        # Only the first of several consecutive failures.
        if not self._failing:
            self._trouble(f"the lag cannot be read: {why}; trying again")
        self._failing = True
        self._metrics.lags = {}

    def _measure_pending(self) -> None:
        """Measure the balance of all queued assignments, and export the results as Prometheus
        metrics.

        If an assignment cannot be measured, the user gets a warning, and the other groups are
        measured nevertheless.
        """
        with self._lock:
            plans, self._plans = self._plans, {}
        for name, plan in plans.items():
            if self._end.is_set():
                return
            try:
                found = measure_balance(plan.generation, plan.cluster)
            except Exception as e:  # noqa: BLE001 - the other groups are judged
                self._trouble(f"group {name}: its plan cannot be judged ({error_reason(e)})")
                continue
            if found is not None:
                self._metrics.measured.append((name, plan.generation, found, plan.fresh))

    def _read_lag(
        self, connection: ClusterConnection, committed: Mapping[str, Mapping[_Pair, int]]
    ) -> None:
        pairs = {pair for offsets in committed.values() for pair in offsets}
        ends = end_offsets(connection, connection.fetch_metadata(), pairs)
        if pairs and not ends:
            raise ClusterUnreachableError(
                "the brokers", "no end offset was returned", "the account needs DESCRIBE on topics"
            )
        now_s = time.time()
        self._ends.store_end_offsets(now_s, ends)
        lags: dict[str, dict[str, float]] = {}
        for name, offsets in committed.items():
            lag = group_lag(offsets, self._ends, now_s)
            if lag is None:
                self._lags.pop(name, None)
                continue
            lags[name] = {"partage_group_lag_records": float(lag.records)}
            if lag.seconds is not None:
                lags[name]["partage_group_lag_seconds"] = lag.seconds
            looks = self._lags.setdefault(name, [])
            looks.append((now_s, lag))
            del looks[:-_LOOKS]
            drain = drain_seconds(looks[0][1], lag, now_s - looks[0][0])
            if drain is not None:
                lags[name]["partage_group_drain_seconds"] = drain
        for gone in self._lags.keys() - committed.keys():
            del self._lags[gone]
        self._metrics.lags = lags
        self._metrics.lag_read_s = now_s


def _close(connection: ClusterConnection | None) -> None:
    # The connection may be broken already.
    if connection is not None:
        with suppress(Exception):
            connection.admin.close()
