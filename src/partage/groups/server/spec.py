"""Input of the group coordinator's assignors: Kafka's GroupSpec and SubscribedTopicDescriber.

It includes the previous target assignment (`Targets`) and topic ids (`TopicIds`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from partage.errors import UnsupportedProblemError
from partage.groups.layout import cached_by_subscriptions, members_in_map_order, string_hashes
from partage.groups.server.kernels import read_claims
from partage.java.hash_order import copied_set_order
from partage.java.strings import string_ranks
from partage.model import Index, Problem
from partage.model.index import Int32Array

__all__ = [
    "CoordinatorAssignorError",
    "GroupSpec",
    "Targets",
    "TopicIds",
    "canonical_topic_id",
    "derive_topic_id",
    "previous_targets",
]

_BYTES = 16
_NOTHING = np.zeros(0, np.int32)
_NO_HASHES = np.zeros(0, np.uint32)


class TopicIds:
    """Topic ids (UUIDs) of a cluster, and their Java hash codes.

    The hash codes decide in which order the group coordinator iterates over topics. A topic whose
    id is unknown gets one that is derived from its name (`derive_topic_id`), so the same names
    always give the same plan.

    Attributes:
        high: uint64[T], the first 8 bytes of each id.
        low: uint64[T], the last 8 bytes.

    >>> ids = TopicIds.from_names(["orders"], ["AAAAAAAAAAAAAAAAAAAABw"])
    >>> int(ids.java_hash_codes[0]), ids.base64_texts
    (7, ['AAAAAAAAAAAAAAAAAAAABw'])
    """

    def __init__(self, raw: bytes) -> None:
        halves = np.frombuffer(raw, dtype=">u8").astype(np.uint64).reshape(-1, 2)
        self.high: NDArray[np.uint64] = np.ascontiguousarray(halves[:, 0])
        self.low: NDArray[np.uint64] = np.ascontiguousarray(halves[:, 1])

    @classmethod
    def from_names(cls, names: Sequence[str], ids: Sequence[str | None]) -> TopicIds:
        """Decode the base64 ids of topics, and derive an id from the name for topics without one.

        Kafka prints topic ids in base64. Equal names always give equal computed ids.

        Args:
            names: name of each topic.
            ids: base64 id of each topic, None if unknown.
        """
        if not any(ids):
            return cls(b"".join(map(derive_topic_id, names)))
        pairs = zip(names, ids, strict=True)
        return cls(b"".join(_decoded(i) or derive_topic_id(name) for name, i in pairs))

    @cached_property
    def java_hash_codes(self) -> NDArray[np.uint32]:
        """Java's ``Uuid.hashCode`` of each topic id (uint32[T]).

        The group coordinator's hash maps derive their iteration order from it.
        """
        mixed = self.high ^ self.low
        hashes: NDArray[np.uint32] = ((mixed >> np.uint64(32)) ^ mixed).astype(np.uint32)
        return hashes

    @property
    def signed_halves(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last 8 bytes of each topic id as signed integers, two int64[T] arrays.

        Java compares topic ids by these numbers.
        """
        return self.high.view(np.int64), self.low.view(np.int64)

    @property
    def base64_texts(self) -> list[str]:
        """Each topic id as text, such as ``AAAAAAAAAAAAAAAAAAAABw``.

        It is the URL-safe base64 that Kafka prints.
        """
        raw = np.stack([self.high, self.low], axis=1).astype(">u8").tobytes()
        pieces = (raw[i : i + _BYTES] for i in range(0, len(raw), _BYTES))
        return [base64.urlsafe_b64encode(one).decode().rstrip("=") for one in pieces]


def derive_topic_id(name: str) -> bytes:
    """Return a made-up 16-byte topic id for a topic whose real id is unknown.

    It is the BLAKE2b hash of the topic name, so it is the same in every run.

    >>> derive_topic_id("orders") == derive_topic_id("orders") != derive_topic_id("clicks")
    True
    """
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def canonical_topic_id(topic_id: str) -> str | None:
    """Return a topic id as Kafka prints it; None if the text is not a topic id.

    Several base64 texts may mean the same id, because their last character has unused bits.

    >>> canonical_topic_id("AAAAAAAAAAAAAAAAAAAAB_"), canonical_topic_id("orders")
    ('AAAAAAAAAAAAAAAAAAAABw', None)
    """
    raw = _decoded(topic_id)
    return None if raw is None else base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decoded(topic_id: str | None) -> bytes | None:
    if topic_id is None:
        return None
    try:
        raw = base64.b64decode(topic_id + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == _BYTES else None


@dataclass(frozen=True, eq=False)
class Targets:
    """Previous target assignment of a consumer group (KIP-848): each member's partitions.

    Kafka's coordinator passes it to assignors, with one set of partitions for each member and
    topic. Sets keep the order of insertion, which decides Java's iteration order. There are M
    members, S sets and P partitions.

    Attributes:
        set_start: int32[M + 1], first set of each member.
        topic: int32[S], topic of each set; -1 for a topic that the index does not have.
        uuid_hash: uint32[S], Java's hash of the topic id.
        start: int32[S + 1], first partition of each set.
        partition: int32[n], index numbers of the partitions, each once in its set.
        given: bool[P], whether a partition is in a set; None if not yet computed.
    """

    set_start: Int32Array
    topic: Int32Array
    uuid_hash: NDArray[np.uint32]
    start: Int32Array
    partition: Int32Array
    given: NDArray[np.bool_] | None = None

    @classmethod
    def without_partitions(cls, members: int) -> Targets:
        """Return a previous target assignment in which no member has any partition.

        A new group begins with it. ``members`` is the number of members.
        """
        start = np.zeros(members + 1, np.int32)
        return cls(start, _NOTHING, _NO_HASHES, start[:1], _NOTHING)

    def owned_partitions(self, partitions: int) -> NDArray[np.bool_]:
        """Return which partitions have an owner in the previous target assignment (bool[P]).

        The other ones must be assigned. ``partitions`` is the number P of partitions in the
        cluster's index.
        """
        if self.given is not None:
            return self.given
        marks = np.zeros(partitions, bool)
        marks[self.partition] = True
        return marks

    @cached_property
    def member_of_set(self) -> Int32Array:
        """Member of each set of partitions in the previous target assignment (int32[S]).

        There is one set for each member and topic. For example, ``[0, 0, 1]`` if the first member
        has partitions of two topics and the second of one.
        """
        sets = self.set_start[1:] - self.set_start[:-1]
        return np.arange(len(sets), dtype=np.int32).repeat(sets)

    @cached_property
    def set_sizes(self) -> Int32Array:
        """Number of partitions in each set of the previous target assignment (int32[S]).

        There is one set for each member and topic.
        """
        return self.start[1:] - self.start[:-1]

    @cached_property
    def set_of(self) -> Int32Array:
        """Set to which each partition of the previous target assignment belongs, as its index
        (int32[n]).

        There is one set for each member and topic. For example, ``[0, 0, 1]`` if the first set has
        two partitions and the second one.
        """
        return np.repeat(np.arange(len(self.topic), dtype=np.int32), self.set_sizes)

    def empty_sets(self, selected: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
        """Return the (member, topic) pairs without a partition in the previous target assignment.

        Kafka stores a set of partitions for each pair, and its result also contains the empty sets.
        ``selected`` (bool[S]) marks the pairs to consider.
        """
        if not len(self.topic):
            return ()
        at = (selected & (self.set_sizes == 0)).nonzero()[0]
        return tuple(zip(self.member_of_set[at].tolist(), self.topic[at].tolist(), strict=True))


def previous_targets(
    problem: Problem,
    first_index: Int32Array,
    partition_counts: Int32Array,
    dense: Int32Array,
    hashes: NDArray[np.uint32],
    *,
    several_owners: bool = False,
) -> Targets:
    """Build the coordinator's previous target assignment from the members' owned partitions.

    If several members report a partition, the one with the newest generation owns it, or all of
    them in a share group.

    Args:
        problem: the group and the cluster.
        first_index: int32[T], first index of each topic in ``dense``.
        partition_counts: int32[T], number of partitions of each topic.
        dense: int32[P], all partitions sorted by topic and partition number.
        hashes: uint32[T], Java's hash of each topic id.
        several_owners: whether a partition may have several owners (share groups).
    """
    if not problem.group.claimed.names:
        return Targets.without_partitions(len(problem.group))
    sent = _SentClaims.of(problem)
    # One entry more, for topic -1, which does not exist.
    limit, begin = np.append(partition_counts, np.int32(0)), np.append(first_index, np.int32(0))
    if read_claims.is_compiled and not several_owners and not _has_holes(problem, dense):
        read = sent.read(begin[sent.topic], limit[sent.topic], problem.index.partitions)
        if read is not None:
            return sent.grouped(*read, hashes)
    claimed = _GroupedClaims.of(sent)
    inside = claimed.number.view(np.uint32) < claimed.spread(limit[claimed.sent.topic]).view(
        np.uint32
    )
    if bool(inside.all()) and not _has_holes(problem, dense):
        partition = claimed.spread(begin[sent.topic]) + claimed.number
    else:
        topic = claimed.spread(sent.topic)
        partition = problem.index.locate_all(topic, claimed.number)
        inside = partition >= 0
        inside[inside] = problem.cluster.partition_exists[partition[inside]]
        # A partition of a deleted and recreated topic belongs to the old topic id.
        inside[inside] &= problem.cluster.topic_exists[topic[inside]]
    # A coordinator's own targets have each existing partition at most once, but members may report
    # anything. With equal generations the last member in join order owns the partition; with
    # ``several_owners`` it belongs to all of them. Partitions that do not exist are dropped.
    times = np.bincount(partition[inside], minlength=1)
    if int(times.max()) > 1:
        inside &= _find_valid_claims(
            problem, claimed, partition, inside, several_owners=several_owners
        )
    if not inside.all():
        claimed, partition = claimed.select(inside), partition[inside]
    return claimed.sent.grouped(claimed.size, partition, None, hashes)


def _has_holes(problem: Problem, dense: Int32Array) -> bool:
    # After a topic has grown or was deleted, a dense number may differ from the topic's first one
    # plus the partition number.
    index = problem.index
    return len(dense) != index.partitions or len(index.extent_topic) != len(index.topics)


@dataclass(frozen=True, eq=False)
class _SentClaims:
    """Partitions that the members of a group report as owned, as flat arrays.

    A member sends topic names, and for each name partition numbers. There are M members, N names
    and n partitions in all.

    Attributes:
        name_start: int64[M + 1], index in ``topic`` of each member's first name (compressed rows,
            CSR).
        topic: int32[N], index of the topic with each name, -1 if it does not exist.
        foreign: names of topics that do not exist, in order.
        at: int64[M + 1], index in ``number`` of each member's first partition (CSR).
        name: int32[n], the topic name of each partition, counted from the member's first name.
        number: int32[n], partition number of each partition.
    """

    name_start: NDArray[np.int64]
    topic: Int32Array
    foreign: list[str]
    at: NDArray[np.int64]
    name: Int32Array
    number: Int32Array

    @classmethod
    def of(cls, problem: Problem) -> _SentClaims:
        rows = problem.group.claimed
        topic = np.array(problem.cluster.topic_all(rows.names), np.int32)
        foreign = [rows.names[i] for i in np.flatnonzero(topic < 0).tolist()]
        return cls(rows.name_start, topic, foreign, rows.start, rows.name, rows.partition)

    def read(
        self, begin: Int32Array, limit: Int32Array, partitions: int
    ) -> tuple[NDArray[Any], Int32Array, NDArray[np.bool_]] | None:
        # None: a claim is a special case, such as a partition that does not exist. Else the number
        # of partitions under each topic name, the partitions, and whether each partition of the
        # cluster is claimed.
        size, out = np.zeros(len(self.topic), np.int32), np.empty(len(self.number), np.int32)
        given = np.zeros(partitions, bool)
        done = read_claims(
            self.at, self.name_start, self.name, self.number,
            np.stack((begin, limit), axis=1), size, out, given, work=len(out),
        )  # fmt: skip
        return (size, out, given) if done == len(out) else None

    def grouped(
        self,
        size: NDArray[Any],
        partition: Int32Array,
        given: NDArray[np.bool_] | None,
        hashes: NDArray[np.uint32],
    ) -> Targets:
        start = np.zeros(len(self.topic) + 1, np.int32)
        size.cumsum(out=start[1:])
        uuid_hash = np.append(hashes, np.uint32(0))[self.topic]
        if self.foreign:
            derived = TopicIds.from_names(self.foreign, [None] * len(self.foreign)).java_hash_codes
            uuid_hash[self.topic < 0] = derived
        first = self.name_start.astype(np.int32)
        return Targets(first, self.topic, uuid_hash, start, partition, given)


@dataclass(frozen=True, eq=False)
class _GroupedClaims:
    """Partitions that the members of a group report as owned, sorted by member and topic name.

    Attributes:
        sent: the names and partitions in the order sent.
        size: int64[N], number of partitions reported under each topic name.
        number: int32[n], partition numbers, name after name.
    """

    sent: _SentClaims
    size: NDArray[np.int64]
    number: Int32Array

    @classmethod
    def of(cls, sent: _SentClaims) -> _GroupedClaims:
        lengths = np.diff(sent.at)
        name_of = sent.name + np.repeat(sent.name_start[:-1].astype(np.int32), lengths)
        number = sent.number
        if len(number) and bool((name_of[1:] < name_of[:-1]).any()):
            # A member may send the claims of one topic in several places.
            order = np.argsort(name_of, kind="stable")
            name_of, number = name_of[order], number[order]
        return cls(sent, np.bincount(name_of, minlength=len(sent.topic)), number)

    def spread(self, by_name: Int32Array) -> Int32Array:
        # From one value for each name to one for each claim.
        return np.repeat(by_name, self.size)

    def select(self, kept: NDArray[np.bool_]) -> _GroupedClaims:
        name_of = self.spread(np.arange(len(self.sent.topic), dtype=np.int32))[kept]
        size = np.bincount(name_of, minlength=len(self.sent.topic))
        return _GroupedClaims(self.sent, size, self.number[kept])

    def member(self) -> Int32Array:
        names = np.diff(self.sent.name_start)
        return self.spread(np.repeat(np.arange(len(names), dtype=np.int32), names))


def _find_valid_claims(
    problem: Problem,
    claimed: _GroupedClaims,
    partition: Int32Array,
    exists: NDArray[np.bool_],
    *,
    several_owners: bool,
) -> NDArray[np.bool_]:
    """Return which reports of owned partitions are true: the reporting member is the owner
    (bool[n]).

    If several members report a partition, the newest generation wins, then the last member in join
    order. With ``several_owners`` (share groups), all of them own it.
    """
    good = np.ones(len(partition), bool)
    at = np.flatnonzero(exists)
    member = claimed.member()[at]
    generation = np.array([m.generation for m in problem.group], np.int64)[member]
    if several_owners:
        generation[:] = 0
    # The last claim of each partition in this order wins; of a member's repetitions, the first.
    order = np.lexsort((-at, member, generation, partition[at]))
    best = np.ones(len(at), bool)
    best[:-1] = np.diff(partition[at][order]) != 0
    if several_owners:
        best[:-1] |= np.diff(member[order]) != 0
    good[at[order[~best]]] = False
    return good


_LARGEST_MATRIX = 10_000_000

#: Decoding and hashing ids takes longer than a small plan, and an index never changes.
_ids: WeakKeyDictionary[Index, TopicIds] = WeakKeyDictionary()


class CoordinatorAssignorError(UnsupportedProblemError):
    """Raised if the group coordinator's assignor class would throw an exception on this input.

    For example, the partition count of a subscribed topic is unknown.

    Attributes:
        java_exception: simple class name of the exception.

    >>> CoordinatorAssignorError("topic t is unknown").java_exception
    'PartitionAssignorException'
    """

    def __init__(self, what: str, java_exception: str = "PartitionAssignorException") -> None:
        super().__init__(what)
        self.java_exception = java_exception


class GroupSpec:
    """Input of an assignor in the broker: subscriptions, topic ids and previous assignment.

    It corresponds to Kafka's ``GroupSpec``. By default, the members' owned partitions are the
    previous assignment, missing topic ids are derived from names, and every partition is
    assignable.

    With ``several_owners`` (share groups), several members may own the same partition.

    Attributes:
        problem: members, and topics as the metadata has them.
        uncounted: topics of unknown partition count (Kafka's describer returns -1).
        assignable: bool[P], partitions that may be assigned (KIP-932: those whose share state is
            initialised); None for all. Only ``server:simple`` uses it.

    With ``several_owners`` (share groups) several members may own the same partition.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        previous: Targets | None = None,
        uncounted: frozenset[int] = frozenset(),
        assignable: NDArray[np.bool_] | None = None,
        several_owners: bool = False,
    ) -> None:
        self.problem = problem
        self.uncounted = uncounted
        self.assignable = assignable
        self._previous = previous
        self._several_owners = several_owners

    @property
    def members(self) -> int:
        """Number of members in the group.

        Members without subscribed topics are included.
        """
        return len(self.problem.group)

    @property
    def members_in_map_order(self) -> list[int]:
        """Positions of the members in the order in which the coordinator passes them to an
        assignor.

        It is the iteration order of a Java map.
        """
        return members_in_map_order(self.problem)

    @property
    def member_order(self) -> Int32Array:
        """Positions of the members in the order in which the coordinator passes them (int32[M]).

        It is the list `members_in_map_order` as an array.
        """
        return self.problem.group.by_map_order

    @property
    def topic_ids(self) -> TopicIds:
        """Topic ids of all topics of the cluster, with their Java hash codes.

        They are cached, because most rebalances do not change the topics.
        """
        return cached_by_subscriptions(self.problem, _topic_ids)

    @property
    def previous_targets(self) -> Targets:
        """Partitions that each member had before the rebalance (the previous target assignment).

        By default, they are the partitions that members report as owned.
        """
        if self._previous is None:
            self._previous = previous_targets(
                self.problem,
                *self.sorted_partitions,
                self.topic_ids.java_hash_codes,
                several_owners=self._several_owners,
            )
        return self._previous

    @property
    def has_equal_subscriptions(self) -> bool:
        """True if all members subscribe to the same topic names.

        Kafka's assignors use faster builders in this case (subscription type HOMOGENEOUS). Names of
        topics that do not exist count, too.
        """
        distinct = self.problem.group.subscriptions
        return len(distinct) <= 1 or len({frozenset(names) for names in distinct}) <= 1

    @property
    def is_numbered_by_topic(self) -> bool:
        """True if the cluster's partitions are numbered in the order of topic and partition number.

        This is no longer so after a topic has grown or was deleted.
        """
        return cached_by_subscriptions(self.problem, _is_plain)

    @property
    def sorted_partitions(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """All partitions of the cluster, sorted by topic and partition number.

        The result is three arrays: where each topic begins in the list, its number of partitions,
        and the list.
        """
        return cached_by_subscriptions(self.problem, _number_partitions)

    def partitions_of(self, topics: Int32Array) -> tuple[Int32Array, Int32Array]:
        """Return the partitions of the given topics as one array, topic after topic.

        Within a topic, they are sorted by partition number.

        Args:
            topics: int32[n], index numbers of the topics.

        Returns:
            Where each topic's partitions begin, and the partitions (compressed rows, CSR).

        Raises:
            CoordinatorAssignorError: the partition count of a topic is unknown.
        """
        self.require_partition_counts(topics)
        first, count, dense = self.sorted_partitions
        start = np.zeros(len(topics) + 1, np.int32)
        np.cumsum(count[topics], out=start[1:])
        if len(topics) == len(count) and bool((topics == np.arange(len(topics))).all()):
            return start, dense
        places = np.repeat(first[topics] - start[:-1], count[topics])
        places += np.arange(start[-1], dtype=np.int32)
        return start, dense[places]

    def unassigned_partitions(self, topics: Int32Array) -> Int32Array:
        """Return the given topics' partitions that have no owner in the previous target assignment.

        The assignor gives them to members that are below their quota. ``topics`` (int32[n]) are
        index numbers; partitions are sorted by topic and number.

        Raises:
            CoordinatorAssignorError: the partition count of a topic is unknown.
        """
        index = self.problem.index
        if not len(self.previous_targets.partition):
            return self.partitions_of(topics)[1]
        given = self.previous_targets.owned_partitions(index.partitions)
        if not self.is_numbered_by_topic:
            partition = self.partitions_of(topics)[1]
            return partition[~given[partition]]
        # Mostly few partitions are left, and they are already in ascending order.
        free = (~given).nonzero()[0].astype(np.int32)
        place = np.full(len(index.topics), len(topics), np.int32)
        place[topics] = np.arange(len(topics), dtype=np.int32)
        turn = place[index.first_partition.searchsorted(free, side="right") - 1]
        order = turn.argsort(kind="stable")
        return free[order[: int(np.count_nonzero(turn < len(topics)))]]

    def require_partition_counts(self, topics: Int32Array) -> None:
        """Raise `CoordinatorAssignorError` if the partition count of a topic is unknown.

        Kafka's assignors throw in this case. ``topics`` (int32[n]) are the index numbers of the
        topics to check.
        """
        for topic in self.uncounted.intersection(topics.tolist()) if self.uncounted else ():
            name = self.problem.index.topics[topic]
            raise CoordinatorAssignorError(f"topic {name!r}: its partition count is unknown")

    def existing_topics(self, subscription: int) -> tuple[Int32Array, int]:
        """Return a subscription's existing topics, and its number of topic names.

        The topics are in Java's iteration order. The number includes topics that do not exist,
        because Kafka sizes a map by it. ``subscription`` is an index of the group's subscriptions.
        """
        sent = self.problem.group.subscriptions[subscription]
        names = list(dict.fromkeys(sent))
        order = copied_set_order(string_hashes(names), len(sent), lambda: string_ranks(names))
        topics = [self.problem.cluster.topic(names[i]) for i in order]
        # Names of topics that do not exist count, because Kafka sizes a map by this number.
        return np.array([t for t in topics if t >= 0], np.int32), len(names)

    @cached_property
    def subscribed_pairs(self) -> NDArray[np.int64]:
        """All (subscription, topic) pairs as sorted integers, for binary search (int64).

        The integer is subscription * number of topics + topic. `is_subscribed` looks up pairs in
        large groups.
        """
        by_class = self.problem.subscription_topics
        width = max(len(self.problem.index.topics), 1)
        keys = [one.astype(np.int64) + i * width for i, one in enumerate(by_class)]
        return np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)

    @cached_property
    def _subscription_mask(self) -> NDArray[np.bool_] | None:
        """Table of the topics of each subscription (bool[subscriptions, T + 1]), None if too large.

        `is_subscribed` looks up whether a member subscribes to a topic. The last column is always
        False; it stands for topics that do not exist, whose index is -1.
        """
        shape = (len(self.problem.group.subscriptions), len(self.problem.index.topics) + 1)
        if shape[0] * shape[1] > _LARGEST_MATRIX:
            return None
        # The last column, which topic number -1 selects, stays False.
        matrix = np.zeros(shape, bool)
        for i, topics in enumerate(self.problem.subscription_topics):
            matrix[i, topics] = True
        return matrix

    def is_subscribed(self, member: Int32Array, topic: Int32Array) -> NDArray[np.bool_]:
        """Return for each (member, topic) pair whether the member subscribes to the topic.

        The pairs are given as two parallel arrays; the result is bool[n].

        Args:
            member: int32[n], the member of each pair.
            topic: int32[n], the topic of each pair; for -1 the result is False.
        """
        if self._subscription_mask is not None:
            return self._subscription_mask[self.problem.group.subscription_of[member], topic]
        pairs = self.subscribed_pairs
        width = max(len(self.problem.index.topics), 1)
        asked = self.problem.group.subscription_of[member].astype(np.int64) * width + topic
        at = np.searchsorted(pairs, asked)
        at[at == len(pairs)] = 0
        found = pairs[at] == asked if len(pairs) else np.zeros(len(asked), bool)
        return found & (topic >= 0)


def _topic_ids(problem: Problem) -> TopicIds:
    index = problem.index
    if index not in _ids:
        _ids[index] = TopicIds.from_names(index.topics, index.ids)
    return _ids[index]


def _is_plain(problem: Problem) -> bool:
    cluster, index = problem.cluster, problem.index
    topics = len(index.topics)
    return (
        len(index.extent_topic) == topics
        and bool((index.extent_topic == np.arange(topics)).all())
        and not index.extent_number.any()
        and bool(cluster.partition_exists.all())
        and bool(cluster.topic_exists.all())
    )


def _number_partitions(problem: Problem) -> tuple[Int32Array, Int32Array, Int32Array]:
    cluster, index = problem.cluster, problem.index
    if _is_plain(problem):
        start = index.first_partition
        return start[:-1], np.diff(start), np.arange(index.partitions, dtype=np.int32)
    lists = [cluster.partitions_of(t) for t in range(len(index.topics))]
    count = np.array([len(one) for one in lists], np.int32)
    dense = np.concatenate(lists) if lists else np.zeros(0, np.int32)
    return (np.cumsum(count) - count).astype(np.int32), count, dense
