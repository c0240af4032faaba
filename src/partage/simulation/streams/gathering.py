"""Who joins a classic group's rebalance, and when: its coordinator, and members' heartbeats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from partage.simulation.streams.application import SimulatedApplication
from partage.simulation.streams.stage import Stage
from partage.simulation.streams.world import Instance
from partage.streams import StreamsMember, TaskId

__all__ = ["Gathering"]

#: ``max.poll.interval.ms``: the most that an empty group waits for more members.
_REBALANCE_TIMEOUT_MS = 300_000


class Gathering(Stage):
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

    def came(self, instance: Instance) -> None:
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

    def _ask(self, cause: str, *instances: Instance) -> None:
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
        instance: Instance,
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
    def _up(self) -> dict[str, Instance]:
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
