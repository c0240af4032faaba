"""Walking the subscriptions: are they equal, and who really owns what is claimed?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.claims import Claimed
from partage.groups.sticky.disputes import dispute
from partage.groups.sticky.scene import Scene
from partage.model.index import Int32Array

__all__ = ["NOBODY", "Owned", "equal_subscriptions", "settled"]

NOBODY = -1


@dataclass(frozen=True, eq=False)
class Owned:
    """Claims after the disputes: nothing has two owners.

    Attributes:
        owner: int32[S], who owns each spot, -1 for nobody.
        held: bool[n], which of the claims hold; None for all.
        disputed: bool[S], claimed by two members of one generation; such a mark stays, even
            where a member of a newer generation came and took the spot. None for none.
    """

    owner: Int32Array
    held: NDArray[np.bool_] | None = None
    disputed: NDArray[np.bool_] | None = None


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
    owner = np.full(claimed.spots.count, NOBODY, np.int32)
    owner[claimed.spot] = claimed.member
    if np.count_nonzero(owner >= 0) == len(claimed.spot):
        return Owned(owner)
    owner.fill(NOBODY)
    disputed = np.zeros(len(owner), bool)
    held = np.zeros(len(claimed.spot), bool)
    entry = np.full(len(owner), -1, np.int64)
    sent = np.array([m.generation for m in scene.problem.group], np.int64)
    dispute(
        claimed.member, claimed.spot, claimed.generation, sent, owner, entry, held, disputed,
        work=len(held),
    )  # fmt: skip
    # Whom a disputed spot was left with decides about later claims only.
    owner[entry < 0] = NOBODY
    return Owned(owner, held, disputed)
