"""Strategies of Partage as assignors of aiokafka (0.10 to 0.14).

from aiokafka import AIOKafkaConsumer
from partage.clients.aiokafka import assignor

AIOKafkaConsumer("orders", group_id="billing",
                 partition_assignment_strategy=[assignor("sticky")])
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from partage.clients.assignor_class_state import AssignorState, new_state
from partage.clients.calling_client import (
    SETTING,
    AssignorMeta,
    Call,
    called_by,
    caller,
    factory,
)
from partage.clients.load_sampling import Offsets
from partage.clients.shared import ClusterView, Joined
from partage.errors import AssignorFailedError, InvalidConfigError, MissingExtraError
from partage.model import NO_GENERATION
from partage.wire.consumer_protocol import ConsumerSubscription

try:
    from aiokafka.consumer.group_coordinator import (
        CoordinatorGroupRebalance,
        GroupCoordinator,
    )
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.errors import KafkaError
except ImportError as e:
    raise MissingExtraError("aiokafka", extra="aiokafka") from e

__all__ = ["AssignorError", "ClassInUseError", "MisusedAssignorError", "assignor"]


class AssignorError(AssignorFailedError, KafkaError):  # type: ignore[misc]  # untyped
    """Error for a failed assignment strategy, which aiokafka raises when the program awaits
    records.
    """


class MisusedAssignorError(InvalidConfigError, KafkaError):  # type: ignore[misc]  # untyped
    """Error for an invalid setting ``partition_assignment_strategy``, which aiokafka raises when
    the program awaits records.
    """


class ClassInUseError(MisusedAssignorError):
    """Error for an assignor class that two consumers use, which aiokafka raises when the program
    awaits records.
    """


@factory(MisusedAssignorError)
def assignor(
    name: str, *, rack: str | None = None, eager: bool = False, **options: Any
) -> type[Assignor]:
    """Create a partition assignor class for one aiokafka consumer
    (``partition_assignment_strategy``) from a strategy's name.

    Every call creates a class, since aiokafka calls methods of the class itself and its state
    between rebalances is there. A class serves one consumer; a second consumer that uses it gets an
    error (`partage.clients.calling_client` finds the consumer).

    Args:
        name: a strategy's name, one of ``pg.strategies()``.
        rack: the consumer's rack (Java's ``client.rack``).
        eager: let a cooperative strategy join although aiokafka revokes all partitions before.
        options: settings of the strategy by the end of their key: ``priority=10``,
            ``preemption=False``, ``max_moves=3``. For `optimal`, ``weights`` may be
            "throughput" or "lag", measured by each member, or a function without arguments
            that returns loads by (topic, partition) without waiting.

    Raises:
        UnknownStrategyError: no strategy has the name.
        InvalidConfigError: the strategy has no such option, a value is wrong, or aiokafka cannot do
            what the strategy needs.
    """
    state = new_state(name, client="aiokafka", cooperative=False, rack=rack, eager=eager, **options)
    return type(f"Assignor[{name}]", (Assignor,), {"name": state.name, "_state": state})


class _Meta(AssignorMeta):
    """Metaclass of assignor classes for aiokafka: a wrong use raises an error that aiokafka passes
    on to the program.
    """

    misuse = MisusedAssignorError


class Assignor(AbstractPartitionAssignor, metaclass=_Meta):  # type: ignore[misc]  # untyped
    """Base class of the partition assignor classes for aiokafka, which calls methods of the class
    on its event loop.
    """

    name: str = ""
    _state: ClassVar[AssignorState]

    def __init__(self) -> None:
        # aiokafka creates no instance; kafka-python 3 does.
        self._bound(None)

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> bytes:
        """Return the consumer's subscription for the JoinGroup request, as the bytes that a Java
        consumer sends.

        Raises:
            AssignorError: the strategy raised a moment ago. aiokafka joins again at once after
                an error, so without this pause the group would rebalance in a loop.
        """
        call = cls._bound(caller(CoordinatorGroupRebalance))
        state = cls._state
        generation = None if call is None else int(call.owner._coordinator.generation)
        pause = state.pause()
        if pause > 0:
            why = TimeoutError(f"joins again in {pause:.1f} s")
            group = "?" if call is None else call.owner.group_id
            raise AssignorError(state.name, group, state.failed_in, why)
        return state.consumer.subscription(
            sorted(topics), generation=generation, measured=state.measured()
        )

    @classmethod
    def assign(cls, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the assignment of all members of the group, as its leader; return a dict from
        member id to assignment.

        Raises:
            AssignorError: the strategy raised; the error has the strategy, group and generation.
        """
        call = cls._bound(caller(GroupCoordinator))
        if call is None:
            received: Mapping[str, Any] = {}
            of = ("?", NO_GENERATION)
        else:
            received, of = call.local, (call.owner.group_id, int(call.owner.generation))
        return cls._state.sent(
            _joined(members, received), partial(_view, cls._state, cluster), of, AssignorError
        )

    @classmethod
    def on_assignment(cls, assignment: Any) -> None:
        """Store the partitions that the group leader assigned to this consumer, for its next
        subscription.

        They keep the order in which they were received.
        """
        call = cls._bound(caller(GroupCoordinator))
        generation = NO_GENERATION if call is None else int(call.local["generation"])
        group = "?" if call is None else str(call.owner.group_id)
        pairs = [(topic, p) for topic, numbers in assignment.assignment for p in numbers]
        cls._state.received(pairs, assignment.user_data, generation, group)
        if cls._state.sampler is not None and call is not None:
            cls._state.sampler.watch(_offsets_of(weakref.ref(call.owner._subscription)))

    @classmethod
    def _bound(cls, call: Call | None) -> Call | None:
        # No other consumer may use the class.
        if call is not None:
            owner = getattr(call.owner, "_coordinator", call.owner)
            try:
                cls._state.belongs_to(owner)
            except InvalidConfigError as e:
                raise ClassInUseError(e.setting, e.what, e.value) from None
        elif called_by("kafka"):
            what = "is made for aiokafka: take assignor from partage.clients.kafka_python"
            raise InvalidConfigError(SETTING, what, cls)
        return call


def _joined(members: Mapping[str, Any], received: Mapping[str, Any]) -> list[Joined]:
    # In the order of JoinGroup's response.
    response = received.get("response")
    if response is None:
        return [
            Joined(i, ConsumerSubscription(tuple(one.subscription), one.user_data))
            for i, one in members.items()
        ]
    # Up to version 4 of JoinGroup: (id, bytes); from 5 on: (id, instance id, bytes).
    rows = [tuple(one) for one in response.members]
    return [Joined(r[0], bytes(r[-1]), r[1] if len(r) > 2 else None) for r in rows]


def _view(state: AssignorState, cluster: Any, topics: Iterable[str]) -> ClusterView:
    racks = {int(one.nodeId): one.rack for one in cluster.brokers()}
    return state.view_of(cluster, topics, lambda row: getattr(row, "replicas", ()), racks)


def _offsets_of(subscription: weakref.ref[Any]) -> Any:
    # The function must hold no reference to the consumer.
    def read() -> Offsets | None:
        state = subscription()
        if state is None:
            return None
        now = state.subscription
        assigned = None if now is None else now.assignment
        positions: dict[tuple[str, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        if assigned is None:
            return positions, ends
        for one in list(assigned.tps):
            mine = assigned.state_value(one)
            if mine is None or not mine.has_valid_position:
                continue
            positions[one.topic, one.partition] = int(mine.position)
            if mine.highwater is not None:
                ends[one.topic, one.partition] = int(mine.highwater)
        return positions, ends

    return read
