"""Our strategies as assignors of kafka-python (2.0 to 3.x).

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

from partage.clients.caller import Call, caller
from partage.clients.looking import ClusterLook
from partage.clients.misuse import SETTING, AssignorMeta, called_by, factory
from partage.clients.plugged import Plugged, plugged, view_of
from partage.clients.sampling import Offsets
from partage.clients.shared import ClusterView, Joined
from partage.errors import AssignorFailedError, InvalidConfigError, MissingExtraError
from partage.model import NO_GENERATION
from partage.model.names import subscription
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
    """`AssignorFailedError` that kafka-python raises from ``poll()``."""


@factory(InvalidConfigError)
def assignor(
    name: str, *, rack: str | None = None, eager: bool = False, **options: Any
) -> type[Assignor]:
    """Return a class for ``partition_assignment_strategy``: a strategy, for one consumer.

    Every call makes a fresh class, since kafka-python 2 calls methods of the class itself:
    what is remembered between rebalances is kept there. A class serves one consumer; the
    second one that uses it is refused (`partage.clients.caller` says how that is known).

    Args:
        name: of a strategy, as in ``pg.strategies()``.
        rack: of this consumer, what Java calls ``client.rack``. kafka-python 3 has the
            setting ``client_rack``, which is taken if this is not given.
        eager: for cooperative strategies in kafka-python 2: sit in the group all the same.
        options: the strategy's settings by the end of their key: ``priority=10``,
            ``preemption=False``, ``max_moves=3``. For `optimal`, ``weights`` may be
            "throughput" or "lag", measured by each member, or a function without arguments
            that answers loads by (topic, partition) at once.

    Raises:
        UnknownStrategyError: there is no such strategy.
        InvalidConfigError: it has no such option, a value is wrong, or this kafka-python
            cannot do what the strategy needs.
    """
    state = plugged(
        name, client="this kafka-python", cooperative=_PROTOCOLS is not None,
        rack=rack, eager=eager, **options,
    )  # fmt: skip
    return type(f"Assignor[{name}]", (Assignor,), {"name": state.name, "_state": state})


def cluster_look(
    topics: Iterable[str], *, seconds: float = 5.0, window: float = 60.0, **settings: Any
) -> ClusterLook:
    """Return a measure for ``weights=``: records per second that arrive in each partition.

    It asks the cluster with a connection of its own, which joins no group, in its own thread.

    Args:
        topics: whose partitions count.
        seconds: between two looks.
        window: over which what arrives is counted, in seconds.
        settings: of kafka-python, ``bootstrap_servers`` and security.

    Raises:
        InvalidProblemError: ``topics`` is no list of names.
    """
    names = subscription(topics, "cluster_look")
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

    return ClusterLook(ends, seconds=seconds, window=window)


class Assignor(abstract.AbstractPartitionAssignor, metaclass=AssignorMeta):  # type: ignore[misc]  # kafka is untyped
    """The base of `assignor`'s classes; kafka-python 2 calls the class, 3 an instance of it."""

    name: str = ""
    _state: ClassVar[Plugged]

    def __init__(self) -> None:
        self._bound(caller(ConsumerCoordinator))

    @classmethod
    def supported_protocols(cls) -> list[Any]:
        """kafka-python's own ids of the strategy's rebalance protocols, preferred one first."""
        if _PROTOCOLS is None:
            return []
        return [_PROTOCOLS(int(one)) for one in cls._state.consumer.strategy.protocols]

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> bytes:
        """What this member joins with, as bytes: what Java's consumer would send."""
        call = cls._bound(caller(ConsumerCoordinator))
        state = cls._state
        # Only after a failure: this thread waits, heartbeats have their own or are not due yet.
        time.sleep(state.pause())
        names = sorted(topics)
        if call is None:
            return state.consumer.subscription(names, measured=state.measured())
        keeps = _keeps(call.owner)
        assigned = call.owner._subscription.assigned_partitions()
        return state.consumer.subscription(
            names,
            cooperative=keeps,
            owned=sorted((p.topic, p.partition) for p in assigned) if keeps else None,
            generation=call.owner._generation.generation_id,
            measured=state.measured(),
        )

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> dict[str, Any]:
        """The leader's decision: each member's assignment as bytes.

        Raises:
            AssignorError: the strategy raised; names it, the group and the generation.
        """
        call = cls._bound(caller(ConsumerCoordinator))
        of = ("?", NO_GENERATION) if call is None else _group_of(call.owner)
        if call is not None:
            _stay_until_joined(call.owner)
        joined = _joined(members, {} if call is None else call.local)
        return cls._state.sent(joined, partial(_view, cluster), of, AssignorError)

    @classmethod
    def on_assignment(cls, assignment: Any, generation: int | None = None) -> None:
        """Take this member's assignment, in its order."""
        call = cls._bound(caller(ConsumerCoordinator))
        if generation is None:
            generation = NO_GENERATION if call is None else int(call.local["generation"])
        pairs = [(topic, p) for topic, numbers in assignment.assignment for p in numbers]
        group = "?" if call is None else str(call.owner.config["group_id"])
        cls._state.received(pairs, assignment.user_data, generation, group)
        if cls._state.sampler is not None and call is not None:
            cls._state.sampler.watch(_offsets_of(weakref.ref(call.owner._subscription)))

    @classmethod
    def on_generation_assignment(cls, generation: int) -> None:
        """kafka-python 2 tells the generation to an assignor named sticky, after the rest."""
        cls._state.consumer.generation_is(generation)

    @classmethod
    def _bound(cls, call: Call | None) -> Call | None:
        if call is not None:
            cls._state.belongs_to(call.owner)
            if cls._state.consumer.rack is None:
                cls._state.consumer.rack = call.owner.config.get("client_rack") or None
        elif called_by("aiokafka"):
            what = "is made for kafka-python: take assignor from partage.clients.aiokafka"
            raise InvalidConfigError(SETTING, what, cls)
        return call


def _group_of(coordinator: Any) -> tuple[str, int]:
    """Its group, and the generation that is being made."""
    return str(coordinator.config["group_id"]), int(coordinator._generation.generation_id)


def _stay_until_joined(coordinator: Any) -> None:
    """A leader of kafka-python 2.3 or 3.0 that joins because its topics have grown does not want to
    any more once it has seen them: here, in the middle of it. If its poll() ends now, the next one
    does not ask what became of the join: in 3.0 the consumer stays outside its group for good, in
    2.3 it is in, and works on what it had before. Told to join it looks, and joined it forgets.
    """
    if not hasattr(coordinator, "_rejoin_incomplete"):  # 2.0, whose poll() looks by itself
        coordinator.request_rejoin()


def _keeps(coordinator: Any) -> bool:
    """Whether this consumer keeps partitions while it joins."""
    protocol = getattr(coordinator, "_rebalance_protocol", None)
    return _PROTOCOLS is not None and protocol == _PROTOCOLS.COOPERATIVE


def _joined(members: Any, received: Mapping[str, Any]) -> list[Joined]:
    """Members in the order of the coordinator's answer, with all that they sent."""
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


def _view(cluster: Any, topics: Iterable[str]) -> ClusterView:
    racks = {int(one[0]): one[3] for one in map(_broker, cluster.brokers())}
    return view_of(cluster, topics, _replicas, racks)


def _replicas(partition: Any) -> list[int]:
    found = getattr(partition, "replicas", None)
    return list(getattr(partition, "replica_nodes", ()) if found is None else found)


def _broker(one: Any) -> tuple[Any, ...]:
    if isinstance(one, tuple):
        return one
    return (one.node_id, one.host, one.port, one.rack)


def _offsets_of(subscription: weakref.ref[Any]) -> Any:
    """A reader of a consumer's positions that does not keep it alive."""

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
