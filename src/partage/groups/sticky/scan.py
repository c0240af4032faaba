"""Walking the subscriptions: are they equal, and who really owns what is claimed?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.claims import Claimed
from partage.groups.sticky.disputes import dispute
from partage.groups.sticky.scene import Scene
from partage.model.index import Int32Array

__all__ = ["Owned", "equal_subscriptions", "settled"]


@dataclass(frozen=True, eq=False)
class Owned:
    """Claims after the disputes: nothing has two owners.

    Attributes:
        member: int32[n], members in visiting order, each one's list as sent.
        spot: int32[n].
        disputed: bool[S], claimed by two members of one generation; such a mark stays, even
            where a member of a newer generation came and took the spot.
    """

    member: Int32Array
    spot: Int32Array
    disputed: NDArray[np.bool_]


def equal_subscriptions(scene: Scene) -> bool:
    """Whether Kafka takes all subscriptions for equal.

    A subscription with a repeated name is not equal to another of its kind, and members
    that subscribe to nothing count only after the first that subscribes to something (Q1).
    """
    group = scene.problem.group
    subscription_of = group.subscription_of.tolist()
    order = [subscription_of[m] for m in scene.visit]
    first = next((i for i, s in enumerate(order) if group.subscriptions[s]), None)
    if first is None:
        return True
    common = set(group.subscriptions[order[first]])
    return all(
        len(group.subscriptions[s]) == len(common) and common.issuperset(group.subscriptions[s])
        for s in set(order[first + 1 :])
    )


def settled(scene: Scene, claimed: Claimed) -> Owned:
    """Who owns what: the newer generation wins, equal ones lose it both.

    The generation of the earlier claimant is read from its subscription's field, the one of
    the later claimant from its claim. For sticky these differ when the field is not set (Q5).
    """
    spots = len(claimed.spots.topic)
    disputed = np.zeros(spots, bool)
    times = np.bincount(claimed.spot, minlength=spots)
    if not (times > 1).any():
        return Owned(claimed.member, claimed.spot, disputed)
    contested = np.flatnonzero(times[claimed.spot] > 1)
    sent = np.array([m.generation for m in scene.problem.group], np.int64)
    holds = np.zeros(len(contested), bool)
    dispute(
        claimed.member[contested],
        claimed.spot[contested],
        claimed.generation,
        sent,
        np.full(spots, -1, np.int32),
        np.full(spots, -1, np.int64),
        holds,
        disputed,
        work=len(contested),
    )
    kept = np.ones(len(claimed.spot), bool)
    kept[contested] = holds
    return Owned(claimed.member[kept], claimed.spot[kept], disputed)
