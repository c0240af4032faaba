"""Faust workers with a table and a standby, on the stock assignor and on both of ours, beside the rest."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

from kafka import KafkaProducer
from tests.clients.faust_workers import Worker
from tests.clients.test_faust import PARTITIONS, counted, share

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from tests.brokers import Brokers
    from typing_extensions import Self

_KINDS = ("faust", "stock", "faust:copartitioned")
_PATIENCE = 240.0
_REST = 5.0


class Fausts:
    """Two workers in a thread of their own: one is killed, replaced, the table counted; again.

    After each death and each birth every partition has one owner, its table's standby is with the
    other worker, and the counts have not gone back.
    """

    def __init__(self, cluster: Brokers, folder: Path) -> None:
        self.app = "hurt-faust"
        self.killed = 0
        self.violations: list[str] = []
        self._bootstrap, self._folder = cluster.bootstrap, folder
        for name, partitions, more in (
            ("words", PARTITIONS, {}),
            ("counts-changelog", PARTITIONS, {"cleanup.policy": "compact"}),
            ("__assignor-__leader", 1, {}),
        ):
            cluster.create_topic(f"{self.app}-{name}", partitions, 3, configs=more)
        self._kinds = itertools.cycle(_KINDS)
        self._count = itertools.count()
        self._workers: list[Worker] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap.split(","), acks="all")
        times = 0
        while not self._ended.is_set() and not self.violations:
            while len(self._workers) < 2:
                self._born()
            self._expect("two workers share", lambda: share(self.app, self._workers))
            times += 1
            for p in range(PARTITIONS):
                producer.send(f"{self.app}-words", b'"w%d"' % p, partition=p).get(timeout=60)
            now = times
            self._expect("all is counted", lambda now=now: counted(self._workers, now))
            self._workers.pop(0).kill()
            self.killed += 1
            self._expect("the survivor has all", lambda: share(self.app, self._workers))
            self._ended.wait(_REST)
        producer.close()

    def _born(self) -> None:
        kind = next(self._kinds)
        log = self._folder / f"faust-{next(self._count)}.log"
        self._workers.append(Worker(self.app, self._bootstrap, kind, log))

    def _expect(self, what: str, holds) -> None:
        end = time.monotonic() + _PATIENCE
        while not holds():
            if self._ended.is_set() or time.monotonic() > end:
                if not self._ended.is_set():
                    ends = [f"{one.kind}: {one.text()[-800:]}" for one in self._workers]
                    self.violations.append(f"faust, not after {_PATIENCE:.0f} s: {what}: {ends}")
                return
            time.sleep(0.5)

    def close(self) -> None:
        """No more of it; the workers end by their ids."""
        self._ended.set()
        self._thread.join(timeout=60)
        for one in self._workers:
            one.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
