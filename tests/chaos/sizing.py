"""Compare `partage size` with groups of a live cluster whose consumers have a known capacity.

    python -m tests.chaos.sizing --rate 110 --capacity 50

A topic gets records at a constant rate. Groups of 1, 2, ... consumers read it, each record taking
its consumer the same time. One group is measured (`pg.measure_group`) and sized; then the lag of
each group is watched with all consumers, and after its busiest one has left. A group whose lag
grows is too small.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from tests.support.brokers import brokers

import partage as pg

_TOPIC, _PARTITIONS, _MOST = "sized", 6, 5
#: Seconds until groups are stable, of each phase, and at its end in which lag must not grow.
_SETTLE_S, _PHASE_S, _WATCHED_S = 15.0, 60.0, 30.0


class Consumer(threading.Thread):
    """A consumer that takes the same time for each record."""

    def __init__(self, bootstrap: str, group: str, capacity: float) -> None:
        super().__init__(daemon=True)
        self._options = {
            "bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "latest",
            "partition_assignment_strategy": [RangePartitionAssignor], "max_poll_records": 10,
            "auto_commit_interval_ms": 1_000,
        }  # fmt: skip
        self._pause_s, self.ended = 1 / capacity, threading.Event()
        self.partitions: set[TopicPartition] = set()
        self.position: dict[TopicPartition, int] = {}

    def run(self) -> None:
        """Consume until `ended` is set, then leave the group."""
        reader = KafkaConsumer(_TOPIC, **self._options)
        due = time.monotonic()
        while not self.ended.is_set():
            for place, records in reader.poll(timeout_ms=200).items():
                for record in records:
                    due = max(due, time.monotonic()) + self._pause_s
                    time.sleep(max(0.0, due - time.monotonic()))
                    self.position[place] = record.offset + 1
            self.partitions = set(reader.assignment())
        reader.close()


@dataclass
class Watched:
    """A group, and its largest lag of a consumer in seconds at several times."""

    consumers: list[Consumer]
    lags: list[tuple[float, float]] = field(default_factory=list)

    def watch(self, ends: dict[TopicPartition, int], capacity: float) -> None:
        """Note the lag of the consumer that has the most records to read."""
        worst = 0.0
        for one in self.consumers:
            if not one.ended.is_set():
                places = [p for p in one.partitions if p in one.position]
                worst = max(worst, sum(ends[p] - one.position[p] for p in places) / capacity)
        self.lags.append((time.monotonic(), worst))

    def growth(self, since: float) -> float:
        """Return by how many seconds the lag grew per second since a time (regression slope)."""
        rows = [(at, lag) for at, lag in self.lags if at >= since]
        mean_at, mean_lag = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        over = sum((at - mean_at) ** 2 for at, _ in rows)
        return sum((at - mean_at) * (lag - mean_lag) for at, lag in rows) / over


def _produce(bootstrap: str, rate: float, stopped: threading.Event) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    number, began = 0, time.monotonic()
    while not stopped.is_set():
        producer.send(_TOPIC, b"x" * 20, partition=number % _PARTITIONS)
        number += 1
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
    producer.close()


def _phase(groups: Sequence[Watched], reader: KafkaConsumer, capacity: float) -> list[float]:
    """Watch all groups for a phase; return how fast the lag of each grew at its end."""
    places = [TopicPartition(_TOPIC, p) for p in range(_PARTITIONS)]
    end = time.monotonic() + _PHASE_S
    while time.monotonic() < end:
        ends = reader.end_offsets(places)
        for one in groups:
            one.watch(ends, capacity)
        time.sleep(1.0)
    return [one.growth(end - _WATCHED_S) for one in groups]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=110.0)
    parser.add_argument("--capacity", type=float, default=50.0)
    given = parser.parse_args()
    with brokers() as cluster:
        bootstrap = cluster.bootstrap
        cluster.create_topic(_TOPIC, _PARTITIONS)
        stopped = threading.Event()
        producer = threading.Thread(target=_produce, args=(bootstrap, given.rate, stopped))
        producer.start()
        groups = [
            Watched([Consumer(bootstrap, f"sized-{n}", given.capacity) for _ in range(n)])
            for n in range(1, _MOST + 1)
        ]
        for one in groups:
            for consumer in one.consumers:
                consumer.start()
        time.sleep(_SETTLE_S)
        measured = pg.measure_group(bootstrap, f"sized-{_MOST}", seconds=20)
        sizing = pg.size(measured, capacity=given.capacity)
        reader = KafkaConsumer(bootstrap_servers=bootstrap)
        whole = _phase(groups, reader, given.capacity)
        for one in groups[1:]:
            max(one.consumers, key=lambda c: len(c.partitions)).ended.set()
        time.sleep(_SETTLE_S)
        down = _phase(groups, reader, given.capacity)
        stopped.set()
        producer.join()
        for consumer in (c for one in groups for c in one.consumers):
            consumer.ended.set()
        print(f"measured {sizing.rate:.1f} records/s (true {given.rate:g}); needed {sizing.needed}")
        print("consumers | use | lag grows by (s/s) | one down: use | lag grows by (s/s)")
        for n, (a, b) in enumerate(zip(whole, down, strict=True), 1):
            row = sizing.row(n)
            left = "-" if row.use_down is None else f"{row.use_down:.0%} | {b:+.2f}"
            print(f"{n} | {row.use:.0%} | {a:+.2f} | {left}", flush=True)


if __name__ == "__main__":
    main()
