"""Negotiation of a group's strategy between its members and the group coordinator.

The rules are those of ``ClassicGroup`` (Kafka's group coordinator, 4.3.1). A group is an immutable
value here: if a member is rejected, the group is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from partage.errors import (
    InconsistentGroupProtocolError,
    InvalidConfigError,
    InvalidProblemError,
)
from partage.groups import registry
from partage.groups.api import RebalanceProtocol, Strategy
from partage.java.hash_order import StringMap, hash_order
from partage.java.strings import string_hash, string_ranks
from partage.model import Group
from partage.model.validation import expect_kind, expect_text, name_list

__all__ = ["DEFAULT_STRATEGIES", "Negotiated", "Negotiation", "negotiate", "rebalance_protocol"]

#: ``partition.assignment.strategy`` of a consumer that does not set it (Kafka 3.0 to 4.3).
DEFAULT_STRATEGIES = ("range", "cooperative-sticky")


@dataclass(frozen=True)
class Negotiation:
    """Assignors that each member of a group supports; Kafka's coordinator selects one of them.

    Strategies are protocol names, such as "range"; a Java class name is replaced by the protocol
    name (`registry.protocol_name`). A name that a member lists twice counts once.

    Attributes:
        protocol_type: "consumer", "connect", ...; None while the group has no members.
        members: pairs of member id and supported strategies (preferred one first), in join order.
        member_map: the coordinator's map of member ids, in whose order votes are counted.

    >>> group = Negotiation().join("a", ["range"]).join("b", ["sticky", "range"])
    >>> group.candidates(), group.selected
    (('range',), 'range')
    >>> group.join("c", ["sticky"])
    Traceback (most recent call last):
    partage.errors.InconsistentGroupProtocolError: c cannot join the group (inconsistent ...
    """

    protocol_type: str | None = None
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()
    member_map: StringMap = field(default_factory=StringMap)

    def join(
        self, member_id: str, supported: Sequence[str], *, protocol_type: str = "consumer"
    ) -> Negotiation:
        """Return the group after a member has joined, or rejoined with other supported assignors.

        The member must have the group's protocol type and support an assignor that all members
        support. The first member of a group is always accepted if it supports any.

        Args:
            member_id: id of the member that joins.
            supported: names of its assignors, preferred one first; a member that rejoins must keep
                one.
            protocol_type: "consumer", "connect", ...

        Raises:
            InconsistentGroupProtocolError: the member cannot join the group.
            InvalidProblemError: ``supported`` is a string or not a list of names, or the id is not
                a string.
        """
        expect_text(member_id, "member_id")
        if isinstance(supported, str):
            what = f"must be a list of names: [{supported!r}]"
            raise InvalidProblemError(what, path=f"{member_id}.supported", value=supported)
        listed = name_list(supported, f"{member_id}.supported") if supported else ()
        names = tuple(dict.fromkeys(map(registry.protocol_name, listed)))
        if not self.members:
            _expect_first_member(member_id, names, protocol_type)
        elif protocol_type != self.protocol_type:
            what = (
                f"{member_id} has protocol type {protocol_type!r}, the group {self.protocol_type!r}"
            )
            raise InconsistentGroupProtocolError(what)
        elif not set(names) & set(self.candidates()):
            what = (
                f"{member_id} cannot join the group (inconsistent group protocol): it supports "
                f"{', '.join(names) or 'nothing'}, and the strategies that all other members "
                f"support are {', '.join(self.candidates())}"
            )
            raise InconsistentGroupProtocolError(what)
        entry = (member_id, names)
        if member_id in self.member_map.spread:
            members = tuple(entry if one[0] == member_id else one for one in self.members)
            return replace(self, members=members)
        members = (*self.members, entry)
        return Negotiation(protocol_type, members, self.member_map.with_key(member_id))

    def leave(self, member_id: str) -> Negotiation:
        """Return the group after a member has left.

        The assignors that only this member did not support become candidates again. An unknown
        ``member_id`` changes nothing.
        """
        if member_id not in self.member_map.spread:
            return self
        members = tuple(one for one in self.members if one[0] != member_id)
        protocol_type = self.protocol_type if members else None
        return Negotiation(protocol_type, members, self.member_map.without_key(member_id))

    def candidates(self) -> tuple[str, ...]:
        """Return the assignors that all group members support.

        The coordinator selects one of them. They are in the first member's order of preference.
        """
        lists = [names for _, names in self.members]
        return tuple(n for n in lists[0] if all(n in one for one in lists)) if lists else ()

    def votes(self) -> dict[str, int]:
        """Count how many members vote for each assignor that all of them support.

        Each member votes for the first such assignor in its own list of preferences. The dict is in
        the order of first votes, for example ``{"range": 2, "sticky": 1}``.
        """
        candidates = set(self.candidates())
        count: dict[str, int] = {}
        supported = dict(self.members)
        for member_id in self.member_map.iteration_order():
            vote = next(name for name in supported[member_id] if name in candidates)
            count[vote] = count.get(vote, 0) + 1
        return count

    @property
    def selected(self) -> str | None:
        """Assignor with the most votes, which the group uses; None for a group without members.

        If several have equally many votes, the iteration order of the coordinator's Java
        ``HashMap`` decides.
        """
        votes = self.votes()
        names = list(votes)
        # Of strategies with equally many votes, the first in the iteration order of the
        # coordinator's HashMap wins.
        order = hash_order([string_hash(n) for n in names], rank=lambda: string_ranks(names))
        # max takes the first of equals, as Stream.max does there.
        return max((names[i] for i in order), key=votes.__getitem__, default=None)


def _expect_first_member(member_id: str, names: tuple[str, ...], protocol_type: str) -> None:
    """Raise an error if the first member of a group lacks a protocol type or supports no assignor.

    Kafka's coordinator rejects such a member with error 23. The error here is
    `InconsistentGroupProtocolError`.
    """
    if not protocol_type:
        what = f"{member_id}, the group's first member, has an empty protocol type"
        raise InconsistentGroupProtocolError(what)
    if not names:
        what = f"{member_id}, the group's first member, supports no strategy at all"
        raise InconsistentGroupProtocolError(what)


@dataclass(frozen=True)
class Negotiated:
    """Assignor that the coordinator selects for a consumer group, with the votes and the reason.

    `negotiate` returns it; printed, it is a sentence such as "range: the only strategy that all 3
    members support".

    Attributes:
        strategy: the protocol name that the coordinator selected.
        decided_by: the leader's name for the selected strategy; a name such as `librdkafka:range`
            means the algorithm of that client library.
        leader: the member that runs the strategy, the first that joined.
        candidates: the protocol names that all members support.
        votes: number of members that prefer each candidate.
        reason: why this strategy was selected, in one sentence.
    """

    strategy: str
    decided_by: str
    leader: str
    candidates: tuple[str, ...]
    votes: dict[str, int]
    reason: str

    def __str__(self) -> str:
        return f"{self.strategy}: {self.reason}"


def negotiate(group: Group) -> Negotiated:
    """Return the assignor that Kafka's coordinator selects for a group, with the reason.

    Members join in the group's order, each with its `strategies`; a member that lists none supports
    Kafka's default, ``range`` and ``cooperative-sticky``.

    Raises:
        InconsistentGroupProtocolError: a member cannot join the group (Kafka's error 23).
        InvalidProblemError: ``group`` is not a `Group`, or has no members.

    >>> from partage.model import Member
    >>> group = Group([Member("a", strategies=["sticky", "range"]),
    ...                Member("b", strategies=["range", "sticky"]),
    ...                Member("c", strategies=["range", "roundrobin"])])
    >>> print(negotiate(group))
    range: the only strategy that all 3 members support
    """
    expect_kind(group, Group, "group")
    if not len(group):
        raise InvalidProblemError("has no members", path="group", value=group)
    joined = Negotiation()
    for member in group:
        joined = joined.join(member.id, member.strategies or DEFAULT_STRATEGIES)
    chosen, candidates, votes = joined.selected, joined.candidates(), joined.votes()
    assert chosen is not None  # noqa: S101 - the group has members
    listed = group[0].strategies or DEFAULT_STRATEGIES
    own = next(name for name in listed if registry.protocol_name(name) == chosen)
    reason = _explain_selection(chosen, candidates, votes, len(group))
    return Negotiated(chosen, own, group.ids[0], candidates, votes, reason)


def _explain_selection(
    chosen: str, candidates: tuple[str, ...], votes: dict[str, int], members: int
) -> str:
    if len(candidates) == 1:
        everyone = "that the only member supports" if members == 1 else (
            f"that all {members} members support"
        )  # fmt: skip
        return f"the only strategy {everyone}"
    others = ", ".join(f"{name} {votes.get(name, 0)}" for name in candidates if name != chosen)
    most = f"{votes[chosen]} of {members} members prefer it among those that all support"
    if any(count == votes[chosen] for name, count in votes.items() if name != chosen):
        most += ", and it comes first of equals in the coordinator's hash map"
    return f"{most} (others: {others})"


def rebalance_protocol(strategies: Iterable[Strategy]) -> RebalanceProtocol:
    """Return the rebalance protocol of a consumer: the highest one that all its assignors support.

    A consumer with Kafka's default list, range and cooperative-sticky, therefore uses EAGER.

    Raises:
        InvalidConfigError: there are no strategies, or they have no protocol in common.

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
