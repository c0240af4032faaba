"""A problem in canonical order, the claims that count, and classes of equivalent partitions.

Members are ordered by instance id (static ones), then by member id; topics by name; partitions by
number. The rest of the package sees positions in these orders only, so the same group gets the same
plan in any join order. A *place* is a member's position, a *row* the position of a partition with
subscribers. A *keeper* of a row is a member that owned it and may keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partage.groups.layout import (
    TopicRows,
    cached_by_subscriptions,
    claimed_topics,
    rows_by_name,
)
from partage.model import Problem, RackTable, java_rank
from partage.model.index import Int32Array
from partage.solve import Eligibility, SubscriptionClasses, find_classes

__all__ = ["CanonicalProblem", "NewestClaims", "PartitionClasses", "rank_values"]


Int64Array = NDArray[np.int64]
_NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class NewestClaims:
    """Members that may keep each partition, because they reported it as owned when they joined.

    A member may keep a partition only if it still subscribes to the topic. If several members
    report it, only those with the newest generation may. A partition is called a "row" and a member
    a "place": both are positions in sorted lists, which do not depend on the join order.

    Attributes:
        owned: bool[n], whether any member reports the row as owned, even one that may not keep it.
        keeper: int32[n], the only member that may keep it; -1 for none, -2 for several.
        contested: int64[k], rows that several members may keep.
        start: int64[k + 1], where the members of each contested row begin in ``keepers`` (CSR).
        keepers: int64, places of the members that may keep the contested rows, ascending.
    """

    owned: NDArray[np.bool_]
    keeper: Int32Array
    contested: Int64Array
    start: Int64Array
    keepers: Int64Array


class CanonicalProblem:
    """Input of the optimal assignor, sorted so that the result does not depend on the join order.

    Members ("places") are sorted by instance id and member id, partitions ("rows") by topic name
    and number. Only partitions whose topic has subscribers are included.

    Attributes:
        problem: the group and the cluster.
        order: int32[M], the member at each place.
        rows: the partitions, sorted by topic name and partition number.
        subscription: int64[M], the subscription of each place; distinct ones are numbered by first
            occurrence.
        topics_of: for each subscription the positions of its topics, ascending.
    """

    def __init__(self, problem: Problem, topics: Int32Array | None = None) -> None:
        """Sort members and topics so that their order does not depend on which member joined first.

        Equal groups then get equal assignments, whichever member joined first.

        Args:
            problem: the consumer group and the cluster.
            topics: the topics with subscribers, in the order to use; None sorts them by name.
        """
        self.problem = problem
        self._is_by_name = topics is None
        self.order = _member_order(problem)
        if topics is None:
            self.rows, topics_of = (
                rows_by_name(problem),
                cached_by_subscriptions(problem, _topics_by_name),
            )
        else:
            self.rows = TopicRows.from_topics(problem, topics)
            topics_of = _topic_positions(problem, self.rows)
        if len(topics_of) == 1:
            self.subscription: Int64Array = np.zeros(len(self.order), np.int64)
            self.topics_of = topics_of
            return
        subscription_of = problem.group.subscription_of[self.order].astype(np.int64)
        distinct = list(dict.fromkeys(subscription_of.tolist()))
        number = np.zeros(max(distinct, default=0) + 1, np.int64)
        number[distinct] = np.arange(len(distinct))
        self.subscription = number[subscription_of]
        self.topics_of = [topics_of[s] for s in distinct]

    @property
    def member_count(self) -> int:
        """Number of members in the consumer group.

        Members without subscribed topics are included.
        """
        return len(self.order)

    @property
    def partition_count(self) -> int:
        """Number of partitions to assign.

        Partitions of topics without subscribers are not included.
        """
        return len(self.rows.partition)

    @property
    def topic(self) -> Int32Array:
        """Topic of each partition, as a position among the subscribed topics (int32[n]).

        For example, ``[0, 0, 1]`` for a topic with two partitions and one with a single partition.
        """
        return self.rows.topic_index

    @property
    def is_symmetric(self) -> bool:
        """True if all members have the same subscription and no member owns a partition.

        The members are then interchangeable, and a round-robin assignment has the most even loads.
        """
        group = self.problem.group
        return self._is_by_name and len(group.subscriptions) == 1 and not group.has_claims

    @cached_property
    def takes_part(self) -> NDArray[np.bool_]:
        """Mask of the members that subscribe to at least one topic with partitions (bool[M]).

        Other members cannot own anything, so they do not count for balance.
        """
        counts = self.rows.partition_counts
        part = np.array([bool(counts[topics].any()) for topics in self.topics_of], bool)
        return part[self.subscription] if self.member_count else np.zeros(0, bool)

    @cached_property
    def eligibility(self) -> Eligibility:
        """Topics whose partitions each member may own, and each topic's number of partitions.

        It is the input of the solver, which knows neither topic names nor member ids.
        """
        start = np.cumsum([0, *map(len, self.topics_of)], dtype=np.int64)
        topic = np.concatenate([*self.topics_of, np.zeros(0, np.int64)])
        return Eligibility(self.rows.partition_counts, start, topic, self.subscription)

    @cached_property
    def classes(self) -> SubscriptionClasses:
        """Topics grouped by equal subscribers, and members grouped by equal subscriptions.

        The solver balances these few classes instead of all topics and members.
        """
        if self._is_by_name and len(self.problem.group.subscriptions) == 1:
            return cached_by_subscriptions(self.problem, _classes_of_one).with_members(
                self.subscription
            )
        return find_classes(self.eligibility)

    @cached_property
    def least_sum_of_squares(self) -> int:
        """Smallest possible sum of squared partition counts over all (topic, member) pairs.

        An assignment has this sum if it spreads every topic evenly over its subscribers. For
        example, 3 partitions of a topic on 2 members give 2 * 2 + 1 * 1 = 5.
        """
        wants = np.zeros((len(self.topics_of), len(self.rows.topics)), bool)
        for s, mine in enumerate(self.topics_of):
            wants[s, mine] = True
        sizes = np.bincount(self.subscription, minlength=len(wants)) @ wants
        base, extra = np.divmod(self.rows.partition_counts, np.maximum(sizes, 1))
        even = base * base * (sizes - extra) + (base + 1) * (base + 1) * extra
        return int(even[sizes > 0].sum())

    def may_own(self, member: Int64Array, partition: Int64Array) -> NDArray[np.bool_]:
        """Return for each (member, partition) pair whether the member subscribes to the topic.

        The pairs are given as two parallel arrays; the result is bool[n].

        Args:
            member: int64[n], the members of the pairs, as indices in canonical order.
            partition: int64[n], the partitions of the pairs, as indices in canonical order.
        """
        if len(self.topics_of) * len(self.rows.topics) > 1 << 26:
            start, topic = self.eligibility.start, self.eligibility.topic
            width = max(len(self.rows.topics), 1)
            of = np.repeat(np.arange(len(self.topics_of)), np.diff(start))
            return np.isin(
                self.subscription[member] * width + self.topic[partition], of * width + topic
            )
        wants = np.zeros((len(self.topics_of), len(self.rows.topics)), bool)
        for s, topics in enumerate(self.topics_of):
            wants[s, topics] = True
        if wants.all():
            return np.ones(len(member), bool)
        found: NDArray[np.bool_] = wants[self.subscription[member], self.topic[partition]]
        return found

    @cached_property
    def current_claims(self) -> NewestClaims:
        """Members that may keep each partition: subscribers that reported it as owned.

        If several members reported a partition, only those with the newest generation count.
        """
        place, row = self.claimed_pairs
        owned = np.zeros(self.partition_count, bool)
        owned[row] = True
        last = np.full(self.partition_count, -1, np.int32)
        last[row] = place
        if np.count_nonzero(owned) == len(row):
            if len(row):
                last[row[~self.may_own(place, row)]] = -1
            return NewestClaims(owned, last, _NOBODY, np.zeros(1, np.int64), _NOBODY)
        return self._newest_of_several(owned, place, row)

    def _newest_of_several(
        self, owned: NDArray[np.bool_], place: Int64Array, row: Int64Array
    ) -> NewestClaims:
        generation = np.array([m.generation for m in self.problem.group], np.int64)[self.order]
        newest = np.full(self.partition_count, np.iinfo(np.int64).min)
        may = self.may_own(place, row)
        np.maximum.at(newest, row[may], generation[place[may]])
        good = may & (generation[place] == newest[row])
        pairs = np.sort(row[good] * max(self.member_count, 1) + place[good])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        row, place = pairs // max(self.member_count, 1), pairs % max(self.member_count, 1)
        count = np.bincount(row, minlength=self.partition_count)
        keeper = np.full(self.partition_count, -1, np.int32)
        keeper[row] = place
        keeper[count > 1] = -2
        several = count[row] > 1
        contested = np.flatnonzero(count > 1)
        start = np.zeros(len(contested) + 1, np.int64)
        np.cumsum(count[contested], out=start[1:])
        return NewestClaims(owned, keeper, contested, start, place[several])

    @cached_property
    def former_owners(self) -> tuple[Int64Array, Int64Array]:
        """Pairs of a partition and a member that owned it before its last owner.

        The member reports the partition with an older generation than another member does. The
        result is two parallel arrays (partitions, members), newer generations first, as indices in
        this problem's order.
        """
        place, row = self.claimed_pairs
        if np.count_nonzero(self.current_claims.owned) == len(row):
            return _NOBODY, _NOBODY
        generation = np.array([m.generation for m in self.problem.group], np.int64)[self.order]
        newest = np.full(self.partition_count, np.iinfo(np.int64).min)
        may = self.may_own(place, row)
        np.maximum.at(newest, row[may], generation[place[may]])
        old = np.flatnonzero(may & (generation[place] < newest[row]))
        old = old[np.lexsort((place[old], row[old], -generation[place[old]]))]
        return row[old], place[old]

    @cached_property
    def claimed_pairs(self) -> tuple[Int64Array, Int64Array]:
        """Partitions that members report as owned, as two parallel arrays (members, partitions).

        Both are indices in this problem's order, which does not depend on the join order.
        Partitions that do not exist are left out.
        """
        if not self.problem.group.has_claims:
            return _NOBODY, _NOBODY
        if self.problem.reported is not None:
            of, partition = self.problem.reported.in_order(self.order)
            row = cached_by_subscriptions(self.problem, _row_of_partition)[partition]
            return of[row >= 0], row[row >= 0]
        members = self.problem.group.members
        names = [self.problem.index.topics[t] for t in self.rows.topics.tolist()]
        position = {name: i for i, name in enumerate(names)}
        claims, places = [], []
        for place, member in enumerate(self.order.tolist()):
            owned = members[member].owned
            if len(owned.partition):
                claims.append(owned)
                places.append(place)
        of = np.repeat(np.array(places, np.int64), [len(one.partition) for one in claims])
        topic = claimed_topics(claims, position).astype(np.int64)
        row = self._locate_rows(topic, np.concatenate([one.partition for one in claims]))
        return of[row >= 0], row[row >= 0]

    def _locate_rows(self, topic: Int64Array, number: Int32Array) -> Int64Array:
        # Rows are positions of partitions in this problem; -1 means that there is no such
        # partition.
        if not self.partition_count:
            return np.full(len(topic), -1, np.int64)
        counts, start = self.rows.partition_counts, self.rows.start
        named = self.problem.index.number_of[self.rows.partition]
        filled = counts > 0
        if np.array_equal(named[start[1:][filled] - 1], counts[filled] - 1):
            row = start[topic] + number.astype(np.int64)
            inside = (topic >= 0) & (number >= 0) & (number < counts[topic])
            return np.where(inside, row, -1)
        keys = (self.topic.astype(np.int64) << 32) | named
        wanted = (topic << 32) | np.maximum(number, 0).astype(np.int64)
        row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((topic >= 0) & (number >= 0) & (keys[row] == wanted), row, -1)


def _row_of_partition(problem: Problem) -> Int64Array:
    # -1 for a partition without subscribers.
    rows = rows_by_name(problem)
    row = np.full(problem.index.partitions, -1, np.int64)
    row[rows.partition] = np.arange(len(rows.partition))
    return row


def _topics_by_name(problem: Problem) -> list[Int64Array]:
    return _topic_positions(problem, rows_by_name(problem))


def _topic_positions(problem: Problem, rows: TopicRows) -> list[Int64Array]:
    # The topics of each subscription of the group, as ascending positions in ``rows``.
    position = np.full(len(problem.index.topics), -1, np.int64)
    position[rows.topics] = np.arange(len(rows.topics))
    return [np.sort(position[topics]) for topics in problem.subscription_topics]


def _classes_of_one(problem: Problem) -> SubscriptionClasses:
    # As if the only subscription had one member.
    counts = rows_by_name(problem).partition_counts
    return find_classes(Eligibility(counts, np.array([0, len(counts)]), np.arange(len(counts))))


def _member_order(problem: Problem) -> Int32Array:
    # Static members come first, by instance id, then the others by member id.
    group = problem.group
    if not group.has_static_members:
        return group.members_by_instance
    instances = [m.instance_id for m in group]
    named = sorted({i for i in instances if i is not None})
    rank = dict(zip(named, java_rank(named).tolist(), strict=True))
    first = [len(named) if i is None else rank[i] for i in instances]
    return np.lexsort((group.member_rank, np.array(first))).astype(np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class PartitionClasses:
    """Classes of equivalent partitions and groups of equivalent members of a consumer group.

    They make the minimum-cost flow small, because it has one node for each of them. Partitions are
    equivalent if they have the same subscribers and rack costs (of consuming from another rack),
    members if they have the same subscription and rack costs. Previous owners do not matter.

    Attributes:
        of_row: int64[n], class of each partition.
        topic_class: int64[C], class of topics (with equal subscribers) of each partition class.
        profile: int64[C], row of each partition class in ``cost``.
        group: int64[M], group of each member, -1 for a member that may own nothing.
        groups: number of groups.
        member_class: int64[G], class of members (with equal subscriptions) of each group.
        column: int64[G], column of each group in ``cost``.
        cost: int64[K, R], rack costs.
    """

    of_row: Int64Array
    topic_class: Int64Array
    profile: Int64Array
    group: Int64Array
    groups: int
    member_class: Int64Array
    column: Int64Array
    cost: Int64Array

    @classmethod
    def for_problem(
        cls,
        canonical: CanonicalProblem,
        subscription_classes: SubscriptionClasses,
        racks: RackTable | None,
    ) -> PartitionClasses:
        """Group equivalent partitions into classes, and equivalent members into groups.

        The minimum-cost flow then has one node for each class and group.

        Args:
            canonical: the problem, with members and partitions sorted independently of the join
                order.
            subscription_classes: topics with equal subscribers, and members with equal
                subscriptions.
            racks: costs of consuming from other racks; None if they do not matter.
        """
        if racks is None:
            of_row, topic_class = (
                subscription_classes.topic[canonical.topic],
                np.arange(len(subscription_classes.supply)),
            )
            nothing, size = np.zeros(len(topic_class), np.int64), subscription_classes.size
            return cls(
                of_row, topic_class, nothing, subscription_classes.member, len(size),
                np.arange(len(size)), np.zeros(len(size), np.int64),
                np.zeros((1, 1), np.int64),
            )  # fmt: skip
        profile, column, cost = _merge_equal_costs(
            racks.profile[canonical.rows.partition], racks.row[canonical.order], racks.cost
        )
        of_row, pairs = rank_values(
            subscription_classes.topic[canonical.topic] * len(cost) + profile
        )
        wide = cost.shape[1]
        key = np.where(
            subscription_classes.member >= 0, subscription_classes.member * wide + column, -1
        )
        group, both = rank_values(key)
        if len(both) and both[0] < 0:
            group, both = group - 1, both[1:]
        return cls(
            of_row, pairs // len(cost), pairs % len(cost), group, len(both), both // wide,
            both % wide, cost,
        )  # fmt: skip


def _merge_equal_costs(
    profile: Int64Array, column_of_member: Int64Array, rack_costs: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Merge equal rows and equal columns of the matrix of rack costs, to make it small.

    A row has the costs of some partitions, a column those of some members.

    Args:
        profile: int64[n], row of each partition.
        column_of_member: int64[M], column of each member.
        rack_costs: int64[rows, columns], the matrix.

    Returns:
        Each partition's row and each member's column in the smaller matrix, and that matrix.
    """
    if not len(profile) or not len(column_of_member):
        return np.zeros_like(profile), np.zeros_like(column_of_member), np.zeros((1, 1), np.int64)
    columns, column_of_member = _distinct_rows(rack_costs.T, column_of_member)
    rows, profile = _distinct_rows(columns.T, profile)
    return profile, column_of_member, rows


def _distinct_rows(table: Int64Array, used: Int64Array) -> tuple[Int64Array, Int64Array]:
    used_rows = np.zeros(len(table), bool)
    used_rows[used] = True
    seen: dict[bytes, int] = {}
    number = np.zeros(len(table), np.int64)
    for i in np.flatnonzero(used_rows).tolist():
        number[i] = seen.setdefault(np.ascontiguousarray(table[i]).tobytes(), len(seen))
    kept = [np.frombuffer(one, np.int64) for one in seen]
    return np.stack(kept), number[used]


def rank_values(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Replace each value by its rank among the distinct values, e.g. 30, 10, 30 by 1, 0, 1.

    It is a faster `numpy.unique` with ``return_inverse`` if the range of values is small.

    Returns:
        The rank of each value, from 0, and the distinct values in ascending order.
    """
    if not len(values):
        return values, values
    low = int(values.min())
    if int(values.max()) - low < 1 << 24:
        used_rows = np.zeros(int(values.max()) - low + 1, bool)
        used_rows[values - low] = True
        return (np.cumsum(used_rows) - 1)[values - low], np.flatnonzero(used_rows) + low
    ordered = np.sort(values)
    ordered = ordered[np.diff(ordered, prepend=ordered[0] - 1) > 0]
    return np.searchsorted(ordered, values), ordered
