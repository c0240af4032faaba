"""The group coordinator's uniform assignor, the default of consumer groups of KIP-848."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.groups.api import PlainStrategy
from partage.groups.layout import (
    TopicRows,
    cached_by_common_subscription,
    group_partitions,
)
from partage.groups.server.group_assignment import GroupAssignment, concatenate_runs
from partage.groups.server.kernels import (
    assign_to_least_loaded,
    balance_topic,
    collect_by_owner,
    compute_quotas,
    next_uneven_topic,
    sort_by_load,
)
from partage.groups.server.spec import CoordinatorAssignorError, GroupSpec
from partage.java.hash_order import copied_set_order, copied_set_orders, hash_map_orders
from partage.model import Plan, Problem
from partage.model.index import Int32Array

__all__ = ["ServerUniform", "assign_heterogeneous", "assign_homogeneous"]


class ServerUniform(PlainStrategy):
    """The group coordinator's uniform assignor (KIP-848): even loads; previous partitions stay.

    Guarantees if all members have the same subscription, in order of priority:

    1. loads differ by at most one;
    2. a member keeps its previous partitions, up to its quota; the larger quotas go first
       to members whose previous partitions fill them, otherwise to the last members.

    If subscriptions differ: a member keeps all previous partitions of topics to which it
    still subscribes; unassigned partitions go to the least loaded subscriber; then topics are
    balanced one by one, in at most 16 rounds, until loads within the subscribers of each
    topic differ by at most one.

    Racks have no effect. Previous targets are the members' ``owned`` partitions, in the order
    sent, which decides ties inside a bucket of Java's maps; for partitions that several
    members claim see `partage.groups.server.spec.previous_targets`. Topics without an id
    get one from their name. A member's kept partitions come first, then new ones; in Kafka
    they are a set.

    Cost: O(P + M + T) on arrays for equal subscriptions, P partitions, M members, T topics;
    O(P + sum of subscribers over topics) and a sort per topic to balance for others.

    Where it is not optimal: a member with one partition over its quota loses it even where
    members before it have taken the larger quotas by chance; and with overlapping
    subscriptions loads may differ by more than necessary (9, 10, 11 remains).

    It gives the same results as ``org.apache.kafka.coordinator.group.assignor.UniformAssignor``
    4.3.1 on JDK 17 (from JDK 19 on, the iteration order of 12, 24, 48... topics differs).

    >>> from partage.model import Cluster, Group, Member
    >>> group = Group([Member("A", ["T"], owned={"T": [0, 1]}), Member("B", ["T"])])
    >>> ServerUniform().assign(Problem(group, Cluster.from_topics({"T": 3}))).to_dict()
    {'A': {'T': [0, 1]}, 'B': {'T': [2]}}
    """

    name = "server:uniform"
    exact_to = "org.apache.kafka.coordinator.group.assignor.UniformAssignor 4.3.1"
    aliases = ("org.apache.kafka.coordinator.group.assignor.UniformAssignor",)
    in_broker = True
    reads_generation = False
    instance_ids_only_sort = True

    def assign(self, problem: Problem, memory: object = None) -> Plan:
        """Assign a consumer group's partitions evenly; members keep owned partitions where
        possible.

        ``problem`` is the group and the cluster, and has the owned partitions; ``memory`` (state
        between rebalances) is not used.
        """
        spec = GroupSpec(problem)
        return self.assign_from_spec(spec).to_plan(spec)

    def assign_from_spec(self, spec: GroupSpec) -> GroupAssignment:
        """Assign a consumer group's partitions evenly, from the input that a group coordinator has.

        ``spec`` has the subscriptions, topic ids and previous target assignment; Kafka's class for
        it is ``GroupSpec``.

        Raises:
            CoordinatorAssignorError: the partition count of a subscribed topic is unknown, or the
                previous targets are invalid (a partition twice, or one that does not exist).
        """
        if not spec.members:
            return GroupAssignment.without_members(spec)
        return (
            assign_homogeneous(spec) if spec.has_equal_subscriptions else assign_heterogeneous(spec)
        )


#: Slots of a Java HashMap that was made without a capacity.
_DEFAULT_TABLE = 16
#: From this hash on, HashMap's mixing (h ^ h >>> 16) changes the bucket.
_MIXED_FROM = 1 << 16


def assign_homogeneous(spec: GroupSpec) -> GroupAssignment:
    """Assign a consumer group's partitions if all members subscribe to the same topics.

    Members keep previous partitions up to their quota; the other partitions are assigned in
    consecutive ranges. Kafka's class is ``UniformHomogeneousAssignmentBuilder``.

    Args:
        spec: the assignor's input: subscriptions, topics, previous target assignment.

    Raises:
        CoordinatorAssignorError: a topic's partition count is unknown, or the previous targets
            contain a partition twice or one that does not exist.
    """
    rows = cached_by_common_subscription(spec.problem, _partitions_in_order)
    topics = rows.topics
    if not len(topics):
        return GroupAssignment.without_members(spec)
    spec.require_partition_counts(topics)
    if not len(spec.previous_targets.topic):
        return _assign_new_group(spec, rows.partition)
    before = _PreviousSets.of(spec, topics)
    kept, missing = _compute_quotas(spec.member_order, len(rows.partition), before.total)
    partition = spec.previous_targets.partition
    # The number of a member's previous partitions decides its quota. The iteration order of Java's
    # maps and sets decides which partitions beyond the quota it loses.
    keeps, released = _revoke_over_quota(spec, before, kept)
    free = rows.partition
    if len(partition):
        free = spec.unassigned_partitions(topics)
    free = np.concatenate([free, released]) if len(released) else free
    if len(free) != int(missing.sum()):
        # Quotas add up to the partitions, so a coordinator's own targets never come here.
        raise CoordinatorAssignorError(
            "previous targets have a partition twice, or one that does not exist: "
            f"{len(free)} partitions are left for {int(missing.sum())} places"
        )
    stays = partition if keeps is None else partition[keeps]
    start, owned = _append_runs(spec, stays, kept, free, missing)
    return GroupAssignment(
        start, owned, emptied=spec.previous_targets.empty_sets(before.subscribed)
    )


def _assign_new_group(spec: GroupSpec, free: Int32Array) -> GroupAssignment:
    """Assign the partitions of a new consumer group, in which no member had partitions before.

    Each member gets consecutive partitions; the last members in the coordinator's map get one more.
    ``free`` (int32[n]) has the partitions in the order in which Kafka's assignor iterates over
    them.
    """
    members, order = spec.members, spec.member_order
    quota, extra = divmod(len(free), members)
    fewer, more = order[: members - extra], order[members - extra :]
    owner = np.concatenate((fewer.repeat(quota), more.repeat(quota + 1)))
    return GroupAssignment(*group_partitions(members, free, owner))


def _partitions_in_order(problem: Problem) -> TopicRows:
    """Return all partitions of subscribed topics, in the order in which Kafka's class iterates.

    Topics are in the order of a Java hash set. ``problem`` is the group and the cluster.
    """
    spec = GroupSpec(problem)
    named, size = spec.existing_topics(
        int(problem.group.subscription_of[spec.members_in_map_order[0]])
    )
    # Kafka iterates a copy of the HashSet of topics in the first member's subscription.
    topics = named[copied_set_order(spec.topic_ids.java_hash_codes[named].tolist(), size)]
    return TopicRows(topics, *spec.partitions_of(topics))


@dataclass(frozen=True, eq=False)
class _PreviousSets:
    """Partitions of the last target assignment that members may keep, because they still subscribe.

    There is a set of partitions for each member and topic, S in all.

    Attributes:
        subscribed: bool[S], for each set whether its member still subscribes to its topic.
        total: int64[M], number of partitions in the sets that each member may keep.
    """

    subscribed: NDArray[np.bool_]
    total: NDArray[np.int64]

    @classmethod
    def of(cls, spec: GroupSpec, topics: Int32Array) -> _PreviousSets:
        before = spec.previous_targets
        is_subscribed = np.zeros(len(spec.problem.index.topics) + 1, bool)
        is_subscribed[topics] = True
        subscribed = is_subscribed[before.topic]  # topic -1 is the last one: False
        member, size = before.member_of_set[subscribed], before.set_sizes[subscribed]
        total = np.bincount(member, size, minlength=spec.members).astype(np.int64)
        return cls(subscribed, total)


def _compute_quotas(
    order: Int32Array, partitions: int, total: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Compute how many previous partitions each member keeps, and how many new ones it gets.

    Together they are the member's quota: the number of partitions per member, rounded up or down.
    ``order`` (int32[M]) are the members in the order of the coordinator's map, ``total`` (int64[M])
    their numbers of previous partitions.
    """
    # The larger quotas go to the first members of the coordinator's map with enough previous
    # partitions, then to the last members.
    quota, extra = divmod(partitions, len(order))
    kept, missing = np.zeros((2, len(order)), np.int64)
    compute_quotas(total[order], quota, extra, kept, missing, work=4 * len(order))
    by_member = np.empty((2, len(order)), np.int64)
    by_member[0, order], by_member[1, order] = kept, missing
    return by_member[0], by_member[1]


def _revoke_over_quota(
    spec: GroupSpec, previous: _PreviousSets, kept: NDArray[np.int64]
) -> tuple[NDArray[np.bool_] | None, Int32Array]:
    """Find the previous partitions that members must revoke, because they have more than their
    quota.

    A member keeps the first ``kept`` ones (int64[M]) in the iteration order of Java's maps and
    sets. The result has a mask of the partitions that stay (bool[n], None if all stay), and the
    revoked ones.
    """
    before = spec.previous_targets
    if not len(before.partition):
        return None, before.partition
    keeps = None if previous.subscribed.all() else np.repeat(previous.subscribed, before.set_sizes)
    visit = spec.member_order
    over = visit[previous.total[visit] > kept[visit]]
    if not len(over):
        return keeps, np.zeros(0, np.int32)
    sets, rank = _entries_of_rows(before.set_start, over)
    sets = sets[hash_map_orders(rank, before.uuid_hash[sets])]
    # The walk keeps the keys of one map together, so ranks stay ascending.
    within = previous.subscribed[sets]
    sets, rank = sets[within], rank[within]
    begin = _exclusive_sums(before.set_sizes[sets], rank)
    quota = kept[over][rank]
    cut = begin + before.set_sizes[sets] > quota
    sets, begin, quota = sets[cut], begin[cut], quota[cut]
    keeps = np.ones(len(before.partition), bool) if keeps is None else keeps
    tails = _find_revoked_in_order(spec, sets, np.maximum(quota - begin, 0))
    if tails is not None:
        keeps[tails] = False
        return keeps, before.partition[tails]
    entries, rank = _entries_of_rows(before.start, sets)
    number = spec.problem.index.number_of[before.partition[entries]]
    entries = entries[copied_set_orders(rank, number.view(np.uint32))]
    nth = _exclusive_sums(np.ones(len(entries), np.int64), rank) + begin[rank]
    revoked = entries[nth >= quota[rank]]
    keeps[revoked] = False
    return keeps, before.partition[revoked]


def _find_revoked_in_order(
    spec: GroupSpec, sets: Int32Array, kept: NDArray[np.int64]
) -> Int32Array | None:
    """Return the partitions that members must revoke to get down to their quota (fast case).

    Each member keeps the first ``kept`` partitions of its set for a topic, in the iteration order
    of Java's hash sets. The function handles sets that iterate in ascending order. If one does not,
    the result is None, and the caller simulates Java's hash sets, which is slower.
    """
    before, index = spec.previous_targets, spec.problem.index
    kept, sets = kept[before.set_sizes[sets] > 0], sets[before.set_sizes[sets] > 0]
    begin, end = before.start[sets], before.start[sets + 1]
    number = before.partition if spec.is_numbered_by_topic else index.number_of[before.partition]
    falls = (number[1:] <= number[:-1]).nonzero()[0]
    if (falls.searchsorted(begin) < falls.searchsorted(end - 1)).any():
        return None
    # The order is ascending if all partition numbers are smaller than the set's number of buckets,
    # so that each is alone in its bucket, and than 65,536, where hash mixing begins.
    room = np.maximum(before.set_sizes[sets] * 4 // 3, _DEFAULT_TABLE - 1)
    slots = np.int64(1) << np.frexp(room)[1]  # the least power of two above
    largest = index.number_of[before.partition[end - 1]]
    if not bool(((largest < slots) & (largest < _MIXED_FROM)).all()):
        return None
    begin = begin + kept
    left = np.maximum(end - begin, 0)
    first = (begin - (left.cumsum() - left)).repeat(left)
    positions: Int32Array = (first + np.arange(len(first))).astype(np.int32)
    return positions


def _entries_of_rows(start: Int32Array, rows: Int32Array) -> tuple[Int32Array, NDArray[np.int64]]:
    """Return the positions of all entries of the given rows in a sparse matrix (CSR arrays).

    The second result says for each entry to which element of ``rows`` it belongs. For example, the
    rows 2 and 0 with one and two entries give ``[0, 1, 1]``.
    """
    sizes = (start[1:] - start[:-1])[rows]
    rank = np.arange(len(rows)).repeat(sizes)
    first = start[:-1][rows] - (sizes.cumsum() - sizes)
    entries = np.arange(len(rank)) + first[rank]
    return entries.astype(np.int32), rank


def _exclusive_sums(values: NDArray[Any], rank: NDArray[np.int64]) -> NDArray[np.int64]:
    # ``rank`` is the ascending group number of each value.
    before = values.cumsum(dtype=np.int64) - values
    begins = np.ones(len(rank), bool)
    begins[1:] = rank[1:] != rank[:-1]
    since: NDArray[np.int64] = before - before[begins][begins.cumsum() - 1]
    return since


def _append_runs(
    spec: GroupSpec,
    stays: Int32Array,
    kept: NDArray[np.int64],
    free: Int32Array,
    missing: NDArray[np.int64],
) -> tuple[Int32Array, Int32Array]:
    # Kept partitions come first, then new ones.
    end, order = kept.cumsum(), spec.member_order
    given_end = np.zeros(spec.members, np.int64)
    given_end[order] = missing[order].cumsum()
    parts = [(stays, end - kept, end)] if len(stays) else []
    parts.append((free, given_end - missing, given_end))
    return concatenate_runs(parts, spec.members)


#: Kafka's own limit of balancing rounds (``MAX_ITERATION_COUNT``).
_MAX_ROUNDS = 16
#: Largest digit of the radix sort of subscribers, in bits: 4,096 counters stay in the cache.
_MAX_DIGIT_BITS = 12


def assign_heterogeneous(spec: GroupSpec) -> GroupAssignment:
    """Assign a consumer group's partitions if members subscribe to different topics.

    Members keep previous partitions of topics that they still subscribe to. Unassigned partitions
    go to the least loaded subscriber; then topics are balanced one by one. Kafka's class is
    ``UniformHeterogeneousAssignmentBuilder``.

    Args:
        spec: the assignor's input: subscriptions, topics, previous target assignment.

    Raises:
        CoordinatorAssignorError: a topic's partition count is unknown, or a previous target
            contains a partition that does not exist.
    """
    subscribed = _SubscribedTopics.of(spec)
    if not len(subscribed.topics):
        return GroupAssignment.without_members(spec)
    builder = _HeterogeneousBuilder(spec, subscribed)
    builder.keep_previous()
    builder.assign_unassigned()
    builder.balance_loads()
    return builder.to_assignment()


@dataclass(frozen=True, eq=False)
class _SubscribedTopics:
    """Topics with subscribers, and the members that subscribe to each.

    Topics with the same subscribers share one set of members, so work per set is done once.

    Attributes:
        topics: int32[K], sorted by partitions per subscriber (descending), number of subscribers,
            topic id.
        subscriber_set: int32[K], the set of subscribers of each topic.
        start: int32[S + 1], where each set begins in ``members`` (CSR).
        members: int32, member numbers, ascending within a set.
    """

    topics: Int32Array
    subscriber_set: Int32Array
    start: Int32Array
    members: Int32Array

    @classmethod
    def of(cls, spec: GroupSpec) -> _SubscribedTopics:
        topics, set_of_topic, subscriptions_of_set = _find_subscriber_sets(spec)
        spec.require_partition_counts(topics)
        subscription_of = spec.problem.group.subscription_of[spec.member_order]
        lists = []
        for subscriptions in subscriptions_of_set:
            in_set = np.zeros(len(spec.problem.group.subscriptions), bool)
            in_set[subscriptions] = True
            lists.append(np.flatnonzero(in_set[subscription_of]).astype(np.int32))
        start = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(one) for one in lists], out=start[1:])
        members = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        subscribers = np.diff(start)[set_of_topic]
        ratio = spec.sorted_partitions[1][topics] / subscribers
        high, low = spec.topic_ids.signed_halves
        order = np.lexsort((low[topics], high[topics], subscribers, -ratio))
        return cls(topics[order], set_of_topic[order], start, members)

    @property
    def set_sizes(self) -> Int32Array:
        return np.diff(self.start)

    def subscribers(self, topic: int) -> Int32Array:
        # Positions in the coordinator's map of members; ``topic`` is an index of ``topics``.
        of_topic = self.subscriber_set[topic]
        return self.members[self.start[of_topic] : self.start[of_topic + 1]]


def _find_subscriber_sets(
    spec: GroupSpec,
) -> tuple[Int32Array, Int32Array, list[NDArray[np.int64]]]:
    """Group the subscribed topics by their set of subscribers, for the uniform assignor.

    The result has the topics, the number of each topic's set, and for each set the indices of the
    group's subscriptions that contain these topics.
    """
    width = max(len(spec.problem.index.topics), 1)
    subscription, topic = np.divmod(spec.subscribed_pairs, width)
    order = np.argsort(topic, kind="stable")
    subscription, topic = subscription[order], topic[order]
    first = np.flatnonzero(np.diff(topic, prepend=-1))
    sets = np.split(subscription, first[1:]) if len(first) else []
    number: dict[bytes, int] = {}
    set_of_topic = [number.setdefault(one.tobytes(), len(number)) for one in sets]
    distinct = [np.frombuffer(one, np.int64) for one in number]
    return topic[first].astype(np.int32), np.array(set_of_topic, np.int32), distinct


class _HeterogeneousBuilder:
    """Builder of the uniform assignment for a group whose members subscribe to different topics.

    It stores the owner of each partition and each member's number of partitions. A member's number
    is its position in the coordinator's Java map.
    """

    def __init__(self, spec: GroupSpec, subscribed: _SubscribedTopics) -> None:
        self.spec = spec
        self.subscribed = subscribed
        self.start, self.partition = spec.partitions_of(subscribed.topics)
        self.owner = np.full(spec.problem.index.partitions, -1, np.int32)
        self.sizes = np.zeros(spec.members, np.int32)
        #: (member in join order, topic) pairs whose previous set is empty.
        self.emptied: set[tuple[int, int]] = set()
        self.duplicates = _DuplicateOwners()
        largest = int(subscribed.set_sizes.max())
        self._line = np.zeros(largest, np.int32)
        self._sort_buffer = np.zeros(largest, np.int32)
        self._sort_counters = np.zeros(1 << _MAX_DIGIT_BITS, np.int32)
        # One estimate for all kernels: each call alone would seem too small to compile for.
        entries = int(subscribed.set_sizes[subscribed.subscriber_set].sum())
        self._work = 6 * entries + 2 * len(self.partition)

    def keep_previous(self) -> None:
        before = self.spec.previous_targets
        still_subscribed = self.spec.is_subscribed(before.member_of_set, before.topic)
        number = np.empty(self.spec.members, np.int32)
        number[self.spec.members_in_map_order] = np.arange(self.spec.members, dtype=np.int32)
        owner = np.repeat(number[before.member_of_set], before.set_sizes)
        kept = np.repeat(still_subscribed, before.set_sizes)
        if not self.spec.problem.cluster.partition_exists[before.partition[kept]].all():
            what = "previous targets have a partition that does not exist"
            raise CoordinatorAssignorError(what, "ArrayIndexOutOfBoundsException")
        self.emptied = set(before.empty_sets(still_subscribed))
        partition, owner = before.partition[kept], owner[kept]
        self.owner[partition] = owner
        self.sizes += np.bincount(owner, minlength=len(self.sizes)).astype(np.int32)
        if not bool((self.owner[partition] == owner).all()):
            self.duplicates.record_owners(self.owner, partition, owner)

    def assign_unassigned(self) -> None:
        free = self.owner[self.partition] < 0
        partition = self.partition[free]
        bound = np.concatenate([[0], np.cumsum(free)])[self.start]
        bounds = bound.tolist()
        for topic in np.flatnonzero(np.diff(bound)).tolist():
            line = self._subscribers_by_size(topic)
            of_topic = partition[bounds[topic] : bounds[topic + 1]]
            assign_to_least_loaded(line, self.sizes, of_topic, self.owner, work=self._work)

    def balance_loads(self) -> None:
        """Move partitions between the subscribers of each topic until their loads are even.

        Topics are balanced one by one, in at most 16 rounds, as in Kafka's class.
        """
        subscribers = self.subscribed.set_sizes[self.subscribed.subscriber_set]
        shared = np.flatnonzero(subscribers > 1)
        set_of_topic = self.subscribed.subscriber_set[shared]
        # It ends when a round returns to the topic that moved a partition last, or after 16 rounds.
        last_moved = -1
        for _ in range(_MAX_ROUNDS):
            at = 0
            while at < len(shared):
                if at == last_moved:
                    return
                stop = last_moved if last_moved > at else len(shared)
                last_moved = max(last_moved, 0)
                at = next_uneven_topic(
                    at, stop, set_of_topic, self.subscribed.start, self.subscribed.members,
                    self.sizes, work=self._work,
                )  # fmt: skip
                if at < stop:
                    if self._balance_topic(int(shared[at])):
                        last_moved = at
                    at += 1

    def _balance_topic(self, topic: int) -> bool:
        partitions = self.partition[self.start[topic] : self.start[topic + 1]]
        members = len(self.sizes)
        buffer = np.zeros(len(partitions) + 2 * members, np.int32)
        block, left, begin = np.split(buffer, [len(partitions), len(partitions) + members])
        line = self._subscribers_by_size(topic)
        before = self.owner[partitions] if self.duplicates or self.emptied else None
        moved = balance_topic(
            self.subscribed.subscribers(topic), line, self.sizes, partitions, self.owner, block,
            left, begin, work=self._work,
        )  # fmt: skip
        if before is not None:
            self._forget_changed_sets(int(self.subscribed.topics[topic]), partitions, before)
        return bool(moved)

    def _forget_changed_sets(self, topic: int, partitions: Int32Array, before: Int32Array) -> None:
        # Kafka removes a set with its last partition; a set that was always empty stays.
        for at in np.flatnonzero(self.owner[partitions] != before).tolist():
            number = int(before[at])
            self.emptied.discard((self.spec.members_in_map_order[number], topic))
            self.duplicates.pairs.discard((number, int(partitions[at])))

    def _subscribers_by_size(self, topic: int) -> Int32Array:
        # Ties are in map order. The next call reuses the array.
        members = self.subscribed.subscribers(topic)
        line, buffer = self._line[: len(members)], self._sort_buffer[: len(members)]
        bits = min(max(4, len(members).bit_length() + 1), _MAX_DIGIT_BITS)
        sort_by_load(members, self.sizes, line, buffer, self._sort_counters, bits, work=self._work)
        return line

    def to_assignment(self) -> GroupAssignment:
        visit = self.spec.member_order
        member = np.where(self.owner >= 0, visit[self.owner], np.int32(-1))
        emptied = tuple(self.emptied)
        if self.duplicates:
            return self.duplicates.to_assignment(self.owner, visit, emptied)
        start = np.zeros(self.spec.members + 1, np.int32)
        np.cumsum(np.bincount(member[member >= 0], minlength=self.spec.members), out=start[1:])
        out = np.empty(int(start[-1]), np.int32)
        collect_by_owner(member, start[:-1].copy(), out, work=self._work)
        return GroupAssignment(start, out, emptied=emptied)


class _DuplicateOwners:
    """Partitions that several members owned in the previous assignment, and these members.

    Only malformed input has such partitions. Kafka's class treats the last member in its map as the
    owner, but the partition also counts in the other members' loads.
    """

    def __init__(self) -> None:
        self.pairs: set[tuple[int, int]] = set()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def record_owners(self, owner: Int32Array, partition: Int32Array, member: Int32Array) -> None:
        """Store the previous owners of partitions that several members owned.

        It is called once, before unassigned partitions are assigned.

        Args:
            owner: int32[P], the owner of each partition. It is set to the member that comes last in
                the coordinator's map, as in Kafka.
            partition: int32[n], the partition of each previous ownership.
            member: int32[n], its member.
        """
        order = np.argsort(member, kind="stable")
        owner[partition[order]] = member[order]
        self.pairs.update(zip(member.tolist(), partition.tolist(), strict=True))

    def to_assignment(
        self, owner: Int32Array, visit: Int32Array, emptied: tuple[tuple[int, int], ...]
    ) -> GroupAssignment:
        """Return the new assignment, in which partitions with several previous owners keep them.

        Only malformed input gives a partition several owners. An owner that lost the partition
        while loads were balanced is left out. The (member, topic) pairs ``emptied`` get an empty
        set.
        """
        owned = np.flatnonzero(owner >= 0)
        pairs = self.pairs.union(zip(owner[owned].tolist(), owned.tolist(), strict=True))
        rows = sorted((int(visit[number]), partition) for number, partition in pairs)
        start = np.searchsorted([m for m, _ in rows], np.arange(len(visit) + 1))
        partition = np.array([p for _, p in rows], np.int32)
        return GroupAssignment(start.astype(np.int32), partition, emptied=emptied)
