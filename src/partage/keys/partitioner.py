"""What a partitioner of this room is: a rule for keys, and a way for records that it leaves over.

A client decides in three steps, and each is a part of `Partitioner`: a partition that the record
names (`explicit`), the key's hash (`rule`), and turns or chance for what is left (`choose`).
Turns and chance have a state, which goes in and comes out: nothing here remembers anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.keys.columns import KeyColumn
from partage.keys.draws import Draws, draws_of
from partage.keys.rule import KeyRule

__all__ = ["Explicit", "Partitioner", "State", "started"]

Explicit = Literal["first", "ignored", "only"]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a partitioner remembers of one topic from one record to the next.

    Attributes:
        available: partitions that have a leader, in the order of the metadata (which need not
            be that of their numbers); None for all of them, () for none.
        draws: where its random numbers come from.
    """

    available: tuple[int, ...] | None = None
    draws: Draws = field(default_factory=lambda: draws_of(0))

    def pool(self, partitions: int) -> Sequence[int]:
        """The partitions to choose from: those with a leader, or all when none has one.

        Raises:
            InvalidConfigError: one is not of the topic.
        """
        if not self.available:
            return range(partitions)
        for one in self.available:
            if not 0 <= one < partitions:
                raise InvalidConfigError(
                    "available", f"must be partitions of 0 to {partitions - 1}", one
                )
        return self.available


S = TypeVar("S", bound=State)


class Partitioner:
    """A partitioner as values: its facts are class attributes, its state is handed around.

    Attributes:
        name: as `partition_for` and the command line take it.
        exact_to: the class or function and release that it equals.
        aliases: other names by which it is found (Java class names).
        rule: of keys; None where keys have no say.
        explicit: whether a partition that the record names counts: ``first``, ``ignored``, or
            ``only`` (a manual partitioner).
        state: class of its state; None where it has none and leaves null keys alone.
    """

    name: ClassVar[str]
    exact_to: ClassVar[str | None] = None
    aliases: ClassVar[tuple[str, ...]] = ()
    rule: ClassVar[KeyRule | None] = None
    explicit: ClassVar[Explicit] = "first"
    state: ClassVar[type[State] | None] = None

    def refusal(self, partition: int, partitions: int) -> str:
        """What the client says of a partition that the topic does not have."""
        return f"Invalid partition: {partition} of {partitions}"

    def key_part(self, keys: KeyColumn) -> KeyColumn:
        """What of each key is hashed: all of it, but for the windowed keys of Kafka Streams."""
        return keys

    def choose(self, state: Any, sizes: Int64Array, partitions: int) -> tuple[Int32Array, Any]:
        """Partitions of the records that the rule leaves over, in their order, and the new state.

        Args:
            state: one of `state`.
            sizes: int64[k], bytes by which each record lengthens its batch.
            partitions: of the topic.
        """
        raise NotImplementedError


def started(partitioner: Partitioner, seed: int | Sequence[int] = 0, **settings: object) -> State:
    """Return a fresh state, as the client has it before its first record.

    Args:
        partitioner: whose.
        seed: of its random numbers, or the numbers themselves.
        settings: fields of its state, e.g. ``counter=0`` or ``available=(0, 2)``.

    Raises:
        InvalidConfigError: it has no state, or no such field; says which.
    """
    kind = partitioner.state
    if kind is None:
        raise InvalidConfigError("seed", f"is of no use: {partitioner.name} has no state", seed)
    known = kind.__dataclass_fields__
    for name, value in settings.items():
        if name not in known or name == "draws":
            raise InvalidConfigError(name, f"{partitioner.name} has no such field", value)
        if name == "available" and isinstance(value, (str, bytes)):
            raise InvalidConfigError(name, "must be a list of partition numbers", value)
        if isinstance(value, list):
            settings[name] = tuple(value)
    return kind(draws=draws_of(seed), **settings)  # type: ignore[arg-type]  # names checked above


def drawn_from(pool: Sequence[int], draws: Draws) -> tuple[int, Draws]:
    """One of the pool, as Java's clients draw: a positive random int, modulo."""
    number, draws = draws.next_int()
    return pool[(number & 0x7FFFFFFF) % len(pool)], draws


def drawn_each(state: S, count: int, partitions: int) -> tuple[Int32Array, S]:
    """A partition by chance for each of so many records, and the state after."""
    pool, draws = state.pool(partitions), state.draws
    out = np.empty(count, np.int32)
    for i in range(count):
        out[i], draws = drawn_from(pool, draws)
    return out, replace(state, draws=draws)
