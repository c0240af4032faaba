"""Previous target assignment: for each member its topics, for each topic a set of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.kernels import read_claims
from partage.groups.server.topic_ids import TopicIds
from partage.model import Problem
from partage.model.index import Int32Array

__all__ = ["Targets", "previous_targets"]


@dataclass(frozen=True, eq=False)
class Targets:
    """The previous target assignment: CSR by member of sets, CSR by set of partitions.

    Both keep the order of insertion, which decides Java's iteration order.

    Attributes:
        set_start: int32[M + 1], first set of each member.
        topic: int32[S], topic of each set; -1 where the index has no such topic.
        uuid_hash: uint32[S], Java's hash of the topic id.
        start: int32[S + 1], first partition of each set.
        partition: int32[n], dense partitions, each once in its set.
        given: bool[P], whether a partition is in a set; None if not yet computed.
    """

    set_start: Int32Array
    topic: Int32Array
    uuid_hash: NDArray[np.uint32]
    start: Int32Array
    partition: Int32Array
    given: NDArray[np.bool_] | None = None

    def marked(self, partitions: int) -> NDArray[np.bool_]:
        """Return bool[P]: whether a partition is in a set."""
        if self.given is not None:
            return self.given
        marks = np.zeros(partitions, bool)
        marks[self.partition] = True
        return marks

    @cached_property
    def member(self) -> Int32Array:
        """int32[S]: the member of each set."""
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

    def empty_sets(self, selected: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
        """Return (member, topic) of the selected sets (bool[S]) that are empty."""
        at = np.flatnonzero(selected & (self.size == 0))
        return tuple(zip(self.member[at].tolist(), self.topic[at].tolist(), strict=True))


def previous_targets(
    problem: Problem,
    first: Int32Array,
    count: Int32Array,
    dense: Int32Array,
    hashes: NDArray[np.uint32],
    *,
    several_owners: bool = False,
) -> Targets:
    """Return the partitions that members claim to own as the coordinator's previous targets.

    A coordinator's own targets contain every partition once, and only existing ones. Members
    may claim anything: partitions that do not exist are dropped, and a partition with several
    claims goes to the newest generation, or the last of these in join order (later members
    overwrite earlier ones in the coordinator's map from partition to owner). With
    ``several_owners`` every claim counts.
    """
    sent = _Sent.of(problem)
    # One entry more, for topic -1, which does not exist.
    limit, begin = np.append(count, np.int32(0)), np.append(first, np.int32(0))
    if read_claims.ready and not several_owners and not _has_holes(problem, dense):
        read = sent.read(begin[sent.topic], limit[sent.topic], problem.index.partitions)
        if read is not None:
            return sent.grouped(*read, hashes)
    claimed = _Claimed.of(sent)
    inside = claimed.number.view(np.uint32) < claimed.spread(limit[claimed.sent.topic]).view(
        np.uint32
    )
    if bool(inside.all()) and not _has_holes(problem, dense):
        partition = claimed.spread(begin[sent.topic]) + claimed.number
    else:
        topic = claimed.spread(sent.topic)
        partition = problem.index.locate_all(topic, claimed.number)
        inside = partition >= 0
        inside[inside] = problem.cluster.partition_exists[partition[inside]]
        # A partition of a deleted and recreated topic belongs to the old topic id.
        inside[inside] &= problem.cluster.topic_exists[topic[inside]]
    times = np.bincount(partition[inside], minlength=1)
    if int(times.max()) > 1:
        inside &= _undisputed(problem, claimed, partition, inside, several_owners=several_owners)
    if not inside.all():
        claimed, partition = claimed.select(inside), partition[inside]
    return claimed.sent.grouped(claimed.size, partition, None, hashes)


def _has_holes(problem: Problem, dense: Int32Array) -> bool:
    """Return whether a partition's dense place may differ from first + number."""
    index = problem.index
    return len(dense) != index.partitions or len(index.extent_topic) != len(index.topics)


@dataclass(frozen=True, eq=False)
class _Sent:
    """All claims as sent, in flat arrays.

    Attributes:
        name_start: int64[M + 1], first name of each member (CSR); topic: int32[N], topic of
            each name, -1 if it does not exist; foreign: names that do not exist, in order.
        at: int64[M + 1], first claim of each member (CSR); name: int32[n], index into the
            member's names; number: int32[n], partition numbers.
    """

    name_start: NDArray[np.int64]
    topic: Int32Array
    foreign: list[str]
    at: NDArray[np.int64]
    name: Int32Array
    number: Int32Array

    @classmethod
    def of(cls, problem: Problem) -> _Sent:
        rows = problem.group.claimed
        topic = np.array(problem.cluster.topic_all(rows.names), np.int32)
        foreign = [rows.names[i] for i in np.flatnonzero(topic < 0).tolist()]
        return cls(rows.name_start, topic, foreign, rows.start, rows.name, rows.partition)

    def read(
        self, begin: Int32Array, limit: Int32Array, partitions: int
    ) -> tuple[NDArray[Any], Int32Array, NDArray[np.bool_]] | None:
        """Return sizes by name, partitions and marks, or None if a claim is a special case."""
        size, out = np.zeros(len(self.topic), np.int32), np.empty(len(self.number), np.int32)
        given = np.zeros(partitions, bool)
        done = read_claims(
            self.at, self.name_start, self.name, self.number,
            np.stack((begin, limit), axis=1), size, out, given, work=len(out),
        )  # fmt: skip
        return (size, out, given) if done == len(out) else None

    def grouped(
        self,
        size: NDArray[Any],
        partition: Int32Array,
        given: NDArray[np.bool_] | None,
        hashes: NDArray[np.uint32],
    ) -> Targets:
        """Return the targets with ``size`` partitions under each name."""
        start = np.zeros(len(self.topic) + 1, np.int32)
        np.cumsum(size, out=start[1:])
        uuid_hash = np.append(hashes, np.uint32(0))[self.topic]
        if self.foreign:
            derived = TopicIds.of(self.foreign, [None] * len(self.foreign)).hashes
            uuid_hash[self.topic < 0] = derived
        first = self.name_start.astype(np.int32)
        return Targets(first, self.topic, uuid_hash, start, partition, given)


@dataclass(frozen=True, eq=False)
class _Claimed:
    """Claims grouped by each member's topic names.

    Attributes:
        sent: all names, and all claims as sent.
        size: int64[N], partitions claimed under each name.
        number: int32[n], partition numbers, by name.
    """

    sent: _Sent
    size: NDArray[np.int64]
    number: Int32Array

    @classmethod
    def of(cls, sent: _Sent) -> _Claimed:
        lengths = np.diff(sent.at)
        name_of = sent.name + np.repeat(sent.name_start[:-1].astype(np.int32), lengths)
        number = sent.number
        if len(number) and bool((name_of[1:] < name_of[:-1]).any()):
            # A member may send the claims of one topic in several places.
            order = np.argsort(name_of, kind="stable")
            name_of, number = name_of[order], number[order]
        return cls(sent, np.bincount(name_of, minlength=len(sent.topic)), number)

    def spread(self, by_name: Int32Array) -> Int32Array:
        """Repeat a value per name for each of its partitions."""
        return np.repeat(by_name, self.size)

    def select(self, kept: NDArray[np.bool_]) -> _Claimed:
        """Return the claims at which ``kept`` (bool[n]) is true."""
        name_of = self.spread(np.arange(len(self.sent.topic), dtype=np.int32))[kept]
        size = np.bincount(name_of, minlength=len(self.sent.topic))
        return _Claimed(self.sent, size, self.number[kept])

    def member(self) -> Int32Array:
        """Return int32[n]: the member of each claim."""
        names = np.diff(self.sent.name_start)
        return self.spread(np.repeat(np.arange(len(names), dtype=np.int32), names))


def _undisputed(
    problem: Problem,
    claimed: _Claimed,
    partition: Int32Array,
    inside: NDArray[np.bool_],
    *,
    several_owners: bool,
) -> NDArray[np.bool_]:
    """Return bool[n]: False for a claim that another claim overrides."""
    good = np.ones(len(partition), bool)
    at = np.flatnonzero(inside)
    member = claimed.member()[at]
    generation = np.array([m.generation for m in problem.group], np.int64)[member]
    if several_owners:
        generation[:] = 0
    # The last claim of each partition in this order wins; of a member's repetitions, the first.
    order = np.lexsort((-at, member, generation, partition[at]))
    best = np.ones(len(at), bool)
    best[:-1] = np.diff(partition[at][order]) != 0
    if several_owners:
        best[:-1] |= np.diff(member[order]) != 0
    good[at[order[~best]]] = False
    return good
