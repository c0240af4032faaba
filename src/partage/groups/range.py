"""Kafka's range assignor: each topic cut into runs of consecutive partitions."""

from __future__ import annotations

import numpy as np

from partage.groups.base import PlainStrategy
from partage.groups.layout import Audiences, Rows, plan_in_order
from partage.groups.ordering import topics_as_mapped
from partage.groups.range_racks import give_by_rack
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

    Members are ordered by `partage.groups.ordering.member_order`, so the join order is
    without effect (members that share an instance id aside). Order inside a member's list:
    topics in Java's hash order, or, if racks had a say, by topic and partition.

    Cost: O(P + M log M + T) on arrays without racks, P partitions, M members, T topics;
    the rack stage walks partitions one by one.

    Where it is not optimal: remainders add up. With T topics of one partition each, the
    first member gets all T; spread over all topics can reach T.

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
        """The plan; a group without members, or without topics, has an empty one.

        Takes any problem: raises nothing.
        """
        rows = Rows.of(problem, topics_as_mapped(problem))
        audiences = Audiences.of(problem, rows.topics)
        place = _runs(rows, audiences)
        racks_decided = give_by_rack(problem, rows, audiences, place)
        owner = audiences.order[place]
        if not racks_decided:
            return plan_in_order(problem, rows.partition, owner)
        rank = rows.spread(problem.index.topic_rank[rows.topics])
        by_name = np.argsort(rank, kind="stable")
        return plan_in_order(problem, rows.partition[by_name], owner[by_name])


def _runs(rows: Rows, audiences: Audiences) -> Int32Array:
    """int32[n]: place of each partition's owner when no racks have a say.

    Topics of one audience and one size are cut alike: that is worked out once, and copied.
    """
    cut: dict[tuple[int, int], Int32Array] = {}
    pieces: list[Int32Array] = []
    for key in zip(audiences.of_topic.tolist(), rows.counts.tolist(), strict=True):
        if key not in cut:
            cut[key] = _cut(audiences.places_of(key[0]), key[1])
        pieces.append(cut[key])
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _cut(places: Int32Array, count: int) -> Int32Array:
    """int32[count]: the place of each partition of a topic; the first ones get one more."""
    quota, extra = divmod(count, len(places))
    some = places if quota else places[:extra]  # all of few partitions go to the first
    sizes = np.full(len(some), quota)
    sizes[:extra] += 1
    return np.repeat(some, sizes)
