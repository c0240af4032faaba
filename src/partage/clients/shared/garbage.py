"""Claims that cannot be true: a member that sends them must not hurt the others.

Kafka's sticky assignors believe a claim of partition 5 of a topic that has three, and can fail for
the whole group (Q26), and a claim of a generation that is yet to come beats all others for ever
(Q6). A living group has to go on: here such a member claims nothing, gets its share like a
newcomer, and a warning says why. Bytes that are no user data at all mean "nothing" in Kafka too.
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
    """The member, without the claims that cannot be true; and what was wrong with them.

    ``generation`` is the group's, -1 where it is not known.

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
    # Kafka's cooperative members send their generation, four bytes, and nothing else; where a
    # strategy has nothing to send there is nothing to read.
    silent = not cooperates and strategy.subscription_user_data(member.topics, None) is None
    strange = len(member.user_data or b"") not in {0, 0 if silent else _GENERATION_BYTES}
    if strange and (cooperates or silent):
        return member, _says_nothing(member)
    return member, None


@dataclass(frozen=True, slots=True)
class OwnLastPlan:
    """The last plan that this leader made itself: who was given what.

    Attributes:
        generation: of the group, -1 where it is not known.
        owners: member by partition; what was withheld is missing.
    """

    generation: int
    owners: Mapping[Partition, str]


def undisputed(
    strategy: Strategy, members: Sequence[Member], led: OwnLastPlan | None
) -> tuple[list[Member], list[str]]:
    """Members without claims that another one has too, and was given by the plan that both cite.

    Kafka's class believes neither of them then: one member that claims everything would take
    everything from all. Who made that plan knows better.

    >>> from partage.groups.registry import find
    >>> two = [Member(m, ["t"], owned={"t": [0]}, generation=4) for m in "az"]
    >>> members, said = undisputed(find("cooperative-sticky"), two, Led(4, {("t", 0): "a"}))
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
    """What counts as a member's claims, and their generation."""
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
    """The one that counts for a cooperative member's claims: its subscription's, or where that has
    none (before version 2) the one in its user data.
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
    """What a member sends that was in a group and owned nothing."""
    return data == b"\0\0\0\0\xff\xff\xff\xff"


def _wrong(
    claims: Iterable[tuple[str, int]], of: int, view: ClusterView, generation: int
) -> str | None:
    # The group's number in the answer to JoinGroup is that of the generation now made.
    if generation >= 0 and of > generation:
        return f"claims partitions of generation {of}, which is yet to come"
    lost = next(((t, p) for t, p in claims if not view.has(t, p)), None)
    return None if lost is None else f"claims {lost[0]}-{lost[1]}, which does not exist"
