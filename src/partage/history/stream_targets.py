"""What the coordinator's assignor of streams groups decides (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from partage.history.classic import Generation
from partage.history.held import ACTIVE, STANDBY, WARMUP
from partage.history.targets import Roles
from partage.history.tasks import source_counts
from partage.model import Cluster
from partage.streams.kip1071_sticky import ServerMember, ServerSticky, ServerSubtopology

__all__ = ["ByRole", "decided_tasks", "recorded_tasks"]

#: member -> role -> tasks (subtopology, partition); to the coordinator they are sets.
ByRole = dict[str, dict[str, frozenset[tuple[str, int]]]]


def recorded_tasks(found: Generation) -> ByRole:
    """A recorded target assignment of a streams group."""
    target = found.target.target if found.target is not None else {}
    return {
        member: {role: _tasks(roles, role) for role in (ACTIVE, STANDBY, WARMUP)}
        for member, roles in target.items()
    }


def decided_tasks(
    found: Generation, cluster: Cluster, order: tuple[int, ...] | None = None
) -> ByRole | None:
    """What Kafka's assignor decides on a cluster; None where the log lacks topology or processes.

    Args:
        found: an epoch of a streams group.
        cluster: as the coordinator saw it.
        order: positions of the members in another order than that of their joining.

    Raises:
        PartageError: the assignor refuses.
    """
    told = found.target.streams if found.target is not None else None
    if found.target is None or told is None or told.topology is None:
        return None
    if not told.processes.keys() >= found.target.target.keys():
        return None
    ids = list(found.target.target)
    known = found.target.before
    members = [
        ServerMember(
            ids[i],
            told.processes[ids[i]],
            _by_subtopology(known.get(ids[i], ()), ACTIVE),
            _by_subtopology(known.get(ids[i], ()), STANDBY),
        )
        for i in (range(len(ids)) if order is None else order)
    ]
    plan = ServerSticky().assign(_subtopologies(told.topology, cluster), members, told.settings)
    return {
        m: {
            ACTIVE: frozenset(plan.active.get(m, ())),
            STANDBY: frozenset(plan.standby.get(m, ())),
            WARMUP: frozenset(),
        }
        for m in ids
    }


def _subtopologies(topology: Mapping[str, Any], cluster: Cluster) -> list[ServerSubtopology]:
    return [
        ServerSubtopology(
            row["subtopologyId"],
            max(source_counts(row, cluster), default=0),
            bool(row.get("stateChangelogTopics")),
        )
        for row in topology["subtopologies"]
    ]


def _by_subtopology(roles: Roles, wanted: str) -> dict[str, tuple[int, ...]]:
    return {s: numbers for role, tasks in roles if role == wanted for s, numbers in tasks}


def _tasks(roles: Roles, wanted: str) -> frozenset[tuple[str, int]]:
    rows: Iterable[tuple[str, tuple[int, ...]]] = _by_subtopology(roles, wanted).items()
    return frozenset((s, p) for s, numbers in rows for p in numbers)
