"""Kafka's range assignor: each topic is divided into ranges of consecutive partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from partage.groups.api import PlainStrategy
from partage.groups.layout import SubscriberSets, TopicRows, plan_in_order, rows_in_map_order
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["Range", "apply_racks"]

#: Rack of members without one: they match every partition.
_ANYWHERE = -1


def apply_racks(
    problem: Problem, topic_rows: TopicRows, subscribers: SubscriberSets, owner_index: Int32Array
) -> bool:
    """Change a range assignment so that consumers get partitions with replicas on their rack.

    Each consumer keeps its number of partitions per topic, except that the extra ones of an uneven
    division may go to others. The rules are those of Kafka's RangeAssignor (KIP-881).

    Args:
        problem: the consumer group and the cluster.
        topic_rows: the partitions, topic by topic.
        subscribers: the members that subscribe to each topic.
        owner_index: int32[n], owner of each partition without regard to racks; changed in place.

    Returns:
        Whether racks have any effect.
    """
    if not problem.group.has_racks:
        return False
    rack = problem.member_rack[subscribers.order]
    pairs = _PartitionRacks(problem, topic_rows)
    needs_racks = pairs.needs_racks(subscribers, rack)
    if not needs_racks.any():
        return False
    for topics in _co_partitioned_topics(topic_rows, subscribers):
        members = subscribers.members_of_set(int(subscribers.set_of_topic[topics[0]]))
        racks = rack[members].tolist()
        if all(r == _ANYWHERE for r in racks):
            continue
        count = int(topic_rows.partition_counts[topics[0]])
        if len(topics) == 1 and not needs_racks[topics[0]]:
            continue
        # Every member of a topic gets the same number of partitions as without racks, except that
        # other members may get the extra ones of an uneven division: those that first exceed the
        # even share. Partitions that are left are assigned as without racks. Topics with the same
        # subscribers and partition count are assigned together as soon as one of them needs racks.
        quotas = _Quotas(len(members), count)
        if len(topics) == 1:
            owner = _assign_topic(quotas, racks, pairs.partitions_by_rack(topics[0]), count)
        else:
            owner = _assign_co_partitioned(quotas, racks, pairs.common_racks(topics), count)
        owners = members[quotas.assign_rest(owner)]
        for topic in topics:
            owner_index[topic_rows.start[topic] : topic_rows.start[topic + 1]] = owners
    return True


def _co_partitioned_topics(rows: TopicRows, subscribers: SubscriberSets) -> Iterable[list[int]]:
    # Topics with the same subscribers and the same number of partitions.
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for topic, key in enumerate(
        zip(subscribers.set_of_topic.tolist(), rows.partition_counts.tolist(), strict=True)
    ):
        groups[key].append(topic)
    return groups.values()


class _PartitionRacks:
    """The racks on which each partition has a replica, stored as distinct (partition, rack) pairs.

    The range assignor uses them to find partitions with a replica on a consumer's rack. A partition
    is given by its position in the array of all partitions (`TopicRows`).
    """

    def __init__(self, problem: Problem, rows: TopicRows) -> None:
        start, rack = problem.cluster.partition_racks
        first, last = start[rows.partition], start[rows.partition + 1]
        self.rows = rows
        self.count = last - first
        self.start = np.zeros(len(rows.partition) + 1, np.int64)
        np.cumsum(self.count, out=self.start[1:])
        at = np.arange(self.start[-1]) + np.repeat(first - self.start[:-1], self.count)
        self.rack = rack[at] if len(at) else np.zeros(0, np.int32)
        self.row = np.repeat(np.arange(len(rows.partition), dtype=np.int64), self.count)
        self.width = max(len(problem.cluster.rack_names), 1)

    def needs_racks(self, subscribers: SubscriberSets, rack: Int32Array) -> NDArray[np.bool_]:
        # Kafka assigns a topic by rack if a member is on one of its racks, and the racks of its
        # partitions differ.
        topics = len(self.rows.topics)
        topic_of_row = self.rows.expand_to_partitions(np.arange(topics, dtype=np.int32))
        keys = topic_of_row[self.row].astype(np.int64) * self.width + self.rack
        keys = _distinct(keys, topics * self.width)
        racks_of_topic = np.bincount(keys // self.width, minlength=topics)
        differs = np.zeros(topics, bool)
        differs[topic_of_row[self.count != racks_of_topic[topic_of_row]]] = True
        set_of_member = np.repeat(np.arange(len(subscribers.sizes)), subscribers.sizes)
        of_member = rack[subscribers.position]
        on_rack = of_member >= 0
        member_racks = set_of_member[on_rack] * self.width + of_member[on_rack]
        member_racks = _distinct(member_racks, len(subscribers.sizes) * self.width)
        topic, rack_number = np.divmod(keys, self.width)
        replica_racks = subscribers.set_of_topic[topic] * self.width + rack_number
        meets = np.zeros(topics, bool)
        meets[topic[np.isin(replica_racks, member_racks)]] = True
        return meets & differs

    def partitions_by_rack(self, topic: int) -> dict[int, list[int]]:
        """Return the partitions of a topic that have a replica on each rack, e.g. ``{0: [0, 2]}``.

        Racks are numbers; partitions are counted from the topic's first one. ``topic`` is the
        topic's position in `TopicRows`.
        """
        first, last = self.rows.start[topic], self.rows.start[topic + 1]
        of_topic = slice(self.start[first], self.start[last])
        out: dict[int, list[int]] = defaultdict(list)
        row = (self.row[of_topic] - first).tolist()
        for nth, rack in zip(row, self.rack[of_topic].tolist(), strict=True):
            out[rack].append(nth)
        return out

    def common_racks(self, topics: list[int]) -> list[list[int]]:
        count = int(self.rows.partition_counts[topics[0]])
        keys = []
        for topic in topics:
            first, last = self.rows.start[topic], self.rows.start[topic + 1]
            of_topic = slice(self.start[first], self.start[last])
            keys.append((self.row[of_topic] - first) * self.width + self.rack[of_topic])
        key, times = np.unique(np.concatenate(keys), return_counts=True)
        shared = key[times == len(topics)]
        out: list[list[int]] = [[] for _ in range(count)]
        for nth, rack in zip(
            (shared // self.width).tolist(), (shared % self.width).tolist(), strict=True
        ):
            out[nth].append(rack)
        return out


def _distinct(keys: NDArray[np.int64], below: int) -> NDArray[np.int64]:
    if below > 4 * len(keys) + 1024:
        return np.unique(keys)
    present = np.zeros(below, bool)
    present[keys] = True
    return np.flatnonzero(present)


class _Quotas:
    """Numbers of partitions of one topic that each consumer may still get from the range assignor.

    A consumer's number is the even share of the topic's partitions. If the division leaves a
    remainder, some consumers may get one more.
    """

    def __init__(self, members: int, partitions: int) -> None:
        self.quota, self.extra = divmod(partitions, members)
        self.taken = [0] * members

    def room(self, member: int) -> int:
        return max(0, self.quota + (self.extra > 0) - self.taken[member])

    def take(self, member: int, partitions: int) -> None:
        self.taken[member] += partitions
        if self.taken[member] > self.quota:
            self.extra -= 1

    def assign_rest(self, owner: list[int]) -> Int32Array:
        out = np.array(owner, np.int32)
        taken = np.array(self.taken, np.int64)
        target = np.maximum(taken, self.quota)
        target[np.flatnonzero(taken <= self.quota)[: self.extra]] += 1
        out[out < 0] = np.repeat(np.arange(len(taken), dtype=np.int32), target - taken)
        return out


def _assign_topic(
    quotas: _Quotas, racks: list[int], by_rack: dict[int, list[int]], partition_count: int
) -> list[int]:
    """Assign a topic's partitions to consumers on a replica's rack, up to their quotas (KIP-881).

    The result is the member of each partition, -1 for a partition that stays unassigned here.
    ``by_rack`` has the partition numbers with a replica on each rack; ``quotas`` are reduced.
    """
    owner = [-1] * partition_count
    by_rack = {**by_rack, _ANYWHERE: list(range(partition_count))}
    # Members of one rack share a list; each continues where the one before it stopped.
    stopped = dict.fromkeys(by_rack, 0)
    for member, rack in enumerate(racks):
        room = quotas.quota + (quotas.extra > 0)
        if not room:
            break  # the quota is 0 and the extra partitions are taken
        on_rack = by_rack.get(rack, [])
        at, end, taken = stopped.get(rack, 0), len(on_rack), 0
        while at < end and taken < room:
            if owner[on_rack[at]] < 0:
                owner[on_rack[at]] = member
                taken += 1
            at += 1
        stopped[rack] = at
        if taken:
            quotas.take(member, taken)
    return owner


def _assign_co_partitioned(
    quotas: _Quotas, racks: list[int], common_racks: list[list[int]], partition_count: int
) -> list[int]:
    """Assign equal partition numbers of several topics together, to a consumer on a common rack.

    For example, partition 3 of all these topics goes to one consumer whose rack has a replica of
    each. ``common_racks`` has these racks for each partition number. The result is the member of
    each number, -1 for none; ``quotas`` are reduced.
    """
    owner = [-1] * partition_count
    waiting: dict[int, list[int]] = defaultdict(list)
    for member in reversed(range(len(racks))):
        waiting[racks[member]].append(member)
    for nth in range(partition_count):
        # The first member below its quota whose rack has a replica of all these partitions.
        best = _first_with_room(quotas, waiting, [_ANYWHERE, *common_racks[nth]])
        if best >= 0:
            owner[nth] = best
            quotas.take(best, 1)
    return owner


def _first_with_room(quotas: _Quotas, waiting: dict[int, list[int]], racks: Iterable[int]) -> int:
    # -1: no member on these racks is below its quota. ``waiting`` has a queue of members for each
    # rack.
    best = -1
    for rack in racks:
        queue = waiting.get(rack)
        # A member without room never gets room again, so it leaves the queue.
        while queue and not quotas.room(queue[-1]):
            queue.pop()
        if queue and (best < 0 or queue[-1] < best):
            best = queue[-1]
    return best


class Range(PlainStrategy):
    """Kafka's range assignor: for each topic, members in order get consecutive partitions.

    Guarantees, in order of priority:

    1. per topic, loads differ by at most one; the first members get the larger ranges;
    2. topics with equally many partitions and the same subscribers are co-located: equal
       partition numbers have one owner;
    3. with racks (KIP-881), a partition goes to a member on a rack of one of its replicas
       where this costs neither balance nor co-location.

    Members are ordered by `partage.groups.layout.member_order`, so the join order has no
    effect (except for members that share an instance id). A member's list has topics in
    Java's hash order, or, if racks changed the plan, by topic and partition.

    Cost: O(P + M log M + T) on arrays without racks, P partitions, M members, T topics; the rack
    stage walks partitions one by one.

    Where it is not optimal: remainders add up. With T topics of one partition each, the
    first member gets all T, so loads over all topics differ by up to T.

    It gives the same results as ``org.apache.kafka.clients.consumer.RangeAssignor`` 4.3.1,
    including the order of each member's partitions.

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")])
    >>> Range().assign(Problem(group, Cluster.from_topics({"A": 2, "B": 2}))).to_dict()
    {'C1': {'A': [0], 'B': [0]}, 'C2': {'A': [1], 'B': [1]}, 'C3': {}}
    """

    name = "range"
    exact_to = "org.apache.kafka.clients.consumer.RangeAssignor 4.3.1"
    aliases = ("org.apache.kafka.clients.consumer.RangeAssignor",)
    reads_claims = False
    instance_ids_only_sort = True

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign each topic's partitions to its subscribers in consecutive ranges.

        ``problem`` is the group and the cluster; ``memory`` (state between rebalances) is not used.
        The plan is empty for a group without members or topics.
        """
        rows = rows_in_map_order(problem)
        subscribers = SubscriberSets.from_topics(problem, rows.topics)
        position = _assign_runs(rows, subscribers)
        uses_racks = apply_racks(problem, rows, subscribers, position)
        owner = subscribers.order[position]
        if not uses_racks:
            return plan_in_order(problem, rows.partition, owner)
        rank = rows.expand_to_partitions(problem.index.topic_rank[rows.topics])
        by_name = np.argsort(rank, kind="stable")
        return plan_in_order(problem, rows.partition[by_name], owner[by_name])


def _assign_runs(topic_rows: TopicRows, subscribers: SubscriberSets) -> Int32Array:
    """Divide each topic's partitions into consecutive ranges, one for each subscriber.

    The first subscribers get one partition more if the division leaves a remainder. Racks are not
    considered. The result is the owner of each partition (int32[n]), as the member's index in
    ``subscribers.order``.
    """
    cut: dict[tuple[int, int], Int32Array] = {}
    pieces: list[Int32Array] = []
    for key in zip(
        subscribers.set_of_topic.tolist(), topic_rows.partition_counts.tolist(), strict=True
    ):
        if key not in cut:
            cut[key] = _cut(subscribers.members_of_set(key[0]), key[1])
        pieces.append(cut[key])
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _cut(positions: Int32Array, count: int) -> Int32Array:
    quota, extra = divmod(count, len(positions))
    return np.concatenate((positions[:extra].repeat(quota + 1), positions[extra:].repeat(quota)))
