"""Faust workers with a table and a standby, on the stock assignor and on both of ours, beside the rest."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from kafka import KafkaProducer
from tests.clients.faust_workers import Worker
from tests.clients.test_faust import PARTITIONS, counted, share
from tests.processes import Closes

from hurt.whereabouts import Whereabouts, look

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.brokers import Brokers

OURS = ("faust", "stock", "faust:copartitioned")
_PATIENCE = 240.0
_REST = 5.0


class Fausts(Closes):
    """Two workers in a thread of their own: one is killed, replaced, the table counted; again.

    After each death and each birth every partition has one owner, its table's standby is with the
    other worker, every acknowledged record was counted by somebody, and the counts have not gone back.

    Where a record is not counted, the broker is asked what it knows (`whereabouts`). One that waits
    at its place, its offset not committed, with a worker that has the partition and does not read,
    is not lost: that worker stands still. It is told (``stood``), killed as an operator would, and
    the record has to be counted then.

    Attributes:
        records: partition and offset of each one that the broker acknowledged.
        again: how often one was counted more than once.
        stood, died: workers that stood still, and that ended by themselves: sentences.
        violations: sentences; what must stay empty.
    """

    def __init__(
        self, cluster: Brokers, folder: Path, app: str = "hurt-faust", kinds: Sequence[str] = OURS
    ) -> None:
        self.app, self.topics = app, []
        self.killed = 0
        self.records: set[tuple[int, int]] = set()
        self.stood: list[str] = []
        self.died: list[str] = []
        self.violations: list[str] = []
        self._bootstrap, self._folder = cluster.bootstrap, folder
        safe = {"min.insync.replicas": "2"}
        for name, partitions, more in (
            ("words", PARTITIONS, safe),
            ("counts-changelog", PARTITIONS, {**safe, "cleanup.policy": "compact"}),
            ("__assignor-__leader", 1, {}),
        ):
            cluster.create_topic(f"{app}-{name}", partitions, 3, configs=more)
            self.topics.append(f"{app}-{name}")
        self._kinds = itertools.cycle(kinds)
        self._count = itertools.count()
        self._workers: list[Worker] = []
        self._ever: list[Worker] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._live()
        except Exception as e:  # noqa: BLE001 - a thread that ends in silence would count nothing
            self.violations.append(f"{self.app}: the test itself failed: {type(e).__name__}: {e}")

    def _live(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap.split(","), acks="all", enable_idempotence=True
        )
        times = 0
        while not self._ended.is_set() and not self.violations:
            self._share("two workers share")
            times += 1
            for p in range(PARTITIONS):
                at = producer.send(f"{self.app}-words", b'"w%d"' % p, partition=p).get(timeout=60)
                self.records.add((p, at.offset))
            self._all_counted(times)
            self._workers.pop(0).kill()
            self.killed += 1
            if not self._within(_PATIENCE, lambda: share(self.app, self._workers)):
                self._unshared("the survivor has all")
            self._ended.wait(_REST)
        producer.close()

    def _share(self, what: str) -> None:
        """Two workers have everything between them; who died by itself has a successor."""

        def two_do() -> bool:
            for one in [one for one in self._workers if one.ended]:
                self._workers.remove(one)
                self.died.append(f"{one.kind}: {one.text()[-600:]}")
            while len(self._workers) < 2:
                log = self._folder / f"{self.app}-{next(self._count)}.log"
                self._workers.append(Worker(self.app, self._bootstrap, next(self._kinds), log))
                self._ever.append(self._workers[-1])
            return share(self.app, self._workers)

        if not self._within(_PATIENCE, two_do):
            self._unshared(what)

    def _all_counted(self, times: int) -> None:
        """All records are read, and each word's count is at least what was acknowledged."""

        def is_counted() -> bool:
            return not self.records - self.read() and counted(self._workers, times)

        if self._within(_PATIENCE, is_counted):
            return
        seen = self._whereabouts()
        if wrong := seen.wrong(times):
            self.violations.append(f"{self.app}: {'; '.join(wrong)}")
            return
        for one in [w for w in self._workers if w.numbers(f"{self.app}-words") & seen.waiting]:
            self.stood.append(f"{one.kind} worker, {seen.told()}: {one.text()[-600:]}")
            self._workers.remove(one)
            one.kill()
        self._share("two workers share, one in the place of one that stood still")
        if not self._within(_PATIENCE, is_counted):
            self.violations.append(f"{self.app}: still not counted: {self._whereabouts().told()}")

    def _unshared(self, what: str) -> None:
        has = [f"{one.kind} {one.assigned} {one.text()[-600:]}" for one in self._workers]
        self.violations.append(f"{self.app}, not after {_PATIENCE:.0f} s: {what}: {has}")

    def _within(self, seconds: float, holds: Callable[[], bool]) -> bool:
        """Whether it holds in time; if all ends before, nobody asks any more."""
        end = time.monotonic() + seconds
        while not self._ended.is_set() and not holds():
            if time.monotonic() > end:
                return False
            time.sleep(0.5)
        return True

    def _whereabouts(self) -> Whereabouts:
        return look(self._bootstrap, self.app, self.records, self.read())

    def read(self) -> set[tuple[int, int]]:
        """Partition and offset of each record that some worker counted."""
        return set().union(*(one.read() for one in self._ever))

    @property
    def again(self) -> int:
        """Readings beyond the first of a record: at least once."""
        seen = Counter(
            (one["partition"], one["offset"])
            for worker in self._ever for one in worker.said() if "word" in one
        )  # fmt: skip
        return seen.total() - len(seen)

    def told(self) -> str:
        """What it did, in a line."""
        return (
            f"{self.app}: {len(self.records)} records, {self.again} read again, {self.killed} workers "
            f"killed, {len(self.stood)} stood still, {len(self.died)} died, "
            f"{len(self.violations)} violations"
        )

    def close(self) -> None:
        """No more of it; the workers end by their ids."""
        self._ended.set()
        self._thread.join(timeout=60)
        for one in self._workers:
            one.kill()
