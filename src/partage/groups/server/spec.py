"""Input of the coordinator's assignors: Kafka's GroupSpec and SubscribedTopicDescriber."""

from __future__ import annotations

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from partage.errors import UnsupportedProblemError
from partage.groups.ordering import members_in_map_order, string_hashes
from partage.groups.server.targets import Targets, previous_targets
from partage.groups.server.topic_ids import TopicIds
from partage.java.hash_order import copied_order
from partage.java.strings import string_ranks
from partage.model import Index, Problem
from partage.model.index import Int32Array

__all__ = ["CoordinatorAssignorError", "GroupSpec"]

_LARGEST_MATRIX = 10_000_000

#: Decoding and hashing ids takes longer than a small plan, and an index never changes.
_ids: WeakKeyDictionary[Index, TopicIds] = WeakKeyDictionary()


class CoordinatorAssignorError(UnsupportedProblemError):
    """The error of a problem on which the coordinator's class throws an exception.

    Attributes:
        java_exception: simple class name of the exception.

    >>> CoordinatorAssignorError("topic t is unknown").java_exception
    'PartitionAssignorException'
    """

    def __init__(self, what: str, java_exception: str = "PartitionAssignorException") -> None:
        super().__init__(what)
        self.java_exception = java_exception


class GroupSpec:
    """A problem as the coordinator's assignors see it: topics by id, previous targets.

    Where only a `Problem` is given, the previous targets are the members' ``owned`` partitions
    (see `previous_targets`), missing topic ids are derived from names (see `TopicIds`), and
    every partition is assignable.

    Attributes:
        problem: members, and topics as the metadata has them.
        uncounted: topics of unknown partition count (the describer returns -1).
        assignable: bool[P], partitions that may be assigned (KIP-932: those whose share
            state is initialised); None for all. Only ``server:simple`` uses it.

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

    @cached_property
    def members(self) -> int:
        """The number of members."""
        return len(self.problem.group)

    @cached_property
    def visit(self) -> list[int]:
        """Members in the iteration order of the coordinator's map of member specs."""
        return members_in_map_order(self.problem)

    @cached_property
    def ids(self) -> TopicIds:
        """Ids of the index's topics, decoded once per index."""
        index = self.problem.index
        if index not in _ids:
            _ids[index] = TopicIds.of(index.topics, index.ids)
        return _ids[index]

    @cached_property
    def previous(self) -> Targets:
        """The previous target assignment."""
        if self._previous is not None:
            return self._previous
        return previous_targets(
            self.problem, *self.numbered, self.ids.hashes, several_owners=self._several_owners
        )

    @cached_property
    def homogeneous(self) -> bool:
        """True if all members subscribe to the same names (Kafka's subscription type).

        Names of topics that do not exist count, too.
        """
        distinct = self.problem.group.subscriptions
        return len(distinct) <= 1 or len({frozenset(names) for names in distinct}) <= 1

    @cached_property
    def plain(self) -> bool:
        """True if dense numbers ascend by (topic, partition): no topic has grown or is deleted."""
        cluster, index = self.problem.cluster, self.problem.index
        topics = len(index.topics)
        return (
            len(index.extent_topic) == topics
            and bool((index.extent_topic == np.arange(topics)).all())
            and not index.extent_number.any()
            and bool(cluster.partition_exists.all())
            and bool(cluster.topic_exists.all())
        )

    @cached_property
    def numbered(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """The list of partitions by (topic, partition): first[T], count[T] and the list."""
        cluster, index = self.problem.cluster, self.problem.index
        topics = len(index.topics)
        if self.plain:
            start = index.first_partition
            return start[:-1], np.diff(start), np.arange(index.partitions, dtype=np.int32)
        lists = [cluster.partitions_of(t) for t in range(topics)]
        count = np.array([len(one) for one in lists], np.int32)
        dense = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        return (np.cumsum(count) - count).astype(np.int32), count, dense

    def partitions_of(self, topics: Int32Array) -> tuple[Int32Array, Int32Array]:
        """Return the partitions of some topics as CSR, topic after topic, by partition number.

        Raises:
            CoordinatorAssignorError: the partition count of a topic is unknown.
        """
        self.require_partition_counts(topics)
        first, count, dense = self.numbered
        start = np.zeros(len(topics) + 1, np.int32)
        np.cumsum(count[topics], out=start[1:])
        if len(topics) == len(count) and bool((topics == np.arange(len(topics))).all()):
            return start, dense
        places = np.repeat(first[topics] - start[:-1], count[topics])
        places += np.arange(start[-1], dtype=np.int32)
        return start, dense[places]

    def unassigned_partitions(self, topics: Int32Array) -> Int32Array:
        """Return the partitions without previous owner, topic after topic, by partition number.

        Raises:
            CoordinatorAssignorError: the partition count of a topic is unknown.
        """
        index = self.problem.index
        if not len(self.previous.partition):
            return self.partitions_of(topics)[1]
        given = self.previous.marked(index.partitions)
        if not self.plain:
            partition = self.partitions_of(topics)[1]
            return partition[~given[partition]]
        # Mostly few partitions are left, and they are already in ascending order.
        free = np.flatnonzero(~given).astype(np.int32)
        place = np.full(len(index.topics), len(topics), np.int32)
        place[topics] = np.arange(len(topics), dtype=np.int32)
        turn = place[np.searchsorted(index.first_partition, free, side="right") - 1]
        order = np.argsort(turn, kind="stable")
        return free[order[: int(np.count_nonzero(turn < len(topics)))]]

    def require_partition_counts(self, topics: Int32Array) -> None:
        """Raise CoordinatorAssignorError if the partition count of a topic is unknown."""
        for topic in self.uncounted.intersection(topics.tolist()) if self.uncounted else ():
            name = self.problem.index.topics[topic]
            raise CoordinatorAssignorError(f"topic {name!r}: its partition count is unknown")

    def named(self, subscription: int) -> tuple[Int32Array, int]:
        """Return a subscription's existing topics in set order, and the size of the set.

        The set is a copied ``HashSet`` of names. Iteration skips names without a topic; the
        size counts them.
        """
        sent = self.problem.group.subscriptions[subscription]
        names = list(dict.fromkeys(sent))
        order = copied_order(string_hashes(names), len(sent), lambda: string_ranks(names))
        topics = [self.problem.cluster.topic(names[i]) for i in order]
        return np.array([t for t in topics if t >= 0], np.int32), len(names)

    @cached_property
    def subscribed_pairs(self) -> NDArray[np.int64]:
        """int64: subscription * T + topic of each subscription and topic, ascending."""
        by_class = self.problem.subscription_topics
        width = max(len(self.problem.index.topics), 1)
        keys = [one.astype(np.int64) + i * width for i, one in enumerate(by_class)]
        return np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)

    @cached_property
    def _subscribes(self) -> NDArray[np.bool_] | None:
        """bool[subscriptions, T + 1], the last column for no topic; None if it were too large."""
        shape = (len(self.problem.group.subscriptions), len(self.problem.index.topics) + 1)
        if shape[0] * shape[1] > _LARGEST_MATRIX:
            return None
        matrix = np.zeros(shape, bool)
        for i, topics in enumerate(self.problem.subscription_topics):
            matrix[i, topics] = True
        return matrix

    def subscribes(self, member: Int32Array, topic: Int32Array) -> NDArray[np.bool_]:
        """Return bool: whether the member of each pair subscribes to its topic (-1: False)."""
        if self._subscribes is not None:
            return self._subscribes[self.problem.group.subscription_of[member], topic]
        pairs = self.subscribed_pairs
        width = max(len(self.problem.index.topics), 1)
        asked = self.problem.group.subscription_of[member].astype(np.int64) * width + topic
        at = np.searchsorted(pairs, asked)
        at[at == len(pairs)] = 0
        found = pairs[at] == asked if len(pairs) else np.zeros(len(asked), bool)
        return found & (topic >= 0)
