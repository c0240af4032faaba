"""State of an assignor class for its consumer, shared by kafka-python and aiokafka."""

from __future__ import annotations

import difflib
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

from partage.clients.load_sampling import MEASURES, Sampler
from partage.clients.plan_metrics import record_failure, record_plan
from partage.clients.shared import ClusterView, Consumer, Joined, SyncGroupAssignments, configured
from partage.clients.shared.joined import JoinedMember
from partage.clients.shared.loads import TOLERANCE, Loads
from partage.errors import AssignorFailedError, InvalidConfigError
from partage.groups.api import RebalanceProtocol, Strategy
from partage.groups.registry import is_strategy
from partage.weights import LARGEST_LOAD, is_load

__all__ = ["AssignorState", "Look", "new_state"]

log = logging.getLogger("partage.clients")

Partition = tuple[str, int]
#: A function of the leader that returns loads by (topic, partition) without waiting.
Look = Callable[[], Mapping[Partition, float]]

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0


class _SeenMetadata(NamedTuple):
    """Cached `ClusterView`, with the cluster metadata from which the group leader built it.

    It is reused in the next rebalance if the metadata are the same.

    Attributes:
        table: the client's rows by topic and partition.
        topics: the subscribed topics.
        view: the view of these topics.
    """

    table: object
    topics: frozenset[str]
    view: ClusterView


@dataclass
class AssignorState:
    """State of one assignor class between rebalances.

    It has its consumer's last assignment, its load measurements and its group coordinator.

    Attributes:
        consumer: the client-independent part: subscriptions, decisions, memory.
        sampler: the measurement of loads while the consumer runs; None without one.
        look: the load function that the leader calls; None without one.
        failures: number of consecutive failures of the strategy.
        failed_in: generation of the last failure.
        is_led_by_broker: whether the broker made the last assignment (KIP-848).
    """

    consumer: Consumer
    sampler: Sampler | None = None
    look: Look | None = None
    failures: int = 0
    failed_in: int = -1
    is_led_by_broker: bool = False
    _seen: _SeenMetadata | None = None
    _not_before: float = 0.0
    _owner: weakref.ref[Any] | None = field(default=None)

    @property
    def name(self) -> str:
        """Name of the assignment strategy that the assignor class runs."""
        return self.consumer.strategy.name

    def belongs_to(self, coordinator: object) -> None:
        """Check that only one consumer uses the assignor class.

        The consumer is recognised by its group coordinator object. The first call binds the class
        to it.

        Raises:
            InvalidConfigError: the class serves another consumer, even if that one is closed: the
                history of one must not become that of the next.
        """
        if self._owner is None:
            self._owner = weakref.ref(coordinator)
        elif self._owner() is not coordinator:
            what = "one class serves one consumer: call assignor(...) again for the next"
            raise InvalidConfigError("partition_assignment_strategy", what, self.name)

    def pause(self) -> float:
        """Return the seconds to wait before the consumer joins again; 0 unless the strategy has
        just failed.
        """
        return max(self._not_before - time.monotonic(), 0.0) if self.failures else 0.0

    def assign(
        self,
        members: Sequence[Joined] | Sequence[JoinedMember],
        view: ClusterView,
        *,
        group: str,
        generation: int,
    ) -> SyncGroupAssignments:
        """Compute the assignment of all members of the group, as its leader, and log warnings.

        Raises:
            AssignorFailedError: the strategy raised; the consumer joins again after a pause
                that doubles each time, so that the group does not spin.
        """
        looked = self._call_load_function(group)
        begin = time.perf_counter()
        try:
            answer = self.consumer.assign(
                members, view, group=group, generation=generation, looked=looked
            )
        except AssignorFailedError as e:
            pause = min(_FIRST_PAUSE * 2**self.failures, _LONGEST_PAUSE)
            record_failure(group=group, strategy=self.name)
            self.failures += 1
            self.failed_in = generation
            self._not_before = time.monotonic() + pause
            log.error("%s; it joins again in %.1f s", e, pause)  # noqa: TRY400 - it is raised too
            raise
        seconds = time.perf_counter() - begin
        record_plan(answer.plan, answer.problem, group=group, strategy=self.name, seconds=seconds)
        self.failures = 0
        for one in answer.warnings:
            log.warning("group %s generation %d, %s: %s", group, generation, self.name, one)
        return answer

    def sent(
        self,
        members: Sequence[Joined],
        seen: Callable[[Iterable[str]], ClusterView],
        of: tuple[str, int],
        error: type[AssignorFailedError],
    ) -> dict[str, bytes]:
        """Compute the assignment of all members, and encode it for the leader's SyncGroup request.

        The result is a dict from member id to bytes. A failure is raised as the client library's
        own error class.

        Args:
            members: the members in the order of the coordinator's response.
            seen: a function that returns the client's metadata of some topics.
            of: group id and generation of this rebalance, for errors and warnings.
            error: the error class that the client library passes to the program.

        Raises:
            AssignorFailedError: the strategy raised; the error is of that class and has the
                strategy, group and generation.
        """
        joined = self.consumer.decoded(members)
        # Equal subscriptions are mostly one tuple.
        lists = {id(one.member.topics): one.member.topics for one in joined}
        try:
            view = seen(set().union(*lists.values()))
            answer = self.assign(joined, view, group=of[0], generation=of[1])
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
        """Build the view of the subscribed topics, with replicas and racks, from the client's
        cluster metadata.

        Unknown topics are left out. The view of the last rebalance is returned again if the
        metadata are the same.

        Args:
            cluster: the client's ``ClusterMetadata``, whose private tables have the replicas.
                Without these tables no partition has racks.
            topics: subscribed topics.
            replicas: a function that returns the node ids of a table row, or of None.
            racks: rack by node id.
        """
        table, topics, last = getattr(cluster, "_partitions", {}), frozenset(topics), self._seen
        if last is not None and (table is last.table and topics == last.topics):
            return last.view if racks == last.view.racks else ClusterView(last.view.topics, racks)
        seen: dict[str, dict[int, list[int]]] = {}
        for topic in topics:
            numbers = cluster.partitions_for_topic(topic)
            if numbers:
                rows = table.get(topic, {})
                seen[topic] = {p: list(replicas(rows.get(p))) for p in numbers}
        self._seen = _SeenMetadata(table, topics, ClusterView(seen, racks))
        return self._seen.view

    def _call_load_function(self, group: str) -> Mapping[Partition, float] | None:
        """Call the user's load function (option ``weights``) and return its loads; None if it fails
        or a load is invalid.

        An invalid load must not fail the rebalance: the member would join again after each failure.
        The weights of the last plan stay, and a warning names the entry.
        """
        if self.look is None:
            return None
        try:
            loads = dict(self.look())
            wrong = [p for p, load in loads.items() if not _is_entry(p, load)]
        except Exception as e:  # noqa: BLE001 - foreign code, inside a rebalance
            log.warning("group %s: weights() failed (%s: %s)", group, type(e).__name__, e)
            return None
        if not wrong:
            return loads
        log.warning(
            "group %s: weights() returned %.80r for %.80r: a load is a number from 0 to %.1e by "
            "(topic, partition); this rebalance ignores all loads of that call",
            group, loads[wrong[0]], wrong[0], LARGEST_LOAD,
        )  # fmt: skip
        return None

    def received(
        self,
        pairs: Sequence[Partition],
        user_data: bytes | None,
        generation: int,
        group: str,
    ) -> None:
        """Store the partitions that this consumer was assigned, for its next subscription.

        Warn once if the broker assigned them instead of the group's leader.
        """
        self.consumer.received(pairs, user_data, generation)
        led_by_broker = self.consumer.is_assigned_by_broker(user_data)
        if led_by_broker and not self.is_led_by_broker:
            log.warning(
                "group %s generation %d: the broker assigned these partitions, not %s, because the "
                "group runs the consumer protocol (KIP-848, group.protocol=consumer). Use a group "
                "id without such members, or set their group.remote.assignor",
                group, generation, self.name,
            )  # fmt: skip
        self.is_led_by_broker = led_by_broker

    def measured(self) -> Mapping[Partition, float]:
        """Return the measured loads of this consumer's partitions, without unknown ones."""
        return {} if self.sampler is None else self.sampler.loads()


def _is_entry(partition: object, load: object) -> bool:
    return (
        isinstance(partition, tuple)
        and len(partition) == 2
        and isinstance(partition[0], str)
        and isinstance(partition[1], Integral)
        and is_load(load)
    )


def new_state(
    name: str, *, client: str, cooperative: bool, rack: str | None, eager: bool, **options: Any
) -> AssignorState:
    """Create the state of a new assignor class; ``assignor`` of each client library documents the
    arguments.

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
    strategy = configured(name, options)
    if is_word and weights not in MEASURES:
        raise InvalidConfigError("weights", _wanted_weights(str(weights)), weights)
    if getattr(strategy, "several_owners", False):
        what = "assigns partitions to several members: only brokers run it, for share groups"
        raise InvalidConfigError("partition_assignment_strategy", what, name)
    if not cooperative and not eager and _keeps_through_rebalances(strategy):
        what = (
            f"{name} keeps partitions during a rebalance, and {client} revokes all before it "
            "joins: use sticky; or pass eager=True to join a cooperative group anyway"
        )
        raise InvalidConfigError("partition_assignment_strategy", what, name)
    if not learnt:
        return AssignorState(Consumer(strategy, rack))
    loads = Loads(None if options.get("tolerance") is not None else TOLERANCE)
    made = AssignorState(Consumer(strategy, rack, loads))
    if callable(weights):
        made.look = weights
    else:
        made.sampler = Sampler(str(weights))
    return made


def _check_arguments(name: object, rack: object) -> None:
    """Check the arguments of ``assignor``: a strategy or its name, and a rack that is text or
    missing.

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


def _keeps_through_rebalances(strategy: Strategy) -> bool:
    """Return whether a strategy needs the cooperative rebalance protocol to give the results of its
    Kafka class.

    These are cooperative strategies that are exact to a Kafka class. Other cooperative strategies
    append claims (the partitions a member owns) to their user data (`partage.wire.member_extras`).
    """
    if RebalanceProtocol.EAGER not in strategy.protocols:
        return True
    return strategy.exact_to is not None and RebalanceProtocol.COOPERATIVE in strategy.protocols
