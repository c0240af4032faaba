"""Input of the general sticky algorithm: valid claims and unassigned slots.

A claim is a partition that a member says it owned; a slot is a partition's number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.sticky.claims import ClaimedSlots, ResolvedClaims
from partage.groups.sticky.decision import StickyAssignorError
from partage.groups.sticky.problem import PartitionSlots, Racks, StickyProblem, Subscriptions
from partage.groups.sticky.quirks.unassigned import unassigned_along_walk
from partage.model import NO_GENERATION
from partage.model.index import Int32Array

__all__ = ["GeneralProblem", "build_general_problem", "find_fixed_members", "null_pointer_error"]


@dataclass(frozen=True, eq=False)
class GeneralProblem:
    """Input of Kafka's sticky algorithm for groups with different subscriptions, as arrays.

    A claim is a partition that a member reports as owned. Partitions have indices ("slots"): first
    the T existing ones, then claimed ones that do not exist, S in all.

    Attributes:
        sticky: members, topics and partitions of the rebalance.
        subscriptions: the members' subscriptions.
        racks: racks of members and replicas.
        claimed: all claims.
        member, slot: int32[n], the valid claims; members in map order, their claims as sent.
        every: int32[T], all existing partitions by (number of subscribers, topic name, number).
        free: int32, partitions that no member keeps, in the same order.
        revoked: whether a member lost a partition because of its subscription or racks.
        previous: int32[S], the member that claims each partition with an older generation, -1 for
            none.
    """

    sticky: StickyProblem
    subscriptions: Subscriptions
    racks: Racks
    claimed: ClaimedSlots
    member: Int32Array
    slot: Int32Array
    every: Int32Array
    free: Int32Array
    revoked: bool
    previous: Int32Array

    def partition_names(self, slots: Int32Array | NDArray[np.intp]) -> tuple[str, ...]:
        """Return the names of partitions as "topic-number", such as ``("orders-0", "orders-3")``.

        ``slots`` are the partitions' indices in this problem. Warnings and errors use these names.
        """
        numbering, topics = self.claimed.slots, self.sticky.problem.index.topics
        return tuple(
            f"{topics[self.sticky.topics[numbering.topic[slot]]]}-{numbering.number[slot]}"
            for slot in slots.tolist()
        )


def build_general_problem(
    sticky: StickyProblem,
    claimed: ClaimedSlots,
    owned: ResolvedClaims,
    racks: Racks,
    max_generation: int,
) -> GeneralProblem:
    """Build the input of Kafka's sticky algorithm for groups with different subscriptions.

    A claim is a partition that a member reports as owned. Claims are dropped if the member no
    longer subscribes to the topic, or if no replica is on its rack. Then the unassigned partitions
    are listed.

    Args:
        sticky: members, topics and partitions of the rebalance.
        claimed: all claims.
        owned: the owner of each partition after conflicting claims are resolved.
        racks: racks of members and replicas.
        max_generation: the highest generation that members reported so far.
    """
    subscriptions, slots = Subscriptions(sticky), claimed.slots
    member, slot = claimed.member, claimed.slot
    if owned.held is not None:
        member, slot = member[owned.held], slot[owned.held]
    # A claim is invalid if another member owns the partition, if the member does not subscribe to
    # the topic, or if no replica is on its rack.
    stays = subscriptions.is_subscribed(member, slots.topic[slot]) & ~racks.is_on_other_rack(
        member, slot
    )
    revoked = not stays.all()
    if revoked:
        member, slot = member[stays], slot[stays]
    sizes = sticky.counts[subscriptions.order]
    first = sticky.start[:-1][subscriptions.order]
    ends = np.cumsum(sizes)
    shift = np.repeat(first - (ends - sizes), sizes)
    every = (np.arange(sticky.partitions) + shift).astype(np.int32)
    return GeneralProblem(
        sticky, subscriptions, racks, claimed, member, slot, every,
        _unassigned(sticky, every, (member, slot), slots, subscriptions),
        revoked,
        _find_previous_owners(claimed, max_generation),
    )  # fmt: skip


def _unassigned(
    sticky: StickyProblem,
    every: Int32Array,
    claims: tuple[Int32Array, Int32Array],
    slots: PartitionSlots,
    subscriptions: Subscriptions,
) -> Int32Array:
    # In the order of ``every``.
    kept = claims[1]
    if not len(kept):
        return every
    if slots.all_partitions_exist:
        is_kept = np.zeros(slots.count, bool)
        is_kept[kept] = True
        free: Int32Array = every[~is_kept[every]]
        return free
    rank = np.empty(len(subscriptions.order), np.int64)
    rank[subscriptions.order] = np.arange(len(subscriptions.order))
    # (rank of the topic, number): the order in which Kafka compares all slots with kept ones.
    place = (rank[slots.topic] << 32) | (slots.sort_keys & 0xFFFFFFFF)
    walk = slots.search_order[np.argsort(place[slots.search_order])]
    return unassigned_along_walk(sticky, walk, claims, place)


def _find_previous_owners(claimed: ClaimedSlots, max_generation: int) -> Int32Array:
    """Find the member that owned each partition in an earlier generation (int32[S], -1 for none).

    Kafka's sticky algorithm prefers to give the partition back to this member. Only reports of
    generations before ``max_generation`` count; the newest one wins.
    """
    out = np.full(claimed.slots.count, -1, np.int32)
    # Of several, the newest generation counts, then the first member. Reports without generation
    # count as the oldest.
    undated = ~claimed.dated & (max_generation > NO_GENERATION)
    old = (claimed.dated & (claimed.generation < max_generation)) | undated
    is_old = old[claimed.member]
    member, slot = claimed.member[is_old], claimed.slot[is_old]
    if len(member):
        generation = claimed.generation[member]
        order = np.lexsort((-np.arange(len(member)), generation, slot))
        out[slot[order]] = member[order]  # the last write, of the newest and first claim, wins
    return out


def find_fixed_members(
    inputs: GeneralProblem, member_sizes: NDArray[np.int64], owner: Int32Array, slot: Int32Array
) -> NDArray[np.bool_]:
    """Return which members can neither lose nor get partitions while loads are balanced (bool[M]).

    Such a member is the only subscriber of all its partitions and already has all that it
    subscribes to. Kafka's algorithm leaves it aside.

    Args:
        inputs: the input of the sticky algorithm.
        member_sizes: int64[M], number of partitions of each member.
        owner: int32[n], the member of each assigned partition.
        slot: int32[n], the assigned partitions.
    """
    shared = inputs.subscriptions.topics_with_several_subscribers[inputs.claimed.slots.topic[slot]]
    may_lose = np.zeros(inputs.sticky.members, bool)
    may_lose[owner[shared]] = True
    return (member_sizes >= inputs.subscriptions.most) & ~may_lose


def null_pointer_error(inputs: GeneralProblem, slot: int) -> StickyAssignorError:
    """Return the error to raise where Kafka's class would throw a NullPointerException.

    It does so if a member reports a partition of an older generation but no longer subscribes to
    its topic (Q2 in docs/quirks.md).

    Args:
        inputs: the input of the sticky algorithm.
        slot: the partition, as an index of the sorted partitions.
    """
    (name,) = inputs.partition_names(np.array([slot]))
    what = (
        f"a member claims {name} of an older generation, but no longer subscribes to it"
        " (Kafka's class throws a NullPointerException)"
    )
    return StickyAssignorError(what, "NullPointerException")
