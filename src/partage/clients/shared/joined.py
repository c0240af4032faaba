"""The members in JoinGroup's response to the leader, decoded, and their claims, checked.

A claim is a partition that a member says it owns. Claims stay arrays from the bytes to the
strategy. The wire engine decodes what `partage.wire.columns.subscriptions` declines, member by
member.

False claims are removed: otherwise one member could harm all others. Kafka's sticky assignors
accept a claim of partition 5 of a topic that has three partitions, and can then fail for the whole
group (Q26). A claim of a future generation wins over all others forever (Q6). In a live group the
member is treated as one that owns nothing, with a warning. In Kafka, unreadable user data means
"owns nothing" too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from partage.clients.shared.cluster import ClusterView
from partage.errors import WireFormatError
from partage.groups.api import Strategy
from partage.groups.layout import claimed_topics
from partage.groups.sticky import CooperativeSticky, Sticky, decode_user_data
from partage.model import NO_GENERATION, Claims, Index, Member, Plan
from partage.model.index import Int32Array
from partage.wire.columns.partition_lists import PartitionList
from partage.wire.columns.subscriptions import decode_subscriptions, split_user_data
from partage.wire.consumer_protocol import (
    ConsumerSubscription,
    decode_sticky_user_data,
    decode_subscription,
    encode_sticky_user_data,
)
from partage.wire.member_extras import Extras, split_trailer, trailer_start

__all__ = [
    "NO_CLAIMS",
    "Joined",
    "JoinedMember",
    "LeaderPlan",
    "decode_members",
    "drop_impossible_claims",
    "drop_refuted_claims",
    "find_nonexistent_claims",
    "locate_claims",
]

Partition = tuple[str, int]

NO_CLAIMS = Claims.from_owned(())
_GENERATION_BYTES = 4


@dataclass(frozen=True, slots=True)
class Joined:
    """Member of a consumer group in Kafka's JoinGroup response to the group leader.

    ``metadata`` is its subscription, as bytes or decoded.
    """

    id: str
    metadata: bytes | ConsumerSubscription
    instance_id: str | None = None

    def subscription(self) -> ConsumerSubscription:
        """Return the decoded subscription of a consumer group member.

        It has no topics if the bytes are malformed.
        """
        if not isinstance(self.metadata, bytes):
            return self.metadata
        try:
            return decode_subscription(self.metadata)
        except WireFormatError:
            return ConsumerSubscription(())


@dataclass(slots=True)
class JoinedMember:
    """Member of a consumer group with its decoded subscription.

    The group's leader assigns partitions to such members.

    Attributes:
        member: the member as input of a strategy.
        claims: partitions that the member reports as owned; for ``sticky`` those in the user data.
        generation: generation of the claims in the user data; None if they have none.
        revoked: partitions that the member owned and revoked before it joined.
        measured: loads that the member measured.
        held: weights of its partitions in the last plan.
    """

    member: Member
    claims: Claims
    generation: int | None = None
    revoked: Claims = NO_CLAIMS
    measured: Mapping[Partition, float] = field(default_factory=dict)
    held: Mapping[Partition, float] = field(default_factory=dict)


class _Subscription(NamedTuple):
    topics: tuple[str, ...]
    user_data: bytes | None
    owned: Claims
    generation: int | None
    rack: str | None


class _SplitUserData(NamedTuple):
    """User data of a group member in two parts: the strategy's bytes, and Partage's trailer.

    The trailer, which Partage appends, has for example the partitions that the member reports as
    owned.

    Attributes:
        user_data: the strategy's own bytes.
        claims: partitions that the member reports as owned in the trailer.
        generation: the generation in which it owned them.
        extras: other content of the trailer.
    """

    user_data: bytes | None
    claims: Claims = NO_CLAIMS
    generation: int = NO_GENERATION
    extras: Extras = Extras()


def decode_members(strategy: Strategy, joined: Sequence[Joined]) -> list[JoinedMember]:
    """Decode the subscriptions of all consumer group members, as the group leader receives them.

    The members' reports of owned partitions are decoded, too.

    Args:
        strategy: the strategy, which decides what is read from the user data.
        joined: the members in Kafka's JoinGroup response.
    """
    subscriptions = _subscriptions(joined)
    trailers = _trailers([sent.user_data for sent in subscriptions])
    out = []
    for one, sent, trailer in zip(joined, subscriptions, trailers, strict=True):
        # Partitions sent as owned are still owned; claims in the trailer are already revoked.
        owned, of = sent.owned, sent.generation
        if not len(owned) and len(trailer.claims):
            owned, of = trailer.claims, trailer.generation
        member = Member(
            one.id, sent.topics, rack=sent.rack, instance_id=one.instance_id,
            owned=owned, user_data=trailer.user_data,
            generation=NO_GENERATION if of is None else of,
        )  # fmt: skip
        extras = trailer.extras
        out.append(JoinedMember(member, owned, None, trailer.claims, extras.measured, extras.held))
    if strategy.name == Sticky.name:
        claims = decode_user_data([member.member.user_data for member in out])
        for made, (sent_claims, sent_generation) in zip(out, claims, strict=True):
            made.claims, made.generation = sent_claims, sent_generation
    return out


def _subscriptions(joined: Sequence[Joined]) -> list[_Subscription]:
    payloads = [one.metadata if isinstance(one.metadata, bytes) else b"" for one in joined]
    out = []
    for one, found in zip(joined, decode_subscriptions(payloads), strict=True):
        if found is not None:
            topics, user_data, owned, generation, rack = found
            out.append(_Subscription(topics, user_data, _claims(owned), generation, rack))
        else:
            sent = one.subscription()
            claims = Claims.from_owned(sent.owned)
            out.append(
                _Subscription(sent.topics, sent.user_data, claims, sent.generation, sent.rack)
            )
    return out


def _trailers(user_data: Sequence[bytes | None]) -> list[_SplitUserData]:
    out = list(map(_SplitUserData, user_data))
    ends = [i for i, data in enumerate(user_data) if trailer_start(data) >= 0]
    payloads = [user_data[i] or b"" for i in ends]
    for i, data, found in zip(ends, payloads, split_user_data(payloads), strict=True):
        if found is not None:
            out[i] = _SplitUserData(found.user_data, _claims(found.claims), found.generation)
        else:
            own, extras = split_trailer(data)
            if extras is not None:
                out[i] = _SplitUserData(
                    own, Claims.from_owned(extras.claims), extras.generation, extras
                )
    return out


def _claims(sent: PartitionList) -> Claims:
    if not len(sent.topic):
        return NO_CLAIMS
    return Claims(sent.names, sent.topic, sent.number, shared=True)


def find_nonexistent_claims(
    members: Sequence[JoinedMember], view: ClusterView
) -> list[Partition | None]:
    """Find group members that report an owned partition which does not exist.

    The result has one entry for each member: its first such partition, or None. ``view`` is the
    cluster's metadata.

    Raises:
        InvalidProblemError: a partition number of the metadata is out of range.
    """
    # Claims on topics that the metadata do not have are ignored.
    cluster = view.cluster()
    member, dense = locate_claims([one.claims for one in members], cluster.index)
    exists = dense >= 0
    exists[exists] = cluster.partition_exists[dense[exists]]
    out: list[Partition | None] = [None] * len(members)
    # `np.unique` would import numpy.ma at its first call, 40 ms on an event loop.
    for m in set(member[~exists].tolist()):
        claims = members[m].claims
        out[m] = next((pair for pair in claims if not view.has_partition(*pair)), None)
    return out


def locate_claims(claims: Sequence[Claims], index: Index) -> tuple[Int32Array, Int32Array]:
    """Convert the owned partitions that group members report to two arrays.

    Element i of the first array is a member, and element i of the second one a partition that it
    reports.

    Args:
        claims: the reported partitions of each member.
        index: the numbering of the cluster's partitions.

    Returns:
        int32[n] positions of the members in ``claims``, and int32[n] numbers of the partitions, -1
            for one that does not exist.
    """
    if not claims:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    names = set().union(*{id(one.topics): one.topics for one in claims}.values())
    topic = claimed_topics(claims, {name: index.topic(name) for name in names})
    number = np.concatenate([one.partition for one in claims])
    claimant = np.repeat(np.arange(len(claims), dtype=np.int32), [len(one) for one in claims])
    return claimant, index.locate_all(topic, number)


def drop_impossible_claims(
    strategy: Strategy, joined: JoinedMember, nonexistent: Partition | None, generation: int
) -> tuple[JoinedMember, str | None]:
    """Ignore the owned partitions that a group member reports, if its report cannot be true.

    It cannot be true if a partition does not exist, or if the report is from a future generation.
    The result is the member, and a warning or None.

    Args:
        strategy: the strategy, which decides whether claims are in the user data.
        joined: the member with its reported partitions.
        nonexistent: its first reported partition that does not exist; None if all exist.
        generation: the group's generation, -1 if unknown.

    >>> from partage.groups.registry import find
    >>> odd = Member("c", ["t"], owned={"t": [7]}, generation=1)
    >>> joined = JoinedMember(odd, odd.owned)
    >>> drop_impossible_claims(find("cooperative-sticky"), joined, ("t", 7), 2)[1]
    'c claims t-7, which does not exist: it is taken for a newcomer'
    """
    member = joined.member
    sticky = strategy.name == Sticky.name
    cooperates = strategy.name == CooperativeSticky.name
    if sticky:
        of = NO_GENERATION if joined.generation is None else joined.generation
    else:
        of = _claimed_generation(member) if cooperates else member.generation
    wrong = _wrong(of, nonexistent, generation)
    if wrong is not None:
        return _newcomer(strategy, joined), f"{member.id} {wrong}: it is taken for a newcomer"
    if sticky:
        says_nothing = bool(member.user_data) and not len(joined.claims)
        known = joined.generation != NO_GENERATION or _empty(member.user_data or b"")
        return joined, _says_nothing(member) if says_nothing and not known else None
    # Cooperative members send four bytes, their generation. Other strategies may send nothing.
    silent = not cooperates and strategy.subscription_user_data(member.topics, None) is None
    strange = len(member.user_data or b"") not in {0, 0 if silent else _GENERATION_BYTES}
    if strange and (cooperates or silent):
        return joined, _says_nothing(member)
    return joined, None


def _newcomer(strategy: Strategy, one: JoinedMember) -> JoinedMember:
    # As if it had just joined.
    member = one.member
    if strategy.name == Sticky.name:
        left = member.replaced(user_data=None, generation=NO_GENERATION)
    else:
        left = member.replaced(owned=NO_CLAIMS, generation=NO_GENERATION)
        if strategy.name == CooperativeSticky.name:
            left = left.replaced(user_data=None)
    return replace(one, member=left, claims=NO_CLAIMS, generation=None)


@dataclass(frozen=True, slots=True)
class LeaderPlan:
    """Last assignment that a consumer computed as the leader of its group.

    The leader compares it with the partitions that members report as owned.

    Attributes:
        generation: the group's generation, -1 if unknown.
        plan: the assignment; partitions withheld until they are revoked have no owner in it.
    """

    # The leader compares the partitions that members report as owned (claims) with it.
    generation: int
    plan: Plan


def drop_refuted_claims(
    strategy: Strategy, members: Sequence[JoinedMember], last_plan: LeaderPlan | None
) -> tuple[list[JoinedMember], list[str]]:
    """Ignore owned partitions that a member reports although another member was assigned them.

    The group leader knows the right owner from its last assignment, and keeps only that member's
    report.

    Args:
        strategy: the strategy, which decides how members report partitions.
        members: the members with the partitions that they report as owned.
        last_plan: this leader's last assignment, or None.

    Returns:
        The members, and warnings.

    >>> from partage.groups.registry import find
    >>> two = [Member(m, ["t"], owned={"t": [0]}, generation=4) for m in "az"]
    >>> last_plan = LeaderPlan(4, Plan.of(Index.of({"t": 1}), {"a": {"t": [0]}}))
    >>> joined = [JoinedMember(one, one.owned) for one in two]
    >>> members, said = drop_refuted_claims(find("cooperative-sticky"), joined, last_plan)
    >>> [len(one.member.owned) for one in members], said
    ([1, 0], ['z claims t-0, which a was given: that is not believed'])
    """
    # If two members claim a partition in one generation, Kafka's assignor accepts neither claim.
    # The leader of that generation knows which one is right.
    out, warnings = list(members), list[str]()
    if last_plan is None or last_plan.generation < 0:
        return out, warnings
    plan = last_plan.plan
    of_generation = [
        m
        for m, one in enumerate(members)
        if _generation_of_claims(strategy, one) == last_plan.generation
    ]
    cited, dense = locate_claims([members[m].claims for m in of_generation], plan.index)
    claimant = np.array(of_generation, np.int32)[cited]
    position = {one.member.id: m for m, one in enumerate(members)}
    present = np.array([*(position.get(member, -1) for member in plan.members), -1], np.int32)
    owner = np.where(dense >= 0, present[plan.owner[dense]], -1) if len(plan.owner) else dense
    claimed_by_owner = np.zeros(plan.index.partitions, bool)
    claimed_by_owner[dense[owner == claimant]] = True
    refuted = np.flatnonzero((owner != claimant) & (dense >= 0))
    refuted = refuted[claimed_by_owner[dense[refuted]]]
    for m in sorted(set(claimant[refuted].tolist())):
        one = members[m]
        mine = dense[refuted[claimant[refuted] == m]]
        false = sorted({plan.index.name(p) for p in mine.tolist()})
        topic, number = false[0]
        by = plan.members[plan.owner[plan.index.locate(topic, number)]]
        what = f"{one.member.id} claims {topic}-{number}, which {by} was given"
        warnings.append(f"{what}: that is not believed")
        out[m] = _with_claims(
            strategy, one, [pair for pair in one.claims if pair not in set(false)]
        )
    return out, warnings


def _generation_of_claims(strategy: Strategy, joined: JoinedMember) -> int:
    """Return the generation in which a group member owned the partitions that it reports as owned.

    A report from an old generation may be outdated.

    Args:
        strategy: the strategy, which decides where members report the generation.
        joined: the member with its reported partitions.
    """
    if strategy.name == Sticky.name:
        return NO_GENERATION if joined.generation is None else joined.generation
    return _claimed_generation(joined.member)


def _with_claims(
    strategy: Strategy, one: JoinedMember, claims: Iterable[Partition]
) -> JoinedMember:
    if strategy.name == Sticky.name:
        data = encode_sticky_user_data(claims, _generation_of_claims(strategy, one))
        left, of = decode_sticky_user_data(data)
        member = one.member.replaced(user_data=data)
        return replace(one, member=member, claims=Claims.from_owned(left), generation=of)
    owned = Claims.from_owned(list(claims))
    return replace(one, member=one.member.replaced(owned=owned), claims=owned)


def _claimed_generation(member: Member) -> int:
    """Return the generation in which a cooperative consumer owned the partitions that it reports.

    The generation is a field of the subscription. In subscriptions of versions 0 and 1 it is in the
    user data.
    """
    # It is read from the subscription, or from the user data if the subscription's version is below
    # 2.
    data = member.user_data
    if member.generation >= 0 or not data or len(data) < _GENERATION_BYTES:
        return member.generation
    return int.from_bytes(data[:_GENERATION_BYTES], "big", signed=True)


def _says_nothing(member: Member) -> str:
    size = len(member.user_data or b"")
    return f"{member.id} sent {size} bytes of user data that say nothing: it claims nothing by them"


def _empty(data: bytes) -> bool:
    return data == b"\0\0\0\0\xff\xff\xff\xff"


def _wrong(of: int, missing: Partition | None, generation: int) -> str | None:
    # JoinGroup's response has the generation of the rebalance in progress.
    if generation >= 0 and of > generation:
        return f"claims partitions of generation {of}, a future one"
    if missing is not None:
        return f"claims {missing[0]}-{missing[1]}, which does not exist"
    return None
