"""The judge for a history lived again: the same problems under many policies."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partage.api.measures import Shared
from partage.judge import Measures, check
from partage.model import Assignment, Cluster, Group
from partage.model.index import Int32Array
from partage.simulation.lived import Measured
from partage.simulation.loads import Weights

__all__ = ["Judge"]


#: Plans whose figures are kept; when there are more, all are forgotten.
_MOST_TOLD = 1_024
_NONE: Int32Array = np.zeros(0, np.int32)


class Judge:
    """Measures plans and records; what the solver has to find is shared between policies.

    One for all policies of a group, or of a worker: it keeps proven answers, never opinions.

    >>> from partage.model import Member, Plan
    >>> cluster = Cluster.from_topics({"t": 2})
    >>> group = Group([Member("a", ["t"], owned={"t": [0, 1]}), Member("b", ["t"])])
    >>> found = Judge()(Plan.of(cluster.index, {"a": {"t": [0]}, "b": {"t": [1]}}), group, cluster)
    >>> found.moved, found.avoidable, found.best_spread, found.breaches
    (1, 0, 0, 0)
    """

    def __init__(self) -> None:
        self._shared = Shared()
        self._told: dict[object, tuple[Cluster, Weights, Measured]] = {}
        self._groups: dict[bytes, Group] = {}

    def __call__(
        self, plan: Assignment, group: Group, cluster: Cluster, weights: Weights = None
    ) -> Measured:
        """The figures of a plan, or of a record that may be wrong.

        Args:
            plan: whom to judge.
            group: the members, whose claims say what they owned before.
            cluster: the cluster at that time.
            weights: float64[P], records a second of each partition.
        """
        # Policies that differ in little come to the same plan from the same past again and again.
        members = _members_digest(group)
        key = (id(cluster), id(weights), members, _digest(plan))
        known = self._told.get(key)
        if known is None or plan.unresolved:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            # Cluster and weights are held on to, so that their ids mean them.
            known = self._told[key] = (
                cluster,
                weights,
                self._measured(plan, self._alike(members, group), cluster, weights),
            )
        return known[2]

    def _alike(self, digest: bytes, group: Group) -> Group:
        """The first one of groups in which figures see no difference: what they need of it is
        looked up once.
        """
        if len(self._groups) >= _MOST_TOLD:
            self._groups.clear()
        return self._groups.setdefault(digest, group)

    def _measured(
        self, plan: Assignment, group: Group, cluster: Cluster, weights: Weights
    ) -> Measured:
        found = self._shared.measure(plan, group, cluster, partition_weight=weights)
        return Measured(
            spread=found.spread,
            idle=found.idle,
            moved=found.moved,
            # Where nothing moved nothing was moved in vain, whatever else is wrong with a plan.
            avoidable=found.avoidable if found.moved else 0,
            best_spread=found.best_spread,
            rack_mismatches=found.rack_mismatches,
            colocation=found.colocation,
            breaches=_breaches(plan, group, cluster, found),
            load_spread=found.load_spread,
        )


def _members_digest(group: Group) -> bytes:
    """All that figures depend on, of the members, in few bytes."""
    words = [(m.id, m.rack, m.generation, m.owned.topics) for m in group]
    arrays = [group.subscription_of]
    for member in group:
        arrays += [member.owned.topic_ix, member.owned.partition]
    return _bytes((words, group.subscriptions), arrays)


def _digest(plan: Assignment) -> bytes:
    """The same of a plan."""
    withheld = getattr(plan, "withheld", _NONE)
    return _bytes(plan.members, [plan.start, plan.partition, plan.role, withheld])


def _bytes(words: object, arrays: Iterable[NDArray[Any]]) -> bytes:
    digest = blake2b(repr(words).encode(), digest_size=16)
    for array in arrays:
        digest.update(len(array).to_bytes(8, "little"))
        digest.update(array.tobytes())
    return digest.digest()


def _breaches(plan: Assignment, group: Group, cluster: Cluster, found: Measures) -> int:
    """How many; a plan is gone through rule by rule only where it can have broken one."""
    sound = (
        found.avoidable is not None  # every open partition has one owner, who subscribes
        and plan.members == group.ids
        and not plan.unresolved
        and len(plan.partition) == found.partitions
    )
    return 0 if sound else len(check(plan, group, cluster))
