"""Lists of topic-partitions as a few arrays, one list for each task or host."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.java.strings import string_order_key
from partage.wire.faults import EncodingError

__all__ = [
    "NO_HOSTS",
    "NO_LISTS",
    "Host",
    "Hosts",
    "PartitionLists",
    "TopicPartition",
    "partition_order_key",
]

TopicPartition = tuple[str, int]
Host = tuple[str, int]

Int32s = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PartitionLists:
    """Lists of partitions, in the order and as often as they stand in the bytes.

    Attributes:
        start: int32[lists + 1], where each begins.
        topic: int32[n], places in ``topics``.
        partition: int32[n].
        topics: names; those of a dictionary may repeat, or be of no partition.

    >>> lists = PartitionLists.of([[("a", 0), ("b", 0)], []])
    >>> list(lists)
    [(('a', 0), ('b', 0)), ()]
    """

    start: Int32s
    topic: Int32s
    partition: Int32s
    topics: tuple[str, ...] = ()

    @classmethod
    def of(cls, lists: Iterable[Iterable[TopicPartition]]) -> PartitionLists:
        """The lists of pairs (topic, partition).

        Raises:
            EncodingError: an element is no such pair, or its number no int32.
        """
        start, topics, numbers = array("i", [0]), array("i"), array("i")
        names: dict[str, int] = {}
        for one in lists:
            for pair in one:
                try:
                    topic, number = pair
                    numbers.append(number)
                    topics.append(names.setdefault(topic, len(names)))
                except (TypeError, ValueError, OverflowError):
                    what = f"not a (topic, int32 partition) pair: {pair!r:.80}"
                    field = f"partitions[{len(start) - 1}]"
                    raise EncodingError(what, offset=0, field=field) from None
            start.append(len(numbers))
        return cls.from_columns(start, topics, numbers, tuple(names))

    @classmethod
    def from_columns(
        cls, start: array[int], topics: array[int], numbers: array[int], names: tuple[str, ...]
    ) -> PartitionLists:
        """The lists of columns as they were read."""
        first, topic, number = (np.array(one, np.int32) for one in (start, topics, numbers))
        return cls(first, topic, number, names)

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, place: int) -> tuple[TopicPartition, ...]:
        start, stop = self.start[place : place + 2].tolist()
        pairs = zip(
            self.topic[start:stop].tolist(), self.partition[start:stop].tolist(), strict=True
        )
        return tuple((self.topics[topic], number) for topic, number in pairs)

    def __iter__(self) -> Iterator[tuple[TopicPartition, ...]]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionLists):
            return NotImplemented
        return np.array_equal(self.start, other.start) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self.start.tobytes(), self.partition.tobytes()))

    def __repr__(self) -> str:
        return f"PartitionLists({[list(self[place]) for place in range(min(len(self), 4))]}…)"

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.start.nbytes + self.topic.nbytes + self.partition.nbytes


@dataclass(frozen=True)
class Hosts:
    """End points (host, port), each with its partitions, as sent.

    >>> Hosts.of([(("h", 80), [("t", 1)])]).to_dict()
    {('h', 80): (('t', 1),)}
    """

    names: tuple[Host, ...]
    partitions: PartitionLists

    @classmethod
    def of(cls, hosts: Iterable[tuple[Host, Iterable[TopicPartition]]]) -> Hosts:
        """The hosts of pairs, in that order.

        Raises:
            EncodingError: a partition is none.
        """
        pairs = list(hosts)
        return cls(tuple(name for name, _ in pairs), PartitionLists.of(own for _, own in pairs))

    def __len__(self) -> int:
        return len(self.names)

    def to_dict(self) -> dict[Host, tuple[TopicPartition, ...]]:
        """One entry a host, the last of each, as Kafka's map of them."""
        return dict(zip(self.names, self.partitions, strict=True))


def partition_order_key(partition: TopicPartition) -> tuple[bytes, int]:
    """A sort key for partitions as Streams' members sort them: topic in Java's order, number.

    >>> sorted([("b", 0), ("a", 10), ("a", 9)], key=partition_order_key)[0]
    ('a', 9)
    """
    return string_order_key(partition[0]), partition[1]


NO_LISTS = PartitionLists.of([])
NO_HOSTS = Hosts((), NO_LISTS)
