"""The orders in which Kafka's consumer-side assignors meet members and topics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partage.model import Problem, java_rank
from partage.model.index import Int32Array
from partage.model.mapped import as_mapped, string_hashes

__all__ = ["as_mapped", "member_order", "members_as_mapped", "string_hashes", "topics_as_mapped"]


def members_as_mapped(problem: Problem) -> list[int]:
    """Members in the order of the leader's ``HashMap`` of subscriptions, filled in join order."""
    return problem.group.mapped


def member_order(problem: Problem) -> Int32Array:
    """int32[M]: members in Kafka's ``MemberInfo`` order.

    Static members by instance id come first, then dynamic ones by member id; both in
    Java's string order. Members that share an instance id (a fenced one lingers for a
    while) stay in map order.

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
        place[members_as_mapped(problem)] = np.arange(len(group), dtype=np.int32)
    return np.lexsort((place, key, ~static)).astype(np.int32)


def topics_as_mapped(problem: Problem) -> Int32Array:
    """int32: subscribed topics that have partitions, in the order of Kafka's map of them.

    The names of all subscriptions go into a ``HashSet``, and from there, where the cluster
    has partitions, into a ``HashMap``: buckets decide, and inside a bucket who came first.
    """
    names = _names_as_met(problem)
    known: list[str] = []
    topics: list[int] = []
    numbers = problem.cluster.topic_all(names)
    for i in as_mapped(names):
        topic = numbers[i]
        if topic >= 0 and len(problem.cluster.partitions_of(topic)):
            known.append(names[i])
            topics.append(topic)
    order: NDArray[np.int32] = np.array(topics, np.int32)[as_mapped(known)]
    return order


def _names_as_met(problem: Problem) -> list[str]:
    """Distinct names in the order of the members' map."""
    group = problem.group
    if len(group.subscriptions) == 1:
        return list(dict.fromkeys(group.subscriptions[0]))
    subscription_of = group.subscription_of.tolist()
    names: dict[str, None] = {}
    # A subscription that comes again adds no name.
    for one in dict.fromkeys(subscription_of[member] for member in members_as_mapped(problem)):
        names.update(dict.fromkeys(group.subscriptions[one]))
    return list(names)
