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
    """Protocol that decides when the members of a group revoke partitions in a rebalance.

    With EAGER, members revoke all partitions before they join. With COOPERATIVE, they only revoke
    partitions that move, and a follow-up rebalance assigns these. Names and values are those of
    Kafka's enum ``RebalanceProtocol``.
    """

    EAGER = 0
    COOPERATIVE = 1


class Setting(NamedTuple):
    """Configuration setting of an assignment strategy.

    A strategy lists its settings in the attribute ``options``, and `partage strategies` prints
    them.

    Attributes:
        key: name in a configuration; ``.<topic>`` at the end stands for a topic name.
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
    """Interface that all partition assignors implement: built-in ones and plug-ins.

    A strategy has no state of its own; what a consumer remembers is passed as ``memory``.

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
        """Return a copy of the assignor with the settings of a client's configuration.

        Settings of other assignors are ignored, as in Kafka. Most assignors have no settings.

        Args:
            config: values by setting name.

        Raises:
            InvalidConfigError: one of the assignor's own settings has a wrong type or value.
        """
        ...

    def subscription_user_data(self, topics: Sequence[str], memory: object = None) -> bytes | None:
        """Return the user data that a consumer sends when it joins its group.

        Kafka's sticky assignor, for example, sends the partitions that the consumer owns. None
        means that the consumer sends no user data.

        Args:
            topics: the subscribed topics.
            memory: the state that `on_assignment` returned after the last rebalance, if any.
        """
        ...

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign the partitions of all subscribed topics to the members of a consumer group.

        The plan has an entry for every member.

        Args:
            problem: the consumer group and the cluster.
            memory: the state that the leader's `on_assignment` returned last time, if any.

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
        """Return the state that a consumer stores after a rebalance, until the next one.

        It is passed as ``memory`` to the other methods, because assignors themselves have no state.
        Most assignors store nothing.

        Args:
            assignment: the partitions that the consumer got.
            user_data: bytes that the leader sent with the assignment, if any.
            generation: the group's generation.
            memory: the state stored so far.
        """
        ...


class PlainStrategy:
    """Base class of assignors that have no settings, send no user data and store no state.

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
    #: Whether `on_assignment` reads the assigned partitions.
    reads_assignment: bool = True
    #: Whether members send their last assignment and its generation as user data.
    sends_assignment: bool = False
    #: Whether instance ids have no other effect than to sort members: static ones come first, by
    #: instance id, then the others by member id. If each instance id equals the member id, static
    #: members then get the same plan as dynamic ones.
    instance_ids_only_sort: bool = False

    def __repr__(self) -> str:
        return f"<strategy {self.name}>"

    def configure(self, config: Mapping[str, object]) -> PlainStrategy:
        """Return the assignor itself, since it has no settings.

        ``config`` is a client's configuration, which has no effect.
        """
        return self

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes | None:
        """Return None, because consumers with this assignor send no user data when they join.

        Assignors that need user data override this method. The arguments are those of
        `Strategy.subscription_user_data`.
        """
        return None

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> object:
        """Return None, because consumers with this assignor store nothing between rebalances.

        Assignors with state override this method. The arguments are those of
        `Strategy.on_assignment`.
        """
        return None
