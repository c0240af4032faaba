"""What the sticky algorithms work on: topics in Java's order, partitions as spots."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partage.groups.ordering import names_in_map_order, string_hashes
from partage.java.hash_order import DEFAULT_TABLE, hash_order
from partage.java.strings import string_ranks
from partage.java.tree_bins import may_have_trees
from partage.model import Problem
from partage.model.index import Int32Array

__all__ = ["Audience", "Scene", "Spots", "distinct", "keys_of", "numbered", "visiting_order"]


_HALF = 1 << 31
#: From here on a HashMap's table follows from the number of keys alone.
_CROWDING_MATTERS_BELOW = 49


class Spots:
    """Partitions by a number of their own: those of the cluster, then foreign ones.

    A foreign spot is a partition that a member claims, or that counting from 0 yields, and
    that the cluster does not have: Kafka checks a claim's topic only (Q26).

    Args:
        scene: the problem; real spots are its partitions by (topic, number).
        foreign: int64, sorted keys of the others, see `keys_of`.

    Attributes:
        real: how many the cluster has. ``count``: how many there are.
    """

    def __init__(self, scene: Scene, foreign: NDArray[np.int64] | None = None) -> None:
        self._scene = scene
        self._foreign = np.zeros(0, np.int64) if foreign is None else foreign
        self.real = scene.partitions
        self.count = self.real + len(self._foreign)

    @property
    def regular(self) -> bool:
        """Whether there is no foreign spot."""
        return self.count == self.real

    @cached_property
    def topic(self) -> Int32Array:
        """int32[S]: position of each spot's topic in ``Scene.topics``."""
        foreign = (self._foreign >> 32).astype(np.int32)
        return np.concatenate([self._scene.topic, foreign]) if len(foreign) else self._scene.topic

    @cached_property
    def number(self) -> Int32Array:
        """int32[S]: partition numbers."""
        if not len(self._foreign):
            return self._scene.number
        foreign = ((self._foreign & 0xFFFFFFFF) - _HALF).astype(np.int32)
        return np.concatenate([self._scene.number, foreign])

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """int64[S]: (topic, number) as one sortable number."""
        return keys_of(self.topic, self.number)

    @cached_property
    def walk(self) -> Int32Array:
        """int32[T]: the spots met by counting each topic from 0.

        Kafka does so when it looks for what nobody owns; ``arange(real)`` unless a topic's
        numbers have holes.
        """
        if self._scene.counted:
            return np.arange(self.real, dtype=np.int32)
        order = np.argsort(self.keys)
        wanted = keys_of(self._scene.topic, self._scene.nth)
        return order[np.searchsorted(self.keys[order], wanted)].astype(np.int32)

    @cached_property
    def by_number(self) -> Int32Array:
        """int32[S]: the spots in the order (number, topic)."""
        if not self.regular:
            return np.lexsort((self.topic, self.number)).astype(np.int32)
        # Real spots lie by topic already, and NumPy sorts 16-bit keys by radix.
        if self._scene.counted and (self._scene.counts == self._scene.counts[:1]).all():
            topics = len(self._scene.counts)
            table = np.arange(self.real, dtype=np.int32).reshape(max(topics, 1), -1)
            return np.ascontiguousarray(table.T).reshape(-1)
        highest = int(self._scene.counts.max(initial=0))
        small = self._scene.counted and highest < 2**15
        key = self.number.astype(np.int16) if small else self.number
        return np.argsort(key, kind="stable").astype(np.int32)


class Scene:
    """A problem as the sticky assignors see it.

    Attributes:
        problem: the problem.
        members: how many members there are; partitions: how many the topics have.
        topics: int32[K], topics with partitions and a subscriber, in Java's order of names.
        start: int32[K + 1], first spot of each topic (CSR); counts: int32[K].
        dense: int32[T], the cluster's number of each real spot.
        counted: whether every topic's numbers are 0..n-1 (no holes).
        owned: (member, topic, number) of what members say they own, once somebody has asked.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.owned: tuple[Int32Array, Int32Array, Int32Array] | None = None
        self.members = len(problem.group)
        self.topics, self.start, self.dense = _laid_out(problem)
        self.counts: Int32Array = np.diff(self.start)
        self.partitions = len(self.dense)
        last = problem.index.number_of[self.dense[self.start[1:] - 1]]
        self.counted = bool((last == self.counts - 1).all())

    @cached_property
    def number(self) -> Int32Array:
        """int32[T]: partition numbers of the real spots."""
        return self.nth if self.counted else self.problem.index.number_of[self.dense]

    @cached_property
    def nth(self) -> Int32Array:
        """int32[T]: the place of each real spot among those of its topic."""
        nth = np.arange(self.partitions, dtype=np.int32)
        nth -= np.repeat(self.start[:-1], self.counts)
        return nth

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
        ids = self.problem.group.ids
        return hash_order(self.hashes, rank=lambda: string_ranks(ids))

    @cached_property
    def hashes(self) -> list[int]:
        """``String.hashCode`` of the member ids, by member."""
        return string_hashes(self.problem.group.ids)

    @cached_property
    def owners(self) -> list[int]:
        """Members in the order of the assignor's own map, which is filled in `visit` order."""
        ids = self.problem.group.ids
        if self.members >= _CROWDING_MATTERS_BELOW and not _in_trees(self.hashes):
            return self.visit
        return [self.visit[i] for i in visiting_order([ids[m] for m in self.visit])]

    def located(self, topic: Int32Array, number: Int32Array) -> tuple[Int32Array, Spots]:
        """The spots of some partitions of known topics, and all spots there are."""
        if self.counted:
            spot = self.start[topic]
            spot += number
            # The claimed number may be any int32, so the sum may have wrapped: it proves nothing.
            inside = (number >= 0) & (number < self.counts[topic])
            if inside.all():
                return spot, Spots(self)
        else:
            keys = keys_of(self.topic, self.number)
            wanted = keys_of(topic, number)
            spot = np.searchsorted(keys, wanted).astype(np.int32)
            spot[spot == len(keys)] = 0
            inside = keys[spot] == wanted if len(keys) else np.zeros(len(wanted), bool)
        return self._with_foreign(topic, number, spot, inside)

    def _with_foreign(
        self, topic: Int32Array, number: Int32Array, spot: Int32Array, inside: NDArray[np.bool_]
    ) -> tuple[Int32Array, Spots]:
        claimed = keys_of(topic[~inside], number[~inside])
        foreign = claimed
        if not self.counted:
            walked, real = keys_of(self.topic, self.nth), keys_of(self.topic, self.number)
            at = np.minimum(np.searchsorted(real, walked), len(real) - 1)
            foreign = np.concatenate([claimed, walked[real[at] != walked]])
        foreign = distinct(foreign)
        out = spot.copy()
        out[~inside] = self.partitions + np.searchsorted(foreign, claimed)
        return out, Spots(self, foreign)


def visiting_order(ids: list[str] | tuple[str, ...]) -> list[int]:
    """Positions of member ids in the order of a Java ``HashMap`` that was filled with them."""
    return names_in_map_order(ids)


def _in_trees(hash_of_id: list[int]) -> bool:
    """Whether ids may crowd a bucket into a tree: filled anew, it is walked otherwise."""
    hashes = np.array(hash_of_id, np.int64) & 0xFFFFFFFF
    return may_have_trees(hashes ^ (hashes >> 16), DEFAULT_TABLE)


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


def keys_of(topic: Int32Array, number: Int32Array) -> NDArray[np.int64]:
    """int64[n]: (topic, number) as one sortable number."""
    return (topic.astype(np.int64) << 32) | (number.astype(np.int64) + _HALF)


class Audience:
    """Subscriptions as the general algorithm counts them; a repeated name counts twice.

    Attributes:
        listed: for each distinct subscription its known topics in the order sent, repeats kept.
        of_member: int32[M], subscription of each member.
        start, topic: the same without repeats, ascending (CSR).
        entries: int64[K], how often members list a topic.
        most: int64[M], the most partitions that Kafka thinks a member can have.
        order: int32[K], topics by (entries, name).
    """

    def __init__(self, scene: Scene) -> None:
        group = scene.problem.group
        number_of = scene.topic_by_name
        topics = len(scene.topics)
        self.of_member: Int32Array = group.subscription_of
        self.listed: list[Int32Array] = [
            np.array([number_of[n] for n in names if n in number_of], np.int32)
            for names in group.subscriptions
        ]
        without_repeats = [distinct(one) for one in self.listed]
        self.start = np.zeros(len(without_repeats) + 1, np.int32)
        np.cumsum([len(one) for one in without_repeats], out=self.start[1:])
        self.topic: Int32Array = np.concatenate([np.zeros(0, np.int32), *without_repeats])
        members = np.bincount(self.of_member, minlength=len(self.listed))
        self.entries = np.zeros(topics, np.int64)
        most = np.zeros(len(self.listed), np.int64)
        for s, one in enumerate(self.listed):
            np.add.at(self.entries, one, members[s])
            every = len(one) == topics
            most[s] = scene.partitions if every else scene.counts[one].sum(dtype=np.int64)
        self.most: NDArray[np.int64] = most[self.of_member]
        self.order: Int32Array = np.argsort(self.entries, kind="stable").astype(np.int32)
        self._topics = topics

    @property
    def shared(self) -> NDArray[np.bool_]:
        """bool[K]: topics that can be moved from one subscriber to another."""
        return self.entries >= 2

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        subscription = np.repeat(np.arange(len(self.listed), dtype=np.int64), np.diff(self.start))
        return subscription * max(self._topics, 1) + self.topic

    def subscribed(self, member: Int32Array, topic: Int32Array) -> NDArray[np.bool_]:
        """bool[n]: whether each member subscribes to the topic beside it."""
        if not len(self._keys):
            return np.zeros(len(member), bool)
        wanted = self.of_member[member].astype(np.int64) * max(self._topics, 1) + topic
        at = np.searchsorted(self._keys, wanted)
        at[at == len(self._keys)] = 0
        found: NDArray[np.bool_] = self._keys[at] == wanted
        return found


Numbers = TypeVar("Numbers", bound=np.integer[Any])


def distinct(values: NDArray[Numbers]) -> NDArray[Numbers]:
    """The distinct values, ascending.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def numbered(values: NDArray[Numbers]) -> tuple[NDArray[Numbers], NDArray[np.int32]]:
    """The distinct values, ascending, and for each value its position among them.

    >>> [part.tolist() for part in numbered(np.array([30, 10, 30]))]
    [[10, 30], [1, 0, 1]]
    """
    ordered = distinct(values)
    return ordered, np.searchsorted(ordered, values).astype(np.int32)
