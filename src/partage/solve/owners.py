"""From flows between bundles to an owner for each partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.solve.bundles import Bundles
from partage.solve.claims import SortedClaims
from partage.solve.flow import IntArray

__all__ = ["Kept", "owners"]


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
    pool = np.flatnonzero((owner < 0) & (claims.topic >= 0))
    pool = pool[np.argsort(claims.topic[pool], kind="stable")]
    target = np.repeat(bundles.arc_member, kept.free)
    pool = pool[np.argsort(target, kind="stable")]
    everyone = np.flatnonzero(bundles.member >= 0)
    order = np.argsort(bundles.member[everyone], kind="stable")
    owner[pool] = np.repeat(everyone[order], kept.within[order])
    return owner.astype(np.int32)


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
