"""The watcher: turns the records of a live capture into rebalance events, in its own thread.

The capture's thread only appends to a queue. If the watcher is slower for long, as while it reads
the past of a large log, the queue is full and the capture waits. An error of the watcher, such as
a full disk under the events, stops the capture in good order; `Watcher.close` raises it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from partage.capture.durable import name_folder_in_errors, published
from partage.errors import InvalidCaptureError, InvalidConfigError
from partage.history.live_groups import LiveGroups, RebalanceOpened, WatchEvent
from partage.history.live_log import LogBatch
from partage.model.validation import expect_local

if TYPE_CHECKING:
    from typing_extensions import Self

    from partage.capture.writing import CaptureWriter

__all__ = ["CaptureProgress", "EventSink", "WatchListener", "Watcher"]

#: Rounds of Fetch responses that may wait for the watcher; each has at most some megabytes.
_MOST_ROUNDS = 8
#: Longest wait for input, in seconds: timers of open rebalances run while nothing is read.
_LONGEST_WAIT = 0.25
#: Longest wait for the thread at the end, in seconds: nobody may be reading the events.
_LONGEST_END = 30.0
#: A capture that has read nothing for so long is not healthy.
_HEALTHY_SECONDS = 60.0
#: File of the histories' state in the folder of the capture, and seconds between two writes.
_STATE, _STORE_SECONDS = "watch.state", 300.0
#: Bytes of an event file that are searched for its last complete line.
_TAIL = 1 << 20


class EventSink:
    """Writer of rebalance events as JSON lines, to a file or to standard output (target ``-``).

    An incomplete last line, as after a kill, is removed when the file is opened again.

    Raises:
        InvalidConfigError: the file cannot be written.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._file: BinaryIO
        if target == "-":
            self._file = sys.stdout.buffer
            return
        expect_local(target, "--events")
        try:
            is_file = Path(target).is_file()  # and no pipe or device
            self._file = Path(target).open("a+b" if is_file else "ab")  # noqa: SIM115 - `close` closes it
            if is_file:
                self._remove_torn_line()
        except OSError as e:
            raise self._failed(e) from None

    def _remove_torn_line(self) -> None:
        end = self._file.seek(0, 2)
        start = self._file.seek(max(0, end - _TAIL))
        self._file.truncate(start + self._file.read().rfind(b"\n") + 1)

    def _failed(self, error: OSError) -> InvalidConfigError:
        what = f"cannot be written ({error.strerror or error}); free space there and run again"
        return InvalidConfigError("--events", what, self._target)

    def write(self, event: Mapping[str, Any]) -> None:
        """Write one rebalance event as a JSON line and flush it.

        Raises:
            InvalidConfigError: the file cannot be written.
            BrokenPipeError: the reader of standard output has closed it.
        """
        # ASCII: no name of a group or topic can break a line or a terminal.
        line = json.dumps(event, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as e:
            raise self._failed(e) from None

    def close(self) -> None:
        """Close the file of rebalance events; standard output stays open."""
        if self._target != "-":
            with suppress(OSError):  # `write` has reported it
                self._file.close()


@dataclass(frozen=True)
class CaptureProgress:
    """Progress of a running `partage capture`, for metrics and health checks.

    Attributes:
        records: number of records in the capture.
        behind: number of offsets that are not read yet.
        position: sum over log partitions of the next offset to read.
        missing: number of offsets that were compacted before they were read.
        troubles: number of warnings so far.
        read_s: time of the last successful read, seconds since the epoch.
    """

    records: int = 0
    behind: int = 0
    position: int = 0
    missing: int = 0
    troubles: int = 0
    read_s: float = 0.0


class WatchListener(Protocol):
    """Interface of a listener that receives rebalance events and clock ticks in the watcher's
    thread.
    """

    def event(self, event: WatchEvent, live: LiveGroups) -> None:
        """Process a rebalance event of a group.

        ``event.fresh`` is True if it was recorded after the watch began. ``live`` has the current
        histories of all groups.
        """

    def tick(self, now_ms: int, live: LiveGroups, progress: CaptureProgress) -> None:
        """Process a clock tick; several come each second.

        ``now_ms`` is the current time, ``live`` has the current histories of all groups, and
        ``progress`` is that of the capture.
        """


class _Reset:
    """Message by which the watcher's thread replaces all group histories, because the log was
    truncated.
    """

    def __init__(self, live: LiveGroups) -> None:
        self.live = live


_Round = tuple[list[Mapping[str, Any]], list[LogBatch], int]


class Watcher:
    """Observer of a running `partage capture` that turns records of ``__consumer_offsets`` into
    rebalance events.

    The state of the groups' histories is stored in the capture's folder every few minutes and at
    the end; the next start reads only what came later.

    Call `start` before the capture runs and `progress` after each round of it. Use it in a ``with``
    block, inside that of the connection.

    Args:
        sink: output of fresh events; None writes none.
        stop: event that is set when the watcher fails, so that the capture ends.
        trouble: function that shows a message to the user.
        listeners: receive every event.
    """

    def __init__(
        self,
        sink: EventSink | None,
        stop: Event,
        *,
        trouble: Callable[[str], None] = lambda _: None,
        listeners: Iterable[WatchListener] = (),
    ) -> None:
        self._sink, self._stop, self._trouble = sink, stop, trouble
        self._listeners = tuple(listeners)
        self._live = LiveGroups()
        self._writer: CaptureWriter | None = None
        self._queue: Queue[_Round | _Reset | None] = Queue(_MOST_ROUNDS)
        self._progress = CaptureProgress(read_s=time.time())
        self._read_s = time.time()
        self._stored_s = time.monotonic()
        self._states: list[Mapping[str, Any]] = []
        self._batches: list[LogBatch] = []
        self._error: BaseException | None = None
        self._reported: set[str] = set()
        self._thread = Thread(target=self._run, name="partage-watch", daemon=True)

    def start(self, writer: CaptureWriter) -> None:
        """Rebuild the groups' histories from the records so far, and start the thread.

        Raises:
            InvalidCaptureError: a file of the capture is damaged.
        """
        self._writer = writer
        self._live = self._rebuild(writer)
        self._thread.start()

    def _rebuild(self, writer: CaptureWriter, *, from_state: bool = True) -> LiveGroups:
        """Rebuild the groups' histories from the records that the recording already has.

        Events in it are not fresh, that is, they are from before the watch began.
        """
        now_ms = _now_ms()
        live = LiveGroups(started_ms=now_ms)
        ends, positions = writer.manifest.first_ends, writer.manifest.positions
        live.fresh_from = {p: max(ends.get(p, 0), positions.get(p, 0)) for p in (*ends, *positions)}
        configs, states, _ = writer.recorded({})
        live.session_timeout_ms = _session_timeout(configs)
        for state in states:
            live.add_state(state)
        stored = writer.folder / _STATE
        if from_state and stored.exists():
            try:
                live.resume(stored.read_bytes())
            except InvalidCaptureError as e:
                self._trouble(f"{stored}: {e}")
                return self._rebuild(writer, from_state=False)
        some: list[LogBatch] = []
        for batch in writer.recorded(live.newest)[2]:
            some.append(batch)
            if len(some) == 1_000:
                self._feed_past(live, some, now_ms)
                some = []
        self._feed_past(live, some, now_ms)
        self._note_known(live)
        return live

    def _note_known(self, live: LiveGroups) -> None:
        for name, group in live.groups.items():
            if group.opened is not None:
                event = RebalanceOpened(name, group.opened, (), storm=False, fresh=False)
                for one in self._listeners:
                    one.event(event, live)

    def _store(self, live: LiveGroups) -> None:
        """Write the groups' histories to the recording's folder, so that the next start is fast.

        Raises:
            InvalidConfigError: the folder cannot be written.
        """
        if self._writer is not None:
            folder, blob = self._writer.folder, live.to_bytes()

            def write(aside: Path) -> None:
                aside.write_bytes(blob)

            with name_folder_in_errors(folder):
                published(folder / _STATE, write)
        self._stored_s = time.monotonic()

    def _feed_past(self, live: LiveGroups, batches: list[LogBatch], now_ms: int) -> None:
        live.add(batches, received_ms=0)
        for event in live.advance(now_ms):
            for one in self._listeners:
                one.event(event, live)

    # --- called by the capture ------------------------------------------------------------

    def config(self, configs: Mapping[str, str]) -> None:
        """Store the broker's session timeout, which applies to members that send none."""
        self._live.session_timeout_ms = _session_timeout(configs)

    def batch(self, batch: LogBatch) -> None:
        """Queue a recorded batch for the watcher's thread, until `progress` sends it."""
        self._batches.append(batch)

    def state(self, state: Mapping[str, Any]) -> None:
        """Queue a recorded state of the cluster for the watcher's thread; it precedes the batches
        of the same round.
        """
        self._states.append(state)

    def end(self, partition: int, first_end: int) -> None:
        """Note that a log partition was read successfully, for the health check.

        Records before its first end count as past, not fresh.
        """
        self._read_s = time.time()
        self._live.fresh_from.setdefault(partition, first_end)

    def cut(self, partition: int) -> None:
        """Rebuild the histories from the recording, because a log partition was truncated."""
        self._batches = []
        if self._writer is not None:
            self._trouble(f"partition {partition}: histories are rebuilt from the capture")
            (self._writer.folder / _STATE).unlink(missing_ok=True)
            live = self._rebuild(self._writer, from_state=False)
            self._live = live
            self._put(_Reset(live))

    def progress(self, behind: int = 0, troubles: int = 0) -> None:
        """Send all queued records to the watcher's thread; wait while the queue is full.

        Args:
            behind: number of offsets that are not read yet.
            troubles: number of warnings so far.
        """
        if self._writer is not None:
            one = self._writer
            position, missing = one.next_offsets, one.lost_offsets
            self._progress = CaptureProgress(
                one.records, behind, position, missing, troubles, self._read_s
            )
        if self._states or self._batches:
            self._put((self._states, self._batches, _now_ms()))
            self._states, self._batches = [], []

    def _put(self, item: _Round | _Reset | None) -> None:
        while self._error is None and self._thread.is_alive():
            try:
                self._queue.put(item, timeout=0.5)
            except Full:
                continue
            return

    def health(self) -> str:
        """Return "" if the watcher's thread runs well, else the reason why not.

        Any thread may call this.
        """
        if self._error is not None:
            return "the watch has failed; the capture ends"
        if not self._thread.is_alive():
            return "the histories are being rebuilt from the capture"
        age_s = time.time() - self._read_s
        return f"nothing was read for {age_s:.0f} s" if age_s > _HEALTHY_SECONDS else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Stop the thread after it has processed its queue; raise its error unless another one is
        pending.
        """
        if self._thread.is_alive():
            self.progress()
            self._put(None)
            self._thread.join(_LONGEST_END)
        if self._thread.is_alive():
            self._trouble("the newest events are lost: nothing reads them")
        elif self._sink is not None:
            self._sink.close()
        if self._error is not None and error is None:
            raise self._error

    # --- the watcher's thread -------------------------------------------------------------

    def _run(self) -> None:
        live = self._live
        try:
            while True:
                item = self._next(live)
                if item is None:
                    self._emit(live.finish(_now_ms()), live)
                    self._store(live)
                    break
                if isinstance(item, _Reset):
                    live = item.live
                elif isinstance(item, tuple):
                    states, batches, received_ms = item
                    for state in states:
                        live.add_state(state)
                    live.add(batches, received_ms)
                now_ms = _now_ms()
                self._emit(live.advance(now_ms), live)
                for one in self._listeners:
                    one.tick(now_ms, live, self._progress)
                if time.monotonic() - self._stored_s >= _STORE_SECONDS:
                    self._store(live)
        except BrokenPipeError as e:
            self._trouble("the reader of the events has closed the pipe: the capture ends")
            self._error = e
            self._stop.set()
        except BaseException as e:  # noqa: BLE001 - `__exit__` raises it in the capture's thread
            self._error = e
            self._stop.set()

    def _next(self, live: LiveGroups) -> _Round | _Reset | Empty | None:
        """Return the next message in the queue of the watcher's thread.

        Returns `Empty` if an event is due or no message came for a while, and None at the end.
        """
        due_ms = live.next_due_ms()
        wait = _LONGEST_WAIT if due_ms is None else (due_ms - _now_ms()) / 1_000
        try:
            return self._queue.get(timeout=min(max(wait, 0.01), _LONGEST_WAIT))
        except Empty as nothing:
            return nothing

    def _emit(self, events: Iterable[WatchEvent], live: LiveGroups) -> None:
        for event in events:
            if self._sink is not None and event.fresh:
                self._sink.write(event.to_json())
            for one in self._listeners:
                one.event(event, live)
        for name in live.failed.keys() - self._reported:
            self._reported.add(name)
            self._trouble(f"group {name}: no more events ({live.failed[name]})")


_TIMEOUT = "group.consumer.session.timeout.ms"


def _session_timeout(configs: Mapping[str, str]) -> int | None:
    value = configs.get(_TIMEOUT, "")
    return int(value) if value.isdecimal() else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
