"""Simulation of a Streams application in a streams group, whose coordinator assigns (KIP-1071).

Source: ``GroupMetadataManager.streamsGroupHeartbeat``, ``CurrentAssignmentBuilder`` and
``StreamsMembershipManager`` 4.3.1 and 4.4.0. The assignor decides which release is simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from partage.java.hash_order import timeline_order, timeline_slots
from partage.java.strings import string_hash
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.base import StreamsSimulation
from partage.simulation.streams.client_state import RunningClient
from partage.simulation.streams.result import StreamsRebalance
from partage.streams import TaskId
from partage.streams.kip1071_sticky import ServerMember, ServerSticky, ServerSubtopology

__all__ = ["StreamsGroupSimulation"]


@dataclass
class _Member:
    """A member of a streams group as the coordinator sees it: one thread of a client.

    Attributes:
        id: member id.
        client: the client that the thread belongs to.
        process: its client's process id, as text.
        since_ms: time of its last heartbeat (ms); the next ones follow at the heartbeat interval.
        target, target_standby: tasks of its target assignment.
        active, standby: tasks that it owns.
        offsets: sums of the changelog offsets of the tasks on its disk, as it reported them.
        revoking, revoking_standby: active and standby tasks that it must revoke and may not have
            revoked yet.
        due_ms: time of its next heartbeat with an effect; None if there is none.
    """

    id: str
    client: RunningClient
    process: str
    since_ms: int
    target: set[TaskId] = field(default_factory=set)
    target_standby: set[TaskId] = field(default_factory=set)
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    offsets: dict[TaskId, int] = field(default_factory=dict)
    revoking: set[TaskId] = field(default_factory=set)
    revoking_standby: set[TaskId] = field(default_factory=set)
    due_ms: int | None = None

    @property
    def is_reconciled(self) -> bool:
        return (self.active, self.standby) == (self.target, self.target_standby)

    @property
    def is_revoking(self) -> bool:
        return bool(self.revoking or self.revoking_standby)

    @property
    def kept(self) -> tuple[set[TaskId], set[TaskId]]:
        # Active and standby tasks that it does not have to revoke.
        return self.active - self.revoking, self.standby - self.revoking_standby


class StreamsGroupSimulation(StreamsSimulation):
    """Simulation of Kafka Streams in a streams group (KIP-1071), whose coordinator assigns tasks.

    Such groups have no probing rebalances and no warm-ups. After a member joined or left, the next
    heartbeat of any member computes a new target assignment. Each member learns its target with its
    next heartbeat, and first revokes all tasks outside of it. Then it gets its new tasks, and other
    members get the revoked ones. All other tasks keep running.

    Args:
        application: the application to simulate.
        assignor: the coordinator's assignor.
    """

    # There is at most one target per assignment interval. A member confirms a revocation with a
    # heartbeat. It gets an active task once no member owns it and no copy of it is on its own
    # process, and a standby once its process has no copy. Kafka 4.4.0 has a setting for warm-ups,
    # but its AssignmentRefiner returns the target unchanged. In Kafka 4.4 a target starts from the
    # tasks that members own and from the offsets that they reported when they joined; in 4.3 it
    # starts from the target before. In 4.4 a task changes between active and standby on its member
    # in one step; in 4.3 it is revoked and assigned again.
    def __init__(self, application: SimulatedApplication, assignor: ServerSticky) -> None:
        runtime = application.runtime
        super().__init__(application, runtime.streams_session_timeout_ms)
        self._runtime, self._assignor = runtime, assignor
        self._members: dict[str, _Member] = {}
        self._causes: list[str] = []
        self._began_ms = 0
        self._assigned_ms: int | None = None
        self._is_delayed = False
        self._slots = 2
        layout = application.layout
        tasks_of: dict[int, list[TaskId]] = {}
        for task in sorted(layout.partitions_of):
            tasks_of.setdefault(task.subtopology, []).append(task)
        self._subtopologies = [
            ServerSubtopology(str(number), len(tasks), tasks[0] in layout.changelogs_of)
            for number, tasks in tasks_of.items()
        ]

    # -- group protocol ------------------------------------------------------------------------

    def form_group(self) -> None:
        """Form the streams group from the clients that run when the simulation begins.

        All of their threads join before the coordinator assigns tasks for the first time.
        """
        if not self.state.up:
            return
        for client in self.state.up.values():
            for consumer in client.consumers:
                self._add_member(client, consumer)
        self._slots = timeline_slots(len(self._members))
        self._request_target("start")
        self._compute_target()
        for member in self._members.values():
            self._reconcile_member(member)

    def add_client(self, client: RunningClient) -> None:
        """Let the threads of a client join the streams group as new members, one after the other.

        Each join requests a new target assignment.
        """
        for consumer in client.consumers:
            if not self._members and not self._is_delayed:
                self._delay_first_assignment()
            self._add_member(client, consumer)
            self._request_target(f"{client.name} joined")
            self._process_heartbeat(self._members[consumer], joining=True)
            self._slots = timeline_slots(len(self._members), self._slots)

    def remove_consumers(self, name: str, consumers: Sequence[str], reason: str) -> None:
        """Remove members (``consumers``) of the client ``name``, which requests a new task
        assignment.

        ``reason`` says whether they left or were evicted.
        """
        for consumer in consumers:
            del self._members[consumer]
        if self._members:
            self._request_target(f"{name} {reason}")
        else:
            self._causes.clear()

    def request_rebalance(self, name: str) -> None:
        """Request a new target assignment because the client ``name`` has requested a rebalance.

        The next heartbeat of any member computes it.
        """
        self._request_target(f"{name} asked")

    def last_heartbeat_ms(self, consumer: str) -> int:
        """Return the time (ms) of the last heartbeat that the coordinator received from a consumer.

        It is called when the consumer crashes. The coordinator evicts it one session timeout after
        that heartbeat.
        """
        since = self._members[consumer].since_ms
        interval = self._runtime.streams_heartbeat_interval_ms
        return since + (self.clock.now_ms - since) // interval * interval

    def _add_member(self, client: RunningClient, consumer: str) -> None:
        process = str(client.process)
        member = _Member(consumer, client, process, self.clock.now_ms)
        if consumer == client.consumers[0]:  # it locks the state directories of the process first
            member.offsets = {task: int(copy.position) for task, copy in client.disk.items()}
        self._members[consumer] = member

    def _delay_first_assignment(self) -> None:
        """Delay the first task assignment of an empty streams group, so that more members can join.

        The assignment is computed when the delay ends.
        """
        self._is_delayed = True

        def end_delay() -> None:
            self._is_delayed = False
            self._compute_target_if_due()

        wait = self._runtime.streams_initial_rebalance_delay_ms
        self.schedule_action(self.clock.now_ms + wait, end_delay, rank=1)

    # -- target assignments --------------------------------------------------------------------

    def _request_target(self, cause: str) -> None:
        """Request a new target assignment of tasks; the next heartbeat of any member computes it.

        ``cause`` describes the reason in the output.
        """
        if not self._causes:
            self._began_ms = self.clock.now_ms
        if cause not in self._causes:
            self._causes.append(cause)
        for member in self._members.values():
            self._schedule_heartbeat(member)

    def _compute_target_if_due(self, joining: _Member | None = None) -> None:
        """Compute the requested target assignment if enough time has passed since the last one.

        ``joining`` is the member whose join triggers this; None without a join.
        """
        if not self._causes or self._is_delayed:
            return
        interval = self._runtime.streams_assignment_interval_ms
        if self._assigned_ms is None or self.clock.now_ms >= self._assigned_ms + interval:
            self._compute_target(joining)

    def _compute_target(self, joining: _Member | None = None) -> None:
        """Compute a new assignment of Streams tasks with the coordinator's assignor, and record it.

        ``joining`` is the member whose join triggers this; None without a join.
        """
        causes, self._causes = tuple(self._causes), []
        self._assigned_ms = self.clock.now_ms
        if not self._members:
            return
        members = [
            self._to_assignor_input(member) for member in self._members_in_map_order(joining)
        ]
        standbys = str(self.app.settings.num_standby_replicas)
        configs = {"num.standby.replicas": standbys}
        plan = self._assignor.assign(self._subtopologies, members, configs)
        for name, member in self._members.items():
            member.target = {TaskId(int(one), number) for one, number in plan.active[name]}
            member.target_standby = {TaskId(int(one), number) for one, number in plan.standby[name]}
        self._record(causes)
        for member in self._members.values():
            self._schedule_heartbeat(member)

    def _to_assignor_input(self, member: _Member) -> ServerMember:
        """Convert a simulated member to the input of the coordinator's task assignor.

        It has the member's process and its current tasks. With a Kafka 4.4 assignor it also has
        offset sums, which show how complete the task state on the member's disk is.
        """
        offsets: dict[str, dict[int, int]] = {}
        if self._assignor.is_4_3:
            active, standby = member.target, member.target_standby
        else:
            active, standby = member.kept
            for task in sorted(member.offsets):
                sums = offsets.setdefault(str(task.subtopology), {})
                sums[task.partition] = member.offsets[task]
        return ServerMember(
            member.id, member.process, _by_subtopology(active), _by_subtopology(standby), offsets
        )

    def _members_in_map_order(self, joining: _Member | None) -> list[_Member]:
        """Return the streams group's members in the iteration order of the coordinator's hash map.

        The assignor's result depends on this order. A joining member comes last.
        """
        known = [member for member in self._members.values() if member is not joining]
        places = timeline_order([string_hash(member.id) for member in known], self._slots)
        return [*(known[place] for place in places), *([joining] if joining else [])]

    def _record(self, causes: tuple[str, ...]) -> None:
        active: dict[str, tuple[TaskId, ...]] = {}
        standby: dict[str, tuple[TaskId, ...]] = {}
        withheld = []
        given: dict[str, tuple[tuple[tuple[TaskId, ...], tuple[TaskId, ...]], ...]] = {}
        for member in self._members.values():
            name = member.client.name
            if self.state.up.get(name, member.client) is not member.client:
                name = f"{name} (dead)"  # restarted, and the old members are not evicted yet
            target = (tuple(sorted(member.target)), tuple(sorted(member.target_standby)))
            active[name] = (*active.get(name, ()), *target[0])
            standby[name] = (*standby.get(name, ()), *target[1])
            given[name] = (*given.get(name, ()), target)
            withheld += [
                task
                for task in member.target - member.active
                if any(task in other.active for other in self._members.values())
            ]
        self.result.rebalances.append(
            StreamsRebalance(
                self._began_ms,
                self.clock.now_ms,
                causes,
                active,
                standby,
                withheld=tuple(sorted(withheld)),
                given=given,
            )
        )

    # -- heartbeats and reconciliation ---------------------------------------------------------

    def _schedule_heartbeat(self, member: _Member) -> None:
        """Schedule a member's next heartbeat, if it would have an effect.

        It has an effect if the member must change its tasks, or if a new target assignment is due.
        """
        if member.is_reconciled and not self._causes:
            return
        interval = self._runtime.streams_heartbeat_interval_ms
        beats = (self.clock.now_ms - member.since_ms) // interval + 1
        self._schedule_heartbeat_at(member, member.since_ms + beats * interval)

    def _schedule_heartbeat_at(self, member: _Member, due_ms: int) -> None:
        """Schedule a member's heartbeat at the simulated time ``due_ms``.

        Nothing is scheduled if the member already has an earlier heartbeat due.
        """
        if member.due_ms is not None and member.due_ms <= due_ms:
            return
        member.due_ms = due_ms

        def heartbeat() -> bool:
            is_up = self.state.up.get(member.client.name) is member.client
            if member.due_ms == due_ms and is_up and self._members.get(member.id) is member:
                return self._process_heartbeat(member)
            return False

        self.schedule_action(due_ms, heartbeat)

    def _process_heartbeat(self, member: _Member, *, joining: bool = False) -> bool:
        """Process a member's heartbeat; return whether the member's tasks have changed.

        ``joining`` says whether it is the member's first one.
        """
        was_revoking = member.is_revoking
        member.due_ms, member.since_ms = None, self.clock.now_ms
        self._compute_target_if_due(member if joining else None)
        is_changed = self._reconcile_member(member)
        if is_changed:
            # It acknowledges new tasks, and confirms revoked ones, without waiting.
            self._schedule_heartbeat_at(member, self.clock.now_ms + self._runtime.poll_ms)
        else:
            self._schedule_heartbeat(member)
        return is_changed or was_revoking

    def _reconcile_member(self, member: _Member) -> bool:
        """Let a member revoke the tasks outside of its target assignment, or else take new tasks.

        It takes those of its target that are free. Return whether the member revokes or takes a
        task.
        """
        # The coordinator decides by its state before this heartbeat: a task whose revocation the
        # member confirms is free for other members at once, but for this member only with its next
        # heartbeat.
        active, standby = member.kept
        member.revoking = active - member.target
        member.revoking_standby = standby - member.target_standby
        demoted: set[TaskId] = set()
        if not self._assignor.is_4_3:  # a standby becomes active, and the reverse, in one step
            member.revoking_standby -= member.target
            demoted = (
                (active & member.target_standby) - standby - self._tasks_of_process_peers(member)
            )
        new = (set(), set()) if member.is_revoking else self._free_tasks(member)
        member.active = active | new[0]
        member.standby = (standby | demoted | new[1]) - new[0]
        self._apply_assignment(member.client)
        return bool(member.is_revoking or demoted or any(new))

    def _tasks_of_process_peers(self, member: _Member) -> set[TaskId]:
        """Return the tasks (active or standby) of the other members in a member's process.

        The member cannot take a copy of these tasks.
        """
        others = [
            one for one in self._members.values()
            if one.process == member.process and one is not member
        ]  # fmt: skip
        return {task for one in others for task in one.active | one.standby}

    def _free_tasks(self, member: _Member) -> tuple[set[TaskId], set[TaskId]]:
        """Return the active and standby tasks of a member's target assignment that it can take now.

        No other member may own such a task, and no other member of the same process may have a copy
        of it.
        """
        same_process = [
            one for one in self._members.values()
            if one.process == member.process and (self._assignor.is_4_3 or one is not member)
        ]  # fmt: skip
        active = {
            task
            for task in member.target - member.active
            if not any(task in one.active for one in self._members.values())
            and not any(task in one.standby for one in same_process)
        }
        standby = {
            task
            for task in member.target_standby - member.standby
            if not any(task in one.active or task in one.standby for one in same_process)
        }
        return active, standby

    def _apply_assignment(self, client: RunningClient) -> None:
        """Give a Streams client the tasks of its members, except for those that they must revoke.

        Each member of the group is one thread of a client. State that the client no longer needs is
        removed later.
        """
        members = [self._members[one] for one in client.consumers if one in self._members]
        active = {task: one.id for one in members for task in sorted(one.kept[0])}
        standby = {task: one.id for one in members for task in sorted(one.kept[1])}
        self.schedule_state_cleanup(client, self.state.assign_tasks(client, active, standby, set()))


def _by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(str(task.subtopology), []).append(task.partition)
    return found
