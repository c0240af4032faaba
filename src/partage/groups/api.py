"""The interface of a strategy (partition assignor), and the base class of most strategies.

A strategy is a value without state. What a Java assignor instance would remember between rebalances
is passed as ``memory``: into `Strategy.assign` and out as ``plan.memory``, into
`Strategy.on_assignment` and out as its result. The same holds for settings: `configure` returns a
new, configured strategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol, runtime_checkable

from partage.model import Assignment, Plan, Problem

__all__ = ["PlainStrategy", "RebalanceProtocol", "Setting", "Strategy"]


class RebalanceProtocol(IntEnum):
    """Protocol by which members revoke partitions in a rebalance: Kafka's enum RebalanceProtocol.

    The values are Kafka's ids.
    """

    EAGER = 0
    COOPERATIVE = 1


class Setting(NamedTuple):
    """Configuration setting of an assignment strategy, as `partage strategies` lists it.

    Attributes:
        key: as in a configuration; ``.<topic>`` at the end stands for the name of a topic.
        default: the value if it is not set, as text.
        meaning: what the setting does, in one line.
        scope: ``leader`` if the leader's value counts, ``member`` if each member sends its own with
            its subscription.

    >>> Setting("acme.limit", "10", "most partitions of a member").key
    'acme.limit'
    """

    key: str
    default: str
    meaning: str
    scope: str = "leader"


@runtime_checkable
class Strategy(Protocol):
    """Interface of all partition assignors: built-in ones and plug-ins of other packages.

    Attributes:
        name: the protocol name, as members list it when they join (such as "range").
        version: version of the member's metadata (Kafka's ``ConsumerPartitionAssignor.version``).
        algorithm: version of the algorithm; it changes when the plan for some input changes.
        exact_to: the Java class (or other client's function) and release whose plans it reproduces
            exactly, or None if there is none.
        protocols: supported rebalance protocols, preferred one first.
        aliases: other names that `registry.find` accepts (Java class names).

    A strategy with settings may list them as ``options``, a tuple of `Setting`; a key that ends in
    ``.<topic>`` stands for one setting for each topic. ``options`` is not required.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see Attributes
    @property
    def version(self) -> int: ...  # noqa: D102 - see Attributes
    @property
    def algorithm(self) -> str: ...  # noqa: D102 - see Attributes
    @property
    def exact_to(self) -> str | None: ...  # noqa: D102 - see Attributes
    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]: ...  # noqa: D102 - see Attributes
    @property
    def aliases(self) -> tuple[str, ...]: ...  # noqa: D102 - see Attributes

    def configure(self, config: Mapping[str, object]) -> Strategy:
        """Return a copy of the assignor with the settings of a client's configuration (name to
        value).

        Settings of other strategies are ignored, as in Kafka.

        Raises:
            InvalidConfigError: one of its own settings has a wrong type or value.
        """
        ...

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes | None:
        """Return the user data that a consumer sends with its subscription in JoinGroup, None to
        send none.

        ``topics`` are the subscribed topics. ``memory`` is the state that `on_assignment` returned
        after the consumer's last rebalance, None before the first one.
        """
        ...

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign the partitions of all subscribed topics to the members, as the consumer group's
        leader.

        The plan has an entry for every member. ``memory`` is the state that the leader's
        `on_assignment` returned, None before the first one.

        Raises:
            UnsupportedProblemError: the strategy is not applicable; the reproduced class fails,
                too.
        """
        ...

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> object:
        """Return the state that a consumer stores until the next rebalance, after it got its
        assignment.

        It is passed as ``memory`` to `subscription_user_data` and to the next call. Most strategies
        store nothing.
        """
        ...


class PlainStrategy:
    """Base class of assignors without settings, without user data and without state of members.

    Its defaults are those of Kafka's ``ConsumerPartitionAssignor`` interface.

    >>> PlainStrategy().configure({"client.id": "c1"}).subscription_user_data(["t"]) is None
    True
    """

    name: str = ""
    version: int = 0
    algorithm: str = "1"
    exact_to: str | None = None
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
    aliases: tuple[str, ...] = ()
    options: tuple[Setting, ...] = ()
    #: Whether the broker runs the strategy: it knows the previous owners itself.
    in_broker: bool = False
    #: Whether the plan depends on claims, their generations or user data.
    reads_claims: bool = True
    #: Whether it depends on the generations of members that send neither claims nor user data.
    reads_generation: bool = True

    def __repr__(self) -> str:
        return f"<strategy {self.name}>"

    def configure(self, config: Mapping[str, object]) -> PlainStrategy:
        """Return the assignor itself, since it has no settings."""
        return self

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes | None:
        """Return None, because consumers with this assignor send no user data with their
        subscription.
        """
        return None

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> object:
        """Return None, because consumers with this assignor store nothing between rebalances."""
        return None
