"""The state that a simulated group carries from one rebalance to the next, under one policy.

A **checkpoint** is this state after a recorded rebalance, stored. When the history has grown, the
simulation continues from it. The rows that were made before it are stored as well. A resumed
simulation does not plan their rebalances again. It only computes the columns that later records
change: stopped time, unread time, records read twice, and the spread of loads.

A checkpoint is valid for a history that equals the former one up to its rebalance. The caller that
builds a `Continuation` checks this.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from partage.errors import InvalidCaptureError
from partage.history.records import MemberState
from partage.history.state_store import pack_state, unpack_state
from partage.history.stop_model import UnreadEstimate
from partage.model.index import Index, Int32Array
from partage.simulation.context import SimulationContext
from partage.simulation.members import DEPARTED, SimulatedMember
from partage.simulation.metrics import (
    NOTHING,
    Bounds,
    PlanLoads,
    PlanMetrics,
    SimulatedRebalance,
    load_spread,
)
from partage.simulation.policies import CONSUMER, OWN, Policy, recorded_protocol
from partage.simulation.recorded_rebalances import RecordedRebalance
from partage.simulation.rounds import ResolvedPolicy
from partage.simulation.stop_lengths import Stop, StopLengths, StopOwner
from partage.tables.statuses import CUMULATIVE

__all__ = [
    "Absences",
    "AbsentMember",
    "Checkpoint",
    "Continuation",
    "DepartedOwner",
    "PendingAction",
    "PendingRebalance",
    "PolicyState",
    "RecentRebalances",
    "SimulationStore",
    "StoredRow",
    "UnreadInputs",
    "decode_array",
    "encode_array",
    "find_stops",
    "has_other_cause",
    "protocol_under_policy",
]


@dataclass(slots=True)
class AbsentMember:
    """A simulated member that no longer sends heartbeats and has not been evicted yet.

    It keeps its partitions until its session timeout, although it no longer consumes them.

    Attributes:
        rebalance: the first recorded rebalance without the member.
        gone_ms: when it stopped responding.
        timeout_ms: its session timeout.
    """

    rebalance: RecordedRebalance
    gone_ms: int
    timeout_ms: int


class Absences(NamedTuple):
    """Downtime before a rebalance, in partition-seconds, that unresponsive members cause.

    Such a member keeps its partitions, although it does not consume, until it rejoins or the
    coordinator evicts it.

    Attributes:
        bounds: bounds on the sum over all these members.
        away_s: the part that static members caused which rejoined later; it is exact.
    """

    bounds: Bounds = NOTHING
    away_s: float = 0.0

    def add_absences(self, other: Absences) -> Absences:
        """Return the sum of two amounts of downtime (partition-seconds) caused by unresponsive
        members.
        """
        return Absences(self.bounds + other.bounds, self.away_s + other.away_s)


@dataclass(frozen=True, slots=True)
class DepartedOwner:
    """A member that has left the simulated group since the last rebalance.

    It still counts as the last owner of its partitions until the next rebalance assigns them.

    Attributes:
        partitions: indices of the partitions that it owned last (int32).
        members: its member ids, the newest first.
        session_ms: its session timeout if it was evicted, else None.
        later_ms: time from its recorded to its simulated departure.
    """

    partitions: Int32Array
    members: tuple[str, ...]
    session_ms: int | None
    later_ms: int


@dataclass(slots=True)
class PendingRebalance:
    """A simulated rebalance that has begun and waits for members that do not respond.

    In a classic group, a rebalance ends only when each member has joined or was evicted.

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
    """State of a simulated consumer group that is carried over from one rebalance to the next.

    It follows from the simulated rebalances, not from recorded assignments. A member's key is its
    instance id or first member id.

    Attributes:
        members: dict from key to member, in join order.
        absent: dict from key to member that does not respond.
        released: members that left since the last rebalance, with the partitions that they owned.
        former: dict from key of a member that restarted since the last rebalance to its old id.
        was_empty: whether the group had no member before the next rebalance.
        key_of: dict from member id to key.
        evicted_early: ids of members that this policy evicted earlier than recorded.
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

    def member_key(self, member: MemberState) -> str:
        """Return the key by which a simulation identifies a recorded member.

        It stays the same when a static member restarts with a new member id.
        """
        return self.key_of.get(member.id, member.owner_identity)

    def is_responding(self, member_key: str) -> bool:
        """Return whether a member is in the simulated group and still sends heartbeats.

        ``member_key`` is the member's instance id or first member id.
        """
        return member_key in self.members and member_key not in self.absent

    def sort_members_as_recorded(self, recorded: Iterable[MemberState]) -> None:
        """Sort the members of the simulated group in the order of the recorded members.

        The result of an assignment strategy may depend on this order. Members that exist only in
        the simulation come last.
        """
        keys = map(self.member_key, recorded)
        first = {key: self.members[key] for key in keys if key in self.members}
        # The first occurrence of a key in a mapping decides its place.
        self.members = first | self.members

    def forget_old_members(self, limit: int) -> None:
        """Forget members that left the simulated group long ago, to limit memory.

        Args:
            limit: maximum number of evicted members, and of member ids, to keep.
        """
        self.evicted_early = dict.fromkeys(list(self.evicted_early)[-limit:])
        if len(self.key_of) > limit:
            alive = self.members.keys() | self.absent.keys()
            self.key_of = {name: key for name, key in self.key_of.items() if key in alive}


# -- what a recorded rebalance means under a policy ----------------------------------------------


def protocol_under_policy(policy: Policy, rebalance: RecordedRebalance) -> str:
    """Return the rebalance protocol of a simulated group: eager, cooperative or consumer.

    It is that of the simulated policy (group configuration). The policy ``own`` keeps the recorded
    one.
    """
    is_own = policy.protocol == OWN
    return recorded_protocol(rebalance.generation) if is_own else policy.protocol


def has_other_cause(policy: Policy, rebalance: RecordedRebalance) -> bool:
    """Return whether a recorded rebalance would happen even without its joins and departures.

    It would if it has another cause, such as new partitions of a topic, that also has an effect
    under the simulated policy (group configuration).
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
    return (is_rejoin or is_static_restart) and protocol_under_policy(policy, rebalance) != CONSUMER


def find_stops(
    stopped: tuple[Int32Array, Int32Array | None],
    index: Index,
    ids: Sequence[tuple[str, ...]],
    released: Iterable[DepartedOwner],
    waited_ms: float,
    *,
    protocol: str | None = None,
) -> tuple[Stop, ...]:
    """Return the partitions that have no consumer during a simulated rebalance, with their last
    owners.

    For how long they have none is estimated from these owners (`StopLengths`).

    Args:
        stopped: indices of these partitions (int32), and the position of each partition's last
            owner (int32[P], see `owners_by_partition`).
        index: the numbering of partitions.
        ids: member ids of each member, the newest first.
        released: members that left since the previous rebalance.
        waited_ms: time that the rebalance waited for members that did not respond.
        protocol: cooperative or consumer if the policy has it and the record another one; else
            None.
    """
    stops, last_owner = stopped
    if not len(stops):
        return ()
    departed: dict[int, StopOwner] = {}
    for one in released:
        # The coordinator assigns them at once; classic members first have to rejoin.
        handover = protocol if protocol == CONSUMER and one.session_ms is None else None
        later = one.later_ms + waited_ms
        owner = StopOwner(one.members, one.session_ms, later, True, handover)
        departed |= dict.fromkeys(one.partitions.tolist(), owner)
    live = [StopOwner(one, None, waited_ms, False, protocol) for one in ids]
    names = map(index.topics.__getitem__, index.topic_of[stops].tolist())
    numbers = index.number_of[stops].tolist()
    places = [] if last_owner is None else last_owner[stops].tolist()
    owners = [
        departed[p] if place == DEPARTED else live[place]
        for p, place in zip(stops.tolist(), places, strict=True)
    ]
    return tuple(map(Stop, names, numbers, owners))


# -- the stored state ---------------------------------------------------------------------------


class PendingAction(NamedTuple):
    """A scheduled action in a stored simulation state: an eviction or a follow-up rebalance.

    A later run schedules it again when it continues the simulation.

    Attributes:
        time_ms: when it is due.
        position: index, in the history, of the recorded rebalance that caused it.
        generation: simulated generation that a follow-up completes; None for an eviction.
        key: key of the absent member.
        gone_ms: when that member stopped responding.
        timeout_ms: its session timeout.
        is_absent: whether it is still absent; otherwise the action does nothing.
    """

    time_ms: int
    position: int
    generation: int | None = None
    key: str = ""
    gone_ms: int = 0
    timeout_ms: int = 0
    is_absent: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The stored state of the simulation of a consumer group after a recorded rebalance.

    A later run continues from it. Recorded rebalances are identified by their position in the
    group's history.

    Attributes:
        position: the rebalance after which the state was stored.
        time_ms: simulated time.
        members: the simulated members in join order.
        actions: scheduled actions, in the order in which they are due.
        released, former, was_empty, key_of, evicted_early, generation: see `PolicyState`.
        resolved_at: rebalance whose strategy the policy used last.
        second_phase: rebalance and simulated generation that the next recorded follow-up completes.
        pending: rebalance that waits for absent members, since when, and its absences.
        steps: pairs of a rebalance that may still get rows, and the number of rows that it has.
    """

    position: int
    time_ms: int
    members: tuple[SimulatedMember, ...]
    actions: tuple[PendingAction, ...]
    released: tuple[DepartedOwner, ...]
    former: Mapping[str, str]
    was_empty: bool
    key_of: Mapping[str, str]
    evicted_early: tuple[str, ...]
    generation: int
    resolved_at: int | None
    second_phase: tuple[int, int] | None
    pending: tuple[int, int, Absences] | None
    steps: tuple[tuple[int, int], ...]

    @property
    def rebalance_positions(self) -> frozenset[int]:
        """Indices, in the group's history, of the recorded rebalances that this checkpoint needs.

        A checkpoint is the stored state of a simulation.
        """
        found = {self.position, *(one.position for one in self.actions)}
        found |= {position for position, _ in self.steps}
        found |= {one[0] for one in (self.second_phase, self.pending) if one is not None}
        return frozenset(found if self.resolved_at is None else found | {self.resolved_at})

    def to_bytes(self) -> bytes:
        """Serialize the stored state of a simulation to bytes, from which `from_bytes` restores it.

        Raises:
            TypeError: a plug-in strategy stores values of unsupported types.
        """
        return pack_state(self, _allowed_classes(), level=1)

    @classmethod
    def from_bytes(cls, blob: bytes) -> Checkpoint:
        """Restore the state of a simulation from the bytes (``blob``) that `to_bytes` returned.

        Raises:
            InvalidCaptureError: the bytes are of another version, or damaged.
        """
        found = unpack_state(blob, _allowed_classes())
        if not isinstance(found, cls):
            raise InvalidCaptureError("stored simulation: no checkpoint; replay without --append")
        return found


@lru_cache(maxsize=1)
def _allowed_classes() -> tuple[type, ...]:
    """Return the classes of which a stored simulation state may contain instances.

    Instances of other classes are not restored. The classes include those in which built-in
    strategies store data of members.
    """
    from partage.groups.dialects.user_data import LastAssignment
    from partage.groups.optimal.strategy import Promises
    from partage.groups.sticky.api import StickyMemory

    own = (Absences, Bounds, Checkpoint, DepartedOwner, PendingAction, SimulatedMember)
    return (*own, LastAssignment, Promises, StickyMemory)


class RecentRebalances:
    """The newest recorded rebalances of a group, by their position in the group's history.

    Older ones are removed, so that memory does not grow with the history.

    Args:
        needed: indices of older rebalances to keep, because a checkpoint refers to them.
    """

    def __init__(self, needed: frozenset[int] = frozenset()) -> None:
        self._needed = needed
        self._old: dict[int, RecordedRebalance] = {}
        self._recent: dict[int, RecordedRebalance] = {}
        self._position_of: dict[int, int] = {}

    def __getitem__(self, position: int) -> RecordedRebalance:
        return self._recent[position] if position in self._recent else self._old[position]

    def add_rebalance(self, position: int, rebalance: RecordedRebalance) -> None:
        """Add the group's next recorded rebalance; ``position`` is its index in the history."""
        self._recent[position] = rebalance
        # The object is kept as long as the entry, so that no other one gets its id.
        self._position_of[id(rebalance)] = position

    def position_of_rebalance(self, rebalance: RecordedRebalance) -> int:
        """Return the index of a recorded rebalance in its group's history.

        Raises:
            KeyError: the rebalance is too old and was removed.
        """
        return self._position_of[id(rebalance)]

    def forget_before(self, position: int) -> None:
        """Remove the recorded rebalances before a position in the group's history, to save memory.

        Rebalances that checkpoints (stored simulation states) need are kept.
        """
        while self._recent and (first := next(iter(self._recent))) < position:
            rebalance = self._recent.pop(first)
            if first in self._needed:
                self._old[first] = rebalance
            else:
                del self._position_of[id(rebalance)]


# -- stored rows --------------------------------------------------------------------------------


class UnreadInputs(NamedTuple):
    """Inputs for estimating how long partitions had no consumer in a simulated rebalance.

    They are stored with the output row, so that a later run, which knows more commits, can repeat
    the estimate.

    Attributes:
        stops: partitions that stop.
        was_empty: whether the group had no member before.
        away_s: partition-seconds of static members that were away.
        restarts: whether to add members that rejoined without a rebalance of their own.
    """

    stops: tuple[Stop, ...] = ()
    was_empty: bool = False
    away_s: float = 0.0
    restarts: bool = True

    def estimate_downtime(
        self, lengths: StopLengths, rebalance: RecordedRebalance
    ) -> UnreadEstimate | None:
        """Estimate how long partitions have no consumer because of the simulated rebalance.

        The unit is partition-seconds (seconds summed over partitions). ``lengths`` has the recorded
        durations, each of which it uses once. ``rebalance`` is the recorded rebalance.
        """
        return lengths.estimate_downtime(
            rebalance, self.stops, was_empty=self.was_empty, away_s=self.away_s,
            restarts=self.restarts,
        )  # fmt: skip

    def to_json(self) -> list[Any]:
        """Convert the inputs of a downtime estimate to a list of JSON values for `from_json`.

        The stopped partitions are left out, because the stored output row already has their
        indices.
        """
        owners: dict[StopOwner, int] = {}
        owner_of = [owners.setdefault(stop.owner, len(owners)) for stop in self.stops]
        return [[*owners], owner_of, self.was_empty, self.away_s, self.restarts]

    @classmethod
    def from_json(cls, json_values: list[Any], stops: Int32Array, index: Index) -> UnreadInputs:
        """Restore the inputs of a downtime estimate from the JSON values that `to_json` returned.

        Args:
            json_values: the JSON values.
            stops: indices of the partitions that stop (int32).
            index: the numbering of partitions.
        """
        owners, owner_of, was_empty, away_s, restarts = json_values
        known = [StopOwner(tuple(ids), *more) for ids, *more in owners]
        topics, numbers = index.topic_of[stops].tolist(), index.number_of[stops].tolist()
        found = tuple(
            Stop(index.topics[topic], number, known[owner])
            for topic, number, owner in zip(topics, numbers, owner_of, strict=True)
        )
        return cls(found, was_empty, away_s, restarts)


#: Columns of a row that no later record changes, besides its time and its metrics.
_FIELDS = (
    "incarnation", "generation", "strategy", "protocol", "status", "step", "caused", "claimed",
    "detail", "partitions", "members", "changed", "unread_at_once", "plan",
)  # fmt: skip
#: Metrics that no later record changes: all but the spread of loads, which depends on commits.
_METRICS = tuple(one.name for one in fields(PlanMetrics) if one.name != "load_spread")


class StoredRow(NamedTuple):
    """A simulated rebalance, as a run stores it so that a later run with ``--append`` continues.

    It becomes a row of the output table ``replays``. Columns that depend on offset commits of later
    runs are stored as inputs, from which `complete_row` computes them.

    Attributes:
        position: position of the recorded rebalance in the group's history.
        time_ms: simulated time.
        cells: values of the columns `_FIELDS`.
        metrics: values of the columns `_METRICS`.
        fixed: bounds on stopped time and on records read twice; None if they are computed again.
        recompute: partitions that stop, partition-seconds of dead members, additional duration of
            the rebalance, and loads; None if nothing is computed from them.
        unread: inputs of the unread time (`UnreadInputs`); None if there is no estimate.
    """

    position: int
    time_ms: int
    cells: list[Any]
    metrics: list[Any]
    fixed: list[Any] | None
    recompute: list[Any] | None
    unread: list[Any] | None

    @classmethod
    def from_row(
        cls,
        rebalance_position: int,
        row: SimulatedRebalance,
        unread: UnreadInputs | None,
        loads: PlanLoads,
    ) -> StoredRow:
        """Convert an output row of a simulation to the form that is stored for the next run.

        Args:
            rebalance_position: position of the recorded rebalance in the group's history.
            row: the row, with `RecomputeInputs` if some of its columns depend on later commits.
            unread: inputs of its unread time (time without a consumer); None if it has no estimate.
            loads: cache of the loads of assignments.
        """
        inputs, cells, fixed = row.recompute, None, None
        if inputs is None:
            fixed = [row.stopped, row.reread]
        else:
            of_plan: list[Any] | None = None
            if inputs.has_loads:
                *arrays, members = loads.load_arrays(inputs)
                of_plan = [*map(encode_array, arrays), members]
            cells = [encode_array(inputs.stops), inputs.extra, inputs.longer_ms, of_plan]
        return cls(
            rebalance_position, row.time_ms, [getattr(row, name) for name in _FIELDS],
            [getattr(row.measured, name) for name in _METRICS], fixed, cells,
            None if unread is None else unread.to_json(),
        )  # fmt: skip

    def complete_row(
        self,
        policy: str,
        rebalance: RecordedRebalance,
        context: SimulationContext,
        lengths: StopLengths,
    ) -> SimulatedRebalance:
        """Restore the complete row of table ``replays`` from its stored form.

        Columns that depend on offset commits are computed from all commits that are known now.

        Args:
            policy: name of the policy.
            rebalance: the recorded rebalance.
            context: metadata and commit statistics of the group.
            lengths: estimates from recorded intervals without a consumer, and removes those it
                uses; so finish the rows of a policy in their order.
        """
        stops = _NO_PARTITIONS if self.recompute is None else decode_array(self.recompute[0])
        stopped, reread = (None, None) if self.fixed is None else map(_bounds, self.fixed)
        spread = None
        if self.recompute is not None:
            extra, longer_ms = _bounds(self.recompute[1]), _bounds(self.recompute[2])
            costs = context.rebalance_costs(rebalance)
            stopped = costs.stopped_seconds(stops, context.usual_ms, longer_ms=longer_ms)
            stopped = None if stopped is None or extra is None else stopped + extra
            reread = costs.reread_bounds(stops)
            if self.recompute[3] is not None:
                member, partition, taking, members = self.recompute[3]
                loads = (
                    decode_array(member),
                    decode_array(partition),
                    decode_array(taking),
                    members,
                )
                spread = load_spread(loads, context.weights)
        unread = None
        if self.unread is not None:
            inputs = UnreadInputs.from_json(self.unread, stops, context.clusters.index)
            unread = inputs.estimate_downtime(lengths, rebalance)
        return SimulatedRebalance(
            policy=policy, reading=CUMULATIVE, time_ms=self.time_ms,
            measured=PlanMetrics(
                **dict(zip(_METRICS, self.metrics, strict=True)), load_spread=spread
            ),
            stopped=stopped, reread=reread, unread=unread,
            **dict(zip(_FIELDS, self.cells, strict=True)),
        )  # fmt: skip


_NO_PARTITIONS: Int32Array = np.zeros(0, np.int32)


def encode_array(array: Int32Array) -> str:
    """Encode an int32 array as base64 text, for JSON; `decode_array` is the inverse."""
    return b64encode(array.astype("<i4").tobytes()).decode("ascii")


def decode_array(text: str) -> Int32Array:
    """Decode an int32 array from the base64 text that `encode_array` returned."""
    return np.frombuffer(b64decode(text), "<i4").astype(np.int32)


def _bounds(value: Any) -> Bounds | None:
    return None if value is None else Bounds(*value)


# -- continuing a stored simulation -------------------------------------------------------------


class SimulationStore(Protocol):
    """Interface of a store for the output rows of a simulation and its checkpoints (stored states).

    The next run of Partage continues the simulation from what is stored.
    """

    def store_row(self, row: StoredRow) -> None:
        """Store the next output row of a simulation; the rows arrive in the simulated order."""

    def store_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint: the state of the simulation after the rows that have been stored so
        far.
        """


@dataclass
class Continuation:
    """A consumer group's simulation that an earlier run has stored and that this run continues.

    Attributes:
        store: receives new rows and checkpoints.
        wanted: indices of the recorded rebalances after which to store a checkpoint.
        checkpoint: the state to continue from; None to simulate the whole history.
        rows: the stored rows before the checkpoint, in their original order.
    """

    store: SimulationStore
    wanted: frozenset[int]
    checkpoint: Checkpoint | None = None
    rows: Iterator[StoredRow] = field(default_factory=lambda: iter(()))
    _next: StoredRow | None = None
    _number: int = 0

    def is_already_simulated(self, position: int) -> bool:
        """Return whether an earlier run has already simulated a recorded rebalance.

        ``position`` is its index in the group's history.
        """
        return self.checkpoint is not None and position <= self.checkpoint.position

    def rows_until(
        self, position: int, time_ms: int | None = None
    ) -> Iterator[tuple[int, StoredRow]]:
        """Yield the output rows that an earlier run has stored, up to a recorded rebalance.

        Each item is a pair (running number, row). Rows that an earlier call has yielded are left
        out.

        Args:
            position: history index of the newest recorded rebalance whose rows are yielded.
            time_ms: the latest simulated time; None for all.
        """
        while True:
            if self._next is None:
                self._next = next(self.rows, None)
            row = self._next
            if row is None or row.position > position:
                return
            if time_ms is not None and row.time_ms > time_ms:
                return
            self._next = None
            self._number += 1
            yield self._number, row
