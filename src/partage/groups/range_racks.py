"""Range with racks (KIP-881): who gets which partition before the plain runs fill the rest.

Everything here works on places (positions in MemberInfo order), as in `range`. Of a topic
with n members and P partitions every member ends with q = P // n, and P % n of them with one
more: the extra belongs to nobody until somebody takes it, first come, first served.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from partage.groups.layout import Audiences, Rows
from partage.model import Problem
from partage.model.index import Int32Array

__all__ = ["give_by_rack"]

#: Key of members without a rack: they match every partition.
_ANYWHERE = -1


def give_by_rack(problem: Problem, rows: Rows, audiences: Audiences, place: Int32Array) -> bool:
    """Rewrite ``place`` (the owner of each partition) where racks matter; whether they do.

    As soon as one topic needs racks, all topics that share an audience and a partition
    count are given out together, those too that would not need them.
    """
    rack = problem.member_rack[audiences.order]
    if not (rack >= 0).any():
        return False
    pairs = _Racks(problem, rows)
    needing = pairs.needing(audiences, rack)
    if not needing.any():
        return False
    for topics in _together(rows, audiences):
        members = audiences.places_of(int(audiences.of_topic[topics[0]]))
        racks = rack[members].tolist()
        if all(r == _ANYWHERE for r in racks):
            continue
        count = int(rows.counts[topics[0]])
        if len(topics) == 1 and not needing[topics[0]]:
            continue
        shares = _Shares(len(members), count)
        if len(topics) == 1:
            mine = _one_topic(shares, racks, pairs.of_rack(topics[0]), count)
        else:
            mine = _co_partitioned(shares, racks, pairs.common(topics), count)
        owners = members[shares.fill(mine)]
        for topic in topics:
            place[rows.start[topic] : rows.start[topic + 1]] = owners
    return True


def _together(rows: Rows, audiences: Audiences) -> Iterable[list[int]]:
    """Topics with the same members and equally many partitions."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for topic, key in enumerate(
        zip(audiences.of_topic.tolist(), rows.counts.tolist(), strict=True)
    ):
        groups[key].append(topic)
    return groups.values()


class _Racks:
    """Which racks hold a replica of a partition: pairs (row, rack), sorted, distinct."""

    def __init__(self, problem: Problem, rows: Rows) -> None:
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

    def needing(self, audiences: Audiences, rack: Int32Array) -> NDArray[np.bool_]:
        """bool[T]: a member sits on a rack of the topic, and its partitions' racks differ."""
        topics = len(self.rows.topics)
        topic_of_row = self.rows.spread(np.arange(topics, dtype=np.int32))
        keys = topic_of_row[self.row].astype(np.int64) * self.width + self.rack
        keys = _distinct(keys, topics * self.width)
        racks_of_topic = np.bincount(keys // self.width, minlength=topics)
        differs = np.zeros(topics, bool)
        differs[topic_of_row[self.count != racks_of_topic[topic_of_row]]] = True
        audience = np.repeat(np.arange(len(audiences.sizes)), audiences.sizes)
        of_member = rack[audiences.place]
        on_rack = of_member >= 0
        wanted = audience[on_rack] * self.width + of_member[on_rack]
        wanted = _distinct(wanted, len(audiences.sizes) * self.width)
        offered = audiences.of_topic[keys // self.width] * self.width + keys % self.width
        meets = np.zeros(topics, bool)
        meets[keys[np.isin(offered, wanted)] // self.width] = True
        return meets & differs

    def of_rack(self, topic: int) -> dict[int, list[int]]:
        """For each rack the partitions of a topic (counted from 0) on it, ascending."""
        first, last = self.rows.start[topic], self.rows.start[topic + 1]
        mine = slice(self.start[first], self.start[last])
        out: dict[int, list[int]] = defaultdict(list)
        row = (self.row[mine] - first).tolist()
        for nth, rack in zip(row, self.rack[mine].tolist(), strict=True):
            out[rack].append(nth)
        return out

    def common(self, topics: list[int]) -> list[list[int]]:
        """For each partition number the racks that all these topics have for it."""
        count = int(self.rows.counts[topics[0]])
        keys = []
        for topic in topics:
            first, last = self.rows.start[topic], self.rows.start[topic + 1]
            mine = slice(self.start[first], self.start[last])
            keys.append((self.row[mine] - first) * self.width + self.rack[mine])
        key, times = np.unique(np.concatenate(keys), return_counts=True)
        shared = key[times == len(topics)]
        out: list[list[int]] = [[] for _ in range(count)]
        for nth, rack in zip(
            (shared // self.width).tolist(), (shared % self.width).tolist(), strict=True
        ):
            out[nth].append(rack)
        return out


def _distinct(keys: NDArray[np.int64], below: int) -> NDArray[np.int64]:
    """The distinct keys, ascending; by ticking them off where that takes no more room than they."""
    if below > 4 * len(keys) + 1024:
        return np.unique(keys)
    there = np.zeros(below, bool)
    there[keys] = True
    return np.flatnonzero(there)


class _Shares:
    """How many partitions each member of a topic still may take."""

    def __init__(self, members: int, partitions: int) -> None:
        self.quota, self.extra = divmod(partitions, members)
        self.given = [0] * members

    def room(self, member: int) -> int:
        return max(0, self.quota + (self.extra > 0) - self.given[member])

    def give(self, member: int, partitions: int) -> None:
        self.given[member] += partitions
        if self.given[member] > self.quota:
            self.extra -= 1

    def fill(self, owner: list[int]) -> Int32Array:
        """The plain pass: who has room takes the first partitions that nobody has, in order."""
        out = np.array(owner, np.int32)
        given = np.array(self.given, np.int64)
        target = np.maximum(given, self.quota)
        target[np.flatnonzero(given <= self.quota)[: self.extra]] += 1
        takes = np.repeat(np.arange(len(given), dtype=np.int32), target - given)
        out[out < 0] = takes
        return out


def _one_topic(
    shares: _Shares, racks: list[int], of_rack: dict[int, list[int]], count: int
) -> list[int]:
    """Members in order take the first free partitions on their rack, as many as they have room."""
    owner = [-1] * count
    of_rack = {**of_rack, _ANYWHERE: list(range(count))}
    # Members of one rack walk one list, each from where the one before it stopped.
    stopped = dict.fromkeys(of_rack, 0)
    for member, rack in enumerate(racks):
        room = shares.quota + (shares.extra > 0)
        if not room:
            break  # the extra ones are gone, and there was nothing else
        mine = of_rack.get(rack, [])
        at, end, taken = stopped.get(rack, 0), len(mine), 0
        while at < end and taken < room:
            if owner[mine[at]] < 0:
                owner[mine[at]] = member
                taken += 1
            at += 1
        stopped[rack] = at
        if taken:
            shares.give(member, taken)
    return owner


def _co_partitioned(
    shares: _Shares, racks: list[int], common: list[list[int]], count: int
) -> list[int]:
    """Partition by partition: the first member in order that has room and sits on its rack.

    All topics of the group are in one state throughout, so one is counted for all.
    """
    owner = [-1] * count
    waiting: dict[int, list[int]] = defaultdict(list)
    for member in reversed(range(len(racks))):
        waiting[racks[member]].append(member)
    for nth in range(count):
        best = _first_with_room(shares, waiting, [_ANYWHERE, *common[nth]])
        if best >= 0:
            owner[nth] = best
            shares.give(best, 1)
    return owner


def _first_with_room(shares: _Shares, waiting: dict[int, list[int]], racks: Iterable[int]) -> int:
    """The lowest place among the heads of these racks' queues, -1 if all are empty."""
    best = -1
    for rack in racks:
        queue = waiting.get(rack)
        # Room never comes back: who has none leaves the queue for good.
        while queue and not shares.room(queue[-1]):
            queue.pop()
        if queue and (best < 0 or queue[-1] < best):
            best = queue[-1]
    return best
