"""Histories of a group written by hand, for the tests of simulation."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace

from partage.history.clusters import ClusterHistory
from partage.history.departures import DepartedMembers
from partage.history.events import Cause, Generation
from partage.history.pauses import Pause
from partage.history.records import ClassicState, LogPosition, MemberState, Subscription
from partage.simulation.commit_statistics import CommitStatistics
from partage.simulation.context import SimulationContext
from partage.simulation.cumulative import simulate_cumulative
from partage.simulation.metrics import SimulatedRebalance
from partage.simulation.per_rebalance import simulate_rebalance
from partage.simulation.policies import Policy
from partage.simulation.recorded_rebalances import RecordedRebalance, recorded_rebalances
from partage.tables.statuses import CAUSE_KINDS

TIMEOUT_MS = 6_000


def topics(**partitions: int) -> ClusterHistory:
    """Metadata that never changes: topic -> number of partitions."""
    return ClusterHistory([metadata(0, **partitions)])


def metadata(ts_ms: int, **partitions: int) -> dict:
    return {"ts_ms": ts_ms, "brokers": [{"id": 1}], "topics": {
        name: {"id": name, "partitions": [{"p": p, "replicas": [1]} for p in range(count)]}
        for name, count in partitions.items()
    }}  # fmt: skip


def member(
    id: str,  # noqa: A002 - as in Kafka
    owned: Iterable[int] = (),
    *,
    wants: Sequence[str] = ("t",),
    instance: str | None = None,
    client: str | None = None,
    claims: Iterable[int] = (),
) -> MemberState:
    """A member that gets partitions of topic t, and says what it has when it joins."""
    numbers = tuple(owned)
    assigned = (("t", numbers),) if numbers else ()
    said = tuple(claims)
    sent = Subscription(3, tuple(wants), owned=(("t", said),) if said else ())
    return MemberState(
        id, instance, client or id, "/host", 60_000, TIMEOUT_MS, sent, assigned, 3, None, None
    )


def generation(
    number: int,
    time_ms: int,
    members: Iterable[MemberState],
    *causes: Cause,
    before: Generation | None = None,
    strategy: str = "range",
    protocol: str = "classic",
) -> Generation:
    there = tuple(members)
    leader = there[0].id if there else None
    state = ClassicState("consumer", number, strategy if there else None, leader, time_ms, there)
    previous = None if before is None else replace(before, previous=None)
    return Generation(
        0,
        LogPosition(0, number),
        time_ms,
        state,
        state,
        1,
        0,
        previous,
        (),
        protocol,
        tuple(causes),
    )


def cause(kind: str, member: str | None = None) -> Cause:
    return Cause(kind, "inferred", member)


def history(*steps: tuple, **how) -> list[Generation]:
    """Generations from (time, members, causes...), numbered from 1."""
    out: list[Generation] = []
    for number, (time_ms, members, *causes) in enumerate(steps, 1):
        before = out[-1] if out else None
        out.append(generation(number, time_ms, members, *causes, before=before, **how))
    return _returns(out)


def _returns(found: list[Generation]) -> list[Generation]:
    """With causes that name the joining members that were there before, as the history's do."""
    gone, out = DepartedMembers(), []
    for before, now in zip([None, *found], found, strict=False):
        old = {m.owner_identity: m for m in before.last.members} if before else {}
        new = {m.owner_identity: m for m in now.first.members}
        for m in (m for owner, m in old.items() if owner not in new):
            gone.add_departure(m, now.timestamp_ms, m.session_timeout_ms)
        causes = {(c.kind, c.member): c for c in now.causes}
        for m in (m for owner, m in new.items() if owner not in old):
            was = gone.match_rejoin(m, now.timestamp_ms)
            kind = "bounce" if ("bounce", m.id) in causes else "join"
            if was is not None:
                causes[kind, m.id] = replace(cause(kind, m.id), was=was.member)
        order = sorted(causes.values(), key=lambda c: CAUSE_KINDS.index(c.kind))
        out.append(replace(now, causes=tuple(order)))
    return out


def pauses(number: int, last_ms: int, first_ms: int, rewinds: dict[int, int]) -> list[Pause]:
    """Of partitions of t, with commits every second."""
    return [Pause(0, number, "t", p, last_ms, first_ms, n, 1_000) for p, n in rewinds.items()]


def pickled(value):
    """Return a value as another process receives it."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


class SimulatedHistory:
    """One history under policies, simulated in both ways."""

    def __init__(self, generations, clusters, commits=None) -> None:
        self.rebalances: tuple[RecordedRebalance, ...] = tuple(
            recorded_rebalances(generations, clusters)
        )
        self.context = SimulationContext.of(
            clusters, self.rebalances, commits or CommitStatistics()
        )

    def recorded(self) -> list[SimulatedRebalance]:
        return [row for one in self.rebalances for row in simulate_rebalance(one, (), self.context)]

    def per_rebalance(self, policy: str) -> list[SimulatedRebalance]:
        policies = (Policy.parse(policy),)
        rows = [
            row
            for one in self.rebalances
            for row in simulate_rebalance(one, policies, self.context)
        ]
        return [row for row in rows if row.reading == "per_rebalance"]

    def cumulative(self, policy: str, listener=None) -> list[SimulatedRebalance]:
        chosen = Policy.parse(policy)
        return list(simulate_cumulative(self.rebalances, chosen, self.context, listener))
