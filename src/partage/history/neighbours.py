"""States of cluster and group that whoever decided may have had instead of the recorded ones.

Metadata is polled by the recorder, cached by leaders, and known to the coordinator at once; a
static picture of it at one moment is never what everybody saw. Each state comes with words
that name what is different in it, and by how many milliseconds somebody was behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from partage.history.clusters import ClusterHistory
from partage.model import Broker, Cluster

__all__ = ["clusters_near", "smaller"]

#: How many metadata states before and after are tried: the recorder polls, leaders cache.
_STEPS = 3


def clusters_near(
    clusters: ClusterHistory, time_ms: int, topics: Sequence[str], unseen: Sequence[str], who: str
) -> Iterator[tuple[str, Cluster]]:
    """Clusters that may have been seen, the likeliest first, with what is different in them.

    Args:
        clusters: the metadata over time.
        time_ms: when was decided.
        topics: names that matter: those subscribed to.
        unseen: those of which nobody got anything.
        who: whose metadata: leader or coordinator.
    """
    position = clusters.position_at(time_ms)
    now = clusters.state(position)
    hidden = [name for name in unseen if now.topic(name) >= 0]
    if hidden:
        late = max(0, time_ms - max(_since(clusters, position, name) for name in hidden))
        words = f"{who}'s metadata was {late} ms behind: topic {', '.join(hidden)} missing"
        yield words, _without_topics(now, [now.topic(name) for name in hidden])
    yield from _racks_otherwise(clusters, position, who)
    for step in range(1, _STEPS + 1):
        if position - step >= 0:
            other = clusters.state(position - step)
            late = max(0, time_ms - clusters.times[position - step + 1])
            words = f"{who}'s metadata was {late} ms behind: {_differs(now, other, topics)}"
            yield words, other
        if position + step < len(clusters.times):
            other = clusters.state(position + step)
            early = clusters.times[position + step] - time_ms
            words = f"recorded {early} ms after the {who} saw it: {_differs(now, other, topics)}"
            yield words, other


def smaller(now: Cluster, given: Mapping[str, int], who: str) -> Iterator[tuple[str, Cluster]]:
    """The cluster with no more partitions of a topic than the record gave out.

    A capture that was taken late has the metadata of that time only; topics grow. To be asked only
    where nobody had looked at the metadata by then (`ClusterHistory.assumed_at`).

    Args:
        now: the cluster as far as it is known.
        given: topic -> the highest partition that anybody got.
        who: whose metadata: leader or coordinator.
    """
    exists, words = now.partition_exists.copy(), []
    for name, highest in sorted(given.items()):
        there = now.partitions_of(now.topic(name)) if now.topic(name) >= 0 else ()
        numbers = [int(now.index.number_of[p]) for p in there]
        beyond = [p for p, number in zip(there, numbers, strict=True) if number > highest]
        if beyond:
            exists[beyond] = False
            words.append(f"topic {name} had {len(numbers) - len(beyond)} partitions, not "
                         f"{len(numbers)}")  # fmt: skip
    if words:
        yield (
            f"{who}'s metadata was older than what was recorded: {'; '.join(words)}",
            replace(now, partition_exists=exists),
        )


def _since(clusters: ClusterHistory, position: int, topic: str) -> int:
    """From when on a topic was there without a break, up to a state that has it."""
    number = clusters.state(position).topic(topic)
    first = position
    while first > 0 and clusters.state(first - 1).topic(topic) == number:
        first -= 1
    return clusters.times[first]


def _differs(now: Cluster, other: Cluster, topics: Sequence[str]) -> str:
    """What another state has otherwise, as far as it matters to these topics."""
    words = []
    for name in dict.fromkeys(topics):
        here, there = now.topic(name), other.topic(name)
        counts = len(now.partitions_of(name)), len(other.partitions_of(name))
        if here >= 0 > there:
            words.append(f"topic {name} missing")
        elif there >= 0 > here:
            words.append(f"topic {name} there with {counts[1]} partitions")
        elif counts[0] != counts[1]:
            words.append(f"topic {name} with {counts[1]} partitions, not {counts[0]}")
        elif here != there:
            words.append(f"topic {name} with another id")
    if now.brokers != other.brokers:
        words.append(f"brokers {', '.join(_named(b) for b in other.brokers)}")
    return "; ".join(words) or "replicas elsewhere"


def _named(broker: Broker) -> str:
    return f"{broker.id} in {broker.rack}" if broker.rack else str(broker.id)


def _without_topics(cluster: Cluster, topics: list[int]) -> Cluster:
    exists = cluster.topic_exists.copy()
    exists[topics] = False
    alive = cluster.partition_exists & exists[cluster.index.topic_of]
    return replace(cluster, topic_exists=exists, partition_exists=alive)


def _racks_otherwise(
    clusters: ClusterHistory, position: int, who: str
) -> Iterator[tuple[str, Cluster]]:
    """The same cluster with racks of brokers added (known at other times) or taken away."""
    now = clusters.state(position)
    known = clusters.racks()
    back = tuple(b if b.rack else Broker(b.id, known.get(b.id)) for b in now.brokers)
    if back != now.brokers:
        names = [str(b.id) for b, n in zip(now.brokers, back, strict=True) if b != n]
        words = f"{who}'s metadata still had the rack of broker {', '.join(names)}, which was down"
        yield words, replace(now, brokers=back)
    for broker in now.brokers:
        if broker.rack:
            less = tuple(Broker(b.id) if b.id == broker.id else b for b in now.brokers)
            words = f"{who}'s metadata lacked the rack of broker {broker.id}: down, or not yet back"
            yield words, replace(now, brokers=less)
