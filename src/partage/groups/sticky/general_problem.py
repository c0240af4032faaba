"""What the general algorithm starts from, once claims are settled and cleaned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.claims import Claimed, Owned
from partage.groups.sticky.decision import JavaRefusal
from partage.groups.sticky.problem import Audience, Scene, Spots
from partage.groups.sticky.quirks.unassigned import still_free
from partage.groups.sticky.racks import Racks
from partage.model import NO_GENERATION
from partage.model.index import Int32Array

__all__ = ["Table", "fixed_members", "laid", "null_pointer"]


@dataclass(frozen=True, eq=False)
class Table:
    """What the general algorithm starts from.

    Attributes:
        member, spot: what owners keep, members in visiting order, lists as sent.
        every: int32[T], all partitions by (subscriber entries, topic name, number).
        free: int32, those that nobody keeps, in the same order.
        revoked: whether somebody lost a partition to its subscription or to racks.
        previous: int32[S], who claimed each spot in an older generation, -1 for nobody.
    """

    scene: Scene
    audience: Audience
    racks: Racks
    claimed: Claimed
    member: Int32Array
    spot: Int32Array
    every: Int32Array
    free: Int32Array
    revoked: bool
    previous: Int32Array

    def names(self, spots: Int32Array | NDArray[np.intp]) -> tuple[str, ...]:
        """Return the names of some partitions, each as topic-number."""
        its, topics = self.claimed.spots, self.scene.problem.index.topics
        return tuple(
            f"{topics[self.scene.topics[its.topic[one]]]}-{its.number[one]}"
            for one in spots.tolist()
        )


def laid(scene: Scene, claimed: Claimed, owned: Owned, racks: Racks, max_generation: int) -> Table:
    """Clean what is owned, and find what nobody keeps."""
    audience, spots = Audience(scene), claimed.spots
    member, spot = claimed.member, claimed.spot
    if owned.held is not None:
        member, spot = member[owned.held], spot[owned.held]
    stays = audience.subscribed(member, spots.topic[spot]) & ~racks.mismatch(member, spot)
    revoked = not stays.all()
    if revoked:
        member, spot = member[stays], spot[stays]
    sizes = scene.counts[audience.order]
    first = scene.start[:-1][audience.order]
    ends = np.cumsum(sizes)
    shift = np.repeat(first - (ends - sizes), sizes)
    every = (np.arange(scene.partitions) + shift).astype(np.int32)
    return Table(
        scene, audience, racks, claimed, member, spot, every,
        _nobodys(scene, every, (member, spot), spots, audience),
        revoked,
        _previous(claimed, max_generation),
    )  # fmt: skip


def _nobodys(
    scene: Scene,
    every: Int32Array,
    claims: tuple[Int32Array, Int32Array],
    spots: Spots,
    audience: Audience,
) -> Int32Array:
    """As `constrained.nobodys`, in the order of ``every``; ``claims`` are members and spots."""
    kept = claims[1]
    if not len(kept):
        return every
    if spots.regular:
        is_kept = np.zeros(spots.count, bool)
        is_kept[kept] = True
        free: Int32Array = every[~is_kept[every]]
        return free
    rank = np.empty(len(audience.order), np.int64)
    rank[audience.order] = np.arange(len(audience.order))
    # (rank of the topic, number): the order in which walk and kept ones are compared.
    place = (rank[spots.topic] << 32) | (spots.keys & 0xFFFFFFFF)
    walk = spots.walk[np.argsort(place[spots.walk])]
    return still_free(scene, walk, claims, place)


def _previous(claimed: Claimed, max_generation: int) -> Int32Array:
    """The newest of the older claims on each spot, the first of equal ones."""
    out = np.full(claimed.spots.count, -1, np.int32)
    undated = ~claimed.dated & (max_generation > NO_GENERATION)
    old = (claimed.dated & (claimed.generation < max_generation)) | undated
    mine = old[claimed.member]
    member, spot = claimed.member[mine], claimed.spot[mine]
    if len(member):
        generation = claimed.generation[member]
        order = np.lexsort((-np.arange(len(member)), generation, spot))
        out[spot[order]] = member[order]  # the last write, the newest and first claim, stays
    return out


def fixed_members(
    table: Table, size: NDArray[np.int64], owner: Int32Array, spot: Int32Array
) -> NDArray[np.bool_]:
    """bool[M]: members that can neither give nor take."""
    shared = table.audience.shared[table.claimed.spots.topic[spot]]
    may_give = np.zeros(table.scene.members, bool)
    may_give[owner[shared]] = True
    return (size >= table.audience.most) & ~may_give


def null_pointer(table: Table, spot: int) -> JavaRefusal:
    """Return the error of Q2, in words."""
    (name,) = table.names(np.array([spot]))
    what = (
        f"a member claims {name} of an older generation, and may not own it any more"
        " (Kafka's class follows a null pointer here)"
    )
    return JavaRefusal(what, "NullPointerException")
