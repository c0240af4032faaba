"""Type of a partitioner: a rule for keys, a state machine for other records, random numbers.

A client places a record in three steps, and each is a part of `Partitioner`: the partition that
the record names (`explicit`), the hash of the key (`rule`), and a state machine for the records
that the key does not decide (`machine`). A state goes in and comes out: no partitioner remembers
anything, and none draws random numbers by itself.

Clients fold 32 bits of a hash into n partitions in four ways (`Fold`):

* ``masked``: (h & 0x7fffffff) % n. Java's producers: ``Utils.abs`` of 0.8, ``toPositive`` later.
* ``absolute``: abs(h % n), the remainder with the sign of h. Sarama, librdkafka's fnv1a.
* ``java-abs``: abs(h) % n, 0 for the least int. ``Utils.abs`` of 0.8.2's core and 0.9's clients.
* ``unsigned``: h as 0 to 2**32 - 1, % n. librdkafka's CRC32.

All agree for h >= 0. Otherwise masked gives 2**31 - abs(h), and unsigned 2**32 - abs(h).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

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
    "GivenDraws",
    "Int32Array",
    "Int64Array",
    "KeyRule",
    "Partitioner",
    "PartitionerState",
    "StateMachine",
    "Unkeyed",
    "check_batch_size",
    "clear_sign_bit",
    "create_draws",
    "draw_below",
    "draw_fraction",
    "draw_from",
    "fold_all",
    "fold_hash",
    "initial_state",
    "random_partitions",
]

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]


# -- random numbers ----------------------------------------------------------------------------


class Draws(Protocol):
    """Protocol of an immutable random number generator that draws signed 32-bit integers."""

    def next_int(self) -> tuple[int, Draws]:
        """Return the next random number, -2**31 <= x < 2**31, and the generator after it."""
        ...


@dataclass(frozen=True, slots=True)
class GivenDraws:
    """Random number generator for tests, which draws the numbers of a given list.

    >>> GivenDraws((7, -1)).next_int()[0]
    7
    """

    numbers: tuple[int, ...]
    used: int = 0

    def next_int(self) -> tuple[int, GivenDraws]:
        """Return the next number of the given list, and the generator after it.

        Raises:
            InvalidConfigError: no number is left.
        """
        if self.used >= len(self.numbers):
            raise InvalidConfigError("seed", "has too few random numbers", len(self.numbers))
        number = self.numbers[self.used]
        return number, GivenDraws(self.numbers, self.used + 1)


def create_draws(seed: int | Sequence[int]) -> Draws:
    """Create a partitioner's random number generator from a seed or from given numbers.

    An int is the seed of ``java.util.Random``; a list has the numbers to return.

    Raises:
        InvalidConfigError: the seed is neither an int nor a list of 32-bit numbers.
    """
    if isinstance(seed, int) and not isinstance(seed, bool):
        return JavaRandom.from_seed(seed)
    if isinstance(seed, list | tuple):
        for number in seed:
            if not isinstance(number, int) or not -(1 << 31) <= number < 1 << 31:
                raise InvalidConfigError("seed", "must have numbers of 32 bits", number)
        return GivenDraws(tuple(seed))
    raise InvalidConfigError("seed", "must be an int, or a list of random numbers", seed)


def clear_sign_bit(number: int) -> int:
    """Return a number without its sign bit, like Kafka's ``Utils.toPositive``.

    >>> clear_sign_bit(-1), clear_sign_bit(5)
    (2147483647, 5)
    """
    return number & 0x7FFFFFFF


def draw_below(draws: Draws, bound: int) -> tuple[int, Draws]:
    """Draw a number from 0 to ``bound`` - 1 with equal probabilities, as Go's ``Int31n`` does.

    ``draws`` is a random number generator. Return the number and the generator after it.

    >>> draw_below(GivenDraws((13,)), 10)[0]
    3
    """
    highest = (1 << 31) - 1 - (1 << 31) % bound
    while True:
        number, draws = draws.next_int()
        if clear_sign_bit(number) <= highest:
            return clear_sign_bit(number) % bound, draws


def draw_fraction(draws: Draws) -> tuple[float, Draws]:
    """Draw a random float, at least 0 and less than 1, from a random number generator.

    Return the float and the generator after it.

    >>> draw_fraction(GivenDraws((1 << 20, 0)))[0]
    0.5
    """
    # Its 53 bits are the lower 21 of one random number, then the 32 of the next.
    high, draws = draws.next_int()
    low, draws = draws.next_int()
    return ((high & 0x1FFFFF) << 32 | low & 0xFFFFFFFF) / (1 << 53), draws


def draw_from(pool: Sequence[int], draws: Draws) -> tuple[int, Draws]:
    """Draw a random partition from ``pool`` as Java clients do, from a random number generator.

    The index is a non-negative random int modulo the size of the pool. Return the partition and the
    generator after it.
    """
    number, draws = draws.next_int()
    return pool[clear_sign_bit(number) % len(pool)], draws


# -- key rules ---------------------------------------------------------------------------------

Fold = Literal["masked", "absolute", "java-abs", "unsigned"]
Unkeyed = Literal["null", "null or empty", "nothing"]
#: The least 32-bit int, as unsigned: it is its own negative.
_LEAST = 1 << 31


def fold_hash(h: int, partitions: int, fold: Fold) -> int:
    """Map a key's hash (0 to 2**32 - 1) to a partition number by the modulo rule of a client.

    Args:
        h: the hash of the key.
        partitions: number of partitions.
        fold: how the hash becomes non-negative: ``masked`` clears the sign bit as in Java,
            ``absolute`` takes the absolute value, ``java-abs`` does so but maps the least int to 0,
            and ``unsigned`` keeps all 32 bits.

    >>> [fold_hash(2**32 - 790332482, 10, fold) for fold in ("masked", "absolute", "unsigned")]
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
    """Convert an array of key hashes to partition numbers in place, by a client's modulo rule.

    ``partitions`` is the number of partitions; ``fold`` names the rule, see `fold_hash`.
    """
    n = np.uint32(partitions)
    if fold == "masked":
        hashes &= np.uint32(0x7FFFFFFF)
    elif fold != "unsigned":
        if fold == "java-abs":
            hashes[hashes == _LEAST] = 0
        np.minimum(hashes, np.uint32(0) - hashes, out=hashes)
    whole = hashes // n  # division by a scalar is the only one that NumPy vectorises
    whole *= n
    hashes -= whole


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Rule by which a Kafka client derives the partition from a record key: a hash, then a modulo.

    Attributes:
        hash: hash function of the key's bytes.
        fold: name of the mapping of a hash to a partition.
        unkeyed: the records whose partition the key does not determine; with ``nothing`` a null key
            is hashed as an empty one.
    """

    hash: Hash
    fold: Fold
    unkeyed: Unkeyed = "null"

    def of_key(self, key: bytes, partitions: int) -> int:
        """Return the partition for one key of a topic with ``partitions`` partitions.

        >>> from partage.keys.hashing import MURMUR2
        >>> KeyRule(MURMUR2, "masked").of_key(b"foobar", 10)
        6
        """
        return fold_hash(self.hash.of_key(key), partitions, self.fold)

    def of_all(self, keys: KeyColumn, partitions: int) -> Int32Array:
        """Return the partition for each key of a column (int32[n]); it is arbitrary for a null key.

        ``partitions`` is the topic's number of partitions.
        """

        def fold_chunk(hashes: UInt32Array) -> None:
            fold_all(hashes, partitions, self.fold)

        placed = hash_all(self.hash, keys.data, keys.starts, fold_chunk).view(np.int32)
        if keys.code is not None:
            placed = placed[keys.code] if len(placed) else np.zeros(len(keys.code), np.int32)
        if self.unkeyed == "nothing" and keys.null is not None:
            placed[keys.null] = self.of_key(b"", partitions)
        return placed

    def left_over(self, keys: KeyColumn) -> NDArray[np.bool_] | None:
        """Return a mask of the records without a usable key (bool[n]), or None if there are none.

        These records, such as those with a null key, are placed round robin or at random.
        """
        if self.unkeyed == "nothing":
            return None
        if self.unkeyed == "null":
            return keys.null
        empty: NDArray[np.bool_] = keys.key_lengths == 0
        return empty if empty.any() else None


# -- states and state machines -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionerState:
    """Immutable state of a client's partitioner for one topic, such as a round-robin counter.

    Placing a record returns a new state for the next record.

    Attributes:
        available: partitions with a leader, in the order of the metadata (not always sorted); None
            for all partitions, () for none.
        draws: the partitioner's random number generator.
    """

    available: tuple[int, ...] | None = None
    draws: Draws = field(default_factory=lambda: create_draws(0))

    def choosable_partitions(self, partitions: int) -> Sequence[int]:
        """Return the partitions that a client may choose: those with a leader, else all.

        ``partitions`` is the topic's number of partitions.

        Raises:
            InvalidConfigError: the topic has no such partition.
        """
        if not self.available:
            return range(partitions)
        for one in self.available:
            if not 0 <= one < partitions:
                raise InvalidConfigError(
                    "available", f"must be partitions of 0 to {partitions - 1}", one
                )
        return self.available


S = TypeVar("S", bound=PartitionerState)


class StateMachine(NamedTuple):
    """Rule by which a client places records without a usable key, such as round robin or sticky.

    Attributes:
        state: class of the rule's state.
        choose: function (state, sizes, partition count) -> (partitions, new state). ``sizes`` are
            int64[k], the bytes that each record adds to its batch; the partitions are int32[k].
        summary: short description for tables.
    """

    state: type[PartitionerState]
    choose: Callable[[Any, Int64Array, int], tuple[Int32Array, Any]]
    summary: str


def choose_random(state: S, sizes: Int64Array, partitions: int) -> tuple[Int32Array, S]:
    """Draw a random partition for each record, from those with a leader if there are any.

    Args:
        state: the partitioner's state, which has the random number generator.
        sizes: bytes of each record; only their number matters.
        partitions: number of partitions of the topic.

    Returns:
        int32[n], and the new state.
    """
    pool, draws = state.choosable_partitions(partitions), state.draws
    out = np.empty(len(sizes), np.int32)
    for i in range(len(out)):
        out[i], draws = draw_from(pool, draws)
    return out, replace(state, draws=draws)


random_partitions = StateMachine(PartitionerState, choose_random, "by chance")


def check_batch_size(size: int, name: str = "batch_size") -> None:
    """Raise an error if the batch size in a partitioner's state is less than 1.

    ``name`` is the name of the setting, for the message.

    Raises:
        InvalidConfigError: it is smaller.
    """
    if size < 1:
        raise InvalidConfigError(name, "must be at least 1", size)


# -- partitioners ------------------------------------------------------------------------------

Explicit = Literal["first", "ignored", "only"]


def whole_key(keys: KeyColumn) -> KeyColumn:
    """Return the keys unchanged: most partitioners hash the whole key, not a part of it."""
    return keys


def invalid_partition(partition: int, partitions: int) -> str:
    """Return a generic error message for a record that names a partition which does not exist.

    ``partitions`` is the topic's number of partitions.
    """
    return f"Invalid partition: {partition} of {partitions}"


@dataclass(frozen=True, eq=False)
class Partitioner:
    """Description of a client's partitioner: the rule for records with a key, and the rule for
    records without one.

    Attributes:
        name: its name in `partition_for` and on the command line.
        summary: one sentence for tables.
        exact_to: the class or function, and the release, that it equals.
        rule: rule for records with a key; None if the key has no effect.
        machine: rule for the other records; None if they get no partition.
        aliases: other names, such as Java class names.
        explicit: whether a partition that the record names counts: ``first``, ``ignored``, or
            ``only`` (a manual partitioner).
        refusal: (partition, partitions) -> the client's message for an explicit partition that
            the topic does not have.
        key_part: function that returns the part of each key that is hashed.
    """

    name: str
    summary: str
    exact_to: str | None
    rule: KeyRule | None = None
    machine: StateMachine | None = None
    aliases: tuple[str, ...] = ()
    explicit: Explicit = "first"
    refusal: Callable[[int, int], str] = invalid_partition
    key_part: Callable[[KeyColumn], KeyColumn] = whole_key

    @property
    def state_class(self) -> type[PartitionerState] | None:
        """Class of the state that the partitioner keeps between records; None if it keeps none."""
        return None if self.machine is None else self.machine.state


def initial_state(
    partitioner: Partitioner, seed: int | Sequence[int] = 0, **settings: object
) -> PartitionerState:
    """Create a partitioner's state for one topic before its first record.

    Args:
        partitioner: description of the partitioner, with the class of its state.
        seed: seed of its random numbers, or a list of the numbers to draw.
        settings: fields of the state class, for example ``counter=0`` or ``available=(0, 2)``.

    Raises:
        InvalidConfigError: the partitioner has no state, or the state has no such field.
    """
    kind = partitioner.state_class
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
    return kind(draws=create_draws(seed), **settings)  # type: ignore[arg-type]  # names checked above
