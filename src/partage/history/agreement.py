"""Does a strategy's plan equal what the leader recorded; and if not, why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from partage.errors import PartageError
from partage.history.clusters import ClusterHistory
from partage.history.ownership import assigned_pairs
from partage.history.records import ClassicState
from partage.model import Assignment, Broker, Cluster

__all__ = ["Named", "explain", "named", "recorded_named"]

#: member -> topic -> partition numbers in the order given. The order of the topics is not
#: compared: clients write their assignment by topic, in the order of their own hash maps.
Named = dict[str, dict[str, list[int]]]

#: How many metadata states before and after are tried: the recorder polls, leaders cache.
_NEIGHBOURS = 3


def recorded_named(state: ClassicState) -> Named:
    """The recorded assignment by names; members without partitions have an empty entry."""
    out: Named = {}
    for member in state.members:
        mine = out.setdefault(member.id, {})
        for topic, p in assigned_pairs(member):
            mine.setdefault(topic, []).append(p)
    return out


def named(plan: Assignment) -> Named:
    """A plan by names, comparable with `recorded_named`."""
    out = plan.to_dict()
    for lost in plan.unresolved:  # given all the same: the record has it too
        out[lost.member].setdefault(lost.topic, []).append(lost.partition)
    return out


def explain(
    state: ClassicState,
    clusters: ClusterHistory,
    position: int,
    plan_on: Callable[[Cluster], Named],
) -> str | None:
    """Why the record is not the plan on the cluster of a state, where that can be found.

    Each explanation is tried, not guessed: the strategy is run on the cluster that the
    leader would have seen, and has to give the record exactly. None if nothing fits.
    """
    record = recorded_named(state)
    wanted = {t for m in state.members if m.subscription for t in m.subscription.topics}
    unseen = sorted(wanted - {topic for topics in record.values() for topic in topics})
    for words, cluster in _as_leader_may_have_seen(unseen, clusters, position):
        try:
            if plan_on(cluster) == record:
                return words
        except PartageError:
            continue
    return None


def _as_leader_may_have_seen(
    unseen: list[str], clusters: ClusterHistory, position: int
) -> Iterator[tuple[str, Cluster]]:
    now = clusters.state(position)
    hidden = [name for name in unseen if now.topic(name) >= 0]
    if hidden:
        words = f"the leader had not yet seen topic {', '.join(hidden)}"
        yield words, _without_topics(now, [now.topic(name) for name in hidden])
    for words, other in _racks_otherwise(clusters, position):
        yield f"the leader saw other racks: {words}", other
    for step in range(1, _NEIGHBOURS + 1):
        for near in (position - step, position + step):
            if 0 <= near < len(clusters.times):
                words = f"the leader saw the cluster as recorded at {clusters.times[near]}"
                yield words, clusters.state(near)


def _without_topics(cluster: Cluster, topics: list[int]) -> Cluster:
    exists = cluster.topic_exists.copy()
    exists[topics] = False
    alive = cluster.partition_exists & exists[cluster.index.topic_of]
    return replace(cluster, topic_exists=exists, partition_exists=alive)


def _racks_otherwise(clusters: ClusterHistory, position: int) -> Iterator[tuple[str, Cluster]]:
    """The same cluster with racks of brokers added (known at other times) or taken away."""
    now = clusters.state(position)
    known = clusters.racks()
    back = tuple(b if b.rack else Broker(b.id, known.get(b.id)) for b in now.brokers)
    if back != now.brokers:
        names = [str(b.id) for b, n in zip(now.brokers, back, strict=True) if b != n]
        words = f"it still knew the rack of broker {', '.join(names)}, which was down"
        yield words, replace(now, brokers=back)
    for broker in now.brokers:
        if broker.rack:
            less = tuple(Broker(b.id) if b.id == broker.id else b for b in now.brokers)
            words = f"the rack of broker {broker.id} was missing (it was down, or not yet back)"
            yield words, replace(now, brokers=less)
