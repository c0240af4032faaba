"""The algorithm for equal subscriptions: keep what fits the quota, deal out the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.constrained_racks import give_by_rack
from partage.groups.sticky.decision import Decision, Transfers, by_member
from partage.groups.sticky.racks import Racks
from partage.groups.sticky.refusals import JavaRefusal
from partage.groups.sticky.scan import Owned
from partage.groups.sticky.scene import Scene, Spots
from partage.model.index import Int32Array

__all__ = ["constrained"]

NOBODY = -1


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


@dataclass(frozen=True, eq=False)
class _Kept:
    """What owners keep, member after member (in join order), and from whom the rest is taken."""

    member: Int32Array
    spot: Int32Array
    size: Int32Array
    taken_from: Int32Array


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
    kept = _keep(scene, owned, spots, racks, quota)
    rank = scene.problem.group.member_rank
    quota.under.sort(key=rank.__getitem__)
    quota.exact.sort(key=rank.__getitem__)
    free = nobodys(spots, kept.spot)
    if racks.any_member:
        free = free[np.argsort(racks.weight[free], kind="stable")]
    size = kept.size.astype(np.int64)
    given_spot = given_member = np.zeros(0, np.int32)
    if racks.active:
        given_spot, given_member, free = give_by_rack(free, racks, quota, size, scene)
    dealt = _dealt(len(free), quota, size)
    given = Transfers(np.concatenate([given_spot, free]), np.concatenate([given_member, dealt]))
    return _decided(members, kept, given, owned.disputed, spots)


def _keep(scene: Scene, owned: Owned, spots: Spots, racks: Racks, quota: Quota) -> _Kept:
    """Step 1: the first partitions by number, up to the quota; who still has room is noted."""
    taken_from = np.full(len(spots.topic), NOBODY, np.int32)
    member, spot = owned.member, owned.spot
    if not len(spot):
        for m in scene.owners:
            _room(m, 0, quota)
        return _Kept(member, spot, np.zeros(scene.members, np.int32), taken_from)
    if racks.active:
        away = racks.mismatch(member, spot)
        taken_from[spot[away]] = member[away]
        member, spot = member[~away], spot[~away]
    undisputed = ~owned.disputed[spot]
    if not undisputed.all():
        member, spot = member[undisputed], spot[undisputed]
    member, spot, start = _by_number(scene.members, member, spot, spots)
    sizes = np.diff(start).tolist()
    keep = np.zeros(scene.members, np.int32)
    for m in scene.owners:
        keep[m] = _room(m, sizes[m], quota)
    nth = np.arange(len(spot), dtype=np.int32) - np.repeat(start[:-1], sizes)
    stays = nth < np.repeat(keep, sizes)
    if stays.all():
        return _Kept(member, spot, keep, taken_from)
    taken_from[spot[~stays]] = member[~stays]
    return _Kept(member[stays], spot[stays], keep, taken_from)


def _by_number(
    members: int, member: Int32Array, spot: Int32Array, spots: Spots
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Entries by member, within one by (number, topic); and where each member begins."""
    owner = np.full(len(spots.topic), NOBODY, np.int32)
    owner[spots.by_number[spot]] = member
    place = np.flatnonzero(owner >= 0)
    start, order = by_member(members, owner[place])
    where = np.empty(len(spots.topic), np.int32)
    where[spots.by_number] = np.arange(len(where), dtype=np.int32)
    return owner[place][order], where[place[order]], start


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


def nobodys(spots: Spots, kept: Int32Array) -> Int32Array:
    """Step 2: spots that nobody keeps, by topic and number.

    Kafka walks all partitions, counted from 0, along the sorted kept ones. A kept one that
    the walk does not meet (its number lies outside) stops the comparison: all that follow
    count as nobody's, kept or not (Q26).
    """
    if not len(kept):
        return np.arange(spots.real, dtype=np.int32)
    is_kept = np.zeros(len(spots.topic), bool)
    is_kept[kept] = True
    if not spots.regular:
        walked = np.zeros(len(spots.topic), bool)
        walked[spots.walk] = True
        lost = kept[~walked[kept]]
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


def _decided(
    members: int,
    kept: _Kept,
    given: Transfers,
    disputed: NDArray[np.bool_],
    spots: Spots,
) -> Decision:
    before = kept.taken_from[given.spot]
    moves = ((before != NOBODY) & (before != given.member)) | disputed[given.spot]
    transfers = Transfers(given.spot[moves], given.member[moves])
    start, order = by_member(members, np.concatenate([kept.member, given.member]))
    return Decision(start, np.concatenate([kept.spot, given.spot])[order], spots, transfers)
