"""KIP-49's fair assignor: each partition to the least loaded member that may have it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.groups.base import PlainStrategy
from partage.groups.layout import Audiences, Rows, plan_in_order, topics_by_name
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["Fair"]


class Fair(PlainStrategy):
    """The most constrained topics first, each partition to the least loaded subscriber.

    The document says: a partition goes to the least loaded eligible member; topics with the
    fewest consumers come first; among those, topics with more partitions. What it leaves
    open is decided so that its tables come out, and so that no input order matters:

    * equally loaded members: the first in `partage.groups.ordering.member_order` (static
      members by instance id, then dynamic ones by member id, in Java's string order);
    * topics that tie on both counts: by name, in Java's string order;
    * partitions of a topic: by number. A member's list is in the order given.

    Guarantees: with equal subscriptions, loads differ by at most one. Rebalances are not
    sticky: claims are ignored.

    Cost: O(P log P + A (M + T)) on arrays, P partitions, M members, T topics, A distinct
    sets of subscribers in a row.

    Where it is not optimal: it is greedy. With topics t1, t2, t3 of one partition each and
    members a [t1 t2], b [t1], c [t2 t3], it gives a both t1-0 and t2-0 and leaves b idle
    (spread 2), while a: t2-0, b: t1-0, c: t3-0 is even (spread 0).

    Source: KIP-49 (never merged into Kafka; ``FairAssignor`` is the class name it proposes).

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("C1", ["T1", "T2"]), Member("C2", ["T1"])])
    >>> Fair().assign(Problem(group, Cluster.from_topics({"T1": 3, "T2": 1}))).to_dict()
    {'C1': {'T2': [0], 'T1': [1]}, 'C2': {'T1': [0, 2]}}
    """

    name = "fair"
    aliases = ("org.apache.kafka.clients.consumer.FairAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """The plan; a group without members, or without topics, has an empty one.

        Takes any problem: raises nothing.
        """
        rows, audiences = _constrained_first(problem)
        owner = np.zeros(len(rows.partition), np.int32)
        load = np.zeros(len(problem.group), np.int64)
        for first, last, audience in _stretches(rows, audiences):
            places = audiences.places_of(audience)
            owner[first:last] = places[_least_loaded(load[places], last - first)]
            load += np.bincount(owner[first:last], minlength=len(load))
        return plan_in_order(problem, rows.partition, audiences.order[owner])


def _constrained_first(problem: Problem) -> tuple[Rows, Audiences]:
    """Topics by number of subscribers, then more partitions, then name."""
    topics = topics_by_name(problem)
    audiences = Audiences.of(problem, topics)
    counts = Rows.of(problem, topics).counts
    order = np.lexsort((-counts, audiences.sizes[audiences.of_topic]))
    topics = topics[order]
    return Rows.of(problem, topics), Audiences.of(problem, topics)


def _stretches(rows: Rows, audiences: Audiences) -> list[tuple[int, int, int]]:
    """(first row, last row + 1, audience): neighbouring topics of one audience are one stretch.

    To give two topics out one after the other is to give out one topic of both sizes.
    """
    if not len(rows.topics):
        return []
    new = np.flatnonzero(np.diff(audiences.of_topic)) + 1
    first_topic = np.concatenate([[0], new])
    starts = rows.start[first_topic].tolist()
    ends = [*starts[1:], len(rows.partition)]
    of = audiences.of_topic[first_topic].tolist()
    return [(a, b, c) for a, b, c in zip(starts, ends, of, strict=True) if b > a]


def _least_loaded(load: NDArray[np.int64], count: int) -> Int32Array:
    """Who is least loaded, ``count`` times over, each turn adding one; ties to the first.

    Without a loop: a member's turns come at load, load + 1, ...; the turns of all,
    sorted by (load at that turn, position), are the answer's beginning.
    """
    level = _water_level(load, count)
    turns = np.maximum(level - load, 0)
    member = np.repeat(np.arange(len(load), dtype=np.int32), turns)
    nth = np.arange(len(member)) - np.repeat(np.cumsum(turns) - turns, turns)
    when = load[member] + nth
    return member[np.argsort(when, kind="stable")[:count]]


def _water_level(load: NDArray[np.int64], count: int) -> int:
    """The lowest level to which filling all members up takes at least ``count`` partitions."""
    low = np.sort(load)
    # Filling the k+1 lowest members up to the next higher one takes room[k].
    room = low * np.arange(1, len(low) + 1) - np.cumsum(low)
    k = int(np.searchsorted(room, count, side="left"))
    missing = count - int(room[k - 1])
    return int(low[k - 1]) - (-missing // k)
