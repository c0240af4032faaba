"""The registry of task assignors, which assign tasks to the clients of a Streams application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import NamedTuple, Protocol, runtime_checkable

from partage.errors import UnknownStrategyError
from partage.streams.high_availability import HighAvailability
from partage.streams.kip1071_sticky import SERVER_ASSIGNORS, ServerSticky
from partage.streams.problem import TaskPlan, TaskProblem
from partage.streams.sticky import (
    FallbackPrior,
    LegacySticky,
    PublicSticky,
    PublicSticky44,
    PublicStickyPreserving,
    PublicStickyPreserving44,
)

__all__ = [
    "EARLY_RELEASES", "KIP_441_DOCUMENT", "LEADER_NAMES", "Kip441Proposal", "TaskAssignor",
    "TaskRow", "describe_task_assignors", "find_assignor", "find_task_assignors",
]  # fmt: skip


class TaskAssignor(Protocol):
    """Interface of a Kafka Streams task assignor.

    In each rebalance, it assigns the tasks of an application to its instances (clients).

    Attributes:
        name: begins with ``streams:``.
        exact_to: class and release that it reproduces, None if there is none.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see Attributes
    @property
    def exact_to(self) -> str | None: ...  # noqa: D102 - see Attributes

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """Assign the tasks of a Kafka Streams application to its instances (clients).

        ``problem`` has the clients with their previous tasks, all tasks, and the settings.
        """


@runtime_checkable
class Kip441Proposal(TaskAssignor, Protocol):
    """Interface of a Kafka Streams task assignor that decides itself when to rebalance (KIP-441).

    It requests a rebalance only when that improves balance, as the document of KIP-441 proposes.
    Kafka instead starts probing rebalances at fixed intervals.
    """

    def check(self, problem: TaskProblem, active: Sequence[int]) -> bool:
        """Return whether a rebalance now would improve the assignment of Kafka Streams tasks.

        It would if clients have restored the state of tasks in the meantime.

        Args:
            problem: clients and tasks, with the current lags.
            active: the client that runs each task of ``problem.stateful``, in that order.
        """

    def with_balance_factor(self, balance_factor: int) -> TaskAssignor:
        """Return a copy of this Kafka Streams task assignor with another balance factor (KIP-441).

        Args:
            balance_factor: largest difference between clients' loads that counts as balanced.
        """


class TaskRow(NamedTuple):
    """Row of the table of Kafka Streams task assignors that ``partage strategies`` prints.

    It names the Java class and release whose results the assignor reproduces.

    Attributes:
        name: the assignor's name.
        summary: first line of its documentation.
        exact_to: class and release that it reproduces, None if there is none.
        doc: the documentation of its class.
    """

    name: str
    summary: str
    exact_to: str | None
    doc: str


#: Names of the class with which the leader of a classic Streams group assigns.
LEADER_NAMES = (
    "StreamsPartitionAssignor",
    "org.apache.kafka.streams.processor.internals.StreamsPartitionAssignor",
)

#: Name of the assignor of KIP-441's document.
KIP_441_DOCUMENT = "streams:kip-441-document"

#: Names of the assignors of releases before 2.4. Their members revoke all tasks before a
#: rebalance, and they do not read lags.
EARLY_RELEASES = frozenset({"streams:0.10.2", "streams:0.11"})

_MAIN_LINE: tuple[Callable[[], TaskAssignor], ...] = (
    HighAvailability,
    LegacySticky,
    FallbackPrior,
    PublicSticky,
    PublicStickyPreserving,
)
#: Assignors of 4.4 whose class has the same name as one of 4.3: only their own names find them.
_NEXT_RELEASE: tuple[TaskAssignor, ...] = (PublicSticky44(), PublicStickyPreserving44())
# Named by string, because no module imports `partage.legacy`.
_LEGACY = (
    "partage.legacy.kip441_document:Kip441Document",
    "partage.legacy.streams_0_x:Release011",
    "partage.legacy.streams_0_x:Release0102",
)


@cache
def _legacy_classes() -> tuple[Callable[[], TaskAssignor], ...]:
    names = [entry.partition(":") for entry in _LEGACY]
    return tuple(getattr(import_module(module), attribute) for module, _, attribute in names)


def find_task_assignors() -> dict[str, TaskAssignor]:
    """Return the task assignors for classic Kafka Streams groups, as a dict from name to assignor.

    Kafka's default is first. Assignors of a later release, such as ``streams:sticky@4.4``, are left
    out. So are the group coordinator's (`partage.streams.kip1071_sticky.SERVER_ASSIGNORS`), whose
    input is a list of members instead of clients.

    >>> list(find_task_assignors())[:2]
    ['streams:high-availability', 'streams:legacy-sticky']
    """
    instances = [make() for make in (*_MAIN_LINE, *_legacy_classes())]
    return {one.name: one for one in instances}


def find_assignor(name: str) -> TaskAssignor:
    """Find the Kafka Streams task assignor with this name or Java class name.

    The prefix ``streams:`` of a name may be left out. The class name ``StreamsPartitionAssignor``
    stands for Kafka's default, high availability.

    Raises:
        UnknownStrategyError: no assignor has this name.

    >>> find_assignor("high-availability").name
    'streams:high-availability'
    """
    known = find_task_assignors()
    for one in known.values():
        classes = [] if one.exact_to is None else [one.exact_to.split()[0]]
        if name in {one.name, one.name.removeprefix("streams:"), *classes}:
            return one
    if name in LEADER_NAMES:
        return known[HighAvailability.name]
    for one in _NEXT_RELEASE:
        if name in {one.name, one.name.removeprefix("streams:")}:
            return one
    names = [*known, *(one.name for one in _NEXT_RELEASE)]
    raise UnknownStrategyError(name, known=names, close=get_close_matches(name, names, n=2))


def describe_task_assignors() -> list[TaskRow]:
    """Return the table of Kafka Streams task assignors that ``partage strategies`` prints.

    The command ``partage strategies`` prints them.

    >>> [row.name for row in describe_task_assignors()[-2:]]
    ['streams:server-sticky', 'streams:server-sticky@4.3']
    """
    every: list[TaskAssignor | ServerSticky] = [
        *find_task_assignors().values(), *_NEXT_RELEASE, *SERVER_ASSIGNORS,
    ]  # fmt: skip
    docs = [cleandoc(type(one).__doc__ or "") for one in every]
    return [
        TaskRow(one.name, doc.partition("\n")[0], one.exact_to, doc)
        for one, doc in zip(every, docs, strict=True)
    ]
