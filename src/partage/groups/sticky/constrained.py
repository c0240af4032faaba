"""The algorithm for equal subscriptions: keep what fits the quota, deal out the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.constrained_racks import give_by_rack
from partage.groups.sticky.decision import Decision, Transfers
from partage.groups.sticky.racks import Racks
from partage.groups.sticky.refusals import JavaRefusal
from partage.groups.sticky.rows import Rows
from partage.groups.sticky.scan import NOBODY, Owned
from partage.groups.sticky.scene import Scene, Spots
from partage.model.index import Int32Array

__all__ = ["constrained"]


@dataclass(slots=True)
class Quota:
    """How much everybody shall have, and who still has room.

    Attributes:
        low, high: floor and ceiling of partitions a member.
        extra: how many members may have ``high`` (0 where low = high).
        over: how many have.
        under: members below ``low``; exact: members at ``low`` that may get one more.
    """

    low: int
    high: int
    extra: int
    over: int
    under: list[int]
    exact: list[int]


def constrained(scene: Scene, owned: Owned, spots: Spots, racks: Racks) -> Decision:
    """Kafka's ``ConstrainedAssignmentBuilder``.

    Raises:
        JavaRefusal: no members, or members keep claims of partitions that do not exist.
    """
    members = scene.members
    if not members:
        what = "the group has no members (Kafka's class divides by their number)"
        raise JavaRefusal(what, "ArithmeticException")
    low, extra = divmod(scene.partitions, members)
    quota = Quota(low, low + (extra > 0), extra, 0, [], [])
    owner, taken_from = _without_lost(owned, racks)
    keep = _keep(scene, owner, quota)
    rank = scene.problem.group.member_rank
    quota.under.sort(key=rank.__getitem__)
    quota.exact.sort(key=rank.__getitem__)
    rows = Rows(members)
    rows.keep(spots, owner, keep, taken_from)
    free = nobodys(spots, owner, anything=bool(keep.any()))
    if racks.any_member:
        free = free[np.argsort(racks.weight[free], kind="stable")]
    size = keep.astype(np.int64)
    if racks.active:
        spot, member, free = give_by_rack(free, racks, quota, size, scene)
        dealt = _dealt(len(free), quota, size)
        given = Transfers(np.concatenate([spot, free]), np.concatenate([member, dealt]))
    else:
        given = Transfers(free, _dealt(len(free), quota, size))
    transfers = _changing(given, taken_from, owned.disputed)
    start, spot = rows.finish(keep, given)
    return Decision(start, spot, spots, transfers)


def _without_lost(owned: Owned, racks: Racks) -> tuple[Int32Array, Int32Array]:
    """Owners without what racks or disputes take from them, and whom racks took it from."""
    owner = owned.owner
    taken_from = np.full(len(owner), NOBODY, np.int32)
    if racks.active:
        spot = np.flatnonzero(owner >= 0).astype(np.int32)
        away = spot[racks.mismatch(owner[spot], spot)]
        taken_from[away] = owner[away]
        owner[away] = NOBODY
    if owned.disputed is not None:
        owner[owned.disputed] = NOBODY
    return owner, taken_from


def _keep(scene: Scene, owner: Int32Array, quota: Quota) -> Int32Array:
    """Step 1: how many each owner keeps (int32[M]); who still has room is noted."""
    sizes = [0] * scene.members
    if owner.max(initial=NOBODY) != NOBODY:
        sizes = np.bincount(owner + 1, minlength=scene.members + 1)[1:].tolist()
    keep = [0] * scene.members
    for m in scene.owners:
        keep[m] = _room(m, sizes[m], quota)
    return np.array(keep, np.int32)


def _room(member: int, size: int, quota: Quota) -> int:
    """How many of its partitions a member keeps; where it goes if it may get more."""
    if size < quota.low:
        quota.under.append(member)
        return size
    if size >= quota.high and quota.over < quota.extra:
        quota.over += 1
        if quota.over == quota.extra:
            quota.exact.clear()
        return quota.high
    if quota.over < quota.extra:
        quota.exact.append(member)
    return quota.low


def nobodys(spots: Spots, owner: Int32Array, *, anything: bool) -> Int32Array:
    """Step 2: spots that nobody keeps, by topic and number.

    Kafka walks all partitions, counted from 0, along the sorted kept ones. A kept one that
    the walk does not meet (its number lies outside) stops the comparison: all that follow
    count as nobody's, kept or not (Q26). Where nothing is kept it takes what there is.
    """
    if not anything:
        return np.arange(spots.real, dtype=np.int32)
    if spots.regular:
        return np.flatnonzero(owner < 0).astype(np.int32)
    is_kept = owner >= 0
    walked = np.zeros(spots.count, bool)
    walked[spots.walk] = True
    lost = np.flatnonzero(is_kept & ~walked)
    if len(lost):
        is_kept &= spots.keys < spots.keys[lost].min()
    free: Int32Array = spots.walk[~is_kept[spots.walk]]
    return free


def _dealt(count: int, quota: Quota, size: NDArray[np.int64]) -> Int32Array:
    """Step 6: the member that gets each of ``count`` partitions in a row.

    Round after round to those below the low quota, each leaving when it has reached it; then
    one each to those that may have one more, who waited longest first.
    """
    under = np.array(quota.under, np.int32)
    lack = quota.low - size[under]
    rounds = _rounds(under, lack)
    waiting = np.concatenate(
        [np.array(quota.exact, np.int32), under[np.argsort(lack, kind="stable")]]
    )
    rest = count - len(rounds)
    # What is kept never exceeds what exists, so those below the quota are always filled up.
    if rest > len(waiting):
        what = (
            "no member is left to take a partition, since members claim partitions that do not"
            " exist (Kafka's class: no more unfilled consumers to be assigned)"
        )
        raise JavaRefusal(what, "IllegalStateException")
    return np.concatenate([rounds, waiting[:rest]])


def _rounds(members: Int32Array, lack: NDArray[np.int64]) -> Int32Array:
    if not len(members):
        return members
    if (lack == lack[0]).all():
        return np.tile(members, int(lack[0]))
    ends = np.cumsum(lack)
    in_round = np.arange(ends[-1]) - np.repeat(ends - lack, lack)
    highest = int(lack.max())
    key = in_round.astype(np.int16) if highest < 2**15 else in_round
    return np.repeat(members, lack)[np.argsort(key, kind="stable")]


def _changing(
    given: Transfers, taken_from: Int32Array, disputed: NDArray[np.bool_] | None
) -> Transfers:
    """Those that somebody else had, or that several claimed."""
    if disputed is None and taken_from.max(initial=NOBODY) == NOBODY:
        nothing = np.zeros(0, np.int32)
        return Transfers(nothing, nothing)
    before = taken_from[given.spot]
    moves = (before != NOBODY) & (before != given.member)
    if disputed is not None:
        moves |= disputed[given.spot]
    return Transfers(given.spot[moves], given.member[moves])
