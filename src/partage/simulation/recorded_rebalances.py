"""Recorded rebalances with the ownership before them, and members that left or returned.

One cheap pass over a group's generations makes values that stand by themselves: a
`RecordedRebalance` can be pickled, and simulated in any order and in any process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from partage.history.causes import SESSION_TIMEOUT_MS
from partage.history.clusters import ClusterHistory
from partage.history.events import Generation
from partage.history.pauses import Pause
from partage.history.problems import partitions_by_member, recorded_assignment, unsupported_reason
from partage.history.records import MemberState
from partage.model.index import Int32Array
from partage.simulation.members import current_or_last_owned

if TYPE_CHECKING:
    from partage.simulation.metrics import Bounds

__all__ = [
    "MOST_ENTRIES",
    "STORED_CLASSES",
    "Absence",
    "OwnershipTracker",
    "RecordedCosts",
    "RecordedRebalance",
    "RecordedRebalanceBuilder",
    "WaitingRebalances",
    "count_entries",
    "find_departed_members",
    "recorded_rebalances",
    "session_timeout_ms",
]

_LEFT, _FOLLOW_UP = "leave", "follow-up"
#: Causes of a departure that the coordinator notices a session timeout later.
_EXPIRED = frozenset({"expiry", "broker"})
#: Most members and assigned partitions in a group's incomplete rebalances, and in the rebalances
#: that a simulation reads ahead. One takes about 400 bytes, with its pause and its unread time.
MOST_ENTRIES = 250_000
#: Departed members that may return; the history itself remembers fewer.
_MOST_ABSENT = 4_096


# -- members that left, and their return -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Absence:
    """The absence of a member from its consumer group, from its departure to its return.

    The fields ``left`` and ``back`` identify a rebalance by (incarnation, generation). An
    incarnation is one lifetime of a group id, from its creation to its deletion.

    Attributes:
        member: its last state before the departure.
        left: the first rebalance without it.
        gone_ms: when it left; for an evicted member, one session timeout before its eviction.
        expired: whether its session timed out; otherwise it sent a LeaveGroup.
        back: the rebalance with which it returned; None if it never returned.
        back_ms: when it returned.
        as_member: its state when it returned.
    """

    member: MemberState
    left: tuple[int, int]
    gone_ms: int
    expired: bool
    back: tuple[int, int] | None = None
    back_ms: int | None = None
    as_member: MemberState | None = None


@dataclass(slots=True)
class _Departure:
    absence: Absence


class _AbsenceTracker:
    """Tracker of members that leave a consumer group and return later, possibly with another member
    id.

    A joining member counts as returned if the rebalance's causes name the id that it had before.
    """

    def __init__(self, session_timeout_ms: int | None) -> None:
        self._timeout_ms = session_timeout_ms
        self._departed: dict[str, _Departure] = {}
        self._before: Generation | None = None

    def find_absences(self, generation: Generation) -> tuple[list[_Departure], list[Absence]]:
        """Find the members that left or returned in the group's next rebalance.

        ``generation`` is the generation that the rebalance created. Call it for every generation in
        order, including those without members. The result is a pair: the absences that begin with
        this rebalance, and those that end with it.
        """
        if self._before is not None and generation.incarnation != self._before.incarnation:
            self._before, self._departed = None, {}
        departures = []
        for absence in find_departed_members(generation, self._before, self._timeout_ms):
            departure = _Departure(absence)
            departures.append(departure)
            self._departed[absence.member.id] = departure
        old = {m.owner_identity for m in (self._before.last.members if self._before else ())}
        former_id = {c.member: c.was for c in generation.causes if c.was is not None}
        returns = []
        for member in {m.owner_identity: m for m in generation.first.members}.values():
            departed = self._departed.pop(former_id.get(member.id, ""), None)
            if member.owner_identity not in old and departed is not None:
                departed.absence = replace(
                    departed.absence,
                    back=(generation.incarnation, generation.generation_number),
                    back_ms=generation.timestamp_ms,
                    as_member=member,
                )
                returns.append(departed.absence)
        while len(self._departed) > _MOST_ABSENT:
            del self._departed[next(iter(self._departed))]
        self._before = generation
        return departures, returns

    def export_state(self) -> tuple[Any, ...]:
        """Return the absent members of a consumer group as values that can be stored between two
        runs.

        An absent member has left the group and may return. `restore_state` takes these values.
        """
        return self._departed, self._before

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the absent members of a consumer group from the values of `export_state`.

        An absent member has left the group and may return.
        """
        self._departed, self._before = state


#: Classes in the stored state of a `RecordedRebalanceBuilder` besides those of a history.
STORED_CLASSES = (Absence, _Departure)


def find_departed_members(
    generation: Generation, previous_generation: Generation | None, timeout_ms: int | None
) -> list[Absence]:
    """Return the members that left a consumer group in a rebalance, as one `Absence` each.

    They are the members of the previous generation that are missing from the new one.

    Args:
        generation: the generation that the rebalance created.
        previous_generation: the previous generation; None for a group's first one.
        timeout_ms: the broker's session timeout for members that sent none; None if not known.
    """
    present = {m.owner_identity for m in generation.first.members}
    old = (
        {m.owner_identity: m for m in previous_generation.last.members}
        if previous_generation is not None
        else {}
    )
    return [
        _absence(_with_session_timeout(member, timeout_ms), generation)
        for owner, member in old.items()
        if owner not in present
    ]


def _with_session_timeout(member: MemberState, timeout_ms: int | None) -> MemberState:
    """Return a copy of a member with the broker's session timeout, if the member sent none itself.

    ``timeout_ms`` is the broker's session timeout; if it is None (unknown), nothing is changed.
    """
    if timeout_ms is None or member.session_timeout_ms > 0:
        return member
    return replace(member, session_timeout_ms=timeout_ms)


def _absence(member: MemberState, now: Generation) -> Absence:
    kinds = {c.kind for c in now.causes if c.member == member.id}
    # A static member sends no LeaveGroup on close; only an administrator removes it.
    expired = bool(kinds & _EXPIRED) or (member.instance is not None and _LEFT not in kinds)
    gone_ms = now.timestamp_ms - (session_timeout_ms(member) if expired else 0)
    return Absence(member, (now.incarnation, now.generation_number), gone_ms, expired)


def session_timeout_ms(member: MemberState) -> int:
    """Return a member's session timeout (ms), or Kafka's default if the member sent none.

    The coordinator evicts a member that sends no heartbeat for this time.
    """
    sent = member.session_timeout_ms
    return sent if sent > 0 else SESSION_TIMEOUT_MS


# -- recorded rebalances -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedCosts:
    """Costs of a recorded rebalance, as far as offset commits in the log show them.

    Attributes:
        stopped: indices of the partitions that stopped (int32).
        length_ms: bounds on the time they were stopped; None if no commits show it.
        rewinds: dict from partition index to records read twice, for all partitions with commits.
    """

    stopped: Int32Array
    length_ms: Bounds | None
    rewinds: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RecordedRebalance:
    """A recorded rebalance with the owners of partitions before it, the input of simulations.

    A simulation repeats the rebalance with another protocol or assignment strategy.

    Attributes:
        generation: the group generation that the rebalance created.
        replayable: whether it is valid input for assignment strategies; False without members, for
            example.
        owned: dict from instance id or member id to indices of its last partitions (int32).
        last_owned: as ``owned``, but a partition without an owner counts for its last owner.
        ids_before: member ids of the previous generation; any other member has just started.
        departures: members of the previous generation that are missing from this one.
        returns: members that return with it, possibly under another member id.
        pauses: times without commits around it, if they are known with it; otherwise
            `CommitStatistics` has them.
        costs: its costs if they are stored with it; None to compute them from the pauses.
    """

    generation: Generation
    replayable: bool = True
    owned: Mapping[str, Int32Array] = field(default_factory=dict)
    last_owned: Mapping[str, Int32Array] = field(default_factory=dict)
    ids_before: frozenset[str] = frozenset()
    departures: tuple[Absence, ...] = ()
    returns: tuple[Absence, ...] = ()
    pauses: tuple[Pause, ...] = ()
    costs: RecordedCosts | None = None

    @property
    def cause_kinds(self) -> tuple[str, ...]:
        """Kinds of the rebalance's causes, for example ``("leave", "topics")``.

        The main cause comes first.
        """
        return tuple(cause.kind for cause in self.generation.causes)

    @property
    def identity(self) -> tuple[int, int, int, bool]:
        """Key that identifies the recorded rebalance within its consumer group.

        It has the log position, the generation number, and whether a migration wrote the record.
        """
        # A migration has the generation number of the rebalance before it.
        of = self.generation
        return of.position.partition, of.position.offset, of.generation_number, of.taken_over

    @property
    def is_migration(self) -> bool:
        """Return whether the rebalance only converts the group between the classic and the consumer
        protocol.

        Such a conversion happens when the group is migrated (KIP-848); it moves no partition.
        """
        return self.generation.taken_over

    @property
    def is_follow_up(self) -> bool:
        """Return whether the rebalance is the second phase of a cooperative rebalance.

        In the second phase, partitions that were revoked in the first one get their new owner.
        """
        return self.cause_kinds[:1] == (_FOLLOW_UP,)

    def owned_by_departed(self) -> list[Int32Array]:
        """Return the partitions whose owners left the group before this rebalance.

        The list has an array of partition indices (int32) for each member that left.
        """
        present = {m.owner_identity for m in self.generation.first.members}
        return [dense for owner, dense in self.owned.items() if owner not in present]


class OwnershipTracker:
    """Tracker of the partitions that the members of one group own before each of its rebalances.

    Call `build_rebalance` for every rebalance in order, including those without members.

    Args:
        clusters: the cluster metadata over time; its index numbers the partitions.
    """

    def __init__(self, clusters: ClusterHistory) -> None:
        self._clusters = clusters
        self._incarnation: int | None = None
        self._owned: dict[str, Int32Array] = {}
        self._last_owned: dict[str, Int32Array] = {}
        self._newest: RecordedRebalance | None = None

    def build_rebalance(self, generation: Generation) -> RecordedRebalance:
        """Return the group's next recorded rebalance, with the partitions that each member owned
        before it.

        ``generation`` is the generation that the rebalance created. The caller adds departures,
        returns and pauses in offset commits.
        """
        self._apply_newest_assignment()
        if generation.incarnation != self._incarnation:
            self._incarnation, self._owned, self._last_owned = generation.incarnation, {}, {}
        replayable = unsupported_reason(generation.first) is None
        self._newest = RecordedRebalance(generation, replayable, self._owned, self._last_owned)
        return self._newest

    def _apply_newest_assignment(self) -> None:
        """Update the owner of each partition to the newest rebalance's assignment.

        If that assignment is unusable, no partition has an owner.
        """
        # The caller defers this until the next rebalance is added or the state is stored.
        newest, self._newest = self._newest, None
        if newest is None:
            return
        if newest.replayable:
            now = newest.generation
            cluster = self._clusters.cluster_at(now.timestamp_ms)
            given = partitions_by_member(recorded_assignment(now.last, cluster))
            # Of two members with one instance id the later one owns the name, as in the broker.
            self._owned = {m.owner_identity: given[m.id] for m in now.last.members}
            self._last_owned = current_or_last_owned(self._last_owned, self._owned)
        else:
            self._owned, self._last_owned = {}, {}

    def export_state(self) -> tuple[Any, ...]:
        """Return the tracked owners of partitions as values that can be stored between two runs.

        `restore_state` takes these values. Partition indices stay valid as long as metadata is only
        appended (`ClusterHistory.append_metadata`).
        """
        self._apply_newest_assignment()
        owned = self._owned
        more = {m: dense for m, dense in self._last_owned.items() if dense is not owned.get(m)}
        return self._incarnation, owned, more

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the tracked owners of partitions from the values that `export_state` returned.

        The tracker then continues with the next rebalance.
        """
        self._incarnation, self._owned, more = state
        self._last_owned = self._owned | more


def count_entries(generation: Generation) -> int:
    """Return the number of members and assigned partitions after a rebalance.

    It shows how much memory the recorded rebalance needs.
    """
    members = generation.first.members
    return sum(1 + sum(len(numbers) for _, numbers in member.assigned) for member in members)


class RecordedRebalanceBuilder:
    """Builder of a group's recorded rebalances from its generations, which are added in order.

    A generation is the group's members and assignment after a rebalance. The builder adds the
    previous owner of each partition, and the members that left or returned.

    Args:
        clusters: the cluster metadata over time; partition indices are those of its index.
        session_timeout_ms: the broker's session timeout, for members that send none; None if not
            known.
        lookahead: number of later rebalances to read before a rebalance is yielded, so that returns
            of its members are found; None yields all rebalances at the end.
        most_entries: most members and assigned partitions of the rebalances that wait for later
            ones, to bound memory; None for no bound.
    """

    def __init__(
        self,
        clusters: ClusterHistory,
        session_timeout_ms: int | None = None,
        *,
        lookahead: int | None = None,
        most_entries: int | None = None,
    ) -> None:
        self._behind, self._most_entries = lookahead, most_entries
        self._entries = 0
        self._absences = _AbsenceTracker(session_timeout_ms)
        self._ownership = OwnershipTracker(clusters)
        self._queue: deque[tuple[Generation, list[_Departure], list[Absence]]] = deque()
        self._before: Generation | None = None

    def add_generation(self, generation: Generation) -> Iterator[RecordedRebalance]:
        """Add the group's next generation and yield the recorded rebalances that are now complete.

        A rebalance is complete when enough later ones are known to find returning members.
        """
        self._queue.append((generation, *self._absences.find_absences(generation)))
        self._entries += count_entries(generation)
        while self._is_queue_full():
            yield self._build_oldest_rebalance()

    def _is_queue_full(self) -> bool:
        is_long = self._behind is not None and len(self._queue) > self._behind
        is_large = self._most_entries is not None and self._entries > self._most_entries
        return is_long or (is_large and len(self._queue) > 1)

    def export_state(self) -> tuple[Any, ...]:
        """Return the incomplete recorded rebalances as values that can be stored between two runs.

        Data on which later rebalances depend is included. `restore_state` takes these values.
        """
        # `history.state_store.pack_state` packs them with the classes `STORED_CLASSES`.
        of_members = self._absences.export_state(), self._ownership.export_state()
        return *of_members, list(self._queue), self._before

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore the incomplete recorded rebalances from the values that `export_state` returned.

        The builder then continues with the group's next generation.
        """
        absences, ownership, queue, self._before = state
        self._absences.restore_state(absences)
        self._ownership.restore_state(ownership)
        self._queue = deque(queue)
        self._entries = sum(map(count_entries, self.pending))

    @property
    def pending(self) -> list[Generation]:
        """Generations whose rebalances are still incomplete.

        A rebalance is incomplete while later ones may show that a departed member returns.
        """
        return [generation for generation, *_ in self._queue]

    def finish_rebalances(self) -> Iterator[RecordedRebalance]:
        """Yield the remaining recorded rebalances when the log ends.

        They were incomplete until now, because departed members could still return.
        """
        while self._queue:
            yield self._build_oldest_rebalance()

    def _build_oldest_rebalance(self) -> RecordedRebalance:
        """Build the oldest recorded rebalance in the queue of incomplete ones, and remove it from
        there.

        The tracked owners of partitions are updated with its assignment.
        """
        generation, departures, returns = self._queue.popleft()
        self._entries -= count_entries(generation)
        before, self._before = self._before, generation
        if before is not None and generation.incarnation != before.incarnation:
            before = None
        return replace(
            self._ownership.build_rebalance(generation),
            ids_before=frozenset(m.id for m in before.last.members) if before else frozenset(),
            departures=tuple(departure.absence for departure in departures),
            returns=tuple(returns),
        )


class WaitingRebalances:
    """Queue of recorded rebalances of a group that were read but not simulated yet, in order of
    time.

    Args:
        lookahead_ms: rebalances are read so long before they are simulated, or shorter if more than
            `MOST_ENTRIES` members and assigned partitions would be in memory.
    """

    def __init__(self, lookahead_ms: int) -> None:
        self._lookahead_ms = lookahead_ms
        self._queue: deque[tuple[int, int, int]] = deque()

    def append(self, time_ms: int, position: int, rebalance: RecordedRebalance) -> None:
        """Add a recorded rebalance to the queue of rebalances that are not simulated yet.

        ``position`` is its index in the group's history.
        """
        self._queue.append((time_ms, position, count_entries(rebalance.generation)))

    def next_ms(self) -> int | None:
        """Return the time (ms) of the first recorded rebalance in the queue; None if the queue is
        empty.
        """
        return self._queue[0][0] if self._queue else None

    def take_next(self) -> tuple[int, int]:
        """Remove the first recorded rebalance from the queue of rebalances that are not simulated
        yet.

        Return its time (ms) and its index in the group's history.
        """
        return self._queue.popleft()[:2]

    def due_before_ms(self, newest_ms: int) -> int:
        """Return the time (ms) before which all recorded rebalances in the queue are to be
        simulated now.

        Later ones wait, unless the queue needs too much memory. ``newest_ms`` is the time of the
        newest rebalance.
        """
        before_ms = newest_ms - self._lookahead_ms
        entries = sum(count for _, _, count in self._queue)
        for time_ms, _, count in self._queue:
            if entries <= MOST_ENTRIES:
                break
            before_ms, entries = max(before_ms, time_ms + 1), entries - count
        return before_ms


def recorded_rebalances(
    generations: Iterable[Generation],
    clusters: ClusterHistory,
    session_timeout_ms: int | None = None,
) -> Iterator[RecordedRebalance]:
    """Yield a group's recorded rebalances in order, including those that cannot be simulated.

    Each has the owners of partitions before it, and the members that left or returned with it.

    Args:
        generations: all generations of the group in order, including those without members.
        clusters: the cluster metadata over time; partition indices are those of its index.
        session_timeout_ms: the broker's session timeout, for members that send none; None if not
            known.
    """
    builder = RecordedRebalanceBuilder(clusters, session_timeout_ms)
    for generation in generations:
        yield from builder.add_generation(generation)
    yield from builder.finish_rebalances()
