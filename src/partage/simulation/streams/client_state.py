"""Running clients of a simulated Streams application, and their copies of state over time.

Changelogs grow while their tasks run, and copies of state restore at a bounded rate. Restoring
active tasks share a client's bandwidth equally and pause its standbys, as Kafka's state updater
does; without them standbys share it by max-min fairness.
"""

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

#: A lag of fewer records is a rounding error of floating point.
_ROUNDING = 1e-6


# -- copies of state ---------------------------------------------------------------------------


@dataclass
class StateCopy:
    """A copy of one Kafka Streams task's state on one client, restored from the changelog topic.

    Attributes:
        position: number of changelog records that the copy has.
        record_bytes: size of a record in bytes.
        writes: records per second that the changelog grows by; 0 while the task does not run.
        active: whether the task is active here; such copies restore before all standbys.
        lag: number of records that the copy lacks.
        rate: bytes per second at which it restores.
    """

    position: float
    record_bytes: int
    writes: float = 0.0
    active: bool = False
    lag: float = 0.0
    rate: float = 0.0

    @property
    def lacks_records(self) -> bool:
        """Return whether this copy of a task's state lacks records of the changelog topic.

        An active task with such a copy must restore it before it can run.
        """
        return self.lag > _ROUNDING


def share_bandwidth(copies: Iterable[StateCopy], bandwidth: float) -> None:
    """Divide a client's restore bandwidth among its copies of task state, by setting their rates.

    Copies of restoring active tasks share it equally, and standbys pause. If no active task
    restores, standbys with all records get what new records need, and those behind share the rest.

    Args:
        copies: the copies of restoring active tasks and of all standbys of the client.
        bandwidth: restore rate of the client in bytes per second.

    >>> behind, even = StateCopy(0, 100, lag=50), StateCopy(0, 100, writes=2.0)
    >>> share_bandwidth([behind, even], 1000.0)
    >>> behind.rate, even.rate
    (800.0, 200.0)
    """
    every = list(copies)
    restoring = [copy for copy in every if copy.active]
    for copy in every:
        copy.rate = 0.0
    if restoring:
        for copy in restoring:
            copy.rate = bandwidth / len(restoring)
        return
    wanted = [
        bandwidth if copy.lacks_records else copy.writes * copy.record_bytes for copy in every
    ]
    for copy, share in zip(every, fair_shares(wanted, bandwidth), strict=True):
        copy.rate = share


def fair_shares(demands: Sequence[float], total: float) -> list[float]:
    """Divide a total among demands by max-min fairness: equal shares, but none above its demand.

    >>> fair_shares([1.0, 8.0, 8.0], 10.0)
    [1.0, 4.5, 4.5]
    """
    shares = [0.0] * len(demands)
    left = total
    for done, place in enumerate(sorted(range(len(demands)), key=demands.__getitem__)):
        shares[place] = min(demands[place], left / (len(demands) - done))
        left -= shares[place]
    return shares


def millis_until_caught_up(copy: StateCopy) -> float | None:
    """Return the time (ms) until a copy of a task's state has caught up with its changelog.

    The result is None if it never catches up.

    >>> millis_until_caught_up(StateCopy(0, 100, writes=10, lag=90, rate=2000))
    9000.0
    """
    gain = copy.rate / copy.record_bytes - copy.writes
    if not copy.lacks_records or gain <= _ROUNDING:
        return None
    return copy.lag / gain * 1000


# -- clients -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObservedState:
    """Task lags and end offsets that a real Streams leader saw, used in place of simulated ones.

    Attributes:
        ends: dict from stateful task to number of records in its changelogs.
        lags: dict from (client, task) to the number of records that its copy of the state lacks; -2
            for a running active task. A copy that is missing here keeps its simulated position.
        leader: the client that was the leader; None for the oldest one. When a leader leaves, Kafka
            picks the next one by the hash of random member ids.
        reporters: dict from (client, task) to the number of the thread that reported a copy that no
            thread has open; if missing, the first thread to join reports it. Threads of a process
            race for the lock of the state directory.
    """

    ends: Mapping[TaskId, int] = field(default_factory=dict)
    lags: Mapping[tuple[str, TaskId], int] = field(default_factory=dict)
    leader: str | None = None
    reporters: Mapping[tuple[str, TaskId], int] = field(default_factory=dict)


@dataclass
class RunningClient:
    """A running client of a simulated application: its threads, its tasks and the state on its
    disk.

    Attributes:
        client: the client's description in the input.
        process: its process id; a client that lost its disk gets a new one.
        consumers: ids of its threads' consumers.
        since_ms: when it started (ms).
        disk: dict from task to copy of its state.
        active: dict from active task to consumer.
        standby: dict from standby or warm-up task to consumer.
        warmups: those standby tasks that are warm-ups.
        closed: dict from task whose state is no longer needed to since when (ms).
        unopened: tasks that were just assigned and have nothing on disk yet.
        reporter: dict from task that no thread has open to consumer that reported its state last.
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
    reporter: dict[TaskId, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the Kafka Streams client in the output of the simulation.

        It is the name that the input gives the client, and stays the same when the client restarts.
        """
        return self.client.name

    @property
    def consumer_of_task(self) -> dict[TaskId, str]:
        """Dict from each of the client's tasks (active, standby, warm-up) to the consumer that has
        it.

        A consumer is one stream thread of this client.
        """
        return {**self.active, **self.standby}

    def copies_closed_cleanly(self) -> dict[TaskId, StateCopy]:
        """Return the copies of task state that survive a client's crash under ``exactly_once_v2``.

        Only copies of tasks without a thread survive, since they were closed. An open store may
        hold uncommitted records, so Kafka Streams restores its task from the beginning
        (``TaskCorruptedException``).

        Source: ``RocksDBStore.openDB`` (status in the column family of offsets),
        ``ProcessorStateManager.initializeStoreOffsets`` (other persistent stores, without a
        checkpoint), ``StateDirectory.initializeStartupStores`` 4.3.1.
        """
        opened = self.consumer_of_task
        return {task: copy for task, copy in self.disk.items() if task not in opened}


class ApplicationState:
    """The running clients of a simulated application, and their copies of task state over time.

    A changelog does not grow while its task does not run; the missed writes are added when the task
    runs again.

    Attributes:
        up: running clients by name, the oldest first.
        running: dict from task to the client that runs it with all its state.
        factor: share of the restore rate that brokers can deliver.
        stopped: consumers that have revoked everything for an eager rebalance.
    """

    def __init__(self, application: SimulatedApplication, result: SimulationResult) -> None:
        self.up: dict[str, RunningClient] = {}
        self.running: dict[TaskId, RunningClient] = {}
        self.factor = 1.0
        self.stopped: set[str] = set()
        self._application, self._result = application, result
        self._layout = application.layout
        self._now = 0
        self._ends = {
            task: float(application.state_of(task).records) for task in self._layout.changelogs_of
        }
        self._restoring: set[tuple[str, TaskId]] = set()
        self._cross_rack: dict[tuple[TaskId, str | None], tuple[float, float]] = {}

    # -- time ----------------------------------------------------------------------------------

    def advance_to(self, now_ms: int) -> None:
        """Advance the task state of all clients to the simulated time ``now_ms``.

        Until then, changelogs of running tasks grow, and copies of task state restore.
        """
        elapsed = now_ms - self._now
        if elapsed == 0:
            return
        before = self._inactive_state_bytes()
        for task, client in self.running.items():
            read = self._application.state_of(task).read_bytes_per_second * elapsed / 1000
            self._result.cross_rack_bytes += read * self._cross_rack_shares(task, client)[0]
            if task in self._ends:
                self._ends[task] = self._end_of(task, now_ms)
        for client in self.up.values():
            for task, copy in client.disk.items():
                self._restore(task, copy, client, elapsed)
        self._now = now_ms
        self._result.spare_byte_ms += (before + self._inactive_state_bytes()) / 2 * elapsed

    def _restore(self, task: TaskId, copy: StateCopy, client: RunningClient, elapsed: int) -> None:
        end = self._ends[task]
        if self.running.get(task) is client:
            copy.position = end
        elif copy.rate > 0:
            gained = min(copy.rate * elapsed / 1000 / copy.record_bytes, end - copy.position)
            copy.position += gained
            read = gained * copy.record_bytes
            if copy.lacks_records:
                self._result.restored_bytes += read
            else:
                self._result.followed_bytes += read
            self._result.cross_rack_bytes += read * self._cross_rack_shares(task, client)[1]
        self._update_lag(task, copy)

    def _update_lag(self, task: TaskId, copy: StateCopy) -> None:
        """Set the lag of a copy of a task's state: the number of changelog records that it lacks.

        A copy with a lag of almost 0 counts as caught up.
        """
        copy.lag = self._ends[task] - copy.position
        if copy.lag <= _ROUNDING:
            copy.lag, copy.position = 0.0, self._ends[task]

    def _end_of(self, task: TaskId, now_ms: int) -> float:
        state = self._application.state_of(task)
        return state.records + state.writes_per_second * now_ms / 1000

    def _inactive_state_bytes(self) -> float:
        """Return the bytes of task state on the disks of clients that do not run the task.

        They consist of standby tasks, warm-up tasks, and copies that are no longer used.
        """
        return sum(
            copy.position * copy.record_bytes
            for client in self.up.values()
            for task, copy in client.disk.items()
            if task not in client.active
        )

    # -- changes -------------------------------------------------------------------------------

    def add_client(self, client: RunningClient) -> None:
        """Add a Streams client that has started, with the task state on its disk.

        The lag of each copy of state is computed from the changelog's current end.
        """
        self.up[client.name] = client
        for task, copy in client.disk.items():
            self._update_lag(task, copy)

    def start_restored_tasks(self) -> int | None:
        """Start the tasks whose state is restored, and divide each client's restore bandwidth.

        Returns:
            The time at which the next copy of state catches up (ms); None if none does.
        """
        self.running = {
            task: client
            for task, client in self.running.items()
            if self.up.get(client.name) is client
            and task in client.active
            and client.active[task] not in self.stopped
        }
        for client in self.up.values():
            self._run_tasks(client)
        waits = [
            wait for client in self.up.values() for wait in self._share_restore_bandwidth(client)
        ]
        # At least a millisecond, in which a rounding error is made up.
        return self._now + max(1, math.ceil(min(waits) - _ROUNDING)) if waits else None

    def _run_tasks(self, client: RunningClient) -> None:
        """Start those active tasks of a client whose state is completely restored.

        A running task reads records and lets its changelog grow.
        """
        for task, consumer in client.active.items():
            copy = client.disk.get(task)
            if self.running.get(task) is client or (copy is not None and copy.lacks_records):
                continue
            if consumer in self.stopped:
                continue
            self.running[task] = client
            if copy is not None:
                self._ends[task] = copy.position = self._end_of(task, self._now)
                for other in self.up.values():
                    if task in other.disk:
                        self._update_lag(task, other.disk[task])

    def _share_restore_bandwidth(self, client: RunningClient) -> Iterable[float]:
        """Divide a client's restore bandwidth among its copies of task state that lack records.

        Return the times (ms) in which these copies catch up; copies that never do are left out.
        """
        copies = []
        for task, copy in client.disk.items():
            copy.rate, copy.active = 0.0, task in client.active
            runner = self.running.get(task)
            copy.writes = self._application.state_of(task).writes_per_second if runner else 0.0
            if (
                runner is not client
                and (copy.active or task in client.standby)
                and (copy.lacks_records or not copy.active)
            ):
                copies.append(copy)
        share_bandwidth(copies, client.client.restore_bytes_per_second * self.factor)
        waits = (millis_until_caught_up(copy) for copy in copies)
        return [wait for wait in waits if wait is not None]

    def assign_tasks(
        self,
        client: RunningClient,
        active: dict[TaskId, str],
        standby: dict[TaskId, str],
        warmups: set[TaskId],
    ) -> list[TaskId]:
        """Replace a Streams client's active, standby and warm-up tasks.

        Return the tasks that the client lost and whose state is still on its disk. ``active`` and
        ``standby`` are dicts from task to the consumer that gets it. ``warmups`` is the set of
        those standby tasks that are warm-ups.
        """
        before = {*client.active, *client.standby}
        client.active, client.standby, client.warmups = active, standby, warmups
        for task in (*active, *standby):
            client.closed.pop(task, None)
            if task in self._ends and task not in client.disk:
                copy = StateCopy(0.0, self._application.state_of(task).record_bytes)
                client.disk[task] = copy
                client.unopened.add(task)
                self._update_lag(task, copy)
        now = client.consumer_of_task
        unneeded = [task for task in before if task in client.disk and task not in now]
        client.closed |= dict.fromkeys(unneeded, self._now)
        return sorted(unneeded)

    def complete_all_copies(self) -> None:
        """Let every copy of task state on all clients catch up with its changelog at once.

        This is the situation after a long run without events.
        """
        for client in self.up.values():
            for task, copy in client.disk.items():
                copy.position, copy.lag = self._ends[task], 0.0

    def apply_observed(self, observed: ObservedState) -> None:
        """Replace simulated end offsets and lags by those that a real leader saw (``observed``).

        A task that was still restoring in reality stops running.
        """
        self._ends |= observed.ends
        self._restoring = {key for key, lag in observed.lags.items() if lag >= 0}
        for client in self.up.values():
            for task, copy in client.disk.items():
                lag = observed.lags.get((client.name, task))
                if lag is not None:
                    copy.position = self._ends[task] - max(lag, 0)
                self._update_lag(task, copy)
                is_restoring = (client.name, task) in self._restoring
                if is_restoring and self.running.get(task) is client:
                    del self.running[task]

    # -- what members and observers see --------------------------------------------------------

    def end_offsets(self) -> dict[tuple[str, int], int]:
        """Return a dict from changelog partition to its end offset.

        For simplicity, the first changelog of a task has the records of all the task's stores; the
        others are empty.
        """
        changelogs = self._layout.changelogs_of
        offsets = {one: 0 for every in changelogs.values() for one in every}
        return offsets | {changelogs[task][0]: math.floor(end) for task, end in self._ends.items()}

    def build_subscription(
        self, client: RunningClient, consumer: str, tasks: Iterable[TaskId]
    ) -> StreamsMember:
        """Return the subscription that a client's consumer sends when it joins its group.

        It contains the offset sums of ``tasks``, which show how complete their local state is.
        """
        return StreamsMember(
            consumer,
            client.process,
            [
                partition
                for task, owner in client.active.items()
                if owner == consumer
                for partition in self._layout.partitions_of[task]
            ],
            {task: self._offset_sum(client, task) for task in tasks},
            tags=client.client.tags,
            rack=client.client.rack,
        )

    def _offset_sum(self, client: RunningClient, task: TaskId) -> int:
        """Return the offset sum of a task: the number by which a client reports how complete its
        copy is.

        It is the number of changelog records that the copy has, or a special value for a running
        active task.
        """
        copy = client.disk[task]
        is_running = task in client.active and not copy.lacks_records
        is_running = is_running and (client.name, task) not in self._restoring
        return LATEST_OFFSET if is_running else math.floor(copy.position)

    def list_activities(self) -> dict[tuple[str, TaskId], Kind]:
        """Return what each client does with each of its tasks, by (client name, task id).

        An activity is running, restoring, stopped, standby or warm-up.
        """
        found: dict[tuple[str, TaskId], Kind] = {}
        for name, client in self.up.items():
            for task, consumer in client.active.items():
                is_running = self.running.get(task) is client
                is_stopped = consumer in self.stopped
                kind: Kind = "stopped" if is_stopped else "restoring"
                found[name, task] = "running" if is_running else kind
            for task in client.standby:
                found[name, task] = "warm-up" if task in client.warmups else "standby"
        return found

    def _cross_rack_shares(self, task: TaskId, client: RunningClient) -> tuple[float, float]:
        """Return the fractions of a task's partitions that its client reads from another rack.

        The first is of source partitions, the second of changelog partitions. A client reads from
        another rack if the partition has no replica in its own.
        """
        rack = client.client.rack
        if (task, rack) not in self._cross_rack:
            racks = self._application.racks
            shares = []
            for partitions in (
                self._layout.partitions_of[task],
                self._layout.changelogs_of.get(task, ()),
            ):
                known = [racks[topic][number] for topic, number in partitions if topic in racks]
                far = sum(rack is not None and bool(one) and rack not in one for one in known)
                shares.append(far / len(partitions) if partitions else 0.0)
            self._cross_rack[task, rack] = (shares[0], shares[1])
        return self._cross_rack[task, rack]
