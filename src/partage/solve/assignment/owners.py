"""From flows between bundles to an owner for each partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.solve.assignment.bundles import Bundles
from partage.solve.assignment.claims import SortedClaims
from partage.solve.assignment.flow import IntArray

__all__ = ["Kept", "dealt", "owners"]


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Flows by kind of arc.

    Attributes:
        claim: int64, for each arc of the only claimants, how many partitions stay.
        contested: int64, the same for each claimant of the contested classes.
        free: int64, for each pair of bundles, how many partitions change hands.
        within: int64, for each member with a bundle, in join order, how many of the
            partitions that reach its bundle it gets.
    """

    claim: IntArray
    contested: IntArray
    free: IntArray
    within: IntArray


def owners(bundles: Bundles, claims: SortedClaims, kept: Kept) -> NDArray[np.int32]:
    """int32[P]: kept partitions are the first ones of their kind; all others are dealt out."""
    owner = np.full(len(claims.topic), -1, np.int64)
    _stay(owner, claims.arc_of, np.arange(len(kept.claim) + 1), claims.arc_member, kept.claim)
    _stay(owner, claims.class_of, claims.class_start, claims.class_claimant, kept.contested)
    _deal(owner, claims.topic, bundles, kept.free, kept.within)
    return owner.astype(np.int32)


def dealt(bundles: Bundles, share: IntArray, load: IntArray) -> NDArray[np.int32]:
    """int32: owners of all partitions, topic after topic, from nothing owned before.

    Args:
        bundles: topics and members.
        share: int64[A], how many partitions go over each pair of bundles.
        load: int64[M], how many each member gets in the end.
    """
    topic = np.repeat(bundles.topic, bundles.partitions)
    owner = np.full(len(topic), -1, np.int64)
    _deal(owner, topic, bundles, share, load[bundles.member >= 0])
    return owner.astype(np.int32)


def _deal(
    owner: IntArray, topic: IntArray, bundles: Bundles, free: IntArray, within: IntArray
) -> None:
    """Deal partitions without owner to bundles of members, and on to the members."""
    pool = np.flatnonzero((owner < 0) & (topic >= 0))
    pool = pool[np.argsort(topic[pool], kind="stable")]
    target = np.repeat(bundles.arc_member, free)
    pool = pool[np.argsort(target, kind="stable")]
    everyone = np.flatnonzero(bundles.member >= 0)
    order = np.argsort(bundles.member[everyone], kind="stable")
    owner[pool] = np.repeat(everyone[order], within[order])


def _stay(
    owner: IntArray, kind_of: IntArray, start: IntArray, member: IntArray, kept: IntArray
) -> None:
    """Give the first partitions of each kind to its members (CSR), as many as they keep."""
    mine = np.flatnonzero(kind_of >= 0)
    mine = mine[np.argsort(kind_of[mine], kind="stable")]
    kind = kind_of[mine]
    nth = np.arange(len(mine)) - np.searchsorted(kind, kind)
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    stays = nth < (upto[start[1:]] - upto[start[:-1]])[kind]
    owner[mine[stays]] = np.repeat(member, kept)
