"""Iteration orders of members and topics in Kafka's client-side assignors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.java.hash_order import names_in_map_order
from partage.java.strings import string_hashes
from partage.model import Problem, java_rank
from partage.model.index import Int32Array

__all__ = [
    "member_order",
    "members_in_map_order",
    "names_in_map_order",
    "string_hashes",
    "topics_in_map_order",
]


def members_in_map_order(problem: Problem) -> list[int]:
    """Return the members in the order of the leader's ``HashMap`` (inserted in join order)."""
    return problem.group.mapped


def member_order(problem: Problem) -> Int32Array:
    """Return int32[M]: the members in Kafka's ``MemberInfo`` order.

    Static members by instance id come first, then dynamic ones by member id; both in
    Java's string order. Members that share an instance id (one of them is fenced) stay in
    map order.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("a"), Member("zz", instance_id="i"), Member("aa", instance_id="i")])
    >>> [group[m].id for m in member_order(Problem(group, Cluster.from_topics({})))]
    ['zz', 'aa', 'a']
    """
    group = problem.group
    instances = [m.instance_id for m in group]
    named = sorted({i for i in instances if i is not None})
    if not named:
        return np.argsort(group.member_rank).astype(np.int32)
    rank = dict(zip(named, java_rank(named).tolist(), strict=True))
    static = np.array([i is not None for i in instances])
    key = np.where(static, [rank[i] if i is not None else 0 for i in instances], group.member_rank)
    place = np.zeros(len(group), np.int32)
    if len(named) < int(static.sum()):
        place[members_in_map_order(problem)] = np.arange(len(group), dtype=np.int32)
    return np.lexsort((place, key, ~static)).astype(np.int32)


def topics_in_map_order(problem: Problem) -> Int32Array:
    """Return int32: subscribed topics with partitions, in the order of Kafka's map of them.

    Kafka collects the names of all subscriptions in a ``HashSet``, and those with partitions
    in a ``HashMap``: the bucket decides the order, within a bucket the insertion.
    """
    names = _subscribed_names(problem)
    known: list[str] = []
    topics: list[int] = []
    numbers = problem.cluster.topic_all(names)
    for i in names_in_map_order(names):
        topic = numbers[i]
        if topic >= 0 and len(problem.cluster.partitions_of(topic)):
            known.append(names[i])
            topics.append(topic)
    order: NDArray[np.int32] = np.array(topics, np.int32)[names_in_map_order(known)]
    return order


def _subscribed_names(problem: Problem) -> list[str]:
    """Return the distinct names in the order of the members' map."""
    group = problem.group
    if len(group.subscriptions) == 1:
        return list(dict.fromkeys(group.subscriptions[0]))
    subscription_of = group.subscription_of.tolist()
    names: dict[str, None] = {}
    # A repeated subscription adds no name.
    for one in dict.fromkeys(subscription_of[member] for member in members_in_map_order(problem)):
        names.update(dict.fromkeys(group.subscriptions[one]))
    return list(names)
