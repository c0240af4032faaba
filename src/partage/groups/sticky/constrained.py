"""Kafka's ``ConstrainedAssignmentBuilder``: the sticky algorithm for equal subscriptions.

Members keep claimed slots (partitions that they owned) up to their quota (step 1). Unassigned slots
(step 2) go to members on one of their racks (step 5), then in turn to members below their quota
(step 6). Step numbers are those of the specification.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.layout import group_by_member, sort_by_member
from partage.groups.sticky.claims import NO_OWNER, ResolvedClaims
from partage.groups.sticky.decision import (
    Decision,
    StickyAssignorError,
    Transfers,
)
from partage.groups.sticky.kernels import (
    SlotArrays,
    UnderQuota,
    WaitingMembers,
    append_to_lists,
    assign_on_racks,
    keep_up_to_quota,
)
from partage.groups.sticky.problem import PartitionSlots, Racks, StickyProblem
from partage.model.index import Int32Array

__all__ = ["MemberLists", "assign_by_rack", "assign_constrained", "assign_in_turn"]


_NO_MEMBERS = np.zeros(0, np.int32)
_NO_TRANSFERS = Transfers(_NO_MEMBERS, _NO_MEMBERS)


@dataclass(slots=True)
class Quota:
    """Number of partitions that each member may get, if all members have the same subscription.

    For 8 partitions and 3 members, two members get 3 partitions and one gets 2. The object also
    records which members are still below these numbers.

    Attributes:
        low: partitions // members, which each member gets at least (2 in the example).
        high: the number of partitions that some members get: low + 1, or low without remainder.
        extra: number of members that may have ``high`` partitions (0 if low = high).
        over: number of members that have ``high`` partitions so far.
        under: int32, members with fewer than ``low`` partitions, by id.
        exact: int32, members with ``low`` partitions that may get one more, by id.
    """

    low: int
    high: int
    extra: int
    over: int
    under: Int32Array
    exact: Int32Array


def assign_constrained(
    sticky: StickyProblem, owned: ResolvedClaims, slots: PartitionSlots, racks: Racks
) -> Decision:
    """Assign all partitions by Kafka's sticky algorithm for groups with equal subscriptions.

    Members keep owned partitions up to their quota. The others go to members on a replica's rack,
    then round robin to members below their quota. Kafka's class is
    ``ConstrainedAssignmentBuilder``.

    Args:
        sticky: members, topics and partitions of the rebalance.
        owned: the owner of each partition after conflicting claims are resolved.
        slots: the partitions and their index numbers.
        racks: racks of members and replicas.

    Raises:
        StickyAssignorError: the group has no members, or members keep partitions that do not exist.
    """
    members = sticky.members
    if not members:
        what = "the group has no members (Kafka's class divides by their number)"
        raise StickyAssignorError(what, "ArithmeticException")
    if not owned.any_claim and not racks.any_member:
        return assign_in_turn(sticky, slots)
    low, extra = divmod(sticky.partitions, members)
    quota = Quota(low, low + (extra > 0), extra, 0, _NO_MEMBERS, _NO_MEMBERS)
    owner, previous_owner = _drop_invalid_owners(owned, racks)
    keep = _keep_claims(sticky, owner, quota, any_claim=owned.any_claim)
    rows = MemberLists(members)
    if owned.any_claim:
        rows.keep_owned_partitions(slots, owner, keep, previous_owner)
    free = unassigned_slots(slots, owner, keeps_any=owned.any_claim and bool(keep.any()))
    if racks.any_member:
        free = free[np.argsort(racks.consumers_on_replica_racks[free], kind="stable")]
    size = keep.astype(np.int64)
    if racks.active:
        slot, member, free = assign_by_rack(free, racks, quota, size, sticky)
        rest = _assign_remaining_partitions(len(free), quota, size)
        given = Transfers(np.concatenate([slot, free]), np.concatenate([member, rest]))
    else:
        given = Transfers(free, _assign_remaining_partitions(len(free), quota, size))
    transfers = _NO_TRANSFERS
    if owned.any_claim:
        transfers = _find_transfers(given, previous_owner, owned.disputed)
    start, slot = rows.build_lists(keep, given)
    return Decision(start, slot, slots, transfers)


def assign_in_turn(sticky: StickyProblem, slots: PartitionSlots) -> Decision:
    """Assign partitions round robin, as Kafka's sticky assignors do for a new group.

    In such a group no member owns a partition, and none has a rack. Members take turns in the order
    of their ids.

    Args:
        sticky: members, topics and partitions of the rebalance.
        slots: the partitions and their index numbers.
    """
    # Steps 1 to 6 give this result in several passes. The member of rank r gets the partitions
    # r, r + M, r + 2 M, ... of M members.
    members, partitions = sticky.members, slots.real
    rank = sticky.problem.group.member_rank
    low, extra = divmod(partitions, members)
    turns = np.arange(0, partitions, members, dtype=np.int32)
    slot = rank[:, None] + turns
    start = np.arange(members + 1, dtype=np.int32)
    start *= low
    if not extra:
        return Decision(start, slot.reshape(-1), slots, _NO_TRANSFERS)
    start[1:] += (rank < extra).cumsum(dtype=np.int32)
    return Decision(start, slot[slot < partitions], slots, _NO_TRANSFERS)


def _drop_invalid_owners(owned: ResolvedClaims, racks: Racks) -> tuple[Int32Array, Int32Array]:
    """Remove owners that must not keep their partition, before the sticky algorithm assigns it.

    Such an owner is on a rack without a replica (KIP-881), or another member reports the same
    partition with the same generation. The result is the remaining owner of each partition, and the
    owner that was removed because of its rack (int32[S] each, -1 for none).
    """
    owner = owned.owner
    if not owned.any_claim:
        return owner, owner
    previous_owner = np.full(len(owner), NO_OWNER, np.int32)
    if racks.active:
        slot = np.flatnonzero(owner >= 0).astype(np.int32)
        away = slot[racks.is_on_other_rack(owner[slot], slot)]
        previous_owner[away] = owner[away]
        owner[away] = NO_OWNER
    if owned.disputed is not None:
        owner[owned.disputed] = NO_OWNER
    return owner, previous_owner


def _keep_claims(
    sticky: StickyProblem, owner: Int32Array, quota: Quota, *, any_claim: bool
) -> Int32Array:
    """Return how many of its owned partitions each member may keep, at most its quota (int32[M]).

    The quota is an even share of all partitions. The lists of members below their quota are set in
    ``quota``. This is step 1 of Kafka's algorithm for equal subscriptions.
    """
    group, members = sticky.problem.group, sticky.members
    size = np.zeros(members, np.int32)
    if any_claim:
        size[:] = np.bincount(owner + 1, minlength=members + 1)[1:]
    # The first members in Kafka's order that own enough keep the higher number, the others with
    # enough keep the lower one. Members below the lower number keep everything.
    order = group.by_refilled_map_order
    above = order[size[order] >= quota.high][: quota.extra]
    below = size < quota.low
    keep: Int32Array = np.minimum(size, np.int32(quota.low))
    keep[above] = quota.high
    quota.over = len(above)
    by_rank = group.members_by_rank
    quota.under = by_rank[below[by_rank]]
    if quota.over < quota.extra:
        quota.exact = by_rank[keep[by_rank] == quota.low]
    return keep


def unassigned_slots(slots: PartitionSlots, owner: Int32Array, *, keeps_any: bool) -> Int32Array:
    """Return the partitions without an owner, sorted by topic and partition number.

    The sticky algorithm then assigns them. This is step 2 for groups with equal subscriptions.

    Args:
        slots: the partitions and their index numbers.
        owner: int32[S], owner of each partition, -1 for none.
        keeps_any: whether any partition has an owner.
    """
    if not keeps_any:
        return np.arange(slots.real, dtype=np.int32)
    if slots.all_partitions_exist:
        return np.flatnonzero(owner < 0).astype(np.int32)
    is_kept = owner >= 0
    owner_order = np.zeros(slots.count, bool)
    owner_order[slots.search_order] = True
    # Kafka compares the sorted kept partitions with all partitions. A kept partition that does not
    # exist stops the comparison: all later partitions are then treated as unassigned (Q26 in
    # docs/quirks.md).
    outside = np.flatnonzero(is_kept & ~owner_order)
    if len(outside):
        is_kept &= slots.sort_keys < slots.sort_keys[outside].min()
    free: Int32Array = slots.search_order[~is_kept[slots.search_order]]
    return free


def _assign_remaining_partitions(
    remaining_count: int, quota: Quota, member_sizes: NDArray[np.int64]
) -> Int32Array:
    """Assign the remaining partitions round robin to members below their quota.

    Steps before this one assign partitions by rack. This is the last step of Kafka's algorithm for
    equal subscriptions. The result is the member of each remaining partition.
    """
    rounds, by_lack = _rounds(quota.under, quota.low - member_sizes[quota.under])
    # Members below the low quota take turns until each has reached it. Then members that may have
    # one more partition get it, in the order in which they reached the low quota.
    order = np.concatenate((rounds, quota.exact, by_lack))
    # Kept slots never exceed the partitions, so members below the low quota always reach it.
    if remaining_count > len(order):
        what = (
            "no member is left to take a partition, since members claim partitions that do not"
            " exist (Kafka's class: no more unfilled consumers to be assigned)"
        )
        raise StickyAssignorError(what, "IllegalStateException")
    return order[:remaining_count]


def _rounds(members: Int32Array, lack: NDArray[np.int64]) -> tuple[Int32Array, Int32Array]:
    # The members in turn until each has what it lacks; and the members sorted by that number.
    if not len(members):
        return members, members
    if np.count_nonzero(lack == lack[0]) == len(lack):
        # `np.tile` takes three times as long for few members.
        rounds = np.empty((int(lack[0]), len(members)), np.int32)
        rounds[:] = members
        return rounds.reshape(-1), members
    ends = np.cumsum(lack)
    in_round = np.arange(ends[-1]) - np.repeat(ends - lack, lack)
    highest = int(lack.max())
    key = in_round.astype(np.int16) if highest < 2**15 else in_round
    rounds = np.repeat(members, lack)[np.argsort(key, kind="stable")]
    return rounds, members[np.argsort(lack, kind="stable")]


def _find_transfers(
    assigned: Transfers, previous_owner: Int32Array, disputed: NDArray[np.bool_] | None
) -> Transfers:
    """Find the newly assigned partitions that another member must revoke first.

    The result also has their new owners. Kafka's cooperative assignor leaves these partitions
    without owner in the first rebalance. ``disputed`` (bool[S]) marks the partitions that two
    members report with one generation; they are always included.
    """
    if disputed is None and previous_owner.max(initial=NO_OWNER) == NO_OWNER:
        return _NO_TRANSFERS
    before = previous_owner[assigned.slot]
    moves = (before != NO_OWNER) & (before != assigned.member)
    if disputed is not None:
        moves |= disputed[assigned.slot]
    return Transfers(assigned.slot[moves], assigned.member[moves])


def assign_by_rack(
    free: Int32Array,
    racks: Racks,
    quota: Quota,
    member_sizes: NDArray[np.int64],
    sticky: StickyProblem,
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Assign partitions to consumers on the rack of a replica, as far as quotas allow (KIP-881).

    Such consumers can fetch from a close replica. This is step 5 of Kafka's sticky algorithm for
    equal subscriptions.

    Args:
        free: int32[n], the unassigned partitions.
        racks: racks of members and replicas.
        quota: the quotas; updated.
        member_sizes: int64[M], number of partitions of each member; updated.
        sticky: members, topics and partitions of the rebalance.

    Returns:
        The assigned partitions, their members, and the partitions that remain unassigned.
    """
    under, waiting = quota.under, quota.exact
    width = max(len(sticky.problem.cluster.rack_names), 1)
    under_start, under_place = _group_by_rack(racks.of_member[under], width)
    # Each queue has room for all members of the rack: those that wait now, then those from under.
    both = np.concatenate([racks.of_member[waiting], racks.of_member[under]])
    queue_start = np.zeros(width + 1, np.int32)
    np.cumsum(np.bincount(both[both >= 0], minlength=width), out=queue_start[1:])
    queues = WaitingMembers(
        np.full(max(int(queue_start[-1]), 1), -1, np.int32),
        queue_start[:-1].copy(),
        queue_start[:-1].copy(),
        np.full(sticky.members, -1, np.int32),
    )
    for nth, m in enumerate(waiting.tolist()):
        queues.sequence[m] = nth
        rack = int(racks.of_member[m])
        if rack >= 0:
            queues.queue[queues.tail[rack]] = m
            queues.tail[rack] += 1
    out = np.full(len(free), -1, np.int32)
    below = UnderQuota(
        under,
        np.zeros(len(under), bool),
        under_start,
        under_place,
        np.arange(len(under_place) + width, dtype=np.int32),
    )
    numbers = [quota.low, quota.high, quota.extra, quota.over, len(waiting)]
    over = assign_on_racks(
        free,
        SlotArrays(np.zeros(0, np.int32), racks.start, racks.rack),
        racks.of_member,
        below,
        queues,
        member_sizes,
        out,
        np.array(numbers, np.int64),
        work=10 * len(free),
    )
    given = out >= 0
    quota.over = int(over)
    quota.under = under[~below.full]
    still = np.flatnonzero(queues.sequence >= 0).astype(np.int32)
    quota.exact = still[np.argsort(queues.sequence[still])]
    return free[given], out[given], free[~given]


def _group_by_rack(rack: Int32Array, width: int) -> tuple[Int32Array, Int32Array]:
    """List the members on each rack, as offsets and members (compressed rows, CSR).

    Members with rack -1 have no rack and are left out. ``width`` is the number of racks.
    """
    order = np.argsort(rack, kind="stable")
    start = np.searchsorted(rack[order], np.arange(width + 1)).astype(np.int32)
    return start - start[0], order[start[0] :].astype(np.int32)


class MemberLists:
    """Builder of each consumer's list of partitions, for groups with equal subscriptions.

    `keep_owned_partitions` adds the partitions that stay with their owner, then `build_lists` adds
    the new ones. The order within the lists is that of Kafka's class.

    Args:
        members: number of consumers.
    """

    def __init__(self, members: int) -> None:
        self._members = members
        self._kept = np.zeros(0, np.int32)

    def keep_owned_partitions(
        self, slots: PartitionSlots, owner: Int32Array, keep: Int32Array, previous_owner: Int32Array
    ) -> None:
        """Let each member keep some of its owned partitions, and revoke the others.

        Members keep those with the lowest partition numbers.

        Args:
            slots: the numbering of partitions; the lowest partition numbers stay first, then by
                topic.
            owner: int32[S], owner of each partition; set to -1 where revoked.
            keep: int32[M], number of partitions that each member keeps.
            previous_owner: int32[S], set to the old owner where revoked.
        """
        total = int(keep.sum())
        self._kept = np.zeros(total, np.int32)
        if not total and not (owner >= 0).any():
            return
        at = keep.cumsum(dtype=np.int32) - keep
        if keep_up_to_quota.is_compiled:
            keep_up_to_quota(
                slots.by_number, owner, at, at + keep, self._kept, previous_owner, work=slots.count
            )
            return
        member = owner[slots.by_number]
        has_owner = member >= 0
        member = member[has_owner]
        start, order = group_by_member(self._members, member)
        member, slot = member[order], slots.by_number[has_owner][order]
        nth = np.arange(len(slot), dtype=np.int32) - start[member]
        stays = nth < keep[member]
        self._kept = slot[stays]
        revoked = slot[~stays]
        previous_owner[revoked] = member[~stays]
        owner[revoked] = NO_OWNER

    def build_lists(
        self, keep: Int32Array, new_partitions: Transfers
    ) -> tuple[Int32Array, Int32Array]:
        """Return the final partitions of each member: first those it keeps, then new ones.

        `keep_owned_partitions` must be called before.

        Args:
            keep: int32[M], number of partitions that each member keeps.
            new_partitions: the newly assigned partitions and their owners.

        Returns:
            The offset of each member's first partition (int32[M + 1]), and the partitions of all
            members (int32[n]).
        """
        slot, member = new_partitions.slot, new_partitions.member
        sizes = keep + np.bincount(member, minlength=self._members).astype(np.int32)
        start = np.zeros(self._members + 1, np.int32)
        sizes.cumsum(dtype=np.int32, out=start[1:])
        if not len(slot):
            return start, self._kept
        if not len(self._kept) and not append_to_lists.is_compiled:
            return start, slot[sort_by_member(self._members, member)]
        out = np.empty(int(start[-1]), np.int32)
        at = start[:-1].copy()
        if len(self._kept):
            shift = (at - (keep.cumsum() - keep)).repeat(keep)
            out[np.arange(len(self._kept)) + shift] = self._kept
            at += keep
        if append_to_lists.is_compiled:
            append_to_lists(slot, member, at, out, work=len(slot))
            return start, out
        order = sort_by_member(self._members, member)
        more = sizes - keep
        first = (at - (more.cumsum() - more)).repeat(more)
        out[np.arange(len(order)) + first] = slot[order]
        return start, out
