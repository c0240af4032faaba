"""What the coordinator hands to an assignor: Kafka's GroupSpec and SubscribedTopicDescriber."""

from __future__ import annotations

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from partage.groups.ordering import members_as_mapped, string_hashes
from partage.groups.server.refusals import CoordinatorRefusal
from partage.groups.server.targets import Targets, targets_from_claims
from partage.groups.server.topic_ids import TopicIds
from partage.groups.server.walks import copied_order
from partage.javaorder import string_ranks
from partage.model import Index, Problem
from partage.model.index import Int32Array

__all__ = ["GroupSpec"]

_LARGEST_MATRIX = 10_000_000

#: Base64 and hashing take longer than a small plan. An index never changes, so neither does this.
_ids: WeakKeyDictionary[Index, TopicIds] = WeakKeyDictionary()


class GroupSpec:
    """A problem as the coordinator's assignors see it: topics by id, previous targets.

    Made from a `Problem` alone, the previous targets are the members' ``owned`` partitions
    (see `targets_from_claims`), ids that the cluster does not have are derived from names
    (see `TopicIds`), and every partition may be assigned.

    Attributes:
        problem: members, and topics as the metadata has them.
        uncounted: topics that the metadata names without knowing how many partitions they
            have (the describer says -1).
        assignable: bool[P], partitions that may be assigned at all (KIP-932: those whose
            share state is initialised); None for all. Only ``server:simple`` asks.

    With ``several_owners`` (share groups) members may own the same partition.
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
        """How many members there are."""
        return len(self.problem.group)

    @cached_property
    def visit(self) -> list[int]:
        """Members in the order of the coordinator's map of member specs."""
        return members_as_mapped(self.problem)

    @cached_property
    def ids(self) -> TopicIds:
        """Ids of the index's topics, read once for as long as the index lives."""
        index = self.problem.index
        if index not in _ids:
            _ids[index] = TopicIds.of(index.topics, index.ids)
        return _ids[index]

    @cached_property
    def previous(self) -> Targets:
        """What each member had been assigned before."""
        if self._previous is not None:
            return self._previous
        return targets_from_claims(
            self.problem, *self.numbered, self.ids.hashes, several_owners=self._several_owners
        )

    @cached_property
    def homogeneous(self) -> bool:
        """Kafka's subscription type: whether each name is subscribed to by all members.

        Names that the cluster does not have count as well.
        """
        distinct = self.problem.group.subscriptions
        return len(distinct) <= 1 or len({frozenset(names) for names in distinct}) <= 1

    @cached_property
    def plain(self) -> bool:
        """Whether no topic has grown and none is gone: numbers lie by (topic, number)."""
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
        """Partitions of each topic: first[T] and count[T] in a list by (topic, number)."""
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
        """CSR: the partitions of some topics, topic after topic, by number.

        Raises:
            CoordinatorRefusal: the partition count of one of them is not known.
        """
        self.refuse_uncounted(topics)
        first, count, dense = self.numbered
        start = np.zeros(len(topics) + 1, np.int32)
        np.cumsum(count[topics], out=start[1:])
        if len(topics) == len(count) and bool((topics == np.arange(len(topics))).all()):
            return start, dense
        places = np.repeat(first[topics] - start[:-1], count[topics])
        places += np.arange(start[-1], dtype=np.int32)
        return start, dense[places]

    def free_of(self, topics: Int32Array) -> Int32Array:
        """Partitions that nobody had, topic after topic, by number.

        Raises:
            CoordinatorRefusal: the partition count of a topic is not known.
        """
        index = self.problem.index
        if not len(self.previous.partition):
            return self.partitions_of(topics)[1]
        given = self.previous.marked(index.partitions)
        if not self.plain:
            partition = self.partitions_of(topics)[1]
            return partition[~given[partition]]
        # Those left over are mostly few, and already by number.
        free = np.flatnonzero(~given).astype(np.int32)
        place = np.full(len(index.topics), len(topics), np.int32)
        place[topics] = np.arange(len(topics), dtype=np.int32)
        turn = place[np.searchsorted(index.first_partition, free, side="right") - 1]
        order = np.argsort(turn, kind="stable")
        return free[order[: int(np.count_nonzero(turn < len(topics)))]]

    def refuse_uncounted(self, topics: Int32Array) -> None:
        """Refuse a subscribed topic that the describer knows nothing of."""
        for topic in self.uncounted.intersection(topics.tolist()) if self.uncounted else ():
            name = self.problem.index.topics[topic]
            raise CoordinatorRefusal(f"topic {name!r}: its partition count is unknown")

    def named(self, subscription: int) -> tuple[Int32Array, int]:
        """A subscription's existing topics in the order of its name set, and that set's size.

        The set is a copied ``HashSet`` of names; names without a topic are skipped when it
        is walked, but its size counts them.
        """
        sent = self.problem.group.subscriptions[subscription]
        names = list(dict.fromkeys(sent))
        order = copied_order(string_hashes(names), len(sent), lambda: string_ranks(names))
        topics = [self.problem.cluster.topic(names[i]) for i in order]
        return np.array([t for t in topics if t >= 0], np.int32), len(names)

    @cached_property
    def subscribed_pairs(self) -> NDArray[np.int64]:
        """int64: subscription * T + topic for all subscriptions and their topics, ascending."""
        by_class = self.problem.subscription_topics
        width = max(len(self.problem.index.topics), 1)
        keys = [one.astype(np.int64) + i * width for i, one in enumerate(by_class)]
        return np.sort(np.concatenate(keys)) if keys else np.zeros(0, np.int64)

    @cached_property
    def _subscribes(self) -> NDArray[np.bool_] | None:
        """bool[subscriptions, T + 1] where that is small, the last column for no topic."""
        shape = (len(self.problem.group.subscriptions), len(self.problem.index.topics) + 1)
        if shape[0] * shape[1] > _LARGEST_MATRIX:
            return None
        matrix = np.zeros(shape, bool)
        for i, topics in enumerate(self.problem.subscription_topics):
            matrix[i, topics] = True
        return matrix

    def subscribes(self, member: Int32Array, topic: Int32Array) -> NDArray[np.bool_]:
        """bool: whether a member subscribes to a topic (-1 is nobody's), pair by pair."""
        if self._subscribes is not None:
            return self._subscribes[self.problem.group.subscription_of[member], topic]
        pairs = self.subscribed_pairs
        width = max(len(self.problem.index.topics), 1)
        wanted = self.problem.group.subscription_of[member].astype(np.int64) * width + topic
        at = np.searchsorted(pairs, wanted)
        at[at == len(pairs)] = 0
        found = pairs[at] == wanted if len(pairs) else np.zeros(len(wanted), bool)
        return found & (topic >= 0)
