"""The state that a simulated group carries from one rebalance to the next, under one policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from partage.history.records import MemberState
from partage.model.index import Index, Int32Array
from partage.simulation.members import DEPARTED, SimulatedMember
from partage.simulation.metrics import NOTHING, Bounds
from partage.simulation.policies import CONSUMER, OWN, Policy, recorded_protocol
from partage.simulation.recorded_rebalances import RecordedRebalance
from partage.simulation.rounds import ResolvedPolicy
from partage.simulation.stop_lengths import Stop

__all__ = [
    "Absences",
    "AbsentMember",
    "DepartedOwner",
    "PendingRebalance",
    "PolicyState",
    "has_other_cause",
    "protocol_of",
    "stops_of",
]


@dataclass(slots=True)
class AbsentMember:
    """A simulated member that does not respond and has not been evicted yet.

    Attributes:
        rebalance: the recorded rebalance without it.
        gone_ms: when it stopped responding.
        timeout_ms: its session timeout.
    """

    rebalance: RecordedRebalance
    gone_ms: int
    timeout_ms: int


class Absences(NamedTuple):
    """Partition-seconds without a consumer before a rebalance, because members did not respond.

    Attributes:
        bounds: bounds on the sum over all such members.
        away_s: the part of static members that rejoined; exact.
    """

    bounds: Bounds = NOTHING
    away_s: float = 0.0

    def plus(self, other: Absences) -> Absences:
        """Return the sum of two times without a consumer."""
        return Absences(self.bounds + other.bounds, self.away_s + other.away_s)


@dataclass(frozen=True, slots=True)
class DepartedOwner:
    """A simulated member that has left since the last rebalance, and the partitions that it owned.

    Attributes:
        partitions: indices of the partitions that it owned last (int32).
        members: its member ids, the newest first.
        session_ms: its session timeout if it was evicted, else None.
        later_ms: how much later than in the record it left.
    """

    partitions: Int32Array
    members: tuple[str, ...]
    session_ms: int | None
    later_ms: int


@dataclass(slots=True)
class PendingRebalance:
    """A simulated classic rebalance that waits until each member has joined or was evicted.

    Attributes:
        rebalance: the recorded rebalance that caused it.
        since_ms: when it began to wait.
        extra: partition-seconds without a consumer before the rebalance.
    """

    rebalance: RecordedRebalance
    since_ms: int
    extra: Absences


@dataclass(slots=True)
class PolicyState:
    """The state of a simulated group that one rebalance passes on to the next.

    Attributes:
        members: dict from key to member, in join order.
        absent: dict from key to member that does not respond.
        released: members that left since the last rebalance, with what they owned.
        former: member ids before a restart since the last rebalance, by key.
        was_empty: whether the group had no member before the next rebalance.
        key_of: dict from member id to key of `SimulatedMember`; a static member keeps its key.
        evicted_early: ids of members that this policy has evicted before the record did.
        generation: number of rebalances so far.
        resolved: the policy with the strategy of the last rebalance.
    """

    members: dict[str, SimulatedMember] = field(default_factory=dict)
    absent: dict[str, AbsentMember] = field(default_factory=dict)
    released: list[DepartedOwner] = field(default_factory=list)
    former: dict[str, str] = field(default_factory=dict)
    was_empty: bool = False
    key_of: dict[str, str] = field(default_factory=dict)
    evicted_early: dict[str, None] = field(default_factory=dict)
    generation: int = 0
    resolved: ResolvedPolicy | None = None

    def key(self, member: MemberState) -> str:
        """Return the key by which the simulation identifies a recorded member across restarts."""
        return self.key_of.get(member.id, member.owner)

    def is_responding(self, key: str) -> bool:
        """Return whether a member is in the group and sends heartbeats."""
        return key in self.members and key not in self.absent

    def order_as_recorded(self, recorded: Iterable[MemberState]) -> None:
        """Sort the simulated members in the recorded order.

        Members that only the simulated group has come last.
        """
        keys = map(self.key, recorded)
        first = {key: self.members[key] for key in keys if key in self.members}
        # The first occurrence of a key in a mapping decides its place.
        self.members = first | self.members

    def forget_old(self, most: int) -> None:
        """Remove data of members that left long ago, so that memory does not grow with the history.

        Args:
            most: number of evicted members, and of member ids, that are remembered.
        """
        self.evicted_early = dict.fromkeys(list(self.evicted_early)[-most:])
        if len(self.key_of) > most:
            alive = self.members.keys() | self.absent.keys()
            self.key_of = {name: key for name, key in self.key_of.items() if key in alive}


# -- what a recorded rebalance means under a policy ----------------------------------------------


def protocol_of(policy: Policy, rebalance: RecordedRebalance) -> str:
    """Return the rebalance protocol of a group under a policy:
    the policy's, or the recorded one.
    """
    is_own = policy.protocol == OWN
    return recorded_protocol(rebalance.generation) if is_own else policy.protocol


def has_other_cause(policy: Policy, rebalance: RecordedRebalance) -> bool:
    """Return whether a recorded rebalance has a cause, besides joins and departures,
    under a policy too.

    Examples are new partitions of a topic. Such a rebalance happens under the policy in any case.
    """
    kinds = rebalance.cause_kinds
    if "topics" in kinds:
        return True
    if rebalance.is_migration or rebalance.is_follow_up:
        return False
    if policy.is_own:  # nothing differs from the record: its causes have their effect
        return True
    if policy.protocol == OWN and "strategy" in kinds:
        return True
    # A member that rejoins for a reason of its own: only classic members do.
    is_rejoin = kinds[0] in {"broker", "request", "unknown"} if kinds else False
    is_static_restart = kinds[:1] == ("bounce",) and not (rebalance.departures or rebalance.returns)
    return (is_rejoin or is_static_restart) and protocol_of(policy, rebalance) != CONSUMER


def stops_of(
    stopped: tuple[Int32Array, Int32Array | None],
    index: Index,
    ids: Sequence[tuple[str, ...]],
    released: Iterable[DepartedOwner],
    waited_ms: float,
) -> tuple[Stop, ...]:
    """Return the partitions that stop in a simulated rebalance, each with its last owner.

    Args:
        stopped: indices of these partitions (int32), and the position of each partition's
            last owner (int32[P], see `owner_view`).
        index: the numbering of partitions.
        ids: member ids of each member, the newest first.
        released: members that left since the rebalance before.
        waited_ms: how much longer the rebalance waited for members that did not respond.
    """
    stops, last_owner = stopped
    departed = {p: one for one in released for p in one.partitions.tolist()}
    topics, numbers = index.topic_of[stops].tolist(), index.number_of[stops].tolist()
    owners = [] if last_owner is None else last_owner[stops].tolist()
    found = []
    for p, topic, number, owner in zip(stops.tolist(), topics, numbers, owners, strict=True):
        name = index.topics[topic]
        if owner == DEPARTED:
            one = departed[p]
            later = one.later_ms + waited_ms
            found.append(Stop(name, number, one.members, one.session_ms, later, left=True))
        else:
            found.append(Stop(name, number, ids[owner], later_ms=waited_ms))
    return tuple(found)
