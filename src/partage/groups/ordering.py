"""The orders in which Kafka's consumer-side assignors meet members and topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.javaorder import hash_order, string_hash, string_ranks
from partage.model import Problem, java_rank
from partage.model.index import Int32Array

__all__ = ["as_mapped", "member_order", "members_as_mapped", "string_hashes", "topics_as_mapped"]

#: Below this many names the plain function is faster than the one by columns.
_WORTH_COLUMNS = 64


def string_hashes(names: Sequence[str]) -> list[int]:
    """``String.hashCode`` of many names, as signed int32.

    >>> string_hashes(["consumer1", "Aa", "BB"])
    [-421004549, 2112, 2112]
    """
    if len(names) < _WORTH_COLUMNS:
        return [string_hash(name) for name in names]
    units, length = _units(names)
    by_length = np.argsort(-length, kind="stable")
    start = (np.cumsum(length) - length)[by_length]
    # Longest first: those that still have a unit in a column are a prefix.
    longest = int(length[by_length[0]])
    alive = len(names) - np.searchsorted(np.sort(length), np.arange(longest), side="right")
    value = np.zeros(len(names), np.uint32)
    for column, n in enumerate(alive.tolist()):
        value[:n] *= np.uint32(31)
        value[:n] += units[start[:n] + column]
    out = np.empty(len(names), np.uint32)
    out[by_length] = value
    hashes: list[int] = out.view(np.int32).tolist()
    return hashes


def _units(names: Sequence[str]) -> tuple[NDArray[np.unsignedinteger[Any]], NDArray[np.int64]]:
    """UTF-16 units of names, one after the other, and how many each has."""
    text = "".join(names)
    if text.isascii():
        raw = text.encode("ascii")
        return np.frombuffer(raw, np.uint8), np.array(list(map(len, names)), np.int64)
    encoded = [name.encode("utf-16-le", "surrogatepass") for name in names]
    length = np.array([len(one) // 2 for one in encoded], np.int64)
    return np.frombuffer(b"".join(encoded), dtype="<u2"), length


def as_mapped(names: Sequence[str]) -> list[int]:
    """Distinct names in the order of the ``HashMap`` (or set) that got them in this order.

    >>> as_mapped(["consumer1", "consumer2", "consumer3"])
    [2, 1, 0]
    """
    return hash_order(string_hashes(names), rank=lambda: string_ranks(names))


def members_as_mapped(problem: Problem) -> list[int]:
    """Members in the order of the leader's ``HashMap`` of subscriptions, filled in join order."""
    return as_mapped(problem.group.ids)


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
