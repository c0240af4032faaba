"""A streams group on the clock (KIP-1071): targets by the coordinator, tasks handed over singly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from partage.simulation.streams.application import Application
from partage.simulation.streams.played import Rebalanced
from partage.simulation.streams.stage import Stage
from partage.simulation.streams.world import Instance
from partage.streams import TaskId
from partage.streams.kip1071_sticky import ServerMember, ServerSticky, ServerSubtopology

__all__ = ["Coordinated"]


@dataclass
class _Member:
    """A member as the coordinator has it: a thread of a client.

    Attributes:
        id: of the member.
        instance: its client.
        process: id of it, as text.
        since_ms: when it joined; its heartbeats are counted from there.
        target, target_standby: tasks that it shall have.
        active, standby: tasks that it has.
        awaited: whether a heartbeat with something to do is planned.
    """

    id: str
    instance: Instance
    process: str
    since_ms: int
    target: set[TaskId] = field(default_factory=set)
    target_standby: set[TaskId] = field(default_factory=set)
    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    awaited: bool = False

    @property
    def settled(self) -> bool:
        """Whether it has what it shall have, and nothing else."""
        return (self.active, self.standby) == (self.target, self.target_standby)


class Coordinated(Stage):
    """A streams group: nobody looks at lags, nobody probes, nothing is warmed up.

    Who comes or goes makes a new target, at most one per assignment interval. Each member hears
    of it with its next heartbeat. It gives up what it shall not have at once; it gets an active
    task when no member has it and no copy of it is on its own process, a standby when its
    process has no copy. Everybody else goes on meanwhile.

    Source: ``CurrentAssignmentBuilder`` 4.3.1.
    """

    def __init__(self, application: Application, assignor: ServerSticky) -> None:
        runtime = application.runtime
        super().__init__(application, runtime.streams_session_timeout_ms)
        self._runtime, self._assignor = runtime, assignor
        self._members: dict[str, _Member] = {}
        self._causes: list[str] = []
        self._asked = 0
        self._assigned: int | None = None
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
        for instance in self.world.up.values():
            self._enlist(instance)
        self._causes = ["start"]
        self._assign()
        for member in self._members.values():
            self._reconcile(member)

    def came(self, instance: Instance) -> None:
        """Its threads join as new members, whatever it was before."""
        alone = not self._members
        self._enlist(instance)
        wait = self._runtime.streams_initial_rebalance_delay_ms if alone else 0
        self._ask(f"{instance.name} joined", wait)

    def lost(self, name: str, consumers: Sequence[str], how: str) -> None:
        """What they had is free."""
        for one in consumers:
            del self._members[one]
        self._ask(f"{name} {how}", 0)

    def asked(self, name: str) -> None:
        """The coordinator makes another target."""
        self._ask(f"{name} asked", 0)

    def _enlist(self, instance: Instance) -> None:
        for one in instance.consumers:
            self._members[one] = _Member(one, instance, str(instance.process), self.loop.now_ms)

    # -- targets -------------------------------------------------------------------------------

    def _ask(self, cause: str, wait_ms: int) -> None:
        self._causes.append(cause)
        if len(self._causes) > 1:
            return
        self._asked = due = self.loop.now_ms
        if self._assigned is not None:
            due = max(due, self._assigned + self._runtime.streams_assignment_interval_ms)
        # After everything else of this moment: who comes and goes at once makes one target.
        self.plan(max(due, self.loop.now_ms + wait_ms), self._assign, rank=1)

    def _assign(self) -> None:
        causes, self._causes = tuple(self._causes), []
        self._assigned = self.loop.now_ms
        if not self._members:
            return
        told = [
            ServerMember(one.id, one.process, _by_subtopology(one.target),
                         _by_subtopology(one.target_standby))
            for one in self._members.values()
        ]  # fmt: skip
        standbys = str(self.app.settings.num_standby_replicas)
        plan = self._assignor.assign(self._subtopologies, told, {"num.standby.replicas": standbys})
        for name, member in self._members.items():
            member.target = {TaskId(int(one), number) for one, number in plan.active[name]}
            member.target_standby = {TaskId(int(one), number) for one, number in plan.standby[name]}
        self._note(causes)
        for member in self._members.values():
            self._await(member)

    def _note(self, causes: tuple[str, ...]) -> None:
        active: dict[str, tuple[TaskId, ...]] = {}
        standby: dict[str, tuple[TaskId, ...]] = {}
        waits = []
        for member in self._members.values():
            name = member.instance.name
            active[name] = (*active.get(name, ()), *sorted(member.target))
            standby[name] = (*standby.get(name, ()), *sorted(member.target_standby))
            waits += [
                task
                for task in member.target - member.active
                if any(task in other.active for other in self._members.values())
            ]
        self.played.rebalances.append(
            Rebalanced(
                self._asked, self.loop.now_ms, causes, active, standby, (), tuple(sorted(waits))
            )
        )

    # -- members -------------------------------------------------------------------------------

    def _await(self, member: _Member) -> None:
        """Plan its next heartbeat, if that has anything to tell."""
        if (
            member.settled
            or member.awaited
            or self.world.up.get(member.instance.name) is not (member.instance)
        ):
            return
        interval = self._runtime.streams_heartbeat_interval_ms
        beats = (self.loop.now_ms - member.since_ms) // interval + 1
        member.awaited = True
        self.plan(member.since_ms + beats * interval, lambda: self._beat(member))

    def _beat(self, member: _Member) -> None:
        member.awaited = False
        if (
            self._members.get(member.id) is member
            and self.world.up.get(member.instance.name) is member.instance
        ):
            self._reconcile(member)
            self._await(member)

    def _reconcile(self, member: _Member) -> None:
        """Give up first, then take what nobody has."""
        member.active &= member.target
        member.standby &= member.target_standby
        mine = [one for one in self._members.values() if one.process == member.process]
        for task in sorted(member.target - member.active):
            held = any(task in one.active for one in self._members.values())
            if not held and not any(task in one.standby for one in mine):
                member.active.add(task)
        for task in sorted(member.target_standby - member.standby):
            if not any(task in one.active or task in one.standby for one in mine):
                member.standby.add(task)
        self._give(member.instance)

    def _give(self, instance: Instance) -> None:
        mine = [self._members[one] for one in instance.consumers]
        active = {task: one.id for one in mine for task in sorted(one.active)}
        standby = {task: one.id for one in mine for task in sorted(one.standby)}
        self.keep_for_a_while(instance, self.world.give(instance, active, standby, set()))


def _by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        found.setdefault(str(task.subtopology), []).append(task.partition)
    return found
