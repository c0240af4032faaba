"""The watcher: turns the records of a live capture into rebalance events, in its own thread.

The capture's thread only appends to a queue. If the watcher is slower for long, as while it reads
the past of a large log, the queue is full and the capture waits. An error of the watcher, such as
a full disk under the events, stops the capture in good order; `Watcher.__exit__` raises it.
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

from partage.capture.durable import name_folder_in_errors, write_atomically
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
    """Writer that appends rebalance events as JSON lines to a file or to standard output.

    If a killed process left an incomplete last line in the file, the line is removed first.

    Args:
        target: path of the file; ``-`` for standard output.

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

    def write_event(self, event: Mapping[str, Any]) -> None:
        """Write one rebalance event as a line of JSON, and flush it, so that readers see it at
        once.

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
        """Close the file to which rebalance events are written.

        Standard output stays open. Errors are ignored here, because `write_event` reports them.
        """
        if self._target != "-":
            with suppress(OSError):  # `write_event` has reported it
                self._file.close()


@dataclass(frozen=True)
class CaptureProgress:
    """Progress of a running `partage capture`, for metrics and health checks.

    Attributes:
        records: number of records captured so far.
        behind: number of offsets that the capture still has to read.
        position: next offset to read, summed over the log's partitions.
        missing: number of offsets that were compacted before they were read.
        troubles: number of warnings so far.
        read_s: time of the last successful read, in seconds since the epoch.
    """

    records: int = 0
    behind: int = 0
    position: int = 0
    missing: int = 0
    troubles: int = 0
    read_s: float = 0.0


class WatchListener(Protocol):
    """Interface of an object that the watcher's thread calls with rebalance events and clock ticks.

    For example, the Prometheus metrics implement it.
    """

    def on_event(self, event: WatchEvent, live: LiveGroups) -> None:
        """Handle a rebalance event of a consumer group.

        Args:
            event: the event; ``event.fresh`` is False if the log had it before the watcher started.
            live: the histories of all groups.
        """

    def on_tick(self, now_ms: int, live: LiveGroups, progress: CaptureProgress) -> None:
        """Handle a tick of the watcher's clock, which comes several times per second.

        Args:
            now_ms: current time in milliseconds.
            live: the histories of all groups.
            progress: progress of the capture, such as its number of records.
        """


class _Reset:
    """Queue message to the watcher's thread that replaces the histories of all consumer groups.

    It is sent after a partition of the log was truncated. ``live`` are the histories, rebuilt
    without the truncated records.
    """

    def __init__(self, live: LiveGroups) -> None:
        self.live = live


_Round = tuple[list[Mapping[str, Any]], list[LogBatch], int]


class Watcher:
    """Thread that turns the records of a running `partage capture` into rebalance events.

    Use it in a ``with`` block. Call `start_watching` before the capture runs, and
    `send_queued_records` after each round of fetches. The groups' histories are stored in the
    capture's folder every few minutes, so that the next start only reads newer records.

    Args:
        sink: writer of the events that happen after the start; None for none.
        stop: event that is set when the watcher fails, so that the capture ends.
        trouble: function that shows a warning to the user.
        listeners: objects that receive every event.
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

    def start_watching(self, writer: CaptureWriter) -> None:
        """Rebuild the consumer groups' histories from the capture, and start the watcher's thread.

        It is called once, before the capture goes on. ``writer`` is the open capture.

        Raises:
            InvalidCaptureError: a file of the capture is damaged.
        """
        self._writer = writer
        self._live = self._rebuild_histories(writer)
        self._thread.start()

    def _rebuild_histories(self, writer: CaptureWriter, *, from_state: bool = True) -> LiveGroups:
        """Rebuild the consumer groups' histories from the records that the capture has stored.

        These records are older than the watcher, so their events are marked as not fresh: listeners
        receive them, but they are not written out.

        Args:
            writer: the open capture.
            from_state: if False, ignore the histories that an earlier process stored in the folder.
        """
        now_ms = _now_ms()
        live = LiveGroups(started_ms=now_ms)
        ends, positions = writer.manifest.first_ends, writer.manifest.positions
        live.announced_from = dict(ends)
        live.fresh_from = {p: max(ends.get(p, 0), positions.get(p, 0)) for p in (*ends, *positions)}
        configs, states, _ = writer.recorded_content({})
        _apply_settings(live, configs)
        for state in states:
            live.add_state(state)
        stored = writer.folder / _STATE
        if from_state and stored.exists():
            try:
                live.restore_state(stored.read_bytes())
            except InvalidCaptureError as e:
                self._trouble(f"{stored}: {e}")
                return self._rebuild_histories(writer, from_state=False)
        some: list[LogBatch] = []
        for batch in writer.recorded_content(live.newest)[2]:
            some.append(batch)
            if len(some) == 1_000:
                self._feed_past(live, some, now_ms)
                some = []
        self._feed_past(live, some, now_ms)
        self._announce_groups(live)
        return live

    def _announce_groups(self, live: LiveGroups) -> None:
        for name, group in live.groups.items():
            if group.opened is not None:
                event = RebalanceOpened(name, group.opened, (), storm=False, fresh=False)
                for listener in self._listeners:
                    listener.on_event(event, live)

    def _store_histories(self, live: LiveGroups) -> None:
        """Write the histories of all consumer groups to the capture's folder.

        The next start reads this file, so it only needs to process newer records. ``live`` are the
        histories.

        Raises:
            InvalidConfigError: the folder cannot be written.
        """
        if self._writer is not None:
            folder, blob = self._writer.folder, live.to_bytes()

            def write(aside: Path) -> None:
                aside.write_bytes(blob)

            with name_folder_in_errors(folder):
                write_atomically(folder / _STATE, write)
        self._stored_s = time.monotonic()

    def _feed_past(self, live: LiveGroups, batches: list[LogBatch], now_ms: int) -> None:
        live.queue_batches(batches, received_ms=0)
        for event in live.replay(now_ms):
            for listener in self._listeners:
                listener.on_event(event, live)

    # --- called by the capture ------------------------------------------------------------

    def on_config(self, configs: Mapping[str, str]) -> None:
        """Apply the broker's settings of consumer groups to the histories.

        They are the session timeout, for members that send none, and the initial rebalance delay.

        Args:
            configs: dict from the name of a broker setting to its value.
        """
        _apply_settings(self._live, configs)

    def on_batch(self, batch: LogBatch) -> None:
        """Queue a batch of records of ``__consumer_offsets`` that the capture has just read.

        `send_queued_records` later sends it to the thread that looks for rebalances.
        """
        self._batches.append(batch)

    def on_state(self, state: Mapping[str, Any]) -> None:
        """Queue cluster metadata (topics, partitions and racks) that the capture has just read.

        `send_queued_records` later sends it to the thread that looks for rebalances, before the
        records.
        """
        self._states.append(state)

    def on_fetch(self, partition: int, first_end: int) -> None:
        """Store the time of a successful fetch from a partition of ``__consumer_offsets``.

        The health check reports a problem if no fetch succeeds for a minute.

        Args:
            partition: the partition number.
            first_end: its end offset at the first fetch; events of records below it are not fresh.
        """
        self._read_s = time.time()
        self._live.fresh_from.setdefault(partition, first_end)
        self._live.announced_from.setdefault(partition, first_end)

    def on_truncation(self, partition: int) -> None:
        """Rebuild the histories of all consumer groups after a partition of the log was truncated.

        The old histories may include records that the truncation removed. They are rebuilt from the
        records in the capture. ``partition`` is the number of the truncated partition.
        """
        self._batches = []
        if self._writer is not None:
            self._trouble(f"partition {partition}: histories are rebuilt from the capture")
            (self._writer.folder / _STATE).unlink(missing_ok=True)
            live = self._rebuild_histories(self._writer, from_state=False)
            self._live = live
            self._put(_Reset(live))

    def send_queued_records(self, remaining_offsets: int = 0, troubles: int = 0) -> None:
        """Send all queued records to the thread that looks for rebalances, after a round of
        fetches.

        The call blocks while the thread's queue is full.

        Args:
            remaining_offsets: number of offsets that the capture still has to read.
            troubles: number of warnings so far.
        """
        if self._writer is not None:
            writer = self._writer
            position, missing = writer.next_offsets, writer.lost_offsets
            self._progress = CaptureProgress(
                writer.record_count, remaining_offsets, position, missing, troubles, self._read_s
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

    def health_problem(self) -> str:
        """Return the reason why the watcher is not healthy; "" if it is healthy.

        The HTTP health check calls it, so it may be called from any thread.
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
        """Stop the watcher's thread after it has processed its queue, and raise its error, if any.

        If the ``with`` block raised an error, that error is raised instead.
        """
        if self._thread.is_alive():
            self.send_queued_records()
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
                item = self._wait_for_message(live)
                if item is None:
                    self._emit(live.process_remaining_records(_now_ms()), live)
                    self._store_histories(live)
                    break
                if isinstance(item, _Reset):
                    live = item.live
                elif isinstance(item, tuple):
                    states, batches, received_ms = item
                    for state in states:
                        live.add_state(state)
                    live.queue_batches(batches, received_ms)
                now_ms = _now_ms()
                self._emit(live.process_due_records(now_ms), live)
                for listener in self._listeners:
                    listener.on_tick(now_ms, live, self._progress)
                if time.monotonic() - self._stored_s >= _STORE_SECONDS:
                    self._store_histories(live)
        except BrokenPipeError as e:
            self._trouble("the reader of the events has closed the pipe: the capture ends")
            self._error = e
            self._stop.set()
        except BaseException as e:  # noqa: BLE001 - `__exit__` raises it in the capture's thread
            self._error = e
            self._stop.set()

    def _wait_for_message(self, live: LiveGroups) -> _Round | _Reset | Empty | None:
        """Wait for the next message in the queue of the watcher's thread, and return it.

        The result is `Empty` if a record in the histories becomes due for processing first, and
        None when the watcher stops. ``live`` has the histories of all groups.
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
                self._sink.write_event(event.to_json())
            for listener in self._listeners:
                listener.on_event(event, live)
        for name in live.failed.keys() - self._reported:
            self._reported.add(name)
            self._trouble(f"group {name}: no more events ({live.failed[name]})")


_TIMEOUT = "group.consumer.session.timeout.ms"
_INITIAL_DELAY = "group.initial.rebalance.delay.ms"


def _apply_settings(live: LiveGroups, configs: Mapping[str, str]) -> None:
    """Set the session timeout and the initial rebalance delay of groups from the broker's settings.

    ``configs`` is a dict from the name of a broker setting to its value. A missing setting becomes
    None.
    """
    live.session_timeout_ms = _whole_number(configs.get(_TIMEOUT, ""))
    live.initial_delay_ms = _whole_number(configs.get(_INITIAL_DELAY, ""))


def _whole_number(value: str) -> int | None:
    return int(value) if value.isdecimal() else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
