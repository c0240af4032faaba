"""The algorithm for equal subscriptions: keep what fits the quota, deal out the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.claims import NOBODY, Owned
from partage.groups.sticky.decision import Decision, JavaRefusal, Transfers, by_member
from partage.groups.sticky.kernels import give, give_rows, keep_rows
from partage.groups.sticky.problem import Scene, Spots
from partage.groups.sticky.racks import Racks
from partage.model.index import Int32Array

__all__ = ["Rows", "constrained", "give_by_rack"]


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


def give_by_rack(
    free: Int32Array, racks: Racks, quota: Quota, size: NDArray[np.int64], scene: Scene
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Step 5: each free spot to a member on one of its racks that has room, if there is one.

    ``quota`` and ``size`` are brought forward; answers spots given, to whom, and those left.
    """
    under = np.array(quota.under, np.int32)
    waiting = np.array(quota.exact, np.int32)
    width = max(len(scene.problem.cluster.rack_names), 1)
    under_start, under_place = _by_rack(racks.of_member[under], width)
    # Room for all that may ever wait on a rack: members that wait now, then those from under.
    both = np.concatenate([racks.of_member[waiting], racks.of_member[under]])
    queue_start = np.zeros(width + 1, np.int32)
    np.cumsum(np.bincount(both[both >= 0], minlength=width), out=queue_start[1:])
    queue = np.full(max(int(queue_start[-1]), 1), -1, np.int32)
    head, tail = queue_start[:-1].copy(), queue_start[:-1].copy()
    sequence = np.full(scene.members, -1, np.int32)
    for nth, m in enumerate(waiting.tolist()):
        sequence[m] = nth
        rack = int(racks.of_member[m])
        if rack >= 0:
            queue[tail[rack]] = m
            tail[rack] += 1
    out = np.full(len(free), -1, np.int32)
    gone = np.zeros(len(under), bool)
    over = give(
        free, racks.start, racks.rack, racks.of_member, under, under_start, under_place,
        np.arange(len(under_place) + width, dtype=np.int32), queue, head, tail, sequence,
        size, gone, out,
        np.array([quota.low, quota.high, quota.extra, quota.over, len(waiting)], np.int64),
        work=10 * len(free),
    )  # fmt: skip
    given = out >= 0
    quota.over = int(over)
    quota.under = under[~gone].tolist()
    still = np.flatnonzero(sequence >= 0)
    quota.exact = still[np.argsort(sequence[still])].tolist()
    return free[given], out[given], free[~given]


def _by_rack(rack: Int32Array, width: int) -> tuple[Int32Array, Int32Array]:
    """CSR by rack of positions, ascending; who sits on no known rack is left out."""
    order = np.argsort(rack, kind="stable")
    start = np.searchsorted(rack[order], np.arange(width + 1)).astype(np.int32)
    return start - start[0], order[start[0] :].astype(np.int32)


class Rows:
    """Lists in the making. The kernels beside it are twice as fast as NumPy's sorts, once loaded.

    Args:
        members: how many lists.
    """

    def __init__(self, members: int) -> None:
        self._members = members
        self._kept = np.zeros(0, np.int32)

    def keep(
        self, spots: Spots, owner: Int32Array, keep: Int32Array, taken_from: Int32Array
    ) -> None:
        """The first ``keep`` spots of each owner by (number, topic); it loses the others.

        ``owner`` and ``taken_from`` (int32[S]) are brought up to date.
        """
        total = int(keep.sum())
        self._kept = np.zeros(total, np.int32)
        if not total and not (owner >= 0).any():
            return
        at = np.cumsum(keep, dtype=np.int32) - keep
        if keep_rows.ready:
            keep_rows(
                spots.by_number, owner, at, at + keep, self._kept, taken_from, work=spots.count
            )
            return
        member = owner[spots.by_number]
        place = np.flatnonzero(member >= 0)
        start, order = by_member(self._members, member[place])
        member, spot = member[place][order], spots.by_number[place[order]]
        nth = np.arange(len(spot), dtype=np.int32) - start[member]
        stays = nth < keep[member]
        self._kept = spot[stays]
        gone = spot[~stays]
        taken_from[gone] = member[~stays]
        owner[gone] = NOBODY

    def finish(self, keep: Int32Array, given: Transfers) -> tuple[Int32Array, Int32Array]:
        """All lists (CSR by member), what was given last in the order given."""
        spot, member = given.spot, given.member
        sizes = keep + np.bincount(member, minlength=self._members).astype(np.int32)
        start = np.zeros(self._members + 1, np.int32)
        np.cumsum(sizes, out=start[1:])
        if not len(spot):
            return start, self._kept
        if not len(self._kept) and not give_rows.ready:
            return start, spot[by_member(self._members, member)[1]]
        out = np.empty(int(start[-1]), np.int32)
        at = start[:-1].copy()
        if len(self._kept):
            shift = np.repeat(at - (np.cumsum(keep) - keep), keep)
            out[np.arange(len(self._kept)) + shift] = self._kept
            at += keep
        if give_rows.ready:
            give_rows(spot, member, at, out, work=len(spot))
            return start, out
        order = by_member(self._members, member)[1]
        first = np.repeat(at - (np.cumsum(sizes - keep) - (sizes - keep)), sizes - keep)
        out[np.arange(len(order)) + first] = spot[order]
        return start, out
