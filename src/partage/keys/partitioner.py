"""Random numbers as values: the next one, and what is left. No partitioner draws by itself.

Clients choose a partition for keys that are null by chance. Here chance comes from outside: from
a seed (the generator of ``java.util.Random``, which every JVM computes alike), or as a list of
numbers, as the vectors of the tests have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.java.random import JavaRandom
from partage.keys.columns import KeyColumn
from partage.keys.hashing import Hash, hash_all
from partage.keys.hashing.base import UInt32Array

__all__ = [
    "Draws",
    "Explicit",
    "Fold",
    "KeyRule",
    "Numbers",
    "Partitioner",
    "State",
    "below",
    "draws_of",
    "fold_all",
    "folded",
    "fraction",
    "positive",
    "started",
]


class Draws(Protocol):
    """A source of signed 32-bit integers."""

    def next_int(self) -> tuple[int, Draws]:
        """The next number, -2**31 <= x < 2**31, and the source after it."""
        ...


@dataclass(frozen=True, slots=True)
class Numbers:
    """Given numbers, one after the other.

    >>> Numbers((7, -1)).next_int()[0]
    7
    """

    numbers: tuple[int, ...]
    used: int = 0

    def next_int(self) -> tuple[int, Numbers]:
        """The next one.

        Raises:
            InvalidConfigError: all are used.
        """
        if self.used >= len(self.numbers):
            raise InvalidConfigError("seed", "has too few random numbers", len(self.numbers))
        number = self.numbers[self.used]
        return number, Numbers(self.numbers, self.used + 1)


def draws_of(seed: int | Sequence[int]) -> Draws:
    """A source: of a seed, or of given numbers.

    Raises:
        InvalidConfigError: neither an int nor numbers of 32 bits.
    """
    if isinstance(seed, int) and not isinstance(seed, bool):
        return JavaRandom.of(seed)
    if isinstance(seed, list | tuple):
        for number in seed:
            if not isinstance(number, int) or not -(1 << 31) <= number < 1 << 31:
                raise InvalidConfigError("seed", "must have numbers of 32 bits", number)
        return Numbers(tuple(seed))
    raise InvalidConfigError("seed", "must be an int, or a list of random numbers", seed)


def positive(number: int) -> int:
    """Kafka's ``Utils.toPositive``: without the sign bit.

    >>> positive(-1), positive(5)
    (2147483647, 5)
    """
    return number & 0x7FFFFFFF


def below(draws: Draws, bound: int) -> tuple[int, Draws]:
    """0 <= x < bound, as Go's ``Int31n`` makes it of numbers of 31 bits: without a bias.

    >>> below(Numbers((13,)), 10)[0]
    3
    """
    highest = (1 << 31) - 1 - (1 << 31) % bound
    while True:
        number, draws = draws.next_int()
        if positive(number) <= highest:
            return positive(number) % bound, draws


def fraction(draws: Draws) -> tuple[float, Draws]:
    """0 <= x < 1 of 53 bits: the lower 21 of one number, then the 32 of the next.

    >>> fraction(Numbers((1 << 20, 0)))[0]
    0.5
    """
    high, draws = draws.next_int()
    low, draws = draws.next_int()
    return ((high & 0x1FFFFF) << 32 | low & 0xFFFFFFFF) / (1 << 53), draws


Fold = Literal["masked", "absolute", "java-abs", "unsigned"]
Unkeyed = Literal["null", "null or empty", "nothing"]
_LEAST = 1 << 31


def folded(h: int, partitions: int, fold: Fold) -> int:
    """The partition of one hash, 0 <= h < 2**32.

    >>> [folded(2**32 - 790332482, 10, fold) for fold in ("masked", "absolute", "unsigned")]
    [6, 2, 4]
    """
    if fold == "masked":
        return (h & 0x7FFFFFFF) % partitions
    if fold == "unsigned":
        return h % partitions
    if fold == "java-abs" and h == _LEAST:
        return 0
    return (h if h < _LEAST else (1 << 32) - h) % partitions


def fold_all(hashes: UInt32Array, partitions: int, fold: Fold) -> None:
    """`folded` of each, in place: the partitions are in 0 .. 2**31 - 1, whatever the type says."""
    n = np.uint32(partitions)
    if fold == "masked":
        hashes &= np.uint32(0x7FFFFFFF)
    elif fold != "unsigned":
        if fold == "java-abs":
            hashes[hashes == _LEAST] = 0
        # The least int is its own negative: as unsigned, 2**31.
        np.minimum(hashes, np.uint32(0) - hashes, out=hashes)
    whole = hashes // n  # by a scalar, this is the one division that NumPy does at once
    whole *= n
    hashes -= whole


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Where a key goes.

    Attributes:
        hash: of the key's bytes.
        fold: into the partitions.
        unkeyed: which records this rule leaves to chance or turns; ``nothing``: a null key is
            hashed as an empty one.
    """

    hash: Hash
    fold: Fold
    unkeyed: Unkeyed = "null"

    def of_key(self, key: bytes, partitions: int) -> int:
        """The partition of one key.

        >>> from partage.keys.hashing import MURMUR2
        >>> KeyRule(MURMUR2, "masked").of_key(b"foobar", 10)
        6
        """
        return folded(self.hash.of_key(key), partitions, self.fold)

    def of_all(self, keys: KeyColumn, partitions: int) -> NDArray[np.int32]:
        """int32[n]: the partition of each key; of those that are `left_over`, anything."""

        def then(hashes: UInt32Array) -> None:
            fold_all(hashes, partitions, self.fold)

        placed = hash_all(self.hash, keys.data, keys.starts, then).view(np.int32)
        if keys.code is not None:
            placed = placed[keys.code] if len(placed) else np.zeros(len(keys.code), np.int32)
        if self.unkeyed == "nothing" and keys.null is not None:
            placed[keys.null] = self.of_key(b"", partitions)
        return placed

    def left_over(self, keys: KeyColumn) -> NDArray[np.bool_] | None:
        """bool[n]: the records that the hash does not decide; None for none."""
        if self.unkeyed == "nothing":
            return None
        if self.unkeyed == "null":
            return keys.null
        empty: NDArray[np.bool_] = keys.lengths == 0
        return empty if empty.any() else None


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
