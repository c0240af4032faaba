"""Task assignors by name. They assign tasks to clients, so they are no strategies of groups."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from inspect import cleandoc
from typing import NamedTuple, Protocol

from partage.errors import UnknownStrategyError
from partage.streams.fallback_prior import FallbackPrior
from partage.streams.high_availability import HighAvailability
from partage.streams.kip441_document import Kip441Document
from partage.streams.kip1071_sticky import ServerSticky
from partage.streams.legacy_sticky import LegacySticky
from partage.streams.plan import TaskPlan
from partage.streams.problem import TaskProblem
from partage.streams.public_sticky import PublicSticky, PublicStickyPreserving
from partage.streams.release_0_10_2 import Release0102
from partage.streams.release_0_11 import Release011

__all__ = ["LEADER_NAMES", "TaskAssignor", "TaskRow", "assignors", "describe", "find_assignor"]


class TaskAssignor(Protocol):
    """What every task assignor offers.

    Attributes:
        name: begins with ``streams:``.
        exact_to: class and release that it equals, or None where it is nobody's twin.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see Attributes
    @property
    def exact_to(self) -> str | None: ...  # noqa: D102 - see Attributes

    def assign(self, problem: TaskProblem) -> TaskPlan:
        """The plan for a problem."""


class TaskRow(NamedTuple):
    """A task assignor as tables show it.

    Attributes:
        name: as it is asked for.
        summary: one line.
        exact_to: the class and release that it equals, None for nobody's twin.
        doc: all that its class says of itself.
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

_ALL: tuple[Callable[[], TaskAssignor], ...] = (
    HighAvailability,
    LegacySticky,
    FallbackPrior,
    PublicSticky,
    PublicStickyPreserving,
    Kip441Document,
    Release011,
    Release0102,
)


def assignors() -> dict[str, TaskAssignor]:
    """Every task assignor of classic Kafka Streams groups, by name, the default first.

    The coordinator's (`partage.streams.kip1071_sticky.ServerSticky`) takes another problem:
    members instead of clients, sub-topologies by text.

    >>> list(assignors())[:2]
    ['streams:high-availability', 'streams:legacy-sticky']
    """
    made = [one() for one in _ALL]
    return {one.name: one for one in made}


def find_assignor(name: str) -> TaskAssignor:
    """Return the assignor of a name, with or without ``streams:``, or of a Java class.

    ``StreamsPartitionAssignor``, the leader's own class, asks its default: high availability.

    Raises:
        UnknownStrategyError: there is none.

    >>> find_assignor("high-availability").name
    'streams:high-availability'
    """
    known = assignors()
    for one in known.values():
        classes = [] if one.exact_to is None else [one.exact_to.split()[0]]
        if name in {one.name, one.name.removeprefix("streams:"), *classes}:
            return one
    if name in LEADER_NAMES:
        return known[HighAvailability.name]
    close = get_close_matches(name, known, n=2)
    raise UnknownStrategyError(name, known=list(known), close=close)


def describe() -> list[TaskRow]:
    """One row a task assignor, the coordinator's at the end.

    >>> describe()[-1].name
    'streams:server-sticky'
    """
    every: list[TaskAssignor | ServerSticky] = [*assignors().values(), ServerSticky()]
    docs = [cleandoc(type(one).__doc__ or "") for one in every]
    return [
        TaskRow(one.name, doc.partition("\n")[0], one.exact_to, doc)
        for one, doc in zip(every, docs, strict=True)
    ]
