"""Removal of claims that cannot be true, so that one member cannot harm the others.

Kafka's sticky assignors accept a claim of partition 5 of a topic that has three, and can then fail
for the whole group (Q26). A claim of a future generation wins over all others for ever (Q6). In a
live group such a member is treated as one that owns nothing, with a warning. Unreadable user data
means "owns nothing" in Kafka too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from partage.clients.shared.cluster import ClusterView
from partage.groups.api import Strategy
from partage.groups.sticky import CooperativeSticky, Sticky
from partage.model import NO_GENERATION, Claims, Member
from partage.wire.sticky_userdata import decode_sticky_user_data, encode_sticky_user_data

__all__ = ["OwnLastPlan", "believable", "undisputed"]

_GENERATION_BYTES = 4
Partition = tuple[str, int]


def believable(
    strategy: Strategy, member: Member, view: ClusterView, generation: int
) -> tuple[Member, str | None]:
    """Return the member without claims that cannot be true, and what was wrong with them.

    Args:
        strategy: the strategy, which decides whether claims are in the user data.
        member: the member as it joined.
        view: the leader's metadata.
        generation: the group's generation, -1 if unknown.

    >>> from partage.groups.registry import find
    >>> odd = Member("c", ["t"], owned={"t": [7]}, generation=1)
    >>> believable(find("cooperative-sticky"), odd, ClusterView({"t": {0: []}}), 2)[1]
    'c claims t-7, which does not exist: it is taken for a newcomer'
    """
    if strategy.name == Sticky.name:
        return _by_user_data(member, view, generation)
    cooperates = strategy.name == CooperativeSticky.name
    of = _generation(member) if cooperates else member.generation
    wrong = _wrong(member.owned, of, view, generation)
    if wrong is not None:
        said = f"{member.id} {wrong}: it is taken for a newcomer"
        newcomer = member.replaced(owned=Claims.of(()), generation=NO_GENERATION)
        return newcomer.replaced(user_data=None) if cooperates else newcomer, said
    # Cooperative members send four bytes, their generation. Other strategies may send nothing.
    silent = not cooperates and strategy.subscription_user_data(member.topics, None) is None
    strange = len(member.user_data or b"") not in {0, 0 if silent else _GENERATION_BYTES}
    if strange and (cooperates or silent):
        return member, _says_nothing(member)
    return member, None


@dataclass(frozen=True, slots=True)
class OwnLastPlan:
    """The last plan that this leader made.

    Attributes:
        generation: the group's generation, -1 if unknown.
        owners: member by partition, without withheld partitions.
    """

    generation: int
    owners: Mapping[Partition, str]


def undisputed(
    strategy: Strategy, members: Sequence[Member], led: OwnLastPlan | None
) -> tuple[list[Member], list[str]]:
    """Return the members without claims that this leader's last plan refutes, and warnings.

    Where two members claim a partition in one generation, Kafka's class accepts neither claim, so a
    member that claims everything takes everything from all. The leader of that generation knows
    which of them owns the partition.

    >>> from partage.groups.registry import find
    >>> two = [Member(m, ["t"], owned={"t": [0]}, generation=4) for m in "az"]
    >>> members, said = undisputed(find("cooperative-sticky"), two, OwnLastPlan(4, {("t", 0): "a"}))
    >>> [len(list(m.owned)) for m in members], said
    ([1, 0], ['z claims t-0, which a was given: that is not believed'])
    """
    if led is None or led.generation < 0:
        return list(members), []
    said = [_claims(strategy, one) for one in members]
    cited = [set(claims) if of == led.generation else set() for claims, of in said]
    counted = Counter(pair for claims in cited for pair in claims)
    several = {pair for pair, count in counted.items() if count > 1}
    owner_has = {
        pair for one, claims in zip(members, cited, strict=True)
        for pair in claims & several if led.owners.get(pair) == one.id
    }  # fmt: skip
    out, warnings = [], []
    for one, claims in zip(members, cited, strict=True):
        false = sorted(pair for pair in claims & owner_has if led.owners[pair] != one.id)
        if false:
            topic, number = false[0]
            what = f"{one.id} claims {topic}-{number}, which {led.owners[false[0]]} was given"
            warnings.append(f"{what}: that is not believed")
            left = [pair for pair in _claims(strategy, one)[0] if pair not in false]
            out.append(_claiming(strategy, one, left))
        else:
            out.append(one)
    return out, warnings


def _claims(strategy: Strategy, member: Member) -> tuple[Iterable[Partition], int]:
    """Return a member's claims as the strategy reads them, and their generation."""
    if strategy.name == Sticky.name:
        claims, of = decode_sticky_user_data(member.user_data)
        return claims, NO_GENERATION if of is None else of
    return member.owned, _generation(member)


def _claiming(strategy: Strategy, member: Member, claims: Sequence[Partition]) -> Member:
    if strategy.name == Sticky.name:
        of = _claims(strategy, member)[1]
        return member.replaced(user_data=encode_sticky_user_data(claims, of))
    return member.replaced(owned=Claims.of(claims))


def _generation(member: Member) -> int:
    """Return the generation of a cooperative member's claims.

    It is in the subscription, or before version 2 in the user data.
    """
    data = member.user_data
    if member.generation >= 0 or not data or len(data) < _GENERATION_BYTES:
        return member.generation
    return int.from_bytes(data[:_GENERATION_BYTES], "big", signed=True)


def _says_nothing(member: Member) -> str:
    size = len(member.user_data or b"")
    return f"{member.id} sent {size} bytes of user data that say nothing: it claims nothing by them"


def _by_user_data(member: Member, view: ClusterView, generation: int) -> tuple[Member, str | None]:
    claims, of = decode_sticky_user_data(member.user_data)
    wrong = _wrong(claims, NO_GENERATION if of is None else of, view, generation)
    if wrong is not None:
        said = f"{member.id} {wrong}: it is taken for a newcomer"
        return member.replaced(user_data=None, generation=NO_GENERATION), said
    if member.user_data and not claims and of == NO_GENERATION and not _empty(member.user_data):
        return member, _says_nothing(member)
    return member, None


def _empty(data: bytes) -> bool:
    """Return whether these are the bytes of a member that owned nothing."""
    return data == b"\0\0\0\0\xff\xff\xff\xff"


def _wrong(
    claims: Iterable[tuple[str, int]], of: int, view: ClusterView, generation: int
) -> str | None:
    # JoinGroup's response has the generation of the rebalance in progress.
    if generation >= 0 and of > generation:
        return f"claims partitions of generation {of}, a future one"
    lost = next(((t, p) for t, p in claims if not view.has(t, p)), None)
    return None if lost is None else f"claims {lost[0]}-{lost[1]}, which does not exist"
