"""`partage keys` by threads of this process: what one machine holds needs no Spark.

The same functions as in Spark's workers, over the same rows: pyarrow reads and kernels count
without Python's lock, so that threads run side by side. Keys meet bucket by bucket, and the memory
of a bucket is given back before the next one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from partage.jobs.keys.counts import Counting, Spec
from partage.jobs.keys.rows import KeyRowKind
from partage.jobs.keys.sources import KeySource, Piece
from partage.jobs.keys.workers import counted, loads_in, met

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MOST_HERE", "Here"]

#: Bytes of columns, unpacked, that are counted in this process: their keys, all distinct, take some
#: five times as much. More is Spark's, which keeps what waits on disk.
MOST_HERE = 2 << 30
#: Fewer bytes than this are not worth another thread.
_BYTES_A_TASK = 8 << 20
#: Buckets a thread: one after the other, so that its table is a part of all keys.
_BUCKETS = 4

_T = TypeVar("_T")


class Here:
    """Both stages by threads.

    Attributes:
        spark: none.
        tasks: threads at a time.
    """

    spark = None

    def __init__(self, source: KeySource, pieces_told: Callable[[int, int], None]) -> None:
        self._source, self._pieces_told = source, pieces_told
        worth = max(1, source.size // _BYTES_A_TASK)
        self.tasks = max(1, min(_cores(), len(source.pieces), worth))
        self.buckets = 1 if worth == 1 else _BUCKETS * self.tasks
        self._kept: list[Any] = []

    def told(self, spec: Spec, top: int, *, keep: bool) -> pa.Table:
        """What is told of the keys, without them; with ``keep`` the keys stay for `loads`."""
        import pyarrow as pa

        stop = Event()
        shared = _Shared(self._source.pieces, self._pieces_told)
        # What an approximate count drops depends on what came before: there each has its share.
        work = [
            partial(
                _counted, spec, shared, stop, (number, self.tasks) if spec.approximate else None
            )
            for number in range(self.tasks)
        ]
        rows = [row for some in self._by_threads(work, stop) for row in some]
        parts, told = _by_bucket(rows, self.buckets)
        del rows
        meet = [
            partial(_met, spec, top, parts, number, stop, keep=keep)
            for number in range(self.buckets)
        ]
        found = [row for some in self._by_threads(meet, stop) for row in some]
        self._kept = [row for row in found if _is_keys(row)]
        told += [row for row in found if not _is_keys(row)]
        return pa.Table.from_batches(told)

    def loads(self) -> partial[pa.Table]:
        """Of (spec, counts) the rows of `loads_in`, of the keys that the last `told` has kept."""
        return partial(self._loads, tuple(self._kept))

    def _loads(self, kept: tuple[pa.RecordBatch, ...], spec: Spec, counts: range) -> pa.Table:
        import pyarrow as pa

        shares = [kept[number :: self.tasks] for number in range(self.tasks)]
        work = [partial(_loads_of, spec, counts, share) for share in shares]
        rows = [row for some in self._by_threads(work, Event()) for row in some]
        return pa.Table.from_batches(rows)

    def _by_threads(self, work: Iterable[Callable[[], _T]], stop: Event) -> list[_T]:
        """All of it, in order; whoever is interrupted, or fails, stops the others."""
        with ThreadPoolExecutor(self.tasks, "partage-keys") as pool:
            # Which form of a kernel runs is told by the context.
            running = [pool.submit(copy_context().run, one) for one in work]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
                for one in running:
                    if one.done() and one.exception() is not None:
                        one.result()
                return [one.result() for one in running]
            except BaseException:
                stop.set()
                for one in running:
                    one.cancel()
                raise


class _Shared:
    """Pieces, handed out one after the other to whoever is ready; or each its share of them."""

    def __init__(self, pieces: tuple[Piece, ...], told: Callable[[int, int], None]) -> None:
        self._pieces, self._told = pieces, told
        self._lock, self._next, self._done = Lock(), 0, 0

    def of(self, share: tuple[int, int] | None) -> Iterator[Piece]:
        """Those of a share (its number, and of how many), or what is next."""
        if share is not None:
            for piece in self._pieces[share[0] :: share[1]]:
                yield piece
                self._over()
            return
        while True:
            with self._lock:
                number, self._next = self._next, self._next + 1
            if number >= len(self._pieces):
                return
            yield self._pieces[number]
            self._over()

    def _over(self) -> None:
        with self._lock:
            self._done += 1
            self._told(self._done, len(self._pieces))


def _counted(
    spec: Spec, shared: _Shared, stop: Event, share: tuple[int, int] | None
) -> list[pa.RecordBatch]:
    counting = Counting(spec)
    out: list[pa.RecordBatch] = []
    for piece in shared.of(share):
        out += counted(counting, piece, stop.is_set)
        if stop.is_set():
            return []
    return [*out, *counting.rows()]


def _is_keys(rows: pa.RecordBatch) -> bool:
    """A batch has rows of one kind."""
    return bool(rows.num_rows) and rows.column(0)[0].as_py() == int(KeyRowKind.KEYS)


def _by_bucket(
    rows: list[pa.RecordBatch], buckets: int
) -> tuple[list[list[pa.RecordBatch]], list[pa.RecordBatch]]:
    """Blocks of keys by their bucket, and all else."""
    parts: list[list[pa.RecordBatch]] = [[] for _ in range(buckets)]
    rest = []
    for row in rows:
        if _is_keys(row):
            parts[row.column(1)[0].as_py()].append(row)
        else:
            rest.append(row)
    return parts, rest


def _met(
    spec: Spec, top: int, parts: list[list[pa.RecordBatch]], number: int, stop: Event, *, keep: bool
) -> list[pa.RecordBatch]:  # fmt: skip
    if stop.is_set():
        return []
    mine, parts[number] = parts[number], []
    return list(met(spec, top, _given_up(mine), keep=keep))


def _given_up(rows: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One after the other, each no longer held."""
    rows.reverse()
    while rows:
        yield rows.pop()


def _loads_of(spec: Spec, counts: range, rows: tuple[pa.RecordBatch, ...]) -> list[pa.RecordBatch]:
    return list(loads_in(spec, counts, rows))


def _cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
