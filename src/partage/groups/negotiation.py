"""How the coordinator chooses a group's strategy, and whom it turns away.

The rules of ``ClassicGroup`` (Kafka's group coordinator, 4.3.1). A group is a value here:
a member that is refused leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from partage.errors import InconsistentGroupProtocolError, InvalidConfigError
from partage.groups.api import RebalanceProtocol, Strategy
from partage.groups.members_map import MembersMap
from partage.javaorder import hash_order, string_hash, string_ranks

__all__ = ["Negotiation", "rebalance_protocol"]


@dataclass(frozen=True)
class Negotiation:
    """The members of a group with the strategies that each supports, preferred one first.

    A name that a member lists twice counts once (Kafka's clients never list one twice).

    Attributes:
        protocol_type: "consumer", "connect", ...; None while the group has no members.
        members: (member id, supported strategies) in the order in which they joined.
        mapped: the coordinator's map of their ids, by whose order votes are counted.

    >>> group = Negotiation().join("a", ["range"]).join("b", ["sticky", "range"])
    >>> group.candidates(), group.selected
    (('range',), 'range')
    >>> group.join("c", ["sticky"])
    Traceback (most recent call last):
    partage.errors.InconsistentGroupProtocolError: c supports sticky; ...
    """

    protocol_type: str | None = None
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()
    mapped: MembersMap = field(default_factory=MembersMap)

    def join(
        self, member_id: str, supported: Sequence[str], *, protocol_type: str = "consumer"
    ) -> Negotiation:
        """The group with a member more, or with what a member of it now supports.

        A group without members takes any protocol type but the empty one, and any list but
        the empty one. One with members takes who has their protocol type and at least one
        strategy that all of them support. A member that joins again is judged by the same
        rule, with what it supported before counted among the others.

        Raises:
            InconsistentGroupProtocolError: the member is refused.
        """
        names = tuple(dict.fromkeys(supported))
        if not self.members:
            _expect_something(member_id, names, protocol_type)
        elif protocol_type != self.protocol_type:
            what = (
                f"{member_id} has protocol type {protocol_type!r}, the group {self.protocol_type!r}"
            )
            raise InconsistentGroupProtocolError(what)
        elif not set(names) & set(self.candidates()):
            what = (
                f"{member_id} supports {', '.join(names) or 'nothing'}; "
                f"all members of the group support {', '.join(self.candidates())}"
            )
            raise InconsistentGroupProtocolError(what)
        entry = (member_id, names)
        if member_id in self.mapped.spread:
            members = tuple(entry if one[0] == member_id else one for one in self.members)
            return replace(self, members=members)
        return Negotiation(protocol_type, (*self.members, entry), self.mapped.with_id(member_id))

    def leave(self, member_id: str) -> Negotiation:
        """The group without a member (without change if it has no such member)."""
        if member_id not in self.mapped.spread:
            return self
        members = tuple(one for one in self.members if one[0] != member_id)
        protocol_type = self.protocol_type if members else None
        return Negotiation(protocol_type, members, self.mapped.without(member_id))

    def candidates(self) -> tuple[str, ...]:
        """What all members support, in the order of the member that joined first."""
        lists = [names for _, names in self.members]
        return tuple(n for n in lists[0] if all(n in one for one in lists)) if lists else ()

    def votes(self) -> dict[str, int]:
        """Each member votes for the candidate that it prefers; in the order of first votes."""
        candidates = set(self.candidates())
        count: dict[str, int] = {}
        supported = dict(self.members)
        for member_id in self.mapped.order():
            mine = next(name for name in supported[member_id] if name in candidates)
            count[mine] = count.get(mine, 0) + 1
        return count

    @property
    def selected(self) -> str | None:
        """The strategy with the most votes; None for a group without members.

        Of equally many votes, the first in the coordinator's ``HashMap`` of votes wins.
        """
        votes = self.votes()
        names = list(votes)
        order = hash_order([string_hash(n) for n in names], rank=lambda: string_ranks(names))
        # max takes the first of equals, as Stream.max does there.
        return max((names[i] for i in order), key=votes.__getitem__, default=None)


def _expect_something(member_id: str, names: tuple[str, ...], protocol_type: str) -> None:
    if not protocol_type:
        what = f"{member_id}, the group's first member, has an empty protocol type"
        raise InconsistentGroupProtocolError(what)
    if not names:
        what = f"{member_id}, the group's first member, supports no strategy at all"
        raise InconsistentGroupProtocolError(what)


def rebalance_protocol(strategies: Iterable[Strategy]) -> RebalanceProtocol:
    """What a consumer with these strategies speaks: the highest that all of them support.

    Kafka's default list, range and cooperative-sticky, therefore speaks EAGER: going over
    to COOPERATIVE takes a second rolling restart, without range.

    Raises:
        InvalidConfigError: no strategy is given, or they have no protocol in common.

    >>> from partage.groups.registry import find
    >>> rebalance_protocol([find("range")]).name
    'EAGER'
    """
    configured = list(strategies)
    supported = [set(one.protocols) for one in configured]
    common = set.intersection(*supported) if supported else set()
    if not common:
        names = [one.name for one in configured]
        what = "the strategies have no rebalance protocol in common"
        raise InvalidConfigError("partition.assignment.strategy", what, names)
    return max(common)
