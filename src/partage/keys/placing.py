"""Entry points: the partition of each key by a client's partitioner, and its fresh state."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.keys.columns import LONGEST_KEY
from partage.keys.contract import CustomPartitioner, custom_partitioner, custom_rule
from partage.keys.partitioner import State, started
from partage.keys.record_placement import place_keys
from partage.keys.registry import find

__all__ = ["MOST_PARTITIONS", "partition_for", "start"]

MOST_PARTITIONS = (1 << 31) - 1


def start(partitioner: str, *, seed: int | Sequence[int] = 0, **settings: object) -> State:
    """Return a partitioner's state before its first record.

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
    rule = custom_rule(one)
    if rule is not None:
        one = custom_partitioner(rule.kind, topic, configs)
    elif configs is not None:
        raise InvalidConfigError("configs", f"is of no use: {one.name} has none", dict(configs))
    n = _count(partitions)
    if state is None and seed is not None:
        state = started(one, seed)
    return place_keys(one, keys, n, state, sizes=sizes, explicit=explicit, longest=longest_key)


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
