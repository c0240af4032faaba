"""Base class of most strategies: no settings, no user data, no memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partage.groups.api import RebalanceProtocol, Setting
from partage.model import Assignment

__all__ = ["PlainStrategy"]


class PlainStrategy:
    """Defaults of Kafka's ``ConsumerPartitionAssignor``; subclasses add ``name``, ``assign``.

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

    def __repr__(self) -> str:
        return f"<strategy {self.name}>"

    def configure(self, config: Mapping[str, object]) -> PlainStrategy:
        """Return the strategy itself; it has no settings and ignores all others."""
        return self

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes | None:
        """Return None: members send no user data."""
        return None

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> object:
        """Return None: members remember nothing."""
        return None
