"""A group's life under one strategy: what each change of members or topics leads to.

    rounds = pg.play("sticky", cluster, [pg.Join(a, b, c), pg.Leave("b"), pg.Metadata(larger)])
    [one.plan.to_dict() for one in rounds], [one.moved for one in rounds]

Members do what Kafka's consumers do (`ConsumerCoordinator` 4.3.1): under the eager protocol
they give everything up before they join, under the cooperative one they say what they own,
and who has to give something up joins once more. User data and memory go the way of the
strategy's contract. The member that has been there longest leads. Generations count from 1.
Where the broker decides (``server:``), members keep their targets, and one plan is all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from partage.errors import InvalidProblemError
from partage.groups import registry
from partage.groups.api import RebalanceProtocol, Strategy
from partage.model import NO_GENERATION, Assignment, Claims, Cluster, Group, Member, Plan, Problem

__all__ = ["Change", "Join", "Leave", "Metadata", "Round", "Subscribe", "play", "rejoining"]

Pairs = tuple[tuple[str, int], ...]


class Join:
    """Members join, in this order; what they claim to own counts.

    >>> Join(Member("c1", ["t"]))
    Join(c1)
    """

    def __init__(self, *members: Member) -> None:
        self.members = members

    def __repr__(self) -> str:
        return f"Join({', '.join(m.id for m in self.members)})"


class Leave:
    """Members leave.

    >>> Leave("c1", "c2")
    Leave(c1, c2)
    """

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def __repr__(self) -> str:
        return f"Leave({', '.join(self.ids)})"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A member changes its subscription."""

    id: str
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class Metadata:
    """Topics appear, grow or vanish: the cluster from now on."""

    cluster: Cluster


Change: TypeAlias = Join | Leave | Subscribe | Metadata


@dataclass(frozen=True, eq=False)
class Round:
    """One rebalance.

    Attributes:
        generation: its number, from 1.
        change: what led to it; None for the follow-up of a cooperative rebalance.
        group: the members as they joined, with their claims and user data.
        cluster: the metadata that the leader saw.
        plan: what the leader decided.
        before: who owned what until then, by (topic, number).
    """

    generation: int
    change: Change | None
    group: Group
    cluster: Cluster
    plan: Plan
    before: dict[tuple[str, int], str]

    @cached_property
    def owner(self) -> dict[tuple[str, int], str]:
        """Who owns what from now on; of a share group's several members the first."""
        given = reversed(self.plan.to_pairs().items())
        return {p: member for member, pairs in given for p in pairs}

    @cached_property
    def moved(self) -> tuple[tuple[str, int], ...]:
        """Partitions that somebody had and that now somebody else has, or nobody, sorted."""
        return tuple(sorted(p for p, was in self.before.items() if self.owner.get(p) != was))


def play(
    strategy: str | Strategy, cluster: Cluster, changes: Iterable[Change]
) -> tuple[Round, ...]:
    """Live through ``changes``, each a rebalance of its own, and its follow-ups.

    Raises:
        UnknownStrategyError: there is no strategy of that name.
        InvalidProblemError: somebody leaves or subscribes who is not there, or joins twice.
        UnsupportedProblemError: the strategy refuses a round.

    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> three = [Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")]
    >>> first, second = play("sticky", cluster, [Join(*three), Leave("C2")])
    >>> second.plan.to_dict(), second.moved
    ({'C1': {'A': [0], 'B': [1]}, 'C3': {'B': [0], 'A': [1]}}, (('A', 1),))
    """
    life = _Life(registry.find(strategy), cluster)
    for change in changes:
        life.happens(change)
    return tuple(life.rounds)


def rejoining(strategy: Strategy, group: Group, cluster: Cluster) -> Group:
    """Members with the user data that they would send, had ``strategy`` given them what they own.

    Who has user data keeps it; where a strategy remembers nothing, nothing is made up. Kafka's
    sticky assignor reads its user data only, so a group that is described by ``owned`` and
    ``generation`` has to pass here first.

    >>> member = Member("c1", ["t"], owned={"t": [1]}, generation=3)
    >>> cluster = Cluster.from_topics({"t": 2})
    >>> rejoining(registry.find("sticky"), Group([member]), cluster)[0].user_data.hex()
    '00000001000174000000010000000100000003'
    """
    members = []
    for member in group:
        data = member.user_data
        if data is None and len(member.owned):
            owned = Assignment.of(
                cluster.index,
                {member.id: member.owned},
                {t: cluster.topic(t) for t in member.owned.topics},
            )
            memory = strategy.on_assignment(owned, None, member.generation)
            if memory is not None:
                data = strategy.subscription_user_data(member.topics, memory)
        members.append(member if data is member.user_data else member.replaced(user_data=data))
    return Group(members)


@dataclass(slots=True)
class _Consumer:
    """What a consumer knows between rebalances."""

    member: Member
    owned: Pairs = ()
    generation: int = NO_GENERATION
    memory: object = None


@dataclass(slots=True)
class _Life:
    strategy: Strategy
    cluster: Cluster
    consumers: dict[str, _Consumer] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    def happens(self, change: Change) -> None:
        if isinstance(change, Join):
            for member in change.members:
                self._joins(member)
        elif isinstance(change, Leave):
            for member_id in change.ids:
                self._known(member_id)
                del self.consumers[member_id]
        elif isinstance(change, Subscribe):
            one = self._known(change.id)
            one.member = one.member.replaced(topics=change.topics)
        else:
            self.cluster = change.cluster
        if self.consumers:
            self._rebalance(change)

    def _joins(self, member: Member) -> None:
        if member.id in self.consumers:
            what = "member joins, and is there already"
            raise InvalidProblemError(what, path="changes", value=member.id)
        self.consumers[member.id] = _Consumer(member, tuple(member.owned), member.generation)

    def _known(self, member_id: str) -> _Consumer:
        if member_id not in self.consumers:
            what = "there is no such member"
            raise InvalidProblemError(what, path="changes", value=member_id)
        return self.consumers[member_id]

    @property
    def _cooperative(self) -> bool:
        return RebalanceProtocol.COOPERATIVE in self.strategy.protocols

    def _rebalance(self, change: Change | None) -> None:
        """One round, and as many more as cooperative members need to let go."""
        while True:
            before = dict(self.rounds[-1].owner) if self.rounds else {}
            before |= {p: i for i, one in reversed(self.consumers.items()) for p in one.owned}
            letting_go = self._round(change, before)
            if not (self._cooperative and letting_go):
                return
            change = None

    def _round(self, change: Change | None, before: dict[tuple[str, int], str]) -> bool:
        """Whether somebody lost what it had."""
        generation = len(self.rounds) + 1
        group = Group(self._sent(one) for one in self.consumers.values())
        leader = next(iter(self.consumers.values()))
        plan = self.strategy.assign(Problem(group, self.cluster), leader.memory)
        # A share group's plan is an Assignment: nothing is remembered, nothing sent along.
        memory, sent = getattr(plan, "memory", None), getattr(plan, "user_data", {})
        if memory is not None:
            leader.memory = memory
        self.rounds.append(Round(generation, change, group, self.cluster, plan, before))
        letting_go = False
        given = plan.to_pairs()
        for i, (member_id, one) in enumerate(self.consumers.items()):
            mine = tuple(given[member_id])
            letting_go = letting_go or not set(group[i].owned) <= set(mine)
            part = Assignment.from_lists(plan.index, (member_id,), [plan.partitions_of(i)])
            one.memory = self.strategy.on_assignment(
                part, sent.get(member_id), generation, one.memory
            )
            one.owned, one.generation = mine, generation
        return letting_go

    def _sent(self, one: _Consumer) -> Member:
        """Its subscription: what it may not consume any more it has given up before."""
        mine = set(one.member.topics)
        keeps = self._cooperative or getattr(self.strategy, "in_broker", False)
        owned = [p for p in one.owned if p[0] in mine] if keeps else []
        data = self.strategy.subscription_user_data(one.member.topics, one.memory)
        if data is None:
            data = one.member.user_data
        return one.member.replaced(
            owned=Claims.of(owned), generation=one.generation, user_data=data
        )
