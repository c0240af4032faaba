"""Placement of records: explicit partitions, a partitioner's key rule, its state machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidConfigError, InvalidKeysError
from partage.keys.columns import (
    LONGEST_KEY,
    KeyColumn,
    is_arrow,
    is_pandas,
    place_arrow,
    place_pandas,
    to_key_column,
)
from partage.keys.partitioner import Partitioner, PartitionerState

__all__ = ["Partitioned", "place_keys", "with_leaders"]

_NONE = -(1 << 62)  # no partition named
Int32Array = NDArray[np.int32]


class Partitioned(NamedTuple):
    """Partitions of a batch of records, and the partitioner's state after them.

    Pass the state to the call for the next batch, because a client's partitioner also keeps its
    state.

    Attributes:
        partition: int32[n], an array of NumPy, pandas, polars or Arrow, as the keys were.
        state: state of the partitioner after these records.
    """

    partition: Any
    state: PartitionerState


def place_keys(
    partitioner: Partitioner,
    keys: Any,
    partitions: int,
    state: PartitionerState | None = None,
    *,
    sizes: Any = None,
    explicit: Any = None,
    longest: int = LONGEST_KEY,
) -> Any:
    """Choose the partition of each record key in a column by a partitioner.

    `partition_for` calls this function, and documents the arguments. ``state`` is the partitioner's
    state after earlier records, ``longest`` the maximum length of a key.

    Returns:
        int32[n], or an array of the keys' library; with ``state`` a `Partitioned`.

    Raises:
        InvalidConfigError: a state, a size or an explicit partition is wrong.
        InvalidKeysError: a key cannot be hashed, or a column has another length than the keys.
    """
    _check_state(partitioner, state)
    call = _PlacementCall(
        partitioner, partitions, state, sizes=sizes, explicit=explicit, longest=longest
    )
    if is_pandas(keys):  # first: newer releases have the PyCapsule interface too
        placed = place_pandas(keys, call.place_keys)
    elif is_arrow(keys):
        placed = place_arrow(keys, call.place_keys)
    else:
        placed, null = call.place_keys(to_key_column(keys))
        if null is not None:
            placed[null] = -1
    call.check_lengths()
    return placed if call.state is None else Partitioned(placed, call.state)


def _check_state(one: Partitioner, state: PartitionerState | None) -> None:
    if state is None:
        if one.rule is None and one.explicit != "only":
            raise InvalidConfigError(
                "partitioner", "goes by turns or chance, not by key: pass state= or seed=", one.name
            )
        return
    if one.state_class is None:
        raise InvalidConfigError(
            "state", f"is of no use: {one.name} has none", type(state).__name__
        )
    if not isinstance(state, one.state_class):
        raise InvalidConfigError("state", f"is not one of {one.name}", type(state).__name__)


class _PlacementCall:
    """Validated arguments of one call of `place_keys`, with the number of records placed so far.

    `place_keys` chooses the partition of each key in a column. A column that consists of several
    chunks is placed chunk by chunk, and the number says where the next chunk begins.
    """

    def __init__(
        self,
        partitioner: Partitioner,
        partitions: int,
        state: PartitionerState | None,
        *,
        sizes: Any,
        explicit: Any,
        longest: object,
    ) -> None:
        if isinstance(longest, bool) or not isinstance(longest, int | np.integer) or longest < 0:
            raise InvalidConfigError("longest_key", "must be a number of bytes, 0 or more", longest)
        self.partitioner, self.partitions, self.state = partitioner, partitions, state
        self.longest = int(longest)
        self.sizes, self.explicit = _sizes(sizes), _explicit(explicit)
        self.done = 0

    def place_keys(self, keys: KeyColumn) -> tuple[Int32Array, NDArray[np.bool_] | None]:
        """Choose the partition for each key of a column or chunk.

        A partition that a record names explicitly takes precedence if the client allows it.

        Returns:
            The partitions (int32[n]), and a mask of the records that could not be placed; the
            mask is None if there are none.
        """
        count = len(keys)
        named = self._named(count)
        first = self.done
        self.done += count
        partitioner = self.partitioner
        if partitioner.explicit == "only":
            # A message in Go has partition 0 by default.
            placed = np.zeros(count, np.int32) if named is None else np.maximum(named, 0)
            return placed, None
        placed, open_ = self._by_rule(keys, count)
        if named is not None and partitioner.explicit == "first":
            placed = np.where(named >= 0, named, placed)
            open_ = (named < 0) if open_ is None and partitioner.rule is None else open_
            open_ = None if open_ is None else open_ & (named < 0)
        if open_ is not None and self.state is not None and partitioner.machine is not None:
            sizes = self._sizes_of(first, count)[open_]
            chosen, self.state = partitioner.machine.choose(self.state, sizes, self.partitions)
            placed[open_] = chosen
            open_ = None
        return placed, open_

    def _by_rule(self, keys: KeyColumn, count: int) -> tuple[Int32Array, NDArray[np.bool_] | None]:
        if self.partitioner.rule is None:
            return np.zeros(count, np.int32), np.ones(count, np.bool_)
        part = self.partitioner.key_part(keys.check_key_lengths(self.longest))
        unplaced_mask = self.partitioner.rule.unplaced_mask(part)
        return self.partitioner.rule.place_column(part, self.partitions), unplaced_mask

    def _sizes_of(self, first: int, count: int) -> NDArray[np.int64]:
        if isinstance(self.sizes, int):
            return np.full(count, self.sizes, np.int64)
        return self.sizes[first : first + count]

    def _named(self, count: int) -> Int32Array | None:
        if self.explicit is None:
            return None
        named = self.explicit[self.done : self.done + count]
        outside = ((named < 0) & (named != _NONE)) | (named >= self.partitions)
        if outside.any() and self.partitioner.explicit != "ignored":
            i = int(np.argmax(outside))
            raise InvalidConfigError(
                f"explicit[{self.done + i}]",
                self.partitioner.refusal(int(named[i]), self.partitions),
                int(named[i]),
            )
        return np.where(named == _NONE, -1, named).astype(np.int32)

    def check_lengths(self) -> None:
        """Check that the caller gave as many sizes and explicit partitions as record keys.

        The check is made after all chunks of keys were placed.

        Raises:
            InvalidKeysError: the numbers differ.
        """
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


def with_leaders(state: PartitionerState, available: Sequence[int] | None) -> PartitionerState:
    """Return a partitioner's state with the partitions that have a leader now.

    Partitioners choose among partitions with a leader. ``available`` lists them; None means that
    all have one.

    >>> from partage.keys import start
    >>> with_leaders(start("java:0.8"), [2, 0]).available
    (2, 0)
    """
    return replace(state, available=None if available is None else tuple(available))
