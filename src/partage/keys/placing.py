"""Entry points `partition_for` and `start`: the partition of each key, and an
initial state.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError
from partage.keys.columns import LONGEST_KEY
from partage.keys.contract import CustomPartitioner, custom_partitioner, custom_rule
from partage.keys.partitioner import PartitionerState, initial_state
from partage.keys.record_placement import place_keys
from partage.keys.registry import find_partitioner

__all__ = ["MOST_PARTITIONS", "partition_for", "start"]

MOST_PARTITIONS = (1 << 31) - 1


def start(
    partitioner: str, *, seed: int | Sequence[int] = 0, **settings: object
) -> PartitionerState:
    """Create the state of a partitioner for one topic, before its first record.

    A stateful partitioner, such as round robin, needs it: pass it to the first call of
    `partition_for`.

    Args:
        partitioner: a name of `partitioners`.
        seed: seed of ``java.util.Random``, or a list of 32-bit numbers to use as random numbers.
        settings: fields of its state: ``available`` (partitions with a leader), ``counter``,
            ``batch_size`` and others that the state's class documents.

    Raises:
        UnknownPartitionerError: no partitioner has the name.
        InvalidConfigError: the partitioner has no state, or no such setting.

    >>> start("java:2.3", counter=5).counter
    5
    """
    return initial_state(find_partitioner(partitioner), seed, **settings)


def partition_for(
    keys: Any,
    *,
    partitions: int,
    partitioner: str | type[CustomPartitioner] | CustomPartitioner = "murmur2",
    state: PartitionerState | None = None,
    seed: int | Sequence[int] | None = None,
    sizes: int | Sequence[int] | NDArray[Any] | None = None,
    explicit: Sequence[int | None] | NDArray[Any] | None = None,
    longest_key: int = LONGEST_KEY,
    topic: str = "topic",
    configs: Mapping[str, object] | None = None,
) -> Any:
    """Return the partition of each key, as a Kafka client would choose it.

    The default is Java's hash (murmur2). The key alone decides; records without a key get -1 unless
    a state or a seed is given.

    Args:
        keys: bytes (one key); a list of bytes, text (as UTF-8) and None; a NumPy array of ``S``,
            ``V``, object, or 2-D uint8 (a key a row); a pandas or polars Series; an Arrow array
            or chunked array of binary, text, fixed-size binary, a dictionary of them, or null;
            any object with ``__arrow_c_array__`` or ``__arrow_c_stream__``.
        partitions: number of partitions of the topic, 1 to 2**31 - 1, including those without a
            leader.
        partitioner: a name of `partitioners`, a Java class name, or a custom partitioner
            (`partage.keys.contract`): its class, an object, or ``package.module:Class``. A custom
            one decides for null keys too, and gets the key's bytes as key.
        state: the state that an earlier call or `start` returned.
        seed: seed or random numbers of a new state, instead of ``state``.
        sizes: bytes by which each record lengthens its batch, for partitioners that go by
            batches; by default a record counts as one.
        explicit: the partition that each record names; None in a list, or -1 in an array, for a
            record that names none.
        longest_key: maximum length of a key in bytes; the default is a producer's maximum.
        topic: the topic name that is passed to a custom partitioner.
        configs: settings that are passed to a custom partitioner's ``configure``.

    Returns:
        int32[n]: partitions, -1 where the key does not determine one (null keys; all records of a
        partitioner that ignores keys need a state). Keys of pandas, polars or Arrow return an int32
        array of the same library, with nulls there. With ``state`` or ``seed``, a `Partitioned`:
        all records have a partition.

    Raises:
        InvalidConfigError: a setting is wrong (``partitions``: not an int, below 1, too large).
        InvalidKeysError: a key cannot be hashed; the message names it and what to do.
        UnknownPartitionerError: no partitioner has the name; the error lists similar names.

    >>> partition_for([b"foobar", None, b"21"], partitions=10).tolist()
    [6, -1, 0]
    >>> partition_for([None] * 3, partitions=4, partitioner="java:2.3", seed=[5])[0].tolist()
    [1, 2, 3]
    """
    one = find_partitioner(partitioner)
    rule = custom_rule(one)
    if configs is not None and not isinstance(configs, Mapping):
        raise InvalidConfigError("configs", "must be a mapping: setting -> value", configs)
    if explicit is not None and not isinstance(explicit, Iterable):
        raise InvalidConfigError("explicit", "must be a list of partitions", explicit)
    if rule is not None:
        one = custom_partitioner(rule.kind, topic, configs)
    elif configs is not None:
        raise InvalidConfigError("configs", f"is of no use: {one.name} has none", sorted(configs))
    n = _count(partitions)
    if state is None and seed is not None:
        state = initial_state(one, seed)
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
