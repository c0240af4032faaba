"""Base of the Streams simulations: clock, clients and events, for any group protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from partage.simulation.clock import Clock
from partage.simulation.streams.application import SimulatedApplication, SimulatedClient, TraceEvent
from partage.simulation.streams.client_state import ApplicationState, RunningClient
from partage.simulation.streams.result import IntervalRecorder, SimulationResult
from partage.streams import ProcessId, TaskId

__all__ = ["StreamsSimulation"]


class StreamsSimulation(ABC):
    """Base class of simulations of a Kafka Streams application, in which clients start and crash.

    A subclass implements the group protocol in `form_group`, `add_client`, `remove_consumers` and
    `request_rebalance`.

    Attributes:
        app: the simulated application.
        clock: the simulated clock.
        state: running clients and their copies of task state.
        result: rebalances and task intervals so far.
        undetected: dict from dead consumer to when its session times out (ms), and its client.
    """

    def __init__(self, application: SimulatedApplication, session_timeout_ms: int) -> None:
        self.app = application
        self._session_timeout_ms = session_timeout_ms
        self.clock = Clock()
        threads = {client.name: client.threads for client in application.clients.values()}
        self.result = SimulationResult(
            application.length_ms, tuple(sorted(application.layout.partitions_of)), threads
        )
        self.state = ApplicationState(application, self.result)
        self.undetected: dict[str, tuple[int, str]] = {}
        self._recorder = IntervalRecorder(self.result)
        self._down: dict[str, RunningClient] = {}
        self._settled = 0
        self._starts = dict.fromkeys(application.clients, 0)
        self._lost_disks = 0
        self._lag_factors: list[float] = []

    def run_simulation(self) -> SimulationResult:
        """Run the simulation to its end and return the result.

        The result has all rebalances, and which client ran or restored which task at any time.
        """
        self.clock.schedule_at(0, self._start_initial_clients)
        for event in self.app.events:
            self.schedule_action(event.at_ms, lambda event=event: self._apply_event(event))  # type: ignore[misc]  # a default binds it
        self.clock.run_scheduled()
        self.state.advance_to(self.app.length_ms)
        self._recorder.close_intervals(self.app.length_ms)
        return self.result

    # -- group protocol ------------------------------------------------------------------------

    @abstractmethod
    def form_group(self) -> None:
        """Form the consumer group from the clients that run when the simulation begins.

        Subclasses implement this for their group protocol.
        """

    @abstractmethod
    def add_client(self, client: RunningClient) -> None:
        """Let all threads of a client that has just started join the consumer group.

        Subclasses implement this for their group protocol.
        """

    @abstractmethod
    def remove_consumers(self, name: str, consumers: Sequence[str], reason: str) -> None:
        """Remove consumers of the client ``name`` from the consumer group.

        ``reason`` says whether they left or were evicted. Subclasses implement this for their group
        protocol.
        """

    @abstractmethod
    def request_rebalance(self, name: str) -> None:
        """Begin a rebalance of the consumer group because the client ``name`` requests it.

        Subclasses implement this for their group protocol.
        """

    def last_heartbeat_ms(self, consumer: str) -> int:
        """Return the time (ms) of the last heartbeat that the coordinator received from a consumer.

        It is called when the consumer crashes. The coordinator evicts it one session timeout after
        that heartbeat.
        """
        del consumer
        return self.clock.now_ms

    # -- time ----------------------------------------------------------------------------------

    def schedule_action(
        self, at_ms: int, action: Callable[[], bool | None], *, rank: int = 0
    ) -> None:
        """Schedule a function (``action``) to run at a simulated time.

        Copies of task state are restored up to that time before. Tasks whose state is restored
        start after it, unless the function returns False: it then changed neither tasks nor
        clients. Functions with a lower ``rank`` run first at equal times.
        """
        if at_ms >= self.app.length_ms:
            return

        def run_action() -> None:
            self.state.advance_to(self.clock.now_ms)
            if action() is not False:
                self._start_restored_tasks()

        self.clock.schedule_at(at_ms, run_action, rank=rank)

    def _start_restored_tasks(self) -> None:
        """Start the Kafka Streams tasks whose state is restored.

        The next call is scheduled for the time at which another task's state is restored.
        """
        due_ms = self.state.start_restored_tasks()
        self._recorder.record_activities(self.clock.now_ms, self.state.list_activities())
        self._settled += 1
        mark = self._settled
        if due_ms is None or due_ms >= self.app.length_ms:
            return

        def catch_up() -> None:
            if mark == self._settled:  # later changes have scheduled their own moment
                self.state.advance_to(self.clock.now_ms)
                self._start_restored_tasks()

        self.clock.schedule_at(due_ms, catch_up, rank=-1)

    # -- clients -------------------------------------------------------------------------------

    def _start_initial_clients(self) -> None:
        """Start the Streams clients that run from the beginning, and form their group.

        Other clients start later, by events such as a scale-out.
        """
        for client in self.app.clients.values():
            if client.starts:
                self._start_client(client)
        self.form_group()
        if self.app.caught_up:
            self.state.complete_all_copies()
        self._start_restored_tasks()

    def _apply_event(self, event: TraceEvent) -> None:
        """Apply an event of the simulation, such as a crash or a rolling restart.

        An event starts, stops or restarts clients, requests a rebalance, or slows down the brokers.
        """
        now = self.clock.now_ms
        if event.kind == "brokerLag":
            self._lag_factors.append(event.factor)
            self.state.factor = min(self._lag_factors)
            self.schedule_action(now + event.for_ms, lambda: self._end_broker_lag(event.factor))
        # A rolling restart takes the clients that run when it begins, the oldest first.
        is_rolling = event.kind == "rollingRestart"
        clients = tuple(self.state.up) if is_rolling else event.clients
        for place, name in enumerate(clients):
            if event.kind in {"join", "scaleOut"}:
                self._start_and_join(name)
            elif event.kind == "rebalance":
                if name in self.state.up:
                    self.request_rebalance(name)
            elif is_rolling:
                self.schedule_action(
                    now + place * event.every_ms,
                    lambda name=name: self._stop_client(name, event),  # type: ignore[misc]  # a default binds it
                )
            else:
                self._stop_client(name, event)

    def _end_broker_lag(self, factor: float) -> None:
        self._lag_factors.remove(factor)
        self.state.factor = min(self._lag_factors, default=1.0)

    def _start_and_join(self, name: str) -> None:
        """Start the client ``name`` and let it join its consumer group.

        Nothing happens if the client is running already.
        """
        if name not in self.state.up:
            self._start_client(self.app.clients[name])
            self.add_client(self.state.up[name])

    def _start_client(self, client: SimulatedClient) -> None:
        """Start a simulated Streams client, with the task state that is still on its disk.

        A client that ran before keeps its process id, unless it lost its disk.
        """
        self._starts[client.name] += 1
        starts = self._starts[client.name]
        numbered = tuple(f"{client.name}-{starts}-{thread}" for thread in range(client.threads))
        consumers = (*client.consumers, *[numbered] * starts)[starts - 1]
        before = self._down.pop(client.name, None)
        process = before.process if before else client.process
        running = RunningClient(client, process, consumers, self.clock.now_ms)
        if before:
            running.disk = before.disk
            self.schedule_state_cleanup(running, list(running.disk))
        self.state.add_client(running)
        self._recorder.record_client_start(self.clock.now_ms, client.name)

    def _stop_client(self, name: str, event: TraceEvent) -> None:
        """Stop or crash the client ``name``, and schedule its return.

        ``event`` says how it stops, and when it returns. Nothing happens if the client is not
        running.
        """
        stopped = self.state.up.pop(name, None)
        if stopped is None:
            return
        now = self.clock.now_ms
        self._recorder.record_client_stop(now, name)
        stopped.closed = {}  # a stopped client cleans nothing up
        if not event.disk:
            stopped.disk = {}
            self._lost_disks += 1
            # Kafka Streams draws a new process id where it finds none on disk.
            stopped.process = ProcessId(1, self._lost_disks)
        elif event.kind == "crash" and self.app.exactly_once:
            stopped.disk = stopped.copies_closed_cleanly()
        self._down[name] = stopped
        if event.kind == "leave" or event.leaves:
            self.remove_consumers(name, stopped.consumers, "left")
        else:
            for consumer in stopped.consumers:
                times_out_ms = self.last_heartbeat_ms(consumer) + self._session_timeout_ms
                self.undetected[consumer] = (times_out_ms, name)
                self.schedule_action(times_out_ms, self._evict_dead_consumers, rank=-1)
        if event.back_ms is not None:
            self.schedule_action(now + event.back_ms, lambda: self._start_and_join(name))

    def _evict_dead_consumers(self) -> None:
        """Evict crashed consumers, which send no heartbeats, when their session timeout has passed.

        An eviction causes a rebalance of the group.
        """
        now = self.clock.now_ms
        evicted: dict[str, list[str]] = {}
        for consumer, (due, name) in list(self.undetected.items()):
            if due <= now:
                del self.undetected[consumer]
                evicted.setdefault(name, []).append(consumer)
        for name, consumers in evicted.items():
            self.remove_consumers(name, consumers, "was missed")

    def schedule_state_cleanup(self, client: RunningClient, tasks: list[TaskId]) -> None:
        """Schedule the removal of task state from a client's disk, for ``tasks`` that it no longer
        has.

        The client's cleaner runs at every multiple of ``state.cleanup.delay.ms`` from its start. It
        removes state that has been closed for longer than that delay.
        """
        now = self.clock.now_ms
        client.closed |= dict.fromkeys(tasks, now)
        delay = self.app.runtime.state_cleanup_delay_ms

        def clean_up() -> None:
            for task in tasks:
                if client.closed.get(task) == now:
                    del client.closed[task], client.disk[task]

        if tasks:
            runs = (now + delay - client.since_ms) // delay + 1
            self.schedule_action(client.since_ms + runs * delay, clean_up)
