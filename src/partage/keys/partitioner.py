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
    """Protocol of a random number generator that draws signed 32-bit integers.

    It is immutable: each draw also returns the generator for the next draw.
    """

    def next_int(self) -> tuple[int, Draws]:
        """Return the next random number and the generator for the draw after it.

        The number is a signed 32-bit integer, as from Java's ``Random.nextInt()``.
        """
        ...


@dataclass(frozen=True, slots=True)
class GivenDraws:
    """Random number generator that draws the numbers of a given list.

    Tests use it to make a random partitioner draw certain numbers.

    >>> GivenDraws((7, -1)).next_int()[0]
    7
    """

    numbers: tuple[int, ...]
    used: int = 0

    def next_int(self) -> tuple[int, GivenDraws]:
        """Return the next number of the list, and the generator for the next draw.

        The generator itself does not change.

        Raises:
            InvalidConfigError: no number is left.
        """
        if self.used >= len(self.numbers):
            raise InvalidConfigError("seed", "has too few random numbers", len(self.numbers))
        number = self.numbers[self.used]
        return number, GivenDraws(self.numbers, self.used + 1)


def create_draws(seed: int | Sequence[int]) -> Draws:
    """Create the random number generator of a partitioner.

    An int is the seed of ``java.util.Random``. A list has the numbers to draw, one after the other.

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
    """Make a 32-bit number non-negative by clearing its sign bit (Kafka's ``Utils.toPositive``).

    Java producers do this before they take a hash modulo the partition count.

    >>> clear_sign_bit(-1), clear_sign_bit(5)
    (2147483647, 5)
    """
    return number & 0x7FFFFFFF


def draw_below(draws: Draws, bound: int) -> tuple[int, Draws]:
    """Draw a random number from 0 to ``bound`` - 1, as Go's ``Int31n`` does.

    All numbers are equally likely. The generator for the next draw is returned too.

    >>> draw_below(GivenDraws((13,)), 10)[0]
    3
    """
    highest = (1 << 31) - 1 - (1 << 31) % bound
    while True:
        number, draws = draws.next_int()
        if clear_sign_bit(number) <= highest:
            return clear_sign_bit(number) % bound, draws


def draw_fraction(draws: Draws) -> tuple[float, Draws]:
    """Draw a random float from 0 (inclusive) to 1 (exclusive).

    The generator for the next draw is returned too. franz-go's adaptive partitioner needs such
    numbers.

    >>> draw_fraction(GivenDraws((1 << 20, 0)))[0]
    0.5
    """
    # Its 53 bits are the lower 21 of one random number, then the 32 of the next.
    high, draws = draws.next_int()
    low, draws = draws.next_int()
    return ((high & 0x1FFFFF) << 32 | low & 0xFFFFFFFF) / (1 << 53), draws


def draw_from(pool: Sequence[int], draws: Draws) -> tuple[int, Draws]:
    """Draw a random partition from ``pool``, as Java clients do.

    The index is a random non-negative int modulo the size of the pool. The generator for the next
    draw is returned too.
    """
    number, draws = draws.next_int()
    return pool[clear_sign_bit(number) % len(pool)], draws


# -- key rules ---------------------------------------------------------------------------------

Fold = Literal["masked", "absolute", "java-abs", "unsigned"]
Unkeyed = Literal["null", "null or empty", "nothing"]
#: The least 32-bit int, as unsigned: it is its own negative.
_LEAST = 1 << 31


def fold_hash(h: int, partitions: int, fold: Fold) -> int:
    """Convert the hash of a key to a partition number, by the modulo rule of a Kafka client.

    Clients differ in how they make a hash with the sign bit non-negative, so equal hashes may give
    different partitions.

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
    """Convert an array of key hashes to partition numbers in place.

    Each hash is made non-negative by the rule of a Kafka client. The partition is the remainder of
    its division by the partition count.

    Args:
        hashes: uint32, hashes of the keys; receives the partitions.
        partitions: number of partitions.
        fold: name of the rule, see `fold_hash`.
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
    """Rule by which a Kafka client derives a partition from a record key: a hash, then a modulo.

    Two clients place equal keys in equal partitions only if both parts of their rules agree.

    Attributes:
        hash: hash function of the key's bytes.
        fold: name of the mapping of a hash to a partition.
        unkeyed: the records whose partition the key does not determine; with ``nothing`` a null key
            is hashed as an empty one.
    """

    hash: Hash
    fold: Fold
    unkeyed: Unkeyed = "null"

    def place_key(self, key: bytes, partitions: int) -> int:
        """Return the partition of one record key.

        The key is hashed, then the hash is reduced modulo the topic's partition count
        ``partitions``, by the Kafka client's rule.

        >>> from partage.keys.hashing import MURMUR2
        >>> KeyRule(MURMUR2, "masked").place_key(b"foobar", 10)
        6
        """
        return fold_hash(self.hash.hash_key(key), partitions, self.fold)

    def place_column(self, keys: KeyColumn, partitions: int) -> Int32Array:
        """Return the partition of each key in a column (int32[n]).

        The value for a null key has no meaning, unless the rule hashes a null key like an empty
        one. ``partitions`` is the topic's partition count.
        """

        def fold_chunk(hashes: UInt32Array) -> None:
            fold_all(hashes, partitions, self.fold)

        placed = hash_all(self.hash, keys.data, keys.starts, fold_chunk).view(np.int32)
        if keys.code is not None:
            placed = placed[keys.code] if len(placed) else np.zeros(len(keys.code), np.int32)
        if self.unkeyed == "nothing" and keys.null is not None:
            placed[keys.null] = self.place_key(b"", partitions)
        return placed

    def unplaced_mask(self, keys: KeyColumn) -> NDArray[np.bool_] | None:
        """Return a mask of the records whose key does not determine their partition.

        An example is a record with a null key, which is placed round robin or at random. None if
        there is no such record.
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
    """Immutable state of a partitioner for one topic, such as the counter of round robin.

    Placing a record returns the state for the next record.

    Attributes:
        available: partitions with a leader, in the order of the metadata (not always sorted); None
            for all partitions, () for none.
        draws: the partitioner's random number generator.
    """

    available: tuple[int, ...] | None = None
    draws: Draws = field(default_factory=lambda: create_draws(0))

    def choosable_partitions(self, partitions: int) -> Sequence[int]:
        """Return the partitions among which a client chooses for records without a key.

        They are the partitions with a leader, or all partitions if none has a leader.
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
    """Rule by which a Kafka client places records without a key, for example round robin or sticky.

    The rule has a state for each topic, such as the next partition.

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
    """Draw a random partition for each record that has no key.

    Only partitions with a leader are drawn, if there are any.

    Args:
        state: the partitioner's state, with the random number generator.
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
    """Check that a batch size in a partitioner's settings is at least 1.

    ``size`` is the value, ``name`` the name of the setting for the message.

    Raises:
        InvalidConfigError: the size is smaller.
    """
    if size < 1:
        raise InvalidConfigError(name, "must be at least 1", size)


# -- partitioners ------------------------------------------------------------------------------

Explicit = Literal["first", "ignored", "only"]


def whole_key(keys: KeyColumn) -> KeyColumn:
    """Return the keys unchanged.

    Most partitioners hash the whole key. Some hash only a part, such as a windowed key without its
    window.
    """
    return keys


def invalid_partition(partition: int, partitions: int) -> str:
    """Return the error message for a record that names a partition which the topic does not have.

    It is used for Kafka clients whose own message is unknown. ``partitions`` is the topic's
    partition count.
    """
    return f"Invalid partition: {partition} of {partitions}"


@dataclass(frozen=True, eq=False)
class Partitioner:
    """Description of a Kafka client's partitioner.

    It has one rule for records with a key, and one for records without a key.

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
        """Class of the partitioner's state between records, such as a round-robin counter.

        It is None if the partitioner keeps no state.
        """
        return None if self.machine is None else self.machine.state


def initial_state(
    partitioner: Partitioner, seed: int | Sequence[int] = 0, **settings: object
) -> PartitionerState:
    """Create the state of a Kafka client's partitioner for one topic, before its first record.

    The state is, for example, the counter of round robin.

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
