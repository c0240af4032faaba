"""The application played on a clock: events, rebalances, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partage.errors import UnsupportedProblemError
from partage.simulation.loop import Loop
from partage.simulation.streams.application import Application, Client, Event
from partage.simulation.streams.played import Played, Rebalanced, Recorder
from partage.simulation.streams.told import Told
from partage.simulation.streams.world import Instance, World
from partage.streams import Application as Led
from partage.streams import (
    GroupAssignment,
    ProcessId,
    TaskAssignor,
    TaskId,
    TaskPlan,
    rebalance,
)
from partage.streams.release_0_10_2 import Release0102
from partage.streams.release_0_11 import Release011
from partage.streams.settings import LONG_MAX

__all__ = ["play"]

#: Before Kafka 2.4 all members gave up everything at the beginning of a rebalance.
_STOP_THE_WORLD = (Release0102, Release011)


def play(
    application: Application, assignor: TaskAssignor, told: Sequence[Told] = ()
) -> Played:
    """Play an application under an assignor.

    A member that is gone without a word is missed one session timeout later, and a rebalance
    that begins before that waits for it; members keep what they have meanwhile. A task that
    moves is given up in one rebalance and taken over in the next.

    Args:
        application: with its trace of events.
        assignor: of the group's leader.
        told: state as a real leader saw it at its first rebalance, its second and so on; the
            model's own counts after the last one.

    Raises:
        InvalidTopologyError: as `partage.streams.rebalance`.
        InvalidConfigError, UnsupportedProblemError: the assignor refuses the application.

    >>> from partage.simulation.streams.reading import read
    >>> app = read({"seconds": 60, "subtopologies": [{"sources": {"in": 2}}],
    ...             "clients": {"a": {}, "b": {}}})
    >>> from partage.streams import HighAvailability
    >>> [(one.client, str(one.task), one.to_ms) for one in play(app, HighAvailability()).spans]
    [('a', '0_0', 60000), ('b', '0_1', 60000)]
    """
    return _Player(application, assignor, told).run()


class _Player:
    def __init__(
        self, application: Application, assignor: TaskAssignor, told: Sequence[Told]
    ) -> None:
        self._app, self._assignor, self._told = application, assignor, told
        self._loop = Loop()
        threads = {one.name: one.threads for one in application.clients.values()}
        self._played = Played(
            application.length_ms, tuple(sorted(application.layout.partitions_of)), threads
        )
        self._world = World(application, self._played)
        self._recorder = Recorder(self._played)
        self._down: dict[str, Instance] = {}
        self._missing: dict[str, tuple[int, str]] = {}  # consumer: when it is missed, its client
        self._causes: list[str] = []
        self._began = 0
        self._round = 0
        self._settled = 0
        self._started = dict.fromkeys(application.clients, 0)
        self._lost_disks = 0
        self._racks = {
            (topic, number): racks
            for topic, rows in application.racks.items()
            for number, racks in enumerate(rows)
            if racks
        }

    def run(self) -> Played:
        self._loop.at(0, self._begin)
        for event in self._app.events:
            self._plan(event.at_ms, lambda event=event: self._happen(event))  # type: ignore[misc]  # a default binds it
        self._loop.run()
        self._world.advance(self._app.length_ms)
        self._recorder.end(self._app.length_ms)
        return self._played

    # -- the clock -----------------------------------------------------------------------------

    def _plan(self, at_ms: int, action: Callable[[], None], *, rank: int = 0) -> None:
        """Plan an action, with time passing before it and its consequences drawn after it."""
        if at_ms >= self._app.length_ms:
            return

        def whole() -> None:
            self._world.advance(self._loop.now_ms)
            action()
            self._settle()

        self._loop.at(at_ms, whole, rank=rank)

    def _settle(self) -> None:
        due = self._world.settle()
        self._recorder.see(self._loop.now_ms, self._world.seen())
        self._settled += 1
        mark = self._settled
        if due is None or due >= self._app.length_ms:
            return

        def caught_up() -> None:
            # Whatever happened since has planned its own.
            if mark == self._settled:
                self._world.advance(self._loop.now_ms)
                self._settle()

        self._loop.at(due, caught_up, rank=-1)

    # -- clients -------------------------------------------------------------------------------

    def _begin(self) -> None:
        for client in self._app.clients.values():
            if client.starts:
                self._enter(client)
        self._causes, self._round = ["start"], 1
        self._rebalance()
        if self._app.caught_up:
            self._world.fill()
        self._settle()

    def _happen(self, event: Event) -> None:
        now = self._loop.now_ms
        if event.kind == "brokerLag":
            self._world.factor = event.factor
            self._plan(now + event.for_ms, self._brokers_recover)
        for place, name in enumerate(event.clients):
            if event.kind in {"join", "scaleOut"}:
                self._join(name)
            elif event.kind == "rollingRestart":
                self._plan(
                    now + place * event.every_ms,
                    lambda name=name: self._go(name, event),  # type: ignore[misc]  # a default binds it
                )
            else:
                self._go(name, event)

    def _brokers_recover(self) -> None:
        self._world.factor = 1.0

    def _join(self, name: str) -> None:
        if name not in self._world.up:
            self._enter(self._app.clients[name])
            self._ask(f"{name} joined")

    def _enter(self, client: Client) -> None:
        self._started[client.name] += 1
        consumers = tuple(
            f"{client.name}-{self._started[client.name]}-{thread}"
            for thread in range(client.threads)
        )
        before = self._down.pop(client.name, None)
        made = Instance(client, before.process if before else client.process, consumers)
        if before:
            made.disk = before.disk
            self._keep_for_a_while(made, list(made.disk))
        self._world.enter(made)
        self._recorder.up(self._loop.now_ms, client.name)

    def _go(self, name: str, event: Event) -> None:
        gone = self._world.up.pop(name, None)
        if gone is None:
            return
        now = self._loop.now_ms
        self._recorder.down(now, name)
        gone.closed = {}  # nobody cleans up where nothing runs
        if not event.disk:
            gone.disk = {}
            self._lost_disks += 1
            # Streams draws another id where it finds none on its disk.
            gone.process = ProcessId(1, self._lost_disks)
        self._down[name] = gone
        if event.kind == "leave" or event.leaves:
            self._ask(f"{name} left")
        else:
            missed = now + self._app.runtime.session_timeout_ms
            self._missing |= dict.fromkeys(gone.consumers, (missed, name))
            self._plan(missed, self._miss, rank=-1)
        if event.back_ms is not None:
            self._plan(now + event.back_ms, lambda: self._join(name))

    def _miss(self) -> None:
        now = self._loop.now_ms
        over = {one: name for one, (due, name) in self._missing.items() if due <= now}
        for consumer in over:
            del self._missing[consumer]
        for name in dict.fromkeys(over.values()):
            self._ask(f"{name} was missed")

    def _keep_for_a_while(self, instance: Instance, tasks: list[TaskId]) -> None:
        now = self._loop.now_ms
        instance.closed |= dict.fromkeys(tasks, now)

        def clean() -> None:
            for task in tasks:
                if instance.closed.get(task) == now:
                    del instance.closed[task], instance.disk[task]

        if tasks:
            self._plan(now + self._app.runtime.state_cleanup_delay_ms, clean)

    # -- rebalances ----------------------------------------------------------------------------

    def _ask(self, cause: str) -> None:
        """Somebody asks for a rebalance; one that is under way takes it along."""
        self._causes.append(cause)
        if len(self._causes) > 1:
            return
        self._began = self._loop.now_ms
        self._round += 1
        if isinstance(self._assignor, _STOP_THE_WORLD):
            self._world.stopped = True
        self._plan(self._began + self._app.runtime.heartbeat_interval_ms, self._rebalance)

    def _rebalance(self) -> None:
        if self._missing:
            # Those who do not answer have to be given up first.
            self._plan(max(due for due, _ in self._missing.values()), self._rebalance)
            return
        causes, self._causes = tuple(self._causes), []
        self._world.stopped = False
        if not self._world.up:
            return
        leader = next(iter(self._world.up.values()))
        if len(self._played.rebalances) < len(self._told):
            self._world.tell(self._told[len(self._played.rebalances)])
        answer = rebalance(
            Led(
                self._app.topology,
                self._app.all_counts,
                self._app.settings,
                end_offsets=self._world.ends() if self._world.factor > 0 else None,
                racks=self._racks,
            ),
            self._world.members(),
            leader=leader.process,
            now_ms=self._loop.now_ms,
            assignor=self._assignor,
        )
        if answer.plan is None:
            raise UnsupportedProblemError(f"{self._assignor.name}: {answer.error}")
        self._take_over(answer, answer.plan)
        self._note(answer, answer.plan, causes)
        self._look_again(answer, leader)

    def _take_over(self, answer: GroupAssignment, plan: TaskPlan) -> None:
        problem = plan.problem
        warmups = {
            (problem.clients[client].process, problem.tasks[task]) for client, task in plan.warmups
        }
        for instance in self._world.up.values():
            given = {consumer: answer.consumers[consumer] for consumer in instance.consumers}
            active = {task: one for one, its in given.items() for task in its.active}
            # The assignor of 0.10.2 gives standbys of tasks without state too: nobody makes them.
            standby = {
                task: one
                for one, its in given.items()
                for task in its.standby
                if task in self._app.layout.changelogs_of
            }
            mine = {task for task in standby if (instance.process, task) in warmups}
            left = self._world.give(instance, active, standby, mine)
            self._keep_for_a_while(instance, left)

    def _note(self, answer: GroupAssignment, plan: TaskPlan, causes: tuple[str, ...]) -> None:
        name_of = {one.process: name for name, one in self._world.up.items()}
        clients, tasks = plan.problem.clients, plan.problem.tasks
        names = [name_of[one.process] for one in clients]
        self._played.rebalances.append(
            Rebalanced(
                self._began,
                self._loop.now_ms,
                causes,
                dict(
                    zip(names, (tuple(tasks[t] for t in row) for row in plan.active), strict=True)
                ),
                dict(
                    zip(names, (tuple(tasks[t] for t in row) for row in plan.standby), strict=True)
                ),
                tuple((names[client], tasks[task]) for client, task in plan.warmups),
                tuple(sorted(t for one in answer.consumers.values() for t in one.withheld)),
                plan.probing,
            )
        )

    def _look_again(self, answer: GroupAssignment, leader: Instance) -> None:
        due = {
            answer.consumers[consumer].next_rebalance_ms: instance
            for instance in self._world.up.values()
            for consumer in instance.consumers
        }
        mark = self._round
        if 0 in due:
            self._ask("follow-up")
            return

        def probe() -> None:
            if self._round == mark and self._world.up.get(leader.name) is leader:
                self._ask("probing")

        for when in due:
            if when < LONG_MAX:
                # Due when the clock has passed that time, not when it has reached it.
                self._plan(when + 1, probe)
