"""Kafka's range assignor: each topic cut into runs of consecutive partitions."""

from __future__ import annotations

import numpy as np

from partage.groups.base import PlainStrategy
from partage.groups.layout import SubscriberSets, TopicRows, plan_in_order
from partage.groups.ordering import topics_in_map_order
from partage.groups.range_racks import apply_racks
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["Range"]


class Range(PlainStrategy):
    """Topic by topic: partitions in order, members in order, consecutive runs.

    Guarantees, the first before the next:

    1. per topic, loads differ by at most one; the first members get the larger runs;
    2. topics with equally many partitions and the same subscribers are co-located: equal
       partition numbers have one owner;
    3. with racks (KIP-881), a partition goes to a member on a rack of one of its replicas
       where this costs neither balance nor co-location.

    Members are ordered by `partage.groups.ordering.member_order`, so the join order has no
    effect (except for members that share an instance id). A member's list has topics in
    Java's hash order, or, if racks changed the plan, by topic and partition.

    Cost: O(P + M log M + T) on arrays without racks, P partitions, M members, T topics;
    the rack stage walks partitions one by one.

    Where it is not optimal: remainders add up. With T topics of one partition each, the
    first member gets all T, so loads over all topics differ by up to T.

    Exact to ``org.apache.kafka.clients.consumer.RangeAssignor`` 4.3.1, order included.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> Range().assign(Problem(group, Cluster.from_topics({"A": 2, "B": 2}))).to_dict()
    {'C1': {'A': [0], 'B': [0]}, 'C2': {'A': [1], 'B': [1]}, 'C3': {}}
    """

    name = "range"
    exact_to = "org.apache.kafka.clients.consumer.RangeAssignor 4.3.1"
    aliases = ("org.apache.kafka.clients.consumer.RangeAssignor",)

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Return the plan; it is empty for a group without members or topics."""
        rows = TopicRows.of(problem, topics_in_map_order(problem))
        subscribers = SubscriberSets.of(problem, rows.topics)
        position = _assign_runs(rows, subscribers)
        uses_racks = apply_racks(problem, rows, subscribers, position)
        owner = subscribers.order[position]
        if not uses_racks:
            return plan_in_order(problem, rows.partition, owner)
        rank = rows.spread(problem.index.topic_rank[rows.topics])
        by_name = np.argsort(rank, kind="stable")
        return plan_in_order(problem, rows.partition[by_name], owner[by_name])


def _assign_runs(rows: TopicRows, subscribers: SubscriberSets) -> Int32Array:
    """Return int32[n]: the position of each partition's owner without racks.

    Topics with the same subscribers and partition count are cut once and copied.
    """
    cut: dict[tuple[int, int], Int32Array] = {}
    pieces: list[Int32Array] = []
    for key in zip(subscribers.set_of_topic.tolist(), rows.counts.tolist(), strict=True):
        if key not in cut:
            cut[key] = _cut(subscribers.positions(key[0]), key[1])
        pieces.append(cut[key])
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _cut(positions: Int32Array, count: int) -> Int32Array:
    """Return int32[count]: the position of each owner; the first members get one more."""
    quota, extra = divmod(count, len(positions))
    owners = positions if quota else positions[:extra]
    sizes = np.full(len(owners), quota)
    sizes[:extra] += 1
    return np.repeat(owners, sizes)
