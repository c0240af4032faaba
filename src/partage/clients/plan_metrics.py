"""Metrics of a live assignor, in the metrics library that the application already uses.

`prometheus_client` and OpenTelemetry are used if the application has imported them. Partage imports
neither. Without them nothing is measured.
"""

from __future__ import annotations

import functools
import logging
import sys
from dataclasses import dataclass
from typing import Any, Protocol

from partage.judge import Measures, measure
from partage.kernels import never_compiling
from partage.model import NO_GENERATION, Group, Member, Plan, Problem

__all__ = ["record_failure", "record_plan"]

log = logging.getLogger("partage.clients")

_LABELS = ("group", "strategy")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_PLAN_SECONDS = "time that the group leader took from the subscriptions to the assignments"
_MOVED = "partitions assigned to another member than the one that claimed them"
_SPREAD = "largest minus smallest number of partitions of a member"
_RACK_MISMATCHES = "partitions without a replica on the rack of their owner"
_FAILURES = "rebalances that failed because the strategy raised an error"


class _Metrics(Protocol):
    """Interface to a metrics library, such as Prometheus, for partition assignors.

    It has one method for a computed assignment and one for a failed one.
    """

    def record_plan(self, labels: dict[str, str], seconds: float, measures: Measures) -> None:
        """Record in metrics how long a partition assignment took to compute and how good it is.

        Subclasses write the metrics to Prometheus or OpenTelemetry.

        Args:
            labels: labels of the metrics, such as the group.
            seconds: time that computing the assignment took.
            measures: the assignment's quality.
        """

    def record_failure(self, labels: dict[str, str]) -> None:
        """Count one failed partition assignment in the metrics.

        Subclasses write the metrics to Prometheus or OpenTelemetry.

        Args:
            labels: labels of the metric: the group and the strategy.
        """


@dataclass(frozen=True)
class _Instruments:
    """The five metrics of a partition assignor, as objects of a metrics library such as Prometheus.

    They are computing time, moved partitions, spread of loads, rack mismatches and failures.
    """

    seconds: Any
    moved: Any
    spread: Any
    rack_mismatches: Any
    failures: Any


class _PrometheusMetrics(_Instruments):
    """Metrics of partition assignors in Prometheus (library prometheus_client, default registry).

    An assignor updates them after each partition assignment.
    """

    def record_plan(self, labels: dict[str, str], seconds: float, measures: Measures) -> None:
        self.seconds.labels(**labels).observe(seconds)
        self.moved.labels(**labels).inc(measures.moved)
        self.spread.labels(**labels).set(measures.spread or 0)
        self.rack_mismatches.labels(**labels).set(measures.rack_mismatches or 0)

    def record_failure(self, labels: dict[str, str]) -> None:
        self.failures.labels(**labels).inc()


class _OpenTelemetryMetrics(_Instruments):
    """Metrics of partition assignors in OpenTelemetry, under the meter ``partage``.

    An assignor updates them after each partition assignment.
    """

    def record_plan(self, labels: dict[str, str], seconds: float, measures: Measures) -> None:
        self.seconds.record(seconds, labels)
        self.moved.add(measures.moved, labels)
        self.spread.set(measures.spread or 0, labels)
        self.rack_mismatches.set(measures.rack_mismatches or 0, labels)

    def record_failure(self, labels: dict[str, str]) -> None:
        self.failures.add(1, labels)


def record_plan(plan: Plan, problem: Problem, *, group: str, strategy: str, seconds: float) -> None:
    """Record in metrics how long a partition assignment took to compute and how good it is.

    The metrics go to each metrics library that the application has imported. An error in a library
    is logged and does not fail the rebalance.

    Args:
        plan: the assignment. Partitions that must be revoked first count for their next owner.
        problem: the group with the members' owned partitions, and the cluster.
        group: the group id, as a label.
        strategy: name of the strategy, as a label.
        seconds: the time that planning took.
    """
    try:
        libraries = _libraries()
        if not libraries:
            return
        with never_compiling():
            measures = measure(
                plan.settled(), _group_with_owned_partitions(problem), problem.cluster
            )
        for one in libraries:
            one.record_plan({"group": group, "strategy": strategy}, seconds, measures)
    except Exception as e:  # noqa: BLE001 - foreign code, inside a rebalance
        log.warning("group %s: the metrics were not recorded (%s: %s)", group, type(e).__name__, e)


def record_failure(*, group: str, strategy: str) -> None:
    """Count a failed partition assignment in the metrics of the application.

    It goes to each metrics library that the application has imported. ``group`` and ``strategy``
    are labels of the metric.
    """
    try:
        for one in _libraries():
            one.record_failure({"group": group, "strategy": strategy})
    except Exception as e:  # noqa: BLE001 - foreign code, inside a rebalance
        log.warning("group %s: the failure was not counted (%s: %s)", group, type(e).__name__, e)


def _group_with_owned_partitions(problem: Problem) -> Group:
    """Return a consumer group with the partitions that each member owned before the rebalance.

    Members that run the strategy ``sticky`` send them only in their user data, from where they are
    copied.

    Args:
        problem: the assignment problem with the group.
    """
    # Members that run `sticky` send them only in their user data.
    if problem.sent_claims is None:
        return problem.group
    return Group(
        Member(
            one.id,
            one.topics,
            rack=one.rack,
            owned=claims,
            generation=NO_GENERATION if generation is None else generation,
        )
        for one, (claims, generation) in zip(problem.group, problem.sent_claims, strict=True)
    )


def _libraries() -> list[_Metrics]:
    prometheus = sys.modules.get("prometheus_client")
    telemetry = sys.modules.get("opentelemetry.metrics")
    found: list[_Metrics] = []
    if prometheus is not None:
        found.append(_register_prometheus_metrics(prometheus))
    if telemetry is not None:
        found.append(_create_opentelemetry_metrics(telemetry))
    return found


@functools.cache
def _register_prometheus_metrics(library: Any) -> _PrometheusMetrics:
    """Register the metrics of partition assignors with the library prometheus_client.

    It happens once per process, because a second registration would be an error.
    """
    name = "partage_assignor_{}".format
    return _PrometheusMetrics(
        library.Histogram(name("plan_seconds"), _PLAN_SECONDS, _LABELS, buckets=_SECONDS),
        library.Counter(name("moved_partitions"), _MOVED, _LABELS),
        library.Gauge(name("spread_partitions"), _SPREAD, _LABELS),
        library.Gauge(name("rack_mismatches"), _RACK_MISMATCHES, _LABELS),
        library.Counter(name("failures"), _FAILURES, _LABELS),
    )


@functools.cache
def _create_opentelemetry_metrics(library: Any) -> _OpenTelemetryMetrics:
    """Create the metrics of partition assignors with the library OpenTelemetry.

    It happens once per process.
    """
    meter = library.get_meter("partage")
    name = "partage.assignor.{}".format
    return _OpenTelemetryMetrics(
        meter.create_histogram(name("plan.duration"), unit="s", description=_PLAN_SECONDS),
        meter.create_counter(name("moved_partitions"), description=_MOVED),
        meter.create_gauge(name("spread_partitions"), description=_SPREAD),
        meter.create_gauge(name("rack_mismatches"), description=_RACK_MISMATCHES),
        meter.create_counter(name("failures"), description=_FAILURES),
    )
