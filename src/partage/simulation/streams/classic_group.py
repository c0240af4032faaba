"""Who joins a classic group's rebalance, and when: its coordinator, and members' heartbeats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from partage.errors import UnsupportedProblemError
from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.base import StreamsSimulation
from partage.simulation.streams.client_state import ObservedState, RunningClient
from partage.simulation.streams.result import StreamsRebalance
from partage.streams import (
    StreamsApplication,
    StreamsGroupAssignment,
    StreamsMember,
    TaskAssignor,
    TaskId,
    TaskPlan,
    rebalance,
)
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.registry import EARLY_RELEASES, Kip441Proposal

__all__ = ["ClassicGroupSimulation", "GroupMembership"]

#: ``max.poll.interval.ms``: the most that an empty group waits for more members.
_REBALANCE_TIMEOUT_MS = 300_000


class GroupMembership(StreamsSimulation):
    """A group that rebalances when all of its members have joined.

    A rebalance begins when somebody joins, asks or is lost. The others hear of it with their
    next heartbeat, and join; their heartbeats are counted from when they got their last
    assignment. What a member says is what it has when it joins, not when all have.

    A member that is to give something up says so and joins again at once, before it has opened
    what it was given in its place; one that waits for a task that another gives up joins again
    when it next looks, with everything opened.

    Source: ``ClassicGroup``, ``ConsumerCoordinator.onJoinComplete``, ``StreamThread.runLoop``,
    ``TaskManager.taskOffsetSums`` 4.3.1.

    Attributes:
        eager: whether members give up everything when they join a rebalance.
        began_ms: when the last rebalance began.
    """

    def __init__(self, application: SimulatedApplication, *, eager: bool) -> None:
        super().__init__(application, application.runtime.session_timeout_ms)
        self.eager = eager
        self.began_ms = 0
        #: Members as the coordinator knows them -> since when their heartbeats are counted.
        self._since: dict[str, int] = {}
        self._said: dict[str, StreamsMember] = {}
        self._causes: list[str] = []
        self._round = 0
        self._held = self._newcomers = False

    @abstractmethod
    def gathered(self, said: dict[str, StreamsMember], causes: tuple[str, ...]) -> None:
        """Everybody has joined."""

    # -- what happens to the group -------------------------------------------------------------

    def open(self) -> None:
        """Those who are there at the beginning have joined already."""
        if self.world.up:
            self._ask("start", *self.world.up.values())

    def came(self, instance: RunningClient) -> None:
        """Whoever comes joins; an empty group waits for more."""
        if self._held:
            self._newcomers = True
        elif not self._since:
            self._hold(_REBALANCE_TIMEOUT_MS)
        self._ask(f"{instance.name} joined", instance)

    def lost(self, name: str, consumers: Sequence[str], how: str) -> None:
        """The coordinator asks in the place of those who are gone."""
        for one in consumers:
            self._since.pop(one, None)
            self._said.pop(one, None)
        self._ask(f"{name} {how}")

    def asked(self, name: str) -> None:
        """It joins again."""
        self._ask(f"{name} asked", self.world.up[name])

    def heard(self, consumer: str) -> int:
        """A member that dies was heard of with its last heartbeat."""
        since = self._since[consumer]
        interval = self.app.runtime.heartbeat_interval_ms
        return since + (self.loop.now_ms - since) // interval * interval

    def _hold(self, left_ms: int) -> None:
        """Wait for more members; for as long again while some come, up to a limit."""
        self._held, self._newcomers = True, False
        wait = min(self.app.runtime.group_initial_rebalance_delay_ms, left_ms)

        def over() -> None:
            if self._newcomers and left_ms > wait:
                self._hold(left_ms - wait)
                return
            self._held = False
            self._end_if_all_joined()

        self.plan(self.loop.now_ms + wait, over, rank=1)

    # -- joining -------------------------------------------------------------------------------

    def join_at_once(self, left: Mapping[str, Collection[TaskId]]) -> None:
        """Members give something up, and join again with what they have now.

        Args:
            left: each of these members -> stateful tasks that it has just closed.
        """
        locked = {
            (instance.name, task): one
            for instance in self.world.up.values()
            for task, one in instance.teller.items()
            if one in left
        }
        for one, tasks in left.items():
            locked |= {(self._up[one].name, task): one for task in tasks}
        for one, tasks in left.items():
            self._begin_round("follow-up")
            self._say(self._up[one], one, tasks, locked)
        # It takes them a moment, in which others join too.
        self.plan(self.loop.now_ms + self.app.runtime.poll_ms, self._end_if_all_joined)

    def join_after(
        self,
        wait_ms: int,
        consumers: Sequence[str],
        cause: str,
        wanted: Callable[[], bool] = lambda: True,
        again_ms: int = 0,
    ) -> None:
        """Members join again some time from now, unless they have another assignment by then.

        Args:
            wait_ms: the time.
            consumers: the members.
            cause: that they have.
            wanted: asked at that time; if it answers no, it is asked again later.
            again_ms: how much later.
        """
        mark = len(self.played.rebalances)

        def join() -> bool:
            up = self._up
            awaited = [one for one in consumers if one in up and one not in self._said]
            if not awaited or len(self.played.rebalances) != mark:
                return False
            if not wanted():
                self.join_after(again_ms, consumers, cause, wanted, again_ms)
                return False
            self._begin_round(cause)
            for one in awaited:
                self._say(up[one], one)
            return self._end_if_all_joined() or self.eager

        self.plan(self.loop.now_ms + wait_ms, join)

    def _ask(self, cause: str, *instances: RunningClient) -> None:
        """Somebody asks for a rebalance; one that is under way takes it along."""
        self._begin_round(cause)
        for instance in instances:
            for one in instance.consumers:
                self._say(instance, one)
        self._end_if_all_joined()

    def _begin_round(self, cause: str) -> None:
        under_way = bool(self._causes)
        if cause not in self._causes:
            self._causes.append(cause)
        if under_way:
            return
        self.began_ms = self.loop.now_ms
        self._round += 1
        due: dict[int, list[str]] = {}
        interval = self.app.runtime.heartbeat_interval_ms
        for one in self._up:
            if one in self._since:
                beats = (self.loop.now_ms - self._since[one]) // interval + 1
                due.setdefault(self._since[one] + beats * interval, []).append(one)
        for at_ms, consumers in due.items():
            self._hear(at_ms, consumers, self._round)

    def _hear(self, at_ms: int, consumers: Sequence[str], mark: int) -> None:
        """Some hear of the rebalance with their next heartbeat."""

        def join() -> bool:
            up = self._up
            if not self._causes or self._round != mark:
                return False
            for one in consumers:
                if one in up and one not in self._said:
                    self._say(up[one], one)
            return self._end_if_all_joined() or self.eager

        self.plan(at_ms, join)

    def _say(
        self,
        instance: RunningClient,
        consumer: str,
        left: Collection[TaskId] = (),
        locked: Mapping[tuple[str, TaskId], str] | None = None,
    ) -> None:
        """A member joins: it tells of its tasks, and of what it can lock on its client's disk.

        Of what no thread has the first to join locks all, but for what another one that joins
        at the same moment has locked already, or has just closed. What it has just closed
        itself it tells of even if another thread is to have it, which tells of it too.
        """
        self._since.setdefault(consumer, self.loop.now_ms)
        tasks = instance.disk.keys() - instance.unopened
        owner = {**instance.active, **instance.standby}
        mine = {task for task in tasks if owner.get(task) == consumer or task in left}
        told = {
            task
            for one in instance.consumers
            if one in self._said
            for task in self._said[one].offset_sums
        }
        mine |= {
            task
            for task in tasks - owner.keys() - told
            if (locked or {}).get((instance.name, task), consumer) == consumer
        }
        self._said[consumer] = self.world.says(instance, consumer, sorted(mine))
        if self.eager:
            self.world.stopped.add(consumer)

    @property
    def _up(self) -> dict[str, RunningClient]:
        return {one: each for each in self.world.up.values() for one in each.consumers}

    def _end_if_all_joined(self) -> bool:
        # Those who do not answer have to be given up first.
        if not self._causes or self._held or self.missing:
            return False
        if not self._up.keys() <= self._said.keys():
            return False
        causes, self._causes = tuple(self._causes), []
        # Of two who are missed at one moment the second may have said something too.
        said, self._said = {one: self._said[one] for one in self._up}, {}
        self.world.stopped.clear()
        self._since = dict.fromkeys(self._up, self.loop.now_ms)
        if self._since:
            self.gathered(said, causes)
        return True


class ClassicGroupSimulation(GroupMembership):
    """A classic group, whose leader assigns."""

    def __init__(
        self,
        application: SimulatedApplication,
        assignor: TaskAssignor,
        told: Sequence[ObservedState],
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
        self, members: list[StreamsMember], leader: RunningClient
    ) -> StreamsGroupAssignment:
        return rebalance(
            StreamsApplication(
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

    def _as_told(
        self, said: dict[str, StreamsMember], told: ObservedState
    ) -> dict[str, StreamsMember]:
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
            StreamsRebalance(
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
