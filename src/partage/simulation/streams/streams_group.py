"""A streams group on the clock (KIP-1071): targets by the coordinator, tasks handed over singly."""

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
    """A member as the coordinator has it: a thread of a client.

    Attributes:
        id: of the member.
        instance: its client.
        process: id of it, as text.
        since_ms: when it sent a heartbeat; the next ones are counted from there.
        target, target_standby: tasks that it shall have.
        active, standby: tasks that it has.
        leaving: those of them that it has been told to give up, and may not have given up yet.
        due_ms: when its next heartbeat with something to do is, None if none has.
    """

    id: str
    instance: RunningClient
    process: str
    since_ms: int
    target: set[TaskId] = field(default_factory=set)
    target_standby: set[TaskId] = field(default_factory=set)
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    leaving: set[TaskId] = field(default_factory=set)
    due_ms: int | None = None

    @property
    def settled(self) -> bool:
        """Whether it has what it shall have, and nothing else."""
        return (self.active, self.standby) == (self.target, self.target_standby)


class StreamsGroupSimulation(StreamsSimulation):
    """A streams group: nobody looks at lags, nobody probes, nothing is warmed up.

    The coordinator does something when it gets a heartbeat. Who comes or goes makes a new target
    with the next heartbeat of anybody, at most one per assignment interval; a joining member's
    first heartbeat is one. Each member hears of it with its next heartbeat. It gives up what it
    shall not have and says so in a heartbeat of its own, as soon as it has done so; only then
    does it get anything, and others what it had. It gets an active task when no member has it
    and no copy of it is on its own process, a standby when its process has no copy. Everybody
    else goes on meanwhile.

    Source: ``GroupMetadataManager.streamsGroupHeartbeat``, ``CurrentAssignmentBuilder`` and
    ``StreamsMembershipManager`` 4.3.1.
    """

    def __init__(self, application: SimulatedApplication, assignor: ServerSticky) -> None:
        runtime = application.runtime
        super().__init__(application, runtime.streams_session_timeout_ms)
        self._runtime, self._assignor = runtime, assignor
        self._members: dict[str, _Member] = {}
        self._causes: list[str] = []
        self._asked = 0
        self._assigned: int | None = None
        self._held = False
        self._slots = 2
        layout = application.layout
        tasks_of: dict[int, list[TaskId]] = {}
        for task in sorted(layout.partitions_of):
            tasks_of.setdefault(task.subtopology, []).append(task)
        self._subtopologies = [
            ServerSubtopology(str(number), len(tasks), tasks[0] in layout.changelogs_of)
            for number, tasks in tasks_of.items()
        ]

    # -- who is in the group -------------------------------------------------------------------

    def open(self) -> None:
        """All have joined before the first target, and have it at once."""
        if not self.world.up:
            return
        for instance in self.world.up.values():
            for one in instance.consumers:
                self._enlist(instance, one)
        self._slots = timeline_slots(len(self._members))
        self._ask("start")
        self._assign()
        for member in self._members.values():
            self._reconcile(member)

    def came(self, instance: RunningClient) -> None:
        """Its threads join as new members one after the other, whatever it was before."""
        for one in instance.consumers:
            if not self._members and not self._held:
                self._hold()
            self._enlist(instance, one)
            self._ask(f"{instance.name} joined")
            self._beat(self._members[one], joining=True)
            self._slots = timeline_slots(len(self._members), self._slots)

    def lost(self, name: str, consumers: Sequence[str], how: str) -> None:
        """What they had is free."""
        for one in consumers:
            del self._members[one]
        if self._members:
            self._ask(f"{name} {how}")
        else:
            self._causes.clear()

    def asked(self, name: str) -> None:
        """The coordinator makes another target."""
        self._ask(f"{name} asked")

    def heard(self, consumer: str) -> int:
        """A member that dies was heard of with its last heartbeat."""
        since = self._members[consumer].since_ms
        interval = self._runtime.streams_heartbeat_interval_ms
        return since + (self.loop.now_ms - since) // interval * interval

    def _enlist(self, instance: RunningClient, consumer: str) -> None:
        self._members[consumer] = _Member(
            consumer, instance, str(instance.process), self.loop.now_ms
        )

    def _hold(self) -> None:
        """The first member of an empty group waits for others."""
        self._held = True

        def over() -> None:
            self._held = False
            self._assign_if_due()

        self.plan(self.loop.now_ms + self._runtime.streams_initial_rebalance_delay_ms, over, rank=1)

    # -- targets -------------------------------------------------------------------------------

    def _ask(self, cause: str) -> None:
        if not self._causes:
            self._asked = self.loop.now_ms
        if cause not in self._causes:
            self._causes.append(cause)
        for member in self._members.values():
            self._await(member)

    def _assign_if_due(self, joining: _Member | None = None) -> None:
        """A heartbeat makes the new target that is wanted, unless the last one is too young."""
        if not self._causes or self._held:
            return
        interval = self._runtime.streams_assignment_interval_ms
        if self._assigned is None or self.loop.now_ms >= self._assigned + interval:
            self._assign(joining)

    def _assign(self, joining: _Member | None = None) -> None:
        causes, self._causes = tuple(self._causes), []
        self._assigned = self.loop.now_ms
        if not self._members:
            return
        told = [
            ServerMember(one.id, one.process, _by_subtopology(one.target),
                         _by_subtopology(one.target_standby))
            for one in self._in_map_order(joining)
        ]  # fmt: skip
        standbys = str(self.app.settings.num_standby_replicas)
        plan = self._assignor.assign(self._subtopologies, told, {"num.standby.replicas": standbys})
        for name, member in self._members.items():
            member.target = {TaskId(int(one), number) for one, number in plan.active[name]}
            member.target_standby = {TaskId(int(one), number) for one, number in plan.standby[name]}
        self._note(causes)
        for member in self._members.values():
            self._await(member)

    def _in_map_order(self, joining: _Member | None) -> list[_Member]:
        """As the coordinator walks its members; one that is just joining comes last."""
        known = [one for one in self._members.values() if one is not joining]
        places = timeline_order([string_hash(one.id) for one in known], self._slots)
        return [*(known[place] for place in places), *([joining] if joining else [])]

    def _note(self, causes: tuple[str, ...]) -> None:
        active: dict[str, tuple[TaskId, ...]] = {}
        standby: dict[str, tuple[TaskId, ...]] = {}
        waits = []
        given: dict[str, tuple[tuple[tuple[TaskId, ...], tuple[TaskId, ...]], ...]] = {}
        for member in self._members.values():
            name = member.instance.name
            if self.world.up.get(name, member.instance) is not member.instance:
                name = f"{name} (dead)"  # not missed yet, and back already
            active[name] = (*active.get(name, ()), *sorted(member.target))
            standby[name] = (*standby.get(name, ()), *sorted(member.target_standby))
            target = (tuple(sorted(member.target)), tuple(sorted(member.target_standby)))
            given[name] = (*given.get(name, ()), target)
            waits += [
                task
                for task in member.target - member.active
                if any(task in other.active for other in self._members.values())
            ]
        self.played.rebalances.append(
            StreamsRebalance(
                self._asked,
                self.loop.now_ms,
                causes,
                active,
                standby,
                withheld=tuple(sorted(waits)),
                given=given,
            )
        )

    # -- members -------------------------------------------------------------------------------

    def _await(self, member: _Member) -> None:
        """Plan its next heartbeat, if that has anything to do."""
        if member.settled and not self._causes:
            return
        interval = self._runtime.streams_heartbeat_interval_ms
        beats = (self.loop.now_ms - member.since_ms) // interval + 1
        self._beat_at(member, member.since_ms + beats * interval)

    def _beat_at(self, member: _Member, due_ms: int) -> None:
        if member.due_ms is not None and member.due_ms <= due_ms:
            return
        member.due_ms = due_ms

        def beat() -> bool:
            up = self.world.up.get(member.instance.name) is member.instance
            if member.due_ms == due_ms and up and self._members.get(member.id) is member:
                return self._beat(member)
            return False

        self.plan(due_ms, beat)

    def _beat(self, member: _Member, *, joining: bool = False) -> bool:
        """A heartbeat; answers whether it changed what the member has."""
        told = bool(member.leaving)
        member.due_ms, member.since_ms = None, self.loop.now_ms
        self._assign_if_due(member if joining else None)
        changed = self._reconcile(member)
        if changed:
            # What it got it acknowledges, and what it gave up it tells, without waiting.
            self._beat_at(member, self.loop.now_ms + self._runtime.poll_ms)
        else:
            self._await(member)
        return changed or told

    def _reconcile(self, member: _Member) -> bool:
        """Give up first, then take what nobody has; answers whether there was anything.

        What it says it has given up is free for others from now on, and for itself with the
        next heartbeat: the coordinator looks at what it knew before this one.
        """
        gone = member.leaving
        active, standby = member.active - gone, member.standby - gone
        member.leaving = (active - member.target) | (standby - member.target_standby)
        more = (set(), set()) if member.leaving else self._free(member)
        member.active, member.standby = active | more[0], standby | more[1]
        self._give(member.instance)
        return bool(member.leaving or any(more))

    def _free(self, member: _Member) -> tuple[set[TaskId], set[TaskId]]:
        """Actives and standbys that it shall have, does not have, and can have now."""
        mine = [one for one in self._members.values() if one.process == member.process]
        active = {
            task
            for task in member.target - member.active
            if not any(task in one.active for one in self._members.values())
            and not any(task in one.standby for one in mine)
        }
        standby = {
            task
            for task in member.target_standby - member.standby
            if not any(task in one.active or task in one.standby for one in mine)
        }
        return active, standby

    def _give(self, instance: RunningClient) -> None:
        mine = [self._members[one] for one in instance.consumers if one in self._members]
        active = {task: one.id for one in mine for task in sorted(one.active - one.leaving)}
        standby = {task: one.id for one in mine for task in sorted(one.standby - one.leaving)}
        self.keep_for_a_while(instance, self.world.give(instance, active, standby, set()))


def _by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(str(task.subtopology), []).append(task.partition)
    return found
