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
        exact_to: the class and release whose plans it reproduces, or None if there is none.
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
        """Return the strategy with its settings from a configuration.

        Settings of other strategies are ignored, as in Kafka.

        Raises:
            InvalidConfigError: one of its own settings has a wrong type or value.
        """
        ...

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes | None:
        """Return the user data that a member sends with its subscription, None to send none."""
        ...

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Return the group leader's plan, with an entry for every member.

        Raises:
            UnsupportedProblemError: the strategy is not applicable; its class throws, too.
        """
        ...

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> object:
        """Return what a member remembers of its assignment until it rejoins.

        The result is the ``memory`` that `subscription_user_data` and the next call get.
        """
        ...


class PlainStrategy:
    """Base class of assignors with the defaults of Kafka's ``ConsumerPartitionAssignor`` interface.

    Its instances have no settings and send no user data, and members remember nothing.

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
        """Return the strategy itself, since it has no settings."""
        return self

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes | None:
        """Return None: members of this strategy send no user data."""
        return None

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> object:
        """Return None: members of this strategy remember nothing of their assignment."""
        return None
