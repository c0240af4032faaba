"""Claims of owned partitions: decoding them, and resolving conflicts between members.

A claim is a partition that a member says it owned. A slot is a partition's number in this problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partage.groups.layout import cached_by_subscriptions, claimed_topics
from partage.groups.sticky.kernels import (
    ClaimColumns,
    EncodedNames,
    hash_names,
    read_claims,
    resolve_disputes,
)
from partage.groups.sticky.problem import PartitionSlots, SlotLayout, StickyProblem, keys_of
from partage.model import NO_GENERATION, Claims, Problem, ReportedPartitions
from partage.model.index import Int32Array
from partage.wire.columns.subscriptions import decode_sticky_claims
from partage.wire.consumer_protocol import decode_sticky_user_data

__all__ = [
    "NO_OWNER",
    "ClaimedSlots",
    "ResolvedClaims",
    "claims_of_owned",
    "claims_of_user_data",
    "cooperative_generation",
    "decode_user_data",
    "has_equal_subscriptions",
    "owned_slots",
    "read_group_user_data",
    "resolve_claims",
    "sends_user_data",
]


_List = tuple[int, Int32Array, Int32Array]
_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class ClaimedSlots:
    """Partitions that the members of a group report as owned, with the generation of each report.

    Each array entry is one partition that one member reports. Partitions are given by their index
    in the rebalance's arrays ("slot"). Topics that do not exist or have no subscribers are left
    out.

    Attributes:
        member: int32[n], the member of each entry; members are in the iteration order of the
            leader's Java map.
        slot: int32[n], the partition of each entry; those of a member are in the order sent.
        slots: the numbering of partitions, which includes reported ones that do not exist.
        generation: int64[M], generation that each of the M members reports, -1 for none.
        dated: bool[M], whether a member reports a generation.
    """

    member: Int32Array
    slot: Int32Array
    slots: PartitionSlots
    generation: NDArray[np.int64]
    dated: NDArray[np.bool_]


def sends_user_data(problem: Problem) -> bool:
    """Return whether any consumer sends user data, which may contain its owned partitions.

    ``problem`` is the group and the cluster.
    """
    if problem.reported is not None or problem.sent_claims is not None:
        return True
    return problem.group.user_data_size > 0


def claims_of_user_data(sticky: StickyProblem) -> ClaimedSlots:
    """Decode the owned partitions that consumers with Kafka's sticky assignor report in user data.

    ``sticky`` has the members, topics and partitions of the rebalance. Large groups are decoded by
    a Numba-compiled function.
    """
    if sticky.problem.reported is not None and sticky.counted:
        return _slots_of_reported(sticky, sticky.problem.reported)
    group = sticky.problem.group
    sent: Sequence[tuple[Claims, int | None]] | None = sticky.problem.sent_claims
    if sent is None:
        total = group.user_data_size
        if not total:
            undated = np.full(len(group), NO_GENERATION, np.int64), np.zeros(len(group), bool)
            return _to_slots(sticky, _concatenate([]), undated)
        # Decoding member by member takes half an interpreted kernel step per byte.
        if read_claims.is_worth_compiling(work=total // 2):
            read = read_group_user_data(sticky)
            if read is not None:
                return _to_slots(sticky, *read)
        sent = decode_user_data([m.user_data for m in group])
    known = _known_claims(sticky, [claims for claims, _ in sent])
    return _to_slots(sticky, known, _as_arrays([of for _, of in sent]))


def decode_user_data(user_data: Sequence[bytes | None]) -> list[tuple[Claims, int | None]]:
    """Decode each consumer's owned partitions and their generation from its user data.

    The format is that of Kafka's ``StickyAssignor``. An older version of the format has no
    generation; the generation is None then.

    Args:
        user_data: the user data of each consumer as sent.
    """
    if not any(user_data):
        return [(Claims.from_owned(()), None)] * len(user_data)
    out: list[tuple[Claims, int | None]] = []
    found = decode_sticky_claims([data or b"" for data in user_data])
    for data, columns in zip(user_data, found, strict=True):
        if columns is None:
            claims, of = decode_sticky_user_data(data)
            out.append((Claims.from_owned(claims), of))
        else:
            sent, generation = columns
            out.append((Claims(sent.names, sent.topic, sent.number, shared=True), generation))
    return out


def claims_of_owned(sticky: StickyProblem) -> ClaimedSlots:
    """Return the partitions that each consumer reports as owned when it joins the group.

    The cooperative-sticky assignor reads them from a field of the consumer's subscription.
    ``sticky`` has the members, topics and partitions of the rebalance.
    """
    if sticky.problem.reported is not None and sticky.counted:
        return _slots_of_reported(sticky, sticky.problem.reported)
    generation = [
        cooperative_generation(member.generation, member.user_data)
        for member in sticky.problem.group.members
    ]
    return _to_slots(sticky, _owned(sticky), _as_arrays(generation))


def _slots_of_reported(sticky: StickyProblem, reported: ReportedPartitions) -> ClaimedSlots:
    # All reported partitions exist. Those of topics without subscribers have no slot.
    visit = sticky.problem.group.by_map_order
    place, partition = reported.in_order(visit)
    member = visit[place]
    slot = sticky.layout.slot_of_partition[partition]
    is_known = slot >= 0
    if np.count_nonzero(is_known) < len(slot):
        member, slot = member[is_known], slot[is_known]
    return ClaimedSlots(
        member, slot, PartitionSlots(sticky), reported.generation, reported.is_dated
    )


def owned_slots(sticky: StickyProblem, slots: PartitionSlots) -> tuple[Int32Array, Int32Array]:
    """Return the owned partitions that consumers list in their subscriptions, with their owners.

    The cooperative assignor compares them with the new owners, to find partitions that must be
    revoked first.

    Args:
        sticky: members, topics and partitions of the rebalance.
        slots: the partitions to consider, with their index numbers.

    Returns:
        The owners and the indices of the partitions, as two parallel arrays (int32[n]).
    """
    member, topic, number = _owned(sticky)
    if slots.all_partitions_exist and sticky.counted:
        inside = (number >= 0) & (number < sticky.counts[topic])
        return member[inside], sticky.start[topic[inside]] + number[inside]
    keys = keys_of(topic, number)
    order = np.argsort(slots.sort_keys)
    at = np.searchsorted(slots.sort_keys[order], keys)
    at[at == len(order)] = 0
    found = slots.sort_keys[order][at] == keys if len(order) else np.zeros(len(keys), bool)
    return member[found], order[at[found]].astype(np.int32)


def cooperative_generation(subscription_generation: int, user_data: bytes | None) -> int | None:
    """Return the generation in which a cooperative-sticky member got its owned partitions.

    It is the subscription's generation field (KIP-792), or else the first four bytes of the user
    data. The result is None if the member reports no generation.

    >>> cooperative_generation(7, None), cooperative_generation(-1, bytes([0, 0, 0, 5]))
    (7, 5)
    """
    if subscription_generation >= 0:
        return subscription_generation
    if user_data is None:
        return None
    if len(user_data) < 4:
        return NO_GENERATION
    return int.from_bytes(user_data[:4], "big", signed=True)


def _owned(sticky: StickyProblem) -> tuple[Int32Array, Int32Array, Int32Array]:
    # Unknown topics are left out. Members are in the order of the leader's map.
    if sticky.owned is None:
        sticky.owned = _known_claims(sticky, [m.owned for m in sticky.problem.group.members])
    return sticky.owned


def _known_claims(
    sticky: StickyProblem, claims: Sequence[Claims]
) -> tuple[Int32Array, Int32Array, Int32Array]:
    # ``claims`` is by member; the result is in the order of the leader's map.
    lists = [(m, claims[m]) for m in sticky.members_in_map_order if len(claims[m].partition)]
    if not lists:
        return _concatenate([])
    member, _, number = _concatenate([(m, one.topic_ix, one.partition) for m, one in lists])
    topic = claimed_topics([one for _, one in lists], sticky.topic_by_name)
    known = topic >= 0
    if known.all():
        return member, topic, number
    return member[known], topic[known], number[known]


def _concatenate(lists: Sequence[_List]) -> tuple[Int32Array, Int32Array, Int32Array]:
    if not lists:
        return _NONE, _NONE, _NONE
    sizes = [len(topic) for _, topic, _ in lists]
    member = np.repeat(np.array([m for m, _, _ in lists], np.int32), sizes)
    return member, np.concatenate([t for _, t, _ in lists]), np.concatenate([n for *_, n in lists])


def _as_arrays(generation: Sequence[int | None]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    number = [NO_GENERATION if g is None else g for g in generation]
    return np.array(number, np.int64), np.array([g is not None for g in generation], bool)


def _to_slots(
    sticky: StickyProblem,
    claims: tuple[Int32Array, Int32Array, Int32Array],
    generations: tuple[NDArray[np.int64], NDArray[np.bool_]],
) -> ClaimedSlots:
    member, topic, number = claims
    generation, dated = generations
    slot, slots = sticky.find_slots(topic, number)
    return ClaimedSlots(member, slot, slots, generation, dated)


NO_OWNER = -1


@dataclass(frozen=True, eq=False)
class ResolvedClaims:
    """Owner of each partition, chosen where several members of a group report the same partition.

    This happens, for example, if one of them missed a rebalance. Each partition that a member
    reports is a claim. There are n claims and S partitions, which include claimed ones that do not
    exist.

    Attributes:
        owner: int32[S], owner of each partition, -1 for none.
        held: bool[n], whether each claim is still valid; None if all are.
        disputed: bool[S], whether two members of one generation claim the partition, even if a
            newer generation then takes it; None if no partition is disputed.
        any_claim: whether any member claims a partition.
    """

    owner: Int32Array
    held: NDArray[np.bool_] | None = None
    disputed: NDArray[np.bool_] | None = None
    any_claim: bool = True


def has_equal_subscriptions(sticky: StickyProblem) -> bool:
    """Return whether all members subscribe to the same topics, as Kafka's class decides it.

    If so, Kafka's sticky assignors use a faster algorithm. A subscription that repeats a name is
    never considered equal. Members without topics are ignored before the first member with topics
    (Q1 in docs/quirks.md).
    """
    group = sticky.problem.group
    if len(group.subscriptions) == 1 and len(group) > 1:
        names = group.subscriptions[0]
        return len(set(names)) == len(names)
    subscription_of = group.subscription_of.tolist()
    order = [subscription_of[m] for m in sticky.members_in_map_order]
    first = next((i for i, s in enumerate(order) if group.subscriptions[s]), None)
    if first is None:
        return True
    common = set(group.subscriptions[order[first]])
    return all(
        len(group.subscriptions[s]) == len(common) and common.issuperset(group.subscriptions[s])
        for s in set(order[first + 1 :])
    )


def resolve_claims(sticky: StickyProblem, claimed: ClaimedSlots) -> ResolvedClaims:
    """Choose one owner for each partition that several consumers report as owned.

    The report with the newest generation wins. If the newest generations are equal, the partition
    has no owner.

    Args:
        sticky: members, topics and partitions of the rebalance.
        claimed: the partitions that members report as owned.
    """
    owner = np.full(claimed.slots.count, NO_OWNER, np.int32)
    if not len(claimed.slot):
        return ResolvedClaims(owner, any_claim=False)
    owner[claimed.slot] = claimed.member
    if np.count_nonzero(owner >= 0) == len(claimed.slot):
        return ResolvedClaims(owner)
    owner.fill(NO_OWNER)
    disputed = np.zeros(len(owner), bool)
    held = np.zeros(len(claimed.slot), bool)
    entry = np.full(len(owner), -1, np.int64)
    sent = np.array([m.generation for m in sticky.problem.group], np.int64)
    # Of two members, Kafka compares the subscription's generation field of the first with the
    # generation of the second one's claim. In StickyAssignor these may differ (Q5 in
    # docs/quirks.md).
    resolve_disputes(
        claimed.member, claimed.slot, claimed.generation, sent, owner, entry, held, disputed,
        work=len(held),
    )  # fmt: skip
    # The provisional owner of a disputed slot only affects later claims.
    owner[entry < 0] = NO_OWNER
    return ResolvedClaims(owner, held, disputed)


#: ``new String(bytes, UTF_8)`` decodes malformed bytes to this character.
_REPLACEMENT = "\ufffd"


def read_group_user_data(
    sticky: StickyProblem,
) -> (
    tuple[tuple[Int32Array, Int32Array, Int32Array], tuple[NDArray[np.int64], NDArray[np.bool_]]]
    | None
):
    """Decode the owned partitions in all consumers' user data with a Numba-compiled function.

    It is much faster for large groups than decoding one consumer after the other.

    Args:
        sticky: members, topics and partitions of the rebalance.

    Returns:
        The member, topic and partition number of each owned partition; and each member's
        generation, and whether it reports one. None if the slower Python decoder must be used.
    """
    group = sticky.problem.group
    names = cached_by_subscriptions(sticky.problem, _encoded_names)
    if names is None:
        # A name contains Java's replacement character: malformed bytes could decode to it.
        return None
    members = group.members
    sent = [members[m].user_data or b"" for m in sticky.members_in_map_order]
    data = np.frombuffer(bytearray().join(sent), np.uint8)
    most = len(data) // 4  # a claim has at least four bytes
    claims = ClaimColumns(
        np.empty(most, np.int32),
        np.empty(most, np.int32),
        np.zeros(len(sent), np.int64),
        np.full(len(sent), NO_GENERATION, np.int64),
        np.zeros(len(sent), bool),
    )
    start = _offsets([len(one) for one in sent])
    total = int(read_claims(data, start, names, claims, work=3 * len(data)))
    visit = group.by_map_order
    by_member, dated_by_member = np.empty_like(claims.generation), np.empty_like(claims.dated)
    by_member[visit], dated_by_member[visit] = claims.generation, claims.dated
    member = np.repeat(visit, claims.claim_count)
    return (member, claims.topic[:total], claims.number[:total]), (by_member, dated_by_member)


def _encoded_names(problem: Problem) -> EncodedNames | None:
    # The hash table of the subscribed topics that have partitions; None as above. Kernels write
    # guesses to its field ``after`` and check them at each use, so calls may share it.
    topics = cached_by_subscriptions(problem, SlotLayout).topics
    texts = [problem.index.topics[t] for t in topics.tolist()]
    if any(_REPLACEMENT in text for text in texts):
        return None
    encoded = [_utf8_or_nothing(text) for text in texts]
    names = EncodedNames(
        np.frombuffer(bytearray().join(encoded), np.uint8),
        _offsets([len(one) for one in encoded]),
        np.full(1 << (2 * len(texts) + 1).bit_length(), -1, np.int32),
        np.full(len(texts) + 1, -1, np.int32),
    )
    hash_names(names, work=8 * len(names.data))
    return names


def _offsets(sizes: list[int]) -> NDArray[np.int64]:
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    return start


def _utf8_or_nothing(text: str) -> bytes:
    # A lone surrogate cannot be sent by a member, so b"" matches nothing.
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b""
