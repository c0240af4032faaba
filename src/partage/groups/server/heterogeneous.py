"""Uniform where subscriptions differ: keep, fill topic by topic, balance topic by topic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.server.answer import Answer
from partage.groups.server.balancing import collect, fill, line_up, next_uneven, rebalance
from partage.groups.server.refusals import CoordinatorRefusal
from partage.groups.server.spec import GroupSpec
from partage.model.index import Int32Array

__all__ = ["heterogeneous"]

_MOST_ROUNDS = 16
_MOST_BITS = 12


def heterogeneous(spec: GroupSpec) -> Answer:
    """Kafka's ``UniformHeterogeneousAssignmentBuilder``; the group has members.

    Raises:
        CoordinatorRefusal: a topic's partition count is unknown, or previous targets have a
            partition that does not exist.
    """
    audiences = _Audiences.of(spec)
    if not len(audiences.topics):
        return Answer.nothing(spec)
    return _Builder(spec, audiences).build()


@dataclass(frozen=True, eq=False)
class _Audiences:
    """Subscribed topics, and the distinct sets of members that subscribe to them.

    Attributes:
        topics: int32[K], by partitions a subscriber (falling), subscribers, topic id.
        of_topic: int32[K], audience of each.
        start: int32[A + 1], where each audience begins in ``members`` (CSR).
        members: int32, numbers of its members (positions in the map), ascending.
    """

    topics: Int32Array
    of_topic: Int32Array
    start: Int32Array
    members: Int32Array

    @classmethod
    def of(cls, spec: GroupSpec) -> _Audiences:
        topics, of_topic, classes = _distinct(spec)
        spec.refuse_uncounted(topics)
        class_of = spec.problem.group.subscription_of[np.array(spec.visit, np.intp)]
        lists = []
        for mine in classes:
            wanted = np.zeros(len(spec.problem.group.subscriptions), bool)
            wanted[mine] = True
            lists.append(np.flatnonzero(wanted[class_of]).astype(np.int32))
        start = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(one) for one in lists], out=start[1:])
        members = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        subscribers = np.diff(start)[of_topic]
        ratio = spec.numbered[1][topics] / subscribers
        high, low = spec.ids.signed
        order = np.lexsort((low[topics], high[topics], subscribers, -ratio))
        return cls(topics[order], of_topic[order], start, members)


def _distinct(spec: GroupSpec) -> tuple[Int32Array, Int32Array, list[NDArray[np.int64]]]:
    """Subscribed topics, which set of subscriptions names each, and these sets."""
    width = max(len(spec.problem.index.topics), 1)
    classes, topic = np.divmod(spec.subscribed_pairs, width)
    order = np.argsort(topic, kind="stable")
    classes, topic = classes[order], topic[order]
    first = np.flatnonzero(np.diff(topic, prepend=-1))
    sets = np.split(classes, first[1:]) if len(first) else []
    number: dict[bytes, int] = {}
    of_topic = [number.setdefault(one.tobytes(), len(number)) for one in sets]
    distinct = [np.frombuffer(one, np.int64) for one in number]
    return topic[first].astype(np.int32), np.array(of_topic, np.int32), distinct


class _Builder:
    """The state of one build: who owns what, and how many partitions each member has."""

    def __init__(self, spec: GroupSpec, audiences: _Audiences) -> None:
        self.spec = spec
        self.audiences = audiences
        self.start, self.partition = spec.partitions_of(audiences.topics)
        self.owner = np.full(spec.problem.index.partitions, -1, np.int32)
        self.sizes = np.zeros(spec.members, np.int32)
        largest = int(np.diff(audiences.start).max())
        self.line = np.zeros(largest, np.int32)
        self.other = np.zeros(largest, np.int32)
        self.count = np.zeros(1 << _MOST_BITS, np.int32)
        listed = int(np.diff(audiences.start)[audiences.of_topic].sum())
        # All loops together choose the form of the kernels: each by itself would be small.
        self.emptied: set[tuple[int, int]] = set()
        self.doubles = _Doubles()
        self.work = 6 * listed + 2 * len(self.partition)

    def build(self) -> Answer:
        self.keep()
        self.fill()
        self.balance()
        return self.answer()

    def keep(self) -> None:
        """Every member keeps what it had of topics to which it still subscribes."""
        before = self.spec.previous
        stays = self.spec.subscribes(before.member, before.topic)
        number = np.empty(self.spec.members, np.int32)
        number[self.spec.visit] = np.arange(self.spec.members, dtype=np.int32)
        owner = np.repeat(number[before.member], before.size)
        kept = np.repeat(stays, before.size)
        if not self.spec.problem.cluster.partition_exists[before.partition[kept]].all():
            what = "previous targets have a partition that does not exist"
            raise CoordinatorRefusal(what, "ArrayIndexOutOfBoundsException")
        self.emptied = set(before.empty(stays))
        partition, owner = before.partition[kept], owner[kept]
        self.owner[partition] = owner
        self.sizes += np.bincount(owner, minlength=len(self.sizes)).astype(np.int32)
        if not bool((self.owner[partition] == owner).all()):
            self.doubles.add(self.owner, partition, owner)

    def fill(self) -> None:
        """Free partitions, topic by topic, to the least loaded subscribers."""
        free = self.owner[self.partition] < 0
        partition = self.partition[free]
        bound = np.concatenate([[0], np.cumsum(free)])[self.start]
        bounds = bound.tolist()
        for topic in np.flatnonzero(np.diff(bound)).tolist():
            line = self.lined_up(topic)
            mine = partition[bounds[topic] : bounds[topic + 1]]
            fill(line, self.sizes, mine, self.owner, work=self.work)

    def balance(self) -> None:
        """Topic by topic, until a round comes back to the last topic that was changed."""
        subscribers = np.diff(self.audiences.start)[self.audiences.of_topic]
        shared = np.flatnonzero(subscribers > 1)
        audience_of = self.audiences.of_topic[shared]
        last = -1
        for _ in range(_MOST_ROUNDS):
            at = 0
            while at < len(shared):
                if at == last:
                    return
                stop = last if last > at else len(shared)
                last = max(last, 0)
                at = next_uneven(
                    at, stop, audience_of, self.audiences.start, self.audiences.members,
                    self.sizes, work=self.work,
                )  # fmt: skip
                if at < stop:
                    if self.rebalance(int(shared[at])):
                        last = at
                    at += 1

    def rebalance(self, topic: int) -> bool:
        """Whether anything of the topic was moved."""
        partitions = self.partition[self.start[topic] : self.start[topic + 1]]
        scratch = np.zeros(len(partitions) + 2 * len(self.sizes), np.int32)
        block, left, begin = np.split(scratch, [len(partitions), len(partitions) + len(self.sizes)])
        line = self.lined_up(topic)
        watched = self.owner[partitions] if self.doubles or self.emptied else None
        moved = rebalance(
            self.members_of(topic), line, self.sizes, partitions, self.owner, block, left, begin,
            work=self.work,
        )  # fmt: skip
        if watched is not None:
            self.lost(int(self.audiences.topics[topic]), partitions, watched)
        return bool(moved)

    def lost(self, topic: int, partitions: Int32Array, before: Int32Array) -> None:
        """A set that loses its last partition goes; one that was empty all the time stays."""
        for at in np.flatnonzero(self.owner[partitions] != before).tolist():
            number = int(before[at])
            self.emptied.discard((self.spec.visit[number], topic))
            self.doubles.pairs.discard((number, int(partitions[at])))

    def members_of(self, topic: int) -> Int32Array:
        audience = self.audiences.of_topic[topic]
        start = self.audiences.start
        return self.audiences.members[start[audience] : start[audience + 1]]

    def lined_up(self, topic: int) -> Int32Array:
        members = self.members_of(topic)
        line, other = self.line[: len(members)], self.other[: len(members)]
        bits = min(max(4, len(members).bit_length() + 1), _MOST_BITS)
        line_up(members, self.sizes, line, other, self.count, bits, work=self.work)
        return line

    def answer(self) -> Answer:
        visit = np.array(self.spec.visit, np.int32)
        member = np.where(self.owner >= 0, visit[self.owner], np.int32(-1))
        emptied = tuple(self.emptied)
        if self.doubles:
            return self.doubles.answer(self.owner, visit, emptied)
        start = np.zeros(self.spec.members + 1, np.int32)
        np.cumsum(np.bincount(member[member >= 0], minlength=self.spec.members), out=start[1:])
        out = np.empty(int(start[-1]), np.int32)
        collect(member, start[:-1].copy(), out, work=self.work)
        return Answer(start, out, emptied=emptied)


class _Doubles:
    """Partitions that several members had, which no coordinator's own targets have.

    Kafka's class then knows one owner of each, the last in its map, but leaves the partition
    in the sets of the others, and in their sizes.
    """

    def __init__(self) -> None:
        self.pairs: set[tuple[int, int]] = set()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def add(self, owner: Int32Array, partition: Int32Array, member: Int32Array) -> None:
        """Claims in any order; ``owner`` is put right."""
        order = np.argsort(member, kind="stable")
        owner[partition[order]] = member[order]
        self.pairs.update(zip(member.tolist(), partition.tolist(), strict=True))

    def answer(
        self, owner: Int32Array, visit: Int32Array, emptied: tuple[tuple[int, int], ...]
    ) -> Answer:
        """Owners and the others together."""
        owned = np.flatnonzero(owner >= 0)
        pairs = self.pairs.union(zip(owner[owned].tolist(), owned.tolist(), strict=True))
        rows = sorted((int(visit[number]), partition) for number, partition in pairs)
        start = np.searchsorted([m for m, _ in rows], np.arange(len(visit) + 1))
        partition = np.array([p for _, p in rows], np.int32)
        return Answer(start.astype(np.int32), partition, emptied=emptied)
