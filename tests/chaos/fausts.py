"""Faust workers with a table and a standby, on the stock assignor and on both of ours, beside the rest."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from kafka import KafkaProducer
from tests.clients.faust_workers import Worker
from tests.clients.test_faust import PARTITIONS, share
from tests.support.processes import Closes

from chaos.whereabouts import Whereabouts, look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tests.support.brokers import Brokers

OURS = ("faust", "stock", "faust:copartitioned")
_PATIENCE = 240.0
_REST = 5.0
_EVERY = 0.5
_A_MINUTE = 60.0
_MOST_LOST, _MOST_STOOD = 1 / 100, 1 / 10


def near(at: float, deaths: Sequence[float]) -> bool:
    """Whether a broker died, or came back, within a minute of a moment."""
    return any(abs(at - one) <= _A_MINUTE for one in deaths)


def failed_by_ours(workers: Iterable[Worker]) -> list[str]:
    """Workers in whose log a strategy of ours failed, or could not read, or raised."""
    signs = ("own assignor decides", "cannot be read", "/partage/clients/", "/partage/groups/")
    return [
        f"{one.kind} worker: {text[max(0, text.find(sign) - 300) :][:600]}"
        for one in workers if (text := one.text()) for sign in signs if sign in text
    ]  # fmt: skip


class Fausts(Closes):
    """Two workers in a thread of their own: one is killed, replaced, the table counted; again.

    Words come all the time, to each partition. After each death and each birth every partition has
    one owner, its table's standby is with the other worker, every record that was acknowledged until
    then was counted by a worker, and no word's count is below what was acknowledged of it.

    An assignor says who owns what, and that is what must never be wrong here. What a worker does with
    what it owns is Faust's: stock workers alone, with nothing of ours, pass records over and stand
    still where brokers die (docs/faust.md). So that is counted apart, by the broker's word
    (`whereabouts`): ``stood`` is who reads nothing or never ends the recovery of its table, while
    the records wait at their places; it is killed, as an operator would. ``lost`` is a record that
    the group's offset has passed without anybody having counted it, or a count that the table's
    changelog lacks; the ledger goes on without it. Excused is either only within a minute of a
    broker's death, up to one record in a hundred and one worker in ten (and one); whatever a
    strategy of ours raises is a violation.

    Attributes:
        records: partition and offset of each one that the broker acknowledged.
        again: how often one was counted more than once.
        stood, lost, died: sentences; died are workers that ended by themselves.
        violations: sentences; what must stay empty.
    """

    def __init__(
        self, cluster: Brokers, folder: Path, app: str = "hurt-faust", kinds: Sequence[str] = OURS,
        *, deaths: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.app, self.topics = app, []
        self.killed = 0
        self.records: set[tuple[int, int]] = set()
        self.stood: list[str] = []
        self.lost: list[str] = []
        self._deaths = deaths
        self._acknowledged: dict[tuple[int, int], float] = {}
        self._without: set[tuple[int, int]] = set()  # of the records those that are lost
        self._less: Counter[int] = Counter()  # by partition: counts that the table lacks
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
        self._threads = [
            threading.Thread(target=self._run, args=(what,), daemon=True)
            for what in (self._write, self._live)
        ]
        for one in self._threads:
            one.start()

    def _run(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as e:  # noqa: BLE001 - a thread that ends in silence would count nothing
            self.violations.append(f"{self.app}: the test itself failed: {type(e).__name__}: {e}")

    def _write(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap.split(","), acks="all", enable_idempotence=True
        )
        while not self._ended.wait(_EVERY):
            topic = f"{self.app}-words"
            sent = [producer.send(topic, b'"w%d"' % p, partition=p) for p in range(PARTITIONS)]
            fresh = {(p, one.get(120).offset) for p, one in enumerate(sent)}
            self._acknowledged |= dict.fromkeys(fresh, time.monotonic())
            self.records = self.records | fresh  # a new set each time: others look at it meanwhile
        producer.close()

    def _live(self) -> None:
        while not self._ended.is_set() and not self.violations:
            self._share("two workers share")
            self._all_counted()
            self._workers.pop(0).kill()
            self.killed += 1
            until_now = self.records
            if self._within(_PATIENCE, lambda: share(self.app, self._workers)):
                self._all_counted()
            else:
                self._stands_still("the survivor has all", until_now)
            self._ended.wait(_REST)

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

        until_now = self.records
        if not self._within(_PATIENCE, two_do):
            self._stands_still(what, until_now)
            if not (self.violations or self._within(_PATIENCE, two_do)):
                self._unshared(what)

    def _all_counted(self) -> None:
        """All records of until now are read, and each word's count is at least what was acknowledged."""
        until_now = self.records

        def is_counted() -> bool:
            return not until_now - self._without - self.read() and self._counts(until_now)

        if self._within(_PATIENCE, is_counted):
            return
        self._stands_still("all is counted", until_now)
        self._share("two workers share, after one that stood still")
        if not (self.violations or self._within(_PATIENCE, is_counted)):
            self._stands_still("all is counted by those who came then", until_now)

    def _times(self, records: set[tuple[int, int]]) -> Counter[int]:
        """How often each partition's word has to be counted."""
        return Counter(p for p, _ in records - self._without) - self._less

    def _counts(self, records: set[tuple[int, int]]) -> bool:
        """Whether the living workers' tables have each word as often as it was acknowledged."""
        best: Counter[str] = Counter()
        for one in self._workers:
            best |= Counter(one.counts())
        return all(best[f"w{p}"] >= count for p, count in self._times(records).items())

    def _look(self, records: set[tuple[int, int]]) -> Whereabouts:
        """Return where the records are; a lost record is reported once, and no longer waited for."""
        seen = look(self._bootstrap, self.app, records - self._without, self.read)
        for p, passed in sorted(seen.passed().items()):
            self._without |= {(p, at) for at in passed}
            said = f"{p}@{passed[0]} to {p}@{passed[-1]} passed over ({len(passed)} records)"
            self._is_lost(said, [self._acknowledged[p, at] for at in passed])
        for p, count in sorted(seen.behind(self._times(records)).items()):
            self._less[p] += count
            said = f"the table's changelog is {count} behind in w{p}"
            self._is_lost(said, [self._shaken(time.monotonic() - _PATIENCE)])
        return seen

    def _shaken(self, since: float) -> float:
        """When a broker died since then; if none did, that moment itself, which excuses nothing."""
        return next((one for one in self._deaths if one >= since - _A_MINUTE), since)

    def _is_lost(self, said: str, at: Iterable[float]) -> None:
        """Excused where a broker died about then, each time."""
        excused = all(near(one, self._deaths) for one in at)
        (self.lost if excused else self.violations).append(f"{self.app}: {said}")

    def _stands_still(self, what: str, records: set[tuple[int, int]]) -> None:
        """Something did not come to pass with ``records``, all of them acknowledged before. Where the
        partitions are given as they should be, who does not go on with them stands still, and goes.
        """
        lost, seen = len(self.lost), self._look(records)
        words = f"{self.app}-words"
        if sorted(p for one in self._workers for p in one.numbers(words)) != list(
            range(PARTITIONS)
        ):
            self._unshared(f"{what} ({seen.summary()})")
            return
        still = [
            one for one in self._workers
            if not one.recovered or one.numbers(words) & seen.waiting
        ]  # fmt: skip
        if not (still or len(self.lost) > lost):
            self._unshared(f"{what} ({seen.summary()})")
        excused = near(self._shaken(time.monotonic() - _PATIENCE), self._deaths)
        for one in still:
            said = f"{one.kind} worker, {what}: {seen.summary()}: {one.text()[-600:]}"
            (self.stood if excused else self.violations).append(said)
            self._workers.remove(one)
            one.kill()

    def _finally(self) -> None:
        """When nothing is written any more: all is read, and the table's changelog has it."""
        self._ended.clear()
        self._share("two workers share at the end")
        if not (self.violations or self._all_there()):
            self._stands_still("all is counted at the end", self.records)
            self._share("two workers share at the end, after one that stood still")
            if not self._all_there() and (seen := self._look(self.records)).waiting:
                self.violations.append(f"{self.app}, at the end: {seen.summary()}")
        self._ended.set()

    def _all_there(self) -> bool:
        end = time.monotonic() + _PATIENCE / 2
        while True:
            records = self.records - self._without
            seen = look(self._bootstrap, self.app, records, self.read)
            if not (seen.missing or seen.behind(self._times(records))):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(1.0)

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

    @property
    def missed(self) -> int:
        """Records that are lost, and counts that the table lacks."""
        return len(self._without) + self._less.total()

    def worse_than(self, stock: Fausts) -> list[str]:
        """A sentence, if it lost much more than stock workers did beside it: twice as many, and what
        one death of a broker may cost.
        """
        if self.missed <= 2 * stock.missed + _A_MINUTE / _EVERY:
            return []
        return [f"{self.app} lost {self.missed}, {stock.app} {stock.missed}"]

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

    def summary(self) -> str:
        """What it did, in a line."""
        return (
            f"{self.app}: {len(self.records)} records, {self.again} read again, {self.killed} workers "
            f"killed, {len(self.stood)} stood still, {len(self.died)} died, {len(self.lost)} times lost, "
            f"{len(self.violations)} violations"
        )

    def close(self) -> None:
        """No more of it; the workers end by their ids."""
        self._ended.set()
        for one in self._threads:
            one.join(timeout=60)
        if not self.violations:
            self._run(self._finally)
        for one in self._workers:
            one.kill()
        self._workers = []
        self.violations += [f"{self.app}: {said}" for said in failed_by_ours(self._ever)]
        if self.missed > _MOST_LOST * len(self.records):
            self.violations.append(f"{self.app}: {self.missed} of {len(self.records)} records lost")
        if len(self.stood) > 1 + _MOST_STOOD * self.killed:
            self.violations.append(f"{self.app}: {len(self.stood)} workers stood still")
