"""Our strategies as assignors of aiokafka (0.10 to 0.14).

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

from partage.clients.caller import Call, caller
from partage.clients.misuse import SETTING, AssignorMeta, called_by, factory
from partage.clients.plugged import Plugged, plugged, view_of
from partage.clients.sampling import Offsets
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
    """`AssignorFailedError` that aiokafka raises where records are awaited."""


class MisusedAssignorError(InvalidConfigError, KafkaError):  # type: ignore[misc]  # untyped
    """A wrong ``partition_assignment_strategy``, raised where records are awaited."""


class ClassInUseError(MisusedAssignorError):
    """One class in two consumers, raised where records are awaited."""


@factory(MisusedAssignorError)
def assignor(
    name: str, *, rack: str | None = None, eager: bool = False, **options: Any
) -> type[Assignor]:
    """Return a class for ``partition_assignment_strategy``: a strategy, for one consumer.

    Every call makes a fresh class, since aiokafka calls methods of the class itself: what is
    remembered between rebalances is kept there. A class serves one consumer; the second one
    that uses it is refused (`partage.clients.caller` says how that is known).

    Args:
        name: of a strategy, as in ``pg.strategies()``.
        rack: of this consumer, what Java calls ``client.rack``.
        eager: for cooperative strategies: aiokafka gives everything up before it joins, but
            can sit in a group of cooperative members all the same.
        options: the strategy's settings by the end of their key: ``priority=10``,
            ``preemption=False``, ``max_moves=3``. For `optimal`, ``weights`` may be
            "throughput" or "lag", measured by each member, or a function without arguments
            that answers loads by (topic, partition) at once.

    Raises:
        UnknownStrategyError: there is no such strategy.
        InvalidConfigError: it has no such option, a value is wrong, or aiokafka cannot do
            what the strategy needs.
    """
    state = plugged(name, client="aiokafka", cooperative=False, rack=rack, eager=eager, **options)
    return type(f"Assignor[{name}]", (Assignor,), {"name": state.name, "_state": state})


class _Meta(AssignorMeta):
    """The metaclass whose errors aiokafka passes on."""

    misuse = MisusedAssignorError


class Assignor(AbstractPartitionAssignor, metaclass=_Meta):  # type: ignore[misc]  # untyped
    """The base of `assignor`'s classes; aiokafka calls the class, on its event loop."""

    name: str = ""
    _state: ClassVar[Plugged]

    def __init__(self) -> None:
        # aiokafka makes no instances; kafka-python 3 does.
        self._bound(None)

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> bytes:
        """What this member joins with, as bytes: what Java's consumer would send.

        Raises:
            AssignorError: the strategy raised a moment ago: not yet again. aiokafka joins
                as soon as this error was looked at, and the group would spin.
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
        """The leader's decision: each member's assignment as bytes.

        Raises:
            AssignorError: the strategy raised; names it, the group and the generation.
        """
        call = cls._bound(caller(GroupCoordinator))
        if call is None:
            received: Mapping[str, Any] = {}
            of = ("?", NO_GENERATION)
        else:
            received, of = call.local, (call.owner.group_id, int(call.owner.generation))
        return cls._state.sent(
            _joined(members, received), partial(_view, cluster), of, AssignorError
        )

    @classmethod
    def on_assignment(cls, assignment: Any) -> None:
        """Take this member's assignment, in its order."""
        call = cls._bound(caller(GroupCoordinator))
        generation = NO_GENERATION if call is None else int(call.local["generation"])
        group = "?" if call is None else str(call.owner.group_id)
        pairs = [(topic, p) for topic, numbers in assignment.assignment for p in numbers]
        cls._state.received(pairs, assignment.user_data, generation, group)
        if cls._state.sampler is not None and call is not None:
            cls._state.sampler.watch(_offsets_of(weakref.ref(call.owner._subscription)))

    @classmethod
    def _bound(cls, call: Call | None) -> Call | None:
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
    """Members in the order of the coordinator's answer, with all that they sent."""
    response = received.get("response")
    if response is None:
        return [
            Joined(i, ConsumerSubscription(tuple(one.subscription), one.user_data))
            for i, one in members.items()
        ]
    # Up to version 4 of JoinGroup: (id, bytes); from 5 on: (id, instance id, bytes).
    rows = [tuple(one) for one in response.members]
    return [Joined(r[0], bytes(r[-1]), r[1] if len(r) > 2 else None) for r in rows]


def _view(cluster: Any, topics: Iterable[str]) -> ClusterView:
    racks = {int(one.nodeId): one.rack for one in cluster.brokers()}
    return view_of(cluster, topics, lambda row: getattr(row, "replicas", ()), racks)


def _offsets_of(subscription: weakref.ref[Any]) -> Any:
    """A reader of a consumer's positions that does not keep it alive."""

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
