"""Who writes, and what was acknowledged: the ledger that reading is counted against."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from kafka import KafkaProducer
from kafka.errors import KafkaError
from tests.support.processes import Closes

if TYPE_CHECKING:
    from kafka.producer.future import FutureRecordMetadata

    from chaos.party import Party


class Ledger(Closes):
    """Writes to every partition of all parties, until it is stopped, in a thread of its own.

    Only what the brokers acknowledged counts, by topic, partition and offset; a record whose
    acknowledgement was lost may be there all the same, and nobody has to read it.
    """

    def __init__(self, bootstrap: str, parties: list[Party], *, every: float) -> None:
        self.acknowledged: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
        self.unsure = 0
        self._parties = parties
        self._every = every
        self._ended = threading.Event()
        self._waiting: list[FutureRecordMetadata] = []
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","), acks="all", enable_idempotence=True,
            linger_ms=20, metadata_max_age_ms=2000,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def records(self) -> int:
        """How many were acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def _run(self) -> None:
        count = 0
        while not self._ended.wait(self._every):
            for party in self._parties:
                for p in range(party.partitions):
                    count += 1
                    self._send(party.topic, p, count)
            self._settled(0.0)

    def _send(self, topic: str, partition: int, number: int) -> None:
        try:
            self._waiting.append(
                self._producer.send(topic, partition=partition, value=b"%d" % number)
            )
        except (KafkaError, AssertionError, ValueError):
            # The topic has just grown, and the producer has not seen it; or no broker is there.
            self.unsure += 1

    def _settled(self, seconds: float) -> None:
        """Enter what was acknowledged meanwhile; wait so long for what was not."""
        still = []
        for one in self._waiting:
            if not one.is_done and not seconds:
                still.append(one)
                continue
            try:
                at = one.get(timeout=seconds or 1)
            except KafkaError:
                self.unsure += 1
                continue
            self.acknowledged[at.topic].add((at.topic, at.partition, at.offset))
        self._waiting = still

    def close(self) -> None:
        """Write no more; wait for the last acknowledgements."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self._settled(60.0)
            self._producer.close(timeout=10)

    def unread(self, party: Party) -> set[tuple[str, int, int]]:
        """Acknowledged records that no member of the group has read."""
        return self.acknowledged[party.topic] - party.read()
