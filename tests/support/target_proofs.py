"""Proof that a coordinator's recorded target assignment is the best plan, by the judge alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import partage as pg
from partage.errors import PartageError
from partage.history.clusters import ClusterHistory, alternative_clusters
from partage.history.events import OWNER
from partage.history.problems import recorded_group
from partage.judge import check, measure, verify_certificate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from partage.history.events import Generation, Roles
    from partage.history.records import TopicPartitionNumbers


def grown_clusters(
    state: Mapping[str, Any], growth: Iterable[tuple[int, Mapping[str, int]]]
) -> ClusterHistory:
    """Return a recorded cluster over time, if its topics only grew.

    Args:
        state: the newest metadata, as in ``cluster.jsonl``.
        growth: (time in ms, partitions of each topic from then on).
    """
    states = []
    for at_ms, counts in growth:
        topics = {
            name: {**state["topics"][name], "partitions": [
                one for one in state["topics"][name]["partitions"] if one["p"] < count
            ]}
            for name, count in counts.items()
        }  # fmt: skip
        states.append({**state, "ts_ms": at_ms, "topics": topics})
    return ClusterHistory(states)


def growth_shown(
    targets: Iterable[Generation], state: Mapping[str, Any]
) -> Iterator[tuple[int, Mapping[str, int]]]:
    """Yield the partition counts that recorded targets show, for a log without the true ones."""
    name = {topic["id"]: name for name, topic in state["topics"].items()}
    counts: dict[str, int] = {}
    for one in targets:
        assert one.target is not None
        for roles in one.target.target.values():
            for topic, numbers in _owned(roles):
                counts[name[topic]] = max(counts.get(name[topic], 0), max(numbers, default=-1) + 1)
        yield one.target.decided_ms or one.timestamp_ms, dict(counts)


def shortfall(found: Generation, clusters: ClusterHistory) -> str | None:
    """Return how a recorded target falls short of the best plan; None if it is proven best.

    The coordinator may use metadata some milliseconds before the log has them. A target is also
    proven if it is best for the metadata before or after.
    """
    assert found.target is not None
    at = found.target.decided_ms or found.timestamp_ms
    now = clusters.cluster_at(at)
    topics = sorted(
        {t for m in found.first.members if m.subscription for t in m.subscription.topics}
    )
    said = _shortfall(found, now)
    if said is None:
        return None
    others = alternative_clusters(clusters, at, topics, [], "coordinator")
    return None if any(_shortfall(found, other) is None for _, other in others) else said


def _shortfall(found: Generation, cluster: pg.Cluster) -> str | None:
    assert found.target is not None
    name = dict(zip(cluster.index.ids, cluster.index.topics, strict=True))
    members = [
        pg.Member(
            one.id, one.topics, rack=one.rack, instance_id=one.instance_id,
            owned=_named(found.target.before.get(one.id, ()), name),
        )
        for one in recorded_group(found.first).members
    ]  # fmt: skip
    group = pg.Group(members)
    target = {m: _named(found.target.target.get(m, ()), name) for m in group.ids}
    record = pg.Assignment.of(cluster.index, target)
    breaches = check(record, group, cluster)
    if breaches:
        return f"invalid: {breaches[0]}"
    best = pg.assign("optimal", group, cluster)
    try:
        verify_certificate(best, group, cluster)
    except PartageError as e:
        return f"not proven: {e}"
    settled = best.settled()
    loads = [np.sort(np.diff(one.start)).tolist() for one in (record, settled)]
    if loads[0] != loads[1]:
        return f"loads {loads[0]} instead of {loads[1]}"
    ours, fewest = measure(record, group, cluster), measure(settled, group, cluster)
    if ours.rack_mismatches != fewest.rack_mismatches:
        return f"{ours.rack_mismatches} rack mismatches instead of {fewest.rack_mismatches}"
    if ours.moved != fewest.moved:
        return f"{ours.moved} moves instead of {fewest.moved}"
    return None


def _named(roles: Roles, name: dict[str | None, str]) -> dict[str, list[int]]:
    """Return the partitions of a target by topic name; topics that do not exist are left out."""
    return {name[topic]: list(numbers) for topic, numbers in _owned(roles) if topic in name}


def _owned(roles: Roles) -> TopicPartitionNumbers:
    return next((pairs for role, pairs in roles if role == OWNER), ())
