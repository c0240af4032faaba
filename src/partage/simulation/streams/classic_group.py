"""Simulation of a Streams application in a classic group: join phase and assigning leader.

Source: ``ClassicGroup``, ``ConsumerCoordinator.onJoinComplete``, ``StreamThread.runLoop``,
``TaskManager.taskOffsetSums`` 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
    compute_group_assignment,
)
from partage.streams.assignment_configs import LONG_MAX
from partage.streams.registry import EARLY_RELEASES, Kip441Proposal

__all__ = ["ClassicGroupSimulation"]

#: ``max.poll.interval.ms``: the longest time that an empty group waits for more members.
_REBALANCE_TIMEOUT_MS = 300_000


class ClassicGroupSimulation(StreamsSimulation):
    """Simulation of a Kafka Streams application in a classic group, whose leader assigns tasks.

    A rebalance begins when a member joins, requests one, or is lost. The other members learn of it
    with their next heartbeat and join; the rebalance waits until all have joined.

    Args:
        application: the application to simulate.
        assignor: the leader's task assignor.
        observed: states that a real leader saw at its first rebalances, in order; later rebalances
            use the simulated state.

    Attributes:
        eager: whether members revoke everything when they join.
        began_ms: when the last rebalance began.
    """

    # A member's heartbeats are periodic, beginning with its last assignment. It reports the state
    # that it has when it joins, not when all have joined. A member that has to revoke tasks joins
    # again at once, before it has opened its new tasks. A member that waits for a task of another
    # member joins again at its next poll, with all tasks opened.

    def __init__(
        self,
        application: SimulatedApplication,
        assignor: TaskAssignor,
        observed: Sequence[ObservedState],
    ) -> None:
        super().__init__(application, application.runtime.session_timeout_ms)
        # Before Kafka 2.4, all members revoked everything at the start of a rebalance.
        self.eager = assignor.name in EARLY_RELEASES
        self._assignor, self._observed = assignor, observed
        self._racks = {
            (topic, number): racks
            for topic, rows in application.racks.items()
            for number, racks in enumerate(rows)
            if racks
        }
        self.began_ms = 0
        #: Members of the group -> since when their heartbeats are counted.
        self._since: dict[str, int] = {}
        self._joined: dict[str, StreamsMember] = {}
        self._causes: list[str] = []
        self._rebalance_number = 0
        self._is_delayed = self._has_newcomers = False

    # -- group protocol ------------------------------------------------------------------------

    def form_group(self) -> None:
        """Form the consumer group from the clients that run when the simulation begins.

        It begins the first rebalance, in which all their threads join.
        """
        if self.state.up:
            self._add_rebalance_cause("start", *self.state.up.values())

    def add_client(self, client: RunningClient) -> None:
        """Let the threads of a started client join the group.

        If the group was empty, the rebalance is delayed, so that more members can join.
        """
        if self._is_delayed:
            self._has_newcomers = True
        elif not self._since:
            self._delay_first_rebalance(_REBALANCE_TIMEOUT_MS)
        self._add_rebalance_cause(f"{client.name} joined", client)

    def remove_consumers(self, name: str, consumers: Sequence[str], reason: str) -> None:
        """Remove members (``consumers``) of the client ``name`` from the group, which begins a
        rebalance.

        ``reason`` says whether they left or were evicted.
        """
        for consumer in consumers:
            self._since.pop(consumer, None)
            self._joined.pop(consumer, None)
        self._add_rebalance_cause(f"{name} {reason}")

    def request_rebalance(self, name: str) -> None:
        """Begin a rebalance that the client ``name`` requests; its members rejoin at once.

        The other members learn of the rebalance with their next heartbeat.
        """
        self._add_rebalance_cause(f"{name} asked", self.state.up[name])

    def last_heartbeat_ms(self, consumer: str) -> int:
        """Return the time (ms) of the last heartbeat that the coordinator received from a consumer.

        It is called when the consumer crashes. The coordinator evicts it one session timeout after
        that heartbeat.
        """
        since = self._since[consumer]
        interval = self.app.runtime.heartbeat_interval_ms
        return since + (self.clock.now_ms - since) // interval * interval

    def _delay_first_rebalance(self, remaining_ms: int) -> None:
        """Delay the first rebalance of an empty group, so that more members can join.

        Each further member extends the delay (``group.initial.rebalance.delay.ms``).
        ``remaining_ms`` is the maximum extension in total.
        """
        self._is_delayed, self._has_newcomers = True, False
        wait = min(self.app.runtime.group_initial_rebalance_delay_ms, remaining_ms)

        def end_delay() -> None:
            if self._has_newcomers and remaining_ms > wait:
                self._delay_first_rebalance(remaining_ms - wait)
                return
            self._is_delayed = False
            self._complete_if_all_joined()

        self.schedule_action(self.clock.now_ms + wait, end_delay, rank=1)

    # -- joining -------------------------------------------------------------------------------

    def rejoin_at_once(self, revoked: Mapping[str, Collection[TaskId]]) -> None:
        """Let members that have revoked tasks rejoin the group immediately.

        Args:
            revoked: dict from member to stateful tasks that it has just revoked and closed.
        """
        locked = {
            (client.name, task): consumer
            for client in self.state.up.values()
            for task, consumer in client.reporter.items()
            if consumer in revoked
        }
        for consumer, tasks in revoked.items():
            locked |= {(self._client_of[consumer].name, task): consumer for task in tasks}
        for consumer, tasks in revoked.items():
            self._begin_rebalance("follow-up")
            self._join_rebalance(self._client_of[consumer], consumer, tasks, locked)
        # It takes a poll, during which other members join as well.
        self.schedule_action(
            self.clock.now_ms + self.app.runtime.poll_ms, self._complete_if_all_joined
        )

    def rejoin_after(
        self,
        wait_ms: int,
        consumers: Sequence[str],
        cause: str,
        is_wanted: Callable[[], bool] = lambda: True,
        retry_ms: int = 0,
    ) -> None:
        """Let members rejoin the group after a delay, unless another rebalance has begun by then.

        Args:
            wait_ms: time until they rejoin.
            consumers: the members that rejoin.
            cause: the cause of the rebalance.
            is_wanted: called when the delay ends; if it returns False, they try again later.
            retry_ms: time until the next try.
        """
        mark = len(self.result.rebalances)

        def rejoin() -> bool:
            clients = self._client_of
            missing = [one for one in consumers if one in clients and one not in self._joined]
            if not missing or len(self.result.rebalances) != mark:
                return False
            if not is_wanted():
                self.rejoin_after(retry_ms, consumers, cause, is_wanted, retry_ms)
                return False
            self._begin_rebalance(cause)
            for consumer in missing:
                self._join_rebalance(clients[consumer], consumer)
            return self._complete_if_all_joined() or self.eager

        self.schedule_action(self.clock.now_ms + wait_ms, rejoin)

    def _add_rebalance_cause(self, cause: str, *clients: RunningClient) -> None:
        """Begin a rebalance for a cause, or add the cause to the current rebalance.

        The members of ``clients`` rejoin at once, because they cause the rebalance.
        """
        self._begin_rebalance(cause)
        for client in clients:
            for consumer in client.consumers:
                self._join_rebalance(client, consumer)
        self._complete_if_all_joined()

    def _begin_rebalance(self, cause: str) -> None:
        """Begin a simulated rebalance, and schedule the heartbeats by which members learn of it.

        If a rebalance has already begun, only its cause is added to it.
        """
        is_under_way = bool(self._causes)
        if cause not in self._causes:
            self._causes.append(cause)
        if is_under_way:
            return
        self.began_ms = self.clock.now_ms
        self._rebalance_number += 1
        due: dict[int, list[str]] = {}
        interval = self.app.runtime.heartbeat_interval_ms
        for consumer in self._client_of:
            if consumer in self._since:
                since = self._since[consumer]
                beats = (self.clock.now_ms - since) // interval + 1
                due.setdefault(since + beats * interval, []).append(consumer)
        for at_ms, consumers in due.items():
            self._join_at_heartbeat(at_ms, consumers, self._rebalance_number)

    def _join_at_heartbeat(
        self, at_ms: int, consumers: Sequence[str], rebalance_number: int
    ) -> None:
        """Let members join a rebalance at the heartbeat by which they learn of it.

        Nothing happens if the rebalance is over by then.
        """

        def join() -> bool:
            clients = self._client_of
            if not self._causes or self._rebalance_number != rebalance_number:
                return False
            for consumer in consumers:
                if consumer in clients and consumer not in self._joined:
                    self._join_rebalance(clients[consumer], consumer)
            return self._complete_if_all_joined() or self.eager

        self.schedule_action(at_ms, join)

    def _join_rebalance(
        self,
        client: RunningClient,
        consumer: str,
        revoked: Collection[TaskId] = (),
        locked: Mapping[tuple[str, TaskId], str] | None = None,
    ) -> None:
        """Let a Streams thread join the rebalance and report how complete its local task state is.

        It reports its own tasks, those that it has just ``revoked``, and state on disk of tasks
        without a thread. Only one thread of a client can lock such state: the one in ``locked``,
        else the first one to join.
        """
        self._since.setdefault(consumer, self.clock.now_ms)
        on_disk = client.disk.keys() - client.unopened
        owner = client.consumer_of_task
        tasks = {task for task in on_disk if owner.get(task) == consumer or task in revoked}
        reported = {
            task
            for other in client.consumers
            if other in self._joined
            for task in self._joined[other].offset_sums
        }
        tasks |= {
            task
            for task in on_disk - owner.keys() - reported
            if (locked or {}).get((client.name, task), consumer) == consumer
        }
        self._joined[consumer] = self.state.build_subscription(client, consumer, sorted(tasks))
        if self.eager:
            self.state.stopped.add(consumer)

    @property
    def _client_of(self) -> dict[str, RunningClient]:
        return {one: client for client in self.state.up.values() for one in client.consumers}

    def _complete_if_all_joined(self) -> bool:
        """Complete the rebalance if all members have joined; return whether they have.

        Members that do not respond must have been evicted before.
        """
        if not self._causes or self._is_delayed or self.undetected:
            return False
        consumers = self._client_of
        if not consumers.keys() <= self._joined.keys():
            return False
        causes, self._causes = tuple(self._causes), []
        # A member that is evicted at this moment may have joined before: it is dropped here.
        joined, self._joined = {one: self._joined[one] for one in consumers}, {}
        self.state.stopped.clear()
        self._since = dict.fromkeys(consumers, self.clock.now_ms)
        if self._since:
            self._complete_rebalance(joined, causes)
        return True

    # -- assignment of tasks ---------------------------------------------------------------------

    def _complete_rebalance(
        self, joined: dict[str, StreamsMember], causes: tuple[str, ...]
    ) -> None:
        """Assign the Streams tasks to the joined members, and schedule the rebalances that follow.

        ``joined`` are the members' subscriptions, ``causes`` describe the rebalance.

        Raises:
            UnsupportedProblemError: the assignor does not support this application.
        """
        number = len(self.result.rebalances)
        leader = next(iter(self.state.up.values()))
        if number < len(self._observed):
            observed = self._observed[number]
            self.state.apply_observed(observed)
            joined = self._with_observed_lags(joined, observed)
            leader = self.state.up.get(observed.leader or "", leader)
        self._store_reporters(joined)
        members = [joined[one] for client in self.state.up.values() for one in client.consumers]
        assignment = self._compute_assignment(members, leader)
        if assignment.plan is None:
            raise UnsupportedProblemError(f"{self._assignor.name}: {assignment.error}")
        closed = self._apply_assignment(assignment, assignment.plan)
        self._record(assignment, assignment.plan, causes)
        revoking = {
            one: closed[one]
            for one, member in joined.items()
            if set(member.owned) - set(assignment.consumers[one].partitions)
        }
        self._schedule_rejoins(assignment, {} if self.eager else revoking)

    def _compute_assignment(
        self, members: list[StreamsMember], leader: RunningClient
    ) -> StreamsGroupAssignment:
        """Return the task assignment that the leader computes for the joined members.

        If brokers do not respond, the leader cannot fetch end offsets, and so has no lags.
        """
        application = StreamsApplication(
            self.app.topology,
            self.app.all_counts,
            self.app.settings,
            end_offsets=self.state.end_offsets() if self.state.factor > 0 else None,
            racks=self._racks,
        )
        return compute_group_assignment(
            application,
            members,
            leader=leader.process,
            now_ms=self.clock.now_ms,
            assignor=self._assignor,
        )

    def _with_observed_lags(
        self, joined: dict[str, StreamsMember], observed: ObservedState
    ) -> dict[str, StreamsMember]:
        """Replace the simulated task state in members' subscriptions by that which a real leader
        saw.

        ``joined`` are the subscriptions, ``observed`` is the real state. State on disk is reported
        by the same thread as in reality.
        """
        found: dict[str, StreamsMember] = {}
        for client in self.state.up.values():
            tasks: dict[str, list[TaskId]] = {one: [] for one in client.consumers}
            for consumer in client.consumers:
                for task in joined[consumer].offset_sums:
                    thread = observed.reporters.get((client.name, task))
                    if thread is None or task in client.consumer_of_task:
                        tasks[consumer].append(task)
                    else:
                        tasks[client.consumers[thread]].append(task)
            found |= {one: self.state.build_subscription(client, one, tasks[one]) for one in tasks}
        return found

    def _store_reporters(self, joined: dict[str, StreamsMember]) -> None:
        """Store which thread reported the state on disk of each task that no thread runs.

        The same thread reports it again in an immediate follow-up rebalance. ``joined`` are the
        members' subscriptions.
        """
        for client in self.state.up.values():
            client.reporter = {
                task: one
                for one in client.consumers
                for task in joined[one].offset_sums
                if task not in client.active and task not in client.standby
            }

    def _apply_assignment(
        self, assignment: StreamsGroupAssignment, plan: TaskPlan
    ) -> dict[str, set[TaskId]]:
        """Give all Streams clients their new tasks; return the stateful tasks that each member
        lost.

        ``assignment`` is the result of the rebalance by member, ``plan`` that of the assignor by
        client.
        """
        closed: dict[str, set[TaskId]] = {one: set() for one in assignment.consumers}
        problem = plan.problem
        warmups = {
            (problem.clients[client].process, problem.tasks[task]) for client, task in plan.warmups
        }
        for client in self.state.up.values():
            given = {consumer: assignment.consumers[consumer] for consumer in client.consumers}
            active = {task: one for one, its in given.items() for task in its.active}
            # The assignor of 0.10.2 also gives standbys of stateless tasks: clients ignore them.
            standby = {
                task: one
                for one, its in given.items()
                for task in its.standby
                if task in self.app.layout.changelogs_of
            }
            its_warmups = {task for task in standby if (client.process, task) in warmups}
            for task, one in (*client.active.items(), *client.standby.items()):
                if task in client.disk and one not in {active.get(task), standby.get(task)}:
                    closed[one].add(task)
            unneeded = self.state.assign_tasks(client, active, standby, its_warmups)
            self.schedule_state_cleanup(client, unneeded)
        return closed

    def _record(
        self, assignment: StreamsGroupAssignment, plan: TaskPlan, causes: tuple[str, ...]
    ) -> None:
        name_of = {client.process: name for name, client in self.state.up.items()}
        names = [name_of[client.process] for client in plan.problem.clients]
        tasks = plan.problem.tasks

        def by_client(rows: Iterable[Iterable[int]]) -> dict[str, tuple[TaskId, ...]]:
            return {
                name: tuple(tasks[t] for t in row) for name, row in zip(names, rows, strict=True)
            }

        withheld = (task for one in assignment.consumers.values() for task in one.withheld)
        given = {
            name: tuple(
                (
                    tuple(assignment.consumers[one].active),
                    tuple(assignment.consumers[one].standby),
                )
                for one in client.consumers
            )
            for name, client in self.state.up.items()
        }
        self.result.rebalances.append(
            StreamsRebalance(
                self.began_ms,
                self.clock.now_ms,
                causes,
                by_client(plan.active),
                by_client(plan.standby),
                tuple((names[client], tasks[task]) for client, task in plan.warmups),
                tuple(sorted(withheld)),
                plan.probing,
                given,
            )
        )

    def _schedule_rejoins(
        self, assignment: StreamsGroupAssignment, revoking: dict[str, set[TaskId]]
    ) -> None:
        """Schedule the follow-up and probing rebalances that a new task assignment requires.

        A member that revokes tasks (``revoking``) rejoins immediately.
        """
        if revoking:
            self.rejoin_at_once(revoking)
        for client in self.state.up.values():
            client.unopened.clear()
        members = assignment.consumers.items()
        waiting = [one for one, its in members if its.next_rebalance_ms == 0]
        self.rejoin_after(self._follow_up_delay(), waiting, "follow-up")
        for consumer, its in members:
            if 0 < its.next_rebalance_ms < LONG_MAX:
                # Due when the clock has passed that time, not when it has reached it.
                wait = its.next_rebalance_ms + 1 - self.clock.now_ms
                interval = self.app.settings.probing_rebalance_interval_ms
                self.rejoin_after(wait, [consumer], "probing", self._is_probing_wanted, interval)

    def _follow_up_delay(self) -> int:
        """Return the time until the follow-up rebalance of a task assignment begins (ms).

        Usually it is the members' poll interval. If the last two assignments are equal, it is the
        much longer probing interval, so that follow-ups do not repeat endlessly.
        """
        before, now = (*[None] * 2, *self.result.rebalances)[-2:]
        if before is None or now is None or now.withheld:
            return self.app.runtime.poll_ms
        is_same = (before.active, before.standby) == (now.active, now.standby)
        settings = self.app.settings
        return settings.probing_rebalance_interval_ms if is_same else self.app.runtime.poll_ms

    def _is_probing_wanted(self) -> bool:
        """Return whether to begin a probing rebalance, in which tasks may move to warmed-up
        clients.

        It is always wanted, except with the algorithm proposed in KIP-441: then only if it could
        move a task.
        """
        document = self._assignor
        if not isinstance(document, Kip441Proposal):
            return True
        clients = self.state.up.values()
        members = [
            self.state.build_subscription(client, one, client.disk if place == 0 else ())
            for client in clients
            for place, one in enumerate(client.consumers)
        ]
        plan = self._compute_assignment(members, next(iter(clients))).plan
        if plan is None:
            return True
        number = {client.process: place for place, client in enumerate(plan.problem.clients)}
        runs_on = {task: number[client.process] for client in clients for task in client.active}
        stateful = [plan.problem.tasks[task] for task in plan.problem.stateful]
        if any(task not in runs_on for task in stateful):
            return False  # its client is dead and will be evicted
        return document.check(plan.problem, [runs_on[task] for task in stateful])
