"""`partition_for`: the partition of each key, in the client of your choice."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidKeysError
from partage.keys import arrow
from partage.keys.columns import LONGEST_KEY, KeyColumn, column_of
from partage.keys.contract import CustomPartitioner
from partage.keys.custom import CustomKeys
from partage.keys.partitioner import Partitioner, State, started
from partage.keys.registry import find

__all__ = ["MOST_PARTITIONS", "Partitioned", "partition_for", "start"]

MOST_PARTITIONS = (1 << 31) - 1
_NONE = -(1 << 62)  # no partition named
Int32Array = NDArray[np.int32]


class Partitioned(NamedTuple):
    """Partitions, and the state that the next records are to be given.

    Attributes:
        partition: int32[n], NumPy's or Arrow's as the keys were.
        state: of the partitioner, after these records.
    """

    partition: Any
    state: State


def start(partitioner: str, *, seed: int | Sequence[int] = 0, **settings: object) -> State:
    """A partitioner's state before its first record, with settings of your own.

    Args:
        partitioner: a name of `partitioners`.
        seed: of ``java.util.Random``, or a list of random numbers of 32 bits to be drawn.
        settings: fields of its state: ``available`` (partitions with a leader), ``counter``,
            ``batch_size``, ... as the state's class documents.

    Raises:
        UnknownPartitionerError: no such name.
        InvalidConfigError: it has no state, or no such setting.

    >>> start("java:2.3", counter=5).counter
    5
    """
    return started(find(partitioner), seed, **settings)


def partition_for(
    keys: Any,
    *,
    partitions: int,
    partitioner: str | type[CustomPartitioner] | CustomPartitioner = "murmur2",
    state: State | None = None,
    seed: int | Sequence[int] | None = None,
    sizes: int | Sequence[int] | NDArray[Any] | None = None,
    explicit: Sequence[int | None] | NDArray[Any] | None = None,
    longest_key: int = LONGEST_KEY,
    topic: str = "topic",
    configs: Mapping[str, object] | None = None,
) -> Any:
    """Return the partition that each key goes to.

    Args:
        keys: bytes (one key); a list of bytes, text (as UTF-8) and None; a NumPy array of ``S``,
            ``V``, object, or 2-D uint8 (a key a row); an Arrow array or chunked array of
            binary, text, fixed-size binary, a dictionary of them, or null.
        partitions: of the topic, 1 to 2**31 - 1, those without a leader included.
        partitioner: a name of `partitioners`, a Java class name, or a custom partitioner
            (`partage.keys.contract`): its class, an object, or ``package.module:Class``. A custom
            one decides for null keys too, and gets the key's bytes as key.
        state: what an earlier call gave back, or `start` made.
        seed: instead of a state, a fresh one with these random numbers.
        sizes: bytes by which each record lengthens its batch, for partitioners that go by
            batches; by default a record counts as one.
        explicit: the partition that each record names; where it names none, None in a list, -1
            in an array.
        longest_key: in bytes; the default is what a producer sends at most.
        topic: the topic's name that a custom partitioner sees.
        configs: settings that a custom partitioner's ``configure`` gets.

    Returns:
        int32[n]: partitions, -1 where the key does not decide (null keys; all records of a
        partitioner that ignores keys need a state). Of Arrow's keys an Arrow int32 array with
        nulls there. With ``state`` or ``seed``, a `Partitioned`: all records have a partition.

    Raises:
        InvalidConfigError: a setting is wrong (``partitions``: not an int, below 1, too large).
        InvalidKeysError: keys that cannot be hashed: which, and what to do.
        UnknownPartitionerError: no such name; says which come close.

    >>> partition_for([b"foobar", None, b"21"], partitions=10).tolist()
    [6, -1, 0]
    >>> partition_for([None] * 3, partitions=4, partitioner="java:2.3", seed=[5])[0].tolist()
    [1, 2, 3]
    """
    one = find(partitioner)
    if isinstance(one, CustomKeys):
        one = CustomKeys(one.rule.kind, topic, configs)
    elif configs is not None:
        raise InvalidConfigError("configs", f"is of no use: {one.name} has none", dict(configs))
    n = _count(partitions)
    if state is None and seed is not None:
        state = started(one, seed)
    _check_state(one, state)
    call = _Call(one, n, state, sizes=sizes, explicit=explicit, longest=longest_key)
    if arrow.is_arrow(keys):
        placed = arrow.placed(keys, call.place)
    else:
        placed, null = call.place(column_of(keys))
        if null is not None:
            placed[null] = -1
    call.finish()
    if call.state is None:
        return placed
    return Partitioned(placed, call.state)


def _count(partitions: object) -> int:
    if isinstance(partitions, bool | np.bool_):
        raise InvalidConfigError("partitions", "must be an int, not a boolean", partitions)
    try:
        n = operator.index(partitions)  # type: ignore[arg-type]  # it is what checks
    except TypeError:
        raise InvalidConfigError("partitions", "must be an int", partitions) from None
    if n == 0:
        raise InvalidConfigError("partitions", "a topic has at least 1", n)
    if n < 0:
        raise InvalidConfigError("partitions", "cannot be negative", n)
    if n > MOST_PARTITIONS:
        raise InvalidConfigError("partitions", f"can be at most {MOST_PARTITIONS} (2**31 - 1)", n)
    return n


def _longest(longest: object) -> int:
    """In bytes; a bool or a text would be compared with lengths, and say nothing of use."""
    if isinstance(longest, bool) or not isinstance(longest, int | np.integer) or longest < 0:
        raise InvalidConfigError("longest_key", "must be a number of bytes, 0 or more", longest)
    return int(longest)


def _check_state(one: Partitioner, state: State | None) -> None:
    if state is None:
        if one.rule is None and one.explicit != "only":
            raise InvalidConfigError(
                "partitioner", "goes by turns or chance, not by key: pass state= or seed=", one.name
            )
        return
    if one.state is None:
        raise InvalidConfigError(
            "state", f"is of no use: {one.name} has none", type(state).__name__
        )
    if not isinstance(state, one.state):
        raise InvalidConfigError("state", f"is not one of {one.name}", type(state).__name__)


class _Call:
    """One call: what goes on from chunk to chunk of a chunked array."""

    def __init__(
        self,
        one: Partitioner,
        partitions: int,
        state: State | None,
        *,
        sizes: Any,
        explicit: Any,
        longest: int,
    ) -> None:
        self.one, self.partitions, self.state = one, partitions, state
        self.longest = _longest(longest)
        self.sizes, self.explicit = _sizes(sizes), _explicit(explicit)
        self.done = 0

    def place(self, keys: KeyColumn) -> tuple[Int32Array, NDArray[np.bool_] | None]:
        """Partitions of a column, and where there is none."""
        count = len(keys)
        named = self._named(count)
        first = self.done
        self.done += count
        one = self.one
        if one.explicit == "only":
            # A message of Go has the number 0 where nobody set another.
            placed = np.zeros(count, np.int32) if named is None else np.maximum(named, 0)
            return placed, None
        placed, open_ = self._by_rule(keys, count)
        if named is not None and one.explicit == "first":
            placed = np.where(named >= 0, named, placed)
            open_ = (named < 0) if open_ is None and one.rule is None else open_
            open_ = None if open_ is None else open_ & (named < 0)
        if open_ is not None and self.state is not None:
            sizes = self._sizes_of(first, count)[open_]
            chosen, self.state = one.choose(self.state, sizes, self.partitions)
            placed[open_] = chosen
            open_ = None
        return placed, open_

    def _by_rule(self, keys: KeyColumn, count: int) -> tuple[Int32Array, NDArray[np.bool_] | None]:
        if self.one.rule is None:
            return np.zeros(count, np.int32), np.ones(count, np.bool_)
        part = self.one.key_part(keys.checked(self.longest))
        left_over = self.one.rule.left_over(part)
        return self.one.rule.of_all(part, self.partitions), left_over

    def _sizes_of(self, first: int, count: int) -> NDArray[np.int64]:
        if isinstance(self.sizes, int):
            return np.full(count, self.sizes, np.int64)
        return self.sizes[first : first + count]

    def _named(self, count: int) -> Int32Array | None:
        if self.explicit is None:
            return None
        named = self.explicit[self.done : self.done + count]
        outside = ((named < 0) & (named != _NONE)) | (named >= self.partitions)
        if outside.any() and self.one.explicit != "ignored":
            i = int(np.argmax(outside))
            raise InvalidConfigError(
                f"explicit[{self.done + i}]",
                self.one.refusal(int(named[i]), self.partitions),
                int(named[i]),
            )
        return np.where(named == _NONE, -1, named).astype(np.int32)

    def finish(self) -> None:
        """All sizes and named partitions went with a key."""
        for name, values in (("sizes", self.sizes), ("explicit", self.explicit)):
            if isinstance(values, np.ndarray) and len(values) != self.done:
                raise InvalidKeysError(f"has {len(values)} values for {self.done} keys", where=name)


def _sizes(sizes: Any) -> int | NDArray[np.int64]:
    if sizes is None:
        return 1
    values = np.asarray(sizes)
    if values.dtype.kind not in "iu" or (values.size and values.min() < 0):
        raise InvalidConfigError("sizes", "must be ints >= 0", sizes)
    return int(values) if values.ndim == 0 else values.astype(np.int64)


def _explicit(explicit: Any) -> NDArray[np.int64] | None:
    if explicit is None:
        return None
    if isinstance(explicit, np.ndarray):
        named = explicit
    else:
        named = np.array([_NONE if one is None else one for one in explicit])
    if named.dtype.kind not in "iu" and len(named):
        raise InvalidConfigError("explicit", "must be ints, or None for none", str(named.dtype))
    if isinstance(explicit, np.ndarray):
        named = np.where(named == -1, _NONE, named)
    wide: NDArray[np.int64] = named.astype(np.int64)
    return wide


def with_leaders(state: State, available: Sequence[int] | None) -> State:
    """The state with other partitions that have a leader.

    >>> with_leaders(start("java:0.8"), [2, 0]).available
    (2, 0)
    """
    return replace(state, available=None if available is None else tuple(available))
