"""A classic group on the clock: its leader assigns, in rebalances that everybody joins."""

from __future__ import annotations

from collections.abc import Sequence

from partage.errors import UnsupportedProblemError
from partage.simulation.streams.application import Application
from partage.simulation.streams.played import Rebalanced
from partage.simulation.streams.stage import Stage
from partage.simulation.streams.told import Told
from partage.simulation.streams.world import Instance
from partage.streams import Application as Seen
from partage.streams import GroupAssignment, TaskAssignor, TaskPlan, rebalance
from partage.streams.release_0_10_2 import Release0102
from partage.streams.release_0_11 import Release011
from partage.streams.settings import LONG_MAX

__all__ = ["Led"]

#: Before Kafka 2.4 all members gave up everything at the beginning of a rebalance.
_STOP_THE_WORLD = (Release0102, Release011)


class Led(Stage):
    """A classic group, whose leader assigns."""

    def __init__(
        self, application: Application, assignor: TaskAssignor, told: Sequence[Told]
    ) -> None:
        super().__init__(application, application.runtime.session_timeout_ms)
        self._assignor, self._told = assignor, told
        self._causes: list[str] = []
        self._began = 0
        self._round = 0
        self._racks = {
            (topic, number): racks
            for topic, rows in application.racks.items()
            for number, racks in enumerate(rows)
            if racks
        }

    def open(self) -> None:
        """The first rebalance."""
        self._causes, self._round = ["start"], 1
        self._rebalance()

    def came(self, instance: Instance) -> None:
        """Whoever joins asks for a rebalance."""
        self._ask(f"{instance.name} joined")

    def lost(self, name: str, consumers: Sequence[str], how: str) -> None:
        """So does the coordinator for those who are gone."""
        del consumers
        self._ask(f"{name} {how}")

    def asked(self, name: str) -> None:
        """It rejoins."""
        self._ask(f"{name} asked")

    def _ask(self, cause: str) -> None:
        """Somebody asks for a rebalance; one that is under way takes it along."""
        self._causes.append(cause)
        if len(self._causes) > 1:
            return
        self._began = self.loop.now_ms
        self._round += 1
        if isinstance(self._assignor, _STOP_THE_WORLD):
            self.world.stopped = True
        self.plan(self._began + self.app.runtime.heartbeat_interval_ms, self._rebalance)

    def _rebalance(self) -> None:
        if self.missing:
            # Those who do not answer have to be given up first.
            self.plan(max(due for due, _ in self.missing.values()), self._rebalance)
            return
        causes, self._causes = tuple(self._causes), []
        self.world.stopped = False
        if not self.world.up:
            return
        leader = next(iter(self.world.up.values()))
        if len(self.played.rebalances) < len(self._told):
            self.world.tell(self._told[len(self.played.rebalances)])
        answer = rebalance(
            Seen(
                self.app.topology,
                self.app.all_counts,
                self.app.settings,
                end_offsets=self.world.ends() if self.world.factor > 0 else None,
                racks=self._racks,
            ),
            self.world.members(),
            leader=leader.process,
            now_ms=self.loop.now_ms,
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
        for instance in self.world.up.values():
            given = {consumer: answer.consumers[consumer] for consumer in instance.consumers}
            active = {task: one for one, its in given.items() for task in its.active}
            # The assignor of 0.10.2 gives standbys of tasks without state too: nobody makes them.
            standby = {
                task: one
                for one, its in given.items()
                for task in its.standby
                if task in self.app.layout.changelogs_of
            }
            mine = {task for task in standby if (instance.process, task) in warmups}
            left = self.world.give(instance, active, standby, mine)
            self.keep_for_a_while(instance, left)

    def _note(self, answer: GroupAssignment, plan: TaskPlan, causes: tuple[str, ...]) -> None:
        name_of = {one.process: name for name, one in self.world.up.items()}
        clients, tasks = plan.problem.clients, plan.problem.tasks
        names = [name_of[one.process] for one in clients]
        self.played.rebalances.append(
            Rebalanced(
                self._began,
                self.loop.now_ms,
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
            for instance in self.world.up.values()
            for consumer in instance.consumers
        }
        mark = self._round
        if 0 in due:
            self._ask("follow-up")
            return

        def probe() -> None:
            if self._round == mark and self.world.up.get(leader.name) is leader:
                self._ask("probing")

        for when in due:
            if when < LONG_MAX:
                # Due when the clock has passed that time, not when it has reached it.
                self.plan(when + 1, probe)
