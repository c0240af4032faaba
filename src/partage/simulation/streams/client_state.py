"""How fast a client's copies come closer to their tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from partage.simulation.streams.application import SimulatedApplication, SimulatedClient
from partage.simulation.streams.result import Kind, SimulationResult
from partage.streams import LATEST_OFFSET, ProcessId, StreamsMember, TaskId

__all__ = [
    "ApplicationState",
    "ObservedState",
    "RunningClient",
    "StateCopy",
    "fair_shares",
    "millis_until_caught_up",
    "share_bandwidth",
]

#: Records; less than that is a rounding of floating point numbers.
NOTHING = 1e-6


@dataclass
class StateCopy:
    """State of a task on a client.

    Attributes:
        position: records of the changelog that it has.
        record_bytes: of a record.
        writes: records a second by which its changelog grows now; 0 while no active runs.
        active: whether it is to run the task; such copies come before all standbys.
        lag: records that it lacks now.
        rate: bytes a second that it gets now.
    """

    position: float
    record_bytes: int
    writes: float = 0.0
    active: bool = False
    lag: float = 0.0
    rate: float = 0.0

    @property
    def behind(self) -> bool:
        """Whether it lacks anything."""
        return self.lag > NOTHING


def share_bandwidth(copies: Iterable[StateCopy], bandwidth: float) -> None:
    """Set the rate of each copy on one client.

    Actives that restore have all of the bandwidth, in equal parts; standbys pause meanwhile,
    as in Kafka's state updater. Without any, standbys that are behind take what there is in
    equal parts, those that have caught up no more than what is written.

    Args:
        copies: restoring actives and all standbys of a client.
        bandwidth: bytes a second of the client.

    >>> behind, even = StateCopy(0, 100, lag=50), StateCopy(0, 100, writes=2.0)
    >>> share_bandwidth([behind, even], 1000.0)
    >>> behind.rate, even.rate
    (800.0, 200.0)
    """
    every = list(copies)
    restoring = [one for one in every if one.active]
    for one in every:
        one.rate = 0.0
    if restoring:
        for one in restoring:
            one.rate = bandwidth / len(restoring)
        return
    wanted = [bandwidth if one.behind else one.writes * one.record_bytes for one in every]
    for one, share in zip(every, fair_shares(wanted, bandwidth), strict=True):
        one.rate = share


def fair_shares(wanted: Sequence[float], total: float) -> list[float]:
    """Equal parts of a total, but for nobody more than it wants (max-min fairness).

    >>> fair_shares([1.0, 8.0, 8.0], 10.0)
    [1.0, 4.5, 4.5]
    """
    shares = [0.0] * len(wanted)
    left = total
    for done, place in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[place] = min(wanted[place], left / (len(wanted) - done))
        left -= shares[place]
    return shares


def millis_until_caught_up(copy: StateCopy) -> float | None:
    """Milliseconds until a copy that is behind lacks nothing, None if it never will like this.

    >>> millis_until_caught_up(StateCopy(0, 100, writes=10, lag=90, rate=2000))
    9000.0
    """
    gain = copy.rate / copy.record_bytes - copy.writes
    if not copy.behind or gain <= NOTHING:
        return None
    return copy.lag / gain * 1000


@dataclass(frozen=True)
class ObservedState:
    """What was known of state when a rebalance was computed.

    Attributes:
        ends: records of each stateful task's changelogs.
        lags: (client, task) -> records that a copy lacks; -2 of an active that runs. A copy
            that is not named keeps the position that the model gives it.
        leader: the client that led; without it the one that has been there longest. Kafka goes
            by the hash of members' ids, which are drawn at random, when a leader is gone.
        tellers: (client, task) -> number of the thread that told of a copy; heeded for copies
            that no thread has open. The one that locks the directory first tells of those, a
            race of milliseconds between threads of a process; without it the first to join.
    """

    ends: Mapping[TaskId, int] = field(default_factory=dict)
    lags: Mapping[tuple[str, TaskId], int] = field(default_factory=dict)
    leader: str | None = None
    tellers: Mapping[tuple[str, TaskId], int] = field(default_factory=dict)


@dataclass
class RunningClient:
    """A client that is up.

    Attributes:
        client: as the application has it.
        process: its id; one that lost its disk has another.
        consumers: ids of its threads' consumers.
        since_ms: when it started.
        disk: state that it has, of whatever task.
        active: tasks that it is to run -> consumer.
        standby: tasks that it keeps warm -> consumer.
        warmups: the standbys among them that are to become active.
        closed: tasks whose state it keeps without need -> since when.
        unopened: tasks that it was just given and has no state of: nothing is on its disk yet.
        teller: task that no thread has -> the consumer that told of its state last.
    """

    client: SimulatedClient
    process: ProcessId
    consumers: tuple[str, ...]
    since_ms: int = 0
    disk: dict[TaskId, StateCopy] = field(default_factory=dict)
    active: dict[TaskId, str] = field(default_factory=dict)
    standby: dict[TaskId, str] = field(default_factory=dict)
    warmups: set[TaskId] = field(default_factory=set)
    closed: dict[TaskId, int] = field(default_factory=dict)
    unopened: set[TaskId] = field(default_factory=set)
    teller: dict[TaskId, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the client."""
        return self.client.name

    def closed_cleanly(self) -> dict[TaskId, StateCopy]:
        """Return the copies that survive a crash under ``exactly_once_v2``.

        A store that was open may hold uncommitted records. When it is opened again, Kafka Streams
        finds no clean close, throws ``TaskCorruptedException`` and restores the task from the
        beginning; until then the client reports no offsets of it. Stores of tasks that the client
        gave up before are closed cleanly and keep their state.

        Source: ``RocksDBStore.openDB`` (status in the column family of offsets),
        ``ProcessorStateManager.initializeStoreOffsets`` (other persistent stores, without a
        checkpoint), ``StateDirectory.initializeStartupStores`` 4.3.1.
        """
        opened = {**self.active, **self.standby}
        return {task: copy for task, copy in self.disk.items() if task not in opened}


class ApplicationState:
    """Everything that flows: changelogs grow while their tasks run, copies come closer.

    A changelog stands still while nobody runs its task; what could not be written meanwhile
    is there at the moment when the task runs again (its input has waited in the source).

    Attributes:
        up: instances by name, the one that has been there longest first.
        running: task -> the instance that runs it, with all its state.
        factor: share of the restore rate that brokers give.
        stopped: consumers that gave up everything for a rebalance.
    """

    def __init__(self, application: SimulatedApplication, played: SimulationResult) -> None:
        self.up: dict[str, RunningClient] = {}
        self.running: dict[TaskId, RunningClient] = {}
        self.factor = 1.0
        self.stopped: set[str] = set()
        self._application, self._played = application, played
        self._layout = application.layout
        self._now = 0
        self._ends = {
            task: float(application.state_of(task).records) for task in self._layout.changelogs_of
        }
        self._restoring: set[tuple[str, TaskId]] = set()
        self._crossing: dict[tuple[TaskId, str | None], tuple[float, float]] = {}

    # -- time ----------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Let time pass; rates stay as they are meanwhile."""
        elapsed = now_ms - self._now
        if elapsed == 0:
            return
        before = self._spare_bytes()
        for task, instance in self.running.items():
            reading = self._application.state_of(task).read_bytes_per_second * elapsed / 1000
            self._played.cross_rack_bytes += reading * self._crosses(task, instance)[0]
            if task in self._ends:
                self._ends[task] = self._end_of(task, now_ms)
        for instance in self.up.values():
            for task, copy in instance.disk.items():
                self._restore(task, copy, instance, elapsed)
        self._now = now_ms
        self._played.spare_byte_ms += (before + self._spare_bytes()) / 2 * elapsed

    def _restore(
        self, task: TaskId, copy: StateCopy, instance: RunningClient, elapsed: int
    ) -> None:
        end = self._ends[task]
        if self.running.get(task) is instance:
            copy.position = end
        elif copy.rate > 0:
            gained = min(copy.rate * elapsed / 1000 / copy.record_bytes, end - copy.position)
            copy.position += gained
            moved = gained * copy.record_bytes
            if copy.behind:
                self._played.restored_bytes += moved
            else:
                self._played.followed_bytes += moved
            self._played.cross_rack_bytes += moved * self._crosses(task, instance)[1]
        self._measure(task, copy)

    def _measure(self, task: TaskId, copy: StateCopy) -> None:
        copy.lag = self._ends[task] - copy.position
        if copy.lag <= NOTHING:
            copy.lag, copy.position = 0.0, self._ends[task]

    def _end_of(self, task: TaskId, now_ms: int) -> float:
        state = self._application.state_of(task)
        return state.records + state.writes_per_second * now_ms / 1000

    def _spare_bytes(self) -> float:
        return sum(
            copy.position * copy.record_bytes
            for instance in self.up.values()
            for task, copy in instance.disk.items()
            if task not in instance.active
        )

    # -- what changes at a moment --------------------------------------------------------------

    def enter(self, instance: RunningClient) -> None:
        """A client is up, with what it has on its disk."""
        self.up[instance.name] = instance
        for task, copy in instance.disk.items():
            self._measure(task, copy)

    def settle(self) -> int | None:
        """Run what can run, share the bandwidth; answers when a copy next catches up."""
        self.running = {
            task: instance
            for task, instance in self.running.items()
            if self.up.get(instance.name) is instance
            and task in instance.active
            and instance.active[task] not in self.stopped
        }
        for instance in self.up.values():
            self._start(instance)
        waits = [wait for one in self.up.values() for wait in self._waits(one)]
        # Never at once: what a rounding leaves is made up in the next millisecond.
        return self._now + max(1, math.ceil(min(waits) - NOTHING)) if waits else None

    def _start(self, instance: RunningClient) -> None:
        for task, consumer in instance.active.items():
            copy = instance.disk.get(task)
            if self.running.get(task) is instance or (copy is not None and copy.behind):
                continue
            if consumer in self.stopped:
                continue
            self.running[task] = instance
            if copy is not None:
                self._ends[task] = copy.position = self._end_of(task, self._now)
                for other in self.up.values():
                    if task in other.disk:
                        self._measure(task, other.disk[task])

    def _waits(self, instance: RunningClient) -> Iterable[float]:
        copies = []
        for task, copy in instance.disk.items():
            copy.rate, copy.active = 0.0, task in instance.active
            runs = self.running.get(task)
            copy.writes = self._application.state_of(task).writes_per_second if runs else 0.0
            if (
                runs is not instance
                and (copy.active or task in instance.standby)
                and (copy.behind or not copy.active)
            ):
                copies.append(copy)
        share_bandwidth(copies, instance.client.restore_bytes_per_second * self.factor)
        found = (millis_until_caught_up(copy) for copy in copies)
        return [wait for wait in found if wait is not None]

    def give(
        self,
        instance: RunningClient,
        active: dict[TaskId, str],
        standby: dict[TaskId, str],
        warmups: set[TaskId],
    ) -> list[TaskId]:
        """A client's new tasks; answers those whose state it keeps without need from now on."""
        had = {*instance.active, *instance.standby}
        instance.active, instance.standby, instance.warmups = active, standby, warmups
        for task in (*active, *standby):
            instance.closed.pop(task, None)
            if task in self._ends and task not in instance.disk:
                copy = StateCopy(0.0, self._application.state_of(task).record_bytes)
                instance.disk[task] = copy
                instance.unopened.add(task)
                self._measure(task, copy)
        left = [task for task in had if task in instance.disk and task not in {**active, **standby}]
        instance.closed |= dict.fromkeys(left, self._now)
        return sorted(left)

    def fill(self) -> None:
        """Give every copy all of its state."""
        for instance in self.up.values():
            for task, copy in instance.disk.items():
                copy.position, copy.lag = self._ends[task], 0.0

    def tell(self, told: ObservedState) -> None:
        """Take over ends and lags that were seen; what is said to restore does not run."""
        self._ends |= told.ends
        self._restoring = {one for one, lag in told.lags.items() if lag >= 0}
        for instance in self.up.values():
            for task, copy in instance.disk.items():
                lag = told.lags.get((instance.name, task))
                if lag is not None:
                    copy.position = self._ends[task] - max(lag, 0)
                self._measure(task, copy)
                unfinished = (instance.name, task) in self._restoring
                if unfinished and self.running.get(task) is instance:
                    del self.running[task]

    # -- what is seen --------------------------------------------------------------------------

    def ends(self) -> dict[tuple[str, int], int]:
        """End offsets of changelogs; a task's first one has the records of all its stores."""
        changelogs = self._layout.changelogs_of
        found = {one: 0 for every in changelogs.values() for one in every}
        return found | {changelogs[task][0]: math.floor(end) for task, end in self._ends.items()}

    def says(
        self, instance: RunningClient, consumer: str, tasks: Iterable[TaskId]
    ) -> StreamsMember:
        """What a consumer says when it joins, of the state that it has of some tasks."""
        return StreamsMember(
            consumer,
            instance.process,
            [
                one
                for task, its in instance.active.items()
                if its == consumer
                for one in self._layout.partitions_of[task]
            ],
            {task: self._sum(instance, task) for task in tasks},
            tags=instance.client.tags,
            rack=instance.client.rack,
        )

    def _sum(self, instance: RunningClient, task: TaskId) -> int:
        copy = instance.disk[task]
        restored = task in instance.active and not copy.behind
        restored = restored and (instance.name, task) not in self._restoring
        return LATEST_OFFSET if restored else math.floor(copy.position)

    def seen(self) -> dict[tuple[str, TaskId], Kind]:
        """What every client does with each of its tasks."""
        found: dict[tuple[str, TaskId], Kind] = {}
        for name, instance in self.up.items():
            for task, consumer in instance.active.items():
                runs = self.running.get(task) is instance
                stopped = consumer in self.stopped
                found[name, task] = "running" if runs else "stopped" if stopped else "restoring"
            for task in instance.standby:
                found[name, task] = "warm-up" if task in instance.warmups else "standby"
        return found

    def _crosses(self, task: TaskId, instance: RunningClient) -> tuple[float, float]:
        """Shares of a task's sources, and of its changelogs, without a replica in the rack."""
        rack = instance.client.rack
        if (task, rack) not in self._crossing:
            racks = self._application.racks
            shares = []
            for partitions in (
                self._layout.partitions_of[task],
                self._layout.changelogs_of.get(task, ()),
            ):
                known = [racks[topic][number] for topic, number in partitions if topic in racks]
                far = sum(rack is not None and bool(one) and rack not in one for one in known)
                shares.append(far / len(partitions) if partitions else 0.0)
            self._crossing[task, rack] = (shares[0], shares[1])
        return self._crossing[task, rack]
