"""State of an assignor class for its consumer, shared by kafka-python and aiokafka.

The group leader's assignments and failures are recorded in the metrics library that the application
already uses: `prometheus_client` and OpenTelemetry, if the application has imported them. Partage
imports neither. Without them nothing is measured.
"""

from __future__ import annotations

import difflib
import functools
import logging
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple, Protocol

from partage.clients.load_sampling import MEASURES, LoadSampler
from partage.clients.shared import (
    ClusterView,
    Consumer,
    Joined,
    SyncGroupAssignments,
    configure_strategy,
)
from partage.clients.shared.joined import JoinedMember
from partage.clients.shared.loads import TOLERANCE, Loads
from partage.errors import AssignorFailedError, InvalidConfigError
from partage.groups.api import RebalanceProtocol, Strategy
from partage.groups.registry import is_strategy
from partage.judge import Measures, measure
from partage.kernels import never_compiling, start_warm_up
from partage.model import NO_GENERATION, Group, Member, Plan, Problem
from partage.weights import LARGEST_LOAD, is_load

__all__ = ["AssignorState", "LoadFunction", "create_state", "record_failure", "record_plan"]

log = logging.getLogger("partage.clients")

Partition = tuple[str, int]
#: A function of the leader that returns loads by (topic, partition) without waiting.
LoadFunction = Callable[[], Mapping[Partition, float]]

#: From so many partitions, compiled kernels save more of each plan than loading Numba in a thread
#: holds an event loop (its longest import keeps the interpreter lock for some 20 to 50 ms).
_LARGE_GROUP = 50_000

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0

_LABELS = ("group", "strategy")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

_PLAN_SECONDS = "time that the group leader took from the subscriptions to the assignments"
_MOVED = "partitions assigned to another member than the one that claimed them"
_SPREAD = "largest minus smallest number of partitions of a member"
_RACK_MISMATCHES = "partitions without a replica on the rack of their owner"
_FAILURES = "rebalances that failed because the strategy raised an error"


class _CachedView(NamedTuple):
    """Cluster metadata of the subscribed topics, reused until the client gets new metadata.

    Attributes:
        table: the client's own table of partitions, by topic and number.
        topics: the subscribed topics.
        view: the metadata of these topics in the form that all client libraries share.
    """

    table: object
    topics: frozenset[str]
    view: ClusterView


@dataclass
class AssignorState:
    """State that one consumer's assignor keeps between rebalances, such as its last assignment.

    It belongs to the assignor class, because some client libraries never create an instance.

    Attributes:
        consumer: encoder of subscriptions and assignor, the same for all client libraries.
        sampler: thread that measures loads; None if loads are not measured.
        load_function: function of the user that returns loads, called by the group leader; None
            if the user passes none.
        failures: number of consecutive failures of the strategy.
        failed_in: generation of the last failure.
        is_led_by_broker: whether the broker made the last assignment (KIP-848).
    """

    consumer: Consumer
    sampler: LoadSampler | None = None
    load_function: LoadFunction | None = None
    failures: int = 0
    failed_in: int = -1
    is_led_by_broker: bool = False
    _cached_view: _CachedView | None = None
    _not_before: float = 0.0
    _owner: weakref.ref[Any] | None = field(default=None)

    @property
    def strategy_name(self) -> str:
        """Name of the partition assignment strategy that the consumer's assignor runs.

        Examples are ``range`` and ``cooperative-sticky``.
        """
        return self.consumer.strategy.name

    def bind_to(self, coordinator: object) -> None:
        """Bind this assignor class to one Kafka consumer, so that no other consumer can use it.

        ``coordinator`` is the consumer's group coordinator object, which identifies the consumer.

        Raises:
            InvalidConfigError: another consumer uses the class, or used it. The state of one
                consumer must not be used by the next.
        """
        if self._owner is None:
            self._owner = weakref.ref(coordinator)
        elif self._owner() is not coordinator:
            what = "one class serves one consumer: call assignor(...) again for the next"
            raise InvalidConfigError("partition_assignment_strategy", what, self.strategy_name)

    def rejoin_delay(self) -> float:
        """Return how many seconds the Kafka consumer must wait before it joins its group again.

        It is 0 unless the assignment strategy failed. The delay prevents a loop of failing
        rebalances.
        """
        return max(self._not_before - time.monotonic(), 0.0) if self.failures else 0.0

    def assign_as_leader(
        self,
        members: Sequence[Joined] | Sequence[JoinedMember],
        view: ClusterView,
        *,
        group: str,
        generation: int,
        leader_loads: Mapping[Partition, float] | None = None,
    ) -> SyncGroupAssignments:
        """Assign partitions to all members of the consumer group, as the group leader.

        Warnings of the strategy are logged, and metrics are recorded.

        Args:
            members: the members in the order of the JoinGroup response.
            view: the cluster's metadata.
            group: the group id, for error messages.
            generation: the group's generation.
            leader_loads: loads from `call_load_function`.

        Raises:
            AssignorFailedError: the strategy raised an error. The consumer joins again after a
                pause, which doubles after each failure.
        """
        begin = time.perf_counter()
        loads = self._check_loads(leader_loads, group)
        try:
            answer = self.consumer.assign(
                members, view, group=group, generation=generation, leader_loads=loads
            )
        except AssignorFailedError as e:
            pause = min(_FIRST_PAUSE * 2**self.failures, _LONGEST_PAUSE)
            record_failure(group=group, strategy=self.strategy_name)
            self.failures += 1
            self.failed_in = generation
            self._not_before = time.monotonic() + pause
            log.error("%s; it joins again in %.1f s", e, pause)  # noqa: TRY400 - it is raised too
            raise
        seconds = time.perf_counter() - begin
        record_plan(
            answer.plan, answer.problem, group=group, strategy=self.strategy_name, seconds=seconds
        )
        self.failures = 0
        if len(answer.plan.partition) >= _LARGE_GROUP:
            start_warm_up()
        for one in answer.warnings:
            log.warning(
                "group %s generation %d, %s: %s", group, generation, self.strategy_name, one
            )
        return answer

    def assign_and_encode(
        self,
        members: Sequence[Joined],
        read_metadata: Callable[[Iterable[str]], ClusterView],
        group_and_generation: tuple[str, int],
        leader_loads: Mapping[Partition, float] | None,
        error: type[AssignorFailedError],
    ) -> dict[str, bytes]:
        """Assign partitions to all members of the group, and encode the assignments.

        The result is a dict from member id to bytes, which the leader sends in Kafka's SyncGroup
        request.

        Args:
            members: the members in the order of the JoinGroup response.
            read_metadata: function from topic names to the client's metadata of these topics.
            group_and_generation: group id and generation of this rebalance, for error messages.
            leader_loads: loads from `call_load_function`.
            error: the error class that the client library passes to the program.

        Raises:
            AssignorFailedError: the strategy raised an error; this one is of the class ``error``.
        """
        group, generation = group_and_generation
        joined = self.consumer.decode_subscriptions(members)
        # Equal subscriptions are mostly one tuple.
        lists = {id(one.member.topics): one.member.topics for one in joined}
        try:
            view = read_metadata(set().union(*lists.values()))
            answer = self.assign_as_leader(
                joined, view, group=group, generation=generation, leader_loads=leader_loads
            )
        except AssignorFailedError as e:
            why = e.__cause__ if isinstance(e.__cause__, Exception) else e
            raise error(e.strategy, e.group, e.generation, why) from e
        return dict(answer.sent)

    def view_of(
        self,
        cluster: Any,
        topics: Iterable[str],
        replicas: Callable[[Any], Sequence[int]],
        racks: Mapping[int, str | None],
    ) -> ClusterView:
        """Convert the metadata of a Kafka client library to the common form `ClusterView`.

        It has the replicas and racks of each partition. Topics without metadata are left out.

        Args:
            cluster: the client's ``ClusterMetadata``. Its private tables have the replicas; without
                them no partition has racks.
            topics: subscribed topics.
            replicas: function from a table row (or None) to the broker ids of its replicas.
            racks: rack by node id.
        """
        # The last view, with its `Cluster`, is returned again if the metadata are unchanged. A
        # client that refreshes its metadata gets a new table, which is mostly equal.
        table, topics, last = (
            getattr(cluster, "_partitions", {}),
            frozenset(topics),
            self._cached_view,
        )
        if last is not None and (table is last.table and topics == last.topics):
            return last.view if racks == last.view.racks else ClusterView(last.view.topics, racks)
        seen: dict[str, dict[int, list[int]]] = {}
        for topic in topics:
            numbers = cluster.partitions_for_topic(topic)
            if numbers:
                rows = table.get(topic, {})
                seen[topic] = {p: list(replicas(rows.get(p))) for p in numbers}
        if last is not None and seen == last.view.topics and racks == last.view.racks:
            self._cached_view = _CachedView(table, topics, last.view)
        else:
            self._cached_view = _CachedView(table, topics, ClusterView(seen, racks))
        return self._cached_view.view

    def call_load_function(self, group: str) -> Mapping[Partition, float] | None:
        """Call the user's load function (option ``weights``) and return the load of each partition.

        If there is no such function or it fails, the result is None, and the loads of the last
        assignment stay in use. `assign_as_leader` checks the loads.

        Args:
            group: the group id, for warnings.
        """
        # The weights of the last plan then stay in use, and a warning is logged. An error would
        # fail the rebalance, and the member would join again in a loop.
        if self.load_function is None:
            return None
        try:
            return dict(self.load_function())
        except Exception as e:  # noqa: BLE001 - foreign code, inside a rebalance
            log.warning("group %s: weights() failed (%s: %s)", group, type(e).__name__, e)
            return None

    @staticmethod
    def _check_loads(
        loads: Mapping[Partition, float] | None, group: str
    ) -> Mapping[Partition, float] | None:
        # Loads of the user's function; None after a warning if one of them is wrong.
        wrong = [p for p, load in (loads or {}).items() if not _is_entry(p, load)]
        if loads is None or not wrong:
            return loads
        log.warning(
            "group %s: weights() returned %.80r for %.80r: a load is a number from 0 to %.1e by "
            "(topic, partition); this rebalance ignores all loads of that call",
            group, loads[wrong[0]], wrong[0], LARGEST_LOAD,
        )  # fmt: skip
        return None

    def store_assignment(
        self,
        pairs: Sequence[Partition],
        user_data: bytes | None,
        generation: int,
        group: str,
    ) -> None:
        """Store the partitions that the Kafka consumer was assigned.

        Its next subscription reports them as owned.

        Args:
            pairs: the assigned (topic, partition) pairs.
            user_data: the assignor's user data in the assignment.
            generation: generation of the group.
            group: the group id, for warnings.
        """
        # A warning is logged if the broker computed the assignment (KIP-848): the strategy then has
        # no effect.
        self.consumer.store_assignment(pairs, user_data, generation)
        led_by_broker = self.consumer.is_assigned_by_broker(user_data)
        if led_by_broker and not self.is_led_by_broker:
            log.warning(
                "group %s generation %d: the broker assigned these partitions, not %s, because the "
                "group runs the consumer protocol (KIP-848, group.protocol=consumer). Use a group "
                "id without such members, or set their group.remote.assignor",
                group, generation, self.strategy_name,
            )  # fmt: skip
        self.is_led_by_broker = led_by_broker

    def measured_loads(self) -> Mapping[Partition, float]:
        """Return the measured load (such as records per second) of each owned partition.

        These are the partitions of the Kafka consumer. A partition without a measurement is left
        out.
        """
        return {} if self.sampler is None else self.sampler.partition_loads()


def _is_entry(partition: object, load: object) -> bool:
    return (
        isinstance(partition, tuple)
        and len(partition) == 2
        and isinstance(partition[0], str)
        and isinstance(partition[1], Integral)
        and is_load(load)
    )


def create_state(
    name: str, *, client: str, cooperative: bool, rack: str | None, eager: bool, **options: Any
) -> AssignorState:
    """Check the user's arguments of ``assignor``, and create the state of a new assignor class.

    The state is the same for all Kafka client libraries.

    Args:
        name: name of the partition assignment strategy.
        client: name of the client library, for messages.
        cooperative: whether the library supports the cooperative rebalance protocol.
        rack: the consumer's rack.
        eager: let a cooperative strategy run under the eager protocol.
        options: settings of the strategy.

    Raises:
        UnknownStrategyError: no strategy has the name.
        InvalidConfigError: the strategy has no such option, a value is wrong, or the client cannot
            do what the strategy needs.
    """
    _check_arguments(name, rack)
    weights = options.get("weights")
    # Text that begins with a brace is JSON, for the strategy to read.
    is_word = isinstance(weights, str) and not weights.lstrip().startswith("{")
    learnt = is_word or callable(weights)
    if learnt:
        options = {**options, "weights": None}
    strategy = configure_strategy(name, options)
    if is_word and weights not in MEASURES:
        raise InvalidConfigError("weights", _wanted_weights(str(weights)), weights)
    if getattr(strategy, "several_owners", False):
        what = "assigns partitions to several members: only brokers run it, for share groups"
        raise InvalidConfigError("partition_assignment_strategy", what, name)
    if not cooperative and not eager and _needs_cooperative_protocol(strategy):
        what = (
            f"{name} keeps partitions during a rebalance, and {client} revokes all before it "
            "joins: use sticky; or pass eager=True to join a cooperative group anyway"
        )
        raise InvalidConfigError("partition_assignment_strategy", what, name)
    if weights is not None:
        # A plan by weight takes the longest. Its kernels are compiled in a thread, in good time.
        start_warm_up()
    if not learnt:
        return AssignorState(Consumer(strategy, rack))
    loads = Loads(None if options.get("tolerance") is not None else TOLERANCE)
    made = AssignorState(Consumer(strategy, rack, loads))
    if callable(weights):
        made.load_function = weights
    else:
        made.sampler = LoadSampler(str(weights))
    return made


def _check_arguments(name: object, rack: object) -> None:
    """Check the types of the arguments ``name`` and ``rack`` of the function ``assignor``.

    ``name`` is the name of an assignment strategy, or a strategy object. ``rack`` is the consumer's
    rack.

    Raises:
        InvalidConfigError: an argument has another type.
    """
    if isinstance(name, type) or not (isinstance(name, str) or is_strategy(name)):
        what = 'must be the name of a strategy, as in assignor("sticky")'
        raise InvalidConfigError("assignor(name)", what, name)
    if isinstance(name, str) and "," in name:
        listed = ", ".join(f'assignor("{one.strip()}")' for one in name.split(","))
        raise InvalidConfigError("assignor(name)", f"must be one name: write [{listed}]", name)
    if rack is not None and not isinstance(rack, str):
        raise InvalidConfigError("rack", "must be text, as the brokers' broker.rack", rack)


def _wanted_weights(word: str) -> str:
    close = difflib.get_close_matches(word, MEASURES, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    measures = " or ".join(repr(one) for one in MEASURES)
    return f"must be {measures}, a function that returns loads, or loads by topic{hint}"


def _needs_cooperative_protocol(strategy: Strategy) -> bool:
    """Return whether a strategy equals Kafka's only under the cooperative rebalance protocol.

    Other cooperative strategies also work under the eager protocol, because their members send the
    owned partitions in the user data.
    """
    # Other cooperative strategies also work under the eager protocol: their members send the owned
    # partitions in the user data.
    if RebalanceProtocol.EAGER not in strategy.protocols:
        return True
    return strategy.exact_to is not None and RebalanceProtocol.COOPERATIVE in strategy.protocols


class _Metrics(Protocol):
    """Interface to the metrics of a partition assignor in a metrics library, such as Prometheus.

    One method records a computed assignment, the other a failed one.
    """

    def record_plan(self, labels: dict[str, str], seconds: float, measures: Measures) -> None:
        """Record a partition assignment's computing time and quality in a metrics library.

        Classes implement it for Prometheus and OpenTelemetry.

        Args:
            labels: labels of the metrics, such as the group.
            seconds: time that computing the assignment took.
            measures: the assignment's quality.
        """

    def record_failure(self, labels: dict[str, str]) -> None:
        """Count a failed partition assignment in a metrics library.

        Classes implement it for Prometheus and OpenTelemetry.

        Args:
            labels: labels of the metric: the group and the strategy.
        """


@dataclass(frozen=True)
class _Instruments:
    """The five metrics of a partition assignor, as objects of a metrics library such as Prometheus.

    They are computing time, moved partitions, spread of the numbers of partitions, rack mismatches
    and failures.
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
    """Record in the application's metrics how long an assignment took to compute, and its quality.

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
    """Count a failed partition assignment in the application's metrics.

    The count goes to each metrics library that the application has imported. ``group`` and
    ``strategy`` are labels of the metric.
    """
    try:
        for one in _libraries():
            one.record_failure({"group": group, "strategy": strategy})
    except Exception as e:  # noqa: BLE001 - foreign code, inside a rebalance
        log.warning("group %s: the failure was not counted (%s: %s)", group, type(e).__name__, e)


def _group_with_owned_partitions(problem: Problem) -> Group:
    """Return the consumer group with the partitions that each member owned before the rebalance.

    Members with the strategy ``sticky`` report them only in their user data, so they are copied
    from there.

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
