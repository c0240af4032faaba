"""What most strategies have in common: no settings, no user data, nothing to remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from partage.groups.api import RebalanceProtocol, Setting
from partage.model import Assignment

__all__ = ["PlainStrategy"]


class PlainStrategy:
    """The defaults of Kafka's ``ConsumerPartitionAssignor``; ``name``, ``assign`` are to be added.

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
    #: Whether the broker decides, who knows what members have: nobody has to tell it.
    in_broker: bool = False

    def __repr__(self) -> str:
        return f"<strategy {self.name}>"

    def configure(self, config: Mapping[str, object]) -> PlainStrategy:
        """Itself: it has no settings, and ignores those of others."""
        return self

    def subscription_user_data(
        self,
        topics: Sequence[str],
        memory: object = None,
    ) -> bytes | None:
        """Nothing is sent along with a subscription."""
        return None

    def on_assignment(
        self,
        assignment: Assignment,
        user_data: bytes | None,
        generation: int,
        memory: object = None,
    ) -> object:
        """Nothing is remembered."""
        return None
