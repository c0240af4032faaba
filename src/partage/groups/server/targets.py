"""Previous targets: for each member its topics, for each topic a set of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.topic_ids import TopicIds
from partage.model import Problem
from partage.model.index import Int32Array

__all__ = ["Targets", "targets_from_claims"]


@dataclass(frozen=True, eq=False)
class Targets:
    """CSR by member of sets, CSR by set of partitions; both in order of insertion.

    Attributes:
        set_start: int32[M + 1], first set of each member.
        topic: int32[S], topic of each set; -1 where the index has no such topic.
        uuid_hash: uint32[S], Java's hash of the topic's id.
        start: int32[S + 1], first partition of each set.
        partition: int32[n], dense numbers, each once in its set.
    """

    set_start: Int32Array
    topic: Int32Array
    uuid_hash: NDArray[np.uint32]
    start: Int32Array
    partition: Int32Array

    @cached_property
    def member(self) -> Int32Array:
        """int32[S]: whose set it is."""
        sets = np.diff(self.set_start)
        return np.repeat(np.arange(len(sets), dtype=np.int32), sets)

    @cached_property
    def size(self) -> Int32Array:
        """int32[S]: partitions of each set."""
        return np.diff(self.start)

    @cached_property
    def set_of(self) -> Int32Array:
        """int32[n]: the set of each partition."""
        return np.repeat(np.arange(len(self.topic), dtype=np.int32), self.size)

    def empty(self, wanted: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
        """(member, topic) of the wanted sets (bool[S]) that have nothing in them."""
        at = np.flatnonzero(wanted & (self.size == 0))
        return tuple(zip(self.member[at].tolist(), self.topic[at].tolist(), strict=True))


def targets_from_claims(
    problem: Problem,
    first: Int32Array,
    count: Int32Array,
    dense: Int32Array,
    hashes: NDArray[np.uint32],
    *,
    several_owners: bool = False,
) -> Targets:
    """What members say they own, read as the coordinator's previous targets.

    A coordinator's own targets have every partition once, and none that does not exist.
    Members may claim anything; so what the cluster does not have is left out, and what
    several claim is with the newest generation, of equal ones with the last in join order
    (as in the coordinator's map from partition to owner, which later members overwrite).
    With ``several_owners`` all have it.
    """
    claimed = _Claimed.of(problem)
    topic = claimed.topic[claimed.name_of]
    inside = (topic >= 0) & (claimed.number >= 0) & (claimed.number < count[topic])
    spot = first[topic] + claimed.number
    if bool(inside.all()) and not _has_holes(problem, dense):
        partition = dense[spot]
    else:
        partition = problem.index.locate_all(topic, claimed.number)
        inside = partition >= 0
        inside[inside] = problem.cluster.partition_exists[partition[inside]]
        # A partition of a topic that is gone and was made anew is no longer there.
        inside[inside] &= problem.cluster.topic_exists[topic[inside]]
    kept = inside & _undisputed(problem, claimed, partition, inside, several_owners=several_owners)
    if not kept.all():
        claimed, partition = claimed.only(kept), partition[kept]
    return claimed.grouped(partition, hashes)


def _has_holes(problem: Problem, dense: Int32Array) -> bool:
    """Whether a partition's place in its topic may differ from its number."""
    index = problem.index
    return len(dense) != index.partitions or len(index.extent_topic) != len(index.topics)


class _Numbers(dict[str, int]):
    """Topic numbers by name; -1 for every other name."""

    def __missing__(self, name: str) -> int:
        return -1


@dataclass(frozen=True, eq=False)
class _Claimed:
    """All claims, flat: names by (member, first appearance), partitions by name.

    A member's claims on one topic need not lie together as sent; ``grouped`` sees to that.
    """

    name_start: NDArray[np.int64]
    topic: Int32Array
    foreign: list[str]
    name_of: Int32Array
    number: Int32Array

    @classmethod
    def of(cls, problem: Problem) -> _Claimed:
        owned = [m.owned for m in problem.group]
        sizes = np.array([len(one.topics) for one in owned], np.int64)
        start = np.zeros(len(owned) + 1, np.int64)
        np.cumsum(sizes, out=start[1:])
        existing = np.flatnonzero(problem.cluster.topic_exists).tolist()
        number = _Numbers((problem.index.topics[t], t) for t in existing)
        names = chain.from_iterable(one.topics for one in owned)
        topic = np.fromiter(map(number.__getitem__, names), np.int32, int(start[-1]))
        foreign: list[str] = []
        if bool((topic < 0).any()):
            every = [name for one in owned for name in one.topics]
            foreign = [every[i] for i in np.flatnonzero(topic < 0).tolist()]
        lengths = np.array([len(one) for one in owned], np.int64)
        name_of = _joined([one.topic_ix for one in owned])
        name_of += np.repeat(start[:-1], lengths).astype(np.int32)
        return cls(start, topic, foreign, name_of, _joined([one.partition for one in owned]))

    def only(self, kept: NDArray[np.bool_]) -> _Claimed:
        names, numbers = self.name_of[kept], self.number[kept]
        return _Claimed(self.name_start, self.topic, self.foreign, names, numbers)

    def member(self) -> Int32Array:
        sizes = np.diff(self.name_start)
        of_name = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return of_name[self.name_of]

    def grouped(self, partition: Int32Array, hashes: NDArray[np.uint32]) -> Targets:
        names = self.name_of
        if len(names) and bool((np.diff(names) < 0).any()):
            order = np.argsort(names, kind="stable")
            names, partition = names[order], partition[order]
        start = np.zeros(len(self.topic) + 1, np.int32)
        np.cumsum(np.bincount(names, minlength=len(self.topic)), out=start[1:])
        uuid_hash = np.zeros(len(self.topic), np.uint32)
        known = self.topic >= 0
        uuid_hash[known] = hashes[self.topic[known]]
        uuid_hash[~known] = TopicIds.of(self.foreign, [None] * len(self.foreign)).hashes
        set_start = self.name_start.astype(np.int32)
        return Targets(set_start, self.topic, uuid_hash, start, partition)


def _joined(parts: Sequence[Int32Array]) -> Int32Array:
    full = [one for one in parts if len(one)]
    return np.concatenate(full) if full else np.zeros(0, np.int32)


def _undisputed(
    problem: Problem,
    claimed: _Claimed,
    partition: Int32Array,
    inside: NDArray[np.bool_],
    *,
    several_owners: bool,
) -> NDArray[np.bool_]:
    """bool: False for a claim that another one beats."""
    good = np.ones(len(partition), bool)
    times = np.bincount(partition[inside], minlength=problem.index.partitions)
    if not len(times) or times.max() <= 1:
        return good
    at = np.flatnonzero(inside)
    at = at[times[partition[at]] > 1]
    member = claimed.member()[at]
    generation = np.array([m.generation for m in problem.group], np.int64)[member]
    if several_owners:
        generation[:] = 0
    # The last of each partition in this order wins; a member's own repetition: its first.
    order = np.lexsort((-at, member, generation, partition[at]))
    best = np.ones(len(at), bool)
    best[:-1] = np.diff(partition[at][order]) != 0
    if several_owners:
        best[:-1] |= np.diff(member[order]) != 0
    good[at[order[~best]]] = False
    return good
