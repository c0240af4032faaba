"""Simulation of successive rebalances under one strategy, one for each change of members or topics.

    rounds = pg.play("sticky", cluster, [pg.Join(a, b, c), pg.Leave("b"), pg.Metadata(larger)])
    [one.plan.to_dict() for one in rounds], [one.moved for one in rounds]

Members behave like Kafka's consumers (`ConsumerCoordinator` 4.3.1). Under the eager protocol they
revoke all partitions before they join. Under the cooperative one they send their owned partitions,
and a member that revokes a partition rejoins. A member sends its initial user data until its
strategy remembers an assignment. The member that joined first is the leader, with its own `config`.
Generations count from 1. If the broker assigns (``server:``), members keep their targets, and each
change has one plan.

A round without a plan is an outage: members of an eager group own nothing until the next round,
those of a cooperative group keep their partitions.

A cooperative group may never settle: each rebalance revokes a partition and so causes the next one.
An example is librdkafka's strategy with racks. The follow-ups of a change end when the group's
state repeats, and the last round's plan has a warning that names the cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from partage.errors import InvalidProblemError, UnsupportedProblemError
from partage.groups import registry
from partage.groups.api import RebalanceProtocol, Strategy
from partage.groups.subscriptions import (
    add_user_data,
    ineffective_config,
    memory_after_assignment,
    missing_topics,
    remembers_nothing,
    with_leader_settings,
    with_member_settings,
    without_foreign_data,
)
from partage.model import NO_GENERATION, Assignment, Claims, Cluster, Group, Member, Plan, Problem
from partage.model.display import MOST_ROWS, draw_strip, html_table, pretty_print, text_table
from partage.model.repeated_state import RepeatedState
from partage.model.validation import expect_kind, expect_text

__all__ = [
    "Change",
    "GroupSimulation",
    "Join",
    "Leave",
    "Metadata",
    "Round",
    "Rounds",
    "Subscribe",
    "play",
]

Pairs = tuple[tuple[str, int], ...]

#: Follow-ups after one change, for strategies whose memory differs each time. A group that
#: settles needs one or two.
_MOST_FOLLOW_UPS = 100
#: Partitions that a warning names.
_MOST_NAMED = 5


class Join:
    """Event for `play`: members join the simulated consumer group, in the given order.

    All members of one event join in the same rebalance. A member may already own partitions
    (`Member.owned`).

    >>> Join(Member("c1", ["t"]))
    Join(c1)
    """

    def __init__(self, *members: Member) -> None:
        for i, member in enumerate(members):
            expect_kind(member, Member, f"Join.members[{i}]")
        self.members = members

    def __repr__(self) -> str:
        return f"Join({', '.join(m.id for m in self.members)})"


class Leave:
    """Event for `play`: members leave the simulated consumer group, given by member id.

    All members of one event leave before the same rebalance.

    >>> Leave("c1", "c2")
    Leave(c1, c2)
    """

    def __init__(self, *ids: str) -> None:
        self.ids = tuple(expect_text(one, f"Leave.ids[{i}]") for i, one in enumerate(ids))

    def __repr__(self) -> str:
        return f"Leave({', '.join(self.ids)})"


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Event for `play`: a member changes the topics to which it subscribes.

    The member rejoins, which causes a rebalance.

    Attributes:
        id: the member's id.
        topics: names of the topics to which it subscribes from now on.
    """

    id: str
    topics: Sequence[str]

    def __post_init__(self) -> None:
        if isinstance(self.topics, (str, bytes)):
            what = "must be a list of names"
            raise InvalidProblemError(what, path=f"changes.{self.id}.topics", value=self.topics)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Event for `play`: topics of the cluster are created, extended or deleted.

    The change of metadata causes a rebalance.

    Attributes:
        cluster: the topics and partitions from now on.
    """

    cluster: Cluster


Change: TypeAlias = Join | Leave | Subscribe | Metadata


def _existing(cluster: Cluster, topic: int) -> list[int]:
    index = cluster.index
    mine = np.flatnonzero((index.topic_of == topic) & cluster.partition_exists)
    found: list[int] = mine.tolist()
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Round:
    """One simulated rebalance of a consumer group: its cause, the members and the resulting plan.

    `play` returns a sequence of rounds.

    Attributes:
        generation: the group's generation, from 1.
        change: the event that caused it; None for the follow-up of a cooperative rebalance.
        group: the members as they joined, with their owned partitions and user data.
        cluster: the leader's metadata.
        plan: the leader's `Plan`, in share groups an `Assignment`. If there is no plan, the
            partitions that members keep.
        before: the previous owner of each partition, by (topic, partition).
        refused: the reason why there is no plan: the strategy's error. None if there is a plan.
    """

    generation: int
    change: Change | None
    group: Group
    cluster: Cluster
    plan: Assignment
    before: dict[tuple[str, int], str]
    refused: str | None = None

    @cached_property
    def owner(self) -> dict[tuple[str, int], str]:
        """Consumer that owns each partition after the rebalance, by (topic, partition).

        In share groups, where several consumers read a partition, it is the first of them.
        """
        given = reversed(self.plan.to_pairs().items())
        return {p: member for member, pairs in given for p in pairs}

    @cached_property
    def moved(self) -> tuple[tuple[str, int], ...]:
        """Partitions that changed or lost their owner in this rebalance, sorted.

        They are (topic, partition) pairs. Partitions that had no owner before are not included.
        """
        return tuple(sorted(p for p, was in self.before.items() if self.owner.get(p) != was))

    @cached_property
    def unowned(self) -> tuple[tuple[str, int], ...]:
        """Partitions of subscribed topics that no consumer owns after this rebalance, sorted.

        They are (topic, partition) pairs. In a cooperative rebalance, moving partitions have no
        owner until the follow-up.
        """
        topics = Problem(self.group, self.cluster).subscribed_topics
        numbers = [p for t in topics.tolist() for p in _existing(self.cluster, t)]
        names = (self.cluster.index.name(p) for p in numbers)
        return tuple(sorted(name for name in names if name not in self.owner))

    def to_table_row(self) -> tuple[int, str, int, int, int, int]:
        """Return a summary of the rebalance as a table row: generation, cause and four counts.

        The counts are the numbers of members, of assigned partitions, of partitions with a new
        owner, and of partitions without owner.
        """
        change = "follow-up" if self.change is None else str(self.change)
        given = len(self.plan.partition)
        moved = sum(p in self.owner for p in self.moved)
        return self.generation, change, len(self.group), given, moved, len(self.unowned)

    def _repr_html_(self) -> str:
        return Rounds((self,))._repr_html_() + self.plan._repr_html_()

    def __repr__(self) -> str:
        what = f"refused: {self.refused}" if self.refused is not None else repr(self.plan)
        outage = f", {len(self.unowned)} partitions without an owner" if self.unowned else ""
        return f"Round({self.generation}, {self.change or 'follow-up'}, {what}{outage})"


class Rounds(tuple[Round, ...]):
    """Sequence of simulated rebalances that `play` returns.

    It is a tuple of `Round` objects that prints as a table, with one row for each rebalance.
    """

    __slots__ = ()
    COLUMNS = ("generation", "change", "members", "partitions", "moved", "unowned")

    def __repr__(self) -> str:
        if not self:
            return "()"
        rows = [tuple(map(str, one.to_table_row())) for one in self]
        return "\n".join([text_table([self.COLUMNS, *rows], left_columns=2), *self._refusals()])

    _repr_pretty_ = pretty_print

    def _repr_html_(self) -> str:
        members = dict.fromkeys(member for one in self for member in one.plan.members)
        colour = {member: i for i, member in enumerate(members)}
        partitions = sorted({p for one in self for p in (*one.owner, *one.unowned)})
        rows = [
            (
                *one.to_table_row(),
                draw_strip([colour.get(one.owner.get(p, ""), -1) for p in partitions]),
            )
            for one in self[:MOST_ROWS]
        ]
        more = len(self) - len(rows)
        notes = [*([f"and {more:,} more rounds"] if more else []), *self._refusals()]
        columns = (*self.COLUMNS, "partitions by owner")
        title = f"{len(self)} round{'' if len(self) == 1 else 's'}"
        return html_table(title, columns, rows, notes)

    def _refusals(self) -> list[str]:
        return [
            f"{one.generation} refused: {one.refused}" for one in self if one.refused is not None
        ]


def play(strategy: str | Strategy, cluster: Cluster, changes: Iterable[Change]) -> Rounds:
    """Simulate the rebalances that a sequence of changes causes in a consumer group.

    The result has one `Round` for each rebalance; a cooperative strategy may cause follow-ups. If
    the strategy raises an error, the round has the reason in ``refused``. If follow-ups never end,
    the last one has a warning in ``plan.warnings``.

    Args:
        strategy: name of the assignment strategy, or a strategy.
        cluster: the topics at the beginning.
        changes: the events in order: `Join`, `Leave`, `Subscribe` or `Metadata`.

    Raises:
        UnknownStrategyError: no strategy has that name.
        PluginFailedError: a plug-in raised an exception, or returned no plan.
        InvalidProblemError: a member that leaves or subscribes is not in the group, one that joins
            is already in it, or an argument has another type.

    >>> cluster = Cluster.from_topics({"A": 2, "B": 2})
    >>> three = [Member(c, ["A", "B"]) for c in ("C1", "C2", "C3")]
    >>> first, second = play("sticky", cluster, [Join(*three), Leave("C2")])
    >>> second.plan.to_dict(), second.moved
    ({'C1': {'A': [0], 'B': [1]}, 'C3': {'B': [0], 'A': [1]}}, (('A', 1),))
    >>> play("sticky", cluster, [Join(*three), Leave("C2")])
    generation  change            members  partitions  moved  unowned
    1           Join(C1, C2, C3)        3           4      0        0
    2           Leave(C2)               2           4      1        0
    """
    expect_kind(cluster, Cluster, "cluster")
    if not isinstance(changes, Iterable):
        raise InvalidProblemError("must be a list of changes", path="changes", value=changes)
    simulation = GroupSimulation(registry.load(strategy), cluster)
    for change in changes:
        simulation.apply_change(change)
    return Rounds(simulation.rounds)


def _expect_metadata(change: object) -> None:
    """Raise an error if an event of a group simulation is not a `Metadata` event.

    Events are `Join`, `Leave`, `Subscribe` and `Metadata`; the caller has handled the first three.

    Raises:
        InvalidProblemError: the value is no event at all.
    """
    if not isinstance(change, Metadata):
        what = "must be a Join, Leave, Subscribe or Metadata"
        raise InvalidProblemError(what, path="changes", value=change)


def _without_generation(memory: Any) -> object:
    if is_dataclass(memory) and hasattr(memory, "generation"):
        return replace(memory, generation=NO_GENERATION)  # type: ignore[type-var]  # an instance
    return memory


@dataclass(slots=True)
class _Consumer:
    """Simulated consumer between two rebalances, with the state that a real one would remember.

    Attributes:
        member: its id, subscription and settings.
        owned: (topic, partition) pairs that it owns.
        generation: the group generation in which it got them.
        memory: state that its assignor stored after the last rebalance.
    """

    member: Member
    owned: Pairs = ()
    generation: int = NO_GENERATION
    memory: object = None


def _newest_claims(
    consumers: Mapping[str, _Consumer],
) -> tuple[dict[tuple[str, int], str], tuple[str, ...]]:
    """Choose one owner for each partition that several simulated consumers report as owned.

    The report with the newest generation wins, then the consumer that joined first. The result is a
    dict from (topic, partition) to member id, and a warning if several consumers report a
    partition.
    """
    newest: dict[tuple[str, int], str] = {}
    contested = set()
    for member_id, one in consumers.items():
        for p in one.owned:
            other = newest.setdefault(p, member_id)
            if other != member_id:
                contested.add(p)
                if one.generation > consumers[other].generation:
                    newest[p] = member_id
    if not contested:
        return newest, ()
    what = "claimed by several members, shown with the newest claim"
    return newest, (f"{_name_partitions(contested)}: {what}",)


def _name_partitions(partitions: AbstractSet[tuple[str, int]]) -> str:
    named = ", ".join(f"{topic}-{p}" for topic, p in sorted(partitions)[:_MOST_NAMED])
    more = len(partitions) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


@dataclass(slots=True)
class GroupSimulation:
    """State of a simulated consumer group between two rebalances: members and cluster metadata.

    `apply_change` simulates the next rebalances; `play` does so for a sequence of events.

    Attributes:
        strategy: the strategy of all members.
        cluster: the current metadata.
        consumers: the consumers by member id, in join order; the first one leads.
        rounds: the rebalances so far.
        warnings: warnings of the next round, about user data and settings of joining members.
    """

    strategy: Strategy
    cluster: Cluster
    consumers: dict[str, _Consumer] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def apply_change(self, change: Change) -> None:
        """Apply an event, such as a joining member, and simulate the rebalances that it causes.

        The rebalances are appended to ``rounds``. An event that leaves the group empty causes none.

        Raises:
            InvalidProblemError: the value is not an event, or does not fit the group.
        """
        if isinstance(change, Join):
            with registry.plug_in_errors(self.strategy):
                joining = without_foreign_data(self.strategy, Group(change.members))
                for member in joining:
                    self._join(member)
                self.warnings += ineffective_config([self.strategy], joining)
                self.warnings += add_user_data(self.strategy, joining, self.cluster).warnings
        elif isinstance(change, Leave):
            for member_id in change.ids:
                self._consumer_of(member_id)
                del self.consumers[member_id]
        elif isinstance(change, Subscribe):
            one = self._consumer_of(change.id)
            one.member = one.member.replaced(topics=change.topics)
        else:
            _expect_metadata(change)
            self.cluster = change.cluster
        if self.consumers:
            self._simulate_rebalance(change)

    def _join(self, member: Member) -> None:
        if member.id in self.consumers:
            what = "member joins but is already in the group"
            raise InvalidProblemError(what, path="changes", value=member.id)
        one = _Consumer(member, tuple(member.owned), member.generation)
        if member.user_data is None:
            own = with_member_settings(self.strategy, member)
            one.memory = memory_after_assignment(own, member, self.cluster)
        self.consumers[member.id] = one

    def _consumer_of(self, member_id: str) -> _Consumer:
        if member_id not in self.consumers:
            what = "there is no such member"
            raise InvalidProblemError(what, path="changes", value=member_id)
        return self.consumers[member_id]

    @property
    def _cooperative(self) -> bool:
        return RebalanceProtocol.COOPERATIVE in self.strategy.protocols

    @property
    def _keeps_partitions(self) -> bool:
        # Cooperative and broker-side members keep their partitions while they rejoin.
        return self._cooperative or bool(getattr(self.strategy, "in_broker", False))

    def _simulate_rebalance(self, change: Change | None) -> None:
        """Simulate a rebalance and the follow-up rebalances of a cooperative group.

        Follow-ups end when members have no partitions to revoke, or when the group's state repeats.
        ``change`` is the event that causes the rebalance.
        """
        repeated = RepeatedState()
        for _ in range(_MOST_FOLLOW_UPS + 1):
            before = dict(self.rounds[-1].owner) if self.rounds else {}
            before |= {p: i for i, one in reversed(self.consumers.items()) for p in one.owned}
            revoking = self._add_round(change, before)
            if not (self._cooperative and revoking):
                return
            # The follow-ups would never end; a warning says so.
            if repeated.is_repeated(self._cycle_state()):
                self._warn_of_cycle(repeated.length)
                return
            change = None
        what = f"the group does not settle: it still revokes partitions after {_MOST_FOLLOW_UPS}"
        self._warn(f"{what} follow-up rebalances")

    def _cycle_state(self) -> object:
        """Return the members' partitions and stored states, to detect endless follow-up rebalances.

        If a cooperative group has the same state twice, its follow-up rebalances repeat forever.
        """
        # The generation is left out, because it grows with each rebalance.
        return [
            (member_id, one.owned, _without_generation(one.memory))
            for member_id, one in self.consumers.items()
        ]

    def _warn_of_cycle(self, length: int) -> None:
        moving = _name_partitions({p for one in self.rounds[-length:] for p in one.moved})
        again = "every rebalance" if length == 1 else f"every {length} rebalances"
        self._warn(
            f"the group does not settle: each follow-up rebalance revokes partitions and causes"
            f" another; {moving} change owner in a cycle that repeats {again}"
        )

    def _warn(self, warning: str) -> None:
        last = self.rounds[-1]
        assert isinstance(last.plan, Plan)  # noqa: S101 - share groups are not cooperative
        self.rounds[-1] = replace(last, plan=last.plan.with_warnings((warning,)))

    def _add_round(self, change: Change | None, before: dict[tuple[str, int], str]) -> bool:
        generation = len(self.rounds) + 1
        group = Group(self._joining_member(one) for one in self.consumers.values())
        leader = next(iter(self.consumers.values()))
        deciding = with_leader_settings(self.strategy, group)
        try:
            plan = registry.assign_with(deciding, Problem(group, self.cluster), leader.memory)
        except UnsupportedProblemError as e:
            self._add_refused_round(generation, change, group, before, str(e))
            return False
        plan = plan.with_warnings((*missing_topics(group, self.cluster), *self.warnings))
        self.warnings.clear()
        # A share group's result is an Assignment, without memory and user data.
        memory, sent = getattr(plan, "memory", None), getattr(plan, "user_data", {})
        if memory is not None:
            leader.memory = memory
        self.rounds.append(Round(generation, change, group, self.cluster, plan, before))
        revoking, remembers = False, not remembers_nothing(self.strategy)
        given = plan.to_pairs()
        for i, (member_id, one) in enumerate(self.consumers.items()):
            own = tuple(given[member_id])
            if len(group[i].owned):
                revoking = revoking or not set(group[i].owned) <= set(own)
            one.owned, one.generation = own, generation
            if not remembers:
                one.memory = None
                continue
            part = Assignment.from_lists(plan.index, (member_id,), [plan.partitions_of(i)])
            with registry.plug_in_errors(self.strategy):
                one.memory = self.strategy.on_assignment(
                    part, sent.get(member_id), generation, one.memory
                )
        return revoking

    def _add_refused_round(
        self,
        generation: int,
        change: Change | None,
        group: Group,
        previous_owner: dict[tuple[str, int], str],
        reason: str,
    ) -> None:
        """Record a rebalance without an assignment, because the assignor raised an error.

        Members of an eager group then own nothing until the next rebalance; others keep their
        partitions. ``reason`` is the message of the error, ``previous_owner`` the owner of each
        partition before.
        """
        for one, member in zip(self.consumers.values(), group, strict=True):
            one.owned = tuple(member.owned) if self._keeps_partitions else ()
        # Members keep what they own until the next rebalance. If several members report a
        # partition, the one with the newest generation is shown as its owner.
        owner, contested = _newest_claims(self.consumers)
        owned = {
            member_id: [p for p in dict.fromkeys(one.owned) if owner[p] == member_id]
            for member_id, one in self.consumers.items()
        }
        topic_number = {t: self.cluster.topic(t) for m in group for t in m.owned.topics}
        warnings = (reason, *contested)
        left: Plan = Plan.of(self.cluster.index, owned, topic_number, warnings=warnings)
        self.rounds.append(
            Round(generation, change, group, self.cluster, left, previous_owner, reason)
        )

    def _joining_member(self, consumer: _Consumer) -> Member:
        """Build the `Member` that a simulated consumer sends when it joins a rebalance.

        It has the consumer's owned partitions and its assignor's user data. In an eager group it
        has no owned partitions, because the consumer has revoked them. Partitions of topics to
        which the consumer no longer subscribes are left out.
        """
        topics = set(consumer.member.topics)
        owned = [p for p in consumer.owned if p[0] in topics] if self._keeps_partitions else []
        data = consumer.member.user_data
        # A member's initial user data counts until its strategy remembers an assignment.
        if data is None or consumer.memory is not None:
            with registry.plug_in_errors(self.strategy):
                own = with_member_settings(self.strategy, consumer.member)
                data = own.subscription_user_data(consumer.member.topics, consumer.memory)
        if data is None:
            data = consumer.member.user_data
        claims, generation = Claims.from_owned(tuple(owned)), consumer.generation
        if data is None or type(data) is bytes:
            return consumer.member.rejoined(claims, generation, data)
        return consumer.member.replaced(owned=claims, generation=generation, user_data=data)
