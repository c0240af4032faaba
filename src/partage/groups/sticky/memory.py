"""What an instance of a sticky assignor remembers from one rebalance to the next."""

from __future__ import annotations

from dataclasses import dataclass

from partage.errors import InvalidConfigError
from partage.model import NO_GENERATION

__all__ = ["StickyMemory"]


@dataclass(frozen=True, slots=True)
class StickyMemory:
    """State of a Java assignor object, as a value.

    Attributes:
        max_generation: the highest generation that any claim had in any call of ``assign``;
            it never falls, so the instance that leads judges later, younger groups by it (Q6).
        partitions: what the member itself was given last (sticky only), in order.
        generation: when; None before the first assignment.

    >>> StickyMemory.of(None)
    StickyMemory(max_generation=-1, partitions=(), generation=None)
    """

    max_generation: int = NO_GENERATION
    partitions: tuple[tuple[str, int], ...] = ()
    generation: int | None = None

    @classmethod
    def of(cls, memory: object) -> StickyMemory:
        """The memory handed in, a new one for None.

        Raises:
            InvalidConfigError: it is another strategy's.
        """
        if memory is None:
            return cls()
        if not isinstance(memory, cls):
            raise InvalidConfigError("memory", "must be what a sticky strategy gave out", memory)
        return memory
