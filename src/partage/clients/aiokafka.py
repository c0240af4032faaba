"""Strategies of Partage as assignors of aiokafka (0.10 to 0.14).

from aiokafka import AIOKafkaConsumer
from partage.clients.aiokafka import assignor

AIOKafkaConsumer("orders", group_id="billing",
                 partition_assignment_strategy=[assignor("sticky")])
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from inspect import iscoroutinefunction
from types import MethodType
from typing import Any, ClassVar, NamedTuple

from partage.clients.assignor_class_state import AssignorState, create_state
from partage.clients.calling_client import (
    SETTING,
    AssignorMeta,
    Call,
    called_by,
    find_caller,
    reject_uncalled,
)
from partage.clients.load_sampling import Offsets
from partage.clients.shared import ClusterView, Joined
from partage.errors import AssignorFailedError, InvalidConfigError, MissingExtraError
from partage.model import NO_GENERATION
from partage.wire.columns.subscriptions import distinct_subscriptions
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
    """Error that aiokafka passes to the program if a partition assignment strategy failed.

    It names the strategy, the group and its generation.
    """


class MisusedAssignorError(InvalidConfigError, KafkaError):  # type: ignore[misc]  # untyped
    """Error that aiokafka passes to the program if ``partition_assignment_strategy`` is invalid.

    For example, ``assignor`` was passed instead of ``[assignor("sticky")]``.
    """


class ClassInUseError(MisusedAssignorError):
    """Error that aiokafka passes to the program if two consumers share one assignor class.

    Call ``assignor`` once for each consumer.
    """


@reject_uncalled(MisusedAssignorError)
def assignor(
    name: str, *, rack: str | None = None, eager: bool = False, **options: Any
) -> type[Assignor]:
    """Create a partition assignor class for one aiokafka consumer, from the name of a strategy.

    Pass it as ``partition_assignment_strategy=[assignor("sticky")]``. Each consumer needs a class
    of its own: aiokafka never creates an instance, so the class holds the state between rebalances.
    A second consumer that uses the class gets an error.

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
    state = create_state(
        name, client="aiokafka", cooperative=False, rack=rack, eager=eager, **options
    )
    return type(f"Assignor[{name}]", (Assignor,), {"name": state.strategy_name, "_state": state})


class _Meta(AssignorMeta):
    """Metaclass of the assignor classes for aiokafka, which raises an error if they are misused."""

    misuse = MisusedAssignorError


class Assignor(AbstractPartitionAssignor, metaclass=_Meta):  # type: ignore[misc]  # untyped
    """Base class of the partition assignor classes that aiokafka calls.

    aiokafka calls its class methods on the event loop. The plan itself is computed in a thread.
    """

    name: str = ""
    _state: ClassVar[AssignorState]

    def __init__(self) -> None:
        # aiokafka creates no instance; kafka-python 3 does.
        self._bound(None)

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> bytes:
        """Return the subscription in an aiokafka consumer's JoinGroup request, as bytes.

        ``topics`` are the subscribed topics.

        Raises:
            AssignorError: the strategy failed a moment ago. aiokafka joins again at once after an
                error; this one delays it, so that the group does not rebalance in a loop.
        """
        call = cls._bound(find_caller(CoordinatorGroupRebalance))
        state = cls._state
        if call is not None:
            _await_plans(call.owner._coordinator)
        generation = None if call is None else int(call.owner._coordinator.generation)
        pause = state.rejoin_delay()
        if pause > 0:
            why = TimeoutError(f"joins again in {pause:.1f} s")
            group = "?" if call is None else call.owner.group_id
            raise AssignorError(state.strategy_name, group, state.failed_in, why)
        return state.consumer.subscription(
            sorted(topics), generation=generation, measured=state.measured_loads()
        )

    @classmethod
    def assign(cls, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
        """Assign partitions to all members of the group, as the group leader.

        aiokafka calls it after the JoinGroup response. The result is a dict from member id to
        assignment. If the coordinator can await plans, the values are placeholders at first: a
        thread computes the plan, so that the event loop can send heartbeats meanwhile.

        Args:
            cluster: aiokafka's metadata of the cluster.
            members: dict from member id to the member's subscription.

        Raises:
            AssignorError: the strategy raised; the error has the strategy, group and generation.
        """
        call = cls._bound(find_caller(GroupCoordinator))
        if call is None:
            received: Mapping[str, Any] = {}
            of = ("?", NO_GENERATION)
        else:
            received, of = call.local, (call.owner.group_id, int(call.owner.generation))
        # aiokafka replaces the tables of its metadata, so a shallow copy does not change.
        read_metadata = partial(_view, cls._state, copy(cluster))
        # The user's function may belong to the event loop, so it is not called in the thread.
        loads = cls._state.call_load_function(of[0])
        plan = partial(
            cls._state.assign_and_encode,
            _joined(members, received), read_metadata, of, loads, AssignorError,
        )  # fmt: skip
        if call is None or not _awaits_plans(call.owner):
            return plan()
        pending = _PendingPlan(_run_in_thread(plan))
        return dict.fromkeys(members, pending)

    @classmethod
    def on_assignment(cls, assignment: Any) -> None:
        """Store the partitions that the aiokafka consumer was assigned.

        aiokafka calls it after each rebalance. The consumer's next subscription reports these
        partitions as owned.
        """
        call = cls._bound(find_caller(GroupCoordinator))
        generation = NO_GENERATION if call is None else int(call.local["generation"])
        group = "?" if call is None else str(call.owner.group_id)
        pairs = [(topic, p) for topic, numbers in assignment.assignment for p in numbers]
        cls._state.store_assignment(pairs, assignment.user_data, generation, group)
        if cls._state.sampler is not None and call is not None:
            cls._state.sampler.start_sampling(_offsets_of(weakref.ref(call.owner._subscription)))

    @classmethod
    def _bound(cls, call: Call | None) -> Call | None:
        # No other consumer may use the class.
        if call is not None:
            owner = getattr(call.owner, "_coordinator", call.owner)
            try:
                cls._state.bind_to(owner)
            except InvalidConfigError as e:
                raise ClassInUseError(e.setting, e.what, e.value) from None
        elif called_by("kafka"):
            what = "is made for aiokafka: take assignor from partage.clients.kafka_python"
            raise InvalidConfigError(SETTING, what, cls)
        return call


class _PendingPlan(NamedTuple):
    """Placeholder for each member's assignment while a thread computes the group's assignments."""

    assignments: asyncio.Future[dict[str, Any]]


def _await_plans(coordinator: Any) -> None:
    """Make a consumer's group coordinator wait for assignments that a thread computes.

    aiokafka expects `Assignor.assign` to return them at once. The method of aiokafka that calls it
    is a coroutine, and is replaced on this coordinator by one that awaits the result. A coordinator
    of another form stays unchanged.
    """
    if not _awaits_plans(coordinator) and iscoroutinefunction(coordinator._perform_assignment):
        coordinator._perform_assignment = MethodType(_perform_assignment, coordinator)


def _awaits_plans(coordinator: Any) -> bool:
    method = vars(coordinator).get("_perform_assignment")
    return getattr(method, "__func__", None) is _perform_assignment


async def _perform_assignment(coordinator: Any, response: Any) -> Any:
    """Compute the assignments of all group members as aiokafka's coordinator does, and return them.

    If a thread computes them, the result is awaited.
    """
    perform = type(coordinator)._perform_assignment
    fewer = _fewer_members(coordinator, response)
    sent = await perform(coordinator, fewer)
    pending = next(iter(sent.values()), None)
    if not isinstance(pending, _PendingPlan):
        return sent if fewer is response else await perform(coordinator, response)
    # Meanwhile the answer to an OffsetCommit of the last generation may reset both ids, but
    # SyncGroup needs those of the JoinGroup response.
    generation, member_id = coordinator.generation, coordinator.member_id
    snapshot = coordinator._metadata_snapshot
    assignments = await pending.assignments
    coordinator.generation, coordinator.member_id = generation, member_id
    if coordinator._metadata_snapshot != snapshot:
        # aiokafka drops requests to rejoin when it sends SyncGroup, which follows at once.
        asyncio.get_running_loop().call_soon(coordinator.request_rejoin)
    return assignments


def _fewer_members(coordinator: Any, response: Any) -> Any:
    """Return a copy of a JoinGroup response with only one member for each distinct subscription.

    aiokafka decodes all subscriptions on the event loop, but needs only their topics. `_joined`
    reads all members from the attribute ``whole``. For another library's assignor the response is
    returned unchanged.
    """
    assignor = coordinator._lookup_assignor(response.group_protocol)
    if not (isinstance(assignor, type) and issubclass(assignor, Assignor)):
        return response
    members = list(response.members)
    # aiokafka 0.10 looks at the class of the response.
    fewer = copy(response)
    sent = [bytes(tuple(one)[-1]) for one in members]
    fewer.members = [members[i] for i in distinct_subscriptions(sent)]
    fewer.whole = response
    return fewer


def _run_in_thread(plan: Callable[[], dict[str, Any]]) -> asyncio.Future[dict[str, Any]]:
    # The loop's default executor may be full of the program's own work.
    executor = ThreadPoolExecutor(1, thread_name_prefix="partage-plan")
    try:
        return asyncio.get_running_loop().run_in_executor(executor, plan)
    finally:
        executor.shutdown(wait=False)


def _joined(members: Mapping[str, Any], received: Mapping[str, Any]) -> list[Joined]:
    # In the order of JoinGroup's response.
    response = received.get("response")
    if response is None:
        return [
            Joined(i, ConsumerSubscription(tuple(one.subscription), one.user_data))
            for i, one in members.items()
        ]
    # Up to version 4 of JoinGroup: (id, bytes); from 5 on: (id, instance id, bytes).
    rows = [tuple(one) for one in getattr(response, "whole", response).members]
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
