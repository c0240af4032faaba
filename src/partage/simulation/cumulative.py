"""Simulation of a group's whole history under a policy that carries its own state forward.

The group's recorded assignments are ignored. Only the causes drive the simulation: which members
joined and left, what they subscribed to, which topics existed. The policy makes its own plans and
its own follow-ups, and carries its state forward. A simulation is sequential, but those of
different groups or policies are independent.

A simulation can store its state, and continue from it when the history has grown (`Continuation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby

from partage.history.events import subscribed_topics
from partage.history.records import MemberState
from partage.history.stop_model import HEARTBEAT_MS, UnreadEstimate
from partage.model.index import Int32Array
from partage.simulation.clock import Clock
from partage.simulation.context import SimulationContext
from partage.simulation.costs import detection_delay
from partage.simulation.members import (
    ConsumptionListener,
    ConsumptionTracker,
    SimulatedMember,
)
from partage.simulation.metrics import Bounds, PlanLoads, SimulatedRebalance
from partage.simulation.policies import CONSUMER, EAGER, OWN, Policy
from partage.simulation.policy_state import (
    Absences,
    AbsentMember,
    Checkpoint,
    Continuation,
    DepartedOwner,
    PendingAction,
    PendingRebalance,
    PolicyState,
    RecentRebalances,
    SimulationStore,
    StoredRow,
    UnreadInputs,
    find_stops,
    has_other_cause,
    protocol_under_policy,
)
from partage.simulation.recorded_rebalances import (
    Absence,
    RecordedRebalance,
    WaitingRebalances,
    session_timeout_ms,
)
from partage.simulation.rounds import MOST_FOLLOW_UPS, ResolvedPolicy, RoundResult
from partage.simulation.rows import RowBuilder, RowBuilders, RowPosition
from partage.simulation.stop_lengths import RecordedLengths, StopLengths

__all__ = ["simulate_cumulative", "simulate_policies"]

#: Recorded rebalances are scheduled so long before they are due: the broker's default of
#: group.max.session.timeout.ms. A shorter session timeout evicts at most that much earlier.
_LOOKAHEAD_MS = 1_800_000
_MOST_KEPT = 4_096  # rebalances that may still get rows
#: Rows that all simulations of a group keep to sort them, and characters of their plans.
_MOST_ROWS, _MOST_TEXT = 8_192, 16 << 20
#: Ranks of stored rows (their number is added) and of a checkpoint: before all other actions.
_STORED_ROW, _CHECKPOINT = -(1 << 40), -(1 << 20)

_FOLLOWS = "only completed the rebalance before it in the record"
_AWAY = "static members are expected back: nothing happens before their session times out"
_BACK = "a static member was back in time: it has what it had"
_SILENT = "nobody knows yet: a dead member is missed after its session timeout"
_MERGED = "part of a rebalance that waits for members that do not answer"
_NO_CAUSE = "nothing that this protocol would rebalance for"
_EMPTY = "nobody is there"


def simulate_cumulative(
    rebalances: Iterable[RecordedRebalance],
    policy: Policy,
    context: SimulationContext,
    listener: ConsumptionListener | None = None,
) -> Iterator[SimulatedRebalance]:
    """Simulate a group's whole history under one policy (group configuration).

    Each simulated rebalance starts from the previous simulated assignment. Yield rows of table
    ``replays``, in order of generation and of step (a rebalance may have follow-ups).

    Every recorded rebalance that can be replayed has at least one row: the simulated rebalance, or
    the reason why the policy has none.

    Args:
        rebalances: all recorded rebalances of the group, in order.
        policy: assignment strategy, protocol and options of the group.
        context: metadata, metrics and commit statistics that all policies share.
        listener: called at each change with the time (ms) and a dict of what members consume.
    """
    shared = RowBuilders(context)
    return _simulate_in_one_pass(
        rebalances, lambda lengths: [_Simulation(policy, context, (lengths, shared), listener)]
    )


def simulate_policies(
    rebalances: Iterable[RecordedRebalance],
    policies: Sequence[Policy],
    context: SimulationContext,
    continuations: Mapping[str, Continuation] | None = None,
) -> Iterator[SimulatedRebalance]:
    """Simulate a consumer group's whole history under several policies, in one pass over it.

    A policy is a group configuration, such as ``eager/range``. Yield rows of table ``replays``:
    those of each policy in order, alternating between policies.

    Args:
        rebalances: all recorded rebalances of the group, in order.
        policies: the policies to simulate.
        context: metadata, metrics and commit statistics that all policies share.
        continuations: stored simulations of an earlier run to continue, by a policy's name.
    """
    known, shared = continuations or {}, RowBuilders(context)

    def create_simulations(lengths: RecordedLengths) -> list[_Simulation]:
        both = lengths, shared
        return [_Simulation(p, context, both, None, known.get(p.name)) for p in policies]

    return _simulate_in_one_pass(rebalances, create_simulations)


def _simulate_in_one_pass(
    rebalances: Iterable[RecordedRebalance],
    create_simulations: Callable[[RecordedLengths], list[_Simulation]],
) -> Iterator[SimulatedRebalance]:
    """Simulate one group's history under several policies at once; yield rows of table ``replays``.

    ``create_simulations`` returns one simulation per policy, given the recorded times without a
    consumer. It is called for each incarnation (lifetime) of the group.
    """
    for _, incarnation in groupby(enumerate(rebalances), lambda one: one[1].generation.incarnation):
        lengths, newest_ms = RecordedLengths(), None
        simulations = create_simulations(lengths)
        waiting = WaitingRebalances(_LOOKAHEAD_MS)
        for position, rebalance in incarnation:
            recorded_ms = rebalance.generation.timestamp_ms
            # The order holds where a broker's clock went back.
            newest_ms = recorded_ms if newest_ms is None else max(newest_ms, recorded_ms)
            waiting.append(newest_ms, position, rebalance)
            lengths.add_rebalance(rebalance)
            for one in simulations:
                one.schedule_rebalance(position, rebalance, newest_ms)
            _run_simulations_until(simulations, waiting, waiting.due_before_ms(newest_ms))
            for one in simulations:
                if one.exceeds_memory_share(len(simulations)):
                    yield from one.take_rows(len(one.rows) // 2)
        for one in simulations:
            one.schedule_last_rows(position)
        _run_simulations_until(simulations, waiting, None)
        for one in simulations:
            yield from one.take_rows(len(one.rows))


def _run_simulations_until(
    simulations: Sequence[_Simulation], waiting: WaitingRebalances, before_ms: int | None
) -> None:
    """Run the simulations of all policies up to the time ``before_ms``; None means to the end.

    ``waiting`` has the recorded rebalances that are still to be simulated, as (time in ms, position
    in the history). Those that are due are removed.
    """
    while (next_ms := waiting.next_ms()) is not None and (before_ms is None or next_ms < before_ms):
        time_ms, position = waiting.take_next()
        later_ms = waiting.next_ms()
        is_between = later_ms is None or later_ms > time_ms
        for one in simulations:
            one.clock.run_scheduled(before_ms=time_ms + 1)
            one.store_state_if_needed(position, time_ms, is_last_at_time=is_between)
    for one in simulations:
        one.clock.run_scheduled(before_ms=before_ms)


class _Simulation:
    """The simulation of a group in one configuration (policy), from its creation to its deletion.

    Members, their partitions and the strategy's stored data carry over from rebalance to rebalance.
    """

    def __init__(
        self,
        policy: Policy,
        context: SimulationContext,
        shared: tuple[RecordedLengths, RowBuilders],
        listener: ConsumptionListener | None,
        continuation: Continuation | None = None,
    ) -> None:
        self.policy, self.context = policy, context
        lengths, self.row_builders = shared
        self.clock = Clock()
        self.consumption = ConsumptionTracker(self.clock, listener)
        self.state = PolicyState()
        self.lengths = StopLengths(context.server_session_ms, lengths)
        #: Begins the second phase of the newest rebalance of `own`, when the recorded one began.
        self.second_phase: Callable[[], None] = lambda: None
        self.pending: PendingRebalance | None = None
        self.cluster = context.clusters.cluster_at(0)
        self.rows: list[SimulatedRebalance] = []
        self.text = 0
        #: Number of rows of each recorded rebalance, by its `identity`.
        self.counts: dict[object, int] = {}
        self.continuation = continuation
        #: Receives rows and checkpoints; None if nothing is stored (any more).
        self.store: SimulationStore | None = None if continuation is None else continuation.store
        past = None if continuation is None else continuation.checkpoint
        self.recent = RecentRebalances(frozenset() if past is None else past.rebalance_positions)
        self.loads = PlanLoads()
        self.unread_inputs: UnreadInputs | None = None
        #: Recorded rebalance whose strategy `own` used last.
        self.resolved_at: RecordedRebalance | None = None
        #: Position of the newest recorded rebalance some of whose evictions came earlier.
        self.newest_early = -1

    def schedule_rebalance(self, position: int, rebalance: RecordedRebalance, time_ms: int) -> None:
        """Schedule a recorded rebalance, which is simulated when the clock reaches its time.

        ``position`` is its index in the group's history. If an earlier run has simulated it, the
        rows that this run stored are scheduled for output instead.
        """
        if self.continuation is not None:
            self.recent.add_rebalance(position, rebalance)
            if self.continuation.is_already_simulated(position):
                self._schedule_stored_rows(self.continuation, position, time_ms)
                return
        for absence in rebalance.departures:
            early = absence.gone_ms + self._timeout(absence.member)
            if absence.expired and early < rebalance.generation.timestamp_ms:
                self.clock.schedule_at(early, partial(self._evict_early, rebalance, absence))
        self.clock.schedule_at(time_ms, partial(self._apply_membership_changes, rebalance), rank=1)

    def exceeds_memory_share(self, simulations: int) -> bool:
        """Return whether this simulation holds more output rows than its share of the memory limit.

        ``simulations`` is the number of policies that are simulated at once and share the limit.
        """
        return max(len(self.rows) / _MOST_ROWS, self.text / _MOST_TEXT) >= 1 / simulations

    def take_rows(self, count: int) -> list[SimulatedRebalance]:
        """Remove and return the ``count`` oldest rows of table ``replays`` that are finished."""
        self.rows.sort(key=lambda r: (r.incarnation, r.generation, r.step))
        done, self.rows = self.rows[:count], self.rows[count:]
        self.text = sum(len(row.plan or "") for row in self.rows)
        self.counts = dict(list(self.counts.items())[-_MOST_KEPT:])
        self.state.forget_old_members(_MOST_KEPT)
        return done

    # -- checkpoints ---------------------------------------------------------------------------

    def _schedule_stored_rows(
        self, continuation: Continuation, position: int, time_ms: int | None
    ) -> None:
        """Schedule the output of rows that an earlier run has stored, up to a recorded rebalance.

        ``continuation`` has the rows; ``position`` is the rebalance's index in the history.
        """
        for number, row in continuation.rows_until(position, time_ms):
            rank = _STORED_ROW + number
            self.clock.schedule_at(row.time_ms, partial(self._add_stored, row), rank=rank)
        past = continuation.checkpoint
        if past is not None and position == past.position and time_ms is not None:
            restore = partial(self._restore_checkpoint, past)
            self.clock.schedule_at(time_ms, restore, rank=_CHECKPOINT)

    def schedule_last_rows(self, position: int) -> None:
        """Schedule the output of the remaining rows that an earlier run has stored."""
        if self.continuation is not None and self.continuation.is_already_simulated(position):
            self._schedule_stored_rows(self.continuation, position, None)

    def _add_stored(self, row: StoredRow) -> None:
        rebalance = self.recent[row.position]
        self._append(row.complete_row(self.policy.name, rebalance, self.context, self.lengths))

    def store_state_if_needed(self, position: int, time_ms: int, *, is_last_at_time: bool) -> None:
        """Store a checkpoint of the simulation after a recorded rebalance, if one is wanted there.

        ``position`` is the rebalance's index in the history. ``is_last_at_time`` is false if the
        next recorded rebalance has the same time.
        """
        known = self.continuation
        if known is None:
            return
        is_new = not known.is_already_simulated(position) and self.newest_early <= position
        if self.store is not None and is_new and is_last_at_time and position in known.wanted:
            with suppress(KeyError):  # it refers to a rebalance too long ago
                self.store.store_checkpoint(self._build_checkpoint(position, time_ms))
        self.recent.forget_before(position - _MOST_KEPT)

    def _build_checkpoint(self, position: int, time_ms: int) -> Checkpoint:
        """Return the state of the simulation as a checkpoint, from which a later run continues.

        Raises:
            KeyError: the state refers to a rebalance that is no longer in memory.
        """
        state, at, waits = self.state, self.recent.position_of_rebalance, self.pending
        actions: list[PendingAction] = []
        for due_ms, action in self.clock.list_scheduled():
            if isinstance(action, partial) and action.func == self._begin_follow_up_rebalance:
                rebalance, generation = action.args
                actions.append(PendingAction(due_ms, at(rebalance), generation))
            elif isinstance(action, partial) and action.func == self._evict_at_session_timeout:
                key, one = action.args
                is_absent = state.absent.get(key) is one
                more = (None, key, one.gone_ms, one.timeout_ms, is_absent)
                actions.append(PendingAction(due_ms, at(one.rebalance), *more))
        second = self.second_phase.args if isinstance(self.second_phase, partial) else (None, -1)
        found = Checkpoint(
            position, time_ms, tuple(state.members.values()), tuple(actions),
            tuple(state.released), state.former, state.was_empty, state.key_of,
            tuple(state.evicted_early), state.generation,
            None if self.resolved_at is None else at(self.resolved_at),
            (at(second[0]), second[1]) if second[1] == state.generation else None,
            None if waits is None else (at(waits.rebalance), waits.since_ms, waits.extra), (),
        )  # fmt: skip
        places = sorted(found.rebalance_positions)
        steps = ((one, self._row_count(self.recent[one])) for one in places)
        return replace(found, steps=tuple(steps))

    def _restore_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Restore the simulation's members and pending actions from a checkpoint of an
        earlier run.
        """
        recent = self.recent
        time_ms = recent[checkpoint.position].generation.timestamp_ms
        self.cluster = self.context.clusters.cluster_at(time_ms)
        self.state = state = PolicyState(
            {one.key: one for one in checkpoint.members}, {}, list(checkpoint.released),
            dict(checkpoint.former), checkpoint.was_empty, dict(checkpoint.key_of),
            dict.fromkeys(checkpoint.evicted_early), checkpoint.generation,
        )  # fmt: skip
        if checkpoint.resolved_at is not None:
            self.resolved_at = recent[checkpoint.resolved_at]
            state.resolved = ResolvedPolicy.resolve(self.policy, self.resolved_at)
        for action in checkpoint.actions:
            rebalance = recent[action.position]
            do: Callable[[], None]
            if action.generation is not None:
                do = partial(self._begin_follow_up_rebalance, rebalance, action.generation)
            else:
                absent = AbsentMember(rebalance, action.gone_ms, action.timeout_ms)
                do = partial(self._evict_at_session_timeout, action.key, absent)
                if action.is_absent:
                    state.absent[action.key] = absent
            self.clock.schedule_at(action.time_ms, do, rank=-1)
        if checkpoint.second_phase is not None:
            at, generation = checkpoint.second_phase
            self.second_phase = partial(self._begin_follow_up_rebalance, recent[at], generation)
        if checkpoint.pending is not None:
            at, since_ms, extra = checkpoint.pending
            self.pending = PendingRebalance(recent[at], since_ms, extra)
        for at, steps in checkpoint.steps:
            self.counts[recent[at].identity] = steps

    # -- causes in the record ------------------------------------------------------------------

    def _apply_membership_changes(self, rebalance: RecordedRebalance) -> None:
        """Apply the departures and joins of a recorded rebalance to the simulated group.

        If they cause a rebalance under the policy, simulate it. Otherwise add an output row with
        the reason why there is no rebalance.
        """
        generation = rebalance.generation
        self.cluster = self.context.clusters.cluster_at(generation.timestamp_ms)
        if not rebalance.replayable and generation.first.members:
            for key in list(self.state.members):
                self._remove_member(key)
            self.state.released, self.pending = [], None
            return
        extra, why, is_caused = Absences(), _NO_CAUSE, False
        for absence in rebalance.departures:
            is_known, undetected = self._apply_departure(rebalance, absence)
            is_caused, extra = is_caused or is_known, extra.add_absences(undetected)
            why = _AWAY if self.policy.static else _SILENT
        for absence in rebalance.returns if self.policy.static else ():
            if absence.as_member is not None:  # a static member keeps its identity (KIP-345)
                self.state.key_of[absence.as_member.id] = self.state.member_key(absence.member)
        for member in generation.first.members:
            is_change, absent = self._apply_join(member)
            is_caused = is_caused or is_change
            if absent is not None:
                extra, why = extra.add_absences(absent), _BACK if absent.away_s else why
        self.state.sort_members_as_recorded(generation.first.members)
        is_caused = is_caused or has_other_cause(self.policy, rebalance)
        if rebalance.is_follow_up and not is_caused:
            why = _FOLLOWS
            self.second_phase()
        if is_caused:
            self._begin_rebalance(rebalance, extra)
        else:
            self._add_row_without_rebalance(rebalance, why, extra)
        self._complete_pending_rebalance()

    def _apply_departure(
        self, rebalance: RecordedRebalance, absence: Absence
    ) -> tuple[bool, Absences]:
        """Let a member leave the simulated group, or stop its heartbeats, as it did in the record.

        Return whether the coordinator notices this now, and the partition-seconds without a
        consumer so far.
        """
        member = absence.member
        key = self.state.member_key(member)
        if not self.state.is_responding(key):
            return False, Absences()
        timeout = self._timeout(member)
        if not absence.expired and (member.instance is not None or not self.policy.static):
            self._remove_member(key)
            return True, Absences()
        evicted_ms = absence.gone_ms + timeout
        if evicted_ms <= self.clock.now_ms:
            later = evicted_ms - rebalance.generation.timestamp_ms
            return True, self._evict_member(key, timeout, later)
        absent = AbsentMember(rebalance, absence.gone_ms, timeout)
        self.state.absent[key] = absent
        evict = partial(self._evict_at_session_timeout, key, absent)
        self.clock.schedule_at(evicted_ms, evict, rank=-1)
        return False, Absences()

    def _apply_join(self, member: MemberState) -> tuple[bool, Absences | None]:
        """Add a recorded member to the simulated group, or update its subscription.

        Return whether the group changes. If the member did not respond before, also return the
        partition-seconds in which its partitions had no consumer.
        """
        state = self.state
        if member.id in state.evicted_early:
            return False, None
        key = state.key_of.setdefault(member.id, member.owner_identity)
        known = state.members.get(key)
        if known is None:
            state.members[key] = SimulatedMember(key, member)
            return True, None
        absence = None
        absent = state.absent.pop(key, None)
        if absent is not None:
            away = max(0, self.clock.now_ms - absent.gone_ms) / 1_000
            seconds = away * len(known.owned)
            absence = Absences(Bounds(seconds, seconds), seconds)
        if known.state is member:
            return False, absence
        is_new_subscription = subscribed_topics(known.state) != subscribed_topics(member)
        is_restarted = known.state.id != member.id
        if is_restarted:
            state.former[key] = known.state.id
        known.state = member
        if is_restarted:  # the coordinator returns its assignment, and that is all it remembers
            self._restore_memory(known)
        return is_new_subscription, absence

    # -- evictions -----------------------------------------------------------------------------

    def _evict_at_session_timeout(self, member_key: str, absence: AbsentMember) -> None:
        """Evict a member that stopped its heartbeats, at its session timeout; begin a rebalance."""
        if self.state.absent.get(member_key) is absence:
            later = self.clock.now_ms - absence.rebalance.generation.timestamp_ms
            extra = self._evict_member(member_key, absence.timeout_ms, later)
            self._begin_rebalance(absence.rebalance, extra)
            self._complete_pending_rebalance()

    def _evict_early(self, rebalance: RecordedRebalance, absence: Absence) -> None:
        """Evict a dead member earlier than recorded, at its shorter simulated session timeout."""
        if self.continuation is not None:
            self.newest_early = max(self.newest_early, self.recent.position_of_rebalance(rebalance))
        key = self.state.member_key(absence.member)
        if self.state.is_responding(key):
            self.state.evicted_early[absence.member.id] = None
            later = self.clock.now_ms - rebalance.generation.timestamp_ms
            evicted = self._evict_member(key, self._timeout(absence.member), later)
            self._begin_rebalance(rebalance, evicted)

    def _evict_member(self, member_key: str, timeout_ms: int, delay_ms: int) -> Absences:
        """Evict a dead member; return the partition-seconds without a consumer since its death.

        ``delay_ms`` is the time from its recorded to its simulated eviction, negative if earlier.
        """
        partitions = len(self.state.members[member_key].owned)
        self._remove_member(member_key, timeout_ms, delay_ms)
        return Absences(detection_delay(timeout_ms).multiply_by(partitions / 1_000))

    def _remove_member(
        self, member_key: str, session_ms: int | None = None, delay_ms: int = 0
    ) -> None:
        """Remove a member from the simulated group, so that its partitions have no owner.

        ``session_ms`` is its session timeout if it was evicted, ``delay_ms`` the time from its
        recorded to its simulated departure.
        """
        ids = self._recent_member_ids(member_key)
        partitions = self.state.members.pop(member_key).last_owned
        self.state.released.append(DepartedOwner(partitions, ids, session_ms, delay_ms))
        self.state.absent.pop(member_key, None)
        self.consumption.remove_member(member_key)

    def _recent_member_ids(self, member_key: str) -> tuple[str, ...]:
        """Return the Kafka member ids that a member had since the last rebalance, newest first."""
        former = self.state.former.get(member_key)
        return (self.state.members[member_key].state.id, *(() if former is None else (former,)))

    def _timeout(self, member: MemberState) -> int:
        return self.policy.timeout_ms or session_timeout_ms(member)

    # -- rebalances ----------------------------------------------------------------------------

    def _begin_rebalance(self, rebalance: RecordedRebalance, extra_downtime: Absences) -> None:
        """Begin a simulated rebalance of the group, or add an output row with the reason why not.

        In a classic group the rebalance waits until absent members have returned or were evicted.
        ``extra_downtime`` are the partition-seconds without a consumer before it.
        """
        state = self.state
        if len(state.absent) == len(state.members):
            if not state.members:  # without a consumer they cannot stop at the next join
                state.released, state.was_empty = [], True
            self._add_row_without_rebalance(
                rebalance, _EMPTY if not state.members else _AWAY, extra_downtime
            )
        elif self.pending is not None:
            self._add_row_without_rebalance(rebalance, _MERGED, extra_downtime)
        elif state.absent and protocol_under_policy(self.policy, rebalance) != CONSUMER:
            self.pending = PendingRebalance(rebalance, self.clock.now_ms, extra_downtime)
        else:
            self._complete_rebalance(rebalance, extra_downtime, None)

    def _complete_pending_rebalance(self) -> None:
        """Complete the waiting simulated rebalance if all members have joined or were evicted."""
        pending = self.pending
        if pending is not None and not self.state.absent and self.state.members:
            self.pending = None
            waited = self.clock.now_ms - pending.since_ms
            longer = Bounds(waited, waited) if waited else None
            self._complete_rebalance(pending.rebalance, pending.extra, longer)

    def _complete_rebalance(
        self, rebalance: RecordedRebalance, extra_downtime: Absences, longer_ms: Bounds | None
    ) -> None:
        """Run the assignment strategy in a simulated rebalance and add its output row.

        The second phase is scheduled if the cooperative protocol needs one. ``extra_downtime`` are
        the partition-seconds without a consumer before it, ``longer_ms`` is how long it waited.
        """
        state = self.state
        resolved = ResolvedPolicy.resolve(self.policy, rebalance)
        rows = self._row_builder(rebalance)
        if resolved is None:
            if rows is not None:
                self._add_row(
                    rebalance, rows.unknown_strategy_row(self.policy, self._place(rebalance))
                )
            return
        self._switch_strategy(resolved)
        self.resolved_at = rebalance
        state.generation += 1
        members = list(state.members.values())
        leader = rebalance.generation.first.leader
        before = self.consumption.owned_partitions(members)
        result = resolved.simulate_rebalance(
            members,
            self.cluster,
            state.generation,
            self.context.problems,
            leader=leader,
            departed=[one.partitions for one in state.released],
        )
        unread = partial(self._estimate_rebalance_downtime, rebalance, extra_downtime, longer_ms)
        self.consumption.apply_assignment(members, before, resolved.policy)
        if rows is not None:
            row = rows.simulated_row(
                self.policy,
                resolved,
                result,
                row_position=self._place(rebalance),
                cluster=self.cluster,
                extra_downtime=extra_downtime.bounds,
                longer_ms=longer_ms,
                unread=unread,
                is_stored=self.store is not None,
            )
            self._add_row(rebalance, row)
        state.released, state.former, state.was_empty = [], {}, False
        if result.needs_follow_up and self._row_count(rebalance) <= MOST_FOLLOW_UPS:
            follow_up = partial(self._begin_follow_up_rebalance, rebalance, state.generation)
            if self.policy.is_own:
                self.second_phase = follow_up
            else:
                wait = min((self._timeout(m.state) // 3 for m in members), default=0)
                self.clock.schedule_after(min(wait, HEARTBEAT_MS), follow_up, rank=-1)

    def _estimate_rebalance_downtime(
        self,
        rebalance: RecordedRebalance,
        extra_downtime: Absences,
        longer_ms: Bounds | None,
        stops: Int32Array,
        result: RoundResult,
    ) -> UnreadEstimate | None:
        """Estimate how long partitions have no consumer because of a simulated rebalance.

        ``stops`` are these partitions, ``longer_ms`` is how long the rebalance waited for members.
        """
        recorded = self.context.rebalance_costs(rebalance).protocol
        protocol = recorded if self.policy.protocol == OWN else self.policy.protocol
        is_other = protocol not in (EAGER, recorded)
        waited_ms = longer_ms.high if longer_ms is not None else 0.0
        ids = [self._recent_member_ids(key) for key in self.state.members]
        found = find_stops(
            (stops, result.last_owner), self.cluster.index, ids, self.state.released, waited_ms,
            protocol=protocol if is_other else None,
        )  # fmt: skip
        is_first = self._row_count(rebalance) == 0
        inputs = UnreadInputs(found, self.state.was_empty, extra_downtime.away_s, is_first)
        return self._estimate_downtime(rebalance, inputs)

    def _estimate_downtime(
        self, rebalance: RecordedRebalance, inputs: UnreadInputs
    ) -> UnreadEstimate | None:
        """Estimate the partition-seconds without a consumer in a rebalance, and store the inputs,
        so that a later run can repeat the estimate.
        """
        self.unread_inputs = inputs
        return inputs.estimate_downtime(self.lengths, rebalance)

    def _begin_follow_up_rebalance(self, rebalance: RecordedRebalance, generation: int) -> None:
        """Begin a cooperative group's second rebalance, unless another one has begun meanwhile."""
        if generation == self.state.generation and self.pending is None:
            self._begin_rebalance(rebalance, Absences())

    def _switch_strategy(self, resolved: ResolvedPolicy) -> None:
        """Switch the simulated group to another strategy; members lose the old one's stored
        data.
        """
        before, self.state.resolved = self.state.resolved, resolved
        if before is not None and before.strategy is not resolved.strategy:
            for member in self.state.members.values():
                self._restore_memory(member)

    def _restore_memory(self, member: SimulatedMember) -> None:
        resolved = self.state.resolved
        if resolved is None or not len(member.owned):
            member.memory = None
        else:
            member.memory = resolved.compute_member_data(member, self.cluster.index)

    # -- rows ----------------------------------------------------------------------------------

    def _row_builder(self, rebalance: RecordedRebalance) -> RowBuilder | None:
        """Return the builder of output rows, or None if the rebalance cannot be simulated."""
        return self.row_builders.row_builder(rebalance) if rebalance.replayable else None

    def _row_count(self, rebalance: RecordedRebalance) -> int:
        """Return how many rows of table ``replays`` a recorded rebalance has so far."""
        return self.counts.get(rebalance.identity, 0)

    def _add_row_without_rebalance(
        self, rebalance: RecordedRebalance, reason: str, extra_downtime: Absences
    ) -> None:
        """Add an output row that says why a recorded rebalance does not happen under the policy."""
        rows = self._row_builder(rebalance)
        resolved = ResolvedPolicy.resolve(self.policy, rebalance)
        if rows is not None and resolved is not None:
            place = self._place(rebalance)
            inputs = UnreadInputs(away_s=extra_downtime.away_s, restarts=place.step == 0)
            unread = self._estimate_downtime(rebalance, inputs)
            row = rows.no_rebalance_row(
                self.policy, resolved, reason,
                row_position=place, stopped=extra_downtime.bounds, unread=unread,
            )  # fmt: skip
            self._add_row(rebalance, row)
        elif rows is not None:
            self._add_row(rebalance, rows.unknown_strategy_row(self.policy, self._place(rebalance)))

    def _place(self, rebalance: RecordedRebalance) -> RowPosition:
        return RowPosition(self._row_count(rebalance), self.clock.now_ms)

    def _add_row(self, rebalance: RecordedRebalance, row: SimulatedRebalance) -> None:
        """Add a row of table ``replays`` for a recorded rebalance, and store it for the
        next run.
        """
        if self.store is not None:
            try:
                position = self.recent.position_of_rebalance(rebalance)
                stored = StoredRow.from_row(position, row, self.unread_inputs, self.loads)
                self.store.store_row(stored)
            except KeyError:  # too long ago: only what is stored so far can be continued
                self.store = None
        self.unread_inputs = None
        self.counts[rebalance.identity] = self._row_count(rebalance) + 1
        self._append(row if row.recompute is None else replace(row, recompute=None))

    def _append(self, row: SimulatedRebalance) -> None:
        self.rows.append(row)
        self.text += len(row.plan or "")
