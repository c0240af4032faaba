"""What the sticky algorithms work on: topics in Java's order, partitions as spots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.groups.ordering import string_hashes
from partage.javaorder import hash_order
from partage.model import Problem
from partage.model.index import Int32Array

__all__ = ["Scene", "Spots", "visiting_order"]

_HALF = 1 << 31
#: From here on a HashMap's table follows from the number of keys alone.
_CROWDING_MATTERS_BELOW = 49


@dataclass(frozen=True, eq=False)
class Spots:
    """Partitions by a number of their own: those of the cluster, then foreign ones.

    A foreign spot is a partition that a member claims, or that counting from 0 yields, and
    that the cluster does not have: Kafka checks a claim's topic only (Q26).

    Attributes:
        topic: int32[S], position in ``Scene.topics``.
        number: int32[S], partition number.
        real: how many of them the cluster has; these come first, by (topic, number).
        walk: int32[T], the spots met by counting each topic from 0, as Kafka does when it
            looks for what nobody owns; ``arange(real)`` unless a topic's numbers have holes.
    """

    topic: Int32Array
    number: Int32Array
    real: int
    walk: Int32Array

    @property
    def regular(self) -> bool:
        """Whether there is no foreign spot."""
        return len(self.topic) == self.real

    @cached_property
    def by_number(self) -> Int32Array:
        """int32[S]: rank of each spot in the order (number, topic)."""
        rank = np.empty(len(self.topic), np.int32)
        if self.regular:
            # Spots lie by topic already, and NumPy sorts 16-bit keys by radix.
            highest = int(self.number.max(initial=0))
            key = self.number.astype(np.int16) if highest < 2**15 else self.number
            order = np.argsort(key, kind="stable")
        else:
            order = np.lexsort((self.topic, self.number))
        rank[order] = np.arange(len(order), dtype=np.int32)
        return rank

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """int64[S]: (topic, number) as one sortable number."""
        return _keys(self.topic, self.number)


class Scene:
    """A problem as the sticky assignors see it.

    Attributes:
        problem: the problem.
        topics: int32[K], topics with partitions and a subscriber, in Java's order of names.
        start: int32[K + 1], first spot of each topic (CSR).
        dense: int32[T], the cluster's number of each real spot.
        number: int32[T], partition numbers of the real spots.
        dense_numbers: whether every topic's numbers are 0..n-1 (no holes).
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.topics, self.start, self.dense = _laid_out(problem)
        self.counts = np.diff(self.start)
        self.number = problem.index.number_of[self.dense]
        counted = np.arange(len(self.dense), dtype=np.int32)
        counted -= np.repeat(self.start[:-1], self.counts)
        self._counted = counted
        self.dense_numbers = bool(np.array_equal(counted, self.number))

    @cached_property
    def members(self) -> int:
        """How many members there are."""
        return len(self.problem.group)

    @cached_property
    def partitions(self) -> int:
        """How many partitions the subscribed topics have."""
        return len(self.dense)

    @cached_property
    def topic(self) -> Int32Array:
        """int32[T]: topic of each real spot."""
        return np.repeat(np.arange(len(self.topics), dtype=np.int32), self.counts)

    @cached_property
    def topic_by_name(self) -> dict[str, int]:
        """Position in ``topics`` by name."""
        names = self.problem.index.topics
        return {names[t]: k for k, t in enumerate(self.topics.tolist())}

    @cached_property
    def visit(self) -> list[int]:
        """Members in the order of the leader's map of subscriptions."""
        return visiting_order(self.problem.group.ids)

    @cached_property
    def owners(self) -> list[int]:
        """Members in the order of the assignor's own map, which is filled in `visit` order."""
        if self.members >= _CROWDING_MATTERS_BELOW:
            return self.visit
        ids = self.problem.group.ids
        return [self.visit[i] for i in visiting_order([ids[m] for m in self.visit])]

    def located(self, topic: Int32Array, number: Int32Array) -> tuple[Int32Array, Spots]:
        """The spots of some partitions of known topics, and all spots there are."""
        if self.dense_numbers:
            inside = (number >= 0) & (number < self.counts[topic])
            spot = self.start[topic] + number
        else:
            keys = _keys(self.topic, self.number)
            wanted = _keys(topic, number)
            spot = np.searchsorted(keys, wanted).astype(np.int32)
            spot[spot == len(keys)] = 0
            inside = keys[spot] == wanted if len(keys) else np.zeros(len(wanted), bool)
        if self.dense_numbers and inside.all():
            walk = np.arange(self.partitions, dtype=np.int32)
            return spot, Spots(self.topic, self.number, self.partitions, walk)
        return self._with_foreign(topic, number, spot, inside)

    def _with_foreign(
        self, topic: Int32Array, number: Int32Array, spot: Int32Array, inside: NDArray[np.bool_]
    ) -> tuple[Int32Array, Spots]:
        counted = _keys(self.topic, self._counted)
        real = _keys(self.topic, self.number)
        claimed = _keys(topic[~inside], number[~inside])
        foreign = np.unique(np.concatenate([claimed, np.setdiff1d(counted, real)]))
        out = spot.copy()
        out[~inside] = len(real) + np.searchsorted(foreign, claimed)
        every = np.concatenate([real, foreign])
        order = np.argsort(every)
        walk = order[np.searchsorted(every[order], counted)].astype(np.int32)
        spots = Spots(
            (every >> 32).astype(np.int32),
            ((every & 0xFFFFFFFF) - _HALF).astype(np.int32),
            len(real),
            walk,
        )
        return out, spots


def visiting_order(ids: list[str] | tuple[str, ...]) -> list[int]:
    """Positions of member ids in the order of a Java ``HashMap`` that was filled with them."""
    return hash_order(string_hashes(ids))


def _laid_out(problem: Problem) -> tuple[Int32Array, Int32Array, Int32Array]:
    wanted = np.zeros(len(problem.index.topics), bool)
    for topics in problem.subscription_topics:
        wanted[topics] = True
    named = np.flatnonzero(wanted)
    named = named[np.argsort(problem.index.topic_rank[named])]
    lists = [problem.cluster.partitions_of(t) for t in named.tolist()]
    sizes = np.array([len(one) for one in lists], np.int32)
    start = np.zeros(int((sizes > 0).sum()) + 1, np.int32)
    np.cumsum(sizes[sizes > 0], out=start[1:])
    dense = np.concatenate(lists) if lists else np.zeros(0, np.int32)
    return named[sizes > 0].astype(np.int32), start, dense


def _keys(topic: Int32Array, number: Int32Array) -> NDArray[np.int64]:
    return (topic.astype(np.int64) << 32) | (number.astype(np.int64) + _HALF)
