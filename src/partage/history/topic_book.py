"""Topic names by id and partition counts over time, from whatever knows them."""

from __future__ import annotations

from partage.history.clusters import ClusterHistory

__all__ = ["TopicBook"]


class TopicBook:
    """What records call by id, by name: from the cluster's metadata, else as learnt.

    A log without metadata still names some ids: offset commits of version 4 have both, and
    so has the share state of share groups. An id that nobody names is its own name.

    >>> book = TopicBook(ClusterHistory([]))
    >>> book.learn("AAAAAAAAAAAAAAAAAAAABw", "orders")
    >>> book.name_of("AAAAAAAAAAAAAAAAAAAABw"), book.name_of("AAAAAAAAAAAAAAAAAAAACA")
    ('orders', 'AAAAAAAAAAAAAAAAAAAACA')
    """

    def __init__(self, clusters: ClusterHistory) -> None:
        self._clusters = clusters
        #: Ids that records have named, and the metadata has not.
        self.learnt: dict[str, str] = {}
        index = clusters.index
        self._names = {i: name for i, name in zip(index.ids, index.topics, strict=True) if i}

    def learn(self, topic_id: str, name: str) -> None:
        """A record says that this id is of the topic of this name."""
        if topic_id not in self._names:
            self._names[topic_id] = self.learnt[topic_id] = name

    def name_of(self, topic_id: str) -> str:
        """The name of a topic id; the id itself where nobody knows."""
        return self._names.get(topic_id, topic_id)

    def id_of(self, name: str, time_ms: int) -> str | None:
        """The id that a topic had at a time; None where the cluster had no such topic."""
        cluster = self._clusters.at(time_ms)
        number = cluster.topic(name)
        return cluster.index.ids[number] if number >= 0 else None

    def has(self, name: str, partition: int, time_ms: int) -> bool:
        """Whether a topic had a partition at a time; True where nothing is known of it."""
        cluster = self._clusters.at(time_ms)
        dense = cluster.partitions_of(name)
        return not len(dense) or bool((cluster.index.number_of[dense] == partition).any())
