"""Whether a target assignment is what Kafka's assignor makes of what the coordinator knew."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partage.groups.server.group_assignment import GroupAssignment
from partage.groups.server.json_format import assignment_to_json
from partage.groups.server.range import ServerRange
from partage.groups.server.simple import ServerSimple
from partage.groups.server.spec import GroupSpec
from partage.groups.server.targets import Targets
from partage.groups.server.topic_ids import TopicIds
from partage.groups.server.uniform import ServerUniform
from partage.history.classic import Generation
from partage.history.held import OWNER
from partage.history.problems import group_as_sent
from partage.history.server_records import ById
from partage.history.targets import Roles
from partage.model import Cluster, Group, Index, Problem

__all__ = ["ASSIGNORS", "ByIds", "decided", "recorded_ids"]

#: member -> topic id -> partition numbers; to the coordinator they are sets.
ByIds = dict[str, dict[str, frozenset[int]]]

ASSIGNORS: Mapping[str, ServerUniform | ServerRange | ServerSimple] = {
    one.name: one for one in (ServerUniform(), ServerRange(), ServerSimple())
}


def recorded_ids(found: Generation) -> ByIds:
    """A recorded target assignment by topic ids, without topics of which nothing is left."""
    target = found.target.target if found.target is not None else {}
    return {member: _sets(_owned(roles)) for member, roles in target.items()}


def decided(
    found: Generation,
    cluster: Cluster,
    *,
    before: Mapping[str, Roles] | None = None,
    order: tuple[int, ...] | None = None,
) -> ByIds | None:
    """What the group's assignor decides on a cluster; None where it is not one of Kafka's.

    Args:
        found: an epoch of a consumer or share group.
        cluster: as the coordinator saw it.
        before: previous targets, by member; None for those of the record.
        order: positions of the members in another order, which matters inside a bucket of
            Java's maps; None for the order in which they joined.

    Raises:
        PartageError: the assignor refuses.
    """
    assignor = ASSIGNORS.get(found.first.strategy or "")
    if assignor is None or found.target is None:
        return None
    members = group_as_sent(found.first).members
    group = Group([members[i] for i in order]) if order is not None else Group(members)
    known = found.target.before if before is None else before
    index = cluster.index
    allowed = found.target.assignable
    spec = GroupSpec(
        Problem(group, cluster),
        previous=_targets(index, [_owned(known.get(m, ())) for m in group.ids]),
        assignable=None if allowed is None else _mask(index, allowed),
        several_owners=found.protocol == "share",
    )
    return _by_ids(assignor.decide(spec), spec)


def _by_ids(assignment: GroupAssignment, spec: GroupSpec) -> ByIds:
    rows = assignment_to_json(assignment, spec)["assignment"]
    return {m: _sets(rows.get(m, ())) for m in spec.problem.group.ids}


def _sets(rows: ById) -> dict[str, frozenset[int]]:
    return {topic: frozenset(numbers) for topic, numbers in rows if len(numbers)}


def _owned(roles: Roles) -> ById:
    return next((by_id for role, by_id in roles if role == OWNER), ())


def _targets(index: Index, targets: list[ById]) -> Targets:
    """Previous targets over an index; of topics that it does not have nothing is kept."""
    number = {i: n for n, i in enumerate(index.ids) if i is not None}
    flat = [pair for target in targets for pair in target]
    set_start = np.zeros(len(targets) + 1, np.int32)
    np.cumsum([len(target) for target in targets], out=set_start[1:])
    topic = np.array([number.get(i, -1) for i, _ in flat], np.int32)
    dense = [
        index.locate_all(np.full(len(numbers), t, np.int32), np.array(numbers, np.int32))
        for t, (_, numbers) in zip(topic.tolist(), flat, strict=True)
    ]
    dense = [one[one >= 0] for one in dense]
    start = np.zeros(len(flat) + 1, np.int32)
    np.cumsum([len(one) for one in dense], out=start[1:])
    partition = np.concatenate([*dense, np.zeros(0, np.int32)]).astype(np.int32)
    ids = [i for i, _ in flat]
    return Targets(set_start, topic, TopicIds.of(ids, ids).hashes, start, partition)


def _mask(index: Index, allowed: ById) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    out = np.zeros(index.partitions, bool)
    number = {i: n for n, i in enumerate(index.ids) if i is not None}
    for topic_id, numbers in allowed:
        topic = np.full(len(numbers), number.get(topic_id, -1), np.int32)
        dense = index.locate_all(topic, np.array(numbers, np.int32))
        out[dense[dense >= 0]] = True
    return out
