"""Worker processes on this machine, which run items of a job next to the calling process.

A worker is a new Python interpreter that imports Partage and what the job refers to. It is not
forked, because a fork copies locks that other threads hold: Arrow, BLAS and a progress display
have threads. ``multiprocessing`` starts new interpreters too, but they import the user's script
again, which then replays once more unless it has ``if __name__ == "__main__"``.

The calling process takes items as well. If a worker cannot be started or is killed, the calling
process runs its items, so that workers affect the duration of a job and never its results.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from threading import Event, Lock, Thread
from types import TracebackType
from typing import IO, Any, Generic, TypeVar

__all__ = ["WorkerProcesses", "available_cores", "serve"]

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Program of a worker: it first reads the module search path of the calling process. Option ``-I``
#: keeps modules in the working directory from being imported before that.
_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from partage.jobs.processes import serve; serve()"
)

#: Seconds between two looks of a worker that is still starting whether items are left.
_SECONDS_BETWEEN = 0.02


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this operating system
        return os.cpu_count() or 1


class WorkerProcesses:
    """Worker processes that share the items of a job with the calling process.

    They start at once and import modules in the background, until the first job needs them.

    Args:
        count: number of workers; 0 runs everything in the calling process.
        modules: names of modules that the workers import at their start.

    >>> with WorkerProcesses(0) as workers:
    ...     workers.map(abs, [-2, 1])
    [2, 1]
    """

    def __init__(self, count: int, modules: Sequence[str] = ()) -> None:
        started = (_Worker.start(modules) for _ in range(count))
        self._workers = [one for one in started if one is not None]

    @property
    def count(self) -> int:
        """Number of workers."""
        return len(self._workers)

    def __enter__(self) -> WorkerProcesses:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        for one in self._workers:
            one.stop()

    def map(
        self,
        job: Callable[[Item], Result],
        items: Sequence[Item],
        on_done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """Apply a job to all items, and return the results in the order of the items.

        Items are taken in their order, so the most expensive ones should be first. A job that
        cannot be pickled, or not be imported by a worker, runs in the calling process only.

        Args:
            job: the function; it may not change anything that later items read.
            items: its arguments.
            on_done: called with the number of finished items, also from other threads.

        Raises:
            Exception: what the job raised first. The traceback of a worker is its cause.
        """
        queue = _Queue(job, items, on_done)
        packed = _pickled(job) if self._workers and len(items) > 1 else None
        threads = []
        if packed is not None:
            queue.packed = packed
            threads = [Thread(target=one.work, args=(queue,), daemon=True) for one in self._workers]
        for thread in threads:
            thread.start()
        try:
            queue.work()
            for thread in threads:
                thread.join()
            queue.work()  # items of workers that were killed meanwhile
        except BaseException:  # workers may be busy with items that are no longer wanted
            for one in self._workers:
                one.kill()
            for thread in threads:
                thread.join()
            raise
        return queue.finished()


def _pickled(job: object) -> bytes | None:
    """Return a job as bytes; None if it cannot be pickled, such as one with a local function."""
    try:
        return pickle.dumps(job, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


class _Queue(Generic[Item, Result]):
    """Items of one job, their results so far, and the first exception."""

    def __init__(
        self,
        job: Callable[[Item], Result],
        items: Sequence[Item],
        on_done: Callable[[int], None] | None,
    ) -> None:
        self.items = items
        self.packed = b""
        self._job, self._on_done = job, on_done
        self._waiting = list(range(len(items)))[::-1]
        self._results: dict[int, Result] = {}
        self._error: BaseException | None = None
        self._lock = Lock()

    def take(self) -> int | None:
        """Return the position of the next item; None if there is none, or the job has failed."""
        with self._lock:
            return self._waiting.pop() if self._waiting and self._error is None else None

    @property
    def is_empty(self) -> bool:
        """Return whether no item waits for a process."""
        return not self._waiting

    def give_back(self, position: int) -> None:
        """Return an item whose worker was killed, so that another process takes it."""
        with self._lock:
            self._waiting.append(position)

    def finish(self, position: int, result: Result) -> None:
        """Store the result of an item, and report progress."""
        with self._lock:
            self._results[position] = result
            if self._on_done is not None:
                self._on_done(len(self._results))

    def fail(self, error: BaseException) -> None:
        """Store the first exception; no further item is taken."""
        with self._lock:
            self._error = self._error or error

    def work(self) -> None:
        """Run items in the calling process until none is left."""
        try:
            while (position := self.take()) is not None:
                self.finish(position, self._job(self.items[position]))
        except BaseException as e:
            self.fail(e)
            raise

    def finished(self) -> list[Result]:
        """Return the results in the order of the items, or raise the first exception."""
        if self._error is not None:
            raise self._error
        return [self._results[position] for position in range(len(self.items))]


class _Worker:
    """The calling process's end of a worker process: pickled requests out, replies in."""

    def __init__(self, process: subprocess.Popen[bytes], requests: IO[bytes]) -> None:
        self._process, self._requests = process, requests
        self._is_ready = Event()
        Thread(target=self._await_start, daemon=True).start()

    @classmethod
    def start(cls, modules: Sequence[str]) -> _Worker | None:
        """Start a worker process; return None if the system does not start any."""
        if not sys.executable:  # an embedded interpreter
            return None
        options = ["-I", *(["-B"] if sys.dont_write_bytecode else [])]
        try:
            process = subprocess.Popen(  # noqa: S603 - this Python with a fixed program
                [sys.executable, *options, "-c", _PROGRAM],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        except OSError:
            return None
        if process.stdin is None:
            return None
        made = cls(process, process.stdin)
        here = os.getcwd()  # noqa: PTH109 - a search path has texts
        try:
            for message in ([one or here for one in sys.path], tuple(modules)):
                made._send(message)
        except OSError:
            made.stop()
            return None
        return made

    def kill(self) -> None:
        """End the worker process, in whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the worker process and close its pipes; no thread may use them."""
        self.kill()
        for pipe in (self._requests, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def work(self, queue: _Queue[Any, Any]) -> None:
        """Let the worker run items of a job until none is left; runs in a thread of its own."""
        position = None
        try:
            while not self._is_ready.wait(_SECONDS_BETWEEN):
                if queue.is_empty:
                    return
            self._send(queue.packed)
            if not self._receive():
                return  # it cannot import what the job refers to
            while (position := queue.take()) is not None:
                self._send((queue.items[position],))
                is_done, value = self._receive()
                if is_done:
                    queue.finish(position, value)
                else:
                    queue.fail(value)
            self._send(())
        except (EOFError, OSError, pickle.UnpicklingError):
            if position is not None:
                queue.give_back(position)
        except BaseException as e:  # noqa: BLE001 - raised again in the calling thread
            queue.fail(e)

    def _await_start(self) -> None:
        with suppress(EOFError, OSError, pickle.UnpicklingError):  # a dead worker takes no item
            self._receive()
        self._is_ready.set()

    def _send(self, message: object) -> None:
        pickle.dump(message, self._requests, protocol=pickle.HIGHEST_PROTOCOL)
        self._requests.flush()

    def _receive(self) -> Any:
        replies = self._process.stdout
        if replies is None:
            raise EOFError
        return pickle.load(replies)  # noqa: S301 - written by our own process


# -- in the worker process ---------------------------------------------------------------------


class _WorkerError(Exception):
    """The traceback of a worker process, as the cause of the exception that it raised."""


def serve() -> None:
    """Run items of jobs in a worker process until the calling process closes its standard input.

    Requests are a job, its items, and an empty tuple at its end. Each gets one reply, except for
    the last.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the calling process stops its workers
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a plug-in prints would damage the replies
    requests = sys.stdin.buffer
    try:
        for name in pickle.load(requests):  # noqa: S301 - written by the calling process
            with suppress(ImportError):  # then the job cannot be imported either
                import_module(name)
        _reply(replies, pickle.dumps(True))
        while True:
            _serve_job(requests, replies)
    except (EOFError, BrokenPipeError):
        return


def _serve_job(requests: IO[bytes], replies: IO[bytes]) -> None:
    try:
        job = pickle.loads(pickle.load(requests))  # noqa: S301 - written by the calling process
    except EOFError:
        raise
    except Exception:  # noqa: BLE001 - importing the user's code may raise anything
        _reply(replies, pickle.dumps(False))
        return
    _reply(replies, pickle.dumps(True))
    while request := pickle.load(requests):  # noqa: S301 - written by the calling process
        _reply(replies, _result(job, request[0]))


def _reply(replies: IO[bytes], message: bytes) -> None:
    replies.write(message)
    replies.flush()


def _result(job: Callable[[Any], Any], item: object) -> bytes:
    """Return the pickled reply to an item: whether the job returned, and its result or error."""
    try:
        return pickle.dumps((True, job(item)), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as e:  # noqa: BLE001 - raised again in the calling process
        error: Exception = e
        lines = "".join(traceback.format_exception(e))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - a foreign exception that cannot be pickled
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return pickle.dumps((False, _WithTraceback(error, lines)))


class _WithTraceback:
    """An exception that is unpickled with the worker's traceback as its cause."""

    def __init__(self, error: Exception, lines: str) -> None:
        self._error, self._lines = error, lines

    def __reduce__(self) -> tuple[object, ...]:
        return _with_cause, (self._error, self._lines)


def _with_cause(error: Exception, lines: str) -> Exception:
    error.__cause__ = _WorkerError(f"in a worker process:\n{lines}")
    return error
