"""Measurement of partition loads in a thread: by each consumer for its own, or by the leader.

`LoadSampler` reads positions and log ends that the client has anyway, every few seconds. It sends
no request and changes nothing; its thread ends when the consumer is deleted. Throughput is the
growth of the log end in the last minute, which the client learns with every fetch. The position
would not do: a consumer at its limit reads at the same rate however much arrives. Only if the end
is unknown, the position replaces it.

`ArrivalRates` requests the log ends of all partitions of some topics, with or without consumers:

    from partage.clients.kafka_python import assignor, cluster_look

    look = cluster_look(["orders"], bootstrap_servers="broker:9092")
    KafkaConsumer("orders", group_id="billing",
                  partition_assignment_strategy=[assignor("optimal", weights=look)])

An assignor runs in the middle of a rebalance and cannot wait for a broker. It reads the last
measurement.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from partage.weights import compute_lags, record_rates

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MEASURES", "ArrivalRates", "LoadSampler", "Offsets"]

log = logging.getLogger("partage.clients")

#: Kinds of load: records that arrive per second, or records not read yet.
MEASURES: Final = ("throughput", "lag")

Partition = tuple[str, int]
#: Positions and log end offsets by partition, as far as the client knows them.
Offsets = tuple[Mapping[Partition, int], Mapping[Partition, int]]

_SECONDS = 2.0
_WINDOW = 60.0


class LoadSampler:
    """Background thread that measures the load of each partition that a Kafka consumer owns.

    A load is the number of arriving records per second, or the lag in records.

    Args:
        measure: "throughput" or "lag".
        seconds: time between two measurements.
        window: time over which records are counted, in seconds; for a partition that was
            assigned later, the time since then.

    >>> LoadSampler("lag").partition_loads()
    {}
    """

    def __init__(self, measure: str, *, seconds: float = _SECONDS, window: float = _WINDOW) -> None:
        self.measure = measure
        self.seconds = seconds
        self.window = window
        self._samples: deque[tuple[float, Offsets]] = deque()
        self._since: dict[Partition, float] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start_sampling(self, read_offsets: Callable[[], Offsets | None]) -> None:
        """Start the background thread that measures the loads of a consumer's partitions.

        The thread calls ``read_offsets`` every few seconds, and ends when the function returns
        None.
        """
        if self._thread is None:
            name = "partage-sampler"
            self._thread = threading.Thread(
                target=self._run, args=(read_offsets,), name=name, daemon=True
            )
            self._thread.start()

    def add_sample(self, offsets: Offsets, now: float) -> None:
        """Add the current offsets of a consumer's partitions to the measurement of their loads.

        Partitions that are missing in ``offsets`` are no longer measured.

        Args:
            offsets: the consumer's positions, and the log end offsets, each by partition.
            now: time at which they were read, in seconds.
        """
        positions, ends = dict(offsets[0]), dict(offsets[1])
        with self._lock:
            before = self._samples[-1][1][0] if self._samples else {}
            # A position that went back (a seek) starts a new measurement.
            same = {p for p, at in positions.items() if p in before and before[p] <= at}
            self._since = {p: self._since.get(p, now) if p in same else now for p in positions}
            self._samples.append((now, (positions, ends)))
            # The last measurement before the window stays: rates need a whole window.
            while len(self._samples) > 2 and self._samples[1][0] <= now - self.window:
                self._samples.popleft()

    def partition_loads(self) -> dict[Partition, float]:
        """Return the measured load of each partition.

        A load is the number of arriving records per second, or the lag in records.
        """
        with self._lock:
            if not self._samples:
                return {}
            now, (positions, ends) = self._samples[-1]
            if self.measure == "lag":
                return compute_lags(positions, ends)
            left = dict(self._since)
            out: dict[Partition, float] = {}
            for when, (had, ended) in self._samples:
                for one in [p for p, since in left.items() if since <= when]:
                    del left[one]
                    known = one in ended and one in ends
                    first, last = (ended, ends) if known else (had, positions)
                    out |= record_rates({one: first[one]}, {one: last[one]}, now - when)
            return out

    def _run(self, read: Callable[[], Offsets | None]) -> None:
        while True:
            # The client may change its tables during the read; the next measurement may succeed.
            with contextlib.suppress(Exception):
                offsets = read()
                if offsets is None:
                    return
                self.add_sample(offsets, time.monotonic())
                # No reference may keep the consumer alive during the pause.
                del offsets
            time.sleep(self.seconds)


class ArrivalRates:
    """Background thread that measures how many records per second arrive in each Kafka partition.

    Pass it to ``assignor`` as option ``weights``: a call returns the loads of the partitions.

    Args:
        ends: function that returns log end offsets, called in the thread. If it raises an error, a
            warning is logged once, and it is called again later.
        seconds: time between two calls.
        window: time over which records are counted, in seconds.

    >>> with ArrivalRates(dict, seconds=60.0) as rates:
    ...     rates()
    {}
    """

    def __init__(
        self,
        ends: Callable[[], Mapping[Partition, int]],
        *,
        seconds: float = 5.0,
        window: float = 60.0,
    ) -> None:
        self._ends = ends
        self._sampler = LoadSampler("throughput", window=window)
        self._seconds = seconds
        self._ended = threading.Event()
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="partage-look", daemon=True)
        self._thread.start()

    def __call__(self) -> Mapping[Partition, float]:
        """Return how many records per second arrive in each Kafka partition.

        The dict is empty before the second measurement.
        """
        return self._sampler.partition_loads()

    def close(self) -> None:
        """Stop the background thread that measures how many records arrive in each partition.

        The method does not wait until the thread has ended.
        """
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                ends = dict(self._ends())
            except Exception as e:  # noqa: BLE001 - a broker that is away, foreign code
                if not self._failed:
                    log.warning("log ends cannot be read (%s: %s)", type(e).__name__, e)
                self._failed = True
            else:
                self._failed = False
                self._sampler.add_sample((ends, ends), time.monotonic())
            self._ended.wait(self._seconds)
