"""Strategies of Partage as assignors of kafka-python (2.0 to 3.x).

from kafka import KafkaConsumer
from partage.clients.kafka_python import assignor

KafkaConsumer("orders", group_id="billing",
              partition_assignment_strategy=[assignor("sticky")])
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from partage.clients.assignor_class_state import AssignorState, create_state
from partage.clients.calling_client import (
    SETTING,
    AssignorMeta,
    Call,
    called_by,
    find_caller,
    reject_uncalled,
)
from partage.clients.load_sampling import ArrivalRates, Offsets
from partage.clients.shared import ClusterView, Joined
from partage.errors import AssignorFailedError, InvalidConfigError, MissingExtraError
from partage.model import NO_GENERATION
from partage.model.validation import check_subscription
from partage.wire.consumer_protocol import ConsumerSubscription

try:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.coordinator.assignors import abstract
    from kafka.coordinator.consumer import ConsumerCoordinator
    from kafka.errors import KafkaError
except ImportError as e:
    raise MissingExtraError("kafka-python", extra="kafka-python") from e

__all__ = ["AssignorError", "assignor", "cluster_look"]

#: kafka-python 3 can let members keep partitions through a rebalance (KIP-429).
_PROTOCOLS = getattr(abstract, "RebalanceProtocol", None)


class AssignorError(AssignorFailedError, KafkaError):  # type: ignore[misc]  # kafka is untyped
    """Error that kafka-python's ``poll()`` raises if a partition assignment strategy failed.

    It names the strategy, the group and its generation.
    """


@reject_uncalled(InvalidConfigError)
def assignor(
    name: str, *, rack: str | None = None, eager: bool = False, **options: Any
) -> type[Assignor]:
    """Create a partition assignor class for one kafka-python consumer, from the name of a strategy.

    Pass it as ``partition_assignment_strategy=[assignor("sticky")]``. Each consumer needs a class
    of its own, which holds the state between rebalances: kafka-python 2 never creates an instance.
    A second consumer that uses the class gets an error.

    Args:
        name: a strategy's name, one of ``pg.strategies()``.
        rack: the consumer's rack (Java's ``client.rack``); by default kafka-python 3's setting
            ``client_rack``.
        eager: let a cooperative strategy of kafka-python 2 join although it revokes all
            partitions.
        options: settings of the strategy by the end of their key: ``priority=10``,
            ``preemption=False``, ``max_moves=3``. For `optimal`, ``weights`` may be
            "throughput" or "lag", measured by each member, or a function without arguments
            that returns loads by (topic, partition) without waiting.

    Raises:
        UnknownStrategyError: no strategy has the name.
        InvalidConfigError: the strategy has no such option, a value is wrong, or this kafka-python
            cannot do what the strategy needs.
    """
    state = create_state(
        name, client="this kafka-python", cooperative=_PROTOCOLS is not None,
        rack=rack, eager=eager, **options,
    )  # fmt: skip
    return type(f"Assignor[{name}]", (Assignor,), {"name": state.strategy_name, "_state": state})


def cluster_look(
    topics: Iterable[str], *, seconds: float = 5.0, window: float = 60.0, **settings: Any
) -> ArrivalRates:
    """Measure in a background thread how many records per second arrive in each partition.

    The result can be passed to ``assignor`` as option ``weights``, so that the group leader
    balances partitions by load. The thread reads log end offsets with a consumer of its own, which
    joins no group.

    Args:
        topics: the topics to measure.
        seconds: time between two requests.
        window: time over which records are counted, in seconds.
        settings: settings of kafka-python: ``bootstrap_servers`` and security.

    Raises:
        InvalidProblemError: ``topics`` is not a list of names.
    """
    names = check_subscription(topics, "cluster_look")
    opened: list[Any] = []

    def ends() -> dict[tuple[str, int], int]:
        if not opened:
            opened.append(KafkaConsumer(**{**settings, "group_id": None}))
        wanted = [
            TopicPartition(name, p)
            for name in names
            for p in opened[0].partitions_for_topic(name) or ()
        ]
        found = opened[0].end_offsets(wanted) if wanted else {}
        return {(one.topic, one.partition): int(end) for one, end in found.items()}

    return ArrivalRates(ends, seconds=seconds, window=window)


class Assignor(abstract.AbstractPartitionAssignor, metaclass=AssignorMeta):  # type: ignore[misc]  # kafka is untyped
    """Base class of the partition assignor classes that kafka-python calls.

    kafka-python 2 calls methods of the class, kafka-python 3 methods of an instance.
    """

    name: str = ""
    _state: ClassVar[AssignorState]

    def __init__(self) -> None:
        self._bound(find_caller(ConsumerCoordinator))

    @classmethod
    def supported_protocols(cls) -> list[Any]:
        """Return the rebalance protocols that the strategy supports, the preferred one first.

        They are kafka-python's own constants; kafka-python 2 has none.
        """
        if _PROTOCOLS is None:
            return []
        return [_PROTOCOLS(int(one)) for one in cls._state.consumer.strategy.protocols]

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> bytes:
        """Return the subscription in a kafka-python consumer's JoinGroup request, as bytes.

        If the strategy failed before, this method first waits, so that the group does not rebalance
        in a loop. ``topics`` are the subscribed topics.
        """
        call = cls._bound(find_caller(ConsumerCoordinator))
        state = cls._state
        # The pause follows a failure only; heartbeats have a thread, or are not due yet.
        time.sleep(state.rejoin_delay())
        names = sorted(topics)
        if call is None:
            return state.consumer.subscription(names, measured=state.measured_loads())
        keeps = _keeps(call.owner)
        assigned = call.owner._subscription.assigned_partitions()
        return state.consumer.subscription(
            names,
            cooperative=keeps,
            owned=sorted((p.topic, p.partition) for p in assigned) if keeps else None,
            generation=call.owner._generation.generation_id,
            measured=state.measured_loads(),
        )

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> dict[str, Any]:
        """Assign partitions to all members of the group, as the group leader.

        kafka-python calls it after the JoinGroup response. The result is a dict from member id to
        assignment.

        Args:
            cluster: kafka-python's metadata of the cluster.
            members: the members with their subscriptions.

        Raises:
            AssignorError: the strategy raised; the error has the strategy, group and generation.
        """
        call = cls._bound(find_caller(ConsumerCoordinator))
        of = ("?", NO_GENERATION) if call is None else _group_of(call.owner)
        if call is not None:
            _request_rejoin(call.owner)
        joined = _joined(members, {} if call is None else call.local)
        loads = cls._state.call_load_function(of[0])
        return cls._state.assign_and_encode(
            joined, partial(_view, cls._state, cluster), of, loads, AssignorError
        )

    @classmethod
    def on_assignment(cls, assignment: Any, generation: int | None = None) -> None:
        """Store the partitions that the kafka-python consumer was assigned.

        kafka-python calls it after each rebalance. The next subscription reports these partitions
        as owned. ``generation`` is the group's generation.
        """
        call = cls._bound(find_caller(ConsumerCoordinator))
        if generation is None:
            generation = NO_GENERATION if call is None else int(call.local["generation"])
        pairs = [(topic, p) for topic, numbers in assignment.assignment for p in numbers]
        group = "?" if call is None else str(call.owner.config["group_id"])
        cls._state.store_assignment(pairs, assignment.user_data, generation, group)
        if cls._state.sampler is not None and call is not None:
            cls._state.sampler.start_sampling(_offsets_of(weakref.ref(call.owner._subscription)))

    @classmethod
    def on_generation_assignment(cls, generation: int) -> None:
        """Store the group generation to which the kafka-python consumer's last assignment belongs.

        kafka-python 2 calls it after ``on_assignment``, which does not get the generation.
        """
        cls._state.consumer.set_generation(generation)

    @classmethod
    def _bound(cls, call: Call | None) -> Call | None:
        # No other consumer may use the class.
        if call is not None:
            cls._state.bind_to(call.owner)
            if cls._state.consumer.rack is None:
                cls._state.consumer.rack = call.owner.config.get("client_rack") or None
        elif called_by("aiokafka"):
            what = "is made for kafka-python: take assignor from partage.clients.aiokafka"
            raise InvalidConfigError(SETTING, what, cls)
        return call


def _group_of(coordinator: Any) -> tuple[str, int]:
    return str(coordinator.config["group_id"]), int(coordinator._generation.generation_id)


def _request_rejoin(coordinator: Any) -> None:
    """Request another rejoin, so that a kafka-python consumer completes a join in progress.

    Without it, releases 2.3 and 3.0 forget a join that a timeout of ``poll()`` interrupted.

    Args:
        coordinator: the consumer's group coordinator object.
    """
    # Without the request, versions 2.3 and 3.0 forget the join if `poll()` times out during it. The
    # consumer then stays outside its group (3.0) or keeps its old assignment (2.3). This happens if
    # a leader joins because its topics have more partitions.
    if not hasattr(coordinator, "_rejoin_incomplete"):  # 2.0, whose poll() looks anyway
        coordinator.request_rejoin()


def _keeps(coordinator: Any) -> bool:
    # With the cooperative protocol.
    protocol = getattr(coordinator, "_rebalance_protocol", None)
    return _PROTOCOLS is not None and protocol == _PROTOCOLS.COOPERATIVE


def _joined(members: Any, received: Mapping[str, Any]) -> list[Joined]:
    # In the order of JoinGroup's response.
    if not isinstance(members, Mapping):  # kafka-python 3: decoded in full
        return [
            Joined(one.member_id, _decoded(one.metadata), one.group_instance_id) for one in members
        ]
    raw = received.get("members")
    if raw is None:
        return [
            Joined(i, ConsumerSubscription(tuple(one.subscription), one.user_data))
            for i, one in members.items()
        ]
    # 2.0: (id, bytes); 2.1 and later: (id, instance id, bytes).
    return [Joined(one[0], bytes(one[-1]), one[1] if len(one) > 2 else None) for one in raw]


def _decoded(one: Any) -> ConsumerSubscription:
    generation = getattr(one, "generation_id", None)
    return ConsumerSubscription(
        topics=tuple(one.topics),
        user_data=one.user_data,
        owned=tuple((t, p) for t, numbers in one.owned_partitions or () for p in numbers),
        generation=generation if generation is not None and generation >= 0 else None,
        rack=getattr(one, "rack_id", None) or None,
    )


def _view(state: AssignorState, cluster: Any, topics: Iterable[str]) -> ClusterView:
    racks = {int(one[0]): one[3] for one in map(_broker, cluster.brokers())}
    return state.view_of(cluster, topics, _replicas, racks)


def _replicas(partition: Any) -> list[int]:
    found = getattr(partition, "replicas", None)
    return list(getattr(partition, "replica_nodes", ()) if found is None else found)


def _broker(one: Any) -> tuple[Any, ...]:
    if isinstance(one, tuple):
        return one
    return (one.node_id, one.host, one.port, one.rack)


def _offsets_of(subscription: weakref.ref[Any]) -> Any:
    # The function must hold no reference to the consumer.
    def read() -> Offsets | None:
        now = subscription()
        if now is None:
            return None
        positions: dict[tuple[str, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        for one, state in list(now.assignment.items()):
            at = state.position if state.has_valid_position else None
            at = getattr(at, "offset", at)
            if at is not None:
                positions[one.topic, one.partition] = int(at)
            if state.highwater is not None:
                ends[one.topic, one.partition] = int(state.highwater)
        return positions, ends

    return read
