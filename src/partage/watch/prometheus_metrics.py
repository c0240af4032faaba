"""Values of the metrics of a live capture, which `exporter` serves.

`METRICS` declares each metric once, with Prometheus' conventions for names and units. A group is
exported by its name if it is among the groups with the largest loss; all other groups are one
group called ``other``. Counters grow under the name that their group has at that moment, so none
of them ever decreases.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from partage.history.events import Generation
from partage.history.live_groups import (
    LiveGroups,
    RebalanceOpened,
    RebalanceSettled,
    WatchEvent,
)
from partage.judge import Measures
from partage.tables.statuses import CAUSE_KINDS
from partage.watch.watcher import CaptureProgress

__all__ = ["METRICS", "OTHER", "ExportedFamily", "ExportedMetric", "WatchMetrics"]

#: Label of all groups that are not exported by name.
OTHER = "other"


class ExportedMetric(NamedTuple):
    """Declaration of a Prometheus metric: its name, type, help text and label names.

    `partage capture` serves these metrics by HTTP. The samples of a counter get the suffix
    ``_total``, as Prometheus requires.
    """

    name: str
    type: str
    help: str
    labels: tuple[str, ...] = ()


_GROUP = ("group",)
METRICS: dict[str, ExportedMetric] = {
    one.name: one
    for one in (
        ExportedMetric("partage_group_rebalances", "counter", "Rebalances, by main cause.",
               ("group", "cause")),
        ExportedMetric("partage_group_unread_partition_seconds", "counter",
               "Estimated time for which rebalances left partitions without consumer, summed.",
               _GROUP),
        ExportedMetric("partage_group_moved_partitions", "counter",
               "Partitions that rebalances gave to another member.", _GROUP),
        ExportedMetric("partage_group_avoidable_moves", "counter",
               "Moves beyond the fewest of any plan that is at least as even.", _GROUP),
        ExportedMetric("partage_group_members", "gauge", "Members.", _GROUP),
        ExportedMetric("partage_group_generation", "gauge", "Newest generation or epoch.", _GROUP),
        ExportedMetric("partage_group_last_rebalance_timestamp_seconds", "gauge",
               "Time of the newest rebalance.", _GROUP),
        ExportedMetric("partage_group_in_storm", "gauge",
               "1 while rebalances follow each other faster than the group settles.", _GROUP),
        ExportedMetric("partage_group_spread", "gauge",
               "Largest minus smallest number of partitions of a member.", _GROUP),
        ExportedMetric("partage_group_best_spread", "gauge", "Spread of the most even plan.",
               _GROUP),
        ExportedMetric("partage_group_moves_to_best_plan", "gauge",
               "Fewest moves from the present plan to the most even one.", _GROUP),
        ExportedMetric("partage_group_lag_records", "gauge", "Records that are not consumed.",
               _GROUP),
        ExportedMetric("partage_group_lag_seconds", "gauge",
               "Age of the oldest record that is not consumed.", _GROUP),
        ExportedMetric("partage_group_drain_seconds", "gauge",
               "Time until the group has caught up at its present rates; +Inf if it does not.",
               _GROUP),
        ExportedMetric("partage_groups", "gauge", "Groups with a rebalance in the log."),
        ExportedMetric("partage_failed_groups", "gauge", "Groups without events after an error."),
        ExportedMetric("partage_capture_records", "counter",
               "Records of the group log in the capture."),
        ExportedMetric("partage_capture_behind_offsets", "gauge", "Offsets that are not read yet."),
        ExportedMetric("partage_capture_position_offsets", "gauge",
               "Sum of the next offsets to read."),
        ExportedMetric("partage_capture_read_timestamp_seconds", "gauge",
               "Time of the newest successful read."),
        ExportedMetric("partage_capture_missing_offsets", "counter",
               "Offsets that were compacted before they were read."),
        ExportedMetric("partage_capture_troubles", "counter", "Warnings of the capture."),
        ExportedMetric("partage_capture_damaged_records", "counter",
               "Records that cannot be decoded."),
        ExportedMetric("partage_lag_read_timestamp_seconds", "gauge",
               "Time of the newest successful read of end offsets."),
    )
}  # fmt: skip

#: Gauges of groups, and what the other groups' values become.
_MERGED: dict[str, Callable[[Iterable[float]], float]] = {
    "partage_group_members": sum,
    "partage_group_in_storm": max,
    "partage_group_last_rebalance_timestamp_seconds": max,
    "partage_group_moves_to_best_plan": sum,
    "partage_group_lag_records": sum,
    "partage_group_lag_seconds": max,
    "partage_group_drain_seconds": max,
}

#: Gauges of a plan, in the order in which the judge names them.
_BALANCE_GAUGES = (
    "partage_group_spread", "partage_group_best_spread", "partage_group_moves_to_best_plan",
)  # fmt: skip
_LAGS = ("partage_group_lag_records", "partage_group_lag_seconds", "partage_group_drain_seconds")
_REFRESH_MS = 1_000

#: A metric with its samples: label values and value.
ExportedFamily = tuple[ExportedMetric, tuple[tuple[tuple[str, ...], float], ...]]


@dataclass(slots=True)
class _GroupMetrics:
    """Prometheus metrics of one consumer group, such as its lag and its number of rebalances.

    Attributes:
        gauges: dict from the name of a gauge to its value.
        unread: seconds in which rebalances left partitions without a consumer, summed over
            partitions. Only the groups with the largest sums are exported by name.
        rebalances: number of rebalances since the start.
    """

    gauges: dict[str, float] = field(default_factory=dict)
    unread: float = 0.0
    rebalances: int = 0

    def loss(self) -> tuple[float, int, float]:
        # Unread time, rebalances and lag.
        return self.unread, self.rebalances, self.gauges.get("partage_group_lag_records", 0.0)


class WatchMetrics:
    """Prometheus metrics of `partage capture --follow`: rebalances, lag and balance of each group.

    Only the groups whose partitions were longest without a consumer are exported by name. All
    others are added up under the label ``other``.

    Args:
        max_groups: maximum number of groups that are exported by name.

    Attributes:
        lags: dict from group to its lag metrics.
        lag_read_s: time of the last successful read of the lag, in seconds; 0 before the first one.
        measured: queue of measured assignments: (group, generation, balance measures, whether it
            was recorded after the start).
    """

    def __init__(self, max_groups: int) -> None:
        self.lags: Mapping[str, Mapping[str, float]] = {}
        self.lag_read_s = 0.0
        self.measured: deque[tuple[str, Generation, Measures, bool]] = deque()
        self._max_groups = max_groups
        self._groups: dict[str, _GroupMetrics] = {}
        self._named: set[str] = set()
        self._counters: dict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
        self._families: tuple[ExportedFamily, ...] = ()
        self._refreshed_ms = 0

    def metric_families(self) -> tuple[ExportedFamily, ...]:
        """Return all Prometheus metrics with their samples.

        The values are those of the last `on_tick`. Any thread may call this method; the HTTP server
        does.
        """
        return self._families

    # --- the watcher's thread -------------------------------------------------------------

    def on_event(self, event: WatchEvent, live: LiveGroups) -> None:
        """Update a consumer group's Prometheus metrics with one rebalance event.

        The start of a rebalance is counted. Later, the time in which its partitions had no consumer
        is added. ``live`` is not used.
        """
        del live
        if isinstance(event, RebalanceOpened):
            self._count_rebalance(event)
        elif isinstance(event, RebalanceSettled):
            if event.fresh and event.unread is not None:
                added = max(0.0, event.unread.best - event.reported)
                self._group_metrics(event.group).unread += added
                self._count("partage_group_unread_partition_seconds", event.group, added)
        elif event.event.event == "deleted":
            self._groups.pop(event.group, None)

    def _count_rebalance(self, event: RebalanceOpened) -> None:
        found, metrics = event.generation, self._group_metrics(event.group)
        metrics.gauges |= {
            "partage_group_members": len(found.first.members),
            "partage_group_generation": found.generation_number,
            "partage_group_last_rebalance_timestamp_seconds": found.timestamp_ms / 1_000,
        }
        for name in _BALANCE_GAUGES:  # metrics of the plan before
            metrics.gauges.pop(name, None)
        if event.fresh:
            metrics.rebalances += 1
            self._count("partage_group_rebalances", event.group, 1, found.causes[0].kind)
            self._count("partage_group_moved_partitions", event.group, len(event.moved))

    def on_tick(self, now_ms: int, live: LiveGroups, progress: CaptureProgress) -> None:
        """Recompute the exported Prometheus metrics, at most once per second.

        The watcher calls it several times per second.

        Args:
            now_ms: current time in milliseconds.
            live: the histories of all groups.
            progress: counts of what the capture has read so far.
        """
        if 0 <= now_ms - self._refreshed_ms < _REFRESH_MS:
            return
        self._refreshed_ms = now_ms
        while self.measured:
            name, found, measures, fresh = self.measured.popleft()
            self._apply_measures(live, name, found, measures, fresh=fresh)
        lags = self.lags
        for name, metrics in self._groups.items():
            for metric in _LAGS:  # metrics of a group or a connection that is gone
                metrics.gauges.pop(metric, None)
            metrics.gauges |= lags.get(name, {})
            group = live.groups.get(name)
            in_storm = group is not None and group.is_in_storm(now_ms)
            metrics.gauges["partage_group_in_storm"] = float(in_storm)
        self._rank()
        single = {
            "partage_groups": float(len(self._groups)),
            "partage_failed_groups": float(len(live.failed)),
            "partage_capture_damaged_records": float(live.decoder.damaged),
            "partage_lag_read_timestamp_seconds": self.lag_read_s,
            "partage_capture_records": float(progress.records),
            "partage_capture_behind_offsets": float(progress.behind),
            "partage_capture_position_offsets": float(progress.position),
            "partage_capture_read_timestamp_seconds": progress.read_s,
            "partage_capture_missing_offsets": float(progress.missing),
            "partage_capture_troubles": float(progress.troubles),
        }
        self._families = tuple(self._exported(single))

    def _apply_measures(
        self,
        live: LiveGroups,
        name: str,
        generation: Generation,
        measures: Measures,
        *,
        fresh: bool,
    ) -> None:
        # Not if there is a newer assignment.
        if fresh and measures.avoidable is not None:
            self._count("partage_group_avoidable_moves", name, measures.avoidable)
        group = live.groups.get(name)
        newest = None if group is None else group.opened
        if newest is None or newest.position != generation.position or name not in self._groups:
            return
        values = (measures.spread, measures.best_spread, measures.fewest_moves_to_best)
        self._group_metrics(name).gauges |= {
            metric: float(value)
            for metric, value in zip(_BALANCE_GAUGES, values, strict=True)
            if value is not None
        }

    def _group_metrics(self, name: str) -> _GroupMetrics:
        return self._groups.setdefault(name, _GroupMetrics())

    # --- names and counters ---------------------------------------------------------------

    def _count(self, metric: str, group: str, value: float, *labels: str) -> None:
        self._counters[metric, (self._label(group), *labels)] += value

    def _label(self, group: str) -> str:
        # Groups beyond the limit are exported as ``other``.
        if group == OTHER:
            return OTHER
        if group not in self._named:
            self._named.add(group)
            if len(self._named) > self._max_groups:
                self._drop(min(self._named, key=self._loss_of))
        return group if group in self._named else OTHER

    def _loss_of(self, group: str) -> tuple[float, int, float]:
        metrics = self._groups.get(group)
        return (-1.0, 0, 0.0) if metrics is None else metrics.loss()

    def _drop(self, group: str) -> None:
        # From now on the group counts as ``other``.
        self._named.discard(group)
        for key in [key for key in self._counters if key[1][0] == group]:
            del self._counters[key]

    def _rank(self) -> None:
        # Those with the largest loss; of equal ones, groups that are exported already stay.
        order = sorted(
            (name for name in self._groups if name != OTHER),
            key=lambda name: (self._loss_of(name), name in self._named, name),
            reverse=True,
        )
        wanted = set(order[: self._max_groups])
        for gone in self._named - wanted:
            self._drop(gone)
        self._named = wanted

    def _exported(self, single: Mapping[str, float]) -> Iterator[ExportedFamily]:
        labels = [*sorted(self._named), *([OTHER] if len(self._groups) > len(self._named) else [])]
        for metric in METRICS.values():
            if metric.labels == ("group", "cause"):
                keys = [(group, cause) for group in labels for cause in CAUSE_KINDS]
                yield metric, tuple((key, self._counters[metric.name, key]) for key in keys)
            elif metric.labels and metric.type == "counter":
                yield metric, tuple(((one,), self._counters[metric.name, (one,)]) for one in labels)
            elif metric.labels:
                yield metric, tuple(self._gauges(metric.name))
            elif metric.name in single:
                yield metric, (((), single[metric.name]),)

    def _gauges(self, metric: str) -> Iterator[tuple[tuple[str, ...], float]]:
        # One for each named group, then one for all others.
        others: list[float] = []
        for name, metrics in sorted(self._groups.items()):
            value = metrics.gauges.get(metric)
            if value is None:
                continue
            if name in self._named:
                yield (name,), value
            else:
                others.append(value)
        if others and metric in _MERGED:
            yield (OTHER,), _MERGED[metric](others)
