"""The clock of a simulation, and clients that come and go, whatever the protocol."""

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
    """What every protocol shares: time passes, clients come and go.

    A protocol says what follows: `open` when it begins, `came` when a client is up, `lost` when
    the group knows that one is gone.

    Attributes:
        app: what is played.
        loop: the clock.
        world: clients and their state.
        played: what comes of it.
        missing: consumers that are gone without a word -> when they are missed, their client.
    """

    def __init__(self, application: SimulatedApplication, session_timeout_ms: int) -> None:
        self.app = application
        self._session_timeout_ms = session_timeout_ms
        self.loop = Clock()
        threads = {one.name: one.threads for one in application.clients.values()}
        self.played = SimulationResult(
            application.length_ms, tuple(sorted(application.layout.partitions_of)), threads
        )
        self.world = ApplicationState(application, self.played)
        self._recorder = IntervalRecorder(self.played)
        self._down: dict[str, RunningClient] = {}
        self.missing: dict[str, tuple[int, str]] = {}
        self._settled = 0
        self._started = dict.fromkeys(application.clients, 0)
        self._lost_disks = 0
        self._lagging: list[float] = []

    def run(self) -> SimulationResult:
        """Play all of it."""
        self.loop.at(0, self._begin)
        for event in self.app.events:
            self.plan(event.at_ms, lambda event=event: self._happen(event))  # type: ignore[misc]  # a default binds it
        self.loop.run()
        self.world.advance(self.app.length_ms)
        self._recorder.end(self.app.length_ms)
        return self.played

    # -- what a protocol says --------------------------------------------------------------------

    @abstractmethod
    def open(self) -> None:
        """Everybody who is there at the beginning has joined."""

    @abstractmethod
    def came(self, instance: RunningClient) -> None:
        """A client is up."""

    @abstractmethod
    def lost(self, name: str, consumers: Sequence[str], how: str) -> None:
        """The group knows that consumers of a client are gone."""

    @abstractmethod
    def asked(self, name: str) -> None:
        """A client asks for a rebalance, whatever its reason is."""

    def heard(self, consumer: str) -> int:
        """When the group last heard of a consumer that is gone."""
        del consumer
        return self.loop.now_ms

    # -- the clock -----------------------------------------------------------------------------

    def plan(self, at_ms: int, action: Callable[[], bool | None], *, rank: int = 0) -> None:
        """Plan an action, with time passing before it and its consequences drawn after it.

        One that answers False has none: nobody has other tasks, nobody came or went.
        """
        if at_ms >= self.app.length_ms:
            return

        def whole() -> None:
            self.world.advance(self.loop.now_ms)
            if action() is not False:
                self._settle()

        self.loop.at(at_ms, whole, rank=rank)

    def _settle(self) -> None:
        due = self.world.settle()
        self._recorder.see(self.loop.now_ms, self.world.seen())
        self._settled += 1
        mark = self._settled
        if due is None or due >= self.app.length_ms:
            return

        def caught_up() -> None:
            # Whatever happened since has planned its own.
            if mark == self._settled:
                self.world.advance(self.loop.now_ms)
                self._settle()

        self.loop.at(due, caught_up, rank=-1)

    # -- clients -------------------------------------------------------------------------------

    def _begin(self) -> None:
        for client in self.app.clients.values():
            if client.starts:
                self._enter(client)
        self.open()
        if self.app.caught_up:
            self.world.fill()
        self._settle()

    def _happen(self, event: TraceEvent) -> None:
        now = self.loop.now_ms
        if event.kind == "brokerLag":
            self._lagging.append(event.factor)
            self.world.factor = min(self._lagging)
            self.plan(now + event.for_ms, lambda: self._brokers_recover(event.factor))
        clients = event.clients
        if event.kind == "rollingRestart":
            # Who is there when it begins, the one that has been there longest first.
            clients = tuple(self.world.up)
        for place, name in enumerate(clients):
            if event.kind in {"join", "scaleOut"}:
                self._join(name)
            elif event.kind == "rebalance":
                if name in self.world.up:
                    self.asked(name)
            elif event.kind == "rollingRestart":
                self.plan(
                    now + place * event.every_ms,
                    lambda name=name: self._go(name, event),  # type: ignore[misc]  # a default binds it
                )
            else:
                self._go(name, event)

    def _brokers_recover(self, factor: float) -> None:
        self._lagging.remove(factor)
        self.world.factor = min(self._lagging, default=1.0)

    def _join(self, name: str) -> None:
        if name not in self.world.up:
            self._enter(self.app.clients[name])
            self.came(self.world.up[name])

    def _enter(self, client: SimulatedClient) -> None:
        self._started[client.name] += 1
        times = self._started[client.name]
        numbered = tuple(f"{client.name}-{times}-{thread}" for thread in range(client.threads))
        consumers = (*client.consumers, *[numbered] * times)[times - 1]
        before = self._down.pop(client.name, None)
        process = before.process if before else client.process
        made = RunningClient(client, process, consumers, self.loop.now_ms)
        if before:
            made.disk = before.disk
            self.keep_for_a_while(made, list(made.disk))
        self.world.enter(made)
        self._recorder.up(self.loop.now_ms, client.name)

    def _go(self, name: str, event: TraceEvent) -> None:
        gone = self.world.up.pop(name, None)
        if gone is None:
            return
        now = self.loop.now_ms
        self._recorder.down(now, name)
        gone.closed = {}  # nobody cleans up where nothing runs
        if not event.disk:
            gone.disk = {}
            self._lost_disks += 1
            # Streams draws another id where it finds none on its disk.
            gone.process = ProcessId(1, self._lost_disks)
        elif event.kind == "crash" and self.app.exactly_once:
            gone.disk = gone.closed_cleanly()
        self._down[name] = gone
        if event.kind == "leave" or event.leaves:
            self.lost(name, gone.consumers, "left")
        else:
            for consumer in gone.consumers:
                missed = self.heard(consumer) + self._session_timeout_ms
                self.missing[consumer] = (missed, name)
                self.plan(missed, self._miss, rank=-1)
        if event.back_ms is not None:
            self.plan(now + event.back_ms, lambda: self._join(name))

    def _miss(self) -> None:
        now = self.loop.now_ms
        over: dict[str, list[str]] = {}
        for consumer, (due, name) in list(self.missing.items()):
            if due <= now:
                del self.missing[consumer]
                over.setdefault(name, []).append(consumer)
        for name, consumers in over.items():
            self.lost(name, consumers, "was missed")

    def keep_for_a_while(self, instance: RunningClient, tasks: list[TaskId]) -> None:
        """State of tasks that a client gave up goes when it cleans up, after the cleanup delay."""
        now = self.loop.now_ms
        instance.closed |= dict.fromkeys(tasks, now)
        delay = self.app.runtime.state_cleanup_delay_ms

        def clean() -> None:
            for task in tasks:
                if instance.closed.get(task) == now:
                    del instance.closed[task], instance.disk[task]

        if tasks:
            # It looks at that interval from its start, for what is older than the interval.
            looks = (now + delay - instance.since_ms) // delay + 1
            self.plan(instance.since_ms + looks * delay, clean)
