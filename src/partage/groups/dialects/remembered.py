"""What a Python client's sticky assignor remembers of its own last assignment."""

from __future__ import annotations

from dataclasses import dataclass

from partage.errors import InvalidConfigError
from partage.model import NO_GENERATION, Assignment

__all__ = ["Remembered"]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A member's last assignment, in order, and its generation.

    >>> Remembered((("t", 0),), 3).generation
    3
    """

    partitions: tuple[tuple[str, int], ...]
    generation: int = NO_GENERATION

    @classmethod
    def of(cls, memory: object) -> Remembered | None:
        """The memory handed in, None for none.

        Raises:
            InvalidConfigError: it is another strategy's.
        """
        if memory is None or isinstance(memory, cls):
            return memory
        raise InvalidConfigError("memory", "must be what this strategy gave out", memory)

    @classmethod
    def given(cls, assignment: Assignment, generation: int) -> Remembered:
        """Of what a member was given."""
        pairs = tuple(pair for mine in assignment.to_pairs().values() for pair in mine)
        return cls(pairs, generation)
