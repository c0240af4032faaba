"""The members in JoinGroup's response to the leader, decoded for a whole group at once.

Claims stay arrays from the bytes to the strategy. The wire engine decodes what
`partage.wire.columns.subscriptions` declines, member by member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from partage.errors import WireFormatError
from partage.groups.api import Strategy
from partage.groups.sticky import Sticky, decode_user_data
from partage.model import NO_GENERATION, Claims, Member
from partage.wire.columns.partition_lists import PartitionList
from partage.wire.columns.subscriptions import decode_subscriptions, split_user_data
from partage.wire.consumer_protocol import ConsumerSubscription, decode_subscription
from partage.wire.member_extras import Extras, split_trailer, trailer_start

__all__ = ["NO_CLAIMS", "Joined", "JoinedMember", "decode_members"]

Partition = tuple[str, int]

NO_CLAIMS = Claims.from_owned(())


@dataclass(frozen=True, slots=True)
class Joined:
    """Member of a consumer group, as Kafka's JoinGroup response lists it for the leader.

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
    """User data of a group member in two parts: the strategy's bytes, and what Partage appends to
    them.

    The appended part (trailer) has, for example, the partitions that the member reports as owned.

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
