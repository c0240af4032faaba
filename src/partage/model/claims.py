"""The partitions that members claim to own, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.model.index import Int32Array

__all__ = ["ClaimRows", "Claims", "is_int32"]

_INT32 = range(-(2**31), 2**31)


def is_int32(value: object) -> bool:
    """Return whether a value is an int32, of Python or NumPy.

    ``numpy.int64(3) in range(n)`` compares item by item, so the value is converted first.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and int(value) in _INT32  # type: ignore[call-overload]  # whole says so


@dataclass(frozen=True, slots=True)
class Claims:
    """The partitions that a member claims to own, as sent, with order and duplicates.

    Attributes:
        topics: the distinct names, in order of first appearance.
        topic_ix: int32[n], position in ``topics``.
        partition: int32[n], partition numbers.

    >>> list(Claims.of({"orders": [1, 0]}))
    [('orders', 1), ('orders', 0)]
    """

    topics: tuple[str, ...]
    topic_ix: Int32Array
    partition: Int32Array

    @classmethod
    def of(cls, owned: object, path: str = "owned") -> Claims:
        """Return the claims of a mapping topic -> numbers, or of (topic, number) pairs.

        Raises:
            InvalidProblemError: a name is not a string, or a number not an int32.
        """
        if isinstance(owned, Claims):
            return owned
        if isinstance(owned, tuple) and not owned:
            return _NONE  # arrays without items can be shared
        if isinstance(owned, Mapping):
            return cls._of_rows(list(_rows(owned, path)))
        return cls._of_columns(*_columns(owned, path))

    @classmethod
    def _of_rows(cls, rows: list[tuple[str, Int32Array]]) -> Claims:
        if not rows:
            return cls._of_columns([], [])
        sizes = [len(numbers) for _, numbers in rows]
        topic_ix = np.repeat(np.arange(len(rows), dtype=np.int32), sizes)
        return cls(tuple(name for name, _ in rows), topic_ix, np.concatenate([n for _, n in rows]))

    @classmethod
    def _of_columns(cls, topics: Iterable[str], partition: Iterable[int]) -> Claims:
        number: dict[str, int] = {}
        topic_ix = [number.setdefault(topic, len(number)) for topic in topics]
        return cls(tuple(number), np.array(topic_ix, np.int32), np.array(partition, np.int32))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for t, p in zip(self.topic_ix.tolist(), self.partition.tolist(), strict=True):
            yield self.topics[t], p

    def __len__(self) -> int:
        return len(self.partition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Claims) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self.topics, self.topic_ix.tobytes(), self.partition.tobytes()))


_NONE = Claims((), np.zeros(0, np.int32), np.zeros(0, np.int32))


def _rows(owned: Mapping[object, object], path: str) -> Iterator[tuple[str, Int32Array]]:
    """Yield topics with their numbers; topics without numbers are skipped unchecked."""
    for topic, numbers in owned.items():
        if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Iterable):
            what = f"numbers of {topic!r} must be a list"
            raise InvalidProblemError(what, path=path, value=numbers)
        column = numbers if isinstance(numbers, np.ndarray) else list(numbers)
        if len(column):
            yield _text(topic, path), _int32s(topic, column, path)


def _int32s(topic: object, numbers: list[object] | NDArray[np.generic], path: str) -> Int32Array:
    """Return the numbers as int32; they are checked one by one only if a quick check fails."""
    if isinstance(numbers, np.ndarray) and numbers.ndim == 1 and numbers.dtype == np.int32:
        return np.array(numbers, np.int32)  # a copy: the caller may change its array
    some = list(numbers)
    if set(map(type, some)) != {int} or min(some) not in _INT32 or max(some) not in _INT32:
        some = [_number(topic, p, path) for p in some]
    return np.array(some, np.int32)


def _columns(owned: object, path: str) -> tuple[list[str], list[int]]:
    if isinstance(owned, (str, bytes)) or not isinstance(owned, Iterable):
        raise InvalidProblemError("must be a mapping or a list of pairs", path=path, value=owned)
    topics: list[str] = []
    partition: list[int] = []
    for i, pair in enumerate(owned):
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            what = "must be a pair [topic, partition]"
            raise InvalidProblemError(what, path=f"{path}[{i}]", value=pair)
        topic, p = pair
        topics.append(_text(topic, path))
        partition.append(_number(topic, p, path))
    return topics, partition


def _text(topic: object, path: str) -> str:
    if not isinstance(topic, str):
        raise InvalidProblemError("topic must be text", path=path, value=topic)
    return topic


def _number(topic: object, p: object, path: str) -> int:
    if not is_int32(p):
        what = f"partition of {topic!r} must be an int32"
        raise InvalidProblemError(what, path=path, value=p)
    return int(p)  # type: ignore[call-overload, no-any-return]  # checked above


@dataclass(frozen=True, slots=True)
class ClaimRows:
    """The claims of many members, as sent, in flat arrays.

    Attributes:
        name_start: int64[M + 1], first name of each member (CSR) in ``names``.
        names: topic names, each member's own, in order of first appearance.
        start: int64[M + 1], first claim of each member (CSR).
        name: int32[n], index into the member's names.
        partition: int32[n], partition numbers.

    >>> rows = ClaimRows.of([Claims.of({"t": [4]}), Claims.of(()), Claims.of({"t": [1, 2]})])
    >>> rows.start.tolist(), rows.names, rows.partition.tolist()
    ([0, 1, 1, 3], ['t', 't'], [4, 1, 2])
    """

    name_start: NDArray[np.int64]
    names: list[str]
    start: NDArray[np.int64]
    name: Int32Array
    partition: Int32Array

    @classmethod
    def of(cls, owned: Sequence[Claims]) -> ClaimRows:
        """Return the claims of members in sequence."""
        if all(one is _NONE for one in owned):
            nowhere, none = np.zeros(len(owned) + 1, np.int64), np.zeros(0, np.int32)
            return cls(nowhere, [], nowhere, none, none)
        topics = [one.topics for one in owned]
        name, partition = [one.topic_ix for one in owned], [one.partition for one in owned]
        return cls(
            _starts(topics),
            list(chain.from_iterable(topics)),
            _starts(name),
            np.concatenate(name),
            np.concatenate(partition),
        )


def _starts(lists: Sequence[Sized]) -> NDArray[np.int64]:
    """Return int64: the begin of each list in their concatenation (CSR)."""
    start = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(list(map(len, lists)), out=start[1:])
    return start
