"""What racks may have had to say in a recorded Kafka Streams rebalance (KIP-925).

Members tell their racks, the cluster's metadata those of topics. Whether the application heeds
them, and which changelog is whose, is in no record: it is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from partage.history.stream_rounds import Shown, StreamRound, SubtopologyKey
from partage.model import Cluster
from partage.streams.assignment_configs import RackAwareStrategy
from partage.streams.topology import TopicPartition

__all__ = ["Changelogs", "rack_strategies", "racks_matter", "racks_of", "shared_changelogs"]

#: Changelog topics of sub-topologies.
Changelogs = Mapping[SubtopologyKey, tuple[str, ...]]

#: Ways to share out changelogs that are tried at most.
_MOST_SHARED = 16
_CHANGELOG = "-changelog"


def rack_strategies() -> Sequence[RackAwareStrategy]:
    """Those that are no default, the commoner first."""
    return ("min_traffic", "balance_subtopology")


def racks_matter(now: StreamRound, seen: Shown, cluster: Cluster) -> bool:
    """Whether Kafka could have looked at racks, and would have found some that differ."""
    racks = {member.rack for member in now.members}
    if None in racks or "" in racks or len(racks) < 2:
        return False
    known = racks_of(cluster, seen.counts)
    return all(
        (topic, number) in known for topic, count in seen.counts.items() for number in range(count)
    )


def racks_of(cluster: Cluster, topics: Mapping[str, int]) -> dict[TopicPartition, frozenset[str]]:
    """Racks of each partition's replicas; without those of which a broker has none.

    Args:
        cluster: as the leader saw it.
        topics: names; a topic that the cluster does not have is left out.
    """
    found: dict[TopicPartition, frozenset[str]] = {}
    for topic in topics:
        t = cluster.topic(topic)
        if t < 0:
            continue
        for partition in cluster.partitions_of(t).tolist():
            start, end = cluster.replica_start[partition : partition + 2].tolist()
            brokers = [cluster.brokers[one] for one in cluster.replica[start:end].tolist()]
            racks = frozenset(one.rack for one in brokers if one.rack is not None)
            if brokers and all(one.rack is not None for one in brokers):
                found[cluster.index.name(partition)] = racks
    return found


def shared_changelogs(
    now: StreamRound, seen: Shown, stateful: frozenset[SubtopologyKey], cluster: Cluster
) -> Iterator[Changelogs]:
    """Ways in which the application's changelogs may belong to its sub-topologies.

    A changelog has as many partitions as its sub-topology has tasks, and every one belongs to
    some. Nothing where a sub-topology with state finds none: then their racks are not known.
    """
    tasks = {key: max(seen.counts[topic] for topic in seen.sources[key]) for key in stateful}
    names = _changelogs(now, seen, cluster)
    choices = [
        [key for key in sorted(tasks, key=str) if tasks[key] == len(cluster.partitions_of(name))]
        for name in names
    ]
    kept = [(name, keys) for name, keys in zip(names, choices, strict=True) if keys]
    for owners in islice(product(*(keys for _, keys in kept)), _MOST_SHARED):
        shared: dict[SubtopologyKey, tuple[str, ...]] = {}
        for (name, _), key in zip(kept, owners, strict=True):
            shared[key] = (*shared.get(key, ()), name)
        if shared.keys() == tasks.keys():
            yield shared


def _changelogs(now: StreamRound, seen: Shown, cluster: Cluster) -> list[str]:
    """Topics named like changelogs of this application, by the first word of its other names."""
    hints = {member.id.partition("-")[0] for member in now.members}
    hints |= {topic.partition("-")[0] for topic in seen.counts if topic.endswith("-repartition")}
    every = [
        topic for t, topic in enumerate(cluster.index.topics)
        if topic.endswith(_CHANGELOG) and cluster.topic_exists[t]
    ]  # fmt: skip
    own = [topic for topic in every if topic.partition("-")[0] in hints]
    return sorted(own or every)
