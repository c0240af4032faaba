"""Dense numbers for topics and partitions, which stay valid when topics are added or grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.errors import InvalidProblemError

__all__ = ["MOST_PARTITIONS", "Index", "Int32Array", "java_rank"]

Int32Array = NDArray[np.int32]

#: A larger count is rejected as a damaged file before memory is allocated. Planning 10 million
#: partitions took 0.4 to 1.1 GB by strategy (docs/speed.md), so this limit takes 1 to 2 GB.
MOST_PARTITIONS = 16_000_000


def java_rank(names: Sequence[str]) -> Int32Array:
    """Return the rank of each name in Java's order of strings, as int32.

    Java compares strings by UTF-16 units, which differs from Python's order for rare characters.

    >>> java_rank(["b", "a", "c"]).tolist()
    [1, 0, 2]
    """
    if all(map(str.isascii, names)):
        order = sorted(
            range(len(names)), key=names.__getitem__
        )  # ASCII code points are UTF-16 units
    else:
        units = [name.encode("utf-16-be", "surrogatepass") for name in names]
        order = sorted(range(len(names)), key=units.__getitem__)
    rank = np.empty(len(names), dtype=np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    return rank


@dataclass(frozen=True, eq=False)
class Index:
    """Numbering of a cluster's topics and partitions by integers from 0, for use in arrays.

    A topic that grows keeps its numbers and gets another range of consecutive numbers (an
    "extent"). If no topic has grown, each topic has one range.

    Attributes:
        topics: topic names; a deleted and recreated topic has two entries.
        ids: topic ids (Kafka's URL-safe base64), None if unknown.
        extent_topic: int32[E], topic of each extent.
        extent_number: int32[E], first partition number of each extent.
        first_partition: int32[E + 1], first index number of each extent (compressed rows, CSR).

    >>> index = Index.of({"orders": 6, "clicks": 3})
    >>> int(index.locate("clicks", 2)), index.partitions
    (8, 9)
    >>> index.name(8)
    ('clicks', 2)
    """

    topics: tuple[str, ...]
    ids: tuple[str | None, ...]
    extent_topic: Int32Array
    extent_number: Int32Array
    first_partition: Int32Array

    @classmethod
    def of(cls, counts: dict[str, int] | Iterable[tuple[str, str | None, int]]) -> Index:
        """Build a numbering of topics and partitions from the number of partitions of each topic.

        Partitions are numbered from 0, topic after topic.

        Args:
            counts: partition counts by topic name, or (name, topic id, count) rows.
        """
        rows = (
            [(name, None, n) for name, n in counts.items()]
            if isinstance(counts, dict)
            else list(counts)
        )
        empty = np.zeros(0, np.int32)
        start = cls((), (), empty, empty, np.zeros(1, np.int32))
        return start.extended(rows)

    @property
    def partitions(self) -> int:
        """Number of partitions in this numbering, in all topics together.

        Their index numbers run from 0 to this number minus 1.
        """
        return int(self.first_partition[-1])

    @cached_property
    def topic_of(self) -> Int32Array:
        """Topic of each partition, as a topic number of the index (int32[P]).

        For example, ``[0, 0, 1]`` for two partitions of the first topic and one of the second.
        """
        return np.repeat(self.extent_topic, np.diff(self.first_partition))

    @cached_property
    def number_of(self) -> Int32Array:
        """Kafka's own partition number of each partition of the index (int32[P]).

        For example, ``[0, 1, 0]`` for two partitions of the first topic and one of the second.
        """
        sizes = np.diff(self.first_partition)
        shift = self.extent_number - self.first_partition[:-1]
        return np.arange(self.partitions, dtype=np.int32) + np.repeat(shift, sizes)

    @cached_property
    def topic_rank(self) -> Int32Array:
        """Rank of each topic by name, in Java's order of strings (int32[T]).

        Kafka's assignors that sort topics by name use this order.
        """
        return java_rank(self.topics)

    @cached_property
    def _newest(self) -> dict[str, int]:
        return {name: t for t, name in enumerate(self.topics)}

    @cached_property
    def _by_id(self) -> dict[str, int]:
        return {i: t for t, i in enumerate(self.ids) if i is not None}

    @cached_property
    def _extent_keys(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Sorted search keys of all extents (ranges of consecutive partition numbers of one topic).

        The key of an extent combines the topic and the first partition number, so `locate_all`
        finds a partition's extent by binary search. The second array is the permutation that sorts
        the extents.
        """
        keys = (self.extent_topic.astype(np.int64) << 32) | self.extent_number.astype(np.int64)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    @cached_property
    def _one_extent_each(self) -> bool:
        # If no topic has grown, extent ``e`` has all partitions of topic ``e``.
        topics = np.arange(len(self.topics))
        return len(topics) > 0 and np.array_equal(self.extent_topic, topics)

    def topic(self, name: str) -> int:
        """Return the index number of a topic by name, -1 for an unknown topic.

        If a topic was deleted and recreated, both have a number, and this is the newer one's.
        """
        return self._newest.get(name, -1)

    def topic_by_id(self, topic_id: str) -> int:
        """Return the number by which this index knows a topic, given its Kafka topic id (a UUID).

        The result is -1 for an unknown id. Unlike a name, the id distinguishes a recreated topic
        from the deleted one.
        """
        return self._by_id.get(topic_id, -1)

    @cached_property
    def counts(self) -> Int32Array:
        """Number of partitions of each topic in the index (int32[T]).

        A topic's current count may be lower if its partitions exist at other times only.
        """
        out = np.zeros(len(self.topics), np.int32)
        np.add.at(out, self.extent_topic, np.diff(self.first_partition))
        return out

    def count(self, topic: int) -> int:
        """Return the number of partitions of a topic, given its index number.

        It is 0 for the number -1 of an unknown topic.
        """
        return int(self.counts[topic]) if topic >= 0 else 0

    def locate(self, topic: str | int, number: int) -> int:
        """Return the index number of one partition of the cluster, -1 for an unknown partition.

        Index numbers count all partitions of all topics from 0. `name` is the inverse; `locate_all`
        converts many partitions at once.

        Args:
            topic: the topic's name or index number.
            number: Kafka's partition number.
        """
        t = self.topic(topic) if isinstance(topic, str) else topic
        return int(self.locate_all(np.array([t], np.int32), np.array([number], np.int32))[0])

    def locate_all(self, topic: Int32Array, number: Int32Array) -> Int32Array:
        """Return the index numbers of many partitions of the cluster, -1 for unknown partitions.

        Index numbers count all partitions of all topics from 0. `locate` converts a single
        partition.

        Args:
            topic: int32[n], each partition's topic as an index number.
            number: int32[n], Kafka's partition number of each partition.
        """
        if self._one_extent_each and int(topic.max(initial=-1)) < len(self.topics):
            good = (topic >= 0) & (number >= 0) & (number < self.counts[topic])
            return np.where(good, self.first_partition[topic] + number, -1).astype(np.int32)
        keys, order = self._extent_keys
        if len(keys) == 0 or len(topic) == 0:
            return np.full(len(topic), -1, np.int32)
        wanted = (topic.astype(np.int64) << 32) | np.maximum(number, 0).astype(np.int64)
        at = order[np.maximum(np.searchsorted(keys, wanted, side="right") - 1, 0)]
        dense = self.first_partition[at].astype(np.int64) + number - self.extent_number[at]
        good = (
            (topic >= 0)
            & (number >= 0)
            & (self.extent_topic[at] == topic)
            & (dense >= self.first_partition[at])
            & (dense < self.first_partition[at + 1])
        )
        return np.where(good, dense, -1).astype(np.int32)

    def name(self, partition: int) -> tuple[str, int]:
        """Return the topic name and Kafka's partition number of a partition.

        For example, ``("orders", 2)``. ``partition`` is its index number; `locate` is the inverse.
        """
        return self.topics[self.topic_of[partition]], int(self.number_of[partition])

    def extended(self, rows: Iterable[tuple[str, str | None, int]]) -> Index:
        """Return a copy of the numbering with more topics or partitions.

        Existing numbers remain valid, so arrays that use them need not be renumbered.

        Args:
            rows: (name, topic id, partition count) of each topic. A topic with a known id, or with
                a known name and no id, grows to this count; every other row adds a topic.

        >>> grown = Index.of({"a": 1, "b": 1}).extended([("a", None, 3)])
        >>> [grown.name(p) for p in range(4)]
        [('a', 0), ('b', 0), ('a', 1), ('a', 2)]
        """
        topics, ids = list(self.topics), list(self.ids)
        by_id, by_name = dict(self._by_id), dict(self._newest)
        sizes = dict(enumerate(self.counts.tolist()))
        extent_topic, extent_number = self.extent_topic.tolist(), self.extent_number.tolist()
        ends = self.first_partition.tolist()
        for name, topic_id, count in rows:
            known = by_id.get(topic_id) if topic_id is not None else by_name.get(name)
            if known is None:
                known = len(topics)
                topics.append(name)
                ids.append(topic_id)
                by_name[name] = known
                if topic_id is not None:
                    by_id[topic_id] = known
                sizes[known] = -1  # a topic without partitions has an empty extent
            if count > sizes[known]:
                first = max(sizes[known], 0)
                end = ends[-1] + count - first
                if end > MOST_PARTITIONS:
                    what = f"more than {MOST_PARTITIONS} partitions in all"
                    raise InvalidProblemError(what, path=f"topics.{name}", value=count)
                extent_topic.append(known)
                extent_number.append(first)
                ends.append(end)
                sizes[known] = count
        return Index(
            tuple(topics),
            tuple(ids),
            np.array(extent_topic, np.int32),
            np.array(extent_number, np.int32),
            np.array(ends, np.int32),
        )
