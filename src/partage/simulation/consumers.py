"""Members as a policy knows them: what they hold, what they remember, what they send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from partage.groups.api import Strategy
from partage.history.problems import surviving
from partage.history.records import MemberState
from partage.model import NO_GENERATION, Assignment, Claims, Cluster, Group, Member
from partage.model.index import Int32Array
from partage.simulation.policies import Policy

__all__ = [
    "EMPTY",
    "GONE",
    "NOBODY",
    "SimulatedConsumer",
    "as_owned",
    "last_owners",
    "owners",
    "sent",
]

EMPTY: Int32Array = np.zeros(0, np.int32)
#: In an owner view: nobody, and one who is no longer in the group.
NOBODY, GONE = -1, -2


@dataclass(slots=True)
class SimulatedConsumer:
    """One member between two rebalances.

    Attributes:
        key: what it is known by for as long as it lives: instance id or member id, and over
            the restarts of a member that a policy makes static, the id it had first.
        state: as last recorded.
        held: int32, dense numbers of what it may read now; in the consumer protocol, its target.
        last: int32, the same with what it gave up and nobody has got yet.
        generation: of the last assignment that it got.
        memory: what the strategy wants it to remember.
    """

    key: str
    state: MemberState
    held: Int32Array = field(default_factory=lambda: EMPTY)
    last: Int32Array = field(default_factory=lambda: EMPTY)
    generation: int = NO_GENERATION
    memory: object = None

    @property
    def topics(self) -> tuple[str, ...]:
        """What it subscribes to, in the order sent."""
        sent = self.state.subscription
        return () if sent is None else sent.topics

    def gets(self, strategy: Strategy, part: Assignment, data: bytes | None, number: int) -> None:
        """It got its part of an assignment: it holds that, and remembers."""
        self.held = part.partition
        self.generation = number
        self.memory = strategy.on_assignment(part, data, number, self.memory)


def sent(
    consumers: Sequence[SimulatedConsumer], policy: Policy, strategy: Strategy, cluster: Cluster
) -> Group:
    """What members send when they join, or what the coordinator knows of them.

    Eager members have given everything up before they join; cooperative ones say what they
    hold of the topics that they still want (the rest they have given up); a coordinator knows
    everybody's target.

    Raises:
        InvalidProblemError: the record has what no member can have sent.
    """
    members = []
    for one in consumers:
        topics, data, claims = one.topics, None, Claims.of(())
        subscription = one.state.subscription
        if not policy.eager and len(one.held):
            claims = surviving(cluster.index, _wanted(one, policy, cluster), cluster)
        if policy.eager or policy.cooperative:
            data = strategy.subscription_user_data(topics, one.memory)
        members.append(
            Member(
                one.state.id, topics, rack=None if subscription is None else subscription.rack,
                instance_id=one.state.instance or (one.key if policy.static else None),
                owned=claims, generation=one.generation, user_data=data,
            )
        )  # fmt: skip
    return Group(members)


def _wanted(one: SimulatedConsumer, policy: Policy, cluster: Cluster) -> Int32Array:
    """Of what it holds, what it still subscribes to; a coordinator drops the rest itself."""
    if not policy.cooperative:
        return one.held
    topics = [t for t in cluster.topic_all(list(one.topics)) if t >= 0]
    wanted: Int32Array = one.held[np.isin(cluster.index.topic_of[one.held], topics)]
    return wanted


def as_owned(group: Group, consumers: Sequence[SimulatedConsumer], cluster: Cluster) -> Group:
    """The members as the judge wants them: owning what they read last."""
    return Group(
        member.replaced(
            owned=surviving(cluster.index, one.last, cluster), generation=max(one.generation, 0)
        )
        for member, one in zip(group, consumers, strict=True)
    )


def last_owners(
    before: Mapping[str, Int32Array], now: Mapping[str, Int32Array]
) -> dict[str, Int32Array]:
    """Who had each partition last, of the members that are there.

    In the first step of a cooperative rebalance a partition is taken from its owner and given
    to nobody (KIP-429): it has moved when the second step gives it to another member.
    """
    given = np.concatenate([*now.values(), EMPTY])
    had = np.concatenate([*before.values(), EMPTY])
    taken = np.zeros(max(given.max(initial=-1), had.max(initial=-1)) + 1, bool)
    taken[given] = True
    out = {}
    for owner, mine in now.items():
        old = before.get(owner, EMPTY)
        kept = old[~taken[old]]
        out[owner] = np.concatenate([mine, kept]) if len(kept) else mine
    return out


def owners(size: int, lists: Iterable[Int32Array], gone: Iterable[Int32Array] = ()) -> Int32Array:
    """int32[P]: position of who has each partition, `GONE` or `NOBODY`."""
    owner = np.full(size, NOBODY, np.int32)
    for dense in gone:
        owner[dense] = GONE
    for i, dense in enumerate(lists):
        owner[dense] = i
    return owner
