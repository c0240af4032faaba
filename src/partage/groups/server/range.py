"""The group coordinator's range assignor: each topic is divided into ranges of partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partage.groups.api import PlainStrategy
from partage.groups.layout import SubscriberSets, group_partitions
from partage.groups.server.group_assignment import GroupAssignment
from partage.groups.server.spec import GroupSpec
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["ServerRange"]


class ServerRange(PlainStrategy):
    """The group coordinator's range assignor (KIP-848): consecutive partitions of each topic.

    Guarantees, in order of priority:

    1. per topic, loads differ by at most one; the first members get the larger ranges;
    2. topics with equally many partitions and the same subscribers are co-located.

    Racks, previous targets and the join order have no effect; members are ordered as by the
    client's range (`partage.groups.layout.member_order`). A member's partitions come by
    topic; in Kafka they are a set.

    Cost: O(P + M log M + T) on arrays, P partitions, M members, T topics.

    Where it is not optimal: remainders of topics add up, as in the client's range.

    It gives the same results as ``org.apache.kafka.coordinator.group.assignor.RangeAssignor``
    4.3.1.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("A", ["T1", "T2"]), Member("B", ["T2"])])
    >>> ServerRange().assign(Problem(group, Cluster.from_topics({"T1": 2, "T2": 3}))).to_dict()
    {'A': {'T1': [0, 1], 'T2': [0, 1]}, 'B': {'T2': [2]}}
    """

    name = "server:range"
    exact_to = "org.apache.kafka.coordinator.group.assignor.RangeAssignor 4.3.1"
    aliases = ("org.apache.kafka.coordinator.group.assignor.RangeAssignor",)
    in_broker = True
    reads_claims = False
    instance_ids_only_sort = True

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign each topic's partitions to a group's consumers in consecutive ranges.

        Unlike `assign_from_spec`, this never raises. ``problem`` is the group and the cluster;
        ``memory`` (state between rebalances) is not used.
        """
        spec = GroupSpec(problem)
        return self.assign_from_spec(spec).to_plan(spec)

    def assign_from_spec(self, spec: GroupSpec) -> GroupAssignment:
        """Assign each topic's partitions in consecutive ranges, from a group coordinator's input.

        ``spec`` has the subscriptions and topic ids; Kafka's class for it is ``GroupSpec``.

        Raises:
            CoordinatorAssignorError: the partition count of a subscribed topic is unknown.
        """
        if not spec.members:
            return GroupAssignment.without_members(spec)
        subscribed = np.zeros(len(spec.problem.index.topics), bool)
        for topics in spec.problem.subscription_topics:
            subscribed[topics] = True
        topics = np.flatnonzero(subscribed).astype(np.int32)
        start, partition = spec.partitions_of(topics)
        subscribers = SubscriberSets.from_topics(spec.problem, topics)
        blocks = _blocks(subscribers, start, partition)
        if not blocks:
            nothing = np.zeros(0, np.int32)
            return GroupAssignment(np.zeros(spec.members + 1, np.int32), nothing)
        owner = np.concatenate([block.owners for block in blocks])
        rows = np.concatenate([block.rows.ravel() for block in blocks])
        return GroupAssignment(*group_partitions(spec.members, rows, owner))


@dataclass(frozen=True, eq=False)
class _TopicBlock:
    """Topics with the same subscribers and partition counts, so each member gets equal ranges of
    all.

    They are assigned together by array operations.

    Attributes:
        rows: int32[topics, count], the partitions of each topic.
        members: int32[n], the subscribers in order.
        cut: int64[n + 1], where each member's range begins within a topic.
    """

    rows: Int32Array
    members: Int32Array
    cut: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def of(cls, rows: Int32Array, members: Int32Array) -> _TopicBlock:
        quota, extra = divmod(rows.shape[1], len(members))
        nth = np.arange(len(members) + 1, dtype=np.int64)
        return cls(rows, members, nth * quota + np.minimum(nth, extra))

    @property
    def owners(self) -> Int32Array:
        """Owner of each partition of these topics, topic after topic (int32[topics * count]).

        The partitions are in the order of ``rows``.
        """
        return np.tile(np.repeat(self.members, np.diff(self.cut)), len(self.rows))


def _blocks(
    subscribers: SubscriberSets, start: Int32Array, partition: Int32Array
) -> list[_TopicBlock]:
    count = np.diff(start)
    keys = (subscribers.set_of_topic.astype(np.int64) << 32) | count
    kinds, kind_of = np.unique(keys, return_inverse=True)
    out = []
    for i, key in enumerate(kinds.tolist()):
        subscriber_set, width = key >> 32, key & 0xFFFFFFFF
        if not width:
            continue
        first = start[:-1][kind_of == i]
        rows = (
            partition.reshape(-1, width)
            if len(kinds) == 1
            else partition[first[:, None] + np.arange(width, dtype=np.int32)]
        )
        out.append(
            _TopicBlock.of(rows, subscribers.order[subscribers.members_of_set(subscriber_set)])
        )
    return out
