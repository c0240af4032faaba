"""Grow a topic of a live cluster by the steps of `partage keys --grow`, and at once for comparison.

    python -m tests.chaos.growing --before 12 --after 18

A producer writes numbered records of many keys; a group of two slow consumers reads them. One topic
grows while its producer runs and its group is behind, the other one by the printed steps. A key is
out of order if one of its records is first read after a record with a higher number. Records that a
rebalance lets consumers read twice are counted apart.
"""

from __future__ import annotations

import argparse
import threading
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tests.support.brokers import Brokers, brokers

import partage as pg

_KEYS, _RATE, _CAPACITY = 200, 300.0, 200.0
#: Seconds for which the producer runs before and after the growth, and until clients see it.
_PHASE_S, _METADATA_MS = 12.0, 1_000


class Reader(threading.Thread):
    """A consumer that takes the same time for each record and notes the numbers of each key."""

    def __init__(self, bootstrap: str, topic: str, seen: list[tuple[bytes, int]]) -> None:
        super().__init__(daemon=True)
        self._topic, self._seen, self.ended = topic, seen, threading.Event()
        self._options = {
            "bootstrap_servers": bootstrap, "group_id": f"reads-{topic}", "max_poll_records": 20,
            "auto_offset_reset": "earliest", "auto_commit_interval_ms": 500,
            "metadata_max_age_ms": _METADATA_MS,
        }  # fmt: skip
        self.partitions: set[TopicPartition] = set()

    def run(self) -> None:
        """Consume until `ended` is set, then leave the group."""
        reader = KafkaConsumer(self._topic, **self._options)
        while not self.ended.is_set():
            for records in reader.poll(timeout_ms=200).values():
                for record in records:
                    time.sleep(1 / _CAPACITY)
                    self._seen.append((record.key, int(record.value)))
            self.partitions = set(reader.assignment())
        reader.close()


class Writer(threading.Thread):
    """A producer of keyed, numbered records; `stop` ends it after all records are written."""

    def __init__(self, bootstrap: str, topic: str, first: int) -> None:
        super().__init__(daemon=True)
        self._servers, self._topic, self.number = bootstrap, topic, first
        self._ended = threading.Event()

    def run(self) -> None:
        """Produce until `stop` is called."""
        producer = KafkaProducer(
            bootstrap_servers=self._servers, metadata_max_age_ms=_METADATA_MS, linger_ms=5
        )
        began, first = time.monotonic(), self.number
        while not self._ended.is_set():
            key = f"key-{self.number % _KEYS}".encode()
            producer.send(self._topic, str(self.number).encode(), key=key)
            self.number += 1
            time.sleep(max(0.0, began + (self.number - first) / _RATE - time.monotonic()))
        producer.close()

    def stop(self) -> None:
        """Stop the producer and flush its records."""
        self._ended.set()
        self.join()


def keys_out_of_order(seen: list[tuple[bytes, int]]) -> int:
    """Return how many keys have a record that was first read after one with a higher number."""
    highest: dict[bytes, int] = {}
    wrong, known = set(), set()
    for key, number in seen:
        if number in known:
            continue
        known.add(number)
        if number < highest.get(key, -1):
            wrong.add(key)
        highest[key] = max(number, highest.get(key, -1))
    return len(wrong)


def _distinct(seen: list[tuple[bytes, int]]) -> int:
    return len({number for _, number in list(seen)})


def grow(cluster: Brokers, topic: str, before: int, after: int, *, by_steps: bool) -> str:
    """Grow a topic, by the printed steps or at once; return what its consumers read."""
    cluster.create_topic(topic, before)
    seen: list[tuple[bytes, int]] = []
    readers = [Reader(cluster.bootstrap, topic, seen) for _ in range(2)]
    for one in readers:
        one.start()
    writer = Writer(cluster.bootstrap, topic, 0)
    writer.start()
    time.sleep(_PHASE_S)
    began = time.monotonic()
    if by_steps:
        writer.stop()
        behind = writer.number - _distinct(seen)
        while _distinct(seen) < writer.number:
            time.sleep(0.2)
        drained = time.monotonic() - began
    cluster.ask("grow-topic", name=topic, partitions=after)
    if by_steps:
        while len(set().union(*(one.partitions for one in readers))) < after:
            time.sleep(0.2)
        writer = Writer(cluster.bootstrap, topic, writer.number)
        writer.start()
        waited = time.monotonic() - began
    time.sleep(_PHASE_S)
    writer.stop()
    until = time.monotonic() + 60
    while _distinct(seen) < writer.number and time.monotonic() < until:
        time.sleep(0.2)
    for one in readers:
        one.ended.set()
    steps = (
        f"{behind} records behind, drained in {drained:.1f} s, producers stopped for {waited:.1f} s"
        if by_steps
        else "at once"
    )
    wrong = keys_out_of_order(seen)
    read = _distinct(seen)
    return (
        f"{steps}: {read} of {writer.number} records, {len(seen) - read} read twice; "
        f"{wrong} of {_KEYS} keys out of order"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=int, default=12)
    parser.add_argument("--after", type=int, default=18)
    given = parser.parse_args()
    growth = pg.plan_growth(given.before, given.after)
    print(f"{growth.moved:.0%} of the keys move; printed steps:")
    for number, step in enumerate(growth.steps, 1):
        print(f"  {number}. {step}")
    with brokers() as cluster:
        for by_steps in (False, True):
            topic = "by-steps" if by_steps else "at-once"
            found = grow(cluster, topic, given.before, given.after, by_steps=by_steps)
            print(f"{topic}: {found}", flush=True)


if __name__ == "__main__":
    main()
