"""A classic group on the clock: its leader assigns, in rebalances that everybody joins."""

from __future__ import annotations

from collections.abc import Sequence

from partage.errors import UnsupportedProblemError
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.gathering import Gathering
from partage.simulation.streams.played import Rebalanced
from partage.simulation.streams.told import Told
from partage.simulation.streams.world import Instance
from partage.streams import StreamsApplication as Seen
from partage.streams import (
    StreamsGroupAssignment,
    StreamsMember,
    TaskAssignor,
    TaskId,
    TaskPlan,
    rebalance,
)
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.registry import EARLY_RELEASES, Kip441Proposal

__all__ = ["Led"]


class Led(Gathering):
    """A classic group, whose leader assigns."""

    def __init__(
        self, application: SimulatedApplication, assignor: TaskAssignor, told: Sequence[Told]
    ) -> None:
        # Before Kafka 2.4, all members revoked everything at the start of a rebalance.
        super().__init__(application, eager=assignor.name in EARLY_RELEASES)
        self._assignor, self._told = assignor, told
        self._racks = {
            (topic, number): racks
            for topic, rows in application.racks.items()
            for number, racks in enumerate(rows)
            if racks
        }

    def gathered(self, said: dict[str, StreamsMember], causes: tuple[str, ...]) -> None:
        """Everybody has joined: the leader assigns, and all have what it gives them."""
        number = len(self.played.rebalances)
        told = self._told[number] if number < len(self._told) else None
        leader = next(iter(self.world.up.values()))
        if told is not None:
            self.world.tell(told)
            said = self._as_told(said, told)
            leader = self.world.up.get(told.leader or "", leader)
        self._remember_tellers(said)
        members = [said[one] for each in self.world.up.values() for one in each.consumers]
        answer = self._asked_of_leader(members, leader)
        if answer.plan is None:
            raise UnsupportedProblemError(f"{self._assignor.name}: {answer.error}")
        left = self._take_over(answer, answer.plan)
        self._note(answer, answer.plan, causes)
        quick = {
            one: left[one]
            for one, member in said.items()
            if set(member.owned) - set(answer.consumers[one].partitions)
        }
        self._look_again(answer, {} if self.eager else quick)

    def _asked_of_leader(
        self, members: list[StreamsMember], leader: Instance
    ) -> StreamsGroupAssignment:
        return rebalance(
            Seen(
                self.app.topology,
                self.app.all_counts,
                self.app.settings,
                end_offsets=self.world.ends() if self.world.factor > 0 else None,
                racks=self._racks,
            ),
            members,
            leader=leader.process,
            now_ms=self.loop.now_ms,
            assignor=self._assignor,
        )

    def _as_told(self, said: dict[str, StreamsMember], told: Told) -> dict[str, StreamsMember]:
        """The same copies with the lags that were seen; spare ones from the thread that told."""
        found: dict[str, StreamsMember] = {}
        for instance in self.world.up.values():
            rows: dict[str, list[TaskId]] = {one: [] for one in instance.consumers}
            for one in instance.consumers:
                for task in said[one].offset_sums:
                    thread = told.tellers.get((instance.name, task))
                    if thread is None or task in {**instance.active, **instance.standby}:
                        rows[one].append(task)
                    else:
                        rows[instance.consumers[thread]].append(task)
            found |= {one: self.world.says(instance, one, rows[one]) for one in rows}
        return found

    def _remember_tellers(self, said: dict[str, StreamsMember]) -> None:
        for instance in self.world.up.values():
            instance.teller = {
                task: one
                for one in instance.consumers
                for task in said[one].offset_sums
                if task not in instance.active and task not in instance.standby
            }

    def _take_over(self, answer: StreamsGroupAssignment, plan: TaskPlan) -> dict[str, set[TaskId]]:
        """Everybody has its tasks; answers what each member has closed."""
        closed: dict[str, set[TaskId]] = {one: set() for one in answer.consumers}
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
            for task, one in (*instance.active.items(), *instance.standby.items()):
                if task in instance.disk and one not in {active.get(task), standby.get(task)}:
                    closed[one].add(task)
            left = self.world.give(instance, active, standby, mine)
            self.keep_for_a_while(instance, left)
        return closed

    def _note(
        self, answer: StreamsGroupAssignment, plan: TaskPlan, causes: tuple[str, ...]
    ) -> None:
        name_of = {one.process: name for name, one in self.world.up.items()}
        clients, tasks = plan.problem.clients, plan.problem.tasks
        names = [name_of[one.process] for one in clients]
        self.played.rebalances.append(
            Rebalanced(
                self.began_ms,
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
                {
                    name: tuple(
                        (tuple(answer.consumers[c].active), tuple(answer.consumers[c].standby))
                        for c in instance.consumers
                    )
                    for name, instance in self.world.up.items()
                },
            )
        )

    def _look_again(self, answer: StreamsGroupAssignment, quick: dict[str, set[TaskId]]) -> None:
        """Who gave something up joins again with what it has; who waits for a task soon after."""
        if quick:
            self.join_at_once(quick)
        for instance in self.world.up.values():
            instance.unopened.clear()
        waiting = [one for one, its in answer.consumers.items() if its.next_rebalance_ms == 0]
        self.join_after(self._soon(), waiting, "follow-up")
        for consumer, its in answer.consumers.items():
            if 0 < its.next_rebalance_ms < LONG_MAX:
                # Due when the clock has passed that time, not when it has reached it.
                wait = its.next_rebalance_ms + 1 - self.loop.now_ms
                interval = self.app.settings.probing_rebalance_interval_ms
                self.join_after(wait, [consumer], "probing", self._is_worth_it, interval)

    def _soon(self) -> int:
        """When a rebalance that is asked for at once begins.

        An assignor that asks for it again and again, though nothing changes, gets it when it would
        be probed: Kafka would rebalance without end.
        """
        before, now = (*[None] * 2, *self.played.rebalances)[-2:]
        if before is None or now is None or now.withheld:
            return self.app.runtime.poll_ms
        same = (before.active, before.standby) == (now.active, now.standby)
        settings = self.app.settings
        return settings.probing_rebalance_interval_ms if same else self.app.runtime.poll_ms

    def _is_worth_it(self) -> bool:
        """Whether a probing rebalance follows: by KIP-441's document, if a move is available."""
        document = self._assignor
        if not isinstance(document, Kip441Proposal):
            return True
        up = self.world.up.values()
        members = [
            self.world.says(instance, one, instance.disk if place == 0 else ())
            for instance in up
            for place, one in enumerate(instance.consumers)
        ]
        plan = self._asked_of_leader(members, next(iter(up))).plan
        if plan is None:
            return True
        number = {client.process: place for place, client in enumerate(plan.problem.clients)}
        runs = {task: number[one.process] for one in up for task in one.active}
        stateful = [plan.problem.tasks[task] for task in plan.problem.stateful]
        if any(task not in runs for task in stateful):
            return False  # who ran it is dead, and will be missed
        return document.check(plan.problem, [runs[task] for task in stateful])
