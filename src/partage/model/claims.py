"""The partitions that members say they own when they join: one member's claims, and a group's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError
from partage.model.index import Index, Int32Array

__all__ = ["ClaimRows", "Claims", "is_int32"]

_INT32 = range(-(2**31), 2**31)


def is_int32(value: object) -> bool:
    """Return whether a value is an integer that fits a signed 32-bit field of Kafka's protocol.

    Python and NumPy integers are accepted, booleans are not.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and int(value) in _INT32  # type: ignore[call-overload]  # whole says so


@dataclass(frozen=True, slots=True)
class Claims:
    """Partitions that a consumer reports as owned when it joins its group, in the order sent.

    Sticky and cooperative assignors use these claims to leave partitions where they are. Duplicates
    are included. Several consumers may claim the same partition.

    Attributes:
        topics: the distinct topic names, in order of first appearance.
        topic_ix: int32[n], topic of each reported partition, as an index of ``topics``.
        partition: int32[n], partition numbers.
        shared: whether several members share the tuple ``topics``, so that it also has names which
            this member does not claim.

    >>> list(Claims.from_owned({"orders": [1, 0]}))
    [('orders', 1), ('orders', 0)]
    """

    topics: tuple[str, ...]
    topic_ix: Int32Array
    partition: Int32Array
    shared: bool = False

    @classmethod
    def from_owned(cls, owned: object, path: str = "owned") -> Claims:
        """Build the list of owned partitions that a consumer reports when it joins its group.

        The partitions are given by topic, such as ``{"orders": [0, 1]}``, or as pairs, such as
        ``[("orders", 0)]``.

        Args:
            owned: dict from topic to partition numbers, or (topic, partition) pairs.
            path: name of the argument in error messages.

        Raises:
            InvalidProblemError: a topic name is not a string, or a partition number does not fit an
                int32.
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

    def with_own_names(self) -> Claims:
        """Return a copy whose topic list has only the topics of this consumer's own partitions.

        Claims that were decoded together share one list of topic names, which then includes the
        topics of other consumers.

        >>> one = np.ones(1, np.int32)
        >>> Claims(("a", "b"), one, one, shared=True).with_own_names().topics
        ('b',)
        """
        # Claims that were decoded together share one list of names, which also has other members'
        # topics.
        if not self.shared:
            return self
        used, first, place = np.unique(self.topic_ix, return_index=True, return_inverse=True)
        order = np.argsort(first)
        names = tuple(self.topics[t] for t in used[order].tolist())
        return Claims(names, np.argsort(order)[place].astype(np.int32), self.partition)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for t, p in zip(self.topic_ix.tolist(), self.partition.tolist(), strict=True):
            yield self.topics[t], p

    def __len__(self) -> int:
        return len(self.partition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Claims) and list(self) == list(other)

    def __hash__(self) -> int:
        own = self.with_own_names()
        return hash((own.topics, own.topic_ix.tobytes(), own.partition.tobytes()))


_NONE = Claims((), np.zeros(0, np.int32), np.zeros(0, np.int32))


def _rows(owned: Mapping[object, object], path: str) -> Iterator[tuple[str, Int32Array]]:
    # Topics without numbers are skipped unchecked.
    for topic, numbers in owned.items():
        if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Iterable):
            what = f"numbers of {topic!r} must be a list"
            raise InvalidProblemError(what, path=path, value=numbers)
        column = numbers if isinstance(numbers, np.ndarray) else list(numbers)
        if len(column):
            yield _text(topic, path), _int32s(topic, column, path)


def _int32s(topic: object, numbers: list[object] | NDArray[np.generic], path: str) -> Int32Array:
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
    """Owned partitions that all consumers of a group report when they join, as flat arrays.

    Array operations on a large group are faster than one `Claims` object for each member. A claim
    is one reported partition. M is the number of members, n the number of claims.

    Attributes:
        name_start: int64[M + 1], where each member's topic names begin in ``names``.
        names: each member's topic names, in order of first appearance.
        start: int64[M + 1], where each member's claims begin in ``name`` and ``partition``.
        name: int32[n], topic of each claim, as an index of the member's own names.
        partition: int32[n], partition number of each claim.

    >>> owned = ({"t": [4]}, (), {"t": [1, 2]})
    >>> rows = ClaimRows.from_members([Claims.from_owned(one) for one in owned])
    >>> rows.start.tolist(), rows.names, rows.partition.tolist()
    ([0, 1, 1, 3], ['t', 't'], [4, 1, 2])
    """

    name_start: NDArray[np.int64]
    names: list[str]
    start: NDArray[np.int64]
    name: Int32Array
    partition: Int32Array

    @classmethod
    def from_members(cls, owned: Sequence[Claims]) -> ClaimRows:
        """Combine the owned partitions that several consumers report into flat arrays.

        ``owned`` has one `Claims` object for each consumer, in the order of the group's members.
        """
        if all(one is _NONE for one in owned):
            nowhere, none = np.zeros(len(owned) + 1, np.int64), np.zeros(0, np.int32)
            return cls(nowhere, [], nowhere, none, none)
        owned = [one.with_own_names() if one.shared else one for one in owned]
        topics = [one.topics for one in owned]
        name, partition = [one.topic_ix for one in owned], [one.partition for one in owned]
        return cls(
            _starts(topics),
            list(chain.from_iterable(topics)),
            _starts(name),
            np.concatenate(name),
            np.concatenate(partition),
        )

    @classmethod
    def of_partitions(
        cls, index: Index, start: NDArray[np.int64], partition: Int32Array
    ) -> ClaimRows:
        """Build all consumers' reports of owned partitions from the partitions' index numbers.

        An `Index` numbers all partitions of a cluster from 0. The topic names of each consumer are
        in the order of the index.

        Args:
            index: the numbering of topics and partitions.
            start: int64[M + 1], where each consumer's partitions begin in ``partition`` (CSR).
            partition: int32[n], the partitions by their numbers in the index.

        >>> index = Index.of({"a": 2, "b": 2})
        >>> partition = np.array([3, 0, 2], np.int32)
        >>> rows = ClaimRows.of_partitions(index, np.array([0, 2, 3]), partition)
        >>> [list(claims) for claims in rows.by_member()]
        [[('b', 1), ('a', 0)], [('b', 0)]]
        """
        if not len(partition):
            return cls(start, [], start, partition, partition)
        topic, sizes = index.topic_of[partition], start[1:] - start[:-1]
        if (topic == topic[0]).all():  # the common case needs no sorting
            name_start = np.zeros_like(start)
            (sizes > 0).cumsum(out=name_start[1:])
            names = [index.topics[topic[0]]] * int(name_start[-1])
            return cls(name_start, names, start, np.zeros_like(topic), index.number_of[partition])
        topics = len(index.topics)
        member = np.repeat(np.arange(len(sizes)), sizes)
        pairs, place = np.unique(member * topics + topic, return_inverse=True)
        name_start = np.searchsorted(pairs, np.arange(len(start)) * topics)
        names = [index.topics[t] for t in (pairs % max(topics, 1)).tolist()]
        name = (place - name_start[member]).astype(np.int32)
        return cls(name_start, names, start, name, index.number_of[partition])

    def by_member(self) -> list[Claims]:
        """Return the owned partitions that each consumer reports, as one `Claims` object per
        consumer.

        This is the inverse of `from_members`. The list is in the order of the group's members.
        """
        at, ends = self.name_start.tolist(), self.start.tolist()
        shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        out = []
        for i, (first, end) in enumerate(pairwise(ends)):
            if first == end:
                out.append(_NONE)
                continue
            names = tuple(self.names[at[i] : at[i + 1]])
            # Strategies resolve the names of a tuple once.
            names = shared.setdefault(names, names)
            out.append(Claims(names, self.name[first:end], self.partition[first:end]))
        return out


def _starts(lists: Sequence[Sized]) -> NDArray[np.int64]:
    start = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(list(map(len, lists)), out=start[1:])
    return start
