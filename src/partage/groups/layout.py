"""Partitions topic by topic, and who may have them: arrays that several strategies share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.groups.ordering import member_order
from partage.kernels import kernel
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["Audiences", "Rows", "plan_in_order", "topics_by_name"]


@dataclass(frozen=True, eq=False)
class Rows:
    """The existing partitions of some topics, topic after topic, by partition number.

    Attributes:
        topics: int32[T], topic numbers in the order laid out.
        start: int32[T + 1], where each topic begins in ``partition`` (CSR).
        partition: int32[n], dense numbers.
    """

    topics: Int32Array
    start: Int32Array
    partition: Int32Array

    @classmethod
    def of(cls, problem: Problem, topics: Int32Array) -> Rows:
        """Lay out topics in the given order."""
        lists = [problem.cluster.partitions_of(t) for t in topics.tolist()]
        start = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(one) for one in lists], out=start[1:])
        partition = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        return cls(topics, start, partition)

    @property
    def counts(self) -> Int32Array:
        """int32[T]: partitions of each topic."""
        return np.diff(self.start)

    def spread(self, by_topic: Int32Array) -> Int32Array:
        """A value a topic, repeated for each of its partitions."""
        return np.repeat(by_topic, self.counts)


@dataclass(frozen=True, eq=False)
class Audiences:
    """The distinct sets of members that topics have as subscribers; equal sets are one.

    Attributes:
        order: int32[M], members in Kafka's MemberInfo order; "place" is a position in it.
        of_topic: int32[len(topics)], audience of each topic asked for.
        start: int32[A + 1], where each audience begins in ``place`` (CSR).
        place: int32, the places of its members, ascending.
    """

    order: Int32Array
    of_topic: Int32Array
    start: Int32Array
    place: Int32Array

    @classmethod
    def of(cls, problem: Problem, topics: Int32Array) -> Audiences:
        """The audiences of some topics (all of which have subscribers)."""
        order = member_order(problem)
        class_of_place = problem.group.subscription_of[order]
        classes = _classes_by_topic(problem)
        number: dict[bytes, int] = {}
        of_topic = np.zeros(len(topics), np.int32)
        places: list[Int32Array] = []
        for i, topic in enumerate(topics.tolist()):
            mine = classes[topic]
            audience = number.setdefault(mine.tobytes(), len(number))
            of_topic[i] = audience
            if audience == len(places):
                wanted = np.zeros(len(problem.group.subscriptions), bool)
                wanted[mine] = True
                places.append(np.flatnonzero(wanted[class_of_place]).astype(np.int32))
        start = np.zeros(len(places) + 1, np.int32)
        np.cumsum([len(one) for one in places], out=start[1:])
        place = np.concatenate(places) if places else np.zeros(0, np.int32)
        return cls(order, of_topic, start, place)

    @property
    def sizes(self) -> Int32Array:
        """int32[A]: members of each audience."""
        return np.diff(self.start)

    def places_of(self, audience: int) -> Int32Array:
        """int32: places of an audience's members, ascending."""
        return self.place[self.start[audience] : self.start[audience + 1]]


def topics_by_name(problem: Problem) -> Int32Array:
    """int32: existing topics with a subscriber, in Java's string order of names."""
    wanted = np.zeros(len(problem.index.topics), bool)
    for topics in problem.subscription_topics:
        wanted[topics] = True
    topics = np.flatnonzero(wanted).astype(np.int32)
    return topics[np.argsort(problem.index.topic_rank[topics])]


def _classes_by_topic(problem: Problem) -> list[Int32Array]:
    """For each topic the distinct subscriptions that name it, ascending."""
    by_class = problem.subscription_topics
    sizes = [len(topics) for topics in by_class]
    topic = np.concatenate(by_class) if by_class else np.zeros(0, np.int32)
    of_class = np.repeat(np.arange(len(by_class), dtype=np.int32), sizes)
    topics = len(problem.index.topics)
    grouped = of_class[np.argsort(_sort_key(topic, topics), kind="stable")]
    ends = np.cumsum(np.bincount(topic, minlength=topics)).tolist()
    return [grouped[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def _sort_key(values: Int32Array, below: int) -> NDArray[np.signedinteger[Any]]:
    """The same values; NumPy sorts 16-bit keys by radix, several times faster than wider ones."""
    return values.astype(np.int16) if below <= 2**15 else values


def plan_in_order(
    problem: Problem,
    partition: Int32Array,
    owner: Int32Array,
    **more: Any,
) -> Plan:
    """A plan from a sequence of partitions and their owners; each member keeps the order."""
    members = len(problem.group)
    start = np.zeros(members + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=members), out=start[1:])
    if deal_out.ready:
        dealt = np.empty(len(partition), np.int32)
        owner = np.ascontiguousarray(owner, np.int32)
        rows = np.ascontiguousarray(partition, np.int32)
        deal_out(rows, owner, start[:-1].copy(), dealt, work=len(rows))
    else:
        dealt = partition[np.argsort(_sort_key(owner, members), kind="stable")]
    role = np.zeros(len(partition), np.int8)
    return Plan(problem.index, problem.group.ids, start, dealt, role, **more)


@kernel("void(int32[::1], int32[::1], int32[::1], int32[::1])")
def deal_out(partition: Int32Array, owner: Int32Array, at: Int32Array, out: Int32Array) -> None:
    """Each partition into its owner's row, which is filled up to ``at``; one pass, no sort."""
    for i in range(len(owner)):
        member = owner[i]
        out[at[member]] = partition[i]
        at[member] += 1
